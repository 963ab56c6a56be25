"""From a checkpoint of another library to our model and back: the table of a format, and the functions that follow it.

A format is a table of rows (our name, their name, how a tensor is rearranged). Rows hold no code, so that the same table is
read in both directions: `copy_weights` and `converted` follow it to ours, `export_weights` to theirs.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import torch
from einops import EinopsError, rearrange
from torch import Tensor, nn

from mirada.config import Config
from mirada.errors import require, unknown
from mirada.shapes import show

Model = TypeVar("Model", bound=nn.Module)
AS_IS = "as is"
REVERSED = "reversed"  # the rows in the opposite order
JOINED = "joined"  # one after the other along the first axis, whatever the sizes of each
LOGIT = "logit"  # one row, that of a sigmoid, as the second of two rows of a softmax, of which the first is zeros
SHOWN = 3  # names in an error; a wrong checkpoint may lack hundreds

ACTIVATIONS = {  # Hugging Face's names to ours
    **{"relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "silu": "silu", "swish": "silu"},
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_accurate"), "gelu-tanh"),
    **dict.fromkeys(("gelu_pytorch_tanh", "gelu_python_tanh"), "gelu-tanh"),
    "quick_gelu": "gelu-sigmoid",
}
THEIR_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
NORM = re.compile(r"layer(?::(?P<eps>[0-9.e+-]+)(?P<bias>,bias=no)?)?")  # our word for a layer norm
NORMALIZER = re.compile(r"softmax(?::(?P<dropout>[0-9.e+-]+))?")


class Row(NamedTuple):
    """A tensor of theirs and the parameter of ours, or several, that it fills.

    In names `{n}` is the number of a layer, and `*` is weight and bias alike. `how` is "as is", "reversed" (the rows in the
    opposite order), "joined" (several of ours, one after the other), "logit" (one row as two, the first of zeros: sigmoid(z) is
    the second of softmax(0, z)), or the axes in the notation of einops, theirs -> ours; the
    axis `parts` counts several of ours of one shape. Read from right to left, the same notation converts ours to theirs.

    >>> row = Row("layers.{n}.feed.weight", "h.{n}.mlp.weight", "i o -> o i")
    >>> list(row.written_out(["layers.0.feed.weight", "layers.1.feed.weight", "words.weight"]))[1].theirs
    'h.1.mlp.weight'
    """

    ours: str | tuple[str, ...]
    theirs: str
    how: str = AS_IS

    @property
    def names(self) -> tuple[str, ...]:
        """Our names, one or several."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def written_out(self, names: Iterable[str]) -> Iterator["Row"]:
        """The row once for every layer, weight and bias that is among these names of ours."""
        pattern = _expression(self.names[0])
        for name in names:
            if match := pattern.fullmatch(name):
                ours = tuple(_fill_in(other, match.groupdict()) for other in self.names)
                yield Row(ours, _fill_in(self.theirs, match.groupdict()), self.how)

    @staticmethod
    def attention(ours: str, theirs: str, *projections: str) -> "list[Row]":
        """The rows of an attention layer, whose projections of query, key, value and output have these names of theirs."""
        parts = ("query", "key", "value", "out")
        return [Row(f"{ours}.heads.{a}.*", f"{theirs}.{b}.*") for a, b in zip(parts, projections, strict=True)]

    def convert(self, tensor: Tensor, shapes: Sequence[torch.Size] = ()) -> tuple[Tensor, ...]:
        """A tensor of theirs, converted to each of our parameters, which have these shapes.

        >>> q, k, v = Row(("q", "k", "v"), "qkv", "(parts o) -> parts o").convert(torch.arange(6))
        >>> k
        tensor([2, 3])
        >>> Row(("q", "k"), "qk", JOINED).convert(torch.arange(3), [torch.Size([2]), torch.Size([1])])
        (tensor([0, 1]), tensor([2]))
        """
        if self.how in (AS_IS, REVERSED):
            return (tensor.flip(0) if self.how == REVERSED else tensor,)
        if self.how == LOGIT:
            return (torch.cat([torch.zeros_like(tensor), tensor]),)
        if self.how == JOINED:
            rows, wanted = [shape[0] for shape in shapes], len(tensor) if tensor.ndim else 0
            message = f"{self.theirs} must have {sum(rows)} rows, for {', '.join(self.names)}: got {show(tensor)}"
            require(sum(rows) == wanted, message)
            return tensor.split(rows)
        parts = {"parts": len(self.names)} if len(self.names) > 1 else {}
        try:
            changed = rearrange(tensor, self.how, **parts)
        except EinopsError:
            raise ValueError(f"{self.theirs} must have axes as in {self.how!r}: got shape {show(tensor)}") from None
        return changed.unbind() if parts else (changed,)

    def restore(self, tensors: Sequence[Tensor], sizes: Mapping[str, int] | None = None) -> Tensor:
        """The tensor of theirs that holds these of ours: the way back from `convert`.

        `sizes` are those of axes that ours joins, by name.

        >>> Row(("q", "k"), "qk", "(parts o) -> parts o").restore([torch.zeros(2), torch.ones(2)])
        tensor([0., 0., 1., 1.])
        >>> Row("w", "kernel", "o c p -> o (c p)").restore([torch.zeros(5, 6)], {"p": 3}).shape
        torch.Size([5, 2, 3])
        """
        if self.how in (AS_IS, REVERSED):
            return tensors[0].flip(0) if self.how == REVERSED else tensors[0]
        if self.how == LOGIT:
            return tensors[0][1:] - tensors[0][:1]
        if self.how == JOINED:
            return torch.cat(list(tensors))
        theirs, ours = (side.strip() for side in self.how.split("->"))
        known = {name: size for name, size in (sizes or {}).items() if name in re.findall(r"\w+", ours)}
        value = torch.stack(list(tensors)) if len(self.names) > 1 else tensors[0]
        return rearrange(value, f"{ours} -> {theirs}", **known)


class WeightTable(NamedTuple):
    """All rows of a format.

    Several rows may name one parameter: because it has two names in our model (tied), or because a format has two spellings.
    A checkpoint needs one of them; if it has several, they must be equal. The first of them is the one that is written.

    `source` is their class whose checkpoints the table describes, `prefix` may be missing in front of any name, the `ignored`
    tensors hold nothing that is learned, and `sizes` are those of axes that rows join, by name. The `kept` ones were learned,
    but our model does not use them: import puts them aside, and export gives them back.
    """

    source: str
    rows: tuple[Row, ...]
    prefix: str = ""
    ignored: tuple[str, ...] = ()
    sizes: Mapping[str, int] = {}
    kept: tuple[str, ...] = ()


class Filled(NamedTuple):
    """A parameter of ours that a checkpoint fills: its name, and how its value is made when it is asked for."""

    name: str
    dtype: torch.dtype  # of the checkpoint
    shape: torch.Size
    value: Callable[[], Tensor]


def copy_weights(model: Model, table: WeightTable, weights: Mapping[str, Tensor]) -> Model:
    """The model, with every parameter filled from a checkpoint of which every tensor is used.

    >>> table = WeightTable("Theirs", (Row("weight", "kernel", "i o -> o i"), Row("bias", "bias")))
    >>> layer = nn.Linear(2, 3)
    >>> copy_weights(layer, table, {"kernel": torch.ones(2, 3), "bias": torch.zeros(3)})(torch.ones(2)).tolist()
    [2.0, 2.0, 2.0]
    >>> copy_weights(layer, table, {"kernel": torch.ones(2, 3), "beta": torch.zeros(3)})
    Traceback (most recent call last):
    ValueError: the weights must be those of a Theirs with this configuration. Missing: bias. Left over: beta. ...
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for filled in converted(model, table, weights):
        parameters[filled.name].data.copy_(filled.value())
    return model


def converted(model: nn.Module, table: WeightTable, weights: Mapping[str, Tensor]) -> Iterator[Filled]:
    """Every parameter of a model, once, with its value from a checkpoint; the model itself may be on the meta device.

    All names and shapes are checked before the first one is returned.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    held = _held(table, weights)
    rows = [row for pattern in table.rows for row in pattern.written_out(parameters)]
    _check_complete(table, rows, parameters, held)
    filled: dict[nn.Parameter, str] = {}
    found = []
    for row in rows:
        if (short := _short(table, row.theirs)) not in held:
            continue  # the tensor has another name here: that was checked
        theirs = held[short]
        tensor = weights[theirs]
        require(
            tensor.is_floating_point(),
            f"{theirs} must hold floating-point numbers: got {tensor.dtype}. Save the checkpoint without quantization.",
        )
        shapes = [parameters[ours].shape for ours in row.names]
        for part, (ours, value) in enumerate(zip(row.names, row.convert(tensor, shapes), strict=True)):
            parameter = parameters[ours]
            require(
                value.shape == parameter.shape,
                f"{theirs} must fill {ours} {show(parameter)}: got {show(tensor)}. "
                "Are the configuration and the weights from one checkpoint?",
            )
            if parameter not in filled:
                filled[parameter] = theirs
                found.append(Filled(ours, tensor.dtype, value.shape, _value_of(row, part, theirs, shapes, weights)))
            elif not _equal(weights[filled[parameter]], tensor, filled[parameter], theirs):
                _require_equal(found, filled, parameters, ours, theirs, value)
    yield from found


def _value_of(
    row: Row, part: int, theirs: str, shapes: Sequence[torch.Size], weights: Mapping[str, Tensor]
) -> Callable[[], Tensor]:
    """The function that converts a tensor of theirs to one of our parameters: nothing is kept in memory before."""
    return lambda: row.convert(weights[theirs], shapes)[part]


def _equal(one: Tensor, other: Tensor, *names: str) -> bool:
    """Whether two tensors of theirs are the same one."""
    return names[0] == names[1] or (one.shape == other.shape and torch.equal(one, other))


def _require_equal(
    found: Sequence[Filled],
    filled: Mapping[nn.Parameter, str],
    parameters: Mapping[str, nn.Parameter],
    ours: str,
    theirs: str,
    value: Tensor,
) -> None:
    """Require the same numbers from two tensors of theirs, for one parameter of ours."""
    first = next(item for item in found if parameters[item.name] is parameters[ours])
    if not torch.equal(first.value(), value):
        raise ValueError(
            f"{filled[parameters[ours]]} and {theirs} must be equal: they are one parameter here, {ours}, "
            "but differ in the checkpoint. Was it saved with tied weights?"
        )


class Exported(NamedTuple):
    """A tensor of theirs that parameters of ours fill: its name, their names, and how its value is made."""

    name: str
    ours: tuple[str, ...]
    shape: torch.Size
    value: Callable[[], Tensor]


def export_weights(model: nn.Module, table: WeightTable) -> dict[str, Tensor]:
    """The tensors of a checkpoint of theirs that holds this model: every parameter once, by the first row that names it.

    >>> table = WeightTable("Theirs", (Row("weight", "kernel", "i o -> o i"), Row("bias", "bias")))
    >>> {name: tuple(tensor.shape) for name, tensor in export_weights(nn.Linear(2, 3), table).items()}
    {'kernel': (2, 3), 'bias': (3,)}
    """
    return {each.name: each.value() for each in exported(model, table)}


def exported(model: nn.Module, table: WeightTable) -> list[Exported]:
    """The tensors of `export_weights`, each made when it is asked for."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    written: set[nn.Parameter] = set()
    found: dict[str, Exported] = {}
    for row in (row for pattern in table.rows for row in pattern.written_out(parameters)):
        ours = [parameters[name] for name in row.names]
        if row.theirs not in found and not written.issuperset(ours):
            written.update(ours)
            shape = _restored(row, [tensor.to("meta") for tensor in ours], table)().shape
            found[row.theirs] = Exported(row.theirs, row.names, shape, _restored(row, ours, table))
    missing = [name for name, parameter in parameters.items() if parameter not in written]
    require(not missing, f"a {table.source} has no place for {_shortened(missing)}")
    return list(found.values())


def kept_names(table: WeightTable, names: Iterable[str]) -> list[str]:
    """The tensors of a checkpoint that our model does not use and that go back with an export.

    >>> kept_names(WeightTable("Theirs", (), kept=("contacts.*",)), ["contacts.weight", "words.weight"])
    ['contacts.weight']
    """
    patterns = [_expression(_short(table, pattern)) for pattern in table.kept]
    return [name for name in names if any(pattern.fullmatch(_short(table, name)) for pattern in patterns)]


def _restored(row: Row, ours: Sequence[Tensor], table: WeightTable) -> Callable[[], Tensor]:
    """The function that makes a tensor of theirs."""
    return lambda: row.restore([tensor.detach() for tensor in ours], table.sizes).contiguous()


def _held(table: WeightTable, weights: Mapping[str, Tensor]) -> dict[str, str]:
    """Every name of a checkpoint without the prefix, and as it stands there."""
    held: dict[str, str] = {}
    for full in weights:
        other = held.setdefault(_short(table, full), full)
        require(other == full, f"two tensors have one name: {other} and {full}. Keep one of them.")
    return held


def _short(table: WeightTable, name: str) -> str:
    """A name of theirs without the prefix that may be missing."""
    return name.removeprefix(table.prefix)


def _check_complete(
    table: WeightTable, rows: list[Row], parameters: Mapping[str, nn.Parameter], held: Mapping[str, str]
) -> None:
    """Require a tensor for every parameter, and a parameter for every tensor."""
    sources: dict[nn.Parameter, list[str]] = {parameter: [] for parameter in parameters.values()}
    for row in rows:
        for name in row.names:
            sources[parameters[name]].append(_short(table, row.theirs))
    unknown_here = [name for name, parameter in parameters.items() if not sources[parameter]]
    require(not unknown_here, f"the table of {table.source} must have a row for {_shortened(unknown_here)}")
    missing = [" or ".join(names) for names in sources.values() if not any(name in held for name in names)]
    ignored = [_expression(_short(table, pattern)) for pattern in (*table.ignored, *table.kept)]
    wanted = {_short(table, row.theirs) for row in rows}
    unused = [held[name] for name in held if name not in wanted and not any(p.fullmatch(name) for p in ignored)]
    listed = {"Missing": missing, "Left over": unused}
    problems = [f"{word}: {_shortened(names)}." for word, names in listed.items() if names]
    require(
        not problems,
        f"the weights must be those of a {table.source} with this configuration. {' '.join(problems)} "
        f"Load the weights and the config.json of one {table.source}.",
    )


def _expression(pattern: str) -> re.Pattern[str]:
    """The regular expression of a name with `{n}` and `*`, each at most once."""
    escaped = re.escape(pattern).replace(r"\*", r"(?P<part>weight|bias)")
    # transformers 5 saves the rotations of an ESM under a name with a star
    return re.compile(escaped.replace(r"\{n\}", r"(?P<n>\d+|\*)"))


def _fill_in(pattern: str, parts: Mapping[str, str]) -> str:
    """A name with the layer number and the part (weight or bias) of a match filled in."""
    return pattern.replace("{n}", parts.get("n", "{n}")).replace("*", parts.get("part", "*"))


def _shortened(names: list[str]) -> str:
    """The first few different names, and how many more there are."""
    names = list(dict.fromkeys(names))
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def setting(theirs: Mapping[str, Any], key: str) -> Any:
    """A setting that a configuration must have."""
    require(key in theirs, f"config.json must have {key!r}: got only {', '.join(sorted(theirs)) or 'nothing'}")
    return theirs[key]


def settings(theirs: Mapping[str, Any], **keys: str) -> dict[str, Any]:
    """Our arguments, each from the setting of theirs with that key.

    >>> settings({"n_embd": 8, "n_layer": 2}, width="n_embd", depth="n_layer")
    {'width': 8, 'depth': 2}
    """
    return {ours: setting(theirs, key) for ours, key in keys.items()}


def expect(theirs: Mapping[str, Any], **required: Any) -> None:
    """Require settings that our model has with one value only; an absent one is assumed to have it.

    >>> expect({"is_decoder": True}, is_decoder=False)
    Traceback (most recent call last):
    ValueError: is_decoder must be False: got True. Our model has no other form.
    """
    for key, ours in required.items():
        value = theirs.get(key, ours)
        require(value == ours, f"{key} must be {ours!r}: got {value!r}. Our model has no other form.")


def expect_equal(theirs: Mapping[str, Any], *keys: str, absent: Any = None) -> Any:
    """The one value of several settings, for which our model has a single setting."""
    values = [setting(theirs, key) if absent is None else theirs.get(key, absent) for key in keys]
    require(
        all(value == values[0] for value in values),
        f"{', '.join(keys)} must be equal, because our model has one setting for them: got {', '.join(map(str, values))}",
    )
    return values[0]


def kept(theirs: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The settings with these keys that a configuration has.

    >>> kept({"pad_token_id": 1, "vocab_size": 9}, ["pad_token_id", "bos_token_id"])
    {'pad_token_id': 1}
    """
    return {key: theirs[key] for key in keys if key in theirs}


def require_expressed(kind: "type[Any]", ours: Config, found: Config, source: str) -> None:
    """Require that what was written for another library, and read again, is the model it was written for.

    Fields may be spelled in two ways if both make the same parts.

    Args:
        kind: the class of the model.
        ours: its configuration.
        found: the configuration that the other library's file is read as.
        source: their class, for the error.
    """
    differing = {name: value for name, value in ours.to_dict().items() if getattr(found, name) != value}
    if not differing or _parts(kind, ours) == _parts(kind, found):
        return
    said = []
    for name, value in differing.items():
        try:
            same = _parts(kind, ours) == _parts(kind, replace(ours, **{name: getattr(found, name)}))
        except ValueError:
            same = False
        said += [] if same else [f"{name}={value!r}, where it has {getattr(found, name)!r}"]
    raise ValueError(f"a {source} cannot hold this model: {'; '.join(said)}")


def _parts(kind: "type[Any]", config: Config) -> tuple[str, list[str]]:
    """What a model with this configuration consists of, without its numbers."""
    with torch.device("meta"):
        model = kind(config)
    return repr(model), [name for name, _ in model.named_parameters()]


def activation(theirs: Mapping[str, Any], key: str, absent: str) -> str:
    """Our name for the activation of a Hugging Face configuration.

    >>> activation({"hidden_act": "gelu_new"}, "hidden_act", absent="gelu")
    'gelu-tanh'
    """
    name = theirs.get(key, absent)
    if name not in ACTIVATIONS:
        raise unknown(key, name, ACTIVATIONS)
    return ACTIVATIONS[name]


def softmax(dropout: float) -> str:
    """Our spelling of a softmax with that dropout rate on its weights."""
    return f"softmax:{float(dropout)!r}" if dropout else "softmax"


# And back: what theirs says for one of our words.


def their_activation(word: str) -> str:
    """Their name for our word for an activation, of a gated one for that of its gate.

    >>> their_activation("gelu"), their_activation("gated:silu")
    ('gelu', 'silu')
    """
    name = word.removeprefix("gated:").partition(",")[0].partition(":")[0]
    require(name in THEIR_ACTIVATIONS, f"a checkpoint of theirs has no activation {word!r}")
    return THEIR_ACTIVATIONS[name]


def their_eps(norm: str) -> float:
    """What a layer norm adds to the variance, from our word for it.

    >>> their_eps("layer:1e-12"), their_eps("layer")
    (1e-12, 1e-05)
    """
    match = NORM.fullmatch(norm)
    require(match is not None, f"a checkpoint of theirs has layer norms: got norm={norm!r}")
    return float(match["eps"] or 1e-5)  # type: ignore[index]


def their_dropout(normalizer: str) -> float:
    """The share of attention weights that is dropped in training, from our word for the normalizer.

    >>> their_dropout("softmax:0.1"), their_dropout("softmax")
    (0.1, 0.0)
    """
    match = NORMALIZER.fullmatch(normalizer)
    require(match is not None, f"a checkpoint of theirs has a softmax: got normalizer={normalizer!r}")
    return float(match["dropout"] or 0.0)  # type: ignore[index]

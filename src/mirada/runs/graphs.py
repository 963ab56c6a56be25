"""The graphs that a model is exported as: what each is given, what it answers, and how it is computed with the model.

An encoder and a ViT are one graph. A GPT is one graph for a prompt and for the steps after it: it takes the keys and values of
earlier places and gives back those of all. A Transformer is two: the encoder gives the keys and values that the decoder attends
to, so that no step projects them again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mirada.attention.cache import Cache, Growing
from mirada.attention.kernels.reference import weigh, widen
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Padding
from mirada.attention.observe import Event, observed
from mirada.errors import require, unknown
from mirada.layers.stack import DecoderState
from mirada.looking.record import layer_names
from mirada.models.encoder import TextEncoder
from mirada.models.gpt import GPT
from mirada.models.transformer import Transformer
from mirada.models.vit import ViT

LONGEST = 1 << 16  # places, where no table of positions ends before
PREFIX = "attention."  # of the outputs that are weights
Axes = tuple[str | int, ...]  # names of those of any size


class GraphInput(NamedTuple):
    """One input: its kind (tokens, mask, segments or numbers), its axes, and how many values a number of it may have."""

    kind: str
    axes: Axes
    values: int = 0


class GraphOutput(NamedTuple):
    """One output and its axes."""

    name: str
    axes: Axes


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A part of a model that is exported as one file.

    Args:
        name: the name of its file, without an ending.
        module: what computes it: a tensor for every input in, a tensor for every output out.
        inputs: what it is given, by name, in order.
        outputs: what it answers, in order.
        longest: the most places of an axis, where that is limited.
    """

    name: str
    module: "ExportedPart"
    inputs: dict[str, GraphInput]
    outputs: tuple[GraphOutput, ...]
    longest: int = LONGEST

    def example(self, sizes: dict[str, int], seed: int = 0) -> tuple[Tensor, ...]:
        """Random inputs with these sizes of the axes; masks have a text of every length."""
        chance = torch.Generator().manual_seed(seed)
        return tuple(_drawn(each, [sizes.get(axis, 0) if isinstance(axis, str) else axis for axis in each.axes], chance)
                     for each in self.inputs.values())  # fmt: skip


def _drawn(given: GraphInput, shape: Sequence[int], chance: torch.Generator) -> Tensor:
    if given.kind == "mask":
        lengths = 1 + torch.arange(shape[0]) * 3 % shape[1]
        return (torch.arange(shape[1]) < lengths.flip(0).unsqueeze(1)).long()
    if given.kind == "numbers":
        return torch.randn(*shape, generator=chance)
    return torch.randint(max(1, given.values), tuple(shape), generator=chance)


class ExportedPart(nn.Module):
    """A model's part with flat inputs and outputs, and the weights of chosen layers behind them.

    Args:
        model: the model.
        chosen: the layers whose weights are outputs, by name.
    """

    def __init__(self, model: Any, chosen: Sequence[str] = ()) -> None:
        super().__init__()
        self.model, self.chosen = model, tuple(chosen)

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """The outputs, and the weights of the layers that were chosen."""
        with _weights(self.model, self.chosen) as seen:
            outputs = self.compute(*given)
        return *outputs, *(seen[name] for name in self.chosen)

    def compute(self, *given: Tensor) -> tuple[Tensor, ...]:
        """The outputs of the part."""
        raise NotImplementedError


class _WeightsObserver:
    """Computes the weights of every call of chosen layers, as they are called."""

    def __init__(self, names: dict[Any, str], chosen: Sequence[str]) -> None:
        # a layer that is traced may be a stand-in with the same contents
        self.names, self.chosen = {id(layer._parameters): name for layer, name in names.items()}, chosen
        self.seen: dict[str, Tensor] = {}

    def see(self, event: Event) -> None:
        name = self.names.get(id(event.layer._parameters), "")
        if name in self.chosen:
            request = event.request
            k, _ = request.visible()
            q, k = request.score.queries(widen(request.q)), request.score.keys(widen(k))
            self.seen[name] = weigh(request, q, k, 0, request.queries).weights


@contextmanager
def _weights(model: nn.Module, chosen: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """The weights of chosen layers, which are there after the block."""
    if not chosen:
        yield {}
        return
    observer = _WeightsObserver(layer_names(model, "export"), chosen)
    with observed(observer):
        yield observer.seen


def graphs(model: Any, attention: Sequence[str] = (), size: int = 0, unit: bool = False) -> list[OnnxGraph]:
    """The graphs of a model, with the weights of the layers in `attention` as further outputs.

    Args:
        model: a TextEncoder, ViT, GPT or Transformer.
        attention: names of attention layers, as `look` has them; "all" for all of them.
        size: pixels on a side of a picture, where they are others than those of the configuration.
        unit: whether the vector of a text is given length 1.

    >>> from mirada.models.gpt import GPTConfig
    >>> [graph] = graphs(GPT(GPTConfig.tiny()), ["decoder.layers.1.self"])
    >>> list(graph.inputs)[:2], [output.name for output in graph.outputs][-1]
    (['input_ids', 'past_key_values.0.key'], 'attention.decoder.layers.1.self')
    """
    made: dict[type, Callable[..., list[OnnxGraph]]] = {
        GPT: _of_gpt, TextEncoder: _of_encoder, Transformer: _of_transformer, ViT: _of_vit,
    }  # fmt: skip
    kind = type(model)
    names = ", ".join(sorted(each.__name__ for each in made))
    require(kind in made, f"a {kind.__name__} cannot be exported to onnx; of these it can: {names}")
    known = [name for name in layer_names(model, "export").values() if name]
    for name in attention:
        if name not in (*known, "all"):
            raise unknown("attention layer", name, known)
    chosen = known if "all" in attention else [name for name in known if name in attention]
    more: dict[type, dict[str, Any]] = {ViT: {"size": size}, TextEncoder: {"unit": unit}}
    return made[kind](model, chosen, **more.get(kind, {}))


def _limit(config: Any, limited: bool = False) -> int:
    """The most places, by the length of a table of positions or of the model."""
    return int(config.length) if limited or str(config.position).startswith("learned") else LONGEST


def _outputs(
    plain: Sequence[GraphOutput], model: Any, chosen: Sequence[str], axes: Callable[[str], Axes]
) -> tuple[GraphOutput, ...]:
    """The outputs of a graph and the weights of its chosen layers."""
    return *plain, *(
        GraphOutput(PREFIX + name, ("batch", model.get_submodule(name).heads.heads, *axes(name))) for name in chosen
    )


# An encoder of texts.


class _Encoder(ExportedPart):
    """Ids, a mask of real tokens and segments in; what the head answers out, or the vectors of tokens and texts."""

    unit = False  # whether the vector of a text is given length 1

    def compute(self, *given: Tensor) -> tuple[Tensor, ...]:
        tokens, mask, *segments = given
        model, lengths = self.model, mask.sum(1)
        h = model.encode(tokens, lengths, *segments)
        broken = _broken(mask)
        padding = Padding(lengths)
        if model.config.head != "none":
            return (model.score(h, padding) + _lifted(broken, model.score(h, padding).ndim),)
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(1)
        vector = model.pool(h, real)
        vector = F.normalize(vector, dim=-1) if self.unit else vector
        return h + _lifted(broken, 3), vector + _lifted(broken, 2)


def _broken(mask: Tensor) -> Tensor:
    """0 for a text whose padding stands behind it; NaN for another one, which the model was not made for."""
    places = torch.arange(mask.shape[1], device=mask.device)
    good = (mask == (places < mask.sum(1, keepdim=True)).to(mask.dtype)).all(1)
    return torch.where(good, 0.0, torch.nan)


def _lifted(x: Tensor, axes: int) -> Tensor:
    """A number for every sample, with so many axes."""
    return x.view(-1, *(1 for _ in range(axes - 1)))


def _of_encoder(model: TextEncoder, chosen: list[str], unit: bool) -> list[OnnxGraph]:
    config, places = model.config, ("batch", "length")
    inputs = {"input_ids": GraphInput("tokens", places, config.vocab), "attention_mask": GraphInput("mask", places)}
    if config.segments > 1:
        inputs["token_type_ids"] = GraphInput("segments", places, config.segments)
    answers = {"mask": (*places, config.vocab), "classes": ("batch", config.classes), "tags": (*places, config.classes),
               "span": (*places, 2)}  # fmt: skip
    plain = (
        [GraphOutput("logits", answers[config.head])]
        if config.head != "none"
        else [
            GraphOutput("last_hidden_state", (*places, config.width)),
            GraphOutput("sentence_embedding", ("batch", config.width)),
        ]
    )
    outputs = _outputs(plain, model, chosen, lambda _: ("length", "length"))
    module = _Encoder(model, chosen)
    module.unit = unit
    return [OnnxGraph("model", module, inputs, outputs, _limit(config, limited=True))]


# A model of pictures.


class _ViT(ExportedPart):
    """Pictures in, scores or vectors out."""

    def compute(self, *given: Tensor) -> tuple[Tensor, ...]:
        return (self.model(*given),)


def _of_vit(model: ViT, chosen: list[str], size: int) -> list[OnnxGraph]:
    config = model.config
    size = size if size and config.resized != "no" else config.size
    inputs = {"pixel_values": GraphInput("numbers", ("batch", config.channels, size, size))}
    plain = (
        [GraphOutput("logits", ("batch", config.classes))]
        if config.classes
        else [GraphOutput("embedding", ("batch", "width"))]
    )
    places = (size // config.patch) ** 2 + config.before
    outputs = _outputs(plain, model, chosen, lambda _: (places, places))
    return [OnnxGraph("model", _ViT(model, chosen), inputs, outputs)]


# A model that continues a text.


class _GPT(ExportedPart):
    """Ids and the keys and values of earlier places in; the scores after every new place and all keys and values out."""

    def compute(self, *given: Tensor) -> tuple[Tensor, ...]:
        model, (tokens, *past) = self.model, given
        state = _state(model.decoder, past)
        x = model.words(tokens)
        x = x if model.widen is None else model.widen(x)
        h, state = model.decoder.step(model.place(x, start=state.filled), state)
        return model.output(h if model.narrow is None else model.narrow(h)), *_present(state)


def _state(stack: Any, past: Sequence[Tensor], memories: Sequence[Memory] = ()) -> DecoderState:
    """The state of a stack behind these keys and values."""
    caches: list[Cache] = [Growing(keys, values) for keys, values in zip(past[::2], past[1::2], strict=True)]
    return DecoderState(stack, caches, list(memories), filled=caches[0].filled)


def _present(state: DecoderState) -> list[Tensor]:
    """The keys and values of every layer so far."""
    return [x for cache in state.caches for x in (cache.keys, cache.values)]


def _kept(stack: Any, attention: str, prefix: str, places: str) -> dict[str, Axes]:
    """The names and axes of the keys and values of every layer's attention to itself, or to a memory."""
    found: dict[str, Axes] = {}
    for number, layer in enumerate(stack.layers):
        heads = layer.get_submodule(attention).heads
        found[f"{prefix}.{number}.key"] = ("batch", heads.key_heads, places, heads.key_dim)
        found[f"{prefix}.{number}.value"] = ("batch", heads.value_heads, places, heads.value_dim)
    return found


def _as_inputs(kept: dict[str, Axes]) -> dict[str, GraphInput]:
    return {name: GraphInput("numbers", axes) for name, axes in kept.items()}


def _as_outputs(kept: dict[str, Axes]) -> list[GraphOutput]:
    return [GraphOutput(name, axes) for name, axes in kept.items()]


def _of_gpt(model: GPT, chosen: list[str]) -> list[OnnxGraph]:
    config, stack = model.config, model.decoder
    past = _as_inputs(_kept(stack, "self", "past_key_values", "past"))
    inputs = {"input_ids": GraphInput("tokens", ("batch", "length"), config.vocab), **past}
    plain = [
        GraphOutput("logits", ("batch", "length", config.vocab)),
        *_as_outputs(_kept(stack, "self", "present", "total")),
    ]
    outputs = _outputs(plain, model, chosen, lambda _: ("length", "total"))
    return [OnnxGraph("model", _GPT(model, chosen), inputs, outputs, _limit(config))]


# A model that reads a source and writes a target.


class _Source(ExportedPart):
    """Ids and a mask of real tokens in; the keys and values that every layer of the decoder attends to out."""

    def compute(self, *given: Tensor) -> tuple[Tensor, ...]:
        tokens, mask = given
        states, padding = self.model.encode(tokens, mask.sum(1))
        broken = _broken(mask)
        memories = [layer.cross.remember(states, padding=padding) for layer in self.model.decoder.layers]
        kept = [x + _lifted(broken, 4) for memory in memories for x in (memory.keys, memory.values)]
        return states + _lifted(broken, 3), *kept


class _Target(ExportedPart):
    """Ids, the mask of the source, and keys and values of the source and of earlier places in; scores and all keys out."""

    def compute(self, *given: Tensor) -> tuple[Tensor, ...]:
        model, (tokens, mask, *kept) = self.model, given
        half, padding = len(kept) // 2, Padding(mask.sum(1))
        memories = [
            Memory(keys, values, layer.cross.score, padding)
            for keys, values, layer in zip(kept[:half:2], kept[1:half:2], model.decoder.layers, strict=True)
        ]
        state = _state(model.decoder, kept[half:], memories)
        x = model.target_place(model.target_words(tokens), start=state.filled)
        h, state = model.decoder.step(x, state)
        return model.output(h), *_present(state)


def _of_transformer(model: Transformer, chosen: list[str]) -> list[OnnxGraph]:
    config, stack = model.config, model.decoder
    for layer in stack.layers:
        score = layer.cross.score
        require(
            score.ready() is score,
            f"a decoder over keys that {type(score).__name__} prepares cannot be exported to onnx",
        )
    mask = GraphInput("mask", ("batch", "source"))
    memory, past = _kept(stack, "cross", "memory", "source"), _kept(stack, "self", "past_key_values", "past")
    reads = [name for name in chosen if name.startswith("encoder.")]
    states = GraphOutput("last_hidden_state", ("batch", "source", config.width))
    given = {"input_ids": GraphInput("tokens", ("batch", "source"), config.source_vocab), "attention_mask": mask}
    seen = _outputs([states, *_as_outputs(memory)], model, reads, lambda _: ("source", "source"))
    source = OnnxGraph("encoder", _Source(model, reads), given, seen, _limit(config))
    writes = [name for name in chosen if name not in reads]
    given = {"input_ids": GraphInput("tokens", ("batch", "length"), config.vocab), "attention_mask": mask}
    given |= _as_inputs(memory) | _as_inputs(past)
    plain = [
        GraphOutput("logits", ("batch", "length", config.vocab)),
        *_as_outputs(_kept(stack, "self", "present", "total")),
    ]
    seen = _outputs(plain, model, writes, lambda name: ("length", "source" if name.endswith(".cross") else "total"))
    return [source, OnnxGraph("decoder", _Target(model, writes), given, seen, _limit(config))]

"""An engine: a value around a model, made once for many decodings."""

import operator
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from mirada.decoding.search import Stepper
from mirada.engine.compiled import FLOAT32, PACKERS
from mirada.engine.fits import FORWARDS, recurrent_half, refuses
from mirada.engine.recurrent import RecurrentStepper, compiles
from mirada.engine.stepper import EngineStepper, PackedStepper, SourceStepper
from mirada.errors import require, require_known
from mirada.native import library
from mirada.native.decode import checksum
from mirada.native.library import serves

# Whether a model is still the one that was packed: checked before every decoding, so it must be quick.


PLAIN = (int, float, str, bool, type(None))  # immutable: such a value can only be replaced
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
PRECISIONS = tuple(PACKERS)


class Snapshot:
    """The parts of a model in flat lists, which are quick to compare. `copy` is the copy that was packed."""

    def __init__(self, model: nn.Module, copy: nn.Module) -> None:
        modules = list(model.modules())
        self.model = ref(model)
        self.modules, self.kinds = [ref(module) for module in modules], list(map(type, modules))
        self.attrs = [vars(module) for module in modules]
        self.sizes = list(map(len, self.attrs))
        self.hooks = [vars(module)[name] for module in modules for name in HOOKS]
        self.children = [vars(module)["_modules"] for module in modules]
        self.inner = [child for table in self.children for child in table.values()]
        self.tables = [vars(module)["_parameters"] for module in modules]
        self.weights = [weight for table in self.tables for weight in table.values()]
        self.buffers = [vars(module)["_buffers"] for module in modules]
        public = [
            (attrs, name, value, vars(twin)[name])
            for attrs, twin, module in zip(self.attrs, copy.modules(), modules, strict=True)
            for name, value in _public(module).items()
        ]
        self.named = [(attrs, name) for attrs, name, value, _ in public if isinstance(value, PLAIN)]
        self.plain = [value for _, _, value, _ in public if isinstance(value, PLAIN)]
        self.others = [(attrs, name, twin) for attrs, name, value, twin in public if not isinstance(value, PLAIN)]
        self.shapes = list(map(_described, self.weights))

    def same(self, model: nn.Module) -> bool:
        """Whether nothing was replaced or added, and no hook was registered."""
        weights = [weight for table in self.tables for weight in table.values()]
        return (
            self.model() is model
            and not everywhere._global_forward_hooks
            and not everywhere._global_forward_pre_hooks
            and all(kind.forward is forward for kind, forward in FORWARDS.items())
            and [type(module()) for module in self.modules] == self.kinds
            and list(map(len, self.attrs)) == self.sizes
            and not any(self.hooks)
            and not any(self.buffers)
            and _identical([child for table in self.children for child in table.values()], self.inner)
            and _identical(weights, self.weights)
            and _identical([attrs.get(name) for attrs, name in self.named], self.plain)
            and all(attrs.get(name) == twin for attrs, name, twin in self.others)
            and list(map(_described, weights)) == self.shapes
        )


def _identical(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    return len(ours) == len(theirs) and all(map(operator.is_, ours, theirs))


def _described(weight: Tensor | None) -> tuple[Any, ...]:
    """What `weight.data = other` and `model.to` change in a parameter, other than its numbers."""
    if weight is None:
        return ()
    return type(weight), weight.data_ptr(), weight.shape, weight.dtype, weight.is_cpu, weight.is_contiguous()


@dataclass(frozen=True, eq=False)
class Engine:
    """What `fast` returns: `stepper` is what a search steps, `reason` says why that is the model itself.

    Unless there is a reason, the stepper holds a copy of the weights as they were then, and steps as the model does in
    evaluation mode: later changes of the model do not reach it. `holds` tells whether the model was changed.

    Args:
        stepper: what a search steps.
        reason: why the stepper is the model itself; None if it is a packed copy.
        mark: the checksum of the packed weights, if they are compiled.
        precision: what it computes with, "float32", "bfloat16" or "int8".
        snapshot: the modules and values of the model when it was packed.

    >>> from mirada.models.gpt import GPT, GPTConfig
    >>> engine = fast(GPT(GPTConfig.tiny()))
    >>> engine.reason is None, engine.stepper.start(1).batch
    (True, 1)
    """

    stepper: Stepper
    reason: str | None = None
    mark: int | None = None
    precision: str = FLOAT32
    snapshot: Snapshot | None = None

    def holds(self, model: nn.Module) -> bool:
        """Whether the model is still what was packed: the same modules with the same attributes and the same numbers.

        It reads all weights, so that no write is missed, even through `.data` or by a fused optimizer.

        Args:
            model: the model that was packed, or another.

        >>> from mirada.models.gpt import GPT, GPTConfig
        >>> model = GPT(GPTConfig.tiny())
        >>> engine = fast(model)
        >>> engine.holds(model)
        True
        >>> model.words.weight.data[3, 5] += 1
        >>> engine.holds(model)
        False
        """
        if not isinstance(self.stepper, EngineStepper):
            return model is self.stepper and refuses(model) == self.reason
        known = self.snapshot is not None and self.snapshot.same(model)
        if not known and (refuses(model) is not None or _contents(model) != _contents(self.stepper.model)):
            return False
        if self.mark is not None:
            return checksum(list(model.parameters())) == self.mark
        return all(map(_same_bits, model.parameters(), self.stepper.model.parameters()))

    def __repr__(self) -> str:
        if not isinstance(self.stepper, EngineStepper):
            return f"Engine(the {type(self.stepper).__name__} itself: {self.reason})"
        model = self.stepper.model
        numbers = sum(weight.numel() for weight in model.parameters())
        how = self.stepper.backend if self.precision == FLOAT32 else f"{self.stepper.backend}, {self.precision}"
        return f"Engine({type(model).__name__}, {how}, holds a copy of {numbers:,} weights)"


def fast(model: Any, precision: str = FLOAT32) -> Engine:
    """An engine for a model: fast steps for the models that engines know, otherwise the model itself and the reason.

    The weights are copied and packed here. Make an engine once and keep it; make another when `holds(model)` is False.

    With `precision="int8"` the matrices are rounded to bytes, with a scale for every output, and so are their inputs, with a
    scale for every place; sums are exact. With `precision="bfloat16"` the matrices are rounded to bfloat16, which halves the
    memory that a step reads; they are widened where they are used, on every CPU, and inputs and sums stay in float32. Texts may
    then differ: both are never chosen unasked, and refused where no engine takes the model.

    Args:
        model: a model with start, step, reorder and alignment, such as `GPT` or `Transformer`.
        precision: "float32", "bfloat16" or "int8".

    Returns:
        An `Engine`, whose `stepper` a search steps.

    >>> from dataclasses import replace
    >>> from mirada.decoding.greedy import Greedy
    >>> from mirada.models.gpt import GPT, GPTConfig
    >>> model = GPT(GPTConfig.tiny()).eval()
    >>> stepper, first = fast(model).stepper, torch.tensor([3])
    >>> [[ours]] = Greedy()(stepper, stepper.start(1), first, None, most=5)
    >>> [[theirs]] = Greedy()(model, model.start(1), first, None, most=5)
    >>> ours.tokens == theirs.tokens
    True
    >>> fast(GPT(replace(GPTConfig.tiny(), where="strided:3"))).reason
    'the decoder: its neighborhood is Strided(stride=3) & Causal()'
    """
    kind = type(model).__name__
    require(
        isinstance(model, nn.Module) and isinstance(model, Stepper),
        f"an engine is for models that a search can step, with start, step, reorder and alignment: got {kind}",
    )
    require_known("precision", precision, PRECISIONS)
    reason = refuses(model)
    if precision != FLOAT32:
        weight = next(model.parameters())
        half = None if reason else recurrent_half(model)
        why = reason or (
            f"it is compiled for float32 on a CPU: {library.reason() or weight.dtype}"
            if not serves(weight)
            else f"no compiled step has {half.attention}"
            if half is not None and not compiles(half)
            else None
        )
        require(why is None, f"precision={precision} is not for this model: {why}. Leave it out.")
    if reason is not None:
        return Engine(model, reason)
    kinds = RecurrentStepper if recurrent_half(model) else SourceStepper if hasattr(model, "encode") else PackedStepper
    stepper = kinds(model, precision)
    # of the copy: a write to the model in the meantime is detected by `holds`
    mark = checksum(list(stepper.model.parameters())) if stepper.backend == "compiled" else None
    return Engine(stepper, mark=mark, precision=precision, snapshot=Snapshot(model, stepper.model))


def _public(module: nn.Module) -> dict[str, object]:
    """The attributes of a module other than parameters, modules, hooks and whether it is in training."""
    return {name: value for name, value in vars(module).items() if name[0] != "_" and name != "training"}


def _contents(model: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """The modules of a model with their attributes, and the shape, dtype and device of its weights."""
    modules = {path: (type(module), _public(module)) for path, module in model.named_modules()}
    return modules, {name: (x.shape, x.dtype, x.device) for name, x in model.named_parameters()}


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether all numbers are the same, bit by bit: a NaN equals itself, 0 and -0 differ.

    >>> _same_bits(torch.tensor([torch.nan]), torch.tensor([torch.nan])), _same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    (True, False)
    """
    bits = torch.int64 if one.dtype == torch.float64 else torch.int32
    return torch.equal(one.detach().view(bits), other.detach().view(bits))

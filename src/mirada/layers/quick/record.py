"""A stack and its ends, examined: what they are made of, and whether they may be passed by.

What was found is kept as long as all is as it was: the same modules, the same values in them, the same parameters.
"""

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from mirada.layers.norm import Norm
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.parts import Part, Shape, parts_of, shape_of
from mirada.layers.quick.refusal import Watch, refuses_modules, refuses_stack

GONE = object()  # stands for a value that is no longer there


@dataclass(frozen=True, eq=False)
class Record:
    """What is known of a stack, of the norm behind it and of its ends."""

    modules: list[nn.Module]
    parameters: list[Tensor]
    values: list[tuple[dict[str, Any], int, list[tuple[str, object]]]]  # of every module: where they are, how many, which
    watch: Watch
    reason: str | None  # why the stack cannot be passed by
    mute: str | None  # why its ends cannot
    shape: Shape | None = None
    parts: tuple[Part, ...] = ()  # of all layers, in the order of a step

    def holds(self, modules: list[nn.Module], parameters: list[Tensor]) -> bool:
        """Whether all is as it was."""
        if modules != self.modules or len(parameters) != len(self.parameters):
            return False
        if any(one is not other for one, other in zip(parameters, self.parameters, strict=True)):
            return False
        return all(
            len(where) == count and all(where.get(name, GONE) is value for name, value in listed)
            for where, count, listed in self.values
        )

    def refuses(self, like: Tensor) -> str | None:
        """Why no step with such keys can be quick at this moment; None if one can."""
        if self.reason is None and (self.parameters[0].dtype, self.parameters[0].device) != (like.dtype, like.device):
            return f"its keys are {like.dtype} on {like.device}, its weights are not"
        return self.reason or self.watch.refuses()


_records: "WeakKeyDictionary[nn.Module, Record]" = WeakKeyDictionary()


def examined(layers: nn.ModuleList, norm: Norm | None, ends: Ends | None, causal: bool = True) -> Record:
    """The record of these layers; a new one only if something changed."""
    modules = modules_of([*layers, *([] if norm is None else [norm]), *([] if ends is None else ends.modules)])
    parameters, record = parameters_of(modules), _records.get(layers)
    if record is None or not record.holds(modules, parameters):
        values = [(vars(module), len(vars(module)), values_of(module)) for module in modules]
        reason = refuses_stack(list(layers), norm, causal) or refuses_modules(modules)  # type: ignore[arg-type]
        mute = "it has no ends" if ends is None else ends.refuses()
        record = Record(modules, parameters, values, Watch.over(modules), reason, mute)
        if reason is None:
            parts = tuple(part for layer in layers for part in parts_of(layer))  # type: ignore[arg-type]
            record = replace(record, shape=shape_of(layers[0]), parts=parts)  # type: ignore[arg-type]
        _records[layers] = record
    return record


def modules_of(tops: list[nn.Module]) -> list[nn.Module]:
    """Modules and all inside them. `nn.Module.modules` also looks for repetitions, which takes as long as a step."""
    found = list(tops)
    for module in found:  # it grows meanwhile
        if module._modules:
            found += [child for child in module._modules.values() if child is not None]
    return found


def parameters_of(modules: list[nn.Module]) -> list[Tensor]:
    """The parameters that stand in these modules themselves."""
    return [p for module in modules if module._parameters for p in module._parameters.values() if p is not None]


def values_of(module: nn.Module) -> list[tuple[str, object]]:
    """What stands in a module beside its parameters, modules and hooks, and whether it is in training."""
    return [(name, value) for name, value in vars(module).items() if name[0] != "_" and name != "training"]

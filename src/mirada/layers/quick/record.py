"""A stack and its ends, examined once: what they are made of, and whether quick steps may pass them by.

What was found is kept as long as nothing changed: the same modules, with the same values in them, and the same parameters.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from mirada.layers.norm import Norm
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.parts import Part, Shape, parts_of, shape_of
from mirada.layers.quick.refusal import Watch, refuses_modules, refuses_stack


class Missing:
    """What stands for a value that is no longer there."""


@dataclass(frozen=True, eq=False)
class Record:
    """What is known of a stack and its ends."""

    modules: list[nn.Module]
    parameters: list[Tensor]
    values: list[tuple[dict[str, Any], int, list[tuple[str, object]]]]  # of every module: where they stand, how many, which
    watch: Watch
    reason: str | None  # why no step can be quick
    shape: Shape | None = None
    parts: tuple[Part, ...] = ()

    def holds(self, modules: list[nn.Module]) -> bool:
        """Whether all is as it was."""
        return (
            modules == self.modules
            and all(
                len(where) == count and all(where.get(name, Missing) is value for name, value in listed)
                for where, count, listed in self.values
            )
            and all(map(same, self.parameters, parameters_of(modules)))
        )

    def refuses(self, like: Tensor) -> str | None:
        """Why no step can be quick now, with keys like these."""
        if self.reason is None and self.parameters:
            weight = self.parameters[0]
            if weight.dtype != like.dtype or weight.device != like.device:
                return f"its weights are {weight.dtype} on {weight.device}, its keys {like.dtype} on {like.device}"
        return self.reason or self.watch.refuses()


_records: "WeakKeyDictionary[nn.Module, Record]" = WeakKeyDictionary()


def examined(layers: nn.ModuleList, norm: Norm | None, ends: Ends | None, causal: bool = True) -> Record:
    """The record of these layers, of the norm behind them and of their ends."""
    tops = [*layers, *([] if norm is None else [norm]), *([] if ends is None else ends.modules())]
    modules, record = modules_of(tops), _records.get(layers)
    if record is None or not record.holds(modules):
        record = _records[layers] = examine(layers, norm, modules, causal)
    return record


def examine(layers: nn.ModuleList, norm: Norm | None, modules: list[nn.Module], causal: bool) -> Record:
    """Look at everything."""
    parameters = parameters_of(modules)
    values = [(vars(module), len(vars(module)), plain(module)) for module in modules]
    reason = refuses_stack(list(layers), norm, causal) or refuses_modules(modules)  # type: ignore[arg-type]
    if reason is not None:
        return Record(modules, parameters, values, Watch.over(modules), reason)
    parts = tuple(part for layer in layers for part in parts_of(layer))  # type: ignore[arg-type]
    return Record(modules, parameters, values, Watch.over(modules), None, shape_of(layers[0]), parts)  # type: ignore[arg-type]


def plain(module: nn.Module) -> list[tuple[str, object]]:
    """What stands in a module beside its parameters, modules and hooks."""
    return [(name, value) for name, value in vars(module).items() if name[0] != "_" and name != "training"]


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


def same(one: object, other: object) -> bool:
    return one is other

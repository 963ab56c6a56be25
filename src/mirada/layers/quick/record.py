"""A stack and its ends, examined: what they are made of, and whether they may be passed by.

What was found is kept as long as all is as it was: the same modules, the same values in them, the same parameters.
"""

import operator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from mirada.layers.norm import Norm
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.parts import Part, Shape, parts_of, shape_of
from mirada.layers.quick.refusal import Watch, refuses_modules, refuses_stack


class Values(NamedTuple):
    """What stands in modules beside parameters, modules and hooks, and where. Flat lists: they are compared often."""

    dicts: list[dict[str, Any]]
    sizes: list[int]
    named: list[tuple[dict[str, Any], str]]
    values: list[object]

    @classmethod
    def of(cls, modules: list[nn.Module]) -> "Values":
        dicts = [vars(module) for module in modules]
        named = [(own, name) for own in dicts for name in own if name[0] != "_" and name != "training"]
        return cls(dicts, [len(own) for own in dicts], named, [own[name] for own, name in named])

    def hold(self) -> bool:
        """Whether they still stand there, and nothing beside them."""
        return [len(own) for own in self.dicts] == self.sizes and all(
            map(operator.is_, [own.get(name) for own, name in self.named], self.values)
        )


@dataclass(frozen=True, eq=False)
class Record:
    """What is known of a stack, of the norm behind it and of its ends."""

    modules: list[nn.Module]
    parameters: list[Tensor]
    kinds: list[tuple[torch.dtype, bool]]
    values: Values
    watch: Watch
    reason: str | None  # why the stack cannot be passed by
    mute: str | None  # why its ends cannot
    shape: Shape | None = None
    parts: tuple[Part, ...] = ()  # of all layers, in the order of a step

    def holds(self, modules: list[nn.Module], parameters: list[Tensor]) -> bool:
        """Whether all is as it was."""
        return (
            modules == self.modules
            and len(parameters) == len(self.parameters)
            and all(map(operator.is_, parameters, self.parameters))
            and kinds_of(parameters) == self.kinds
            and self.values.hold()
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
        reason = refuses_stack(list(layers), norm, causal) or refuses_modules(modules)  # type: ignore[arg-type]
        mute = "it has no ends" if ends is None else ends.refuses()
        record = Record(
            modules, parameters, kinds_of(parameters), Values.of(modules), Watch.over(modules), reason, mute
        )
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


def kinds_of(parameters: list[Tensor]) -> list[tuple[torch.dtype, bool]]:
    """What `model.to` changes in a parameter: its dtype, and whether it is on a CPU."""
    return [(parameter.dtype, parameter.is_cpu) for parameter in parameters]

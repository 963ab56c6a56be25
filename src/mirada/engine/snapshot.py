"""Whether a model still is the one that was packed, asked before every decoding, so it must take little time.

What stands in the modules is compared first: the same modules, parameters and values, no hooks. Then every number is read.
"""

import operator
from typing import Any
from weakref import ref

from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from mirada.engine.fits import FORWARDS

PLAIN = (int, float, str, bool, type(None))  # a value of these can only be replaced, never changed
HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class Snapshot:
    """What a model consisted of, in flat lists: they are compared often. `copy` is the copy that was packed."""

    def __init__(self, model: nn.Module, copy: nn.Module) -> None:
        modules = list(model.modules())
        self.model = ref(model)
        self.modules, self.kinds = [ref(module) for module in modules], list(map(type, modules))
        self.owns = [vars(module) for module in modules]
        self.sizes = list(map(len, self.owns))
        self.hooks = [vars(module)[name] for module in modules for name in HOOKS]
        self.children = [vars(module)["_modules"] for module in modules]
        self.inner = [child for own in self.children for child in own.values()]
        self.tables = [vars(module)["_parameters"] for module in modules]
        self.weights = [weight for table in self.tables for weight in table.values()]
        self.buffers = [vars(module)["_buffers"] for module in modules]
        public = [
            (own, name, value, vars(twin)[name])
            for own, twin in zip(self.owns, copy.modules(), strict=True)
            for name, value in own.items()
            if name[0] != "_" and name != "training"
        ]
        self.named = [(own, name) for own, name, value, _ in public if isinstance(value, PLAIN)]
        self.plain = [value for _, _, value, _ in public if isinstance(value, PLAIN)]
        self.others = [(own, name, twin) for own, name, value, twin in public if not isinstance(value, PLAIN)]
        self.shapes = list(map(described, self.weights))

    def same(self, model: nn.Module) -> bool:
        """Whether nothing was replaced, added or hooked."""
        weights = [weight for table in self.tables for weight in table.values()]
        return (
            self.model() is model
            and not everywhere._global_forward_hooks
            and not everywhere._global_forward_pre_hooks
            and all(kind.forward is forward for kind, forward in FORWARDS.items())
            and [type(module()) for module in self.modules] == self.kinds
            and list(map(len, self.owns)) == self.sizes
            and not any(self.hooks)
            and not any(self.buffers)
            and identical([child for own in self.children for child in own.values()], self.inner)
            and identical(weights, self.weights)
            and identical([own.get(name) for own, name in self.named], self.plain)
            and all(own.get(name) == twin for own, name, twin in self.others)
            and list(map(described, weights)) == self.shapes
        )


def identical(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether two lists hold the very same things."""
    return len(ours) == len(theirs) and all(map(operator.is_, ours, theirs))


def described(weight: Tensor | None) -> tuple[Any, ...]:
    """What `weight.data = other` and `model.to` change in a parameter, beside its numbers."""
    if weight is None:
        return ()
    return type(weight), weight.data_ptr(), weight.shape, weight.dtype, weight.is_cpu, weight.is_contiguous()

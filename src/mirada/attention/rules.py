"""What cannot be combined, in one list. `docs/combining.md` shows the same list; a test keeps them equal.

Each rule is checked as early as it can be: when a layer is built, else at the call that breaks it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from mirada.attention.heads import Heads
from mirada.attention.neighborhoods import Edges, Neighborhood
from mirada.attention.normalizers import Normalizer
from mirada.attention.positions import LocalGaussian, Position, Relative, T5Bias
from mirada.attention.scores import Dot, Offset, Score
from mirada.errors import require
from mirada.shapes import check_axes, check_floating, check_size, show


@dataclass(frozen=True)
class Parts:
    """The factors of one equation, and how it is used."""

    score: Score
    where: Neighborhood
    position: Position
    normalizer: Normalizer
    cached: bool = False
    across: bool = False  # queries and keys from two sequences, without positions


@dataclass(frozen=True)
class Exclusion:
    """Two parts that exclude each other, why, and what to do instead."""

    parts: str
    why: str
    instead: str
    broken: Callable[[Parts], bool]

    def __str__(self) -> str:
        return f"{self.parts} cannot work together: {self.why}. {self.instead}."


def contains(where: Neighborhood, kind: type[Neighborhood]) -> bool:
    """Whether a neighborhood of that kind is anywhere in the expression."""
    inner = (*getattr(where, "parts", ()), getattr(where, "part", None))
    return isinstance(where, kind) or any(contains(p, kind) for p in inner if isinstance(p, Neighborhood))


EXCLUSIONS = (
    Exclusion(
        "attention and an input position (Sinusoidal, Learned)",
        "they are added to the input, before any layer",
        "Call position.add(x), or give the position to the embedding",
        lambda p: "input" in p.position.acts,
    ),
    Exclusion(
        "Relative and a score other than Dot",
        "its key term is q.a, scaled like the dot product it is added to",
        "Use Dot, or ALiBi with this score",
        lambda p: isinstance(p.position, Relative) and not isinstance(p.score, Dot),
    ),
    Exclusion(
        "Rotary and a score that reads no keys (Location, Offset)",
        "rotating a key has no effect on it",
        "Drop the position, or use a score that compares q with k",
        lambda p: "rotate" in p.position.acts and not p.score.reads_keys,
    ),
    Exclusion(
        "Edges and a position",
        "the nodes of a graph have no order",
        "Drop the position, or describe the neighborhood by Window or Grid",
        lambda p: bool(p.position.acts) and contains(p.where, Edges),
    ),
    Exclusion(
        "Rotary, Relative or T5Bias and a memory without positions",
        "a distance between two sequences is undefined until both have positions",
        "Pass positions= and key_positions=",
        lambda p: p.across and ("rotate" in p.position.acts or isinstance(p.position, Relative | T5Bias)),
    ),
    Exclusion(
        "a cache and a neighborhood that sees later keys",
        "a step cannot see keys that are not there yet, the full computation does",
        "AND the neighborhood with Causal()",
        lambda p: p.cached and not p.where.causal,
    ),
    Exclusion(
        "a cache and Hard attention",
        "each step would draw anew what the full computation draws once",
        "Decode without a cache, or normalize with Softmax",
        lambda p: p.cached and p.normalizer.chooses,
    ),
    Exclusion(
        "a cache and LocalGaussian",
        "it scales a place by the number of all keys, which a step does not know",
        "Decode without a cache",
        lambda p: p.cached and isinstance(p.position, LocalGaussian),
    ),
    Exclusion(
        "a cache and a score or neighborhood of fixed size (Offset, Edges)",
        "they are made for all cells or nodes at once",
        "Call the layer on the whole grid or graph",
        lambda p: p.cached and (isinstance(p.score, Offset) or contains(p.where, Edges)),
    ),
)


def check_parts(parts: Parts) -> None:
    """Raise a ValueError that names the first broken rule."""
    for rule in EXCLUSIONS:
        if rule.broken(parts):
            raise ValueError(str(rule))


# What is checked before a kernel is planned: the types of the parts, and their sizes.


Part = TypeVar("Part", Score, Position, Normalizer)


def as_part(name: str, value: Any, kind: type[Part], default: Part) -> Part:
    """The value, or the default for None; a ValueError if it is neither."""
    if value is None:
        return default
    if not isinstance(value, kind):
        shown = f"the class {value.__name__}; add ()" if isinstance(value, type) else repr(value)
        raise ValueError(f"{name} must be a value such as {default or kind.__name__}: got {shown}")
    return value


def fit_scale(score: Score, heads: Heads) -> Score:
    """The score, with the default scale counted by the heads' own dim where that is not the width of a query.

    A score that was fitted to other heads is fitted again.
    """
    if type(score) is not Dot or not score.by_default:
        return score
    scale = None if heads.scale_dim == heads.dim else heads.scale_dim**-0.5
    if score.scale == scale:
        return score
    fitted = Dot(scale)
    fitted.fitted = scale
    return fitted


def fit(score: Score, position: Position, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Require heads, score and position that fit the sizes; a cache is checked before it takes anything."""
    if any(q.shape[1] % max(1, x.shape[1]) for x in (k, v)):
        message = f"query heads must be divisible by key and value heads: got q {show(q)}, k {show(k)}, v {show(v)}"
        raise ValueError(message)
    position.check(q.shape[1], q.shape[-1], v.shape[-1])
    score.check(q, k)


def check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Require three tensors of (batch, heads, n, dim) that belong together."""
    for name, tensor, axes in (("q", q, "queries dim"), ("k", k, "keys dim"), ("v", v, "keys value_dim")):
        check_axes(name, tensor, f"batch heads {axes}")
        check_floating(name, tensor)
        check_size(name, tensor, 0, "batch", q.shape[0])
        require(tensor.dtype == q.dtype, f"q, k and v must have one dtype: got {q.dtype} and {name} {tensor.dtype}")
    check_size("v", v, 2, "keys", k.shape[2])

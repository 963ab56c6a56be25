"""What must fit before a kernel is asked: parts that are parts, sizes that belong together."""

from typing import Any, TypeVar

from torch import Tensor

from mirada.attention.heads import Heads
from mirada.attention.normalizers import Normalizer
from mirada.attention.positions import Position
from mirada.attention.scores import Dot, Score
from mirada.errors import require
from mirada.shapes import check_axes, check_floating, check_size, show

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
        raise ValueError(
            f"query heads must be divisible by key and value heads: got q {show(q)}, k {show(k)}, v {show(v)}"
        )
    position.check(q.shape[1], q.shape[-1], v.shape[-1])
    score.check(q, k)


def check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Require three tensors of (batch, heads, n, dim) that belong together."""
    for name, tensor, axes in (
        ("q", q, "batch heads queries dim"),
        ("k", k, "batch heads keys dim"),
        ("v", v, "batch heads keys value_dim"),
    ):
        check_axes(name, tensor, axes)
        check_floating(name, tensor)
        check_size(name, tensor, 0, "batch", q.shape[0])
        require(tensor.dtype == q.dtype, f"q, k and v must have one dtype: got {q.dtype} and {name} {tensor.dtype}")
    check_size("v", v, 2, "keys", k.shape[2])

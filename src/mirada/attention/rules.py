"""What cannot be combined, in one list. `docs/combining.md` shows the same list; a test keeps them equal.

Each rule is checked as early as it can be: when a layer is built, else at the call that breaks it.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from mirada.attention.heads import Heads
from mirada.attention.neighborhoods import Edges, Neighborhood
from mirada.attention.normalizers import Normalizer, Sinks, Softmax, SoftmaxPlusOne, known
from mirada.attention.positions import ALiBi, LocalGaussian, Position, PositionSum, Relative, Rotary, T5Bias
from mirada.attention.scores import Dot, Offset, Score, Softcap
from mirada.attention.transforms import transformed
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
    return any(isinstance(part, kind) for part in _inside(where))


def _adds(position: Position, kind: Any) -> bool:
    """Whether a position of that kind is it, or is in the sum."""
    return any(isinstance(part, kind) for part in position.modules())


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
        lambda p: _adds(p.position, Relative) and not isinstance(p.score, Dot),
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
        lambda p: p.across and ("rotate" in p.position.acts or _adds(p.position, Relative | T5Bias)),
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
        lambda p: p.cached and _adds(p.position, LocalGaussian),
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


# What a part declares, or a cache relies on, and only a trial can show. The parts of this package need none.


@dataclass(frozen=True)
class _Trial:
    """What a normalizer was found to do."""

    rowwise: bool  # the weights of a query do not change with the other queries
    counts_nothing: bool  # nor with keys that are masked


_tried: "WeakKeyDictionary[Normalizer, _Trial]" = WeakKeyDictionary()
_step_by_step: "WeakSet[Heads]" = WeakSet()  # heads that were found to project a place from that place alone


def check_normalizer(normalizer: Normalizer, heads: int, cached: bool = False) -> None:
    """Require what a normalizer declares of itself, and of one in a cache that it needs neither the earlier queries nor
    the number of keys that are masked: a step has one query, and a cache holds fewer keys than the full pass.

    It is tried out once, with a number of heads as the layer has them.
    """
    if known(normalizer) or normalizer.chooses or _no_trial():
        return
    if not (cached or normalizer.rowwise):
        return
    found = _tried.get(normalizer)
    if found is None:
        found = _tried[normalizer] = _try_normalizer(normalizer, heads)
    name = type(normalizer).__name__
    message = f"{name} declares rowwise = True, but the weights of a query change with the other queries. Drop it."
    require(found.rowwise or not normalizer.rowwise, message)
    message = (
        f"{name} reads the scores of other queries, which a step with a cache does not have. Decode without a cache."
    )
    require(found.rowwise or not cached, message)
    require(
        found.counts_nothing or not cached,
        f"{name} counts keys that are masked, so a cache, which holds only the keys so far, would "
        "change its weights. Count mask.sum(-1), or decode without a cache.",
    )


def _try_normalizer(normalizer: Normalizer, heads: int) -> _Trial:
    """Compare the weights of a few scores with those of each query alone, and of fewer keys."""
    like = next(normalizer.parameters(), torch.empty(0))
    if like.is_meta:
        return _Trial(rowwise=True, counts_nothing=True)
    scores = torch.arange(heads * 25, dtype=torch.float32).mul(1.7).sin().mul(2.5).view(1, heads, 5, 5).to(like)
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool, device=like.device).tril()
    with _evaluated(normalizer), torch.no_grad():
        try:
            together = normalizer(scores, mask)
            apart = [normalizer(scores[:, :, row : row + 1], mask[:, :, row : row + 1]) for row in range(5)]
            few = normalizer(scores[:, :, 2:3, :3], mask[:, :, 2:3, :3])
        except Exception as failed:
            message = f"{normalizer} failed on scores of (batch=1, heads={heads}, queries, keys) up to 5 x 5: {failed}"
            raise ValueError(message) from failed
    near = 1e-3 if like.dtype.itemsize < 4 else 1e-5
    rowwise = torch.allclose(together, torch.cat(apart, dim=2), rtol=1e-3, atol=near)
    return _Trial(rowwise, torch.allclose(few, apart[2][..., :3], rtol=1e-3, atol=near))


def check_step_by_step(heads: Heads) -> None:
    """Require heads whose queries, keys and values of a place depend on that place only: a cached step has no other."""
    if heads.carries:  # what it needs of earlier places is handed to it
        return
    ours = type(heads).__module__ == Heads.__module__
    like = next(heads.parameters(), torch.empty(0))
    if ours or heads in _step_by_step or like.is_meta or _no_trial():
        return
    x = torch.arange(4 * heads.width, dtype=torch.float32).mul(1.3).sin().view(1, 4, heads.width).to(like)
    with _evaluated(heads), torch.no_grad():
        whole, last = heads.project(x, x, x), heads.project(x[:, 3:], x[:, 3:], x[:, 3:])
    near = 1e-2 if like.dtype.itemsize < 4 else 1e-5
    pairs = zip(whole, last, strict=True)
    same = all(torch.allclose(many[:, :, 3:], one, rtol=1e-3, atol=near) for many, one in pairs)
    message = "depend on earlier places, which a step with a cache does not have. Decode without a cache"
    require(same, f"the queries, keys or values of {type(heads).__name__} {message}.")
    _step_by_step.add(heads)


def check_rolling(heads: Heads, parts: Parts) -> int:
    """How many earlier places a causal window sees; a ValueError if it is none, or anything asks more than distances."""
    where, reach = parts.where, parts.where.band[0]
    window = where.causal and where.reflexive and where.homogeneous and reach < math.inf
    message = f"a rolling cache needs a causal window, such as Causal() & Window(63): got {where}. Use attention.cache"
    require(window, message)
    known = (Rotary, ALiBi, T5Bias, Relative, PositionSum)
    kinds = [type(part) for part in parts.position.modules() if isinstance(part, Position) and part.acts]
    of_distance = all(kind in known for kind in kinds)
    require(
        of_distance, f"a rolling cache needs positions that go by distance: got {parts.position}. Use attention.cache"
    )
    own = not heads.carries and heads.shared_from is None and parts.score.reads_keys
    require(own, f"a rolling cache cannot serve {type(heads).__name__} with {parts.score}: use attention.cache")
    return int(reach)


def _no_trial() -> bool:
    """Whether numbers cannot be compared here: in a function transform, or where only shapes are traced."""
    return torch.compiler.is_compiling() or transformed() or torch._C._len_torch_dispatch_stack() > 0


@contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for a moment: a trial draws nothing at random."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


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
    if type(score) is Softcap:
        score.score = fit_scale(score.score, heads)
        return score
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


def check_edges(score: Score, where: Neighborhood, normalizer: Normalizer) -> None:
    """Require a graph with the features that the score reads, and edges that weigh pairs only where a kernel asks them."""
    parts = where.conjuncts()
    graphs = [part for part in parts if isinstance(part, Edges) and part.weighs_pairs]
    widths = [0 if graph.features is None else graph.features.shape[1] for graph in graphs]
    if score.features != sum(widths):
        raise ValueError(
            f"{score} reads {score.features} features of every edge: got {sum(widths)}. Make the score with as many features as "
            "Edges(edge_index, nodes, features=...) has."
        )
    message = (
        "edges with features, or that count several times, can stand once in a neighborhood, and only be joined by &"
    )
    inside = (x for part in parts if hasattr(part, "parts") or hasattr(part, "part") for x in _inside(part))
    require(len(graphs) < 2 and not any(isinstance(x, Edges) and x.weighs_pairs for x in inside), message)
    if any(graph.counted for graph in graphs):
        message = f'edges that count several times need a softmax: got {normalizer}. Pass repeated="join".'
        require(type(normalizer) in (Softmax, SoftmaxPlusOne, Sinks), message)


def _inside(where: Neighborhood) -> Iterator[Neighborhood]:
    """All sets in an expression."""
    yield where
    for part in (*getattr(where, "parts", ()), getattr(where, "part", None)):
        if isinstance(part, Neighborhood):
            yield from _inside(part)


def check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Require three tensors of (batch, heads, n, dim) that belong together."""
    for name, tensor, axes in (("q", q, "queries dim"), ("k", k, "keys dim"), ("v", v, "keys value_dim")):
        check_axes(name, tensor, f"batch heads {axes}")
        check_floating(name, tensor)
        check_size(name, tensor, 0, "batch", q.shape[0])
        require(tensor.dtype == q.dtype, f"q, k and v must have one dtype: got {q.dtype} and {name} {tensor.dtype}")
    check_size("v", v, 2, "keys", k.shape[2])

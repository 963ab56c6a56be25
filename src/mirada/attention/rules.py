"""What cannot be combined, in one list. `docs/combining.md` shows the same list; a test keeps them equal.

Each rule is checked as early as it can be: when a layer is built, else at the call that breaks it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mirada.attention.neighborhoods import Edges, Neighborhood
from mirada.attention.normalizers import Normalizer
from mirada.attention.positions import LocalGaussian, Position, Relative
from mirada.attention.scores import Dot, Offset, Score


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
    """Whether a neighborhood of that kind stands anywhere in the expression."""
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
        "its key term is q.a, scaled like the dot product it stands beside",
        "Use Dot, or ALiBi with this score",
        lambda p: isinstance(p.position, Relative) and not isinstance(p.score, Dot),
    ),
    Exclusion(
        "Rotary and a score that reads no keys (Location, Offset)",
        "turning a key has no effect on it",
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
        "Rotary or Relative and a memory without positions",
        "a distance between two sequences is undefined until both have positions",
        "Pass positions= and key_positions=",
        lambda p: p.across and ("rotate" in p.position.acts or isinstance(p.position, Relative)),
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

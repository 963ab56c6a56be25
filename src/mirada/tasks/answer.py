"""What comes back: a text, a score, and the way to look at how it came about."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from mirada.errors import require

if TYPE_CHECKING:
    from mirada.looking.record import Seen


@dataclass(frozen=True)
class Ask:
    """How answers are wanted: with how many beams, how many alternatives, among which candidates, and how they are drawn."""

    beam: int = 1
    best: int = 1
    length_penalty: float = 1.0
    coverage: float = 0.0
    candidates: tuple[str, ...] = ()
    temperature: float | None = None  # above 0 answers are drawn at random; None: as suits the task
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    tokens: int = 0  # at most; 0: what suits the task
    aligned: bool = False  # whether alignments are kept

    def __post_init__(self) -> None:
        require(
            self.beam >= 1 and self.best >= 1,
            f"beam and best must be at least 1: got beam={self.beam}, best={self.best}",
        )
        require(self.tokens >= 0, f"tokens must be at least 1, or 0 for what suits the task: got {self.tokens}")


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer to one input. `score` is a mean log-probability or a probability, as the task says.

    `weights` has a row for every written token and a column for every token read, where the task has such a thing.
    """

    input: str
    text: str
    score: float
    ranked: tuple[tuple[str, float], ...] = ()  # alternatives or candidates, best first, where they were asked for
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    weights: Float[Tensor, "written read"] | None = None
    tokens: tuple[int, ...] = ()  # what was written, by number
    again: Callable[[], "Seen"] | None = field(default=None, repr=False)

    def look(self) -> "Seen":
        """All attention of the model while it reads this input and writes this answer, exact."""
        if self.again is None:
            raise ValueError("this answer did not come from a model that can be looked at")
        return self.again()

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        described: dict[str, Any] = {"input": self.input, "text": self.text, "score": self.score}
        if self.ranked:
            described["ranked"] = [{"text": text, "score": score} for text, score in self.ranked]
        return described

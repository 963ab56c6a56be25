"""How texts are searched for, as a person asks for it: from options to a search."""

from dataclasses import dataclass
from typing import ClassVar

from mirada.decoding.beam import Beam
from mirada.decoding.greedy import Greedy, Sample
from mirada.errors import require


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """With how many beams and alternatives a text is searched for, or how it is drawn at random.

    >>> SearchOptions(beam=4).search().size
    4
    """

    usual_temperature: ClassVar[float] = 0.0  # where none is asked for; 0 takes the likeliest token

    beam: int = 1
    best: int = 1
    length_penalty: float = 1.0
    coverage: float = 0.0
    temperature: float | None = None  # above 0 texts are drawn at random; None: the usual one
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    tokens: int = 0  # at most; 0: what suits the task

    def __post_init__(self) -> None:
        require(
            self.beam >= 1 and self.best >= 1,
            f"beam and best must be at least 1: got beam={self.beam}, best={self.best}",
        )
        require(self.tokens >= 0, f"tokens must be at least 1, or 0 for what suits the task: got {self.tokens}")
        self.search()  # options that do not fit together are told at once

    def search(self) -> Greedy | Beam | Sample:
        """Sampling where a temperature is given (or is the usual one), a beam where one is asked for, else greedy."""
        few = self.top_k != 0 or self.top_p != 1
        if self.beam > 1 or self.best > 1:
            drawn = self.temperature is not None or few
            require(not drawn, "a beam draws nothing: leave out temperature, top_k and top_p, or else beam and best")
            return Beam(max(self.beam, self.best), self.length_penalty, self.coverage, self.best)
        ranked = self.length_penalty != 1 or self.coverage != 0
        require(not ranked, "length_penalty and coverage rank the texts of a beam: ask for one as well, such as beam=4")
        temperature = self.usual_temperature if self.temperature is None else self.temperature
        if temperature > 0:
            return Sample(temperature, self.top_k, self.top_p, self.seed)
        require(temperature == 0, f"temperature must not be negative: got {temperature}")
        require(not few, "top_k and top_p are for drawing: give a temperature as well, such as temperature=1")
        return Greedy()

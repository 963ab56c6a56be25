"""What was written of a window, cut into segments at its timestamps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class TimedWord:
    """A word and when it was said, in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Segment:
    """Tokens and when they were said, in seconds from the beginning of the recording.

    >>> Segment(0.0, 2.4, (), "the red house").line
    '[0.00 -> 2.40] the red house'
    """

    start: float
    end: float
    tokens: tuple[int, ...]
    text: str = ""
    words: tuple[TimedWord, ...] = ()

    @property
    def line(self) -> str:
        """The segment as a line of a terminal."""
        return f"[{self.start:.2f} -> {self.end:.2f}] {self.text}"

    def described(self, words: bool) -> dict[str, Any]:
        """The segment as `--json` prints it."""
        said = [{"text": word.text, "start": _rounded(word.start), "end": _rounded(word.end)} for word in self.words]
        whole = {"start": _rounded(self.start), "end": _rounded(self.end), "text": self.text}
        return whole | ({"words": said} if words else {})


def _rounded(seconds: float) -> float:
    """Seconds to a thousandth: sums of them have noise in their last digits."""
    return round(seconds, 3)


def cut(
    tokens: Sequence[int], first: int, place: float, offset: float, seconds: float
) -> tuple[list[Segment], float]:  # fmt: skip
    """The segments of a window, and the seconds after which the next window begins.

    Two timestamps in a row end one segment and begin the next; what follows the last pair is not whole and is heard again in
    the next window, which begins there. Without a pair all of the window is one segment.

    Args:
        tokens: what was written of the window.
        first: the token of moment 0.
        place: seconds from one timestamp to the next.
        offset: when the window begins.
        seconds: what the recording fills of the window.

    >>> segments, used = cut([50, 7, 53, 53, 8, 9, 55, 55], first=50, place=0.5, offset=30.0, seconds=30.0)
    >>> [(segment.start, segment.end, segment.tokens) for segment in segments], used
    ([(30.0, 31.5, (50, 7, 53)), (31.5, 32.5, (53, 8, 9, 55))], 2.5)

    Radford et al. (2022), arXiv:2212.04356, 4.5.
    """
    moments = [token >= first for token in tokens]
    ends = [index + 1 for index, (one, next_one) in enumerate(pairwise(moments)) if one and next_one]

    def at(token: int) -> float:
        return offset + (token - first) * place

    if not ends:
        stated = [token for token, moment in zip(tokens, moments, strict=True) if moment]
        end = at(stated[-1]) if stated and stated[-1] != first else offset + seconds
        return [Segment(offset, end, tuple(tokens))], seconds
    closed = moments[-2:] == [False, True]  # nothing is said after it
    ends = [*ends, len(tokens)] if closed else ends
    segments = []
    for start, end in pairwise([0, *ends]):
        part = tuple(tokens[start:end])
        segments.append(Segment(at(part[0]), at(part[-1]), part))
    return segments, seconds if closed else (tokens[ends[-1] - 1] - first) * place

"""What is asked of a run, and what comes back: an answer, a score, and the way to look at how it came about."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self

from jaxtyping import Float
from torch import Tensor

from mirada.errors import require

if TYPE_CHECKING:
    from PIL.Image import Image

    from mirada.looking.record import Seen

FIGURES = (".png", ".svg", ".pdf")
INSIDE = ("aligned",)  # options of programs, not of people


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """How answers are wanted. The options of a task are the fields of its own class, beside these: none."""

    unused: ClassVar[tuple[str, ...]] = ()  # inherited fields that change nothing in this task

    @classmethod
    def takes(cls) -> list[str]:
        """The names of the options."""
        return [item.name for item in fields(cls) if item.name not in cls.unused]

    def changed(self, given: Mapping[str, Any], task: str) -> Self:
        """With some options changed; what would change nothing is refused.

        >>> RankAsk().changed({"beam": 4}, "classify")
        Traceback (most recent call last):
        ValueError: beam is not used by classify; it takes best, candidates
        """
        known = self.takes()
        useless = [name for name in given if name not in known]
        verb = "is" if len(useless) == 1 else "are"
        shown = [name for name in known if name not in INSIDE]
        listed = f"it takes {', '.join(shown)}" if shown else "it takes no options"
        require(not useless, f"{', '.join(useless)} {verb} not used by {task}; {listed}")
        return replace(self, **given)


@dataclass(frozen=True, kw_only=True)
class RankAsk(AskOptions):
    """How many of the likeliest answers are wanted, or which candidates are to be ranked."""

    best: int = 1
    candidates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.best >= 1, f"best must be at least 1: got {self.best}")

    def ranking(self, ranked: Sequence[tuple[str, float]]) -> dict[str, Any]:
        """The fields of an answer that say what else there was, and how much of it is printed: all candidates, or as many as
        were asked for.
        """
        return {"ranked": tuple(ranked), "shown": len(ranked) if self.candidates else self.best if self.best > 1 else 0}


@dataclass(frozen=True, kw_only=True)
class TextRankAsk(RankAsk):
    """The same for inputs that are texts: `truncate` cuts those that are too long for the model, `aligned` asks for what was
    looked at.
    """

    truncate: bool = False
    aligned: bool = False


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer to one input. `score` is a mean log-probability or a probability, as the task says; NaN where there is none.

    `value` is the answer as the task computes with it, `text` as people read it, `more` what `--json` shows beside them.
    `weights` has a row for everything `written` and a column for everything `read`, where the task has such a thing.
    """

    input: str
    text: str
    score: float
    value: Any = None
    ranked: tuple[tuple[str, float], ...] = ()  # all labels, or the alternatives or candidates asked for, best first
    shown: int = 0  # how many of them a person wants to see; 0: only the answer
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    weights: Float[Tensor, "written read"] | None = None
    tokens: tuple[int, ...] = ()  # what was written, by number
    more: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""  # what a person should know beside it, such as that there is no answer
    error: str = ""  # why there is none, in the place of an answer
    replay: Callable[..., "Seen"] | None = field(default=None, repr=False)  # takes methods=True where that makes sense

    def look(self, methods: bool = False) -> "Seen":
        """All attention of the model while it reads this input and writes this answer, exact.

        `methods` puts value norms, rollout, gradients and ablation beside it: a pass for every place of the input.
        """
        if self.replay is None:
            raise ValueError("this answer did not come from a model that can be looked at")
        return self.replay(methods=True) if methods else self.replay()

    def plot(
        self,
        layer: str | int | PathLike[str] = "",
        head: int | None = None,
        path: str | PathLike[str] = "",
        kind: str = "",
    ) -> "Image":
        """A picture of what was looked at, which notebooks show: `answer.plot(layer, head)`, a layer by its name or number.

        With a `path` the plot is written too: PNG, SVG or PDF. A path in the place of the layer is taken for one:
        `answer.plot("x.png")`. `kind` is that of `Seen.plot`.
        """
        from PIL import Image as PILImage

        if isinstance(layer, PathLike) or str(layer).lower().endswith(FIGURES):
            require(not path, f"two paths to write one plot to: {layer} and {path}")
            layer, path = "", str(layer) if isinstance(layer, int) else layer
        seen = self.look()
        if isinstance(layer, int):
            require(-len(seen) <= layer < len(seen), f"layer must lie in 0..{len(seen) - 1}: got {layer}")
            layer = seen.names[layer]
        if path:
            seen.plot(path, str(layer), head, kind)
        with TemporaryDirectory() as folder:
            seen.plot(Path(folder) / "x.png", str(layer), head, kind)
            return PILImage.open(Path(folder) / "x.png").copy()

    def page(self, path: str | PathLike[str], language: str = "") -> None:
        """Write one HTML file that shows all of it, offline."""
        self.look().page(path, language=language)

    def _repr_html_(self) -> str:
        """A cell of a notebook: the answer, and below it what was looked at."""
        told = f"<p><b>{escape(self.text or self.error)}</b></p>"
        if self.replay is None:
            return told
        try:
            return told + self.look()._repr_html_()
        except ValueError as error:  # a model without attention answers as well
            return f"{told}<p>{escape(str(error))}</p>"

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        if self.error:
            return {"input": self.input, "error": self.error}
        score = None if math.isnan(self.score) else self.score
        described: dict[str, Any] = {"input": self.input, "text": self.text, "score": score}
        if self.ranked:
            described["ranked"] = [{"text": text, "score": score} for text, score in self.ranked]
        return described | dict(self.more)

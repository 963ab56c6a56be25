"""What comes back from a run that is asked: an answer, a score, and the way to look at how it came about."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from mirada.errors import require
from mirada.files import PLOT_ENDINGS
from mirada.words import finite

if TYPE_CHECKING:
    from PIL.Image import Image

    from mirada.looking.record import Seen


class WrittenPiece(str):
    """A piece of an answer while it is written: a `str`. If attention was asked for, it is that of one token.

    Args:
        text: What the token adds to the text; nothing, while a character is not whole.
        token: The token.
        alignments: The weights of the heads that were asked for when it was written, by layer.

    >>> WrittenPiece(" casa", "casa").token, str(WrittenPiece(" casa", "casa"))
    ('casa', ' casa')
    """

    token: str
    alignments: Mapping[str, Float[Tensor, "heads read"]]

    def __new__(cls, text: str, token: str = "", alignments: Mapping[str, Tensor] | None = None) -> "WrittenPiece":
        piece = super().__new__(cls, text)
        piece.token, piece.alignments = token, alignments or {}
        return piece

    def to_dict(self) -> dict[str, Any]:
        """What an event of the HTTP API holds."""
        if not self.alignments:
            return {"text": str(self)}
        rows = {layer: weights.tolist() for layer, weights in self.alignments.items()}
        return {"text": str(self), "token": self.token, "alignments": rows}


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer to one input, which can be looked at.

    Args:
        input: What was asked, as a person gave it.
        text: The answer as people read it.
        score: A mean log-probability or a probability, as the task says; NaN where there is none.
        value: The answer as the task computes with it.
        ranked: All labels, or the alternatives or candidates asked for, each with its score, best first.
        shown: How many of them a person wants to see; 0: only the answer.
        read: What the model read, a name for each column of `weights`.
        written: What it wrote, a name for each row of `weights`.
        weights: How much of each thing read went into each thing written, where the task has such a thing.
        alignments: The attention that was asked for, by layer: the weights of its heads, or their mean.
        links: Which word written comes from which word read, in Pharaoh's form, by layer.
        tokens: What was written, by number.
        more: What `--json` shows besides.
        note: What a person should know, such as that there is no answer in the passage.
        error: Why there is no answer, where there is none.
        replay: Reads the input again and records all attention; takes `methods=True` where that makes sense.

    >>> Answer("the film was good", "pos", 0.9).to_dict()
    {'input': 'the film was good', 'text': 'pos', 'score': 0.9}
    """

    input: str
    text: str
    score: float
    value: Any = None
    ranked: tuple[tuple[str, float], ...] = ()
    shown: int = 0
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    weights: Float[Tensor, "written read"] | None = None
    alignments: Mapping[str, Float[Tensor, "heads written _"]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    tokens: tuple[int, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    error: str = ""
    replay: Callable[..., "Seen"] | None = field(default=None, repr=False)

    @property
    def is_finite(self) -> bool:
        """Whether its numbers are numbers: damaged weights answer with NaN."""
        if self.vector is not None and not bool(self.vector.isfinite().all()):
            return False
        unscored = math.isnan(self.score) and (self.tokens or self.ranked)
        return not (
            unscored or any(math.isnan(score) for _, score in self.ranked) or finite(dict(self.more)) != dict(self.more)
        )

    @property
    def vector(self) -> Float[Tensor, " width"] | None:
        """The vector of the input, where the task makes one."""
        return self.value if isinstance(self.value, Tensor) and self.value.ndim == 1 else None

    def look(self, methods: bool = False) -> "Seen":
        """All attention of the model while it reads this input and writes this answer, exact.

        Args:
            methods: Also compare value norms, rollout, gradients and ablation: a pass for every place of the input.
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
        """A picture of what was looked at, which notebooks show.

        Args:
            layer: Its name or number; a path here is taken for `path`: `answer.plot("x.png")`.
            head: One head; by default their mean.
            path: Write the plot too: PNG, SVG or PDF.
            kind: That of `Seen.plot`.
        """
        from PIL import Image as PILImage

        if isinstance(layer, PathLike) or str(layer).lower().endswith(PLOT_ENDINGS):
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
        text = f"<p><b>{escape(self.text or self.error)}</b></p>"
        if self.replay is None:
            return text
        try:
            return text + self.look()._repr_html_()
        except ValueError as error:  # a model without attention answers as well
            return f"{text}<p>{escape(str(error))}</p>"

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        if self.error:
            return {"input": self.input, "error": self.error}
        described: dict[str, Any] = {"input": self.input, "text": self.text, "score": self.score}
        if self.ranked:
            described["ranked"] = [{"text": text, "score": score} for text, score in self.ranked]
        if self.vector is not None:
            described["vector"] = self.vector.tolist()
        if self.alignments:
            rows = {layer: weights.tolist() for layer, weights in self.alignments.items() if layer not in self.links}
            described |= {"read": list(self.read), "written": list(self.written), "alignments": {**rows, **self.links}}
        return finite(described | dict(self.more))  # type: ignore[no-any-return]

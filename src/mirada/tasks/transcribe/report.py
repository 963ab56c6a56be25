"""Heat over a recording: its spectrogram, and below it where the model listened for each written token."""

from dataclasses import dataclass, field
from math import isfinite

import numpy as np
from torch import Tensor

from mirada.data.text.tokenize import Tokenizer
from mirada.decoding.search import Hypothesis
from mirada.drawing.attention.picture import data_uri, overlay, shaded, shrunk
from mirada.drawing.attention.weights import ColorScale, Rows, cautions, compared, head, line, pieces, shown, text_of
from mirada.drawing.charts import linear
from mirada.drawing.page import Item, Markup, element, scroll
from mirada.errors import require
from mirada.looking.labels import Labels, TimeLabels, written_labels
from mirada.tasks.transcribe.recordings import HOP, Recording
from mirada.words import number, plain, weight

# Rows and columns of a transcript: what was written, and moments of a recording.


def sound_labels(
    tokenizer: Tokenizer, recording: Recording, best: Hypothesis, text: str, frames: int, logits: Tensor
) -> Labels:
    """The labels of a model that hears so many frames at once; beside the moments stands how loud they are."""
    loudness = recording.frames.astype(np.float32).mean(1)
    values = [float(loudness[first : first + frames].mean()) for first in range(0, len(loudness), frames)]
    times = TimeLabels(moments(len(values), frames), tuple(values))
    return written_labels("times", times, tokenizer, best, text, recording.name, logits)


def moments(places: int, frames: int) -> tuple[str, ...]:
    """The middles of places of so many frames.

    >>> moments(3, frames=4)
    ('0.02 s', '0.06 s', '0.10 s')
    """
    return tuple(f"{(place + 0.5) * frames * HOP:.2f} s" for place in range(places))


MOST = 900  # frames of a picture; longer recordings are shrunk
LAST = 0.88  # share of the axis after which a label would leave it


@dataclass(frozen=True, eq=False)
class SoundHeat(Item):
    """A recording as energies (frames from first to last, bands from low to high) and what was written from it.

    weights[i][j] is how much written token i listened to the j-th of equal stretches of the recording; there may be fewer
    stretches than frames. `hertz` is the upper end of the highest band, if it is to be named; `answer` is the written text,
    where the tokens do not tell it (characters).

    >>> SoundHeat(np.zeros((4, 2)), 1.0, ("a",), ((0.5, 0.5),)).empty
    False
    """

    energies: np.ndarray = field(repr=False)  # frames x bands
    seconds: float
    written: tuple[str, ...]
    weights: Rows
    wanted: str = ""
    note: str = ""
    score: float | None = None
    hertz: float | None = None
    answer: str = ""
    shows_attention = True

    def __post_init__(self) -> None:
        require(self.energies.ndim == 2, f"energies must be (frames, bands): got shape {self.energies.shape}")
        require(isfinite(self.seconds) and self.seconds > 0, f"seconds must be positive: got {self.seconds}")
        rows, tokens = len(self.weights), len(self.written)
        require(rows == tokens, f"weights must have a row per written token: got {rows} for {tokens} tokens")
        widths = sorted({len(row) for row in self.weights})
        require(len(widths) <= 1, f"rows of weights must be of one length: got lengths {widths}")

    @property
    def empty(self) -> bool:
        return not self.energies.size or not self.written or not self.weights[0]

    def draw(self) -> Markup:
        """The spectrogram, a strip of weights per token under the same axis of time, and the peaks in words."""
        tokens = pieces(self.written)
        scale = ColorScale.of(self.weights)
        strips = [
            row
            for piece, each in zip(tokens, self.weights, strict=True)
            for row in self.strip(piece.shown, each, scale)
        ]
        stretches = tuple(self.place(index) for index in range(len(self.weights[0])))
        text = self.answer or text_of(self.written)
        label = f"Spectrogram of {number(self.seconds)} seconds and weights of {len(tokens)} written tokens over it"
        return element(
            "figure",
            head(self.note, self.score),
            element(
                "dl",
                line("written", element("span", text, dir="auto", lang="", translate="no")),
                line("wanted", compared(self.wanted, text)) if self.wanted else None,
                class_="lines",
            ),
            scroll(element("div", *self.spectrogram(), *strips, class_="tracks"), label),
            element("p", scale.key(len(stretches), "ramp overlaid"), class_="keys"),
            *(element("p", text, class_="caution") for text in cautions(self.weights, stretches, "place")),
            element("details", element("summary", "Values"), self.values(shown(tokens))),
            class_="card sound-heat wide",
        )  # fmt: skip

    def spectrogram(self) -> list[Markup]:
        """The picture with its two axes."""
        # a line of pixels is a band, the highest on top
        levels = shrunk(self.energies.astype(np.float64).T[::-1], (1, -(-len(self.energies) // MOST)))
        names = (f"{number(self.hertz / 1000)} kHz", "0") if self.hertz else ("high", "low")
        ends = [element("span", name) for name in names]
        _, _, ticks = linear(0.0, self.seconds, 4, whole=False)
        marks = []
        for value, name in ticks:
            share = value / self.seconds
            text = f"{name} s" if value == ticks[-1][0] else name
            # a label at the right end stands to the left of its mark
            kind = "last" if share > LAST else None
            marks.append(element("span", text, class_=kind, style=f"left:{plain(100 * share)}%"))
        return [
            element("div", *ends, class_="bands"),
            element("img", class_="spectrogram", src=data_uri(shaded(levels)), alt="spectrogram"),
            element("span"),
            element("span"),
            element("div", *marks, class_="seconds", aria_hidden="true"),
            element("span"),
        ]  # fmt: skip

    def strip(self, token: str, weights: tuple[float, ...], scale: ColorScale) -> list[Markup]:
        """A token, its weights as a strip, and its peak in words."""
        finite = [(abs(value), index) for index, value in enumerate(weights) if isfinite(value)]
        peak = "no number"
        if finite:
            strongest = max(finite, key=lambda pair: pair[0])[1]
            peak = f"{number(weights[strongest])} at {self.place(strongest)}"
        text = f"{token}: strongest {peak}"
        return [
            element("b", element("bdi", token), class_="token-name", lang="", translate="no", title=token),
            element("img", class_="heat-strip", src=data_uri(overlay((weights,), scale)), alt=text, title=text),
            element("small", peak),
        ]

    def place(self, index: int) -> str:
        """The middle of a stretch."""
        return f"{(index + 0.5) * self.seconds / len(self.weights[0]):.2f} s"

    def values(self, tokens: tuple[str, ...]) -> Markup:
        text = "\n".join(
            f"{' '.join(weight(value, 3) for value in row)}  {token}"
            for token, row in zip(tokens, self.weights, strict=True)
        )
        return element("pre", text, class_="weights", tabindex=0, lang="", translate="no")

"""The report of a run that transcribes: recordings as spectrograms, and below each where the model listened for each token."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from mirada.drawing.attention.picture import data_uri, overlay, shaded, shrunk
from mirada.drawing.attention.weights import ColorScale, Rows, cautions, compared, head, line, pieces, shown, text_of
from mirada.drawing.charts import linear
from mirada.drawing.page import Item, Markup, Section, element, scroll
from mirada.drawing.tables import DataTable
from mirada.errors import require
from mirada.models.whisper import HALVED
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.transcribe.metrics import cell_text, edit_distance, wanted_text
from mirada.tasks.transcribe.recordings import HOP, REDUCED, SpokenRecord
from mirada.tasks.transcribe.whisper import WhisperVocabulary
from mirada.tasks.transcribe.windows import HIGHEST
from mirada.words import number, plain, weight

SHOWN = 6  # examples and errors
MOST = 900  # frames of a picture; longer recordings are shrunk
LAST = 0.88  # share of the axis after which a label would leave it


def sections(run: Run, records: Sequence[SpokenRecord], answers: Sequence[Answer]) -> list[Section]:
    """Examples, the worst errors, and what was written in the place of what."""

    def share_wrong(answer: Answer, record: SpokenRecord) -> float:
        wanted = wanted_text(run, record)
        return edit_distance(answer.text, wanted) / len(wanted)

    pairs = list(zip(answers, records, strict=True))
    wrong = [pair for pair in pairs if pair[0].text != wanted_text(run, pair[1])]
    wrong.sort(key=lambda pair: -share_wrong(*pair))
    about = (
        "The recording as a spectrogram; below it, a row for everything that was written: the darker, the more the model "
        "listened there. In a good transcript the dark places walk from left to right."
    )
    confusions = run.task.details(run, records, answers)["confusions"]
    rows = tuple((cell_text(each["wanted"]), cell_text(each["given"]), each["count"]) for each in confusions)
    worst = "Farthest from what was wanted, by the share of wrong characters."
    return [
        Section("Examples", about, tuple(_drawn_answer(run, *pair) for pair in sample_evenly(pairs, SHOWN))),
        Section("Worst errors", worst, tuple(_drawn_answer(run, *pair) for pair in wrong[:SHOWN])),
        Section("Confusions", "What was wanted, and what was written in its place.",
                (DataTable("", ("wanted", "written", "times"), rows),)),
    ]  # fmt: skip


def _drawn_answer(run: Run, answer: Answer, record: SpokenRecord) -> "SoundHeat":
    """A recording with what was written from it, and where the model listened."""
    recording = record.value[0]
    frames, place, hertz = recording.frames, REDUCED * HOP, run.options.rate / 2  # type: ignore[attr-defined]
    if isinstance(run.known, WhisperVocabulary):
        (answer,) = run.answers([recording], aligned=True)
        place, hertz = run.known.hears.place, HIGHEST
        frames = run.known.hears(frames[:, 0])[: HALVED * len(answer.read)].numpy()
    weights = () if answer.weights is None else tuple(map(tuple, answer.weights.tolist()))
    return SoundHeat(
        frames.astype(np.float32), len(answer.read) * place, answer.written, weights,
        wanted=wanted_text(run, record), note=os.path.basename(recording.name), score=answer.score, hertz=hertz,
        answer=answer.text,
    )  # fmt: skip


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
        rows = zip(tokens, self.weights, strict=True)
        strips = [part for piece, weights in rows for part in self.strip(piece.shown, weights, scale)]
        stretches = tuple(self.place(index) for index in range(len(self.weights[0])))
        text = self.answer or text_of(self.written)
        named = zip(self.weights, shown(tokens), strict=True)
        lines = [f"{' '.join(weight(value, 3) for value in row)}  {token}" for row, token in named]
        values = element("pre", "\n".join(lines), class_="weights", tabindex=0, lang="", translate="no")
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
            element("details", element("summary", "Values"), values),
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
            kind = "last" if share > LAST else None  # a label at the right end stands to the left of its mark
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

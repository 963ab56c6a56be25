"""The report of a run that captions: where it looked for every word, and what it wrote wrongly."""

from collections.abc import Sequence
from math import isqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.image import as_numbers
from mirada.drawing.attention.picture import HeatPanel, PictureHeat
from mirada.drawing.page import Section
from mirada.drawing.tables import DataTable
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.caption.captions import CaptionRecord
from mirada.tasks.caption.metrics import Misnamed, each_cider, is_right, misnamed, wanted_captions, words_of
from mirada.training.metrics import sentence_chrf

SHOWN = 4  # examples and errors
DRAWS = 100  # looks of a hard model that are counted
MOST_WORDS = 30  # rows of a table


def sections(run: Run, records: Sequence[CaptionRecord], answers: Sequence[Answer]) -> list[Section]:
    """Examples, draws of a hard model, the worst errors, and the words whose place is known."""
    pairs = list(zip(answers, records, strict=True))
    references = wanted_captions(run, records)
    alike = each_cider([answer.text for answer in answers], references)
    ranked = sorted(range(len(pairs)), key=lambda row: alike[row])
    wrong = [pairs[row] for row in ranked if not is_right(answers[row].text, references[row])]
    looks = "one cell for every word" if _is_hard(run) else "the more color, the more it looked there"
    known = run.task.details(run, records, answers).get("words", {})
    rows = tuple((word, counts["written"], counts["pointing"]) for word, counts in known.items())[:MOST_WORDS]
    words = (DataTable("Words whose place is known", ("word", "written", "pointing %"), rows),) if rows else ()
    draws = f"How often each cell was drawn for a word in {DRAWS} draws, as in training."
    return [
        Section(
            "Examples",
            f"Where the model looked while it wrote each word: {looks}.",
            tuple(heat(*pair, pair[0].weights) for pair in sample_evenly(pairs, SHOWN)),
        ),
        Section("Draws", draws, tuple(_drawn(run, *pair) for pair in sample_evenly(pairs, 2) if _is_hard(run))),
        Section(
            "Worst errors",
            "Captions that have the least in common with what was wanted (CIDEr), and where the model looked.",
            (*blame(pairs), *(heat(*pair, pair[0].weights) for pair in wrong[:SHOWN])),
        ),
        Section("Words", "", words),
    ]


def _is_hard(run: Run) -> bool:
    """Whether the model looks at one place for every word."""
    config: Any = run.model.config
    return config.decoder == "lstm" and config.gaze.startswith("hard")


def heat(answer: Answer, record: CaptionRecord, weights: Float[Tensor, "written cells"] | None) -> PictureHeat:
    """A picture with weights for every written word, and the boxes of the words whose place is known."""
    value = record.value
    if weights is None:
        return PictureHeat(value.pixels, ())
    side = isqrt(weights.shape[1])
    panels = tuple(
        HeatPanel(word, tuple(map(tuple, row.reshape(side, side).tolist())), tuple(value.boxes.get(word.lower(), ())))
        for word, row in zip(answer.written, weights, strict=True)
    )
    note = "; ".join([record.where, *map(str, errors(answer, record))])
    return PictureHeat(value.pixels, panels, wanted=_closest(answer, record), note=note, score=answer.score)


def _closest(answer: Answer, record: CaptionRecord) -> str:
    """The reference that an answer is most like."""
    return max(record.value.captions, key=lambda text: sentence_chrf(answer.text, text))


def errors(answer: Answer, record: CaptionRecord) -> list[Misnamed]:
    """The words that stand where others were wanted."""
    if answer.weights is None:
        return []
    written, size = [word.lower() for word in answer.written], len(record.value.pixels)
    return misnamed(written, words_of(_closest(answer, record)), answer.weights, record.value.boxes, size)


def blame(pairs: Sequence[tuple[Answer, CaptionRecord]]) -> tuple[DataTable, ...]:
    """How many wrong words came from a look at the wrong place, where the places are known."""
    looks = [error.looked for pair in pairs for error in errors(*pair) if error.looked is not None]
    if not looks:
        return ()
    seen = sum(looks)
    rows = (("looked at the thing and named it wrongly", seen), ("looked elsewhere", len(looks) - seen))
    return (DataTable("Wrong names of things", ("the model", "words"), rows),)


def _drawn(run: Run, answer: Answer, record: CaptionRecord) -> PictureHeat:
    """How often each cell was drawn for each word of an answer: what a hard look is in training."""
    model: Any = run.model
    pictures = as_numbers([record.value.pixels]).to(run.device)
    target = torch.tensor([[run.known.tokenizer.start, *answer.tokens[:-1]]], device=run.device)
    return heat(answer, record, model.drawn_shares(pictures, target, DRAWS)[0].cpu())

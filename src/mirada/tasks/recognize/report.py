"""The report of a run that recognizes: pictures with what the model looked at, wrong answers, and every class."""

from collections.abc import Mapping, Sequence
from functools import partial

from mirada.drawing.attention.picture import HeatPanel, PictureHeat
from mirada.drawing.page import Section
from mirada.models.vit import ViTConfig
from mirada.runs.answers import Answer
from mirada.runs.class_report import class_sections, reader_sections
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.recognize.examples import LabelledRecord, PictureClasses
from mirada.tasks.recognize.metrics import attention_on_objects, given_and_true_labels, share_on_object
from mirada.tasks.recognize.readers import PLAIN

SHOWN = 9  # examples and errors


def sections(run: Run, records: Sequence[LabelledRecord], answers: Sequence[Answer]) -> list[Section]:
    """Examples, the worst errors, and the metrics of each class."""
    pairs = list(zip(answers, records, strict=True))
    wrong = sorted((p for p in pairs if p[0].text != run.known.label_of(p[1].value)), key=lambda pair: -pair[0].score)
    shown = partial(_heat, run.known)
    about = _about_heat(run.model.config, attention_on_objects(run.known, records, answers))
    given, wanted = given_and_true_labels(run.known, answers, records)
    return [
        Section("Examples", about, tuple(shown(*pair) for pair in sample_evenly(pairs, SHOWN))),
        Section("Worst errors", "Wrong answers, the surest first.", tuple(shown(*pair) for pair in wrong[:SHOWN])),
        *reader_sections(answers, wanted, run.known.plain, PLAIN),
        *class_sections(given, wanted, run.known.labels),
    ]


def _heat(known: PictureClasses, answer: Answer, record: LabelledRecord) -> PictureHeat:
    """A picture with what the model looked at."""
    assert answer.weights is not None
    grid = answer.weights.reshape(known.grid, known.grid).tolist()
    box = () if record.value.box is None else (known.seen_box(record.value.picture, record.value.box),)
    on = share_on_object(known, record, answer)
    note = "" if on is None else f"{on[0]:.0%} on patches of the object"
    panel = HeatPanel(answer.text, tuple(map(tuple, grid)), box, note)
    square = record.value.picture.seen(known.fitting)
    picture = square if known.fitting.channels == 3 else square[..., 0]
    return PictureHeat(picture, (panel,), answer.text, known.label_of(record.value), record.where, answer.score)


def _about_heat(config: ViTConfig, on: Mapping[str, float]) -> str:
    """What the colors are, and how much of them falls on the objects, where that is known."""
    pooled = "the query that pools the patches" if config.pool == "attention" else "all patches"
    who = "the class token" if config.has_token else pooled
    text = f"The stronger the color of a patch, the more {who} looked at it in the last layer, over all heads."
    if not on:
        return text
    return (
        f"{text} Over all pictures, {on['on_object']:.0f} % of it is on patches that the object touches; even attention would "
        f"put {on['on_object_even']:.0f} % there."
    )

"""How much of the attention falls on the objects of pictures, where it is known where they are."""

from collections.abc import Sequence

import torch

from mirada.runs.answers import Answer
from mirada.tasks.recognize.examples import LabelledRecord, PictureClasses


def attention_on_objects(
    known: PictureClasses, records: Sequence[LabelledRecord], answers: Sequence[Answer]
) -> dict[str, float]:
    """The share of the attention that falls on the patches which an object touches, and what even attention would put there;
    both in percent, over the records whose boxes are known.
    """
    pairs = [share_on_object(known, *pair) for pair in zip(records, answers, strict=True)]
    shares = [pair for pair in pairs if pair is not None]
    if not shares:
        return {}
    on, even = (100 * sum(column) / len(shares) for column in zip(*shares, strict=True))
    return {"on_object": on, "on_object_even": even}


def share_on_object(known: PictureClasses, record: LabelledRecord, answer: Answer) -> tuple[float, float] | None:
    """The share of an answer's attention on the patches that the object touches, and their share of all patches."""
    if record.value.box is None or answer.weights is None:
        return None
    touched = torch.from_numpy(known.touched(record.value.picture, record.value.box))
    return float(answer.weights[0][touched].sum()), float(touched.float().mean())


def given_and_true_labels(
    known: PictureClasses, answers: Sequence[Answer], records: Sequence[LabelledRecord]
) -> tuple[list[str], list[str]]:
    """The class of every answer, and the class of every record."""
    return [answer.text for answer in answers], [known.label_of(record.value) for record in records]

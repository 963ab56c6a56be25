"""What tasks share whose inputs are pictures: which of them can be used, and batches of them, changed whenever they come."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8

from mirada.data.augment import Augmentation, numbers
from mirada.data.batch import drawn
from mirada.data.images import LabelledPicture, read_images
from mirada.data.options import DataOptions
from mirada.data.picture_set import Fitting, decode
from mirada.data.record import Problem, Record
from mirada.runs.classes import every_class_learned
from mirada.runs.sources import Source, Splits, parts_held_out, parts_of, splits_of
from mirada.training.objectives import Microbatch

LabelledRecord = Record[LabelledPicture]
Rows = Sequence[int] | Int[np.ndarray, " some"]
FEW = 2000  # records: of fewer than these, a larger share is held out
EPOCH = 6400  # pictures of an epoch at least: where there are fewer, each comes several times, changed in other ways
AUGMENTED = 1  # sets these random numbers apart from those that order an epoch


@dataclass(frozen=True, eq=False)
class PictureExamples:
    """Pictures as bytes, the numbers of their classes, and how many places a model makes of one."""

    squares: UInt8[np.ndarray, "n size size channels"]
    classes: Int[np.ndarray, " n"]
    places: int
    augmentation: Augmentation
    problems: tuple[Problem, ...] = ()
    weights: tuple[float, ...] = ()  # of the classes, where rare ones count as much as frequent ones

    def __len__(self) -> int:
        return len(self.squares)

    def part(self, rows: Rows, epoch: int) -> Microbatch:
        return self.batch(numbers(self.squares[rows]), rows)

    def batch(self, pictures: Float[np.ndarray, "n channels size size"], rows: Rows) -> Microbatch:
        given = {"pictures": torch.from_numpy(pictures), "classes": torch.from_numpy(self.classes[rows])}
        if self.weights:
            given["weights"] = torch.tensor(self.weights)[given["classes"]]
        return Microbatch(given, (len(rows),), len(rows) * self.places)

    def take(self, rows: Sequence[int]) -> Self:
        return replace(self, squares=self.squares[rows], classes=self.classes[rows])


class AugmentedExamples:
    """The same pictures, changed in another way whenever they come: a function of (seed, epoch, row).

    Where there are few, each comes several times in an epoch.
    """

    def __init__(self, examples: PictureExamples, seed: int) -> None:
        self.examples, self.seed = examples, seed
        self.times = max(1, EPOCH // max(1, len(examples)))
        self.chance: tuple[int, Any] = (-1, None)  # of one epoch: its steps come together

    def __len__(self) -> int:
        return self.times * len(self.examples)

    def part(self, rows: Rows, epoch: int) -> Microbatch:
        if self.chance[0] != epoch:
            self.chance = (epoch, drawn(len(self), self.seed, epoch, AUGMENTED))
        turns, examples = np.asarray(rows), self.examples
        mine = turns % len(examples)
        return examples.batch(examples.augmentation(examples.squares[mine], self.chance[1][turns]), mine)

    def take(self, rows: Sequence[int]) -> Self:
        return type(self)(self.examples.take([row for row in rows if row < len(self.examples)]), self.seed)


def label_of(value: LabelledPicture) -> str:
    return value.label


def labelled_splits(source: Source, options: DataOptions) -> Splits[LabelledPicture]:
    """The records of a source, divided; of few of them, more are held out than of many."""
    read = cache(read_images) if isinstance(source.data, str) else read_images
    group = lambda value: value.picture.identity.hex()  # noqa: E731  the same picture twice stays together
    splits = splits_of(source, read, options, group)
    given = source.measured or source.has_valid or options.split or parts_of(source.data)
    count = len(splits.train) + len(splits.valid)
    if not given and 2 < count < FEW:
        share = 0.2 if count < FEW / 5 else 0.1
        splits = splits_of(source, read, replace(options, split=f"{1 - share},{share}"), group)
    return every_class_learned(splits, label_of, parts_held_out(source))


def unreadable(records: Sequence[LabelledRecord], fitting: Fitting) -> list[Problem]:
    """The records whose pictures cannot be decoded."""
    faults = decode([record.value.picture for record in records], fitting)
    return [Problem(records[row].where, text.removeprefix(f"{records[row].where}: ")) for row, text in faults.items()]


def alone(record: LabelledRecord) -> Problem:
    what = f"the only picture of {record.value.label!r}. A class needs two at least: one to learn from, one to validate on."
    return Problem(record.where, what)


def without(splits: Splits[LabelledPicture], found: Sequence[Problem]) -> Splits[LabelledPicture]:
    """Splits without some bad records, which are told among the problems."""
    bad = {problem.where for problem in found}
    train, valid, test = ([r for r in part if r.where not in bad] for part in (splits.train, splits.valid, splits.test))
    return replace(splits, train=train, valid=valid, test=test, problems=[*splits.problems, *found])

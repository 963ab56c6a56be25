"""What the labels of some texts are: classes, numbers that had better be estimated, classes of very different sizes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mirada.data.columns.contents import number_first, parse_number
from mirada.data.record import Fields, Problem, TableRow
from mirada.errors import require
from mirada.runs.classes import class_details, unseen_classes
from mirada.runs.sources import Splits
from mirada.tasks.classify.targets import MANY, ONE, Target, label_scores
from mirada.words import plural, shortened

if TYPE_CHECKING:
    from mirada.tasks.classify.task import ClassifyOptions

FEW_NUMBERS = 20  # different numbers that may be classes: stars, grades, years of school
UNEVEN = 10  # times that the largest class has the records of the smallest
LISTED = 4  # classes that a note names
LIST_SHARE = 0.1  # of the labels that are divided by commas, from which all may be lists


def label_notes(labels: Sequence[str], options: "ClassifyOptions") -> list[str]:
    """What a person should know about the labels that are learned from. Measurements are refused: they are no classes.

    >>> from mirada.tasks.classify.task import ClassifyOptions
    >>> label_notes(["ham"] * 1500 + ["spam"] * 45, ClassifyOptions())
    ['the labels are uneven: 1,500 ham, 45 spam. balance=yes makes rare ones count as much as frequent ones']
    """
    counts, notes = Counter(labels), []
    numbers = [parse_number(label) for label in counts]
    if len(counts) > FEW_NUMBERS and None not in numbers:
        fractions = any(number != round(number) for number in numbers if number is not None)
        measured = fractions or len(counts) > len(labels) / 2
        text = f"the labels are {plural(len(counts), 'different number')}"
        require(
            not measured,
            f"{text}: they are no classes. `mirada train estimate` learns to estimate a number, with the same --data.",
        )
        notes.append(f"{text}, taken for classes; `mirada train estimate` learns to estimate a number")
    ordered = counts.most_common()
    if not options.balance and ordered and ordered[0][1] >= UNEVEN * ordered[-1][1]:
        few = len(ordered) <= LISTED
        shown = ordered if few else [ordered[0], ordered[-1]]
        sizes = ", ".join(f"{count:,} {shortened(label, 30)}" for label, count in shown)
        way_out = "balance=yes makes rare ones count as much as frequent ones"
        notes.append(
            f"the labels are uneven: {'' if few else 'from '}{sizes if few else sizes.replace(', ', ' to ', 1)}. {way_out}"
        )
    return notes + _notes_on_lists(counts)


def _notes_on_lists(counts: Counter[str]) -> list[str]:
    """A note if labels look like lists: many are divided by commas, into parts that others have as well."""
    lists = {label: MANY.labels_in(label) for label in counts}
    divided = sum(counts[label] for label, parts in lists.items() if len(parts) > 1)
    parts = Counter(part for some in lists.values() for part in some)
    again = all(count > 1 for count in parts.values())
    if divided < LIST_SHARE * counts.total() or len(parts) >= len(counts) or not again:
        return []
    example = next(label for label, some in lists.items() if len(some) > 1)
    return [
        f"labels look like lists ({shortened(example, 40)!r}): {len(counts):,} different ones of {plural(len(parts), 'label')}. "
        "labels=many learns every label by itself"
    ]


def with_many_labels(splits: Splits[Fields]) -> Splits[Fields]:
    """Splits whose texts have several labels each; held-out records with a label that nobody learns are problems."""
    known = sorted({label for record in splits.train for label in MANY.labels_in(record.value[1])}, key=number_first)
    unseen = unseen_labels([*splits.valid, *splits.test], known, MANY) if known else []
    return replace(splits, problems=[*splits.problems, *unseen])


def unseen_labels(records: Sequence[TableRow], known: Sequence[str], target: Target) -> list[Problem]:
    """The records with a label that does not occur in training."""
    if target is ONE:
        return unseen_classes(records, known, lambda fields: fields[1])
    new = [(r, sorted(set(target.labels_in(r.value[1])) - set(known))) for r in records]
    return [Problem(r.where, f"label {labels[0]!r} does not occur in training") for r, labels in new if labels]


def label_details(given: Sequence[str], wanted: Sequence[str], labels: Sequence[str], target: Target) -> dict[str, Any]:
    """Precision, recall and F1 of every label; of one label a text, also which was taken for which."""
    if target is ONE:
        return class_details(given, wanted, labels)
    pairs = [(set(target.labels_in(a)), set(target.labels_in(b))) for a, b in zip(given, wanted, strict=True)]
    return {"labels": list(labels), "per_class": label_scores(pairs)}

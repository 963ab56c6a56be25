"""What tasks share whose answer is one of several classes: metrics, the confusion matrix, and lines that print it."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mirada.data.columns.contents import is_number
from mirada.data.record import Problem, Record
from mirada.errors import require
from mirada.runs.sources import Splits
from mirada.training.log import PLAIN
from mirada.training.metrics import accuracy, macro_f1
from mirada.words import plural

# Weights of classes, as a run keeps them: rare classes may count as much as frequent ones.


def weight_facts(weights: tuple[float, ...]) -> dict[str, Any]:
    """What config.json holds of them: nothing where classes count as often as they come.

    >>> weight_facts(()), weight_facts((0.5, 2.0))
    ({}, {'weights': [0.5, 2.0]})
    """
    return {"weights": list(weights)} if weights else {}


def restored_weights(facts: Mapping[str, Any]) -> tuple[float, ...]:
    """What `weight_facts` kept."""
    weights = facts.get("weights", [])
    good = isinstance(weights, list) and all(isinstance(x, float) for x in weights)
    require(good, "the weights in config.json must be a list of numbers")
    return tuple(weights)


V = TypeVar("V")
LISTED = 10  # labels that an error names
CORNER = "is \\ taken for"
WIDEST = 100  # letters of a line in a terminal
MOST_NUMBERS = 20  # labels that may be numbers, each of a class
FEW = 1000  # records: a figure on fewer shows its interval


def class_metrics(given: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
    """The percentage of right answers, and the mean F1 score of the classes."""
    return {"accuracy": accuracy(given, wanted), "macro_f1": macro_f1(given, wanted)}


def class_details(given: Sequence[str], wanted: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """The labels, how often each (row) was answered with each (column), and precision, recall and F1 of every class.

    >>> found = class_details(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])
    >>> found["confusion"], found["per_class"]["b"]
    ([[1, 0], [1, 1]], {'precision': 100.0, 'recall': 50.0, 'f1': 66.66666666666667, 'records': 2})
    """
    pairs = Counter(zip(wanted, given, strict=True))
    confusion = [[pairs[row, column] for column in labels] for row in labels]
    predicted, actual, per_class = Counter(given), Counter(wanted), {}
    for label in labels:
        right, answered, there = pairs[label, label], predicted[label], actual[label]
        per_class[label] = {
            "precision": 100 * right / answered if answered else 0.0,
            "recall": 100 * right / there if there else 0.0,
            "f1": 200 * right / (answered + there) if answered + there else 0.0,
            "records": there,
        }
    return {"labels": list(labels), "confusion": confusion, "per_class": per_class}


def interval(right: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share in percent, from `right` of `count` (Wilson).

    >>> [round(end, 1) for end in interval(72, 100)]
    [62.5, 79.9]
    """
    share, z = right / max(1, count), 1.96
    middle = (share + z * z / (2 * max(1, count))) / (1 + z * z / max(1, count))
    half = z * math.sqrt(share * (1 - share) / max(1, count) + (z / (2 * max(1, count))) ** 2)
    half /= 1 + z * z / max(1, count)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def class_sentence(metrics: Mapping[str, float], details: Mapping[str, Any]) -> str:
    """The quality in a sentence for somebody who reads nothing else; empty where it was not measured by classes.

    >>> details = class_details(["a", "a", "b", "b"], ["a", "b", "b", "b"], ["a", "b"])
    >>> class_sentence({"accuracy": 75.0, "accuracy_majority": 65.0}, details)
    '3 of 4 right (95 % interval 30 to 95), 10.0 points above the most frequent answer; b is taken for a most often (1 time).'
    """
    rows = details.get("confusion")
    if not rows:
        return ""
    count, right = sum(map(sum, rows)), sum(row[place] for place, row in enumerate(rows))
    low, high = interval(right, count)
    sure = f" (95 % interval {low:.0f} to {high:.0f})" if count < FEW else ""
    plain = [(metrics[f"accuracy_{key}"], words) for key, words in PLAIN.items() if f"accuracy_{key}" in metrics]
    beside = ""
    if plain:
        best, words = max(plain)
        apart = metrics["accuracy"] - best
        beside = (
            f", as many as {words}"
            if not apart
            else f", {abs(apart):.1f} points {'above' if apart > 0 else 'below'} {words}"
        )
    labels, wrong = (
        details["labels"],
        [(n, r, c) for r, row in enumerate(rows) for c, n in enumerate(row) if n and r != c],
    )
    mistaken = ""
    if wrong:
        times, row, column = max(wrong, key=lambda item: item[0])
        mistaken = f"; {labels[row]} is taken for {labels[column]} most often ({plural(times, 'time')})"
    return f"{right:,} of {count:,} right{sure}{beside}{mistaken}."


def class_lines(details: dict[str, Any]) -> list[str]:
    """Precision, recall, F1 and records of every class, and which was taken for which, as lines for a terminal."""
    width = max([5, *(len(label) for label in details["labels"])])
    lines = [f"{'class':<{width}}  precision  recall     F1  records"]
    for label, scores in details["per_class"].items():
        lines.append(
            f"{label:<{width}}  {scores['precision']:9.1f}  {scores['recall']:6.1f}  {scores['f1']:5.1f}  "
            f"{scores['records']:7,}"
        )
    return lines + _confusion_lines(details)


def _confusion_lines(details: dict[str, Any]) -> list[str]:
    r"""How often each class was taken for each: a table where it fits a terminal, else the most frequent confusions.

    >>> for line in _confusion_lines(class_details(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])):
    ...     print(line)
    is \ taken for  a  b
    a               1  0
    b               1  1
    """
    labels, rows = details["labels"], [[f"{count:,}" for count in counts] for counts in details["confusion"]]
    first = max(map(len, (CORNER, *labels)))
    widths = [max(map(len, column)) for column in zip(labels, *rows, strict=True)]
    if first + sum(widths) + 2 * len(widths) <= WIDEST:
        named = zip((CORNER, *labels), (labels, *rows), strict=True)
        return [
            f"{name:<{first}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
            for name, cells in named
        ]
    wrong = [
        (count, row, column)
        for row, counts in zip(details["labels"], details["confusion"], strict=True)
        for column, count in zip(details["labels"], counts, strict=True)
        if row != column and count
    ]
    most = sorted(wrong, key=lambda item: -item[0])[:5]
    return [f"{row} taken for {column}: {count:,}" for count, row, column in most]


def every_class_learned(splits: Splits[V], label: Callable[[V], str], ours: Sequence[str]) -> Splits[V]:
    """Splits in which a class that only held-out records have is learned from, not measured with.

    `ours` are the parts that we held out ourselves (`parts_held_out`): what a person has divided stays as it is.
    """
    every = [label(record.value) for part in (splits.train, splits.valid, splits.test) for record in part]
    if len(set(every)) > max(MOST_NUMBERS, len(every) / 2) and all(map(is_number, every)):
        raise ValueError(
            f"{len(set(every)):,} different numbers in {plural(len(every), 'record')} are no classes. To learn numbers, train "
            "the task estimate; for classes, name what each number stands for, such as low, middle and high."
        )
    train, known = list(splits.train), {label(record.value) for record in splits.train}
    parts = {"valid": splits.valid, "test": splits.test}
    for name in ours:
        rare = [record for record in parts[name] if label(record.value) not in known]
        parts[name] = [record for record in parts[name] if label(record.value) in known] if rare else parts[name]
        train, known = train + rare, known | {label(record.value) for record in rare}
    if len(train) == len(splits.train):
        return splits
    return replace(splits, train=train, valid=parts["valid"], test=parts["test"])


def unseen_classes(records: Sequence[Record[V]], known: Sequence[str], label: Callable[[V], str]) -> list[Problem]:
    """The records whose class does not occur in training.

    >>> unseen_classes([Record("a.tsv:2", "bird")], ["cat", "dog"], str)
    [Problem(where='a.tsv:2', what="label 'bird' does not occur in training; known: cat, dog")]
    """
    shown = ", ".join(known[:LISTED]) + (", ..." if len(known) > LISTED else "")
    return [
        Problem(record.where, f"label {label(record.value)!r} does not occur in training; known: {shown}")
        for record in records
        if label(record.value) not in known
    ]

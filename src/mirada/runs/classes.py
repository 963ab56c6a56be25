"""What tasks share whose answer is one of several classes: metrics, the confusion matrix, and lines that print it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from unicodedata import category, normalize

from mirada.data.record import Problem, Record
from mirada.errors import require
from mirada.runs.sources import Splits
from mirada.training.log import PLAIN
from mirada.training.metrics import accuracy, macro_f1

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


def confusions(details: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """How often each class was taken for which other one, the most frequent first.

    >>> confusions(class_details(["a", "a", "b"], ["a", "b", "b"], ["a", "b"]))
    [(1, 'b', 'a')]
    """
    wrong = [
        (count, row, column)
        for row, counts in zip(details["labels"], details["confusion"], strict=True)
        for column, count in zip(details["labels"], counts, strict=True)
        if row != column and count
    ]
    return sorted(wrong, key=lambda item: -item[0])


def most_confused(details: Mapping[str, Any]) -> list[int]:
    """The numbers of the classes, those with the most wrong answers first, whether they were given or wanted."""
    rows = details["confusion"]
    given = [sum(column) for column in zip(*rows, strict=True)]
    wrong = [sum(row) + given[place] - 2 * row[place] for place, row in enumerate(rows)]
    return sorted(range(len(rows)), key=lambda place: -wrong[place])


def class_sentence(metrics: Mapping[str, float], details: Mapping[str, Any], plain: Mapping[str, str]) -> str:
    """How good answers are, for somebody who knows no metric; `plain` are names of baselines that say more than the usual ones.

    >>> details = class_details(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])
    >>> class_sentence({"accuracy": 66.7, "accuracy_linear": 60.0}, details, {"linear": "counting words"})
    '67 of 100 right, 6.7 points above counting words; the classes most often confused are b and a'
    """
    right = metrics["accuracy"]
    known = {key: value for key, value in (PLAIN | dict(plain)).items() if f"accuracy_{key}" in metrics}
    parts = [f"{right:.0f} of 100 right"]
    if known:
        best, words = max((metrics[f"accuracy_{key}"], words) for key, words in known.items())
        gap = round(right - best, 1)
        how = f"{abs(gap):.1f} points {'above' if gap > 0 else 'below'}" if gap else "no better than"
        parts[0] += f", {how} {words}"
    if worst := confusions(details):
        parts.append(f"the classes most often confused are {worst[0][1]} and {worst[0][2]}")
    return "; ".join(parts)


def class_lines(details: dict[str, Any]) -> list[str]:
    """Precision, recall, F1 and records of every class, and which was taken for which, as lines for a terminal."""
    width = max([5, *(len(label) for label in details["labels"])])
    lines = [f"{'class':<{width}}  precision  recall     F1  records"]
    for label, scores in details["per_class"].items():
        lines.append(
            f"{label:<{width}}  {scores['precision']:9.1f}  {scores['recall']:6.1f}  {scores['f1']:5.1f}  "
            f"{scores['records']:7,}"
        )
    return lines + _confusion_lines(details) if "confusion" in details else lines


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
    return [f"{row} taken for {column}: {count:,}" for count, row, column in confusions(details)[:5]]


def likeness(label: str) -> str:
    """What is left of a label without case, invisible characters, blanks and ways to write a letter or a number.

    >>> [likeness(label) for label in ("Neg", "neg\u200b", " NEG ", "1.0", "1", "01")]
    ['neg', 'neg', 'neg', '1.0', '1.0', '1.0']
    """
    text = "".join(letter for letter in normalize("NFKC", label) if category(letter) not in ("Cf", "Cc"))
    text = " ".join(text.casefold().split())
    try:
        return str(float(text))
    except ValueError:
        return text


def alike_notes(labels: Iterable[str]) -> tuple[str, ...]:
    """A note for every group of labels that differ by case, blanks, invisible characters or the form of a number only.

    >>> alike_notes(["pos", "neg", "Neg", "neg"])
    ("labels that look alike are classes of their own: 'Neg', 'neg'. If they are one class, write them alike.",)
    """
    groups: dict[str, list[str]] = {}
    for label in sorted(set(labels)):
        groups.setdefault(likeness(label), []).append(label)
    listed = [", ".join(map(_quoted, same[:LISTED])) for same in groups.values() if len(same) > 1]
    return tuple(
        f"labels that look alike are classes of their own: {names}. If they are one class, write them alike."
        for names in listed[:LISTED]
    )


def _quoted(label: str) -> str:
    """A label in quotes, with its invisible characters escaped."""
    return ascii(label) if not label.isprintable() else repr(label)


def every_class_learned(splits: Splits[V], label: Callable[[V], str], ours: Sequence[str]) -> Splits[V]:
    """Splits in which a class that only held-out records have is learned from, not measured with; labels that look alike are
    noted.

    `ours` are the parts that we held out ourselves (`parts_held_out`): what a person has divided stays as it is.
    """
    train, known = list(splits.train), {label(record.value) for record in splits.train}
    every = known.union(label(record.value) for part in (splits.valid, splits.test) for record in part)
    if notes := alike_notes(every):
        splits = replace(splits, notes=(*splits.notes, *notes))
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

"""What the labels of some texts are: classes, numbers that had better be estimated, classes of very different sizes."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirada.data.columns.contents import parse_number
from mirada.errors import require
from mirada.words import plural, shortened

if TYPE_CHECKING:
    from mirada.tasks.classify.task import ClassifyOptions

FEW_NUMBERS = 20  # different numbers that may be classes: stars, grades, years of school
UNEVEN = 10  # times that the largest class has the records of the smallest
LISTED = 4  # classes that a note names


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
    return notes

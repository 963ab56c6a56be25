"""Texts with labels as fastText has them: `__label__pos a fine film`, a text a line."""

import re

from mirada.data.record import Read, Sorter
from mirada.data.text import head, scan

MARK = "__label__"
LABEL = re.compile(rf"(?<!\S){MARK}(\S*)\s*")
LINES = 60  # that tell
MOST = 0.8  # of them


def is_fasttext(path: str, encoding: str = "") -> bool:
    """Whether most of the first lines have a label of fastText, first or last."""
    lines = [text.split() for text, _ in head(path, encoding, LINES) if text.strip()]
    marked = [next((word for word in (line[0], line[-1]) if word.startswith(MARK)), "") for line in lines]
    labels = [label for label in marked if label]
    cells = [label for label in labels if any(mark in label for mark in ",;|")]  # cells of a table
    return len(labels) > MOST * len(lines) and len(cells) < MOST * max(1, len(labels))


def read_fasttext(path: str, columns: tuple[str, ...], encoding: str = "") -> Read:
    r"""The texts and their labels. A text with several labels is a problem: which of them is meant, nobody can tell.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "reviews.txt")
    >>> _ = path.write_text("__label__pos a fine film\n__label__neg __label__dull a dull film\n")
    >>> found = read_fasttext(str(path), ("text", "label"))
    >>> found.records[0].value, found.problems[0].what
    (('a fine film', 'pos'), '2 labels (neg, dull): a text has one here. Keep one of them.')
    """
    sorter = Sorter(columns)
    for number, line, fault in scan(path, encoding):
        where, text, labels = f"{path}:{number}", *parted(line)
        if fault:
            sorter.refuse(where, fault)
        elif not line.strip():
            sorter.skip(where)
        elif len(labels) == 1:
            sorter.take(where, (text, labels[0]))
        elif labels:
            some = ", ".join(labels)
            sorter.refuse(where, f"{len(labels)} labels ({some}): a text has one here. Keep one of them.")
        else:
            sorter.refuse(where, f"no {MARK} in the line. Each line is {MARK}NAME text.")
    return sorter.read(f"{path}: fastText lines: the label is the word that begins with {MARK}")


def parted(line: str) -> tuple[str, list[str]]:
    """The text of a line, and its labels."""
    return LABEL.sub("", line).strip(), LABEL.findall(line)

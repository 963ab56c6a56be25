"""What divides the lines of a table into cells."""

import csv
from collections import Counter
from itertools import islice

from mirada.data.text import scan

KNOWN = (",", "\t", ";", "|")
LINES = 50  # that tell the separator


def sniffed(path: str, usual: str, count: int, encoding: str = "") -> str:
    """The character that divides most of the first lines into equally many cells, at least `count`; else the usual one."""
    lines = [text for _, text, _ in islice(scan(path, encoding), LINES) if text.strip()]
    best, share = usual, 0.0
    for delimiter in dict.fromkeys((usual or "\t", *KNOWN)):
        sizes = Counter(cells_in(line, delimiter) for line in lines)
        size, times = max(sizes.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        least = count if delimiter == usual else max(2, count)
        if size >= least and times / len(lines) > share + 0.1:  # clearly better than what came before
            best, share = delimiter, times / len(lines)
    return best


def cells_in(line: str, delimiter: str) -> int:
    """Into how many cells a line is divided; a line too long for that counts as one.

    >>> cells_in('a,"b, c"', ",")
    2
    """
    try:
        return len(next(csv.reader([line], delimiter=delimiter)))
    except csv.Error:
        return 1

"""Tables of pixels: a picture in every row, its class in a column of its own, as Kaggle has MNIST.

label,pixel0,pixel1,...    5,0,0,18,...    with a header or without one; without classes for `mirada run`
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isqrt

import numpy as np
from jaxtyping import Num

from mirada.data.columns.header import place_of
from mirada.data.files.forms import form_of
from mirada.data.files.opening import scan
from mirada.data.record import Problem
from mirada.errors import require

LEAST = 16  # pixels: a table with fewer columns is another one
SAMPLE = 500  # rows that show which column has the classes
SEPARATORS = (",", ";", "\t", " ")
DIGITS = re.compile(r"[\d\W_]+(x\d+)?")
INDEX = re.compile(r'"?(unnamed.*|id|index|imageid|row)?"?', re.IGNORECASE)


@dataclass(frozen=True)
class PixelColumns:
    """What the columns of a table are: pixels, but for the one with the classes and for one with a number of the row.

    Args:
        count: How many columns there are.
        separator: What divides them.
        header: Whether the first row has their names.
        label: The column with the classes; -1: there is none.
        index: The column with numbers of rows; -1: there is none.
        name: What the column with the classes is called.
    """

    count: int
    separator: str
    header: bool
    label: int = -1
    index: int = -1
    name: str = ""

    @property
    def side(self) -> int:
        """Pixels on a side of a picture."""
        return isqrt(self.count - (self.label >= 0) - (self.index >= 0))

    def read(self, text: str) -> tuple[Num[np.ndarray, "side side"], str]:
        """The picture and the class of a row; a ValueError if it is another kind of row."""
        cells = text.replace('"', "").split(self.separator)
        require(len(cells) == self.count, f"expected {self.count:,} columns, found {len(cells):,}.")
        label = cells[self.label].strip() if self.label >= 0 else ""
        for place in sorted((self.label, self.index), reverse=True):
            if place >= 0:
                del cells[place]
        try:
            pixels = np.fromiter(map(float, cells), np.float32, len(cells))
        except ValueError:
            pixels = np.full(len(cells), np.nan, np.float32)
        if not np.isfinite(pixels).all():
            wrong = next((cell for cell in cells if not _is_number(cell)), "")
            raise ValueError(f"a pixel is a number: got {wrong!r}.")
        require(self.label < 0 or bool(label), "there is no class in this row.")
        return pixels.reshape(self.side, self.side), label


@dataclass(frozen=True, eq=False)
class PixelTable:
    """The pictures of a table, bytes where they can be, the class of each, where each is, and what is wrong with others."""

    images: Num[np.ndarray, "n side side"]
    labels: Sequence[str]
    where: Sequence[str]
    problems: Sequence[Problem]
    columns: PixelColumns


def pixel_columns(place: str) -> PixelColumns | None:
    """What the columns of a file are, if it is a table of pixels: so many numbers in every row that they make a square.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "digits.csv")
    >>> _ = path.write_text("digit," + ",".join(f"p{n}" for n in range(16)) + "\\n" + "7," + ",".join("0" * 16) + "\\n")
    >>> columns = pixel_columns(str(path))
    >>> columns.side, columns.label, columns.name
    (4, 0, 'digit')
    """
    if not form_of(place).separator:
        return None
    lines = [text for _, text, fault in islice(scan(place), SAMPLE) if text.strip() and not fault]
    if not lines:
        return None
    separator = max(SEPARATORS, key=lines[0].count)
    rows = [[cell.strip().strip('"') for cell in line.split(separator)] for line in lines]
    count = len(rows[0])
    if count < LEAST:
        return None
    header = sum(not _is_number(cell) for cell in rows[0]) > count / 2
    body = [row for row in rows[header:] if len(row) == count]
    index = 0 if header and INDEX.fullmatch(rows[0][0]) else -1
    rest = count - (index >= 0)
    if _is_square(rest):
        return PixelColumns(count, separator, header, index=index)
    if not _is_square(rest - 1) or not body:
        return None
    label = _named_label(rows[0]) if header else None
    if label is None:
        label = _label_of(body, (index + 1, count - 1))
    return PixelColumns(count, separator, header, label, index, rows[0][label] if header else "")


def _named_label(names: Sequence[str]) -> int | None:
    """The column whose name is not like all others but for a number, or else is a usual one for classes."""
    stems = [DIGITS.sub("", name) for name in names]
    usual = Counter(stems).most_common(1)[0][0]
    others = [place for place, stem in enumerate(stems) if stem != usual and not INDEX.fullmatch(names[place])]
    return others[0] if len(others) == 1 else place_of(names, ("label",))


def _label_of(rows: Sequence[Sequence[str]], ends: tuple[int, int]) -> int:
    """Which of two columns has the classes: one of words, else one of few values, of which none is as frequent as the color
    of the paper is in a corner.
    """

    def rank(place: int) -> tuple[bool, bool, bool, float]:
        values = Counter(row[place] for row in rows)
        most = values.most_common(1)[0][1] if values else 0
        return (all(map(_is_number, values)), len(values) < 2, len(values) > max(2, len(rows) / 4), most / len(rows))

    return min(ends, key=rank)


def read_pixel_table(place: str, columns: PixelColumns) -> PixelTable:
    """All pictures of a table."""
    images, labels, where, problems = [], [], [], []
    for number, text in _rows(place, columns):
        try:
            pixels, label = columns.read(text)
        except ValueError as error:
            problems.append(Problem(f"{place}:{number}", str(error)))
            continue
        images.append(pixels)
        labels.append(label)
        where.append(f"{place}:{number}")
    require(bool(images) or bool(problems), f"{place}: there is no picture below the header.")
    together = np.stack(images) if images else np.zeros((0, columns.side, columns.side), np.float32)
    return PixelTable(_as_bytes(together), _whole(labels), where, problems, columns)


def pixel_row(place: str, columns: PixelColumns, line: int) -> Num[np.ndarray, "side side"]:
    """The picture in one line of a table."""
    for number, text in _rows(place, columns):
        if number == line:
            return _as_bytes(columns.read(text)[0])
    raise ValueError(f"{place} has no picture in line {line:,}")


def _rows(place: str, columns: PixelColumns) -> Iterable[tuple[int, str]]:
    """The numbers and texts of the lines with pictures."""
    started = not columns.header
    for number, text, _ in scan(place):
        if text.strip():
            if started:
                yield number, text
            started = True


def _as_bytes(images: Num[np.ndarray, "*n side side"]) -> Num[np.ndarray, "*n side side"]:
    """Pictures as bytes, where their numbers are those of bytes."""
    low, high = (images.min(), images.max()) if images.size else (0, 0)
    is_bytes = low >= 0 and 128 <= high <= 255 and np.array_equal(images, np.rint(images))
    return images.astype(np.uint8) if is_bytes else images


def _whole(labels: list[str]) -> list[str]:
    """Classes that are whole numbers, without a point: 5.0 is 5."""
    if labels and all(map(_is_number, labels)):
        numbers = [float(label) for label in labels]
        if all(abs(number) < 1e15 and number == int(number) for number in numbers):
            return [str(int(number)) for number in numbers]
    return labels


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _is_square(count: int) -> bool:
    return count >= LEAST and isqrt(count) ** 2 == count

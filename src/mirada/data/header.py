"""Which columns of a table are which, as people have tables: with a header or without, in any order, with others beside."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

USUAL = {  # names of columns in English and Spanish, as people write them
    "text": "text texto sentence frase oración oracion review reseña resena opinion opinión comment comentario content "
    "contenido tweet message mensaje body cuerpo document documento phrase post",
    "label": "label etiqueta class clase category categoría categoria sentiment sentimiento stars estrellas rating score "
    "puntuación puntuacion nota target tag topic tema polarity polaridad emotion emoción emocion",
    "source": "source src origen english en inglés ingles original input entrada",
    "target": "target tgt destino spanish es español espanol castellano translation traducción traduccion output salida",
    "first": "first primera sentence1 a premise premisa",
    "second": "second segunda sentence2 b hypothesis hipótesis hipotesis",
}
USUAL_NAMES = {name for names in USUAL.values() for name in names.split()}
FEW = 10  # rows that a guess needs
SHORT = 3  # words of a cell that may be a name


@dataclass(frozen=True)
class Columns:
    """Where the fields of a record stand in a row, and whether the first row only names them."""

    picked: tuple[int, ...]
    header: bool
    note: str = ""  # what was recognized, for the person


def named(cell: str, column: str) -> bool:
    """Whether a cell is a usual name of a column.

    >>> named(" Reseña ", "text"), named("stars", "label"), named("good", "label")
    (True, True, False)
    """
    return cell.strip().casefold() in (column, *USUAL.get(column, "").split())


def recognize(rows: Sequence[Sequence[str]], columns: tuple[str, ...], header: str = "") -> Columns | None:
    """The columns of a table, from its first rows; None if there are more of them than names can tell apart.

    >>> rows = [["review", "sentiment"], ["a fine film", "pos"], ["a dull film", "neg"]]
    >>> recognize(rows, ("text", "label"))
    Columns(picked=(0, 1), header=True, note='header: text is review, label is sentiment')
    >>> recognize(rows[1:], ("text", "label"))
    Columns(picked=(0, 1), header=False, note='')
    """
    first, plain = list(rows[0]), tuple(range(len(columns)))
    found = by_name(first, columns) if header != "no" else None
    if found is not None:
        pairs = ", ".join(f"{column} is {first[place].strip()}" for column, place in zip(columns, found, strict=True))
        return Columns(found, True, "" if exactly(first, columns) else f"header: {pairs}")
    if len(first) != len(columns):
        return None
    if header == "yes" or (header != "no" and looks_like_header(rows, columns)):
        turned = columns == ("text", "label") and label_first(rows[1:])
        picked = plain[::-1] if turned else plain
        pairs = ", ".join(f"{column} is {first[place].strip()}" for column, place in zip(columns, picked, strict=True))
        return Columns(picked, True, f"header: {pairs}")
    if columns == ("text", "label") and label_first(rows):
        return Columns((1, 0), False, "the label is in the first column, the text in the second")
    return Columns(plain, False)


def exactly(first: Sequence[str], columns: tuple[str, ...]) -> bool:
    """Whether a header has our own words."""
    return [cell.strip().casefold() for cell in first] == list(columns)


def by_name(first: Sequence[str], columns: tuple[str, ...]) -> tuple[int, ...] | None:
    """The places of all columns by their names, each found once; a name of our own goes before a usual one."""
    picked: list[int] = []
    for column in columns:
        own = [place for place, cell in enumerate(first) if cell.strip().casefold() == column]
        usual = [place for place, cell in enumerate(first) if named(cell, column) and place not in picked]
        places = own or usual
        if len(places) != 1 or places[0] in picked:
            return None
        picked.append(places[0])
    return tuple(picked)


def looks_like_header(rows: Sequence[Sequence[str]], columns: tuple[str, ...]) -> bool:
    """Whether the first row names columns: by a usual name, by types, or by a label that occurs nowhere else."""
    first, rest = [cell.strip() for cell in rows[0]], [row for row in rows[1:] if len(row) == len(rows[0])]
    if any(len(cell.split()) > SHORT for cell in first) or not all(first):
        return False
    sets = [Counter(row[place].strip() for row in rest) for place in range(len(first))]
    if "label" in columns and any(cell in USUAL_NAMES for cell in map(str.casefold, first)):
        return all(cell not in counts for cell, counts in zip(first, sets, strict=True))
    if len(rest) < FEW:
        return False
    for place, (cell, counts) in enumerate(zip(first, sets, strict=True)):
        if not number(cell) and all(map(number, counts)):
            return True
        repeated = len(counts) <= len(rest) / 4 and min(counts.values()) > 1
        if columns[place] == "label" and repeated and cell not in counts:
            return True
    return False


def label_first(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of two columns holds labels: few short values that come again, beside texts that do not."""
    pairs = [row for row in rows if len(row) == 2]
    if len(pairs) < FEW:
        return False
    labels, texts = ([row[place].strip() for row in pairs] for place in (0, 1))
    few = len(set(labels)) <= len(pairs) / 4 and all(len(label.split()) <= SHORT for label in labels)
    return few and len(set(texts)) > len(pairs) / 2 and len(set(texts)) > 2 * len(set(labels))


def number(text: str) -> bool:
    """Whether a cell is a number, with a point or a comma.

    >>> number("3,5"), number("-2e3"), number("five")
    (True, True, False)
    """
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True

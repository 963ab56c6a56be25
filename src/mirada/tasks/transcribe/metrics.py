"""How far texts are from the wanted ones: edits of words and of characters."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from mirada.runs.run import Run
from mirada.tasks.transcribe.recordings import SpokenRecord

NOTHING = ""  # the other side of a deletion or an insertion


def word_error_rate(given: Sequence[str], wanted: Sequence[str]) -> float:
    """WER: words replaced, deleted or inserted, in percent of the words wanted; above 100 where too much was written.

    >>> word_error_rate(["the cat sat"], ["the cat sat down"])
    25.0
    """
    return _error_rate([text.split() for text in given], [text.split() for text in wanted])


def character_error_rate(given: Sequence[str], wanted: Sequence[str]) -> float:
    """CER: the same of characters, spaces included.

    >>> round(character_error_rate(["sitting"], ["kitten"]), 1)
    50.0
    """
    return _error_rate(given, wanted)


def _error_rate(given: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """The edits of all sequences, in percent of the length of those wanted."""
    total = sum(map(len, wanted))
    edits = sum(edit_distance(one, other) for one, other in zip(given, wanted, strict=True))
    return 100 * edits / total if total else math.nan


def edit_distance(given: Sequence[str], wanted: Sequence[str]) -> int:
    """The fewest replacements, deletions and insertions that make one sequence of the other.

    Levenshtein (1966); Wagner and Fischer (1974).

    >>> edit_distance("sitting", "kitten")
    3
    """
    return _table_of_edits(given, wanted)[-1][-1]


def _table_of_edits(given: Sequence[str], wanted: Sequence[str]) -> list[list[int]]:
    """The distances of all beginnings: row i, column j is that of the first i wanted and the first j given."""
    rows = [list(range(len(given) + 1))]
    for number, want in enumerate(wanted, 1):
        row, above = [number], rows[-1]
        for place, give in enumerate(given, 1):
            row.append(min(above[place] + 1, row[-1] + 1, above[place - 1] + (want != give)))
        rows.append(row)
    return rows


def confusions(given: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> Counter[tuple[str, str]]:
    """How often what was wanted became something else: (wanted, given), with nothing where one of them is missing.

    >>> confusions(["sitting"], ["kitten"])
    Counter({('k', 's'): 1, ('e', 'i'): 1, ('', 'g'): 1})
    """
    return Counter(edit for pair in zip(given, wanted, strict=True) for edit in edits_of(*pair))


def edits_of(given: Sequence[str], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """The edits of one sequence, from its beginning: a way through the table, replacements first."""
    table = _table_of_edits(given, wanted)
    row, column = len(wanted), len(given)
    edits: list[tuple[str, str]] = []
    while row or column:
        here = table[row][column]
        if row and column and here == table[row - 1][column - 1] + (wanted[row - 1] != given[column - 1]):
            row, column = row - 1, column - 1
            if wanted[row] != given[column]:
                edits.append((wanted[row], given[column]))
        elif column and here == table[row][column - 1] + 1:
            column -= 1
            edits.append((NOTHING, given[column]))
        else:
            row -= 1
            edits.append((wanted[row], NOTHING))
    return edits[::-1]


def wanted_text(run: Run, record: SpokenRecord) -> str:
    """The text of a record; in lower case where the model does not know upper case."""
    return record.value[1].lower() if run.options.lowercase else record.value[1]  # type: ignore[attr-defined]


def normalized(text: str) -> str:
    """A text as rates of errors are often compared: composed (NFKC), in lower case, without signs, with single spaces.

    Apostrophes inside of words stay. Numbers and abbreviations are not spelled out, as the normalizer of the Whisper paper does
    for English: rates may differ from those stated with it.

    >>> normalized("Don't  stop, Mr. Smith!")
    "don't stop mr smith"
    """
    plain = unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'")
    return " ".join(re.sub(r"(?<!\w)'|'(?!\w)|[^\w\s']|_", " ", plain).split())


def cell_text(text: str) -> str:
    """A character or word as a table shows it: none and a space have a name."""
    return {"": "(nothing)", " ": "(space)"}.get(text, text)

"""The embedded texts as tables: `python -m tools.corpora.tables` writes all of them into `src/mirada/corpora` again.

A row is the set it belongs to and its fields, with tabs between them; the rows of a set stand in the order in which they are
learned. bzip2 makes them half as large as gzip does (0.8 MB instead of 1.6): their sentences are made of the same few words.
"""

import bz2
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.corpora.places import places
from tools.corpora.sentiment import sentiment
from tools.corpora.spanish.grammar import english_spanish
from tools.corpora.stories import stories

FOLDER = Path(__file__).parents[2] / "src" / "mirada" / "corpora"
SETS = ("train", "valid", "test")
Rows = Iterator[tuple[str, ...]]


def _english_spanish_rows() -> Rows:
    """English and Spanish; in the context test also the wanted word, the wrong ones, and the English word they translate."""
    grammar = english_spanish()
    for name in SETS:
        for pair in getattr(grammar, name):
            yield name, pair.english, pair.spanish
    for pair in grammar.context:
        yield "context", pair.english, pair.spanish, pair.wanted, "|".join(pair.wrong), pair.word


def _sentiment_rows() -> Rows:
    """Text and label."""
    data = sentiment()
    for name in SETS:
        for review in getattr(data, name):
            yield name, review.text, review.label


def _places_rows() -> Rows:
    """The first and the second sentence."""
    data = places()
    for name in SETS:
        for text in getattr(data, name):
            yield name, text.first, text.second


def _stories_rows() -> Rows:
    """All stories; then of each question the number of its story, its text, and the first and last place of its answer."""
    data = stories()
    numbers: dict[str, int] = {}
    for name in SETS:
        for asked in getattr(data, name):
            numbers.setdefault(asked.story, len(numbers))
    for story in numbers:
        yield "story", story
    for name in SETS:
        for asked in getattr(data, name):
            yield name, str(numbers[asked.story]), asked.question, *map(str, asked.answer or ())


TABLES: dict[str, Callable[[], Rows]] = {
    "english_spanish": _english_spanish_rows,
    "sentiment": _sentiment_rows,
    "places": _places_rows,
    "stories": _stories_rows,
}


def table(corpus: str) -> bytes:
    """The text of a table, generated again."""
    return "".join("\t".join(row) + "\n" for row in TABLES[corpus]()).encode()


if __name__ == "__main__":
    for corpus in TABLES:
        path = FOLDER / f"{corpus}.tsv.bz2"
        path.write_bytes(bz2.compress(table(corpus)))
        print(f"{path}: {path.stat().st_size:,} bytes")

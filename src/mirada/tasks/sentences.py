"""From a plain text to pairs of passages that follow each other."""

import re
from collections.abc import Iterator

from mirada.data.pack import pack_sentences
from mirada.data.records import Record
from mirada.data.text import Line, Problem, read_lines
from mirada.tasks.sources import divided
from mirada.tasks.task import Place, Splits

END = re.compile(r"(?<=[.!?…])[\"'»”)]*\s+")
WORDS = 48  # of a pair at most: tokens are not known yet, and words have few of them


def pairs_of_text(place: Place) -> Splits:
    """Pairs of consecutive passages of text files; a blank line ends a document."""
    found, problems = passages(place.data)
    if place.valid and place.valid != place.data:
        valid, more = passages(place.valid)
        return Splits(found, valid, problems=problems + more)
    if place.valid:
        return Splits((), found, problems=problems)
    return divided(found, problems)


def passages(paths: str) -> tuple[list[Record], list[Problem]]:
    """Pairs (first, second) packed from the sentences of every document."""
    records: list[Record] = []
    problems: list[Problem] = []
    for path in map(str.strip, paths.split(",")):
        paragraph: list[Line] = []
        for line in read_lines(path):
            if isinstance(line, Problem):
                problems.append(line)
            elif line.text.strip():
                paragraph.append(line)
            else:
                records += packed(paragraph)
                paragraph = []
        records += packed(paragraph)
    if not records and not problems:
        raise ValueError(f"{paths} has no two sentences that follow each other: there is nothing to learn from")
    return records, problems


def sentences(text: str) -> list[str]:
    """The sentences of a text.

    >>> sentences("Ana lee. ¿Y Luis? Duerme.")
    ['Ana lee.', '¿Y Luis?', 'Duerme.']
    """
    return [part.strip() for part in END.split(text) if part.strip()]


def packed(paragraph: list[Line]) -> Iterator[Record]:
    """As many sentences as fit, in two halves. A sentence may go on over several lines."""
    found = sentences(" ".join(line.text.strip() for line in paragraph))
    for first, last in pack_sentences([range(len(sentence.split())) for sentence in found], WORDS):
        if last - first > 1:
            middle = (first + last) // 2
            yield Record(paragraph[0].where, (" ".join(found[first:middle]), " ".join(found[middle:last])))

"""From a plain text to pairs of passages that follow each other."""

import re
from collections.abc import Iterator

from mirada.data.folders import files_note, texts_at
from mirada.data.pack import pack_sentences
from mirada.data.record import Problem, Read, Record, TableRow
from mirada.data.text import Line, read_lines

END = re.compile(r"(?<=[.!?…])[\"'»”)]*\s+")
WORDS = 48  # of a pair at most: tokens are not known yet, and words have few of them


def read_passages(paths: str, encoding: str = "") -> Read:
    """Pairs (first, second) of consecutive passages of text files or folders of them; a blank line ends a document."""
    records: list[TableRow] = []
    problems: list[Problem] = []
    files = texts_at(paths)
    for path in files:
        paragraph: list[Line] = []
        for line in read_lines(path, encoding):
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
    return Read(tuple(records), tuple(problems), files_note(paths, files))


def sentences(text: str) -> list[str]:
    """The sentences of a text.

    >>> sentences("Ana lee. ¿Y Luis? Duerme.")
    ['Ana lee.', '¿Y Luis?', 'Duerme.']
    """
    return [part.strip() for part in END.split(text) if part.strip()]


def packed(paragraph: list[Line]) -> Iterator[TableRow]:
    """As many sentences as fit, in two halves. A sentence may go on over several lines."""
    found = sentences(" ".join(line.text.strip() for line in paragraph))
    for first, last in pack_sentences([range(len(sentence.split())) for sentence in found], WORDS):
        if last - first > 1:
            middle = (first + last) // 2
            yield Record(paragraph[0].where, (" ".join(found[first:middle]), " ".join(found[middle:last])))

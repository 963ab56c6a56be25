"""Pairs of passages from plain texts: consecutive sentences, as many as fit into the two halves of a pair."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from mirada.data.files.folders import files_note, texts_at
from mirada.data.files.opening import Line, read_lines
from mirada.data.record import Problem, Read, Record, TableRow
from mirada.errors import require

SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'»”)]*\s+")
MOST_WORDS = 48  # of a pair: there is no tokenizer yet, and a word has few tokens


def read_passages(paths: str, encoding: str = "") -> Read:
    """Pairs (first, second) of consecutive passages of text files or folders of them; a blank line ends a document."""
    records, problems, files = list[TableRow](), list[Problem](), texts_at(paths)
    for path in files:
        paragraph: list[Line] = []
        for line in chain(read_lines(path, encoding), [Line(path, "")]):  # the end of a file ends a paragraph too
            if isinstance(line, Problem):
                problems.append(line)
            elif line.text.strip():
                paragraph.append(line)
            else:
                records += _packed(paragraph)
                paragraph = []
    if not records and not problems:
        raise ValueError(f"{paths} has no two sentences that follow each other: there is nothing to learn from")
    return Read(tuple(records), tuple(problems), files_note(paths, files))


def _packed(paragraph: list[Line]) -> Iterator[TableRow]:
    """Pairs of as many sentences as fit, divided in the middle. A sentence may span several lines.

    >>> [record.value for record in _packed([Line("a.txt:1", "Ana lee. ¿Y"), Line("a.txt:2", "Luis? Duerme.")])]
    [('Ana lee.', '¿Y Luis? Duerme.')]
    """
    text = " ".join(line.text.strip() for line in paragraph)
    sentences = [part.strip() for part in SENTENCE_END.split(text) if part.strip()]
    for first, last in pack_sentences([range(len(sentence.split())) for sentence in sentences], MOST_WORDS):
        if last - first > 1:
            middle = (first + last) // 2
            yield Record(paragraph[0].where, (" ".join(sentences[first:middle]), " ".join(sentences[middle:last])))


def pack_sentences(sentences: Sequence[Sequence[int]], most: int) -> list[tuple[int, int]]:
    """Ranges of consecutive sentences of one document that fill up to `most` tokens; each is sentences[first:end].

    Every sentence is in exactly one range; one that is longer than `most` has a range of its own.

    >>> pack_sentences([[1, 2], [3], [4, 5], [6, 7, 8, 9], [10]], most=5)
    [(0, 3), (3, 5)]

    Devlin et al. (2019), arXiv:1810.04805, A.2.
    """
    require(most >= 1, f"most must be at least 1: got {most}")
    starts, total = [0], 0
    for i, sentence in enumerate(sentences):
        total += len(sentence)
        if i > starts[-1] and total > most:
            starts.append(i)
            total = len(sentence)
    return list(zip(starts, [*starts[1:], len(sentences)], strict=True)) if sentences else []

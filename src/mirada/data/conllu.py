"""Sentences whose words are annotated with their heads: CoNLL-U, as Universal Dependencies has it."""

from dataclasses import dataclass
from pathlib import Path

from mirada.data.record import Found, Problem, Record
from mirada.data.text import read_lines

COLUMNS = 10


@dataclass(frozen=True)
class AnnotatedWord:
    """A word, the number of its head in the sentence (from 0; None: it is the root), and their relation."""

    form: str
    head: int | None
    relation: str  # without subtypes: nsubj, not nsubj:pass
    kind: str = ""  # the universal part of speech: NOUN, PUNCT, ...


@dataclass(frozen=True)
class AnnotatedSentence:
    """The syntactic words of a sentence: of a contraction its parts, and none of those that were left out."""

    words: tuple[AnnotatedWord, ...]

    @property
    def text(self) -> str:
        """The words with spaces between them."""
        return " ".join(word.form for word in self.words)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The characters of each word in `text`."""
        found, start = [], 0
        for word in self.words:
            found.append((start, start + len(word.form)))
            start += len(word.form) + 1
        return tuple(found)


def read_conllu(path: str | Path) -> Found[AnnotatedSentence]:
    """The sentences of a file, plain or gzipped; a bad one is a problem with its line, and reading goes on.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "x.conllu")
    >>> rows = ["1 the the DET _ _ 2 det _ _", "2 house house NOUN _ _ 0 root _ _", ""]
    >>> _ = path.write_text("\\n".join("\\t".join(row.split()) for row in rows))
    >>> read_conllu(path).records[0].value.words[0]
    AnnotatedWord(form='the', head=1, relation='det', kind='DET')
    """
    records: list[Record[AnnotatedSentence]] = []
    problems: list[Problem] = []
    rows: list[tuple[str, list[str]]] = []

    def finish() -> None:
        if rows:
            found = sentence(rows)
            if isinstance(found, Problem):
                problems.append(found)
            else:
                records.append(Record(rows[0][0], found))
        rows.clear()

    for line in read_lines(path):
        if isinstance(line, Problem):
            problems.append(line)
        elif not line.text.strip():
            finish()
        elif not line.text.startswith("#"):
            rows.append((line.where, line.text.split("\t")))
    finish()
    return Found(records, problems)


def sentence(rows: list[tuple[str, list[str]]]) -> AnnotatedSentence | Problem:
    """The rows of a sentence as its words; "3-4" (a contraction) and "5.1" (a word left out) are passed over."""
    for where, cells in rows:
        if len(cells) != COLUMNS:
            return Problem(where, f"expected {COLUMNS} columns, found {len(cells)}. CoNLL-U separates them by tabs.")
    kept = [(where, cells) for where, cells in rows if "-" not in cells[0] and "." not in cells[0]]
    words = []
    for number, (where, cells) in enumerate(kept, 1):
        if cells[0] != str(number):
            return Problem(where, f"words are numbered from 1: expected {number}, found {cells[0]!r}.")
        head = int(cells[6]) if cells[6].isascii() and cells[6].isdigit() else -1
        if not 0 <= head <= len(kept) or head == number:
            return Problem(
                where, f"the head must be 0 (the root) or another word up to {len(kept)}: found {cells[6]!r}."
            )
        words.append(AnnotatedWord(cells[1], head - 1 if head else None, cells[7].split(":")[0], cells[3]))
    return AnnotatedSentence(tuple(words)) if words else Problem(rows[0][0], "a sentence without words.")

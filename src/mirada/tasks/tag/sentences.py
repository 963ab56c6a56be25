"""Readers of tagged texts: CoNLL's columns, JSON with tokens and tags, or with a text and spans; and the words of a text."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from mirada.data.files.forms import form_of
from mirada.data.files.json import json_objects, kind_of, text_of
from mirada.data.files.memory import plain, rows_of
from mirada.data.files.opening import as_written, scan
from mirada.data.options import TextOptions
from mirada.data.record import Found, Problem, Record, check_count
from mirada.errors import require, unknown
from mirada.tasks.tag.schemes import SCHEMES, WRITTEN, WordSpan, bio, scheme_of, tags_of
from mirada.words import plural, shortened

WORDS = re.compile(r"(?<=\w)['\u2019](?:s|t|re|ve|m|ll|d)\b|[^\W_]+|[^\w\s]|_+", re.IGNORECASE)
CONLLU = {
    "id": 1, "form": 2, "lemma": 3, "upos": 4, "xpos": 5, "feats": 6, "head": 7, "deprel": 8, "deps": 9, "misc": 10,
}  # fmt: skip
NUMBER = re.compile(r"\d+")  # of a word; 3-4 are two words written as one, 3.1 is a word that is not there
ABSENT = re.compile(r"\d+[-.]\d+")
BEGINNING = "-DOCSTART-"  # of a document
TOKENS, TAGS, SPANS = ("tokens", "words"), ("tags", "labels", "ner_tags", "pos_tags"), ("spans", "entities")
FORM = '{"tokens": ["Ana", ...], "tags": ["B-PER", ...]} or {"text": ..., "spans": [{"start": 0, "end": 3, "label": "PER"}]}'
LINES = "Each line is a word and its tags, divided by tabs or blanks; an empty line ends a sentence."

Place = tuple[int, int]  # the characters of a word


class TaggedText(NamedTuple):
    """A text, the places of its words in it, and the tag of each word."""

    text: str
    words: tuple[Place, ...]
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TagOptions(TextOptions):
    """Words and their tags. `column` is the column of the tags in CoNLL's files: its number from 1, or a name of CoNLL-U
    (upos, xpos, deprel, ...); by default the last one, and upos in CoNLL-U. `scheme` is how tags begin and end spans, where it
    is not to be recognized: bio, iob1, bioes, io (labels without B- and I-) or plain (a tag a word). `hide` is the share of
    tokens that are taken for unknown ones while a model learns.
    """

    recognized: ClassVar[tuple[str, ...]] = (*TextOptions.recognized, "column")
    of_files: ClassVar[tuple[str, ...]] = (*TextOptions.of_files, "column", "scheme")

    vocab: int = 4000
    column: str = ""
    scheme: str = ""
    hide: float = 0.15

    def check(self) -> None:
        super().check()
        self.one_of("scheme", "", *SCHEMES)
        self.probability("hide")
        if self.column and self.column.lower() not in CONLLU and not re.fullmatch(r"[1-9]\d{0,3}", self.column):
            raise ValueError(
                f"column must be a number from 1, or one of {', '.join(CONLLU)}: got {self.column!r}. It is that of the tags."
            )


def words_of(text: str) -> tuple[Place, ...]:
    """The places of the words, numbers and signs of a text.

    >>> text = "Ana's train (to New-York) left."
    >>> [text[start:end] for start, end in words_of(text)]
    ['Ana', "'s", 'train', '(', 'to', 'New', '-', 'York', ')', 'left', '.']
    """
    return tuple(match.span() for match in WORDS.finditer(text))


def joined(words: Iterable[str], tags: Sequence[str] = ()) -> TaggedText:
    """Words as a text, with a blank between two of them.

    >>> joined(["Ana", "left"])
    TaggedText(text='Ana left', words=((0, 3), (4, 8)), tags=())
    """
    places, end = list[Place](), -1
    words = list(words)
    for word in words:
        places.append((end + 1, end + 1 + len(word)))
        end += 1 + len(word)
    return TaggedText(" ".join(words), tuple(places), tuple(tags))


def read_tagged(place: Any, options: TagOptions) -> Found[TaggedText]:
    """The tagged texts of a file or of a value in memory, with tags as they are written there."""
    if isinstance(place, str) and form_of(place).objects is None:
        return _Columns(place, options).read()
    if isinstance(place, str):
        if form_of(place).endings == (".parquet",):
            raise ValueError(f"{place}: lists of words do not come from Parquet here. Write JSON lines: {FORM}")
        objects: Iterator[tuple[str, Any, str]] = (
            (f"{place}:{number}", value, fault)
            for number, value, fault in json_objects(place, options.encoding, as_written)
        )
    else:
        objects = _in_memory(place)
    records, problems = list[Record[TaggedText]](), list[Problem]()
    widened = [0]
    for where, value, fault in objects:
        try:
            require(not fault, fault)
            require(value is not None, "empty line. Take it out.")
            records.append(Record(where, _of_object(value, widened)))
        except ValueError as error:
            check_count(len(problems), where, str(error))
            problems.append(Problem(where, str(error)))
    notes = [f"{plural(widened[0], 'span')} began or ended within a word: widened to whole words"] if widened[0] else []
    return Found(records, problems, notes)


def normalized(
    parts: Mapping[str, Sequence[Record[TaggedText]]], asked: str
) -> tuple[dict[str, list[Record[TaggedText]]], str, str]:
    """Records with the tags that are learned, the scheme, and a line that says what was recognized. The first part decides."""
    first: Sequence[Record[TaggedText]] = next((records for records in parts.values() if records), ())
    scheme = asked or scheme_of(record.value.tags for record in first)
    sets = {
        name: [Record(record.where, record.value._replace(tags=bio(record.value.tags, scheme))) for record in records]
        for name, records in parts.items()
    }
    return sets, scheme, "" if asked or not first else f"tags are {WRITTEN[scheme]} (scheme={scheme})"


# Objects: tokens with tags, or a text with spans.


def _in_memory(data: Any) -> Iterator[tuple[str, Any, str]]:
    """Objects, pairs of words and tags, or a dict or data frame with these columns."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = [str(name) for name in (data if isinstance(data, Mapping) else data.columns)]
        rows = (dict(zip(names, row, strict=True)) for row in rows_of(data, (), tuple(names)))
        yield from ((f"row {number}", row, "") for number, row in enumerate(rows, 1))
        return
    for number, row in enumerate(rows_of(data, ("tokens", "tags"), ()), 1):
        if len(row) == 1 and isinstance(row[0], Mapping):
            yield f"row {number}", row[0], ""
        elif len(row) == 2:
            yield f"row {number}", {"tokens": row[0], "tags": row[1]}, ""
        else:
            yield f"row {number}", None, f"expected words and their tags: found {plural(len(row), 'value')}."


def _of_object(value: Mapping[str, Any], widened: list[int]) -> TaggedText:
    """The tagged text of an object; a ValueError says what is wrong with it. `widened` counts spans within words."""
    tokens, tags, spans = (next((key for key in keys if key in value), "") for keys in (TOKENS, TAGS, SPANS))
    if tokens:
        require(bool(tags), f"no 'tags' beside the {tokens}. Each object is {FORM}.")
        texts, given = _texts(value[tokens], tokens), _texts(value[tags], tags)
        same = len(texts) == len(given)
        require(same, f"{plural(len(texts), 'word')} and {plural(len(given), 'tag')}. Give each word one tag.")
        return joined(texts, given)
    if "text" not in value:
        raise ValueError(f"{unknown('key', next(iter(value), ''), ('tokens', 'text'))} Each object is {FORM}.")
    text, fault = text_of(plain(value["text"]), as_written)
    require(not fault, f"text is {fault}.")
    require(bool(text.strip()), "no text in the object. Fill it in, or take the record out.")
    found = value.get(spans, []) if spans else []
    require(
        bool(spans) and isinstance(found, list | tuple), f"no list of 'spans' beside the text. Each object is {FORM}."
    )
    words = words_of(text)
    starts, taken = [end for _, end in words], list[WordSpan]()
    for span in found:
        start, end, label = _place(span, text)
        first = bisect_left(starts, start + 1)
        last = max((place for place in range(first, len(words)) if words[place][0] < end), default=-1)
        require(last >= first, f"the span {start} to {end} has no word: {text[start:end]!r}.")
        widened[0] += words[first][0] < start or words[last][1] > end
        taken.append(WordSpan(first, last, label))
    taken.sort()
    for one, other in pairwise(taken):
        require(one.last < other.first, f"the spans of {one.label} and {other.label} overlap: each word has one tag.")
    return TaggedText(text, words, tags_of(taken, len(words)))


def _texts(value: Any, name: str) -> list[str]:
    """A list of texts that are not empty."""
    value = value.tolist() if hasattr(value, "tolist") else value
    require(isinstance(value, list | tuple) and len(value) > 0, f"{name} is {kind_of(value)}, not a list of texts.")
    for item in value:
        good = isinstance(item, str) and type(item) is str and item.strip()
        names = " Write the names of the tags." if not isinstance(item, str) or type(item) is not str else ""
        require(bool(good), f"{name} has {str(item)!r}, which is no text.{names}")
        fault = text_of(item, as_written)[1]
        require(not fault, f"{name} has a text that is {fault}.")
    return [item.strip() for item in value]


def _place(span: Any, text: str) -> tuple[int, int, str]:
    """Start, end and label of a span, without blanks around it; it is an object or a list of these three."""
    if isinstance(span, list | tuple) and len(span) == 3:
        span = dict(zip(("start", "end", "label"), span, strict=True))
    whole = isinstance(span, Mapping) and {"start", "end", "label"} <= span.keys()
    require(whole, f"a span needs start, end and label: got {shortened(str(span), 60)!r}. {FORM.split(' or ')[1]}")
    try:
        start, end = int(str(span["start"])), int(str(span["end"]))
    except ValueError:
        raise ValueError(
            f"the start and end of a span are characters from 0: got {span['start']!r}, {span['end']!r}."
        ) from None
    inside = 0 <= start < end <= len(text)
    require(inside, f"the span {start} to {end} does not lie in the text, which has {plural(len(text), 'character')}.")
    label = span["label"]
    require(isinstance(label, str) and bool(label.strip()), f"the label of a span must be a text: got {label!r}.")
    inner = text[start:end]
    require(bool(inner.strip()), f"the span {start} to {end} has no word: {inner!r}.")
    return start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip()), label.strip()


# Columns: a word a line.


@dataclass
class _Columns:
    """A file of CoNLL that is being read: a line for a word, an empty line after a sentence."""

    path: str
    options: TagOptions
    tagged: bool = True  # whether tags are wanted; without them, lines may hold words alone
    records: list[Record[TaggedText]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    tabs: bool = False
    columns: int = 0  # of the first line with a word
    universal: bool = False  # whether it is CoNLL-U
    word: int = 0
    tag: int = -1

    def read(self) -> Found[TaggedText]:
        """All sentences; one with a bad line is a problem."""
        where, rows, bad = "", list[tuple[str, str]](), False
        for number, line, fault in scan(self.path, self.options.encoding, as_written):
            here = f"{self.path}:{number}"
            if not fault and not line.strip():
                self._end(where, rows, bad)
                where, rows, bad = "", [], False
                continue
            where = where or here
            if not self.columns and not fault and not _is_aside(line):
                self._recognize(line, here)
            try:
                require(not fault, fault)
                row = self._row(line, first=not rows)
            except ValueError as error:
                check_count(len(self.problems), here, str(error))
                self.problems.append(Problem(here, str(error)))
                bad = True
                continue
            if row is not None:
                where = where if rows else here
                rows.append(row)
        self._end(where, rows, bad)
        require(bool(self.columns), f"{self.path}: no line has a word. {LINES}")
        kind = "CoNLL-U, " if self.universal else ""
        note = f"{self.path}: {kind}words in column {self.word + 1}, tags in column {self.tag % self.columns + 1}"
        return Found(self.records, self.problems, [note] if self.tagged and not self.options.column else [])

    def _end(self, where: str, rows: Sequence[tuple[str, str]], bad: bool) -> None:
        """The end of a sentence."""
        if rows and not bad:
            words, tags = zip(*rows, strict=True)
            self.records.append(Record(where, joined(words, tags if self.tagged else ())))

    def _row(self, line: str, first: bool) -> tuple[str, str] | None:
        """The word and the tag of a line; None for a comment, the beginning of a document, or a word that is not in the text."""
        if not self.columns:
            return None
        cells = [cell.strip() for cell in line.split("\t")] if self.tabs else line.split()
        if cells and cells[0] == BEGINNING:
            return None
        if line.startswith("#") and (self.universal or (first and len(cells) != self.columns)):
            return None
        if len(cells) != self.columns:
            found = plural(len(cells), "column")
            raise ValueError(f"expected {self.columns} columns, found {len(cells)}. {LINES}" if found else LINES)
        if self.universal and ABSENT.fullmatch(cells[0]):
            return None
        word, tag = cells[self.word], cells[self.tag] if self.tagged else ""
        require(bool(word), "no word in the line. Fill it in, or take the sentence out.")
        require(bool(tag) or not self.tagged, f"no tag for {word!r}. Words outside of all spans have the tag O.")
        return word, tag

    def _recognize(self, line: str, here: str) -> None:
        """The form of the file, from its first line with a word. Where it has no such column, nothing in it can be used."""
        self.tabs = "\t" in line.strip()
        cells = line.rstrip("\r\n").split("\t") if self.tabs else line.split()
        self.columns = len(cells)
        self.universal = len(cells) == len(CONLLU) and bool(NUMBER.match(cells[0]))
        self.word = 1 if self.universal else 0
        column = self.options.column.lower()
        require(
            column not in CONLLU or self.universal,
            f"{here}: column={column} is one of CoNLL-U, whose lines have {len(CONLLU)} columns: found {self.columns}. "
            "Give its number.",
        )
        self.tag = CONLLU.get(column, int(column) if column.isdecimal() else 0) - 1
        self.tag = CONLLU["upos"] - 1 if self.universal and not column else self.tag
        found = f"{here}: expected a word and its tag, found {plural(self.columns, 'column')}. {LINES}"
        require(not self.tagged or self.columns > 1, found)
        missing = f"{here}: there is no column {self.tag + 1}: the line has {self.columns}. Give another column=."
        require(not self.tagged or self.tag < self.columns, missing)


def _is_aside(line: str) -> bool:
    """Whether a line before all words is a comment or the beginning of a document."""
    return line.startswith(BEGINNING) or (line.startswith("# ") and "=" in line)


def read_untagged(path: str, options: TagOptions) -> list[Record[TaggedText]]:
    """The sentences of a file of CoNLL without their tags."""
    found = _Columns(path, options, tagged=False).read()
    if found.problems:
        raise ValueError(str(found.problems[0]))
    return list(found.records)

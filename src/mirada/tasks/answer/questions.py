"""Readers of questions about passages that contain the answers: SQuAD's JSON, JSON lines, rows in memory.

place -> entries (a question, its passage and its answers, as given) -> spans of characters, and problems of bad entries
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from mirada.data.columns.header import place_of
from mirada.data.columns.names import match_names
from mirada.data.files.cells import read_cells
from mirada.data.files.forms import JSON, JSONL, Objects, ending_of, form_of
from mirada.data.files.json import SAMPLE, Number, decoded, joined_lines, json_objects, kind_of, text_of
from mirada.data.files.memory import plain, rows_of
from mirada.data.files.opening import as_written, nfc
from mirada.data.options import TableOptions
from mirada.data.record import Found, Problem, Record
from mirada.errors import require, unknown
from mirada.runs.inputs import Question, Questions
from mirada.tasks.answer.reading import CharacterSpan, PassageQuestion
from mirada.words import plural, shortened

TEXTS = ("question", "context")
COLUMNS = (*TEXTS, "answer", "start")  # the last two are optional; `INSTEAD` may replace them
INSTEAD = ("answers", "is_impossible")
FORM = '{"question": ..., "context": ..., "answer": ..., "start": ...}'
PARAGRAPH = '{"context": ..., "qas": [{"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}'
SQUAD = f'{{"data": [{{"paragraphs": [{PARAGRAPH}]}}]}}'
NOTES = {
    "empty": "{} empty and not used: the question has others",
    "moved": "{} not at its start: the only occurrence in the passage is used",
    "first": "{} ambiguous: several occurrences in the passage and no start; the first is used",
}
NO_PASSAGE = "no passage. Give it in a column context, or one for all with --passage."
AS_IT_COMES = TableOptions()


class Entry(NamedTuple):
    """One question of the data with our keys (`values`) and with the keys of the file (`given`); or what is wrong with it."""

    where: str
    values: Mapping[str, Any] = MappingProxyType({})
    fault: str = ""
    given: Mapping[str, Any] = MappingProxyType({})  # empty if the keys are ours


def read_questions(place: Any, options: TableOptions = AS_IT_COMES) -> Found[PassageQuestion]:
    r"""The questions of a file or of a value in memory, with their answers.

    Texts are not normalized, so that a start counts the characters of the file.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "qa.jsonl")
    >>> _ = path.write_text('{"question": "Who?", "context": "Ana left.", "answer": "Ana"}\n{"question": "Who?"}\n')
    >>> found = read_questions(str(path))
    >>> found.records[0].value.spans
    ((0, 3),)
    >>> found.problems[0].what
    "no 'context' in the object."
    """
    records, problems = list[Record[PassageQuestion]](), list[Problem]()
    counts, keys = Counter[str](), dict[str, None]()
    entries, note = _entries(place, options)
    for entry in entries:
        keys |= dict.fromkeys(entry.values)
        try:
            require(not entry.fault, entry.fault)
            records.append(Record(entry.where, _question_of(entry.values, counts)))
        except ValueError as error:
            problems.append(Problem(entry.where, str(error)))
    before = f"{place}: " if isinstance(place, str) else ""
    absent = [name for name in TEXTS if name not in keys]
    if absent and keys:
        message = unknown("key", absent[0], keys)
        raise ValueError(f"{before}{message} columns=QUESTION,CONTEXT,ANSWER says which to read.")
    notes = [before + note] if note else []
    for kind, text in NOTES.items():
        verb = "is" if counts[kind] == 1 else "are"
        notes += [before + text.format(f"{plural(counts[kind], 'answer')} {verb}")] if counts[kind] else []
    return Found(records, problems, notes)


def read_unanswered(place: str, options: TableOptions = AS_IT_COMES, passage: str = "") -> Questions:
    """The columns and rows of a file of questions without answers: SQuAD, JSON lines, a table, lines of text.

    `passage` is used for questions that have none of their own.
    """
    rows: list[Question] = []
    if form_of(place).objects is None:  # questions in a column of a table, or one a line
        table = read_cells(place, TEXTS[:1], options)
        places = {"question": table.input}
        context = place_of(table.columns, options.names[1:2] or (TEXTS[1], "passage", "contexto", "pasaje"), exact=True)
        places |= {} if context is None else {"context": context}
        for where, cells, fault in table.rows:
            values = {} if fault else {name: cells[column] for name, column in places.items()}
            rows.append(_unanswered(where, values, cells, passage, fault))
        return Questions(table.columns, rows)
    entries = [(entry, entry.given or entry.values) for entry in _entries(place, options)[0]]
    nested = (list, dict)  # not values of a cell
    columns = dict.fromkeys(name for _, given in entries for name, x in given.items() if not isinstance(x, nested))
    for entry, given in entries:
        row = [given.get(name, "") for name in columns]
        cells = tuple("" if isinstance(x, nested) else x for x in row)
        rows.append(_unanswered(entry.where, entry.values, cells, passage, entry.fault))
    return Questions(tuple(columns), rows)


def _unanswered(where: str, values: Mapping[str, Any], cells: tuple[Any, ...], passage: str, fault: str) -> Question:
    """A row with its question and passage, or with what is wrong with them."""
    values = {"context": passage, **values}
    try:
        require(not fault, fault)
        require(bool(values["context"]), NO_PASSAGE)
        return Question(where, PassageQuestion(*_texts_of(values)), cells)
    except ValueError as error:
        return Question(where, "", cells, str(error))


# From an entry to a question. A ValueError says what is wrong with the entry.


def _question_of(values: Mapping[str, Any], counts: Counter[str]) -> PassageQuestion:
    """The question of an entry with its answers; `counts` is increased for the answers that `NOTES` describe."""
    question, passage = _texts_of(values)
    references = _references_of(values)
    filled = [pair for pair in references if plain(pair[0]) is not None and pair[0] != ""]
    empty = "no text for answer. Fill it in; where the passage has no answer, say so: null, or answers: []."
    require(bool(filled) or not references, empty)
    counts["empty"] += len(references) - len(filled)
    spans = []
    for value, start in filled:
        text, fault = text_of(plain(value), as_written)
        require(not fault, f"answer is {fault}.")
        require(bool(text.strip()), "no text for answer.")
        spans.append(located(passage, text, plain(start), counts))
    return PassageQuestion(question, passage, tuple(spans))


def _texts_of(values: Mapping[str, Any]) -> tuple[str, str]:
    """The question and the passage of an entry. Spaces of the passage are kept: starts count them."""
    texts = []
    for name in TEXTS:
        require(name in values, f"no {name!r} in the object.")
        text, fault = text_of(plain(values[name]), as_written)
        require(not fault, f"{name} is {fault}.")
        require(bool(text.strip()), f"no text for {name}. Fill it in, or take the record out.")
        texts.append(text)
    return texts[0].strip(), texts[1]


def _references_of(values: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The answers of an entry with their starts (or None), from a list as in SQuAD, columns of texts and starts, or plain text.

    >>> _references_of({"answers": {"text": ["Ana"], "answer_start": [7]}})
    [('Ana', 7)]
    """
    if values.get("is_impossible") is True:
        return []
    require("answers" in values or "answer" in values, "no 'answer' in the object.")
    answers = values.get("answers", values.get("answer"))
    if "answers" not in values and not isinstance(answers, list | tuple):
        one = answers if isinstance(answers, dict) else {"text": answers, "start": values.get("start")}
        answers = [] if plain(answers) is None else [one]
    if isinstance(answers, Mapping):
        texts, starts = list(answers.get("text", ())), list(answers.get("answer_start", ()))
        return list(zip(texts, starts or [None] * len(texts), strict=False))
    require(isinstance(answers, list | tuple), f"answers is {kind_of(answers)}, not a list.")
    objects = [item if isinstance(item, Mapping) else {"text": item} for item in answers]
    complete = all("text" in item for item in objects)
    require(complete, "an answer without 'text'. Each is an object with text and answer_start.")
    return [(item["text"], item.get("answer_start", item.get("start"))) for item in objects]


def located(passage: str, text: str, start: Any, counts: Counter[str]) -> CharacterSpan:
    """The span of an answer in its passage, without surrounding spaces.

    >>> located("Ana saw Ana.", "Ana", 8, Counter())
    (8, 11)
    >>> located("Ana saw Luis.", "Eva", None, Counter())
    Traceback (most recent call last):
    ValueError: the answer does not occur in its passage: 'Eva'.
    """
    bare, before = text.strip(), len(text) - len(text.lstrip())
    digits = isinstance(start, Number) and re.fullmatch(r"-?\d{1,15}", start)
    if digits or (isinstance(start, float) and start.is_integer()):  # a column of a data frame with gaps has floats
        start = int(start)
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        raise ValueError(f"start is {start if isinstance(start, Number) else kind_of(start)}, not a whole number.")
    if start is not None and start >= 0 and passage.startswith(bare, start + before):
        return (start + before, start + before + len(bare))
    places = occurrences(passage, bare)
    if not places:
        composed = nfc(bare) in nfc(passage)
        hint = " It does once accents are composed: save both in one form (NFC)." if composed else ""
        raise ValueError(f"the answer does not occur in its passage: {shortened(bare, 40)!r}.{hint}")
    if start is not None and len(places) > 1:
        there = passage[max(0, start) : max(0, start) + len(text)]
        raise ValueError(
            f"the answer is not at its start: {shortened(bare, 40)!r} occurs {len(places)} times, and at {start} the passage "
            f"has {shortened(there, 40)!r}. Count characters from 0, or omit the start."
        )
    if start is not None or len(places) > 1:
        counts["first" if start is None else "moved"] += 1
    return (places[0], places[0] + len(bare))


def occurrences(passage: str, text: str) -> list[int]:
    """The starts of a text in a passage as separate words; if there are none, all its starts.

    >>> occurrences("an Ana and an", "an"), occurrences("Banana", "an")
    ([0, 11], [1, 3])
    """
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", passage)]

    def stands_alone(place: int) -> bool:
        around = passage[max(0, place - 1) : place + 1], passage[place + len(text) - 1 : place + len(text) + 1]
        return not any(len(pair) == 2 and pair.isalnum() for pair in around)

    return [place for place in places if stands_alone(place)] or places


# From a place to entries.


def _entries(place: Any, options: TableOptions) -> tuple[Iterator[Entry], str]:
    """The entries of a file or of a value in memory, and a note about the keys that were recognized."""
    names = options.names
    rule = f"columns= must name {', '.join(COLUMNS[:3])} and perhaps start"
    require(not names or 2 <= len(names) <= len(COLUMNS), f"{rule}: got {len(names)} ({','.join(names)})")
    form = form_of(place) if isinstance(place, str) else None
    if form is None:
        columns = None
        if isinstance(place, Mapping) or hasattr(place, "columns"):
            columns = [str(name) for name in (place if isinstance(place, Mapping) else place.columns)]
        rows = place if isinstance(place, list | tuple) else ()
        renamed = _our_keys(rows if columns is None else [dict.fromkeys(columns)], names)
        entries = _in_memory(place, columns, renamed)
    elif form is JSON:
        value = _whole_json(place, options.encoding)
        renamed = _our_keys(value if isinstance(value, list) else (), names)
        entries = _in_json(place, value, renamed)
    elif form is JSONL:
        objects = json_objects(place, options.encoding, as_written)
        sample = list(islice(objects, SAMPLE))
        renamed = _our_keys((value for _, value, _ in sample), names)
        entries = _in_lines(place, chain(sample, objects), renamed)
    else:
        known = unknown("format", ending_of(place), (*JSON.endings, *JSONL.endings))
        raise ValueError(f"{place}: {known} Questions come as SQuAD JSON, or as JSON lines: {FORM}")
    pairs = ", ".join(f"{name} is {key}" for key, name in renamed.items())
    return entries, f"keys: {pairs}" if pairs and not names else ""


def _in_lines(path: str, objects: Objects, renamed: Mapping[str, str]) -> Iterator[Entry]:
    """The objects of JSON lines; empty lines at the end are ignored."""
    blank: list[Entry] = []
    for number, value, fault in objects:
        where = f"{path}:{number}"
        if value is None and not fault:
            blank.append(Entry(where, fault="empty line. Take it out."))
            continue
        yield from blank
        blank = []
        yield Entry(where, fault=fault) if fault else _under_our_names(where, value, renamed)


def _whole_json(path: str, encoding: str) -> Any:
    """The value of a JSON file, with errors that show the expected form."""
    text = joined_lines(path, encoding, as_written)
    try:
        return decoded(text)
    except json.JSONDecodeError as error:
        is_lines = error.msg == "Extra data"
        hint = "One object a line is JSON lines: name the file .jsonl." if is_lines else f"Expected {SQUAD}."
        raise ValueError(f"{path}:{error.lineno}: not JSON: {error.msg} at character {error.colno}. {hint}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}. Expected {SQUAD}.") from None


def _in_json(path: str, value: Any, renamed: Mapping[str, str]) -> Iterator[Entry]:
    """The questions of SQuAD's form, or of a list of objects."""
    if isinstance(value, list):
        for number, item in enumerate(value, 1):
            where = f"{path}, item {number}"
            if isinstance(item, dict):
                yield _under_our_names(where, item, renamed)
            else:
                yield Entry(where, fault=f"expected an object, found {kind_of(item)}. Each item is {FORM}.")
        return
    keys = ", ".join(value) if isinstance(value, dict) else kind_of(value)
    squad = isinstance(value, dict) and isinstance(value.get("data"), list)
    require(squad, f"{path}: not in SQuAD's form: expected {SQUAD}, found {keys or 'an empty object'}.")
    yield from _in_squad(f"{path}, ", value["data"])


def _in_squad(before: str, articles: Sequence[Any]) -> Iterator[Entry]:
    """The questions of SQuAD's articles, each with the passage of its paragraph."""
    names, number = set[str](), 0
    for a, article in enumerate(articles):
        for p, paragraph in enumerate(_listed(article, "paragraphs") or [None]):
            questions = _listed(paragraph, "qas")
            if questions is None:
                what = "paragraphs" if paragraph is None else f"paragraphs[{p}].qas"
                yield Entry(f"{before}data[{a}]", fault=f"no list of {what}. Expected {SQUAD}.")
                continue
            for item in questions:
                number += 1
                name = str(item.get("id", number)) if isinstance(item, dict) else str(number)
                where = f"{before}question {name} ({number})" if name in names else f"{before}question {name}"
                names.add(name)
                values = {"context": paragraph.get("context"), **item} if isinstance(item, dict) else {}
                yield Entry(where, values, "" if values else f"expected an object, found {kind_of(item)}.")


def _listed(value: Any, key: str) -> list[Any] | None:
    """The list under a key of an object, if there is one."""
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else None


def _in_memory(data: Any, columns: list[str] | None, renamed: Mapping[str, str]) -> Iterator[Entry]:
    """Rows in the usual order, objects, a dict or a data frame with these columns, or a loaded SQuAD file."""
    if isinstance(data, Mapping) and isinstance(data.get("data"), list) and "question" not in data:
        yield from _in_squad("", data["data"])
        return
    names: Sequence[str] = COLUMNS
    if columns is not None:
        ours = {renamed.get(name, name): name for name in columns}
        names = (*TEXTS, *(name for name in ("answer", "answers", "start", "is_impossible") if name in ours))
        theirs = tuple(ours.get(name, name) for name in names)
        data = rows_of(data, theirs, theirs)
    for number, row in enumerate(rows_of(data, COLUMNS, COLUMNS), 1):
        where = f"row {number}"
        if len(row) == 1 and isinstance(row[0], Mapping):
            yield _under_our_names(where, row[0], renamed)
        elif columns is None and not 2 <= len(row) <= len(COLUMNS):
            expected = "expected question, context, answer and perhaps start"
            yield Entry(where, fault=f"{expected}: found {plural(len(row), 'value')}.")
        else:
            yield Entry(where, dict(zip(names, row, strict=False)))


def _under_our_names(where: str, value: Mapping[str, Any], renamed: Mapping[str, str]) -> Entry:
    """An object with its keys renamed to ours."""
    return Entry(where, {renamed.get(key, key): item for key, item in value.items()}, given=value)


def _our_keys(objects: Iterable[Any], names: Sequence[str]) -> dict[str, str]:
    """Our names for keys of objects: from `names`, in our order; else for missing keys the usual aliases.

    >>> _our_keys([{"pregunta": "a", "pasaje": "b", "answer": "c"}], ())
    {'pregunta': 'question', 'pasaje': 'context'}
    """
    if names:
        return dict(zip(names, COLUMNS, strict=False))
    known = list(dict.fromkeys(str(key) for value in objects if isinstance(value, Mapping) for key in value))
    answered = not set(INSTEAD).isdisjoint(known)
    missing = tuple(name for name in COLUMNS if name not in known and not (name == "answer" and answered))
    free = [key for key in known if key not in COLUMNS and key not in INSTEAD]
    places = match_names(free, missing).picked
    return {free[place]: name for name, place in zip(missing, places, strict=True) if place is not None}

"""Questions about passages whose answers stand in them: SQuAD's JSON, JSON lines, rows in memory.

place -> entries (what stands for a question, its passage and its answers) -> spans of characters, and the bad ones named
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
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
from mirada.tasks.answer.reading import CharacterSpan, PassageQuestion
from mirada.words import plural, shortened

TEXTS = ("question", "context")


def _understood(found: Mapping[str, Any], counts: Counter[str]) -> tuple[PassageQuestion | None, list[str]]:
    """The question of an entry, and what is wrong with it. `counts` is told what had to be found out."""
    texts, faults = _texts_of(found)
    references, fault = _references_of(found)
    if faults or fault:
        return None, [*faults, *filter(None, [fault])]
    passage, spans = texts[1], []
    given = [pair for pair in references if not _is_missing(pair[0]) and pair[0] != ""]
    if references and not given:
        return None, ["no text for answer. Fill it in; where the passage has no answer, say so: null, or answers: []."]
    counts["empty"] += len(references) - len(given)
    for value, start in given:
        text, fault = text_of(plain(value), as_written)
        fault = f"answer is {fault}." if fault else "no text for answer." if not text.strip() else ""
        span, fault = (None, fault) if fault else located(passage, text, plain(start), counts)
        faults += [fault] if fault else []
        spans += [span] if span is not None else []
    return PassageQuestion(texts[0], passage, tuple(spans)), faults


def _texts_of(found: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The question and the passage of an entry, and what is wrong with them. A passage keeps its spaces: starts count them."""
    texts, faults = [], []
    for name in TEXTS:
        if name not in found:
            faults.append(f"no {name!r} in the object.")
            continue
        text, fault = text_of(plain(found[name]), as_written)
        if fault:
            faults.append(f"{name} is {fault}.")
        elif not text.strip():
            faults.append(f"no text for {name}. Fill it in, or take the record out.")
        texts.append(text.strip() if name == "question" else text)
    return texts, faults


def _references_of(found: Mapping[str, Any]) -> tuple[list[tuple[Any, Any]], str]:
    """The answers of an entry with their starts, where they have one; and what is wrong with them.

    >>> _references_of({"answers": {"text": ["Ana"], "answer_start": [7]}})
    ([('Ana', 7)], '')
    """
    if found.get("is_impossible") is True:
        return [], ""
    if "answers" in found:
        return _reference_list(found["answers"])
    if "answer" not in found:
        return [], "no 'answer' in the object."
    answer = found["answer"]
    if isinstance(answer, list | tuple | dict):
        return _reference_list([answer] if isinstance(answer, dict) else answer)
    return ([] if _is_missing(answer) else [(answer, found.get("start"))]), ""


def _reference_list(answers: Any) -> tuple[list[tuple[Any, Any]], str]:
    """References as SQuAD lists them, as columns of texts and starts, or as plain texts."""
    if isinstance(answers, Mapping):
        texts, starts = list(answers.get("text", ())), list(answers.get("answer_start", ()))
        return list(zip(texts, starts or [None] * len(texts), strict=False)), ""
    if not isinstance(answers, list | tuple):
        return [], f"answers is {kind_of(answers)}, not a list."
    pairs = []
    for item in answers:
        if isinstance(item, Mapping):
            if "text" not in item:
                return [], "an answer without 'text'. Each is an object with text and answer_start."
            pairs.append((item["text"], item.get("answer_start", item.get("start"))))
        else:
            pairs.append((item, None))
    return pairs, ""


def _is_missing(value: Any) -> bool:
    """Whether a value says that there is none: None, or what data frames have in its place."""
    return value is None or (isinstance(value, float) and value != value)


def located(passage: str, text: str, start: Any, counts: Counter[str]) -> tuple[CharacterSpan | None, str]:
    """Where an answer stands in its passage, and what is wrong with it; spaces around it do not belong to it.

    >>> located("Ana saw Ana.", "Ana", 8, Counter())
    ((8, 11), '')
    >>> located("Ana saw Luis.", "Eva", None, Counter())
    (None, "the answer does not occur in its passage: 'Eva'.")
    """
    bare, before = text.strip(), len(text) - len(text.lstrip())
    if isinstance(start, Number) and re.fullmatch(r"-?\d{1,15}", start):
        start = int(start)
    if isinstance(start, float) and start.is_integer():  # a column of a data frame with gaps
        start = int(start)
    if not _is_missing(start) and (not isinstance(start, int) or isinstance(start, bool)):
        return None, f"start is {kind_of(start) if not isinstance(start, Number) else start}, not a whole number."
    if isinstance(start, int) and start >= 0 and passage.startswith(bare, start + before):
        return (start + before, start + before + len(bare)), ""
    places = occurrences(passage, bare)
    if not places:
        composed = nfc(bare) in nfc(passage)
        hint = " It does once accents are composed: save both in one form (NFC)." if composed else ""
        return None, f"the answer does not occur in its passage: {_shown(bare)}.{hint}"
    if isinstance(start, int) and len(places) > 1:
        there = passage[max(0, start) : max(0, start) + len(text)]
        return None, (
            f"the answer does not stand at its start: {_shown(bare)} occurs {len(places)} times, at {start} stands "
            f"{_shown(there)}. Count characters from 0, or leave the start out."
        )
    if isinstance(start, int) or len(places) > 1:
        counts["moved" if isinstance(start, int) else "first"] += 1
    return (places[0], places[0] + len(bare)), ""


def occurrences(passage: str, text: str) -> list[int]:
    """Where a text stands in a passage as words of its own; if nowhere, where it stands at all.

    >>> occurrences("an Ana and an", "an"), occurrences("Banana", "an")
    ([0, 11], [1, 3])
    """
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", passage)]

    def whole(place: int) -> bool:
        around = passage[max(0, place - 1) : place + 1], passage[place + len(text) - 1 : place + len(text) + 1]
        return not any(len(pair) == 2 and pair.isalnum() for pair in around)

    return [place for place in places if whole(place)] or places


def _shown(text: str) -> str:
    return repr(shortened(text, 40))


COLUMNS = (*TEXTS, "answer", "start")  # the last two may be missing, or `_answers` be in their place
INSTEAD = ("answers", "is_impossible")
FORM = '{"question": ..., "context": ..., "answer": ..., "start": ...}'
PARAGRAPH = '{"context": ..., "qas": [{"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}'
SQUAD = f'{{"data": [{{"paragraphs": [{PARAGRAPH}]}}]}}'
NOTES = {
    "empty": "{} empty beside others: not used",
    "moved": "{} not where start says: found where the text occurs, which is once",
    "first": "{} several times in the passage, and no start says where: the first is taken",
}
NO_PASSAGE = "no passage. Give it in a column context, or one for all with --passage."
AS_IT_COMES = TableOptions()


@dataclass(frozen=True)
class Entry:
    """What stands at a place for a question, under our names and as it was `given`; or what is wrong with it."""

    where: str
    found: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    given: Mapping[str, Any] | None = None

    @property
    def cells(self) -> Mapping[str, Any]:
        """What stands there, under the names that it has there."""
        return self.found if self.given is None else self.given


def read_questions(place: Any, options: TableOptions = AS_IT_COMES) -> Found[PassageQuestion]:
    r"""The questions of a file or of a value in memory, with their answers.

    Characters stay as they are written, so that a start counts those of the file.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "qa.jsonl")
    >>> _ = path.write_text('{"question": "Who?", "context": "Ana left.", "answer": "Ana"}\n{"question": "Who?"}\n')
    >>> found = read_questions(str(path))
    >>> found.records[0].value.spans
    ((0, 3),)
    >>> found.problems[0].what
    "no 'context' in the object."
    """
    records: list[Record[PassageQuestion]] = []
    problems: list[Problem] = []
    counts: Counter[str] = Counter()
    keys: dict[str, None] = {}
    found, note = _entries(place, options)
    for entry in found:
        keys |= dict.fromkeys(entry.found)
        value, faults = _understood(entry.found, counts) if not entry.fault else (None, [entry.fault])
        problems += [Problem(entry.where, fault) for fault in faults[:1]]
        if value is not None and not faults:
            records.append(Record(entry.where, value))
    before = f"{place}: " if isinstance(place, str) else ""
    absent = [name for name in TEXTS if name not in keys]
    if absent and keys:
        raise ValueError(
            f"{before}{unknown('key', absent[0], keys)} columns=QUESTION,CONTEXT,ANSWER says which to read."
        )
    notes = [before + note] if note else []
    notes += [before + text.format(_answers(counts[kind])) for kind, text in NOTES.items() if counts[kind]]
    return Found(records, problems, notes)


def _answers(count: int) -> str:
    return f"{count:,} answer{' is' if count == 1 else 's are'}"


class Unanswered(NamedTuple):
    """A row of a file of questions: where it is, its question, what stands beside it, and what is wrong with it."""

    where: str
    value: PassageQuestion | None
    cells: tuple[Any, ...]
    fault: str


def read_unanswered(
    place: str, options: TableOptions = AS_IT_COMES, passage: str = ""
) -> tuple[tuple[str, ...], list[Unanswered]]:
    """The columns and rows of a file of questions that need no answers: SQuAD, JSON lines, a table, lines of text.

    `passage` is the one of the questions that come without their own.
    """
    if form_of(place).objects is None:
        return _unanswered_cells(place, options, passage)
    found = list(_entries(place, options)[0])
    columns = tuple(
        dict.fromkeys(name for entry in found for name, value in entry.cells.items() if not _nested(value))
    )  # fmt: skip
    rows = []
    for entry in found:
        cells = tuple("" if _nested(entry.cells.get(name)) else entry.cells.get(name, "") for name in columns)
        rows.append(_unanswered(entry.where, entry.found, cells, passage, entry.fault))
    return columns, rows


def _unanswered(
    where: str, found: Mapping[str, Any], cells: tuple[Any, ...], passage: str, fault: str
) -> Unanswered:  # fmt: skip
    """A row with its question, if it has one and a passage goes with it."""
    given = {"context": passage, **found}
    texts, faults = _texts_of(given) if given["context"] else ([], [NO_PASSAGE])
    faults = [fault] if fault else faults
    return Unanswered(where, None if faults else PassageQuestion(texts[0], texts[1]), cells, "".join(faults[:1]))


def _nested(value: Any) -> bool:
    """Whether a value is no cell of a table."""
    return isinstance(value, list | dict)


def _unanswered_cells(
    place: str, options: TableOptions, passage: str
) -> tuple[tuple[str, ...], list[Unanswered]]:  # fmt: skip
    """Questions in a column of a table, or one a line; a column with passages goes with them."""
    found = read_cells(place, TEXTS[:1], options)
    context = place_of(found.columns, options.names[1:2] or (TEXTS[1], "passage", "contexto", "pasaje"), exact=True)
    rows = []
    for where, cells, fault in found.rows:
        given = {} if fault else {"question": cells[found.input]}
        if context is not None and not fault:
            given["context"] = cells[context]
        rows.append(_unanswered(where, given, cells, passage, fault))
    return found.columns, rows


# from a place to entries


def _entries(place: Any, options: TableOptions) -> tuple[Iterator[Entry], str]:
    """What stands for questions in a file or in a value in memory, one after the other; and what was recognized."""
    names = options.names
    require(
        not names or 2 <= len(names) <= len(COLUMNS),
        f"columns= must name {', '.join(COLUMNS[:3])} and perhaps start: got {len(names)} ({','.join(names)})",
    )
    if not isinstance(place, str):
        renamed = _our_keys(_keys_in_memory(place), names)
        return _in_memory(place, renamed), _told(renamed, names)
    form = form_of(place)
    if form is JSON:
        value = _whole_json(place, options.encoding)
        renamed = _our_keys(value if isinstance(value, list) else (), names)
        return _in_json(place, value, renamed), _told(renamed, names)
    if form is JSONL:
        objects = json_objects(place, options.encoding, as_written)
        sample = list(islice(objects, SAMPLE))
        renamed = _our_keys((value for _, value, _ in sample), names)
        return _in_lines(place, chain(sample, objects), renamed), _told(renamed, names)
    known = unknown("format", ending_of(place), (*JSON.endings, *JSONL.endings))
    raise ValueError(f"{place}: {known} Questions come as SQuAD JSON, or as JSON lines: {FORM}")


def _in_lines(path: str, objects: Objects, renamed: Mapping[str, str]) -> Iterator[Entry]:
    """The objects of JSON lines; empty lines at the end are none."""
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
    """The value of a JSON file."""
    text = joined_lines(path, encoding, as_written)
    try:
        return decoded(text)
    except json.JSONDecodeError as error:
        hint = f"expected {SQUAD}."
        if error.msg == "Extra data":
            hint = "One object a line is JSON lines: name the file .jsonl."
        raise ValueError(
            f"{path}:{error.lineno}: not JSON: {error.msg} at character {error.colno}. {hint[0].upper()}{hint[1:]}"
        ) from None
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
    found = ", ".join(value) if isinstance(value, dict) else kind_of(value)
    squad = isinstance(value, dict) and isinstance(value.get("data"), list)
    require(squad, f"{path}: not in SQuAD's form: expected {SQUAD}, found {found or 'an empty object'}.")
    yield from _in_squad(f"{path}, ", value["data"])


def _in_squad(before: str, articles: Sequence[Any]) -> Iterator[Entry]:
    """The questions of SQuAD's articles, each with the passage it stands under."""
    taken: set[str] = set()
    number = 0
    for a, article in enumerate(articles):
        place = f"data[{a}]"
        for p, paragraph in enumerate(_listed(article, "paragraphs") or [None]):
            questions = _listed(paragraph, "qas")
            if questions is None:
                what = "paragraphs" if paragraph is None else f"paragraphs[{p}].qas"
                yield Entry(f"{before}{place}", fault=f"no list of {what}. Expected {SQUAD}.")
                continue
            for item in questions:
                number += 1
                name = str(item.get("id", number)) if isinstance(item, dict) else str(number)
                where = f"{before}question {name}" if name not in taken else f"{before}question {name} ({number})"
                taken.add(name)
                if isinstance(item, dict):
                    yield Entry(where, {"context": paragraph.get("context"), **item})
                else:
                    yield Entry(where, fault=f"expected an object, found {kind_of(item)}.")


def _listed(value: Any, key: str) -> list[Any] | None:
    """The list under a key of an object, if there is one."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else None


def _in_memory(data: Any, renamed: Mapping[str, str]) -> Iterator[Entry]:
    """Rows in the order of the columns, objects, a dict or a data frame of columns, or a loaded SQuAD file."""
    if isinstance(data, Mapping) and isinstance(data.get("data"), list) and "question" not in data:
        yield from _in_squad("", data["data"])
        return
    names: Iterable[str] = COLUMNS
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        known = [str(name) for name in (data if isinstance(data, Mapping) else data.columns)]
        ours = {renamed.get(name, name): name for name in known}
        optional = [name for name in ("answer", "answers", "start", "is_impossible") if name in ours]
        names = (*COLUMNS[:2], *optional)
        taken = tuple(ours.get(name, name) for name in names)
        data = rows_of(data, taken, taken)
    for number, row in enumerate(rows_of(data, COLUMNS, COLUMNS), 1):
        where = f"row {number}"
        if len(row) == 1 and isinstance(row[0], Mapping):
            yield _under_our_names(where, row[0], renamed)
        elif names is COLUMNS and not 2 <= len(row) <= len(COLUMNS):
            expected = "expected question, context, answer and perhaps start"
            yield Entry(where, fault=f"{expected}: found {plural(len(row), 'value')}.")
        else:
            yield Entry(where, dict(zip(names, row, strict=False)))


# keys


def _under_our_names(where: str, value: Mapping[str, Any], renamed: Mapping[str, str]) -> Entry:
    """An object with our words for its keys."""
    return Entry(where, {renamed.get(key, key): item for key, item in value.items()}, given=value)


def _keys_in_memory(data: Any) -> Iterable[Any]:
    """What has the keys of a value in memory: columns, or objects in a list."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        return [dict.fromkeys(data if isinstance(data, Mapping) else data.columns)]
    return data if isinstance(data, list | tuple) else ()


def _our_keys(objects: Iterable[Any], names: Sequence[str]) -> dict[str, str]:
    """Our words for the keys of objects: as they were named, in our order; else usual names, where ours are not there.

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


def _told(renamed: Mapping[str, str], names: Sequence[str]) -> str:
    """Which usual names were taken, for the person."""
    pairs = ", ".join(f"{name} is {key}" for key, name in renamed.items())
    return f"keys: {pairs}" if pairs and not names else ""

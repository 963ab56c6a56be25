"""Objects: values by key, from JSON lines, a JSON list or Parquet to records."""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NoReturn

from mirada.data.columns.contents import CLASSES
from mirada.data.columns.header import key_columns
from mirada.data.columns.names import is_name
from mirada.data.files.forms import JSON, Objects, form_of
from mirada.data.files.opening import LONGEST_LINE, TextForm, nfc, scan
from mirada.data.record import Read, RecordCollector
from mirada.errors import require, unknown
from mirada.files import LARGEST_JSON, MOST_VALUES
from mirada.words import shortened

SAMPLE = 500  # objects that tell the keys
SAMPLE_SIZE = 32 << 20  # letters of these: fewer objects tell them where each is huge
OF_A_KEY = 100  # letters that a key counts as, about what it takes in memory
LONG = 1000  # letters of a text that is looked for among those before
LONGEST_DOCUMENT = LARGEST_JSON  # bytes of a JSON file that is one value, and has to be read as a whole
DEEPEST = 20  # objects in objects in which keys are looked for
WIDEST = 10_000  # keys of an object in an object in which they are looked for
KEYS_AND_BRACES = re.compile(r"""(?P<key>"(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[{}]""")
FORMS = "Write a list of objects, or an object a line (JSONL)."


class Number(str):
    """A number as it is written in the file: 1e3 stays 1e3."""


class RepeatedKeyError(ValueError):
    """An object with a key twice: one of the values would be lost without a word."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of some pairs."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise RepeatedKeyError(f"the key {shortened(twice)!r} is there twice. Keep one of them.")
    return found


def _line_of_repeated(text: str) -> int:
    """The line of a document at which a key comes again in its object."""
    objects: list[set[str]] = [set()]
    for part in KEYS_AND_BRACES.finditer(text):
        if part[0] == "{":
            objects.append(set())
        elif part[0] == "}":
            del objects[max(1, len(objects) - 1) :]
        elif part["key"] is not None:
            key = json.loads(part["key"])
            if key in objects[-1]:
                return text.count("\n", 0, part.start()) + 1
            objects[-1].add(key)
    return 1


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a value")


DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys
)


def decoded(text: str) -> Any:
    """The value of a JSON text that does not fill the memory."""
    most = f"{MOST_VALUES:,}"
    require(
        text.count(",") + text.count("[") + text.count("{") <= MOST_VALUES,
        f"more than {most} values in one text, which do not fit into memory. Write an object a line (JSONL)",
    )
    return DECODER.decode(text)


def joined_lines(path: str, encoding: str, form: TextForm) -> str:
    """A file that is one value as one text."""
    lines, size = [], 0
    for number, text, fault in scan(path, encoding, form, LONGEST_DOCUMENT):
        require(not fault, f"{path}:{number}: {fault}")
        lines.append(text)
        size += len(text)
        require(
            size <= LONGEST_DOCUMENT,
            f"{path}: one JSON value of more than {LONGEST_DOCUMENT >> 20} MB. Write an object a line (JSONL).",
        )
    return "\n".join(lines)


def json_objects(path: str, encoding: str = "", form: TextForm = nfc) -> Objects:
    """The objects of JSON lines, or of a file that is one list of them."""
    if _is_list(path, encoding):
        return _listed_objects(path, encoding, form)
    return _lined_objects(path, encoding, form)


def _is_list(path: str, encoding: str) -> bool:
    """Whether a JSON file is one value over many lines, not a value a line: its first line is no whole object."""
    lines = scan(path, encoding, longest=LONGEST_DOCUMENT)
    first = next((text.strip() for _, text, fault in lines if text.strip() and not fault), "")
    if first.startswith("["):
        return form_of(path) is JSON or first == "[" or first.startswith("[{")
    if first == "{" or form_of(path) is not JSON:
        return first == "{"
    try:
        value = decoded(first)
    except RepeatedKeyError:
        return False
    except (ValueError, RecursionError):
        return True
    if not isinstance(value, dict) or _is_split(value):
        return True
    # an object with a plain value under some key is a record
    return any(map(_is_objects, value.values())) or bool(_by_columns(value))


def _lined_objects(path: str, encoding: str, form: TextForm) -> Objects:
    for number, text, fault in scan(path, encoding, form):
        value = None
        if not fault and text.strip():
            try:
                value = decoded(text)
                if not isinstance(value, dict):
                    fault = f"expected an object, found {kind_of(value)}. Each line is an object."
                    value = None
            except json.JSONDecodeError as error:
                fault = f"not JSON: {error.msg} at character {error.colno}. Each line is an object."
            except RepeatedKeyError as error:
                fault = str(error)
            except (ValueError, RecursionError) as error:
                fault = f"not JSON: {error}. Each line is an object."
        yield number, value, fault


def _listed_objects(path: str, encoding: str, form: TextForm) -> Objects:
    """The objects of one list, by their number in it."""
    text = joined_lines(path, encoding, form)
    try:
        document = decoded(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: not JSON: {error.msg} at character {error.colno}. {FORMS}") from None
    except RepeatedKeyError as error:
        raise ValueError(f"{path}:{_line_of_repeated(text)}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}. {FORMS}") from None
    lists = [document] if isinstance(document, list) else []
    if isinstance(document, dict) and _is_split(document):
        names = list(map(str, document["columns"]))
        require(
            len(set(names)) == len(names), f"{path}: a column is there twice: {', '.join(names)}. Rename one of them."
        )
        rows = [row if isinstance(row, list) and len(row) == len(names) else [] for row in document["data"]]
        lists = [[dict(zip(names, row, strict=False)) for row in rows]]
    elif isinstance(document, dict):  # the list may have a name: {"data": [...]}; pandas writes columns
        lists = [value for value in document.values() if _is_objects(value)] or [_by_columns(document)]
    require(len(lists) == 1 and bool(lists[0]), f"{path}: found {kind_of(document)}, no list of objects. {FORMS}")
    for number, value in enumerate(lists[0], 1):
        fault = "" if isinstance(value, dict) else f"expected an object, found {kind_of(value)}. {FORMS}"
        yield number, None if fault else value, fault


def _is_split(document: dict[str, Any]) -> bool:
    """Whether a document is a table as pandas writes it with orient="split": columns, and rows as lists.

    >>> _is_split({"columns": ["text", "label"], "index": [0], "data": [["good", "1"]]})
    True
    """
    columns, rows = document.get("columns"), document.get("data")
    known = {"columns", "data"} <= document.keys() <= {"columns", "index", "data"}
    if not (known and isinstance(columns, list) and isinstance(rows, list) and columns and rows):
        return False
    return not any(isinstance(name, dict | list) for name in columns) and isinstance(rows[0], list)


def _is_objects(value: Any) -> bool:
    """Whether a value is a list of objects."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _by_columns(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of columns, which are lists, or objects with a key for each row; none if it is anything else.

    >>> _by_columns({"text": {"0": "good", "1": "bad"}, "label": {"0": "1", "1": "0"}})[1]
    {'text': 'bad', 'label': '0'}
    >>> _by_columns({"r1": {"text": "good", "label": "1"}, "r2": {"text": "bad", "label": "0"}})[1]  # rows by name
    {'text': 'bad', 'label': '0'}
    """
    columns: list[Any] = [dict(enumerate(item)) if isinstance(item, list) else item for item in document.values()]
    if not all(isinstance(column, dict) and column.keys() == columns[0].keys() for column in columns):
        return []
    if columns and any(is_name(str(key)) for key in columns[0]) and not any(map(is_name, document)):
        return columns
    return [dict(zip(document, (column[row] for column in columns), strict=True)) for row in (columns or [{}])[0]]


def read_objects(
    objects: Objects, path: str, columns: tuple[str, ...], names: tuple[str, ...], optional: bool = False
) -> Read:
    """Records from objects, by the keys that were named, by our own, or by usual ones. See `read_records`."""
    if optional:
        objects = ((number, _lists_joined(value), fault) for number, value, fault in objects)
    sample = _sampled(objects)
    try:
        known = plain_keys(sample)
        some = [value for _, value, _ in sample if value is not None] if columns == CLASSES else []
        rows = [[text_of(value.get(key, ""))[0] for key in known] for value in some]
        wanted, note = key_columns(known, columns, names, rows, contents=True)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    collector = RecordCollector(columns, optional)
    keys: dict[str, bool] = {}  # every key of the file, and whether it held text where it came first
    once: dict[str, str] = {}  # long texts: one may stand in a million records
    for number, value, fault in chain(sample, objects):
        where = f"{path}:{number}"
        if fault or value is None:
            collector.refuse(where, fault) if fault else collector.skip(where)
            continue
        value = flat(value)  # the next one is read while this one is held: of a list of millions only its kind is kept
        keys |= {key: type(item) is str for key, item in value.items() if key not in keys}
        faults, cells = [], []
        for column, name in zip(columns, wanted, strict=True):
            cell, fault = text_of(value[name]) if name in value else ("", f"no {name!r} in the object.")
            faults += [f"{column} is {fault}." if name in value else fault] if fault else []
            cells.append(cell if len(cell) < LONG else once.setdefault(short := cell.strip(), short))
        if faults:
            collector.refuse(where, " ".join(faults))
        else:
            collector.take(where, cells)
    absent = [name for name in wanted if name not in keys]
    if absent and keys:
        texts = [key for key, is_text in keys.items() if is_text]
        if not names and len(absent) == len(columns) == len(texts):
            way_out = f"Name those of your file: columns={','.join(texts)}"
            raise ValueError(f"{path}: no object has the keys {', '.join(absent)}. {way_out}")
        raise ValueError(f"{path}: {unknown('key', absent[0], keys)} Name the {len(columns)} to read: columns=KEY,...")
    return collector.read(note and f"{path}: keys: {note}")


def _lists_joined(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """An object whose lists of texts are texts with commas, and whose nulls are empty."""
    if value is None:
        return None
    return {
        key: ",".join(item) if isinstance(item, list) and all(isinstance(one, str) for one in item)
        else "" if item is None else item
        for key, item in value.items()
    }  # fmt: skip


def _sampled(objects: Objects) -> list[tuple[int, Any, str]]:
    """The first objects, flat: as many as tell the keys of all, and do not fill the memory."""
    sample, room = [], SAMPLE_SIZE
    for number, value, fault in islice(objects, SAMPLE):
        value = None if value is None else flat(value)
        sample.append((number, value, fault))
        for key, item in (value or {}).items():
            room -= OF_A_KEY + len(key) + (len(item) if isinstance(item, str | bytes) else 0)
        if room < 0:
            break
    return sample


def plain_keys(sample: Sequence[tuple[int, Any, str]]) -> list[str]:
    """The keys of some flat objects under which there are no lists and no further objects."""
    items = [pair for _, value, _ in sample if value is not None for pair in value.items()]
    return list(dict.fromkeys(key for key, value in items if not isinstance(value, dict | list)))


def flat(value: dict[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """The values of an object by key, those of an object in it by `outer.inner`. Lists and objects themselves come empty.

    >>> flat({"translation": {"en": "a house"}})["translation.en"]
    'a house'
    """
    values: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            values[before + key] = {}
            if depth < DEEPEST and len(item) <= WIDEST:
                values |= flat(item, f"{before}{key}.", depth + 1)
        else:
            values[before + key] = [] if isinstance(item, list) else item
    return values


def text_of(value: object, form: TextForm = nfc) -> tuple[str, str]:
    """The text of a value, and what is wrong with it, or nothing."""
    if isinstance(value, str):
        if len(value) > LONGEST_LINE:
            return "", f"longer than {LONGEST_LINE >> 20} MB"
        if "\0" in value:
            return "", "not text: it has a NUL character"
        try:
            value.encode()
        except UnicodeEncodeError:
            return "", "not text: it has half a character (a lone surrogate)"
        return form(value), ""
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value), ""
    return "", f"{kind_of(value)}, not text"


def kind_of(value: object) -> str:
    """A value in words: `a list`."""
    words = {type(None): "null", list: "a list", dict: "an object", str: "a text"}
    words |= {Number: "a number", float: "a number"}
    return words.get(type(value), f"of type {type(value).__name__}")

"""Limits of the server, refusals, and the options of an answer as requests and the web form give them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirada.runs.ask import Option
from mirada.words import is_utf8, shortened

CLIENT_GONE = "the client went away"
WORDS = {int: "a whole number", float: "a number", bool: "true or false"}
TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", tuple: "array"}  # of JSON schemas


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a request and of the queue.

    >>> Limits().together
    32
    """

    body: int = 32 << 20  # bytes of a request
    inputs: int = 256  # of a request
    characters: int = 100_000  # of an input, or of a passage
    candidates: int = 1000  # words or labels to be scored
    columns: int = 4096  # of an uploaded table, and of any line above it
    cells: int = 500_000  # of an uploaded table
    changes: int = 256  # of the attention, in a request
    pixels: int = 16_000_000  # of an uploaded picture
    sound: float = 600.0  # seconds of an uploaded recording
    together: int = 32  # inputs in one batch
    queue: int = 1024  # inputs waiting
    memory: int = 512 << 20  # bytes of the pictures and recordings waiting
    seconds: float = 60.0  # until a request must be answered
    sending: float = 30.0  # seconds that a client may take to send a request
    connections: int = 512
    stopping: float = 30.0  # seconds that running requests have after a signal


class Refused(Exception):  # noqa: N818 (a refusal is a response, not an internal error)
    """A request is refused: the HTTP status, and the reason in plain words.

    >>> Refused(413, "too large").status
    413
    """

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def check(holds: bool, status: int, why: str) -> None:
    """Raise `Refused(status, why)` unless the rule holds."""
    if not holds:
        raise Refused(status, why)


# Options of an answer: the values in a request, and the fields of the web form.


def form_fields(options: Mapping[str, Option]) -> list[dict[str, Any]]:
    """The `fields` of `GET /api/health`, from which the web app makes its form."""
    fields: list[dict[str, Any]] = []
    for name, option in options.items():
        label = dict(zip(("en", "es"), (each or name for each in option.label), strict=True))
        low, high = option.bounds or (None, None)
        kind = TYPES[option.kind]
        fields.append(
            {"name": name, "type": kind, "label": label, "minimum": low, "maximum": high, "step": option.step}
        )
    return fields


def checked_option(option: Option, value: Any, limits: Limits) -> Any:
    """The checked value of an option in a request. The fields of a form are text, parsed as on a command line."""
    name, kind = option.name, option.kind
    if kind is tuple:
        words = _texts_in_field(value) if isinstance(value, str) else value
        check(_is_texts(words), 400, f"{name} must be a list of texts: got {shown(value)}")
        check(len(words) <= limits.candidates, 413, f"at most {limits.candidates:,} {name} at once: got {len(words):,}")
        return tuple(_checked_text(name, word.strip(), limits) for word in words if word.strip())
    if kind is str:
        check(isinstance(value, str), 400, f"{name} must be text: got {shown(value)}")
        return _checked_text(name, value, limits)
    number = from_text(value, kind) if isinstance(value, str) else value
    if isinstance(number, float) and kind is int and number.is_integer() and abs(number) < 2**53:
        number = int(number)
    matches = type(number) is kind or (kind is float and type(number) is int)
    check(matches, 400, f"{name} must be {WORDS[kind]}: got {shown(value)}")
    if kind is bool:
        return number
    low, high = option.bounds or (-(2**53), 2**53)
    check(low <= number <= high, 400, f"{name} must be {low:,} to {high:,}: got {shown(value)}")
    too_small = 0 < number < option.smallest
    check(not too_small, 400, f"{name} must be 0, or {option.smallest} to {high:,}: got {shown(value)}")
    return kind(number)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _texts_in_field(value: str) -> list[str]:
    """Several texts in a form field: a JSON list, as the web app sends it, or separated by commas, as on a command line.

    >>> _texts_in_field('["red, or blue", "green"]'), _texts_in_field("red, green"), _texts_in_field("[red]")
    (['red, or blue', 'green'], ['red', ' green'], ['[red]'])
    """
    try:
        listed = json.loads(value) if value.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        listed = None
    return listed if listed is not None and _is_texts(listed) else value.split(",")


def from_text(value: str, kind: type) -> Any:
    """A number or boolean from text; the text itself if it is neither.

    >>> from_text("4", int), from_text("yes", bool), from_text("x", int)
    (4, True, 'x')
    """
    if kind is bool:
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(value.lower(), value)
    try:
        return kind(value)
    except ValueError:
        return value


def _checked_text(name: str, text: str, limits: Limits) -> str:
    """The text, if it has at most the allowed number of characters and is valid Unicode."""
    size, most = len(text), limits.characters
    check(size <= most, 413, f"{name} is too long: {size:,} characters, at most {most:,}")
    check(is_utf8(text), 400, f"{name} is not text: it has half of a surrogate pair. Send UTF-8.")
    return text


def shown(value: Any) -> str:
    """A value as error messages show it.

    >>> shown([1] * 50), shown(None), shown("a")
    ('a list', 'null', "'a'")
    """
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, int | float | None):
        return (
            "a very large number" if isinstance(value, int) and abs(value) >= 10**18 else shortened(json.dumps(value))
        )
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a file"

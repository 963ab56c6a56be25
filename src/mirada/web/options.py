"""What the server takes and what it refuses: sizes, counts, times, and the values of the options of an answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirada.runs.ask import Option
from mirada.words import shortened

CLIENT_GONE = "the client went away"
WORDS = {int: "a whole number", float: "a number", bool: "true or false"}
TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", tuple: "array"}  # as JSON calls them


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a request may ask for, and how much waits at once.

    >>> Limits().together
    32
    """

    body: int = 32 << 20  # bytes of a request
    inputs: int = 256  # of a request
    characters: int = 100_000  # of an input, or of a passage
    candidates: int = 1000  # words or labels to be scored
    changes: int = 256  # what-ifs of a request
    pixels: int = 16_000_000  # of a picture that is sent
    sound: float = 600.0  # seconds of a recording that is sent
    together: int = 32  # inputs that are answered in one batch
    queue: int = 1024  # inputs that wait
    memory: int = 512 << 20  # bytes of pictures and recordings that wait
    seconds: float = 60.0  # until a request must be answered
    sending: float = 30.0  # seconds that a client may take to send a request
    connections: int = 512
    stopping: float = 30.0  # seconds that requests have to end when the server is stopped


class Refused(Exception):  # noqa: N818 (a refusal is an answer, not an error of ours)
    """A request that is not answered: the status of HTTP, and why, in plain words.

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


# Options of an answer: as a request has them, and as the form of the web app shows them.


def form_fields(options: Mapping[str, Option]) -> list[dict[str, Any]]:
    """What the form of the web app is made from: the fields of `GET /api/health` for each option."""
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
    """An option of a request, as the run takes it. What a form sends is text, and read as on a command line."""
    name, kind = option.name, option.kind
    if kind is tuple:
        words = _listed(value) if isinstance(value, str) else value
        check(_is_texts(words), 400, f"{name} must be a list of texts: got {shown(value)}")
        check(len(words) <= limits.candidates, 413, f"at most {limits.candidates:,} {name} at once: got {len(words):,}")
        return tuple(_readable(name, word.strip(), limits) for word in words if word.strip())
    if kind is str:
        check(isinstance(value, str), 400, f"{name} must be text: got {shown(value)}")
        return _readable(name, value, limits)
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


def _listed(value: str) -> list[str]:
    """Several texts as a form sends them: a list in JSON, as the web app does, or by commas, as on a command line.

    >>> _listed('["red, or blue", "green"]'), _listed("red, green"), _listed("[red]")
    (['red, or blue', 'green'], ['red', ' green'], ['[red]'])
    """
    try:
        listed = json.loads(value) if value.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        listed = None
    return listed if listed is not None and _is_texts(listed) else value.split(",")


def from_text(value: str, kind: type) -> Any:
    """A number or a truth as text; the text itself, where it is neither.

    >>> from_text("4", int), from_text("yes", bool), from_text("x", int)
    (4, True, 'x')
    """
    if kind is bool:
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(value.lower(), value)
    try:
        return kind(value)
    except ValueError:
        return value


def _readable(name: str, text: str, limits: Limits) -> str:
    """A text that a model can be given: of at most so many characters, all of them characters."""
    size, most = len(text), limits.characters
    check(size <= most, 413, f"{name} is too long: {size:,} characters, at most {most:,}")
    check(is_text(text), 400, f"{name} is not text: it has half of a surrogate pair. Send UTF-8.")
    return text


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8: JSON can hold halves of surrogate pairs."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    """A value in an error.

    >>> shown([1] * 50), shown(None), shown("a")
    ('a list', 'null', "'a'")
    """
    if isinstance(value, str):
        return repr(shortened(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return shortened(str(value)) if isinstance(value, float) or abs(value) < 10**18 else "a very large number"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a file"

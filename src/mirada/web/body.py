"""The body of a request: read within bounds of size and time, as JSON or as a form with files."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from python_multipart.exceptions import ParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from mirada.web.limits import Limits, Refused
from mirada.web.served import short

Receive = Callable[[], Awaitable[Any]]
MOST_FIELDS = 64  # of a form, beside its files
JSON_TYPES = ("application/json", "text/json")
FORM = "multipart/form-data"


@dataclass(frozen=True)
class SentFile:
    """A file of a form, or one that came as base64. Its name is only shown, and never opened."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Body:
    """The fields of a request, and its files. `typed` tells whether numbers are numbers: in a form they are text."""

    fields: dict[str, Any]
    files: tuple[SentFile, ...] = ()
    typed: bool = True


async def read_body(request: Request, limits: Limits) -> Body:
    """What a client sent. Whatever is wrong with it is refused with the reason."""
    kind_text, boundary = content_type(header(request, b"content-type"))
    if kind_text not in (*JSON_TYPES, FORM):
        got = f"got {short(kind_text)}" if kind_text else "there is none"
        raise Refused(415, f"the Content-Type must be application/json, or {FORM} for files: {got}")
    raw = await read_bytes(request, limits)
    if kind_text != FORM:
        return Body(json_object(raw))
    if not boundary:
        raise Refused(400, "the form is damaged: its Content-Type has no boundary")
    return read_form(raw, boundary, limits)


def header(request: Request, name: bytes) -> bytes:
    """A header as it was sent, the first of its name; empty where there is none."""
    return next((value for known, value in request.scope["headers"] if known == name), b"")


@lru_cache(64)  # the next request says the same
def content_type(given: bytes) -> tuple[str, bytes]:
    """The kind of a body, in small letters, and the boundary of a form."""
    kind, options = parse_options_header(given)
    return kind.decode("latin-1").lower(), options.get(b"boundary", b"")


def too_large(limits: Limits) -> Refused:
    return Refused(413, f"the request is too large: at most {limits.body:,} bytes", Connection="close")


async def read_bytes(request: Request, limits: Limits) -> bytes:
    """The bytes of a body, in time."""
    declared = header(request, b"content-length")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > limits.body):
        raise too_large(limits)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.sending):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Refused(499, "the client went away")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body:
                    raise too_large(limits)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        why = f"the request did not arrive within {limits.sending:g} seconds: send it faster, or less of it"
        raise Refused(408, why, Connection="close") from None


def no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number of JSON")


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object: of two with one name a reader would have to drop one without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"the field {short(twice)!r} is there twice")
    return found


# to make one takes longer than to read a request
DECODER = json.JSONDecoder(parse_constant=no_number, object_pairs_hook=each_once)


def json_object(raw: bytes) -> dict[str, Any]:
    """A JSON object.

    >>> json_object(b'{"inputs": ["a"]}')
    {'inputs': ['a']}
    """
    try:
        found = DECODER.decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except RecursionError:
        raise Refused(400, "the request is not JSON that can be read: it is nested too deeply") from None
    except UnicodeDecodeError:
        raise Refused(400, "the request is not JSON: it is not UTF-8") from None
    except ValueError as error:
        raise Refused(400, f"the request is not JSON: {short(str(error))}") from None
    if not isinstance(found, dict):
        raise Refused(400, 'the request must be a JSON object, such as {"inputs": ["..."]}')
    return found


class FormReader:
    """Collects the parts of a form while they are parsed."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.fields: dict[str, Any] = {}
        self.files: list[SentFile] = []
        self.ended = False
        self.begin()

    def begin(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.header = self.value = b""
        self.data: list[bytes] = []

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self.header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def header_end(self) -> None:
        self.headers[self.header.lower()] = self.value
        self.header = self.value = b""

    def part_data(self, data: bytes, start: int, end: int) -> None:
        self.data.append(data[start:end])

    def part_end(self) -> None:
        _, options = parse_options_header(self.headers.get(b"content-disposition", b""))
        name, content = decoded(options.get(b"name", b""), "the name of a field"), b"".join(self.data)
        if b"filename" in options:
            if name != "file":
                raise Refused(400, f"files of a form are called file: got {short(name)!r}")
            if len(self.files) >= self.limits.inputs:
                raise Refused(413, f"at most {self.limits.inputs} files a request")
            self.files.append(SentFile(plain_name(options[b"filename"]), content))
        else:
            if not name or name in self.fields:
                raise Refused(400, f"every field of a form has a name of its own: got {short(name)!r} twice or without")
            if len(self.fields) >= MOST_FIELDS:
                raise Refused(413, f"at most {MOST_FIELDS} fields a request")
            self.fields[name] = decoded(content, short(name))

    def end(self) -> None:
        self.ended = True


def read_form(raw: bytes, boundary: bytes, limits: Limits) -> Body:
    """The fields and files of a form."""
    reader = FormReader(limits)
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": reader.begin,
            "on_part_data": reader.part_data,
            "on_part_end": reader.part_end,
            "on_header_field": reader.header_name,
            "on_header_value": reader.header_value,
            "on_header_end": reader.header_end,
            "on_end": reader.end,
        },
    )
    try:
        parser.write(raw)
        parser.finalize()
    except (ParseError, ValueError) as error:
        raise Refused(400, f"the form is damaged: {short(str(error))}") from None
    if not reader.ended:
        raise Refused(400, "the form is cut short: it has no end. Send it again.")
    return Body(reader.fields, tuple(reader.files), typed=False)


def decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Refused(400, f"{what} is not UTF-8") from None


def plain_name(raw: bytes) -> str:
    r"""The name of a file without folders and control characters; it is shown to people.

    >>> plain_name(b"C:\\my\\cat.png"), plain_name(b"../../etc/passwd"), plain_name(b"")
    ('cat.png', 'passwd', 'file')
    """
    text = raw.decode(errors="replace").replace("\\", "/").rsplit("/", 1)[-1]
    return short("".join(letter for letter in text if letter.isprintable()).strip()) or "file"

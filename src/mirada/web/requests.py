"""From the body of a request to questions for a run: inputs, options, changes."""

import asyncio
import base64
import binascii
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from python_multipart.exceptions import ParseError
from python_multipart.multipart import Field, File, FormParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from mirada.data.files.forms import TABLE_TEXT_ENDINGS, ending_of
from mirada.data.files.opening import GZIP
from mirada.data.image import sent_picture
from mirada.data.wav import parse_wav
from mirada.errors import require
from mirada.looking.change.changes import Change, changes_from
from mirada.runs.answers import Answer
from mirada.runs.inputs import Question
from mirada.web.options import CLIENT_GONE, Limits, Refused, check, checked_option, from_text, shown
from mirada.web.runs import FILES, ServedRun, ServedRuns, draws
from mirada.words import is_utf8, shortened

# The body of a request: read within limits of size and time, as JSON or as a form with files.


MOST_FIELDS = 64  # of a form, without its files
JSON_TYPES = ("application/json", "text/json")
FORM = "multipart/form-data"


@dataclass(frozen=True)
class SentFile:
    """An uploaded file, from a form or from base64. Its name is only shown, never opened."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Body:
    """The fields of a request, and its files. `typed`: values have JSON types; in a form all are text."""

    fields: dict[str, Any]
    files: tuple[SentFile, ...] = ()
    typed: bool = True


async def read_body(request: Request, limits: Limits) -> Body:
    """Read and parse the body of a request; an invalid one is refused with the reason."""
    kind, boundary = _content_type(_header(request, b"content-type"))
    if kind not in (*JSON_TYPES, FORM):
        got = f"got {shortened(kind)}" if kind else "there is none"
        raise Refused(415, f"the Content-Type must be application/json, or {FORM} for files: {got}")
    coding = _header(request, b"content-encoding").decode("latin-1").strip().lower()
    plain = f"the body must be sent as it is: Content-Encoding {shortened(coding)!r} is not read. Unpack it first."
    check(coding in ("", "identity"), 415, plain)
    raw = await _read_bytes(request, limits)
    if kind != FORM:
        return Body(_json_object(raw))
    check(bool(boundary), 400, "the form is damaged: its Content-Type has no boundary")
    return _read_form(raw, boundary, limits)


def _header(request: Request, name: bytes) -> bytes:
    """The first header of that name, undecoded: faster than `request.headers`; empty if there is none."""
    return next((value for known, value in request.scope["headers"] if known == name), b"")


@lru_cache(64)  # requests repeat the same header
def _content_type(given: bytes) -> tuple[str, bytes]:
    """The media type of a body in lower case, and the boundary of a form."""
    kind, options = parse_options_header(given)
    return kind.decode("latin-1").lower(), options.get(b"boundary", b"")


async def _read_bytes(request: Request, limits: Limits) -> bytes:
    """The bytes of a body, within the limits of size and time."""
    declared, parts = _header(request, b"content-length"), list[bytes]()
    size = int(declared[:18]) if declared.isdigit() else 0
    try:
        async with asyncio.timeout(limits.sending):
            if size <= limits.body:
                size = 0
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > limits.body:
                        break
                else:
                    return b"".join(parts)
    except ClientDisconnect:
        raise Refused(499, CLIENT_GONE) from None
    except TimeoutError:
        why = f"the request did not arrive within {limits.sending:g} seconds: send it faster, or less of it"
        raise Refused(408, why, Connection="close") from None
    raise Refused(413, f"the request is too large: at most {limits.body:,} bytes", Connection="close")


def _reject_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number of JSON")


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object. A duplicate name is an error: otherwise one value would be dropped silently."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in fields if names.count(name) > 1)
        raise ValueError(f"the field {shortened(twice)!r} is there twice")
    return fields


# creating one takes longer than parsing a request
DECODER = json.JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=_unique_fields)


def _json_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body.

    >>> _json_object(b'{"inputs": ["a"]}')
    {'inputs': ['a']}
    """
    try:
        value = DECODER.decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except RecursionError:
        raise Refused(400, "the request is not JSON that can be read: it is nested too deeply") from None
    except UnicodeDecodeError:
        raise Refused(400, "the request is not JSON: it is not UTF-8") from None
    except ValueError as error:
        raise Refused(400, f"the request is not JSON: {shortened(str(error))}") from None
    check(isinstance(value, dict), 400, 'the request must be a JSON object, such as {"inputs": ["..."]}')
    return value


def _read_form(raw: bytes, boundary: bytes, limits: Limits) -> Body:
    """The fields and files of a form."""
    fields: dict[str, Any] = {}
    files: list[SentFile] = []
    ends: list[bool] = []

    def add_field(part: Field) -> None:
        name = _decoded(part.field_name or b"", "the name of a field")
        rule = f"every field of a form has a name of its own: got {shortened(name)!r} twice or without"
        check(bool(name) and name not in fields, 400, rule)
        check(len(fields) < MOST_FIELDS, 413, f"at most {MOST_FIELDS} fields a request")
        fields[name] = _decoded(part.value or b"", shortened(name))

    def add_file(part: File) -> None:
        name = _decoded(part.field_name or b"", "the name of a field")
        check(name == "file", 400, f"files of a form are called file: got {shortened(name)!r}")
        check(len(files) < limits.inputs, 413, f"at most {limits.inputs} files a request")
        part.file_object.seek(0)
        files.append(SentFile(_plain_name(part.file_name or b""), part.file_object.read()))

    memory = {"MAX_MEMORY_FILE_SIZE": math.inf}  # the body is in memory already: no temporary files
    parser = FormParser(FORM, add_field, add_file, lambda: ends.append(True), boundary, config=memory)
    try:
        parser.write(raw)
        parser.finalize()
    except (ParseError, ValueError) as error:
        raise Refused(400, f"the form is damaged: {shortened(str(error))}") from None
    check(bool(ends), 400, "the form is cut short: it has no end. Send it again.")
    return Body(fields, tuple(files), typed=False)


def _decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Refused(400, f"{what} is not UTF-8") from None


def _plain_name(raw: bytes) -> str:
    r"""The name of a file without folders and control characters, as it is shown.

    >>> _plain_name(b"C:\\my\\cat.png"), _plain_name(b"../../etc/passwd"), _plain_name(b"")
    ('cat.png', 'passwd', 'file')
    """
    text = raw.decode(errors="replace").replace("\\", "/").rsplit("/", 1)[-1]
    return shortened("".join(letter for letter in text if letter.isprintable()).strip()) or "file"


# Uploaded files as inputs of a task: a picture as pixels, a recording as samples, a table as a file.


HOW_TO_SEND = 'send it as multipart `file`, or as {"name": ..., "base64": ...}. Paths of the server are not read.'


def _is_file(value: Any) -> bool:
    """Whether a JSON value is a file: an object with base64, and perhaps a name.

    >>> _is_file({"name": "a.txt", "base64": "aGk="}), _is_file({"name": "a.txt"}), _is_file({"base64": 5})
    (True, False, False)
    """
    if not isinstance(value, dict) or not set(value) <= {"name", "base64"}:
        return False
    return isinstance(value.get("base64"), str) and isinstance(value.get("name", "file"), str)


def _from_json(value: str | dict[str, str]) -> SentFile:
    """A file in JSON: an object with its name and base64, a data URL, or base64 alone.

    >>> _from_json({"name": "a.txt", "base64": "aGk="}).content
    b'hi'
    """
    name, text = ("file", value) if isinstance(value, str) else (value.get("name", "file"), value["base64"])
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"an input must be a file, and this is not base64: {shown(value)}; {HOW_TO_SEND}") from None
    return SentFile(_plain_name(name.encode(errors="replace")), content)


def _as_input(run: ServedRun, file: SentFile, limits: Limits) -> tuple[Any, int]:
    """A file as an input of the run's task, and the bytes of memory it takes; a ValueError if it cannot be read."""
    kind = run.task.input_kind
    require(bool(file.content), f"{file.name}: the file is empty. Send it again.")
    require(not file.content.startswith(GZIP), f"{file.name}: packed by gzip. Unpack it before it is sent.")
    if kind == "picture":
        pixels = sent_picture(file.name, file.content, limits.pixels)
        return pixels, pixels.nbytes
    if kind == "recording":
        try:
            sound = parse_wav(file.content)
        except ValueError as error:
            raise ValueError(f"{file.name}: {error}") from None
        too_long = f"{file.name}: too long: {sound.seconds:,.0f} s, at most {limits.sound:,.0f} s. Cut it."
        require(sound.seconds <= limits.sound, too_long)
        return (sound.samples, sound.rate), sound.samples.nbytes
    require(kind in FILES, f"{run.task.name} takes no files. Send text.")
    return _opened_table(run, file, limits), len(file.content)


SEPARATORS = (b",", b";", b"\t", b"|", b" ")


def _opened_table(run: ServedRun, file: SentFile, limits: Limits) -> Any:
    """A table as the task takes it, read from a temporary file; errors name it as it was uploaded.

    Its size is bounded before it is parsed, which takes time for every cell.
    """
    lines = file.content.count(b"\n") + file.content.count(b"\r")
    cells = lines + max(map(file.content.count, SEPARATORS))
    require(
        cells <= limits.cells,
        f"{file.name}: too large: about {cells:,} cells, at most {limits.cells:,}. Send fewer rows.",
    )
    for number, line in enumerate(file.content.splitlines(), 1):
        columns = 1 + max(map(line.count, SEPARATORS)) if len(line) > limits.columns else 1
        too_wide = f"{file.name}:{number}: about {columns:,} columns, at most {limits.columns:,}. Send fewer."
        require(columns <= limits.columns, too_wide)
    ending = ending_of(file.name)
    with tempfile.TemporaryDirectory(prefix="mirada-") as folder:
        path = os.path.join(folder, "table" + (ending if ending in TABLE_TEXT_ENDINGS else ".csv"))
        Path(path).write_bytes(file.content)
        try:
            return run.task.opened(run, path)
        except ValueError as error:
            raise ValueError(str(error).replace(path, file.name)) from None


RUN_FIELDS = ("inputs", "run", "stream", "changes")
LOOK_FIELDS = ("input", "run", "changes", "methods")


@dataclass(frozen=True, eq=False)
class AnswerRequest:
    """A parsed request. A question that cannot be answered has an error and does not affect the others."""

    run: ServedRun
    questions: tuple[Question, ...]
    ask: Mapping[str, Any]
    draws: bool  # whether answers are sampled: they depend on their places in the batch, so a request is not split
    changes: Mapping[str, Any]  # lists of changes by layer
    stream: bool = False
    methods: bool = False  # whether to compute rollout, gradients and ablation in addition to the weights
    bytes: int = 0  # of memory that the questions take

    @cached_property
    def joins(self) -> bool:
        """Whether its texts are written together with those of other requests."""
        return not self.changes and self.run.joins(self.ask)

    @property
    def key(self) -> tuple[Any, ...] | None:
        """Requests with equal keys may be answered in one batch; None: alone."""
        if self.changes or self.draws:
            return None
        return (self.run.name, *sorted(self.ask.items()))

    def part(self, first: int, last: int) -> "AnswerRequest":
        """The request with some of its questions only."""
        if first == 0 and last >= len(self.questions):
            return self
        some = self.questions[first:last]
        return replace(self, questions=some, bytes=self.bytes * len(some) // max(1, len(self.questions)))


def read_run(body: Body, runs: ServedRuns, limits: Limits) -> AnswerRequest:
    """Parse a request of `POST /api/run`."""
    run = runs.find(body.fields.get("run"))
    inputs = _given_inputs(body, run, "inputs")
    if not isinstance(inputs, list):
        raise Refused(400, f"inputs must be a list: got {shown(inputs)}")
    count, most = len(inputs), limits.inputs
    check(count > 0, 400, "inputs is empty: there is nothing to answer")
    if count > most:
        raise Refused(413, f"at most {most} inputs a request: got {count:,}. Send several requests.")
    for number, value in enumerate(inputs):
        _check_type(f"inputs[{number}]", value, run)
    parsed = _read_request(body, run, inputs, RUN_FIELDS, limits)
    stream = _boolean(body, "stream")
    check(not stream or count == 1, 400, f"a stream has one answer: give one input, not {count}")
    return replace(parsed, stream=True) if stream else parsed


def read_look(body: Body, runs: ServedRuns, limits: Limits) -> AnswerRequest:
    """Parse a request of `POST /api/look`."""
    run = runs.find(body.fields.get("run"))
    given = _given_inputs(body, run, "input")
    one = given[0] if body.files else given
    check(len(body.files) < 2, 400, f"one input is looked at: got {len(body.files)} files")
    _check_type("input", one, run)
    return replace(_read_request(body, run, [one], LOOK_FIELDS, limits), methods=_boolean(body, "methods"))


def _boolean(body: Body, name: str) -> bool:
    """The value of a boolean field; false if it is missing."""
    value = body.fields.get(name, False)
    value = from_text(value, bool) if isinstance(value, str) and not body.typed else value
    if not isinstance(value, bool):
        raise Refused(400, f"{name} must be true or false: got {shown(value)}")
    return value


def _given_inputs(body: Body, run: ServedRun, field: str) -> Any:
    """The files of a form, or a field of JSON."""
    task, kind = run.task, run.task.input_kind
    if body.files:
        check(run.task.takes_files, 400, f'{task.name} takes text, not files: send JSON, {{"{field}": ...}}')
        check(field not in body.fields, 400, f"give files or {field}, not both")
        return list(body.files)
    if field not in body.fields:
        what = f"{FILES[kind]} as multipart `file`, or {field} with base64" if kind in FILES else field
        raise Refused(400, f"there is nothing to answer: send {what}")
    value = body.fields[field]
    return [value] if field == "inputs" and not body.typed else value  # a text field of a form is one input


def _check_type(place: str, value: Any, run: ServedRun) -> None:
    """Require text, or a file where the task takes files; errors in its content are reported per input later."""
    if isinstance(value, str | SentFile) or (run.task.takes_files and _is_file(value)):
        return
    wanted, hint = ("a file", f"; {HOW_TO_SEND}") if run.task.takes_files else ("text", "")
    raise Refused(400, f"{place} must be {wanted}: got {shown(value)}{hint}")


def _read_request(
    body: Body, run: ServedRun, inputs: Sequence[Any], own: Sequence[str], limits: Limits
) -> AnswerRequest:
    """The request with its inputs as questions, and its checked options."""
    ask, draws = _options_of({name: value for name, value in body.fields.items() if name not in own}, run, limits)
    changes = _changes_of(body.fields.get("changes"), limits)
    questions, sizes = zip(*(_question_of(value, run, limits) for value in inputs), strict=True)
    return AnswerRequest(run, questions, ask, draws, changes, bytes=sum(sizes))


def _options_of(given: Mapping[str, Any], run: ServedRun, limits: Limits) -> tuple[dict[str, Any], bool]:
    """The options of an answer, and whether it is sampled; an option that is null keeps its default."""
    if not given:
        return {}, run.draws
    known = run.ask_options
    for name in given:
        if name not in known:
            listed = f"it takes {', '.join(known) or 'no options'}"
            raise Refused(400, f"{shown(name)} is not used by {run.task.name}; {listed}")
    ask = {name: checked_option(known[name], value, limits) for name, value in given.items() if value is not None}
    if isinstance(ask.get("passage"), str):
        ask["passage"] = ask["passage"] or " "  # an empty passage is an error, not the default
    try:
        return ask, draws(run.asked(ask))
    except ValueError as error:
        raise Refused(400, str(error)) from None


def _changes_of(given: Any, limits: Limits) -> dict[str, list[Change]]:
    """The changes of a request, by layer."""
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise Refused(400, "changes must be a list in JSON") from None
    count = len(given) if isinstance(given, list) else 0
    check(count <= limits.changes, 413, f"at most {limits.changes} changes a request: got {count:,}")
    try:
        return changes_from(given)
    except ValueError as error:
        raise Refused(400, str(error)[:1000]) from None


def _question_of(value: Any, run: ServedRun, limits: Limits) -> tuple[Question, int]:
    """An input as a question, and the bytes of memory it takes; one that cannot be read has an error."""
    name = value  # as the answer names the input
    try:
        if isinstance(value, SentFile) or run.task.takes_files:
            name = "file"
            file = value if isinstance(value, SentFile) else _from_json(value)
            name = file.name
            given, size = _as_input(run, file, limits)
            return Question(name, given), size
        if not is_utf8(value):
            name = value.encode(errors="replace").decode()
            raise ValueError("not text: it has half of a surrogate pair. Send UTF-8.")
        if len(value) > limits.characters:
            name = value[:60]
            raise ValueError(f"too long: {len(value):,} characters, at most {limits.characters:,}. Cut it.")
        return Question(value, run.task.parse(value)), 4 * len(value)
    except ValueError as error:
        return Question(name, name, error=str(error)), 0


def answers_to_request(parsed: AnswerRequest) -> list[Answer]:
    """The answers to all questions, in their order. Called in the model thread."""
    run = parsed.run
    answers = run.answers_to(parsed.questions, **parsed.ask)
    if not parsed.run.task.takes_files:
        return answers
    return [replace(answer, input=question.where) for question, answer in zip(parsed.questions, answers, strict=True)]

"""Files that were sent, as a program would give them: a picture as pixels, a recording as samples, a table as a file.

No name that a client sends is ever opened here.
"""

import base64
import binascii
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirada.data.foreign import GZIP
from mirada.data.picture_file import sent_picture
from mirada.data.wav import parse_wav
from mirada.errors import require
from mirada.web.body import SentFile, plain_name
from mirada.web.limits import Limits
from mirada.web.served import FILES, ServedRun, shown

TABLES = (".csv", ".tsv", ".txt")
HOW = 'send it as multipart `file`, or as {"name": ..., "base64": ...}. Paths of the server are not read.'


def is_file(value: Any) -> bool:
    """Whether it is the form of a file inside JSON: an object with base64, and perhaps a name.

    >>> is_file({"name": "a.txt", "base64": "aGk="}), is_file({"name": "a.txt"}), is_file({"base64": 5})
    (True, False, False)
    """
    if not isinstance(value, dict) or not set(value) <= {"name", "base64"}:
        return False
    return isinstance(value.get("base64"), str) and isinstance(value.get("name", "file"), str)


def from_json(value: str | dict[str, str]) -> SentFile:
    """A file inside JSON: an object with its name and base64, a data URL, or base64 alone.

    >>> from_json({"name": "a.txt", "base64": "aGk="}).content
    b'hi'
    """
    name, text = ("file", value) if isinstance(value, str) else (value.get("name", "file"), value["base64"])
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"an input must be a file, and this is not base64: {shown(value)}; {HOW}") from None
    return SentFile(plain_name(name.encode(errors="replace")), content)


def as_input(served: ServedRun, file: SentFile, limits: Limits) -> tuple[Any, int]:
    """A file as an input of the run's task, and the bytes of memory it takes; a ValueError if it is none."""
    kind = served.run.task.input_kind
    require(bool(file.content), f"{file.name}: the file is empty. Send it again.")
    packed = file.content.startswith(GZIP)
    require(not packed, f"{file.name}: packed by gzip. Unpack it before it is sent.")
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
    require(kind in FILES, f"{served.run.task.name} takes no files. Send text.")
    return file, len(file.content)


@contextmanager
def as_path(file: SentFile) -> Iterator[str]:
    """A table as a file of its own, for as long as it is read. What is wrong with it is told by the name that it was sent as."""
    ending = Path(file.name).suffix.lower()
    with tempfile.TemporaryDirectory(prefix="mirada-") as folder:
        path = str(Path(folder, "table" + (ending if ending in TABLES else ".csv")))
        Path(path).write_bytes(file.content)
        try:
            yield path
        except ValueError as error:
            raise ValueError(str(error).replace(path, file.name)) from None

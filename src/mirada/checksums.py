"""Checksums inside the files they are about: a file and its checksum are written in one moment, and cannot fall apart.

A safetensors file is 8 bytes with the length of its header, the header (JSON), and the numbers. Its checksum stands among the
header's metadata, and covers the header without it and the numbers. A JSON object has it under "checksum"; how it is laid out
does not matter. What was written without one is not checked.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from mirada.files import LARGEST_JSON, TooManyValuesError, parsed, require_file

NAME = "checksum"
METADATA = "__metadata__"
BLOCK = 1 << 20
ALIGNED = 8  # bytes: where the numbers begin


def checksum_of(content: bytes) -> str:
    """A name for some bytes that changes if any of them does.

    >>> checksum_of(b"mirada")
    '5f4d04e1a50025a9843cf4ca894d75a0'
    """
    return str(digest_of(content).hexdigest())


def digest_of(content: bytes = b"") -> Any:
    """A checksum that can be continued with more bytes."""
    return hashlib.blake2b(content, digest_size=16)


def json_checksum(described: Mapping[str, Any]) -> str:
    """The checksum of a JSON object, whatever its layout, and whether it has a checksum or not."""
    plain = {key: value for key, value in described.items() if key != NAME}
    return checksum_of(json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode())


def with_checksum(content: bytes) -> bytes:
    """A safetensors file with its checksum in it."""
    (length,) = struct.unpack("<Q", content[:8])
    header, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    digest = started(header)
    digest.update(numbers)
    about = {**header.pop(METADATA, {}), NAME: digest.hexdigest()}
    header = {METADATA: dict(sorted(about.items())), **header}  # equal files for equal contents
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    return struct.pack("<Q", len(text)) + text + numbers


def started(header: Mapping[str, Any]) -> Any:
    """The hash of a header, to be continued with the numbers."""
    about = {key: value for key, value in header.get(METADATA, {}).items() if key != NAME}
    plain = {**header, METADATA: about}
    return digest_of(json.dumps(plain, sort_keys=True, ensure_ascii=True).encode())


def checksum_in(content: bytes) -> str:
    """The checksum that stands in a safetensors file; nothing where there is none."""
    (length,) = struct.unpack("<Q", content[:8])
    return str(json.loads(content[8 : 8 + length]).get(METADATA, {}).get(NAME, ""))


def damage(path: Path, wanted: str = "") -> str:
    """What is wrong with a safetensors file by its own checksum; nothing where it is whole, or has none.

    The file is read block by block. What is no such file at all is left to the library that reads it. Where a checksum is
    `wanted`, the file must have that one.
    """
    require_file(path)
    with open(path, "rb") as file:
        told, digest, wrong = header_of(file)
        if not wrong and wanted and told != wanted:
            wrong = f"its checksum is {str(told)[:40]}, and the checkpoint was written beside weights with {wanted}"
        if wrong or told is None:
            return wrong
        while block := file.read(BLOCK):
            digest.update(block)
    found = digest.hexdigest()
    return "" if found == told else f"its checksum is {found}, and was {str(told)[:40]} when it was written"


def header_of(file: BinaryIO) -> tuple[Any, Any, str]:
    """The checksum in the header of an open safetensors file (None: there is none), the hash that begins with the header, and
    what is wrong: one that would fill the memory is not parsed.
    """
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if length > LARGEST_JSON:
        return None, None, f"its header has {length:,} bytes, and at most {LARGEST_JSON:,} are read"
    try:
        header = parsed(file.read(length))
        told = header.get(METADATA, {}).get(NAME)
        return told, None if told is None else started(header), ""
    except TooManyValuesError as error:
        return None, None, f"its header has {error}"
    except (ValueError, AttributeError, RecursionError):
        return None, None, ""

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
from typing import Any

from mirada.files import require_file

NAME = "checksum"
METADATA = "__metadata__"
BLOCK = 1 << 20
LONGEST_HEADER = 100_000_000  # as the format has it
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


def damage(path: Path) -> str:
    """What is wrong with a safetensors file by its own checksum; nothing where it is whole, or has none.

    The file is read block by block. What is no such file at all is left to the library that reads it.
    """
    require_file(path)
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else LONGEST_HEADER + 1
        if length > LONGEST_HEADER:
            return ""
        try:
            header = json.loads(file.read(length))
            wanted = header.get(METADATA, {}).get(NAME)
            digest = started(header) if wanted is not None else None
        except (ValueError, AttributeError, RecursionError):
            return ""
        if digest is None:
            return ""
        while block := file.read(BLOCK):
            digest.update(block)
    found = digest.hexdigest()
    return "" if found == wanted else f"its checksum is {found}, and was {str(wanted)[:40]} when it was written"

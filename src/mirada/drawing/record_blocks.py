"""Records as text inside a page: in base64, or denser where a record is large."""

import re
from base64 import b64encode

import numpy as np

from mirada.drawing.markup import Markup, element

KIND = "application/octet-stream"  # a type that no browser runs
LARGE = 2 << 20  # bytes of a record from which on a file is written densely
LEFT_OUT = "\0\n\r<"  # what HTML would read as something else, or would not keep
OTHERS = 256  # the first of the letters that stand for one of these and what follows it: two bytes each in UTF-8
AT_ONCE = 7 << 17  # bytes: a multiple of seven
LETTER = re.compile(f"[{re.escape(LEFT_OUT)}].?", re.DOTALL)
PAIRS = {
    left_out + following: chr(OTHERS + 128 * place + (ord(following) if following else 0))
    for place, left_out in enumerate(LEFT_OUT)
    for following in ("", *map(chr, range(128)))
}


def base64_block(record: bytes, index: int) -> Markup:
    """An element with a record in base64: 4 bytes for 3, none of them odd. Base64 cannot end the element."""
    return element("script", Markup(b64encode(record).decode()), type=KIND, data_record=str(index))


def dense_block(record: bytes, index: int) -> Markup:
    """An element with a record in seven bits a byte: 8 bytes for 7, with control characters among them.

    Every character of ASCII stands for its number, but those which a page cannot hold: each of these makes one letter
    together with the character that follows. `page.js` reads it.
    """
    return element("script", Markup(dense_text(record)), type=KIND, data_record=str(index), data_size=str(len(record)))


def file_block(record: bytes, index: int) -> Markup:
    """The element for a page that is written to a file: dense where the record is large."""
    return (dense_block if len(record) > LARGE else base64_block)(record, index)


def dense_text(record: bytes) -> str:
    """Bytes as a text that takes 8 bytes of UTF-8 for 7.

    >>> dense_text(b"abcdefg").encode(), dense_text(bytes(2))
    (b'0XL6#\\x15Lg', 'ĀĀ')
    """
    parts = [seven_bits(record[first : first + AT_ONCE]) for first in range(0, len(record), AT_ONCE)]
    count = -(-8 * len(record) // 7)  # characters that hold something
    return LETTER.sub(lambda found: PAIRS[found[0]], b"".join(parts)[:count].decode("ascii"))


def seven_bits(part: bytes) -> bytes:
    """The bits of some bytes, seven in each byte, the first bit highest."""
    padded = np.frombuffer(part + bytes(-len(part) % 7), np.uint8).reshape(-1, 7).astype(np.uint64)
    whole = np.zeros(len(padded), np.uint64)
    for place in range(7):
        whole = (whole << np.uint64(8)) | padded[:, place]
    shifts = np.arange(49, -1, -7, dtype=np.uint64)
    return bytes(((whole[:, None] >> shifts) & np.uint64(127)).astype(np.uint8).tobytes())

"""Files that may hold text and are no text files: known by how they begin, and what to do with them."""

import os
import re
from pathlib import Path

from mirada.errors import require

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
TAR = slice(257, 262)  # where a tar archive says that it is one
SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
SAVE_SHEET = "a spreadsheet. Save its sheet as CSV (UTF-8) and give that file"
FOREIGN = {
    GZIP: "packed by gzip twice. Unpack it once",
    b"PK\x03\x04": "a zip archive or a spreadsheet. Unpack it, or save the table as CSV",
    b"\xd0\xcf\x11\xe0": SAVE_SHEET,
    b"BZh91AY&SY": "packed by bzip2. Unpack it, or pack it by gzip",
    b"\xfd7zXZ\x00": "packed by xz. Unpack it, or pack it by gzip",
    b"\x28\xb5\x2f\xfd": "packed by zstd. Unpack it, or pack it by gzip",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive. Unpack it and give a file of it",
    b"Rar!\x1a\x07": "a rar archive. Unpack it and give a file of it",
    b"%PDF-": "a PDF. Save its text as a text file",
    b"PAR1": "a Parquet file. Rename it: its name must end in .parquet",
    b"SQLite format 3": "a database. Save the table as CSV",
    b"\x93NUMPY": "an array of NumPy. Save the table as CSV",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"version https://git-lfs": "only a pointer to the file, as Git LFS leaves it. Get the file itself: git lfs pull",
}
PAGE = re.compile(rb"\s*<(!doctype html|html)\b", re.IGNORECASE)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
HALF = 0.6  # of every second byte is NUL in UTF-16


def check_start(path: str | Path, start: bytes, encoding: str = "") -> None:
    """Refuse what is empty, what is packed or written in another way, and UTF-16 that does not say so."""
    require(start not in (b"", BOM), f"{path}: the file is empty. Was it written or downloaded to its end?")
    for sign, kind in FOREIGN.items():
        if start.startswith(sign):
            ending = os.path.splitext(str(path).lower())[1]
            kind = SAVE_SHEET if ending in SHEETS else kind
            kind = "a zip archive. Unpack it and give a file of it" if ending == ".zip" else kind
            raise ValueError(f"{path}: the file is {kind}.")
    require(start[TAR] != b"ustar", f"{path}: the file is a tar archive. Unpack it and give a file of it.")
    require(
        PAGE.match(start.removeprefix(BOM)) is None,
        f"{path}: the file is a web page, not the data. Download the file itself (often a link called raw).",
    )
    if not encoding and (likely := utf16_without_mark(start)):
        raise ValueError(f"{path}: the file looks like UTF-16. Save it as UTF-8, or pass encoding={likely}.")


def utf16_without_mark(start: bytes) -> str:
    """The encoding of UTF-16 that does not say so, by the NULs in every second byte; else nothing.

    >>> utf16_without_mark("hello there".encode("utf-16-le")), utf16_without_mark(b"hello there")
    ('utf-16-le', '')
    """
    for encoding, half in (("utf-16-le", start[1::2]), ("utf-16-be", start[0::2])):
        if len(half) > 3 and half.count(0) > HALF * len(half):
            return encoding
    return ""


def check_address(path: str | Path) -> None:
    """Refuse the address of a web page in the place of a path."""
    if ADDRESS.match(str(path)):
        raise ValueError(f"{path}: an address, not a file. Download it first (curl -LO {path}) and give the file.")

"""The lines of a text file: packed by gzip or not, in UTF-8, with whatever line ends, and bad lines are named."""

import codecs
import gzip
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast
from unicodedata import is_normalized, normalize

from mirada.data.files.forms import FORMS
from mirada.data.record import Problem, check_count
from mirada.errors import require

# Files that may hold text and are no text files: known by how they begin, and what to do with them.


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
    b"SQLite format 3": "a database. Save the table as CSV",
    b"\x93NUMPY": "an array of NumPy. Save the table as CSV",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"version https://git-lfs": "only a pointer to the file, as Git LFS leaves it. Get the file itself: git lfs pull",
    **{
        form.signature: f"a {form.name} file. Rename it: its name must end in {form.endings[0]}"
        for form in FORMS
        if form.signature
    },
}
# a pipe may never have a writer, a device may never end
ENDLESS_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
PAGE = re.compile(rb"\s*<(!doctype html|html)\b", re.IGNORECASE)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
HALF = 0.6  # of every second byte is NUL in UTF-16


def check_start(path: str | Path, start: bytes, encoding: str = "") -> None:
    """Refuse what is empty, what is packed or written in another way, and UTF-16 without a byte order mark."""
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
    for likely, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[0::2])):
        is_utf16 = not encoding and len(zeros) > 3 and zeros.count(0) > HALF * len(zeros)
        require(not is_utf16, f"{path}: the file looks like UTF-16. Save it as UTF-8, or pass encoding={likely}.")


def check_address(path: str | Path) -> None:
    """Refuse a URL instead of a path."""
    if ADDRESS.match(str(path)):
        raise ValueError(f"{path}: an address, not a file. Download it first (curl -LO {path}) and give the file.")


BLOCK = 1 << 20
LONGEST_LINE = 16 << 20  # bytes: a longer one is no record, and might fill the memory
ENDLESS = 16 * LONGEST_LINE  # bytes of a line after which reading stops
HEAD = 8 << 20  # characters of the lines that show what a file is
MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # byte order marks
SHOWN = 3  # names of files in an error
SHORT = 30  # letters of a word in an error
TextForm = Callable[[str], str]  # how characters that can be written in several ways are


def nfc(text: str) -> str:
    """The text with every accent written in one way. Most text is so already, and the check is much cheaper than the change."""
    return text if text.isascii() or is_normalized("NFC", text) else normalize("NFC", text)


def as_written(text: str) -> str:
    """The text itself, for those who count its characters: other forms of it may have fewer."""
    return text


class LongLine(bytes):
    """The beginning of a line that is too long."""


class EndlessLineError(ValueError):
    """A line that is too long to read to its end."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end, and where it is: the path as it was given, and the number of the line from 1."""

    where: str
    text: str


def read_lines(path: str | Path, encoding: str = "") -> Iterator[Line | Problem]:
    r"""The lines of a file, one after the other; a line that is no text is a problem, and reading continues.

    Lines end with LF, CRLF or CR and nowhere else. The text is NFC, so that an accent is written in one way only.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "words.txt")
    >>> _ = path.write_bytes(b"caf\xc3\xa9\r\ncaf\xe9\nte")
    >>> for line in read_lines(path):
    ...     print(line.text if isinstance(line, Line) else line.what)
    café
    not UTF-8: byte 4 of the line is 0xe9. Save the file as UTF-8, or pass encoding=cp1252, which reads 'café'.
    te
    """
    for number, text, fault in scan(path, encoding):
        where = f"{path}:{number}"
        yield Problem(where, fault) if fault else Line(where, text)


def read_text(path: str | Path, encoding: str = "") -> tuple[str, list[Problem]]:
    r"""The file as one text, NFC, with \n as line end; bad lines are skipped and named. A line may have any length."""
    texts: list[str] = []
    problems: list[Problem] = []
    number = 1
    try:
        for block in _in_pieces(_utf8_parts(path, encoding)):
            for text, fault in _decoded(block):
                if fault:
                    check_count(len(problems), f"{path}:{number}", fault)
                    problems.append(Problem(f"{path}:{number}", fault))
                else:
                    texts.append(text)
                number += text.count("\n")
    except EndlessLineError as error:
        raise ValueError(f"{path}:{number}: {error}") from None
    return "".join(texts), problems


def head(path: str | Path, encoding: str, lines: int) -> list[tuple[str, str]]:
    """The first lines of a file and what is wrong with them: so many, or fewer where they are long."""
    first: list[tuple[str, str]] = []
    room = HEAD
    for _, text, fault in islice(scan(path, encoding), lines):
        first.append((text, fault))
        room -= len(text)
        if room < 0:
            break
    return first


def scan(
    path: str | Path, encoding: str = "", form: TextForm = nfc, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, str, str]]:
    """The lines as (number, text, fault): plain tuples, since millions of them are made. `form` is `nfc` or `as_written`.

    The text of a faulty line is not to be used as data, only to follow the form of the file: U+FFFD is in the place of what
    could not be read.
    """
    number = 1
    try:
        for block in whole_lines(_utf8_parts(path, encoding), longest):
            for passage, fault in _decoded(block, form, longest):
                lines = passage.removesuffix("\n").split("\n")
                for at, text in enumerate(lines, number):
                    yield at, text, fault
                number += len(lines)
    except EndlessLineError as error:
        raise ValueError(f"{path}:{number}: {error}") from None


def _decoded(block: bytes, form: TextForm = nfc, longest: int = LONGEST_LINE) -> list[tuple[str, str]]:
    """The text of a block of lines and what is wrong with it, or nothing; a block with a fault comes line by line.

    Positions count from 1.
    """
    if isinstance(block, LongLine):
        fault = f"longer than {longest >> 20} MB. Split the record, or check that it is a text file with line ends."
        return [(block.decode(errors="replace").replace("\n", ""), fault)]
    if nul := block.find(b"\0") + 1:
        fault = f"a NUL character: byte {nul} of the line. Is it a text file in UTF-8?"
    else:
        try:
            text = block.decode()
            return [(text if text.isascii() else form(text), "")]
        except UnicodeDecodeError as error:
            wrong = f"byte {error.start + 1} of the line is {block[error.start]:#04x}"
            fault = f"not UTF-8: {wrong}. Save the file as UTF-8, or {_likely_encoding(block)}."
    lines = block.splitlines(keepends=True)
    if len(lines) > 1:
        return [passage for line in lines for passage in _decoded(line, form)]
    return [(block.decode(errors="replace").replace("\0", "\ufffd"), fault)]


def _likely_encoding(raw: bytes) -> str:
    """What to pass for a line that is not UTF-8: mostly it is what Windows writes, and the word shows whether it is.

    >>> _likely_encoding("una reseña".encode("cp1252"))
    "pass encoding=cp1252, which reads 'reseña'"
    """
    try:
        words = raw.decode("cp1252").split()
    except UnicodeDecodeError:
        return "pass its encoding="
    word = next((word for word in words if not word.isascii()), "")
    return f"pass encoding=cp1252, which reads {word[:SHORT]!r}" if word.isprintable() else "pass its encoding="


def _utf8_parts(path: str | Path, encoding: str = "") -> Iterator[bytes]:
    r"""The file in UTF-8, part by part, without byte order mark, with \n as line end whatever ends its lines."""
    encoding = "" if encoding and codecs.lookup(encoding).name in ("utf-8", "utf-8-sig") else encoding
    with opened(path) as file:
        start = file.read(BLOCK)
        check_start(path, start, known := encoding or MARKS.get(start[:2], ""))
        parts: Iterator[bytes] = chain([start], iter(lambda: file.read(BLOCK), b""))
        if known:
            parts = recoded(parts, known, path)
        first = next(parts).removeprefix(BOM)
        held = b""  # a CR at the end of a part: its LF may be the first byte of the next
        for part in chain([first], parts):
            joined = held + part
            held = b"\r" if joined.endswith(b"\r") else b""
            yield joined.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if held:
            yield b"\n"


def recoded(parts: Iterable[bytes], encoding: str, path: str | Path) -> Iterator[bytes]:
    """Bytes of another encoding in UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for part in parts:
            yield decoder.decode(part).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise ValueError(
            f"{path}: not {encoding}: {error}. Pass another encoding=, or save the file as UTF-8."
        ) from None


def whole_lines(parts: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Blocks of whole lines; of a line that is too long only the beginning is kept."""
    kept: list[bytes] = []  # joined once, when the line ends: it may be longer than many parts
    size = 0
    for part in parts:
        first = part.find(b"\n") + 1
        if size > longest and first:  # the end of a line that is too long
            yield LongLine(kept[0][:SHORT])
            part, kept, size = part[first:], [], 0
        if cut := part.rfind(b"\n") + 1:
            yield b"".join([*kept, part[:cut]])
            kept, size = [], 0
        size += len(part) - cut
        kept = [kept[0]] if size > longest and kept else [*kept, part[cut:]]
        if size > ENDLESS:
            raise EndlessLineError(f"a line of more than {ENDLESS >> 20} MB. Is it a text file?")
    if size > longest:
        yield LongLine(kept[0][:SHORT])
    elif last := b"".join(kept):
        yield last


def _in_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """A text in pieces that end with a line, or where a line is long, behind a blank or at least a whole character."""
    kept, size = b"", 0  # size: bytes since the last blank or line end
    for part in parts:
        kept += part
        cut = max(kept.rfind(b"\n"), kept.rfind(b" ")) + 1
        size = len(kept) - cut if cut else size + len(part)
        if size > ENDLESS:
            raise EndlessLineError(f"more than {ENDLESS >> 20} MB without a blank or a line end. Is it a text file?")
        if not cut and len(kept) > LONGEST_LINE:
            cut = next((n for n in range(len(kept) - 1, len(kept) - 5, -1) if kept[n] & 0xC0 != 0x80), len(kept))
        if cut:
            yield kept[:cut]
            kept = kept[cut:]
    if kept:
        yield kept


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if it is packed by gzip. Whatever fails, also while reading, is a ValueError."""
    place = os.path.expanduser(path)  # the shell expands ~ neither behind a comma nor behind `=`
    require(str(path) != "", "the path of the file is empty. Give the name of a file.")
    if os.path.isdir(place):
        files = [name for name in names_in(place) if os.path.isfile(os.path.join(place, name))]
        some = ", ".join(files[:SHOWN]) + (", ..." if len(files) > SHOWN else "")
        way_out = f"Give a file of it: {some}." if files else "Give the path of a file."
        raise ValueError(f"{path}: a folder, not a file. {way_out}")
    require("\0" not in place, f"{path!r}: a path has no NUL character. Check the path.")
    try:
        kind = ENDLESS_KINDS.get(stat.S_IFMT(os.stat(place).st_mode), "")
        require(not kind, f"{path}: {kind}, not a file. It is read several times: write it to a file first.")
        with open(place, "rb") as file:
            start = file.peek(len(GZIP))
            require(start != b"", f"{path}: the file is empty. Was it written or downloaded to its end?")
            if start.startswith(GZIP):
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                if str(path).lower().endswith(".gz"):
                    raise ValueError(f"{path}: not gzip, although its name says so. Rename it.")
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path}: the gzip file is cut short or damaged ({error}). Copy or download it again."
        ) from None
    except OSError as error:
        check_address(path)
        if isinstance(error, FileNotFoundError):
            what = f"no such file. {near(place)}"
        elif isinstance(error, PermissionError):
            what = "no permission to read the file. Change its permissions, or copy it."
        else:
            what = f"cannot be read: {error.strerror or error}. Check the path and the disk."
        raise ValueError(f"{path}: {what}") from None


def near(place: str) -> str:
    """A hint for a path that does not exist: the most similar name in its folder."""
    folder, name = os.path.split(place)
    if not os.path.isdir(folder or "."):
        return f"There is no folder {folder!r} either. Check the path."
    similar = get_close_matches(name, names_in(folder or "."), n=1)
    return f"Did you mean {os.path.join(folder, similar[0])!r}?" if similar else "Check the path."


def names_in(folder: str) -> list[str]:
    """The names in a folder, in order; none if it cannot be listed."""
    return sorted(os.listdir(folder)) if os.access(folder, os.R_OK) else []

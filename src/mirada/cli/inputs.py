"""What a command reads beside its words: the lines of standard input, and the text of a passage."""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from mirada.errors import require

SHOWN = 60  # characters of a line that is too long


class InputLine(NamedTuple):
    """A line of standard input without its end, and what is wrong with it; such a line is shown, not answered."""

    text: str
    fault: str = ""


def lines() -> Iterator[InputLine]:
    """Lines of standard input. Empty and faulty ones stay, so that answer i is that of line i."""
    from mirada.data.text import LONGEST_LINE

    for number, raw in enumerate(iter(lambda: sys.stdin.buffer.readline(LONGEST_LINE + 1), b""), 1):
        where = f"line {number} of standard input"
        if len(raw) > LONGEST_LINE:
            skip_line(raw, where)
            shown = raw[:SHOWN].decode(errors="replace").strip() + "..."
            yield InputLine(shown, f"{where} is longer than {LONGEST_LINE >> 20} MB. Give one input a line.")
            continue
        try:
            yield InputLine(raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            byte = f"byte {error.start + 1} is {raw[error.start]:#04x}"
            text = raw.decode(errors="replace").rstrip("\r\n")
            yield InputLine(text, f"{where} is not UTF-8: {byte}. Send it as UTF-8, or give a file with --data.")


def skip_line(raw: bytes, where: str) -> None:
    """Read on to the end of a line that is too long; what never ends is no line."""
    from mirada.data.text import BLOCK, ENDLESS

    size = len(raw)
    while raw and not raw.endswith(b"\n"):
        raw = sys.stdin.buffer.readline(BLOCK)
        size += len(raw)
        require(size <= ENDLESS, f"{where} has more than {ENDLESS >> 20} MB. Is it text?")


def passage_text(path: str) -> str:
    """The text of a file, or of standard input, with every character as it is: answers are told by their places in it.

    UTF-8, or UTF-16 with a mark at its beginning.
    """
    from mirada.data.foreign import BOM, check_start
    from mirada.data.text import LONGEST_LINE, MARKS, opened, recoded

    name = "standard input" if path == "-" else path
    if path == "-":
        require(sys.stdin is not None, "the passage is to come from standard input, which is closed")
        raw = sys.stdin.buffer.read(LONGEST_LINE + 1)
    else:
        with opened(path) as file:
            raw = file.read(LONGEST_LINE + 1)
    require(len(raw) <= LONGEST_LINE, f"{name}: a passage of more than {LONGEST_LINE >> 20} MB. Cut it.")
    known = MARKS.get(raw[:2], "")
    if raw.strip():
        check_start(name, raw, known)
    raw = b"".join(recoded([raw], known, name)) if known else raw
    raw = raw.removeprefix(BOM)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: not UTF-8: byte {error.start + 1} is {raw[error.start]:#04x}. Save the passage as UTF-8."
        ) from None
    require(bool(text.strip()), f"{name}: the passage is empty")
    return text

"""What a terminal is shown. Text from data cannot move its cursor, change its colors, or turn the order of letters around.

In a pipe or a file every character stays as it is: programs read there.
"""

import errno
import sys
from typing import TextIO

BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reorder what follows: what is read is not what is there
SEPARATORS = (0x2028, 0x2029)
TAGS = range(0xE0000, 0xE0080)  # letters that nobody sees
KEPT = "\n\t"
ESCAPED = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*range(0x20), *range(0x7F, 0xA0), *BIDI, *SEPARATORS, *TAGS)
    if chr(code) not in KEPT
}


def visible(text: str) -> str:
    r"""The text with its control characters written out, so that a terminal shows them and does not obey them.

    >>> print(visible("\x1b[31mred\u202e"))
    \x1b[31mred\u202e
    >>> visible("un niño")
    'un niño'
    """
    return text if text.isprintable() else encodable(text.translate(ESCAPED))


def encodable(text: str, encoding: str = "utf-8") -> str:
    """The text with what an encoding does not have written out: half characters, for example."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def echo(text: object = "", *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print a line, at once. `styled` text has escape sequences of ours, and `visible` was asked about the rest of it."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # closed by whoever started us
        return
    line = str(text)
    if not styled and shows(stream):
        line = visible(line)
    try:
        try:
            stream.write(line + "\n" * nl)
        except UnicodeEncodeError:
            stream.write(encodable(line, stream.encoding) + "\n" * nl)
        stream.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:  # that one is nobody's mistake: who read it has enough
            error.filename = "standard error" if err else "standard output"
        raise


def shows(stream: TextIO) -> bool:
    """Whether a person reads what is written there."""
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False

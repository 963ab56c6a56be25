"""Text for people and programs: numbers and plurals, shortened texts, strict JSON, text that is safe to print on a terminal."""

import errno
import json
import sys
import unicodedata
from math import floor, isfinite, log10
from typing import Any, TextIO, TypeAlias

# Safe printing: text from data cannot move the cursor, change colors, or reorder what is displayed.


BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reorder displayed text
SEPARATORS = (0x2028, 0x2029)
TAGS = range(0xE0000, 0xE0080)  # invisible characters
KEPT = "\n\t"
LINE_SIGNS = {"\n": "\u21b5", "\t": "\u21e5", "\r": "\u240d", **dict.fromkeys("\u200c\u200d", "")}
ESCAPED = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*range(0x20), *range(0x7F, 0xA0), *BIDI, *SEPARATORS, *TAGS)
    if chr(code) not in KEPT
}


def visible(text: str) -> str:
    r"""The text with its control characters escaped, so that a terminal shows them instead of executing them.

    >>> print(visible("\x1b[31mred\u202e"))
    \x1b[31mred\u202e
    >>> visible("un niño")
    'un niño'
    """
    return text if text.isprintable() else _encodable(text.translate(ESCAPED))


def visible_line(text: str) -> str:
    """A text for one line of cells: as `visible`, with signs for newlines and tabs, and without characters of width zero.

    >>> visible_line("a\\x1b[31mb"), visible_line("tab\\there"), visible_line("a\\u202eb")
    ('a\\\\x1b[31mb', 'tab⇥here', 'a\\\\u202eb')
    """

    def sign(letter: str) -> str:
        hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        return LINE_SIGNS.get(letter, letter.encode("unicode_escape").decode() if hidden else letter)

    return "".join(map(sign, text))


def _encodable(text: str, encoding: str = "utf-8") -> str:
    """The text with characters that an encoding does not have escaped: lone surrogates, for example."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def echo(text: object = "", *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print a line and flush. `styled` text has escape sequences of our own; its other parts went through `visible`."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # closed by the parent process
        return
    line = str(text)
    if not styled and _is_terminal(stream):
        line = visible(line)
    try:
        try:
            stream.write(line + "\n" * nl)
        except UnicodeEncodeError:
            stream.write(_encodable(line, stream.encoding) + "\n" * nl)
        stream.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:  # a closed pipe is no error: the reader has all it wants
            error.filename = "standard error" if err else "standard output"
        raise


def _is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal."""
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def shortened(text: str, most: int = 60, ellipsis: str = "...") -> str:
    """The text, cut to `most` characters with an ellipsis if it is longer.

    >>> shortened("a long name", 8), shortened("a name", 8)
    ('a lon...', 'a name')
    """
    return text if len(text) <= most else text[: most - len(ellipsis)] + ellipsis


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # creating one takes as long as encoding a response


def json_text(value: Any) -> str:
    r"""A value as one line of strict JSON: null instead of NaN and infinity, lone surrogates escaped.

    >>> print(json_text({"text": "ni\u00f1a", "scores": [float("nan"), 0.5]}))
    {"text": "niña", "scores": [null, 0.5]}
    """
    try:
        text = ENCODER.encode(value)
    except ValueError:
        text = ENCODER.encode(finite(value))
    return text if is_utf8(text) else json.dumps(finite(value))


def finite(value: Any) -> Any:
    """The value with None in the place of NaN and infinity, which JSON does not have.

    >>> finite({"a": [float("inf"), 1], "b": 0.5})
    {'a': [None, 1], 'b': 0.5}
    """
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [finite(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return None if isinstance(value, float) and not isfinite(value) else value


def is_utf8(text: str) -> bool:
    r"""Whether UTF-8 can hold a text: not half of a surrogate pair, as a byte becomes that is not UTF-8 in an argument.

    >>> is_utf8("niña"), is_utf8("a\udcff")
    (True, False)
    """
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def plural(count: int, word: str) -> str:
    """A count and its noun, in the plural where it belongs.

    >>> plural(1, "step"), plural(1200, "step"), plural(3, "batch")
    ('1 step', '1,200 steps', '3 batches')
    """
    if count != 1:
        word += "es" if word.endswith(("ch", "s")) else "s"
    return f"{count:,} {word}"


Value: TypeAlias = str | float | None  # None and nan: not measured

MISSING = "\u2013"


def number(value: float | None) -> str:
    """A number for people: about four digits, no decimals from 1,000 on, commas between thousands.

    >>> [number(x) for x in (1234, 34.27, 0.5, 0.012345, 0.00031, 2e-7, 3.5e15, None, float("nan"))]
    ['1,234', '34.27', '0.5', '0.0123', '0.00031', '2e-7', '3.5e15', '–', 'nan']
    """
    if value is None:
        return MISSING
    if not isfinite(value):
        return str(float(value))
    size = abs(value)
    if size and not 1e-4 <= size < 1e15:
        return scientific(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if float(value).is_integer():
        return f"{value:.0f}".replace("-0", "0")
    leading = floor(log10(size))
    decimals = 3 - leading if leading >= 0 else max(4, 2 - leading)
    return f"{value:,.{decimals}f}".rstrip("0").rstrip(".")


def scientific(value: float, decimals: int = 2) -> str:
    """A few digits and a power of ten."""
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def written(value: Value) -> str:
    """A text unchanged, a number as `number` writes it."""
    return value if isinstance(value, str) else number(value)


def weight(value: float, decimals: int = 2) -> str:
    """A weight for a narrow cell of a map: a few decimals, no leading zero.

    >>> [weight(x) for x in (0.873, 0.004, 1.0, -0.25)]
    ['.87', '.00', '1.0', '-.25']
    """
    if not isfinite(value):
        return str(float(value))
    text = f"{abs(value):.{decimals}f}"
    if not text.startswith("0"):
        return f"{value:.{decimals - 1}f}" if abs(value) < 100 else f"{value:.0e}"
    return f"-{text[1:]}" if value < 0 and text.strip(".0") else text[1:]


def plain(value: float) -> str:
    """A coordinate or a fraction for SVG and CSS: at most three decimals.

    >>> plain(0.25), plain(3.0), plain(-1e-9)
    ('0.25', '3', '0')
    """
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

"""How numbers are written: enough digits to compare, none to count."""

from math import floor, isfinite, log10
from typing import TypeAlias

Value: TypeAlias = str | float | None  # None and nan: not measured

MISSING = "\u2013"


def number(value: float | None) -> str:
    """A number for reading: about four digits, whole above a thousand, commas between thousands.

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
    """A text as it is, a number for reading."""
    return value if isinstance(value, str) else number(value)


def weight(value: float, decimals: int = 2) -> str:
    """A weight for the narrow cell of a map: a few decimals, no leading zero.

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
    """A coordinate or a share for SVG and CSS: at most three decimals.

    >>> plain(0.25), plain(3.0), plain(-1e-9)
    ('0.25', '3', '0')
    """
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

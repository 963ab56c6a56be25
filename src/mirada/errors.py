"""Error messages that name the rule, the values and the way out."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches


def unknown(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """The error for an unknown name, with the known ones and the closest match.

    >>> print(unknown("kernel", "fuse", ["fused", "reference"]))
    unknown kernel 'fuse'; known: fused, reference. Did you mean 'fused'?
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"unknown {kind} {name!r}; known: {', '.join(names)}.{hint}")


def require_known(kind: str, name: object, known: Collection[str]) -> None:
    """Raise the error of `unknown` unless the name is in the list."""
    if name not in known:
        raise unknown(kind, name, known)


def require(holds: bool, message: str) -> None:
    """Raise `ValueError(message)` unless the rule holds. Not for hot loops: the message is built every time."""
    if not holds:
        raise ValueError(message)

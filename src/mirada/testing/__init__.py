"""`check` does to your part what our own tests do to ours.

A law that is broken is one message, which names the law, the part and the sizes.

>>> from mirada.attention import Dot
>>> from mirada.testing import check
>>> check(Dot(), skip=["compile"]).held[:3]
('no trace', 'samples', 'kernels')
"""

import itertools
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from mirada.errors import require, require_known
from mirada.testing.case import KINDS, BrokenError, Case, SilentError
from mirada.testing.laws import LAWS

__all__ = ["LAWS", "Checked", "LawError", "check"]


class LawError(AssertionError):
    """A part breaks a law of attention; the message names the law, the part and the sizes."""


@dataclass(frozen=True)
class Checked:
    """The laws that a part was found to keep.

    Args:
        part: how the part prints.
        sizes: the sizes it was tried with.
        held: the laws that hold.
        skipped: the laws that say nothing about it, each with the reason.
    """

    part: str
    sizes: str
    held: tuple[str, ...]
    skipped: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.part} ({self.sizes}) keeps {len(self.held)} laws: {', '.join(self.held)}"]
        return "\n".join([*lines, *(f"  {law}: {why}" for law, why in self.skipped.items())])


def check(
    part: Any,
    *,
    batch: int | None = None,
    heads: int | None = None,
    length: int | None = None,
    dim: int | None = None,
    skip: Collection[str] = (),
) -> Checked:
    """Try every law of attention on a part: a score, neighborhood, position, normalizer, or heads.

    Sizes are found by trying some; one that only the part's author can know is given. It takes about a second, of which
    `compile` takes most.

    Args:
        part: the part, as a value.
        batch: samples in the tensors that it is tried with.
        heads: heads of the queries.
        length: queries, and keys.
        dim: numbers in a query.
        skip: the laws that are known not to apply, by their names in `LAWS`.

    Returns:
        The laws that hold, and why the others say nothing about it.

    Raises:
        LawError: a law is broken. It is an AssertionError.

    >>> from mirada.attention import Causal
    >>> class Late(Causal):
    ...     causal = True
    ...     def sees(self, places):
    ...         return places.j <= places.i + 1
    >>> check(Late(), skip=["compile"])
    Traceback (most recent call last):
    mirada.testing.LawError: Late() breaks the law 'declarations' (what it declares is true of its set): it declares causal = ...
    """
    kind = next((name for name, each in KINDS.items() if isinstance(part, each)), None)
    hint = f"the class {part.__name__}; add ()" if isinstance(part, type) else repr(part)
    require(kind is not None, f"check takes a score, neighborhood, position, normalizer or heads: got {hint}")
    for name in skip:
        require_known("law", name, LAWS)
    case = Case(part, str(kind))
    if kind != "input position":
        case = _fitting(case, {"batch": batch, "heads": heads, "length": length, "dim": dim})
    held, skipped = [], dict.fromkeys(skip, "the caller skipped it")
    # the declarations of a set come first: what follows relies on them
    for name in sorted(LAWS, key=lambda name: len(LAWS[name].kinds)) if kind == "where" else LAWS:
        if kind not in LAWS[name].kinds or name in skip:
            continue
        try:
            LAWS[name].hold(case)
            held.append(name)
        except SilentError as why:
            skipped[name] = str(why)
        except Exception as error:
            how, sizes = error.args if isinstance(error, BrokenError) else (_line(error), case)
            raise LawError(f"{_name(part)} breaks the law {name!r} ({LAWS[name].says}): {how} ({sizes})") from error
    return Checked(_name(part), str(case), tuple(held), skipped)


def _name(part: Any) -> str:
    """A part in a line: without the modules that it is made of."""
    return f"{type(part).__name__}({part.extra_repr()})" if isinstance(part, nn.Module) else str(part)


def _line(error: Exception) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0]}"


def _fitting(case: Case, given: dict[str, int | None]) -> Case:
    """The case with the first sizes that the part takes."""
    part = case.part
    tensors = list(part.tensors()) if case.kind == "where" else []
    numbers = [x for x in vars(part).values() if type(x) is int and x > 0]
    options = {
        "batch": [2, *(len(x) for x in tensors if x.ndim)],
        "heads": [*(x for x in (getattr(part, "heads", 1),) if type(x) is int and x > 1), 3, 2, 4, 6, 1, 8],
        "length": [11, *(size for x in tensors for size in x.shape), *numbers, *(a * b for a, b in itertools.pairwise(numbers))],
        "dim": [*getattr(part, "dims", ())[:1], *(x for x in (getattr(part, "dim", 0),) if x), 16, 6, 4, 8, 32, 64, 5, 3, 2],
    }  # fmt: skip
    choices = [[given[name]] if given[name] else list(dict.fromkeys(found)) for name, found in options.items()]
    first = None
    for sizes in itertools.islice(itertools.product(*choices), 600):
        one = replace(case, **dict(zip(options, sizes, strict=True)))  # type: ignore[arg-type]
        try:
            one.run(one.own(), one.tensors(), one.wheres()[0])
        except Exception as error:
            first = first or LawError(
                f"no sizes were found that {_name(part)} takes: with {one} it says {_line(error)}. "
                "Pass batch=, heads=, length= or dim=."
            )
            continue
        return one
    assert first is not None
    raise first

"""Parts written as words, so that a configuration can hold them: `rotary`, `relative:16`, `causal & window:128`.

A word is the lower-case name of a class, its arguments follow a colon: `window:64,64`, `rotary:base=500`, `layer:bias=no`. What
the model determines (width, heads, dim, ...) is filled in and not written. Neighborhoods combine with `&`, `|` and `~`; what
they print, `Causal() & Window(left=128, right=0)`, is read as well.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mirada.attention import heads, neighborhoods, normalizers, positions, scores
from mirada.errors import unknown
from mirada.layers.norm import NORMS
from mirada.layers.output import TRANSFORMS

Make = Callable[..., Any]


def _by_name(*classes: Make) -> dict[str, Make]:
    """The classes by their lower-case names."""
    return {made.__name__.lower(): made for made in classes}


PARTS: dict[str, dict[str, Make]] = {
    "score": {"general": scores.Bilinear} | _by_name(
        scores.Dot, scores.Bilinear, scores.Additive, scores.Concat, scores.TanhSum, scores.Location
    ),
    "where": _by_name(
        neighborhoods.Complete, neighborhoods.Causal, neighborhoods.Window, neighborhoods.Strided, neighborhoods.Fixed,
        neighborhoods.Grid, neighborhoods.Monotonic, neighborhoods.PerHead,
    ),
    "position": {
        "none": positions.Position,
        "t5": positions.T5Bias,
        **_by_name(
            positions.Sinusoidal, positions.Learned, positions.Rotary, positions.Relative, positions.ALiBi,
            positions.LocalGaussian,
        ),
    },
    "normalizer": _by_name(
        normalizers.Softmax, normalizers.Sparsemax, normalizers.Identity, normalizers.Hard, normalizers.StraightThrough,
        normalizers.Gumbel,
    ),
    "heads": _by_name(heads.MultiHead, heads.Grouped, heads.Collaborative, heads.Split),
    "norm": dict(NORMS),
    "transform": dict(TRANSFORMS),
}  # fmt: skip

YES_OR_NO = {"yes": True, "no": False}
MOST = 2**31  # no text has so many places: larger numbers overflow when scores are computed
TERM = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?::(?P<arguments>[^\s&|~]+))?")


class Given(NamedTuple):
    """Arguments of parts that the model fills in, by the names of the constructors' parameters.

    `known` is fixed by the model and can only be overridden by name; `usual` is the default of what the text does not set.
    """

    known: Mapping[str, object]
    usual: Mapping[str, object]


def parse(kind: str, text: str, known: Mapping[str, object] | None = None, **usual: object) -> Any:
    """The part that a text describes, with arguments that the model fills in.

    >>> parse("position", "relative:16", {"dim": 64})
    Relative(64, clip=16, values=True)
    >>> parse("where", "causal & window:3")
    Causal() & Window(left=3, right=0)
    >>> parse("where", "windwo:3")
    Traceback (most recent call last):
    ValueError: unknown where 'windwo'; known: causal, ... window. Did you mean 'window'?
    """
    source = text if "(" in text else TERM.sub(_as_call, text)
    try:
        return _build(kind, ast.parse(source.strip(), mode="eval").body, Given(known or {}, usual), text)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{kind} cannot be read: got {text[:200]!r}. Write it as in {_example(kind)}.") from None


def _example(kind: str) -> str:
    """A text to show in an error."""
    examples = {"where": "'window:128' or 'causal & strided:8'", "position": "'rotary' or 'relative:16'"}
    return examples.get(kind, f"'{next(iter(PARTS[kind]))}'")


def _as_call(term: re.Match[str]) -> str:
    return f"{term['name'].replace('-', '_')}({term['arguments'] or ''})"


def _build(kind: str, tree: ast.expr, given: Given, text: str) -> Any:
    """The part of a parsed text."""
    match tree:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right) if kind == "where":
            return _build(kind, left, given, text) & _build(kind, right, given, text)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right) if kind == "where":
            return _build(kind, left, given, text) | _build(kind, right, given, text)
        case ast.UnaryOp(op=ast.Invert(), operand=operand) if kind == "where":
            return ~_build(kind, operand, given, text)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            values = [_argument(kind, value, given, text) for value in args]
            named = {str(word.arg): _argument(kind, word.value, given, text) for word in keywords}
            if len(named) < len(keywords):
                raise ValueError(f"{kind} {text!r} names an argument twice")
            return _make(kind, name, values, named, given, text)
    raise ValueError(f"{kind} cannot be read: got {text!r}. Write it as in {_example(kind)}.")


def _argument(kind: str, tree: ast.expr, given: Given, text: str) -> object:
    """A number, a word, or a part inside a part."""
    if isinstance(tree, ast.Name):
        return YES_OR_NO.get(tree.id, tree.id)
    if isinstance(tree, ast.Call | ast.BinOp) or (isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Invert)):
        return _build(kind, tree, given, text)
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError):
        raise ValueError(f"{kind} {text!r}: arguments are numbers or words") from None


def _make(kind: str, name: str, values: list[object], named: dict[str, object], given: Given, text: str) -> Any:
    """Call the constructor, with the arguments that the model fills in."""
    kinds = PARTS[kind]
    key = name.lower().replace("_", "")
    if key not in kinds:
        raise unknown(kind, name.replace("_", "-"), kinds)
    parameters = inspect.signature(kinds[key]).parameters
    if kinds[key] is neighborhoods.PerHead and not named:
        return neighborhoods.PerHead(*values)  # type: ignore[arg-type]
    parameters = {word: p for word, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}  # type: ignore[assignment]
    free = [word for word in parameters if word not in given.known]
    written = dict(zip(free, values, strict=False))
    wrong = [word for word in named if word not in parameters or word in written]
    filled = dict(given.usual) | dict(given.known) | written | named
    filled = {word: filled[word] for word in parameters if word in filled}
    missing = [word for word in free if word not in filled and parameters[word].default is inspect.Parameter.empty]
    if missing or wrong or len(values) > len(free):
        takes = ", ".join(free) or "nothing"
        raise ValueError(f"{kind} {text!r} does not fit: {key} takes {takes}. For example {_example(kind)}.")
    for word, value in (written | named).items():
        _check_kind(f"{kind} {text!r} does not fit: {word}", value, parameters[word].annotation)
    try:
        return kinds[key](**filled)
    except TypeError:
        raise ValueError(f"{kind} {text!r} does not fit: got {values or named} for {key}") from None


def _shown(value: float) -> str:
    """A number as an error shows it: one of thousands of digits is only described."""
    return f"a number of {value.bit_length()} bits" if isinstance(value, int) else repr(value)


def _check_kind(name: str, value: object, annotation: object) -> None:
    """Require a whole number where the constructor wants one, a number where it wants a number, and none that is too large."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, int | float) and not -MOST < value < MOST:  # NaN is refused, too
        raise ValueError(f"{name} must lie within {MOST:,}: got {_shown(value)}")
    if annotation is bool and value not in (True, False):
        raise ValueError(f"{name} must be yes or no: got {value!r}")
    if annotation is int and not whole:
        raise ValueError(f"{name} must be a whole number: got {value!r}")
    if annotation is float and not whole and not isinstance(value, float):
        raise ValueError(f"{name} must be a number: got {value!r}")

"""Parts written as words, so that a configuration can hold them: `rotary`, `relative:16`, `causal & window:128`.

A word is the lower-case name of a class, its arguments follow a colon: `window:64,64`, `rotary:base=500`, `layer:bias=no`. What
the model determines (width, heads, dim, ...) is filled in and not written. Neighborhoods combine with `&`, `|` and `~`; what
they print, `Causal() & Window(left=128, right=0)`, is read as well.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.metadata import entry_points
from keyword import iskeyword
from typing import Any, NamedTuple

from mirada.attention import heads, neighborhoods, normalizers, positions, scores
from mirada.errors import require, require_known, unknown
from mirada.layers.norm import NORMS
from mirada.layers.output import TRANSFORMS

Make = Callable[..., Any]


def _by_name(*classes: Make) -> dict[str, Make]:
    """The classes by their lower-case names."""
    return {made.__name__.lower(): made for made in classes}


PARTS: dict[str, dict[str, Make]] = {
    "score": {"general": scores.Bilinear} | _by_name(
        scores.Dot, scores.Bilinear, scores.Additive, scores.Concat, scores.TanhSum, scores.Location,
        scores.QKNorm, scores.Softcap,
    ),
    "where": _by_name(
        neighborhoods.Complete, neighborhoods.Causal, neighborhoods.Window, neighborhoods.Strided, neighborhoods.Fixed,
        neighborhoods.Grid, neighborhoods.Monotonic, neighborhoods.PerHead, neighborhoods.Global, neighborhoods.Prefix,
        neighborhoods.Dilated,
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
        normalizers.Gumbel, normalizers.Entmax15, normalizers.SoftmaxTopK, normalizers.Sigmoid, normalizers.SoftmaxPlusOne,
        normalizers.Sinks,
    ),
    "heads": {"gated": heads.GatedHeads} | _by_name(
        heads.MultiHead, heads.Grouped, heads.Collaborative, heads.Split, heads.Differential, heads.Latent, heads.Forgetting
    ),
    "norm": dict(NORMS),
    "transform": dict(TRANSFORMS),
}  # fmt: skip

GROUP = "mirada.parts"  # entry points of other packages: each names a module that calls `register` when it is imported
OURS = {kind: frozenset(made) for kind, made in PARTS.items()}

YES_OR_NO = {"yes": True, "no": False}
MOST = 2**31  # no text has so many places: larger numbers overflow when scores are computed
TERM = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?::(?P<arguments>[^\s&|~+]+))?")


def register(kind: str, **parts: Make) -> None:
    """Spell parts of your own in configurations and on the command line: `score=cosine`, `where=dilated:2 & causal`.

    What a constructor's parameters are called decides what the model fills in (`width`, `heads`, `dim`, ...); the others are
    written after a colon. A saved configuration has the word, so it can be loaded where the part is registered again. A
    package with an entry point of the group `mirada.parts`, which names the module that registers, does so by itself.

    Args:
        kind: "score", "where", "position", "normalizer", "heads", "norm" or "transform".
        parts: the classes, or functions that make a part, by the words that spell them: lower-case letters and digits.

    >>> from mirada.attention import Product
    >>> class Raw(Product):
    ...     '''score(q, k) = q.k'''
    >>> register("score", raw=Raw)
    >>> parse("score", "raw")
    Raw()
    """
    require_known("kind of part", kind, PARTS)
    for word, make in parts.items():
        plain = re.fullmatch(r"[a-z][a-z0-9]*", word)
        require(plain is not None, f"a part is spelled in lower-case letters and digits: got {word!r}")
        require(callable(make), f"{kind} {word!r} must be a class, or a function that makes a part: got {make!r}")
        taken = word in OURS[kind] or word in YES_OR_NO
        require(not taken, f"{kind} {word!r} is taken: mirada has one of that name. Choose another word.")
        known = PARTS[kind].get(word)
        # a module that is imported again makes the same class again
        again = known is not None and _home(known) == _home(make)
        require(known is None or again, f"{kind} {word!r} is registered already, as {known}. Choose another word.")
    PARTS[kind].update(parts)


class UnknownPartError(ValueError):
    """No part is spelled so; its arguments are the message, the kind and the word."""

    def __str__(self) -> str:
        return str(self.args[0])


@contextmanager
def saved() -> Iterator[None]:
    """While a saved configuration is read: a part that nobody registered here was registered where it was saved."""
    try:
        yield
    except UnknownPartError as error:
        message, kind, word = error.args
        raise ValueError(
            f"{message} It was saved with a {kind} that is not part of mirada: call mirada.register({kind!r}, {word}=...) first."
        ) from error


def _home(make: Make) -> tuple[str, str]:
    """Where a class or function was written."""
    return getattr(make, "__module__", ""), getattr(make, "__qualname__", repr(make))


def _from_packages(name: str) -> None:
    """Let installed packages register their parts; a package that fails says so."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            raise ValueError(
                f"the package {point.value!r} could not register its parts ({name!r} is unknown): {error}"
            ) from error


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
    mirada.layers.parse.UnknownPartError: unknown where 'windwo'; known: causal, ... window. Did you mean 'window'?
    """
    source = text if "(" in text else TERM.sub(_as_call, text)
    try:
        return _build(kind, _tree(source.strip()), Given(known or {}, usual), text)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{kind} cannot be read: got {text[:200]!r}. Write it as in {_example(kind)}.") from None


@lru_cache(256)
def _tree(source: str) -> ast.expr:
    """A text as Python reads it; the same few are read again and again."""
    return ast.parse(source, mode="eval").body


@cache
def _parameters(make: Make) -> dict[str, inspect.Parameter]:
    """The arguments of a constructor that have a name and a place."""
    return {word: p for word, p in inspect.signature(make).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}


def _example(kind: str) -> str:
    """A text to show in an error."""
    examples = {"where": "'window:128' or 'causal & strided:8'", "position": "'rotary' or 'relative:16'"}
    return examples.get(kind, f"'{next(iter(PARTS[kind]))}'")


def _as_call(term: re.Match[str]) -> str:
    name = term["name"].replace("-", "_")
    name += "_" * iskeyword(name)  # a word of Python's own, such as global
    return f"{name}({term['arguments'] or ''})"


def _build(kind: str, tree: ast.expr, given: Given, text: str) -> Any:
    """The part of a parsed text."""
    match tree:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right) if kind == "where":
            return _build(kind, left, given, text) & _build(kind, right, given, text)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right) if kind == "where":
            return _build(kind, left, given, text) | _build(kind, right, given, text)
        case ast.BinOp(left=left, op=ast.Add(), right=right) if kind == "position":
            return _build(kind, left, given, text) + _build(kind, right, given, text)
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
        _from_packages(name)
    if key not in kinds:
        raise UnknownPartError(str(unknown(kind, name.replace("_", "-"), kinds)), kind, key)
    if kinds[key] is neighborhoods.PerHead and not named:
        return neighborhoods.PerHead(*values)  # type: ignore[arg-type]
    parameters = _parameters(kinds[key])
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

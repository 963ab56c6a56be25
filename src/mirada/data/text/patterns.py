"""How long a foreign regular expression can take: read before it runs, because the engine of patterns cannot be stopped.

A pattern is a choice of sequences of atoms (a character, a class, an escape), each perhaps repeated. Where an atom is
repeated without bound, a match may try as many ends as there are characters; where two stand in a row, that many squared.
Repeated groups that can match in several ways are what takes exponential time. So a pattern is read if

- only atoms, or groups of a fixed number of them, are repeated more than once,
- at most two repetitions without bound stand on one way through it, and
- its other choices are few,

and if it is quick on texts that we make (the first two rules bound how long that takes).
"""

import re
import time
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from tokenizers import Regex, pre_tokenizers

from mirada.errors import require
from mirada.words import shortened

LONGEST = 8192  # characters of a pattern
DEEPEST = 16  # groups inside of each other
MOST_LOOPS, MOST_CHOICES = 2, 4096
SECONDS = 0.25  # on all the texts below
PROBE = 600  # characters
KINDS = ("a", "é", " ", "\n", "7", ".", "字", "ა", "\u0301", "_")  # of characters
PROBES = tuple((one * PROBE)[:PROBE] + end for one in (*KINDS, *map("".join, pairwise(KINDS))) for end in ("", "\t~"))
ESCAPES = frozenset(
    "sSdDwWhHbBAzZrntfvae"
)  # one character or none; what refers to a group, or matches several, is not here


class Cost(NamedTuple):
    """What one way through a pattern costs: repetitions without bound, other choices, and its length if that is fixed."""

    loops: int
    choices: int
    length: int | None


class _Reader:
    """Reads a pattern from left to right; ValueError says what is not understood."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def take(self, wanted: str) -> bool:
        """Whether this stands here; it is passed."""
        found = self.pattern.startswith(wanted, self.at)
        self.at += len(wanted) * found
        return found

    def match(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self.pattern, self.at)
        self.at = found.end() if found else self.at
        return found

    def choice(self, depth: int = 0) -> Cost:
        """Sequences with | between them, up to the end or to a closing parenthesis."""
        require(depth <= DEEPEST, f"more than {DEEPEST} groups inside of each other")
        ways = [self.sequence(depth)]
        while self.take("|"):
            ways.append(self.sequence(depth))
        lengths = {way.length for way in ways}
        fixed = ways[0].length if len(lengths) == 1 else None
        return Cost(max(way.loops for way in ways), sum(way.choices for way in ways), fixed)

    def sequence(self, depth: int) -> Cost:
        loops, choices, length = 0, 1, 0
        fixed = True
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            part = self.repeated(*self.atom(depth))
            loops, choices = loops + part.loops, choices * part.choices
            require(loops <= MOST_LOOPS, f"more than {MOST_LOOPS} repetitions without bound in a row")
            require(choices <= MOST_CHOICES, f"more than {MOST_CHOICES} ways to match")
            length, fixed = length + (part.length or 0), fixed and part.length is not None
        return Cost(loops, choices, length if fixed else None)

    def atom(self, depth: int) -> tuple[Cost, bool]:
        """What one atom costs, and whether it is a single character."""
        if self.take("("):
            flags = self.match(r"\?[ims-]+(?=[:)])")
            if not flags:
                self.match(r"\?(?::|=|!|<=|<!|>|<[A-Za-z_]\w*>)")
            require(not self.take("?"), "a kind of group that is not read")
            if flags and not self.take(":"):  # (?i) holds for the rest
                require(self.take(")"), "a group without end")
                return Cost(0, 1, 0), True
            inside = self.choice(depth + 1)
            require(self.take(")"), "a group without end")
            return inside, False
        if self.take("["):
            self.klass(depth + 1)
        elif self.take("\\"):
            known = self.match(
                r"[pP]\{\^?[\w ]{1,40}\}|x\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^\w\s]|\s|_"
            )
            if not known:
                escape = self.pattern[self.at : self.at + 1]
                require(escape in ESCAPES and escape != "", f"the escape \\{escape}")
                self.at += 1
        else:
            require(self.pattern[self.at] not in "*+?{", "a repetition of nothing")
            self.at += 1
        return Cost(0, 1, 1), True

    def klass(self, depth: int) -> None:
        """A class of characters, [...], with classes inside."""
        require(depth <= DEEPEST, f"more than {DEEPEST} classes inside of each other")
        self.take("^")
        first = True
        while not self.take("]") or first:
            require(self.at < len(self.pattern), "a class without end")
            if self.pattern[self.at - 1] == "]" and first:
                first = False
                continue
            first = False
            if self.match(r"\[:\^?\w+:\]"):
                continue
            if self.take("["):
                self.klass(depth + 1)
            elif not self.match(r"\\[pP]\{\^?[\w ]{1,40}\}|\\x\{[0-9A-Fa-f]{1,6}\}|\\.|[^\\]"):
                raise ValueError("a class without end")

    def repeated(self, inside: Cost, single: bool) -> Cost:
        """An atom with the quantifier after it."""
        found = self.match(r"([*+?])[?+]?|\{(\d{0,6})(,?)(\d{0,6})\}\??")
        if not found or (found[1] is None and not (found[2] or found[4])):  # {} and {,} are text
            require(found is None, "braces without a number")
            return inside
        require(not self.match(r"[*+?{]"), "a repetition of a repetition")
        least = {"*": 0, "+": 1, "?": 0}.get(found[1] or "", int(found[2] or 0))
        most = {"*": None, "+": None, "?": 1}[found[1]] if found[1] else None
        if not found[1]:
            most = int(found[4]) if found[4] else None if found[3] else least
        if most is not None and most <= 1:
            return Cost(inside.loops, inside.choices + (least < most), None if least < most else inside.length)
        fixed = single or (inside.loops == 0 and inside.choices == 1 and bool(inside.length))
        require(fixed, "a repeated group that can match in several ways")
        size = max(least, most or 0) * (inside.length or 0)
        require(size <= MOST_CHOICES, f"a repetition over more than {MOST_CHOICES} characters")
        if most is None:
            return Cost(1, 1, None)
        require(least <= most, f"a repetition from {least} to {most} times")
        return Cost(0, most - least + 1, (inside.length or 0) * most if least == most else None)


@lru_cache(maxsize=256)
def require_quick(pattern: str) -> None:
    r"""Require that a regular expression of a foreign file takes no more than about the square of a text's length.

    >>> require_quick(r"\s+(?!\S)|\p{N}{1,3}| ?[^\s\p{L}]+[\r\n]*")
    >>> require_quick("(a+a+)+$")
    Traceback (most recent call last):
    ValueError: the pattern '(a+a+)+$' is not read: a repeated group that can match in several ways
    """
    shown = shortened(pattern, 120)
    require(
        len(pattern) <= LONGEST, f"a pattern of {len(pattern):,} characters is not read, at most {LONGEST:,}: {shown!r}"
    )
    reader = _Reader(pattern)
    try:
        reader.choice()
        require(reader.at == len(pattern), "a parenthesis that closes nothing")
    except ValueError as error:
        raise ValueError(f"the pattern {shown!r} is not read: {error}") from None
    try:
        cutting = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception as error:
        raise ValueError(f"the pattern {shown!r} is none: {shortened(str(error), 80)}") from None
    began = time.thread_time()
    for text in PROBES:
        cutting.pre_tokenize_str(text)
        spent = time.thread_time() - began
        require(spent < SECONDS, f"the pattern {shown!r} is not read: it takes too long on {len(text)} characters")

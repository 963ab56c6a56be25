"""What a short story about a place is made of, in any language."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Errand:
    """What one goes to a place for: a verb and its object, "un" or "a" before the noun."""

    verb: str
    thing: str
    fresh: bool  # "new" may stand before it
    liked: bool  # people may say that they liked it


@dataclass(frozen=True)
class Venue:
    """A place: the way there, what one goes there for, and what one does there, in the order in which one does it."""

    to: str
    errands: tuple[Errand, ...]
    early: tuple[str, ...]
    late: tuple[str, ...]
    often: bool  # people go there every week


@dataclass(frozen=True)
class Who:
    """One person or two."""

    name: str
    female: bool
    several: bool


@dataclass(frozen=True)
class Story:
    """Two sentences, and who went where for what."""

    first: str
    second: str
    who: str
    place: str
    thing: str


def venue(to: str, errands: str, early: str, late: str, often: bool = False) -> Venue:
    """A place from a table row. Errands are "verb: thing, thing; verb: thing"; "*" marks what may be new, "+" what is liked.

    >>> venue("to the zoo", "see: a tiger+, some apes", "wait", "leave").errands[0]
    Errand(verb='see', thing='a tiger', fresh=False, liked=True)
    """
    found = []
    for group in errands.split("; "):
        verb, _, things = group.partition(": ")
        for thing in things.split(", "):
            found.append(Errand(verb, thing.rstrip("*+"), "*" in thing, "+" in thing))
    return Venue(to, tuple(found), tuple(early.split("; ")), tuple(late.split("; ")), often)


def people(women: str, men: str) -> tuple[Who, ...]:
    """The people with these names."""
    return (
        *(Who(name, female=True, several=False) for name in women.split()),
        *(Who(name, female=False, several=False) for name in men.split()),
    )


def draw_who(rng: Random, known: tuple[Who, ...], joined: str) -> Who:
    """One of the people, or now and then two of them with the word `joined` between their names."""
    one, other = rng.sample(known, 2)
    if rng.random() < 0.85:
        return one
    return Who(f"{one.name} {joined} {other.name}", one.female and other.female, several=True)

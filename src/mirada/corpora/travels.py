"""Sentences about people who go somewhere some day: persons, places and dates, drawn by code.

Some names are of persons in one sentence and of places or months in another, so that only the words around them tell.
"""

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np

from mirada.data.batching import drawn

GIVEN = (
    "Anna", "Paul", "Maria", "Omar", "Elena", "Victor", "Lucy", "Samuel", "Irene", "Hugo", "Clara", "Martin",
    "Sofia", "Daniel", "Nadia", "Peter", "Julia", "Simon", "Laura", "Oscar", "Marta", "Felix", "Alice", "Bruno",
    "Emma", "Thomas", "Ines", "Robert", "Nora", "Adam", "Carmen", "Leo", "Ruth", "Mark", "Eva", "Henry", "Amina",
    "David", "Rosa", "Ivan",
)  # fmt: skip
SURNAMES = (
    "Smith", "Garcia", "Novak", "Okafor", "Schmidt", "Rossi", "Tanaka", "Larsen", "Kowalski", "Silva", "Moreau",
    "Khan", "Jensen", "Weber", "Santos", "Petrov", "Murphy", "Haddad", "Lopez", "Berg", "Costa", "Fischer",
    "Nguyen", "Brown", "Marino", "Cohen", "Dubois", "Olsen", "Reyes", "Taylor",
)  # fmt: skip
PLACES = (
    "Madrid", "Berlin", "Lagos", "Kyoto", "Oslo", "Lima", "Cairo", "Prague", "Boston", "Naples", "Seville",
    "Dublin", "Nairobi", "Hamburg", "Lyon", "Porto", "Toronto", "Athens", "Quito", "Delhi", "New York",
    "San Diego", "Cape Town", "Buenos Aires", "Los Angeles", "Hong Kong", "Mexico City", "Saint Louis", "Warsaw",
    "Helsinki", "Zurich", "Geneva", "Bilbao", "Granada", "Tunis", "Izmir", "Bergen", "Turin", "Ghent", "Havana",
)  # fmt: skip
EITHER = (
    "Paris", "Jordan", "Florence", "Austin", "Chelsea", "Sydney", "Victoria", "Georgia", "Charlotte", "Lincoln",
    "Washington", "Carolina",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
NAMED_AS_MONTHS = ("April", "May", "June", "August")  # persons have these names, too
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
TEMPLATES = (
    "P flew to L on D .", "P lives in L .", "P met P in L .", "On D , P left L .", "The train from L to L leaves on D .",
    "P was born in L on D .", "P and P moved to L .", "It rained in L all day .",
    "P will visit L on D , and P will stay at home .",
    "A letter from P reached L on D .", "P asked P about the museum in L .", "Nobody in L has seen P since D .",
    "The meeting with P is on D .", "P teaches music in L .", "The old bridge of L was closed on D .", "P may come on D .",
    "P has a sister in L and a brother in L .", "P told P to wait in L until D .", "The weather in L was fine on D .",
    "Did P call from L ?", "P , who grew up in L , sings on D .", "Trains to L are late .", "The choir of P sang in L .",
    "Dr. P works in L .", "In D , P opened a shop in L .", "Between L and L there is a river .", "The shop opens on D .",
    "We march to L with P .", "P wrote a book about L .", "P paints .", "The winter in L is long , P says .",
)  # fmt: skip
KINDS = {"P": "PER", "L": "LOC", "D": "DATE"}
HELD = 0.35  # share of the names that only held-out sentences have
TRAIN, VALID, TEST = 2400, 300, 300

Sentence = tuple[tuple[str, ...], tuple[str, ...]]  # words, and their tags in BIO


def travels(train: int = TRAIN, valid: int = VALID, test: int = TEST, seed: int = 0) -> dict[str, list[Sentence]]:
    """Sentences by split, no text twice: their words and tags. A part of the names of valid and test occurs nowhere in train.

    >>> travels(train=1, valid=0, test=0)["train"]
    [(('Did', 'Paris', 'Murphy', 'call', 'from', 'Porto', '?'), ('O', 'B-PER', 'I-PER', 'O', 'O', 'B-LOC', 'O'))]
    """
    known, unseen = zip(*(_divided(names) for names in (GIVEN, SURNAMES, PLACES)), strict=True)
    every = tuple([*old, *new] for old, new in zip(known, unseen, strict=True))
    sets: dict[str, list[Sentence]] = {}
    before: set[tuple[str, ...]] = set()
    for number, (name, count) in enumerate({"train": train, "valid": valid, "test": test}.items()):
        kept: list[Sentence] = []
        for row in chain.from_iterable(_numbers(2 * count, seed, number, part) for part in range(50)):
            words, tags = _sentence(row, known if name == "train" else every)
            if words not in before:
                before.add(words)
                kept.append((words, tags))
            if len(kept) == count:
                break
        sets[name] = kept
    return sets


def _divided(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that are learned from, and those that are not."""
    cut = round((1 - HELD) * len(names))
    return list(names[:cut]), list(names[cut:])


def _numbers(count: int, *key: int) -> list[list[float]]:
    """Rows of numbers in [0, 1), one for every choice of a sentence."""
    return ((drawn(count * 32, *key).reshape(count, 32) >> np.uint64(11)).astype(np.float64) / 2.0**53).tolist()  # type: ignore[no-any-return]


def _sentence(row: Sequence[float], names: Sequence[Sequence[str]]) -> Sentence:
    """One sentence from numbers in [0, 1): a template and what is put into it."""
    numbers = iter(row)

    def one(items: Sequence[str]) -> str:
        return items[int(len(items) * next(numbers))]

    given, surnames, places = names
    words, tags = list[str](), list[str]()
    for word in one(TEMPLATES).split():
        kind = KINDS.get(word, "")
        if not kind:
            words.append(word)
            tags.append("O")
            continue
        both = next(numbers) < 0.3  # a name that may be of something else
        if kind == "PER":
            first = one([*EITHER, *NAMED_AS_MONTHS]) if both else one(given)
            phrase = f"{first} {one(surnames)}" if next(numbers) < 0.5 else first
        elif kind == "LOC":
            phrase = one(EITHER) if both else one(places)
        else:
            phrase = _date(one(DAYS), one(MONTHS), int(1 + 28 * next(numbers)), int(1950 + 76 * next(numbers)), both)
            phrase = re.sub(r"^\S+ (?=\S+ \d{4}$)", "", phrase) if words[-1:] == ["In"] else phrase
        parts = phrase.split()
        words += parts
        tags += [f"B-{kind}", *[f"I-{kind}"] * (len(parts) - 1)]
    return tuple(words), tuple(tags)


def _date(day: str, month: str, number: int, year: int, short: bool) -> str:
    """A date as people write it.

    >>> _date("Monday", "May", 3, 1999, short=True), _date("Monday", "May", 3, 1999, short=False)
    ('Monday', '3 May 1999')
    """
    if short:
        return day
    return f"{number} {month}" if number % 2 == 0 and year % 2 else f"{number} {month} {year}"

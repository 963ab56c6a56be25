"""Pronouns that are objects. Spanish puts them before the verb; her, him and them are named again after it."""

from typing import NamedTuple

from tools.corpora.spanish.phrases import NAMED, PEOPLE, RELATIVES, SINGLE, Phrase, Subject
from tools.corpora.spanish.picker import Picker


class Pronoun(NamedTuple):
    """English, what Spanish says before the verb and after it, and the subjects (by person) it does not fit."""

    english: str
    clitic: str
    after: str
    not_with: tuple[int, ...] = ()
    same: str = ""  # the subject it would mean


# I am writing a letter to her: le estoy escribiendo una carta a ella
DATIVES = [
    Pronoun("me", "me", "", (0, 3)),
    Pronoun("you", "te", "", (1,)),
    Pronoun("him", "le", "a él", same="he"),
    Pronoun("her", "le", "a ella", same="she"),
    Pronoun("us", "nos", "", (0, 3)),
    Pronoun("them", "les", "a ellos", same="they"),
]
# I see her: la veo
ACCUSATIVES = [
    Pronoun("me", "me", "", (0, 3)),
    Pronoun("you", "te", "", (1,)),
    Pronoun("him", "lo", "", same="he"),
    Pronoun("her", "la", "", same="she"),
    Pronoun("us", "nos", "", (0, 3)),
    Pronoun("them", "los", "", same="they"),
]
CLITICS = ("lo", "la", "los", "las")  # it and them, by the form of what they stand for
WITH = [
    Pronoun("with me", "", "conmigo", (0, 3)),
    Pronoun("with you", "", "contigo", (1,)),
    Pronoun("with him", "", "con él", same="he"),
    Pronoun("with her", "", "con ella", same="she"),
    Pronoun("with us", "", "con nosotros", (0, 3)),
    Pronoun("with them", "", "con ellos", same="they"),
]

GIVEN = [
    Pronoun(who.english, "les" if who.person == 4 else "le", f"a {who.spanish}")
    for who in NAMED + NAMED + RELATIVES + PEOPLE
]
BESIDE = [Pronoun(f"with {who.english}", "", f"con {who.spanish}") for who in SINGLE]


def fitting(picker: Picker, who: Subject, pronouns: list[Pronoun]) -> Pronoun:
    """One that is not the subject itself."""
    while True:
        chosen = picker.pick(pronouns)
        itself = chosen.english.split()[-1] in who.english.split() or chosen.same == who.english
        if who.person not in chosen.not_with and not itself:
            return chosen


def receiver(picker: Picker, who: Subject) -> Pronoun:
    """To whom something is given: "to her", "to my mother"."""
    return fitting(picker, who, DATIVES if picker.chance(0.5) else GIVEN)


def company(picker: Picker, who: Subject) -> Phrase:
    """With whom: "with me", "with Ana"."""
    chosen = fitting(picker, who, WITH if picker.chance(0.5) else BESIDE)
    return Phrase(chosen.english, chosen.after)


def standing_for(thing: Phrase) -> tuple[str, str]:
    """It or them, and the Spanish pronoun that agrees.

    >>> standing_for(Phrase("the apples", "las manzanas", feminine=True, plural=True))
    ('them', 'las')
    """
    return ("them" if thing.plural else "it"), CLITICS[thing.form]

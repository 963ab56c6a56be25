"""Clauses: a subject, a verb in some mood, said, denied or asked, and when."""

from functools import cache
from typing import NamedTuple

from tools.corpora.spanish.phrases import Subject
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.verbs import COPULAS, ESTAR, VERBS, Verb

BE = ("am", "are", "is", "are", "are")
DO = ("do", "do", "does", "do", "do")
MODALS = {"w": ("want", ""), "c": ("can", ""), "h": ("have", "que ")}  # the verb, and what Spanish puts after it

# when it happens
OFTEN = [("every day", "todos los días"), ("in the morning", "por la mañana"), ("at night", "por la noche"),
         ("on Sundays", "los domingos"), ("on Mondays", "los lunes")]  # fmt: skip
PAST = [("yesterday", "ayer"), ("last night", "anoche"), ("last week", "la semana pasada")]
SOON = [("tomorrow", "mañana"), ("today", "hoy"), ("on Saturday", "el sábado"), ("on Sunday", "el domingo"),
        ("this afternoon", "esta tarde")]  # fmt: skip
# by mood
TIMES = {"s": OFTEN, "g": [("now", "ahora")], "p": PAST, "f": SOON, "w": SOON, "c": SOON, "h": SOON}
SHARES = {"s": 0.3, "g": 0.15, "p": 0.5, "f": 0.35, "w": 0.2, "c": 0.1, "h": 0.2}
ADVERBS = {"always": "siempre", "never": "nunca", "also": "también"}

STATES = {"need", "have", "want", "know", "think", "live", "find"}  # not done at some hour
ONCE = {"see", "open", "close", "look at", "look for", "send", "give", "show", "paint", "arrive"}  # no habits
# the letters of a verb's moods, weighted; s and p have most forms to learn
MOODS = {"s": "ssssss", "g": "ggg", "p": "pppppp", "f": "ff", "m": "wwch", "c": "cc", "w": "ww", "h": "h"}


class Draft(NamedTuple):
    """A sentence without capital letter and marks; `mark` is ".", "?" or, for a phrase, nothing."""

    english: str
    spanish: str
    mark: str


class Tail(NamedTuple):
    """What follows the verb: objects and places, the pronoun Spanish puts before the verb, and what may not be said."""

    english: str
    spanish: str
    clitic: str = ""
    new: bool = False  # "a house": not to be denied
    timeless: bool = False
    habit: bool = True  # may be done every day


@cache
def english_verb(verb: Verb, mood: str, person: int) -> tuple[str, str, str, str]:
    """Said, denied, and in a question what stands before and after the subject."""
    be, do = BE[person], DO[person]
    if mood == "s":
        return (verb.third if person == 2 else verb.base), f"{do} not {verb.base}", do, verb.base
    if mood == "g":
        return f"{be} {verb.ing}", f"{be} not {verb.ing}", be, verb.ing
    if mood == "p":
        return verb.past, f"did not {verb.base}", "did", verb.base
    if mood == "f":
        return f"{be} going to {verb.base}", f"{be} not going to {verb.base}", be, f"going to {verb.base}"
    if mood == "c":
        return f"can {verb.base}", f"cannot {verb.base}", "can", verb.base
    said, denied, asked, rest = english_verb(VERBS[MODALS[mood][0]], "s", person)
    return f"{said} to {verb.base}", f"{denied} to {verb.base}", asked, f"{rest} to {verb.base}"


@cache
def spanish_verb(verb: Verb, mood: str, person: int) -> str:
    if mood == "s":
        return verb.present[person]
    if mood == "g":
        return f"{ESTAR[person]} {verb.gerund}"
    if mood == "p":
        return verb.preterite[person]
    if mood == "f":
        return f"{VERBS['go'].present[person]} a {verb.infinitive}"
    auxiliary, link = MODALS[mood]
    return f"{VERBS[auxiliary].present[person]} {link}{verb.infinitive}"


def mood_of(picker: Picker, verb: Verb, moods: str = "") -> str:
    """A mood the verb is used in, as a letter of `SHARES`."""
    return picker.pick("".join(MOODS[letter] for letter in moods or verb.moods))


def _needs_time(verb: Verb, mood: str, person: int) -> bool:
    """Where one spelling serves present and past, only the time tells: I read; compramos."""
    return mood == "p" and (verb.past == verb.base or (person == 3 and verb.present[3] == verb.preterite[3]))


def _allows_time(verb: Verb, mood: str, tail: Tail) -> bool:
    if tail.timeless or verb.base in STATES:
        return False
    return mood != "s" or (tail.habit and verb.base not in ONCE)


def _manner(picker: Picker, who: Subject, mood: str, verb: Verb, tail: Tail) -> str:
    """Said, denied, asked, or said with an adverb."""
    chance = picker.random()
    if chance < 0.18:
        return "said" if tail.new else "denied"
    if chance < 0.34 and who.person in (1, 2, 4):
        return "asked"
    if chance > 0.93 and mood == "s":
        return picker.pick(list(ADVERBS)) if tail.habit and verb.base not in STATES | ONCE else "also"
    return "said"


def spaced(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def clause(picker: Picker, who: Subject, verb: Verb, tail: Tail, moods: str = "", how: str = "") -> Draft:
    """A whole sentence around a verb.

    >>> from tools.corpora.spanish.phrases import ONE
    >>> tail = Tail("a letter to her", "una carta a ella", "le", timeless=True)
    >>> clause(Picker(0), ONE["I"], VERBS["write"], tail, "g", "said")
    Draft(english='I am writing a letter to her', spanish='le estoy escribiendo una carta a ella', mark='.')
    """
    mood = mood_of(picker, verb, moods)
    how = how or _manner(picker, who, mood, verb, tail)
    said, denied, asked, rest = english_verb(verb, mood, who.person)
    spanish = spaced(tail.clitic, spanish_verb(verb, mood, who.person), tail.spanish)
    if how == "asked":
        english, spanish = spaced(asked, who.english, rest, tail.english), spaced(who.spanish, spanish)
    elif how == "denied":
        english, spanish = spaced(who.english, denied, tail.english), spaced(who.spanish, "no", spanish)
    elif how == "said":
        english, spanish = spaced(who.english, said, tail.english), spaced(who.spanish, spanish)
    else:
        english, spanish = spaced(who.english, how, said, tail.english), spaced(who.spanish, ADVERBS[how], spanish)
    mark = "?" if how == "asked" else "."
    draft = Draft(english, spanish, mark)
    free = how not in ADVERBS and _allows_time(verb, mood, tail) and picker.chance(SHARES[mood])
    return timed(picker, draft, mood) if free or _needs_time(verb, mood, who.person) else draft


def timed(picker: Picker, draft: Draft, mood: str) -> Draft:
    """Say when: at the end, or in front where that is usual."""
    when, cuando = picker.pick(TIMES[mood])
    if draft.mark == "." and mood in "pfwh" and picker.chance(0.4):
        return Draft(f"{when} {draft.english}", f"{cuando} {draft.spanish}", draft.mark)
    return Draft(f"{draft.english} {when}", f"{draft.spanish} {cuando}", draft.mark)


def being(picker: Picker, who: Subject, copula: str, english: str, spanish: str, how: str = "") -> Draft:
    """A sentence with to be: ser, estar or tener.

    >>> from tools.corpora.spanish.phrases import ONE
    >>> being(Picker(0), ONE["she"], "tener", "hungry", "hambre", "asked")
    Draft(english='is she hungry', spanish='ella tiene hambre', mark='?')
    """
    be, verb = BE[who.person], COPULAS[copula][who.person]
    how = how or picker.pick(("said", "said", "said", "denied", "asked"))
    if how == "asked" and who.person not in (0, 3):
        return Draft(f"{be} {who.english} {english}", spaced(who.spanish, verb, spanish), "?")
    if how == "denied":
        return Draft(f"{who.english} {be} not {english}", spaced(who.spanish, "no", verb, spanish), ".")
    if how == "always":
        return Draft(f"{who.english} {be} always {english}", spaced(who.spanish, "siempre", verb, spanish), ".")
    return Draft(f"{who.english} {be} {english}", spaced(who.spanish, verb, spanish), ".")

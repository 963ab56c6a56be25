"""Sentences from frames: every one holds a word whose translation the rest of the sentence decides."""

import re
from typing import NamedTuple

from tools.corpora.spanish import more_senses, senses
from tools.corpora.spanish.clauses import Draft, Tail, being, clause
from tools.corpora.spanish.fillers import SLOTS
from tools.corpora.spanish.forms import adjective_forms
from tools.corpora.spanish.phrases import SPEAKERS, Phrase, subject
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.pronouns import ACCUSATIVES, company, fitting, receiver
from tools.corpora.spanish.verbs import VERBS

SLOT = re.compile(r"{(\w+)}")
PEOPLE = {"to", "with", "whom"}  # these depend on the subject


class Frame(NamedTuple):
    """A line of a table: `verb` is a name, "-" or "be/ser"; `mark` is "" for a phrase."""

    verb: str
    moods: str
    timed: bool
    english: str
    spanish: str
    mark: str
    slots: tuple[str, ...]


class Sense(NamedTuple):
    """One translation of a word, its forms, and the frames in which it is the right one."""

    word: str
    forms: tuple[str, ...]
    frames: tuple[Frame, ...]


def _frames(line: str) -> list[Frame]:
    verbs, english, spanish = (part.strip() for part in line.split("|"))
    mark = english[-1] if english[-1] in ".?" else ""
    english = english.rstrip(".?")
    slots = tuple(dict.fromkeys(SLOT.findall(english)))
    made = []
    for name in verbs.split():
        verb, _, moods = name.rstrip("+").replace("_", " ").partition(":")
        made.append(Frame(verb, moods, name.endswith("+"), english, spanish, mark, slots))
    return made


def _sense(block: str) -> Sense:
    head, *lines = block.strip().splitlines()
    word, _, forms = head.partition(": ")
    if forms.startswith("@"):  # the sense is a verb: all its forms
        forms = " ".join(VERBS[forms[1:]].forms)
    return Sense(word, tuple(forms.split()), tuple(frame for line in lines for frame in _frames(line)))


SENSES = [_sense(block) for table in (senses.FRAMES, more_senses.FRAMES) for block in table.split("= ")[1:]]


def framed(picker: Picker, meaning: Sense) -> Draft:
    """A sentence in which the word has this meaning."""
    frame = picker.pick(meaning.frames)
    chosen = {name: picker.pick(SLOTS[name.rstrip("2")]) for name in frame.slots if name not in PEOPLE}
    if "person2" in chosen and chosen["person2"] == chosen["person"]:
        return framed(picker, meaning)
    if "landmark2" in chosen and chosen["landmark2"].english[4:] in chosen["landmark"].english:
        return framed(picker, meaning)
    if frame.verb == "-":
        return Draft(*_fill(frame, chosen), frame.mark)
    return _acted(picker, frame, chosen)


def _acted(picker: Picker, frame: Frame, chosen: dict[str, Phrase]) -> Draft:
    who, clitic = picker.pick(SPEAKERS) if picker.chance(0.3) else subject(picker), ""
    if "person" in chosen and chosen["person"].english.split()[-1] in who.english.split():
        return _acted(picker, frame, chosen)
    if "with" in frame.slots:
        chosen["with"] = company(picker, who)
    for name in ("to", "whom"):
        if name in frame.slots:
            person = receiver(picker, who) if name == "to" else fitting(picker, who, ACCUSATIVES)
            english = f"to {person.english}" if name == "to" else person.english
            chosen[name], clitic = Phrase(english, person.after), person.clitic
    english, spanish = _fill(frame, chosen)
    if frame.verb.startswith("be/"):
        spanish = re.sub(r"~(\w+)", lambda word: adjective_forms(word[1])[who.form], spanish)
        return being(picker, who, frame.verb[3:], english, spanish)
    new = english.startswith(("a ", "an ", "some ", "two ", "many "))
    return clause(
        picker, who, VERBS[frame.verb], Tail(english, spanish, clitic, new, not frame.timed, frame.timed), frame.moods
    )


def _fill(frame: Frame, chosen: dict[str, Phrase]) -> tuple[str, str]:
    english = frame.english.format(**{name: choice.english for name, choice in chosen.items()})
    spanish = frame.spanish.format(**{name: choice.spanish for name, choice in chosen.items()})
    return " ".join(english.split()), " ".join(spanish.split())

"""Patterns in which a pronoun stands for a thing named before: it agrees with the thing, some words away."""

from tools.corpora.spanish.clauses import Draft, english_verb, spaced, spanish_verb
from tools.corpora.spanish.nouns import tagged
from tools.corpora.spanish.phrases import PRONOUNS, Phrase, Subject, definite, subject
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.pronouns import standing_for
from tools.corpora.spanish.verbs import VERBS, Verb

# first verbs | link | second verbs and their mood (- for denied) | tag of the thing
# moods: s simple present, p preterite, w want to, c can, h have to
TABLE = """
buy have         | and     | eat s, eat p             | food
wash             | and     | eat s                    | fruit
buy want         | because | eat w                    | food
have see         | but     | eat -w, eat -c           | food
buy have         | and     | drink s                  | drink
buy want         | because | drink w                  | drink
have see         | but     | drink -w, drink -c       | drink
buy have         | and     | read s                   | read
buy need         | because | read w, read h           | read
have see         | but     | read -w, read -c, read -s | read
study            | because | learn w, learn h         | study
see              | and     | open w, close w, open h  | opens
see              | but     | open -c, open -w         | opens
see              | and     | buy s, buy p             | gift
see want         | but     | buy -c, buy -w           | clothes
buy want         | because | need s                   | small
have buy         | but     | need -s                  | small
wash             | because | need s                   | clothes
have             | but     | find -c                  | small
write            | and     | sing w                   | sing
see              | and     | paint w                  | paint
"""
Row = tuple[list[Verb], str, list[tuple[Verb, str]], str]


def _parsed(row: str) -> Row:
    firsts, link, seconds, tag = (part.strip() for part in row.split("|"))
    pairs = [second.split() for second in seconds.split(",")]
    return [VERBS[name] for name in firsts.split()], link, [(VERBS[name], mood) for name, mood in pairs], tag


ROWS = [_parsed(row) for row in TABLE.splitlines() if row]
CONJUNCTIONS = {"and": "y", "because": "porque", "but": "pero"}
LOST = [  # what is said after "Where is ...?"; the Spanish pronoun goes into the gap
    ("I do not see", "no {} veo"),
    ("I cannot find", "no {} puedo encontrar"),
    ("I need", "{} necesito"),
    ("we need", "{} necesitamos"),
    ("I want to see", "{} quiero ver"),
    ("Ana needs", "Ana {} necesita"),
    ("she is looking for", "ella {} está buscando"),
    ("my father cannot find", "mi padre no {} puede encontrar"),
]


def echo(picker: Picker) -> Draft:
    """I have the book and I read it: tengo el libro y lo leo."""
    if picker.chance(0.18):
        return _missing(picker, definite(picker, picker.pick(tagged("small", "clothes")), plural=0.4))
    firsts, link, seconds, tag = picker.pick(ROWS)
    first, (second, mood) = picker.pick(firsts), picker.pick(seconds)
    who = subject(picker)
    owned = first.base in ("have", "wash", "study")
    named = definite(picker, picker.pick(tagged(tag)), plural=0.4, owned=owned)
    if mood == "p" and ("p" not in first.moods or who.person == 3):
        mood = "s"  # "compramos" would be both
    return _linked(who, first, named, link, second, mood)


def _missing(picker: Picker, named: Phrase) -> Draft:
    """Where are the shoes? I do not see them."""
    be, verb = ("are", "están") if named.plural else ("is", "está")
    it, clitic = standing_for(named)
    english, spanish = picker.pick(LOST)
    after = spanish.format(clitic)
    question = f"where {be} {named.english}? {english[0].upper()}{english[1:]} {it}"
    return Draft(question, f"¿dónde {verb} {named.spanish}? {after[0].upper()}{after[1:]}", ".")


def _linked(who: Subject, first: Verb, named: Phrase, link: str, second: Verb, mood: str) -> Draft:
    """Two clauses about one thing, by one person."""
    it, clitic = standing_for(named)
    denied, mood = mood.startswith("-"), mood[-1]
    now = mood if mood == "p" else "s"
    said = english_verb(first, now, who.person)[0]
    then = english_verb(second, mood, who.person)[denied]
    again = "" if link == "and" and who not in PRONOUNS else who.pronoun
    english = spaced(who.english, said, named.english, link, again, then, it)
    start = spaced(who.spanish, spanish_verb(first, now, who.person), named.spanish, CONJUNCTIONS[link])
    return Draft(english, spaced(start, "no" if denied else "", clitic, spanish_verb(second, mood, who.person)), ".")

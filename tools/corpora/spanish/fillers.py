"""The slots of the frames, filled: a list of choices for each name."""

from collections.abc import Iterable

from tools.corpora.spanish.adjectives import WORDS, Adjective, adjective, describing
from tools.corpora.spanish.clauses import english_verb, spaced
from tools.corpora.spanish.nouns import NOUNS, Noun, noun, tagged
from tools.corpora.spanish.phrases import MEN, NAMED, PRONOUNS, RELATIVES, SINGLE, WOMEN, Phrase, phrase
from tools.corpora.spanish.places import BESIDE, STAYS
from tools.corpora.spanish.sentences import CLITICS, LIKE, THINGS
from tools.corpora.spanish.slots import LISTS, PHRASES

Slots = dict[str, list[Phrase]]

LIGHT = adjective("light", "ligero", "ser", "weight", "nov")
RIGHT = adjective("right", "correcto", "ser", "truth", "no")
SHORT, LOW = WORDS["short"], adjective("short", "bajo", "ser", "height", "nv")
PALE = [
    Adjective(f"light {english}", (f"{spanish} claro",) * 4, (), "ser", "color", "no", frozenset())
    for english, spanish in (("blue", "azul"), ("green", "verde"))
]
CARRIED = "suitcase bag box chair table bicycle coat shoe guitar dress lamp hat phone"
PAINTED = "shirt dress skirt coat hat shoe notebook cup bicycle car bag"
SHORT_CLOTHES, SHORT_TEXTS = "dress skirt coat", "story poem book"
PLURAL = {"two", "three", "some", "many", "these", "those"}


def _phrases(nouns: Iterable[Noun], determiners: str, words: Iterable[Adjective | None]) -> list[Phrase]:
    """Every determiner with every adjective, where "some" and "these" are plurals."""
    singular = {"some": "a", "these": "this", "those": "that"}
    return [
        phrase(noun, singular.get(determiner, determiner), determiner in PLURAL, word)
        for noun in nouns
        for determiner in determiners.split()
        for word in words
    ]


def _named(names: str) -> list[Noun]:
    return [NOUNS[name] for name in names.split()]


def _listed(table: str) -> Slots:
    """The slots that are written out."""
    slots: Slots = {}
    for row in filter(None, table.splitlines()):
        name, entries = row.split("|")
        pairs = [entry.split("=") for entry in entries.split(",")]
        slots.setdefault(name.strip(), []).extend(
            Phrase(english.strip(), spanish.strip()) for english, spanish in pairs
        )
    return slots


def _spelled(table: str) -> Slots:
    """The slots of noun phrases."""
    slots: Slots = {}
    for row in filter(None, table.splitlines()):
        name, words, determiners, adjectives = (part.strip() for part in row.split("|"))
        english, spanish, gender = (word.replace("-", " ") for word in words.split())
        chosen = [None if word == "-" else WORDS[word] for word in adjectives.split()]
        slots.setdefault(name, []).extend(_phrases([noun(english, spanish, gender)], determiners, chosen))
    return slots


def _saying(things: list[Phrase], word: Adjective) -> list[Phrase]:
    """the suitcase is (very, not) light"""
    made = []
    for thing in things:
        be, verb = ("are", "son") if thing.plural else ("is", "es")
        form = word.forms[thing.form]
        made.append(Phrase(f"{thing.english} {be} {word.english}", f"{thing.spanish} {verb} {form}"))
        made.append(Phrase(f"{thing.english} {be} not {word.english}", f"{thing.spanish} no {verb} {form}"))
        if "v" in word.use:
            made.append(Phrase(f"{thing.english} {be} very {word.english}", f"{thing.spanish} {verb} muy {form}"))
    return made


def _asking(things: list[Phrase], word: Adjective) -> list[Phrase]:
    """is the suitcase light"""
    ways = {False: ("is", "es"), True: ("are", "son")}
    return [
        Phrase(
            f"{ways[x.plural][0]} {x.english} {word.english}", f"{ways[x.plural][1]} {word.forms[x.form]} {x.spanish}"
        )
        for x in things
    ]


def _being(copula: str, verb: str) -> list[Phrase]:
    """What things are for good, or what state they are in."""
    return [
        Phrase(f"{thing.english} is {word.english}", f"{thing.spanish} {verb} {word.forms[thing.form]}")
        for noun in THINGS
        if "several" not in noun.tags
        for word in describing(noun)
        if word.copula == copula and word.english != "great"
        for thing in _phrases([noun], "the this my" if noun.owned else "the this", [None])
    ]


def _likers() -> list[Phrase]:
    """I like, Ana does not like: me gusta, a Ana no le gusta"""
    made = []
    for who in [*PRONOUNS, *NAMED, *RELATIVES]:
        said, denied, _, _ = english_verb(LIKE, "s", who.person)
        experiencer = f"a {who.spanish}" if who.spanish else ""
        likes = f"{CLITICS[who.person]} gusta"
        made.append(Phrase(f"{who.english} {said}", spaced(experiencer, likes)))
        made.append(Phrase(f"{who.english} {denied}", spaced(experiencer, "no", likes)))
    return made


def _special() -> Slots:
    """The slots that follow from the tables of words."""
    carried, painted = _named(CARRIED), _named(PAINTED)
    plain: list[Adjective | None] = [None]
    known = _phrases(carried, "the this that my your these those", plain)
    short = _phrases(_named(f"{SHORT_CLOTHES} {SHORT_TEXTS} street film"), "the this that these", plain)
    right = [phrase(thing, "the", False, RIGHT) for thing in _named("answer word page street train bus door house")]
    halls = [phrase(thing, "the") for thing in tagged("hall")]
    closed, pretty = WORDS["closed"].forms, WORDS["beautiful"].forms
    pleasant = _phrases(_named("park garden village island beach forest square"), "the this", plain)
    pale = [phrase(thing, "the", False, word) for thing in painted for word in PALE]
    return {
        "person": [Phrase(who.english, who.spanish) for who in SINGLE],
        "woman": [Phrase(who.english, who.spanish) for who in WOMEN + [who for who in SINGLE if who.own == "her"]],
        "man": [Phrase(who.english, who.spanish) for who in MEN + [who for who in SINGLE if who.own == "his"]],
        "landmark": _phrases(tagged("landmark"), "the this", plain),
        "near": [Phrase(english, spanish) for english, spanish in BESIDE.items()],
        "stay": STAYS,
        "liker": _likers(),
        "closed": [Phrase(f"{x.english} is closed", f"{x.spanish} está {closed[x.form]}") for x in halls],
        "placeis": [Phrase(f"{x.english} is beautiful", f"{x.spanish} es {pretty[x.form]}") for x in pleasant],
        "ligero": _phrases(carried, "a the this that two these", [LIGHT]),
        "ligero_is": _saying(known, LIGHT),
        "ligero_ask": _asking(known, LIGHT),
        "claro": _phrases(painted, "a the this that two", PALE),
        "claro_is": [
            x for word in PALE for x in _saying(_phrases(painted, "the this my your these", plain), word)
        ],
        "claro_of": [Phrase(x.english.removeprefix("the "), x.spanish) for x in pale],
        "correcto": right,
        "correcto_word": [x for x in right if x.english.endswith(("answer", "word"))],
        "correcto_this": [Phrase(f"this is {x.english}", f"{'esta' if x.feminine else 'este'} es {x.spanish}") for x in right],
        "corto_clothes": _phrases(_named(SHORT_CLOTHES), "a the this that two", [SHORT]),
        "corto_text": _phrases(_named(SHORT_TEXTS), "a the this that two", [SHORT]),
        "corto_is": _saying(short, SHORT),
        "corto_ask": _asking(short, SHORT),
        "bajo": _phrases(tagged("person"), "the this that a", [LOW]),
        "ser_is": _being("ser", "es"),
        "estar_is": _being("estar", "está"),
    }  # fmt: skip


def _filled() -> Slots:
    slots = _listed(LISTS)
    for more in (_spelled(PHRASES), _special()):
        for name, choices in more.items():
            slots.setdefault(name, []).extend(choices)
    return slots


SLOTS = _filled()

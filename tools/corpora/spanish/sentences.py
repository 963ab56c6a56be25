"""Patterns around things: what they are like, whose they are, where they are, whether one likes them."""

from functools import cache

from tools.corpora.spanish.adjectives import ADJECTIVES, COMPARATIVES, ORDINALS, WORDS, Adjective, describing
from tools.corpora.spanish.clauses import BE, Draft, being, english_verb, spaced
from tools.corpora.spanish.nouns import NOUNS, Noun, tagged
from tools.corpora.spanish.phrases import (
    COUNTS,
    DEFINITE,
    LOOKS,
    NAMED,
    OWNED,
    PEOPLE,
    PRONOUNS,
    RELATIVES,
    SINGLE,
    UNCOUNTED,
    Phrase,
    Subject,
    definite,
    indefinite,
    number,
    ordinal,
    phrase,
    subject,
)
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.places import STAYS, beside, inside, under
from tools.corpora.spanish.verbs import COPULAS, VERBS, Verb

ATTRIBUTES = [word for word in ADJECTIVES if "n" in word.use]
DESCRIBED = {word: [noun for noun in NOUNS.values() if word.describes(noun)] for word in ADJECTIVES}
THINGS = [noun for noun in NOUNS.values() if describing(noun, "n") and not noun.tags & {"person", "relative"}]
QUALITIES = [word for word in ADJECTIVES if word.english != "great" and set(DESCRIBED[word]) & set(THINGS)]
HUMAN = [word for word in ADJECTIVES if "relative" in word.fits or word.english == "young"]

CROWDS = [who for who in PEOPLE if who.person == 4 and who.feminine] * 2 + [who for who in PEOPLE if who.person == 4]
PLURALS = ["the", "this", "that", *COUNTS]

PARTS = {
    "door": "house school church car room kitchen hotel office",
    "window": "house school church car room kitchen hotel train",
    "garden": "house school hotel museum hospital",
    "map": "city island museum park station village",
    "name": "street book song film restaurant river school village",
    "page": "book newspaper notebook",
    "street": "city village",
}
RANKED = {
    "page": "book newspaper notebook",
    "lesson": "book",
    "question": "lesson",
    "word": "song poem book story page lesson",
    "song": "film",
    "poem": "book notebook",
    "picture": "museum",
    "film": "",
    "train": "",
    "street": "",
    "house": "",
}
POSSESSIONS = tagged("clothes", "small", "pet") + [
    NOUNS[name] for name in ["house", "car", "bicycle", "garden", "room"]
]
COMPARED = {
    "dog cat horse bird cow rabbit": "big small strong",
    "apple orange pear tomato egg": "big small expensive cheap",
    "hat shirt dress skirt coat shoe": "expensive cheap",
    "dress skirt coat": "long expensive",
    "table chair bed lamp": "big small expensive cheap",
    "car bicycle bus train boat": "big small expensive cheap",
    "hotel school hospital museum library church station": "big small modern",
    "book story poem film song": "long interesting",
    "box bag suitcase": "big small",
    "city village island": "big small interesting",
    "question problem lesson": "difficult important",
    "question answer idea": "important",
    "kitchen room office garden": "big small",
}


def joined(first: str, second: str) -> str:
    """With "y", which is "e" before the sound of i.

    >>> joined("largo", "interesante")
    'largo e interesante'
    """
    return f"{first} {'e' if second.startswith(('i', 'hi')) else 'y'} {second}"


def described(picker: Picker) -> Draft:
    """the red house"""
    word = picker.pick(ATTRIBUTES)
    noun = picker.pick(DESCRIBED[word])
    plural = number(picker, noun, 0.5)
    if "relative" in noun.tags:
        made = phrase(noun, picker.pick(["my", "your", "our"]), False, word)
    elif picker.chance(0.12) and "v" in word.use and not plural and "mass" not in noun.tags:
        made = phrase(noun, "a", False, word, very=True)
    elif picker.chance(0.55) or "mass" in noun.tags:
        determiner = picker.pick(DEFINITE)
        if determiner in OWNED and not noun.owned:
            determiner = "the"
        made = phrase(noun, determiner, plural, word)
    else:
        made = phrase(noun, picker.pick(["a", *COUNTS]) if plural else "a", plural, word)
    return Draft(made.english, made.spanish, "")


def ranked(picker: Picker) -> Draft:
    """the first page of the book"""
    part, wholes = picker.pick(list(RANKED.items()))
    made = ordinal(NOUNS[part], picker.pick(list(ORDINALS)))
    if not wholes or picker.chance(0.2):
        return Draft(made.english, made.spanish, "")
    whole = definite(picker, NOUNS[picker.pick(wholes.split())], plural=0)
    return Draft(f"{made.english} of {whole.english}", f"{made.spanish} de {whole.spanish}", "")


def _part(picker: Picker) -> Draft:
    """the door of the house"""
    name, wholes = picker.pick(list(PARTS.items()))
    plural = name in ("page", "street") or (name not in ("name", "garden", "map") and picker.chance(0.4))
    made = phrase(NOUNS[name], "the", plural)
    whole = definite(picker, NOUNS[picker.pick(wholes.split())], measures="age size", plural=0)
    return Draft(f"{made.english} of {whole.english}", f"{made.spanish} de {whole.spanish}", "")


def _possession(picker: Picker, noun: Noun) -> Phrase:
    """Ana's red car"""
    owner = picker.pick(SINGLE)
    words = describing(noun, "o", LOOKS)
    word = picker.pick(words) if words and picker.chance(0.35) else None
    plural = picker.chance(0.25) and noun.english not in ("house", "garden", "room")
    made = phrase(noun, "the", plural, word)
    english = f"{owner.english}'s {made.english.removeprefix('the ')}"
    return Phrase(english, f"{made.spanish} de {owner.spanish}", made.feminine, made.plural)


def belonging(picker: Picker) -> Draft:
    """Ana's book; the door of the house; Where is my brother's bicycle?"""
    if picker.chance(0.35):
        return _part(picker)
    noun = picker.pick(POSSESSIONS)
    made = _possession(picker, noun)
    if picker.chance(0.4):
        return Draft(made.english, made.spanish, "")
    words = [word for word in predicates(noun) if word.measures not in LOOKS.split()]
    if not words or (picker.chance(0.3) and noun.english not in ("garden", "room")):
        return _where_is(made)
    return says(picker, made, picker.pick(words))


def _where_is(thing: Phrase) -> Draft:
    """Where is the book?"""
    be, verb = ("are", "están") if thing.plural else ("is", "está")
    return Draft(f"where {be} {thing.english}", f"dónde {verb} {thing.spanish}", "?")


@cache
def predicates(noun: Noun) -> list[Adjective]:
    """What can be said of a thing after to be: "great" only stands before."""
    return [word for word in describing(noun) if word.english != "great"]


def says(picker: Picker, thing: Phrase, word: Adjective, questions: bool = True) -> Draft:
    """The house is red. Is the house red?"""
    person = 4 if thing.plural else 2
    be, verb = BE[person], COPULAS[word.copula][person]
    english, spanish = word.english, word.forms[thing.form]
    if "v" in word.use and picker.chance(0.2):
        english, spanish = f"very {english}", f"muy {spanish}"
    chance = picker.random()
    if chance < 0.2:
        return Draft(f"{thing.english} {be} not {english}", f"{thing.spanish} no {verb} {spanish}", ".")
    if chance < 0.4 and questions:
        return Draft(f"{be} {thing.english} {english}", f"{verb} {spanish} {thing.spanish}", "?")
    return Draft(f"{thing.english} {be} {english}", f"{thing.spanish} {verb} {spanish}", ".")


def description(picker: Picker, questions: bool = True) -> Draft:
    """The house is big and white. She is tired."""
    if picker.chance(0.35):
        return _portrait(picker, subject(picker), questions)
    first = picker.pick(QUALITIES)
    noun = picker.pick(DESCRIBED[first])
    if noun.tags & {"person", "relative"}:
        return description(picker, questions)
    thing, words = definite(picker, noun, plural=0.45), predicates(noun)
    if picker.chance(0.25):
        others = [word for word in words if word.copula == first.copula and word.measures != first.measures]
        if others:
            return _doubly(thing, first, picker.pick(others))
    return says(picker, thing, first, questions)


def _doubly(thing: Phrase, first: Adjective, second: Adjective) -> Draft:
    """The house is big and white."""
    person = 4 if thing.plural else 2
    english = f"{thing.english} {BE[person]} {first.english} and {second.english}"
    both = joined(first.forms[thing.form], second.forms[thing.form])
    return Draft(english, f"{thing.spanish} {COPULAS[first.copula][person]} {both}", ".")


def _portrait(picker: Picker, who: Subject, questions: bool = True) -> Draft:
    """My sister is very tall."""
    word = picker.pick(HUMAN)
    if word.english == "young" and "grand" in who.english:
        return _portrait(picker, who, questions)
    english, spanish = word.english, word.forms[who.form]
    how = "" if questions else picker.pick(["said", "said", "said", "denied"])
    if word.copula == "estar" and picker.chance(0.08):
        how = "always"
    elif picker.chance(0.2):
        english, spanish = f"very {english}", f"muy {spanish}"
    return being(picker, who, word.copula, english, spanish, how)


def crowd(picker: Picker) -> Draft:
    """the tired women; The girls are happy."""
    if picker.chance(0.5):
        return _portrait(picker, picker.pick(CROWDS))
    word = picker.pick([word for word in HUMAN if "n" in word.use])
    noun = picker.pick([noun for noun in DESCRIBED[word] if "person" in noun.tags])
    made = phrase(noun, picker.pick(PLURALS), True, word)
    return Draft(made.english, made.spanish, "")


def comparison(picker: Picker) -> Draft:
    """The car is bigger than the bicycle. Ana is taller than Luis."""
    if picker.chance(0.45):
        word = WORDS[picker.pick(["tall", "strong", "young", "intelligent"])]
        one, other = picker.pick(NAMED + RELATIVES), picker.pick(NAMED)
        if one is other or (word.english == "young" and "grand" in one.english):
            return comparison(picker)
        first, second = Phrase(one.english, one.spanish, one.feminine), Phrase(other.english, other.spanish)
    else:
        nouns, words = picker.pick(list(COMPARED.items()))
        word = WORDS[picker.pick(words.split())]
        noun, other_noun = NOUNS[picker.pick(nouns.split())], NOUNS[picker.pick(nouns.split())]
        if noun is other_noun:
            return comparison(picker)
        first = definite(picker, noun, plural=0 if other_noun.tags & UNCOUNTED else 0.3)
        second = phrase(other_noun, picker.pick(["the", "the", "this", "that"]), first.plural)
    be, verb = ("are", "son") if first.plural else ("is", "es")
    english = f"{first.english} {be} {COMPARATIVES[word.english]} than {second.english}"
    return Draft(english, f"{first.spanish} {verb} más {word.forms[first.form]} que {second.spanish}", ".")


def location(picker: Picker) -> Draft:
    """The book is on the table. There are two dogs under the tree. Where is my hat?"""
    chance = picker.random()
    if chance < 0.15:
        noun = picker.pick(tagged("small", "pet", "landmark"))
        return _where_is(definite(picker, noun, plural=0 if "landmark" in noun.tags else 0.4))
    if chance < 0.3:
        who, stay = picker.pick(picker.pick([PRONOUNS, SINGLE, PEOPLE])), picker.pick(STAYS)
        return being(picker, who, "estar", stay.english, stay.spanish)
    building = picker.chance(0.3)
    nouns = tagged("landmark") if building else tagged("small", "pet")
    noun = picker.pick(nouns)
    place = beside(picker, noun) if building else inside(picker) if picker.chance(0.6) else under(picker)
    if picker.chance(0.4):
        thing = indefinite(picker, noun, LOOKS, plural=0 if building else 0.5)
        be = "are" if thing.plural else "is"
        return Draft(f"there {be} {thing.english} {place.english}", f"hay {thing.spanish} {place.spanish}", ".")
    thing = definite(picker, noun, LOOKS, plural=0 if building else 0.4)
    be, verb = ("are", "están") if thing.plural else ("is", "está")
    if picker.chance(0.2):
        return Draft(f"{thing.english} {be} not {place.english}", f"{thing.spanish} no {verb} {place.spanish}", ".")
    return Draft(f"{thing.english} {be} {place.english}", f"{thing.spanish} {verb} {place.spanish}", ".")


CLITICS = ("me", "te", "le", "nos", "les")
LIKE = Verb("like", "likes", "", "", "gustar", "s", (), "", ())
PASTIMES = [Phrase(f"to {VERBS[name].base}", VERBS[name].infinitive) for name in
            ["swim", "dance", "sing", "read", "cook", "travel", "walk", "run", "study", "paint", "sleep", "write"]]  # fmt: skip
PASTIMES += [Phrase("to listen to music", "escuchar música"), Phrase("to go to the cinema", "ir al cine"),
             Phrase("to go to the beach", "ir a la playa"), Phrase("to travel by train", "viajar en tren")]  # fmt: skip
ENJOYED = tagged("film", "text", "clothes", "lovely", "visit", "go", "pet", "read")


def _liked(picker: Picker) -> Phrase:
    """What one likes: coffee, nachos, this film, to swim. Spanish needs the article."""
    chance = picker.random()
    if chance < 0.25:
        return picker.pick(PASTIMES)
    if chance < 0.55:
        noun = picker.pick(tagged("food", "drink"))
        plural = "mass" not in noun.tags
        made = phrase(noun, "the", plural)
        return made._replace(english=noun.plural if plural else noun.english)
    noun = picker.pick(ENJOYED)
    made = definite(picker, noun, LOOKS, plural=0.25)
    if made.plural and made.english.startswith("the "):  # "los nachos" is already "nachos"
        return phrase(noun, picker.pick(["this", "that"]), True)
    return made


def liking(picker: Picker) -> Draft:
    """I like nachos: me gustan los nachos."""
    who, thing = subject(picker), _liked(picker)
    said, denied, asked, rest = english_verb(LIKE, "s", who.person)
    verb = f"{CLITICS[who.person]} {'gustan' if thing.plural else 'gusta'} {thing.spanish}"
    experiencer = f"a {who.spanish}".replace(" y ", " y a ") if who.spanish else ""
    chance = picker.random()
    if chance < 0.22:
        return Draft(f"{who.english} {denied} {thing.english}", spaced(experiencer, "no", verb), ".")
    if chance < 0.42 and who.person in (1, 2, 4):
        return Draft(f"{asked} {who.english} {rest} {thing.english}", spaced(experiencer, verb), "?")
    return Draft(f"{who.english} {said} {thing.english}", spaced(experiencer, verb), ".")

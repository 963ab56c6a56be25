"""Noun phrases that agree, and the people who act."""

from typing import NamedTuple

from tools.corpora.spanish.adjectives import ORDINALS, Adjective, describing
from tools.corpora.spanish.nouns import Noun, tagged
from tools.corpora.spanish.picker import Picker

# English singular and plural; Spanish masculine and feminine singular, masculine and feminine plural
DETERMINERS = {
    "the": ("the", "the", "el", "la", "los", "las"),
    "this": ("this", "these", "este", "esta", "estos", "estas"),
    "that": ("that", "those", "ese", "esa", "esos", "esas"),
    "my": ("my", "my", "mi", "mi", "mis", "mis"),
    "your": ("your", "your", "tu", "tu", "tus", "tus"),
    "our": ("our", "our", "nuestro", "nuestra", "nuestros", "nuestras"),
    "his": ("his", "his", "su", "su", "sus", "sus"),
    "her": ("her", "her", "su", "su", "sus", "sus"),
    "their": ("their", "their", "su", "su", "sus", "sus"),
    "a": ("a", "some", "un", "una", "unos", "unas"),
    "many": ("", "many", "", "", "muchos", "muchas"),
}
NUMBERS = {
    "two": "dos",
    "three": "tres",
    "four": "cuatro",
    "five": "cinco",
    "six": "seis",
    "seven": "siete",
    "eight": "ocho",
    "nine": "nueve",
    "ten": "diez",
    "twelve": "doce",
    "twenty": "veinte",
    "thirty": "treinta",
    "forty": "cuarenta",
    "sixty": "sesenta",
}
DETERMINERS |= {english: ("", english, "", "", spanish, spanish) for english, spanish in NUMBERS.items()}
COUNTS = ["two", "three", "four", "five", "six", "many"]

DEFINITE = ["the", "the", "the", "the", "this", "that", "my", "your", "our"]
LOOKS = "color size age"  # what one sees of a thing
UNCOUNTED = {"mass", "hall", "room", "public", "single"}  # mostly one at a time
OWNED = {"my", "your", "our", "his", "her", "their"}


class Phrase(NamedTuple):
    """The two languages side by side, and what an adjective or a verb must agree with."""

    english: str
    spanish: str
    feminine: bool = False
    plural: bool = False

    @property
    def form(self) -> int:
        """Which of an adjective's four forms agrees."""
        return self.feminine + 2 * self.plural


def phrase(
    noun: Noun, determiner: str, plural: bool = False, adjective: Adjective | None = None, very: bool = False
) -> Phrase:
    """Determiner, noun and adjective in the order of each language.

    >>> from tools.corpora.spanish.adjectives import WORDS
    >>> from tools.corpora.spanish.nouns import noun
    >>> phrase(noun("house", "casa", "f"), "the", plural=True, adjective=WORDS["red"])[:2]
    ('the red houses', 'las casas rojas')
    >>> phrase(noun("water", "agua", "f"), "the")[:2]
    ('the water', 'el agua')
    """
    feminine = noun.gender == "f"
    form = feminine + 2 * plural
    row = DETERMINERS[determiner]
    first, spanish_first = row[plural], row[2 + form]
    head = noun.plural if plural else noun.english
    spanish = noun.spanish_plural if plural else noun.spanish
    if spanish == "agua" and determiner == "the":
        spanish_first = "el"  # agua is feminine: el agua fría
    if adjective is not None:
        word = f"very {adjective.english}" if very else adjective.english
        head = f"{word} {head}"
        if adjective.before:
            spanish = f"{'muy ' if very else ''}{adjective.before[form]} {spanish}"
        else:
            spanish = f"{spanish} {'muy ' if very else ''}{adjective.forms[form]}"
    if first == "a" and head[0] in "aeiou":
        first = "an"
    return Phrase(f"{first} {head}", f"{spanish_first} {spanish}", feminine, plural)


def ordinal(noun: Noun, rank: str) -> Phrase:
    """
    >>> from tools.corpora.spanish.nouns import NOUNS
    >>> ordinal(NOUNS["page"], "first")[:2], ordinal(NOUNS["book"], "third")[:2]
    (('the first page', 'la primera página'), ('the third book', 'el tercer libro'))
    """
    feminine = noun.gender == "f"
    article = "la" if feminine else "el"
    return Phrase(f"the {rank} {noun.english}", f"{article} {ORDINALS[rank][feminine]} {noun.spanish}", feminine)


def definite(picker: Picker, noun: Noun, measures: str = "", plural: float = 0.3, owned: bool = True) -> Phrase:
    """A phrase for something known, now and then with an adjective for one of the measures."""
    determiner = picker.pick(DEFINITE)
    if determiner in OWNED and not (owned and noun.owned):
        determiner = "the"
    return phrase(noun, determiner, number(picker, noun, plural), _adjective(picker, noun, measures))


def indefinite(picker: Picker, noun: Noun, measures: str = "", plural: float = 0.45) -> Phrase:
    """A phrase for something new: a, some, three, many; a mass has no determiner."""
    word = _adjective(picker, noun, measures)
    if "mass" in noun.tags:
        return bare(noun, word)
    many = number(picker, noun, plural)
    return phrase(noun, picker.pick(["a", *COUNTS]) if many else "a", many, word)


def bare(noun: Noun, word: Adjective | None = None) -> Phrase:
    """
    >>> from tools.corpora.spanish.nouns import NOUNS
    >>> bare(NOUNS["bread"])[:2]
    ('bread', 'pan')
    """
    feminine = noun.gender == "f"
    if word is None:
        return Phrase(noun.english, noun.spanish, feminine)
    return Phrase(f"{word.english} {noun.english}", f"{noun.spanish} {word.forms[feminine]}", feminine)


def number(picker: Picker, noun: Noun, plural: float) -> bool:
    if "several" in noun.tags:
        return True
    return not noun.tags & UNCOUNTED and picker.chance(plural)


def _adjective(picker: Picker, noun: Noun, measures: str, share: float = 0.4) -> Adjective | None:
    if not measures or not picker.chance(share):
        return None
    fitting = describing(noun, "o", measures)
    return picker.pick(fitting) if fitting else None


class Subject(NamedTuple):
    """Who acts; Spanish leaves out I, you and we."""

    english: str
    spanish: str
    person: int  # of a verb's forms: I, you, he or she, we, they
    feminine: bool
    own: str  # my, your, his, her, our, their
    pronoun: str  # I, you, he, she, we, they

    @property
    def form(self) -> int:
        return self.feminine + 2 * (self.person > 2)


PRONOUNS = [
    Subject("I", "", 0, False, "my", "I"),
    Subject("you", "", 1, False, "your", "you"),
    Subject("he", "él", 2, False, "his", "he"),
    Subject("she", "ella", 2, True, "her", "she"),
    Subject("we", "", 3, False, "our", "we"),
    Subject("they", "ellos", 4, False, "their", "they"),
]
ONE = {who.english: who for who in PRONOUNS}
WOMEN = [Subject(name, name, 2, True, "her", "she") for name in ("Ana", "Marta", "Elena")]
MEN = [Subject(name, name, 2, False, "his", "he") for name in ("Luis", "Pedro", "Carlos")]


def acting(person: Phrase) -> Subject:
    """A noun phrase as the subject of a verb."""
    if person.plural:
        return Subject(person.english, person.spanish, 4, person.feminine, "their", "they")
    own, pronoun = ("her", "she") if person.feminine else ("his", "he")
    return Subject(person.english, person.spanish, 2, person.feminine, own, pronoun)


RELATIVES = [acting(phrase(noun, whose)) for noun in tagged("relative") for whose in ("my", "your")]
PEOPLE = [acting(phrase(noun, "the", plural)) for noun in tagged("person") for plural in (False, True)]
PAIRS = [acting(Phrase(f"{a[0]} and {b[0]}", f"{a[1]} y {b[1]}", False, True)) for a in WOMEN for b in MEN]

NAMED = WOMEN + MEN
SINGLE = NAMED + RELATIVES + [person for person in PEOPLE if person.person == 2]  # people named in full, one at a time
SPEAKERS = PRONOUNS + [ONE[word] for word in ("I", "I", "you", "you", "we", "we", "they")]  # they need most examples
SUBJECTS = [SPEAKERS] * 10 + [NAMED] * 4 + [RELATIVES] * 3 + [PEOPLE] * 3 + [PAIRS]


def subject(picker: Picker) -> Subject:
    return picker.pick(picker.pick(SUBJECTS))

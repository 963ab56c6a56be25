"""The English-Spanish data set: tens of thousands of sentence pairs, and splits that ask for more than memory.

The translation is a function in both directions. So Spanish names the subject where the verb does not tell it ("Ella
come"), a pronoun always stands before the verb that is conjugated ("La quiero ver"), and "you" is one friend.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from zlib import crc32

from tools.corpora.spanish import actions, echoes, feelings, questions, sentences
from tools.corpora.spanish.clauses import Draft
from tools.corpora.spanish.frames import SENSES, Sense, framed
from tools.corpora.spanish.holdout import Holdout, tokens
from tools.corpora.spanish.picker import Picker

PATTERNS: dict[Callable[[Picker], Draft], int] = {
    sentences.described: 3700,
    sentences.ranked: 320,
    sentences.belonging: 1300,
    sentences.description: 3000,
    sentences.crowd: 650,
    sentences.comparison: 600,
    sentences.location: 1500,
    sentences.liking: 1400,
    feelings.weather: 120,
    feelings.age: 350,
    feelings.need: 500,
    actions.action: 5300,
    actions.giving: 1400,
    actions.meeting: 1800,
    actions.going: 1500,
    actions.doing: 2300,
    actions.command: 600,
    echoes.echo: 1200,
    questions.asking: 1200,
    questions.thinking: 800,
    questions.reason: 700,
    questions.both: 500,
    questions.relative: 900,
}
PER_SENSE = 275  # train sentences for each meaning of a word
CONTEXT = 8  # sentences of the context test for each meaning
VALID, TEST = 500, 1000
LONGEST = 14  # words
SEEN = 20  # times a word must occur in train before a test may use it
PATIENCE = 6  # drafts for each sentence wanted, before a pattern counts as exhausted


@dataclass(frozen=True)
class Pair:
    """A sentence, or a phrase without capital letter and period, and its translation."""

    english: str
    spanish: str


@dataclass(frozen=True)
class ContextPair(Pair):
    """A sentence that decides between the translations of a word.

    A right translation has the word `wanted`, and none of the words `wrong`. Compare whole words, in lower case.
    """

    word: str
    wanted: str
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Grammar:
    """Splits that share no sentence in either language.

    Every test sentence brings together two words that never meet in a sentence of train; `context` are new sentences
    with words that have several translations.
    """

    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    test: tuple[Pair, ...]
    context: tuple[ContextPair, ...]


def finished(draft: Draft) -> Pair:
    """Capital letters, marks, and the contractions al and del. One statement in five goes without its period.

    >>> finished(Draft("we are going to the park", "vamos a el parque", "."))
    Pair(english='We are going to the park.', spanish='Vamos al parque.')
    >>> finished(Draft("where is the book", "dónde está el libro", "?"))
    Pair(english='Where is the book?', spanish='¿Dónde está el libro?')
    """
    english, spanish, mark = draft
    spanish = f" {spanish} ".replace(" a el ", " al ").replace(" de el ", " del ").strip()
    if not mark:
        return Pair(english, spanish)
    opening = 1 if spanish[0] == "¿" else 0  # a question may stand before the last sentence
    english = english[0].upper() + english[1:]
    spanish = spanish[:opening] + spanish[opening].upper() + spanish[opening + 1 :]
    if mark == "?":
        return Pair(f"{english}?", f"¿{spanish}?")
    end = "" if crc32(english.encode()) % 5 == 0 else "."
    return Pair(english + end, spanish + end)


class Collection:
    """The pairs drawn so far: each sentence once, in one form, with one translation in either direction."""

    def __init__(self, seed: int) -> None:
        self.picker, self.holdout = Picker(seed), Holdout(seed)
        self.train: list[Pair] = []
        self.valid: list[Pair] = []
        self.test: list[Pair] = []
        self.context: list[ContextPair] = []
        self.english: set[str] = set()
        self.spanish: set[str] = set()

    def new(self, draft: Draft) -> Pair | None:
        """The pair, unless it was there before or is too long."""
        english, spanish, _ = draft
        if english in self.english or spanish in self.spanish:
            return None
        if english.count(" ") >= LONGEST or spanish.count(" ") >= LONGEST:
            return None
        self.english.add(english)
        self.spanish.add(spanish)
        return finished(draft)

    def gather(self, pattern: Callable[[Picker], Draft], wanted: int) -> None:
        """Draw from a pattern until it has given so many pairs to train; held-out ones fall to the other splits."""
        goal = len(self.train) + wanted
        for _ in range(PATIENCE * wanted):
            if len(self.train) >= goal:
                return
            draft = pattern(self.picker)
            pair = self.new(draft)
            if pair is not None:
                split = self.holdout.split(draft.english)
                if split:
                    getattr(self, split).append(pair)

    def gather_sense(self, meaning: Sense) -> None:
        """Fill the context test with a meaning, then train."""
        others = [other.forms for other in SENSES if other.word == meaning.word and other is not meaning]
        wrong = tuple(sorted({form for forms in others for form in forms} - set(meaning.forms)))
        goal = len(self.context) + CONTEXT
        while len(self.context) < goal:
            draft = framed(self.picker, meaning)
            form = next(word for word in tokens(draft.spanish) if word in meaning.forms)
            if self.holdout.split(draft.english) != "train" or (draft.mark and draft.spanish.startswith(form)):
                continue  # the wanted word shall not be changed by a capital letter
            pair = self.new(draft)
            if pair is not None:
                self.context.append(ContextPair(pair.english, pair.spanish, meaning.word, form, wrong))
        self.gather(lambda picker: framed(picker, meaning), PER_SENSE)


def _common(texts: Iterable[str]) -> set[str]:
    """The words, with their capital letters, that occur often."""
    return {word for word, times in Counter(tokens("\n".join(texts))).items() if times >= SEEN}


def english_spanish(seed: int = 0) -> Grammar:
    """The data set. The seed decides what is drawn and what is held out; the same seed gives the same pairs.

    >>> spanish = {pair.english: pair.spanish for pair in english_spanish().train}
    >>> spanish["the black cat"], spanish["I like nachos."]
    ('el gato negro', 'Me gustan los nachos.')
    """
    made = Collection(seed)
    for meaning in SENSES:
        made.gather_sense(meaning)
    for pattern, wanted in PATTERNS.items():
        made.gather(pattern, wanted)
    order = Random(seed)
    for pairs in (made.train, made.valid, made.test):
        order.shuffle(pairs)
    english, spanish = _common(pair.english for pair in made.train), _common(pair.spanish for pair in made.train)
    valid, test = (
        [
            pair
            for pair in pairs
            if english.issuperset(tokens(pair.english)) and spanish.issuperset(tokens(pair.spanish))
        ]
        for pairs in (made.valid, made.test)
    )
    return Grammar(tuple(made.train), tuple(valid[:VALID]), tuple(test[:TEST]), tuple(made.context))

"""Reviews in one or two sentences whose words alone do not tell praise from blame."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from tools.corpora.sentiment_clauses import Pair, WordChooser, all_pairs, contrast, flipped, plain
from tools.corpora.sentiment_words import TOPICS

LABELS = ("positive", "negative")
SIZES = (8000, 500, 1000)
HELD_OUT = 0.1  # share of the pairs (what is judged, judging word) that only the test split has
FAMILIES = ("plain", "flipped", "contrast")
GENERAL_LEADS = ("in my opinion", "to be honest", "all in all", "frankly")


@dataclass(frozen=True)
class Labelled:
    """A text and its label, "positive" or "negative"."""

    text: str
    label: str


@dataclass(frozen=True)
class Sentiment:
    """No text is in two splits; every text of `test` has a pair (what is judged, judging word) new to the others."""

    train: tuple[Labelled, ...]
    valid: tuple[Labelled, ...]
    test: tuple[Labelled, ...]


def sentiment(seed: int = 0) -> Sentiment:
    """Reviews of films, books, meals, hotels, concerts, laptops, courses and trips.

    Negation ("not good", "nobody liked", "far from boring") turns a word around, and in a contrast one clause decides:
    the one after "but", the main clause beside "although". Words of praise and of blame are about equally frequent in
    both labels, so counting words is little better than guessing: what a word stands next to matters.

    >>> data = sentiment()
    >>> len(data.train), len(data.valid), len(data.test)
    (8000, 500, 1000)
    >>> data.valid[1]
    Labelled(text='In her latest novel, there was not a single silly chapter.', label='positive')
    """
    rng = Random(seed)
    rare = {pair for pair in all_pairs() if rng.random() < HELD_OUT}
    taken: set[str] = set()
    common = _reviews(rng, taken, rare.isdisjoint)
    train, valid = (list(islice(common, size)) for size in SIZES[:2])
    test = list(islice(_reviews(rng, taken, lambda pairs: not rare.isdisjoint(pairs)), SIZES[2]))
    for split in (train, valid, test):
        rng.shuffle(split)
    return Sentiment(tuple(train), tuple(valid), tuple(test))


def _reviews(rng: Random, taken: set[str], fits: Callable[[set[Pair]], bool]) -> Iterator[Labelled]:
    """New reviews whose pairs fit, labels and families by turns; adds the texts to `taken`."""
    for family, sign in cycle((family, sign) for family in FAMILIES for sign in (0, 1)):
        while True:
            text, pairs = _review(rng, family, sign)
            if text not in taken and fits(pairs):
                break
        taken.add(text)
        yield Labelled(text, LABELS[sign])


def _review(rng: Random, family: str, sign: int) -> tuple[str, set[Pair]]:
    """A review that praises (sign 0) or blames (sign 1), and its pairs."""
    words = WordChooser(rng, rng.choice(TOPICS))
    clause = {"plain": plain, "flipped": flipped, "contrast": contrast}[family](words, sign)
    return _sentence(words, clause), words.pairs


def _sentence(words: WordChooser, clause: str) -> str:
    """The clause with a capital and a full stop, now and then after a few words on the occasion."""
    rng, topic, chance = words.rng, words.topic, words.rng.random()
    if chance < 0.15:
        return f"{rng.choice(topic.openers)}. {_ended(clause)}"
    # "that day, I cannot say" and "although ..." do not go after an occasion
    timeless = words.names_thing or any(word in clause.split() for word in ("would", "cannot", "although", "even"))
    if chance < 0.35 and not timeless and not clause.startswith("despite"):
        return _ended(f"{rng.choice(topic.leads)}, {clause}")
    if chance < 0.45 and clause.startswith("the ") and not words.names_thing:
        return _ended(f"{rng.choice(GENERAL_LEADS)}, {clause}")
    return _ended(clause)


def _ended(clause: str) -> str:
    """A clause as a sentence.

    >>> _ended("what a film"), _ended("it was long")
    ('What a film!', 'It was long.')
    """
    return clause[0].upper() + clause[1:] + ("!" if clause.startswith("what ") else ".")

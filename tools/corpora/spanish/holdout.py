"""Combinations that are kept out of train: some nouns never meet some adjectives and verbs there."""

import re
from zlib import crc32

from tools.corpora.spanish.adjectives import ADJECTIVES, COMPARATIVES
from tools.corpora.spanish.nouns import NOUNS
from tools.corpora.spanish.verbs import CUES, ROWS

TOKEN = re.compile(r"\w+(?:'\w+)?")
NEAR = 3  # words apart, at most, for two words to count as combined
SHARES = {"test": 5, "valid": 3}  # percent of the pairs of a noun with an adjective or a verb


def tokens(text: str) -> list[str]:
    """
    >>> tokens("Ana's book, please.")
    ["Ana's", 'book', 'please']
    """
    return TOKEN.findall(text)


def _noun_forms() -> dict[str, str]:
    """Every form of a noun, to the noun. Nouns that decide the sense of other words are not held out."""
    free = [noun for noun in NOUNS.values() if "cue" not in noun.tags]
    forms = {form: noun.english for noun in free for form in (noun.english, noun.plural)}
    return forms | {f"{noun.english}'s": noun.english for noun in free}


def _other_forms() -> dict[str, str]:
    """Every form of an adjective or a verb, to its first form."""
    forms = {word.english: word.english for word in ADJECTIVES}
    forms |= {longer.removeprefix("more "): word for word, longer in COMPARATIVES.items()}
    for verb in ROWS:
        if verb.base.replace(" ", "_") not in CUES:
            base = verb.base.split()[0]
            forms |= {form.split()[0]: base for form in (verb.base, verb.third, verb.ing, verb.past)}
    return forms


NOUN_OF, OTHER_OF = _noun_forms(), _other_forms()


class Holdout:
    """Which pairs of words are held out, by a hash of the pair and the seed."""

    def __init__(self, seed: int) -> None:
        self.held: dict[tuple[str, str], str] = {}
        for noun in sorted(set(NOUN_OF.values())):
            for other in sorted(set(OTHER_OF.values())):
                percent = crc32(f"{seed} {noun} {other}".encode()) % 100
                if percent < SHARES["test"]:
                    self.held[noun, other] = "test"
                elif percent < SHARES["test"] + SHARES["valid"]:
                    self.held[noun, other] = "valid"

    def split(self, english: str) -> str:
        """Train, valid or test; "" for a sentence with a held-out pair too far apart to be a combination."""
        nouns, others = [], []
        for place, word in enumerate(tokens(english)):
            if word in NOUN_OF:
                nouns.append((place, NOUN_OF[word]))
            elif word in OTHER_OF:
                others.append((place, OTHER_OF[word]))
        found = {
            (self.held[noun, other], abs(here - there) <= NEAR)
            for here, noun in nouns
            for there, other in others
            if (noun, other) in self.held
        }
        if not found:
            return "train"
        if ("test", True) in found:
            return "test"
        return "valid" if found == {("valid", True)} else ""

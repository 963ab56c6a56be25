"""Morse code as on the radio: short words keyed by hand, in noise, on a tone that drifts.

Every number is a function of the seed, the split and the row, computed by single operations on integers and doubles that are
rounded in the same way everywhere: the samples are equal on every machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mirada.data.batching import drawn
from mirada.data.wav import Sound
from mirada.errors import require

CODE = {
    "a": ".-", "d": "-..", "e": ".", "h": "....", "i": "..", "m": "--", "n": "-.", "o": "---", "r": ".-.", "s": "...",
    "t": "-", "u": "..-",
}  # fmt: skip
LETTERS = "".join(CODE)  # a dozen: enough for words, with codes of every length
SIZES = {"train": 6000, "valid": 300, "test": 500}
RATE = 4000  # samples a second
SECOND_WORD = 0.25  # the share of texts with two words
LONGEST = 5  # letters of a word
DOT = (0.045, 0.080)  # seconds of a dot, the unit: a dash has 3, a gap between letters 3, between words 7
DRIFT = 0.2  # how much the speed may change from the beginning to the end
HAND = 0.15  # how much a sign or a gap may be too long or too short
TONE = (450.0, 850.0)  # hertz
WANDER = 0.08  # how much the tone may rise or fall
LOUD = (0.15, 0.5)  # amplitude of the tone
HISS = (0.05, 0.9)  # of the noise, as a share of the tone's
RAMP = 16  # samples in which a tone fades in or out
PHASE, TABLE = 32, 12  # bits of the phase, and how many of them index the table
SINE = np.rint(2**15 * np.sin(np.arange(2**TABLE) * (2 * np.pi / 2**TABLE))) / 2**15
OWN = 3  # the split number of texts that a user types


@dataclass(frozen=True, eq=False)
class Keyed:
    """A text and its sound."""

    sound: Sound
    text: str


class DrawnNumbers:
    """Numbers in [0, 1) that are a function of a key, drawn one after the other."""

    def __init__(self, many: int, *key: int) -> None:
        self.numbers = iter((drawn(many, *key) >> np.uint64(11)) * 2.0**-53)

    def between(self, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        return float(low + (high - low) * next(self.numbers))

    def below(self, many: int) -> int:
        """A whole number."""
        return int(many * next(self.numbers))


def morse(split: str, seed: int = 0) -> list[Keyed]:
    """The recordings of a split: train, valid or test. The texts of valid and test are new to train.

    >>> [one.text for one in morse("valid")[:3]]
    ['ho ein', 'ds m', 'ahah']
    """
    require(split in SIZES, f"a split is one of {', '.join(SIZES)}: got {split!r}")
    number, texts, row = list(SIZES).index(split), list[str](), 0
    while len(texts) < SIZES[split]:  # random words, so that nothing but the sound shows which they are
        draws = DrawnNumbers(3 + 2 * LONGEST, seed, number, row, 0)
        words = 2 if next(draws.numbers) < SECOND_WORD else 1
        sizes = [1 + draws.below(LONGEST) for _ in range(words)]
        text = " ".join("".join(LETTERS[draws.below(len(LETTERS))] for _ in range(size)) for size in sizes)
        texts += [text] if split_of(text) == split else []
        row += 1
    return [Keyed(keyed(text, seed, number, place), text) for place, text in enumerate(texts)]


def split_of(text: str) -> str:
    """The split that a text belongs to; single letters are in train.

    >>> split_of("e"), split_of("sos"), split_of("ahah")
    ('train', 'train', 'valid')
    """
    share = crc32(text.encode()) % 10
    return "train" if len(text) == 1 or share > 1 else ("valid", "test")[share]


def spelled(text: str) -> Sound:
    """The sound of any text of letters and spaces, with the variation and noise of the recordings.

    >>> spelled("sos").rate
    4000
    >>> spelled("4 u")
    Traceback (most recent call last):
    ValueError: Morse code is known for the letters adehimnorstu: got '4' in '4 u'
    """
    words = text.lower().split()
    strange = next((letter for letter in "".join(words) if letter not in CODE), "")
    require(not strange, f"Morse code is known for the letters {LETTERS}: got {strange!r} in {text!r}")
    require(len(words) > 0, "there is no letter to key: the text is empty")
    joined = " ".join(words)
    return keyed(joined, 0, OWN, crc32(joined.encode()))


def keyed(text: str, *key: int) -> Sound:
    """The sound of a text, as a function of the key."""
    signs = list(units(text))
    draws = DrawnNumbers(16 + len(signs), *key, 1)
    dot, drift = draws.between(*DOT), draws.between(-DRIFT, DRIFT)
    lengths = []
    for place, (_, size) in enumerate(signs):
        pace = 1 + drift * (place / len(signs) - 0.5)
        lengths.append(max(1, int(RATE * (size * dot * pace * draws.between(1 - HAND, 1 + HAND)))))
    edges = [int(RATE * draws.between(0.03, 0.20)) for _ in range(2)]
    on = np.repeat([0, *(sounds for sounds, _ in signs), 0], [edges[0], *lengths, edges[1]])
    loud = draws.between(*LOUD)
    levels = [draws.between(0.6, 1.0) for _ in range(3)]
    fading = np.interp(np.arange(len(on)) / len(on), np.linspace(0, 1, len(levels)), levels)
    signal = envelope(on) * fading * tone(len(on), draws.between(*TONE), draws.between(-WANDER, WANDER))
    noise = hiss(len(on), *key, 2) * draws.between(*HISS)
    samples = np.rint(loud * (signal + noise) * 2**14) / 2**15
    return Sound(samples.astype(np.float32), RATE)


def units(text: str) -> Iterator[tuple[int, int]]:
    """Tones and gaps with their lengths in dots, from the first tone to the last.

    >>> list(units("a e"))
    [(1, 1), (0, 1), (1, 3), (0, 7), (1, 1)]
    """
    for number, word in enumerate(text.split(" ")):
        if number:
            yield 0, 7
        for place, letter in enumerate(word):
            if place:
                yield 0, 3
            for index, sign in enumerate(CODE[letter]):
                if index:
                    yield 0, 1
                yield 1, 3 if sign == "-" else 1


def envelope(on: NDArray[np.int64]) -> NDArray[np.float64]:
    """The loudness of a tone that fades in and out: the moving average of the last samples."""
    total = np.concatenate([np.zeros(RAMP, dtype=np.int64), on.cumsum()])
    return (total[RAMP:] - total[:-RAMP]) / RAMP


def tone(size: int, hertz: float, wander: float) -> NDArray[np.float64]:
    """A sine whose frequency rises or falls by a share."""
    steps = (hertz * (1 + wander * (np.arange(size) / size - 0.5)) / RATE * 2**PHASE).astype(np.int64)
    return SINE[(steps.cumsum() >> (PHASE - TABLE)) % 2**TABLE]


def hiss(size: int, *key: int) -> NDArray[np.float64]:
    """Noise between -1 and 1: the sums of four bytes, as loud as a tone."""
    raw = drawn(-(-size // 2), *key).astype("<u8").view(np.uint8).reshape(-1, 4)
    return (raw.sum(axis=1, dtype=np.int64)[:size] - 510) / 209.0

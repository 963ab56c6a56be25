"""How texts are cut into tokens, how much of them is read, and how large the network is: from the texts and the minutes.

Tuned on validation parts of several data sets (docs/decisions/0024-plain-readers-and-the-size-of-a-text-model.md).
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from mirada.data.options import TextOptions
from mirada.data.text.ngrams import ALONE
from mirada.runs.choice import BudgetChoice, ModelCost, largest_affordable
from mirada.training.progress import as_minutes
from mirada.words import plural

UNSPACED = re.compile(f"[{ALONE}]")
WORD = re.compile(r"[^\W\d_]+|[^\s]")  # about what a tokenizer of words makes a token of
LOOKED_AT = 2000  # texts
ALONE_SHARE = 0.02  # of the letters: texts in which no blanks divide the words
UNKNOWN_SHARE = 0.5  # of the words of held-out texts
ENOUGH_WORDS = 20  # of held-out texts, to know their share
SHORT = 100  # characters of a usual text, up to which each is a token

SMALL = (
    ModelCost({"width": 128, "hidden": 128, "depth": 1, "dropout": 0.5}, 0.044, 0),
)  # few texts are soon known by heart
LARGE = (  # for many texts
    ModelCost({"width": 128, "hidden": 256, "depth": 1, "dropout": 0.2}, 0.045, 0),
    ModelCost({"width": 128, "hidden": 256, "depth": 2, "dropout": 0.2}, 0.091, 4),
    ModelCost({"width": 256, "hidden": 512, "depth": 2, "dropout": 0.2}, 0.264, 4),
)
MANY = 50_000  # texts
STEPS = 600  # at least, where the user does not say how long
USUAL_EPOCHS = (5, 40)  # at least and at most, then
BATCH = (1024, 8192)  # tokens of a batch, at least and at most
TEXTS = 16  # of usual length in a batch, at least
LENGTHS = (512, 768, 1024, 1536, 2048, 3072, 4096)  # of a context
EPOCHS = 4  # that a longer context must leave room for
TOKENS_PER_SECOND = 20_000  # of training at width 128 on two cores, with contexts of 512 to 2,048
USUAL_MINUTES = 5.0  # where the user says nothing, what is read of long texts is what this many minutes can learn from


def chosen_for(
    model_name: str, train: Sequence[str], valid: Sequence[str], options: TextOptions, minutes: float
) -> BudgetChoice:
    """The settings for these texts and minutes.

    >>> choice = chosen_for("transformer", ["a good film"] * 9, ["a film"], TextOptions(tokenizer="word"), minutes=1)
    >>> choice.line(())
    'chosen for 9 texts of up to 4 words and 1 minute: width=128 hidden=128 depth=1 dropout=0.5 batch_tokens=1024'
    """
    kind, because = unit_of(train, valid)
    sizes = [tokens_in(text, kind) for text in train]
    longest = max(tokens_in(text, kind) for text in chain(train, valid))
    data: dict[str, Any] = {} if kind == options.tokenizer else {"tokenizer": kind}
    table = SMALL if len(train) < MANY else LARGE
    size, _ = largest_affordable(table, sum(sizes), minutes or USUAL_MINUTES)
    model: dict[str, Any] = dict(size.settings) if model_name == "transformer" else {}
    usual = TEXTS * sum(sizes) // len(sizes)
    recipe: dict[str, Any] = {"batch_tokens": max(BATCH[0], min(BATCH[1], usual // 1024 * 1024))}
    if longest > LENGTHS[0]:
        model["length"] = length = context(sizes, longest, minutes)
        sizes = [min(size, length) for size in sizes]
        recipe["batch_tokens"] = max(4096, 2 * length)
        data |= {"truncate": True} if longest > length or kind == "bpe" else {}
    if not minutes:
        enough = -(-STEPS * recipe["batch_tokens"] // max(1, sum(sizes)))
        recipe["epochs"] = max(USUAL_EPOCHS[0], min(USUAL_EPOCHS[1], enough))
    texts = f"{plural(len(train), 'text')} of up to {longest:,} {'characters' if kind == 'char' else 'words'}"
    budget = f" and {as_minutes(minutes)}" if minutes else ""
    return BudgetChoice(model, recipe, data, f"{texts}{because}{budget}")


def unit_of(train: Sequence[str], valid: Sequence[str]) -> tuple[str, str]:
    """What a token is (word, char or bpe), and why it is no word.

    >>> unit_of(["\u6211\u559c\u6b22\u8fd9\u90e8\u7535\u5f71"] * 3, ["\u4f60\u597d"])
    ('char', ' without blanks between words')
    >>> unit_of(["the film was good"] * 3, ["the film was bad"])
    ('word', '')
    """
    some, held = train[:: max(1, len(train) // LOOKED_AT)], valid[:: max(1, len(valid) // LOOKED_AT)]
    letters = sum(sum(map(str.isalpha, text)) for text in some)
    if sum(len(UNSPACED.findall(text)) for text in some) > ALONE_SHARE * letters:
        return "char", " without blanks between words"
    known = {word for text in train for word in WORD.findall(text.lower())}
    words = [word for text in held for word in WORD.findall(text.lower()) if word.isalpha()]
    if len(words) >= ENOUGH_WORDS and sum(word not in known for word in words) > UNKNOWN_SHARE * len(words):
        usual = sorted(map(len, some))[len(some) // 2]
        return "char" if usual <= SHORT else "bpe", " with mostly new words"
    return "word", ""


def tokens_in(text: str, kind: str) -> int:
    """How many tokens a text has at most, with its end; of pieces of words about as many."""
    return 1 + (len(text) if kind == "char" else len(WORD.findall(text)) if kind == "word" else len(text) // 3)


def context(sizes: Sequence[int], longest: int, minutes: float) -> int:
    """The longest context in `LENGTHS` that the minutes allow, no longer than the texts are."""
    chosen = LENGTHS[0]
    for length in LENGTHS:
        seconds = EPOCHS * sum(min(size, length) for size in sizes) / TOKENS_PER_SECOND
        if seconds <= 60 * (minutes or USUAL_MINUTES):
            chosen = length
    return min(chosen, -(-longest // 64) * 64)

"""A question and its passage as inputs of a model: tokens with their spans, marks, and windows of a long passage.

<s> question </s> <s> passage        the second <s> represents "there is no answer here"
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from mirada.data.batching import Microbatch, pad
from mirada.data.options import TextOptions
from mirada.data.record import Record
from mirada.data.text.tokenize import Tokenizer, Vocabulary
from mirada.errors import require

WORD = re.compile(r"\w+")
STEM = 5  # letters shared by words that only end differently: nation and national, habló and hablaron
SAME, ALIKE = 1, 2  # how a word occurs in the other text
SHAPES = 4  # of a word: lower case, capitalized, digits, punctuation
MARKS = 3 * SHAPES
AROUND = 3  # tokens that are neither question nor passage
LONG = 0.99  # quantile of the lengths of answers: longer spans are not searched
TURNS = 3  # one epoch in 3 trains on a window of a long passage without the answer
CharacterSpan = tuple[int, int]  # start and end, as in text[start:end]


@dataclass(frozen=True)
class PassageQuestion:
    """A question, its passage, and the spans of its answers there; no span: the passage has no answer.

    >>> PassageQuestion("Who is home?", "Ana is home.", ((0, 3),)).answers
    ('Ana',)
    """

    question: str
    passage: str
    spans: tuple[CharacterSpan, ...] = ()

    def __str__(self) -> str:
        return self.question

    @property
    def answers(self) -> tuple[str, ...]:
        """The texts of the answers; of several references each is right."""
        return tuple(self.passage[start:end] for start, end in self.spans)

    @property
    def span(self) -> CharacterSpan | None:
        """The most frequent span among the references; of several, the first."""
        return Counter(self.spans).most_common(1)[0][0] if self.spans else None


QuestionRecord = Record[PassageQuestion]


class EncodedText(NamedTuple):
    """The tokens of a text; for each the characters that it covers, its word, and the shape of that word."""

    ids: tuple[int, ...]
    places: tuple[CharacterSpan, ...]
    words: tuple[str, ...]
    shapes: tuple[int, ...]


class Reading(NamedTuple):
    """A question and its passage as tokens, with the first and last token of the answer; None: the passage has no answer."""

    question: EncodedText
    passage: EncodedText
    wanted: tuple[int, int] | None = None

    def room(self, length: int) -> int:
        """How many tokens of the passage fit into a window together with the question; `length` is that of the model."""
        return length - len(self.question.ids) - AROUND

    def first_tokens(self, length: int) -> list[int]:
        """The first tokens of the windows of the passage.

        Each window starts in the middle of the one before, so that a span cut by one is complete in another.
        """
        room = self.room(length)
        stride = max(1, room // 2)
        return [number * stride for number in range(1 + -(-max(0, len(self.passage.ids) - room) // stride))]

    def windows(self, firsts: Sequence[int], length: int, tokenizer: Tokenizer) -> list["PassageWindow"]:
        """Windows with the question and as much of the passage as fits, starting at these tokens."""
        asked = [tokenizer.start, *self.question.ids, tokenizer.end]
        before, after = [0, *marks(self.question, self.passage), 0, 0], marks(self.passage, self.question)
        windows = []
        for first in firsts:
            last = first + self.room(length)
            part = [tokenizer.start, *self.passage.ids[first:last]]
            segments = [0] * len(asked) + [1] * len(part)
            windows.append(PassageWindow(asked + part, segments, before + after[first:last], len(asked) + 1, first))
        return windows

    def unreadable(self, length: int) -> str:
        """Why this does not fit a model of this length, or "": half of a window is for the passage, and half of that overlaps."""
        asked, most = len(self.question.ids), length // 2
        if asked + AROUND > most:
            fit = f"at most {max(0, most - AROUND)} fit. Shorten it, or take a longer length."
            return f"too long: the question has {asked} tokens, {fit}"
        tokens = self.wanted[1] - self.wanted[0] + 1 if self.wanted else 0
        long = f"too long: the answer has {tokens} tokens, at most {most // 2} fit. Take a longer length."
        return long if tokens > most // 2 else ""


class PassageWindow(NamedTuple):
    """One input of the model: the question and the part of the passage that starts at token `first`.

    `offset` is the position in the window where the passage begins; the position before it, `none`, represents "no answer".
    """

    tokens: list[int]
    segments: list[int]
    marks: list[int]
    offset: int
    first: int

    @property
    def none(self) -> int:
        """The position that represents "no answer"."""
        return self.offset - 1

    def place(self, token: int) -> int:
        """The position in the window of a token of the passage."""
        return token - self.first + self.offset

    def token(self, place: int) -> int:
        """The token of the passage at a position of the window."""
        return place - self.offset + self.first


def readings(values: Sequence[PassageQuestion], tokenizer: Tokenizer) -> list[Reading]:
    """Questions and their passages as tokens; a passage that is shared by several questions is encoded once."""
    passages = {text: encoded(tokenizer, text) for text in dict.fromkeys(value.passage for value in values)}
    items = []
    for value in values:
        passage, span = passages[value.passage], value.span
        wanted = covering(passage.places, span) if span else None
        items.append(Reading(encoded(tokenizer, value.question), passage, wanted))
    return items


def encoded(tokenizer: Tokenizer, text: str) -> EncodedText:
    """A text as tokens with their spans, words and shapes, without tokens that cover no visible character."""
    words = [(match.start(), match.end(), match.group().lower()) for match in WORD.finditer(text)]
    tokens, at = [], 0
    for piece in tokenizer.pieces(text):
        if piece.start == piece.end or not piece.text.strip():
            continue
        while at < len(words) and words[at][1] <= piece.start:
            at += 1
        inside = at < len(words) and words[at][0] < piece.end
        letter = text[words[at][0]] if inside else ""  # the first one of the word
        shape = 3 if not inside else 2 if letter.isdigit() else 1 if letter.isupper() else 0
        tokens.append((piece.id, (piece.start, piece.end), words[at][2] if inside else "", shape))
    return EncodedText._make(zip(*tokens, strict=True) if tokens else [()] * 4)


def marks(text: EncodedText, other: EncodedText) -> list[int]:
    """A mark for every token: whether its word, or one with the same stem, occurs in the other text, and its shape."""
    known = set(other.words) - {""}
    stems = {word[:STEM] for word in known if len(word) >= STEM}
    occurs = {word: SAME if word in known else ALIKE * (word[:STEM] in stems) for word in set(text.words)}
    return [occurs[word] * SHAPES + shape for word, shape in zip(text.words, text.shapes, strict=True)]


def covering(places: Sequence[CharacterSpan], span: CharacterSpan) -> tuple[int, int] | None:
    """The first and last token that overlap these characters; None if no token does.

    >>> covering([(0, 3), (4, 8), (8, 9)], (5, 9))
    (1, 2)
    """
    inside = [token for token, (start, end) in enumerate(places) if start < span[1] and span[0] < end]
    return (inside[0], inside[-1]) if inside else None


def collated(windows: Sequence[PassageWindow], marked: bool, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Windows as inputs of the model."""
    tokens, lengths = pad([part.tokens for part in windows], tokenizer.filler)
    inputs = {"tokens": tokens, "segments": pad([part.segments for part in windows])[0], "lengths": lengths}
    return inputs | ({"marks": pad([part.marks for part in windows])[0]} if marked else {})


class SpanFound(NamedTuple):
    """A span of a passage, its first and last token, with its log-probability in a window; None: no answer is there."""

    score: float
    window: PassageWindow
    span: tuple[int, int] | None = None


def ranked_spans(found: Sequence[SpanFound], best: int, unanswerable: bool) -> list[SpanFound]:
    """The most likely spans of all windows that do not overlap better ones; with `unanswerable`, "no answer" is ranked too.

    A passage has no answer if none of its windows has one, so the lowest score of "no answer" among the windows counts.
    """
    ranked: list[SpanFound] = []
    tokens = set[int]()  # of the spans that are ranked
    for each in sorted((each for each in found if each.span), key=lambda each: -each.score):
        span = range(each.span[0], each.span[1] + 1) if each.span else ()
        if len(ranked) < best and tokens.isdisjoint(span):
            ranked.append(each)
            tokens.update(span)
    if unanswerable:
        ranked.append(min((each for each in found if not each.span), key=lambda each: each.score))
        ranked.sort(key=lambda each: -each.score)
    return ranked[:best]


@dataclass(frozen=True)
class ReadingVocabulary(Vocabulary):
    """The tokenizer, the most tokens of an answer, and whether some questions have no answer."""

    longest: int = 1
    unanswerable: bool = False

    @classmethod
    def of(cls, values: Sequence[PassageQuestion], options: TextOptions, start: "ReadingVocabulary | None") -> Self:
        """Learn from these questions; the tokenizer is that of the run to start from, if there is one."""
        texts = [*dict.fromkeys(value.passage for value in values), *(value.question for value in values)]
        tokenizer = Vocabulary.learn(texts, options, start).tokenizer
        answers = [value.passage[slice(*value.span)] for value in values if value.span]
        require(bool(answers), "no question has an answer in its passage: there is nothing to learn from")
        lengths = sorted(map(len, tokenizer.encode_all(answers)))
        longest = lengths[min(len(lengths) - 1, int(LONG * len(lengths)))]
        return cls(tokenizer, (), max(1, longest), any(not value.spans for value in values))

    def facts(self) -> dict[str, Any]:
        return {"longest": self.longest, "unanswerable": self.unanswerable}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        longest, unanswerable = facts.get("longest"), facts.get("unanswerable")
        valid = type(longest) is int and longest >= 1 and type(unanswerable) is bool
        require(valid, "the facts in config.json must have longest, a number, and unanswerable, true or false")
        return cls(Vocabulary.restore({}, paths).tokenizer, (), longest, unanswerable)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Readings:
    """Questions for training: one window of each per epoch, a function of (epoch, question)."""

    items: Sequence[Reading]
    length: int
    marked: bool
    tokenizer: Tokenizer

    def __len__(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> list[tuple[int, ...]]:
        """The number of tokens in a window of each question."""
        sizes = [len(item.question.ids) + len(item.passage.ids) + AROUND for item in self.items]
        return [(min(self.length, size),) for size in sizes]

    def take(self, rows: Sequence[int]) -> "Readings":
        """A subset of the questions."""
        return replace(self, items=[self.items[row] for row in rows])

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """The windows of some questions in an epoch, with the positions of the answers."""
        windows, starts, ends = zip(*(self.window(row, epoch) for row in rows), strict=True)
        inputs = collated(windows, self.marked, self.tokenizer)
        tokens = int(inputs["lengths"].sum())
        return Microbatch({**inputs, "starts": torch.tensor(starts), "ends": torch.tensor(ends)}, (len(rows),), tokens)

    def window(self, row: int, epoch: int) -> tuple[PassageWindow, int, int]:
        """The window of a passage for an epoch, and the first and last position of the answer there.

        In most epochs it is a window with the answer, alternating if there are several; else one without any part of it.
        """
        item = self.items[row]
        firsts, room, turn, wanted = item.first_tokens(self.length), item.room(self.length), epoch // TURNS + row, None
        if item.wanted is not None:
            start, end = item.wanted
            apart = [first for first in firsts if end < first or first + room <= start]
            if not apart or epoch % TURNS < TURNS - 1:
                firsts = [first for first in firsts if first <= start and end < first + room]
                turn, wanted = epoch, item.wanted
            else:
                firsts = apart
        (window,) = item.windows([firsts[turn % len(firsts)]], self.length, self.tokenizer)
        start, end = map(window.place, wanted) if wanted else (window.none, window.none)
        return window, start, end

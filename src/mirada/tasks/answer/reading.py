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
from mirada.models.encoder import TextEncoderConfig
from mirada.models.reader import Span

WORD = re.compile(r"\w+")
STEM = 5  # letters shared by words that only end differently: nation and national, habló and hablaron
SAME, ALIKE = 1, 2  # how a word occurs in the other text
SHAPES = 4  # of a word: lower case, capitalized, digits, punctuation
MARKS = 3 * SHAPES
QUESTION, PASSAGE = -1, -2  # stand for them while a frame is taken apart
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


class Frame(NamedTuple):
    """The special tokens around a question and its passage, with the number of the segment of each, and the place that
    represents "no answer": that before the passage, unless it is said.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    segments: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    parts: tuple[int, int] = (0, 1)  # the segments of the question and of the passage
    none: int | None = None

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.before) + len(self.between) + len(self.after)

    @classmethod
    def own(cls, tokenizer: Tokenizer) -> Self:
        """That of a `Reader`."""
        start, end = tokenizer.start, tokenizer.end
        return cls((start,), (end, start), (), ((0,), (0, 1), ()))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """That of a checkpoint: as its tokenizer says, and its first token is "no answer"."""
        tokens, segments = tokenizer.framed([QUESTION], [PASSAGE])
        one, two = tokens.index(QUESTION), tokens.index(PASSAGE)
        require(
            one < two, "the tokenizer of this checkpoint puts a passage before its question: no answer can be found"
        )
        cuts = slice(one), slice(one + 1, two), slice(two + 1, None)
        before, between, after = (tuple(tokens[cut]) for cut in cuts)
        told = tuple(segments[cuts[0]]), tuple(segments[cuts[1]]), tuple(segments[cuts[2]])
        return cls(before, between, after, told, (segments[one], segments[two]), 0)


class Reading(NamedTuple):
    """A question and its passage as tokens, with the first and last token of the answer; None: the passage has no answer."""

    question: EncodedText
    passage: EncodedText
    frame: Frame
    wanted: tuple[int, int] | None = None

    def room(self, length: int) -> int:
        """How many tokens of the passage fit into a window together with the question; `length` is that of the model."""
        return length - len(self.question.ids) - self.frame.size

    def first_tokens(self, length: int) -> list[int]:
        """The first tokens of the windows of the passage.

        Each window starts in the middle of the one before, so that a span cut by one is complete in another.
        """
        room = self.room(length)
        stride = max(1, room // 2)
        return [number * stride for number in range(1 + -(-max(0, len(self.passage.ids) - room) // stride))]

    def windows(self, firsts: Sequence[int], length: int) -> list["PassageWindow"]:
        """Windows with the question and as much of the passage as fits, starting at these tokens."""
        frame, asked = self.frame, self.question.ids
        before = [0] * len(frame.before) + marks(self.question, self.passage) + [0] * len(frame.between)
        after, offset = marks(self.passage, self.question), len(frame.before) + len(asked) + len(frame.between)
        head = [*frame.before, *asked, *frame.between]
        told = [*frame.segments[0], *[frame.parts[0]] * len(asked), *frame.segments[1]]
        windows = []
        for first in firsts:
            last = first + self.room(length)
            part = self.passage.ids[first:last]
            tokens = [*head, *part, *frame.after]
            segments = [*told, *[frame.parts[1]] * len(part), *frame.segments[2]]
            marked = before + after[first:last] + [0] * len(frame.after)
            none = offset - 1 if frame.none is None else frame.none
            windows.append(PassageWindow(tokens, segments, marked, offset, first, len(part), none))
        return windows

    def unreadable(self, length: int) -> str:
        """Why this does not fit a model of this length, or "": half of a window is for the passage, and half of that overlaps."""
        asked, most = len(self.question.ids), length // 2
        if asked + self.frame.size > most:
            fit = f"at most {max(0, most - self.frame.size)} fit. Shorten it, or take a longer length."
            return f"too long: the question has {asked} tokens, {fit}"
        tokens = self.wanted[1] - self.wanted[0] + 1 if self.wanted else 0
        long = f"too long: the answer has {tokens} tokens, at most {most // 2} fit. Take a longer length."
        return long if tokens > most // 2 else ""


class PassageWindow(NamedTuple):
    """One input of the model: the question and the part of the passage that starts at token `first`, with `size` tokens.

    `offset` is the position in the window where the passage begins; the position `none` represents "no answer".
    """

    tokens: list[int]
    segments: list[int]
    marks: list[int]
    offset: int
    first: int
    size: int
    none: int

    def place(self, token: int) -> int:
        """The position in the window of a token of the passage."""
        return token - self.first + self.offset

    def token(self, place: int) -> int:
        """The token of the passage at a position of the window."""
        return place - self.offset + self.first


def readings(values: Sequence[PassageQuestion], tokenizer: Tokenizer, whole: bool = False) -> list[Reading]:
    """Questions and their passages as tokens; a passage that is shared by several questions is encoded once.

    `whole` is for a checkpoint: with the special tokens that it was trained with, and all tokens, of blanks too.
    """
    frame = Frame.of(tokenizer) if whole else Frame.own(tokenizer)
    passages = {text: encoded(tokenizer, text, whole) for text in dict.fromkeys(value.passage for value in values)}
    items = []
    for value in values:
        passage, span = passages[value.passage], value.span
        wanted = covering(passage.places, span) if span else None
        items.append(Reading(encoded(tokenizer, value.question, whole), passage, frame, wanted))
    return items


def encoded(tokenizer: Tokenizer, text: str, whole: bool = False) -> EncodedText:
    """A text as tokens with their spans, words and shapes; unless `whole`, without tokens that cover no visible character."""
    words = [(match.start(), match.end(), match.group().lower()) for match in WORD.finditer(text)]
    tokens, at = [], 0
    for piece in tokenizer.pieces(text):
        if not whole and (piece.start == piece.end or not piece.text.strip()):
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


def is_encoder(config: Any) -> bool:
    """Whether a model is an encoder as checkpoints have it, not a `Reader`."""
    return isinstance(config, TextEncoderConfig)


def collated(windows: Sequence[PassageWindow], config: Any, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Windows as inputs of the model."""
    tokens, lengths = pad([part.tokens for part in windows], tokenizer.filler)
    inputs, marked = {"tokens": tokens, "lengths": lengths}, getattr(config, "marks", 0) > 0
    if not is_encoder(config) or config.segments > 1:
        inputs["segments"] = pad([part.segments for part in windows])[0]
    return inputs | ({"marks": pad([part.marks for part in windows])[0]} if marked else {})


def span_scores(predicted: Any, windows: Sequence[PassageWindow]) -> Span:
    """The scores of the first and the last place of an answer: of an encoder, those of the passage and of "no answer" only."""
    if isinstance(predicted, tuple):
        return Span(*predicted)
    possible = torch.zeros(predicted.shape[:2], dtype=torch.bool, device=predicted.device)
    for row, window in enumerate(windows):
        possible[row, window.offset : window.offset + window.size] = True
        possible[row, window.none] = True
    return Span(*predicted.masked_fill(~possible.unsqueeze(-1), -torch.inf).unbind(-1))


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
    config: Any  # of the model
    tokenizer: Tokenizer

    def __len__(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> list[tuple[int, ...]]:
        """The number of tokens in a window of each question."""
        sizes = [len(item.question.ids) + len(item.passage.ids) + item.frame.size for item in self.items]
        return [(min(self.config.length, size),) for size in sizes]

    def take(self, rows: Sequence[int]) -> "Readings":
        """A subset of the questions."""
        return replace(self, items=[self.items[row] for row in rows])

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """The windows of some questions in an epoch, with the positions of the answers."""
        windows, starts, ends = zip(*(self.window(row, epoch) for row in rows), strict=True)
        inputs = collated(windows, self.config, self.tokenizer)
        tokens, wanted = int(inputs["lengths"].sum()), {"starts": torch.tensor(starts), "ends": torch.tensor(ends)}
        wanted = {"wanted": torch.stack(list(wanted.values()), dim=1)} if is_encoder(self.config) else wanted
        return Microbatch({**inputs, **wanted}, (len(rows),), tokens)

    def window(self, row: int, epoch: int) -> tuple[PassageWindow, int, int]:
        """The window of a passage for an epoch, and the first and last position of the answer there.

        In most epochs it is a window with the answer, alternating if there are several; else one without any part of it.
        """
        item = self.items[row]
        length = self.config.length
        firsts, room, turn, wanted = item.first_tokens(length), item.room(length), epoch // TURNS + row, None
        if item.wanted is not None:
            start, end = item.wanted
            apart = [first for first in firsts if end < first or first + room <= start]
            if not apart or epoch % TURNS < TURNS - 1:
                firsts = [first for first in firsts if first <= start and end < first + room]
                turn, wanted = epoch, item.wanted
            else:
                firsts = apart
        (window,) = item.windows([firsts[turn % len(firsts)]], length)
        start, end = map(window.place, wanted) if wanted else (window.none, window.none)
        return window, start, end

"""Answers of fill: ranked words for a gap; without a gap, whether the second sentence follows the first."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.record import TableRow
from mirada.data.text.tokenize import TokenIds, Tokenizer
from mirada.errors import require
from mirada.models.bert import BERT, Predicted
from mirada.models.encoder import told_apart
from mirada.runs.answers import Answer
from mirada.runs.ask import TextRankAsk
from mirada.runs.run import NOT_FINITE, Run

if TYPE_CHECKING:
    from mirada.looking.explain.compare import Explained
    from mirada.looking.labels import Labels, TextLabels

BLANK = re.compile("_{3,}")
GAP = re.compile(r"_{2,}|\[MASK\]|<mask>")
LISTED = 5  # words for a gap


def with_gap(text: str) -> str:
    """A text whose last word is hidden.

    >>> with_gap("Ana lee un libro.")
    'Ana lee un ___.'
    """
    return re.sub(r"\w+(\W*)$", r"___\1", text)


def askable(records: Sequence[TableRow], count: int) -> list[TableRow]:
    """The first records whose last word can be hidden: those that have one, and no gap already."""
    return list(islice((r for r in records if len(GAP.findall(with_gap(r.value[0]))) == 1), count))


def fill_gap(run: Run, text: str, ask: TextRankAsk) -> Answer:
    """Ranked words for a gap; without a gap, whether the second sentence follows the first."""
    text = _gaps_of_numbers(run.known.tokenizer, text)
    text = _shortened(run, text, ask) if ask.truncate else text
    gaps = len(GAP.findall(text))
    require(gaps <= 1, f"one gap at a time: {text!r} has {gaps}")
    if not gaps:
        none = f"{text!r} has no gap: write ___ for the missing word, or two sentences with a tab between them"
        require("\t" in text, none)
        from mirada.looking.explain.compare import Explained  # imports all of looking, which a gap does not need

        words = "this model tells missing words only, not whether a sentence follows another: write ___ for a word"
        require(isinstance(run.model, BERT), words)
        tokens, segments = inputs = _model_inputs(run, text, 1)
        shares = run.model(tokens, None, segments).follows.float().softmax(-1)[0].tolist()
        follows = shares[1] >= shares[0]
        answer = ("follows" if follows else "does not follow", max(shares))
        return _answer(run, text, ask.aligned, inputs, answer, (int(follows),), Explained(attrgetter("follows")))
    ranked = _candidates(run, text, ask.candidates) if ask.candidates else _top_words(run, text, max(ask.best, LISTED))
    pieces = tuple(_pieces_in_gap(run.known.tokenizer, text, ranked[0][0])) if ask.candidates else ()
    inputs = _model_inputs(run, text, max(1, len(pieces)))
    wanted = ranked if ask.candidates else ranked[: ask.best] if ask.best > 1 else []
    return _answer(run, text, ask.aligned, inputs, ranked[0], pieces, **ask.ranking(wanted))


def _gaps_of_numbers(tokenizer: Tokenizer, text: str) -> str:
    """Where a text is numbers of tokens: with a gap in the place of the mask's number."""
    numbers = isinstance(text, TokenIds) or tokenizer.kind == "numbers"
    return TokenIds(re.sub(rf"\b{tokenizer.mask}\b", "___", text)) if numbers and tokenizer.mask >= 0 else text


def word_scores(predicted: Any) -> Float[Tensor, "batch length vocab"]:
    """The scores of words that a model put out, alone or beside those of an order."""
    return predicted.words if isinstance(predicted, Predicted) else predicted  # type: ignore[no-any-return]


def _top_words(run: Run, text: str, count: int) -> list[tuple[str, float]]:
    """The most likely tokens for the gap, with their probabilities; of those that read alike, the first."""
    tokens, segments = _model_inputs(run, text, 1)
    known = run.known.tokenizer
    scores = word_scores(run.model(tokens, None, segments))[0, tokens[0] == known.mask][0].float()
    shares = _of_words(known, scores)
    top = shares.topk(min(2 * count, len(shares)))
    ranked: dict[str, float] = {}
    for token, share in zip(top.indices.tolist(), top.values.tolist(), strict=True):
        ranked.setdefault(known.token(token), share)
    return list(ranked.items())[:count]


def _of_words(tokenizer: Tokenizer, scores: Float[Tensor, " vocab"]) -> Float[Tensor, " vocab"]:
    """The probabilities of the tokens that a gap can hold: no special ones, and none that only the table of the model has."""
    shares = scores.softmax(-1)
    shares[sorted(tokenizer.special)] = 0
    shares[len(tokenizer) :] = 0
    return shares


def _candidates(run: Run, text: str, words: Sequence[str]) -> list[tuple[str, float]]:
    """The given words with their probabilities, best first; for several tokens, the geometric mean of theirs."""
    ranked = []
    for word in words:
        ids = _pieces_in_gap(run.known.tokenizer, text, word)
        require(len(ids) > 0, f"candidate {word!r} is empty")
        tokens, segments = _model_inputs(run, text, len(ids))
        predicted = word_scores(run.model(tokens, None, segments))
        scores = predicted[0, tokens[0] == run.known.tokenizer.mask].float().log_softmax(-1)
        mean = scores[torch.arange(len(ids)), torch.tensor(ids, device=scores.device)].mean()
        ranked.append((word, float(mean.exp())))
    return sorted(ranked, key=lambda pair: -pair[1])


def _pieces_in_gap(tokenizer: Tokenizer, text: str, word: str) -> list[int]:
    """The tokens of a word in place of the gap of a text: with the space before it, where that is part of a token."""
    ids, gap = tokenizer.encode(word), GAP.search(text)
    after_space = gap is not None and text[: gap.start()].endswith(" ")
    if after_space and ids and tokenizer.kind in ("bpe", "unigram") and not tokenizer.spaced(ids[0]).startswith(" "):
        spaced = tokenizer.encode(f" {word}")
        return spaced if tokenizer.spaced(spaced[0]).startswith(" ") else ids
    return ids


def _answer(
    run: Run, text: str, aligned: bool, inputs: tuple[Tensor, Tensor | None], answer: tuple[str, float],
    chosen: Sequence[int], explained: "Explained | None" = None, **ranking: Any,
) -> Answer:  # fmt: skip
    """An answer with what it needs to be looked at. An `aligned` one has the weights of the position it was predicted from,
    over all tokens: of the last layer, averaged over heads.
    """
    require(not math.isnan(answer[1]), NOT_FINITE)
    (tokens, segments), ids = inputs, inputs[0][0].tolist()
    labels = partial(_gap_labels, run.known.tokenizer, text, ids, answer, chosen)
    replay = partial(run.look, tokens, None, segments, labels=labels, explained=explained)
    plain = Answer(text, *answer, read=tuple(map(run.known.tokenizer.token, ids)), replay=replay, **ranking)
    if not aligned:
        return plain
    seen, row = plain.look(), ids.index(mask) if (mask := run.known.tokenizer.mask) in ids else 0
    weights = seen[seen.names[-1]].weights(rows=slice(row, row + 1))[0].float().mean(0).cpu()
    return replace(plain, written=(plain.text,), weights=weights)


def _tokens_and_segments(run: Run, text: str, width: int) -> tuple[list[int], list[int]]:
    """The tokens of one sentence, or of two with a tab between them, with `width` masks for every gap; and for each token the
    number of its sentence.
    """
    tokenizer, sentences = run.known.tokenizer, list[list[int]]()
    given = TokenIds if isinstance(text, TokenIds) else str
    for sentence in text.split("\t", 1):
        ids = tokenizer.encode_blanks(given(GAP.sub("___", sentence)))
        sentences.append([each for id in ids for each in ([id] * width if id == tokenizer.mask else [id])])
    return tokenizer.framed(*sentences)


def _model_inputs(run: Run, text: str, width: int) -> tuple[Tensor, Tensor | None]:
    """The tokens of an input and, where the model tells them apart, its segments; one that is too long is an error."""
    tokens, segments = _tokens_and_segments(run, text, width)
    run.known.fitted(tokens, run.model.config.length, text)
    told = told_apart(torch.tensor([segments], device=run.device), run.model.config)
    return torch.tensor([tokens], device=run.device), told


def _shortened(run: Run, text: str, ask: TextRankAsk) -> str:
    """A text cut word by word, at the end farther from its gap, until it fits the model.

    Two sentences without a gap are cut at their outer ends, and at least one word of each is kept.
    """
    most, words = run.model.config.length, text.replace("\t", " \t ").split(" ")
    width = max([1, *(len(run.known.tokenizer.encode(word)) for word in ask.candidates)])
    while (long := len(_tokens_and_segments(run, text, width)[0])) > most:
        gap = next((place for place, word in enumerate(words) if GAP.search(word)), None)
        least = int(gap is None and "\t" in words)  # words to keep on either side
        middle = gap if gap is not None else words.index("\t") if least else 0
        before, after = middle, len(words) - 1 - middle
        if max(before, after) <= least:
            break
        drop = max(1, len(words) * (long - most) // (2 * long))
        words = words[min(drop, before - least) :] if before > after else words[: len(words) - min(drop, after - least)]
        words = words[words[0] == "\t" : len(words) - (words[-1] == "\t")]
        text = " ".join(words).replace(" \t ", "\t")
    return text


# Labels of an answer, made when it is looked at.


def _gap_labels(
    known: Tokenizer, text: str, tokens: list[int], answer: tuple[str, float], chosen: Sequence[int], predicted: Any
) -> "Labels":
    """The axis labels: tokens of one or two sentences. Outputs are at the masks; without a mask, at the first position, which
    predicts whether the second sentence follows. `chosen` are the tokens of a candidate, or the class of the answer.
    """
    from mirada.looking.labels import RANKED, Labels, WrittenStep

    axes, steps = {"text": searched_axis(known, text, tokens)}, []
    if known.mask not in tokens:
        shares = predicted.follows.float().softmax(-1)[0].tolist()
        ranked = sorted((("follows", shares[1]), ("does not follow", shares[0])), key=lambda pair: -pair[1])
        steps.append(WrittenStep(0, *answer, tuple(ranked), chosen[0]))
    else:  # a step for every mask
        first = tokens.index(known.mask)
        for row in range(first, first + max(1, len(chosen))):
            shares = _of_words(known, word_scores(predicted)[0, row].float().cpu())
            top = shares.topk(min(RANKED, len(shares)))
            ranked = list(zip(map(known.token, top.indices.tolist()), top.values.tolist(), strict=True))
            token = chosen[row - first] if chosen else int(top.indices[0])
            written = answer if len(chosen) < 2 else (known.token(token), float(shares[token]))
            steps.append(WrittenStep(row, *written, tuple(ranked), token))
    return Labels(axes, {"*": ("text", "text")}, {"input": text}, answer, tuple(steps))


def searched_axis(tokenizer: Tokenizer, text: str, tokens: Sequence[int]) -> "TextLabels":
    """The axis of a text with blanks: each token is located at its next occurrence in the text, a mask at the next blank.

    >>> tokenizer = Tokenizer.train(["Ana ve una casa."], kind="word")
    >>> searched_axis(tokenizer, "Ana ve una ___.", tokenizer.encode_blanks("Ana ve una ___.")).spans
    ((0, 3), (4, 6), (7, 10), (11, 14), (14, 15))
    """
    from mirada.looking.labels import TextLabels, silent_tokens

    names, spans, at = [], list[tuple[int, int] | None](), 0
    silent = silent_tokens(tokenizer) | {tokenizer.unknown}
    lower = text.lower() if len(text.lower()) == len(text) else text
    for token in tokens:
        name = tokenizer.token(token)
        names.append(name)
        blank = BLANK.search(text, at)
        start, end = -1, at
        if token == tokenizer.mask and blank:
            start, end = blank.span()
        elif token not in silent:
            start = text.find(name, at)
            start = start if start >= 0 else lower.find(name.lower(), at)
            end = start + len(name)
        spans.append((start, end) if start >= 0 else None)
        at = end if start >= 0 else at
    return TextLabels(tuple(names), text, tuple(spans))

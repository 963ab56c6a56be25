"""Answers of fill: the words for a gap, ranked; without a gap, whether the second sentence follows the first."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mirada.data.record import TableRow
from mirada.data.text.tokenize import END, MASK, SPECIAL, START
from mirada.errors import require
from mirada.runs.answers import Answer
from mirada.runs.ask import TextRankAsk
from mirada.runs.run import Run

if TYPE_CHECKING:
    from mirada.looking.explain.compare import Explained
    from mirada.looking.labels import Labels

GAP = re.compile(r"_{2,}|\[MASK\]|<mask>")
LISTED = 5  # words for a gap


def with_gap(text: str) -> str:
    """A text whose last word is hidden.

    >>> with_gap("Ana lee un libro.")
    'Ana lee un ___.'
    """
    return re.sub(r"\w+(\W*)$", r"___\1", text)


def askable(records: Sequence[TableRow], count: int) -> list[TableRow]:
    """The first records whose last word can be hidden: they have one, and no gap of their own."""
    return list(islice((r for r in records if len(GAP.findall(with_gap(r.value[0]))) == 1), count))


def fill_gap(run: Run, text: str, ask: TextRankAsk) -> Answer:
    """The words for a gap, ranked; without a gap, whether the second sentence follows the first."""
    text = _shortened(run, text, ask) if ask.truncate else text
    gaps = len(GAP.findall(text))
    require(gaps <= 1, f"one gap at a time: {text!r} has {gaps}")
    if not gaps:
        require(
            "\t" in text,
            f"{text!r} has no gap: write ___ for the missing word, or two sentences with a tab between them",
        )
        return _order(run, text, ask)
    ranked = _candidates(run, text, ask.candidates) if ask.candidates else _likeliest(run, text, max(ask.best, LISTED))
    pieces = tuple(run.known.tokenizer.encode(ranked[0][0])) if ask.candidates else ()
    inputs = _arranged(run, text, max(1, len(pieces)))
    wanted = ranked if ask.candidates else ranked[: ask.best] if ask.best > 1 else []
    return _answer(run, text, ask.aligned, inputs, ranked[0], pieces, **ask.ranking(wanted))


def _likeliest(run: Run, text: str, count: int) -> list[tuple[str, float]]:
    """The likeliest tokens for the gap, with their probabilities."""
    tokens, segments = _arranged(run, text, 1)
    shares = run.model(tokens, None, segments).words[0, tokens[0] == MASK][0].float().softmax(-1)
    shares[: len(SPECIAL)] = 0
    top = shares.topk(min(count, len(shares)))
    return [
        (run.known.tokenizer.decode([token]), share)
        for token, share in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]


def _candidates(run: Run, text: str, words: Sequence[str]) -> list[tuple[str, float]]:
    """The given words with their probabilities, best first; of several tokens, the geometric mean counts."""
    ranked = []
    for word in words:
        ids = run.known.tokenizer.encode(word)
        require(len(ids) > 0, f"candidate {word!r} is empty")
        tokens, segments = _arranged(run, text, len(ids))
        scores = run.model(tokens, None, segments).words[0, tokens[0] == MASK].float().log_softmax(-1)
        mean = scores[torch.arange(len(ids)), torch.tensor(ids, device=scores.device)].mean()
        ranked.append((word, float(mean.exp())))
    return sorted(ranked, key=lambda pair: -pair[1])


def _order(run: Run, text: str, ask: TextRankAsk) -> Answer:
    """Whether the second sentence follows the first."""
    from mirada.looking.explain.compare import Explained  # it brings looking along, which no gap needs

    tokens, segments = inputs = _arranged(run, text, 1)
    shares = run.model(tokens, None, segments).follows.float().softmax(-1)[0].tolist()
    follows = shares[1] >= shares[0]
    answer = ("follows" if follows else "does not follow", max(shares))
    return _answer(run, text, ask.aligned, inputs, answer, (int(follows),), Explained(attrgetter("follows")))


def _answer(
    run: Run, text: str, aligned: bool, inputs: tuple[Tensor, Tensor], answer: tuple[str, float],
    chosen: Sequence[int], explained: "Explained | None" = None, **ranking: Any,
) -> Answer:  # fmt: skip
    """The answer that was read off the model's output. An `aligned` one has the weights of the place it was predicted from,
    over all tokens: of the last layer, mean of heads.
    """
    (tokens, segments), ids = inputs, inputs[0][0].tolist()
    labels = partial(_labels_of, run.known.tokenizer, text, ids, answer, chosen)
    replay = partial(run.look, tokens, None, segments, labels=labels, explained=explained)
    found = Answer(text, *answer, read=tuple(map(run.known.tokenizer.token, ids)), replay=replay, **ranking)
    if not aligned:
        return found
    seen, row = found.look(), ids.index(MASK) if MASK in ids else 0
    weights = seen[seen.names[-1]].weights(rows=slice(row, row + 1))[0].float().mean(0).cpu()
    return replace(found, written=(found.text,), weights=weights)


def _in_segments(run: Run, text: str, width: int) -> tuple[list[int], list[int]]:
    """Tokens of an input and the number of the sentence that each is of: one sentence, or two with a tab between them."""
    first, tab, second = text.partition("\t")
    tokens = [START, *_gapped(run, first, width), END]
    more = [*_gapped(run, second, width), END] if tab else []
    return tokens + more, [0] * len(tokens) + [1] * len(more)


def _gapped(run: Run, text: str, width: int) -> list[int]:
    """The tokens of a sentence, with that many masks in the place of every gap."""
    tokens = run.known.tokenizer.encode_blanks(GAP.sub("___", text))
    return [token for each in tokens for token in ([MASK] * width if each == MASK else [each])]


def _arranged(run: Run, text: str, width: int) -> tuple[Tensor, Tensor]:
    """The tokens and sentence numbers of an input as the model reads them; what is too long for it is refused."""
    tokens, segments = _in_segments(run, text, width)
    run.known.fitted(tokens, run.model.config.length, text)
    return torch.tensor([tokens], device=run.device), torch.tensor([segments], device=run.device)


def _shortened(run: Run, text: str, ask: TextRankAsk) -> str:
    """A text cut at the end that lies farther from its gap, word by word, until the model can read it.

    Two sentences without a gap are cut away from where they meet, and something stays of both.
    """
    most, words = run.model.config.length, text.replace("\t", " \t ").split(" ")
    width = max([1, *(len(run.known.tokenizer.encode(word)) for word in ask.candidates)])
    while (long := len(_in_segments(run, text, width)[0])) > most:
        gap = next((place for place, word in enumerate(words) if GAP.search(word)), None)
        least = int(gap is None and "\t" in words)  # words that stay on either side
        middle = gap if gap is not None else words.index("\t") if least else 0
        before, after = middle, len(words) - 1 - middle
        if max(before, after) <= least:
            break
        drop = max(1, len(words) * (long - most) // (2 * long))
        words = words[min(drop, before - least) :] if before > after else words[: len(words) - min(drop, after - least)]
        words = words[words[0] == "\t" : len(words) - (words[-1] == "\t")]
        text = " ".join(words).replace(" \t ", "\t")
    return text


def _labels_of(*given: Any) -> "Labels":
    """The labels of an answer, which are made when it is looked at."""
    from mirada.tasks.fill.labels import gap_labels

    return gap_labels(*given)

"""Beam search: the likeliest continuations of several texts at once."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.decoding.search import CROWD, Hypothesis, Look, Search, SearchCall, joined_looks, topk
from mirada.errors import require, require_known

STOPS = ("sure", "full", "likely", "never")


@dataclass(frozen=True)
class Beam(Search):
    """Keep the `size` likeliest texts of each entry, continue them all, and return the `best` ones.

    score = logprob / steps^length_penalty + coverage * sum over places of log(min(total attention weight of the place, 1))

    Steps are the tokens and the end. With `length_penalty=1` the first term is the mean log-probability of a step, which is
    easy to read; 0 prefers short texts, as probabilities do. Coverage favors texts that attended to every place of the
    source; places with no weight at all, such as padding, do not count, so it suits attention over the whole source.

    In a step a text is finished if its end is among the `size` best continuations. An entry stops when `size` texts are
    finished, or when no unfinished text can overtake the `best` finished ones: its logprob cannot rise, so its score stays
    below logprob / most^length_penalty. A text that reached the limit without an end ranks behind all finished ones.

    Other programs stop otherwise, and checkpoints are tuned for that. With `stop="full"` an entry stops when `size` texts are
    finished; with "likely" when the best unfinished text scores no more, at its length, than the worst of the `size` best
    finished ones; with "never" the same, at the length that suits it best. These are early_stopping True, False and "never" of
    transformers: a text that reached the limit counts as finished there.

    Args:
        size: the texts that are kept per entry.
        length_penalty: how much long texts are favored.
        coverage: how much texts that attended to all of the source are favored.
        best: how many texts are returned.
        stop: when the search of an entry ends: sure, full, likely or never.

    >>> from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
    >>> model = Seq2Seq(Seq2SeqConfig.tiny()).eval()
    >>> state = model.start(model.encode(torch.tensor([[4, 5, 6], [7, 8, 9]])))
    >>> texts = Beam(size=3, best=2)(model, state, first=torch.tensor([1, 1]), end=2, most=5)
    >>> [len(best) for best in texts]
    [2, 2]

    Length and coverage: Wu et al. (2016), arXiv:1609.08144, 7, whose length term is ((5 + steps) / 6)^length_penalty.
    """

    size: int = 4
    length_penalty: float = 1.0
    coverage: float = 0.0
    best: int = 1
    stop: str = "sure"

    def __post_init__(self) -> None:
        require_known("stop", self.stop, STOPS)
        require(self.size >= 1, f"size must be at least 1: got {self.size}")
        require(1 <= self.best <= self.size, f"best must lie in 1..size={self.size}: got {self.best}")
        for name in ("length_penalty", "coverage"):
            value = getattr(self, name)
            require(0 <= value < math.inf, f"{name} must be at least 0 and finite: got {value}")

    def divided(self, logprob: float, steps: int) -> float:
        """The score of a text of so many steps, without its coverage."""
        return logprob / steps**self.length_penalty

    def search(self, call: SearchCall) -> list[list[Hypothesis]]:
        rankings = [Ranking(self, call, entry) for entry in range(len(call.most))]
        batch, trail = rankings, Backpointers()  # some in the batch may be done
        changing = [rule for rule in call.rules if rule.changes]
        message = "a beam ranks texts by the scores of the model: {} is for greedy and drawn texts"
        require(not changing, message.format(changing[0] if changing else ""))
        tokens, state, covered = call.first, call.state, None
        sums = torch.zeros(len(batch), dtype=torch.float64, device=tokens.device)
        for length in range(max(call.most)):
            rows, width = len(sums), len(sums) // len(batch)
            texts = [trail.back(row, length)[0] for row in range(rows)] if call.reads else []
            logits, _, normal, state = call.step(tokens, state, call.so_far(length, texts))
            look = call.look(state, mean=self.coverage != 0)
            covered, penalties = self.cover(covered, look.mean, rows)
            candidates = self.candidates(logits, sums - normal, len(batch))
            live = [ranking.sift(few, penalties, length) for ranking, few in zip(batch, candidates, strict=True)]
            active = [place for place, texts in enumerate(live) if texts]
            active = list(range(len(batch))) if len(active) > CROWD * len(batch) else active
            batch = [batch[place] for place in active]
            front = [text for place in active for text in assign_rows(live[place], place * width, width, self.size)]
            trail.steps.append(front)
            trail.looks.append(look if call.align else look._replace(mean=None))
            if not front:
                break
            tokens = torch.tensor([text.token for text in front], device=tokens.device)
            sums = torch.tensor([text.logprob for text in front], dtype=torch.float64, device=tokens.device)
            origin = [text.row for text in front]
            if origin != list(range(rows)):
                index = torch.tensor(origin, device=tokens.device)
                state = call.stepper.reorder(state, index)
                covered = None if covered is None else covered.index_select(0, index)
        return [[trail.hypothesis(text) for text in ranking.best()] for ranking in rankings]

    def candidates(
        self, logits: Float[Tensor, "rows vocab"], sums: Float[Tensor, " rows"], entries: int
    ) -> "list[list[Candidate]]":
        """The 2 size likeliest continuations of each entry: at most `size` of them end. The normalizer is subtracted in `sums`.

        They are among the likeliest of each of its rows, which are known without normalizing all scores.
        """
        width, wanted = len(logits) // entries, 2 * self.size
        values, ids = topk(logits, min(wanted, logits.shape[1]))
        count = values.shape[1]
        totals = (values + sums.unsqueeze(1)).view(entries, width * count)
        totals, at = totals.topk(min(wanted, width * count))
        tokens = ids.view(entries, width * count).gather(1, at)
        return [
            [Candidate(total, entry * width + i // count, token) for total, i, token in zip(*likeliest, strict=True)]
            for entry, likeliest in enumerate(zip(totals.tolist(), at.tolist(), tokens.tolist(), strict=True))
        ]

    def cover(
        self, covered: Float[Tensor, "rows keys"] | None, look: Float[Tensor, "rows keys"] | None, rows: int
    ) -> tuple[Float[Tensor, "rows keys"] | None, list[float]]:
        """The total attention weight of every place in every row after one more step, and the penalties for it."""
        if not self.coverage or look is None:
            return None, [0.0] * rows
        if covered is not None:
            require(
                covered.shape == look.shape,
                f"coverage needs a source: this model attends to its own text, {look.shape[1]} places now. Use coverage=0.",
            )
            look = covered + look
        logs = torch.where(look > 0, look.clamp(max=1), 1).log()
        return look, (self.coverage * logs.double().sum(1)).tolist()


class Candidate(NamedTuple):
    """A row of the batch, one more token, and the log-probability of both."""

    logprob: float
    row: int
    token: int


class Ended(NamedTuple):
    """A text that is no longer continued. `last` has the end, or the token at the limit, and the row of the batch."""

    score: float
    steps: int
    finished: bool
    last: Candidate


@dataclass(eq=False)
class Ranking:
    """The texts of an entry that have ended, and whether the search is done for it."""

    beam: Beam
    call: SearchCall
    entry: int
    ended: list[Ended] = field(default_factory=list)
    done: bool = False

    def sift(self, candidates: list[Candidate], penalties: list[float], length: int) -> list[Candidate]:
        """Keep the texts that end here, and return those to continue, best first: none if the entry is done."""
        if self.done:
            return []
        if math.isnan(candidates[0].logprob) or not self.ended:
            self.call.check_logprob(candidates[0].logprob, self.entry, length)
        size, live = self.beam.size, []
        for rank, candidate in enumerate(candidates):
            if candidate.logprob == -math.inf:
                break
            if candidate.token not in self.call.ends:
                live.append(candidate)
            elif rank < size:
                self.keep(candidate, penalties, length + 1, finished=True)
        live = live[:size]
        if length + 1 == self.call.most[self.entry]:
            self.at_limit(candidates, live, penalties, length + 1)
        self.done = self.done or not live or self.decided(live[0].logprob, length + 1)
        return [] if self.done else live

    def decided(self, likeliest: float, steps: int) -> bool:
        """Whether what ended stays the best, where the likeliest text that is continued has this logprob after so many steps."""
        beam, most = self.beam, self.call.most[self.entry]
        if beam.stop in ("sure", "full") and len(self.ended) >= beam.size:
            return True
        wanted = beam.best if beam.stop == "sure" else beam.size
        if beam.stop == "full" or len(self.ended) < wanted:
            return False
        worst = sorted((text.score for text in self.ended), reverse=True)[wanted - 1]
        return worst >= beam.divided(likeliest, steps if beam.stop == "likely" else most)

    def at_limit(self, candidates: list[Candidate], live: list[Candidate], penalties: list[float], steps: int) -> None:
        """Keep the texts that were cut at the limit, unless the search was decided before."""
        self.done = self.beam.stop == "sure" and (not live or self.decided(live[0].logprob, steps))
        if self.beam.stop != "sure":  # those among the best continuations, which compete with what ended
            likeliest = candidates[: self.beam.size]
            live = [each for each in likeliest if each.token not in self.call.ends and each.logprob > -math.inf]
        if not self.done:
            for candidate in live:
                self.keep(candidate, penalties, steps, finished=False)
        self.done = True

    def keep(self, last: Candidate, penalties: list[float], steps: int, finished: bool) -> None:
        """Add a text that is no longer continued."""
        score = self.beam.divided(last.logprob, steps) + penalties[last.row]
        self.ended.append(Ended(score, steps, finished, last))

    def best(self) -> list[Ended]:
        """The best ones, best first."""
        behind = self.beam.stop == "sure"  # those that were cut at the limit
        return sorted(self.ended, key=lambda text: (behind and not text.finished, -text.score))[: self.beam.best]


def assign_rows(live: list[Candidate], start: int, width: int, size: int) -> list[Candidate]:
    """The next `size` rows of an entry that had `width` rows from `start` on; rows without a text get probability 0.

    A text stays in its row if it can: where all do, no state needs to be copied.
    """
    rows = [Candidate(-math.inf, start + min(slot, width - 1), token=0) for slot in range(size)]
    free, moved = set(range(size)), []
    for text in live:
        slot = text.row - start
        if slot in free:
            free.remove(slot)
            rows[slot] = text
        else:
            moved.append(text)
    for slot, text in zip(sorted(free), moved, strict=False):
        rows[slot] = text
    return rows


@dataclass(frozen=True, eq=False)
class Backpointers:
    """The texts that were continued after every step, and their attention: a text is read back from its end, never copied."""

    steps: list[list[Candidate]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)

    def back(self, row: int, steps: int) -> tuple[list[int], list[int]]:
        """The tokens that lead to a row after some steps, and the rows on the way, that one included."""
        tokens, rows = [], [row]
        for front in reversed(self.steps[:steps]):
            tokens.append(front[row].token)
            row = front[row].row
            rows.append(row)
        return tokens[::-1], rows[::-1]

    def hypothesis(self, text: Ended) -> Hypothesis:
        """A text that has ended, written out."""
        tokens, rows = self.back(text.last.row, text.steps - 1)
        looks = [look.of(row) for look, row in zip(self.looks, rows, strict=False)]
        tokens = tokens if text.finished else [*tokens, text.last.token]
        return Hypothesis(tokens, text.last.logprob, text.score, text.finished, **joined_looks(looks))

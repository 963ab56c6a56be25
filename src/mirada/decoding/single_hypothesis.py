"""One hypothesis per entry, token by token: what greedy search and sampling share."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.decoding.hypothesis import Hypothesis, stacked
from mirada.decoding.rules import Rule, SoFar
from mirada.decoding.search import CROWD, Search, SearchCall, prepare
from mirada.decoding.stepper import Stepper
from mirada.errors import require


class Choice(NamedTuple):
    """What an entry wrote in a step, and the row of the batch in which it stood."""

    entry: int
    row: int
    token: int
    logprob: float


class SingleHypothesis(Search):
    """A search that keeps one hypothesis per entry and chooses one token per step.

    `score` is the mean log-probability of a step, as Beam's by default.
    """

    @abstractmethod
    def choose(
        self, logits: Float[Tensor, "rows vocab"], numbers: list[int], length: int
    ) -> Int[Tensor, " rows"]:  # fmt: skip
        """The next token of every row, whose texts have these numbers and this length."""

    def search(self, call: SearchCall) -> list[list[Hypothesis]]:
        paths: list[list[Choice]] = [[] for _ in call.most]
        looks = []
        for choices, look in self.steps(call):
            looks.append(look)
            for choice in choices:
                paths[choice.entry].append(choice)
        return [[hypothesis(path, looks if call.align else None, call.end)] for path in paths]

    def stream(
        self,
        stepper: Stepper,
        state: Any,
        first: Int[Tensor, " 1"],
        end: int | None,
        most: int,
        *,
        rules: Sequence[Rule] = (),
        number: int = 0,
    ) -> Iterator[Choice]:
        """The tokens of one text with their log-probabilities, the end too, each as soon as it is chosen.

        The arguments are those of a call, and the mean of the log-probabilities is its score.
        """
        call = prepare(stepper, state, first, end, most, False, rules, [number] * len(first))
        require(len(first) == 1, f"a stream is of one text: got first of batch={len(first)}. Call the search instead.")
        return (choices[0] for choices, _ in self.steps(call))

    @torch.inference_mode()  # around each step, not around what happens between two of them
    def steps(self, call: SearchCall) -> Iterator[tuple[list[Choice], Float[Tensor, "rows keys"] | None]]:
        """Step by step, what every entry that has not ended wrote, and where the rows of the batch looked."""
        entries = list(range(len(call.most)))  # the entry in each row
        going = entries  # the rows whose entries have not ended
        texts: list[list[int]] = [[] for _ in entries]
        tokens, state = call.first, call.state
        for length in range(max(call.most)):
            so_far = SoFar(length, call.end, [texts[entry] for entry in entries] if call.reads else [])
            logits, normal, state = call.step(tokens, state, so_far)
            tokens = self.choose(logits, [call.numbers[entry] for entry in entries], length)
            look = call.stepper.alignment(state) if call.align else None
            choices = written(call, entries, going, (tokens, logits, normal), length)
            yield choices, look
            going = [c.row for c in choices if c.token != call.end and length + 1 < call.most[c.entry]]
            if not going:
                return
            for choice in choices:
                texts[choice.entry].append(choice.token)
            if len(going) <= CROWD * len(entries):
                rows = torch.tensor(going, device=tokens.device)
                state, tokens = call.stepper.reorder(state, rows), tokens.index_select(0, rows)
                entries = [entries[row] for row in going]
                going = list(range(len(entries)))


def written(
    call: SearchCall, entries: list[int], going: list[int], step: tuple[Tensor, Tensor, Tensor], length: int
) -> list[Choice]:
    """What the rows that go on have written: `step` has their tokens, the scores and the normalizers."""
    tokens, logits, normal = step
    chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
    ids, normals = tokens.tolist(), normal.tolist()
    choices = [Choice(entries[row], row, ids[row], chosen[row] - normals[row]) for row in going]
    for choice in choices:
        call.check_logprob(choice.logprob, choice.entry, length)
    return choices


def hypothesis(path: list[Choice], looks: list[Tensor | None] | None, end: int | None) -> Hypothesis:
    """The text of a path; `looks` has those of every row in every step, if they are wanted."""
    logprob, finished = sum(choice.logprob for choice in path), path[-1].token == end
    tokens = [choice.token for choice in (path[:-1] if finished else path)]
    alignment = None
    if looks is not None:
        alignment = stacked([look[choice.row] for look, choice in zip(looks, path, strict=False) if look is not None])
    return Hypothesis(tokens, logprob, logprob / len(path), finished, alignment)

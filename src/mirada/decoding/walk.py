"""One continuation of every entry, token by token: what greedy search and sampling share."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.decoding.hypothesis import Hypothesis, stacked
from mirada.decoding.rules import Rule, SoFar
from mirada.decoding.search import CROWD, SearchCall, Search, prepare
from mirada.decoding.stepper import Stepper
from mirada.errors import require


class Move(NamedTuple):
    """What an entry wrote in a step, and the row of the batch in which it stood."""

    entry: int
    row: int
    token: int
    logprob: float


class Walk(Search):
    """A search that chooses one token per step. `score` is the mean log-probability of a step, as Beam's by default."""

    @abstractmethod
    def choose(
        self, logits: Float[Tensor, "rows vocab"], numbers: list[int], length: int
    ) -> Int[Tensor, " rows"]:  # fmt: skip
        """The next token of every row, whose texts have these numbers and this length."""

    def search(self, call: SearchCall) -> list[list[Hypothesis]]:
        paths: list[list[Move]] = [[] for _ in call.most]
        looks = []
        for moves, look in self.walk(call):
            looks.append(look)
            for move in moves:
                paths[move.entry].append(move)
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
    ) -> Iterator[int]:
        """The tokens of one text, each as soon as it is chosen; the arguments are those of a call."""
        call = prepare(stepper, state, first, end, most, False, rules, [number] * len(first))
        require(len(first) == 1, f"a stream is of one text: got first of batch={len(first)}. Call the search instead.")
        return (moves[0].token for moves, _ in self.walk(call) if moves[0].token != end)

    @torch.inference_mode()  # around each step, not around what happens between two of them
    def walk(self, call: SearchCall) -> Iterator[tuple[list[Move], Float[Tensor, "rows keys"] | None]]:
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
            moves = written(call, entries, going, (tokens, logits, normal), length)
            yield moves, look
            going = [move.row for move in moves if move.token != call.end and length + 1 < call.most[move.entry]]
            if not going:
                return
            for move in moves:
                texts[move.entry].append(move.token)
            if len(going) <= CROWD * len(entries):
                rows = torch.tensor(going, device=tokens.device)
                state, tokens = call.stepper.reorder(state, rows), tokens.index_select(0, rows)
                entries = [entries[row] for row in going]
                going = list(range(len(entries)))


def written(
    call: SearchCall, entries: list[int], going: list[int], step: tuple[Tensor, Tensor, Tensor], length: int
) -> list[Move]:
    """What the rows that go on have written: `step` has their tokens, the scores and the normalizers."""
    tokens, logits, normal = step
    chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
    ids, normals = tokens.tolist(), normal.tolist()
    moves = [Move(entries[row], row, ids[row], chosen[row] - normals[row]) for row in going]
    for move in moves:
        call.check_logprob(move.logprob, move.entry, length)
    return moves


def hypothesis(path: list[Move], looks: list[Tensor | None] | None, end: int | None) -> Hypothesis:
    """The text of a path; `looks` has those of every row in every step, if they are wanted."""
    logprob, finished = sum(move.logprob for move in path), path[-1].token == end
    tokens = [move.token for move in (path[:-1] if finished else path)]
    alignment = None
    if looks is not None:
        alignment = stacked([look[move.row] for look, move in zip(looks, path, strict=False) if look is not None])
    return Hypothesis(tokens, logprob, logprob / len(path), finished, alignment)

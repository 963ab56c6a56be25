"""One hypothesis per entry, token by token: what greedy search and sampling share."""

import math
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.decoding.search import CROWD, Hypothesis, Look, Rule, Search, SearchCall, Stepper, joined_looks, topk
from mirada.errors import require


class Choice(NamedTuple):
    """The token that an entry chose in a step, its row of the batch, and where the model looked."""

    entry: int
    row: int
    token: int
    logprob: float
    look: Look


def hypothesis_of(path: Sequence[Choice], ends: Collection[int]) -> Hypothesis:
    """The hypothesis that was chosen token by token.

    Args:
        path: the choices of one entry, the end included.
        ends: the tokens that end a text.

    >>> hypothesis_of([Choice(0, 0, 5, -0.5, Look(None)), Choice(0, 0, 2, -1.5, Look(None))], ends=(2,)).score
    -1.0
    """
    logprob, finished = sum(choice.logprob for choice in path), path[-1].token in ends
    tokens = [choice.token for choice in (path[:-1] if finished else path)]
    looks = joined_looks([choice.look for choice in path])
    return Hypothesis(tokens, logprob, logprob / len(path), finished, **looks)


class SingleHypothesis(Search):
    """A search that keeps one hypothesis per entry and chooses one token per step.

    `score` is the mean log-probability of a step, as Beam's by default.
    """

    @abstractmethod
    def choose(
        self, logits: Float[Tensor, "rows vocab"], numbers: list[int], lengths: list[int]
    ) -> Int[Tensor, " rows"]:
        """The next token of every row. The texts of the rows have these numbers and lengths."""

    def search(self, call: SearchCall) -> list[list[Hypothesis]]:
        paths: list[list[Choice]] = [[] for _ in call.most]
        for choices in self.steps(call):
            for choice in choices:
                paths[choice.entry].append(choice)
        return [[hypothesis_of(path, call.ends)] for path in paths]

    def stream(
        self,
        stepper: Stepper,
        state: Any,
        first: Int[Tensor, " 1"],
        end: int | Sequence[int] | None,
        most: int,
        *,
        align: bool = False,
        rules: Sequence[Rule] = (),
        number: int = 0,
    ) -> Iterator[Choice]:
        """The tokens of one text, the end included, each as soon as it is chosen, with its log-probability and its attention.

        The arguments are those of a call; `hypothesis_of` joins what was chosen.
        """
        call = SearchCall(stepper, state, first, end, most, align, rules, [number] * len(first))
        require(len(first) == 1, f"a stream is of one text: got first of batch={len(first)}. Call the search instead.")
        return (choices[0] for choices in self.steps(call))

    @torch.inference_mode()  # around each step, not around the code of the caller between two steps
    def steps(self, call: SearchCall) -> Iterator[list[Choice]]:
        """Step by step, the choice of every entry that has not ended."""
        entries = list(range(len(call.most)))  # the entry in each row
        active = entries  # the rows whose entries have not ended
        texts: list[list[int]] = [[] for _ in entries]
        tokens, state = call.first, call.state
        for length in range(max(call.most)):
            so_far = call.so_far(length, [texts[entry] for entry in entries] if call.reads else [])
            logits, own, normal, state = call.step(tokens, state, so_far)
            tokens = self.choose(logits, [call.numbers[entry] for entry in entries], [length] * len(entries))
            look = call.look(state)
            chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
            ids, normals = tokens.tolist(), normal.tolist()
            for row in active:
                call.check_logprob(chosen[row] - normals[row], entries[row], length)
            if own is not logits:
                chosen = own.gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
            choices = [Choice(entries[row], row, ids[row], chosen[row] - normals[row], look.of(row)) for row in active]
            yield choices
            active = [c.row for c in choices if c.token not in call.ends and length + 1 < call.most[c.entry]]
            if not active:
                return
            for choice in choices:
                texts[choice.entry].append(choice.token)
            if len(active) <= CROWD * len(entries):
                rows = torch.tensor(active, device=tokens.device)
                state, tokens = call.stepper.reorder(state, rows), tokens.index_select(0, rows)
                entries = [entries[row] for row in active]
                active = list(range(len(entries)))


# Greedy search: the likeliest token at every step.


@dataclass(frozen=True)
class Greedy(SingleHypothesis):
    """The likeliest token of every step.

    >>> import torch
    >>> from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
    >>> model = Seq2Seq(Seq2SeqConfig.tiny()).eval()
    >>> state = model.start(model.encode(torch.tensor([[4, 5, 6], [7, 8, 9]])))
    >>> texts = Greedy()(model, state, first=torch.tensor([1, 1]), end=2, most=[5, 3])
    >>> [len(text.tokens) <= most for [text], most in zip(texts, [5, 3])]
    [True, True]
    """

    def choose(
        self, logits: Float[Tensor, "rows vocab"], numbers: list[int], lengths: list[int]
    ) -> Int[Tensor, " rows"]:
        return topk(logits, 1)[1].squeeze(1)


# Sampling: a token drawn at random by its probability at every step.


NUCLEUS = 128  # the likeliest tokens among which a nucleus is searched first


@dataclass(frozen=True)
class Sample(SingleHypothesis):
    """Draw each token from softmax(logits / temperature), among the `top_k` likeliest, then among the nucleus.

    The nucleus is the smallest set of likeliest tokens, among those that `top_k` allows, whose probabilities sum to at least
    `top_p`. `top_k=0` and `top_p=1.0` allow all tokens. A text depends on `seed` and its number, not on its batch: draw n of
    a text is a hash of seed, number and n.

    Args:
        temperature: below 1 likely tokens become likelier, above 1 less likely.
        top_k: how many tokens may be drawn; 0 for all.
        top_p: the probability that the nucleus holds; 1.0 for all.
        seed: another seed draws other texts.

    >>> import torch
    >>> from mirada.models.gpt import GPT, GPTConfig
    >>> model, first = GPT(GPTConfig.tiny()).eval(), torch.tensor([3])
    >>> once, again = (Sample(top_k=5, seed=1)(model, model.start(1), first, None, most=8) for _ in range(2))
    >>> once[0][0].tokens == again[0][0].tokens
    True

    Top-k: Fan, Lewis and Dauphin (2018), arXiv:1805.04833; nucleus: Holtzman et al. (2020), arXiv:1904.09751.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        require(
            0 < self.temperature < math.inf,
            f"temperature must be above 0 and finite: got {self.temperature}. For the likeliest tokens use Greedy().",
        )
        require(self.top_k >= 0, f"top_k must be at least 1, or 0 for all tokens: got {self.top_k}")
        require(0 < self.top_p <= 1, f"top_p must lie in (0, 1]: got {self.top_p}")

    def choose(
        self, logits: Float[Tensor, "rows vocab"], numbers: list[int], lengths: list[int]
    ) -> Int[Tensor, " rows"]:
        draws = [[draw(self.seed, number, length)] for number, length in zip(numbers, lengths, strict=True)]
        u = torch.tensor(draws, dtype=torch.float64, device=logits.device)
        p, ids = self.candidates(logits)
        summed = p.cumsum(-1)
        within = (summed - p < self.top_p).sum(-1, keepdim=True)  # the tokens before which the sum is less than top_p
        last = (within - 1).clamp(min=0)
        at = torch.searchsorted(summed, u * summed.gather(1, last), right=True).minimum(last)
        return (at if ids is None else ids.gather(1, at)).squeeze(1)

    def candidates(self, logits: Float[Tensor, "rows vocab"]) -> tuple[Tensor, Tensor | None]:
        """Probabilities of the tokens to draw from, likeliest first if some are excluded, and the ids of these tokens."""
        vocab = logits.shape[1]
        if self.top_k:
            scores, ids = topk(logits, min(self.top_k, vocab))
            return (scores.double() / self.temperature).softmax(-1), ids
        p = (logits.double() / self.temperature).softmax(-1)
        if self.top_p == 1:
            return p, None
        count = min(NUCLEUS, vocab)
        while True:  # sorting the whole vocabulary takes long, and a nucleus is small
            likeliest, ids = topk(p, count)
            if count == vocab or bool((likeliest.sum(-1) >= self.top_p).all()):
                return likeliest, ids
            count = min(8 * count, vocab)


def draw(seed: int, number: int, length: int) -> float:
    """A number in [0, 1), the same for the same arguments on every machine.

    >>> draw(0, 0, 0) == draw(0, 0, 0) != draw(0, 1, 0)
    True
    """
    digest = blake2b(f"{seed}/{number}/{length}".encode(), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48  # so far below 1 that no product with it rounds up

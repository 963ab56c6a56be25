"""Sampling: a token drawn at random by its probability, again and again."""

import math
from dataclasses import dataclass
from hashlib import blake2b

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.decoding.single_hypothesis import SingleHypothesis
from mirada.decoding.topk import topk
from mirada.errors import require

NUCLEUS = 128  # tokens among which a nucleus is looked for first


@dataclass(frozen=True)
class Sample(SingleHypothesis):
    """Draw each token from softmax(logits / temperature), among the `top_k` likeliest, then among the nucleus.

    The nucleus is the smallest set of likeliest tokens whose probabilities, of those that `top_k` left, sum to at least
    `top_p`. `top_k=0` and `top_p=1.0` leave all. A text depends on `seed` and on its number, not on its batch: draw n of a
    text is a hash of seed, number and n.

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

    def choose(self, logits: Float[Tensor, "rows vocab"], numbers: list[int], length: int) -> Int[Tensor, " rows"]:
        draws = [[draw(self.seed, number, length)] for number in numbers]
        u = torch.tensor(draws, dtype=torch.float64, device=logits.device)
        p, ids = self.candidates(logits)
        summed = p.cumsum(-1)
        within = (summed - p < self.top_p).sum(-1, keepdim=True)  # the tokens before which less than top_p was gathered
        last = (within - 1).clamp(min=0)
        at = torch.searchsorted(summed, u * summed.gather(1, last), right=True).minimum(last)
        return (at if ids is None else ids.gather(1, at)).squeeze(1)

    def candidates(self, logits: Float[Tensor, "rows vocab"]) -> tuple[Tensor, Tensor | None]:
        """Probabilities of the tokens to draw from, likeliest first if some may be left out, and the ids of these tokens."""
        vocab = logits.shape[1]
        if self.top_k:
            scores, ids = topk(logits, min(self.top_k, vocab))
            return (scores.double() / self.temperature).softmax(-1), ids
        p = (logits.double() / self.temperature).softmax(-1)
        if self.top_p == 1:
            return p, None
        count = min(NUCLEUS, vocab)
        while True:  # to sort a whole vocabulary takes long, and a nucleus is small
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

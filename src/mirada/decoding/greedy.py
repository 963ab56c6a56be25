"""Greedy search: the likeliest token, again and again."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from mirada.decoding.single_hypothesis import SingleHypothesis
from mirada.decoding.topk import topk


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

    def choose(self, logits: Float[Tensor, "rows vocab"], numbers: list[int], length: int) -> Int[Tensor, " rows"]:
        return topk(logits, 1)[1].squeeze(1)

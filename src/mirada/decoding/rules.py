"""What a text must not be: rules that take tokens away before one is chosen.

A rule is a value; a search takes any number of them, `rules=(Forbid([0, 3]), AtLeast(5))`. What they take away is never
written, and what is left is chosen from as before. Log-probabilities remain those of the model without rules.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.errors import require

NEVER = -torch.inf


@dataclass(frozen=True, eq=False)
class SoFar:
    """Where a search is: how many tokens every text has, the token that ends one, and the texts if a rule reads them."""

    length: int
    end: int | None
    texts: list[list[int]]


class Rule(ABC):
    """Takes tokens away, in place: their scores become minus infinity."""

    reads: ClassVar[bool] = False  # whether it looks at what was written

    @abstractmethod
    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        """Take away what must not come next, in each row."""


@dataclass(frozen=True)
class Forbid(Rule):
    """Tokens that are never written: padding, the start, perhaps the unknown word.

    >>> logits = torch.zeros(1, 5)
    >>> Forbid([0, 3]).apply(logits, SoFar(length=0, end=1, texts=[]))
    >>> logits
    tensor([[-inf, 0., 0., -inf, 0.]])
    """

    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        require(all(token >= 0 for token in self.tokens), f"tokens must be at least 0: got {self.tokens}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        vocab = logits.shape[1]
        require(
            all(token < vocab for token in self.tokens),
            f"forbidden tokens must be in the vocabulary of {vocab}: got {self.tokens}",
        )
        logits.index_fill_(1, torch.tensor(self.tokens, dtype=torch.long, device=logits.device), NEVER)


@dataclass(frozen=True)
class AtLeast(Rule):
    """No end before `count` tokens were written.

    >>> logits = torch.zeros(1, 3)
    >>> AtLeast(2).apply(logits, SoFar(length=1, end=2, texts=[]))
    >>> logits
    tensor([[0., 0., -inf]])
    """

    count: int

    def __post_init__(self) -> None:
        require(self.count >= 0, f"count must be at least 0: got {self.count}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        if so_far.end is not None and so_far.length < self.count:
            logits[:, so_far.end] = NEVER


@dataclass(frozen=True)
class NoRepeat(Rule):
    """No sequence of `size` tokens twice in a text: `NoRepeat(1)` writes no token twice.

    >>> logits = torch.zeros(1, 8)
    >>> NoRepeat(2).apply(logits, SoFar(length=4, end=0, texts=[[5, 6, 7, 5]]))  # 5 was followed by 6
    >>> logits
    tensor([[0., 0., 0., 0., 0., 0., -inf, 0.]])

    Paulus, Xiong and Socher (2018), arXiv:1705.04304, 2.5.
    """

    size: int
    reads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self.size >= 1, f"size must be at least 1: got {self.size}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        before = self.size - 1
        for row, text in enumerate(so_far.texts):
            last = text[len(text) - before :]
            repeats = [text[i + before] for i in range(len(text) - before) if text[i : i + before] == last]
            if repeats:
                logits[row, repeats] = NEVER

"""Rules for texts with moments between their words, as Whisper writes them: `<|0.00|> the red house<|1.40|><|1.40|> is ...`."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from mirada.decoding.search import NEVER, Forbid, Rule, SoFar
from mirada.errors import require


@dataclass(frozen=True)
class ForbidFirst(Forbid):
    """Tokens that no text begins with: its end, or a space.

    Args:
        tokens: the tokens that are never written first.

    >>> import torch
    >>> logits = torch.zeros(1, 3)
    >>> ForbidFirst([2]).apply(logits, SoFar(length=0, end=2, texts=[]))
    >>> logits
    tensor([[0., 0., -inf]])
    """

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        if so_far.length == 0:
            super().apply(logits, so_far)


@dataclass(frozen=True)
class Timestamps(Rule):
    """Timestamps, the tokens from `first` on, come at the beginning and then in pairs, and never go back in time.

    A text begins with a timestamp, up to `latest` steps after the first one. After the timestamp that closes a segment comes
    the one that opens the next, or the end. Where all timestamps together are likelier than any other token, one is written.

    Args:
        first: the token of moment 0; all after it are timestamps.
        end: the token that ends a text; the tokens before it are text.
        hidden: the token that says that there are no timestamps: it is never written.
        latest: how many steps after moment 0 a text may begin; None: at any moment.

    >>> import torch
    >>> rule, logits = Timestamps(first=4, end=2, hidden=3), torch.zeros(1, 7)
    >>> rule.apply(logits, SoFar(length=3, end=2, texts=[[4, 0, 5]]))
    >>> logits
    tensor([[-inf, -inf, -inf, -inf, -inf, 0., 0.]])

    Radford et al. (2022), arXiv:2212.04356, 4.5; their `ApplyTimestampRules`.
    """

    first: int
    end: int
    hidden: int
    latest: int | None = None
    reads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        message = f"end and hidden must stand before the timestamps, which begin at first={self.first}"
        require(0 <= self.end < self.first and 0 <= self.hidden < self.first, message)

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        vocab = logits.shape[1]
        require(self.first < vocab, f"timestamps begin at {self.first}: the vocabulary has {vocab} tokens")
        logits[:, self.hidden] = NEVER
        for row, text in enumerate(so_far.texts):
            self._apply_to_text(logits[row], text)
        if so_far.length == 0:
            logits[:, : self.first] = NEVER
            if self.latest is not None:
                logits[:, self.first + self.latest + 1 :] = NEVER
        moments = logits[:, self.first :].logsumexp(-1)
        certain = moments > logits[:, : self.first].amax(-1)
        logits[:, : self.first].masked_fill_(certain.unsqueeze(-1), NEVER)

    def _apply_to_text(self, scores: Float[Tensor, " vocab"], text: list[int]) -> None:
        """Forbid what may not follow a text."""
        closes = bool(text) and text[-1] >= self.first
        opened = len(text) < 2 or text[-2] >= self.first
        if closes and opened:
            scores[self.first :] = NEVER
        elif closes:
            scores[: self.end] = NEVER
        moments = [token for token in text if token >= self.first]
        if moments:  # the moment that closes a segment may open the next one
            scores[self.first : moments[-1] + (not (closes and not opened))] = NEVER

"""Hard attention learned by REINFORCE: a look has no gradient, so looks that led to likelier words become likelier."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mirada.attention.normalizers import Draws, draws
from mirada.layers.output import IGNORED
from mirada.training.distributed import ProcessGroup
from mirada.training.objectives import Objective

KEPT = 0.9  # of the baseline, from step to step
STRENGTH = 0.1  # of the lesson for draws: at 1 its noise drowns the gradient of the words, which is clipped with it
ENTROPY = 0.002  # the bonus for keeping an open mind
PLACES = 64  # of a text that have a baseline of their own; later ones share the last


class Reinforce(Objective):
    """The cross-entropy of the words, and what it teaches the draws that led to them. One draw is made for each word.

    R_t = sum over t' >= t of log p(y_t' | draws)     all that the draw for word t can still change
    loss = -sum_t log p(y_t) - strength sum_t (R_t - b_t) log p(draw_t) - entropy sum_t H_t,  per word
    b_t <- 0.9 b_t + 0.1 mean of R_t                  the baseline, a moving average that begins with the first mean

    The reward has no gradient of its own, and the value shown is the first sum alone: the cross-entropy. Words that kept
    their soft weights (`hard:0.5`) followed no draw, and do not count for the second sum. In evaluation nothing is drawn,
    and the loss is the plain cross-entropy.

    Xu et al. (2015), arXiv:1502.03044, 4.1; Williams (1992).
    """

    baseline: Tensor

    def __init__(
        self, model: nn.Module, smoothing: float = 0.0, strength: float = STRENGTH, entropy: float = ENTROPY
    ) -> None:
        super().__init__(model, smoothing)
        self.strength, self.entropy = strength, entropy
        self.register_buffer("baseline", torch.zeros(PLACES))
        self._forget()

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The loss of a batch: cross-entropy per word, and for a hard model the gradient of REINFORCE."""
        wanted = inputs.pop("wanted")
        with draws() as drawn:
            logits = self.model(**inputs)
        real = wanted != IGNORED
        words = real.sum().clamp(min=1)
        loss = _surprise(logits, wanted, self.smoothing).sum() / words
        if drawn:
            lesson = self.of_draws(drawn, -_surprise(logits.detach(), wanted), real) / words
            loss = loss + lesson - lesson.detach()  # it has a gradient, but no value that would tell anybody anything
        return loss.unsqueeze(0)

    def of_draws(
        self, drawn: Draws, log_p: Float[Tensor, "batch length"], real: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, ""]:
        """What draws are to be blamed for, summed over all words; rewards are noted for the baseline."""
        log_draw, entropy, soft = (
            torch.stack([getattr(draw, name).squeeze(2) for draw in drawn], dim=-1)  # batch heads length
            for name in ("log_probability", "entropy", "soft")
        )
        reward = log_p.flip(1).cumsum(1).flip(1)
        place = torch.arange(reward.shape[1], device=reward.device).clamp(max=PLACES - 1)
        advantage = ((reward - self.baseline[place]) * real).unsqueeze(1)
        if self.training:
            self.sums.index_add_(0, place.cpu(), (reward * real).sum(0).double().cpu())
            self.counts.index_add_(0, place.cpu(), real.sum(0).double().cpu())
        bonus = self.entropy * (entropy * real.unsqueeze(1)).sum()
        return -self.strength * (advantage * log_draw * ~soft).sum() - bonus

    def end_step(self, group: ProcessGroup) -> None:
        """Move the baseline by the mean rewards of the whole batch, at the places where it had words."""
        together = torch.tensor(group.total([*self.sums.tolist(), *self.counts.tolist()]), dtype=torch.float64)
        sums, counts = together.chunk(2)
        mean = (sums / counts.clamp(min=1)).to(self.baseline)
        moved = torch.where(self.baseline == 0, mean, KEPT * self.baseline + (1 - KEPT) * mean)
        self.baseline.copy_(torch.where(counts.to(self.baseline.device) > 0, moved, self.baseline))
        self._forget()

    def _forget(self) -> None:
        """Begin to sum the rewards of another step."""
        self.sums, self.counts = (torch.zeros(PLACES, dtype=torch.float64) for _ in range(2))


def _surprise(
    logits: Float[Tensor, "batch length vocab"], wanted: Tensor, smoothing: float = 0.0
) -> Float[Tensor, "batch length"]:
    """The cross-entropy of every word; 0 where none is wanted."""
    return F.cross_entropy(
        logits.transpose(1, 2), wanted, ignore_index=IGNORED, reduction="none", label_smoothing=smoothing
    )

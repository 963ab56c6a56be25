"""Probabilities that mean what they say: scores are scaled so that held-out records are predicted best."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.training.linear import learning

STEPS = 60


def fitted_scales(
    scores: Sequence[Float[Tensor, "records classes"]],
    wanted: Int[Tensor, " records"],
    weights: Float[Tensor, " records"] | None = None,
) -> tuple[float, ...]:
    """A positive scale for the scores of every model, so that the softmax of their scaled sum predicts the wanted classes best.

    minimize  sum over records of cross-entropy(sum over models of scale x scores) + sum over models of log(scale x models)^2 / 2

    One model: its temperature, as 1 / temperature, which changes no answer. Several: how much each has to say. The second
    term weighs as little as one record; it keeps scales finite where few records are all right.

    Guo et al. (2017), arXiv:1706.04599; Wolpert (1992) for several models.
    """
    with learning():
        parts, wanted = torch.stack([score.double() for score in scores]).detach(), wanted.clone()
        counts = torch.ones(len(wanted)) if weights is None else weights.clone()
        start = -math.log(len(parts))
        logs = torch.full((len(parts),), start, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            each = F.cross_entropy(mixed(parts, logs.exp()), wanted, reduction="none")
            whole = (each * counts).sum() + (logs - start).square().sum() / 2
            (whole / len(wanted)).backward()
            return whole / len(wanted)

        optimizer.step(loss)
        return tuple(logs.detach().exp().tolist())


def mixed(
    scores: Float[Tensor, "models records classes"], scales: Float[Tensor, " models"]
) -> Float[Tensor, "records classes"]:
    """The sum of the scores of several models, each with its scale."""
    return torch.einsum("m,mrc->rc", scales, scores)

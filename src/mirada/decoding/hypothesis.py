"""What a search returns."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A text that a search proposes.

    `tokens` has neither the start nor the end. `logprob` is the sum of the model's own log-probabilities, untouched by rules,
    temperature or penalties; the end counts if it was reached, which is what `finished` says. `score` is what a search ranks
    by. `alignment` says where the model looked, if that was asked: a row for every token, then one for the end if it was
    reached. Where the places grow with the text (GPT), those not written yet have weight 0.
    """

    tokens: list[int]
    logprob: float
    score: float
    finished: bool
    alignment: Float[Tensor, "steps keys"] | None = None


def stacked(looks: Sequence[Float[Tensor, " keys"]]) -> Float[Tensor, "steps keys"]:
    """The looks of a text as one matrix; later ones may be longer.

    >>> stacked([torch.tensor([1.0]), torch.tensor([0.3, 0.7])])
    tensor([[1.0000, 0.0000],
            [0.3000, 0.7000]])
    """
    keys = max(len(look) for look in looks)
    with torch.inference_mode(False), torch.no_grad():  # an ordinary tensor, that anything may be done with
        return torch.stack([look if len(look) == keys else F.pad(look, (0, keys - len(look))) for look in looks])

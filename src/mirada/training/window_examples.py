"""Windows of one series as a model reads them, cut out when they are asked for, and the error of a forecast."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.training.objectives import Microbatch, Objective


@dataclass(frozen=True, eq=False)
class WindowExamples:
    """Windows by their first rows: `lookback` rows of some columns are read, the next `horizon` of the targets wanted.

    The first `own` targets are read, too: a forecast of these begins at their last values. One of the others begins at 0.

    >>> values = torch.arange(5.0).unsqueeze(1)
    >>> windows = WindowExamples(values, values, torch.arange(3), lookback=2, horizon=1, own=1)
    >>> inputs = windows.part([2], epoch=0).inputs
    >>> inputs["series"].tolist(), inputs["first"].tolist(), inputs["wanted"].tolist()
    ([[[2.0], [3.0]]], [[3.0]], [[[4.0]]])
    """

    read: Float[Tensor, "rows features"]
    wanted: Float[Tensor, "rows targets"]
    starts: Int[Tensor, " windows"]
    lookback: int
    horizon: int
    own: int

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        starts = self.starts[torch.as_tensor(rows, dtype=torch.int64)].unsqueeze(1)
        last = self.wanted[starts[:, 0] + self.lookback - 1]
        inputs = {
            "series": self.read[starts + torch.arange(self.lookback)],
            "first": torch.where(torch.arange(last.shape[1]) < self.own, last, 0.0),
            "wanted": self.wanted[starts + self.lookback + torch.arange(self.horizon)],
        }
        return Microbatch(inputs, (inputs["wanted"].numel(),), len(rows) * self.lookback)

    def take(self, rows: Sequence[int]) -> "WindowExamples":
        return replace(self, starts=self.starts[torch.as_tensor(rows, dtype=torch.int64)])


class SeriesBatches(Sequence[Microbatch]):
    """All windows once, in order. A batch is made when it is asked for: all together would be many times the series."""

    def __init__(self, examples: WindowExamples, size: int, rows: Sequence[range] | None = None) -> None:
        self.examples, self.size, count = examples, size, len(examples)
        self.rows = [range(at, min(at + size, count)) for at in range(0, count, size)] if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return SeriesBatches(self.examples, self.size, self.rows[place])
        return self.examples.part(self.rows[place], 0)


class ForecastLoss(Objective):
    """The mean squared error of the forecast itself: a model that goes step by step learns from its own predictions."""

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        return F.mse_loss(self.model(inputs["series"], inputs["first"]), inputs["wanted"]).unsqueeze(0)

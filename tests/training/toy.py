"""A small problem for the training loop: a linear map with dropout, learned from rows that are a function of the step."""

from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.training.distributed import ProcessGroup
from mirada.training.loop import Training
from mirada.training.objectives import Microbatch, Objective
from mirada.training.recipe import Recipe

ROWS = 6


class Toy(nn.Module):
    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 8)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(torch.tanh(self.inner(x))))


class Distance(Objective):
    def forward(self, x: Tensor, y: Tensor) -> Float[Tensor, " terms"]:
        return ((self.model(x) - y) ** 2).mean().unsqueeze(0)


def rows(seed: int, count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator)
    return x, torch.stack([x.sum(1), x[:, 0] * 2], 1)


class Rows:
    def __len__(self) -> int:
        return 10

    def part(self, step: int, index: int, count: int) -> Microbatch:
        x, y = rows(step % 10, ROWS)
        mine = slice(index, None, count)
        if index >= ROWS:
            return Microbatch({"x": x[:1], "y": y[:1]}, (0,), 0)
        return Microbatch({"x": x[mine], "y": y[mine]}, (len(x[mine]),), len(x[mine]))


class Clock:
    """A clock that advances only on demand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TimedDistance(Distance):
    """A step and a batch of a validation take a given time."""

    def __init__(self, model: nn.Module, clock: Clock, step: Callable[[float], float], batch: float) -> None:
        super().__init__(model)
        self.clock, self.step, self.batch = clock, step, batch

    def forward(self, x: Tensor, y: Tensor) -> Float[Tensor, " terms"]:
        self.clock.now += self.step(self.clock.now) if self.training else self.batch
        return super().forward(x, y)


def timed_training(
    folder: Path, minutes: float, step: Callable[[float], float], batch: float, batches: int = 20, **more
) -> Training:
    """A toy whose steps take `step(now)` seconds and whose validations take `batches` times `batch`."""
    torch.manual_seed(3)
    clock = more.pop("clock", None) or Clock()
    fields = {name: more.pop(name) for name in ("resume", "print_progress", "began") if name in more}
    x, y = rows(99, 20)
    valid = [Microbatch({"x": x[:4], "y": y[:4]}, (4,), 4) for _ in range(batches)]
    recipe = Recipe(**{"minutes": minutes, "lr": 1e-2, "warmup": 5, "patience": 0, "average": 0, "threads": 1} | more)
    objective = TimedDistance(Toy(), clock, step, batch)
    return Training(objective, Rows(), valid, recipe, folder, clock=clock, **fields)


def toy_training(
    folder: Path,
    dropout: float = 0.2,
    group: ProcessGroup | None = None,
    resume: bool = False,
    kind: type[Objective] = Distance,
    **recipe,
) -> Training:
    torch.manual_seed(3)
    x, y = rows(99, 20)
    valid = [Microbatch({"x": x[i : i + 4], "y": y[i : i + 4]}, (4,), 4) for i in range(0, 20, 4)]
    settings = Recipe(**{"steps": 40, "lr": 1e-2, "warmup": 5, "validate": 10, "patience": 0, "average": 3} | recipe)
    objective = kind(Toy(dropout))
    return Training(objective, Rows(), valid, settings, folder, group or ProcessGroup(), resume)


class MovingDistance(Distance):
    """A distance from the mean of earlier outputs too, which the objective remembers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.register_buffer("mean", torch.zeros(2))
        self.seen, self.count = torch.zeros(2), 0

    def forward(self, x: Tensor, y: Tensor) -> Float[Tensor, " terms"]:
        found = self.model(x)
        if self.training:
            self.seen, self.count = self.seen + found.detach().sum(0), self.count + len(found)
        return ((found - y) ** 2 + (found - self.mean) ** 2).mean().unsqueeze(0)

    def end_step(self, group: ProcessGroup) -> None:
        *seen, count = group.total([*self.seen.tolist(), self.count])
        self.mean.mul_(0.9).add_(torch.tensor(seen) / count, alpha=0.1)
        self.seen, self.count = torch.zeros(2), 0

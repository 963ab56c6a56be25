"""The numbers of a training: how long, how fast, how careful."""

from dataclasses import dataclass
from math import inf

from mirada.config import Config
from mirada.training.optimizer import SCHEDULES

MOST = {
    "threads": 4096,
    "accumulate": 2**16,  # parts of one step
    "seeds": 2**16,
    "minutes": 10**7,  # nineteen years
}
PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """The numbers of a run. Zero leaves a number to the run: `steps` comes from `minutes`, or else from `epochs`;
    `validate` (steps between two validations) is once an epoch, but in all at least twenty and at most two hundred times.

    `batch_tokens` is the size of one whole batch, whatever it is divided into: `accumulate` parts, times the processes;
    where all examples have one size (pictures, windows of a series), `batch_size` counts them.
    `lr` is the highest learning rate, reached after `warmup` steps. `decay` makes weights smaller beside the gradient (AdamW),
    `l2` by it: half of it times the squared weights is a part of the loss (L2).
    `average` is how many of the last validated weights are averaged at the end; the average is kept if it validates better
    than the best of them. `patience` is how many epochs the validations may go without becoming better before a run ends
    early (0: it never does). `threads` are those of the CPU; 0 takes all, or one where that is clearly faster.
    `seeds` is how many runs are trained, one after the other, with `seed` and the numbers after it.
    """

    steps: int = 0
    minutes: float = 0.0
    epochs: int = 20
    batch_tokens: int = 4096
    batch_size: int = 64
    accumulate: int = 1
    lr: float = 1e-3
    schedule: str = "cosine"
    warmup: int = 400
    decay: float = 0.0
    l2: float = 0.0
    smoothing: float = 0.1
    clip: float = 1.0
    validate: int = 0
    patience: float = 10.0
    average: int = 5
    save_seconds: float = 60.0
    precision: str = "float32"
    threads: int = 0
    seed: int = 0
    seeds: int = 1

    @property
    def budget(self) -> float:
        """The minutes that decide the number of steps; 0 where something else does."""
        return 0.0 if self.steps else self.minutes

    def check(self) -> None:
        self.at_least(
            0,
            "steps",
            "minutes",
            "warmup",
            "decay",
            "l2",
            "clip",
            "validate",
            "patience",
            "average",
            "save_seconds",
            "threads",
        )
        self.at_least(1, "epochs", "batch_tokens", "batch_size", "accumulate", "seeds")
        self.probability("smoothing")
        self.one_of("schedule", *SCHEDULES)
        self.one_of("precision", *PRECISIONS)
        if not 0 < self.lr < inf:
            raise ValueError(f"lr must be a positive number: got {self.lr}")
        for name in ("minutes", "decay", "l2", "clip"):
            if getattr(self, name) == inf:
                raise ValueError(f"{name} must be finite: got inf")
        self.at_most(MOST)
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must lie in [0, 2^63): got {self.seed}")

"""The numbers of a training: how long, how fast, how careful."""

import re
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


MODEL, ADAPTER = "model.safetensors", "adapter.safetensors"
MOST_RANK = 4096


@dataclass(frozen=True)
class Tuning:
    """What of a model learns that started from another: all, its head, or adapters of a rank.

    >>> Tuning.parse("lora:8"), Tuning.parse("lora:4:all").every
    (Tuning(kind='lora', rank=8, every=False), True)
    >>> Tuning.parse("lora")
    Traceback (most recent call last):
    ValueError: tune must be all, head or lora:RANK, such as lora:8 (lora:8:all adapts all linear layers): got 'lora'
    """

    kind: str = "all"
    rank: int = 0
    every: bool = False

    @classmethod
    def parse(cls, word: str) -> "Tuning":
        """What a word says."""
        found = re.fullmatch(r"(all|head)|lora:([1-9]\d{0,3})(:all)?", word)
        if found is None or int(found[2] or 0) > MOST_RANK:
            example = "such as lora:8 (lora:8:all adapts all linear layers)"
            raise ValueError(f"tune must be all, head or lora:RANK, {example}: got {word!r}")
        return cls(found[1] or "lora", int(found[2] or 0), bool(found[3]))


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """The numbers of a training: how long, how fast, how careful.

    Args:
        steps: How many steps; 0: as many as fit into `minutes`, or else into `epochs`.
        minutes: How long it may take; 0: as long as it takes.
        epochs: How often all records are learned from, where neither steps nor minutes say how long.
        batch_tokens: The size of one whole batch, whatever it is divided into: `accumulate` parts, times the processes.
        batch_size: The same where all examples have one size (pictures, windows of a series): how many examples.
        accumulate: How many parts a batch is computed in.
        lr: The highest learning rate, reached after `warmup` steps.
        schedule: How the learning rate falls after that.
        warmup: Steps in which the learning rate rises.
        decay: Makes weights smaller apart from the gradient (AdamW).
        l2: Makes weights smaller by the gradient: half of it times the squared weights is a part of the loss.
        smoothing: Label smoothing.
        clip: The largest norm of a gradient; 0: any.
        validate: Steps between two validations; 0: an epoch, but in all at least twenty and at most two hundred.
        patience: Epochs that validations may go without becoming better before a run ends early; 0: it never does.
        average: How many of the last validated weights are averaged at the end; the average is kept if it validates better.
        save_seconds: Seconds between two checkpoints.
        precision: float32, or bfloat16 or float16 for mixed precision.
        threads: Those of the CPU; 0: all, or one where that is clearly faster.
        tune: What learns, where a run starts from another model: all, head (only the part behind the body), or lora:8 (adapters
            of rank 8 of queries and values, and the head; lora:8:all adapts all linear layers).
        layer_decay: The learning rate of a layer is this times that of the layer above it.
        checkpointing: Whether layers are computed again in the backward pass, which takes less memory and more time.
        seed: Decides all random numbers.
        seeds: How many runs are trained, one after the other, with `seed` and the numbers after it.
        log: tensorboard writes the numbers of the metrics log for TensorBoard as well, into the run's folder.

    >>> Recipe(minutes=5).budget, Recipe(steps=100, minutes=5).budget
    (5.0, 0.0)
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
    tune: str = "all"
    layer_decay: float = 1.0
    checkpointing: bool = False
    threads: int = 0
    seed: int = 0
    seeds: int = 1
    log: str = ""

    @property
    def budget(self) -> float:
        """The minutes that decide the number of steps; 0 where something else does."""
        return 0.0 if self.steps else self.minutes

    @property
    def tuning(self) -> "Tuning":
        """What learns."""
        return Tuning.parse(self.tune)

    @property
    def weights_file(self) -> str:
        """The file of the best weights in the folder of a run: of an adapter, those that it learned."""
        return ADAPTER if self.tuning.rank else MODEL

    def check(self) -> None:
        Tuning.parse(self.tune)
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay must lie in (0, 1]: got {self.layer_decay}")
        self.at_least(0, "steps", "minutes", "warmup", "decay", "l2", "clip", "validate", "patience", "average")
        self.at_least(0, "save_seconds", "threads")
        self.at_least(1, "epochs", "batch_tokens", "batch_size", "accumulate", "seeds")
        self.probability("smoothing")
        self.one_of("schedule", *SCHEDULES)
        self.one_of("precision", *PRECISIONS)
        self.one_of("log", "", "tensorboard")
        if not 0 < self.lr < inf:
            raise ValueError(f"lr must be a positive number: got {self.lr}")
        for name in ("minutes", "decay", "l2", "clip"):
            if getattr(self, name) == inf:
                raise ValueError(f"{name} must be finite: got inf")
        self.at_most(MOST)
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must lie in [0, 2^63): got {self.seed}")

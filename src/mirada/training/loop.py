"""The training loop, readable from top to bottom."""

import math
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from mirada.training.checkpoint import check_room
from mirada.training.distributed import ProcessGroup
from mirada.training.metrics_log import MetricsLog
from mirada.training.objectives import BatchSource, Microbatch, Objective, evaluate, moved, seed_for
from mirada.training.optimize import adam, clip, set_rate
from mirada.training.progress import Progress, Silence, clock
from mirada.training.recipe import Recipe
from mirada.training.schedules import rate
from mirada.training.training_state import (
    LAST,
    TrainingState,
    kept_path,
    load_state,
    put_weights,
    save_state,
    save_weights,
    weights,
)

MOST_SKIPPED = 20  # steps in a row without a finite gradient that end a run
A_LOOK = 0.3  # seconds of trial steps where no budget asks for more
VALIDATIONS = 20  # in a run whose epochs are longer
MOST_VALIDATIONS = 200  # in a run whose epochs are shorter
CHECKPOINTS = "checkpoints"


class Interrupted(Exception):  # noqa: N818 (nothing went wrong)
    """Somebody asked the run to stop; it is saved and can be resumed."""


@dataclass(frozen=True)
class Estimate:
    """What a run will take on this machine, from a few steps that were measured and undone."""

    steps: int
    a_step: float
    a_validation: float
    validations: int
    memory: int

    @property
    def seconds(self) -> float:
        return self.steps * self.a_step + self.validations * self.a_validation

    def text(self, minutes: float) -> str:
        """The plan in a line."""
        within = f" within {minutes:g} minutes" if minutes else ""
        return (
            f"{self.steps:,} steps{within}: about {clock(self.seconds)} and {self.memory / 1e9:.1f} GB of memory on this "
            f"machine ({1000 * self.a_step:.0f} ms a step)"
        )


@dataclass
class Training:
    """One run: what it trains, on what, how, and where it leaves its files."""

    objective: Objective
    batches: BatchSource
    valid: Sequence[Microbatch]
    recipe: Recipe
    folder: Path
    group: ProcessGroup = field(default_factory=ProcessGroup)
    resume: bool = False
    print_progress: Callable[[str], None] = lambda text: None
    preview: Callable[[], str] = str  # called after a validation; what it returns is told with it

    def __post_init__(self) -> None:
        self.model: nn.Module = self.objective.model  # type: ignore[assignment]
        self.checkpoints = self.folder / CHECKPOINTS
        if self.group.leads:
            size = sum(p.numel() * p.element_size() for p in self.model.parameters())
            check_room(self.checkpoints, size * (5 + self.recipe.average))
        self.model.to(self.group.device)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = adam(self.model, self.recipe.lr, self.recipe.decay)
        self.scaler = torch.amp.GradScaler(self.group.device.type, enabled=self.recipe.precision == "float16")
        self.wrapped = self.group.wrap(self.objective)

    def run(self) -> TrainingState:
        """Train to the end, or until somebody stops it."""
        state = self.start()
        log = (
            MetricsLog(self.folder / "metrics.jsonl", state.log_size if state.step else None)
            if self.group.leads
            else None
        )
        progress = (Progress if self.group.leads else Silence)(state.steps, state.step)
        log_every = max(1, min(10, state.steps // 100))
        validate_every = self.every(state.steps)
        saved, began, tokens, marked = time.monotonic(), time.monotonic() - state.seconds, 0, time.monotonic()
        self.objective.train()
        with asked_to_stop() as asked:
            while not self.over(state):
                loss, seen, stop = self.step(state, bool(asked))
                state.step += 1
                state.loss_sum, state.loss_count, tokens = state.loss_sum + loss, state.loss_count + 1, tokens + seen
                state.seconds = time.monotonic() - began
                if state.step % log_every == 0:
                    mean, now = state.loss_sum / state.loss_count, time.monotonic()
                    speed, tokens, marked = tokens / max(1e-9, now - marked), 0, now
                    self.note(log, step=state.step, loss=mean, lr=self.lr(state.step - 1, state.steps),
                              tokens_per_second=round(speed), seconds=round(state.seconds, 2))  # fmt: skip
                    progress.show(state.step, mean, speed)
                    state.loss_sum, state.loss_count = 0.0, 0
                if state.step % validate_every == 0 or state.step == state.steps:
                    self.validate(state, log, progress)
                    saved = self.save(state, log)
                elif time.monotonic() - saved > self.recipe.save_seconds:
                    saved = self.save(state, log)
                if stop:
                    self.save(state, log)
                    progress.end()
                    raise Interrupted(f"stopped after step {state.step:,} of {state.steps:,}")
        progress.end()
        self.finish(state, log)
        return state

    def over(self, state: TrainingState) -> bool:
        """Whether all steps are made, or the validations have not improved for too long."""
        patience = self.recipe.patience
        return state.finished or state.step >= state.steps or (0 < patience <= state.stale)

    def start(self) -> TrainingState:
        """The state to go on from: a saved one, or a new one whose number of steps is fixed here, once."""
        if self.resume and (self.checkpoints / LAST).exists():
            state = load_state(self.checkpoints, self.model, self.optimizer)
            self.scaler.load_state_dict(state.scaler) if state.scaler else None
            return state
        plan = self.plan()
        self.print_progress(plan.text(self.recipe.budget))
        state = TrainingState(steps=plan.steps)
        self.save(state, None)
        return state

    def plan(self) -> Estimate:
        """How many steps there will be (`steps`, or what fits into `minutes`, or all `epochs`) and what they take here."""
        recipe = self.recipe
        budget = 60 * recipe.budget
        began = time.monotonic()
        a_step, a_validation = self.measure(min(20.0, 0.05 * budget) if budget else A_LOOK)
        left = budget - (time.monotonic() - began)
        if recipe.steps:
            steps = recipe.steps
        elif not budget:
            steps = recipe.epochs * len(self.batches)
        else:
            between = recipe.validate or len(self.batches)
            fitting = left / (a_step + a_validation / between)
            epochs = fitting / between
            if (
                not recipe.validate and not VALIDATIONS <= epochs <= MOST_VALIDATIONS
            ):  # then so many, whatever the steps
                count = VALIDATIONS if epochs < VALIDATIONS else MOST_VALIDATIONS
                fitting = (left - count * a_validation) / a_step
            steps = int(self.group.agree(max(1, int(fitting))))
        return Estimate(steps, a_step, a_validation, steps // self.every(steps), memory_in_use())

    def every(self, steps: int) -> int:
        """Steps between two validations."""
        return self.recipe.validate or max(1, min(len(self.batches), steps // VALIDATIONS), steps // MOST_VALIDATIONS)

    def measure(self, seconds: float) -> tuple[float, float]:
        """Seconds that a step and a validation take, measured and then undone."""
        before = {name: value.clone() for name, value in weights(self.model).items()}
        trial = TrainingState(steps=1_000_000)
        times: list[float] = []
        while True:
            began = time.monotonic()
            self.step(trial, False)
            times.append(time.monotonic() - began)
            trial.step += 1
            enough = len(times) >= 3 and sum(times) >= seconds
            if self.group.total([float(enough)])[0] > 0:
                break
        began = time.monotonic()
        evaluate(self.objective, self.valid, self.group)
        a_validation = time.monotonic() - began
        put_weights(self.model, before)
        self.optimizer.state.clear()
        warm = times[len(times) // 2 :]  # before that, memory and processor come out of their sleep
        return sum(warm) / len(warm), a_validation

    def lr(self, step: int, steps: int) -> float:
        """The learning rate of a step."""
        return self.recipe.lr * rate(self.recipe.schedule, step, steps, self.recipe.warmup)

    def step(self, state: TrainingState, stop: bool) -> tuple[float, int, bool]:
        """One update from one whole batch: its loss, its tokens, and whether any process was asked to stop."""
        recipe, group = self.recipe, self.group
        count = recipe.accumulate * group.world
        mine = range(group.rank * recipe.accumulate, (group.rank + 1) * recipe.accumulate)
        parts = [self.batches.part(state.step, index, count) for index in mine]
        sums = [float(sum(part.counts[t] for part in parts)) for t in range(len(self.objective.terms))]
        *totals, tokens, stops = group.total([*sums, sum(part.tokens for part in parts), float(stop)])
        loss = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for index, part in zip(mine, parts, strict=True):
            torch.manual_seed(seed_for(recipe.seed, state.step, index))
            shares = torch.tensor(
                [c / max(1.0, n) for c, n in zip(part.counts, totals, strict=True)], device=group.device
            )
            with self.alone(index == mine[-1]), self.autocast():
                share = (self.wrapped(**moved(part.inputs, group.device)) * shares).sum()
                self.scaler.scale(share * group.world).backward()  # processes average their gradients: we want the sum
            loss += share.item()
        self.scaler.unscale_(self.optimizer)
        norm = clip(self.parameters, recipe.clip)
        self.update(state, norm)
        return group.total([loss])[0], int(tokens), stops > 0

    def update(self, state: TrainingState, norm: float) -> None:
        """Let the optimizer make its step, unless the gradient is not finite."""
        set_rate(self.optimizer, self.lr(state.step, state.steps))
        finite = math.isfinite(norm)
        if finite or self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
        self.scaler.update()
        state.skipped = 0 if finite else state.skipped + 1
        if state.skipped >= MOST_SKIPPED:
            raise ValueError(
                f"the gradient was not finite in {MOST_SKIPPED} steps in a row, up to step {state.step:,}. "
                f"Try a lower lr (it is {self.recipe.lr:g}) or precision=float32."
            )

    def alone(self, last: bool) -> Any:
        """Only the last part of a step is the time to exchange gradients."""
        return nullcontext() if last or self.group.world == 1 else self.wrapped.no_sync()  # type: ignore[operator]

    def autocast(self) -> Any:
        """Mixed precision, where it is asked for."""
        if self.recipe.precision == "float32":
            return nullcontext()
        return torch.autocast(self.group.device.type, dtype=getattr(torch, self.recipe.precision))

    def validate(self, state: TrainingState, log: MetricsLog | None, progress: Progress) -> None:
        """Measure on held-out data, keep the best, remember the weights for the average."""
        found = evaluate(self.objective, self.valid, self.group)
        better = found["loss"] < state.best
        if better:
            state.best, state.best_step, state.stale = found["loss"], state.step, 0
        else:
            state.stale += 1
        if self.recipe.average > 1:
            state.kept = [*state.kept, state.step][-self.recipe.average :]
        if not self.group.leads:
            return
        if better:
            save_weights(self.folder / "model.safetensors", self.model)
        if self.recipe.average > 1:
            save_weights(kept_path(self.checkpoints, state.step), self.model)
        sample = self.preview()
        self.note(log, step=state.step, valid=found)
        progress.line(f"step {state.step:,}  valid loss {found['loss']:.4f}{' (best)' if better else ''}{sample}")

    def finish(self, state: TrainingState, log: MetricsLog | None) -> None:
        """Average the last weights, keep the average if it is better than the best, and leave the model at that."""
        if not math.isfinite(state.best):
            raise ValueError(f"no validation gave a finite loss. Try a lower lr (it is {self.recipe.lr:g}).")
        if not state.finished and len(state.kept) > 1:
            self.group.wait()
            put_weights(self.model, average([kept_path(self.checkpoints, step) for step in state.kept]))
            found = evaluate(self.objective, self.valid, self.group)
            if found["loss"] < state.best:
                state.best = found["loss"]
                if self.group.leads:
                    save_weights(self.folder / "model.safetensors", self.model)
            self.note(log, step=state.step, averaged=len(state.kept), valid=found)
        state.finished, state.kept = True, []
        self.group.wait()
        put_weights(self.model, load_file(self.folder / "model.safetensors"))
        self.save(state, log)
        if log:
            log.close()
        self.objective.eval()

    def save(self, state: TrainingState, log: MetricsLog | None) -> float:
        """Write the state; then forget weights that no average will need."""
        state.scaler = self.scaler.state_dict()
        if self.group.leads:
            state.log_size = log.settle() if log else 0
            save_state(self.checkpoints, self.model, self.optimizer, state)
            kept = {kept_path(self.checkpoints, step) for step in state.kept}
            for path in self.checkpoints.glob("step-*.safetensors"):
                if path not in kept:
                    path.unlink(missing_ok=True)
        return time.monotonic()

    def note(self, log: MetricsLog | None, **event: Any) -> None:
        if log:
            log.write(**event)


def memory_in_use() -> int:
    """The most memory this process has had so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def average(paths: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The mean of saved weights; what is no floating-point number (a counter) is the last one's."""
    mean = {name: value.double() if value.is_floating_point() else value for name, value in load_file(paths[0]).items()}
    for path in paths[1:]:
        for name, value in load_file(path).items():
            mean[name] = mean[name] + value if value.is_floating_point() else value
    return {n: (v / len(paths)).float() if v.is_floating_point() else v for n, v in mean.items()}


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """A list that fills when Ctrl-C or SIGTERM comes; a second Ctrl-C ends the program at once."""
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs us there looks after signals
        before = {}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

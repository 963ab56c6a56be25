"""The training loop, readable from top to bottom."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from mirada.data.batching import BatchSource, Microbatch
from mirada.training.distributed import ProcessGroup, to_device
from mirada.training.log import MetricsLog, TensorBoardLog, require_tensorboard
from mirada.training.objectives import Objective, evaluate
from mirada.training.optimizer import adam, clip, penalize, rate, set_rate
from mirada.training.plan import Planning, sample_share
from mirada.training.progress import Progress, Silence, as_minutes
from mirada.training.recipe import Recipe
from mirada.training.recovery import require_best, restore_files
from mirada.training.state import (
    AVERAGED,
    LAST,
    TrainingState,
    average,
    check_room,
    kept_path,
    load_state,
    put_weights,
    read_weights,
    save_state,
    save_weights,
    weights,
)
from mirada.words import plural

# Being asked to stop: Ctrl-C and SIGTERM end a run after the step it is in.


class Interrupted(Exception):  # noqa: N818 (nothing went wrong)
    """Somebody asked the run to stop; it is saved and can be resumed."""


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
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


LEAST_SHARE = 0.1  # of a run: a plateau that is shorter is no reason to stop early
MOST_SKIPPED = 20  # steps in a row without a finite gradient that end a run
CHECKPOINTS = "checkpoints"
BOARD = "tensorboard"  # the folder of its files, with log=tensorboard
A_MOMENT = 2.0  # seconds: validations that follow each other more quickly are not saved one by one


@dataclass
class Training:
    """One training: what is trained, on what, how, and where the files go. `run()` trains to the end.

    Args:
        objective: The loss, with the model that has it.
        batches: What is learned from, as a function of the step.
        valid: Batches to validate on, every record once.
        recipe: How long, how fast, how careful.
        folder: Where weights, checkpoints and the metrics log are written.
        group: The processes that train together; by default one.
        resume: Continue from the last checkpoint in the folder, to the same bits.
        print_progress: Is given sentences for a person.
        preview: Is given the means of a validation; the text that it returns is shown with them.
        began: When the run was asked for, a time of `clock`: a budget counts from there.
        settled: Is given the number of threads before the first step.
        clock: Seconds.
    """

    objective: Objective
    batches: BatchSource
    valid: Sequence[Microbatch]
    recipe: Recipe
    folder: Path
    group: ProcessGroup = field(default_factory=ProcessGroup)
    resume: bool = False
    print_progress: Callable[[str], None] = lambda text: None
    preview: Callable[[Mapping[str, float]], str] = lambda means: ""
    began: float | None = None
    settled: Callable[[int], None] = lambda threads: None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.recipe.log == "tensorboard":
            require_tensorboard()
        self.model = self.objective.model
        self.board: TensorBoardLog | None = None
        self.checkpoints, self.best = self.folder / CHECKPOINTS, self.folder / self.recipe.weights_file
        if self.group.leads:
            size = sum(p.numel() * p.element_size() for p in self.model.parameters())
            check_room(self.checkpoints, size * (5 + self.recipe.average))
        self.model.to(self.group.device)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = adam(self.model, self.recipe.lr, self.recipe.decay, self.recipe.layer_decay)
        self.scaler = torch.amp.GradScaler(self.group.device.type, enabled=self.recipe.precision == "float16")
        self.wrapped = self.objective if self.group.world == 1 else self.group.wrap(self.objective)
        self.waited, self.asked_at = 0.0, time.perf_counter()  # for data, since somebody asked how long
        self.better: dict[str, torch.Tensor] = {}  # the best weights, where they are not written yet
        self.planning = Planning(
            self.recipe, self.group, self.objective, self.optimizer, lambda state: self.step(state, False),
            len(self.batches), self.valid, lambda text: self.print_progress(text),
            began=self.clock() if self.began is None else self.began, clock=self.clock,
        )  # fmt: skip

    def run(self) -> TrainingState:
        """Train to the end, or until somebody stops it."""
        state = self.start()
        log = None
        if self.group.leads:  # the log is cut back to what belongs to the state
            size = state.log_size if state.step else None
            log = MetricsLog(self.folder / "metrics.jsonl", size, state.log_checksum, self.print_progress)
            self.board = TensorBoardLog(self.folder / BOARD, state.step) if self.recipe.log == "tensorboard" else None
        progress = (Progress if self.group.leads else Silence)(state.steps, state.step, clock=self.clock)
        log_every = max(1, min(10, state.steps // 100))
        saved, began = self.clock(), self.clock() - state.seconds
        self.objective.train()
        with _asked_to_stop() as asked:
            while not self.over(state):
                loss, stop = self.timed_step(state, bool(asked), progress)
                state.loss_sum, state.loss_count = state.loss_sum + loss, state.loss_count + 1
                state.seconds = self.clock() - began
                if state.step % log_every == 0:
                    mean, now = state.loss_sum / state.loss_count, time.perf_counter()
                    waiting = round(self.waited / max(now - self.asked_at, 1e-9), 4)
                    self.waited, self.asked_at = 0.0, now
                    self.note(log, step=state.step, loss=mean, lr=self.lr(state.step - 1, state.steps),
                              tokens_per_second=round(progress.speed), seconds=round(state.seconds, 2),
                              waiting=waiting)  # fmt: skip
                    progress.show(state.step, mean)
                    state.loss_sum, state.loss_count = 0.0, 0
                changed = self.planning.follow_clock(state, progress)
                ending, wait = state.step >= state.steps, self.recipe.save_seconds
                if ending or state.step % state.every == 0:
                    self.validate(state, log, progress)
                    wait = min(wait, A_MOMENT)
                if ending or changed or self.clock() - saved > wait:
                    saved = self.save(state, log)
                if stop:
                    self.save(state, log)
                    progress.end()
                    if self.board:
                        self.board.close()
                    raise Interrupted(f"stopped after step {state.step:,} of {state.steps:,}")
        progress.end()
        self.finish(state, log)
        return state

    def start(self) -> TrainingState:
        """The state to start from: a saved one, or a new one whose number of steps is planned here."""
        self.settled(self.planning.choose_threads())
        if self.resume and (self.checkpoints / LAST).exists():
            state = load_state(self.checkpoints, self.objective, self.optimizer)
            self.scaler.load_state_dict(state.scaler) if state.scaler else None
            restore_files(state, self.model, self.best, self.checkpoints, self.recipe, self.group, self.print_progress)
            self.planning.resume(state)
            return state
        if self.resume and self.best.exists():
            self.print_progress(
                f"{self.checkpoints / LAST} is missing: the run starts over, and its weights are replaced"
            )
        state = self.planning.begin()
        self.save(state, None)
        return state

    def over(self, state: TrainingState) -> bool:
        """Whether the run has ended; `state.ended` says why."""
        if state.finished:
            return True
        if state.step >= state.steps:
            minutes = f" in {as_minutes(self.recipe.budget)}" if self.recipe.budget else ""
            state.ended = f"made {plural(state.steps, 'step')}{minutes}"
            return True
        recipe, epoch = self.recipe, len(self.batches)
        if recipe.patience <= 0 or state.step == 0 or state.step % state.every:
            return False
        now, later = (rate(recipe.schedule, step, state.steps, recipe.warmup) for step in (state.step, state.step + 1))
        fell = later < now or now == later == 1.0  # a learning rate that never falls has been at its height
        best = max(state.best_step, state.planned)  # a larger budget is not given for nothing
        if fell and state.step - best >= max(recipe.patience * epoch, LEAST_SHARE * state.steps):
            since = (state.step - state.best_step) / epoch
            state.ended = (
                f"stopped early at step {state.step:,} of {state.steps:,}: no better validation for {since:.1f} epochs "
                f"(patience={recipe.patience:g})"
            )
            return True
        return False

    # stepping

    def lr(self, step: int, steps: int) -> float:
        """The learning rate of a step."""
        return self.recipe.lr * rate(self.recipe.schedule, step, steps, self.recipe.warmup)

    def timed_step(self, state: TrainingState, stop: bool, progress: Progress) -> tuple[float, bool]:
        """A step whose time and tokens the progress counts."""
        began = self.clock()
        loss, tokens, stopped = self.step(state, stop)
        progress.count(self.clock() - began, tokens)
        return loss, stopped

    def step(self, state: TrainingState, stop: bool) -> tuple[float, int, bool]:
        """One update from one whole batch: its loss, its tokens, and whether any process was asked to stop.

        Dropout draws from a seed that is a function of the step and the part, the same on every machine.
        """
        recipe, group = self.recipe, self.group
        count = recipe.accumulate * group.world
        mine = range(group.rank * recipe.accumulate, (group.rank + 1) * recipe.accumulate)
        began = time.perf_counter()
        parts = [self.batches.part(state.step, index, count) for index in mine]
        self.waited += time.perf_counter() - began
        sums = [float(sum(part.counts[t] for part in parts)) for t in range(len(self.objective.terms))]
        *totals, tokens, stops = group.total([*sums, sum(part.tokens for part in parts), float(stop)])
        loss = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for index, part in zip(mine, parts, strict=True):
            numbers = f"{recipe.seed}/{state.step}/{index}".encode()
            torch.manual_seed(int.from_bytes(blake2b(numbers, digest_size=8).digest(), "big") >> 1)
            last = index == mine[-1] or group.world == 1  # only then gradients are exchanged
            exchange: Any = nullcontext() if last else self.wrapped.no_sync()  # type: ignore[operator]
            mixed = recipe.precision != "float32"
            precision: Any = (
                torch.autocast(group.device.type, getattr(torch, recipe.precision)) if mixed else nullcontext()
            )
            shares = [count / max(1.0, total) for count, total in zip(part.counts, totals, strict=True)]
            with exchange, precision:
                means = self.wrapped(**to_device(part.inputs, group.device))
                share = (means * torch.tensor(shares, device=group.device)).sum()
                self.scaler.scale(share * group.world).backward()  # processes average their gradients: we want the sum
            loss += share.item()
        self.scaler.unscale_(self.optimizer)
        penalize(self.parameters, recipe.l2)
        norm = clip(self.parameters, recipe.clip)
        self.update(state, norm)
        self.objective.end_step(group)
        state.step += 1
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

    # validating and ending

    def validate(self, state: TrainingState, log: MetricsLog | None, progress: Progress) -> None:
        """Measure on held-out data, keep the best, remember the weights for the average."""
        began = self.clock()
        means = evaluate(self.objective, sample_share(self.valid, state.share), self.group)
        rank = self.objective.rank(means)
        better = rank < (state.judged, state.best)
        if better:
            (state.judged, state.best), state.best_step = rank, state.step
        if self.recipe.average > 1:
            state.kept = [*state.kept, state.step][-self.recipe.average :]
        if not self.group.leads:
            return
        if better:
            self.better = {name: value.clone() for name, value in weights(self.model).items()}
        if self.recipe.average > 1:
            save_weights(kept_path(self.checkpoints, state.step), weights(self.model), state.step)
        logged = progress.should_log(state.step)
        shown = self.preview(means) if logged else ""
        state.validation = (self.clock() - began) / min(1.0, state.share)
        self.note(log, step=state.step, valid=means)
        if logged:
            progress.line(f"step {state.step:,}  valid loss {means['loss']:.4f}{' (best)' if better else ''}{shown}")

    def finish(self, state: TrainingState, log: MetricsLog | None) -> None:
        """Average the last weights, keep the average if it is better than the best, and leave the model at that."""
        if not math.isfinite(state.best):
            raise ValueError(f"no validation gave a finite loss. Try a lower lr (it is {self.recipe.lr:g}).")
        self.write_best(state)
        if not state.finished:
            kept = f"the weights of step {state.best_step:,}"
            if len(state.kept) > 1:
                self.group.wait()
                put_weights(self.model, average([kept_path(self.checkpoints, step) for step in state.kept]))
                means = evaluate(self.objective, sample_share(self.valid, state.share), self.group)
                rank = self.objective.rank(means)
                if rank < (state.judged, state.best):
                    (state.judged, state.best), kept = (
                        rank,
                        f"the average of the last {len(state.kept)} validated weights",
                    )
                    if self.group.leads:
                        state.model_checksum = save_weights(self.best, weights(self.model), AVERAGED)
                self.note(log, step=state.step, averaged=len(state.kept), valid=means)
            state.ended = f"{state.ended}; kept {kept} ({self.objective.quality((state.judged, state.best))})"
            self.note(log, step=state.step, ended=state.ended)
        state.finished, state.kept = True, []
        if self.group.leads:
            require_best(self.best, state)
        self.group.wait()
        put_weights(self.model, read_weights(self.best), self.best)
        self.save(state, log)
        for one in (log, self.board):
            if one:
                one.close()
        self.objective.eval()
        self.print_progress(state.ended)

    def save(self, state: TrainingState, log: MetricsLog | None) -> float:
        """Write the state; then forget weights that no average will need."""
        state.scaler, state.spent, state.budget = self.scaler.state_dict(), self.planning.spent(), self.recipe.budget
        state.processes = self.group.world
        if self.group.leads:
            self.write_best(state)  # before the state that says which it is
            state.log_size, state.log_checksum = (log.settle(), log.checksum()) if log else (0, "")
            save_state(self.checkpoints, self.objective, self.optimizer, state)
            kept = {kept_path(self.checkpoints, step) for step in state.kept}
            for path in self.checkpoints.glob("step-*.safetensors"):
                if path not in kept:
                    path.unlink(missing_ok=True)
        return self.clock()

    def write_best(self, state: TrainingState) -> None:
        """Write the best weights, where they are newer than their file."""
        if self.better:
            state.model_checksum = save_weights(self.best, self.better, state.best_step)
            self.better = {}

    def note(self, log: MetricsLog | None, **event: Any) -> None:
        """Append an event to the metrics log, where this process has one."""
        if log:
            log.write(**event)
        if self.board and "averaged" not in event:  # a second validation of one step
            self.board.write(**event)

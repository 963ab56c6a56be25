"""All that a run needs to continue: in memory while it trains, in one file when it is saved."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from mirada.errors import require
from mirada.files import checksum_in, damage, with_checksum, write_whole
from mirada.training.objectives import Objective
from mirada.training.optimizer import named_state, restore_state

# Files that are whole or not there: tensors and facts in one safetensors file, written under another name and renamed.


FACTS = "facts"
OTHER_FILES = 1 << 20  # bytes of settings, log and report, about


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors and facts (anything JSON can hold) in one file."""
    write_whole(path, packed(tensors, facts))


def packed(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> bytes:
    """What such a file holds."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return with_checksum(save(plain, metadata={FACTS: json.dumps(dict(facts))}))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_checkpoint` wrote."""
    try:
        wrong = damage(path)
        require(not wrong, wrong)
        with safe_open(str(path), framework="pt") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
            require(isinstance(facts, dict), "its facts are no JSON object")
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118 (it is no mapping)
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{path} is not a whole checkpoint: {reason}. Delete it to start over, or restore a copy."
        ) from None


def check_room(folder: Path, needed: int) -> None:
    """Make the folder and require that it can be written and has room, before any work is done.

    A disk that is full only later still loses nothing: files are replaced whole.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as probe:
            probe.write(b"mirada")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be written: {error.strerror or error}. Choose another folder with --out."
        ) from None
    needed += OTHER_FILES
    if free < needed:
        raise ValueError(
            f"{folder} has {_in_bytes(free)} left and the run needs about {_in_bytes(needed)}. "
            "Make room, or choose another folder with --out."
        )


def _in_bytes(count: float) -> str:
    """A size in words.

    >>> _in_bytes(0), _in_bytes(25_600), _in_bytes(3_141_592)
    ('0 bytes', '25.6 kB', '3.1 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} bytes"


LAST = "last.safetensors"
RENAMED = {"journal": "log_size"}  # what checkpoints called it before
GONE = ("stale",)  # what they have no more
OF_BASE = "of_base"  # an attribute of parameters that rest: whether another folder keeps them
STEP = "step"  # in the metadata of weights
AVERAGED = -1  # the step of weights that are of none, or of one that is not known


@dataclass
class TrainingState:
    """Where a run is. Random numbers and batches are functions of the step, so they need no place here."""

    step: int = 0
    steps: int = 0
    best: float = float("inf")  # the loss of the best validation
    judged: float = float("inf")  # what it was chosen by: an error, or the loss itself
    best_step: int = 0
    every: int = 0  # steps between two validations
    share: float = 1.0  # of the validation's batches that are read
    seconds: float = 0.0  # of training
    spent: float = 0.0  # of the budget, over all starts, from the start of the command
    budget: float = 0.0  # minutes that the plan was made for
    planned: int = 0  # the step at which a larger budget was planned
    looked: float = 0.0  # how much of the budget was spent when the plan was looked at last
    pace: float = 0.0  # seconds of a step, and of a validation, when they were measured
    validation: float = 0.0
    log_size: int = 0  # bytes of the metrics log that belong to this state
    log_checksum: str = ""  # of these bytes
    loss_sum: float = 0.0  # since the last line of the metrics log
    loss_count: int = 0
    skipped: int = 0  # steps in a row whose gradient was not finite
    kept: list[int] = field(default_factory=list)  # steps whose weights are kept for the average
    finished: bool = False
    ended: str = ""  # why, and which weights were kept
    model_checksum: str = ""  # of the best weights, in the model's own file
    scaler: dict[str, Any] = field(default_factory=dict)
    processes: int = 0  # that made the last step together; 0: not known


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each once, also where two names share one tensor; not those of a base under adapters
    (`tuning.attach`), which its own folder keeps.
    """
    tensors, seen = {}, set()
    kept = {name for name, p in model.named_parameters(remove_duplicate=False) if getattr(p, OF_BASE, False)}
    for name, value in model.state_dict().items():
        if name in kept:
            continue
        key = (value.data_ptr(), value.shape)
        if value.numel() == 0 or key not in seen:
            seen.add(key)
            tensors[name] = value
    return tensors


@torch.no_grad()
def put_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: object = "the checkpoint") -> None:
    """Copy the numbers of `weights` back; `where` is the file, for errors."""
    for name, value in weights(model).items():
        if name not in tensors or tensors[name].shape != value.shape:
            raise ValueError(f"{where} does not fit the model: {name} is missing or has another shape")
        value.copy_(tensors[name])


def save_state(folder: Path, objective: Objective, optimizer: torch.optim.Optimizer, state: TrainingState) -> None:
    """Everything, in one file that is whole or not there: the weights of `objective.model`, and what the objective itself
    remembers in buffers.
    """
    tensors = weights(objective) | named_state(objective.model, optimizer)
    write_checkpoint(folder / LAST, tensors, asdict(state))


def load_state(folder: Path, objective: Objective, optimizer: torch.optim.Optimizer) -> TrainingState:
    """What `save_state` saved."""
    path = folder / LAST
    tensors, facts = read_checkpoint(path)
    state = state_of(facts, path)
    put_weights(objective, tensors, path)
    restore_state(objective.model, optimizer, tensors, path)
    return state


def state_of(facts: Mapping[str, Any], where: Path) -> TrainingState:
    """The state that the facts of a checkpoint describe, also of one that was written before; `where` is its file."""
    known = {RENAMED.get(name, name): value for name, value in facts.items() if name not in GONE}
    known.setdefault("judged", known.get("best", float("inf")))  # once, the loss alone decided
    _check_facts(known, where)
    return TrainingState(**known)


def _check_facts(facts: Mapping[str, Any], where: Path) -> None:
    """Require the facts of a state that a run can be in."""

    def need(holds: bool, what: str) -> None:
        require(
            holds, f"{where} is not a checkpoint of this run: {what}. Restore a copy, or start over with another --out."
        )

    kinds = {item.name: getattr(item.type, "__name__", str(item.type)) for item in fields(TrainingState)}
    for name, value in facts.items():
        need(name in kinds, f"it has a {name!r}, which is not known here: a newer version may have written it")
        need(_is_kind(value, kinds[name]), f"its {name} is {str(value)[:40]}, not of the kind {kinds[name]}")
    absent = [name for name in ("step", "steps", "best", "best_step") if name not in facts]
    need(not absent, f"it has no {', '.join(absent)}")
    step, steps, best_step = (facts[name] for name in ("step", "steps", "best_step"))
    need(steps >= 1, f"it has {steps} steps")
    need(best_step <= step, f"its best step is {best_step:,}, and it is at step {step:,}")
    need(all(kept <= step for kept in facts.get("kept", [])), f"it keeps weights of steps after {step:,}")
    need(0 < facts.get("share", 1.0) <= 1, "the share of a validation must lie in (0, 1]")
    some = facts.get("finished", False) or bool(facts.get("kept")) or facts["best"] < float("inf")
    need(step > 0 or not some, "it has weights of a run that has made no step")
    need(_is_scaler(facts.get("scaler", {})), "its scaler is not one of a run with precision=float16")


def _is_kind(value: Any, kind: str) -> bool:
    """Whether a fact is of the kind that a field has; whole numbers count from 0 and fit into 63 bits."""
    if kind == "int":
        return type(value) is int and 0 <= value < 2**63
    if kind == "float":
        return type(value) is float or (type(value) is int and abs(value) < 2**63)
    if kind == "list":
        return isinstance(value, list) and all(_is_kind(item, "int") for item in value)
    return isinstance(value, {"bool": bool, "str": str}.get(kind, dict))


def _is_scaler(facts: Mapping[str, Any]) -> bool:
    """Whether facts are those of a gradient scaler: of none at all, or all of them, numbers that it can continue with."""
    counts, factors = ("growth_interval", "_growth_tracker"), ("scale", "growth_factor", "backoff_factor")
    if not facts:
        return True
    return (
        facts.keys() == {*counts, *factors}
        and all(_is_kind(facts[name], "int") for name in counts)
        and all(_is_kind(facts[name], "float") and 0 < facts[name] < float("inf") for name in factors)
    )


def save_weights(path: Path, tensors: Mapping[str, Tensor], step: int = AVERAGED) -> str:
    """The weights of a model alone, as `Model.load` reads them, and the step that they are of. Their checksum comes back."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    content = with_checksum(save(plain, metadata={"format": "pt", STEP: str(step)}))
    write_whole(path, content)
    return checksum_in(content)


def read_weights(path: Path) -> dict[str, Tensor]:
    """What `save_weights` wrote."""
    try:
        wrong = damage(path)
        require(not wrong, wrong)
        return load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} does not hold whole weights: {reason}. Restore a copy, or start over.") from None


def step_of(path: Path) -> int | None:
    """The step that saved weights are of; None where they are not whole, AVERAGED where it is not known."""
    try:
        read_weights(path)
        with safe_open(str(path), framework="pt") as file:
            step = (file.metadata() or {}).get(STEP, "")
    except (ValueError, OSError, SafetensorError):
        return None
    return int(step) if step.isdecimal() else AVERAGED


def kept_path(folder: Path, step: int) -> Path:
    """Where the weights of a validated step are kept for the average."""
    return folder / f"step-{step:08}.safetensors"


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of saved weights; what is no floating-point number (a counter) is the last one's."""
    mean = {
        name: value.double() if value.is_floating_point() else value for name, value in read_weights(paths[0]).items()
    }
    for path in paths[1:]:
        for name, value in read_weights(path).items():
            mean[name] = mean[name] + value if value.is_floating_point() else value
    return {n: (v / len(paths)).float() if v.is_floating_point() else v for n, v in mean.items()}

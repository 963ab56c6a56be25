"""One process or many: who I am, what all of us counted, and who writes.

The same command runs under `torchrun --nproc-per-node N`, which sets the variables read here.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")
SHOWN = 3  # names of values that an error about processes lists
LOST = (
    "closed by peer",
    "reset by peer",
    "Broken pipe",
    "gloo/transport",
    "NCCL",
    "Socket Timeout",
    "Timed out waiting",
)


class ProcessLostError(Exception):
    """One of the processes has ended, and the others cannot continue without it."""


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train one model together.

    >>> ProcessGroup().total([2.0, 3.0])
    [2.0, 3.0]
    """

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def total(self, numbers: Sequence[float]) -> list[float]:
        """The sums over all processes, in double precision."""
        if self.world == 1:
            return list(numbers)
        kind = torch.float32 if self.device.type == "mps" else torch.float64
        together = torch.tensor(numbers, dtype=kind, device=self.device)
        dist.all_reduce(together)
        return together.tolist()

    def agree(self, number: float) -> float:
        """The leader's number, for everybody."""
        return self.total([number if self.leads else 0.0])[0]

    def gather(self, text: str) -> list[str]:
        """The texts of all processes, in their order."""
        if self.world == 1:
            return [text]
        content = torch.frombuffer(bytearray(text.encode(errors="replace") + b" "), dtype=torch.uint8).to(self.device)
        own = torch.tensor([len(content)], device=self.device)
        sizes = [torch.zeros_like(own) for _ in range(self.world)]
        dist.all_gather(sizes, own)
        padded = content.new_zeros(max(int(size) for size in sizes))
        padded[: len(content)] = content
        parts = [torch.zeros_like(padded) for _ in range(self.world)]
        dist.all_gather(parts, padded)
        pairs = zip(parts, sizes, strict=True)
        return [part[: int(size) - 1].cpu().numpy().tobytes().decode() for part, size in pairs]

    def together(self, work: Callable[[], T]) -> T:
        """What `work` gives here. Where it fails in one process it fails in all, so that none waits for one that has ended.

        >>> ProcessGroup().together(lambda: 3)
        3
        """
        if self.world == 1:
            return work()
        result: T | None = None
        error: Exception | None = None
        try:
            result = work()
        except (ValueError, OSError) as failed:
            error = failed
        texts = self.gather("" if error is None else str(error) or "failed")
        if error is not None:
            raise error
        bad = next((rank for rank, text in enumerate(texts) if text), None)
        if bad is not None:
            raise ValueError(f"process {bad} cannot take part: {texts[bad]}")
        return result  # type: ignore[return-value]

    def require_same(self, values: Mapping[str, Any], way_out: str) -> None:
        """Raise an error in all processes that names what differs between two of them."""
        texts = self.gather(json.dumps(dict(values), sort_keys=True, default=str))
        first = json.loads(texts[0])
        for rank, text in enumerate(texts):
            here = json.loads(text)
            names = sorted(name for name in {*first, *here} if first.get(name) != here.get(name))
            if names:
                listed = "; ".join(
                    f"{name} is {_brief(here.get(name))}, not {_brief(first.get(name))}" for name in names[:SHOWN]
                )
                more = f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                raise ValueError(f"process {rank} differs from process 0: {listed}{more}. {way_out}")

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module whose gradients are averaged over all processes."""
        return DistributedDataParallel(module, device_ids=[self.device] if self.device.type == "cuda" else None)

    def wait(self) -> None:
        """Go on when everybody has come here."""
        if self.world > 1:
            dist.barrier()


def _brief(value: Any) -> str:
    """A value as an error shows it.

    >>> _brief(0.001), _brief("a"), _brief(True), _brief(None)
    ('0.001', "'a'", 'yes', 'not set')
    """
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "yes", False: "no"}[value]
    return repr(value)[:300]


@contextmanager
def process_group(device: str = "auto") -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started; without torchrun, be the only one."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    chosen = choose_device(device, int(os.environ.get("LOCAL_RANK", 0)))
    if world == 1:
        yield ProcessGroup(device=chosen)
        return
    try:
        store, _, _ = next(dist.rendezvous("env://", rank, world))
        # torchrun keeps its store over restarts: without a name of its own, a process may find the address of a dead one
        named = dist.PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=named, rank=rank, world_size=world)
        yield ProcessGroup(rank, world, chosen)
    except RuntimeError as error:
        if any(sign in str(error) for sign in LOST):
            raise ProcessLostError("another process of this run has ended") from error
        raise
    finally:
        with suppress(RuntimeError, AssertionError, ValueError):  # of a group that has lost one, or was never whole
            dist.destroy_process_group()


def choose_device(name: str, local: int = 0) -> torch.device:
    """The device of that name; "auto" takes a CUDA device where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", local)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise ValueError(f"device {name!r} cannot be used here: {reason}. Use --device cpu.") from None
    return device


def to_device(inputs: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The inputs of a model on a device: tensors, and whatever else has a `to` (the edges of a graph)."""
    if device.type == "cpu":
        return inputs
    moved = dict(inputs)
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor):
            moved[name] = value.to(device, non_blocking=True)
        elif hasattr(value, "to"):
            moved[name] = value.to(device)
    return moved

"""One process or many: who I am, what all of us counted, and who writes.

The same command runs under `torchrun --nproc-per-node N`, which sets the variables read here.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

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

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module whose gradients are averaged over all processes."""
        return DistributedDataParallel(module, device_ids=[self.device] if self.device.type == "cuda" else None)

    def wait(self) -> None:
        """Go on when everybody has come here."""
        if self.world > 1:
            dist.barrier()


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

"""The functions of `decode.c`, `recurrent.c` and `checksum.c`: decoding steps and passes over short sources on a CPU."""

import ctypes
import hashlib
from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.native.library import addresses, check, library, loaded, threads_for
from mirada.native.structures import ACTIVATIONS, DecodeStep, RecurrentStep

CHECKSUM_WORK = 2  # multiplications per byte


MISFITS = {
    -2: "lengths must lie in 0..length of the sources, and there must be room for them",
    -3: "there must be room in the caches for one more place, and it must be written there",
    -4: "writers and homes must be rows of the caches, and rows with homes have places up to the highest of all",
    -5: "entries must be rows of the sources",
    -8: "heads must share groups evenly, pairs must lie in dim, a bias must reach all places, and a pass takes none of them",
    -9: "an input of a matrix of bytes has at most 60,000 numbers, and every thread needs room for it",
    -7: "the heads whose weights are kept must have a slot each, with room for all places",
    -6: f"the activation must be the number of one of {', '.join(ACTIVATIONS)}",
}


def step(job: DecodeStep) -> bool:
    """Take a step, or a pass over whole sources; False if a token is not in the vocabulary.

    C checks every index and length before it reads; with `source_count` 0 the entries have no upper bound.
    """
    answer = loaded().decode_step(ctypes.byref(job))
    if answer in MISFITS:
        raise ValueError(f"a decoding step does not fit: {MISFITS[answer]}")
    return answer == 0


def recurrent_step(job: RecurrentStep) -> bool:
    """Take a step of a recurrent decoder; False if a token is not in the vocabulary."""
    answer = loaded().recurrent_step(ctypes.byref(job))
    if answer in MISFITS:
        raise ValueError(f"a decoding step does not fit: {MISFITS[answer]}")
    return answer == 0


def recurrent_phases(depth: int) -> int:
    """The same as `phases` for a recurrent decoder of that many layers."""
    return loaded().recurrent_phases(depth)


def forget() -> None:
    """Let several threads share the next step of this thread, even if sharing did not pay before."""
    loaded().decode_forget()


def product(
    x: Float[Tensor, "rows inner"],
    matrix: Float[Tensor, " numbers"],
    columns: int,
    out: Float[Tensor, "rows columns"] | None = None,
) -> Float[Tensor, "rows columns"]:
    """x times a matrix of that many columns, which is stored in panels followed by its bias.

    `out`, if given, is contiguous room for the result.
    """
    rows, inner = x.shape
    padded = -(-columns // panel()) * panel()
    x, out = x.contiguous(), x.new_empty(rows, columns) if out is None else out
    check("x", x, x.shape, torch.float32)
    check(f"a matrix of {columns} columns in panels", matrix, (padded * (inner + 1),), torch.float32)
    check("out", out.view(-1), (rows * columns,), torch.float32)
    threads = threads_for(rows * len(matrix))
    loaded().decode_product(rows, inner, columns, threads, matrix.data_ptr(), x.data_ptr(), out.data_ptr())
    return out


@cache
def panel() -> int:
    """The number of columns in a panel, which depends on the processor."""
    return loaded().decode_panel()


def phases(depth: int) -> int:
    """The most phases of a step of that many layers; each takes 8 int64 of `DecodeStep.phases`."""
    return loaded().decode_phases(depth)


def byte_room(inner: int) -> int:
    """The bytes of `DecodeStep.bytes` that each thread needs, for inputs of up to that many numbers."""
    return loaded().decode_byte_room(inner)


def enlarge(room: Tensor) -> None:
    """Ask the system for large pages for the memory of a tensor."""
    loaded().enlarge(room.data_ptr(), room.numel() * room.element_size())


def checksum(tensors: Sequence[Tensor]) -> int:
    """A checksum of 64 bits over every byte of all tensors, to detect changes.

    A change of a single number always changes it; any other change does with probability 1 - 2^-64. It can be compared within
    one process only.

    >>> x = torch.zeros(3)
    >>> checksum([x]) == checksum([x.clone()])
    True
    >>> checksum([x]) == checksum([x + 1])
    False
    """
    flat = [x if x.is_cpu and x.is_contiguous() else x.detach().cpu().contiguous() for x in tensors]
    sizes = [x.numel() * x.element_size() for x in flat]
    if library() is None:
        digest = hashlib.blake2b(repr(sizes).encode(), digest_size=8)
        for x in flat:
            digest.update(x.detach().view(-1).view(torch.uint8).numpy().data)
        return int.from_bytes(digest.digest(), "big")
    threads = threads_for(CHECKSUM_WORK * sum(sizes))
    return loaded().checksum(addresses(flat), (ctypes.c_int64 * len(sizes))(*sizes), len(sizes), threads)

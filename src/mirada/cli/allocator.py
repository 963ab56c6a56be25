"""Memory for a long training: pages are asked for once and kept."""

import ctypes
import os

TRIM, PAD, MAPPED = -1, -2, -3  # the names of glibc's mallopt: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD


def keep_memory() -> None:
    """Let freed memory stay with the process and come in large pages. To be called before torch makes its first tensor.

    Every step of a training asks for the same memory. Without this, much of it is given back and asked for again: tens
    of thousands of page faults a step, a tenth of the time (docs/log.md). Elsewhere than with glibc nothing happens.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's name: tensors of 2 MB and more in large pages
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(MAPPED, 2**25)  # the most it allows: below that, memory comes from the heap
        mallopt(TRIM, 2**30)
        mallopt(PAD, 2**26)

"""What `native` gives the steps, under the names that they know it by."""

import ctypes
from types import SimpleNamespace

from mirada.native import decode
from mirada.native import library as native
from mirada.native.decode import panel
from mirada.native.library import address, addresses, library, serves, threads_for

__all__ = ["address", "addresses", "library", "loaded", "panel", "serves", "threads_for"]


def loaded() -> SimpleNamespace:
    """The library's functions."""
    found = native.loaded()

    def sample(places: ctypes.Array, counts: ctypes.Array, count: int) -> int:
        return found.checksum(places, (ctypes.c_int64 * count)(*(4 * n for n in counts)), count, 1)

    return SimpleNamespace(
        step=found.decode_step, phases=decode.phases, product=found.decode_product, enlarge=found.enlarge, sample=sample
    )

"""The kinds of processors that the library is built for before it is installed, and which of them this processor runs."""

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mirada.errors import require, unknown

NATIVE = "native"  # for this processor alone: what is compiled on first use
SWITCH = "MIRADA_NATIVE"  # 0: no library; native, or the name of a variant: that one

_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_WIDE = "-mprefer-vector-width=512"  # the compiler's default for x86-64-v4 is half of it


@dataclass(frozen=True)
class Variant:
    """A kind of processor: its name, the machine it belongs to, the compiler's flags for it, and what it needs.

    The features are those that Linux lists in /proc/cpuinfo, where it leaves out what the system does not let programs use.
    """

    name: str
    machine: str
    flags: tuple[str, ...]
    needs: frozenset[str]


VARIANTS = (  # of one machine the best one first
    Variant("x86-64-v4-vnni", "x86_64", ("-march=x86-64-v4", "-mavx512vnni", _WIDE), _V4 | {"avx512_vnni"}),
    Variant("x86-64-v3-vnni", "x86_64", ("-march=x86-64-v3", "-mavxvnni"), _V3 | {"avx_vnni"}),
    Variant("x86-64-v3", "x86_64", ("-march=x86-64-v3",), _V3),
    Variant("x86-64-v2", "x86_64", ("-march=x86-64-v2",), _V2),
    Variant("aarch64", "aarch64", ("-march=armv8-a",), frozenset({"asimd"})),
)


def of_machine(machine: str | None = None) -> list[Variant]:
    """The variants that are built for a machine (None: this one), the best one first.

    >>> [variant.name for variant in of_machine("aarch64")]
    ['aarch64']
    """
    machine = machine or platform.machine()
    return [variant for variant in VARIANTS if variant.machine == machine]


def runnable() -> list[Variant]:
    """The variants that this processor runs, the best one first."""
    there = frozenset(features().replace(":", " ").split())
    return [variant for variant in of_machine() if variant.needs <= there]


def chosen() -> str | None:
    """What `MIRADA_NATIVE` asks for: "0", "native", the name of a variant that runs here, or None for the best one."""
    name = os.environ.get(SWITCH, "")
    if name in ("", "1"):
        return None
    if name in ("0", NATIVE):
        return name
    variant = next((variant for variant in VARIANTS if variant.name == name), None)
    if variant is None:
        raise unknown(SWITCH, name, ["0", "1", NATIVE, *(variant.name for variant in VARIANTS)])
    names = [each.name for each in runnable()]
    require(variant in runnable(), f"{SWITCH}={name}: this processor runs {', '.join(names) or 'no variant'} only")
    return name


@cache
def features() -> str:
    """The features of the processor: code compiled for one processor may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine() + platform.processor()

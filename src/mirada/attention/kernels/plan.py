"""Which kernel runs a request: the first of `KERNELS` that does not refuse. A new kernel plugs in here, and only here."""

from dataclasses import dataclass

from mirada.attention.kernels.banded import banded
from mirada.attention.kernels.convolution import convolution
from mirada.attention.kernels.edges import edges
from mirada.attention.kernels.fused import fused
from mirada.attention.kernels.reference import reference
from mirada.attention.kernels.request import Kernel, Request
from mirada.attention.kernels.strided import strided
from mirada.errors import unknown

KERNELS: tuple[Kernel, ...] = (
    convolution,
    edges,
    strided,
    banded,
    fused,
    reference,
)  # fastest first; the last takes everything


@dataclass(frozen=True)
class Plan:
    """The kernel chosen and, for each faster one, why it refused.

    >>> print(Plan("reference", {"fused": "Additive is not a product q'.k'"}))
    reference
      not fused: Additive is not a product q'.k'
    """

    kernel: str
    refused: dict[str, str]

    def __str__(self) -> str:
        return "\n".join([self.kernel, *(f"  not {name}: {reason}" for name, reason in self.refused.items())])


def plan(request: Request, force: str | None = None) -> Plan:
    """Choose the fastest kernel that does not refuse, or the forced one."""
    if force is not None:
        reason = named(force).refuses(request)
        if reason:
            raise ValueError(
                f"kernel {force!r} refuses this request: {reason}. Leave kernel=None to let the plan choose."
            )
        return Plan(force, {})
    refused: dict[str, str] = {}
    for kernel in KERNELS:
        reason = kernel.refuses(request)
        if reason is None:
            return Plan(kernel.name, refused)
        refused[kernel.name] = reason
    raise AssertionError("the reference kernel takes every request")


def named(name: str) -> Kernel:
    """The kernel of that name."""
    for kernel in KERNELS:
        if kernel.name == name:
            return kernel
    raise unknown("kernel", name, [kernel.name for kernel in KERNELS])

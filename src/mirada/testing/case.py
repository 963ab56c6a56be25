"""A part with everything it is tried with, and how two results are compared."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from mirada.attention.equation import Attention, attend
from mirada.attention.heads import Heads, MultiHead
from mirada.attention.kernels.plan import KERNELS
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Causal, Complete, Dense, Neighborhood, Padding, Window
from mirada.attention.normalizers import Normalizer, Softmax
from mirada.attention.places import place
from mirada.attention.positions import InputPosition, Position
from mirada.attention.scores import Dot, Score

KINDS: dict[str, type] = {
    "score": Score, "where": Neighborhood, "input position": InputPosition, "position": Position,
    "normalizer": Normalizer, "heads": Heads,
}  # fmt: skip
NEAR = {torch.float64: (1e-7, 1e-9), torch.float32: (3e-4, 3e-5)}
REFUSED = (ValueError, NotImplementedError)  # what a refusal is


class BrokenError(Exception):
    """A law does not hold: how, and the case that shows it."""


class SilentError(Exception):
    """A law says nothing about a part: why."""


@dataclass(frozen=True)
class Case:
    """A part with everything it is tried with."""

    part: Any
    kind: str
    batch: int = 2
    heads: int = 3
    length: int = 11
    dim: int = 16
    dtype: torch.dtype = torch.float64

    def __str__(self) -> str:
        return f"batch {self.batch}, heads {self.heads}, queries {self.length}, keys {self.length}, dim {self.dim}"

    def tensors(self, seed: int = 0) -> list[Tensor]:
        """What is differentiated: q, k and v, or the input of the heads."""
        generator = torch.Generator().manual_seed(seed)
        shapes: Sequence[tuple[int, ...]] = [(self.batch, self.heads, self.length, self.dim)] * 3
        if self.kind == "heads":
            shapes = [(self.batch, self.length, self.part.width)]
        numbers = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
        return [x.to(self.dtype).requires_grad_() for x in numbers]

    def own(self) -> Any:
        """A copy of the part with parameters a little off their start, in the dtype of the case."""
        if not isinstance(self.part, nn.Module):
            return self.part
        twin = copy.deepcopy(self.part).to(torch.float64).eval()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
        return twin.to(self.dtype)

    def wheres(self) -> list[Neighborhood]:
        """Neighborhoods to try the part in."""
        padding = Padding(torch.tensor([self.length] + [self.length // 2] * (self.batch - 1)))
        if self.kind == "where":
            return [self.part, self.part & padding]
        holes = torch.rand(self.length, self.length, generator=torch.Generator().manual_seed(2)) < 0.5
        return [Complete(), Causal(), Causal() & padding, Window(2, 1), Dense(holes)]

    def run(self, own: Any, tensors: list[Tensor], where: Neighborhood, kernel: str | None = "reference") -> Tensor:
        """The output of one call."""
        if self.kind == "heads":
            base = Causal() if own.fits(Dot(), Complete(), Position(), Softmax()) else Complete()
            return Attention(own, where=base, kernel=kernel)(tensors[0], where=where)
        parts = {} if self.kind == "where" else {self.kind: own}
        return attend(*tensors, where=where, kernel=kernel, **parts)  # type: ignore[arg-type]

    def request(self, own: Any, tensors: list[Tensor], where: Neighborhood) -> Request:
        """The same as a kernel is asked for it."""
        parts: dict[str, Any] = {"score": Dot(), "position": Position(), "normalizer": Softmax()}
        q, k, v = own.project(*tensors * 3) if self.kind == "heads" else tensors
        parts |= {self.kind: own} if self.kind in parts else {}
        places = place(self.batch, self.length, self.length, q.device)
        rotate = parts["position"].rotate
        q, k = rotate(q, places.query_positions), rotate(k, places.memory_positions)
        return Request(q, k, v, where=where, places=places, **parts)

    def layer(self, own: Any) -> Attention:
        """A causal layer with the part."""
        torch.manual_seed(3)
        heads = own if self.kind == "heads" else MultiHead(self.heads * self.dim, self.heads).to(self.dtype)
        where = own if self.kind == "where" else Causal()
        where = where if where.causal else where & Causal()
        parts = {self.kind: own} if self.kind in ("score", "position", "normalizer") else {}
        return Attention(heads, where=where, **parts).eval()

    def same(self, what: str, got: Tensor, right: Tensor, near: tuple[float, float] | None = None) -> None:
        """Raise a LawError unless two tensors agree."""
        if got.shape != right.shape:
            self.broken(f"{what}: shape {tuple(got.shape)} instead of {tuple(right.shape)}")
        rtol, atol = near or NEAR[self.dtype]
        got, right = got.detach().double(), right.detach().double()
        if not torch.allclose(
            got, right, rtol=rtol, atol=atol * max(1.0, float(right.abs().max()) if right.numel() else 1)
        ):
            off = (got - right).abs().nan_to_num(torch.inf).max()
            self.broken(f"{what}: off by {float(off):.3g}")

    def broken(self, how: str) -> NoReturn:
        """Raise the error of a broken law."""
        raise BrokenError(how, self)


def parameters(own: Any) -> dict[str, Tensor]:
    """The parameters of a part by name; what is no module has none."""
    return dict(own.named_parameters()) if isinstance(own, nn.Module) else {}


def named_inputs(case: Case, own: Any, tensors: list[Tensor]) -> dict[str, Tensor]:
    """Everything that has a gradient, by name."""
    return dict(zip(("x",) if case.kind == "heads" else "qkv", tensors, strict=True)) | parameters(own)


def gradients(output: Tensor, inputs: dict[str, Tensor], again: bool = False) -> list[Tensor]:
    """The gradient of every input, for a fixed direction of the output; 0 where there is none."""
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(output.dtype)
    found = torch.autograd.grad(
        (output * probe).sum(), list(inputs.values()), allow_unused=True, create_graph=again
    )  # fmt: skip
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, inputs.values(), strict=True)]


def twice(output: Tensor, inputs: dict[str, Tensor]) -> list[Tensor]:
    """The gradients of a fixed sum of all gradients: a product with the Hessian."""
    first = gradients(output, inputs, again=True)
    probes = [torch.randn(g.shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64) for g in first]
    total = sum(((g * p.to(g.dtype)).sum() for g, p in zip(first, probes, strict=True)), torch.zeros(()))
    if not total.requires_grad:
        return [torch.zeros_like(x) for x in inputs.values()]
    found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, inputs.values(), strict=True)]


def others(case: Case, own: Any, where: Neighborhood) -> Iterator[tuple[str, list[Tensor], Tensor]]:
    """Every fast kernel that takes the part here, with its inputs and its output."""
    for kernel in KERNELS:
        tensors = case.tensors()
        try:
            output = None if kernel.name == "reference" else case.run(own, tensors, where, kernel.name)
        except REFUSED:
            continue
        if output is not None:
            yield kernel.name, tensors, output


def slope_along(
    case: Case, own: Any, tensors: list[Tensor], where: Neighborhood, f: Callable[[Tensor], Any], name: str
) -> Any:
    """f at a point a little to each side of an input, over their distance: its slope in a fixed direction."""
    inputs = named_inputs(case, own, tensors)
    x, sides = inputs[name], []
    step = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=x.dtype)
    for side in (1e-5, -1e-5):
        with torch.no_grad():
            x += side * step
        sides.append([each.detach().clone() for each in f(case.run(own, tensors, where))])
        with torch.no_grad():
            x -= side * step
    return step, [(a - b) / 2e-5 for a, b in zip(*sides, strict=True)]

"""Which kernel runs a request: the first of `KERNELS` that does not refuse. A new kernel plugs in here, and only here."""

from dataclasses import dataclass

import torch

from mirada.attention.kernels.banded import Banded
from mirada.attention.kernels.convolution import Convolution
from mirada.attention.kernels.edges import EdgesKernel
from mirada.attention.kernels.flex import Flex
from mirada.attention.kernels.fused import Fused
from mirada.attention.kernels.reference import Reference
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.kernels.short import Short
from mirada.attention.kernels.sinks import SinkKernel
from mirada.attention.kernels.strided import StridedKernel
from mirada.attention.neighborhoods import Neighborhood, PerHead, intersect
from mirada.attention.normalizers import treats_heads_alike
from mirada.attention.scores import scores_heads_alike
from mirada.errors import unknown

# fastest first; the last takes everything
KERNELS: tuple[Kernel, ...] = (
    Convolution(),
    EdgesKernel(),
    StridedKernel(),
    Banded(),
    Short(),
    Fused(),
    SinkKernel(Banded(), Fused()),
    Flex(),
    Reference(),
)
OF_ANY_SIZE = (Fused.name, Reference.name)  # the same operations whatever the sizes
OF_PAIRS = (EdgesKernel.name, Reference.name)  # they compute scores edge by edge where edges differ


@dataclass(frozen=True)
class Plan:
    """The kernel chosen and, for each faster one, why it refused.

    Where heads have neighborhoods of their own, `groups` has a plan for each neighborhood and its heads, and `kernel` is the
    slowest of theirs.

    >>> print(Plan("reference", {"fused": "Additive is not a product q'.k'"}))
    reference
      not fused: Additive is not a product q'.k'
    """

    kernel: str
    refused: dict[str, str]
    groups: tuple[tuple[Neighborhood, tuple[int, ...], "Plan"], ...] = ()

    def __str__(self) -> str:
        lines = [self.kernel, *(f"  not {name}: {reason}" for name, reason in self.refused.items())]
        lines += [f"  heads {heads}, {where}: {plan.kernel}" for where, heads, plan in self.groups]
        return "\n".join(lines)


def plan(request: Request, force: str | None = None) -> Plan:
    """Choose the fastest kernel that does not refuse, or the forced one."""
    if force is not None:
        if reason := _refusal(named(force), request):
            message = f"kernel {force!r} refuses this request: {reason}. Leave kernel=None to let the plan choose."
            raise ValueError(message)
        return Plan(force, {})
    if groups := _head_groups(request):
        plans = [(where, tuple(heads), plan(request.for_heads(heads, where))) for where, heads in groups.items()]
        order = [kernel.name for kernel in KERNELS]
        slowest = max((chosen for _, _, chosen in plans), key=lambda chosen: order.index(chosen.kernel))
        return Plan(slowest.kernel, slowest.refused, tuple(plans))
    refused: dict[str, str] = {}
    for kernel in KERNELS:
        reason = _refusal(kernel, request)
        if reason is None:
            return Plan(kernel.name, refused)
        refused[kernel.name] = reason
    raise AssertionError("the reference kernel takes every request")


def _refusal(kernel: Kernel, request: Request) -> str | None:
    """Why this kernel does not run the request, if it does not."""
    if request.reweigh is not None and kernel.name != Reference.name:
        return "the weights are changed after the normalizer"
    if torch.compiler.is_exporting() and kernel.name not in OF_ANY_SIZE:
        return "it goes by sizes, which an exported program does not know"
    reason = kernel.refuses(request)
    if reason is None and kernel.name not in OF_PAIRS and request.weighed_pairs is not None:
        return "edges have features, or count several times"
    return reason


def run(request: Request, chosen: Plan) -> KernelOutput:
    """Compute the request as planned."""
    if not chosen.groups:
        return named(chosen.kernel).run(request)
    answers = [run(request.for_heads(list(heads), where), plan) for where, heads, plan in chosen.groups]
    for (where, heads, _), answer in zip(chosen.groups, answers, strict=True):
        if answer.output.shape[1] != len(heads):
            raise ValueError(
                f"heads {heads} were computed as {answer.output.shape[1]}, by a part with numbers per head that does not say so: "
                f"the score {request.score} (set its heads), or {where}, which must be the same for all heads inside PerHead"
            )
    order = torch.tensor([head for _, heads, _ in chosen.groups for head in heads], device=request.q.device)
    return KernelOutput(torch.cat([answer.output for answer in answers], dim=1).index_select(1, order.argsort()))


def _head_groups(request: Request) -> dict[Neighborhood, list[int]]:
    """The heads of each neighborhood, where heads differ in nothing else; empty if they cannot be separated."""
    conjuncts = request.where.conjuncts()
    per_head = [part for part in conjuncts if isinstance(part, PerHead) and type(part).sees is PerHead.sees]
    shared = {request.k.shape[1], request.v.shape[1]} <= {1, request.heads}
    if len(per_head) != 1 or not shared or request.normalizer.chooses or request.reweigh is not None:
        return {}
    if not scores_heads_alike(request.score) or not treats_heads_alike(request.normalizer) or request.position.inside:
        return {}  # parameters per head are those of all heads, not of a group's
    if any(part.lengths is not None for inner in per_head[0].parts for part in inner.conjuncts()):
        return {}  # a padding of one head must not become the true length for the rest of the intersection
    rest, places = intersect(part for part in conjuncts if part is not per_head[0]), request.full_places
    corner = places.rows(0, min(1, places.queries)).columns(0, min(1, places.keys))
    if rest.sees(corner).shape[1] > 1:  # what varies by head shows in one corner
        return {}  # its rows are those of all heads, not of a group's
    groups: dict[Neighborhood, list[int]] = {}
    for head, part in enumerate(per_head[0].parts):
        groups.setdefault(part & rest, []).append(head)
    return groups


def named(name: str) -> Kernel:
    """The kernel of that name; a ValueError with the known ones if there is none."""
    for kernel in KERNELS:
        if kernel.name == name:
            return kernel
    raise unknown("kernel", name, [kernel.name for kernel in KERNELS])

"""PyTorch's scaled_dot_product_attention: no n x n matrix of weights, forward or backward.

It takes every score that is a product of what it prepares (Dot, Bilinear), with a softmax, and any neighborhood. The usual
ones need no mask tensor; the others are given one.
"""

from dataclasses import replace
from functools import reduce
from operator import and_

import torch
import torch.nn.functional as F
from torch import Tensor

from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.kernels.tiles import BACKWARD, FORWARD, PlainMeaning, WholeTile
from mirada.attention.neighborhoods import Causal, Complete, Padding
from mirada.attention.normalizers import Softmax
from mirada.attention.places import Places
from mirada.attention.positions import ALiBi, Position
from mirada.attention.scores import Dot, Product
from mirada.attention.transforms import forward_mode, transformed, twice
from mirada.shapes import autocasting, broadcast_heads

SIMPLE = frozenset({Complete, Causal, Padding})
MASK_NUMBERS = 2**28  # a larger mask tensor would cost more than it saves


class Fused(Kernel):
    """One call of PyTorch's fused attention, with a mask where the neighborhood needs one."""

    name = "fused"

    def refuses(self, request: Request) -> str | None:
        if reason := refuses_product(request):
            return reason
        if forward_mode():
            return "PyTorch's kernel has no rule for forward-mode differentiation"
        if twice():
            return "PyTorch's kernel has no second derivative inside function transforms"
        if not torch.compiler.is_exporting() and _mask_numbers(request) > MASK_NUMBERS:
            return f"it would need a mask of {_mask_numbers(request):,} numbers"
        return None

    def run(self, request: Request) -> KernelOutput:
        keys = last_key(request)
        mask, by_itself = masking(request, keys)
        given = mask if mask is not None and mask.dtype == torch.bool and not simple(request) else None
        k, v = shared(request) if mask is None else request.visible(given)
        q, k, scale = factors(request, k[:, :, :keys])
        dim = v.shape[-1]
        q, k, v = same_dim(q, k, v[:, :, :keys])
        if mask is not None and by_itself and not _is_flash(q, k, v):
            mask, by_itself = mask & Causal().sees(request.places)[..., :keys], False
        if _differentiable_twice(q, k, v):
            mask = (
                torch.where(mask, 0.0, -torch.inf).to(q.dtype)
                if mask is not None and mask.dtype == torch.bool
                else mask
            )
            output = WholeTile.apply(q, k, v, mask, by_itself, PlainMeaning(_of_keys(request, keys), scale))
        else:
            output = F.scaled_dot_product_attention(q, k, v, mask, is_causal=by_itself, scale=scale)
        return KernelOutput(output[..., :dim])


def refuses_product(request: Request, biased: bool = False) -> str | None:
    """Why a kernel made of softmax(q'.k') v cannot run the request, if it cannot. `biased`: it adds a trained bias exactly."""
    if type(request.score).compare is not Product.compare:
        return f"{type(request.score).__name__} is not a product q'.k'"
    if type(request.normalizer) is not Softmax:
        return f"it has a softmax inside, not {type(request.normalizer).__name__}"
    if request.normalizer.training and request.normalizer.dropout:
        return f"it cannot drop weights (dropout={request.normalizer.dropout}, training)"
    position, constant = request.position, request.position.constant
    if position.overrides("narrow", "spread") if constant else position.inside:
        return f"{type(position).__name__} acts inside the softmax or on the values"
    if constant and not biased and request.q.dtype in (torch.float16, torch.bfloat16):
        return f"the bias of {type(position).__name__} needs more digits than {request.q.dtype} has"
    if 0 in (*request.q.shape, *request.v.shape):
        return f"nothing to fuse in an empty input: q {tuple(request.q.shape)}, keys={request.keys}"
    if constant and not biased and bias_is_trained(request):
        return f"the bias of {type(position).__name__} is trained, and needs its gradient"
    return None


def bias_is_trained(request: Request) -> bool:
    """Whether the bias may need a gradient: for its parameters or any other tensor in it. One corner shows it."""
    position = request.position
    if type(position) is ALiBi or not torch.is_grad_enabled():
        return False
    if any(x.requires_grad for x in position.parameters()):
        return True
    bias = position.bias(request.q.new_empty(0), request.full_places.rows(0, 1).columns(0, 1))
    return bias is not None and bias.requires_grad


def simple(request: Request) -> bool:
    """Whether no queries x keys mask is needed: complete, causal, padding or causal and padding, without a bias."""
    if request.position.constant or not request.kinds <= SIMPLE:
        return False
    if Causal not in request.kinds:
        return True
    return request.places.counted and (request.places.start == 0 or request.queries == 1)


def is_causal(request: Request) -> bool:
    """Whether a plain Causal stands in the intersection."""
    return Causal in request.kinds


def last_key(request: Request) -> int:
    """The number of keys worth reading: under a plain causal neighborhood none after the last query."""
    if simple(request) and is_causal(request):
        return min(request.keys, request.places.start + request.queries)
    return request.keys


def masking(request: Request, keys: int) -> tuple[Tensor | None, bool]:
    """A mask tensor if one is needed, and whether the kernel should be causal by itself."""
    if not simple(request):
        mask = request.mask().expand(-1, -1, request.queries, request.keys)
        return with_bias(request.position, mask, request.full_places, request.q.dtype), False
    # the number of queries of an exported program is not known: from the first place on, one query is no other case
    several = request.places.start == 0 if torch.compiler.is_exporting() else request.queries > 1
    by_itself = True if is_causal(request) and several else False  # noqa: SIM210  a bool, not a symbol of a trace
    if Padding not in request.kinds:
        return None, by_itself
    mask = reduce(and_, (part.sees(request.places) for part in request.where.conjuncts() if isinstance(part, Padding)))
    return mask[..., :keys].expand(-1, -1, request.queries, -1), by_itself


def _is_flash(*tensors: Tensor) -> bool:
    """Whether the CPU's flash kernel will run: the only one that takes a mask and is causal by itself at once."""
    enabled = torch.backends.cuda.flash_sdp_enabled()  # the switch of every device, in spite of its name
    enabled = enabled and not torch.compiler.is_exporting()  # a program runs on other devices as well
    return enabled and all(x.device.type == "cpu" and x.stride(-1) == 1 for x in tensors)


def _differentiable_twice(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the gradient may be differentiated: PyTorch's own flash attention on a CPU raises an error then."""
    if not torch.is_grad_enabled() or not (q.requires_grad or k.requires_grad or v.requires_grad):
        return False
    if torch.compiler.is_compiling() or transformed() or FORWARD is None or BACKWARD is None:
        return False
    return _is_flash(q, k, v) and all(type(x) is Tensor for x in (q, k, v))


def _of_keys(request: Request, keys: int) -> Request:
    """The request with the first keys only."""
    return request if keys == request.keys else replace(request, places=request.full_places.columns(0, keys))


def with_bias(position: Position, mask: Tensor, places: Places, dtype: torch.dtype) -> Tensor:
    """The mask as it is, or, where the position adds a constant to the scores, that constant inside and -inf outside."""
    bias = position.bias(torch.empty(0, dtype=dtype, device=mask.device), places) if position.constant else None
    return mask if bias is None else torch.where(mask, bias.to(dtype), -torch.inf)


def shared(request: Request) -> tuple[Tensor, Tensor]:
    """Keys and values with one head per query head; no copy where none is needed."""
    return broadcast_heads(request.k, request.heads), broadcast_heads(request.v, request.heads)


def factors(request: Request, k: Tensor) -> tuple[Tensor, Tensor, float]:
    """Queries, keys and scale whose scaled product is the score."""
    if type(request.score) is Dot:
        scale = request.score.factor(request.q.shape[-1])
        if not isinstance(scale, Tensor) and scale > 0:  # the kernel scales its own minus infinities too
            return request.q, k, scale
    return request.score.queries(request.q), request.score.keys(k), 1.0


def same_dim(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One dtype, and zeros appended so that keys and values have one dim: fused kernels ask for both."""
    if autocasting(q.device):
        dtype = torch.get_autocast_dtype(q.device.type)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    dim = max(k.shape[-1], v.shape[-1])
    return tuple(x if x.shape[-1] == dim else F.pad(x, (0, dim - x.shape[-1])) for x in (q, k, v))  # type: ignore[return-value]


def _mask_numbers(request: Request) -> int:
    """The size of the queries x keys mask, at most; 0 where none is needed."""
    if simple(request):
        return 0
    shape = request.where.sees(request.places.rows(0, 1).columns(0, 1)).shape  # what varies shows in one corner
    heads = request.heads if request.position.constant else shape[1]
    return request.queries * request.keys * shape[0] * heads

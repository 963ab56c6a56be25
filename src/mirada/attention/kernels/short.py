"""Attention over short sequences in compiled C: what `fused` computes, in less time than PyTorch's kernel takes to set up."""

from functools import partial

import torch
from torch import Tensor

from mirada.attention.kernels.fused import factors, is_causal, last_key, refuses_product, shared, simple
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.neighborhoods import lengths_of
from mirada.attention.normalizers import masked_softmax
from mirada.attention.scores import Dot
from mirada.native import library
from mirada.native.library import plain_gradients
from mirada.native.short import short_backward, short_forward
from mirada.native.structures import SHORT_LANES, SHORT_LONGEST, SHORT_WIDEST


class Short(Kernel):
    """Short sequences, in one call of compiled C."""

    name = "short"

    def refuses(self, request: Request) -> str | None:
        if (
            torch.compiler.is_compiling()
        ):  # first: traced code must not call the loader, nor print sizes, which fixes them
            return "it is being traced"
        if reason := refuses_product(request):
            return reason
        if type(request.score) is not Dot:
            return f"it is for Dot, not {type(request.score).__name__}"
        if not simple(request):
            return "it takes no mask: complete, causal and padded neighborhoods only, and no bias"
        queries, keys = request.queries, last_key(request)
        if not 1 < queries <= SHORT_LONGEST or keys > SHORT_LONGEST:
            return f"it takes 2 to {SHORT_LONGEST} queries and up to {SHORT_LONGEST} keys: got queries={queries}, keys={keys}"
        dims = request.q.shape[-1], request.v.shape[-1]
        if any(dim > SHORT_WIDEST or dim % SHORT_LANES for dim in dims):
            return f"dims must be multiples of {SHORT_LANES} up to {SHORT_WIDEST}: got {dims[0]} and {dims[1]}"
        if library.library() is None:
            return library.describe()
        if torch.is_autocast_enabled("cpu"):
            return "autocast is on"
        scale = request.score.factor(request.q.shape[-1])  # type: ignore[operator, union-attr]
        tensors = [request.q, request.k, request.v, *([scale] if isinstance(scale, Tensor) else [])]
        if not library.serves(*tensors):
            return f"it works on plain float32 tensors on a CPU that nobody traces: got {request.q.dtype} on {request.q.device}"
        return None

    def run(self, request: Request) -> KernelOutput:
        keys = last_key(request)
        k, v = (x[:, :, :keys] for x in shared(request))
        q, k, scale = factors(request, k)
        lengths = lengths_of(request.where)
        if lengths is not None:  # a copy: the caller may change theirs before the backward pass
            lengths = lengths.to("cpu", torch.int64).expand(len(q)).clone()
        return KernelOutput(_AttendShort.apply(q, k, v, lengths, is_causal(request), scale))


class _AttendShort(torch.autograd.Function):
    """softmax(scale q.k) v over the first `lengths` keys of each sequence; with `causal`, none after a query's own place.

    The weights are kept for the backward pass: they are few.
    """

    @staticmethod
    def forward(ctx, q, k, v, lengths, causal, scale):  # type: ignore[no-untyped-def]
        output, weights = short_forward(q, k, v, lengths, causal, scale)
        ctx.save_for_backward(q, k, v, weights, lengths)
        ctx.causal, ctx.scale = causal, scale
        return output

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, weights, lengths = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = partial(_plain, lengths=lengths, causal=ctx.causal, scale=ctx.scale)
            return *plain_gradients(again, (q, k, v), ctx.needs_input_grad[:3], grad), None, None, None
        if library.serves(grad):
            return *short_backward(grad, q, k, v, lengths, ctx.causal, ctx.scale, weights), None, None, None
        weights = weights[..., : k.shape[2]]  # batched gradients
        d_weights = grad @ v.mT
        d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True)) * ctx.scale
        return d_scores @ k, d_scores.mT @ q, weights.mT @ grad, None, None, None


def _plain(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool, scale: float) -> Tensor:
    """The same by PyTorch's operations."""
    seen = torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool)
    seen = seen.tril() if causal else seen
    if lengths is not None:
        inside = (torch.arange(k.shape[2]) < lengths.unsqueeze(-1))[:, None, None]
        k, v = (x.masked_fill(~inside.mT, 0) for x in (k, v))
        seen = seen & inside
    return masked_softmax(scale * q @ k.mT, seen) @ v

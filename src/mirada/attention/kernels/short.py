"""Attention over short sequences in C: what `fused` computes, in less time than PyTorch's kernel takes to set up its blocks."""

import ctypes

import torch
from torch import Tensor

from mirada.native import library
from mirada.native.constants import SHORT_LANES, SHORT_LONGEST, SHORT_WIDEST

WORK = 2  # multiplications that one of these is worth


class Vectors(ctypes.Structure):
    """A tensor with the axes (sequence head place number): where it lies, and how far one thing is from the next."""

    _fields_ = (("start", ctypes.c_void_p), *((name, ctypes.c_int64) for name in ("sequence", "head", "place")))

    @classmethod
    def of(cls, x: Tensor) -> "Vectors":
        return cls(x.data_ptr(), *x.stride()[:3])


class Job(ctypes.Structure):
    """As in short.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "heads", "queries", "keys", "padded", "dim", "value_dim")),
        ("causal", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("scale", ctypes.c_float),
        ("lengths", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        *((name, Vectors) for name in ("q", "k", "v", "out", "dq", "dk", "dv")),
    )


def serves(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether these are short and of a kind that the library can work on. One query alone gains nothing."""
    short = 1 < q.shape[2] <= SHORT_LONGEST and k.shape[2] <= SHORT_LONGEST
    dims = {q.shape[3], v.shape[3]}
    narrow = all(dim <= SHORT_WIDEST and dim % SHORT_LANES == 0 for dim in dims)
    return short and narrow and not torch.is_autocast_enabled("cpu") and library.serves(q, k, v)


def attend(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool, scale: float) -> Tensor:
    """softmax(scale q.k) v over the first `lengths` keys of each sequence; with `causal`, none after a query's own place."""
    if lengths is not None:
        lengths = lengths.to(torch.int64).expand(len(q)).contiguous()
    return Short.apply(q, k, v, lengths, causal, scale)


class Short(torch.autograd.Function):
    """The weights are kept for the backward pass: they are few."""

    @staticmethod
    def forward(ctx, q, k, v, lengths, causal, scale):  # type: ignore[no-untyped-def]
        q, k, v = (vectors(x) for x in (q, k, v))
        padded = -(-k.shape[2] // SHORT_LANES) * SHORT_LANES
        weights = q.new_empty(*q.shape[:3], padded)
        output = like(q, v.shape[3])
        call("forward", job(q, k, v, lengths, causal, scale, weights, output))
        ctx.save_for_backward(q, k, v, weights, lengths)
        ctx.causal, ctx.scale = causal, scale
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, weights, lengths = ctx.saved_tensors
        gradients = [like(x, x.shape[3]) for x in (q, k, v)]
        work = job(q, k, v, lengths, ctx.causal, ctx.scale, weights, grad := vectors(grad))
        work.dq, work.dk, work.dv = (Vectors.of(x) for x in gradients)
        call("backward", work)
        return *gradients, None, None, None


def job(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool, scale: float, weights: Tensor, output: Tensor
) -> Job:
    """What C is told. The tensors must outlive it."""
    batch, heads, queries, dim = q.shape
    keys, value_dim = k.shape[2], v.shape[3]
    work = batch * heads * queries * keys * (dim + value_dim)
    return Job(
        batch=batch, heads=heads, queries=queries, keys=keys, padded=weights.shape[-1], dim=dim, value_dim=value_dim,
        causal=causal, threads=library.threads_for(WORK * work), scale=scale,
        lengths=None if lengths is None else lengths.data_ptr(), weights=weights.data_ptr(),
        q=Vectors.of(q), k=Vectors.of(k), v=Vectors.of(v), out=Vectors.of(output),
    )  # fmt: skip


def call(name: str, work: Job) -> None:
    getattr(library.loaded(), f"short_{name}")(ctypes.byref(work))


def vectors(x: Tensor) -> Tensor:
    """The tensor, with the numbers of each vector next to each other."""
    return x if x.stride(-1) == 1 else x.contiguous()


def like(x: Tensor, dim: int) -> Tensor:
    """Room for a vector for each of those of x; the heads of a place lie side by side, as the layer around them wants it."""
    batch, heads, length, _ = x.shape
    return x.new_empty(batch, length, heads, dim).transpose(1, 2)

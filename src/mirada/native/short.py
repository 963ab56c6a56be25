"""Attention over short sequences, forward and backward (`short.c`): float32 on a CPU."""

import ctypes

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.native.library import address, check, loaded, threads_for
from mirada.native.structures import SHORT_LANES, SHORT_LONGEST, SHORT_WIDEST, ShortAttention, Strides

WORK = 2  # multiplications that take as long as one of these

Queries = Float[Tensor, "batch heads queries dim"]
Keys = Float[Tensor, "batch heads keys dim"]
Values = Float[Tensor, "batch heads keys value_dim"]
Output = Float[Tensor, "batch heads queries value_dim"]
Weights = Float[Tensor, "batch heads queries padded"]
Lengths = Int[Tensor, " batch"]


def short_forward(
    q: Queries, k: Keys, v: Values, lengths: Lengths | None, causal: bool, scale: float
) -> tuple[Output, Weights]:
    """softmax(scale q.k) v over the first `lengths` keys, and the weights, padded with zeros to a multiple of the lanes."""
    q, k, v = (_vectors(x) for x in (q, k, v))
    weights = q.new_empty(*q.shape[:3], -(-k.shape[2] // SHORT_LANES) * SHORT_LANES)
    output = _like(q, v.shape[3])
    job = _described(q, k, v, lengths, causal, scale, weights, output)
    loaded().short_forward(ctypes.byref(job))
    return output, weights


def short_backward(
    grad: Output, q: Queries, k: Keys, v: Values, lengths: Lengths | None, causal: bool, scale: float, weights: Weights
) -> tuple[Queries, Keys, Values]:
    """The gradients of queries, keys and values."""
    q, k, v, grad = (_vectors(x) for x in (q, k, v, grad))
    check("weights", weights, (*q.shape[:3], -(-k.shape[2] // SHORT_LANES) * SHORT_LANES), torch.float32)
    gradients = _like(q, q.shape[3]), _like(k, k.shape[3]), _like(v, v.shape[3])
    job = _described(q, k, v, lengths, causal, scale, weights, grad)
    job.dq, job.dk, job.dv = (_strides(x) for x in gradients)
    loaded().short_backward(ctypes.byref(job))
    return gradients


def _described(
    q: Queries,
    k: Keys,
    v: Values,
    lengths: Lengths | None,
    causal: bool,
    scale: float,
    weights: Weights,
    output: Output,
) -> ShortAttention:
    """The arguments for C. The tensors must outlive them."""
    (batch, heads, queries, dim), (keys, value_dim) = q.shape, v.shape[2:]
    fits = queries <= SHORT_LONGEST and keys <= SHORT_LONGEST
    fits = fits and all(n <= SHORT_WIDEST and n % SHORT_LANES == 0 for n in (dim, value_dim))
    fits = fits and k.shape == (batch, heads, keys, dim) and v.shape[:2] == q.shape[:2]
    fits = fits and output.shape == (batch, heads, queries, value_dim)
    if not fits or {x.dtype for x in (q, k, v, output)} != {torch.float32}:
        raise ValueError(
            f"short attention takes float32 of up to {SHORT_LONGEST} places and dims up to {SHORT_WIDEST} that are multiples of "
            f"{SHORT_LANES}: got q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        )
    if lengths is not None:
        check("lengths", lengths, (batch,), torch.int64)
    return ShortAttention(
        batch=batch, heads=heads, queries=queries, keys=keys, padded=weights.shape[-1], dim=dim, value_dim=value_dim,
        causal=causal, threads=threads_for(WORK * batch * heads * queries * keys * (dim + value_dim)), scale=scale,
        lengths=address(lengths), weights=weights.data_ptr(), q=_strides(q), k=_strides(k), v=_strides(v), out=_strides(output),
    )  # fmt: skip


def _strides(x: Tensor) -> Strides:
    """The address and strides of a tensor."""
    return Strides(x.data_ptr(), *x.stride()[:3])


def _vectors(x: Tensor) -> Tensor:
    """The tensor, with contiguous vectors."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _like(x: Tensor, dim: int) -> Tensor:
    """An empty tensor with a vector for each of x; the heads of a place are contiguous, as the layer reads them."""
    batch, heads, length, _ = x.shape
    return x.new_empty(batch, length, heads, dim).transpose(1, 2)

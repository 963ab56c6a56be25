"""How the width is shared among heads: from the input to queries, keys and values, and back.

`queries`, `keys` and `values` return (batch, heads, n, dim); keys and values may have fewer heads than the queries, which
then share them. `merge` brings the heads' outputs back to (batch, n, width).
"""

from inspect import signature
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mirada.errors import require, require_known
from mirada.native.products import called
from mirada.shapes import show

Input = Float[Tensor, "batch n width"]
Vectors = Float[Tensor, "batch heads n dim"]
Memory = Float[Tensor, "batch keys memory_width"]
MemoryValues = Float[Tensor, "batch keys values_width"]
Keys = Float[Tensor, "batch kheads keys kdim"]
Values = Float[Tensor, "batch vheads keys value_dim"]
Before = Float[Tensor, "batch kheads before kdim"]


class Heads(nn.Module):
    """The interface of all heads: projections of the input to queries, keys and values, and back.

    A subclass sets the sizes below and implements `queries`, `keys`, `values` and `merge`.

    Args:
        The base class takes none; a subclass declares its own.

    >>> from mirada.attention import Attention
    >>> class OneHead(Heads):
    ...     def __init__(self, width):
    ...         super().__init__()
    ...         self.width = self.memory_width = self.value_width = width
    ...         self.heads = self.key_heads = self.value_heads = 1
    ...         self.dim = self.key_dim = self.value_dim = self.scale_dim = width
    ...     def queries(self, x):
    ...         return x.unsqueeze(1)
    ...     keys = values = queries
    ...     def merge(self, h):
    ...         return h[:, 0]
    >>> Attention(OneHead(4))(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    heads: int  # of the queries
    width: int  # of the input
    memory_width: int  # of what the keys are made from
    value_width: int  # of what the values are made from
    dim: int  # of a query
    key_dim: int
    value_dim: int
    key_heads: int
    value_heads: int
    scale_dim: float  # what the default scale 1 / sqrt(dim) counts
    aliases: bool = False  # queries, keys and values are views of the input, not projections of it
    shared_from: int | None = None  # the values are the keys from this number on: a cache keeps them once
    gates: ClassVar[bool] = False  # `merge(h, x)` is given the input, too
    carries: ClassVar[bool] = False  # `project_next` needs what is kept of earlier places

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.gates = len(signature(cls.merge).parameters) > 2
        cls.carries = cls.project_next is not Heads.project_next

    def project(self, x: Input, memory: Memory, values: MemoryValues) -> tuple[Vectors, Keys, Values]:
        """Queries, keys and values of one call."""
        return self.queries(x), *self.remember(memory, values)

    def project_next(self, x: Input, before: Before) -> tuple[Vectors, Keys, Values]:
        """Queries, keys and values of the places after those whose keys are `before`, as a cache keeps them.

        Heads whose keys depend on earlier places override it; for the others it is `project`.
        """
        return self.project(x, x, x)

    def fits(self, score: Any, where: Any, position: Any, normalizer: Any) -> str | None:
        """What else a layer with these heads needs, if the other parts of the layer are not that; None if they fit."""
        return None

    def remember(self, memory: Memory, values: MemoryValues) -> tuple[Keys, Values]:
        """Keys and values of a memory."""
        return self.keys(memory), self.values(values)

    def queries(self, x: Input) -> Vectors:
        """(batch, n, width) to (batch, heads, n, dim)."""
        raise NotImplementedError

    def keys(self, memory: Input) -> Vectors:
        """(batch, keys, memory_width) to (batch, key_heads, keys, key_dim)."""
        raise NotImplementedError

    def values(self, memory: Input) -> Vectors:
        """(batch, keys, value_width) to (batch, value_heads, keys, value_dim)."""
        raise NotImplementedError

    def merge(self, h: Vectors) -> Input:
        """The outputs of all heads as one vector per query: (batch, heads, n, value_dim) to (batch, n, out).

        A subclass may write `merge(self, h, x)`: it is then given the input of the queries as well.
        """
        raise NotImplementedError

    def check(self, x: Tensor, memory: Tensor, values: Tensor) -> None:
        """Require the widths these heads were made for."""
        sizes = (("x", x, self.width), ("memory", memory, self.memory_width), ("values", values, self.value_width))
        for name, tensor, width in sizes:
            if tensor.shape[-1] != width:
                raise ValueError(f"{type(self).__name__} needs {name} of width={width}: got shape {show(tensor)}")

    def _sizes(self, width: int, heads: int, dim: int, value_dim: int | None = None) -> None:
        self.width = self.memory_width = self.value_width = width
        self.heads = self.key_heads = self.value_heads = heads
        self.dim = self.key_dim = self.scale_dim = dim
        self.value_dim = dim if value_dim is None else value_dim
        sizes = (width, heads, dim, self.value_dim)
        require(min(sizes) >= 1, f"sizes must be at least 1: got width={width}, heads={heads}, dim={dim}")

    def extra_repr(self) -> str:
        return f"{self.width}, heads={self.heads}, dim={self.dim}"


class MultiHead(Heads):
    """Projections of its own for every head, and one back.

    head_i = attend(x W_q,i, m W_k,i, m W_v,i),   h = [head_1 .. head_N] W + b = sum head_i W_i + b

    `dim` per head is width / heads unless given (Keras' `key_dim`), `value_dim` is `dim`, `out` is `width`.
    Keys and values are made from a `memory_width`; values from a `values_width` of their own if given. With `qk_norm` every
    query and every key is normalized before a position rotates it: q / sqrt(mean of q^2 + qk_norm) * weight, by one weight
    for all heads.

    Args:
        width: numbers in an input.
        heads: how many heads there are.
        dim: numbers in a query and in a key of one head; None is width / heads.
        value_dim: numbers in a value of one head; None is `dim`.
        memory_width: numbers in what keys and values are made from; None is `width`.
        out: numbers in an output; None is `width`.
        bias: whether the projections have a bias; or the letters of those that have one, of q, k, v and o.
        values_width: numbers in what the values are made from; None is `memory_width`.
        qk_norm: what is added to the mean square of a query and of a key; 0 leaves them as they are.

    >>> MultiHead(width=8, heads=2).queries(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 2, 3, 4])
    >>> heads = MultiHead(width=8, heads=2, bias="qkv", qk_norm=1e-6)
    >>> heads.key.bias is None, heads.out.bias is None, heads.query_norm
    (False, True, HeadNorm(4, eps=1e-06))

    Vaswani et al. (2017), arXiv:1706.03762, 3.2.2; of the norm: Henry et al. (2020), arXiv:2010.04245.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dim: int | None = None,
        value_dim: int | None = None,
        memory_width: int | None = None,
        out: int | None = None,
        bias: bool | str = True,
        values_width: int | None = None,
        qk_norm: float = 0.0,
    ) -> None:
        super().__init__()
        self._sizes(width, heads, _split_width(width, heads) if dim is None else dim, value_dim)
        self.memory_width = width if memory_width is None else memory_width
        self.value_width = self.memory_width if values_width is None else values_width
        have = _projections_with_bias(bias)
        self.query = linear(width, heads * self.dim, "q" in have)
        self.key = linear(self.memory_width, heads * self.dim, "k" in have)
        self.value = linear(self.value_width, heads * self.value_dim, "v" in have)
        self.out = linear(heads * self.value_dim, width if out is None else out, "o" in have)
        require(qk_norm >= 0, f"qk_norm must be at least 0: got {qk_norm}")
        self.query_norm, self.key_norm = (HeadNorm(self.dim, qk_norm) if qk_norm else None for _ in "qk")

    def queries(self, x: Input) -> Vectors:
        q = split(called(self.query, x), self.dim)
        return q if self.query_norm is None else self.query_norm(q)

    def keys(self, memory: Input) -> Vectors:
        k = split(called(self.key, memory), self.dim)
        return k if self.key_norm is None else self.key_norm(k)

    def values(self, memory: Input) -> Vectors:
        return split(called(self.value, memory), self.value_dim)

    def merge(self, h: Vectors) -> Input:
        return called(self.out, join(h))


class HeadNorm(nn.Module):
    """The norm of the queries, or of the keys, of all heads: x / sqrt(mean of x^2 + eps) * weight.

    Args:
        dim: numbers in a query or key of one head.
        eps: what is added to the mean square.

    >>> HeadNorm(2, eps=1e-9)(torch.tensor([[[[3.0, 3.0]]]])).tolist()
    [[[[1.0, 1.0]]]]

    Zhang and Sennrich (2019), arXiv:1910.07467; Henry et al. (2020), arXiv:2010.04245.
    """

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Vectors) -> Vectors:
        """Every vector of every head, normalized."""
        return F.rms_norm(x, (self.dim,), self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps:g}"


def _projections_with_bias(bias: bool | str) -> str:
    """The letters of the projections that have a bias.

    >>> _projections_with_bias(True), _projections_with_bias("no"), _projections_with_bias("vq")
    ('qkvo', '', 'vq')
    """
    letters = {True: "qkvo", "yes": "qkvo", False: "", "no": ""}.get(bias, bias)
    known = isinstance(letters, str) and set(letters) <= set("qkvo")
    require(known, f"bias must be yes, no, or some of the letters q, k, v and o: got {bias!r}")
    return str(letters)


class Grouped(MultiHead):
    """Several query heads share one key head and one value head: a smaller cache.

    Query head h uses key and value head h // (heads / kv_heads). `kv_heads=1` is multi-query attention.

    Args:
        width: numbers in an input.
        heads: query heads.
        kv_heads: key heads and value heads.
        dim: numbers in a query of one head; None is width / heads.
        bias: whether the projections have a bias; or the letters of those that have one, of q, k, v and o.
        qk_norm: what is added to the mean square of a query and of a key; 0 leaves them as they are.

    >>> Grouped(width=8, heads=4, kv_heads=2).keys(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 2, 3, 2])

    Ainslie et al. (2023), arXiv:2305.13245.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        dim: int | None = None,
        bias: bool | str = True,
        qk_norm: float = 0.0,
    ) -> None:
        message = f"heads must be divisible by kv_heads: got heads={heads}, kv_heads={kv_heads}"
        require(kv_heads >= 1 and heads % kv_heads == 0, message)
        super().__init__(width, heads, dim, bias=bias, qk_norm=qk_norm)
        self.key_heads = self.value_heads = kv_heads
        self.key = linear(width, kv_heads * self.dim, self.key.bias is not None)
        self.value = linear(width, kv_heads * self.dim, self.value.bias is not None)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kv_heads={self.key_heads}"


class Collaborative(Heads):
    """All heads share one query and one key projection; each weighs its coordinates its own way.

    head_r scores (Q diag(m_r)) K^T / sqrt(shared / heads), with values of its own

    The mixing vectors start as the concatenation pattern: head r reads the r-th slice. With `shared = width` that start is
    ordinary multi-head attention exactly.

    Args:
        width: numbers in an input.
        heads: how many heads there are.
        shared: numbers in the query, and in the key, that all heads share.
        bias: whether the projections have a bias.

    >>> heads = Collaborative(width=4, heads=2, shared=4)
    >>> heads.mixing.tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]

    Cordonnier, Loukas and Jaggi (2020), arXiv:2006.16362.
    """

    def __init__(self, width: int, heads: int, shared: int, bias: bool = True) -> None:
        super().__init__()
        self._sizes(width, heads, shared, _split_width(width, heads))
        self.key_heads, self.scale_dim = 1, shared / heads
        self.query = linear(width, shared, bias)
        self.key = linear(width, shared, bias)
        self.value = linear(width, width, bias)
        self.out = linear(width, width, bias)
        slice_of = torch.arange(shared) * heads // shared
        self.mixing = nn.Parameter(F.one_hot(slice_of, heads).T.to(self.out.weight.dtype).contiguous())

    def queries(self, x: Input) -> Vectors:
        shared = rearrange(called(self.query, x), "b n s -> b 1 n s")
        return shared * rearrange(self.mixing.to(shared.dtype), "h s -> h 1 s")

    def keys(self, memory: Input) -> Vectors:
        return rearrange(called(self.key, memory), "b n s -> b 1 n s")

    def values(self, memory: Input) -> Vectors:
        return split(called(self.value, memory), self.value_dim)

    def merge(self, h: Vectors) -> Input:
        return called(self.out, join(h))

    def extra_repr(self) -> str:
        return f"{self.width}, heads={self.heads}, shared={self.dim}"


class Split(Heads):
    """The embedding cut into pieces, one per head, with no projections at all.

    head_i = attend(x_i, m_i, m_i) for the i-th slice of the width;  h = [head_1 .. head_N] (+ b with `bias=True`)

    With one head it is self-attention without parameters. With one head per channel, `Offset` scores and a bias it is a
    depthwise convolution. Keys and values of a `memory_width` of their own need a score that compares two dims.

    Args:
        width: numbers in an input, divisible by `heads`.
        heads: how many heads there are.
        bias: whether a trained vector is added to the output.
        memory_width: numbers in what keys and values are cut from; None is `width`.

    >>> Split(width=6, heads=3).values(torch.arange(6.0).view(1, 1, 6)).tolist()
    [[[[0.0, 1.0]], [[2.0, 3.0]], [[4.0, 5.0]]]]
    """

    aliases = True

    def __init__(self, width: int, heads: int, bias: bool = False, memory_width: int | None = None) -> None:
        super().__init__()
        self._sizes(width, heads, _split_width(width, heads))
        self.memory_width = self.value_width = width if memory_width is None else memory_width
        self.key_dim = self.value_dim = _split_width(self.memory_width, heads)
        self.bias = nn.Parameter(torch.zeros(self.value_width)) if bias else None

    def queries(self, x: Input) -> Vectors:
        return split(x, x.shape[-1] // self.heads)

    def keys(self, memory: Input) -> Vectors:
        return self.queries(memory)

    def values(self, memory: Input) -> Vectors:
        return self.queries(memory)

    def merge(self, h: Vectors) -> Input:
        merged = join(h)
        return merged if self.bias is None else merged + self.bias

    def check(self, x: Tensor, memory: Tensor, values: Tensor) -> None:
        super().check(x, memory, memory)
        free = self.bias is None  # values are compared with nothing: any width that can be cut will do
        require(
            values.shape[-1] % self.heads == 0 if free else values.shape[-1] == self.value_width,
            f"values must have a width divisible by heads={self.heads} (equal to {self.value_width} with a bias): "
            f"got {show(values)}",
        )


class Tied(Heads):
    """One projection for queries, keys and values of every head, as in graph attention.

    q_i = k_i = v_i = W x_i;  h = [head_1 .. head_N] + b, or their mean with `combine="mean"`

    With `queries="own"` the queries have a projection of their own (GATv2), `projection_bias` adds biases inside.

    Args:
        width: numbers in an input.
        heads: how many heads there are.
        dim: numbers in a query, key and value of one head.
        combine: "concat" puts the heads side by side, "mean" averages them.
        queries: "tied" for the projection of keys and values, "own" for one of their own.
        bias: whether a trained vector is added to the output.
        projection_bias: whether the projections have a bias.

    >>> Tied(width=5, heads=3, dim=2, combine="mean").merge(torch.ones(1, 3, 4, 2)).shape
    torch.Size([1, 4, 2])

    Veličković et al. (2018), arXiv:1710.10903.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dim: int,
        combine: Literal["concat", "mean"] = "concat",
        queries: Literal["tied", "own"] = "tied",
        bias: bool = True,
        projection_bias: bool = False,
    ) -> None:
        super().__init__()
        require_known("combine", combine, ["concat", "mean"])
        require_known("queries", queries, ["tied", "own"])
        self._sizes(width, heads, dim)
        self.combine = combine
        self.node = linear(width, heads * dim, projection_bias)
        self.query = linear(width, heads * dim, projection_bias) if queries == "own" else None
        self.bias = nn.Parameter(torch.zeros(heads * dim if combine == "concat" else dim)) if bias else None

    def queries(self, x: Input) -> Vectors:
        return split((self.node if self.query is None else self.query)(x), self.dim)

    def keys(self, memory: Input) -> Vectors:
        return split(self.node(memory), self.dim)

    def values(self, memory: Input) -> Vectors:
        return self.keys(memory)

    def project(self, x: Input, memory: Memory, values: MemoryValues) -> tuple[Vectors, Keys, Values]:
        k, v = self.remember(memory, values)
        return k if x is memory and self.query is None else self.queries(x), k, v

    def remember(self, memory: Memory, values: MemoryValues) -> tuple[Keys, Values]:
        k = self.keys(memory)  # the one projection, made once
        return k, k if values is memory else self.values(values)

    def merge(self, h: Vectors) -> Input:
        merged = h.mean(1) if self.combine == "mean" else join(h)
        return merged if self.bias is None else merged + self.bias

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, combine={self.combine!r}"


class GatedHeads(MultiHead):
    """Heads whose outputs are gated by the input before they are joined.

    h = [head_1 * sigmoid(x G_1) .. head_N * sigmoid(x G_N)] W

    Args:
        width: numbers in an input.
        heads: how many heads there are.
        dim: numbers in a query and in a key of one head; None is width / heads.
        gate: "element" for a gate per number of an output, "head" for one per head.
        bias: whether the projections have a bias; or the letters of those that have one, of q, k, v and o.

    >>> heads = GatedHeads(width=4, heads=2, gate="head")
    >>> heads.merge(torch.ones(1, 2, 3, 2), torch.zeros(1, 3, 4)).shape
    torch.Size([1, 3, 4])

    Qiu et al. (2025), arXiv:2505.06708.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dim: int | None = None,
        gate: Literal["element", "head"] = "element",
        bias: bool | str = True,
    ) -> None:
        super().__init__(width, heads, dim, bias=bias)
        require_known("gate", gate, ["element", "head"])
        self.gate = linear(width, heads * (self.value_dim if gate == "element" else 1), False)

    def merge(self, h: Vectors, x: Input) -> Input:  # type: ignore[override]
        gate = split(called(self.gate, x), self.gate.out_features // self.heads)
        return super().merge(h * torch.sigmoid(gate))


class Differential(Heads):
    """Heads that subtract what two softmaxes agree on: noise cancels, as in a differential amplifier.

    head = (1 - initial) * norm((softmax(q_1 k_1) - lambda softmax(q_2 k_2)) V)
    lambda = exp(a_1.b_1) - exp(a_2.b_2) + initial

    Each head attends twice, so there are 2 * heads heads of queries and keys, of half the dim, which share the values of
    their pair; the attention itself is the plain one. The paper's `initial` is 0.8 - 0.6 exp(-0.3 layer).

    Args:
        width: numbers in an input.
        heads: how many differences there are.
        initial: where lambda starts.
        bias: whether the projections have a bias.

    >>> heads = Differential(width=8, heads=2)
    >>> heads.heads, heads.dim, heads.value_heads, heads.value_dim
    (4, 2, 2, 4)

    Ye et al. (2024), arXiv:2410.05258.
    """

    def __init__(self, width: int, heads: int, initial: float = 0.8, bias: bool = False) -> None:
        super().__init__()
        value_dim = _split_width(width, heads)
        require(value_dim % 2 == 0, f"width / heads must be even: got width={width}, heads={heads}")
        self._sizes(width, 2 * heads, value_dim // 2, value_dim)
        self.value_heads, self.initial = heads, initial
        self.query, self.key, self.value, self.out = (linear(width, width, bias) for _ in "qkvo")
        self.norm = HeadNorm(value_dim, 1e-5)
        self.factors = nn.Parameter(0.1 * torch.randn(4, self.dim))  # a_1, b_1, a_2, b_2

    def queries(self, x: Input) -> Vectors:
        return split(called(self.query, x), self.dim)

    def keys(self, memory: Input) -> Vectors:
        return split(called(self.key, memory), self.dim)

    def values(self, memory: Input) -> Vectors:
        return split(called(self.value, memory), self.value_dim)

    def merge(self, h: Vectors) -> Input:
        a, b, c, d = self.factors.to(h.dtype)
        share = (a @ b).exp() - (c @ d).exp() + self.initial
        return called(self.out, join(self.norm(h[:, ::2] - share * h[:, 1::2]) * (1 - self.initial)))


class Latent(Heads):
    """Keys and values of all heads are made from one short vector per place: the only thing that a cache keeps.

    c_j = norm(W_c x_j);  k_j = U_h c_j, v_j = V_h c_j;  score = q.k_j + q'.r_j, with r_j = W_r x_j for rotary positions

    U_h is applied to the query and V_h to the output instead, which gives the same, so that c_j is key and value of one head.
    With `rotary` numbers that a position may rotate, pass `Rotary(dim=heads.dim, part=rotary / heads.dim)`.

    Args:
        width: numbers in an input.
        heads: how many heads there are.
        latent: numbers in the vector of a place.
        dim: numbers in a key and in a value of one head; None is width / heads.
        rotary: further numbers in a query and in the key, for a position.
        bias: whether the output has a bias.

    >>> heads = Latent(width=8, heads=2, latent=3, rotary=2)
    >>> heads.keys(torch.zeros(1, 5, 8)).shape, heads.values(torch.zeros(1, 5, 8)).shape
    (torch.Size([1, 1, 5, 5]), torch.Size([1, 1, 5, 3]))

    DeepSeek-AI (2024), arXiv:2405.04434, 2.1.
    """

    def __init__(
        self, width: int, heads: int, latent: int, dim: int | None = None, rotary: int = 0, bias: bool = False
    ) -> None:
        super().__init__()
        inner = _split_width(width, heads) if dim is None else dim
        require(
            min(latent, inner) >= 1 and rotary >= 0, f"sizes must be positive: got latent={latent}, rotary={rotary}"
        )
        self._sizes(width, heads, rotary + latent, latent)
        self.key_heads = self.value_heads = 1
        self.scale_dim, self.shared_from = inner + rotary, rotary
        self.query = linear(width, heads * (inner + rotary), False)
        self.down = linear(width, rotary + latent, False)
        self.norm = HeadNorm(latent, 1e-6)
        self.key_up, self.value_up = (nn.Parameter(_glorot(heads, inner, latent)) for _ in "kv")
        self.out = linear(heads * inner, width, bias)

    def queries(self, x: Input) -> Vectors:
        q, rotary = (
            split(called(self.query, x), self.out.in_features // self.heads + int(self.shared_from or 0)),
            self.shared_from,
        )
        return torch.cat([q[..., :rotary], q[..., rotary:] @ self.key_up.to(q.dtype)], dim=-1)

    def keys(self, memory: Input) -> Vectors:
        c = called(self.down, memory).unsqueeze(1)
        return torch.cat([c[..., : self.shared_from], self.norm(c[..., self.shared_from :])], dim=-1)

    def values(self, memory: Input) -> Vectors:
        return self.keys(memory)[..., self.shared_from :]

    def remember(self, memory: Memory, values: MemoryValues) -> tuple[Keys, Values]:
        k = self.keys(memory)
        return k, k[..., self.shared_from :] if values is memory else self.values(values)

    def merge(self, h: Vectors) -> Input:
        return called(self.out, join(h @ self.value_up.to(h.dtype).mT))

    def fits(self, score: Any, where: Any, position: Any, normalizer: Any) -> str | None:
        return _rotates_only(position, int(self.shared_from or 0), self.dim)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, latent={self.value_dim}, rotary={self.shared_from}"


class Forgetting(MultiHead):
    """Heads that forget: a gate at every place lowers the scores of all that lies before it.

    e_ij = q_i.k_j / sqrt(dim) + sum over l = j + 1 .. i of log f_l,  f_l = sigmoid(w_h.x_l + b_h)

    The sum is c_i - c_j with c_i the sum up to i. A softmax does not see c_i, which is the same for all keys of a query; -c_j
    is one more number in the key, so that every fused kernel takes these heads. A step with a cache goes on from the last c_j.

    Args:
        width: numbers in an input.
        heads: how many heads there are.
        dim: numbers in a query and in a key of one head, without the further one; None is width / heads.
        bias: whether the projections have a bias; or the letters of those that have one, of q, k, v and o.

    >>> Forgetting(width=8, heads=2).keys(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 2, 3, 5])

    Lin et al. (2025), arXiv:2503.02130.
    """

    def __init__(self, width: int, heads: int, dim: int | None = None, bias: bool | str = True) -> None:
        super().__init__(width, heads, dim, bias=bias)
        self.forget = linear(width, heads, True)
        nn.init.constant_(self.forget.bias, 3.0)  # it starts by remembering: f is about 0.95
        self.value_dim = self.dim
        self.dim = self.key_dim = self.dim + 1

    def queries(self, x: Input) -> Vectors:
        q = split(called(self.query, x), self.dim - 1)
        return torch.cat([q, torch.ones_like(q[..., :1])], dim=-1)

    def keys(self, memory: Input) -> Vectors:
        return self._after(memory, None)

    def _after(self, memory: Input, before: Before | None) -> Vectors:
        """The keys of places, the sums counted on from the last key before them."""
        k = split(called(self.key, memory), self.dim - 1)
        half = k.dtype in (torch.float16, torch.bfloat16)
        require(not half, f"the sums of Forgetting need more digits than {k.dtype} has: use float32")
        forgotten = -F.logsigmoid(called(self.forget, memory)).cumsum(1).mT.unsqueeze(-1) * (self.dim - 1) ** 0.5
        forgotten = forgotten if before is None else forgotten + before[:, :, -1:, -1:]
        return torch.cat([k, forgotten.to(k.dtype)], dim=-1)

    def project_next(self, x: Input, before: Before) -> tuple[Vectors, Keys, Values]:
        return self.queries(x), self._after(x, before if before.shape[2] else None), self.values(x)

    def fits(self, score: Any, where: Any, position: Any, normalizer: Any) -> str | None:
        if not where.causal:
            return "it counts from the key to the query, so its neighborhood is causal: AND it with Causal()"
        if type(score).__name__ != "Dot" or not score.by_default:
            return "the forgetting is added to a dot product over sqrt(dim): use Dot()"
        if type(normalizer).__name__ not in ("Softmax", "Sparsemax", "Entmax15", "SoftmaxTopK"):
            return "its normalizer must not change when the same number is added to all scores: use Softmax()"
        return _rotates_only(position, self.dim - 1, self.dim)


def _rotates_only(position: Any, first: int, dim: int) -> str | None:
    """Why a position does not fit, if it rotates more than the first numbers of a query."""
    rates = getattr(position, "rates", None)
    if "rotate" not in position.acts or (rates is not None and rates.dim <= first):
        return None
    return f"a position may rotate the first {first} of {dim} numbers only: Rotary(dim={dim}, part={first} / {dim})"


def _glorot(heads: int, rows: int, columns: int) -> Tensor:
    """Uniform numbers of variance 2 / (rows + columns) for each head."""
    return torch.empty(heads, rows, columns).uniform_(-1, 1) * (6 / (rows + columns)) ** 0.5


def split(x: Input, dim: int) -> Vectors:
    """(batch, n, heads * dim) to (batch, heads, n, dim). Raw views, as in `join`: named ones take longer than a small layer."""
    return x.unflatten(-1, (-1, dim)).transpose(1, 2)


def join(h: Vectors) -> Input:
    """(batch, heads, n, dim) to (batch, n, heads * dim)."""
    return h.transpose(1, 2).flatten(2)


def _split_width(width: int, heads: int) -> int:
    """width / heads, which must be an integer."""
    message = f"width must be divisible by heads: got width={width}, heads={heads}. Change one, or give dim."
    require(heads >= 1 and width % heads == 0, message)
    return width // heads


def linear(width: int, out: int, bias: bool) -> nn.Linear:
    """A linear layer that starts with Glorot weights and no bias."""
    layer = nn.Linear(width, out, bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer

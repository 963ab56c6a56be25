"""From scores to weights. A masked score has weight 0, and a query that sees nothing has only zeros, never NaN."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.dropout import dropout
from mirada.attention.transforms import ThreadRegistry, recomputing, refuse_alone, reset_inherited, to_be_recomputed
from mirada.errors import require

Scores = Float[Tensor, "batch heads queries keys"]
Mask = Bool[Tensor, "#batch #heads #queries #keys"]
Rows = Float[Tensor, "batch heads queries"]


@dataclass(frozen=True, eq=False)
class Draw:
    """What a hard normalizer chose for every query. `index` is -1 where the neighborhood is empty.

    `soft` marks the rows that kept their soft weights instead of the sample.
    """

    log_probability: Rows
    entropy: Rows
    index: Int[Tensor, "batch heads queries"]
    soft: Bool[Tensor, "batch heads queries"]

    def one_hot(self, keys: int, dtype: torch.dtype) -> Scores:
        """The choice as weights."""
        return (self.index.unsqueeze(-1) == torch.arange(keys, device=self.index.device)).to(dtype)

    @staticmethod
    def join(draws: "list[Draw]") -> "Draw":
        """The draws of consecutive queries as one."""
        return Draw(*(torch.cat(parts, dim=2) for parts in zip(*(draw._parts() for draw in draws), strict=True)))

    def rows(self, first: int, last: int) -> "Draw":
        """The draws of the queries first, ..., last - 1."""
        return Draw(*(part[:, :, first:last] for part in self._parts()))

    def detach(self) -> "Draw":
        """The same draw without its gradients."""
        return Draw(*(part.detach() for part in self._parts()))

    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.log_probability, self.entropy, self.index, self.soft


class Draws(list[Draw]):
    """The draws of all attention calls made inside `draws()`, in their order."""

    def log_probability(self) -> Float[Tensor, " batch"]:
        """The log-probability of everything that was drawn, per sample: what REINFORCE differentiates."""
        return self._sum("log_probability")

    def entropy(self) -> Float[Tensor, " batch"]:
        """The summed entropy of all draws, per sample: a bonus for exploration."""
        return self._sum("entropy")

    def _sum(self, name: str) -> Float[Tensor, " batch"]:
        require(len(self) > 0, "nothing was drawn: no layer with a Hard normalizer ran in training mode")
        return torch.stack([getattr(draw, name).sum((1, 2)) for draw in self]).sum(0)


_collectors: ThreadRegistry[tuple[bool, Draws]] = (
    ThreadRegistry()
)  # whether gradients are wanted, and what is collected


@contextmanager
def draws() -> Iterator[Draws]:
    """Collect log-probability, entropy and chosen index of every draw made inside, in this thread.

    What a backward pass computes again (activation checkpointing) is no new draw. A reentrant checkpoint is refused: it draws
    without gradients first, and with gradients only in the backward pass.

    >>> from mirada import attend
    >>> q = torch.zeros(1, 1, 2, 4)
    >>> with draws() as d:
    ...     _ = attend(q, q, q, normalizer=Hard())
    >>> d[0].log_probability.exp().tolist()
    [[[0.5, 0.5]]]
    """
    collected = Draws()
    with _collectors.holding((torch.is_grad_enabled(), collected)):
        yield collected


def publish(draw: Draw) -> None:
    """Hand a draw to every open `draws()` of this thread."""
    for gradients, collected in () if recomputing() else _collectors.here():
        if gradients and to_be_recomputed():
            raise ValueError(
                "draws() cannot collect from inside torch.utils.checkpoint with use_reentrant=True: what is drawn there has no "
                "gradient. Pass use_reentrant=False."
            )
        collected.append(draw)


class Normalized(NamedTuple):
    """Weights, and the choice behind them where there was one.

    Args:
        weights: one per pair, (batch, heads, queries, keys).
        draw: what a hard normalizer chose; None for the others.

    >>> Normalized(torch.ones(1, 1, 2, 1)).draw is None
    True
    """

    weights: Scores
    draw: Draw | None = None


class Normalizer(nn.Module):
    """weights = normalizer(scores, mask), of the same shape.

    A subclass implements `normalize`, with weight 0 for every masked key; `drop` changes the weights in training.
    One that declares `rowwise = True` says that the weights of a query depend on its own scores and mask only: then long
    sequences are computed in chunks of queries. A layer tries this out when it is built.

    Args:
        The base class takes none; a subclass declares its own.

    >>> class Uniform(Normalizer):
    ...     rowwise = True
    ...     def normalize(self, scores, mask):
    ...         seen = mask.expand_as(scores).to(scores.dtype)
    ...         return Normalized(seen / seen.sum(-1, keepdim=True).clamp(min=1))
    >>> Uniform()(torch.zeros(1, 1, 1, 4)).tolist()
    [[[[0.25, 0.25, 0.25, 0.25]]]]
    """

    chooses: bool = False  # picks one key per query
    rowwise: ClassVar[bool] = False  # the weights of a query depend on its own scores and mask only

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        reset_inherited(cls, Normalizer, "normalize", ("rowwise",))
        refuse_alone(cls, "forward", "normalize", "which no kernel calls: write normalize(scores, mask)")

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        """The weights and, for a hard normalizer, what it chose."""
        raise NotImplementedError

    def drop(self, weights: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """The weights that multiply the values in training: with dropout, if the normalizer has any."""
        return weights

    def forward(self, scores: Scores, mask: Mask | None = None) -> Scores:
        """The weights; without a mask every key is seen."""
        if mask is None:
            mask = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=scores.device)
        return self.normalize(scores, mask).weights


class Softmax(Normalizer):
    """Weights that are positive and sum to one.

    alpha_ij = exp(e_ij) / sum over j' in N(i) of exp(e_ij')

    `dropout` zeroes weights at random in training. It costs the fused kernels, which cannot drop inside; dropping in the
    residual stream does not. Weights shown by `look` are those before dropout.

    Args:
        dropout: the share of the weights that are zeroed in training.

    >>> Softmax()(torch.tensor([[[[0.0, 0.0, 5.0]]]]), torch.tensor([[[[True, True, False]]]])).tolist()
    [[[[0.5, 0.5, 0.0]]]]
    """

    rowwise = True

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        require(0 <= dropout < 1, f"dropout must lie in [0, 1): got {dropout}")
        self.dropout = dropout

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        return Normalized(masked_softmax(scores, mask))

    def drop(self, weights: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        return dropout(weights, self.dropout) if self.training else weights

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}" if self.dropout else ""


class Sparsemax(Normalizer):
    """The nearest point of the simplex: like a softmax, with exact zeros.

    alpha_i = argmin over the simplex of |p - e_i|^2 = max(e_i - tau, 0)

    Args:
        It takes none.

    >>> Sparsemax()(torch.tensor([[[[1.0, 0.9, -3.0]]]])).round(decimals=3).tolist()
    [[[[0.550000011920929, 0.44999998807907104, 0.0]]]]

    Martins and Astudillo (2016), arXiv:1602.02068.
    """

    rowwise = True

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        seen = mask.expand_as(scores)
        if not scores.shape[-1]:
            return Normalized(scores)
        shifted = scores - scores.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True).nan_to_num(neginf=0).detach()
        # sorted descending, masked keys last: they can never be in the support
        ranked, order = shifted.masked_fill(~seen, -torch.inf).sort(dim=-1, descending=True)
        real = seen.gather(-1, order)
        ranked = ranked.masked_fill(~real, 0)
        rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
        inside = real & (1 + rank * ranked > ranked.cumsum(-1))
        size = inside.sum(-1, keepdim=True).clamp(min=1)
        tau = (ranked.masked_fill(~inside, 0).sum(-1, keepdim=True) - 1) / size
        return Normalized((shifted - tau).clamp(min=0).masked_fill(~seen, 0))


class Entmax15(Normalizer):
    """Between a softmax and `Sparsemax`: smooth weights with exact zeros.

    alpha_ij = max(e_ij / 2 - tau_i, 0)^2, with the tau_i that makes them sum to one

    Args:
        It takes none.

    >>> Entmax15()(torch.tensor([[[[2.0, 2.0, -9.0]]]])).round(decimals=4).tolist()
    [[[[0.5, 0.5, 0.0]]]]

    Peters, Niculae and Martins (2019), arXiv:1905.05702.
    """

    rowwise = True

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        seen = mask.expand_as(scores)
        if not scores.shape[-1]:
            return Normalized(scores)
        top = scores.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True).nan_to_num(neginf=0).detach()
        half = (scores - top) / 2
        with torch.no_grad():  # which keys have a weight: the longest prefix whose own tau lies below its last score
            ranked, order = half.masked_fill(~seen, -torch.inf).sort(dim=-1, descending=True)
            real = seen.gather(-1, order)
            ranked = ranked.masked_fill(~real, 0)
            inside = real & (
                _tau(ranked.cumsum(-1), ranked.square().cumsum(-1), real.cumsum(-1).clamp(min=1)) <= ranked
            )
            count = inside.sum(-1, keepdim=True)
            last = ranked.gather(-1, (count - 1).clamp(min=0))
            support = seen & (half >= last) & (count > 0)
        chosen = half.masked_fill(~support, 0)
        size = support.sum(-1, keepdim=True).clamp(min=1)
        tau = _tau(chosen.sum(-1, keepdim=True), chosen.square().sum(-1, keepdim=True), size)
        return Normalized((half - tau).clamp(min=0).square().masked_fill(~support, 0))


def _tau(total: Tensor, squares: Tensor, count: Tensor) -> Tensor:
    """The tau for which `count` numbers z of that sum and sum of squares have (z - tau)^2 that sum to one."""
    mean = total / count
    return mean - ((1 - (squares - mean * total)) / count).clamp(min=torch.finfo(total.dtype).tiny).sqrt()


class SoftmaxTopK(Normalizer):
    """A softmax over the k largest scores of each query; the other keys have no weight.

    alpha_i = softmax of the e_ij that are at least the k-th largest of N(i)

    Scores that equal the k-th largest are all kept.

    Args:
        k: how many keys a query keeps.

    >>> SoftmaxTopK(2)(torch.tensor([[[[1.0, 5.0, 5.0, -2.0]]]])).tolist()
    [[[[0.0, 0.5, 0.5, 0.0]]]]

    Gupta et al. (2021), arXiv:2106.06899.
    """

    rowwise = True

    def __init__(self, k: int) -> None:
        super().__init__()
        require(k >= 1, f"k must be at least 1: got {k}")
        self.k = k

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        if scores.shape[-1] <= self.k:
            return Normalized(masked_softmax(scores, mask))
        least = scores.masked_fill(~mask, -torch.inf).topk(self.k, dim=-1).values[..., -1:]
        return Normalized(masked_softmax(scores, mask & (scores >= least)))

    def extra_repr(self) -> str:
        return str(self.k)


class Sigmoid(Normalizer):
    """Each key is weighed by itself: keys do not compete.

    alpha_ij = sigmoid(e_ij + b),  b = -log n unless given, with n keys in N(i)

    The paper's b is -log of the whole length; a number per query, by the keys that it sees, is the same for queries that see
    all, and does not change when a text is decoded step by step.

    Args:
        bias: what is added to every score; None for -log n.

    >>> Sigmoid()(torch.tensor([[[[0.0, 0.0]]]])).round(decimals=4).tolist()
    [[[[0.33329999446868896, 0.33329999446868896]]]]

    Ramapuram et al. (2024), arXiv:2409.04431.
    """

    rowwise = True

    def __init__(self, bias: float | None = None) -> None:
        super().__init__()
        self.bias = bias

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        seen = mask.expand_as(scores)
        if self.bias is not None:
            return Normalized(torch.sigmoid(scores + self.bias).masked_fill(~seen, 0))
        count = seen.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
        return Normalized(torch.sigmoid(scores - count.log()).masked_fill(~seen, 0))

    def extra_repr(self) -> str:
        return "" if self.bias is None else f"bias={self.bias:g}"


class SoftmaxPlusOne(Normalizer):
    """A softmax in which a head may say nothing.

    alpha_ij = exp(e_ij) / (1 + sum over j' in N(i) of exp(e_ij'))

    It is a softmax with one more key of score 0 and value 0, and is computed so by fused kernels.

    Args:
        It takes none.

    >>> SoftmaxPlusOne()(torch.tensor([[[[0.0, 0.0, 0.0]]]])).tolist()
    [[[[0.25, 0.25, 0.25]]]]

    Miller (2023), "Attention is off by one".
    """

    rowwise = True

    def sink(self, like: Tensor) -> Float[Tensor, "1 #heads 1 1"]:
        """The score of the further key."""
        return torch.zeros((1, 1, 1, 1), dtype=like.dtype, device=like.device)

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        sink = self.sink(scores).expand(*scores.shape[:3], 1)
        return Normalized(torch.cat([scores.masked_fill(~mask, -torch.inf), sink], dim=-1).softmax(-1)[..., :-1])


class Sinks(SoftmaxPlusOne):
    """A softmax with a trained score per head for a further key whose value is 0, as in gpt-oss.

    alpha_ij = exp(e_ij) / (exp(s_h) + sum over j' in N(i) of exp(e_ij'))

    Args:
        heads: how many heads there are.

    >>> sinks = Sinks(heads=2)
    >>> sinks.scores.data[1] = 2.0
    >>> sinks(torch.zeros(1, 2, 1, 1)).flatten().round(decimals=4).tolist()
    [0.5, 0.11919999867677689]

    OpenAI (2025), arXiv:2508.10925; Xiao et al. (2024), arXiv:2309.17453.
    """

    rowwise = True

    def __init__(self, heads: int) -> None:
        super().__init__()
        require(heads >= 1, f"heads must be at least 1: got {heads}")
        self.scores = nn.Parameter(torch.zeros(heads))

    def sink(self, like: Tensor) -> Float[Tensor, "1 #heads 1 1"]:
        return self.scores.to(like.dtype).view(1, -1, 1, 1)

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        if scores.shape[1] != len(self.scores):
            raise ValueError(
                f"Sinks has a score per head: got heads={scores.shape[1]}, made for heads={len(self.scores)}"
            )
        return super().normalize(scores, mask)

    def extra_repr(self) -> str:
        return f"heads={len(self.scores)}"


class Identity(Normalizer):
    """The scores are the weights: unbounded, as in a convolution.

    Args:
        It takes none.

    >>> Identity()(torch.tensor([[[[2.0, -3.0]]]]), torch.tensor([[[[True, False]]]])).tolist()
    [[[[2.0, 0.0]]]]
    """

    rowwise = True

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        return Normalized(scores.masked_fill(~mask, 0))


class Hard(Normalizer):
    """Look at one place only, drawn with the softmax probabilities; at test time at the likeliest.

    index_i ~ softmax(e_i) in training, argmax(e_i) in evaluation; alpha_i = one_hot(index_i)

    A draw has no gradient: `with draws() as d:` collects log-probabilities and entropies for REINFORCE, whose reward and
    baseline belong to the training objective. With probability `soft` a query keeps its soft weights instead, which lowers
    the variance (Xu et al. use 0.5). `StraightThrough` and `Gumbel` are estimators with a gradient of their own.

    Args:
        soft: the probability of keeping the soft weights of a query.

    >>> Hard().eval()(torch.tensor([[[[1.0, 3.0, 2.0]]]])).tolist()
    [[[[0.0, 1.0, 0.0]]]]

    Xu et al. (2015), arXiv:1502.03044, 4.1.
    """

    chooses = True
    rowwise = True

    def __init__(self, soft: float = 0.0) -> None:
        super().__init__()
        require(0 <= soft <= 1, f"soft is a probability: got {soft}")
        self.soft = soft

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        probabilities = masked_softmax(scores, mask)
        seen = mask.expand_as(scores).any(-1)
        index, smooth = self.choose(scores, mask, probabilities) if scores.shape[-1] else (seen.long(), None)
        draw = self.describe(index.masked_fill(~seen, -1), probabilities)
        weights = draw.one_hot(scores.shape[-1], scores.dtype)
        if smooth is not None:
            weights = weights + (smooth - smooth.detach())
        return Normalized(torch.where(draw.soft.unsqueeze(-1), probabilities, weights), draw)

    def choose(self, scores: Scores, mask: Mask, probabilities: Scores) -> tuple[Tensor, Scores | None]:
        """One index per query, and the smooth weights whose gradient replaces that of the choice, if any."""
        if not self.training:
            return probabilities.argmax(-1), None
        # the exponential race: argmax of p / e with e ~ Exp(1). A key of probability 0 never wins
        return (probabilities.detach() / _exponential_like(probabilities)).argmax(-1), None

    def describe(self, index: Int[Tensor, "batch heads queries"], probabilities: Scores) -> Draw:
        """The choice with its log-probability and entropy; -1 stands for a query that sees nothing."""
        one_hot = index.unsqueeze(-1) == torch.arange(probabilities.shape[-1], device=index.device)
        log_probability = torch.where(index < 0, 1, (probabilities * one_hot).sum(-1)).log()
        logs = probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
        entropy = -(probabilities * logs).sum(-1)
        soft = torch.zeros_like(index, dtype=torch.bool)
        if self.training and self.soft:
            soft = soft | (torch.rand(index.shape[0], 1, index.shape[2], device=index.device) < self.soft)
        return Draw(log_probability, entropy, index, soft)

    def extra_repr(self) -> str:
        return f"soft={self.soft}" if self.soft else ""


class StraightThrough(Hard):
    """Hard weights forward, the softmax's gradient backward.

    alpha = one_hot(index) forward, d alpha = d softmax(e) backward

    Args:
        soft: the probability of keeping the soft weights of a query.

    >>> scores = torch.zeros(1, 1, 1, 2, requires_grad=True)
    >>> StraightThrough()(scores)[..., 0].sum().backward()
    >>> scores.grad.tolist()
    [[[[0.25, -0.25]]]]

    Bengio, Léonard and Courville (2013), arXiv:1308.3432.
    """

    def choose(self, scores: Scores, mask: Mask, probabilities: Scores) -> tuple[Tensor, Scores | None]:
        index, _ = super().choose(scores, mask, probabilities)
        return index, probabilities if self.training else None


class Gumbel(Hard):
    """Hard weights forward, the gradient of a softmax with Gumbel noise and a temperature backward.

    index = argmax(e + g),  backward through softmax((e + g) / temperature),  g ~ Gumbel(0, 1)

    Args:
        temperature: how soft the weights are whose gradient is used.

    >>> Gumbel(temperature=0.5)
    Gumbel(temperature=0.5)

    Jang, Gu and Poole (2017), arXiv:1611.01144.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        require(temperature > 0, f"temperature must be positive: got {temperature}")
        self.temperature = temperature

    def choose(self, scores: Scores, mask: Mask, probabilities: Scores) -> tuple[Tensor, Scores | None]:
        if not self.training:
            return super().choose(scores, mask, probabilities)
        noisy = masked_softmax((scores - _exponential_like(scores).log()) / self.temperature, mask)
        return noisy.argmax(-1), noisy

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"


def _exponential_like(tensor: Tensor) -> Tensor:
    """Draws of Exp(1), kept away from 0; -log of one is a Gumbel draw."""
    return torch.empty_like(tensor).exponential_().clamp(min=torch.finfo(tensor.dtype).tiny)


def known(normalizer: Normalizer) -> bool:
    """Whether its weights are those of a class of this file which has no numbers per head."""
    kinds = (Softmax, Sparsemax, Identity, Entmax15, SoftmaxTopK, Sigmoid, SoftmaxPlusOne)
    return type(normalizer).normalize in [kind.normalize for kind in kinds]


def treats_heads_alike(normalizer: Normalizer) -> bool:
    """Whether it is known to treat every head in the same way: that of another package is not."""
    return known(normalizer) and type(normalizer).drop in (Normalizer.drop, Softmax.drop)


def masked_softmax(scores: Scores, mask: Mask) -> Scores:
    """Softmax over the keys that may be seen; zeros, with zero gradients, for a query that sees none.

    An empty row is filled with equal scores first: a row of minus infinities would give NaN, and hiding the NaN afterwards
    would still leave it in the gradient.
    """
    empty = ~mask.any(-1, keepdim=True)
    filled = scores.masked_fill(~mask, -torch.inf).masked_fill(empty, 0)
    return filled.softmax(-1).masked_fill(~mask, 0)

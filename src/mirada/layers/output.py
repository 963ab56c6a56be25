"""The output layer: from a vector to a score for every word, the cross-entropy of the right one, and what may stand before it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mirada.attention.heads import linear
from mirada.attention.transforms import transformed
from mirada.errors import require
from mirada.layers.feedforward import ACTIVATIONS
from mirada.layers.norm import Norm
from mirada.native import passes as compiled
from mirada.native.library import plain_gradients, serves
from mirada.native.products import faster, product
from mirada.shapes import check_integers, readable, show

ROWS_AT_ONCE = 512  # rows of logits per chunk; measured, see docs/log.md
ROWS_ON_GPU = 4096  # the same where chunks are not in the caches of a CPU: fewer launches
SMALL = 2**17  # up to so many logits, one chunk is faster
IGNORED = -100  # a target that does not count
BEFORE_SCORES = {**ACTIVATIONS, "tanh": torch.tanh}  # what a `Transform` may apply


class Output(nn.Module):
    """logits = W (scale h) + b, with a table W of its own or that of the embedding (`tied`).

    Args:
        width: numbers in a vector.
        vocab: how many words there are.
        bias: whether there is a trained number per word.
        tied: the table of the embedding, to be shared.
        scale: what vectors are multiplied by: T5 takes 1 / sqrt(width) where the table is tied.

    >>> output = Output(4, vocab=10)
    >>> output(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 10])
    >>> round(output.loss(torch.zeros(2, 3, 4), torch.ones(2, 3, dtype=torch.int64)).item(), 4)  # log 10
    2.3026

    Press and Wolf (2017), arXiv:1608.05859.
    """

    def __init__(
        self, width: int, vocab: int, bias: bool = True, tied: nn.Parameter | None = None, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.scale = scale
        self.weight = linear(width, vocab, bias=False).weight if tied is None else tied
        message = f"a tied output needs a table of ({vocab}, {width}): got {show(self.weight)}"
        require(self.weight.shape == (vocab, width), message)
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None

    def forward(self, h: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """A score for every word."""
        return F.linear(self._scaled(h), self.weight, self.bias)

    def loss(
        self, h: Float[Tensor, "*batch width"], targets: Int[Tensor, "*batch"], smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy over the targets that are not `IGNORED`; 0 where there is none.

        loss = -(1 - smoothing) log p(target) - smoothing mean over the vocabulary of log p
        """
        return cross_entropy(self._scaled(h), self.weight, self.bias, targets, smoothing)

    def _scaled(self, h: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        return h if self.scale == 1.0 else h * self.scale

    def extra_repr(self) -> str:
        vocab, width = self.weight.shape
        scale = "" if self.scale == 1.0 else f", scale={self.scale:.4g}"
        return f"{width}, vocab={vocab}, bias={self.bias is not None}{scale}"


class Transform(nn.Module):
    """The layer between an encoder and its scores.

    h = norm(act(W x + b))

    Args:
        width: numbers in a vector.
        out: numbers in what comes out.
        activation: tanh, relu, gelu, gelu-tanh, ...
        norm: the norm behind it, where there is one.
        bias: whether there is a b.

    >>> Transform(4, 6, "tanh")(torch.zeros(2, 4)).shape
    torch.Size([2, 6])

    Devlin et al. (2019), arXiv:1810.04805: its pooler, and the first half of its masked language model.
    """

    def __init__(self, width: int, out: int, activation: str, norm: Norm | None = None, bias: bool = True) -> None:
        super().__init__()
        self.activation, self.norm = activation, norm
        self.dense = linear(width, out, bias)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch out"]:
        """The layer at every place."""
        h = BEFORE_SCORES[self.activation](self.dense(x))
        return h if self.norm is None else self.norm(h)

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


def _transform(activation: str) -> Callable[..., Transform]:
    """What makes a `Transform` of that activation; `normed` makes a norm of a width."""

    def made(
        width: int, out: int, normed: Callable[[int], Norm], norm: bool = False, bias: bool = True
    ) -> Transform:  # fmt: skip
        return Transform(width, out, activation, normed(out) if norm else None, bias)

    return made


TRANSFORMS = {name.replace("-", ""): _transform(name) for name in BEFORE_SCORES}  # the words that make one


def cross_entropy(
    h: Float[Tensor, "*batch width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, "*batch"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The mean cross-entropy of a linear layer, in chunks of places, so that the logits are never all in memory.

    Equal to `F.cross_entropy(F.linear(h, weight, bias), targets, label_smoothing=smoothing)`, forward and backward.
    """
    require(isinstance(targets, Tensor), f"targets must be a tensor of token ids: got {type(targets).__name__}")
    message = f"a weight of (vocab, width) for vectors of that width: got h {show(h)}, weight {show(weight)}"
    require(weight.ndim == 2 and h.shape[-1:] == weight.shape[1:], message)
    message = f"a bias for every word: got weight {show(weight)}, bias {show(bias) if bias is not None else None}"
    require(bias is None or bias.shape == weight.shape[:1], message)
    require(h.shape[:-1] == targets.shape, f"a target for every vector: got h {show(h)}, targets {show(targets)}")
    check_smoothing(smoothing)
    check_integers("targets", targets)
    rows, wanted = h.reshape(-1, h.shape[-1]), targets.reshape(-1).long()
    if not readable(rows, wanted):
        return _uncounted_cross_entropy(rows, weight, bias, wanted, smoothing)
    counted = wanted != IGNORED
    if not bool(counted.all()):
        places = counted.nonzero().squeeze(-1)
        rows, wanted = rows.index_select(0, places), wanted.index_select(0, places)
    if len(wanted):
        low, high = (int(bound) for bound in wanted.aminmax())
        fits = low >= 0 and high < len(weight)
        require(fits, f"targets must lie in 0..{len(weight) - 1} or be {IGNORED}: got {low} to {high}")
    precise = rows.dtype == weight.dtype in (torch.float32, torch.float64)
    if precise and 0 < len(wanted) * len(weight) <= SMALL:
        return F.cross_entropy(F.linear(rows, weight, bias), wanted, label_smoothing=smoothing)
    if torch.is_autocast_enabled(h.device.type):
        rows = rows.to(torch.get_autocast_dtype(h.device.type))
    return _ChunkedCrossEntropy.apply(rows, weight, bias, wanted, smoothing, torch.is_grad_enabled())


def check_smoothing(smoothing: float) -> None:
    """Require a share in [0, 1)."""
    require(0 <= smoothing < 1, f"smoothing must lie in [0, 1): got {smoothing}")


def _cross_entropy_backward_(
    logits: Float[Tensor, "n vocab"], bias: Float[Tensor, " vocab"] | None, targets: Int[Tensor, " n"], smoothing: float
) -> Float[Tensor, " n"]:
    """The cross-entropy of logits + bias for every row; the logits become its gradient: softmax - what was wanted of it."""
    if bias is not None:
        logits.add_(bias)
    logits.sub_(logits.amax(-1, keepdim=True))
    wanted = targets.unsqueeze(-1)
    right = (1 - smoothing) * logits.gather(-1, wanted).squeeze(-1)
    if smoothing:
        right += smoothing / logits.shape[-1] * logits.sum(-1)
    sums = logits.exp_().sum(-1, keepdim=True)
    logits.mul_(1 / sums)
    if smoothing:
        logits.sub_(smoothing / logits.shape[-1])
    logits.scatter_add_(-1, wanted, logits.new_full((), smoothing - 1).expand_as(wanted))
    return sums.log().squeeze(-1) - right


def _plain_cross_entropy(
    rows: Float[Tensor, "n width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " n"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The mean cross-entropy by PyTorch's operations, with all logits at once."""
    logits = (rows @ weight.T.to(rows.dtype)).to(torch.promote_types(rows.dtype, torch.float32))
    logits = logits if bias is None else logits + bias
    total = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    return total / max(1, len(rows))


def _uncounted_cross_entropy(
    rows: Float[Tensor, "n width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " n"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The mean cross-entropy where numbers cannot be read: on a GPU, under vmap, in programs.

    In chunks whose logits the backward pass computes again, so that they are never all in memory.
    """
    total = rows.new_zeros((), dtype=torch.promote_types(rows.dtype, torch.float32))
    again = torch.is_grad_enabled() and not transformed() and len(targets) > ROWS_ON_GPU

    def part(rows: Tensor, wanted: Tensor) -> Tensor:
        logits = F.linear(rows, weight, bias).to(total.dtype)
        return F.cross_entropy(logits, wanted, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)

    for some, wanted in zip(rows.split(ROWS_ON_GPU), targets.split(ROWS_ON_GPU), strict=True):
        total = total + (checkpoint(part, some, wanted, use_reentrant=False) if again else part(some, wanted))
    return total / (targets != IGNORED).sum().clamp(min=1)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Forward and backward of one chunk together, while its logits exist; the backward pass only scales."""

    @staticmethod
    def forward(ctx, rows, weight, bias, targets, smoothing, tracked):  # type: ignore[no-untyped-def]
        count = max(1, len(rows))
        precise = torch.float64 if rows.dtype == torch.float64 else torch.float32
        total = rows.new_zeros((), dtype=precise)
        needs = [needed and tracked for needed in ctx.needs_input_grad[:3]]
        d_rows = torch.empty_like(rows, dtype=precise) if needs[0] else None
        d_weight, d_bias = (
            torch.zeros_like(x, dtype=precise) if needed else None
            for x, needed in zip((weight, bias), needs[1:], strict=True)
        )
        serve = serves(rows, weight, *([] if bias is None else [bias]))
        backward_ = compiled.cross_entropy_backward_ if serve else _cross_entropy_backward_
        for first in range(0, len(rows), ROWS_AT_ONCE):
            here = slice(first, first + ROWS_AT_ONCE)
            chunk = rows[here]
            d_logits = (product(chunk, weight) if serve else chunk @ weight.T.to(rows.dtype)).to(precise)
            total += backward_(d_logits, bias, targets[here], smoothing).sum()
            if not tracked:
                continue
            if d_bias is not None:
                d_bias += d_logits.sum(0)
            # the division by the number of places waits: half precision has no room for it
            d_logits = d_logits.to(rows.dtype)
            if d_rows is not None:
                d_rows[here] = product(d_logits, weight.T) if serve else d_logits @ weight.to(rows.dtype)
            if d_weight is not None and serve and faster():
                d_weight += product(d_logits.T, chunk.T)
            elif d_weight is not None and rows.dtype == precise:
                d_weight.addmm_(d_logits.T, chunk)
            elif d_weight is not None:
                d_weight += d_logits.T @ chunk
        ctx.save_for_backward(d_rows, d_weight, d_bias, rows, weight, bias, targets)
        ctx.count, ctx.smoothing = count, smoothing
        return total / count

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        *gradients, rows, weight, bias, targets = ctx.saved_tensors
        given = rows, weight, bias
        if torch.is_grad_enabled():

            def again(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
                return _plain_cross_entropy(rows, weight, bias, targets, ctx.smoothing)

            return *plain_gradients(again, given, ctx.needs_input_grad[:3], grad), None, None, None
        scaled = (None if d is None else d * (grad / ctx.count) for d in gradients)
        return *(None if d is None else d.to(x.dtype) for d, x in zip(scaled, given, strict=True)), None, None, None

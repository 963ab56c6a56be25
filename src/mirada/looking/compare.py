"""Raw attention beside value norms, rollout, gradients and ablation, for one input of any model with logits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.errors import require
from mirada.looking.ablation import drops
from mirada.looking.attribution import Differentiable, differentiable, value_norms
from mirada.looking.methods import Matrix, Methods
from mirada.looking.record import Seen
from mirada.looking.rollout import cross_rollout, rollout
from mirada.looking.stream import Stream

MOST_PLACES = 4096


@torch.inference_mode(False)
@torch.enable_grad()
def compare_methods(
    model: nn.Module,
    inputs: Sequence[Any],
    target: Sequence[int] | Int[Tensor, " rows"] | int | None = None,
    *,
    logits: Callable[[Any], Tensor] | None = None,
    reader: int | None = None,
    without: Callable[[int], Sequence[Any]] | None = None,
    rows: str = "",
    columns: str = "",
) -> Methods:
    """What every output depended on, by five methods, and how far they agree.

    `model(*inputs)` gives logits of (1, rows, vocab) or (1, classes), or `logits` finds them in what it gives; `target` is the
    token of every row or the class, the likeliest by default. The places are those of the input: what the encoder reads where
    there is cross-attention, else the places of self-attention. For a model of classes the attention is that of the query
    `reader` (0 for a [CLS] token), or the mean over all. Ablation hides a place from every layer; `without(place)` gives
    other inputs for it, such as a token replaced. `rows` and `columns` name axes of the labels.

    >>> from mirada.models.transformer import Transformer, TransformerConfig
    >>> model = Transformer(TransformerConfig.tiny()).eval()
    >>> found = compare_methods(model, (torch.tensor([[1, 2, 3]]), None, torch.tensor([[0, 4]])))
    >>> list(found.matrices), found.matrices["rollout"].shape
    (['attention', 'value_norm', 'rollout', 'gradient', 'ablation'], torch.Size([2, 3]))
    """
    require(
        not model.training, "the model is in training mode, where dropout makes every pass another: call model.eval()"
    )
    run = differentiable(model, inputs)
    scores = rows_of(run.result, logits)
    wanted = as_target(target, scores)
    layers = InputLayers.of(run.seen)
    read = AnswerRows(layers, scores.shape[0], reader)

    def log_probability(given: Sequence[Any] = inputs) -> Float[Tensor, " rows"]:
        found = rows_of(model(*given), logits).log_softmax(-1)
        return found[torch.arange(len(wanted)), wanted].float()

    matrices = {"attention": read.mean([x.weights()[0].cpu().float() for x in layers.looking()])}
    matrices["value_norm"] = read.mean([value_norms(call) for call in layers.looking()])
    if layers.around:
        matrices["rollout"] = read.chosen(layers.rolled())
    matrices["gradient"] = gradients(run, layers, scores, wanted)
    if without is None:
        change = drops(log_probability, [layer_named(model, name) for name in layers.hiding()], layers.places)
    else:
        with torch.no_grad():
            whole = log_probability()
            change = torch.stack([whole - log_probability(without(place)) for place in range(layers.places)], dim=1)
    matrices["ablation"] = change.cpu().clamp(min=0)
    return Methods.of(matrices, rows, columns)


def rows_of(result: Any, logits: Callable[[Any], Tensor] | None) -> Float[Tensor, "rows vocab"]:
    """The logits of the one sample."""
    found = result if logits is None else logits(result)
    if not isinstance(found, Tensor) and isinstance(found, tuple) and found and isinstance(found[0], Tensor):
        found = found[0]
    require(
        isinstance(found, Tensor) and found.ndim in (2, 3) and found.shape[0] == 1,
        "comparing methods needs one sample and logits of (1, rows, vocab) or (1, classes): "
        f"got {tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__}. Say where they are with logits=",
    )
    return found[0] if found.ndim == 3 else found


def as_target(target: Any, scores: Float[Tensor, "rows vocab"]) -> Int[Tensor, " rows"]:
    """The token of every row."""
    if target is None:
        return scores.detach().argmax(-1)
    found = torch.as_tensor(target, device=scores.device).reshape(-1)
    require(
        len(found) == len(scores) and not found.is_floating_point(),
        f"the target needs a token for each of the {len(scores)} rows: got {len(found)}",
    )
    vocab = scores.shape[1]
    require(int(found.min()) >= 0 and int(found.max()) < vocab, f"the target's tokens must lie in 0..{vocab - 1}")
    return found.long()


@dataclass(frozen=True, eq=False)
class InputLayers:
    """The layers that look at the input: `cross` from a decoder, `around` among the places of the input themselves."""

    cross: dict[str, Stream]
    around: dict[str, Stream]

    @classmethod
    def of(cls, seen: Seen) -> "InputLayers":
        """Where there is cross-attention, self-attention counts if it is not the decoder's: of another part of the model."""
        streams = {name: Stream.of(seen[name].calls) for name in seen.names}
        streams = {name: stream for name, stream in streams.items() if stream.edges is None}
        cross = {name: stream for name, stream in streams.items() if stream.last.kind == "cross"}
        around = {name: stream for name, stream in streams.items() if stream.last.kind == "self"}
        if cross:
            writing, places = {name.split(".")[0] for name in cross}, next(reversed(cross.values())).keys
            cross = {name: stream for name, stream in cross.items() if stream.keys == places}
            around = {name: s for name, s in around.items() if name.split(".")[0] not in writing}
        else:
            places = next(reversed(around.values())).keys if around else 0
        around = {name: s for name, s in around.items() if (s.queries, s.keys) == (places, places)}
        require(bool(cross or around), "the model has no dense attention over the places of its input")
        require(places <= MOST_PLACES, f"methods are compared over at most {MOST_PLACES} places: got {places}")
        return cls(cross, around)

    @property
    def places(self) -> int:
        return next(iter((self.cross or self.around).values())).keys

    def looking(self) -> "list[JoinedCall]":
        """The streams whose rows stand for the outputs."""
        return [JoinedCall(stream) for stream in (self.cross or self.around).values()]

    def hiding(self) -> list[str]:
        return [*self.around, *self.cross]

    def rolled(self) -> Matrix:
        around = (whole(stream) for stream in self.around.values())
        return cross_rollout(map(whole, self.cross.values()), around) if self.cross else rollout(around)


@dataclass(frozen=True, eq=False)
class JoinedCall:
    """A stream asked like one call: all steps at once."""

    stream: Stream

    def weights(self) -> Float[Tensor, "1 heads queries keys"]:
        return whole(self.stream)[None]

    def values(self) -> Float[Tensor, "1 heads keys value_dim"]:
        return self.stream.values()[None]


def whole(stream: Stream) -> Float[Tensor, "heads queries keys"]:
    return torch.cat([piece for _, piece in stream.pieces()], dim=1)


@dataclass(frozen=True, eq=False)
class AnswerRows:
    """From rows of attention to rows of the answer: the same ones, or for a class the reader's or the mean of all."""

    layers: InputLayers
    rows: int
    reader: int | None

    def mean(self, layers: Sequence[Float[Tensor, "heads queries keys"]]) -> Matrix:
        return self.chosen(torch.stack([weights.mean(0) for weights in layers]).mean(0))

    def chosen(self, matrix: Float[Tensor, "queries keys"]) -> Matrix:
        if self.reader is not None:
            require(0 <= self.reader < len(matrix), f"reader must lie in 0..{len(matrix) - 1}: got {self.reader}")
            return matrix[self.reader : self.reader + 1].expand(self.rows, -1)
        if len(matrix) == self.rows:
            return matrix
        require(self.rows == 1, f"{self.rows} rows of logits do not fit {len(matrix)} rows of attention")
        return matrix.mean(0, keepdim=True)


def gradients(
    run: Differentiable, layers: InputLayers, scores: Float[Tensor, "rows vocab"], wanted: Int[Tensor, " rows"]
) -> Matrix:
    """alpha x d log p / d alpha, where it is positive, over all layers, heads and queries that look at the input."""
    names, found = layers.hiding(), []
    weights = {name: [call.weights() for call in run.seen[name].calls] for name in names}
    for value in scores.log_softmax(-1)[torch.arange(len(wanted)), wanted]:
        total = torch.zeros(layers.places)
        for name, by_call in run.gradients(value, names).items():
            for alpha, gradient in zip(weights[name], by_call, strict=True):
                total += (alpha * gradient).clamp(min=0).sum((0, 1, 2)).cpu().float()
        found.append(total)
    return torch.stack(found)


def layer_named(model: nn.Module, name: str) -> Attention:
    """The layer that `look` calls by that name."""
    named = {
        n.replace("_orig_mod.", "").removesuffix("_orig_mod").removesuffix("."): m for n, m in model.named_modules()
    }
    layer = named[name]
    assert isinstance(layer, Attention)
    return layer

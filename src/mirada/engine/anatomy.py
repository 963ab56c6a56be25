"""A model taken apart: what a decoding step goes through, in its order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.neighborhoods import Padding
from mirada.attention.positions import Learned, Sinusoidal
from mirada.layers.block import DecoderLayer, EncoderLayer
from mirada.layers.embed import Placed, Words
from mirada.layers.norm import Norm, RMSNorm
from mirada.layers.output import Output
from mirada.layers.residual import Residual
from mirada.layers.stack import Decoder, Encoder
from mirada.models.captioner import Captioner, TransformerCaptionDecoder
from mirada.models.gpt import GPT
from mirada.models.transcriber import Transcriber, TransformerBody
from mirada.models.transformer import SourceMemory, Transformer

FIRST = 64  # positions of which sines are made at once; more are made when they are needed


class Shape(NamedTuple):
    """What all layers of a stack have in common."""

    width: int
    heads: int
    dim: int
    hidden: int
    activation: str
    rms: bool
    post: bool
    cross: bool


class Sublayer(NamedTuple):
    """One residual part of a layer: x + last(f(first(norm(x)))), or the norm of x + last(f(first(x))).

    The `first` are joined: queries, keys and values come from one product.
    """

    norm: Norm
    scale: float  # of the scores, where f is attention
    first: tuple[nn.Linear, ...]
    last: nn.Linear


@dataclass(frozen=True, eq=False)
class Half:
    """A stack with what stands before it: half an encoder-decoder, or a whole decoder-only model."""

    words: Words
    place: Placed
    stack: Encoder | Decoder
    output: Output | None = None  # an encoder has none

    @property
    def layers(self) -> "list[EncoderLayer | DecoderLayer]":
        return list(self.stack.layers)

    @property
    def across(self) -> list[Attention]:
        """The attentions over the source, of a decoder that looks at one."""
        return [layer.cross for layer in self.layers if isinstance(layer, DecoderLayer)]

    @property
    def shape(self) -> Shape:
        return shape_of(self.layers[0])

    @property
    def sublayers(self) -> list[Sublayer]:
        """Those of all layers, in the order of a step."""
        return [sublayer for layer in self.layers for sublayer in sublayers_of(layer)]


@dataclass(frozen=True, eq=False)
class Anatomy:
    """What decodes in a model, what reads its source (if the engine knows how to), and what `encode` gives of it."""

    decoder: Half
    reader: Half | None = None
    source: Callable[[Any], tuple[Tensor, Padding | None]] | None = None  # None: there is no source
    encoded: Callable[[Tensor, Padding | None], Any] | None = None  # the other way round, where there is a reader


def anatomy(model: nn.Module) -> Anatomy:
    """The parts of a model that `fits` takes."""
    match model:
        case Transformer():
            return Anatomy(
                Half(model.target_words, model.target_place, model.decoder, model.output),
                Half(model.source_words, model.source_place, model.encoder),
                lambda memory: (memory.states, memory.padding),
                SourceMemory,
            )
        case GPT():
            return Anatomy(Half(model.words, model.place, model.decoder, model.output))
        case Transcriber(body=TransformerBody() as body):
            return Anatomy(
                Half(model.words, body.target_place, body.decoder, model.output),
                source=lambda memory: (memory.states, memory.padding),
            )
        case Captioner(decoder=TransformerCaptionDecoder() as teller):
            return Anatomy(
                Half(model.words, teller.place, teller.stack, model.output),
                source=lambda memory: (memory.cells, None),
            )
    raise ValueError(f"no engine knows a {type(model).__name__}")


def shape_of(layer: EncoderLayer | DecoderLayer) -> Shape:
    """The sizes and kinds of a layer."""
    heads, around, feed = layer.self.heads, layer.around_self, layer.feed
    rms, post, cross = type(around.norm) is RMSNorm, around.order == "post", isinstance(layer, DecoderLayer)
    hidden, activation = feed.widen.out_features, str(feed.activation)  # type: ignore[union-attr]
    return Shape(heads.width, heads.heads, heads.dim, hidden, activation, rms, post, cross)


def sublayers_of(layer: EncoderLayer | DecoderLayer) -> list[Sublayer]:
    """The parts of a layer in the order of a step."""

    def attention(module: Attention, around: Residual, *names: str) -> Sublayer:
        heads, factor = module.heads, module.score.factor(module.heads.dim)  # type: ignore[operator]
        return Sublayer(around.norm, float(factor), tuple(getattr(heads, name) for name in names), heads.out)  # type: ignore[arg-type]

    parts = [attention(layer.self, layer.around_self, "query", "key", "value")]
    if isinstance(layer, DecoderLayer):
        parts.append(attention(layer.cross, layer.around_cross, "query"))
    return [*parts, Sublayer(layer.around_feed.norm, 1.0, (layer.feed.widen,), layer.feed.narrow)]


def joined(*linears: nn.Linear | Output) -> tuple[Tensor, Tensor]:
    """Weight and bias of several linear layers of one input, as those of one; no copy of a single one's weight."""
    weights = [linear.weight.detach() for linear in linears]
    biases = [
        weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach()
        for linear, weight in zip(linears, weights, strict=True)
    ]
    return (weights[0], biases[0]) if len(linears) == 1 else (torch.cat(weights), torch.cat(biases))


class PositionTable:
    """What a position adds at place 0, 1, 2, ... It grows by being replaced, so that threads may read it while it does."""

    def __init__(self, half: Half) -> None:
        self.position, self.like = half.place.position, half.words.weight
        self.most: int | None = None
        self.table: Tensor | None = None
        if isinstance(self.position, Learned):
            self.most, self.table = len(self.position.table), self.position.table.detach()

    def reaches(self, last: int) -> bool:
        """Whether there are positions for all places up to that one."""
        return self.most is None or last < self.most

    def up_to(self, last: int) -> Float[Tensor, "places width"] | None:
        """The vectors of all places up to one that it `reaches`, or further; None: nothing is added."""
        table = self.table
        if isinstance(self.position, Sinusoidal) and (table is None or last >= len(table)):
            with torch.inference_mode(False):
                places = torch.arange(max(FIRST, 2 * last), device=self.like.device)
                table = self.table = self.position(places, dtype=self.like.dtype)
        return table

"""Which models an engine takes, and why not the others: modules that it knows exactly, with nothing attached to them.

A replacement for a module (an adapter, a quantized layer, a subclass, a parametrization) computes something else, so types must
be exactly those of these tables, not subclasses of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from mirada.attention.equation import Attention
from mirada.attention.heads import Grouped, HeadNorm, MultiHead, Split
from mirada.attention.neighborhoods import Causal, Complete, Monotonic, Padding, Window
from mirada.attention.normalizers import Gumbel, Hard, Identity, Softmax, Sparsemax, StraightThrough
from mirada.attention.places import Places
from mirada.attention.positions import ALiBi, Learned, LocalGaussian, Position, Relative, Rotary, Sinusoidal, T5Bias
from mirada.attention.scores import Additive, Bilinear, Concat, Dot, Location, TanhSum
from mirada.layers.block import DecoderLayer, EncoderLayer, Residual
from mirada.layers.convolution import Stem1d, Stem2d
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, Patches, TokenEmbedding
from mirada.layers.feedforward import FeedForward, Gated
from mirada.layers.norm import LayerNorm, Norm, RMSNorm
from mirada.layers.output import Output
from mirada.layers.recurrent import GATES, BahdanauDecoder, LookingDecoder, LuongDecoder, PlainDecoder, Recurrent
from mirada.layers.stack import Decoder, Encoder, Layers, Stack
from mirada.models import captioner
from mirada.models.gpt import GPT
from mirada.models.seq2seq import Seq2Seq
from mirada.models.transcriber import LuongBody, PacedPositions, Transcriber, TransformerBody
from mirada.models.transformer import Transformer
from mirada.models.whisper import Whisper
from mirada.native.structures import ACTIVATIONS

# The parts of a model that a decoding step runs through, in order.


FIRST = 64  # positions whose sines are computed at first; more follow when they are needed


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
    groups: int  # heads of keys and values
    gated: bool
    normed: bool  # whether queries and keys are normalized

    @property
    def columns(self) -> int:
        """Numbers in the query, key and value of one place."""
        return (self.heads + 2 * self.groups) * self.dim


class Sublayer(NamedTuple):
    """One residual part of a layer: x + last(f(first(norm(x)))), or norm(x + last(f(first(x)))).

    The layers in `first` are joined: queries, keys and values come from one product, and so do both halves of a gated layer.
    """

    norm: Norm
    scale: float  # of the scores, where f is attention
    first: tuple[nn.Linear, ...]
    last: nn.Linear
    inner: tuple[HeadNorm, ...] = ()  # of queries and keys


@dataclass(frozen=True, eq=False)
class Half:
    """A stack with its embedding and output: half an encoder-decoder, or a whole decoder-only model."""

    words: TokenEmbedding
    place: AddPosition
    stack: Encoder | Decoder
    output: Output | None = None  # an encoder has none

    @property
    def layers(self) -> "list[EncoderLayer | DecoderLayer]":
        """The layers of the stack."""
        return list(self.stack.layers)

    @property
    def across(self) -> list[Attention]:
        """The cross-attentions of a decoder that has them."""
        return [layer.cross for layer in self.layers if isinstance(layer, DecoderLayer)]

    @property
    def shape(self) -> Shape:
        """The sizes of its layers, which are all equal."""
        return _shape_of(self.layers[0])


@dataclass(frozen=True, eq=False)
class RecurrentHalf:
    """A recurrent decoder with its embedding and output."""

    words: TokenEmbedding
    decoder: PlainDecoder
    output: Output

    @property
    def attention(self) -> Attention | None:
        """What looks at the source; None: nothing does."""
        return self.decoder.attention if isinstance(self.decoder, LookingDecoder) else None


def recurrent_half(model: nn.Module) -> RecurrentHalf | None:
    """The recurrent decoder of a model of a known type, if it has one."""
    match model:
        case Seq2Seq():
            return RecurrentHalf(model.target_words, model.decoder, model.output)
        case Transcriber(body=LuongBody() as body):
            return RecurrentHalf(model.words, body.decoder, model.output)
        case captioner.Captioner(decoder=captioner.LSTMCaptionDecoder() as teller):
            return RecurrentHalf(model.words, teller.cell, model.output)
    return None


@dataclass(frozen=True, eq=False)
class Anatomy:
    """The half that decodes, the half that reads the source if an engine can, and how to get states and padding of a memory."""

    decoder: Half
    reader: Half | None = None
    source: Callable[[Any], tuple[Tensor, Padding | None]] | None = None  # None: there is no source


def anatomy(model: nn.Module) -> Anatomy:
    """The parts of a model of a known type."""
    match model:
        case Transformer():
            return Anatomy(
                Half(model.target_words, model.target_place, model.decoder, model.output),
                Half(model.source_words, model.source_place, model.encoder),
                lambda memory: (memory.states, memory.padding),
            )
        case GPT():
            return Anatomy(Half(model.words, model.place, model.decoder, model.output))
        case Transcriber(body=TransformerBody() as body):
            return Anatomy(
                Half(model.words, body.target_place, body.decoder, model.output),
                source=lambda memory: (memory.states, memory.padding),
            )
        case Whisper():
            return Anatomy(
                Half(model.words, model.target_place, model.decoder, model.output),
                source=lambda memory: (memory.states, None),
            )
        case captioner.Captioner(decoder=captioner.TransformerCaptionDecoder() as teller):
            return Anatomy(
                Half(model.words, teller.place, teller.stack, model.output),
                source=lambda memory: (memory.cells, None),
            )
    raise ValueError(f"no engine knows a {type(model).__name__}")


def _shape_of(layer: EncoderLayer | DecoderLayer) -> Shape:
    """The sizes and kinds of a layer."""
    heads, around, feed = layer.self_attention.heads, layer.around_self, layer.feed
    rms, post, cross = type(around.norm) is RMSNorm, around.order == "post", isinstance(layer, DecoderLayer)
    hidden, activation = feed.widen.out_features, str(feed.activation)  # type: ignore[union-attr]
    gated, normed = isinstance(feed, Gated), getattr(heads, "query_norm", None) is not None
    sizes = (heads.width, heads.heads, heads.dim, hidden)
    return Shape(*sizes, activation, rms, post, cross, heads.key_heads, gated, normed)


def sublayers_of(layer: EncoderLayer | DecoderLayer) -> list[Sublayer]:
    """The parts of a layer in the order of a step."""

    def attention(module: Attention, around: Residual, *names: str) -> Sublayer:
        heads, factor = module.heads, module.score.factor(module.heads.dim)  # type: ignore[operator]
        norms = (heads.query_norm, heads.key_norm) if heads.query_norm is not None else ()
        return Sublayer(around.norm, float(factor), tuple(getattr(heads, name) for name in names), heads.out, norms)  # type: ignore[arg-type]

    parts = [attention(layer.self_attention, layer.around_self, "query", "key", "value")]
    if isinstance(layer, DecoderLayer):
        parts.append(attention(layer.cross, layer.around_cross, "query"))
    first = (layer.feed.gate, layer.feed.widen) if isinstance(layer.feed, Gated) else (layer.feed.widen,)
    return [*parts, Sublayer(layer.around_feed.norm, 1.0, first, layer.feed.narrow)]


def window_of(layer: EncoderLayer | DecoderLayer) -> int:
    """How far back a decoder's layer sees; -1: all the way."""
    lefts = [part.left for part in layer.self_attention.where.conjuncts() if isinstance(part, Window)]
    return min(lefts, default=-1)


class NearVectors(NamedTuple):
    """What a layer adds to keys and to values that lie 0, 1, ..., `clip` places back or more; clip -1: nothing."""

    clip: int
    vectors: tuple[Float[Tensor, "distances dim"] | None, Float[Tensor, "distances dim"] | None]


def near_of(layer: EncoderLayer | DecoderLayer) -> NearVectors:
    """The vectors by distance of a decoder's layer."""
    position = layer.self_attention.position
    if not isinstance(position, Relative):
        return NearVectors(-1, (None, None))
    tables = (position.keys, position.values)
    keys, values = (None if x is None else x.detach()[: position.clip + 1].flip(0).contiguous() for x in tables)
    return NearVectors(position.clip, (keys, values))


def is_plain(half: Half) -> bool:
    """Whether every layer sees all places alike: with nothing that depends on distances, heads of their own, no gates."""
    shape, positions = half.shape, {type(layer.self_attention.position) for layer in half.layers}
    alike = positions == {Position} and all(window_of(layer) < 0 for layer in half.layers)
    return alike and shape.groups == shape.heads and not shape.gated and not shape.normed


class LayerTables(NamedTuple):
    """What depends on places and differs between layers, up to so many places; None where a layer has none.

    `turns` has a row of cosines, then sines, for every place; `biases` a row for every head, by distance.
    """

    places: int
    turns: list[Float[Tensor, "places pairs"] | None]
    biases: list[Float[Tensor, "heads places"] | None]

    @classmethod
    def of(cls, half: Half, places: int) -> "LayerTables":
        """The tables of a half; layers that share a position share its table."""
        turns: dict[Any, Tensor] = {}
        biases: dict[int, Tensor] = {}
        like, positions = half.words.weight, [layer.self_attention.position for layer in half.layers]
        with torch.inference_mode(False), torch.no_grad():
            for position in positions:
                if isinstance(position, Rotary) and position.rates not in turns:
                    turns[position.rates] = _turns_of(position, places, like)
                elif isinstance(position, ALiBi | T5Bias) and id(position) not in biases:
                    biases[id(position)] = _bias_by_distance(position, places, like)
        rates = [position.rates if isinstance(position, Rotary) else None for position in positions]
        return cls(places, [turns.get(each) for each in rates], [biases.get(id(position)) for position in positions])


def _turns_of(position: Rotary, places: int, like: Tensor) -> Float[Tensor, "places pairs"]:
    """Cosines and sines of every place, as the pairs (1, 0) become."""
    unit = torch.zeros(1, 1, places, position.dim, dtype=like.dtype, device=like.device)
    pairs = position.rates.dim // 2
    firsts = slice(0, 2 * pairs, 2) if position.layout == "interleaved" else slice(0, pairs)
    unit[..., firsts] = 1
    turned = position.rotate(unit, range(places))[0, 0, :, : 2 * pairs]
    halves = (turned[:, 0::2], turned[:, 1::2]) if position.layout == "interleaved" else turned.split(pairs, 1)
    return torch.cat(list(halves), 1).contiguous()


def _bias_by_distance(position: Position, places: int, like: Tensor) -> Float[Tensor, "heads places"]:
    """What is added to the score of a key that lies 0, 1, ... places back."""
    query = like.new_zeros(1, 1, 1, 1)
    row = position.bias(query, Places.count(1, places, places - 1, like.device))
    assert row is not None
    return row[0, :, 0].flip(1).to(like.dtype).contiguous()


def joined(*linears: nn.Linear | Output) -> tuple[Tensor, Tensor]:
    """Weight and bias of several linear layers that read the same input, joined; those of a single one are not copied."""
    weights = [linear.weight.detach() for linear in linears]
    biases = [
        weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach()
        for linear, weight in zip(linears, weights, strict=True)
    ]
    return (weights[0], biases[0]) if len(linears) == 1 else (torch.cat(weights), torch.cat(biases))


class PositionTable:
    """What a position adds at place 0, 1, 2, ... To grow, the table is replaced, so that other threads may read it meanwhile."""

    def __init__(self, half: Half) -> None:
        self.position, self.like = half.place.position, half.words.weight
        self.most: int | None = None
        self.table: Tensor | None = None
        if isinstance(self.position, Learned):
            self.most, self.table = self.position.positions, self.position.table.detach()[self.position.offset :]

    def reaches(self, last: int) -> bool:
        """Whether there is a position for every place up to this one."""
        return self.most is None or last < self.most

    def up_to(self, last: int) -> Float[Tensor, "places width"] | None:
        """The vectors of all places up to this one at least, which it must reach; None: nothing is added."""
        table = self.table
        if isinstance(self.position, Sinusoidal) and (table is None or last >= len(table)):
            with torch.inference_mode(False):
                places = torch.arange(max(FIRST, 2 * last), device=self.like.device)
                table = self.table = self.position(places, dtype=self.like.dtype)
        return table


DTYPES = (torch.float32, torch.float64)
DEVICES = ("cpu", "cuda")
MOST = 2**32  # weights that may be copied: 16 gibibytes of float32
NOTHING = type(None)

Kinds = tuple[type, ...]
NORMS: Kinds = (LayerNorm, RMSNorm)
LINEAR: Kinds = (nn.Linear,)
HALF: dict[str, Kinds] = {"layers": (Layers,), "norm": (NOTHING, *NORMS)}
POSITIONS: Kinds = (Position, Rotary, ALiBi, T5Bias, Relative)
HEADS: dict[str, Kinds] = {
    "query": LINEAR, "key": LINEAR, "value": LINEAR, "out": LINEAR,
    "query_norm": (NOTHING, HeadNorm), "key_norm": (NOTHING, HeadNorm),
}  # fmt: skip
# the child modules of a module, by name, and the types that each may have
CHILDREN: dict[type, dict[str, Kinds]] = {
    Transformer: {
        "source_words": (TokenEmbedding,), "target_words": (TokenEmbedding,), "source_place": (AddPosition,),
        "target_place": (AddPosition,), "encoder": (Encoder,), "decoder": (Decoder,), "output": (Output,),
    },
    GPT: {"words": (TokenEmbedding,), "place": (AddPosition,), "decoder": (Stack,), "output": (Output,)},
    Transcriber: {
        "stem": (Stem1d,), "words": (TokenEmbedding,), "body": (TransformerBody, LuongBody), "output": (Output,),
        "heard": (NOTHING, Output),
    },
    Whisper: {
        "stem": (Stem1d,), "halving": (Stem1d,), "source_place": (AddPosition,), "encoder": (Encoder,),
        "words": (TokenEmbedding,), "target_place": (AddPosition,), "decoder": (Decoder,), "output": (Output,),
    },
    TransformerBody: {
        "source_place": (AddPosition,), "target_place": (AddPosition,), "encoder": (Encoder,), "decoder": (Decoder,),
        "paced": (NOTHING, PacedPositions),
    },
    LuongBody: {
        "encoder": (Recurrent,), "bridge_h": LINEAR, "bridge_c": LINEAR, "decoder": (LuongDecoder,), "dropout": (Dropout,),
    },
    Seq2Seq: {
        "source_words": (TokenEmbedding,), "target_words": (TokenEmbedding,), "dropout": (Dropout,), "encoder": (Recurrent,),
        "bridge_h": LINEAR, "bridge_c": (NOTHING, *LINEAR), "output": (Output,),
        "decoder": (PlainDecoder, BahdanauDecoder, LuongDecoder),
    },
    Recurrent: {
        "read": (nn.ParameterList,), "carry": (nn.ParameterList,), "bias": (nn.ParameterList,), "dropout": (Dropout,),
    },
    PlainDecoder: {"cell": (Recurrent,)},
    BahdanauDecoder: {"cell": (Recurrent,), "attention": (Attention,), "gate": (NOTHING, *LINEAR), "readout": LINEAR},
    LuongDecoder: {"cell": (Recurrent,), "attention": (Attention,), "combine": LINEAR},
    captioner.LSTMCaptionDecoder: {"begin_h": LINEAR, "begin_c": LINEAR, "cell": (BahdanauDecoder,)},
    captioner.Captioner: {
        "encoder": (
            captioner.PictureConvolutionEncoder, captioner.PictureCoordinatesEncoder, captioner.PicturePatchEncoder,
        ),
        "words": (TokenEmbedding,), "decoder": (captioner.TransformerCaptionDecoder, captioner.LSTMCaptionDecoder),
        "dropout": (Dropout,), "output": (Output,),
    },
    captioner.PictureConvolutionEncoder: {"stem": (Stem2d,)},
    captioner.PictureCoordinatesEncoder: {"layers": (nn.ModuleList,), "around": (nn.Conv2d,), "norm": (LayerNorm,)},
    captioner.PicturePatchEncoder: {"patches": (Patches,), "place": (AddPosition,), "stack": (Encoder,)},
    captioner.TransformerCaptionDecoder: {"place": (AddPosition,), "stack": (Decoder,)},
    Encoder: HALF, Stack: HALF, Decoder: HALF,
    EncoderLayer: {
        "self": (Attention,), "feed": (FeedForward, Gated), "around_self": (Residual,), "around_feed": (Residual,),
    },
    DecoderLayer: {
        "self": (Attention,), "cross": (Attention,), "feed": (FeedForward, Gated),
        "around_self": (Residual,), "around_cross": (Residual,), "around_feed": (Residual,),
    },
    Attention: {"heads": (MultiHead, Grouped), "score": (Dot,), "position": POSITIONS, "normalizer": (Softmax,)},
    MultiHead: HEADS, Grouped: HEADS,
    FeedForward: {"widen": LINEAR, "narrow": LINEAR}, Gated: {"gate": LINEAR, "widen": LINEAR, "narrow": LINEAR},
    Residual: {"norm": NORMS, "dropout": (Dropout,)},
    AddPosition: {"position": (NOTHING, Sinusoidal, Learned), "norm": (NOTHING, *NORMS), "dropout": (Dropout,)},
    Patches: {"project": LINEAR},
    Stem1d: {"layers": (nn.ModuleList,)},
    Stem2d: {"layers": (nn.ModuleList,)},
}  # fmt: skip
# the parts of an attention that a recurrent decoder looks at its source with
LOOKING: dict[str, Kinds] = {
    "heads": (Split,), "score": (Dot, Bilinear, Additive, Concat, Location, TanhSum), "position": (Position, LocalGaussian),
    "normalizer": (Softmax, Sparsemax, Identity, Hard, StraightThrough, Gumbel),
}  # fmt: skip
MEMBERS: dict[type, Kinds] = {Layers: (EncoderLayer, DecoderLayer), nn.ModuleList: (nn.Conv1d, nn.Conv2d)}
PARAMETERS: dict[type, set[str]] = {
    nn.Linear: {"weight", "bias"}, nn.Conv1d: {"weight", "bias"}, nn.Conv2d: {"weight", "bias"},
    LayerNorm: {"weight", "bias"}, RMSNorm: {"weight"}, TokenEmbedding: {"weight"},
    Output: {"weight", "bias"}, Learned: {"table"}, HeadNorm: {"weight"}, T5Bias: {"table"},
    Dot: {"scale"}, Bilinear: {"weight"}, Additive: {"query", "key", "bias", "v"}, Concat: {"weight", "v"},
    Location: {"weight"}, TanhSum: {"weight", "scale"}, LocalGaussian: {"weight", "v"},
    Relative: {"keys", "values"},
}  # fmt: skip
OPTIONAL: dict[type, set[str]] = {  # parameters that may be absent
    nn.Linear: {"bias"}, nn.Conv1d: {"bias"}, nn.Conv2d: {"bias"}, Output: {"bias"},
    Dot: {"scale"}, Concat: {"v"}, TanhSum: {"weight", "scale"}, Relative: {"values"},
}  # fmt: skip
INSIDE = {kind for inside in (*CHILDREN.values(), LOOKING) for kinds in inside.values() for kind in kinds}
KNOWN: set[Any] = {*CHILDREN, *MEMBERS, *PARAMETERS, *INSIDE} - {NOTHING}
FORWARDS: dict[Any, object] = {kind: kind.forward for kind in KNOWN}  # as they were at import: some replace them


def refuses(model: nn.Module) -> str | None:
    """Why an engine cannot take this model; None if it can."""
    return next(_reasons(model), None)


def _reasons(model: nn.Module) -> Iterator[str]:
    """Why an engine cannot take this model. Only the first reason counts: each check relies on those before it."""
    if type(model) not in (Transformer, GPT, Transcriber, Whisper, captioner.Captioner, Seq2Seq):
        yield f"no engine knows a {type(model).__name__}"
    if everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks:
        yield "a forward hook is registered for all modules"
    for kind, forward in FORWARDS.items():
        if kind.forward is not forward:
            yield f"the forward of {kind.__name__} was replaced"
    yield from _reasons_inside(model, "")
    recurrent = recurrent_half(model)
    if recurrent is not None:
        yield from (f"the decoder: {reason}" for reason in _reasons_recurrent(recurrent))
    else:
        parts = anatomy(model)
        yield from (f"the decoder: {reason}" for reason in _reasons_half(parts.decoder, True))
        if parts.reader is not None:
            yield from (f"the encoder: {reason}" for reason in _reasons_sizes(parts.reader))
    yield from _reasons_weights(list(model.parameters()))


def reads(half: Half) -> bool:
    """Whether one call of C can read sources with this encoder; otherwise its modules do."""
    return next(_reasons_half(half, False), None) is None and is_plain(half)


def _reasons_inside(module: nn.Module, path: str, children: dict[str, Kinds] | None = None) -> Iterator[str]:
    """Why this module, or one inside it, is not exactly known, or may compute something else than its type does.

    `children` are the modules that it may have, if not those of its type.
    """
    kind, inside, name = type(module), module._modules, path or type(module).__name__
    if module._forward_hooks or module._forward_pre_hooks:
        yield f"{name} has a forward hook"
    for attribute, value in vars(module).items():
        if callable(getattr(kind, attribute, None)):
            yield f"{name} has a {attribute} of its own"
        if isinstance(value, Tensor):
            yield f"{name} keeps a tensor {attribute!r} that is not a parameter"
    if module._buffers:
        yield f"{name} has a buffer {min(module._buffers)!r}"
    parameters = PARAMETERS.get(kind, set())
    for extra in module._parameters.keys() - parameters if kind is not nn.ParameterList else ():
        yield f"{name} has a parameter {extra!r}"
    for needed in parameters - OPTIONAL.get(kind, set()):
        if module._parameters.get(needed) is None:
            yield f"{name} has no parameter {needed!r}"
    known = dict.fromkeys(inside, MEMBERS[kind]) if kind in MEMBERS else children or CHILDREN.get(kind, {})
    if inside.keys() - known.keys():
        yield f"{name} has a module {min(inside.keys() - known.keys())!r} of its own"
    for attribute, kinds in known.items():
        child = inside.get(attribute, vars(module).get(attribute))
        place = f"{path}.{attribute}" if path else attribute
        if type(child) not in kinds:
            yield f"{place} is {child if isinstance(child, Position | Dot) else type(child).__name__}"
        if child is not None:
            looks = attribute == "attention" and isinstance(module, LookingDecoder)
            yield from _reasons_inside(child, place, LOOKING if looks else None)


def _reasons_recurrent(half: RecurrentHalf) -> Iterator[str]:
    """Why a recurrent decoder cannot be stepped: other neighborhoods, or a weight of another size, which C does not check."""
    cell, decoder, (vocab, width) = half.decoder.cell, half.decoder, half.words.weight.shape
    hidden, gates, attention = cell.hidden, GATES[cell.cell] * cell.hidden, half.attention
    fed = hidden if isinstance(decoder, BahdanauDecoder) or getattr(decoder, "feeding", False) else 0
    found: list[tuple[str, Tensor | None, tuple[int, ...]]] = [
        ("output", half.output.weight, (vocab, hidden)), ("output", half.output.bias, (vocab,))
    ]  # fmt: skip
    for name, weights in (("read", cell.read), ("carry", cell.carry), ("bias", cell.bias)):
        sizes = {"read": (gates, hidden), "carry": (gates, hidden), "bias": (gates,)}
        found += [(f"cell.{name}", weight, sizes[name]) for weight in list(weights)[1 if name == "read" else 0 :]]
        if len(weights) != cell.depth or cell.directions != 1:
            yield f"its cell has {len(weights)} {name} for {cell.depth} layers"
    found.append(("cell.read", cell.read[0], (gates, width + fed)))
    if isinstance(decoder, BahdanauDecoder):
        found += [
            ("readout", decoder.readout.weight, (hidden, 2 * hidden + width)),
            ("readout", decoder.readout.bias, (hidden,)),
        ]
        gate = decoder.gate
        found += [] if gate is None else [("gate", gate.weight, (1, hidden)), ("gate", gate.bias, (1,))]
    if isinstance(decoder, LuongDecoder):
        found += [
            ("combine", decoder.combine.weight, (hidden, 2 * hidden)),
            ("combine", decoder.combine.bias, (hidden,)),
        ]
    if attention is not None:
        score, position, where = attention.score, attention.position, list(attention.where.conjuncts())
        if not {type(part) for part in where} <= {Complete, Monotonic} or len(where) > 1:
            yield f"its neighborhood is {attention.where}"
        if (attention.heads.heads, attention.heads.width, attention.heads.memory_width) != (1, hidden, hidden):
            yield f"its heads are {attention.heads}"
        if isinstance(position, LocalGaussian):
            found += [("position", position.weight, (hidden, hidden)), ("position", position.v, (hidden,))]
        found += [(f"score.{name}", each, size) for name, each, size in _sizes_of(score, hidden)]
    for name, weight, size in found:
        if weight is not None and tuple(weight.shape) != size:
            yield f"a weight of its {name} has the shape {tuple(weight.shape)}: expected {size}"


def _sizes_of(score: nn.Module, hidden: int) -> list[tuple[str, Tensor | None, tuple[int, ...]]]:
    """The parameters of a score, and the sizes that a step reads them with."""
    match score:
        case Bilinear():
            return [("weight", score.weight, (1, hidden, hidden))]
        case Additive():
            size = score.pair_width
            matrices = [(name, getattr(score, name), (1, size, hidden)) for name in ("query", "key")]
            return [*matrices, ("bias", score.bias, (1, 1, size)), ("v", score.v, (1, size))]
        case Concat():
            size = score.hidden or 1
            return [("weight", score.weight, (1, size, 2 * hidden)), ("v", score.v, (1, size))]
        case Location():
            return [("weight", score.weight, (score.max_keys, hidden))]
        case Dot():
            return [("scale", score.scale if isinstance(score.scale, Tensor) else None, ())]
    return []


def _reasons_half(half: Half, causal: bool) -> Iterator[str]:
    """Why a stack with its embedding and output cannot be stepped as one."""
    layers = half.layers
    for layer in layers:
        yield from _reasons_layer(layer, causal)
    shape, last = _shape_of(layers[0]), half.stack.norm
    kinds = {(type(layer), _shape_of(layer)) for layer in layers}
    if len(kinds) != 1 or shape.cross != isinstance(half.stack, Decoder):
        yield "its layers differ"
    for name, norm in (("last norm", last), ("norm of words", half.place.norm)):
        if norm is not None and type(norm) is not type(layers[0].around_feed.norm):
            yield f"its {name} is {type(norm).__name__}"
    if len({_way_of_turning(layer.self_attention.position) for layer in layers} - {None}) > 1:
        yield "its layers rotate different coordinates"
    if shape.activation not in ACTIVATIONS:
        yield f"its activation is {shape.activation!r}"
    yield from _reasons_sizes(half)


def _reasons_layer(layer: EncoderLayer | DecoderLayer, causal: bool) -> Iterator[str]:
    """Why a layer of known modules cannot be stepped."""
    attentions, around = [(layer.self_attention, causal)], [layer.around_self, layer.around_feed]
    if isinstance(layer, DecoderLayer):
        attentions.append((layer.cross, False))
        around.append(layer.around_cross)
    for attention, inner in attentions:
        parts = list(attention.where.conjuncts())
        known = {Causal, Complete, Window} if inner else {Complete}
        if not {type(part) for part in parts} <= known or any(part.causal for part in parts) != inner:
            yield f"its neighborhood is {attention.where}"
        if attention is not layer.self_attention and not _is_plain_cross(attention):
            other = attention.heads.query_norm or attention.position
            yield f"its attention over the source has {other}"
        if attention.heads.dim != attention.heads.value_dim:
            yield f"its keys and values differ in dim: {attention.heads.dim} and {attention.heads.value_dim}"
    heads = [attention.heads for attention, _ in attentions]
    if len({(each.width, each.heads, each.dim, each.key_heads) for each in heads}) != 1:
        yield "its two attentions have different heads"
    if len({(type(residual.norm), residual.order) for residual in around}) != 1:
        yield "its norms differ"


def _way_of_turning(position: Position) -> tuple[int, str] | None:
    """How many coordinates a layer rotates, and which are pairs; None: it rotates none."""
    return (position.rates.dim, position.layout) if isinstance(position, Rotary) else None


def _is_plain_cross(attention: Attention) -> bool:
    """Whether an attention over the source is one that a step knows."""
    return attention.heads.query_norm is None and type(attention.position) is Position


def _size_of(name: str, attention: Attention, shape: Shape) -> tuple[int, ...]:
    """The size that a weight of the heads must have."""
    inner, own = shape.heads * shape.dim, attention.heads.key_heads * shape.dim
    sizes = {
        "out": (shape.width, inner),
        "query": (inner, shape.width),
        "query_norm": (shape.dim,),
        "key_norm": (shape.dim,),
    }
    return sizes.get(name, (own, shape.width))


def _reasons_sizes(half: Half) -> Iterator[str]:
    """Why a weight does not have the size that its place requires: C does not check sizes."""
    width, heads, dim, hidden, *_ = half.shape
    table, position = half.words.weight, half.place.position
    wanted: list[tuple[str, nn.Module | None, tuple[int, ...]]] = [("words", half.words, (len(table), width))]
    for layer in half.layers:
        for attention in [layer.self_attention] + ([layer.cross] if isinstance(layer, DecoderLayer) else []):
            wanted += [
                (name, part, _size_of(name, attention, half.shape)) for name, part in attention.heads.named_children()
            ]
        wanted += [
            (name, part, (width, hidden) if name == "narrow" else (hidden, width))
            for name, part in layer.feed.named_children()
        ]
        position_of_layer = layer.self_attention.position
        if getattr(position_of_layer, "heads", heads) != heads or getattr(position_of_layer, "dim", dim) != dim:
            yield f"its position is {position_of_layer}"
        if isinstance(position_of_layer, Relative):
            wanted.append(("position", position_of_layer, (2 * position_of_layer.clip + 1, dim)))
        residuals = [(name, child) for name, child in layer.named_children() if isinstance(child, Residual)]
        wanted += [(name, around.norm, (width,)) for name, around in residuals]
    wanted += [
        ("norm", half.stack.norm, (width,)),
        ("norm of words", half.place.norm, (width,)),
        ("output", half.output, tuple(table.shape)),
    ]
    if isinstance(position, Learned):
        wanted.append(("position", position, (len(position.table), width)))
    if isinstance(position, Sinusoidal) and position.width != width:
        yield f"its position is {position.width} wide: expected {width}"
    for name, module, size in wanted:
        for parameter, weight in [] if module is None else module.named_parameters(recurse=False):
            expected = size[:1] if parameter == "bias" else size
            if tuple(weight.shape) != expected:
                yield f"a weight of its {name} has the shape {tuple(weight.shape)}: expected {expected}"


def _reasons_weights(weights: list[nn.Parameter]) -> Iterator[str]:
    """Why these weights cannot be copied and read."""
    kinds = {(type(weight), weight.dtype, weight.device) for weight in weights}
    for kind, dtype, device in kinds:
        if kind is not nn.Parameter or dtype not in DTYPES or device.type not in DEVICES:
            yield f"a weight is a {kind.__name__} of {dtype} on {device.type}"
    if len(kinds) != 1:
        yield "its weights differ in dtype or device"
    if not all(weight.is_contiguous() and weight.numel() for weight in weights):
        yield "a weight is a view of another tensor, or empty"
    numbers = sum(weight.numel() for weight in weights)
    if numbers > MOST:
        yield f"its {numbers:,} weights would be copied twice: more than {MOST:,}"

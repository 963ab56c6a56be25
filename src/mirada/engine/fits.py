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
from mirada.attention.heads import MultiHead
from mirada.attention.neighborhoods import Causal, Complete, Padding
from mirada.attention.normalizers import Softmax
from mirada.attention.positions import Learned, Position, Sinusoidal
from mirada.attention.scores import Dot
from mirada.layers.block import DecoderLayer, EncoderLayer, Residual
from mirada.layers.convolution import Stem1d, Stem2d
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, Patches, TokenEmbedding
from mirada.layers.feedforward import FeedForward
from mirada.layers.norm import LayerNorm, Norm, RMSNorm
from mirada.layers.output import Output
from mirada.layers.stack import Decoder, Encoder, Layers, Stack
from mirada.models import captioner
from mirada.models.gpt import GPT
from mirada.models.transcriber import Transcriber, TransformerBody
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


class Sublayer(NamedTuple):
    """One residual part of a layer: x + last(f(first(norm(x)))), or norm(x + last(f(first(x)))).

    The layers in `first` are joined: queries, keys and values come from one product.
    """

    norm: Norm
    scale: float  # of the scores, where f is attention
    first: tuple[nn.Linear, ...]
    last: nn.Linear


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
    return Shape(heads.width, heads.heads, heads.dim, hidden, activation, rms, post, cross)


def sublayers_of(layer: EncoderLayer | DecoderLayer) -> list[Sublayer]:
    """The parts of a layer in the order of a step."""

    def attention(module: Attention, around: Residual, *names: str) -> Sublayer:
        heads, factor = module.heads, module.score.factor(module.heads.dim)  # type: ignore[operator]
        return Sublayer(around.norm, float(factor), tuple(getattr(heads, name) for name in names), heads.out)  # type: ignore[arg-type]

    parts = [attention(layer.self_attention, layer.around_self, "query", "key", "value")]
    if isinstance(layer, DecoderLayer):
        parts.append(attention(layer.cross, layer.around_cross, "query"))
    return [*parts, Sublayer(layer.around_feed.norm, 1.0, (layer.feed.widen,), layer.feed.narrow)]


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
MOST = 2**28  # weights that may be copied: a gibibyte of float32
NOTHING = type(None)

Kinds = tuple[type, ...]
NORMS: Kinds = (LayerNorm, RMSNorm)
LINEAR: Kinds = (nn.Linear,)
HALF: dict[str, Kinds] = {"layers": (Layers,), "norm": (NOTHING, *NORMS)}
# the child modules of a module, by name, and the types that each may have
CHILDREN: dict[type, dict[str, Kinds]] = {
    Transformer: {
        "source_words": (TokenEmbedding,), "target_words": (TokenEmbedding,), "source_place": (AddPosition,),
        "target_place": (AddPosition,), "encoder": (Encoder,), "decoder": (Decoder,), "output": (Output,),
    },
    GPT: {"words": (TokenEmbedding,), "place": (AddPosition,), "decoder": (Stack,), "output": (Output,)},
    Transcriber: {
        "stem": (Stem1d,), "words": (TokenEmbedding,), "body": (TransformerBody,), "output": (Output,),
        "heard": (NOTHING, Output),
    },
    Whisper: {
        "stem": (Stem1d,), "halving": (Stem1d,), "source_place": (AddPosition,), "encoder": (Encoder,),
        "words": (TokenEmbedding,), "target_place": (AddPosition,), "decoder": (Decoder,), "output": (Output,),
    },
    TransformerBody: {
        "source_place": (AddPosition,), "target_place": (AddPosition,), "encoder": (Encoder,), "decoder": (Decoder,),
    },
    captioner.Captioner: {
        "encoder": (
            captioner.PictureConvolutionEncoder, captioner.PictureCoordinatesEncoder, captioner.PicturePatchEncoder,
        ),
        "words": (TokenEmbedding,), "decoder": (captioner.TransformerCaptionDecoder,), "dropout": (Dropout,), "output": (Output,),
    },
    captioner.PictureConvolutionEncoder: {"stem": (Stem2d,)},
    captioner.PictureCoordinatesEncoder: {"layers": (nn.ModuleList,), "around": (nn.Conv2d,), "norm": (LayerNorm,)},
    captioner.PicturePatchEncoder: {"patches": (Patches,), "place": (AddPosition,), "stack": (Encoder,)},
    captioner.TransformerCaptionDecoder: {"place": (AddPosition,), "stack": (Decoder,)},
    Encoder: HALF, Stack: HALF, Decoder: HALF,
    EncoderLayer: {
        "self": (Attention,), "feed": (FeedForward,), "around_self": (Residual,), "around_feed": (Residual,),
    },
    DecoderLayer: {
        "self": (Attention,), "cross": (Attention,), "feed": (FeedForward,),
        "around_self": (Residual,), "around_cross": (Residual,), "around_feed": (Residual,),
    },
    Attention: {"heads": (MultiHead,), "score": (Dot,), "position": (Position,), "normalizer": (Softmax,)},
    MultiHead: {
        "query": LINEAR, "key": LINEAR, "value": LINEAR, "out": LINEAR, "query_norm": (NOTHING,), "key_norm": (NOTHING,),
    },
    FeedForward: {"widen": LINEAR, "narrow": LINEAR},
    Residual: {"norm": NORMS, "dropout": (Dropout,)},
    AddPosition: {"position": (NOTHING, Sinusoidal, Learned), "norm": (NOTHING, *NORMS), "dropout": (Dropout,)},
    Patches: {"project": LINEAR},
    Stem1d: {"layers": (nn.ModuleList,)},
    Stem2d: {"layers": (nn.ModuleList,)},
}  # fmt: skip
MEMBERS: dict[type, Kinds] = {Layers: (EncoderLayer, DecoderLayer), nn.ModuleList: (nn.Conv1d, nn.Conv2d)}
PARAMETERS: dict[type, set[str]] = {
    nn.Linear: {"weight", "bias"}, nn.Conv1d: {"weight", "bias"}, nn.Conv2d: {"weight", "bias"},
    LayerNorm: {"weight", "bias"}, RMSNorm: {"weight"}, TokenEmbedding: {"weight"},
    Output: {"weight", "bias"}, Learned: {"table"},
}  # fmt: skip
NO_BIAS = (nn.Linear, nn.Conv1d, nn.Conv2d, Output)  # their bias may be absent
INSIDE = {kind for inside in CHILDREN.values() for kinds in inside.values() for kind in kinds}
KNOWN: set[Any] = {*CHILDREN, *MEMBERS, *PARAMETERS, *INSIDE} - {NOTHING}
FORWARDS: dict[Any, object] = {kind: kind.forward for kind in KNOWN}  # as they were at import: some replace them


def refuses(model: nn.Module) -> str | None:
    """Why an engine cannot take this model; None if it can."""
    return next(_reasons(model), None)


def _reasons(model: nn.Module) -> Iterator[str]:
    """Why an engine cannot take this model. Only the first reason counts: each check relies on those before it."""
    if type(model) not in (Transformer, GPT, Transcriber, Whisper, captioner.Captioner):
        yield f"no engine knows a {type(model).__name__}"
    if everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks:
        yield "a forward hook is registered for all modules"
    for kind, forward in FORWARDS.items():
        if kind.forward is not forward:
            yield f"the forward of {kind.__name__} was replaced"
    yield from _reasons_inside(model, "")
    parts = anatomy(model)
    for name, half, causal in (("the decoder", parts.decoder, True), ("the encoder", parts.reader, False)):
        if half is not None:
            yield from (f"{name}: {reason}" for reason in _reasons_half(half, causal))
    yield from _reasons_weights(list(model.parameters()))


def _reasons_inside(module: nn.Module, path: str) -> Iterator[str]:
    """Why this module, or one inside it, is not exactly known, or may compute something else than its type does."""
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
    for extra in module._parameters.keys() - parameters:
        yield f"{name} has a parameter {extra!r}"
    for needed in parameters - {"bias"} if kind in NO_BIAS else parameters:
        if module._parameters.get(needed) is None:
            yield f"{name} has no parameter {needed!r}"
    known = dict.fromkeys(inside, MEMBERS[kind]) if kind in MEMBERS else CHILDREN.get(kind, {})
    if inside.keys() - known.keys():
        yield f"{name} has a module {min(inside.keys() - known.keys())!r} of its own"
    for attribute, kinds in known.items():
        child = inside.get(attribute, vars(module).get(attribute))
        place = f"{path}.{attribute}" if path else attribute
        if type(child) not in kinds:
            yield f"{place} is {child if isinstance(child, Position | Dot) else type(child).__name__}"
        if child is not None:
            yield from _reasons_inside(child, place)


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
    if half.output is not None and half.output.scale != 1.0:
        yield f"its output is scaled by {half.output.scale:.4g}"
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
        kinds = {type(part) for part in attention.where.conjuncts()}
        if not kinds <= {Causal, Complete} or (Causal in kinds) != inner:
            yield f"its neighborhood is {attention.where}"
        if attention.heads.dim != attention.heads.value_dim:
            yield f"its keys and values differ in dim: {attention.heads.dim} and {attention.heads.value_dim}"
    if len({(attention.heads.width, attention.heads.heads, attention.heads.dim) for attention, _ in attentions}) != 1:
        yield "its two attentions have different heads"
    if len({(type(residual.norm), residual.order) for residual in around}) != 1:
        yield "its norms differ"


def _reasons_sizes(half: Half) -> Iterator[str]:
    """Why a weight does not have the size that its place requires: C does not check sizes."""
    width, heads, dim, hidden, *_ = half.shape
    inner, table, position = heads * dim, half.words.weight, half.place.position
    wanted: list[tuple[str, nn.Module | None, tuple[int, ...]]] = [("words", half.words, (len(table), width))]
    for layer in half.layers:
        for attention in [layer.self_attention] + ([layer.cross] if isinstance(layer, DecoderLayer) else []):
            for name, linear in attention.heads.named_children():
                wanted.append((name, linear, (width, inner) if name == "out" else (inner, width)))
        wanted += [("widen", layer.feed.widen, (hidden, width)), ("narrow", layer.feed.narrow, (width, hidden))]
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

"""The blocks of a Transformer: attention and feed-forward, each with its residual connection."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache
from mirada.attention.equation import Attention
from mirada.attention.heads import Heads, MultiHead
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Causal, Complete, Neighborhood
from mirada.attention.positions import InputPosition
from mirada.config import Config
from mirada.errors import require, require_known
from mirada.layers.dropout import Dropout
from mirada.layers.feedforward import feed_forward
from mirada.layers.norm import Norm
from mirada.layers.parse import parse

# The residual connection around a layer, before or after its norm.


Input = Float[Tensor, "batch length width"]


class Residual(nn.Module):
    """A layer with its norm, its dropout and a way around it.

    pre:   h = x + dropout(layer(norm(x)))
    post:  h = norm(x + dropout(layer(x)))

    The layer is handed over at the call, so that it keeps a short name in the module that owns it. Where there is a `scale`, it
    multiplies what the layer says, before the dropout.

    Args:
        norm: the norm before or after.
        order: "pre" or "post".
        dropout: the share of the layer's numbers that are dropped in training.
        scale: what the output of the layer is multiplied by; None leaves it as it is.

    >>> from mirada.layers.norm import LayerNorm
    >>> import torch
    >>> around = Residual(LayerNorm(4), order="pre")
    >>> around(torch.ones(1, 1, 4), lambda x: 3 * x).tolist()
    [[[1.0, 1.0, 1.0, 1.0]]]

    He et al. (2016), arXiv:1512.03385; Xiong et al. (2020), arXiv:2002.04745.
    """

    def __init__(
        self, norm: Norm, order: Literal["pre", "post"], dropout: float = 0.0, scale: "LayerScale | None" = None
    ) -> None:
        super().__init__()
        require_known("order", order, ["pre", "post"])
        self.norm, self.order, self.scale = norm, order, scale
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Input, layer: Callable[[Input], Input], real: Bool[Tensor, "batch length"] | None = None
    ) -> Input:
        """x with the output of the layer added."""
        h = layer(self.norm(x, real) if self.order == "pre" else x)
        h = self.dropout(h if self.scale is None else self.scale(h), base=x)
        return h if self.order == "pre" else self.norm(h, real)

    def extra_repr(self) -> str:
        return f"order={self.order!r}"


class LayerScale(nn.Module):
    """A trained number for every coordinate, small at the start, that multiplies what a layer adds to the residual stream.

    h = scale * x

    Args:
        width: numbers in a vector.
        start: the number that all of them start from.

    >>> import torch
    >>> LayerScale(2, start=0.5)(torch.tensor([[[2.0, 4.0]]])).tolist()
    [[[1.0, 2.0]]]

    Touvron et al. (2021), arXiv:2103.17239.
    """

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Input) -> Input:
        """x, every coordinate times its number."""
        return x * self.weight


Real = Bool[Tensor, "batch length"]
LIST = " / "  # between the words of a list
MOST_WORDS = 1000  # of lists: no stack has more layers


@dataclass(frozen=True, kw_only=True)
class BlockConfig(Config):
    """One block: its sizes, and every factor of its attention as a word (see `layers/parse.py`).

    `projection` is how heads are made (multihead, grouped:2, collaborative:64, split), `order` where the norm stands,
    `length` the rows of a learned position table. `position` and `where` may list several words, separated by ` / `, which
    the layers of a stack take in turn: layer n has word n modulo their number.

    Args:
        width: numbers in a vector.
        heads: heads of an attention.
        hidden: numbers in the hidden layer of the feed-forward network.
        activation: the feed-forward network: relu, gelu, gelu-tanh, silu, gelu:bias=no, gated or gated:gelu.
        norm: layer (without a bias layer:bias=no), rms or batch.
        order: "pre" (norm, then layer) or "post".
        dropout: the share of numbers dropped in the residual stream.
        position: sinusoidal, learned, rotary, relative:16, alibi, t5 or none; or a list of them.
        where: the neighborhood of self-attention, such as causal & window:128; or a list of them.
        projection: how heads are made: multihead, grouped:2, multihead:bias=qkv, collaborative:64 or split.
        score: dot, general, additive, concat, tanhsum or location.
        normalizer: softmax, sparsemax, ...
        length: rows of a learned position table.

    >>> BlockConfig(width=64, heads=2, hidden=128, position="rotary", where="causal & window:128").order
    'pre'
    >>> BlockConfig(where="complete / window:64,64 / window:64,64").of_layer(4).where
    'window:64,64'
    """

    width: int = 256
    heads: int = 4
    hidden: int = 1024
    activation: str = "relu"
    norm: str = "layer"
    order: str = "pre"
    dropout: float = 0.1
    position: str = "sinusoidal"
    where: str = "complete"
    projection: str = "multihead"
    score: str = "dot"
    normalizer: str = "softmax"
    length: int = 512
    small: ClassVar[Mapping[str, Any]] = {}  # further sizes of `tiny`

    def __post_init__(self) -> None:
        if isinstance(self.where, Neighborhood):  # given as a value
            object.__setattr__(self, "where", repr(self.where))
        super().__post_init__()

    def check(self) -> None:
        self.at_least(1, "width", "heads", "hidden", "length")
        self.probability("dropout")
        self.one_of("order", "pre", "post")
        if self.has_blocks and self.turn > 1:
            self._check_lists()
        elif self.has_blocks:
            with torch.device("meta"):  # nothing is computed: building one layer finds what does not fit
                EncoderLayer(self)
                input_position(self)

    def _check_lists(self) -> None:
        """Require words that fit, each as if all layers had it, and the same addition to the input from all."""
        require(self.turn <= MOST_WORDS, f"layers can take turns with up to {MOST_WORDS} words: got {self.turn}")
        layers = [self.of_layer(number) for number in range(self.turn)]  # each is checked when it is made
        with torch.device("meta"):
            added = any(input_position(layer) is not None for layer in layers)
        alike = not added or len({layer.position for layer in layers}) == 1
        require(alike, f"a position that is added to the input is that of all layers: got {self.position!r}")

    @property
    def turn(self) -> int:
        """After how many layers the words of `where` and `position` begin again: 1 if all layers have the same."""
        return math.lcm(*(len(words.split(LIST)) for words in (self.where, self.position)))

    def of_layer(self, number: int) -> Self:
        """The configuration of one layer of a stack: of every list, the word whose turn it is."""
        if self.turn == 1:
            return self
        lists = {name: getattr(self, name).split(LIST) for name in ("where", "position")}
        return replace(self, **{name: words[number % len(words)].strip() for name, words in lists.items()})

    @classmethod
    def tiny(cls) -> Self:
        """Small sizes, for tests and examples."""
        sizes: dict[str, Any] = {"width": 16, "heads": 2, "hidden": 32, "dropout": 0.0, "length": 32, **cls.small}
        return cls(**sizes)

    def check_decoder(self) -> None:
        """Raise a ValueError if a decoder of these blocks cannot be run step by step."""
        if self.has_blocks:
            with torch.device("meta"):
                DecoderLayer(self.of_layer(0)).self_attention.cache(0, 0)

    @property
    def has_blocks(self) -> bool:
        """Whether the model has such blocks: some kinds of some models have none."""
        return True

    def known(self, heads: Heads) -> dict[str, object]:
        """The sizes that parts of these heads take from the model."""
        return {
            "width": self.width, "heads": heads.heads, "dim": heads.dim, "dim_q": heads.dim, "dim_k": heads.key_dim,
            "positions": self.length, "max_keys": self.length,
        }  # fmt: skip


class _SelfAttending(nn.Module):
    """A block that attends to its own input, with a module that is named `self` in weights, in `look` and in changes."""

    def __init__(self, config: BlockConfig, where: Neighborhood) -> None:
        super().__init__()
        self.add_module("self", _attention(config, where))

    @property
    def self_attention(self) -> Attention:
        """The attention of the block's input to itself."""
        return self._modules["self"]  # type: ignore[return-value]


class EncoderLayer(_SelfAttending):
    """Self-attention, then feed-forward, each with a residual connection and a norm.

    Without a memory this is also the block of a decoder-only model: its neighborhood is then causal.

    Args:
        config: sizes and factors.
        where: the neighborhood, within that of the configuration; complete by default.

    >>> EncoderLayer(BlockConfig(width=8, heads=2, hidden=16))(torch.zeros(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, config: BlockConfig, where: Neighborhood | None = None) -> None:
        super().__init__(config, where or Complete())
        self.feed = feed_forward(config.width, config.hidden, config.activation)
        self.around_self = _residual(config)
        self.around_feed = _residual(config)

    def forward(
        self,
        x: Input,
        where: Neighborhood | None = None,
        real: Real | None = None,
        positions: Int[Tensor, "*batch length"] | None = None,
    ) -> Input:
        """The block at every place. `where` may hide keys, `real` marks the places that a batch norm counts."""
        x = self.around_self(x, lambda h: self.self_attention(h, where=where, positions=positions), real)
        return self.around_feed(x, self.feed, real)

    def step(self, x: Input, cache: Cache) -> tuple[Input, Input]:
        """The next places after those in the cache, and the input of the attention."""
        asked: list[Input] = []

        def attend(h: Input) -> Input:
            asked.append(h)
            return self.self_attention(h, cache=cache)

        return self.around_feed(self.around_self(x, attend), self.feed), asked[0]


class DecoderLayer(_SelfAttending):
    """Causal self-attention, attention over a memory, then feed-forward.

    Args:
        config: sizes and factors.

    >>> layer = DecoderLayer(BlockConfig(width=8, heads=2, hidden=16))
    >>> layer(torch.zeros(2, 3, 8), torch.zeros(2, 5, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config, Causal())
        self.cross = _attention(config)
        self.feed = feed_forward(config.width, config.hidden, config.activation)
        self.around_self = _residual(config)
        self.around_cross = _residual(config)
        self.around_feed = _residual(config)

    def forward(
        self,
        x: Input,
        memory: Float[Tensor, "batch keys width"],
        memory_where: Neighborhood | None = None,
        real: Real | None = None,
    ) -> Input:
        """The block at every place of a target. `memory_where` may hide places of the memory."""
        x = self.around_self(x, self.self_attention, real)
        x = self.around_cross(x, lambda h: self.cross(h, memory=memory, where=memory_where), real)
        return self.around_feed(x, self.feed, real)

    def step(self, x: Input, memory: Memory, cache: Cache) -> tuple[Input, Input]:
        """The next places after those in the cache, and the input of the attention over the memory."""
        asked: list[Input] = []

        def attend(h: Input) -> Input:
            asked.append(h)
            return self.cross(h, memory=memory)

        x = self.around_self(x, lambda h: self.self_attention(h, cache=cache))
        return self.around_feed(self.around_cross(x, attend), self.feed), asked[0]


def _attention(config: BlockConfig, where: Neighborhood | None = None) -> Attention:
    """Self-attention inside `where` as a configuration describes it; None: attention over all of a memory, without positions."""
    heads = _heads_of(config)
    where = None if where is None else parse("where", config.where) & where
    known = config.known(heads)
    direction = {"bidirectional": where is not None and not where.causal}
    position = None if where is None else parse("position", config.position, known | direction)
    score = parse("score", config.score, known, hidden=config.width // config.heads)
    position = None if isinstance(position, InputPosition) else position
    return Attention(heads, score, where, position, parse("normalizer", config.normalizer, known))


def _heads_of(config: BlockConfig) -> Heads:
    """The heads that a configuration describes."""
    heads: Heads = parse("heads", config.projection, {"width": config.width, "heads": config.heads})
    out = heads.out.out_features if isinstance(heads, MultiHead) else config.width
    require(
        out == heads.memory_width == heads.value_width == config.width,
        f"a block keeps its width={config.width}: got projection {config.projection!r} with memory_width={heads.memory_width}, "
        f"values_width={heads.value_width}, out={out}",
    )
    return heads


def input_position(config: BlockConfig, width: int = 0) -> InputPosition | None:
    """The position that is added to the input, if that is where the configuration's position acts.

    An input may have a `width` other than that of the blocks.
    """
    config = config.of_layer(0)
    position = parse("position", config.position, config.known(_heads_of(config)) | {"width": width or config.width})
    return position if isinstance(position, InputPosition) else None


def _residual(config: BlockConfig) -> Residual:
    """The residual connection of a configuration, with a norm of its own."""
    return Residual(norm(config), config.order, config.dropout)  # type: ignore[arg-type]


def norm(config: BlockConfig, width: int = 0) -> Norm:
    """The norm that a configuration describes, of vectors of its width or of another."""
    return parse("norm", config.norm, {"width": width or config.width})

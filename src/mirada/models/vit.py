"""The Vision Transformer: a picture as a sentence of patches.

patches -> linear or convolutions -> [class token] + patches -> + positions -> encoder layers -> norm -> pool -> classes
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.errors import require
from mirada.layers.block import BlockConfig, EncoderLayer, input_position
from mirada.layers.convolution import PooledStem2d, Stem2d, pool
from mirada.layers.embed import AddPosition, Patches
from mirada.layers.model import Model, check_classes
from mirada.layers.output import check_smoothing
from mirada.layers.stack import Encoder
from mirada.shapes import show

MOST_CONVOLUTIONS = 16


@dataclass(frozen=True, kw_only=True)
class ViTConfig(BlockConfig):
    """Picture and patch sizes, classes and depth; the block's fields are in `BlockConfig`.

    `stem` is how a patch becomes a vector: linear, or convolutions that halve the picture until a patch is one cell, and so
    see a little of the patches around it: by their stride (convolution), or by pools (pooled: three convolutions, or as many as
    there are pools; pooled:5 has five). `pool` is first (the class token), mean, max or attention; only the first has
    a class token. `length` must hold all places.

    Args:
        channels: numbers in a pixel.
        size: pixels on a side of a picture.
        patch: pixels on a side of a patch.
        classes: how many classes there are.
        depth: how many layers there are.
        stem: linear, convolution, pooled or pooled:N with N convolutions.
        pool: first, mean, max or attention.
        and the fields of `BlockConfig`.

    >>> ViTConfig(size=32, patch=4, classes=10).places  # 8 x 8 patches and the class token
    65
    """

    activation: str = "gelu"
    norm: str = "layer:1e-12"
    position: str = "learned"
    length: int = 257
    channels: int = 3
    size: int = 32
    patch: int = 4
    classes: int = 10
    depth: int = 6
    stem: str = "linear"
    pool: str = "first"
    small: ClassVar = {"depth": 2, "size": 8, "patch": 4, "classes": 3, "length": 5}

    def check(self) -> None:
        super().check()
        self.at_least(1, "channels", "size", "patch", "classes", "depth")
        kind, _, convolutions = self.stem.partition(":")
        counted = kind == "pooled" and convolutions.isdecimal() and int(convolutions) <= MOST_CONVOLUTIONS
        if convolutions and counted:
            require(
                int(convolutions) >= self.halvings,
                f"patch={self.patch} takes {self.halvings} pools, each after a "
                f"convolution: got stem={self.stem}. Take pooled:{self.halvings} or more.",
            )
        else:
            self.one_of("stem", "linear", "convolution", "pooled")
        self.one_of("pool", "first", "mean", "max", "attention")
        message = f"a picture must divide into patches: got size={self.size}, patch={self.patch}. Change one of them."
        require(self.size % self.patch == 0, message)
        message = f"convolutions halve a picture: got patch={self.patch}. Take 2, 4, 8, ..., or stem=linear."
        require(self.stem == "linear" or (self.patch >= 2 and not self.patch & (self.patch - 1)), message)
        if self.position == "learned" and self.length < self.places:
            raise ValueError(f"length={self.length} is too short for {self.places} places: give length={self.places}")
        with torch.device("meta"):
            for number in range(self.turn):
                EncoderLayer(self.of_layer(number)).self_attention.check_length(self.places)

    @property
    def places(self) -> int:
        """The patches, and the class token where there is one."""
        return (self.size // self.patch) ** 2 + self.has_token

    @property
    def halvings(self) -> int:
        """How often convolutions halve a picture until a patch is one cell."""
        return self.patch.bit_length() - 1

    @property
    def has_token(self) -> bool:
        """Whether a class token stands before the patches."""
        return self.pool == "first"


class ViT(Model[ViTConfig]):
    """A Transformer encoder over patches; a class token gathers what decides.

    Args:
        config: sizes and parts, as a `ViTConfig`.

    >>> ViT(ViTConfig.tiny())(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 3])

    Dosovitskiy et al. (2021), arXiv:2010.11929.
    """

    Config = ViTConfig

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        self.patches = _stem(config)
        self.class_token = nn.Parameter(torch.randn(1, 1, config.width) * 0.02) if config.has_token else None
        self.place = AddPosition(input_position(config), config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.pool = pool(config.pool, config.width, config.heads, config.places)
        self.classes = linear(config.width, config.classes, bias=True)

    def forward(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """The scores of the classes."""
        return self.classes(self.pool(self.encode(pictures)))

    def loss(
        self,
        pictures: Float[Tensor, "batch channels height width"],
        classes: Int[Tensor, " batch"],
        smoothing: float = 0.0,
        weights: Float[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the right classes, each times the weight of its picture where there are weights."""
        check_smoothing(smoothing)
        classes = check_classes("classes", classes, self.config.classes, len(pictures))
        scores = self(pictures)
        if weights is None:
            return F.cross_entropy(scores, classes, label_smoothing=smoothing)
        return (weights * F.cross_entropy(scores, classes, label_smoothing=smoothing, reduction="none")).mean()

    def encode(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places features"]:
        """A vector for the class token, where there is one, and for every patch, row by row."""
        patches, size = self.patches(pictures), self.config.size
        require(  # a position counts patches: another grid would read the wrong rows
            self.place.position is None or pictures.shape[2:] == (size, size),
            f"the model was made for pictures of {size} x {size}: got {show(pictures)}. Resize them, or build it larger.",
        )
        if self.class_token is not None:
            patches = torch.cat([self.class_token.expand(len(patches), -1, -1), patches], dim=1)
        return self.encoder(self.place(patches))


def _stem(config: ViTConfig) -> Patches | Stem2d | PooledStem2d:
    """The layer that maps every patch to a vector."""
    if config.stem == "linear":
        return Patches(config.channels, config.patch, config.width)
    if config.stem == "convolution":
        return Stem2d(config.channels, config.width, depth=config.halvings)
    return PooledStem2d(config.channels, config.width, config.halvings, int(config.stem.partition(":")[2] or 0))

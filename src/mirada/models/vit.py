"""The Vision Transformer: a picture as a sentence of patches.

patches -> linear or convolutions -> [class token] + patches -> + positions -> encoder layers -> norm -> pool -> classes

DeiT has a second token, which learned from a teacher; DINOv2 scales what its layers add, and may have registers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.attention.positions import Learned
from mirada.errors import require
from mirada.layers.block import BlockConfig, EncoderLayer, LayerScale, input_position, norm
from mirada.layers.convolution import FirstMeanPool, Pool, PooledStem2d, Stem2d, pool
from mirada.layers.embed import AddPosition, Patches
from mirada.layers.model import Model, check_classes
from mirada.layers.output import Transform, check_smoothing
from mirada.layers.parse import parse
from mirada.layers.stack import Encoder
from mirada.shapes import show

MOST_CONVOLUTIONS = 16
WITH_TOKEN = ("first", "first-mean")  # the pools that read a class token


@dataclass(frozen=True, kw_only=True)
class ViTConfig(BlockConfig):
    """Picture and patch sizes, classes and depth; the block's fields are in `BlockConfig`.

    `stem` is how a patch becomes a vector: linear, or convolutions that halve the picture until a patch is one cell, and so
    see a little of the patches around it: by their stride (convolution), or by pools (pooled: three convolutions, or as many as
    there are pools; pooled:5 has five). `pool` is first (the class token), first-mean (the class token and the mean of the
    patches, side by side), mean, max or attention; only the first two have a class token. `length` must hold all places that
    have a position. `teacher` is a second token after that of the class, which learned from another model: none, token (its
    vector is not used), heads (it has classes of its own, and the scores are the mean of both). `resized` says how a learned
    table of positions is brought to pictures of other sizes: no (they are refused), bicubic or antialias (bicubic, smoothed).

    Args:
        channels: numbers in a pixel.
        size: pixels on a side of a picture.
        patch: pixels on a side of a patch.
        classes: how many classes there are; 0 for none: the model then answers with the pooled vector.
        depth: how many layers there are.
        stem: linear, convolution, pooled or pooled:N with N convolutions.
        pool: first, first-mean, mean, max or attention.
        transform: the layer behind the pool: none, or its activation, as in tanh.
        teacher: a second token: none, token or heads.
        registers: further tokens behind these, without a position and without an answer.
        layer_scale: what the numbers start from that multiply the output of every layer; 0 for none.
        resized: how positions are resized for pictures of other sizes: no, bicubic or antialias.
        masked: whether the vector of hidden patches is kept, which only the training before this one used.
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
    transform: str = "none"
    teacher: str = "none"
    registers: int = 0
    layer_scale: float = 0.0
    resized: str = "no"
    masked: bool = False
    small: ClassVar = {"depth": 2, "size": 8, "patch": 4, "classes": 3, "length": 5}

    def check(self) -> None:
        super().check()
        self.at_least(1, "channels", "size", "patch", "depth")
        self.at_least(0, "classes", "registers", "layer_scale")
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
        self.one_of("pool", *WITH_TOKEN, "mean", "max", "attention")
        self._check_tokens()
        message = f"a picture must divide into patches: got size={self.size}, patch={self.patch}. Change one of them."
        require(self.size % self.patch == 0, message)
        message = f"convolutions halve a picture: got patch={self.patch}. Take 2, 4, 8, ..., or stem=linear."
        require(self.stem == "linear" or (self.patch >= 2 and not self.patch & (self.patch - 1)), message)
        placed = self.places - self.registers
        if self.position == "learned" and self.length < placed:
            raise ValueError(f"length={self.length} is too short for {placed} places: give length={placed}")
        with torch.device("meta"):
            made_transform(self)
            for number in range(self.turn):
                EncoderLayer(self.of_layer(number)).self_attention.check_length(self.places)

    def _check_tokens(self) -> None:
        """Require tokens that fit together, and positions that can be resized."""
        self.one_of("teacher", "none", "token", "heads")
        if not self.has_token and (self.registers or self.teacher != "none"):
            raise self._wrong(
                f"registers and teacher stand behind a class token: got pool={self.pool}. Take pool=first."
            )
        if self.teacher == "heads" and not (self.classes and self.pool == "first" and self.transform == "none"):
            raise self._wrong("teacher=heads is for classes that are read from the class token alone: take pool=first")
        self.one_of("resized", "no", "bicubic", "antialias")
        if self.resized != "no" and self.position != "learned":
            raise self._wrong(f"resized={self.resized} is for position=learned: got {self.position!r}")

    @property
    def places(self) -> int:
        """The patches, and the tokens before them."""
        return (self.size // self.patch) ** 2 + self.before

    @property
    def before(self) -> int:
        """How many tokens stand before the patches: those of the class and the teacher, and the registers."""
        return len(self.token_names)

    @property
    def token_names(self) -> tuple[str, ...]:
        """The names of the tokens before the patches.

        >>> ViTConfig(size=32, patch=4, length=66, teacher="token", registers=1).token_names
        ('[class]', '[teacher]', '[register 1]')
        """
        first = ("[class]",) * self.has_token + ("[teacher]",) * (self.teacher != "none")
        return (*first, *(f"[register {number}]" for number in range(1, self.registers + 1)))

    @property
    def halvings(self) -> int:
        """How often convolutions halve a picture until a patch is one cell."""
        return self.patch.bit_length() - 1

    @property
    def has_token(self) -> bool:
        """Whether a class token stands before the patches."""
        return self.pool in WITH_TOKEN


class ViT(Model[ViTConfig]):
    """A Transformer encoder over patches; a class token gathers what decides.

    Args:
        config: sizes and parts, as a `ViTConfig`.

    >>> ViT(ViTConfig.tiny())(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 3])

    Dosovitskiy et al. (2021), arXiv:2010.11929; Touvron et al. (2021), arXiv:2012.12877; Oquab et al. (2023), arXiv:2304.07193;
    Darcet et al. (2024), arXiv:2309.16588.
    """

    Config = ViTConfig
    head_parts: ClassVar[tuple[str, ...]] = ("transform", "classes", "teacher_classes")  # what a new head replaces
    head_fields: ClassVar[tuple[str, ...]] = ("classes", "transform", "pool")

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        self.patches = _stem(config)
        self.class_token = _token(1, config.width) if config.has_token else None
        self.teacher_token = _token(1, config.width) if config.teacher != "none" else None
        self.registers = _token(config.registers, config.width) if config.registers else None
        # a part of the checkpoint that nothing here uses
        self.mask = nn.Parameter(torch.zeros(1, config.width), requires_grad=False) if config.masked else None
        self.place = AddPosition(input_position(config), config.dropout)
        self.encoder = _encoder(config)
        self.pool = _pool(config)
        self.transform = made_transform(config)
        self.classes = linear(self.pool.out, config.classes, bias=True) if config.classes else None
        two = config.teacher == "heads"
        self.teacher_classes = linear(config.width, config.classes, bias=True) if two else None

    @classmethod
    def usual_head(cls, there: ViTConfig) -> Mapping[str, Any]:
        """On a DINOv2, which reads pictures of any size, classes are read from the class token and the mean of the patches."""
        return {"pool": "first-mean"} if there.has_token and there.resized != "no" else {}

    def forward(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch out"]:
        """The scores of the classes; without classes, a vector for every picture."""
        h = self.encode(pictures)
        vector = self._pooled(h)
        if self.classes is None:
            return vector
        scores = self.classes(vector)
        return scores if self.teacher_classes is None else (scores + self.teacher_classes(h[:, 1])) / 2

    def vector(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch out"]:
        """One vector for every picture: what the classes are read from."""
        return self._pooled(self.encode(pictures))

    def _pooled(self, h: Float[Tensor, "batch places features"]) -> Float[Tensor, "batch out"]:
        """One vector of those of the places."""
        vector = self.pool(h)
        return vector if self.transform is None else self.transform(vector)

    def loss(
        self,
        pictures: Float[Tensor, "batch channels height width"],
        classes: Int[Tensor, " batch"],
        smoothing: float = 0.0,
        weights: Float[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the right classes, each times the weight of its picture where there are weights."""
        check_smoothing(smoothing)
        require(self.classes is not None, "a model without classes has nothing to learn: give classes=")
        classes = check_classes("classes", classes, self.config.classes, len(pictures))
        scores = self(pictures)
        if weights is None:
            return F.cross_entropy(scores, classes, label_smoothing=smoothing)
        return (weights * F.cross_entropy(scores, classes, label_smoothing=smoothing, reduction="none")).mean()

    def encode(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places features"]:
        """A vector for every token before the patches, and for every patch, row by row."""
        size, patch = self.config.size, self.config.patch
        if self.config.resized != "no":  # what is no whole patch is cut off at the right and below
            height, width = (side // patch * patch for side in pictures.shape[2:])
            pictures = pictures[:, :, :height, :width]
        patches = self.patches(pictures)
        require(  # a position counts patches: another grid would read the wrong rows
            self.place.position is None or self.config.resized != "no" or pictures.shape[2:] == (size, size),
            f"the model was made for pictures of {size} x {size}: got {show(pictures)}. Resize them, or build it larger.",
        )
        tokens = [token for token in (self.class_token, self.teacher_token) if token is not None]
        x = (
            torch.cat([*(token.expand(patches.shape[0], -1, -1) for token in tokens), patches], dim=1)
            if tokens
            else patches
        )
        x = self._placed(x, pictures.shape[2] // patch, pictures.shape[3] // patch)
        if self.registers is not None:
            rows = [x[:, : len(tokens)], self.registers.expand(x.shape[0], -1, -1), x[:, len(tokens) :]]
            x = torch.cat(rows, dim=1)
        return self.encoder(x)

    def _placed(
        self, x: Float[Tensor, "batch places width"], height: int, width: int
    ) -> Float[Tensor, "batch places width"]:
        """x with its positions, which are resized for a grid of other sides than that of the table."""
        config = self.config
        side = config.size // config.patch
        if config.resized == "no" or (height, width) == (side, side):
            return self.place(x)
        require(height > 0 and width > 0, f"a picture must have a patch of {config.patch} x {config.patch} at least")
        assert isinstance(self.place.position, Learned)
        before, table = x.shape[1] - height * width, self.place.position.table
        grid = table[before : before + side * side].float().view(1, side, side, -1).movedim(3, 1)
        smooth = config.resized == "antialias"
        grid = F.interpolate(grid, (height, width), mode="bicubic", align_corners=False, antialias=smooth)
        rows = grid.flatten(2)[0].T.to(table.dtype)
        return self.place.dropout(x + torch.cat([table[:before], rows]))


def made_transform(config: ViTConfig) -> Transform | None:
    """The layer behind the pool that a configuration describes."""
    if config.transform == "none":
        return None
    out = config.width * (2 if config.pool == "first-mean" else 1)
    return parse("transform", config.transform, {"width": out, "out": out, "normed": partial(norm, config)})


def _token(count: int, width: int) -> nn.Parameter:
    """Trained vectors that stand before the patches."""
    return nn.Parameter(torch.randn(1, count, width) * 0.02)


def _encoder(config: ViTConfig) -> Encoder:
    """The layers, whose outputs are scaled where the configuration says so."""
    encoder = Encoder(config, config.depth)
    if config.layer_scale:
        for layer in encoder.layers:
            for around in (layer.around_self, layer.around_feed):
                around.scale = LayerScale(config.width, config.layer_scale)
    return encoder


def _pool(config: ViTConfig) -> Pool:
    """What makes one vector of those of the places."""
    if config.pool == "first-mean":
        return FirstMeanPool(config.width, config.before)
    return pool(config.pool, config.width, config.heads, config.places)


def _stem(config: ViTConfig) -> Patches | Stem2d | PooledStem2d:
    """The layer that maps every patch to a vector."""
    if config.stem == "linear":
        return Patches(config.channels, config.patch, config.width)
    if config.stem == "convolution":
        return Stem2d(config.channels, config.width, depth=config.halvings)
    return PooledStem2d(config.channels, config.width, config.halvings, int(config.stem.partition(":")[2] or 0))

"""CLIP: pictures and texts in one space of vectors, in which a picture is near the texts that describe it.

picture -> patches, class token + positions -> norm -> encoder layers -> norm -> class token -> project -> vector
text    -> words + positions -> causal layers -> norm -> end token -> project -> vector
scores  =  scale * cos(picture, text)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.errors import require
from mirada.layers.block import BlockConfig, EncoderLayer, input_position, norm
from mirada.layers.embed import AddPosition, Patches, TokenEmbedding
from mirada.layers.model import Model, check_text, start_small
from mirada.layers.stack import Encoder, Stack
from mirada.shapes import check_axes, readable, show

LARGEST = -1  # as `end`: the token with the largest number ends a text
START = 2.6592  # of the logarithm of the scale: 1 / 0.07


@dataclass(frozen=True, kw_only=True)
class CLIPConfig(BlockConfig):
    """The sizes of two towers: the fields of `BlockConfig` are those of the tower of pictures, and of `length` texts' tokens.

    Args:
        out: numbers in the vectors of pictures and of texts.
        channels: numbers in a pixel.
        size: pixels on a side of a picture.
        patch: pixels on a side of a patch.
        depth: layers of the tower of pictures.
        vocab: how many tokens there are.
        end: the token whose place gives the vector of a text, the first where it is; -1: the token with the largest number.
        text_width: numbers in a vector of the tower of texts.
        text_heads: its heads.
        text_hidden: numbers in the hidden layer of its feed-forward networks.
        text_depth: its layers.
        text_activation: its activation.
        text_norm: its norms.
        text_normalizer: the normalizer of its attention.
        and the fields of `BlockConfig`.

    >>> CLIPConfig(size=224, patch=32).places  # 7 x 7 patches and the class token
    50
    """

    activation: str = "gelu-sigmoid"
    position: str = "learned"
    dropout: float = 0.0
    length: int = 77
    out: int = 512
    channels: int = 3
    size: int = 224
    patch: int = 32
    depth: int = 12
    vocab: int = 49408
    end: int = 49407
    text_width: int = 512
    text_heads: int = 8
    text_hidden: int = 2048
    text_depth: int = 12
    text_activation: str = "gelu-sigmoid"
    text_norm: str = "layer"
    text_normalizer: str = "softmax"
    small: ClassVar = {
        "size": 8, "patch": 4, "depth": 2, "vocab": 13, "end": 12, "length": 9, "out": 6, "text_width": 12, "text_heads": 2,
        "text_hidden": 16, "text_depth": 2,
    }  # fmt: skip

    def check(self) -> None:
        super().check()
        self.at_least(
            1, "out", "channels", "size", "patch", "depth", "vocab", "text_width", "text_heads", "text_hidden"
        )
        self.at_least(1, "text_depth")
        self.at_least(LARGEST, "end")
        self.at_most({"end": self.vocab - 1, "text_depth": 1000, "text_heads": 2**16})
        self.one_of("position", "learned")
        message = f"a picture must divide into patches: got size={self.size}, patch={self.patch}. Change one of them."
        require(self.size % self.patch == 0, message)
        if self.order != "pre":
            raise self._wrong(f"the norms of CLIP stand before the layers: got order={self.order}")
        with torch.device("meta"):
            EncoderLayer(self.texts)

    @property
    def places(self) -> int:
        """The patches and the class token of a picture."""
        return (self.size // self.patch) ** 2 + 1

    @property
    def pictures(self) -> BlockConfig:
        """The blocks of the tower of pictures."""
        return self._blocks(
            self.width, self.heads, self.hidden, self.activation, self.norm, self.normalizer, self.places
        )

    @property
    def texts(self) -> BlockConfig:
        """The blocks of the tower of texts."""
        return self._blocks(
            self.text_width, self.text_heads, self.text_hidden, self.text_activation, self.text_norm,
            self.text_normalizer, self.length,
        )  # fmt: skip

    def _blocks(
        self, width: int, heads: int, hidden: int, activation: str, norm: str, normalizer: str, length: int
    ) -> BlockConfig:
        """The blocks of a tower of these sizes."""
        return BlockConfig(
            width=width, heads=heads, hidden=hidden, activation=activation, norm=norm, normalizer=normalizer,
            length=length, dropout=self.dropout, position=self.position, where=self.where, projection=self.projection,
            score=self.score,
        )  # fmt: skip


class CLIP(Model[CLIPConfig]):
    """Two towers whose vectors are compared by their angle.

    Args:
        config: sizes and parts, as a `CLIPConfig`.

    >>> model = CLIP(CLIPConfig.tiny())
    >>> model(torch.zeros(2, 3, 8, 8), torch.tensor([[1, 5, 12], [1, 12, 0], [7, 6, 12]])).shape
    torch.Size([2, 3])

    Radford et al. (2021), arXiv:2103.00020.
    """

    Config = CLIPConfig

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__(config)
        self.picture = PictureTower(config)
        self.text = TextTower(config)
        self.log_scale = nn.Parameter(torch.tensor(START))

    def forward(
        self, pictures: Float[Tensor, "batch channels height width"], tokens: Int[Tensor, "texts length"]
    ) -> Float[Tensor, "batch texts"]:
        """The scores of all texts for every picture: their softmax is how likely each text describes the picture."""
        return self.scores(self.picture(pictures), self.text(tokens))

    def scores(
        self, pictures: Float[Tensor, "batch out"], texts: Float[Tensor, "texts out"]
    ) -> Float[Tensor, "batch texts"]:
        """The scores of texts for pictures, of their vectors."""
        return self.log_scale.exp() * F.normalize(pictures, dim=-1) @ F.normalize(texts, dim=-1).T

    def loss(
        self, pictures: Float[Tensor, "batch channels height width"], tokens: Int[Tensor, "batch length"]
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the text of every picture among all texts, and of the picture of every text."""
        require(len(pictures) == len(tokens), f"a text for every picture: got {len(tokens)} for {len(pictures)}")
        scores = self(pictures, tokens)
        own = torch.arange(len(scores), device=scores.device)
        return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


class PictureTower(nn.Module):
    """A Vision Transformer with a norm before its first layer, whose class token is projected."""

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__()
        blocks = config.pictures
        self.size = config.size
        self.patches = Patches(config.channels, config.patch, config.width, bias=False)
        self.class_token = nn.Parameter(torch.randn(config.width) * config.width**-0.5)
        self.place = AddPosition(input_position(blocks), norm=norm(blocks))
        self.encoder = Encoder(blocks, config.depth)
        self.project = linear(config.width, config.out, bias=False)

    def forward(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch out"]:
        """A vector for every picture."""
        return self.project(self.encode(pictures)[:, 0])

    def encode(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places features"]:
        """A vector for the class token and for every patch, row by row."""
        patches = self.patches(pictures)
        require(
            pictures.shape[2:] == (self.size, self.size),
            f"the model was made for pictures of {self.size} x {self.size}: got {show(pictures)}. Resize them.",
        )
        first = self.class_token.expand(patches.shape[0], 1, -1)
        return self.encoder(self.place(torch.cat([first, patches], dim=1)))


class TextTower(nn.Module):
    """A causal Transformer, whose vector at the end of a text is projected; what stands behind it changes nothing."""

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__()
        blocks = config.texts
        self.end, self.length = config.end, config.length
        self.words = TokenEmbedding(config.vocab, config.text_width)
        self.place = AddPosition(input_position(blocks))
        self.encoder = Stack(blocks, config.text_depth)
        self.project = linear(config.text_width, config.out, bias=False)
        self.apply(start_small)

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch out"]:
        """A vector for every text, each of which has its end token."""
        h = self.encode(tokens)
        return self.project(h[torch.arange(h.shape[0], device=h.device), self.ends(tokens)])

    def encode(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length features"]:
        """A vector for every token, which has read those before it."""
        check_axes("tokens", tokens, "batch length")
        check_text(tokens, tokens)
        message = f"the model reads texts of at most length={self.length} tokens: got {tokens.shape[1]}. Cut the text."
        require(tokens.shape[1] <= self.length, message)
        return self.encoder(self.place(self.words(tokens)))

    def ends(self, tokens: Int[Tensor, "batch length"]) -> Int[Tensor, " batch"]:
        """Where every text ends: at the first of its end tokens, or at the first of its largest numbers."""
        if self.end == LARGEST:
            return tokens.argmax(1)
        found = tokens == self.end
        message = (
            f"every text must have its end token {self.end}: one has not. Was it read with the model's own tokenizer?"
        )
        require(not readable(found) or bool(found.any(1).all()), message)
        return found.int().argmax(1)

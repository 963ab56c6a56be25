"""Blocks around the attention layer.

>>> from mirada.layers import BlockConfig, EncoderLayer
>>> EncoderLayer(BlockConfig(width=8, heads=2)).self_attention.heads.dim
4
"""

from typing import TYPE_CHECKING

from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.layers.axes import Axes
    from mirada.layers.block import BlockConfig, DecoderLayer, EncoderLayer, Residual
    from mirada.layers.convolution import PooledStem2d, Stem1d, Stem2d
    from mirada.layers.embed import AddPosition, Patches, SeriesEmbedding, TokenEmbedding
    from mirada.layers.feedforward import FeedForward, Gated
    from mirada.layers.model import Model
    from mirada.layers.norm import BatchNorm, LayerNorm, RMSNorm
    from mirada.layers.output import Output
    from mirada.layers.recurrent import BahdanauDecoder, LuongDecoder, PlainDecoder, Recurrent
    from mirada.layers.stack import Decoder, DecoderState, Encoder, Stack

__all__ = [
    "AddPosition", "Axes", "BahdanauDecoder", "BatchNorm", "BlockConfig", "Decoder", "DecoderLayer", "DecoderState",
    "Encoder", "EncoderLayer", "FeedForward", "Gated", "LayerNorm", "LuongDecoder", "Model", "Output", "Patches",
    "PlainDecoder", "PooledStem2d", "RMSNorm", "Recurrent", "Residual", "SeriesEmbedding", "Stack", "Stem1d", "Stem2d",
    "TokenEmbedding",
]  # fmt: skip

__getattr__ = submodules(__name__)

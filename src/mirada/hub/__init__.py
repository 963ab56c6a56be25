"""Bridges to other libraries: their layers and checkpoints as ours.

A module per format: `mirada.hub.bert.load(config, weights)`, and likewise `gpt2`, `marian` and `vit`, take a checkpoint of
Hugging Face; `torch_mha.from_torch` and `keras_mha.from_keras` a layer, `to_torch` gives it back; `vectors` reads word vectors.

>>> import mirada
>>> from torch import nn
>>> mirada.hub.from_torch(nn.MultiheadAttention(8, 2)).heads.heads
2
"""

from typing import TYPE_CHECKING

from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.hub.keras_mha import from_keras
    from mirada.hub.torch_mha import from_torch, to_torch

__all__ = ["from_keras", "from_torch", "to_torch"]

__getattr__ = submodules(__name__)

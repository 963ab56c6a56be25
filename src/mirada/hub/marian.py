"""Hugging Face's Marian: the checkpoint of a `MarianMTModel` as our `Transformer`. Its table is that of BART's relatives."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mirada.hub import bart
from mirada.hub.mapping import expect
from mirada.models.transformer import Transformer, TransformerConfig


def config(theirs: Mapping[str, Any]) -> TransformerConfig:
    """Our configuration of a `config.json` of theirs: post-norm, sines in one half and cosines in the other.

    >>> sizes = {"vocab_size": 11, "d_model": 8, "encoder_layers": 2, "decoder_layers": 2, "scale_embedding": True}
    >>> heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    >>> config(sizes | heads | {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16}).tied
    'all'
    """
    expect(theirs, model_type="marian")
    return bart.config({"model_type": "marian", **theirs})


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transformer:
    """Our model of their configuration and weights, in evaluation mode.

    Their `final_logits_bias` is constant, our output bias is trainable; a checkpoint may also have none. In Marian a target
    begins with the padding token.

    Junczys-Dowmunt et al. (2018), arXiv:1804.00344.
    """
    expect(theirs, model_type="marian")
    return bart.load({"model_type": "marian", **theirs}, weights)

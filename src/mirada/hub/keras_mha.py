"""From Keras' attention layers to ours. Keras itself is not imported: a layer has its configuration and weights."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead, Split
from mirada.attention.neighborhoods import Complete, Window
from mirada.attention.normalizers import Softmax
from mirada.attention.scores import Dot, Score, TanhSum
from mirada.errors import require, unknown
from mirada.layers.axes import Axes


def from_keras(layer: Any) -> Attention | Axes:
    """Our layer with a copy of the weights of a built Keras 3 layer, and the same outputs.

    Mind the order of the inputs: Keras calls `layer([query, value, key])` or `layer(query, value, key)`, we call
    `ours(query, memory=key, values=value)`.

    Args:
        layer: an `Attention` (either score mode), an `AdditiveAttention` or a `MultiHeadAttention` that has weights.

    Returns:
        An `Attention`; an `Axes` for a `MultiHeadAttention` with `attention_axes`.

    >>> from_keras(torch.nn.Linear(2, 2))
    Traceback (most recent call last):
    ValueError: unknown Keras layer 'Linear'; known: AdditiveAttention, Attention, MultiHeadAttention.
    """
    makers = {
        "Attention": _from_single_head,
        "AdditiveAttention": _from_single_head,
        "MultiHeadAttention": _from_multi_head,
    }
    kind = type(layer).__name__
    if kind not in makers:
        raise unknown("Keras layer", kind, makers)
    require(bool(layer.built), f"the Keras layer {layer.name!r} has no weights yet: call it once, or build it")
    return makers[kind](layer)


def _from_single_head(layer: Any) -> Attention:
    """Keras `Attention`: raw dot product, or tanh of the sum ("concat"), each with a learned scale where there is one.

    Keras `AdditiveAttention` is a weighted sum of tanh(q + k).
    """
    config, weights = layer.get_config(), _named_weights(layer)
    width, scaled = layer.get_build_config()["input_shape"][0][-1], config["use_scale"]
    learned: Literal["learned"] | None = "learned" if scaled else None
    score: Score = Dot(scale=learned or 1.0)
    names = {"scale": "scale", "concat_score_weight": "weight"}
    if type(layer).__name__ == "AdditiveAttention":
        score, names = TanhSum(width, weight="vector" if scaled else None), {"scale": "weight"}
    elif config["score_mode"] == "concat":
        score = TanhSum(width, weight="scalar", scale=learned)
    for theirs, weight in weights.items():
        _copy_(getattr(score, names[theirs]), weight)
    return Attention(Split(width, heads=1), score, normalizer=Softmax(config["dropout"]))


def _from_multi_head(layer: Any) -> Attention | Axes:
    """Keras `MultiHeadAttention`, with any `attention_axes`."""
    config, weights = layer.get_config(), _named_weights(layer)
    gated = config.get("use_gate")
    require(not gated, "a Keras MultiHeadAttention with use_gate=True has no equivalent here: build it without")
    out = weights["attention_output/kernel"]
    require(out.ndim == 3, f"output_shape must be one size: got {config['output_shape']}")
    heads = MultiHead(
        width=weights["query/kernel"].shape[0],
        heads=config["num_heads"],
        dim=config["key_dim"],
        value_dim=config["value_dim"],
        memory_width=weights["key/kernel"].shape[0],
        out=out.shape[-1],
        bias=config["use_bias"],
        values_width=weights["value/kernel"].shape[0],
    )
    for ours, theirs in ((heads.query, "query"), (heads.key, "key"), (heads.value, "value")):
        _copy_(ours.weight, weights[f"{theirs}/kernel"].flatten(1).T)
        if config["use_bias"]:
            _copy_(ours.bias, weights[f"{theirs}/bias"].flatten())
    _copy_(heads.out.weight, out.flatten(0, 1).T)
    if config["use_bias"]:
        _copy_(heads.out.bias, weights["attention_output/bias"])
    reach = config.get("sliding_window")
    where = Complete() if reach is None else Window(reach - 1, reach - 1)
    attention = Attention(heads, where=where, normalizer=Softmax(config["dropout"]))
    rank = len(layer.get_build_config()["shapes_dict"]["query_shape"])
    axes = tuple(config["attention_axes"])
    return attention if (rank, axes) == (3, (1,)) else Axes(attention, axes)


def _named_weights(layer: Any) -> dict[str, Tensor]:
    """The weights of a Keras layer by their path inside it."""
    arrays = zip(layer.weights, layer.get_weights(), strict=True)
    return {variable.path.split("/", 1)[1]: torch.from_numpy(np.array(array)) for variable, array in arrays}


def _copy_(parameter: Tensor, weight: Tensor) -> None:
    """Copy a weight into a parameter of the same shape."""
    with torch.no_grad():
        parameter.copy_(weight)

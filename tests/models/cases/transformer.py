"""The Transformer in the battery."""

import torch

from mirada.attention.neighborhoods import Causal, Documents, PerHead, Window
from mirada.models.transformer import Transformer, TransformerConfig
from tests.models.cases.case import (
    BATCH,
    DECODER_BLOCK,
    LENGTH,
    LENGTHS,
    SIZES,
    TARGET,
    TARGET_LENGTHS,
    Batch,
    Case,
    masked,
    tokens,
)  # fmt: skip


class TransformerCase(Case):
    model = Transformer
    base = TransformerConfig(**SIZES, vocab=13, source_vocab=11)
    values = DECODER_BLOCK | {
        "tied": ["no", "output", "words", "all"], "output_bias": [False, True], "output_scale": [1.0, 0.3],
        "scaled_words": [True, False], "normed_words": [False, True], "decoder_depth": [0, 1, 3],
    }  # fmt: skip
    variants = {
        "plain": {},
        "untied": {"tied": "no"},
        "tied": {"tied": "all", "output_bias": True},
        "post": {"order": "post", "position": "rotary"},
        "general": {"score": "general"},
        "window": {"where": "window:1,1"},
        "relative in a window": {"position": "relative:2", "where": "window:2,2"},
        "relative in a window, post": {"position": "relative:2", "where": "window:2,2", "order": "post"},
        "alibi in a window": {"position": "alibi", "where": Window(2)},
        "t5": {"position": "t5:8,9", "tied": "words", "scaled_words": False, "norm": "rms"},
        "t5 in a window, post": {"position": "t5:8,9", "where": "window:2,2", "order": "post", "output_scale": 0.2},
        "bart": {
            "position": "learned:offset=2",
            "tied": "all",
            "normed_words": True,
            "order": "post",
            "decoder_depth": 1,
        },
        "rms": {"norm": "rms"},
        "rms post": {"norm": "rms", "order": "post"},
        "batch": {"norm": "batch"},
        "batch post": {"norm": "batch", "order": "post"},
        "batch relative": {"position": "relative:2", "norm": "batch", "where": "window:2,2"},
    }
    refused = [
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"heads": 0}, "TransformerConfig: heads must be at least 1: got 0"),
        ({"vocab": 0}, "vocab must be at least 1"),
        ({"source_vocab": 0}, "source_vocab must be at least 1"),
        ({"length": 0}, "length must be at least 1"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\): got 1.0"),
        ({"dropout": -0.1}, r"dropout must lie in \[0, 1\)"),
        ({"width": "24"}, "TransformerConfig: width must be of type int: got '24'"),
        ({"width": 24.0}, "width must be of type int"),
        ({"output_bias": 1}, "output_bias must be of type bool: got 1"),
        ({"order": "middle"}, "unknown order 'middle'; known: post, pre"),
        ({"norm": "lay"}, r"unknown norm 'lay'; known: batch, layer, rms\. Did you mean 'layer'\?"),
        ({"norm": "layer:0"}, "eps > 0"),
        (
            {"activation": "swish"},
            "unknown activation 'swish'; known: gated, gelu, gelu-sigmoid, gelu-tanh, relu, silu",
        ),
        ({"position": "rotory"}, "Did you mean 'rotary'"),
        ({"position": "relative"}, "position 'relative' does not fit: relative takes clip, values"),
        ({"position": "none:3"}, "none"),
        ({"position": "rotary", "width": 21}, "dim must be even: got dim=7"),
        ({"position": "relative:3", "score": "additive"}, "Relative and a score other than Dot cannot work together"),
        ({"where": "windwo:3"}, "Did you mean 'window'"),
        ({"where": "window:-1"}, "left and right >= 0: got left=-1"),
        ({"where": ""}, "where cannot be read: got ''"),
        ({"where": 3}, "where must be of type str: got 3"),
        ({"where": Documents(torch.zeros(1, 5, dtype=torch.long))}, "where"),
        ({"where": PerHead(Causal(), Causal())}, "heads=3"),
        ({"projection": "grouped:2"}, "heads must be divisible by kv_heads: got heads=3, kv_heads=2"),
        ({"projection": "tied"}, "unknown heads 'tied'"),
        ({"score": "scaled-dot"}, "unknown score 'scaled-dot'"),
        ({"normalizer": "softmx"}, "Did you mean 'softmax'"),
        ({"tied": "yes"}, "unknown tied 'yes'; known: all, no, output, words"),
        ({"tied": "words", "source_vocab": 11}, "tied='words' needs one vocabulary: got vocab=13, source_vocab=11"),
        ({"output_scale": 0.0}, "output_scale must be positive and finite: got 0.0"),
        ({"decoder_depth": -1}, "decoder_depth must be at least 0: got -1"),
        ({"position": "t5:2"}, "T5Bias needs at least 4 buckets: got 2"),
        ({"position": "t5:32,8"}, r"distance must lie in 9\.\.65536 for buckets=32: got 8"),
        ({"tied": "all", "source_vocab": 11}, "tied='all' needs one vocabulary: got vocab=13, source_vocab=11"),
    ]
    misfits = {
        "lengths too long": (
            {"lengths": torch.tensor([7, 8, 4])},
            "lengths must be at most the length of the batch: got lengths up to 8, length=7",
        ),
        "fewer lengths": ({"lengths": torch.tensor([7])}, "lengths must have one number per sample: got 1 for batch=3"),
        "negative lengths": ({"lengths": torch.tensor([7, -1, 4])}, "lengths must be at least 0: got -1"),
        "floats as lengths": ({"lengths": torch.tensor([7.0, 4.0, 4.0])}, "lengths must hold integers"),
        "no batch": ({"source": tokens(LENGTH, vocab=11)}, "batch"),
        "no batch of lengths": ({"source": tokens(LENGTH, vocab=11), "lengths": LENGTHS[:1]}, "batch"),
        "fewer targets": ({"target": tokens(1, TARGET)}, "batch"),
    }  # fmt: skip
    by_heart = {"tiny": {}}
    padded = {"source": LENGTHS, "target": TARGET_LENGTHS, "wanted": TARGET_LENGTHS}
    strength = 0.1
    writes = "target"
    seeds = 25

    def config(self, **changes):
        return super().config(**(({"source_vocab": 13} if changes.get("tied") in ("all", "words") else {}) | changes))

    def batch(self, config):
        given = {
            "source": tokens(BATCH, LENGTH, vocab=config.source_vocab, seed=1),
            "lengths": LENGTHS,
            "target": tokens(BATCH, TARGET, vocab=config.vocab, seed=2),
        }
        wanted = masked(tokens(BATCH, TARGET, vocab=config.vocab, seed=3), TARGET_LENGTHS)
        return Batch(given, {"wanted": wanted, "target_lengths": TARGET_LENGTHS})

    def shapes(self, config):
        return [(BATCH, TARGET, config.vocab)]

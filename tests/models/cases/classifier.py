"""The classifier in the battery."""

import torch
from torch.testing import assert_close

from mirada.models.classifier import Classifier, ClassifierConfig
from tests.models.cases.case import BATCH, ENCODER_BLOCK, LENGTH, LENGTHS, SIZES, Batch, Case, numbers, outputs, tokens

ENCODERS = ["transformer", "lstm", "convolution"]
POOLS = ["mean", "max", "first", "attention", "flatten"]


class ClassifierCase(Case):
    model = Classifier
    base = ClassifierConfig(**SIZES | {"length": 11}, vocab=13, classes=5, units=6, kernel=3)
    values = ENCODER_BLOCK | {
        "encoder": ENCODERS, "pool": POOLS, "classes": [1, 2, 5], "dense": [0, 7], "key_dim": [0, 5], "numbers": [0, 2],
    }  # fmt: skip
    variants = {
        **{
            f"{encoder}, {pool}": {"encoder": encoder, "pool": pool, "dense": 7}
            for encoder in ENCODERS
            for pool in POOLS
        },
        "plain": {},
        "heads": {"encoder": "convolution", "key_dim": 5},
        "rms": {"norm": "rms"},
        "batch": {"norm": "batch", "pool": "attention"},
        "batch post": {"norm": "batch", "order": "post"},
        "one class": {"classes": 1},
        "table": {"numbers": 2, "pool": "attention"},
    }
    refused = [
        ({"encoder": "gru"}, "unknown encoder 'gru'; known: convolution, lstm, transformer"),
        ({"pool": "average"}, "unknown pool 'average'; known: attention, first, flatten, max, mean"),
        ({"classes": 0}, "ClassifierConfig: classes must be at least 1: got 0"),
        ({"units": 0}, "units must be at least 1"),
        ({"kernel": 0}, "kernel must be at least 1"),
        ({"dense": -1}, "dense must be at least 0: got -1"),
        ({"numbers": -1}, "numbers must be at least 0: got -1"),
        ({"key_dim": -1}, "key_dim must be at least 0: got -1"),
        ({"encoder": "convolution", "kernel": 12}, "a kernel of 12 does not fit a text of length=11"),
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"dropout": 1}, r"dropout must lie in \[0, 1\): got 1.0"),
        ({"dense": 7.0}, "dense must be of type int: got 7.0"),
        ({"position": "learnt"}, "Did you mean 'learned'"),
    ]
    by_heart = {
        f"{encoder}, classes={classes}": {"encoder": encoder, "classes": classes} for encoder in ENCODERS for classes in (1, 3)
    }  # fmt: skip
    rate = 2e-2
    padded = {"tokens": LENGTHS}
    seeds = 20

    def batch(self, config):
        given = {"tokens": tokens(BATCH, LENGTH, vocab=config.vocab), "lengths": LENGTHS}
        given |= {"values": numbers(BATCH, config.numbers)} if config.numbers else {}
        return Batch(given, {"classes": torch.tensor([0, 1, 4]).clamp(max=max(1, config.classes - 1))})

    def shapes(self, config):
        return [(BATCH, config.classes)]

    def assert_learned(self, model, batch):
        scores = outputs(model, batch)[0]
        found = (scores[:, 0] > 0).long() if scores.shape[1] == 1 else scores.argmax(-1)
        assert_close(found, batch.wanted["classes"])

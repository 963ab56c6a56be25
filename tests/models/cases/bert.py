"""BERT in the battery."""

import torch
from torch.testing import assert_close

from mirada.models.bert import BERT, BERTConfig
from tests.models.cases.case import (
    BATCH,
    ENCODER_BLOCK,
    LENGTH,
    LENGTHS,
    SIZES,
    TEXT_MISFITS,
    Batch,
    Case,
    masked,
    outputs,
    tokens,
)


class BERTCase(Case):
    model = BERT
    base = BERTConfig(**SIZES, vocab=13)
    values = ENCODER_BLOCK | {"segments": [1, 2, 3]}
    variants = {
        "plain": {},
        "post": {"order": "post", "norm": "layer"},
        "pre": {"order": "pre"},
        "rms": {"norm": "rms", "order": "pre"},
        "rms post": {"norm": "rms"},
        "batch": {"norm": "batch", "order": "pre"},
        "batch post": {"norm": "batch"},
        "alibi": {"position": "alibi", "segments": 3},
    }
    refused = [
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"segments": 0}, "BERTConfig: segments must be at least 1: got 0"),
        ({"vocab": -1}, "vocab must be at least 1: got -1"),
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"dropout": 1.5}, r"dropout must lie in \[0, 1\): got 1.5"),
        ({"norm": "layer:-1"}, "eps > 0"),
        ({"norm": "layer:x"}, "norm 'layer:x' does not fit"),
        ({"norm": "batch:2"}, "correction must be 0 or 1: got 2"),
        ({"activation": "tanh"}, "unknown activation 'tanh'"),
        ({"position": "relative:3", "score": "concat"}, "Relative and a score other than Dot"),
        ({"segments": 2.0}, "segments must be of type int: got 2.0"),
    ]
    misfits = {
        **{
            key: ({"tokens": text, "segments": None, "lengths": None}, message)
            for key, (text, message) in TEXT_MISFITS.items()
        },
        "a third segment": ({"segments": torch.full((BATCH, LENGTH), 2)}, r"segment.* 0\.\.1: got 2 to 2"),
        "negative segments": ({"segments": torch.full((BATCH, LENGTH), -1)}, r"segment.* 0\.\.1: got -1 to -1"),
        "fewer segments": (
            {"segments": torch.zeros(BATCH, 3, dtype=torch.long)}, r"a segment for every token: got \(3, 3\) for \(3, 7\)",
        ),
    }  # fmt: skip
    by_heart = {"tiny": {}}
    padded = {"tokens": LENGTHS, "segments": LENGTHS, "wanted": LENGTHS}
    smooth = {}

    def batch(self, config):
        """Two of the words are hidden in the first text, one in the second and third; half of the pairs are in order."""
        wanted = tokens(BATCH, LENGTH, vocab=config.vocab, seed=3)
        hidden = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
        hidden[0, 2] = hidden[0, 6] = hidden[1, 1] = hidden[2, 4] = True
        given = {
            "tokens": tokens(BATCH, LENGTH, vocab=config.vocab),
            "lengths": LENGTHS,
            "segments": tokens(BATCH, LENGTH, vocab=config.segments, seed=1),
        }
        wanted = masked(wanted.masked_fill(~hidden, -100), LENGTHS)
        return Batch(given, {"wanted": wanted, "follows": torch.tensor([1, 0, 1])})

    def shapes(self, config):
        return [(BATCH, LENGTH, config.vocab), (BATCH, 2)]

    def averaged(self, batch):
        """Without the order of sentences: its mean is over texts, not over hidden words."""
        return Batch(batch.given, {"wanted": batch.wanted["wanted"]})

    def assert_learned(self, model, batch):
        super().assert_learned(model, batch)
        assert_close(outputs(model, batch)[1].argmax(-1), batch.wanted["follows"])

"""CLIP in the battery."""

import torch
from torch.testing import assert_close

from mirada.models.clip import CLIP, CLIPConfig
from tests.models.cases.case import BATCH, ENCODER_BLOCK, LENGTH, LENGTHS, SIZES, Batch, Case, numbers, outputs, tokens

END = 12


class CLIPCase(Case):
    model = CLIP
    base = CLIPConfig(
        **SIZES | {"length": 10}, channels=2, size=15, patch=5, vocab=13, end=END, out=5, text_width=18, text_heads=3,
        text_hidden=11, text_depth=1,
    )  # fmt: skip
    values = {
        "activation": ENCODER_BLOCK["activation"], "text_activation": ENCODER_BLOCK["activation"], "end": [-1, END],
        "norm": ["layer", "layer:1e-12", "rms"], "text_norm": ["layer", "rms"], "score": ENCODER_BLOCK["score"],
        "normalizer": ["softmax", "sparsemax"], "projection": ["multihead", "grouped:1", "multihead:bias=no"],
    }  # fmt: skip
    variants = {"plain": {}, "largest": {"end": -1}, "gated": {"activation": "gated", "text_norm": "rms"}}
    refused = [
        ({"order": "post"}, "the norms of CLIP stand before the layers: got order=post"),
        ({"position": "rotary"}, "unknown position 'rotary'; known: learned"),
        ({"end": 13}, "end must be at most 12: got 13"),
        ({"size": 14}, r"a picture must divide into patches: got size=14, patch=5\. Change one of them"),
        ({"text_heads": 4}, "width must be divisible by heads: got width=18, heads=4"),
        ({"out": 0}, "out must be at least 1: got 0"),
        ({"text_depth": 0}, "text_depth must be at least 1: got 0"),
    ]
    misfits = {
        "another size": ({"pictures": torch.zeros(3, 2, 15, 20)}, "the model was made for pictures of 15 x 15: got"),
        "too long": ({"tokens": torch.full((3, 11), END)}, "reads texts of at most length=10 tokens: got 11. Cut the text"),
        "no end": ({"tokens": torch.ones(3, 4, dtype=torch.long)}, "every text must have its end token 12: one has not"),
        "too large": ({"tokens": torch.full((3, 4), 13)}, r"token ids must lie in 0\.\.12: got 13 to 13"),
    }  # fmt: skip
    by_heart = {"plain": {}}
    padded = {"tokens": LENGTHS}
    smooth = {}
    averages = False

    def batch(self, config):
        texts = tokens(BATCH, LENGTH, vocab=END)
        texts[torch.arange(BATCH), LENGTHS - 1] = END
        return Batch({"pictures": numbers(BATCH, config.channels, config.size, config.size), "tokens": texts}, {})

    def shapes(self, config):
        return [(BATCH, BATCH)]

    def part(self, together, alone, sample):
        return together[sample : sample + 1, sample : sample + 1]

    def assert_learned(self, model, batch):
        assert_close(outputs(model, batch)[0].argmax(-1), torch.arange(BATCH))

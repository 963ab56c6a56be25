"""The encoder of texts in the battery."""

import torch
from torch.testing import assert_close

from mirada.models.encoder import TextEncoder, TextEncoderConfig
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

HEADS = ["mask", "classes", "tags", "span"]
GUESS = "gelu:norm=yes"


class TextEncoderCase(Case):
    model = TextEncoder
    base = TextEncoderConfig(**SIZES, vocab=13, classes=5, head="mask", transform=GUESS)
    values = ENCODER_BLOCK | {
        "head": HEADS, "segments": [0, 1, 2], "embed": [0, 5], "input_norm": ["own", "none"], "masked": [-1, 4],
        "transform": ["none", "tanh", "relu", GUESS, "gelu-tanh:norm=yes,bias=no"],
        "pool": ["first", "mean", "max", "root"], "norm": [*ENCODER_BLOCK["norm"], "layer:1e-05,bias=no"],
    }  # fmt: skip
    variants = {
        "plain": {},
        "ELECTRA": {"embed": 5, "transform": "gelu", "head": "classes"},
        "ESM": {"order": "pre", "position": "rotary", "segments": 0, "input_norm": "none", "masked": 4},
        "ModernBERT": {
            "order": "pre", "norm": "layer:1e-05,bias=no", "position": "rotary", "where": "window:2,2", "segments": 0,
            "input_norm": "first", "head": "classes", "pool": "mean", "transform": "gelu:norm=yes,bias=no",
        },
        "tags": {"head": "tags", "transform": "none"},
        "span": {"head": "span", "transform": "none", "norm": "batch"},
    }  # fmt: skip
    refused = [
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"segments": -1}, "segments must be at least 0: got -1"),
        ({"embed": -1}, "embed must be at least 0: got -1"),
        ({"masked": 13}, "masked must be at most 12: got 13"),
        ({"classes": 0}, "classes must be at least 1: got 0"),
        ({"head": "class"}, "unknown head 'class'; known: classes, .*Did you mean 'classes'"),
        ({"pool": "cls"}, "unknown pool 'cls'; known: first, max, mean, root"),
        ({"transform": "tahn"}, "unknown transform 'tahn'; known: .*Did you mean 'tanh'"),
        ({"transform": "tanh:norm=maybe"}, "norm must be yes or no: got 'maybe'"),
        ({"input_norm": "first"}, "input_norm=first is for blocks whose norms stand before"),
        ({"embed": 7, "transform": "none"}, "give transform=, which makes 7 numbers of 24"),
        ({"norm": "layer:bias=7"}, "bias must be yes or no: got 7"),
    ]
    misfits = {
        **{
            key: ({"tokens": text, "segments": None, "lengths": None}, message)
            for key, (text, message) in TEXT_MISFITS.items()
            if key != "too long"
        },
        "too long": (
            {"tokens": torch.zeros(1, 30, dtype=torch.long), "segments": None, "lengths": None},
            "at most length=29 tokens: got 30",
        ),
        "a third segment": ({"segments": torch.full((BATCH, LENGTH), 2)}, r"segment.* 0\.\.1: got 2 to 2"),
        "fewer segments": (
            {"segments": torch.zeros(BATCH, 3, dtype=torch.long)}, r"a segment for every token: got \(3, 3\) for \(3, 7\)",
        ),
    }  # fmt: skip
    by_heart = {"mask": {"head": "mask", "transform": GUESS}, "classes": {"head": "classes", "transform": "tanh"}}
    padded = {"tokens": LENGTHS, "segments": LENGTHS}
    smooth = {}
    seeds = 12

    def batch(self, config):
        given = {"tokens": tokens(BATCH, LENGTH, vocab=config.vocab).masked_fill(tokens(BATCH, LENGTH) > 9, 4)}
        given["tokens"][:, 0] = 1  # not all of a text is hidden
        given["lengths"] = LENGTHS
        if config.segments:
            given["segments"] = tokens(BATCH, LENGTH, vocab=config.segments, seed=1)
        return Batch(given, {"wanted": self.wanted(config)})

    def wanted(self, config):
        """A class for every text, a place for every end of an answer, a word or a tag for some places."""
        if config.head in ("none", "classes"):
            return torch.tensor([0, 1, 4]).clamp(max=config.classes - 1)
        if config.head == "span":
            return torch.tensor([[1, 3], [0, 0], [4, 4]])
        hidden = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
        hidden[0, 2] = hidden[0, 6] = hidden[1, 1] = hidden[2, 4] = True
        scores = config.vocab if config.head == "mask" else config.classes
        return masked(tokens(BATCH, LENGTH, vocab=scores, seed=3).masked_fill(~hidden, -100), LENGTHS)

    def counted(self, batch):
        return int((batch.wanted["wanted"] != -100).sum())

    def alone(self, batch, sample):
        """What is wanted of every place is padded as the texts are; a class and the ends of an answer are not."""
        alone = super().alone(batch, sample)
        wanted = alone.wanted["wanted"]
        return Batch(alone.given, {"wanted": wanted[:, : LENGTHS[sample]] if wanted.shape[1:] == (LENGTH,) else wanted})

    def other_padding(self, batch, more=3):
        other, wanted = super().other_padding(batch, more), batch.wanted["wanted"]
        wider = torch.nn.functional.pad(wanted, (0, more), value=-100) if wanted.shape[1:] == (LENGTH,) else wanted
        return Batch(other.given, {"wanted": wider})

    def shapes(self, config):
        scores = {"none": config.width, "mask": config.vocab, "tags": config.classes, "span": 2}
        return [(BATCH, config.classes)] if config.head == "classes" else [(BATCH, LENGTH, scores[config.head])]

    def assert_learned(self, model, batch):
        super().assert_learned(model, batch)
        assert_close(outputs(model, batch)[0].isfinite().all(), torch.tensor(True))

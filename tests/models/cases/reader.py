"""The reader in the battery."""

import torch
from torch.testing import assert_close

from mirada.models.reader import Reader, ReaderConfig
from tests.models.cases.case import BATCH, ENCODER_BLOCK, SIZES, TEXT_MISFITS, Batch, Case, tokens

LENGTH, LENGTHS = 11, torch.tensor([11, 8, 9])
QUESTIONS = torch.tensor([[4], [3], [5]])  # how long they are


class ReaderCase(Case):
    model = Reader
    base = ReaderConfig(**SIZES, vocab=13)
    values = ENCODER_BLOCK
    variants = {
        "plain": {},
        "post": {"order": "post"},
        "rms": {"norm": "rms"},
        "rms post": {"norm": "rms", "order": "post"},
        "batch": {"norm": "batch"},
        "batch post": {"norm": "batch", "order": "post"},
        "alibi": {"position": "alibi"},
        "marks": {"marks": 5},
        "convolutions": {"convolutions": 2, "kernel": 3},
    }
    refused = [
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"vocab": 0}, "ReaderConfig: vocab must be at least 1: got 0"),
        ({"length": 0}, "length must be at least 1"),
        ({"dropout": 1}, r"dropout must lie in \[0, 1\): got 1.0"),
        ({"order": "both"}, "unknown order 'both'"),
        ({"position": "rotary", "heads": 8}, "dim must be even: got dim=3"),
        ({"where": "windows:3"}, "Did you mean 'window'"),
        ({"vocab": 13.0}, "vocab must be of type int: got 13.0"),
        ({"marks": -1}, "ReaderConfig: marks must be at least 0: got -1"),
        ({"kernel": 4}, "kernel must be odd, to have a middle: got 4"),
        ({"convolutions": -1}, "convolutions must be at least 0: got -1"),
    ]
    misfits = {
        **{
            key: ({"tokens": text, "segments": torch.ones_like(text, dtype=torch.long), "lengths": None}, message)
            for key, (text, message) in TEXT_MISFITS.items()
        },
        "fewer segments": (
            {"segments": torch.ones(BATCH, 3, dtype=torch.long)}, r"a segment for every token: got \(3, 3\) for \(3, 11\)",
        ),
        "a third segment": ({"segments": torch.full((BATCH, LENGTH), 2)}, r"segment.* 0\.\.1: got .* to 2"),
        "lengths too long": (
            {"lengths": torch.tensor([12, 8, 9])}, "at most the length of the batch: got lengths up to 12, length=11",
        ),
    }  # fmt: skip
    by_heart = {"tiny": {}}
    padded = {"tokens": LENGTHS, "segments": LENGTHS, "marks": LENGTHS}
    smooth = {}

    def batch(self, config):
        """The padding belongs to the passage too: only the lengths tell."""
        given = {
            "tokens": tokens(BATCH, LENGTH, vocab=config.vocab),
            "segments": (torch.arange(LENGTH) >= QUESTIONS).long(),
            "lengths": LENGTHS,
        }
        if config.marks:
            given["marks"] = tokens(BATCH, LENGTH, vocab=config.marks)
        return Batch(given, {"starts": torch.tensor([4, 3, 6]), "ends": torch.tensor([10, 7, 6])})

    def shapes(self, config):
        return [(BATCH, LENGTH), (BATCH, LENGTH)]

    def idle(self, config):
        """A bias that all places share cancels in the softmax over them."""
        return ("ends.bias",)

    def assert_learned(self, model, batch):
        places, score = model.best(model(**batch.given))
        assert_close(places, torch.stack([batch.wanted["starts"], batch.wanted["ends"]], dim=1))
        assert (score > -0.5).all()

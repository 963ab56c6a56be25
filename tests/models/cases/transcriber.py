"""The transcriber in the battery."""

import torch

from mirada.models.transcriber import Transcriber, TranscriberConfig
from tests.models.cases.case import (
    BATCH,
    DECODER_BLOCK,
    SIZES,
    TARGET,
    TARGET_LENGTHS,
    Batch,
    Case,
    masked,
    numbers,
    tokens,
)

FRAMES, LENGTHS = 23, torch.tensor([23, 9, 14])


class TranscriberCase(Case):
    model = Transcriber
    base = TranscriberConfig(**SIZES, vocab=13, mels=5)
    values = DECODER_BLOCK | {"kind": ["transformer", "luong"], "depth": [1, 2], "ctc": [0.0, 0.3], "pace": [0.0, 2.5]}
    variants = {
        "transformer": {},
        "transformer post rotary": {"order": "post", "position": "rotary"},
        "transformer relative": {"position": "relative:2", "depth": 1},
        "transformer paced": {"position": "rotary", "pace": 2.5, "ctc": 0.3},
        "luong": {"kind": "luong"},
        "luong flat": {"kind": "luong", "depth": 1},
        "batch": {"norm": "batch"},
        "batch post": {"norm": "batch", "order": "post"},
    }
    refused = [
        ({"kind": "lung"}, r"unknown kind 'lung'; known: luong, transformer\. Did you mean 'luong'\?"),
        ({"kind": "luong", "width": 7}, "kind='luong' reads in two directions and needs an even width: got width=7"),
        ({"mels": 0}, "TranscriberConfig: mels must be at least 1: got 0"),
        ({"vocab": 0}, "TranscriberConfig: vocab must be at least 1: got 0"),
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"activation": "glu"}, r"unknown activation 'glu'; known: .*Did you mean 'gelu'\?"),
        ({"dropout": 1.0}, r"TranscriberConfig: dropout must lie in \[0, 1\): got 1\.0"),
        ({"ctc": -0.1}, "TranscriberConfig: ctc must be at least 0: got -0.1"),
        ({"kind": 1}, "TranscriberConfig: kind must be of type str: got 1"),
    ]
    by_heart = {kind: {"kind": kind} for kind in ("transformer", "luong")}
    padded = {"frames": LENGTHS, "target": TARGET_LENGTHS, "wanted": TARGET_LENGTHS}
    writes = "target"

    def batch(self, config):
        given = {
            "frames": numbers(BATCH, FRAMES, config.mels),
            "lengths": LENGTHS,
            "target": tokens(BATCH, TARGET, vocab=config.vocab),
        }
        return Batch(given, {"wanted": masked(tokens(BATCH, TARGET, vocab=config.vocab, seed=1), TARGET_LENGTHS)})

    def shapes(self, config):
        return [(BATCH, TARGET, config.vocab)]

    def idle(self, config):
        """CTC counts in training only."""
        return ("heard",)

"""Whisper in the battery."""

from mirada.models.whisper import Whisper, WhisperConfig
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

FRAMES = 23


class WhisperCase(Case):
    model = Whisper
    base = WhisperConfig(**SIZES, vocab=13, mels=5, places=12)
    values = DECODER_BLOCK | {"depth": [1, 2], "decoder_depth": [0, 1]}
    variants = {
        "as published": {},
        "another depth": {"decoder_depth": 1},
        "post rotary": {"order": "post", "position": "rotary"},
        "relative": {"position": "relative:2", "depth": 1},
        "batch": {"norm": "batch"},
    }
    refused = [
        ({"mels": 0}, "WhisperConfig: mels must be at least 1: got 0"),
        ({"places": 0}, "WhisperConfig: places must be at least 1: got 0"),
        ({"decoder_depth": -1}, "WhisperConfig: decoder_depth must be at least 0: got -1"),
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"position": "lerned"}, r"unknown position 'lerned'; known: .*Did you mean 'learned'\?"),
        ({"dropout": 1.0}, r"WhisperConfig: dropout must lie in \[0, 1\): got 1\.0"),
        ({"vocab": "many"}, "WhisperConfig: vocab must be of type int: got 'many'"),
    ]
    misfits = {
        "too many frames": ({"frames": numbers(BATCH, 25, 5)}, "a window must have 1 to 24 frames: got 25"),
        "no frames": ({"frames": numbers(BATCH, 0, 5)}, "a window must have 1 to 24 frames: got 0"),
    }
    by_heart = {"transformer": {}}
    padded = {"target": TARGET_LENGTHS, "wanted": TARGET_LENGTHS}
    writes = "target"

    def batch(self, config):
        given = {
            "frames": numbers(BATCH, min(FRAMES, 2 * config.places), config.mels),
            "target": tokens(BATCH, TARGET, vocab=config.vocab),
        }
        return Batch(given, {"wanted": masked(tokens(BATCH, TARGET, vocab=config.vocab, seed=1), TARGET_LENGTHS)})

    def shapes(self, config):
        return [(BATCH, TARGET, config.vocab)]

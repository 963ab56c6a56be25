"""The captioner in the battery."""

from mirada.models.captioner import Captioner, CaptionerConfig
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

TRANSFORMER = {"decoder": "transformer"}


class CaptionerCase(Case):
    model = Captioner
    base = CaptionerConfig(**SIZES, vocab=13, channels=2, patch=4, decoder_depth=2)
    values = DECODER_BLOCK | {
        "encoder": ["convolution", "coordinates", "patches"],
        "decoder": ["lstm", "transformer"],
        "decoder_depth": [1, 2],
        "gaze": ["softmax", "sparsemax", "hard", "hard:0.5"],
        "penalty": [0.0, 0.3, 1.0],
    }
    variants = {
        "convolution, lstm": {},
        "convolution, hard": {"gaze": "hard:0.5"},
        "coordinates, lstm": {"encoder": "coordinates"},
        "patches, lstm": {"encoder": "patches"},
        "patches, hard": {"encoder": "patches", "gaze": "hard:0.5"},
        "convolution, transformer": TRANSFORMER,
        "coordinates, transformer": TRANSFORMER | {"encoder": "coordinates"},
        "patches, transformer": TRANSFORMER | {"encoder": "patches"},
        "batch": TRANSFORMER | {"norm": "batch"},
        "batch post": TRANSFORMER | {"norm": "batch", "order": "post"},
    }
    refused = [
        (
            {"encoder": "patchs"},
            r"unknown encoder 'patchs'; known: convolution, coordinates, patches\. Did you mean 'patches'\?",
        ),
        ({"decoder": "lsmt"}, r"unknown decoder 'lsmt'; known: lstm, transformer\. Did you mean 'lstm'\?"),
        ({"gaze": "hrd"}, r"unknown normalizer 'hrd'; known: .*Did you mean 'hard'\?"),
        ({"gaze": "hard:2.0"}, r"soft is a probability: got 2\.0"),
        ({"penalty": -0.5}, r"CaptionerConfig: penalty must be at least 0: got -0\.5"),
        ({"decoder_depth": 0}, "CaptionerConfig: decoder_depth must be at least 1: got 0"),
        ({"decoder": "transformer", "heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"encoder": "patches", "position": "rotry"}, r"unknown position 'rotry'; known: .*Did you mean 'rotary'\?"),
        ({"vocab": 0}, "CaptionerConfig: vocab must be at least 1: got 0"),
        ({"penalty": "much"}, "CaptionerConfig: penalty must be of type float: got 'much'"),
    ]
    by_heart = {
        "lstm": {"penalty": 0.0},
        "patches": {"encoder": "patches", "penalty": 0.0},
        "hard": {"gaze": "hard:0.5", "penalty": 0.0},
        "transformer": TRANSFORMER,
        "patches and transformer": TRANSFORMER | {"encoder": "patches"},
    }
    rate = 2e-2
    padded = {"target": TARGET_LENGTHS, "wanted": TARGET_LENGTHS}
    writes = "target"

    def batch(self, config):
        """Pictures of 3 x 5 cells."""
        given = {
            "pictures": numbers(BATCH, config.channels, 12, 20),
            "target": tokens(BATCH, TARGET, vocab=config.vocab),
        }
        wanted = masked(tokens(BATCH, TARGET, vocab=config.vocab, seed=1), TARGET_LENGTHS)
        return Batch(given, {"wanted": wanted})

    def shapes(self, config):
        return [(BATCH, TARGET, config.vocab)]

    def idle(self, config):
        """A hard look has no gradient for its score."""
        return ("decoder.cell.attention.score",) if config.gaze.startswith("hard") else ()

"""GPT in the battery."""

from mirada.attention.neighborhoods import Causal, PerHead, Window
from mirada.models.gpt import GPT, GPTConfig
from tests.models.cases.case import (
    BATCH,
    DECODER_BLOCK,
    LENGTH,
    LENGTHS,
    SIZES,
    TEXT_MISFITS,
    Batch,
    Case,
    masked,
    tokens,
)


class GPTCase(Case):
    model = GPT
    base = GPTConfig(**SIZES, vocab=13)
    values = DECODER_BLOCK | {
        "where": [*DECODER_BLOCK["where"], "~window:1 | window:0", "fixed:3,1,summary"],
        "score": [*DECODER_BLOCK["score"], "dot:learned", "tanhsum"],
        "tied": [True, False],
    }
    variants = {
        "plain": {},
        "untied": {"tied": False},
        "rotary": {"position": "rotary"},
        "alibi in a window": {"position": "alibi", "where": Window(2)},
        "additive in a window": {"score": "additive", "where": "window:2"},
        "rms": {"norm": "rms"},
        "batch": {"norm": "batch", "projection": "grouped:1"},
        "batch post": {"norm": "batch", "order": "post"},
    }
    refused = [
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"vocab": 0}, "GPTConfig: vocab must be at least 1: got 0"),
        ({"dropout": 1}, r"dropout must lie in \[0, 1\): got 1.0"),
        ({"tied": "output"}, "tied must be of type bool: got 'output'"),
        ({"heads": True}, "heads must be of type int: got True"),
        ({"order": "sandwich"}, "unknown order 'sandwich'; known: post, pre"),
        ({"norm": "group"}, "unknown norm 'group'; known: batch, layer, rms"),
        ({"activation": "geglu"}, "unknown activation 'geglu'"),
        ({"position": "rotary:layout=thirds"}, "unknown layout 'thirds'; known: half, interleaved"),
        ({"position": "rotary", "heads": 8}, "dim must be even: got dim=3"),
        ({"position": "relative:-1"}, "clip >= 0"),
        (
            {"position": "relative:3", "projection": "collaborative:10"},
            "adds vectors of dim=10 to the values: got value dim=8",
        ),
        ({"where": "window"}, "where 'window' does not fit: window takes left, right"),
        ({"where": "strided:0"}, "stride must be at least 1: got 0"),
        ({"where": "fixed:2,3"}, "1 <= summary <= block: got block=2, summary=3"),
        ({"where": "causal &"}, "where cannot be read: got 'causal &'"),
        ({"where": PerHead(Causal(), Causal())}, "heads=3"),
        ({"projection": "grouped:2"}, "heads must be divisible by kv_heads: got heads=3, kv_heads=2"),
        ({"score": "additiv"}, "Did you mean 'additive'"),
        ({"normalizer": "hard"}, r"a cache and Hard attention cannot work together"),
        ({"position": "localgaussian:2"}, r"a cache and LocalGaussian cannot work together"),
        ({"projection": "multihead:out=1"}, "a block keeps its width=24: got .* out=1"),
        ({"projection": "multihead:memory_width=7"}, "a block keeps its width=24: got .* memory_width=7"),
        ({"normalizer": "softmax:1.0"}, r"dropout must lie in \[0, 1\): got 1.0"),
    ]
    misfits = {key: ({"tokens": text}, message) for key, (text, message) in TEXT_MISFITS.items()}
    by_heart = {"tiny": {}}
    padded = {"tokens": LENGTHS, "wanted": LENGTHS}
    writes = "tokens"
    seeds = 25

    def batch(self, config):
        given = {"tokens": tokens(BATCH, LENGTH, vocab=config.vocab)}
        return Batch(given, {"wanted": masked(tokens(BATCH, LENGTH, vocab=config.vocab, seed=1), LENGTHS)})

    def shapes(self, config):
        return [(BATCH, LENGTH, config.vocab)]

    def start(self, model, batch):
        return model.start(len(batch.given["tokens"]))

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
        "where": [
            *DECODER_BLOCK["where"],
            "~window:1 | window:0",
            "fixed:3,1,summary",
            "causal / window:2 / strided:2",
        ],
        "position": [
            *DECODER_BLOCK["position"],
            "rotary:factor=4",
            "rotary:base=50,factor=4,low=1,high=4,original=16",
            "rotary:part=0.5",
            "rotary / none",
        ],
        "projection": [
            *DECODER_BLOCK["projection"],
            "grouped:1,dim=6,bias=qv,qk_norm=1e-5",
            "multihead:bias=no,qk_norm=0.1",
        ],
        "activation": [*DECODER_BLOCK["activation"], "gated:gelu-tanh,bias=yes", "relu:bias=no"],
        "score": [*DECODER_BLOCK["score"], "dot:learned", "tanhsum"],
        "tied": [True, False],
        "embed": [0, 11],
    }
    variants = {
        "plain": {},
        "untied": {"tied": False},
        "narrow words": {"embed": 11},
        "rotary": {"position": "rotary"},
        "alibi in a window": {"position": "alibi", "where": Window(2)},
        "additive in a window": {"score": "additive", "where": "window:2"},
        "rms": {"norm": "rms"},
        "batch": {"norm": "batch", "projection": "grouped:1"},
        "batch post": {"norm": "batch", "order": "post"},
        "of today": {
            "norm": "rms",
            "activation": "gated",
            "projection": "grouped:1,dim=6,bias=no,qk_norm=1e-6",
            "position": "rotary:part=0.7 / rotary",
            "where": "causal / window:2",
        },
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
        ({"activation": "gated:tanh"}, "unknown activation 'tanh'"),
        ({"activation": "gelu:bias=qk"}, "activation 'gelu:bias=qk' does not fit: for example 'gelu', 'gelu:bias=no'"),
        ({"projection": "multihead:bias=x"}, "bias must be yes, no, or some of the letters q, k, v and o: got 'x'"),
        ({"projection": "multihead:qk_norm=-1"}, "qk_norm must be at least 0: got -1"),
        ({"position": "rotary:factor=0"}, "factor must be positive: got 0"),
        ({"position": "rotary:factor=8,low=4,high=1,original=16"}, "0 < low < high: got low=4, high=1, original=16"),
        ({"position": "rotary:factor=8,low=1,high=4"}, "original=0"),
        ({"position": "rotary:part=0.4"}, r"part \* dim must be even: got part=0.4, dim=8"),
        ({"position": "rotary:part=1.5"}, "above 0, at most 1: got 1.5"),
        ({"position": "rotary / learned"}, "added to the input is that of all layers: got 'rotary / learned'"),
        ({"where": "causal / windwo:3"}, "Did you mean 'window'"),
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

"""The recurrent encoder-decoder in the battery."""

import torch

from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
from tests.models.cases.case import BATCH, TARGET, TARGET_LENGTHS, Batch, Case, masked, tokens

SOURCE, LENGTHS = 7, torch.tensor([7, 2, 5])


class Seq2SeqCase(Case):
    model = Seq2Seq
    base = Seq2SeqConfig(
        vocab=13, source_vocab=11, width=3, hidden=6, dropout=0.0, half=1, length=SOURCE + 3, cell="gru", directions=2
    )
    values = {
        "attention": ["no", "bahdanau", "luong"],
        "score": ["dot:1.0", "dot", "general", "general:scale=None", "concat", "concat:None", "additive", "location"],
        "reach": ["global", "local-m", "local-p"],
        "feeding": [False, True],
        "cell": ["rnn", "gru", "lstm"],
        "depth": [1, 2],
        "directions": [1, 2],
    }
    variants = {
        "no": {"attention": "no", "cell": "rnn"},
        "no deep": {"attention": "no", "cell": "lstm", "depth": 2, "directions": 1},
        "bahdanau": {"attention": "bahdanau", "score": "additive"},
        "bahdanau dot": {"attention": "bahdanau", "score": "dot:1.0", "cell": "lstm", "depth": 2},
        "bahdanau location": {"attention": "bahdanau", "score": "location", "cell": "rnn"},
        "luong": {"score": "general"},
        "luong location": {"score": "location", "cell": "lstm"},
        "luong fed": {"score": "concat", "feeding": True, "cell": "lstm", "depth": 2},
        "local-m": {"score": "additive", "reach": "local-m", "cell": "rnn"},
        "local-m fed": {"score": "dot:1.0", "reach": "local-m", "feeding": True},
        "local-p": {"score": "general", "reach": "local-p", "depth": 2, "directions": 1},
        "local-p fed": {"score": "dot:1.0", "reach": "local-p", "feeding": True, "cell": "lstm"},
    }
    refused = [
        (
            {"attention": "bahdanau", "feeding": True},
            r"feeding and reach are Luong's: got attention='bahdanau', feeding=True.*Use attention='luong'",
        ),
        (
            {"attention": "bahdanau", "reach": "local-m"},
            r"feeding and reach are Luong's: .*reach='local-m'.*Use attention='luong'",
        ),
        ({"attention": "no", "reach": "local-p"}, "feeding and reach are Luong's: got attention='no'"),
        ({"cell": "lsmt"}, r"unknown cell 'lsmt'; known: gru, lstm, rnn\. Did you mean 'lstm'\?"),
        ({"attention": "loung"}, r"unknown attention 'loung'; known: bahdanau, luong, no\. Did you mean 'luong'\?"),
        ({"reach": "local"}, "unknown reach 'local'; known: global, local-m, local-p. Did you mean"),
        ({"score": "genral"}, r"unknown score 'genral'; known: additive, .*Did you mean 'general'\?"),
        ({"score": "dot:1,2"}, "score 'dot:1,2' does not fit: dot takes scale"),
        ({"hidden": 7}, r"hidden must be divisible by directions \(1 or 2\): got hidden=7, directions=2"),
        ({"directions": 3}, r"hidden must be divisible by directions \(1 or 2\): got hidden=6, directions=3"),
        ({"half": 0}, "Seq2SeqConfig: half must be at least 1: got 0"),
        ({"dropout": 1.0}, r"Seq2SeqConfig: dropout must lie in \[0, 1\): got 1\.0"),
        ({"feeding": 1}, "Seq2SeqConfig: feeding must be of type bool: got 1"),
        ({"width": 2.5}, r"Seq2SeqConfig: width must be of type int: got 2\.5"),
    ]
    misfits = {
        "lengths too long": (
            {"lengths": torch.tensor([5, 8, 4])},
            "lengths must be at most the length of the batch: got lengths up to 8, length=7",
        ),
        "fewer lengths": (
            {"lengths": torch.tensor([5, 4])}, "lengths must have one number per sample: got 2 for batch=3",
        ),
        "negative lengths": ({"lengths": torch.tensor([5, -1, 4])}, "lengths must be at least 0: got -1"),
        "floats as lengths": ({"lengths": torch.tensor([5.0, 2.0, 4.0])}, "lengths must hold integers"),
        "a table of lengths": (
            {"lengths": torch.tensor([[5, 2, 4]])}, r"lengths must have the axes \(batch\): got shape \(1, 3\)",
        ),
        "a length of zero": ({"lengths": torch.tensor([5, 0, 4])}, r"reads lengths of 1 to .*: got 0"),
        "no batch of sources": ({"source": tokens(SOURCE, vocab=11)}, "axes"),
        "no batch of targets": ({"target": tokens(TARGET)}, "axes"),
    }  # fmt: skip
    by_heart = {
        "rnn without attention": {"attention": "no", "cell": "rnn", "width": 16, "hidden": 32},
        "bahdanau": {"attention": "bahdanau", "score": "additive", "width": 16, "hidden": 32},
        "luong": {"cell": "lstm", "width": 16, "hidden": 32},
        "luong fed local-p": {"feeding": True, "reach": "local-p", "width": 16, "hidden": 32},
    }
    padded = {"source": LENGTHS, "target": TARGET_LENGTHS, "wanted": TARGET_LENGTHS}
    writes = "target"
    seeds = 20

    def batch(self, config):
        given = {
            "source": tokens(BATCH, SOURCE, vocab=config.source_vocab, seed=1),
            "lengths": LENGTHS,
            "target": tokens(BATCH, TARGET, vocab=config.vocab, seed=2),
        }
        return Batch(given, {"wanted": masked(tokens(BATCH, TARGET, vocab=config.vocab, seed=3), TARGET_LENGTHS)})

    def shapes(self, config):
        return [(BATCH, TARGET, config.vocab)]

    def looks(self, config):
        return config.attention != "no"

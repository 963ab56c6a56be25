"""The forecaster in the battery."""

import torch

from mirada.models.forecaster import Forecaster, ForecasterConfig
from tests.models.cases.case import BATCH, DECODER_BLOCK, SIZES, Batch, Case, numbers


class ForecasterCase(Case):
    model = Forecaster
    base = ForecasterConfig(**SIZES | {"length": 14}, features=5, targets=2, horizon=11, patch=7)
    values = DECODER_BLOCK | {
        "kind": ["encoder-decoder", "lstm", "patches"],
        "patch": [2, 7],
        "horizon": [1, 11],
        "own": [0, 2],
    }
    variants = {
        "encoder-decoder": {},
        "encoder-decoder post rotary": {"order": "post", "position": "rotary", "depth": 1},
        "lstm": {"kind": "lstm"},
        "lstm flat": {"kind": "lstm", "depth": 1},
        "patches": {"kind": "patches"},
        "patches relative": {"kind": "patches", "position": "relative:2", "patch": 2},
        "apart": {"kind": "patches", "channels": "apart", "own": 2, "relative": True},
        "across": {"kind": "patches", "channels": "across", "patch": 4},
        "batch": {"norm": "batch"},
    }
    refused = [
        (
            {"kind": "patches", "length": 15},
            "length must divide into patches: got length=15, patch=7. Change one of them",
        ),
        (
            {"kind": "ptches"},
            r"unknown kind 'ptches'; known: encoder-decoder, lstm, patches\. Did you mean 'patches'\?",
        ),
        ({"position": "learned", "horizon": 15}, "a learned position needs a row per step: got horizon=15, length=14"),
        ({"channels": "aparte"}, "unknown channels 'aparte'; known: across, apart, auto, mixed. Did you mean 'apart'?"),
        ({"own": 3}, "own counts the targets among the features: got own=3, features=5, targets=2"),
        (
            {"kind": "patches", "channels": "apart", "own": 1},
            "a column by itself needs its own past: got own=1, targets=2. Use channels=across.",
        ),
        ({"horizon": 0}, "ForecasterConfig: horizon must be at least 1: got 0"),
        ({"features": 0}, "ForecasterConfig: features must be at least 1: got 0"),
        ({"targets": 0}, "ForecasterConfig: targets must be at least 1: got 0"),
        ({"patch": 0}, "ForecasterConfig: patch must be at least 1: got 0"),
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"order": "past"}, "unknown order 'past'; known: post, pre. Did you mean"),
        ({"horizon": 2.0}, r"ForecasterConfig: horizon must be of type int: got 2\.0"),
    ]
    misfits = {
        "other features": (
            {"series": torch.zeros(BATCH, 14, 4)}, r"series must have features=5: got features=4 in shape \(3, 14, 4\)",
        ),
        "no batch": (
            {"series": torch.zeros(14, 5)}, r"series must have the axes \(batch time features\): got shape \(14, 5\)",
        ),
        "other targets": (
            {"first": torch.zeros(BATCH, 1)}, r"first must have targets=2: got targets=1 in shape \(3, 1\)",
        ),
        "no targets": ({"first": torch.zeros(2)}, r"first must have the axes \(batch targets\): got shape \(2,\)"),
        "one first value": ({"first": torch.zeros(1, 2)}, "first must have batch=3"),
        "fewer first values": ({"first": torch.zeros(2, 2)}, "first must have batch=3"),
        "no floats": (
            {"series": torch.zeros(BATCH, 14, 5, dtype=torch.int64)},
            r"series must hold floating-point numbers: got torch\.int64",
        ),
        "no time": ({"series": torch.zeros(BATCH, 0, 5)}, "a forecast needs at least one time step of input: got none"),
    }  # fmt: skip
    by_heart = {kind: {"kind": kind, "depth": 1} for kind in ("encoder-decoder", "lstm", "patches")}
    smooth = {}

    def batch(self, config):
        given = {
            "series": numbers(BATCH, config.length, config.features),
            "first": numbers(BATCH, config.targets, seed=1),
        }
        return Batch(given, {"wanted": numbers(BATCH, config.horizon, config.targets, seed=2)})

    def shapes(self, config):
        return [(BATCH, config.horizon, config.targets)]

    def assert_learned(self, model, batch):
        """Teacher forcing gives what was wanted, which lies about 1 apart."""
        found = model.teacher_forced(**batch.given, **batch.wanted)
        assert (found - batch.wanted["wanted"]).abs().amax() < 0.6

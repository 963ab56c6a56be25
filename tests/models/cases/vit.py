"""The Vision Transformer in the battery."""

import torch

from mirada.models.vit import ViT, ViTConfig
from tests.models.cases.case import BATCH, ENCODER_BLOCK, SIZES, Batch, Case, numbers

POOLS = ["first", "mean", "max", "attention"]
TOKENS = {"teacher": "heads", "length": 11, "registers": 2, "layer_scale": 0.5}
CONVOLUTION = {"stem": "convolution", "size": 12, "patch": 4}  # 3 x 3 cells, too


class ViTCase(Case):
    model = ViT
    base = ViTConfig(**SIZES | {"length": 10}, channels=2, size=15, patch=5, classes=7)  # 3 x 3 patches
    values = ENCODER_BLOCK | {
        "where": [where for where in ENCODER_BLOCK["where"] if where != "fixed:4,1"] + ["grid:2,5"],
        "pool": [*POOLS, "first-mean"], "registers": [0, 2],
        "layer_scale": [0.0, 0.5], "transform": ["none", "tanh", "gelu:norm=yes"], "resized": ["no", "bicubic"],
    }  # fmt: skip
    variants = {
        **{pool: {"pool": pool} for pool in POOLS},
        **{f"batch {pool}": {"pool": pool, "norm": "batch"} for pool in POOLS},
        "alibi": {"position": "alibi"},
        **{f"convolution {pool}": CONVOLUTION | {"pool": pool} for pool in ("first", "attention")},
        "pooled": CONVOLUTION | {"stem": "pooled", "pool": "attention"},
        "pooled, three convolutions": CONVOLUTION | {"stem": "pooled:3"},
        "teacher and registers": TOKENS,
        "class and mean": {"pool": "first-mean", "registers": 2, "resized": "antialias", "transform": "tanh"},
        "gated, scaled": {"activation": "gated:silu,bias=yes", "layer_scale": 0.5, "masked": True},
        "grid": {"pool": "attention", "where": "grid:3,3"},
    }
    refused = [
        ({"size": 14}, r"a picture must divide into patches: got size=14, patch=5\. Change one of them"),
        ({"length": 9}, "length=9 is too short for 10 places: give length=10"),
        ({"pool": "flatten"}, "unknown pool 'flatten'; known: attention, first, first-mean, max, mean"),
        ({"stem": "conv"}, r"unknown stem 'conv'; known: convolution, linear, pooled."),
        ({"stem": "convolution"}, r"convolutions halve a picture: got patch=5. Take 2, 4, 8, ..., or stem=linear"),
        ({"stem": "pooled:x"}, r"unknown stem 'pooled:x'; known: convolution, linear, pooled"),
        ({"stem": "pooled"}, r"convolutions halve a picture: got patch=5. Take 2, 4, 8, ..., or stem=linear"),
        (CONVOLUTION | {"stem": "pooled:1"}, r"patch=4 takes 2 pools, .* got stem=pooled:1\. Take pooled:2 or more"),
        ({"stem": "convolution", "patch": 1}, "convolutions halve a picture: got patch=1"),
        ({"classes": -1}, "ViTConfig: classes must be at least 0: got -1"),
        ({"registers": 1, "pool": "mean"}, "registers and teacher stand behind a class token: got pool=mean"),
        ({"teacher": "head"}, "unknown teacher 'head'; known: heads, none, token"),
        ({"teacher": "token"}, "length=10 is too short for 11 places: give length=11"),
        ({"teacher": "heads", "length": 11, "classes": 0}, "teacher=heads is for classes that are read from the class"),
        ({"resized": "linear"}, "unknown resized 'linear'; known: antialias, bicubic, no"),
        ({"resized": "bicubic", "position": "none"}, "resized=bicubic is for position=learned: got 'none'"),
        ({"transform": "tahn"}, "unknown transform 'tahn'"),
        ({"channels": 0}, "channels must be at least 1"),
        ({"patch": 0}, "patch must be at least 1"),
        ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
        ({"dropout": -1}, r"dropout must lie in \[0, 1\): got -1.0"),
        ({"size": 15.0}, "size must be of type int: got 15.0"),
        ({"norm": "layer:1e-12,3"}, "norm 'layer:1e-12,3' does not fit"),
        ({"position": "grid"}, "unknown position 'grid'"),
        ({"position": "rotary", "heads": 8}, "dim must be even: got dim=3"),
        ({"where": "grid:3,3"}, "10 places|cells"),  # nine cells for ten places
        ({"score": "location", "position": "none", "length": 9}, "max_keys=9: got keys=10"),
    ]
    misfits = {
        "width": (
            {"pictures": torch.zeros(1, 2, 15, 16)}, r"must divide into patches of 5 x 5: got 15 x 16\. Crop or resize",
        ),
        "height": ({"pictures": torch.zeros(1, 2, 14, 15)}, "must divide into patches of 5 x 5: got 14 x 15"),
        "channels": (
            {"pictures": torch.zeros(1, 3, 15, 15)}, r"pictures must have 2 channels: got shape \(1, 3, 15, 15\)",
        ),
        "no batch": (
            {"pictures": torch.zeros(2, 15, 15)},
            r"pictures must have the axes \(batch channels height width\): got shape \(2, 15, 15\)",
        ),
        "no floats": (
            {"pictures": torch.zeros(1, 2, 15, 15, dtype=torch.uint8)},
            "pictures must hold floating-point numbers: got torch.uint8",
        ),
        "another size": (
            {"pictures": torch.zeros(1, 2, 15, 20)}, "the model was made for pictures of 15 x 15: got",
        ),
    }  # fmt: skip
    by_heart = {pool: {"pool": pool} for pool in POOLS} | {
        "convolution": {"stem": "convolution"},
        "pooled": {"stem": "pooled"},
    }

    def batch(self, config):
        classes = torch.tensor([0, 2, 1])
        return Batch({"pictures": numbers(BATCH, config.channels, config.size, config.size)}, {"classes": classes})

    def idle(self, config):
        return ("mask",)

    def shapes(self, config):
        return [(BATCH, config.classes)]

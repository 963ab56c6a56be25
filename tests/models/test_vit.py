"""ViT: a picture is a sentence of patches, a set of them without positions, and a class token stands first."""

import dataclasses
import json
import random

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Causal, PerHead, Window
from mirada.models.vit import ViT, ViTConfig
from tests.models.stirring import assert_near, stirred

# 3 x 3 patches of 5 x 5 pixels in 2 channels
SIZES = {
    "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 10, "channels": 2, "size": 15, "patch": 5,
    "classes": 7,
}  # fmt: skip
BATCH, PLACES = 2, 10
POOLS = ["first", "mean", "max", "attention"]

VALUES = {
    "order": ["pre", "post"],
    "norm": ["layer:1e-12", "rms", "batch"],
    "activation": ["relu", "gelu", "gelu-tanh", "silu", "gated"],
    "position": ["sinusoidal", "learned", "rotary", "rotary:layout=interleaved", "relative:3", "alibi", "none"],
    "where": ["complete", "window:2,2", "strided:2", "grid:2,5", "~window:1", Window(1, 1), PerHead(*[Causal()] * 3)],
    "projection": ["multihead", "grouped:1", "collaborative:8", "split"],
    "score": ["dot", "additive", "general", "concat"],
    "normalizer": ["softmax", "sparsemax"],
    "pool": POOLS,
}
ONE_BY_ONE = [(name, value) for name, values in VALUES.items() for value in values]


def config(**changes: object) -> ViTConfig:
    return ViTConfig(**(SIZES | changes))


def made(config: ViTConfig, dtype: torch.dtype = torch.float64) -> ViT:
    return stirred(ViT(config), dtype)


def pictures(batch: int = BATCH, height: int = 15, width: int = 15, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, 2, height, width, generator=torch.Generator().manual_seed(5)).to(dtype)


def rearranged(seen: Tensor, order: list[int]) -> Tensor:
    """The same 3 x 3 patches in another order, row by row."""
    patches = [seen[..., 5 * (n // 3) : 5 * (n // 3) + 5, 5 * (n % 3) : 5 * (n % 3) + 5] for n in order]
    return torch.cat([torch.cat(patches[row : row + 3], dim=-1) for row in (0, 3, 6)], dim=-2)


ORDER = [4, 0, 8, 1, 7, 3, 2, 6, 5]


# Patches and the class token


@pytest.mark.parametrize(("height", "width"), [(15, 15), (10, 20)])
@torch.no_grad()
def test_the_class_token_stands_first_and_patches_follow_row_by_row(height, width):
    model, kept = made(config(position="none")), []
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    seen = pictures(height=height, width=width)
    model(seen)
    (x,) = kept
    rows, columns = height // 5, width // 5
    assert x.shape == (BATCH, 1 + rows * columns, 24)
    assert_close(x[:, 0], model.class_token[0].expand(BATCH, -1))
    for row in range(rows):
        for column in range(columns):
            patch = seen[:, :, 5 * row : 5 * row + 5, 5 * column : 5 * column + 5].flatten(1)  # channel, row, column
            vector = patch @ model.patches.project.weight.T + model.patches.project.bias
            assert_close(x[:, 1 + row * columns + column], vector)


@torch.no_grad()
def test_positions_count_the_class_token_as_the_first_place():
    models, kept = [made(config(position=position)) for position in ("none", "learned")], []
    plain, placed = models
    plain.load_state_dict({k: v for k, v in placed.state_dict().items() if not k.startswith("place.")})
    for model in models:
        model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
        model(pictures())
    assert_close(kept[1], kept[0] + placed.place.position.table)
    assert placed.place.position.table.shape == (PLACES, 24)


@torch.no_grad()
def test_the_pool_reads_what_the_encoder_says():
    seen = pictures()
    for pool in POOLS:
        model = made(config(pool=pool))
        h = model.encode(seen)
        assert h.shape == (BATCH, PLACES, 24)
        if pool == "attention":
            query = model.pool.query.expand(BATCH, -1, -1)
            vector = model.pool.attention(query, memory=h)[:, 0]
        else:
            vector = {"first": h[:, 0], "mean": h.sum(1) / PLACES, "max": h.max(1).values}[pool]
        scores = model(seen)
        assert scores.shape == (BATCH, 7)
        assert_close(scores, vector @ model.classes.weight.T + model.classes.bias)


@torch.no_grad()
def test_a_batch_gives_each_picture_what_it_gets_alone():
    seen = pictures(3)
    for pool in POOLS:
        model = made(config(pool=pool, norm="batch"))
        assert_near(model(seen), torch.cat([model(one.unsqueeze(0)) for one in seen]))


@pytest.mark.parametrize("pool", POOLS)
def test_look_names_every_layer(pool):
    model = made(config(pool=pool))
    with look(model) as seen:
        model(pictures())
    names = ["encoder.layers.0.self", "encoder.layers.1.self"]
    assert seen.names == ([*names, "pool.attention"] if pool == "attention" else names)
    for name in names:
        weights = seen[name].weights()
        assert weights.shape == (BATCH, 3, PLACES, PLACES)
        assert_close(weights.sum(-1), torch.ones(BATCH, 3, PLACES, dtype=weights.dtype))
    if pool == "attention":
        assert seen["pool.attention"].weights().shape == (BATCH, 3, 1, PLACES)


def test_vit_base_has_its_parameters():
    base = {
        "width": 768,
        "heads": 12,
        "hidden": 3072,
        "depth": 12,
        "size": 224,
        "patch": 16,
        "length": 197,
        "classes": 1000,
    }
    with torch.device("meta"):
        model = ViT(ViTConfig(**base))
    assert sum(parameter.numel() for parameter in model.parameters()) == 86_567_656  # timm's vit_base_patch16_224


# Permutations


@pytest.mark.parametrize("pool", POOLS)
@torch.no_grad()
def test_without_a_position_a_picture_is_a_set_of_patches(pool):
    model, seen = made(config(position="none", pool=pool)), pictures()
    assert_near(model(rearranged(seen, ORDER)), model(seen))
    shuffled = [0, *(1 + n for n in ORDER)]
    assert_near(model.encode(rearranged(seen, ORDER)), model.encode(seen)[:, shuffled])


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "relative:3"])
@torch.no_grad()
def test_with_a_position_it_matters_where_a_patch_lies(position):
    model, seen = made(config(position=position)), pictures()
    assert (model(rearranged(seen, ORDER)) - model(seen)).abs().amax() > 1e-3


def test_every_place_sees_every_pixel():
    model, seen = made(config()), pictures().requires_grad_()
    h, mix = model.encode(seen), torch.randn(24, dtype=torch.float64)
    for place in range(PLACES):
        (slope,) = torch.autograd.grad((h[:, place] @ mix).sum(), seen, retain_graph=True)
        assert (slope != 0).all()


# Any combination


def drawn(seed: int) -> tuple[ViTConfig, torch.dtype]:
    """A random combination of all parts that a configuration accepts, and a precision."""
    chance = random.Random(3000 + seed)
    while True:
        choice = {name: chance.choice(values) for name, values in VALUES.items()}
        try:
            return config(**choice), chance.choice([torch.float32, torch.float64])
        except ValueError:
            continue


@pytest.mark.parametrize("seed", range(15))
def test_any_combination_just_works(seed):
    chosen, dtype = drawn(seed)
    model, seen = made(chosen, dtype).train(), pictures(dtype=dtype)
    model.loss(seen, torch.tensor([3, 6]), smoothing=0.1).backward()
    lost = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert lost == []
    model.eval()
    with torch.no_grad():
        assert_near(model(seen)[1:], model(seen[1:]))


# The loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_of_the_classes(smoothing):
    model, seen = made(config()), pictures()
    log = model(seen).log_softmax(-1)
    right, spread = -(log[0, 3] + log[1, 6]) / 2, -log.mean()
    assert_close(model.loss(seen, torch.tensor([3, 6]), smoothing), (1 - smoothing) * right + smoothing * spread)


@pytest.mark.parametrize("pool", POOLS)
def test_one_small_batch_is_learned_by_heart(pool):
    model = ViT(dataclasses.replace(ViTConfig.tiny(), pool=pool))
    seen, classes = torch.randn(5, 3, 8, 8), torch.tensor([0, 1, 2, 1, 0])
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        loss = model.loss(seen, classes)
        if loss < 0.04:
            break
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert loss < 0.05
    assert_close(model.eval()(seen).argmax(-1), classes)


# Weights and errors


@pytest.mark.parametrize("changes", [{}, {"norm": "batch", "pool": "attention"}, {"position": "alibi"}], ids=str)
@torch.no_grad()
def test_a_saved_model_says_the_same_bit_for_bit(tmp_path, changes):
    model, seen = made(config(**changes), torch.float32), pictures(dtype=torch.float32)
    model.save(tmp_path / "model")
    loaded = ViT.load(tmp_path / "model")
    assert loaded.config == model.config
    assert not loaded.training
    assert_close(loaded(seen), model(seen), rtol=0, atol=0)


def test_dropout_is_for_training_only():
    model, seen = made(config(dropout=0.5)), pictures()
    assert_close(model(seen), model(seen), rtol=0, atol=0)
    model.train()
    assert (model(seen) - model(seen)).abs().amax() > 1e-3


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (torch.zeros(1, 2, 15, 16), r"must divide into patches of 5 x 5: got 15 x 16\. Crop or resize"),
        (torch.zeros(1, 2, 14, 15), "must divide into patches of 5 x 5: got 14 x 15"),
        (torch.zeros(1, 3, 15, 15), r"pictures must have 2 channels: got shape \(1, 3, 15, 15\)"),
        (torch.zeros(2, 15, 15), r"pictures must have the axes \(batch channels height width\): got shape \(2, 15, 15\)"),
        (torch.zeros(1, 2, 15, 15, dtype=torch.uint8), "pictures must hold floating-point numbers: got torch.uint8"),
        (torch.zeros(1, 2, 15, 20), "the model was made for pictures of 15 x 15: got"),
    ],
    ids=["width", "height", "channels", "no batch", "no floats", "another size"],
)  # fmt: skip
def test_a_picture_that_does_not_fit_is_refused(seen, message):
    with pytest.raises(ValueError, match=message):
        ViT(config())(seen)


def test_a_class_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="class"):
        made(config()).loss(pictures(), torch.tensor([3, 7]))


REFUSED = [
    ({"size": 14}, r"a picture must divide into patches: got size=14, patch=5\. Change one of them"),
    ({"length": 9}, "length=9 is too short for 10 places: give length=10"),
    ({"pool": "flatten"}, "unknown pool 'flatten'; known: attention, first, max, mean"),
    ({"classes": 0}, "ViTConfig: classes must be at least 1: got 0"),
    ({"channels": 0}, "channels must be at least 1"),
    ({"patch": 0}, "patch must be at least 1"),
    ({"depth": 0}, "depth must be at least 1"),
    ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
    ({"dropout": -1}, r"dropout must lie in \[0, 1\): got -1.0"),
    ({"size": 15.0}, "size must be of type int: got 15.0"),
    ({"norm": "layer:1e-12,3"}, "norm 'layer:1e-12,3' does not fit"),
    ({"position": "grid"}, "unknown position 'grid'"),
    ({"position": "rotary", "heads": 8}, "dim must be even: got dim=3"),
    ({"where": "grid:3,3"}, "10 places|cells"),  # nine cells for ten places
    ({"score": "location", "position": "none", "length": 9}, "max_keys=9: got keys=10"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_a_configuration_that_cannot_work_is_refused_when_made(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


# Configurations


def test_a_short_table_is_no_matter_where_none_is_used():
    for position in ("none", "sinusoidal", "rotary"):
        assert ViT(config(position=position, length=1))(pictures(dtype=torch.float32)).shape == (BATCH, 7)


def test_the_tiny_model_works():
    scores = ViT(ViTConfig.tiny())(torch.randn(5, 3, 8, 8))
    assert scores.shape == (5, 3)
    assert scores.isfinite().all()
    assert ViTConfig.tiny().places == 5
    assert config().places == PLACES


@pytest.mark.parametrize(("name", "value"), ONE_BY_ONE, ids=str)
def test_a_configuration_is_plain_json(name, value):
    ours = config(**{name: value})
    assert ViTConfig.from_dict(json.loads(json.dumps(ours.to_dict()))) == ours

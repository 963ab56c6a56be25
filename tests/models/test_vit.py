"""ViT: a picture is a sentence of patches, a set of them without positions, and a class token stands first."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.models.vit import ViT, ViTConfig
from tests.models.stirring import assert_near, stirred

# 3 x 3 patches of 5 x 5 pixels in 2 channels
SIZES = {
    "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 10, "channels": 2, "size": 15, "patch": 5,
    "classes": 7,
}  # fmt: skip
BATCH, PLACES = 2, 10
POOLS = ["first", "mean", "max", "attention"]


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
        places = PLACES if pool == "first" else PLACES - 1
        assert h.shape == (BATCH, places, 24)
        if pool == "attention":
            query = model.pool.query.expand(BATCH, -1, -1)
            vector = model.pool.attention(query, memory=h)[:, 0]
        else:
            vector = {"first": h[:, 0], "mean": h.sum(1) / places, "max": h.max(1).values}[pool]
        scores = model(seen)
        assert scores.shape == (BATCH, 7)
        assert_close(scores, vector @ model.classes.weight.T + model.classes.bias)


@pytest.mark.parametrize("pool", POOLS)
def test_look_names_every_layer(pool):
    model = made(config(pool=pool))
    with look(model) as seen:
        model(pictures())
    names, places = ["encoder.layers.0.self", "encoder.layers.1.self"], PLACES if pool == "first" else PLACES - 1
    assert seen.names == ([*names, "pool.attention"] if pool == "attention" else names)
    for name in names:
        weights = seen[name].weights()
        assert weights.shape == (BATCH, 3, places, places)
        assert_close(weights.sum(-1), torch.ones(BATCH, 3, places, dtype=weights.dtype))
    if pool == "attention":
        assert seen["pool.attention"].weights().shape == (BATCH, 3, 1, places)


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
    shuffled = [0, *(1 + n for n in ORDER)] if pool == "first" else ORDER
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
        (gradient,) = torch.autograd.grad((h[:, place] @ mix).sum(), seen, retain_graph=True)
        assert (gradient != 0).all()


# The loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_of_the_classes(smoothing):
    model, seen = made(config()), pictures()
    log = model(seen).log_softmax(-1)
    right, spread = -(log[0, 3] + log[1, 6]) / 2, -log.mean()
    assert_close(model.loss(seen, torch.tensor([3, 6]), smoothing), (1 - smoothing) * right + smoothing * spread)


def test_a_weighed_picture_counts_as_often_in_the_loss():
    model, seen = made(config()), pictures()
    log = model(seen).log_softmax(-1)
    found = model.loss(seen, torch.tensor([3, 6]), weights=torch.tensor([0.5, 3.0]))
    assert_close(found, -(0.5 * log[0, 3] + 3 * log[1, 6]) / 2)


# Weights and errors


def test_a_class_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="class"):
        made(config()).loss(pictures(), torch.tensor([3, 7]))


# Configurations


def test_places_are_the_patches_and_the_class_token():
    assert ViTConfig.tiny().places == 5
    assert config().places == PLACES
    assert [config(pool=pool).places for pool in POOLS[1:]] == [9, 9, 9]
    assert all(ViT(config(pool=pool)).class_token is None for pool in POOLS[1:])


@torch.no_grad()
def test_convolutions_make_a_cell_of_every_patch():
    """Two of them, each with its relu, in place of the linear layer; the cells go row by row."""
    model, kept = made(config(stem="convolution", size=12, patch=4, position="none", pool="mean")), []
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    seen = pictures(height=12, width=12)
    model(seen)
    x = seen
    for layer in model.patches.layers:
        x = torch.nn.functional.conv2d(x, layer.weight, layer.bias, stride=2, padding=1).relu()
    assert x.shape == (BATCH, 24, 3, 3)
    assert_close(kept[0], x.flatten(2).mT)


@pytest.mark.parametrize("stem", ["pooled", "pooled:3"])
def test_a_cell_is_where_its_patch_is(stem):
    """The middle of the pixels that a cell sees lies in its patch: the heat of a cell is drawn there."""
    model = made(config(stem=stem, size=32, patch=4, position="none", pool="mean", length=64))
    seen = torch.randn(16, 2, 32, 32, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()
    cells = model.patches(seen)
    for row, column in ((3, 5), (2, 2), (5, 3)):
        (gradient,) = torch.autograd.grad(cells[:, 8 * row + column].square().sum(), seen, retain_graph=True)
        reach = gradient.abs().sum((0, 1)).nonzero().double()
        assert_close(
            (reach.amin(0) + reach.amax(0)) / 2,
            torch.tensor([4 * row + 1.5, 4 * column + 1.5]).double(),
            atol=0.5,
            rtol=0,
        )


@torch.no_grad()
def test_on_a_grid_a_patch_far_away_reaches_the_pool_alone():
    """A layer in which patches see their neighbors: the first patch knows nothing of the last one, the pool does."""
    model = made(config(pool="attention", where="grid:3,3", depth=1))
    seen = pictures()
    other = seen.clone()
    other[:, :, 10:, 10:] += 1
    change = (model.encode(other) - model.encode(seen)).abs().amax((0, 2))
    assert [bool(size > 1e-6) for size in change] == [False, False, False, False, True, True, False, True, True]
    assert (model(other) - model(seen)).abs().amax() > 1e-4


def test_a_short_table_is_no_matter_where_none_is_used():
    for position in ("none", "sinusoidal", "rotary"):
        assert ViT(config(position=position, length=1))(pictures(dtype=torch.float32)).shape == (BATCH, 7)

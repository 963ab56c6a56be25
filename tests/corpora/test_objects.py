"""Drawn objects in clutter: the same on every machine, the object whole and in its box, and no plain way to the class."""

import hashlib
from functools import cache

import numpy as np
import pytest
import torch

from mirada.corpora import objects as drawing
from mirada.corpora.objects import LABELS, SHAPES, SIDE, SIZES, DrawnObjects, Objects, covered, drawn_objects, objects
from mirada.training.baselines import linear_on_features


@cache
def made() -> Objects:
    return objects()


@pytest.fixture(scope="module")
def some() -> DrawnObjects:
    return drawn_objects(240, 5, 1)


def test_the_sets_have_their_sizes_and_every_class_alike() -> None:
    for name, size in zip(("train", "valid", "test"), SIZES, strict=True):
        part = getattr(made(), name)
        assert part.pictures.shape == (size, SIDE, SIDE, 3)
        assert part.pictures.dtype == np.uint8
        assert len(part.labels) == len(part.boxes) == size
        counts = [part.labels.count(label) for label in LABELS]
        assert max(counts) - min(counts) <= 1


def test_the_same_seed_draws_the_same_pictures_on_every_machine() -> None:
    again = drawn_objects(24, 0, 2)
    np.testing.assert_array_equal(again.pictures, made().test.pictures[:24])
    digest = hashlib.blake2b(again.pictures.tobytes(), digest_size=8).hexdigest()
    assert digest == "08f730baa2c22a9c"
    assert not np.array_equal(drawn_objects(24, 1, 2).pictures, again.pictures)


def test_no_picture_is_in_two_sets() -> None:
    found = {picture.tobytes() for part in (made().train, made().valid, made().test) for picture in part.pictures}
    assert len(found) == sum(SIZES)


def test_the_box_is_that_of_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without clutter, a border, grain or a background, what is lit is the object: nothing of it lies outside of its box."""
    for name in ("BLOBS", "STROKES", "FRAGMENTS", "GRAIN", "DARK"):
        monkeypatch.setattr(drawing, name, 0)
    monkeypatch.setattr(
        drawing, "_background", lambda chance, x, y: np.zeros((3, len(chance()), SIDE, SIDE), np.float32)
    )
    plain = drawn_objects(160, 3)
    for picture, (left, top, right, bottom) in zip(plain.pictures, plain.boxes.tolist(), strict=True):
        lit = picture.max(-1) > 0.3 * picture.max()
        rows, columns = np.nonzero(lit)
        assert left <= columns.min() <= left + 1
        assert right - 1 <= columns.max() + 1 <= right
        assert top <= rows.min() <= top + 1
        assert bottom - 1 <= rows.max() + 1 <= bottom
        assert 0 < left < right < SIDE
        assert 0 < top < bottom < SIDE


def test_a_few_pixels_decide(some: DrawnObjects) -> None:
    left, top, right, bottom = some.boxes.T
    share = ((right - left) * (bottom - top)).mean() / SIDE**2
    assert 0.04 < share < 0.09
    for place in (left, top):
        assert place.min() <= 3
        assert place.max() >= SIDE - 12


@pytest.mark.slow
def test_a_linear_model_of_pixels_and_the_mean_color_do_not_tell_the_class() -> None:
    train, test = made().train, made().test
    rows = [part.pictures.reshape(len(part.pictures), -1)[:, ::3] for part in (train, test)]
    for x, asked in (rows, [part.pictures.mean((1, 2)) for part in (train, test)]):
        known, questions = (torch.from_numpy(part).float() for part in (x[:2000], asked))
        given = linear_on_features(known, train.labels[:2000], questions)
        right = np.mean([a == b for a, b in zip(given, test.labels, strict=True)])
        assert right < 0.25, "an eighth would be chance"


@pytest.mark.parametrize("name", LABELS)
def test_a_shape_fills_its_frame_and_no_more(name: str) -> None:
    y, x = (np.linspace(-1.5, 1.5, 121, dtype=np.float32)[index] for index in np.mgrid[:121, :121])
    inside = SHAPES[name](x, y) < 0
    assert 0.1 < inside.mean() < 0.4
    for axis in (x, y):
        assert -1.05 <= axis[inside].min() <= -0.7
        assert 0.45 <= axis[inside].max() <= 1.05  # a moon is open to one side


def test_no_two_shapes_are_nearly_the_same() -> None:
    y, x = (np.linspace(-1.2, 1.2, 49, dtype=np.float32)[index] for index in np.mgrid[:49, :49])
    drawn = {name: covered(distance(x, y), 20.0) for name, distance in SHAPES.items()}
    for one in LABELS:
        for other in LABELS:
            union = np.maximum(drawn[one], drawn[other]).sum()
            assert one == other or np.minimum(drawn[one], drawn[other]).sum() / union < 0.8, (one, other)

"""The drawn scenes: what is said is what is seen, splits do not meet, and every machine draws the same."""

import hashlib
import re
from itertools import islice

import numpy as np
import pytest

from mirada.corpora.scenes import COLORS, RELATIONS, SHAPES, SIDE, Scene, Scenes, drawn_scenes, is_held_out, scenes

SENTENCE = re.compile(rf"a (\w+) (\w+) ({'|'.join(RELATIONS)}) a (\w+) (\w+)")


@pytest.fixture(scope="module")
def data() -> Scenes:
    return scenes()


def said(scene: Scene) -> tuple[str, ...]:
    found = SENTENCE.fullmatch(scene.caption)
    assert found, scene.caption
    return found.groups()


def test_the_same_on_every_machine(data: Scenes) -> None:
    """Numbers to compare with: a change of a single pixel is another data set."""
    digest = hashlib.blake2b(digest_size=8)
    for scene in (*data.train[:50], *data.valid[:50], *data.test[:50]):
        digest.update(scene.pixels.tobytes() + scene.caption.encode())
    assert digest.hexdigest() == "538beb326904b2b9"


def test_another_seed_gives_other_scenes_and_the_same_one_the_same() -> None:
    first, again, other = (list(islice(drawn_scenes(seed, False), 20)) for seed in (0, 0, 2))
    assert [scene.caption for scene in first] == [scene.caption for scene in again]
    np.testing.assert_array_equal([scene.pixels for scene in first], [scene.pixels for scene in again])
    assert [scene.caption for scene in first] != [scene.caption for scene in other]


def test_no_sentence_of_the_test_is_learned(data: Scenes) -> None:
    known = {scene.caption for scene in (*data.train, *data.valid)}
    new = {scene.caption for scene in data.test}
    assert not known & new
    assert len(new) > 300
    assert all(map(is_held_out, new))
    assert not any(map(is_held_out, known))
    pictures = {scene.pixels.tobytes() for part in (data.train, data.valid, data.test) for scene in part}
    assert len(pictures) == 5900


def test_every_word_is_learned_often(data: Scenes) -> None:
    words = [said(scene) for scene in data.train]
    for place, names in enumerate((COLORS, SHAPES, RELATIONS, COLORS, SHAPES)):
        counts = [sum(row[place] == name for row in words) for name in names]
        assert min(counts) > 0.8 * len(words) / len(names)


def test_colors_and_shapes_differ_so_that_a_word_names_one_thing(data: Scenes) -> None:
    for scene in data.test:
        color, shape, _, other, another = said(scene)
        assert color != other
        assert shape != another
        assert set(scene.boxes) == {color, shape, other, another}
        assert scene.boxes[color] == scene.boxes[shape]
        assert scene.boxes[other] == scene.boxes[another]


def test_the_relation_is_that_of_the_boxes_and_the_small_thing_comes_first(data: Scenes) -> None:
    for scene in (*data.valid, *data.test):
        color, _, relation, other, _ = said(scene)
        (x0, y0, x1, y1), (u0, v0, u1, v1) = scene.boxes[color], scene.boxes[other]
        assert x1 - x0 < u1 - u0, "the small one is named first"
        dx, dy = (x0 + x1 - u0 - u1) / 2, (y0 + y1 - v0 - v1) / 2
        along, across = RELATIONS[relation]
        assert (dx * along > 2 * abs(dy)) if along else (dy * across > 2 * abs(dx))
        apart = x1 <= u0 or u1 <= x0 or y1 <= v0 or v1 <= y0
        assert apart
        assert min(x0, y0, u0, v0) >= 0
        assert max(x1, y1, u1, v1) <= SIDE


def test_a_box_holds_the_color_that_its_word_says_and_nothing_is_outside(data: Scenes) -> None:
    for scene in data.test[:200]:
        color, shape, _, other, another = said(scene)
        outside = np.ones((SIDE, SIDE), bool)
        for name, kind in ((color, shape), (other, another)):
            left, top, right, bottom = scene.boxes[name]
            outside[int(top) : int(bottom) + 1, int(left) : int(right) + 1] = False
            if kind == "ring":
                continue  # there is nothing in the middle
            x, y = int((left + right) / 2), int((top + bottom) / 2)
            seen = scene.pixels[y, x].astype(int)
            distances = {word: np.abs(seen - rgb).sum() for word, rgb in COLORS.items()}
            assert min(distances, key=distances.__getitem__) == name
        assert scene.pixels[outside].min() > 200


def test_shapes_are_distinguished_by_their_pixels() -> None:
    """No two shapes of one size have nearly the same mask."""
    steps = (np.arange(60) + 0.5) / 30 - 1
    masks = {name: shape(*np.meshgrid(steps, steps)) for name, shape in SHAPES.items()}
    for one, mask in masks.items():
        assert 0.2 < mask.mean() < 0.8
        for other, another in masks.items():
            assert one == other or (mask != another).mean() > 0.08, (one, other)

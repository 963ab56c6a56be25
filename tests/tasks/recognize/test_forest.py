"""The random forest against scikit-learn's, and splits by hand."""

import numpy as np
import pytest

from mirada.tasks.recognize.forest import TREES, Forest


def forest_classes(rows: np.ndarray, classes: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return Forest.fit(rows, classes, int(classes.max()) + 1).votes(asked).argmax(1)


def test_it_is_about_as_good_as_scikit_learns() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = datasets.load_digits()
    rows, held = data.data.astype(np.uint8), np.arange(len(data.data)) % 4 == 0
    ours = (forest_classes(rows[~held], data.target[~held], rows[held]) == data.target[held]).mean()
    trees = ensemble.ExtraTreesClassifier(30, random_state=0).fit(rows[~held], data.target[~held])
    assert ours > (trees.predict(rows[held]) == data.target[held]).mean() - 0.015
    assert ours > 0.95


def test_what_one_feature_decides_is_learned_among_many_that_do_not() -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 256, (300, 9), dtype=np.uint8)
    classes = (rows[:, 4] > 100).astype(np.int64) + (rows[:, 4] > 200)
    asked = random.integers(0, 256, (300, 9), dtype=np.uint8)
    wanted = (asked[:, 4] > 100).astype(np.int64) + (asked[:, 4] > 200)
    assert (forest_classes(rows, classes, asked) == wanted).mean() > 0.93


def test_rows_that_are_all_alike_answer_the_most_frequent_class() -> None:
    rows = np.full((5, 3), 7, np.uint8)
    assert forest_classes(rows, np.array([1, 0, 1, 1, 0]), rows[:2]).tolist() == [1, 1]


def test_the_same_seed_gives_the_same_answers() -> None:
    rows = np.random.default_rng(1).integers(0, 256, (60, 8), dtype=np.uint8)
    classes = np.arange(60) % 4
    assert forest_classes(rows, classes, rows[::-1]).tolist() == forest_classes(rows, classes, rows[::-1]).tolist()


def test_a_forest_is_kept_whole_and_a_broken_one_is_refused() -> None:
    rows = np.random.default_rng(2).integers(0, 5, (40, 3), dtype=np.uint8)  # many rows are alike: leaves are mixed
    classes = np.arange(40) % 3
    forest = Forest.fit(rows, classes, 3)
    votes = forest.votes(rows)
    np.testing.assert_allclose(votes.sum(1), TREES)
    assert (votes.max(1) < TREES).any()
    np.testing.assert_array_equal(Forest.restore(forest.arrays(), 3, 3).votes(rows), votes)
    for name, most in (("feature", 3), ("child", len(forest.child)), ("classes", 3), ("roots", 10**6)):
        array = forest.arrays()[name].copy()
        array[-1] = most
        with pytest.raises(ValueError, match="its trees are broken"):
            Forest.restore(forest.arrays() | {name: array}, 3, 3)

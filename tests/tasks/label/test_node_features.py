"""Rows without their zeros, and how features are scaled."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mirada.tasks.label import graph as node_features
from mirada.tasks.label.graph import FeatureScale, SparseRows

MATRIX = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [1, 0, 3, 0]], np.float32)


def test_a_matrix_goes_there_and_back() -> None:
    rows = SparseRows.from_dense(MATRIX)
    assert len(rows) == 3
    assert rows.dense().tolist() == MATRIX.tolist()
    places = np.nonzero(MATRIX)
    shuffled = np.array([3, 0, 2, 1])
    again = SparseRows.from_entries(*(x[shuffled] for x in places), MATRIX[places][shuffled], MATRIX.shape)
    for name in ("starts", "columns", "values"):
        assert getattr(again, name).tolist() == getattr(rows, name).tolist()


def test_rows_are_joined_and_columns_put_in_another_order() -> None:
    rows = SparseRows.from_dense(MATRIX)
    empty = SparseRows.from_dense(np.zeros((2, 4), np.float32))
    joined = SparseRows.joined([rows, empty, rows], 4)
    assert joined.dense().tolist() == np.concatenate([MATRIX, np.zeros((2, 4)), MATRIX]).tolist()
    assert rows.in_order([2, 0, 3, 1]).dense().tolist() == MATRIX[:, [2, 0, 3, 1]].tolist()


def test_what_would_not_fit_into_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_features, "MOST_BYTES", 40)
    with pytest.raises(ValueError, match=r"3 nodes with 4 features take 0.0 GB, at most 0.0 GB are read. Give fewer"):
        SparseRows.from_dense(MATRIX).dense()


def test_rows_sum_to_one_and_empty_ones_stay() -> None:
    rows = SparseRows.from_dense(MATRIX)
    scaled = FeatureScale.fit(rows, "rows")(rows)
    assert_allclose(scaled, [[0, 2 / 3, 0, 1 / 3], [0, 0, 0, 0], [1 / 4, 0, 3 / 4, 0]], rtol=1e-6)
    assert FeatureScale.fit(rows, "no")(rows).tolist() == MATRIX.tolist()


def test_standard_features_are_scaled_as_they_were_where_the_scale_was_fitted() -> None:
    draws = np.random.default_rng(3)
    matrix = (draws.normal(5, 3, (50, 4)) * (draws.random((50, 4)) < 0.7)).astype(np.float32)
    matrix[:, 2] = 7  # always the same
    rows = SparseRows.from_dense(matrix)
    scale = FeatureScale.fit(rows, "standard")
    wide = matrix.astype(np.float64)
    deviation = np.where(wide.std(0) < 1e-9, 1, wide.std(0))
    assert_allclose(scale(rows), (wide - wide.mean(0)) / deviation, rtol=1e-4, atol=1e-5)
    new = np.array([[1, 2, 8, 0]], np.float32)
    wanted = (new - wide.mean(0)) / deviation
    assert_allclose(scale(SparseRows.from_dense(new)), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (np.eye(8), "rows"),  # words
        (np.eye(8) * 0.3, "rows"),  # weighted words
        (-np.eye(8), "standard"),
        (np.ones((8, 3)), "standard"),
        (np.random.default_rng(0).normal(size=(9, 5)), "standard"),
    ],
)
def test_the_scale_is_chosen_by_how_features_look(matrix: np.ndarray, kind: str) -> None:
    found = FeatureScale.fit(SparseRows.from_dense(matrix), "auto")
    assert found.kind == kind
    assert f"(normalize={kind})" in found.text

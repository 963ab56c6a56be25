"""The features of nodes: rows of numbers of which most are zero, and how they are scaled before a model reads them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mirada.errors import require

MOST_BYTES = 2 << 30  # of features written out with their zeros: training needs a few times as much
MOSTLY_ZERO = 0.25  # share of numbers that are not zero, at most, in what looks like counted words
KINDS = ("auto", "rows", "standard", "no")


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of which only the numbers that are not zero are kept, one row after the other.

    >>> rows = SparseRows.from_dense(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]]))
    >>> rows.starts.tolist(), rows.columns.tolist(), rows.values.tolist()
    ([0, 1, 1, 3], [1, 0, 2], [2.0, 1.0, 3.0])
    """

    starts: NDArray[np.int64]  # where each row begins, and where the last one ends
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def from_dense(cls, matrix: NDArray) -> "SparseRows":
        """A matrix without its zeros."""
        rows, columns = np.nonzero(matrix)
        return cls(counted(rows, len(matrix)), columns, matrix[rows, columns].astype(np.float32), matrix.shape[1])

    @classmethod
    def from_entries(cls, rows: NDArray, columns: NDArray, values: NDArray, shape: tuple[int, int]) -> "SparseRows":
        """Numbers with their places, in any order; those of one place are added up."""
        places, index = np.unique(rows.astype(np.int64) * shape[1] + columns, return_inverse=True)
        sums = np.bincount(index, weights=values, minlength=len(places)).astype(np.float32)
        return cls(counted(places // max(1, shape[1]), shape[0]), places % max(1, shape[1]), sums, shape[1])

    @classmethod
    def joined(cls, parts: "list[SparseRows]", width: int) -> "SparseRows":
        """The rows of several, one after the other."""
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.starts) for part in parts)])
        columns = np.concatenate([np.zeros(0, np.int64), *(part.columns for part in parts)])
        values = np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)])
        return cls(counts.cumsum(), columns, values, width)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of every number."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def dense(self) -> NDArray[np.float32]:
        """The matrix with its zeros, if it is not too large for that."""
        size = 4 * len(self) * self.width
        require(
            size <= MOST_BYTES,
            f"{len(self):,} nodes with {self.width:,} features take {size / 1e9:.1f} GB, at most {MOST_BYTES / 1e9:.1f} GB "
            "are read. Give fewer features: the most frequent words, or the main components of all.",
        )
        matrix = np.zeros((len(self), self.width), np.float32)
        matrix[self.rows, self.columns] = self.values
        return matrix

    def in_order(self, places: list[int]) -> "SparseRows":
        """The same rows with their columns in another order: column c of the result is column places[c]."""
        order = np.empty(self.width, np.int64)
        order[places] = np.arange(self.width)
        return SparseRows(self.starts, order[self.columns], self.values, self.width)


def counted(rows: NDArray, count: int) -> NDArray[np.int64]:
    """Where each of `count` rows begins among entries that are sorted by row."""
    return np.concatenate([[0], np.bincount(rows, minlength=count).cumsum()]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """How features are scaled: `rows` makes each row sum to 1, `standard` gives each column mean 0 and deviation 1.

    >>> words = SparseRows.from_dense(np.array([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 9]))
    >>> FeatureScale.fit(words, "auto").kind
    'rows'
    >>> FeatureScale.fit(words, "rows")(words)[0, :3].tolist()
    [0.5, 0.5, 0.0]

    Rows as in Kipf and Welling (2017), arXiv:1609.02907, and in the GAT paper.
    """

    kind: str
    mean: NDArray[np.float32]  # of every column; both are empty where they are not used
    deviation: NDArray[np.float32]

    @classmethod
    def fit(cls, features: SparseRows, kind: str) -> "FeatureScale":
        """The scale of some features; `auto` takes rows for what looks like counted words, and standard for the rest."""
        if kind == "auto":
            few = len(features.values) <= MOSTLY_ZERO * len(features) * features.width
            kind = "rows" if few and bool((features.values >= 0).all()) else "standard"
        if kind != "standard":
            return cls(kind, np.zeros(0, np.float32), np.zeros(0, np.float32))
        count, values = max(1, len(features)), features.values.astype(np.float64)
        mean = np.bincount(features.columns, values, features.width) / count
        square = np.bincount(features.columns, (values - mean[features.columns]) ** 2, features.width)
        zeros = count - np.bincount(features.columns, minlength=features.width)
        deviation = np.sqrt((square + zeros * mean**2) / count)
        deviation[deviation < 1e-9] = 1.0  # a column that is always the same tells nothing
        return cls(kind, mean.astype(np.float32), deviation.astype(np.float32))

    def __call__(self, features: SparseRows) -> NDArray[np.float32]:
        """The features as a model reads them."""
        matrix = features.dense()
        if self.kind == "rows":
            sums = matrix.sum(1, keepdims=True)
            matrix /= np.where(np.abs(sums) < 1e-9, 1.0, sums)
        elif self.kind == "standard":
            matrix -= self.mean
            matrix /= self.deviation
        return matrix

    @property
    def text(self) -> str:
        """What is done, for the person."""
        return {
            "rows": "features are divided by the sum of their row (normalize=rows)",
            "standard": "features are given mean 0 and deviation 1 (normalize=standard)",
            "no": "features are read as they are (normalize=no)",
        }[self.kind]

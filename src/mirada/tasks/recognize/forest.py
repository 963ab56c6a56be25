"""A small random forest over pixels, in numpy: a plain model to compare ours with, grown in seconds.

rows of bytes -> trees, each from some of the rows -> the mean of the classes in the leaves that a row falls into
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, UInt8

Rows = UInt8[np.ndarray, "rows features"]
Asked = UInt8[np.ndarray, "asked features"]
TREES = 30
ROWS = 8000  # that one tree is grown from, at most
DEPTH = 30
COUNTS = 1 << 22  # numbers that are counted at once, at most: nodes x candidates x classes


@dataclass(frozen=True, eq=False)
class _Tree:
    """The nodes of a tree: which feature is asked, its threshold, the first of two children (0: a leaf), and the classes."""

    feature: Int[np.ndarray, " nodes"]
    threshold: UInt8[np.ndarray, " nodes"]
    child: Int[np.ndarray, " nodes"]
    shares: Float[np.ndarray, "nodes classes"]

    def __call__(self, rows: Rows) -> Float[np.ndarray, "rows classes"]:
        """The classes in the leaf of every row."""
        node = np.zeros(len(rows), np.int64)
        for _ in range(DEPTH):
            larger = rows[np.arange(len(rows)), self.feature[node]] > self.threshold[node]
            node = np.where(self.child[node] > 0, self.child[node] + larger, node)
        return self.shares[node]


def forest_classes(
    train: Rows, classes: Int[np.ndarray, " rows"], asked: Asked, seed: int = 0
) -> Int[np.ndarray, " asked"]:
    """The answers of a forest of extremely randomized trees: of some features with random thresholds, the best split.

    Args:
        train: The rows to learn from.
        classes: The number of the class of each.
        asked: The rows to answer.
        seed: Decides the random numbers.

    >>> train = np.array([[0, 9], [1, 8], [9, 0], [8, 2]], np.uint8)
    >>> forest_classes(train, np.array([0, 0, 1, 1]), np.array([[7, 1], [0, 7]], np.uint8)).tolist()
    [1, 0]

    Geurts, Ernst and Wehenkel (2006), Extremely randomized trees.
    """
    random, count = np.random.default_rng(seed), int(classes.max()) + 1
    votes = np.zeros((len(asked), count))
    for _ in range(TREES):
        some = np.sort(random.choice(len(train), min(len(train), ROWS), replace=False))
        votes += _grow(train[some], classes[some], count, random)(asked)
    return votes.argmax(1)


def _grow(rows: Rows, classes: Int[np.ndarray, " rows"], count: int, random: np.random.Generator) -> _Tree:
    """A tree, level by level: all nodes of a level are divided together."""
    features = rows.shape[1]
    candidates = max(2, round(features**0.5))
    order, node = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    feature, threshold, child, shares = [], [], [], []
    total = 1  # nodes so far, those of the next level included
    for depth in range(DEPTH):
        if not len(order):
            break
        nodes = int(node.max()) + 1
        of_class = np.bincount(node * count + classes[order], minlength=nodes * count).reshape(nodes, count)
        shares.append(of_class / of_class.sum(1, keepdims=True))
        tried = random.integers(0, features, (nodes, candidates))
        chosen, at, splits = _best_splits(rows, classes, order, node, tried, of_class, random)
        splits &= depth < DEPTH - 1
        children = np.where(splits, total + 2 * (np.cumsum(splits) - 1), 0)
        feature.append(chosen)
        threshold.append(at)
        child.append(children)
        kept = splits[node]
        order, node = order[kept], node[kept]
        larger = rows[order, chosen[node]] > at[node]
        node = children[node] + larger - total
        total += 2 * int(splits.sum())
        by_node = np.argsort(node, kind="stable")
        order, node = order[by_node], node[by_node]
    return _Tree(np.concatenate(feature), np.concatenate(threshold), np.concatenate(child), np.concatenate(shares))


def _best_splits(rows, classes, order, node, tried, of_class, random):  # type: ignore[no-untyped-def]
    """Of the features tried at every node, with random thresholds, the one whose halves are purest, and whether there is one.

    `order` are the rows, those of one node side by side; `node` is the node of each.
    """
    (nodes, candidates), count = tried.shape, of_class.shape[1]
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    values = rows[order[:, None], tried[node]]
    low, high = (part.reduceat(values, starts).astype(np.int64) for part in (np.minimum, np.maximum))
    at = low + (random.random((nodes, candidates)) * (high - low)).astype(
        np.int64
    )  # below the highest: no half is empty
    smaller = values <= at[node]
    purity = np.empty((nodes, candidates))
    step = max(1, COUNTS // (candidates * count))
    for first in range(0, nodes, step):
        last = min(nodes, first + step)
        here = slice(*np.searchsorted(node, (first, last)))
        cell = ((node[here, None] - first) * candidates + np.arange(candidates)) * count + classes[order[here], None]
        size = (last - first) * candidates * count
        left = np.bincount(cell[smaller[here]], minlength=size).reshape(last - first, candidates, count)
        right = of_class[first:last, None] - left
        purity[first:last] = sum((half**2).sum(2) / np.maximum(half.sum(2), 1) for half in (left, right))
    purity[low == high] = -1
    best = purity.argmax(1)
    every = np.arange(nodes)
    splits = (purity[every, best] >= 0) & ((of_class > 0).sum(1) > 1)
    return tried[every, best], at[every, best].astype(np.uint8), splits

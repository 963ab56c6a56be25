"""A small random forest over pixels, in numpy: a plain reader beside ours, grown in seconds.

rows of bytes -> trees, each from some of the rows -> the mean of the classes in the leaves that a row falls into
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int, UInt8

from mirada.errors import require

Rows = UInt8[np.ndarray, "rows features"]
Numbers = Int[np.ndarray, " _"]
TREES = 30
ROWS = 8000  # that one tree is grown from, at most
DEPTH = 30
AT_ONCE = 2048  # rows that are answered together
COUNTS = 1 << 22  # numbers that are counted at once, at most: nodes x candidates x classes


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, their nodes one after the other: which feature is asked, its threshold, the first of two children (0: a leaf), and
    how often every class came to a leaf.

    Args:
        count: The number of classes.
        roots: The first node of every tree.
        feature: The number of the feature that a node asks.
        threshold: What is larger goes to the second child.
        child: The first of two children.
        starts: Where the classes of every node begin, and their end.
        classes: The classes of all leaves.
        times: How often each came there.
    """

    count: int
    roots: Numbers
    feature: Numbers
    threshold: UInt8[np.ndarray, " nodes"]
    child: Numbers
    starts: Numbers
    classes: Numbers
    times: Numbers

    @classmethod
    def fit(cls, train: Rows, classes: Numbers, count: int, seed: int = 0) -> Self:
        """Extremely randomized trees: of some features with random thresholds, the best split.

        Args:
            train: The rows to learn from.
            classes: The number of the class of each.
            count: The number of classes.
            seed: Decides the random numbers.

        >>> train = np.array([[0, 9], [1, 8], [9, 0], [8, 2]], np.uint8)
        >>> forest = Forest.fit(train, np.array([0, 0, 1, 1]), 2)
        >>> forest.votes(np.array([[7, 1], [0, 7]], np.uint8)).argmax(1).tolist()
        [1, 0]

        Geurts, Ernst and Wehenkel (2006), Extremely randomized trees.
        """
        random, trees = np.random.default_rng(seed), list[_Tree]()
        for _ in range(TREES):
            some = np.sort(random.choice(len(train), min(len(train), ROWS), replace=False))
            trees.append(_grow(train[some], classes[some], count, random))
        roots = np.cumsum([0, *(len(tree.child) for tree in trees)])[:-1]
        child = [np.where(tree.child > 0, tree.child + root, 0) for tree, root in zip(trees, roots, strict=True)]
        feature, threshold, sizes, of_leaf, times = (np.concatenate(part) for part in zip(*(
            (tree.feature, tree.threshold, tree.sizes, tree.classes, tree.times) for tree in trees
        ), strict=True))  # fmt: skip
        starts = np.concatenate([[0], np.cumsum(sizes)])
        numbers = (roots, feature, threshold, np.concatenate(child), starts, of_leaf, times)
        return cls(count, *(x if x.dtype == np.uint8 else x.astype(np.int32) for x in numbers))

    def votes(self, rows: Rows) -> Float[np.ndarray, "rows classes"]:
        """The shares of the classes in the leaves that every row falls into, summed over all trees."""
        parts = [self._votes(rows[first : first + AT_ONCE]) for first in range(0, len(rows), AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, self.count))

    def _votes(self, rows: Rows) -> Float[np.ndarray, "rows classes"]:
        every = np.arange(len(rows))[:, None]
        node = np.repeat(self.roots[None], len(rows), 0)
        for _ in range(DEPTH):
            larger = rows[every, self.feature[node]] > self.threshold[node]
            node = np.where(self.child[node] > 0, self.child[node] + larger, node)
        leaf, row = node.ravel(), np.repeat(np.arange(len(rows)), len(self.roots))
        first, sizes = self.starts[leaf].astype(np.int64), (self.starts[leaf + 1] - self.starts[leaf]).astype(np.int64)
        there = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        shares = self.times[there] / np.repeat(self._came[first + sizes] - self._came[first], sizes)
        cells = np.repeat(row, sizes) * self.count + self.classes[there]
        return np.bincount(cells, shares, len(rows) * self.count).reshape(len(rows), self.count)

    @cached_property
    def _came(self) -> Numbers:
        """How many rows came to all leaves before each class of a leaf."""
        return np.concatenate([[0], np.cumsum(self.times, dtype=np.int64)])

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file holds of it."""
        return {item.name: getattr(self, item.name) for item in fields(self)[1:]}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], features: int, count: int) -> Self:
        """What `arrays` kept, checked: a broken file must not be read beyond its ends."""
        forest = cls(count, *(arrays[item.name] for item in fields(cls)[1:]))
        nodes, inside = len(forest.child), forest.child[forest.child > 0]
        same = len(forest.feature) == len(forest.threshold) == nodes and len(forest.starts) == nodes + 1
        pairs = (
            (forest.roots, nodes), (forest.feature, features), (inside + 1, nodes), (forest.classes, count),
            (forest.starts, len(forest.classes) + 1),
        )  # fmt: skip
        within = all(bool(((part >= 0) & (part < most)).all()) for part, most in pairs)
        grown = within and bool((np.diff(forest.starts) >= 0).all()) and bool((forest.times > 0).all())
        kinds = all(x.ndim == 1 and x.dtype.kind in "iu" for x in forest.arrays().values())
        require(kinds and same and grown and len(forest.times) == len(forest.classes), "its trees are broken")
        return forest


class _Tree(NamedTuple):
    """The nodes of one tree, and the classes that came to its leaves: so many of every node, with how often each came."""

    feature: Numbers
    threshold: UInt8[np.ndarray, " nodes"]
    child: Numbers
    sizes: Numbers
    classes: Numbers
    times: Numbers


def _grow(rows: Rows, classes: Numbers, count: int, random: np.random.Generator) -> _Tree:
    """A tree, level by level: all nodes of a level are divided together."""
    features = rows.shape[1]
    candidates = max(2, round(features**0.5))
    order, node = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    found = list[tuple[np.ndarray, ...]]()
    total = 1  # nodes so far, those of the next level included
    for depth in range(DEPTH):
        if not len(order):
            break
        nodes = int(node.max()) + 1
        of_class = np.bincount(node * count + classes[order], minlength=nodes * count).reshape(nodes, count)
        tried = random.integers(0, features, (nodes, candidates))
        chosen, at, splits = _best_splits(rows, classes, order, node, tried, of_class, random)
        splits &= depth < DEPTH - 1
        children = np.where(splits, total + 2 * (np.cumsum(splits) - 1), 0)
        in_leaf = of_class * ~splits[:, None]
        leaf, of_leaf = np.nonzero(in_leaf)
        found.append((chosen, at, children, np.bincount(leaf, minlength=nodes), of_leaf, in_leaf[leaf, of_leaf]))
        kept = splits[node]
        order, node = order[kept], node[kept]
        larger = rows[order, chosen[node]] > at[node]
        node = children[node] + larger - total
        total += 2 * int(splits.sum())
        by_node = np.argsort(node, kind="stable")
        order, node = order[by_node], node[by_node]
    return _Tree(*(np.concatenate(part) for part in zip(*found, strict=True)))


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

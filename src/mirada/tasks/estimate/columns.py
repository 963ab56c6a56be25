"""What is learned from the columns of a table before a model is: the tokens of their cells, and a ridge regression."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.columns.contents import is_numeric, mark_of, mean_words, numbers
from mirada.data.record import Record
from mirada.data.text.ngrams import Bags, NgramTable, occurrences
from mirada.data.text.tokenize import SPECIAL, TOKENIZER, Tokenizer
from mirada.errors import require
from mirada.tasks.estimate.rows import EstimateOptions, MeasuredRow
from mirada.training.state import packed, read_checkpoint

RIDGE = "ridge.safetensors"
BINS = 16  # of a column of numbers
ROWS_PER_BIN = 20
MOST_CATEGORIES = 200  # different cells of a column of categories
RARE = 2  # rows that a category needs to have a token
TEXT_WORDS = 3.0  # mean words of a cell, from which a column holds texts
MOST_NGRAMS = 2**20
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of the ridge regression, for every row
ROUNDS = 100  # of conjugate gradients
FAR = 4.0  # deviations from the mean, at which numbers are cut


@dataclass(frozen=True)
class InputColumn:
    """A column that is read: numbers, categories or texts.

    A number is a token (the bin that it is in) and a value (how many deviations it is from the mean); a category is a token;
    a text is many. `first` is the first token of the column: a missing cell; in a column of texts it is not used.
    """

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    mark: str = ""  # before the fraction of a number
    edges: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    first: int = 0

    @classmethod
    def learn(cls, name: str, cells: Sequence[str]) -> "InputColumn | None":
        """The column of these cells; None if they say nothing: identifiers, for example.

        >>> InputColumn.learn("size", ["50", "70", "", "90"]).mean
        70.0
        >>> InputColumn.learn("heating", ["gas", "gas", "oil", "oil", "coal"]).categories
        ('gas', 'oil')
        """
        filled = [cell for cell in cells if cell]
        values, faults = numbers(cells)
        if is_numeric(cells, faults):
            known = values[np.isfinite(values)]
            most = max(1, min(BINS, len(known) // ROWS_PER_BIN))
            edges = np.unique(np.quantile(known, np.arange(1, most) / most))
            scale = float(known.std()) or 1.0
            return cls(name, "number", float(known.mean()), scale, mark_of([cells]), tuple(edges.tolist()))
        counts = Counter(filled)
        often = [cell for cell, count in counts.most_common(MOST_CATEGORIES) if count >= RARE]
        covered = sum(counts[cell] for cell in often)
        if mean_words(filled) >= TEXT_WORDS or covered < len(filled) / 2:
            alone = mean_words(filled) < 2 and len(counts) > 0.9 * len(filled)
            return None if alone else cls(name, "text")
        return cls(name, "category", categories=tuple(sorted(often)))

    @property
    def tokens(self) -> int:
        """How many tokens it has of its own."""
        return {"number": 2 + len(self.edges), "category": 1 + len(self.categories)}.get(self.kind, 0)

    def values(self, cells: Sequence[str]) -> Float[np.ndarray, " rows"]:
        """The cells of a column of numbers in deviations from the mean; a missing one is NaN."""
        values = numbers(cells, usual=self.mark)[0] if self.mark == "," else numbers(cells)[0]
        return np.clip((values - self.mean) / self.scale, -FAR, FAR)

    def encoded(self, cells: Sequence[str]) -> tuple[list[int], list[float]]:
        """The token and the value of each cell."""
        if self.kind == "category":
            known = {cell: 1 + number for number, cell in enumerate(self.categories)}
            return [self.first + known.get(cell, 0) for cell in cells], [0.0] * len(cells)
        values = self.values(cells)
        there = np.isfinite(values)
        edges = (np.array(self.edges) - self.mean) / self.scale
        tokens = self.first + np.where(there, 1 + np.searchsorted(edges, values, side="right"), 0)
        return tokens.tolist(), np.where(there, values, 0.0).tolist()


@dataclass(frozen=True, eq=False)
class RidgeRegression:
    """A weighted sum of what stands in a row: numbers, categories, and n-grams of texts.

    w = argmin sum over rows of (y - x . w)^2 + penalty x rows x |w|^2

    Hoerl and Kennard (1970).
    """

    weights: Float[Tensor, "features 1"]
    table: NgramTable

    @classmethod
    def fit(
        cls, columns: Sequence[InputColumn], rows: Mapping[str, Sequence[str]], wanted: Tensor, held: Tensor
    ) -> Self:
        """Fit to rows, by column, without those that are held out; the penalty is the best one for these."""
        texts = _texts(columns, rows)
        table = NgramTable.learn(occurrences(texts, "words"), MOST_NGRAMS)
        x, used = _bags(columns, rows, table), (~held).float()
        fits = [_solve(x, wanted, used, penalty * float(used.sum())) for penalty in PENALTIES]
        errors = [float((x.product(weights)[held, 0] - wanted[held]).square().mean()) for weights in fits]
        return cls(fits[int(np.argmin(errors))], table)

    def estimates(self, columns: Sequence[InputColumn], rows: Mapping[str, Sequence[str]]) -> Float[Tensor, " rows"]:
        """The estimates for rows, in deviations from the mean."""
        return _bags(columns, rows, self.table).product(self.weights)[:, 0]


def _texts(columns: Sequence[InputColumn], rows: Mapping[str, Sequence[str]]) -> list[str]:
    """The texts of each row, one after the other; none where there are no such columns."""
    parts = [rows[column.name] for column in columns if column.kind == "text"]
    return [" ".join(cells) for cells in zip(*parts, strict=True)]


def _bags(columns: Sequence[InputColumn], rows: Mapping[str, Sequence[str]], table: NgramTable) -> Bags:
    """Rows as a sparse matrix: one, the numbers, the categories, the n-grams of texts."""
    count = len(next(iter(rows.values())))
    places, numbers_of, owners, width = [np.zeros(count, np.int64)], [np.ones(count)], [np.arange(count)], 1
    for column in columns:
        if column.kind == "number":
            values = column.values(rows[column.name])
            places.append(np.full(count, width))
            numbers_of.append(np.nan_to_num(values))
            owners.append(np.arange(count))
            width += 1
        elif column.kind == "category":
            places.append(width + np.array(column.encoded(rows[column.name])[0]) - column.first)
            numbers_of.append(np.ones(count))
            owners.append(np.arange(count))
            width += column.tokens
    if texts := _texts(columns, rows):
        bags = table.bags(occurrences(texts, "words"))
        sizes = torch.diff(bags.starts, append=torch.tensor([len(bags.columns)])).numpy()
        places.append(width + bags.columns.numpy())
        numbers_of.append(bags.values.numpy())
        owners.append(np.repeat(np.arange(count), sizes))
        width += len(table)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(count))
    entries = (
        torch.from_numpy(np.concatenate(places)[order]),
        torch.from_numpy(np.concatenate(numbers_of)[order]).float(),
    )
    return Bags(*entries, torch.from_numpy(starts), width)


def _solve(x: Bags, wanted: Tensor, used: Tensor, penalty: float) -> Float[Tensor, "features 1"]:
    """The weights of a ridge regression on the rows that are used, by conjugate gradients."""

    def normal(vector: Tensor) -> Tensor:
        return x.transposed.product(x.product(vector) * used[:, None]) + penalty * vector

    weights = torch.zeros(x.ngrams, 1)
    rest = x.transposed.product((wanted * used)[:, None])
    direction, size = rest.clone(), float(rest.square().sum())
    goal = 1e-10 * size
    for _ in range(ROUNDS):
        if size <= goal:
            break
        product = normal(direction)
        step = size / max(float((direction * product).sum()), 1e-30)
        weights, rest = weights + step * direction, rest - step * product
        size, before = float(rest.square().sum()), size
        direction = rest + size / before * direction
    return weights


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table (numbers first, then categories, then texts), what is estimated, and the ridge regression.

    estimate = mean + scale x (share x network + (1 - share) x ridge)
    """

    files: ClassVar[tuple[str, ...]] = (TOKENIZER, RIDGE)

    columns: tuple[InputColumn, ...]
    target: str
    mean: float
    scale: float
    ridge: RidgeRegression
    tokenizer: Tokenizer | None = None
    share: float = 1.0  # of the network in an estimate
    names: tuple[str, ...] = field(default=())  # of all columns of the file, as they stood there

    @classmethod
    def learn(
        cls, train: Sequence[Record[MeasuredRow]], held: Sequence[Record[MeasuredRow]], options: EstimateOptions
    ) -> Self:
        """What these rows show; the held-out ones choose the penalty of the ridge regression."""
        names = train[0].value.names
        rows = by_column(names, train)
        learned = [column for name in names if (column := InputColumn.learn(name, rows[name])) is not None]
        require(bool(learned), f"no column says anything about {train[0].value.target_name}: {', '.join(names)}")
        kinds = ("number", "category", "text")
        placed, first = [], len(SPECIAL)
        for column in sorted(learned, key=lambda column: kinds.index(column.kind)):  # stable: else as in the file
            placed.append(replace(column, first=first))
            first += column.tokens
        texts = [cell for column in placed if column.kind == "text" for cell in rows[column.name]]
        has_words = any(text.strip() for text in texts)
        tokenizer = Tokenizer.train(texts, options.tokenizer, options.vocab, options.lowercase) if has_words else None
        wanted = torch.tensor([record.value.target for record in train], dtype=torch.float64)
        mean, scale = float(wanted.mean()), float(wanted.std(correction=0)) or 1.0
        both = [*train, *held]
        targets = torch.tensor([(record.value.target - mean) / scale for record in both])
        is_held = torch.arange(len(both)) >= len(train)
        with torch.inference_mode(False):
            ridge = RidgeRegression.fit(placed, by_column(names, both), targets.float(), is_held)
        return cls(tuple(placed), train[0].value.target_name, mean, scale, ridge, tokenizer, names=names)

    def __len__(self) -> int:
        own = sum(column.tokens for column in self.columns)
        return len(SPECIAL) + own + (0 if self.tokenizer is None else len(self.tokenizer) - len(SPECIAL))

    @property
    def numbers(self) -> int:
        """How many columns hold numbers."""
        return sum(column.kind == "number" for column in self.columns)

    @property
    def text(self) -> str:
        """The name of the only column, where that holds texts."""
        return self.columns[0].name if len(self.columns) == 1 and self.columns[0].kind == "text" else ""

    def encoded(self, rows: Mapping[str, Sequence[str]]) -> tuple[list[list[int]], list[list[float]]]:
        """For every row its tokens (columns in their order, then the words of texts and an end), and the values of numbers."""
        cells = [column.encoded(rows[column.name]) for column in self.columns if column.kind != "text"]
        count = len(next(iter(rows.values())))
        tokens = (
            [list(row) for row in zip(*(each[0] for each in cells), strict=True)]
            if cells
            else [[] for _ in range(count)]
        )
        given = [each[1] for each in cells[: self.numbers]]
        values = [list(row) for row in zip(*given, strict=True)] if given else [[] for _ in range(count)]
        if self.tokenizer is not None:
            beyond = sum(column.tokens for column in self.columns)
            for row, text in zip(tokens, _texts(self.columns, rows), strict=True):
                ids = self.tokenizer.encode(text)
                row += [*(id if id < len(SPECIAL) else id + beyond for id in ids), self.tokenizer.end]
        return tokens, values

    def described(self, cells: Mapping[str, str], tokens: Sequence[int]) -> tuple[str, ...]:
        """A name for every token of a row: the columns with their cells, then the words of texts."""
        named = [f"{column.name}={cells.get(column.name, '')}" for column in self.columns if column.kind != "text"]
        beyond = sum(column.tokens for column in self.columns)
        if self.tokenizer is None:
            return tuple(named)
        ids = (id if id < len(SPECIAL) else id - beyond for id in tokens[len(named) :])
        return (*named, *(self.tokenizer.token(id) for id in ids))

    def facts(self) -> dict[str, Any]:
        """The columns, the scale of the target, and how much the ridge regression counts."""
        return {
            "columns": [asdict(column) for column in self.columns], "target": self.target, "mean": self.mean,
            "scale": self.scale, "share": self.share, "names": list(self.names),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        """The tokenizer, empty where there is no text, and the ridge regression."""
        table = self.ridge.table
        keys, rarity = torch.from_numpy(table.keys.view(np.int64)), torch.from_numpy(table.rarity)
        tokenizer = b"" if self.tokenizer is None else self.tokenizer.to_json().encode()
        return {
            TOKENIZER: tokenizer,
            RIDGE: packed({"keys": keys, "rarity": rarity, "weights": self.ridge.weights}, {}),
        }

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and `contents` kept; `paths` has the places of its files."""
        try:
            columns = tuple(
                InputColumn(**{**each, "edges": tuple(each["edges"]), "categories": tuple(each["categories"])})
                for each in facts["columns"]
            )
            mean, scale, share = (float(facts[name]) for name in ("mean", "scale", "share"))
            target, names = str(facts["target"]), tuple(map(str, facts["names"]))
        except (KeyError, TypeError, ValueError):
            raise ValueError("the columns in config.json are missing or broken") from None
        require(all(map(math.isfinite, (mean, scale, share))), "mean, scale and share in config.json must be finite")
        tensors, _ = read_checkpoint(paths[RIDGE])
        table = NgramTable(tensors["keys"].numpy().view(np.uint64), tensors["rarity"].numpy())
        texts = any(column.kind == "text" for column in columns)
        tokenizer = Tokenizer.load(paths[TOKENIZER]) if texts else None
        return cls(columns, target, mean, scale, RidgeRegression(tensors["weights"], table), tokenizer, share, names)


def by_column(names: Sequence[str], records: Sequence[Record[MeasuredRow]]) -> dict[str, list[str]]:
    """The cells of rows by the name of their column, whatever the order of the columns is."""
    cells: dict[str, list[str]] = {name: [] for name in names}
    for record in records:
        there = record.value.names
        if there is names or there == names:
            for name, cell in zip(names, record.value.cells, strict=True):
                cells[name].append(cell)
            continue
        missing = [name for name in names if name not in there]
        require(not missing, f"{record.where}: there is no column {', '.join(missing)}, which is read")
        for name in names:
            cells[name].append(record.value.cells[there.index(name)])
    return cells

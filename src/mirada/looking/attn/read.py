"""Reading attention files: from a manifest and blobs to layers. Nothing of a bad file is loaded."""

import glob
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.kernels.plan import Plan
from mirada.errors import require
from mirada.looking.attn.format import (
    LARGEST_SIDE,
    MOST_ROWS,
    MOST_STREAMS,
    MOST_WEIGHTS,
    PARTS,
    PNG,
    BlobReader,
    Codes,
    Fields,
    HalfProduct,
    as_tensor,
    first_line,
    is_number,
    parse,
    shown,
)
from mirada.looking.explain.methods import Agreement, Methods
from mirada.looking.explain.relations import HeadRelation
from mirada.looking.labels import AxisLabels, GridLabels, Labels, NodeLabels, Span, TextLabels, TimeLabels, WrittenStep
from mirada.looking.reduce import Reduction, reduced
from mirada.looking.statistics import Checks, HeadStatistics, SinkKey, WeightTile
from mirada.looking.stream import Factors, Stream, chosen, stored_tiles

# A layer read from a file: its description, and its weights on demand.


@dataclass(frozen=True)
class PrintedPart:
    """A part of a layer as it printed itself."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class StoredCall:
    """One layer of a file, with the interface of a recorded call. Its batch has one sample."""

    name: str
    kind: str
    heads: int
    queries: int
    keys: int
    content: Codes | HalfProduct
    edges: Int[Tensor, "2 edges"] | None = None
    stored_values: Float[Tensor, "heads keys value_dim"] | None = None
    product: Factors | None = None  # queries and keys, where the score is their product
    made_of: Mapping[str, str] = field(default_factory=dict)  # kernel, score, where, position, normalizer
    head_statistics: tuple[HeadStatistics, ...] | None = None
    stored_checks: Checks | None = None
    error: float | None = None  # how far the weights may be from those that were used
    start: int = 0  # files do not hold it: their statistics were computed with it

    @property
    def batch(self) -> int:
        """A file holds one sample."""
        return 1

    @property
    def cached(self) -> bool:
        """A file does not say."""
        return False

    @property
    def dropout(self) -> float:
        """The share of weights that were dropped at random."""
        return self.stored_checks.dropout if self.stored_checks else 0.0

    @property
    def where(self) -> PrintedPart:
        """The neighborhood, as it printed itself."""
        return PrintedPart(self.made_of.get("where", ""))

    @property
    def plan(self) -> Plan:
        """The kernel that ran."""
        return Plan(self.made_of.get("kernel", ""), {})

    @property
    def calls(self) -> "Sequence[StoredCall]":
        """The one call that a file holds of a layer."""
        return [self]

    def weights(self, head: int | None = None, rows: slice | None = None) -> Tensor:
        """The weights as stored: (1, heads, queries, keys), without the heads axis for one head; per edge for a graph."""
        heads, first, last = chosen(self, head, rows)
        weights = self.content.weights(heads, first, last if self.edges is None else self.edges.shape[1])
        return weights[None] if head is None else weights

    def tiles(self, head: int | None = None) -> Iterator[WeightTile]:
        """The weights as stored, some rows at a time."""
        require(self.edges is None, "the weights of a graph are one per edge: ask for `weights()`")
        yield from stored_tiles(self, head)

    def reduce(self, *reductions: Reduction, head: int | None = None) -> dict[str, Any]:
        """What reductions of `mirada.looking.reduce` make of the weights, by their class names."""
        return reduced(self, reductions, head)

    def scores(self, head: int | None = None, rows: slice | None = None) -> Tensor:
        """What the normalizer was given, where the file holds queries and keys and nothing was added to their product."""
        heads, first, last = chosen(self, head, rows)
        product = self.product
        if product is None or not (product.plain or not self.made_of.get("position")):
            raise ValueError(f"the file holds weights of {self.name!r}, not its scores: look at the model itself")
        scores = product.scale * (product.q[heads, first:last] @ product.k[heads].transpose(1, 2))
        return scores[None] if head is None else scores

    def values(self) -> Float[Tensor, "batch heads keys value_dim"]:
        """The values that the weights mixed, where the file holds them."""
        if self.stored_values is None:
            raise ValueError(f"the file holds no values of {self.name!r}: they were too large to be kept")
        return self.stored_values[None]

    def factors(self) -> Factors | None:
        """Queries and keys, where the file holds them."""
        half = self.content
        if isinstance(half, HalfProduct):
            return Factors(half.q[None].float(), half.k[None].float(), half.scale, True)
        product = self.product
        return None if product is None else replace(product, q=product.q[None], k=product.k[None])

    def mask(self, first: int, last: int) -> Tensor:
        """Who may be seen, as far as the file says; without a mask in it, every key that has weight in some head."""
        if isinstance(self.content, HalfProduct):
            return self.content.may_see(first, last)[None, None]
        where = self.made_of.get("where", "")
        if where in ("", "Complete()") or self.edges is not None:
            return torch.ones(1, 1, last - first, self.keys, dtype=torch.bool)
        if where == "Causal()":  # the last row sees all keys
            later = max(0, self.keys - self.queries)
            return (torch.arange(self.keys) <= torch.arange(first + later, last + later).view(-1, 1))[None, None]
        return (self.weights(rows=slice(first, last)) != 0).any(1, keepdim=True)

    def parts(self) -> dict[str, str]:
        """The factors of the equation, as they printed themselves."""
        return dict(self.made_of)

    def continued(self, other: Any, sample: int) -> int | None:
        """None: a file has the steps of a decoding joined."""
        return None

    def statistics(self) -> list[HeadStatistics]:
        """What every head does: as stored, or computed from the stored weights."""
        return list(self.head_statistics) if self.head_statistics else Stream((self,)).statistics()[0]

    def checks(self) -> Checks:
        """What is to be warned of."""
        return self.stored_checks or Stream((self,)).statistics()[1]

    def __repr__(self) -> str:
        shape = f"heads={self.heads}, queries={self.queries}, keys={self.keys}"
        return f"StoredCall({self.name!r}, {self.kind}, {shape}, where={self.where}, kernel={self.plan.kernel})"


KINDS = ("self", "cross", "recurrent", "vision", "graph")
MOST_PLACES = 2**20  # of all axes whose places the file does not name


class Loaded:
    """All that a file holds."""

    def __init__(self, file: IO[bytes]) -> None:
        self.blobs = BlobReader(file)
        manifest = parse(self.blobs.manifest())
        self.unnamed = 0  # places of axes without names, so far
        self.axes = {name: self._axis(manifest.object("axes").object(name)) for name in manifest.object("axes")}
        streams = manifest.objects("streams", needed=True)
        require(len(streams) <= MOST_STREAMS, f"it has {len(streams)} streams: at most {MOST_STREAMS} are read")
        self.places: dict[str, tuple[str, str]] = {}
        self.calls: dict[str, StoredCall] = {}
        for fields in streams:
            name = fields.text("name")
            require(name not in self.calls, f"it has two streams named {shown(name)}")
            self.calls[name] = self._stream(fields)
        self.methods = self._read_methods(manifest.object("methods")) if "methods" in manifest else None
        self.relations = tuple(_relation(fields) for fields in manifest.objects("relations"))
        self.labels = self._read_labels(manifest)

    def _axis(self, fields: Fields) -> AxisLabels:
        kind, size = fields.text("kind"), fields.whole("size")
        height, width, before = 0, 0, fields.texts("before") if kind == "grid" else ()
        if kind == "grid":
            height, width = fields.whole("height", 1), fields.whole("width", 1)
            fits = height * width + len(before) == size and size <= MOST_PLACES
            require(fits, f"{fields.path} has {len(before)} + {height} x {width} cells, and its size is {size}")
        if "tokens" in fields:
            tokens = fields.texts("tokens")
        else:
            self.unnamed += size  # of all axes whose places are to be named here it is bounded
            require(
                self.unnamed <= MOST_PLACES,
                f"{fields.path} has {size} places without names, {self.unnamed} with the axes before it: "
                f"at most {MOST_PLACES} in all are read",
            )
            tokens = (GridLabels.of(height, width, before) if height else AxisLabels.numbered(size)).tokens
        require(len(tokens) == size, f"{fields.path} has {len(tokens)} tokens, and its size is {size}")
        if kind == "grid":
            picture = self.blobs.blob(fields.text("picture")) if "picture" in fields else b""
            require(not picture or picture.startswith(PNG), f"{fields.path}.picture is no PNG")
            return GridLabels(tokens, height, width, before, picture)
        if kind == "text":
            text = fields.text("text", "")
            return TextLabels(tokens, text, tuple(_span(item, fields, len(text)) for item in fields.items("spans")))
        if kind == "time":
            return TimeLabels(tokens, tuple(_number_or_nan(item, fields) for item in fields.items("values")))
        return NodeLabels(tokens, _node_places(fields)) if kind == "graph" else AxisLabels(tokens)

    def _axis_named(self, fields: Fields, field: str, size: int | None = None) -> str:
        name = fields.text(field)
        require(name in self.axes, f"{fields.path}.{field} names an axis that is not there: {shown(name)}")
        places = self.axes[name].size
        fits = size is None or places == size
        require(fits, f"{fields.path}.{field}: the axis {shown(name)} has {places} places, not {size}")
        return name

    def _stream(self, fields: Fields) -> StoredCall:
        name, kind = fields.text("name"), fields.text("kind")
        require(kind in KINDS, f"{fields.path}.kind must be one of {', '.join(KINDS)}: got {shown(kind)}")
        heads, queries, keys = fields.whole("heads", 1, 2**16), fields.whole("queries"), fields.whole("keys")
        require(
            heads * max(queries, keys) <= MOST_ROWS,
            f"{fields.path} has {heads} heads x {max(queries, keys)} places: at most {MOST_ROWS} rows are read",
        )
        rows, columns = self._axis_named(fields, "rows", queries), self._axis_named(fields, "columns", keys)
        self.places[glob.escape(name)] = rows, columns
        edges, content = self._weights(fields, heads, queries, keys)
        statistics = [_head_statistics(item, keys) for item in fields.objects("statistics")]
        require(len(statistics) in (0, heads), f"{fields.path} has statistics of {len(statistics)} heads, not {heads}")
        values, product = self._vectors(fields, heads, queries, keys)
        known = fields.object("checks") if "checks" in fields else None
        return StoredCall(
            name, kind, heads, queries, keys, content, edges, values, product, {part: fields.text(part, "") for part in PARTS},
            tuple(statistics) or None, None if known is None else _checks(known),
            None if known is None else known.maybe_number("error"),
        )  # fmt: skip

    def _weights(
        self, fields: Fields, heads: int, queries: int, keys: int
    ) -> tuple[torch.Tensor | None, Codes | HalfProduct]:
        encoding, data = fields.text("encoding"), fields.object("data")
        count = heads * queries * keys
        if encoding == "edges8":
            return self._edges(data, heads, queries, keys)
        require(count <= MOST_WEIGHTS, f"{fields.path} has {count} weights: at most 2^31 are read")
        if encoding == "qk16":
            return None, self._half_product(data, heads, queries, keys)
        dtype = {"sqrt8": "uint8", "float32": "float32"}.get(encoding, "")
        require(dtype != "", f"{fields.path}.encoding must be sqrt8, float32, qk16 or edges8: got {shown(encoding)}")
        return None, Codes(self._tensor(data, "weights", dtype, (heads, queries, keys)))

    def _tensor(self, fields: Fields, name: str, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        size = math.prod(shape) * torch.empty(0, dtype=getattr(torch, dtype)).element_size()
        return as_tensor(self.blobs.blob(fields.text(name), size), dtype, shape)

    def _edges(self, data: Fields, heads: int, queries: int, keys: int) -> tuple[torch.Tensor, Codes]:
        name = data.text("edges")
        listed = self.blobs.entries.get(name)
        require(listed is not None, f"it names a blob that is not there: {shown(name)}")
        count = 0 if listed is None else listed.file_size // 8
        edges = self._tensor(data, "edges", "int32", (2, count))
        for row, size, word in ((edges[0], keys, "keys"), (edges[1], queries, "queries")):
            good = not count or (int(row.min()) >= 0 and int(row.max()) < size)
            require(good, f"{data.path}.edges names {word} outside 0..{size - 1}")
        kind = data.text("weights_type", "uint8")
        require(kind in ("uint8", "float32"), f"{data.path}.weights_type must be uint8 or float32: got {shown(kind)}")
        return edges.long(), Codes(self._tensor(data, "weights", kind, (heads, count)))

    def _half_product(self, data: Fields, heads: int, queries: int, keys: int) -> HalfProduct:
        dim, scale, fields = data.whole("dim", 1), data.number("scale"), data.object("mask")
        kind = fields.text("kind")
        mask: dict[str, Any] = {"kind": kind}
        bits = None
        if kind == "window":
            mask |= {"left": fields.whole("left"), "right": fields.whole("right")}
        elif kind == "bits":
            bits = self._tensor(fields, "data", "uint8", (math.ceil(queries * keys / 8),))
        else:
            require(kind in ("complete", "causal"), f"{fields.path}.kind must be complete, causal, window or bits: "
                    f"got {shown(kind)}")  # fmt: skip
        q = self._tensor(data, "q", "float16", (heads, queries, dim))
        k = self._tensor(data, "k", "float16", (heads, keys, dim))
        finite = bool(q.isfinite().all() and k.isfinite().all())
        require(finite, f"{data.path} has queries or keys that are not numbers")
        return HalfProduct(q, k, scale, mask, bits)

    def _vectors(self, fields: Fields, heads: int, queries: int, keys: int) -> tuple[Tensor | None, Factors | None]:
        """The values, where the file holds them; queries and keys too, where the score is their product."""
        if "vectors" not in fields:
            return None, None
        fields = fields.object("vectors")
        values = self._tensor(fields, "v", "float32", (heads, keys, fields.whole("value_dim")))
        if "q" not in fields:
            return values, None
        dim = fields.whole("dim")
        q, k = (self._tensor(fields, name, "float32", (heads, n, dim)) for name, n in (("q", queries), ("k", keys)))
        return values, Factors(q, k, fields.number("scale"), fields.flag("plain"))

    def _read_methods(self, fields: Fields) -> Methods:
        rows, columns = self._axis_named(fields, "rows"), self._axis_named(fields, "columns")
        shape = (self.axes[rows].size, self.axes[columns].size)
        matrices = {}
        for item in fields.objects("matrices"):
            matrix = self._tensor(item, "data", "float32", shape)
            good = bool(matrix.isfinite().all() and (matrix >= 0).all())
            require(good, f"{item.path} has a share that is negative or no number")
            matrices[item.text("name")] = matrix
        pairs = fields.objects("agreement")
        agreement = [Agreement(x.text("a"), x.text("b"), x.number("spearman"), x.number("top")) for x in pairs]
        return Methods(matrices, tuple(agreement), rows, columns)

    def _read_labels(self, manifest: Fields) -> Labels:
        made = manifest.object("made") if "made" in manifest else Fields({})
        answer = manifest.object("answer") if "answer" in manifest else None
        provenance = {name: made.text(name) for name in made}
        answered = None if answer is None else (answer.text("text"), answer.maybe_number("score"))
        outputs = tuple(map(_written_step, manifest.objects("outputs")))
        boxes = tuple(map(_box, manifest.objects("boxes")))
        changes = tuple(dict(item.value) for item in manifest.objects("changes"))
        return Labels(self.axes, self.places, provenance, answered, outputs, boxes, changes)


def load(path: str | os.PathLike[str]) -> Loaded:
    """A file; a ValueError names it and what is wrong."""
    try:
        with open(Path(path), "rb") as file:
            return Loaded(file)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or first_line(error)}") from None
    except ValueError as error:
        raise ValueError(f"{path} is no attention file that can be read: {first_line(error)}") from None


def from_bytes(content: bytes) -> Loaded:
    """The content of a file; a ValueError says what is wrong."""
    try:
        return Loaded(io.BytesIO(content))
    except ValueError as error:
        raise ValueError(f"this is no attention file that can be read: {first_line(error)}") from None


def _span(item: Any, fields: Fields, length: int) -> Span | None:
    if item is None:
        return None
    good = isinstance(item, list) and len(item) == 2 and all(type(x) is int for x in item)
    good = good and 0 <= item[0] <= item[1] <= length
    require(good, f"{fields.path}.spans must be places in its text: got {shown(item)}")
    return item[0], item[1]


def _node_places(fields: Fields) -> tuple[int, ...]:
    places = fields.items("places")
    good = all(type(item) is int and 0 <= item < MOST_WEIGHTS for item in places)
    require(good, f"{fields.path}.places must be whole numbers from 0 on")
    return tuple(places)


def _number_or_nan(item: Any, fields: Fields) -> float:
    require(item is None or is_number(item), f"{fields.path}.values must be numbers: got {shown(item)}")
    return math.nan if item is None else float(item)


def _head_statistics(fields: Fields, keys: int) -> HeadStatistics:
    sink = fields.object("sink") if "sink" in fields else None
    return HeadStatistics(
        fields.number("entropy", 0.0), fields.number("normalized_entropy", 0.0),
        **{name: fields.maybe_number(name) for name in ("distance", "previous", "next", "first", "self")},
        sink=None if sink is None else SinkKey(sink.whole("key", 0, keys - 1), sink.number("mass")),
    )  # fmt: skip


def _checks(fields: Fields) -> Checks:
    return Checks(
        fields.number("row_sum_min", 1.0), fields.number("row_sum_max", 1.0),
        fields.whole("nan_rows", 0, MOST_WEIGHTS) if "nan_rows" in fields else 0,
        fields.whole("empty_rows", 0, MOST_WEIGHTS) if "empty_rows" in fields else 0,
        fields.flag("identical_rows"), fields.number("dropout", 0.0), fields.number("weight_min", 0.0),
        fields.number("weight_max", 1.0),
    )  # fmt: skip


def _relation(fields: Fields) -> HeadRelation:
    return HeadRelation(
        fields.text("relation"), fields.text("stream"), fields.whole("head"), fields.number("accuracy"),
        fields.number("baseline"), fields.whole("offset", -LARGEST_SIDE), fields.whole("count", 0, 2**53),
    )  # fmt: skip


def _written_step(fields: Fields) -> WrittenStep:
    ranked = []
    for item in fields.items("ranked"):
        good = isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and is_number(item[1])
        require(good, f"{fields.path}.ranked must be pairs of a text and a number: got {shown(item)}")
        ranked.append((item[0], float(item[1])))
    return WrittenStep(fields.whole("row"), fields.text("text"), fields.maybe_number("probability"), tuple(ranked))


def _box(fields: Fields) -> tuple[int, tuple[float, float, float, float]]:
    x0, y0, x1, y1 = fields.numbers("box", 4)
    return fields.whole("row"), (x0, y0, x1, y1)

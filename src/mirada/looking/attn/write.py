"""Writing attention files: `seen.save("x.attn")`. `docs/attn.md` describes them.

Layers are written one after the other, their weights in pieces of some rows: memory does not grow with the file.
"""

import json
import math
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from mirada.errors import require
from mirada.looking.attn import format as encodings
from mirada.looking.attn.format import (
    FORMAT,
    MOST_ROWS,
    MOST_STREAMS,
    MOST_WEIGHTS,
    PARTS,
    PNG,
    VERSION,
    BlobWriter,
    HalfProduct,
    little,
)
from mirada.looking.explain.methods import Methods
from mirada.looking.explain.relations import HeadRelation
from mirada.looking.labels import AxisLabels, GridLabels, Labels, NodeLabels, TextLabels, TimeLabels
from mirada.looking.statistics import Checks, SinkKey
from mirada.looking.stream import Stream, sample_note, tidy

SMALL_VECTORS, ALL_VECTORS = 2**16, 2**19  # numbers of one layer, and of all, that are kept for the arithmetic
EXACT_WEIGHTS = 2**13  # of one layer: so few are kept as they are, and numbers on a blackboard stay what they are


def write(
    file: IO[bytes],
    streams: Sequence[Stream],
    labels: Labels,
    methods: Methods | None = None,
    relations: Sequence[HeadRelation] = (),
    recurrent: Collection[str] = (),
    foreign: Collection[str] = (),
) -> None:
    """Write the attention of one sample as an attention file.

    Args:
        file: Where to write.
        streams: The layers, of one sample.
        labels: What their rows and columns are.
        methods: Other explanations of the answer.
        relations: Which heads follow which relation.
        recurrent: The names of layers with which a recurrent net looks.
        foreign: The names of layers of another library.
    """
    require(len(streams) > 0, "there is no attention to save: no layer was called inside look")
    require(len(streams) <= MOST_STREAMS, f"a file holds at most {MOST_STREAMS} layers: got {len(streams)}")
    with BlobWriter(file) as blobs:
        _Writer(blobs, streams, labels, recurrent, foreign).write(methods, relations)


@dataclass(eq=False)
class _Writer:
    """A file being written: the ZIP, its content, the axes so far."""

    blobs: BlobWriter
    streams: Sequence[Stream]
    labels: Labels
    recurrent: Collection[str]
    foreign: Collection[str]
    vectors_left: int = ALL_VECTORS

    def write(self, methods: Methods | None, relations: Sequence[HeadRelation]) -> None:
        """Write the layers, then the manifest that describes them."""
        labels = self.labels
        self.axes: dict[str, AxisLabels] = dict(labels.axes)
        streams = [self.stream(stream) for stream in self.streams]
        provenance = {name: str(value) for name, value in labels.made.items()}
        manifest: dict[str, Any] = {
            "format": FORMAT, "version": VERSION, "made": {**version(), **provenance, **sample_note(self.streams)},
            "answer": None if labels.answer is None else {"text": labels.answer[0], "score": _number(labels.answer[1])},
            "streams": streams,
            "outputs": [
                {"row": step.row, "text": step.text, "probability": _number(step.probability),
                 "ranked": [[text, share] for text, share in step.ranked if math.isfinite(share)]}
                for step in labels.outputs
            ],
            "methods": None if methods is None else self.methods(methods),
            "relations": [asdict(relation) for relation in relations],
            "changes": [dict(change) for change in labels.changes],
        }  # fmt: skip
        if labels.boxes:
            manifest["boxes"] = [{"row": row, "box": list(box)} for row, box in labels.boxes]
        manifest["axes"] = {name: self.axis(axis) for name, axis in self.axes.items()}
        try:
            content = json.dumps(manifest, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ValueError(f"the labels hold something that JSON cannot: {error}") from None
        self.blobs.finish(content)

    def stream(self, stream: Stream) -> dict[str, Any]:
        heads, queries, keys = stream.heads, stream.queries, stream.keys
        require(
            heads * queries * keys <= MOST_WEIGHTS or stream.edges is not None,
            f"{stream.name} has {heads} x {queries} x {keys} weights: at most 2^31 are read. Look at a shorter input.",
        )
        require(
            heads * max(queries, keys) <= MOST_ROWS,
            f"{stream.name} has {heads} heads x {max(queries, keys)} places: at most {MOST_ROWS} rows are read. "
            "Look at a shorter input, or at a part of the graph.",
        )
        known = self.labels.axes_of(stream.name, queries, keys)
        rows, columns = known or (self.numbered(queries), self.numbered(keys))
        statistics, checks = stream.statistics()
        encoding, data, error = self.weights(stream, checks)
        error += getattr(stream.last, "error", None) or 0.0
        parts = stream.last.parts()
        return {
            "name": stream.name, "kind": self.kind(stream, rows, columns), "heads": heads, "queries": queries, "keys": keys,
            "rows": rows, "columns": columns, **{name: parts.get(name, "") for name in PARTS},
            "encoding": encoding, "data": data, "vectors": self.vectors(stream),
            "statistics": [_numbers(vars(one)) for one in statistics],
            "checks": {**_numbers(vars(checks)), "error": _number(error)},
        }  # fmt: skip

    def kind(self, stream: Stream, rows: str, columns: str) -> str:
        """Pictures and graphs are named for their keys, recurrent decoders for their queries: these layers belong to a module
        with a recurrent net, or were called step by step without a cache.
        """
        if stream.edges is not None:
            return "graph"
        if isinstance(self.axes[columns], GridLabels):
            return "vision"
        cached = any(call.cached for other in self.streams for call in other.calls)
        foreign = stream.name in self.foreign  # of another library: it keeps its own cache
        steps = stream.name in self.recurrent or (stream.stepped and not cached and not foreign)
        if steps and stream.last.kind == "cross":
            return "recurrent"
        # the same words look at each other, however they were passed
        return "self" if rows == columns and rows in self.labels.axes else stream.last.kind

    def numbered(self, size: int) -> str:
        name = f"places {size}"
        self.axes.setdefault(name, AxisLabels.numbered(size))
        return name

    def weights(self, stream: Stream, checks: Checks) -> tuple[str, dict[str, Any], float]:
        edges = stream.edges
        if edges is not None:
            return self.edges(stream, tidy(edges).int(), checks)
        halves = encodings.half_product(stream, checks)
        if halves is not None:
            return "qk16", self.half_product(halves[0]), halves[1]
        if stream.heads * stream.queries * stream.keys <= EXACT_WEIGHTS or not encodings.bytes_hold(checks):
            return "float32", {"weights": self.blobs.add(map(little, encodings.by_head(stream)))}, 0.0
        errors = [0.0]
        blob = self.blobs.add(encodings.companded(encodings.by_head(stream), errors))
        return "sqrt8", {"weights": blob}, max(errors)

    def edges(self, stream: Stream, edges: Any, checks: Checks) -> tuple[str, dict[str, Any], float]:
        data: dict[str, Any] = {"count": edges.shape[1], "edges": self.blobs.add([little(edges)])}
        weights, errors = [stream.edge_weights()], [0.0]
        if encodings.bytes_hold(checks):
            return "edges8", data | {"weights": self.blobs.add(encodings.companded(weights, errors))}, max(errors)
        return "edges8", data | {"weights_type": "float32", "weights": self.blobs.add(map(little, weights))}, 0.0

    def half_product(self, halves: HalfProduct) -> dict[str, Any]:
        mask = dict(halves.mask)
        if halves.bits is not None:
            mask["data"] = self.blobs.add([little(halves.bits)])
        q, k = (self.blobs.add([little(x)]) for x in (halves.q, halves.k))
        return {"q": q, "k": k, "dim": halves.q.shape[-1], "scale": halves.scale, "mask": mask}

    def vectors(self, stream: Stream) -> dict[str, Any] | None:
        """Queries, keys and values, where they are few."""
        try:
            values = stream.values()
        except ValueError:  # a file that was read had none
            return None
        factors = stream.factors()
        size = values.numel() + (0 if factors is None else factors.q.numel() + factors.k.numel())
        if size > min(SMALL_VECTORS, self.vectors_left) or values.shape[1] != stream.keys or not size:
            return None
        self.vectors_left -= size
        described: dict[str, Any] = {"v": self.blobs.add([little(values)]), "value_dim": values.shape[-1]}
        if factors is None or factors.k.shape[1] != stream.keys:
            return described
        q, k = (self.blobs.add([little(x)]) for x in (factors.q, factors.k))
        dim = factors.q.shape[-1]
        return described | {"q": q, "k": k, "dim": dim, "scale": factors.scale, "plain": factors.plain}

    def methods(self, methods: Methods) -> dict[str, Any]:
        shape = next(iter(methods.matrices.values())).shape
        rows, columns = methods.rows or self.numbered(shape[0]), methods.columns or self.numbered(shape[1])
        for name, size in zip((rows, columns), shape, strict=True):
            fits = name in self.axes and self.axes[name].size == size
            require(fits, f"the methods' axis {name!r} must be one of the labels' axes with {size} places")
        return {
            "rows": rows, "columns": columns,
            "matrices": [{"name": name, "data": self.blobs.add([little(tidy(x))])} for name, x in methods.matrices.items()],
            "agreement": list(map(asdict, methods.agreement)),
        }  # fmt: skip

    def axis(self, axis: AxisLabels) -> dict[str, Any]:
        described: dict[str, Any] = {"kind": axis.kind, "size": axis.size, "tokens": list(axis.tokens)}
        if isinstance(axis, TextLabels):
            spans = [span for span in axis.spans if span is not None]
            good = all(0 <= first <= last <= len(axis.text) for first, last in spans)
            require(good, f"the spans of a text axis must lie in its {len(axis.text)} characters: got {spans[:5]}...")
            described |= {"text": axis.text, "spans": [None if span is None else list(span) for span in axis.spans]}
        elif isinstance(axis, TimeLabels):
            described |= {"values": [_number(value) for value in axis.values]}
        elif isinstance(axis, NodeLabels) and axis.places:
            described |= {"places": list(axis.places)}
        elif isinstance(axis, GridLabels):
            described |= {"height": axis.height, "width": axis.width, "before": list(axis.before)}
            if axis.tokens == GridLabels.of(axis.height, axis.width, axis.before).tokens:
                del described["tokens"]
            if axis.picture:
                require(axis.picture.startswith(PNG), "the picture of a grid must be a PNG")
                described["picture"] = self.blobs.add([axis.picture], "png")
        return described


def _numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers by name as JSON holds them, a sink as an object."""
    plain = {name: asdict(value) if isinstance(value, SinkKey) else value for name, value in fields.items()}
    return {name: _number(value) if isinstance(value, float) else value for name, value in plain.items()}


def _number(value: float | None) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not math.isfinite(value) else float(value)


def version() -> dict[str, str]:
    """The version of mirada, where it is installed."""
    try:
        return {"mirada": metadata.version("mirada")}
    except metadata.PackageNotFoundError:
        return {}


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of the one at `path` when all went well."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)

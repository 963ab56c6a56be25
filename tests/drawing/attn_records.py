"""Records of attention written by hand from docs/attn.md, with their exact weights, to test pages with."""

import json
import zlib
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass
class Written:
    """A record under construction: a manifest, its blobs, and the exact weights (heads, queries, keys) by stream."""

    axes: dict[str, Any] = field(default_factory=dict)
    streams: list[dict[str, Any]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    exact: dict[str, Array] = field(default_factory=dict)

    def blob(self, data: bytes, suffix: str = "bin") -> str:
        name = f"data/{len(self.blobs)}.{suffix}"
        self.blobs[name] = data
        return name

    def text(self, name: str, tokens: list[str]) -> None:
        self.axes[name] = {"kind": "text", "size": len(tokens), "tokens": tokens, "text": " ".join(tokens)}

    def stream(self, name: str, kind: str, rows: str, columns: str, exact: Array, **fields: Any) -> dict[str, Any]:
        """A stream as `sqrt8`, or as `fields` say, with statistics and checks."""
        heads, queries, keys = exact.shape
        self.exact[name] = exact
        fields.setdefault("encoding", "sqrt8")
        if fields["encoding"] == "sqrt8":
            stored = np.rint(255 * np.sqrt(exact)).astype(np.uint8)
            fields["data"] = {"weights": self.blob(stored.tobytes())}
        elif fields["encoding"] == "float32":
            fields["data"] = {"weights": self.blob(exact.astype("<f4").tobytes())}
        sums = exact.sum(-1)
        checks = {
            "row_sum_min": float(np.nanmin(sums)),
            "row_sum_max": float(np.nanmax(sums)),
            "nan_rows": int(np.isnan(exact).any(-1).any(0).sum()),
            "empty_rows": int((sums == 0).all(0).sum()),
            "dropout": 0.0,
            "identical_rows": False,
            "error": 0.0039,
        }
        made = {
            "name": name,
            "kind": kind,
            "heads": heads,
            "queries": queries,
            "keys": keys,
            "rows": rows,
            "columns": columns,
            "kernel": "short",
            "score": "Dot()",
            "where": "Complete()",
            "position": "",
            "normalizer": "Softmax()",
            "statistics": [statistics(head) for head in exact]
            if exact.size < 10**6 and not np.isnan(exact).any()
            else None,
            "checks": {**checks, **fields.pop("checks", {})},
            **fields,
        }
        self.streams.append(made)
        return made

    def vectors(self, stream: dict[str, Any], q: Array, k: Array, v: Array, scale: float) -> None:
        names = {key: self.blob(value.astype("<f4").tobytes()) for key, value in (("q", q), ("k", k), ("v", v))}
        stream["vectors"] = {**names, "dim": q.shape[-1], "value_dim": v.shape[-1], "scale": scale}

    def manifest(self) -> dict[str, Any]:
        return {"format": "mirada.attn", "version": 1, "axes": self.axes, "streams": self.streams, **self.more}

    def bytes(self) -> bytes:
        return archive({"manifest.json": json.dumps(self.manifest()).encode(), **self.blobs})


def archive(entries: dict[str, bytes]) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as target:
        for name, data in entries.items():
            target.writestr(name, data)
    return file.getvalue()


def statistics(weights: Array) -> dict[str, Any]:
    """What the file says of a head (queries, keys), the plain way."""
    queries, keys = weights.shape
    square = queries == keys
    logs = np.log(np.where(weights > 0, weights, 1))
    mass = weights.mean(0)
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    return {
        "entropy": float(-(weights * logs).sum(-1).mean()),
        "distance": float((weights * apart).sum(-1).mean()),
        "previous": float(np.diagonal(weights, -1).sum() / queries) if square else None,
        "next": float(np.diagonal(weights, 1).sum() / queries) if square else None,
        "first": float(mass[0]),
        "self": float(np.diagonal(weights).mean()) if square else None,
        "sink": {"key": int(mass.argmax()), "mass": float(mass.max())} if mass.max() > 0.4 else None,
    }


def softmax(scores: Array) -> Array:
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def attention(
    random: np.random.Generator,
    heads: int,
    queries: int,
    keys: int,
    dim: int,
    sharp: float = 1.0,
    allowed: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Queries, keys and their exact weights."""
    q = random.normal(size=(heads, queries, dim)).astype("<f4") * sharp
    k = random.normal(size=(heads, keys, dim)).astype("<f4")
    scores = np.einsum("hqd,hkd->hqk", q, k) / np.sqrt(dim)
    return (
        q,
        k,
        softmax(scores if allowed is None else np.where(allowed, scores, -1e30)) * (1 if allowed is None else allowed),
    )


def png(pixels: Array) -> bytes:
    """An RGB picture (height, width, 3) as a PNG."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    lines = b"".join(b"\0" + row.tobytes() for row in pixels.astype(np.uint8))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def aligned(queries: int, keys: int, places: list[int], sharp: float, random: np.random.Generator) -> Array:
    """A head that follows an alignment, more or less."""
    scores = random.normal(size=(queries, keys)) * 0.6
    for query, key in enumerate(places):
        scores[query, key] += sharp
    return softmax(scores)


def translation(seed: int = 0) -> Written:
    random = np.random.default_rng(seed)
    source = ["the", "red", "house", "has", "a", "small", "door", "and", "two", "windows", "</s>"]
    target = ["<s>", "la", "casa", "roja", "tiene", "una", "puerta", "pequeña", "y", "dos", "ventanas"]
    written = [*target[1:], "</s>"]
    places = [0, 2, 1, 3, 4, 6, 5, 7, 8, 9, 10]
    record = Written()
    record.text("source", source)
    record.text("target", target)
    sizes = (len(target), len(source))
    for layer in range(3):
        q, k, exact = attention(random, 4, sizes[1], sizes[1], 16, 1.5 + layer)
        stream = record.stream(f"encoder.layers.{layer}.self", "self", "source", "source", exact)
        record.vectors(stream, q, k, random.normal(size=(4, sizes[1], 16)), 0.25)
    for layer in range(3):
        causal = np.tril(np.ones((sizes[0], sizes[0]), bool))
        q, k, exact = attention(random, 4, sizes[0], sizes[0], 16, 2.0, causal)
        stream = record.stream(f"decoder.layers.{layer}.self", "self", "target", "target", exact, where="Causal()")
        record.vectors(stream, q, k, random.normal(size=(4, sizes[0], 16)), 0.25)
        exact = np.stack(
            [aligned(*sizes, places if head < 3 else [10] * 11, 1.5 + layer + head, random) for head in range(4)]
        )
        # keys are unit vectors, so that queries of logarithms give these very weights
        q = np.log(exact)
        k = np.broadcast_to(np.eye(sizes[1]), (4, sizes[1], sizes[1]))
        stream = record.stream(f"decoder.layers.{layer}.cross", "cross", "target", "source", exact)
        record.vectors(stream, q, k, random.normal(size=(4, sizes[1], 16)), 1.0)
    ranked = {"la": "una", "casa": "vivienda", "roja": "rojo", "puerta": "portón", "y": "con"}
    record.more = {
        "made": {
            "mirada": "0.1.0",
            "task": "translate",
            "model": "transformer",
            "run": "runs/translate",
            "input": " ".join(source[:-1]),
        },
        "answer": {"text": " ".join(target[1:]), "score": -0.31},
        "outputs": [
            {
                "row": row,
                "text": word,
                "probability": 0.97 - 0.05 * (row % 4),
                "ranked": [[word, 0.97 - 0.05 * (row % 4)], [ranked.get(word, "el"), 0.02], ["de", 0.004]],
            }
            for row, word in enumerate(written)
        ],
        "relations": [
            {
                "relation": "previous",
                "stream": "encoder.layers.0.self",
                "head": 2,
                "accuracy": 0.93,
                "baseline": 0.99,
                "offset": -1,
                "count": 812,
            },
            {
                "relation": "det",
                "stream": "encoder.layers.1.self",
                "head": 1,
                "accuracy": 0.88,
                "baseline": 0.52,
                "offset": 1,
                "count": 301,
            },
            {
                "relation": "nsubj",
                "stream": "encoder.layers.2.self",
                "head": 3,
                "accuracy": 0.61,
                "baseline": 0.34,
                "offset": 2,
                "count": 240,
            },
        ],
    }
    attended = np.mean([record.exact[f"decoder.layers.{layer}.cross"].mean(0) for layer in range(3)], 0)
    others = {
        "attention": attended,
        **{
            name: softmax(np.log(attended) * power + random.normal(size=sizes) * noise)
            for name, power, noise in (
                ("value_norm", 1.1, 0.2),
                ("rollout", 0.6, 0.3),
                ("gradient", 1.0, 1.0),
                ("ablation", 1.3, 0.7),
            )
        },
    }
    record.more["methods"] = {
        "rows": "target",
        "columns": "source",
        "matrices": [
            {"name": name, "data": record.blob(matrix.astype("<f4").tobytes())} for name, matrix in others.items()
        ],
        "agreement": [
            {"a": "attention", "b": name, "spearman": 0.4 + 0.1 * i, "top": 0.5 + 0.1 * i}
            for i, name in enumerate(others)
            if i
        ],
    }
    record.exact["methods"] = np.stack(list(others.values()))
    return record


def luong(seed: int = 1) -> Written:
    random = np.random.default_rng(seed)
    record = Written()
    record.text("source", ["where", "is", "the", "library", "?", "</s>"])
    record.text("target", ["<s>", "¿dónde", "está", "la", "biblioteca", "?"])
    exact = np.stack([aligned(6, 6, [0, 1, 2, 3, 4, 5], 3.0, random)])
    record.stream("decoder.attention", "recurrent", "target", "source", exact, score="Bilinear()")
    words = ["¿dónde", "está", "la", "biblioteca", "?", "</s>"]
    record.more = {
        "made": {"task": "translate", "model": "luong", "input": "where is the library ?"},
        "answer": {"text": "¿dónde está la biblioteca?", "score": -0.1},
        "outputs": [
            {"row": i, "text": word, "probability": 0.9, "ranked": [[word, 0.9], ["un", 0.03]]}
            for i, word in enumerate(words)
        ],
    }
    return record


def scene(size: int = 112) -> Array:
    """A red disc at the left, a blue square at the right, on a light ground."""
    y, x = np.mgrid[:size, :size]
    pixels = np.stack([235 - y * 0.4, 238 - y * 0.25, 232 - x * 0.1], -1)
    pixels[(x - 32) ** 2 + (y - 40) ** 2 < 20**2] = (205, 60, 48)
    pixels[(abs(x - 80) < 17) & (abs(y - 72) < 17)] = (50, 92, 180)
    return pixels


def spot(height: int, width: int, row: float, column: float, spread: float) -> Array:
    y, x = np.mgrid[:height, :width]
    return np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * spread**2)).reshape(-1)


def vit(seed: int = 2) -> Written:
    random = np.random.default_rng(seed)
    record = Written()
    picture = record.blob(png(scene()), "png")
    record.axes["cells"] = {
        "kind": "grid",
        "size": 50,
        "height": 7,
        "width": 7,
        "before": ["[class]"],
        "picture": picture,
    }
    for layer in range(4):
        _, _, exact = attention(random, 6, 50, 50, 8, 1.5)
        exact[:, 0, 1:] = np.stack([spot(7, 7, 2 + head / 3, 1.6 + layer / 2, 1 + head / 4) for head in range(6)])
        exact[:, 0, 0] = 0.4
        exact /= exact.sum(-1, keepdims=True)
        record.stream(f"blocks.{layer}.attention", "vision", "cells", "cells", exact)
    record.more = {
        "made": {"task": "recognize", "model": "vit", "input": "scene.png"},
        "answer": {"text": "disc", "score": 0.91},
        "outputs": [
            {
                "row": 0,
                "text": "disc",
                "probability": 0.91,
                "ranked": [["disc", 0.91], ["square", 0.07], ["cross", 0.02]],
            }
        ],
    }
    return record


def caption(seed: int = 3) -> Written:
    random = np.random.default_rng(seed)
    words = ["a", "red", "disc", "left", "of", "a", "blue", "square", "</s>"]
    places = [(3, 3, 3), (2, 2, 1), (2, 2, 1), (3, 3, 1.6), (3, 3, 2), (4, 5, 1.4), (4, 5, 0.9), (4, 5, 0.9), (6, 0, 3)]
    record = Written()
    picture = record.blob(png(scene()), "png")
    record.axes["cells"] = {"kind": "grid", "size": 49, "height": 7, "width": 7, "before": [], "picture": picture}
    record.text("words", ["<s>", *words[:-1]])
    rows = np.stack([spot(7, 7, *place) + 0.01 * random.random(49) for place in places])
    record.stream(
        "decoder.attention",
        "recurrent",
        "words",
        "cells",
        (rows / rows.sum(-1, keepdims=True))[None],
        score="Additive()",
    )
    record.more = {
        "made": {"task": "caption", "model": "soft", "input": "scene.png"},
        "answer": {"text": " ".join(words[:-1]), "score": -0.2},
        "outputs": [
            {"row": i, "text": word, "probability": 0.8 + i / 50, "ranked": [[word, 0.8 + i / 50], ["the", 0.1]]}
            for i, word in enumerate(words)
        ],
        "boxes": [{"row": 2, "box": [12, 20, 52, 60]}, {"row": 7, "box": [63, 55, 97, 89]}],
    }
    return record


def gat(seed: int = 4, nodes: int = 34) -> Written:
    random = np.random.default_rng(seed)
    record = Written()
    groups = np.arange(nodes) % 3
    chances = np.where(groups[:, None] == groups, 0.3, 0.03)
    target, source = np.nonzero((random.random((nodes, nodes)) < chances) | np.eye(nodes, dtype=bool))
    exact = np.zeros((4, nodes, nodes))
    exact[:, target, source] = np.exp(random.normal(size=(4, len(target))))
    exact /= exact.sum(-1, keepdims=True)
    record.axes["nodes"] = {"kind": "graph", "size": nodes, "tokens": [f"n{node}" for node in range(nodes)]}
    for layer in range(2):
        stored = np.rint(255 * np.sqrt(exact[:, target, source])).astype(np.uint8)
        data = {
            "weights": record.blob(stored.tobytes()),
            "edges": record.blob(np.stack([source, target]).astype("<i4").tobytes()),
        }
        record.stream(
            f"layers.{layer}", "graph", "nodes", "nodes", exact, encoding="edges8", data=data, score="Graph()"
        )
    record.more = {
        "made": {"task": "label", "model": "gat", "input": "n5"},
        "answer": {"text": "databases", "score": 0.8},
        "outputs": [
            {"row": 5, "text": "databases", "probability": 0.8, "ranked": [["databases", 0.8], ["theory", 0.2]]}
        ],
    }
    return record


def gpt(seed: int = 5, tokens: int = 1024, layers: int = 2, heads: int = 4, dim: int = 16) -> Written:
    random = np.random.default_rng(seed)
    record = Written()
    record.text("text", [f"w{place}" for place in range(tokens)])
    causal = np.tril(np.ones((tokens, tokens), bool))
    for layer in range(layers):
        q, k = (random.normal(size=(heads, tokens, dim)).astype("<f2") for _ in range(2))
        scores = np.einsum("hqd,hkd->hqk", q.astype("f4"), k.astype("f4")) * 0.25
        exact = softmax(np.where(causal, scores, -np.inf))
        data = {"q": record.blob(q.tobytes()), "k": record.blob(k.tobytes()), "scale": 0.25, "mask": {"kind": "causal"}}
        record.stream(
            f"blocks.{layer}.self", "self", "text", "text", exact, encoding="qk16", data=data, where="Causal()"
        )
    record.more = {
        "made": {"task": "write", "model": "gpt", "input": "w0 w1 w2"},
        "answer": {"text": "w3 ...", "score": -2.0},
    }
    return record


def black_cat() -> Written:
    words = ["el", "gato", "negro", "salta", "la", "cuerda"]
    exact = np.array(
        [
            [
                (0.500, 0.400, 0.025, 0.025, 0.025, 0.025),
                (0.200, 0.500, 0.200, 0.050, 0.025, 0.025),
                (0.025, 0.400, 0.500, 0.025, 0.025, 0.025),
                (0.025, 0.350, 0.025, 0.300, 0.050, 0.250),
                (0.025, 0.025, 0.025, 0.025, 0.500, 0.400),
                (0.025, 0.025, 0.025, 0.200, 0.225, 0.500),
            ]
        ]
    )
    values = np.array([[(0.0, 2.5), (2.5, 5.0), (8.0, 4.5), (9.0, 2.0), (2.0, 0.5), (6.0, 0.0)]])
    record = Written()
    record.text("words", words)
    stream = record.stream("", "self", "words", "words", exact)
    record.vectors(stream, np.log(exact), np.eye(6)[None], values, 1.0)
    record.more = {"made": {"task": "example", "model": "black-cat", "input": " ".join(words)}}
    return record


RECORDS = {
    "translation": translation,
    "luong": luong,
    "vit": vit,
    "caption": caption,
    "gat": gat,
    "gpt": gpt,
    "black-cat": black_cat,
}

"""Small graphs as files, good and bad."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

EDGES = "source,target\na,b\nb,c\nc,d\nd,e\na,c\nd,f\n"
FEATURES = "node,red,green\na,1,0\nb,1,0.5\nc,2,0\nd,0,1\ne,0,2\nf,0,1.5\n"
LABELS = "node,label,split\na,warm,train\nb,warm,train\nc,warm,valid\nd,cold,train\ne,cold,train\nf,cold,test\n"


def folder(path: Path, **files: str | bytes) -> str:
    """A folder with edges.csv, features.csv and labels.csv; `files` are other texts for some of them, or None for none."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in ({"edges": EDGES, "features": FEATURES, "labels": LABELS} | files).items():
        if text is not None:
            (path / f"{name}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def arrays(**more: Any) -> dict[str, Any]:
    """The arrays of five nodes in a ring of three and a pair; `more` replaces some, None takes one away."""
    whole: dict[str, Any] = {
        "edge_index": np.array([[0, 1, 2, 3], [1, 2, 0, 4]]),
        "feature_rows": np.array([0, 1, 2, 3, 4]),
        "feature_columns": np.array([0, 0, 1, 2, 2]),
        "feature_values": np.array([1.0, 2.0, 1.0, 1.0, 3.0], np.float32),
        "feature_shape": np.array([5, 3]),
        "y": np.array([0, 0, 0, 1, 1], np.int16),
        "train": np.array([True, True, False, True, False]),
        "valid": np.array([False, False, True, False, False]),
        "test": np.array([False, False, False, False, True]),
    }
    return {name: value for name, value in (whole | more).items() if value is not None}


def npz(path: Path, given: Mapping[str, Any]) -> str:
    np.savez(path, **given)
    return str(path)


def clubs(nodes: int = 24, seed: int = 5) -> dict[str, str]:
    """Two clubs as tables: members know their own, and what they wear says little; every third label is for each part."""
    draws = np.random.default_rng(seed)
    side = [number % 2 for number in range(nodes)]
    names = [f"{'even' if not s else 'odd'}{number}" for number, s in enumerate(side)]
    known = [(a, b) for a in range(nodes) for b in range(a) if side[a] == side[b] and draws.random() < 0.3]
    known += [(0, 1), (2, 5)]
    worn = draws.random((nodes, 4)) < 0.4
    worn[np.arange(nodes), side] |= draws.random(nodes) < 0.5
    parts = ["train", "valid", "test"]
    return {
        "edges": "source,target\n" + "".join(f"{names[a]},{names[b]}\n" for a, b in known),
        "features": "node,hat,scarf,coat,boots\n"
        + "".join(f"{name},{','.join(map(str, row.astype(int)))}\n" for name, row in zip(names, worn, strict=True)),
        "labels": "node,label,split\n"
        + "".join(
            f"{name},{('blue', 'red')[s]},{parts[n // 2 % 3]}\n"
            for n, (name, s) in enumerate(zip(names, side, strict=True))
        ),
    }

"""Graphs: `mirada train label` next to SGC with logistic regression, a plain GCN and label propagation; called by quick.py.

    python benchmarks/quick.py graphs

The alternatives choose by the nodes to validate on, as mirada does. Cora is in ../shared/data; the other graphs are made.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

HERE = Path(__file__).parents[2]
CORA = Path(os.environ.get("MIRADA_DATA", HERE.parent / "shared" / "data")) / "cora" / "cora.npz"
Graph = dict[str, np.ndarray]  # the arrays of mirada's npz form, features written out


def main_figure(graph: Graph, *keys: str) -> tuple[float, float, str]:
    """The test accuracy of mirada's defaults on a graph, the seconds of the whole command, and what it said."""
    with tempfile.TemporaryDirectory() as place:
        np.savez(f"{place}/graph.npz", **graph)
        command = [
            sys.executable,
            "-m",
            "mirada",
            "train",
            "label",
            "--data",
            f"{place}/graph.npz",
            "--out",
            f"{place}/run",
        ]
        environment = os.environ | {"PYTHONPATH": str(HERE / "src")}
        began = time.monotonic()
        done = subprocess.run([*command, *keys], env=environment, capture_output=True, text=True, check=True)
        seconds = time.monotonic() - began
        events = [json.loads(line) for line in Path(place, "run", "metrics.jsonl").read_text("utf-8").splitlines()]
        said = next((line for line in done.stdout.splitlines() if " alone " in line), "")
        return next(event["test"]["accuracy"] for event in events if "test" in event), seconds, said


def cora(words: bool = True, edges: float = 1.0) -> Graph:
    """Cora with its public split; without words, or with a part of its edges, which leaves nodes isolated."""
    if not CORA.exists():
        raise FileNotFoundError(f"{CORA} is not here")
    with np.load(CORA) as file:
        given = {name: file[name] for name in file.files}
    features = np.zeros(given["feature_shape"], np.float32)
    features[given["feature_rows"], given["feature_columns"]] = given["feature_values"]
    graph = {name: given[name] for name in ("edge_index", "y", "train", "valid", "test")}
    if edges < 1:
        source, target = graph["edge_index"]
        pair = np.minimum(source, target) * len(features) + np.maximum(source, target)
        pairs, place = np.unique(pair, return_inverse=True)
        kept = (np.random.default_rng(0).random(len(pairs)) < edges)[place]
        graph["edge_index"] = graph["edge_index"][:, kept]
    return graph | ({"features": features} if words else {})


def papers(isolated: float = 0.0, words: bool = True) -> Graph:
    """mirada's drawn papers."""
    from mirada.corpora.citations import citations

    data = citations(isolated=isolated)
    topics = {name: number for number, name in enumerate(sorted(set(data.topics)))}
    masks = {part: np.array([mine == part for mine in data.parts]) for part in ("train", "valid", "test")}
    graph = {"edge_index": data.edges, "y": np.array([topics[name] for name in data.topics]), **masks}
    return graph | ({"features": data.features} if words else {})


def inputs_of(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Features whose rows sum to 1, or a feature for every node; and D^-1/2 (A + I) D^-1/2."""
    nodes = len(graph["y"])
    x = torch.from_numpy(graph["features"]) if "features" in graph else torch.eye(nodes)
    x = x / x.sum(1, keepdim=True).clamp_min(1e-9)
    index = torch.from_numpy(graph["edge_index"]).long()
    index = torch.cat([index, index.flip(0), torch.arange(nodes).expand(2, -1)], 1).unique(dim=1)
    degree = torch.bincount(index[0], minlength=nodes).float()
    values = (degree[index[0]] * degree[index[1]]).rsqrt()
    return x, torch.sparse_coo_tensor(index, values, (nodes, nodes), check_invariants=True).coalesce()


def sgc(graph: Graph) -> float:
    """Features smoothed twice, logistic regression; C by validation."""
    from sklearn.linear_model import LogisticRegression

    x, along = inputs_of(graph)
    smooth = torch.sparse.mm(along, torch.sparse.mm(along, x)).numpy()
    train, valid, test, y = (graph[name] for name in ("train", "valid", "test", "y"))
    models = [LogisticRegression(C=c, max_iter=300).fit(smooth[train], y[train]) for c in (1, 10, 100, 1000, 10000)]
    return max((model.score(smooth[valid], y[valid]), model.score(smooth[test], y[test])) for model in models)[1]


def gcn(graph: Graph, epochs: int = 200) -> float:
    """Kipf and Welling's network: two layers, 16 hidden numbers, dropout 0.5, the epoch by validation."""
    torch.manual_seed(0)
    x, along = inputs_of(graph)
    train, valid, test, y = (torch.from_numpy(graph[name]) for name in ("train", "valid", "test", "y"))
    first, second = torch.nn.Linear(x.shape[1], 16), torch.nn.Linear(16, int(y.max()) + 1)
    groups = [{"params": first.parameters(), "weight_decay": 5e-4}, {"params": second.parameters()}]
    optimizer, best = torch.optim.Adam(groups, lr=0.01), (0.0, 0.0)
    for _ in range(epochs):
        for training in (True, False):
            hidden = F.relu(torch.sparse.mm(along, first(F.dropout(x, 0.5, training))))
            scores = torch.sparse.mm(along, second(F.dropout(hidden, 0.5, training)))
            if training:
                optimizer.zero_grad()
                F.cross_entropy(scores[train], y[train].long()).backward()
                optimizer.step()
        right = (scores.argmax(1) == y).float()
        best = max(best, (float(right[valid].mean()), float(right[test].mean())))
    return best[1]


def propagation(graph: Graph) -> float:
    """Labels passed along the edges fifty times; the share by validation."""
    _, along = inputs_of(graph)
    train, valid, test, y = (torch.from_numpy(graph[name]) for name in ("train", "valid", "test", "y"))
    first = F.one_hot(y.long().clamp_min(0)).float() * train.unsqueeze(1)
    found = []
    for share in (0.5, 0.9, 0.99):
        labels = first
        for _ in range(50):
            labels = share * torch.sparse.mm(along, labels) + (1 - share) * first
        right = (labels.argmax(1) == y).float()
        found.append((float(right[valid].mean()), float(right[test].mean())))
    return max(found)[1]


def compare(name: str, make: Callable[[], Graph]) -> None:
    """A line for mirada, and one for each alternative."""
    graph = make()
    figure, seconds, said = main_figure(graph)
    print(f"{name:<20} mirada train label          {figure:5.1f} %  {seconds:5.0f} s   {said}", flush=True)
    alternatives = {"SGC + logistic regression": sgc, "GCN": gcn, "label propagation": propagation}
    for words, alternative in alternatives.items():
        began = time.monotonic()
        figure = 100 * alternative(graph)
        print(f"{name:<20} {words:<27} {figure:5.1f} %  {time.monotonic() - began:5.0f} s", flush=True)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "cora": cora,
    "cora-half-the-edges": partial(cora, edges=0.5),
    "cora-without-words": partial(cora, words=False),
    "papers": papers,
    "papers-isolated": partial(papers, isolated=0.2),
    "papers-without-words": partial(papers, words=False),
}
ROWS: dict[str, Callable[[], None]] = {name: partial(compare, name, make) for name, make in GRAPHS.items()}

"""The graph attention network in the battery: its samples are graphs side by side."""

import torch

from mirada.models.gat import GAT, GATConfig
from tests.models.cases.case import Batch, Case, numbers

# sources above targets: three graphs of 5, 4 and 2 nodes; node 4 has no edge, node 8 one to itself
EDGES = torch.tensor([[0, 1, 2, 2, 3, 5, 6, 8, 7, 9], [1, 1, 0, 3, 2, 6, 5, 8, 6, 10]])
FIRST, SIZES = (0, 5, 9), (5, 4, 2)


class GATCase(Case):
    model = GAT
    base = GATConfig(features=5, classes=7, dim=3, heads=2, last_heads=4, dropout=0.0, weight_dropout=0.0)
    values = {
        "score": ["graph", "graphv2"],
        "depth": [1, 2, 3],
        "heads": [1, 2],
        "last_heads": [1, 4],
        "self_loops": [True, False],
        "propagation": [0, 2],
    }
    variants = {
        "graph": {},
        "graphv2": {"score": "graphv2"},
        "deep graphv2": {"score": "graphv2", "depth": 3},
        "no self loops": {"self_loops": False},
        "flat": {"depth": 1},
        "propagation": {"propagation": 3, "restart": 0.2},
        "consistency": {"propagation": 1, "consistency": 0.7},
    }
    refused = [
        ({"score": "graphv3"}, r"unknown score 'graphv3'; known: graph, graphv2\. Did you mean 'graphv2'\?"),
        ({"score": "dot"}, "unknown score 'dot'"),
        ({"features": 0}, "features must be at least 1"),
        ({"classes": 0}, "classes must be at least 1"),
        ({"dim": 0}, "dim must be at least 1"),
        ({"heads": 0}, "heads must be at least 1"),
        ({"last_heads": 0}, "last_heads must be at least 1"),
        ({"propagation": -1}, "propagation must be at least 0: got -1"),
        ({"restart": 1}, r"restart must lie in \[0, 1\): got 1.0"),
        ({"node_dropout": 1}, r"node_dropout must lie in \[0, 1\): got 1.0"),
        ({"consistency": -1}, "consistency must be at least 0: got -1"),
        ({"dropout": 1}, r"dropout must lie in \[0, 1\): got 1.0"),
        ({"weight_dropout": -0.5}, r"weight_dropout must lie in \[0, 1\): got -0.5"),
        ({"self_loops": 1}, "self_loops must be of type bool: got 1"),
        ({"heads": 2.0}, "heads must be of type int: got 2.0"),
    ]
    misfits = {
        "features": ({"nodes": torch.zeros(11, 6)}, r"nodes must have features=5: got features=6 in shape \(11, 6\)"),
        "a batch": (
            {"nodes": torch.zeros(1, 4, 5)}, r"nodes must have the axes \(nodes features\): got shape \(1, 4, 5\)",
        ),
        "too large": (
            {"edges": torch.tensor([[0], [11]])}, "edge_index must name nodes from 0 to 10: got 0 to 11 with nodes=11",
        ),
        "negative": ({"edges": torch.tensor([[-1], [1]])}, "edge_index must name nodes from 0 to 10: got -1 to 1"),
        "no integers": ({"edges": torch.tensor([[0.0], [1.0]])}, "edge_index must hold integers: got torch.float32"),
        "three rows": (
            {"edges": torch.tensor([[0, 1], [1, 2], [2, 3]])},
            r"edge_index must have the axes \(2 edges\), sources above targets",
        ),
    }  # fmt: skip
    by_heart = {"graph": {"dim": 8}, "graphv2": {"dim": 8, "score": "graphv2"}}
    rate = 3e-2
    dropout = {"dropout": 0.5, "weight_dropout": 0.5}
    smooth = {}
    strength = 0.3

    def batch(self, config):
        classes = torch.arange(sum(SIZES)) % config.classes
        classes[3] = classes[2]  # these two see the same nodes, each other
        return Batch({"nodes": numbers(sum(SIZES), config.features), "edges": EDGES}, {"classes": classes})

    def shapes(self, config):
        return [(sum(SIZES), config.classes)]

    def alone(self, batch, sample):
        first, last = FIRST[sample], FIRST[sample] + SIZES[sample]
        edges = batch.given["edges"]
        own = edges[:, (edges[1] >= first) & (edges[1] < last)] - first
        return Batch(
            {"nodes": batch.given["nodes"][first:last], "edges": own}, {"classes": batch.wanted["classes"][first:last]}
        )

    def part(self, together, alone, sample):
        return together[FIRST[sample] : FIRST[sample] + len(alone)]

    def counted(self, batch):
        return len(batch.wanted["classes"])

"""What was seen on some nodes of a graph: the exact weights of the whole graph, without the rest of it."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from mirada.attention.neighborhoods import Edges
from mirada.attention.places import Places
from mirada.looking import weights as exact
from mirada.looking.record import Call, Seen, versions


def subgraph(seen: Seen, nodes: Sequence[int], targets: Sequence[int]) -> Seen:
    """The same calls, with the rows of `targets` and the columns of `nodes`; rows of other nodes are empty.

    A weight depends on the two nodes of its edge and on the other edges of its target. So it stays what it is, if all
    sources of a target are among the nodes.

    >>> from mirada import Attention, look
    >>> from mirada.attention.heads import Tied
    >>> from mirada.attention.scores import Graph
    >>> layer = Attention(Tied(3, heads=1, dim=2), score=Graph(dim=2, heads=1))
    >>> with look(layer) as seen:
    ...     _ = layer(torch.ones(1, 4, 3), where=Edges(torch.tensor([[0, 1, 3], [2, 2, 1]]), 4))
    >>> part = subgraph(seen, [0, 1, 2], [2])
    >>> part[""].edges.tolist(), part[""].weights(head=0).tolist()
    ([[0, 1], [2, 2]], [[0.5, 0.5]])
    """
    index, rows = torch.tensor(nodes), torch.tensor(targets)
    found = Seen({})
    for name in seen.names:
        calls: list[Call] = []
        calls.extend(restricted(call, index, rows, calls) for call in seen[name].calls)
        found._calls[name] = calls
    if hasattr(seen, "labels"):
        found.labels = seen.labels  # type: ignore[attr-defined]
    return found


def restricted(call: Call, nodes: torch.Tensor, targets: torch.Tensor, calls: list[Call]) -> Call:
    """One call, on some nodes only."""
    request = call._request
    graph = exact.edges_of(request)
    if graph is None:
        raise ValueError(f"{call.name or 'the layer'} attends over no graph: it has no subgraph")
    source, target = graph.pairs.cpu()
    kept = torch.isin(target, targets) & torch.isin(source, nodes)
    place = torch.full((call.keys,), -1).index_put_((nodes,), torch.arange(len(nodes)))
    where = Edges(torch.stack([place[source[kept]], place[target[kept]]]), len(nodes)).to(request.q.device)
    index = nodes.to(request.q.device)
    q, k, v = (x.index_select(2, index) for x in (request.q, request.k, request.v))
    places = Places.count(len(nodes), len(nodes), device=request.q.device)
    smaller = replace(request, q=q, k=k, v=v, where=where, places=places)
    return replace(call, calls=calls, _request=smaller, _versions=versions(smaller))

"""One sample of what was seen for several at once."""

from dataclasses import replace

from mirada.errors import require
from mirada.looking.record import Call, Seen, versions


def one_sample(seen: Seen, sample: int = 0) -> Seen:
    """The same calls for one of their samples, where all samples may see the same.

    >>> import torch
    >>> from mirada import Attention, MultiHead, look
    >>> layer = Attention(MultiHead(width=4, heads=2))
    >>> with look(layer) as seen:
    ...     _ = layer(torch.zeros(3, 5, 4))
    >>> one_sample(seen, 1)[""].weights().shape
    torch.Size([1, 2, 5, 5])
    """
    found = Seen({})
    found.recurrent, found.foreign = seen.recurrent, seen.foreign
    for name in seen.names:
        calls: list[Call] = []
        for call in seen[name].calls:
            request = call._request
            shared = not list(request.where.tensors()) and call._draw is None and call._history is None
            require(shared, f"the samples of {name or 'the layer'} differ in what they may see: look at one at a time")
            q, k, v = (x[sample : sample + 1] for x in (request.q, request.k, request.v))
            smaller = replace(request, q=q, k=k, v=v)
            calls.append(replace(call, calls=calls, _request=smaller, _versions=versions(smaller)))
        found._calls[name] = calls
    return found.labelled(seen.labels)

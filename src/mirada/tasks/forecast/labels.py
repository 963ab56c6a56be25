"""Rows and columns of a forecast: times that were and times to come, or patches of time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mirada.errors import require
from mirada.looking.labels import Labels, TimeLabels, WrittenStep
from mirada.looking.record import Call, Seen, versions
from mirada.tasks.forecast.windows import NextRows, SeriesScale

# One sample of what was seen for several at once.


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


def series_labels(
    known: SeriesScale, config: Any, series: Tensor, past: Sequence[str], found: NextRows, name: str, output: Tensor
) -> Labels:
    """What the rows and columns of a forecast are: times that were, and times to come or patches of time.

    A step's text is what attention alone says; the answer may be mixed with plain forecasts.
    """
    read = known.in_units(series[0].double().numpy(), known.inputs)
    said = known.in_units(output[0].double().cpu().numpy(), known.targets)
    made, answer = {"input": name}, (found.text(), None)
    if config.kind == "patches":
        axes = {"patches": _patch_axis(known, config, read, past)}
        return Labels(axes, {"*": ("patches", "patches")}, made, answer)
    cells = replace(found, values=said).cells()
    steps = (
        WrittenStep(row, ", ".join(f"{column} {cell}" for column, cell in zip(known.targets, each, strict=True)))
        for row, each in enumerate(cells)
    )
    return Labels(
        {
            "past": TimeLabels(tuple(past), tuple(read[:, 0].tolist())),
            "next": TimeLabels(tuple(found.times), tuple(said[:, 0].tolist())),
        },
        {"*encoder*": ("past", "past"), "*decoder*self": ("next", "next"), "*decoder*": ("next", "past")},
        made, answer, tuple(steps),
    )  # fmt: skip


def _patch_axis(known: SeriesScale, config: Any, read: NDArray[np.float64], past: Sequence[str]) -> TimeLabels:
    """Patches of time: of all columns together, of the first target, or of every column, one after the other."""
    spans = patch_spans(len(past), config.patch)
    labels = [past[begin] if end - begin == 1 else f"{past[begin]} to {past[end - 1]}" for begin, end in spans]
    if not config.across:
        return TimeLabels(tuple(labels), tuple(float(read[begin:end, 0].mean()) for begin, end in spans))
    names = tuple(f"{name} {label}" for name in known.columns for label in labels)
    means = [float(read[begin:end, column].mean()) for column in range(read.shape[1]) for begin, end in spans]
    unread = [0.0] * (len(names) - len(means))  # a target that is not among the columns has no past
    return TimeLabels(names, (*means, *unread))


def patch_spans(steps: int, patch: int) -> list[tuple[int, int]]:
    """The steps of every patch: the first one may have fewer.

    >>> patch_spans(10, 4)
    [(0, 2), (2, 6), (6, 10)]
    """
    return [(max(0, end - patch), end) for end in range(steps % patch or patch, steps + 1, patch)]


def forecast_rows(config: Any, values: Float[Tensor, "1 horizon targets"]) -> Float[Tensor, "rows parts"]:
    """The numbers of every time to come; patches see all of them at once, those of one column only that target."""
    if config.kind != "patches":
        return values[0]
    return (values[0, :, :1] if read_alone(config) else values[0]).reshape(1, -1)


def read_alone(config: Any) -> bool:
    """Whether every target is forecast from its own column only, a sample each."""
    return bool(config.kind == "patches" and config.channels != "mixed" and not config.across)

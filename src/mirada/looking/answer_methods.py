"""The methods beside raw attention, for an answer: from its labels it is known what was written, and which axes they have."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from mirada.looking.compare import compare_methods, rows_of
from mirada.looking.methods import Methods
from mirada.looking.record import Seen


def answer_methods(model: nn.Module, inputs: Sequence[Any], output: Any, seen: Seen) -> Methods:
    """`compare_methods` for what the labels of `seen` say was written; where they do not say, for the likeliest."""
    scores = rows_of(output, None)
    target = scores.argmax(-1).clone()
    steps = seen.labels.outputs
    for step in steps:
        if step.token is not None and step.row < len(target):
            target[step.row] = step.token
    reader = steps[0].row if steps and len(target) == 1 else None
    found = compare_methods(model, inputs, target, reader=reader)
    rows, columns = named_axes(seen, *next(iter(found.matrices.values())).shape)
    return Methods(found.matrices, found.agreement, rows, columns)


def named_axes(seen: Seen, rows: int, columns: int) -> tuple[str, str]:
    """The axes of the labels that rows and columns of these sizes are; nothing where no layer has such."""
    across = sorted(seen.names, key=lambda name: seen[name].kind != "cross")
    found = [seen.labels.axes_of(name, seen.stream(name).queries, seen.stream(name).keys) for name in across]
    axes = seen.labels.axes
    read = next((pair[1] for pair in found if pair and axes[pair[1]].size == columns), "")
    written = next((pair[0] for pair in found if pair and axes[pair[0]].size == rows), "")
    return written, read

"""The methods beside raw attention, for an answer: from its labels it is known what was written, and which axes they have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from mirada.looking.compare import RowScore, compare_methods, nothing, rows_of
from mirada.looking.labels import ANSWER
from mirada.looking.methods import Methods
from mirada.looking.record import Seen


@dataclass(frozen=True, eq=False)
class Explained:
    """What an answer is made of, where it is not the logits of every row of the model's output.

    `logits` finds those of the labels' outputs, a row for each of them in their order. A `score` is what a model says that
    chooses nothing: numbers for every row. `sample` is the one that is shown, where the layers see several at once.
    """

    logits: Callable[[Any], Tensor] | None = None
    score: RowScore | None = None
    sample: int | None = None


def answer_methods(
    model: nn.Module,
    inputs: Sequence[Any],
    output: Any,
    seen: Seen,
    explained: Explained | None = None,
    between: Callable[[], object] = nothing,
) -> Methods:
    """`compare_methods` for what the labels of `seen` say was answered; where they do not say, for the likeliest."""
    explained = explained or Explained()
    if explained.score is not None:
        found = compare_methods(model, inputs, score=explained.score, sample=explained.sample, between=between)
    elif explained.logits is not None:
        steps = seen.labels.outputs
        tokens = [step.token for step in steps if step.token is not None]
        readers = [step.row for step in steps]
        target = tokens if len(tokens) == len(steps) else None
        found = compare_methods(model, inputs, target, logits=explained.logits, reader=readers, between=between)
    else:
        found = compare_methods(model, inputs, written(output, seen), reader=reader(output, seen), between=between)
    size = next(iter(found.matrices.values())).shape
    rows, columns = named_axes(seen, size[0], size[1], explained.sample)
    return Methods(found.matrices, found.agreement, rows, columns)


def written(output: Any, seen: Seen) -> Tensor:
    """The token of every row: what was written from it or answered, else the likeliest."""
    target = rows_of(output, None).argmax(-1).clone()
    if seen.labels.chosen is not None and len(target) == 1:
        target[0] = seen.labels.chosen
    for step in seen.labels.outputs:
        if step.token is not None and step.row < len(target):
            target[step.row] = step.token
    return target


def reader(output: Any, seen: Seen) -> int | None:
    """The query that decides on a class, where there is one."""
    steps = seen.labels.outputs
    return steps[0].row if steps and len(rows_of(output, None)) == 1 else None


def named_axes(seen: Seen, rows: int, columns: int, sample: int | None = None) -> tuple[str, str]:
    """The axes of the labels that rows and columns of these sizes are; nothing where no layer has such."""
    across = sorted(seen.names, key=lambda name: seen[name].kind != "cross")
    streams = [seen.stream(name, sample) for name in across]
    found = [seen.labels.axes_of(stream.name, stream.queries, stream.keys) for stream in streams]
    axes = seen.labels.axes
    read = next((pair[1] for pair in found if pair and axes[pair[1]].size == columns), "")
    if ANSWER in axes and axes[ANSWER].size == rows:
        return ANSWER, read
    return next((pair[0] for pair in found if pair and axes[pair[0]].size == rows), ""), read

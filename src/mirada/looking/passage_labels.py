"""Rows and columns of a reader: a question and its passage as one text."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.answer_spans import PassageQuestion
from mirada.data.reading import PassageWindow, Reading
from mirada.looking.answer_methods import Explained
from mirada.looking.labels import ANSWER, AxisLabels, Labels, TextLabels, WrittenStep
from mirada.looking.text_labels import RANKED


def both_ends(scores: Any) -> Float[Tensor, "1 2 places"]:
    """The scores of every place as the answer's first, then as its last: a row for each step of the labels."""
    return torch.stack([scores.start, scores.end], dim=1)


BOTH_ENDS = Explained(both_ends)


def passage_labels(
    value: PassageQuestion,
    item: Reading,
    window: PassageWindow,
    ends: tuple[int, int],
    answer: tuple[str, float],
    scores: Any,
) -> Labels:
    """What the rows and columns of a reader are: the question, then as much of the passage as was read with it.

    The two steps are the first and the last place of the answer, as the model ranks all places.
    """
    asked = (None, *item.question.places, None)
    told = (None, *item.passage.places[window.first : window.token(len(window.tokens))])
    text, shift = f"{value.question}\n{value.passage}", len(value.question) + 1
    spans = (*asked, *(None if span is None else (span[0] + shift, span[1] + shift) for span in told))
    marks = iter(("<s>", "</s>", "<s>"))
    tokens = tuple(next(marks) if span is None else text[slice(*span)] for span in spans)
    steps = []
    for row, logits in zip(ends, scores, strict=True):
        shares = logits[0].float().softmax(-1).cpu()
        top = shares.topk(min(RANKED, int((shares > 0).sum())))
        ranked = zip((tokens[i] for i in top.indices.tolist()), top.values.tolist(), strict=True)
        steps.append(WrittenStep(row, tokens[row], float(shares[row]), tuple(ranked), row))
    said = tuple(f"{side}: {tokens[row]}" for side, row in zip(("first", "last"), ends, strict=True))
    axes = {"text": TextLabels(tokens, text, spans), ANSWER: AxisLabels(said)}
    return Labels(axes, {"*": ("text", "text")}, {"input": value.question}, answer, tuple(steps))

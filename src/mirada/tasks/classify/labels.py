"""What the rows and columns of a classifier's attention are."""

from torch import Tensor

from mirada.looking.labels import AxisLabels, Labels, Span, TextLabels, read_axis
from mirada.runs.run import Run


def class_labels(run: Run, text: str, item: list[int], answer: tuple[str, float], scores: Tensor) -> Labels:
    """What the rows and columns of a classifier are: tokens; after a convolution, the tokens that it reads at once."""
    words, kernel = read_axis(run.known.tokenizer, text, item), run.model.config.kernel
    axes: dict[str, AxisLabels] = {"text": words, "query": AxisLabels(("[query]",))}
    if run.model.config.encoder == "convolution":
        axes["text"] = windows(words, kernel)
    places = {"pool*": ("query", "text"), "*": ("text", "text")}
    return Labels(axes, places, {"input": text}, answer, chosen=run.known.labels.index(answer[0]))


def windows(words: TextLabels, size: int) -> TextLabels:
    """The places of a convolution without margins: so many tokens each, from the first to the last that stand in the text."""
    spans = list[Span | None]()
    for first in range(len(words.tokens) - size + 1):
        inside = [span for span in words.spans[first : first + size] if span is not None]
        spans.append((inside[0][0], inside[-1][1]) if inside else None)
    tokens = (" ".join(words.tokens[first : first + size]) for first in range(len(spans)))
    return TextLabels(tuple(tokens), words.text, tuple(spans))

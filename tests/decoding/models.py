"""Every kind of model that a search can drive, small, with the means to begin some of its entries alone."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mirada.decoding.greedy import Greedy
from mirada.decoding.search import Hypothesis
from mirada.models.captioner import Captioner
from mirada.models.gpt import GPT
from mirada.models.transcriber import Transcriber
from tests.decoding.test_stepper import BATCH, FRAME_LENGTHS, FRAMES, LENGTHS, MODELS, PICTURES, SOURCE

FIRST = torch.tensor([0, 5, 9])
LIMITS = [7, 5, 6]


class Subject(NamedTuple):
    """A model, a state of all its entries or of one alone (cut to its true length), and its full pass over known texts."""

    model: Any
    start: Callable[[], Any]
    alone: Callable[[int], Any]
    full: Callable[[int, Tensor], Tensor]


def subject(name: str) -> Subject:
    """A model with random numbers in every parameter: its words must depend on what it reads."""
    torch.manual_seed(3)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_((0.1 if parameter.ndim == 1 else 0.6) * torch.randn_like(parameter))
    if isinstance(model, GPT):
        return Subject(model, lambda: model.start(BATCH), lambda entry: model.start(1), lambda entry, text: model(text))
    if isinstance(model, Captioner):
        inputs: tuple[Tensor, ...] = (PICTURES,)
    elif isinstance(model, Transcriber):
        inputs = (FRAMES, FRAME_LENGTHS)
    else:
        inputs = (SOURCE, LENGTHS)

    def own(entry: int) -> tuple[Tensor | None, ...]:
        if len(inputs) == 1:
            return (inputs[0][entry : entry + 1],)
        return inputs[0][entry : entry + 1, : int(inputs[1][entry])], None

    return Subject(
        model,
        lambda: model.start(model.encode(*inputs)),
        lambda entry: model.start(model.encode(*own(entry))),
        lambda entry, text: model(*own(entry), text),
    )


@torch.no_grad()
def replay(model: Any, state: Any, entry: int, found: Hypothesis, end: int) -> tuple[float, Tensor | None]:
    """The log-probability of an entry's hypothesis by steps of one row, and where they looked."""
    total, looks, token = 0.0, [], int(FIRST[entry])
    for following in [*found.tokens, end] if found.finished else found.tokens:
        logits, state = model.step(torch.tensor([token]), state)
        total += float(logits.log_softmax(-1)[0, following])
        if found.alignment is not None:
            look = model.alignment(state)[0]
            looks.append(torch.cat([look, torch.zeros(found.alignment.shape[1] - len(look))]))
        token = following
    return total, torch.stack(looks) if looks else None


def early_end(model: Any, start: Callable[[], Any]) -> int:
    """A token that, as the end, finishes many greedy texts, not at once and after different lengths."""
    texts = [found.tokens for [found] in Greedy()(model, start(), FIRST, None, max(LIMITS))]

    def worth(end: int) -> tuple[int, int]:
        ends = [text.index(end) for text, most in zip(texts, LIMITS, strict=True) if end in text[1:most]]
        return len(set(ends)), len(ends)

    return max(sorted({token for text in texts for token in text}), key=worth)

"""What the rows and columns of a gap's attention are, and what was written from them."""

import re
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mirada.data.text.tokenize import MASK, SPECIAL, UNKNOWN, Tokenizer
from mirada.looking.labels import RANKED, SILENT, Labels, Span, TextLabels, WrittenStep

BLANK = re.compile("_{3,}")


def gap_labels(
    known: Tokenizer, text: str, tokens: list[int], answer: tuple[str, float], chosen: Sequence[int], predicted: Any
) -> Labels:
    """What the rows and columns are: the tokens of one or two sentences. From the masks a word is written; without one, the
    first place tells whether the second sentence follows. `chosen` are the tokens of a candidate, or the number of an answer.
    """
    if MASK in tokens:
        steps = _gap_steps(known, tokens.index(MASK), answer, chosen, predicted.words[0])
    else:
        shares = predicted.follows.float().softmax(-1)[0].tolist()
        ranked = sorted((("follows", shares[1]), ("does not follow", shares[0])), key=lambda pair: -pair[1])
        steps = (WrittenStep(0, *answer, tuple(ranked), chosen[0]),)
    axes = {"text": searched_axis(known, text, tokens)}
    return Labels(axes, {"*": ("text", "text")}, {"input": text}, answer, steps)


def _gap_steps(
    known: Tokenizer, first: int, answer: tuple[str, float], pieces: Sequence[int], words: Float[Tensor, "length vocab"]
) -> tuple[WrittenStep, ...]:
    """What was written into the gap: a step for every mask, which stand at `first`, first + 1, ..."""
    steps = []
    for row in range(first, first + max(1, len(pieces))):
        shares = words[row].float().softmax(-1).cpu()
        shares[: len(SPECIAL)] = 0
        top = shares.topk(min(RANKED, len(shares)))
        ranked = tuple(zip(map(known.token, top.indices.tolist()), top.values.tolist(), strict=True))
        token = pieces[row - first] if pieces else int(top.indices[0])
        written = answer if len(pieces) < 2 else (known.token(token), float(shares[token]))
        steps.append(WrittenStep(row, *written, ranked, token))
    return tuple(steps)


def searched_axis(tokenizer: Tokenizer, text: str, tokens: Sequence[int]) -> TextLabels:
    """The axis of a text with blanks: each token stands where it is next found in the text, a mask at the next blank.

    >>> tokenizer = Tokenizer.train(["Ana ve una casa."], kind="word")
    >>> searched_axis(tokenizer, "Ana ve una ___.", tokenizer.encode_blanks("Ana ve una ___.")).spans
    ((0, 3), (4, 6), (7, 10), (11, 14), (14, 15))
    """
    names, spans, at = [], list[Span | None](), 0
    lower = text.lower() if len(text.lower()) == len(text) else text
    for token in tokens:
        name = tokenizer.token(token)
        names.append(name)
        blank = BLANK.search(text, at)
        if name == "<mask>" and blank:
            found, end = blank.span()
        else:
            found = -1 if token in SILENT or token == UNKNOWN else text.find(name, at)
            found = lower.find(name.lower(), at) if found < 0 and token not in (*SILENT, UNKNOWN) else found
            end = found + len(name)
        spans.append((found, end) if found >= 0 else None)
        at = end if found >= 0 else at
    return TextLabels(tuple(names), text, tuple(spans))

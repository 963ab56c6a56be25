"""Rows and columns that are texts: the tokens that were read and written, with their places in the text."""

import re
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from mirada.data.tokenize import END, PAD, START, UNKNOWN, Tokenizer
from mirada.decoding.hypothesis import Hypothesis
from mirada.looking.labels import AxisLabels, Labels, Span, TextLabels, WrittenStep

RANKED = 5  # tokens that are told beside the one that was written
SILENT = (PAD, START, END)  # they stand nowhere in a text
BLANK = re.compile("_{3,}")


def read_axis(tokenizer: Tokenizer, text: str, tokens: Sequence[int], start: Sequence[int] = ()) -> TextLabels:
    """The axis of a text that was read: `tokens` are those of the text, cut and closed as the model was given them.

    >>> tokenizer = Tokenizer.train(["the red house"], kind="word")
    >>> read_axis(tokenizer, "the  house", [*tokenizer.encode("the  house"), END]).spans
    ((0, 3), (5, 10), None)
    """
    names, spans = [], list[Span | None]()
    pieces = iter(tokenizer.pieces(text))
    for token in tokens:
        piece = None if token in SILENT else next(pieces, None)
        inside = piece is not None and piece.id == token and piece.end > piece.start
        shown = piece.text if piece is not None and inside and piece.text.strip() else tokenizer.token(token)
        names.append(shown)
        spans.append((piece.start, piece.end) if piece is not None and inside else None)
    before = tuple(map(tokenizer.token, start))
    return TextLabels((*before, *names), text, (*(None for _ in before), *spans))


def written_axis(tokenizer: Tokenizer, tokens: Sequence[int], start: Sequence[int] = (START,)) -> TextLabels:
    """The axis of a text that was written, after what it started from."""
    text, spans = placed(tokenizer, tokens)
    names = tuple(map(tokenizer.token, (*start, *tokens)))
    return TextLabels(names, text, (*(None for _ in start), *spans))


def placed(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, tuple[Span | None, ...]]:
    """The text of some tokens, and the characters that each wrote.

    >>> tokenizer = Tokenizer.train(["la casa.", "la cosa."], kind="word")
    >>> placed(tokenizer, tokenizer.encode("la casa."))
    ('la casa.', ((0, 2), (3, 7), (7, 8)))
    """
    text = tokenizer.decode(tokens)
    pieces = tokenizer.pieces(text)
    if [piece.id for piece in pieces] == list(tokens):
        return text, tuple((piece.start, piece.end) if piece.end > piece.start else None for piece in pieces)
    # a model may cut a word otherwise than its tokenizer would: what each token adds to the text tells its place
    spans, before = list[Span | None](), ""
    for count in range(1, len(tokens) + 1):
        now = tokenizer.decode(tokens[:count])
        added = now[len(before) :]
        start = len(now) - len(added.lstrip())
        stands = added.strip() and now.startswith(before) and text.startswith(now)
        spans.append((start, len(now)) if stands else None)
        before = now
    return text, tuple(spans)


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


def written_labels(
    name: str, read: AxisLabels, tokenizer: Tokenizer, best: Hypothesis, text: str, given: str, logits: Tensor
) -> Labels:
    """What the rows and columns of an encoder and a decoder are, if this was read and that was written from it.

    Row 0 of the target is the start, from which the first token was written.
    """
    return Labels(
        {name: read, "target": written_axis(tokenizer, best.tokens)},
        {"*encoder*": (name, name), "*decoder*self": ("target", "target"), "*decoder*": ("target", name)},
        {"input": given},
        (text, best.score),
        written_steps(logits[0], [*best.tokens, *[END] * best.finished], tokenizer),
    )


def written_steps(
    logits: Float[Tensor, "rows vocab"], tokens: Sequence[int], tokenizer: Tokenizer, first: int = 0
) -> tuple[WrittenStep, ...]:
    """What was written from the rows first, first + 1, ..., how likely the model found it, and the likeliest of all."""
    if not tokens:
        return ()
    shares = logits[first : first + len(tokens)].float().softmax(-1).cpu()
    top = shares.topk(min(RANKED, shares.shape[-1]))
    return tuple(
        WrittenStep(
            first + row,
            tokenizer.token(token),
            float(shares[row, token]),
            tuple((tokenizer.token(i), p) for i, p in zip(top.indices[row].tolist(), top.values[row].tolist(), strict=True)),
            token,
        )
        for row, token in enumerate(tokens)
    )  # fmt: skip

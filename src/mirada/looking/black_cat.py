"""The lectures' "el gato negro salta la cuerda": attention as a weighted graph whose outputs are convex combinations.

    h_negro = 0.025 el + 0.4 gato + 0.5 negro + 0.025 salta + 0.025 la + 0.025 cuerda

The row of `negro` is the lecture's; the other rows and the values, points of the plane, are made up.
"""

import torch

from mirada.attention.equation import Attention
from mirada.attention.heads import Split
from mirada.attention.scores import Dot
from mirada.looking.labels import Labels, TextLabels
from mirada.looking.record import Seen, look

TEXT = "el gato negro salta la cuerda"
WORDS = tuple(TEXT.split())
WANTED = (
    (0.500, 0.400, 0.025, 0.025, 0.025, 0.025),
    (0.200, 0.500, 0.200, 0.050, 0.025, 0.025),
    (0.025, 0.400, 0.500, 0.025, 0.025, 0.025),
    (0.025, 0.350, 0.025, 0.300, 0.050, 0.250),
    (0.025, 0.025, 0.025, 0.025, 0.500, 0.400),
    (0.025, 0.025, 0.025, 0.200, 0.225, 0.500),
)
VALUES = ((0.0, 2.5), (2.5, 5.0), (8.0, 4.5), (9.0, 2.0), (2.0, 0.5), (6.0, 0.0))


def black_cat() -> Seen:
    """A real call of attention with these weights: keys are unit vectors, and a query holds the logarithms of its weights.

    >>> [round(x, 3) for x in black_cat()["attention"].weights(head=0)[0, 2].tolist()]
    [0.025, 0.4, 0.5, 0.025, 0.025, 0.025]
    """
    model = torch.nn.ModuleDict({"attention": Attention(Split(width=len(WORDS), heads=1), score=Dot(scale=1.0))})
    queries, keys, values = torch.tensor([WANTED]).log(), torch.eye(len(WORDS))[None], torch.tensor([VALUES])
    with torch.no_grad(), look(model) as seen:
        model["attention"](queries, memory=keys, values=values)
    starts = [TEXT.index(word) for word in WORDS]
    spans = tuple((start, start + len(word)) for start, word in zip(starts, WORDS, strict=True))
    words = TextLabels(WORDS, TEXT, spans)
    made = {"task": "example", "model": "black-cat", "input": TEXT}
    return seen.labelled(Labels({"words": words}, {"*": ("words", "words")}, made, opening="view=graph&row=2"))

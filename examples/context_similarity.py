"""Which word fits the blank in "Ana va al cine a ver una nueva ___"? The one that is like the context.

Every word is a small hand-made vector: how much it has of each feature in FEATURES, brought to length 1; a phrase is the sum
of its words. The dot products of all pairs of words are the context-similarity matrix of the sentence. The blank is a word
whose vector says only what the grammar says, something to be seen: by itself it cannot tell a film from an exhibition. It
attends to the other words, and the candidates are ranked by their likeness to what comes out. With another place instead of
cine the same computation ranks them otherwise. Lectures, row 0.1.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada import Attention, look
from mirada.attention.heads import Split
from mirada.attention.neighborhoods import Window
from mirada.attention.scores import Dot

FEATURES = ("person", "motion", "place", "seen", "film", "stage", "art", "game", "trade", "humor", "origin", "grammar")
VECTORS = {
    "Ana": {"person": 3},
    "va": {"person": 1, "motion": 3, "place": 1},
    "al": {"place": 1, "grammar": 2},
    "cine": {"place": 1, "seen": 3, "film": 3},
    "teatro": {"place": 1, "seen": 3, "stage": 3},
    "museo": {"place": 1, "seen": 3, "art": 3},
    "a": {"grammar": 3},
    "ver": {"person": 2, "seen": 2},
    "una": {"grammar": 3},
    "nueva": {"origin": 2, "grammar": 1},
    "___": {"seen": 3},
    "película": {"seen": 2, "film": 3},
    "comedia": {"seen": 2, "film": 2, "stage": 1, "humor": 1},
    "risa": {"humor": 1},
    "francesa": {"origin": 1},
    "tienda": {"seen": 2, "place": 1, "trade": 3},
    "exposición": {"seen": 2, "art": 3},
    "partida": {"seen": 2, "game": 2},
    "ajedrez": {"game": 1},
    "obra": {"seen": 2, "stage": 2, "art": 1},
    "teatral": {"stage": 1},
}
SENTENCE = ("Ana", "va", "al", "cine", "a", "ver", "una", "nueva", "___")
FITTING = ("película", "comedia", "película de risa", "película francesa")
OTHERS = ("tienda", "exposición", "partida de ajedrez", "obra teatral")
SHARPNESS = 4.0  # the scale of the score: likeness lies between 0 and 1, too flat for a softmax


def vector(phrase: str) -> Float[Tensor, " features"]:
    """A word, or the sum of the words of a phrase ("de" counts nothing), brought to length 1."""
    words = [VECTORS[word] for word in phrase.split() if word != "de"]
    total = torch.tensor([float(sum(word.get(feature, 0) for word in words)) for feature in FEATURES])
    return F.normalize(total, dim=-1)


def vectors(phrases: tuple[str, ...]) -> Float[Tensor, "phrases features"]:
    """One row per phrase."""
    return torch.stack([vector(phrase) for phrase in phrases])


def similarity(sentence: tuple[str, ...]) -> Float[Tensor, "words words"]:
    """The context-similarity matrix: the dot product of every word with every word."""
    x = vectors(sentence)[None, None]
    return Dot(scale=1.0)(x, x)[0, 0]


def context(sentence: tuple[str, ...]) -> tuple[Float[Tensor, " words"], Float[Tensor, " features"]]:
    """The weights of the blank over the other words, and what it takes from there."""
    x = vectors(sentence)[None]
    layer = Attention(Split(width=len(FEATURES), heads=1), score=Dot(scale=SHARPNESS), where=~Window(0))
    with look(layer) as seen:
        y = layer(x)
    blank = sentence.index("___")
    return seen[""].weights(head=0)[0, blank], y[0, blank]


def rank(query: Float[Tensor, " features"], candidates: tuple[str, ...]) -> list[tuple[str, float]]:
    """The candidates and their likeness to a vector, the likest first."""
    likeness = vectors(candidates) @ F.normalize(query, dim=-1)
    return sorted(zip(candidates, likeness.tolist(), strict=True), key=lambda pair: -pair[1])


def main() -> None:
    print(f"context-similarity matrix of: {' '.join(SENTENCE)}\n")
    print(f"{'':6}" + "".join(f"{word:>7}" for word in SENTENCE))
    for word, row in zip(SENTENCE, similarity(SENTENCE), strict=True):
        print(f"{word:6}" + "".join(f"{x:7.2f}" if x else f"{'.':>7}" for x in row.tolist()))

    weights, taken = context(SENTENCE)
    print("\nthe weights of the blank over these words")
    print(f"{'___':6}" + "".join(f"{x:7.2f}" for x in weights))

    alone = dict(rank(vector("___"), FITTING + OTHERS))
    print(f"\n{'likeness to':22}{'the blank alone':>18}{'its context':>14}")
    for candidate, likeness in rank(taken, FITTING + OTHERS):
        print(f"{candidate:22}{alone[candidate]:18.2f}{likeness:14.2f}")

    print("\nthe likest candidate, with this place and with others")
    for place in ("cine", "teatro", "museo"):
        sentence = tuple(place if word == "cine" else word for word in SENTENCE)
        best = rank(context(sentence)[1], FITTING + OTHERS)[0][0]
        print(f"{' '.join(sentence[:-1])} {best}")


if __name__ == "__main__":
    main()

"""Is a "letter" a carta or a letra? Only the context knows, and a weighted mean of the context can say it.

English and Spanish words live in one space of hand-made vectors: how much a word has of each feature in FEATURES. A word is
translated by the Spanish word with the nearest vector (largest cosine). Three ways to make the vector of "letter":

    word-wise         its own: "letter" has as much of mail as of alphabet, so both are equally near in every sentence: fails
    the uniform mean  every word of the sentence counts the same, so "letter" is drowned: fails
    attention         softmax of <word, letter> over the words; those that share a meaning with it count most: works

Lectures, row 4.3.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada import Attention, look
from mirada.attention.heads import Split
from mirada.attention.scores import Dot

FEATURES = ("mail", "alphabet", "writing", "person", "grammar")
ENGLISH = {
    "I": (0, 0, 0, 3, 1),
    "am": (0, 0, 0, 1, 2),
    "writing": (2, 0, 1, 0, 0),
    "a": (0, 0, 0, 0, 3),
    "letter": (1.5, 1.5, 0.5, 0, 0),
    "to": (0, 0, 0, 0, 3),
    "her": (1, 0, 0, 3, 1),
    "the": (0, 0, 0, 0, 3),
    "first": (0, 1, 0, 0, 2),
    "of": (0, 0, 0, 0, 3),
    "word": (0, 2, 1, 0, 0),
}
SPANISH = {
    "carta": (3, 0, 1, 0, 0),
    "letra": (0, 3, 1, 0, 0),
    "yo": (0, 0, 0, 3, 1),
    "ella": (1, 0, 0, 3, 1),
    "escribo": (1, 0, 2, 1, 0),
    "palabra": (0, 2, 2, 0, 1),
    "primera": (0, 1, 0, 0, 2),
    "la": (0, 0, 0, 0, 3),
}
RIGHT = {"I am writing a letter to her": "carta", "the first letter of the word": "letra"}


def vectors(sentence: str) -> Float[Tensor, "words features"]:
    """The words of a sentence, one row each."""
    return torch.tensor([ENGLISH[word] for word in sentence.split()], dtype=torch.float32)


def word_wise(sentence: str) -> Float[Tensor, " features"]:
    """The vector of letter itself: the context is not read."""
    return vectors("letter")[0]


def uniform_mean(sentence: str) -> Float[Tensor, " features"]:
    """The mean of all words."""
    return vectors(sentence).mean(0)


def attention(sentence: str) -> Float[Tensor, " features"]:
    """softmax(W letter) W, with W the matrix of the sentence's vectors."""
    return attend_from_letter(sentence)[1]


def attend_from_letter(sentence: str) -> tuple[Float[Tensor, " words"], Float[Tensor, " features"]]:
    """The weights of letter over the sentence, and the weighted mean."""
    layer = Attention(Split(width=len(FEATURES), heads=1), score=Dot(scale=1.0))
    with look(layer) as seen:
        y = layer(vectors(sentence)[None])
    letter = sentence.split().index("letter")
    return seen[""].weights(head=0)[0, letter], y[0, letter]


def translate(vector: Float[Tensor, " features"]) -> tuple[str, Float[Tensor, " spanish"]]:
    """The nearest Spanish word (all of them, if several are equally near), and the cosine with every one."""
    words = torch.tensor(list(SPANISH.values()), dtype=torch.float32)
    cosines = F.cosine_similarity(words, vector[None], dim=-1)
    nearest = [word for word, cosine in zip(SPANISH, cosines, strict=True) if cosines.max() - cosine < 1e-6]
    return " or ".join(nearest), cosines


def judge(found: str, right: str) -> str:
    """A tie is no answer."""
    if " or " in found:
        return "undecided"
    return "right" if found == right else "wrong"


WAYS: dict[str, Callable[[str], Tensor]] = {
    "word-wise": word_wise,
    "uniform mean": uniform_mean,
    "attention": attention,
}


def main() -> None:
    names = list(SPANISH)
    for sentence, right in RIGHT.items():
        print(f'"{sentence}": letter is {right}\n')
        weights, _ = attend_from_letter(sentence)
        pairs = (f"{word} {weight:.2f}" for word, weight in zip(sentence.split(), weights, strict=True))
        print(f"  weights of letter: {', '.join(pairs)}\n")
        print(f"  {'vector of letter':18}{'cos carta':>11}{'cos letra':>11}   nearest word")
        for way, make in WAYS.items():
            found, cosines = translate(make(sentence))
            carta, letra = (cosines[names.index(word)] for word in ("carta", "letra"))
            print(f"  {way:18}{carta:11.3f}{letra:11.3f}   {found:18}{judge(found, right)}")
        print()


if __name__ == "__main__":
    main()

"""CIDEr-D: how much a caption has in common with what people said about the picture, rare words counting most."""

import math
import re
from collections import Counter
from collections.abc import Sequence

N = 4  # n-grams of 1 to N words
SIGMA = 6.0  # words by which the length may differ before it costs much
WORD = re.compile(r"\w+(?:'\w+)?")

NGram = tuple[str, ...]
Weighted = dict[NGram, float]


def cider(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean CIDEr-D of some captions; 100 is what papers call 1.0 (or 100, as they like), and 1,000 is the most.

    For n = 1 ... 4, g counts the n-grams of a text and weighs each by log(pictures / pictures whose references have it):

    CIDEr-D_n(c, S) = 10 / |S| sum over s in S of exp(-(|c| - |s|)^2 / (2 sigma^2)) min(g(c), g(s)) . g(s) / (|g(c)| |g(s)|)

    and CIDEr-D is their mean. The frequencies are those of the references given here. Words are compared in lower case,
    without punctuation. What all pictures have in common counts nothing: a single picture has 0.

    >>> texts = ["a red circle above a blue square", "two dogs sleep on the old sofa"]
    >>> round(cider(texts, [[text] for text in texts]))
    1000

    Vedantam, Zitnick and Parikh (2015), arXiv:1411.5726.
    """
    if not answers:
        return math.nan
    return 1000 * sum(each_cider(answers, references)) / len(answers)


def each_cider(answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """The CIDEr-D of every caption, from 0 to 1: how alike it is to its references, without the factor 10 of the papers."""
    counted = [[ngrams(text) for text in texts] for texts in references]
    seen = Counter(gram for texts in counted for gram in set().union(*texts))
    pictures = math.log(max(1, len(counted)))

    def weighted(counts: Counter[NGram]) -> list[Weighted]:
        parts: list[Weighted] = [{} for _ in range(N)]
        for gram, count in counts.items():
            parts[len(gram) - 1][gram] = count * (pictures - math.log(max(1, seen[gram])))
        return parts

    found = []
    for answer, texts in zip(answers, counted, strict=True):
        counts = ngrams(answer)
        here = weighted(counts)
        total = 0.0
        for text in texts:
            apart = words_in(counts) - words_in(text)
            near = math.exp(-(apart**2) / (2 * SIGMA**2))
            total += near * sum(map(clipped_cosine, here, weighted(text))) / N
        found.append(total / max(1, len(texts)))
    return found


def ngrams(text: str) -> Counter[NGram]:
    """How often a text has each of its n-grams.

    >>> ngrams("A dog, a dog.")[("a", "dog")]
    2
    """
    words = words_of(text)
    return Counter(tuple(words[i : i + n]) for n in range(1, N + 1) for i in range(len(words) - n + 1))


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case and without punctuation.

    >>> words_of("A dog's bone.")
    ['a', "dog's", 'bone']
    """
    return WORD.findall(text.lower())


def words_in(counts: Counter[NGram]) -> int:
    """How many words the text has that these n-grams are of."""
    return sum(count for gram, count in counts.items() if len(gram) == 1)


def clipped_cosine(answer: Weighted, reference: Weighted) -> float:
    """The cosine of two texts, where an n-gram counts no more often than the reference has it."""
    norms = norm(answer) * norm(reference)
    if not norms:
        return 0.0
    return (
        sum(min(value, reference.get(gram, 0.0)) * reference.get(gram, 0.0) for gram, value in answer.items()) / norms
    )


def norm(values: Weighted) -> float:
    return math.sqrt(sum(value * value for value in values.values()))

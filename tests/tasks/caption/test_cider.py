"""CIDEr-D by hand, against a direct computation, and its laws."""

import math
from itertools import product

import pytest

from mirada.tasks.caption.metrics import cider, each_cider

DOG, CAT = "a dog runs", "a cat sleeps"


def test_one_word_by_hand() -> None:
    """Two pictures; only unigrams of one word each: dog, cat. idf = log 2 each; the cosine is 1 for n = 1, 0 for the rest."""
    assert cider(["dog", "cat"], [["dog"], ["cat"]]) == pytest.approx(1000 / 4)
    assert cider(["dog", "dog"], [["dog"], ["cat"]]) == pytest.approx(1000 / 4 / 2)


def test_a_pair_of_words_by_hand() -> None:
    """`a` is in both pictures: log(2 / 2) = 0. `dog`, `runs`, `cat`, `sleeps`, the pairs and triples: log 2.

    For "a dog sleeps" against "a dog runs": unigrams (dog, sleeps) . (dog, runs) = 1 / 2; pairs (a dog, dog sleeps) against
    (a dog, dog runs) = 1 / 2, all in units of (log 2)^2; triples 0; no four words. The n-gram `dog sleeps` is in no
    reference: its document frequency counts as 1.
    """
    assert each_cider(["a dog sleeps", CAT], [[DOG], [CAT]]) == pytest.approx([(1 / 2 + 1 / 2) / 4, 3 / 4])


def test_length_by_hand() -> None:
    """`dog dog` against `dog`: clipped to one dog, cosine min(2, 1) * 1 / (2 * 1) = 1 / 2, and one word too many."""
    found = each_cider(["dog dog", "cat"], [["dog"], ["cat"]])
    assert found == pytest.approx([math.exp(-1 / 72) * (1 / 2) / 4, 1 / 4])
    longer = each_cider(["dog " * 7, "cat"], [["dog"], ["cat"]])[0]
    assert longer == pytest.approx(math.exp(-36 / 72) * (1 / 7) / 4)


def test_several_references_are_a_mean() -> None:
    refs = [[DOG, "the hound runs"], [CAT]]
    both = each_cider([DOG, CAT], refs)[0]
    alone = [direct(DOG, text, refs) for text in refs[0]]
    assert both == pytest.approx(sum(alone) / 2)


def direct(answer: str, reference: str, references: list[list[str]]) -> float:
    """The formula, written out for one answer and one reference."""

    def vector(text: str, n: int) -> dict[tuple[str, ...], float]:
        words = text.split()
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        found = {}
        for gram in grams:
            having = sum(
                any(gram in zip(*(t.split()[k:] for k in range(n)), strict=False) for t in ts) for ts in references
            )
            found[gram] = grams.count(gram) * math.log(len(references) / max(1, having))
        return found

    total = 0.0
    for n in range(1, 5):
        a, b = vector(answer, n), vector(reference, n)
        norms = math.hypot(*a.values()) * math.hypot(*b.values()) if a and b else 0
        if norms:
            total += sum(min(a[g], b[g]) * b[g] for g in a if g in b) / norms
    return total / 4 * math.exp(-((len(answer.split()) - len(reference.split())) ** 2) / 72)


def test_it_is_the_formula() -> None:
    words = ["a dog runs on the green grass", "a cat sleeps", "two dogs run on sand", "the cat runs on the grass"]
    references = [[words[0], words[2]], [words[1]], [words[3], words[0]]]
    for answers in product(words, repeat=3):
        wanted = [
            sum(direct(answer, text, references) for text in texts) / len(texts)
            for answer, texts in zip(answers, references, strict=True)
        ]
        assert each_cider(answers, references) == pytest.approx(wanted)
        assert cider(answers, references) == pytest.approx(1000 * sum(wanted) / 3)


def test_laws() -> None:
    texts = ["a red circle above a blue square", "two dogs sleep on the old sofa", "rain falls on an empty street"]
    refs = [[text] for text in texts]
    assert cider(texts, refs) == pytest.approx(1000)
    assert cider([text.upper() + " ." for text in texts], refs) == pytest.approx(1000)
    assert cider([texts[1], texts[2], texts[0]], refs) < 100
    assert cider(["", "", ""], refs) == 0
    assert cider([texts[0]] * 3, refs) == pytest.approx(1000 / 3, rel=0.05)
    assert cider(texts[:1], refs[:1]) == 0, "what all pictures have in common says nothing"
    assert math.isnan(cider([], []))
    doubled = cider(texts, [[text, text] for text in texts])
    assert doubled == pytest.approx(1000)
    near, far = (cider([f"{texts[0]}{' indeed' * n}", *texts[1:]], refs) for n in (1, 9))
    assert far < near < 1000


def test_every_answer_has_references() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        cider(["a", "b"], [["a"]])

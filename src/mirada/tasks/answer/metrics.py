"""How good answers from a passage are: exact match and F1, counted as SQuAD's official script counts them."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_metrics(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean exact match and F1 of answers, in percent. Every question has its references, the best of which counts;
    none means that there is no answer, and then only "" is right.

    >>> answer_metrics(["The red house!", "big red house", "", "Rome"], [["red house"], ["blue", "red house"], [], []])
    {'exact': 50.0, 'f1': 70.0}

    Rajpurkar et al. (2016), arXiv:1606.05250, 6.1; with unanswerable questions: Rajpurkar, Jia and Liang (2018),
    arXiv:1806.03822.
    """
    if not references:
        return {"exact": math.nan, "f1": math.nan}
    pairs = list(zip(answers, references, strict=True))
    return {
        "exact": 100 * sum(exact_match(answer, wanted) for answer, wanted in pairs) / len(pairs),
        "f1": 100 * sum(token_f1(answer, wanted) for answer, wanted in pairs) / len(pairs),
    }


def exact_match(answer: str, references: Sequence[str]) -> bool:
    """Whether an answer is one of the references, but for case, punctuation, articles and spaces.

    >>> exact_match("the  Eiffel Tower.", ["Eiffel tower"])
    True
    """
    return any(normalized(answer) == normalized(reference) for reference in references or ("",))


def token_f1(answer: str, references: Sequence[str]) -> float:
    """The harmonic mean of how many words of the answer are wanted and how many wanted ones it has; the best reference's.

    >>> token_f1("big red house", ["red house"])  # two of three words, two of two
    0.8
    """
    return max(_one_f1(answer, reference) for reference in references or ("",))


def _one_f1(answer: str, reference: str) -> float:
    """F1 of bags of words: a word counts as often as both have it. Where one of them is empty, both must be."""
    said, wanted = normalized(answer).split(), normalized(reference).split()
    if not said or not wanted:
        return float(said == wanted)
    common = (Counter(said) & Counter(wanted)).total()
    return 2 * common / (len(said) + len(wanted))


def normalized(text: str) -> str:
    """A text as it is compared: lower case, without punctuation, articles and double spaces, in the script's order.

    >>> normalized("An  apple, a day; the U.S.A.")
    'apple day usa'
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())

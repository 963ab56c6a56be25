"""Exact match and F1 of answers, computed as in SQuAD's official script, and a baseline that learns nothing."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

from mirada.tasks.answer.reading import WORD

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
SENTENCE = re.compile(r"[.!?…]\s|\n")  # where a run of names ends


def answer_metrics(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean exact match and F1 of answers, in percent. For each question the best of its references counts; no references
    mean that the passage has no answer: then only "" is right.

    >>> answer_metrics(["The red house!", "big red house", "", "Rome"], [["red house"], ["blue", "red house"], [], []])
    {'exact': 50.0, 'f1': 70.0}

    Rajpurkar et al. (2016), arXiv:1606.05250, 6.1; with unanswerable questions: Rajpurkar, Jia and Liang (2018),
    arXiv:1806.03822.
    """
    pairs = list(zip(answers, references, strict=True))
    totals = {"exact": float(sum(exact_match(*pair) for pair in pairs)), "f1": sum(token_f1(*pair) for pair in pairs)}
    return {name: 100 * total / len(pairs) if pairs else math.nan for name, total in totals.items()}


def exact_match(answer: str, references: Sequence[str]) -> bool:
    """Whether an answer equals one of the references, ignoring case, punctuation, articles and spaces.

    >>> exact_match("the  Eiffel Tower.", ["Eiffel tower"])
    True
    """
    return any(normalized(answer) == normalized(reference) for reference in references or ("",))


def token_f1(answer: str, references: Sequence[str]) -> float:
    """The harmonic mean of precision and recall of the words of an answer, for the best of its references.

    >>> token_f1("big red house", ["red house"])  # two of three words, two of two
    0.8
    """
    words, best = normalized(answer).split(), 0.0
    for reference in references or ("",):
        wanted = normalized(reference).split()
        common = (Counter(words) & Counter(wanted)).total()  # each word as often as in both
        both = bool(words and wanted)  # an empty text only matches an empty one
        best = max(best, 2 * common / (len(words) + len(wanted)) if both else float(words == wanted))
    return best


def normalized(text: str) -> str:
    """A text as it is compared: lower case, without punctuation, articles and double spaces, removed in the script's order.

    >>> normalized("An  apple, a day; the U.S.A.")
    'apple day usa'
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def window_answer(question: str, passage: str) -> tuple[int, int]:
    """The span of the candidate with the most words of the question around it, rare words counting more.

    score(c) = sum over words w of the question near c of log(1 + 1 / count of w in the passage)

    "Near" means within as many words on each side as the question has. Candidates are names and numbers: runs of words that
    begin with a capital or a digit and that are neither in the question nor, in small letters, in the passage; if there are
    none, single words. Among equal scores the first wins.

    >>> passage = "Ana went to Rome in 1990. After some years she left the city, and her brother Luis stayed in Bilbao."
    >>> questions = ("When did Ana go to Rome?", "In which city did her brother stay?")
    >>> [passage[slice(*window_answer(question, passage))] for question in questions]
    ['1990', 'Luis']

    Richardson, Burges and Renshaw (2013), D13-1020; Rajpurkar et al. (2016), arXiv:1606.05250, 5.1.
    """
    words = [(match.group().lower(), match.start(), match.end()) for match in WORD.finditer(passage)]
    if not words:
        return (0, 0)
    asked = set(WORD.findall(question.lower()))
    counts = Counter(word for word, _, _ in words)
    weights = [math.log(1 + 1 / counts[word]) if word in asked else 0.0 for word, _, _ in words]
    reach = max(1, len(WORD.findall(question)))

    def score(candidate: tuple[int, int]) -> float:
        near = range(max(0, candidate[0] - reach), min(len(words), candidate[1] + reach + 1))
        return sum({words[place][0]: weights[place] for place in near}.values())

    first, last = max(_candidates(passage, words, asked), key=score, default=(0, 0))
    return (words[first][1], words[last][2])


def _candidates(passage: str, words: list[tuple[str, int, int]], asked: set[str]) -> list[tuple[int, int]]:
    """The first and last words of names and numbers that are not in the question; if there are none, all words not in it."""
    runs: list[list[int]] = []
    # words in small letters somewhere: those with a capital may only begin a sentence
    small = {word for word, start, _ in words if passage[start].islower()}
    for place, (word, start, _) in enumerate(words):
        letter = passage[start]
        if not (letter.isupper() or letter.isdigit()) or word in asked or word in small:
            continue
        if runs and runs[-1][1] == place - 1 and not SENTENCE.search(passage[words[place - 1][2] : start]):
            runs[-1][1] = place
        else:
            runs.append([place, place])
    others = ([place, place] for place, (word, _, _) in enumerate(words) if word not in asked)
    return [(first, last) for first, last in runs or others]

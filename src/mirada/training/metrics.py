"""How good answers are: BLEU and chrF, accuracy, macro F1 and calibration, perplexity."""

import math
from collections.abc import Sequence


def bleu(answers: Sequence[str], wanted: Sequence[str]) -> float:
    """sacreBLEU of a corpus, with its standard settings.

    >>> round(bleu(["the red house is big"], ["the red house is big"]), 1)
    100.0

    Papineni et al. (2002); Post (2018), arXiv:1804.08771.
    """
    from sacrebleu.metrics.bleu import BLEU

    return BLEU().corpus_score(list(answers), [list(wanted)]).score


def bleu_of_several(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """sacreBLEU of a corpus whose texts have several references each, not all of them equally many.

    >>> round(bleu_of_several(["the red house is big"], [["a house", "the red house is big"]]), 1)
    100.0
    """
    from sacrebleu.metrics.bleu import BLEU

    most = max(map(len, references), default=0)
    streams = [[texts[place] if place < len(texts) else None for texts in references] for place in range(most)]
    return BLEU().corpus_score(list(answers), streams).score  # type: ignore[arg-type]


def chrf(answers: Sequence[str], wanted: Sequence[str]) -> float:
    """chrF2 of a corpus: the F-score of character n-grams.

    Popovic (2015), W15-3049.
    """
    from sacrebleu.metrics.chrf import CHRF

    return CHRF().corpus_score(list(answers), [list(wanted)]).score


def sentence_chrf(answer: str, wanted: str) -> float:
    """chrF2 of one sentence: it ranks errors better than BLEU, which is zero for most short ones."""
    from sacrebleu.metrics.chrf import CHRF

    return CHRF().sentence_score(answer, [wanted]).score


def accuracy(answers: Sequence[object], wanted: Sequence[object]) -> float:
    """The percentage of right answers."""
    if not wanted:
        return math.nan
    return 100 * sum(a == b for a, b in zip(answers, wanted, strict=True)) / len(wanted)


def wilson_interval(percent: float, records: int) -> tuple[float, float]:
    """The 95 % interval of a share that was counted on some records, in percent.

    >>> low, high = wilson_interval(80.0, 100)
    >>> round(low), round(high)
    (71, 87)

    Wilson (1927).
    """
    z, p = 1.959964, percent / 100
    middle = (p + z * z / (2 * records)) / (1 + z * z / records)
    half = z / (1 + z * z / records) * math.sqrt(p * (1 - p) / records + z * z / (4 * records * records))
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def macro_f1(answers: Sequence[object], wanted: Sequence[object]) -> float:
    """The mean over classes of the F1 score, in percent: every class weighs the same, however rare.

    >>> macro_f1(["a", "a", "b"], ["a", "b", "b"])
    66.66666666666667
    """
    scores = []
    for name in set(wanted) | set(answers):
        right = sum(a == b == name for a, b in zip(answers, wanted, strict=True))
        counted = sum(a == name for a in answers) + sum(b == name for b in wanted)
        scores.append(200 * right / counted)
    return math.fsum(scores) / len(scores) if scores else math.nan  # exact: a set has no order


def perplexity(loss: float) -> float:
    """exp of the mean cross-entropy: among how many words the model still hesitates."""
    return math.exp(min(loss, 700.0))

"""How good a classifier is beside accuracy and F1: each component alone, and how far its probabilities can be trusted."""

import math
from collections.abc import Mapping, Sequence

from mirada.runs.answers import Answer
from mirada.training.metrics import accuracy


def calibration_error(sure: Sequence[float], right: Sequence[bool], bins: int = 15) -> float:
    """The expected calibration error in percent: how far the probability of answers is from the share that is right.

    ece = sum over bins of probability: (answers in it / all answers) |mean probability - share of right answers|

    >>> round(calibration_error([0.9, 0.9, 0.9, 0.9, 0.6], [True, True, True, False, True]), 6)  # (4 x 0.15 + 0.4) / 5
    20.0

    Naeini, Cooper and Hauskrecht (2015); Guo et al. (2017), arXiv:1706.04599.
    """
    gaps = [0.0] * bins
    for probability, hit in zip(sure, right, strict=True):
        gaps[min(bins - 1, int(probability * bins))] += probability - hit
    return 100 * sum(map(abs, gaps)) / len(sure) if sure else math.nan


def component_accuracies(answers: Sequence[Answer], wanted: Sequence[str]) -> dict[str, float]:
    """The accuracy of each component alone."""
    return {name: accuracy([answer.value[name] for answer in answers], wanted) for name in answers[0].value}


def component_lines(alone: Mapping[str, float], ece: float) -> list[str]:
    """The accuracy of each component alone and the calibration error, as lines for a terminal."""
    names = {"attention": "attention alone", "words": "single words alone"}
    lines = [f"{names[name]:<20} {value:.2f}" for name, value in alone.items()] if len(alone) > 1 else []
    return [*lines, f"{'calibration error':<20} {ece:.2f}"]

"""Which readers answer, the network with attention or plain models beside it, and how much each counts: validation decides."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.training.baselines import learning
from mirada.training.metrics import accuracy

NETWORK = "attention"  # the reader that is trained
FOLDS = 5  # of the records to validate on, by which readers are chosen
STEPS = 60  # of the fit of scales

Scores = Float[Tensor, "records classes"]


def chosen_scales(
    scores: Mapping[str, Scores], wanted: Int[Tensor, " records"], counts: Float[Tensor, " records"]
) -> dict[str, float]:
    """The scale of every reader that answers, as validates best in `FOLDS` parts: attention with plain readers, or one of these
    alone. Attention answers alone where nothing is better by more than chance, one standard deviation of the records that differ.

    Args:
        scores: The scores of every reader, by its name.
        wanted: The numbers of the true classes.
        counts: How often each record counts.

    >>> right = torch.eye(2).repeat(20, 1)
    >>> scores = {"attention": right[:, [1, 0]], "linear": right}
    >>> list(chosen_scales(scores, torch.arange(40) % 2, torch.ones(40)))
    ['linear']
    """
    with learning():
        given, wanted, counts = {name: one.clone() for name, one in scores.items()}, wanted.clone(), counts.clone()
        found = {names: _held_out(given, names, wanted, counts) for names in _groups(list(given))}
        best = min(found, key=lambda names: wrong_share(found[names], wanted, counts))
        right = {names: (found[names].argmax(1) == wanted).float() for names in ((NETWORK,), best)}
        more = (right[best] - right[NETWORK,]) * counts
        best = best if more.sum() > more.square().sum().sqrt() else (NETWORK,)
        return fitted_scales({name: given[name] for name in best}, wanted, counts)


def mixed_scores(scores: Mapping[str, Scores], scales: Mapping[str, float]) -> Scores:
    """The scores of the answer: the sum of scales x scores; those of attention before any scales are fitted.

    >>> mixed_scores({"attention": torch.ones(1, 2), "linear": torch.ones(1, 2)}, {"attention": 0.5, "linear": 2.0})
    tensor([[2.5000, 2.5000]])
    """
    if not scales:
        return scores[NETWORK]
    return sum((scale * scores[name] for name, scale in scales.items()), torch.tensor(0.0))


def wrong_share(scores: Scores, wanted: Tensor, counts: Tensor | None = None) -> float:
    """The share of wrong answers, each counted so often; where several have as many, the cross-entropy decides.

    >>> round(wrong_share(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1])), 2)
    0.5
    """
    counts = torch.ones(len(wanted)) if counts is None else counts
    each = (scores.argmax(1) != wanted).float() + 1e-3 * F.cross_entropy(scores, wanted, reduction="none").clamp(max=50)
    return float((each * counts).sum() / counts.sum())


def _groups(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The groups of readers that may answer: attention alone, all together, attention and one other, each plain one alone."""
    others = [name for name in names if name != NETWORK]
    return [(NETWORK,), tuple(names), *((NETWORK, name) for name in others), *((name,) for name in others)]


def _held_out(scores: Mapping[str, Scores], names: Sequence[str], wanted: Tensor, counts: Tensor) -> Scores:
    """The scores of some readers together, of each record with scales that were fitted to the others."""
    found, place = torch.zeros_like(scores[names[0]]), torch.arange(len(wanted))
    folds = min(FOLDS, len(wanted))
    for fold in range(folds):
        mine = place % folds == fold if folds > 1 else place >= 0
        rest = ~mine if folds > 1 else mine
        scales = fitted_scales({name: scores[name][rest] for name in names}, wanted[rest], counts[rest])
        found[mine] = sum((scale * scores[name][mine] for name, scale in scales.items()), torch.tensor(0.0))
    return found


def fitted_scales(scores: Mapping[str, Scores], wanted: Int[Tensor, " records"], counts: Tensor) -> dict[str, float]:
    """A positive scale for every reader, so that the softmax of the scaled sum fits the wanted classes best.

    minimize  sum over records of cross-entropy(sum of scale x scores) + sum over readers of log(scale x readers)^2 / 2

    The second term weighs as little as one record. Wolpert (1992); Guo et al. (2017), arXiv:1706.04599.
    """
    parts = torch.stack([one.double() for one in scores.values()])
    start = -math.log(len(parts))
    logs = torch.full((len(parts),), start, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        each = F.cross_entropy(torch.einsum("m,mnc->nc", logs.exp(), parts), wanted, reduction="none")
        total = ((each * counts).sum() + (logs - start).square().sum() / 2) / max(1, len(wanted))
        total.backward()
        return total

    optimizer.step(loss)
    return dict(zip(scores, logs.detach().exp().tolist(), strict=True))


# What is said of it.


def deciding_reader(label: str, alone: Mapping[str, str], mixed: Sequence[str]) -> str:
    """Which of the mixed readers decided for a label: the only one that answers, or that says so alone; else all together.

    >>> deciding_reader("cat", {"attention": "dog", "forest": "cat"}, ["attention", "forest"])
    'forest'
    >>> deciding_reader("cat", {"attention": "cat", "forest": "cat"}, ["attention", "forest"])
    'both'
    """
    names = mixed if len(mixed) == 1 else [name for name in mixed if alone[name] == label]
    return names[0] if len(names) == 1 else "both" if len(mixed) == 2 else "together"


def reader_details(
    alone: Sequence[Mapping[str, str]],
    given: Sequence[str],
    wanted: Sequence[str],
    mixed: Sequence[str],
    names: Mapping[str, str],
) -> dict[str, Any]:
    """What every reader has right alone, which ones answer, and both in a sentence.

    Args:
        alone: What every reader says of each record.
        given: The answers.
        wanted: The true labels.
        mixed: The readers that answer.
        names: What the plain ones are called.
    """
    each = {name: accuracy([labels[name] for labels in alone], wanted) for name in alone[0]}
    return {"alone": each, "mixed": list(mixed), "verdict": verdict(each, mixed, accuracy(given, wanted), names)}


def verdict(alone: Mapping[str, float], mixed: Sequence[str], together: float, plain: Mapping[str, str]) -> str:
    """What every reader has right alone, in percent, and what answers: a line for a person.

    >>> names = {"sgc": "SGC"}
    >>> verdict({"attention": 83.14, "sgc": 81.0}, ["attention", "sgc"], 84.2, names)
    'attention alone 83.1, SGC alone 81.0, both 84.2'
    >>> verdict({"attention": 70.0, "sgc": 72.7}, ["sgc"], 72.7, names)
    'attention alone 70.0, SGC alone 72.7: attention does not help on this data, SGC answers'
    """
    names = {NETWORK: NETWORK} | dict(plain)
    each = ", ".join(f"{names[name]} alone {value:.1f}" for name, value in alone.items())
    joined = " and ".join(names[name] for name in mixed)
    best = max(value for name, value in alone.items() if name != NETWORK)
    if NETWORK not in mixed:
        return f"{each}: attention does not help on this data, {joined} answers"
    if len(mixed) > 1:
        each = f"{each}, {'both' if len(alone) == 2 else joined if len(mixed) < len(alone) else 'all together'} {together:.1f}"
    return f"{each}: attention does not help on this data" if best > together else each

"""A classifier of two components, a network and a linear model of n-grams: what each run stores, and how both are combined."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.text.tokenize import TOKENIZER, Vocabulary
from mirada.errors import require
from mirada.tasks.classify.linear import LinearTexts
from mirada.tasks.classify.targets import ONE, TARGETS, Target
from mirada.training.baselines import learning

STEPS = 60  # of the fit of the scales
LINEAR = "linear.safetensors"
LISTS = ("scales", "together", "weights", "prior")  # of numbers, in config.json
READERS = ("attention", "words")
FOLDS = 10  # of the validation records, to compare a mixture with each component alone
ENOUGH = 40  # validation records that such a comparison needs


@dataclass(frozen=True)
class TextClasses(Vocabulary):
    """A tokenizer, labels and, optionally, a linear model of the texts that is combined with the network.

    scores = scales[0] x network + scales[1] x linear

    The two are trained separately: a network trained together with a fitted linear model learns only noise. The scales
    are fitted to the validation set after training; until then only the network is used.
    """

    files: ClassVar[tuple[str, ...]] = (TOKENIZER, LINEAR)

    linear: LinearTexts | None = None
    scales: tuple[float, ...] = ()  # of the components; 0: this one does not answer
    together: tuple[float, ...] = ()  # the scales of all components, where one of them answers alone
    weights: tuple[float, ...] = ()  # of the classes, where rare ones count more
    prior: tuple[float, ...] = ()  # the share of each class in the training data
    kind: str = "one"  # of what is wanted, by its name in TARGETS
    truncate: bool = False  # whether the network reads only the beginning of texts that are too long for it

    def with_linear(self, texts: Sequence[str], labels: Sequence[str], kind: str) -> Self:
        """A copy with a linear model fitted to these texts, over n-grams of this kind."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        classes = [self.target.wanted(label, numbers) for label in labels]
        return replace(self, linear=LinearTexts.fit(texts, classes, len(self.labels), kind, class_weights=self.weights))

    def component_scores(
        self, network: Float[Tensor, "texts classes"], texts: Sequence[str]
    ) -> dict[str, Float[Tensor, "texts classes"]]:
        """The scores of each component, by its name."""
        scores = {"attention": network.float().cpu()}
        return scores if self.linear is None else scores | {"words": self.linear.scores(texts)}

    @property
    def target(self) -> Target:
        """How its labels are learned and answered."""
        return TARGETS[self.kind]

    @property
    def readers(self) -> tuple[str, ...]:
        """The names of the components that answer."""
        names = ("attention",) if self.linear is None else READERS
        return tuple(n for n, s in zip(names, self.scales, strict=True) if s) if self.scales else names[:1]

    def reader_of(self, label: str, alone: Mapping[str, str]) -> str:
        """Which component decided for a label: the only one that answers, or that predicts it alone; else "both"."""
        names = [name for name in self.readers if alone[name] == label]
        return self.readers[0] if len(self.readers) == 1 else names[0] if len(names) == 1 else "both"

    def unseen(self, text: str, tokens: Sequence[int]) -> tuple[bool, bool]:
        """Whether the network has never seen any word or character of a text, and whether the linear model has not either."""
        if self.tokenizer.unknown not in tokens:
            return False, False
        pieces = self.tokenizer.pieces(text)
        if any(piece.id != self.tokenizer.unknown and any(map(str.isalnum, piece.text)) for piece in pieces):
            return False, False
        return True, self.linear is None or not self.linear.knows(text)

    def joined_scores(self, scores: Mapping[str, Float[Tensor, "texts classes"]]) -> Float[Tensor, "texts classes"]:
        """The combined scores of the components; those of the network before the scales are fitted."""
        if not self.scales:
            return scores["attention"]
        return torch.einsum("m,mrc->rc", torch.tensor(self.scales), torch.stack(list(scores.values())))

    def facts(self) -> dict[str, Any]:
        kind = {} if self.linear is None else {"beside": self.linear.kind}
        lists: dict[str, Any] = {name: list(getattr(self, name)) for name in LISTS}
        return super().facts() | kind | lists | {"truncate": self.truncate, "labels_a_text": self.kind}

    def contents(self) -> dict[str, bytes]:
        return super().contents() | {LINEAR: b"" if self.linear is None else self.linear.content()}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        known, path, wanted = super().restore(facts, paths), paths[LINEAR], "beside" in facts
        numbers = {name: facts.get(name, []) for name in LISTS}
        for name, values in numbers.items():
            good = isinstance(values, list) and all(isinstance(x, float) for x in values)
            require(good, f"the {name} in config.json must be a list of numbers")
        require(not wanted or path.exists(), f"{path} is missing: this run answers with it. Restore the file.")
        linear = LinearTexts.read(path) if wanted else None
        lists: dict[str, Any] = {name: tuple(values) for name, values in numbers.items()}
        wanted_kind = facts.get("labels_a_text", "one")
        require(wanted_kind in TARGETS, f"labels_a_text in config.json must be {' or '.join(TARGETS)}")
        return replace(known, linear=linear, truncate=facts.get("truncate") is True, kind=wanted_kind, **lists)


def fitted_scales(
    scores: Sequence[Float[Tensor, "records classes"]],
    wanted: Tensor,
    weights: Float[Tensor, " records"] | None = None,
    target: Target = ONE,
) -> tuple[float, ...]:
    """A positive scale for the scores of each model, so that the softmax of the scaled sum fits the wanted classes best.

    minimize  sum over records of cross-entropy(sum over models of scale x scores) + sum over models of log(scale x models)^2 / 2

    For one model it is 1 / temperature, which changes no prediction; for several, how much each contributes. The second
    term weighs as little as one record; it keeps the scales finite where few records are all predicted correctly.

    Guo et al. (2017), arXiv:1706.04599; Wolpert (1992) for several models.
    """
    with learning():
        parts, wanted = torch.stack([score.double() for score in scores]).detach(), wanted.clone()
        counts = torch.ones(len(wanted)) if weights is None else weights.clone()
        start = -math.log(len(parts))
        logs = torch.full((len(parts),), start, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            each = target.losses(torch.einsum("m,mrc->rc", logs.exp(), parts), wanted)
            total = (each * counts).sum() + (logs - start).square().sum() / 2
            (total / len(wanted)).backward()
            return total / len(wanted)

        optimizer.step(loss)
        return tuple(logs.detach().exp().tolist())


def chosen_scales(
    scores: Sequence[Float[Tensor, "records classes"]],
    wanted: Tensor,
    weights: Float[Tensor, " records"] | None = None,
    target: Target = ONE,
) -> tuple[float, ...]:
    """The scales of a mixture, or of the best model alone (the others have 0) if the mixture is no better than that.

    The mixture must have a smaller cross-entropy and fewer wrong answers, by more than a standard error, each record scored
    with scales that were fitted to the other folds: the weights of the network were chosen on these records, which flatters
    it. Few records cannot decide that: they keep the mixture.
    """
    count = len(wanted)
    if len(scores) == 1 or count < ENOUGH:
        return fitted_scales(scores, wanted, weights, target)
    rows, own = torch.arange(count), torch.ones(count) if weights is None else weights
    sets = [list(range(len(scores))), *([number] for number in range(len(scores)))]
    results = []
    for members in sets:
        losses, wrong = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
        for fold in range(FOLDS):
            held = rows % FOLDS == fold
            scales = fitted_scales([scores[m][~held] for m in members], wanted[~held], own[~held], target)
            mixed = sum(s * scores[m][held].double() for s, m in zip(scales, members, strict=True))
            assert isinstance(mixed, Tensor)
            losses[held], wrong[held] = target.losses(mixed, wanted[held]), target.wrong(mixed, wanted[held])
        results.append((wrong * own, losses * own))
    best = min(range(1, len(sets)), key=lambda number: [float(each.sum()) for each in results[number]])
    fewer = results[best][0] - results[0][0]
    clear = float(fewer.sum()) > float(fewer.square().sum().sqrt())  # by more than chance would
    together = clear and float(results[0][1].sum()) < float(results[best][1].sum())
    members = sets[0] if together else sets[best]
    fitted = dict(zip(members, fitted_scales([scores[m] for m in members], wanted, weights, target), strict=True))
    return tuple(fitted.get(number, 0.0) for number in range(len(scores)))


def readers_verdict(alone: Mapping[str, float], readers: Sequence[str], both: float) -> str:
    """What attention adds to the plain reader, in a line; `alone` has the accuracy of each component.

    >>> readers_verdict({"attention": 76.1, "words": 79.4}, ("attention", "words"), 79.1)
    'attention alone 76.1, words alone 79.4, both 79.1: attention does not help on this data'
    >>> readers_verdict({"attention": 80.0, "words": 82.0}, ("attention", "words"), 83.5)
    'attention alone 80.0, words alone 82.0, both 83.5: attention adds 1.5 points'
    >>> readers_verdict({"attention": 100.0, "words": 95.0}, ("attention", "words"), 95.0)
    'attention alone 100.0, words alone 95.0, both 95.0: attention alone is better here, which validation does not show'
    """
    line = f"attention alone {alone['attention']:.1f}, words alone {alone['words']:.1f}, both {both:.1f}"
    gain = round((both if len(readers) > 1 else alone[readers[0]]) - alone["words"], 1)
    if readers == ("words",):
        return f"{line}: attention does not help on the validation data, and words answer alone"
    helps = f"attention adds {gain:.1f} points" if gain > 0 else "attention does not help on this data"
    if len(readers) > 1 and gain <= 0 and round(alone["attention"] - both, 1) > 0:
        helps = "attention alone is better here, which validation does not show"
    return f"{line}: {helps}{', and answers alone' if readers == ('attention',) else ''}"


def component_accuracies(
    by_component: Sequence[Mapping[str, str]], wanted: Sequence[str], target: Target = ONE
) -> dict[str, float]:
    """The accuracy of each component alone (of several labels, the micro F1), from what the components predict."""
    names = by_component[0]
    return {n: next(iter(target.metrics([given[n] for given in by_component], wanted).values())) for n in names}


def calibration_error(probabilities: Sequence[float], right: Sequence[bool], bins: int = 15) -> float:
    """The expected calibration error in percent: the gap between the probability of answers and the share that is right.

    ece = sum over bins of probability: (answers in it / all answers) |mean probability - share of right answers|

    >>> round(calibration_error([0.9, 0.9, 0.9, 0.9, 0.6], [True, True, True, False, True]), 6)  # (4 x 0.15 + 0.4) / 5
    20.0

    Naeini, Cooper and Hauskrecht (2015); Guo et al. (2017), arXiv:1706.04599.
    """
    gaps = [0.0] * bins
    for probability, hit in zip(probabilities, right, strict=True):
        gaps[min(bins - 1, int(probability * bins))] += probability - hit
    return 100 * sum(map(abs, gaps)) / len(right) if right else math.nan

"""What all searches share: how they are called, what they check, and one step of the model."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.decoding.hypothesis import Hypothesis
from mirada.decoding.rules import Rule, SoFar
from mirada.decoding.stepper import Stepper
from mirada.errors import require
from mirada.shapes import check_axes, check_integers

HALVES = (torch.float16, torch.bfloat16)
CROWD = (
    0.75  # entries that have ended stay in the batch while the others are more than this share: leaving costs a copy
)


class Search(ABC):
    """A way to go on from a state: a value that is called with a model and the state it starts from."""

    def __call__(
        self,
        stepper: Stepper,
        state: Any,
        first: Int[Tensor, " batch"],
        end: int | None,
        most: int | Sequence[int],
        *,
        align: bool = False,
        rules: Sequence[Rule] = (),
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every entry, best first.

        `state` is `stepper.start(memory)` and `first` the start token of every entry; after a prompt, the state after all
        of it but its last token, and that token. `end` is the token that ends a text (None: nothing does). A text takes at
        most `most` steps, one number or one per entry; the end takes a step too. `align` asks for alignments. `numbers`
        are the entries' numbers in a larger whole (a file, say): what is drawn at random depends on them alone.
        """
        call = prepare(stepper, state, first, end, most, align, rules, numbers)
        with torch.inference_mode():
            return self.search(call) if len(first) else []

    @abstractmethod
    def search(self, call: "SearchCall") -> list[list[Hypothesis]]:
        """The same, of a call whose arguments fit together."""


@dataclass(frozen=True, eq=False)
class SearchCall:
    """What a search was called with, checked and complete."""

    stepper: Stepper
    state: Any
    first: Int[Tensor, " batch"]
    end: int | None
    most: list[int]
    align: bool
    rules: tuple[Rule, ...]
    numbers: list[int]
    reads: bool  # whether a rule looks at what was written

    def step(
        self, tokens: Int[Tensor, " rows"], state: Any, so_far: SoFar
    ) -> tuple[Float[Tensor, "rows vocab"], Float[Tensor, " rows"], Any]:
        """The scores that the rules leave, what makes the model's own into log-probabilities, and the next state.

        log p(token) = logits[token] - normal;  normal = log sum over all tokens of exp(logits)
        """
        logits, state = self.stepper.step(tokens, state)
        if so_far.length == 0:
            self.check_vocabulary(logits)
        if logits.dtype in HALVES:
            logits = logits.float()
        normal = logits.logsumexp(-1)
        normal = torch.add(normal, normal, alpha=0)  # infinity is not a number from here on
        for rule in self.rules:
            rule.apply(logits, so_far)
        return logits, normal, state

    def check_vocabulary(self, logits: Float[Tensor, "rows vocab"]) -> None:
        """Require scores in which the end can be found."""
        check_axes("the scores of a step", logits, "rows vocab")
        vocab = logits.shape[1]
        if self.end is not None and not self.end < vocab:
            raise ValueError(f"end must be a token of the vocabulary of {vocab}: got {self.end}")

    def check_logprob(self, logprob: float, entry: int, length: int) -> None:
        """Require a token that can be written."""
        if math.isnan(logprob):
            raise ValueError(
                f"the model's scores are not numbers, after {length} tokens of text {self.numbers[entry]}. "
                "Look for NaN or infinity in its weights and inputs."
            )
        if logprob == -math.inf:
            raise ValueError(
                f"no token may come next, after {length} tokens of text {self.numbers[entry]}: the rules "
                f"{list(self.rules)} take all of them away. Leave one out."
            )


def prepare(
    stepper: Stepper,
    state: Any,
    first: Int[Tensor, " batch"],
    end: int | None,
    most: int | Sequence[int],
    align: bool,
    rules: Sequence[Rule],
    numbers: Sequence[int] | None,
) -> SearchCall:
    """Check what a search was called with."""
    kind = type(stepper).__name__
    require(isinstance(stepper, Stepper), f"a search needs a model with start, step, reorder and alignment: got {kind}")
    require(
        not getattr(stepper, "training", False),
        f"{kind} is in training mode, where dropout would change its words. Call model.eval() first.",
    )
    check_axes("first", first, "batch")
    check_integers("first", first)
    require(end is None or end >= 0, f"end must be a token or None: got {end}")
    batch = len(first)
    limits = [most] * batch if isinstance(most, int) else list(most)
    require(len(limits) == batch, f"most must be one number, or one per entry: got {len(limits)} for batch={batch}")
    require(all(limit >= 1 for limit in limits), f"most must be at least 1: got {most}")
    given = list(range(batch)) if numbers is None else list(numbers)
    require(len(given) == batch, f"numbers must have one per entry: got {len(given)} for batch={batch}")
    for rule in rules:
        require(isinstance(rule, Rule), f"rules must be values such as Forbid([0]) or AtLeast(3): got {rule!r}")
    return SearchCall(
        stepper, state, first, end, limits, align, tuple(rules), given, reads=any(rule.reads for rule in rules)
    )  # fmt: skip

"""What all searches share: how they are called, what they check, and one step of the model."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.errors import require
from mirada.shapes import check_axes, check_integers

# The one interface between searches and models: a search works with every model that can take a step.


@runtime_checkable
class Stepper(Protocol):
    """A model that writes token by token: what a search needs of it. `state` may be of any type.

    A step may reuse the memory of the state it is given: continue from the state that it returns. The caller may change the
    returned scores: a search overwrites those of forbidden tokens with minus infinity.

    >>> from mirada.models.gpt import GPT, GPTConfig
    >>> model = GPT(GPTConfig.tiny()).eval()
    >>> isinstance(model, Stepper)
    True
    >>> logits, state = model.step(torch.tensor([3]), model.start(1))
    >>> logits.shape
    torch.Size([1, 13])
    """

    def start(self, memory: Any) -> Any:
        """The state before the first token.

        Args:
            memory: what the model's encoder returned for the sources; without a source, the number of texts.
        """

    def step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """The scores of every possible next token, and the next state.

        Args:
            tokens: the last token of every text.
            state: the state before these tokens.
        """

    def reorder(self, state: Any, index: Int[Tensor, " entries"]) -> Any:
        """The state in which entry b continues from entry index[b], as a beam search needs it.

        There may be more entries than before (a beam opens) or fewer (texts have ended).

        Args:
            state: the state after a step.
            index: the entry from which each new entry continues.
        """

    def alignment(self, state: Any) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step: weights over the places of the source.

        Args:
            state: the state after that step.
        """


@runtime_checkable
class RowStepper(Stepper, Protocol):
    """A stepper that also keeps the weights of some heads: `mirada.engine.watched` makes one."""

    def watched_rows(self, state: Any) -> "tuple[Float[Tensor, 'batch _ _'], ...]":
        """The weights of the last step: for every layer that is watched, those of its chosen heads.

        Args:
            state: the state after that step.
        """


class Look(NamedTuple):
    """Where the model looked in a step: the mean over heads, if alignments are wanted, and the heads that are watched."""

    mean: Float[Tensor, "*batch keys"] | None
    rows: tuple[Float[Tensor, "*batch _ _"], ...] = ()

    def of(self, row: int) -> "Look":
        """That of one text of the batch."""
        return Look(None if self.mean is None else self.mean[row], tuple(each[row] for each in self.rows))


# What a search returns.


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A text that a search returns.

    Args:
        tokens: the tokens, without the start and the end.
        logprob: the sum of the model's own log-probabilities, unchanged by rules, temperature or penalties. The end counts if
            it was reached.
        score: what the search ranks by.
        finished: whether the end was reached.
        alignment: where the model looked, if that was asked for: a row for every token, then one for the end if it was
            reached. Where the places grow with the text (GPT), those not written yet have weight 0.
        rows: the same for every layer that was watched, by head.

    >>> Hypothesis([5, 7], logprob=-1.5, score=-0.5, finished=True).tokens
    [5, 7]
    """

    tokens: list[int]
    logprob: float
    score: float
    finished: bool
    alignment: Float[Tensor, "steps keys"] | None = None
    rows: tuple[Float[Tensor, "_ steps _"], ...] = ()


def stacked(looks: Sequence[Float[Tensor, "*heads keys"]]) -> Float[Tensor, "*heads steps keys"]:
    """The attention weights of a text's steps as one matrix, or one for each head; later steps may have more keys.

    >>> stacked([torch.tensor([1.0]), torch.tensor([0.3, 0.7])])
    tensor([[1.0000, 0.0000],
            [0.3000, 0.7000]])
    """
    keys = max(look.shape[-1] for look in looks)
    with torch.inference_mode(False), torch.no_grad():  # an ordinary tensor, also for autograd
        padded = (look if look.shape[-1] == keys else F.pad(look, (0, keys - look.shape[-1])) for look in looks)
        return torch.stack(list(padded), dim=-2)


def joined_looks(looks: Sequence[Look]) -> dict[str, Any]:
    """The fields of a `Hypothesis` that say where the model looked, from what it looked at in every step."""
    means = [look.mean for look in looks if look.mean is not None]
    rows = tuple(stacked(list(layer)) for layer in zip(*(look.rows for look in looks), strict=True))
    return {"alignment": stacked(means) if means else None, "rows": rows}


# Rules: they forbid tokens before one is chosen.


NEVER = -torch.inf


class SoFar(NamedTuple):
    """The texts of a search so far: their length, the token that ends one, the texts if a rule reads them, further tokens that
    end one, and the normalizer of the scores: a token with this score has the probability 1.
    """

    length: int
    end: int | None
    texts: list[list[int]]
    further: tuple[int, ...] = ()
    normal: Float[Tensor, " rows"] | None = None


class Rule(ABC):
    """Forbids tokens, in place: their scores become minus infinity. A rule that needs the texts so far sets `reads`, one that
    changes scores to other numbers `changes`: the log-probability of a text is that of the scores before.

    >>> class Even(Rule):
    ...     def apply(self, logits, so_far):
    ...         logits[:, 1::2] = -torch.inf
    >>> logits = torch.zeros(1, 3)
    >>> Even().apply(logits, SoFar(length=0, end=None, texts=[]))
    >>> logits
    tensor([[0., -inf, 0.]])
    """

    reads: ClassVar[bool] = False
    changes: ClassVar[bool] = False

    @abstractmethod
    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        """Set the scores of the tokens that must not come next to minus infinity, in each row.

        Args:
            logits: the scores of the next token of every text; changed in place.
            so_far: the length of the texts, their end token, and the texts themselves if `reads` is set.
        """


@dataclass(frozen=True)
class Forbid(Rule):
    """Tokens that are never written: padding, the start, perhaps the unknown word.

    Args:
        tokens: the tokens that are never written.

    >>> logits = torch.zeros(1, 5)
    >>> Forbid([0, 3]).apply(logits, SoFar(length=0, end=1, texts=[]))
    >>> logits
    tensor([[-inf, 0., 0., -inf, 0.]])
    """

    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        require(all(token >= 0 for token in self.tokens), f"tokens must be at least 0: got {self.tokens}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        vocab = logits.shape[1]
        require(
            all(token < vocab for token in self.tokens),
            f"forbidden tokens must be in the vocabulary of {vocab}: got {self.tokens}",
        )
        logits.index_fill_(1, torch.tensor(self.tokens, dtype=torch.long, device=logits.device), NEVER)


@dataclass(frozen=True)
class AtLeast(Rule):
    """No end before `count` tokens were written.

    Args:
        count: how many tokens come before the end.

    >>> logits = torch.zeros(1, 3)
    >>> AtLeast(2).apply(logits, SoFar(length=1, end=2, texts=[]))
    >>> logits
    tensor([[0., 0., -inf]])
    """

    count: int

    def __post_init__(self) -> None:
        require(self.count >= 0, f"count must be at least 0: got {self.count}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        if so_far.end is not None and so_far.length < self.count:
            logits[:, [so_far.end, *so_far.further]] = NEVER


@dataclass(frozen=True)
class NoRepeat(Rule):
    """No sequence of `size` tokens twice in a text: `NoRepeat(1)` writes no token twice.

    Args:
        size: the length of a sequence that may not come twice.
        before: what stands before every text and counts as written, such as a start token.

    >>> logits = torch.zeros(1, 8)
    >>> NoRepeat(2).apply(logits, SoFar(length=4, end=0, texts=[[5, 6, 7, 5]]))  # 5 was followed by 6
    >>> logits
    tensor([[0., 0., 0., 0., 0., 0., -inf, 0.]])

    Paulus, Xiong and Socher (2018), arXiv:1705.04304, 2.5.
    """

    size: int
    before: tuple[int, ...] = ()
    reads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self.size >= 1, f"size must be at least 1: got {self.size}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        before = self.size - 1
        for row, written in enumerate(so_far.texts):
            text = [*self.before, *written]
            last = text[len(text) - before :]
            repeats = [text[i + before] for i in range(len(text) - before) if text[i : i + before] == last]
            if repeats:
                logits[row, repeats] = NEVER


@dataclass(frozen=True)
class ForbidSequences(Rule):
    """Sequences of tokens that are never written: the last of them is forbidden where the others came before.

    Args:
        sequences: what is never written, each of two tokens or more.

    >>> logits = torch.zeros(1, 4)
    >>> ForbidSequences(((2, 3), (3, 1))).apply(logits, SoFar(length=2, end=None, texts=[[1, 2]]))
    >>> logits
    tensor([[0., 0., 0., -inf]])
    """

    sequences: tuple[tuple[int, ...], ...]
    reads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sequences", tuple(map(tuple, self.sequences)))
        fits = all(len(sequence) > 1 and min(sequence) >= 0 for sequence in self.sequences)
        require(fits, f"sequences must have two tokens or more, each at least 0: got {self.sequences}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        for row, text in enumerate(so_far.texts):
            last = [each[-1] for each in self.sequences if tuple(text[1 - len(each) :]) == each[:-1]]
            if last:
                logits[row, last] = NEVER


@dataclass(frozen=True)
class ForceToken(Rule):
    """One token at one place, whatever the model says: its probability there counts as 1.

    Args:
        place: how many tokens come before it.
        token: the token.

    >>> logits = torch.zeros(1, 3)
    >>> ForceToken(0, token=2).apply(logits, SoFar(length=0, end=1, texts=[], normal=logits.logsumexp(-1)))
    >>> logits
    tensor([[  -inf,   -inf, 1.0986]])
    """

    place: int
    token: int

    def __post_init__(self) -> None:
        fits = min(self.place, self.token) >= 0
        require(fits, f"place and token must be at least 0: got place={self.place}, token={self.token}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        if so_far.length != self.place:
            return
        vocab = logits.shape[1]
        require(self.token < vocab, f"a forced token must be in the vocabulary of {vocab}: got {self.token}")
        logits.fill_(NEVER)
        logits[:, self.token] = 0 if so_far.normal is None else so_far.normal


@dataclass(frozen=True)
class Repeated(Rule):
    """Tokens that were there already become less likely: their scores above 0 are divided by a factor, others multiplied.

    Args:
        factor: above 1 makes repetitions less likely, below 1 likelier.
        before: the tokens of the text that is continued, which count too.

    >>> logits = torch.tensor([[3.0, -3.0, 3.0]])
    >>> Repeated(1.5, before=(1,)).apply(logits, SoFar(length=1, end=None, texts=[[0]]))
    >>> logits
    tensor([[ 2.0000, -4.5000,  3.0000]])

    Keskar et al. (2019), arXiv:1909.05858, 4.1.
    """

    factor: float
    before: tuple[int, ...] = ()
    reads: ClassVar[bool] = True
    changes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(0 < self.factor < math.inf, f"factor must be above 0 and finite: got {self.factor}")

    def apply(self, logits: Float[Tensor, "rows vocab"], so_far: SoFar) -> None:
        for row, text in enumerate(so_far.texts):
            seen = torch.tensor(sorted({*self.before, *text}), dtype=torch.long, device=logits.device)
            scores = logits[row, seen]
            logits[row, seen] = torch.where(scores > 0, scores / self.factor, scores * self.factor)


# The largest scores of a large vocabulary.


BLOCK = 64  # tokens whose largest score is found first
MANY = 1 << 15  # scores from which searching blocks first is faster, if there are
FEW = 4  # times more blocks than wanted tokens


def topk(
    logits: Float[Tensor, "rows vocab"], count: int
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """The `count` largest scores of every row, largest first, and their tokens: `Tensor.topk`, but faster for a large vocabulary.

    The largest scores are in the blocks with the largest maxima, and maxima of blocks are found by vector instructions: only
    `count` blocks need to be sorted.

    >>> topk(torch.tensor([[0.1, 0.4, 0.2]]), 2)
    (tensor([[0.4000, 0.2000]]), tensor([[1, 2]]))
    """
    rows, vocab = logits.shape
    blocks = vocab // BLOCK
    if logits.numel() < MANY or blocks < FEW * count:
        values, ids = logits.max(-1, keepdim=True) if count == 1 else logits.topk(count)
        return values, ids
    complete = blocks * BLOCK
    # raw views in a hot path: (rows, vocab) to (rows, blocks, tokens of a block)
    peaks = logits[:, :complete].view(rows, blocks, BLOCK).amax(-1)
    best = peaks.topk(count, sorted=False).indices.unsqueeze(-1)
    ids = (best * BLOCK + torch.arange(BLOCK, device=logits.device)).flatten(1)
    if complete < vocab:
        ids = torch.cat([ids, torch.arange(complete, vocab, device=logits.device).expand(rows, -1)], dim=1)
    values, at = logits.gather(1, ids).topk(count)
    return values, ids.gather(1, at)


HALVES = (torch.float16, torch.bfloat16)
CROWD = (
    0.75  # entries that have ended stay in the batch while more than this share continues: removing them costs a copy
)


class Search(ABC):
    """A way to continue texts from a state: a value that is called with a model and the state to start from.

    `Greedy`, `Sample` and `Beam` are searches; another one implements `search(call)`.

    >>> from mirada.decoding import Beam, Greedy
    >>> [isinstance(search, Search) for search in (Greedy(), Beam(size=4))]
    [True, True]
    """

    def __call__(
        self,
        stepper: Stepper,
        state: Any,
        first: Int[Tensor, " batch"],
        end: int | Sequence[int] | None,
        most: int | Sequence[int],
        *,
        align: bool = False,
        rules: Sequence[Rule] = (),
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every entry, best first.

        Args:
            stepper: the model, or an engine's stepper.
            state: `stepper.start(memory)`, or the state after a prompt without its last token.
            first: the start token of every entry, or the last token of its prompt.
            end: the token that ends a text, or several; None if nothing does.
            most: the most steps of a text, one number or one per entry; the end takes a step too.
            align: whether the hypotheses get alignments.
            rules: what must not be written, such as `Forbid([0])`.
            numbers: the numbers of the entries in the file or list that they come from: random draws depend on them alone.

        Returns:
            A list of hypotheses for every entry.
        """
        call = SearchCall(stepper, state, first, end, most, align, rules, numbers)
        with torch.inference_mode():
            return self.search(call) if len(first) else []

    @abstractmethod
    def search(self, call: "SearchCall") -> list[list[Hypothesis]]:
        """The hypotheses of every entry, of a call whose arguments were checked.

        Args:
            call: the arguments of the call.
        """


class SearchCall:
    """What a search was called with, checked and complete: `most` and `numbers` have one per entry."""

    def __init__(
        self,
        stepper: Stepper,
        state: Any,
        first: Int[Tensor, " batch"],
        end: int | Sequence[int] | None,
        most: int | Sequence[int],
        align: bool,
        rules: Sequence[Rule],
        numbers: Sequence[int] | None,
    ) -> None:
        kind, is_stepper = type(stepper).__name__, isinstance(stepper, Stepper)
        require(is_stepper, f"a search needs a model with start, step, reorder and alignment: got {kind}")
        require(
            not getattr(stepper, "training", False),
            f"{kind} is in training mode, where dropout would change its output. Call model.eval() first.",
        )
        check_axes("first", first, "batch")
        check_integers("first", first)
        ends = () if end is None else (end,) if isinstance(end, int) else tuple(dict.fromkeys(end))
        require(all(token >= 0 for token in ends), f"end must be a token or None: got {end}")
        batch = len(first)
        self.most = [most] * batch if isinstance(most, int) else list(most)
        count = len(self.most)
        require(count == batch, f"most must be one number, or one per entry: got {count} for batch={batch}")
        require(all(limit >= 1 for limit in self.most), f"most must be at least 1: got {most}")
        self.numbers = list(range(batch)) if numbers is None else list(numbers)
        count = len(self.numbers)
        require(count == batch, f"numbers must have one per entry: got {count} for batch={batch}")
        for rule in rules:
            require(isinstance(rule, Rule), f"rules must be values such as Forbid([0]) or AtLeast(3): got {rule!r}")
        self.stepper, self.state, self.first, self.align = stepper, state, first, align
        self.end, self.ends = (ends[0] if ends else None), frozenset(ends)
        self.rules = tuple(rules)
        self.watched_rows = getattr(stepper, "watched_rows", None)  # of a RowStepper
        self.reads = any(rule.reads for rule in rules)  # whether one looks at what was written

    def so_far(self, length: int, texts: list[list[int]]) -> SoFar:
        """What the rules are told."""
        return SoFar(length, self.end, texts, tuple(sorted(self.ends - {self.end})) if len(self.ends) > 1 else ())

    def step(
        self, tokens: Int[Tensor, " rows"], state: Any, so_far: SoFar
    ) -> tuple[Float[Tensor, "rows vocab"], Float[Tensor, "rows vocab"], Float[Tensor, " rows"], Any]:
        """The scores after the rules, the model's own (the same tensor, if no rule changes scores), their normalizer, and the
        next state.

        log p(token) = own[token] - normal;  normal = log sum over all tokens of exp(own)
        """
        logits, state = self.stepper.step(tokens, state)
        if so_far.length == 0:
            check_axes("the scores of a step", logits, "rows vocab")
            vocab = logits.shape[1]
            if self.ends and not max(self.ends) < vocab:
                raise ValueError(f"end must be a token of the vocabulary of {vocab}: got {max(self.ends)}")
        if logits.dtype in HALVES:
            logits = logits.float()
        normal = logits.logsumexp(-1)
        normal = torch.add(normal, normal, alpha=0)  # infinity becomes NaN here
        so_far = so_far._replace(normal=normal)
        own = logits.clone() if any(rule.changes for rule in self.rules) else logits
        for rule in self.rules:
            rule.apply(logits, so_far)
        return logits, own, normal, state

    def look(self, state: Any, mean: bool = False) -> Look:
        """Where the model looked in the last step: the mean over heads if `mean` or the caller wants it, and what is watched."""
        rows = () if self.watched_rows is None else self.watched_rows(state)
        return Look(self.stepper.alignment(state) if mean or self.align else None, rows)

    def check_logprob(self, logprob: float, entry: int, length: int) -> None:
        """Raise a ValueError if the chosen token is impossible: its log-probability is NaN or minus infinity."""
        if math.isnan(logprob):
            raise ValueError(
                f"the model's scores are not numbers, after {length} tokens of text {self.numbers[entry]}. "
                "Look for NaN or infinity in its weights and inputs."
            )
        if logprob == -math.inf:
            raise ValueError(
                f"no token may come next, after {length} tokens of text {self.numbers[entry]}: the rules "
                f"{list(self.rules)} forbid all of them. Remove one."
            )

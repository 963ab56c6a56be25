"""Searches that go on together: texts of several calls, of any lengths, take their steps in one batch."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.decoding.greedy import Choice, SingleHypothesis, hypothesis_of
from mirada.decoding.search import Forbid, Hypothesis, Look, Search, SearchCall


class Rows(Protocol):
    """What steps texts of different lengths together: `mirada.engine.SharedRows`."""

    def takes(self, state: Any, steps: int) -> bool | None:
        """Whether a text may join now; None if it never can."""

    def join(self, state: Any, steps: int) -> list[int]:
        """The numbers of the rows in which the texts of a state are continued, for at most so many steps."""

    def leave(self, rows: Sequence[int]) -> None:
        """The rows are free for other texts."""

    def step(self, tokens: Int[Tensor, " rows"], rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """The scores of the next tokens of some rows."""

    def look(self, place: int, row: int, mean: bool) -> Look:
        """Where the model looked in the last step, for a row that was the given one of the step."""


@dataclass(frozen=True, eq=False)
class SearchJob:
    """A search that is to be made: what a task asks for, whoever makes it, alone or with others.

    Args:
        search: how.
        arguments: those of its call.

    >>> from mirada.decoding import Greedy
    >>> from mirada.models.gpt import GPT, GPTConfig
    >>> model = GPT(GPTConfig.tiny()).eval()
    >>> given = {"stepper": model, "state": model.start(1), "first": torch.tensor([3]), "end": None, "most": 5}
    >>> [[text]] = SearchJob(Greedy(), given).alone()
    >>> len(text.tokens)
    5
    """

    search: Search
    arguments: dict[str, Any]

    def alone(self) -> list[list[Hypothesis]]:
        """The hypotheses of every entry, best first."""
        return self.search(**self.arguments)


@dataclass(eq=False)
class Joined:
    """A call among others: its texts as far as they are written, then its hypotheses or what is wrong."""

    search: SingleHypothesis
    call: SearchCall
    paths: list[list[Choice]]
    left: int  # texts that are not ended
    kind: int  # calls of one kind have the same search, rules and ends
    counts: bool  # whether it matters how long a text is
    hypotheses: list[list[Hypothesis]] | None = None
    error: Exception | None = None


@dataclass(eq=False)
class _Text:
    """A text that is being written: an entry of a call, in a row of the caches."""

    joined: Joined
    entry: int
    row: int
    token: int
    written: list[int] = field(default_factory=list)

    @property
    def group(self) -> tuple[int, int]:
        """Texts of equal groups choose their next tokens in one go."""
        return self.joined.kind, len(self.written) if self.joined.counts else 0


Answering = Generator[SearchJob, list[list[Hypothesis]], Any]  # work that waits for searches


def answered_alone(steps: Answering) -> Any:
    """What comes of work whose searches are made one after the other, as soon as it asks for them."""
    try:
        job = next(steps)
        while True:
            job = steps.send(job.alone())
    except StopIteration as end:
        return end.value


class ContinuousSearch:
    """Greedy and drawn texts of several calls. A call joins between two steps, and a text that has ended leaves at once.

    The tokens are those that the calls would have found alone.

    Args:
        rows: what steps them.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.texts: list[_Text] = []
        self.kinds: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def join(self, job: SearchJob) -> Joined | bool | None:
        """A call among the others; False if there is no room for it now, None if it has to be made alone."""
        if not isinstance(job.search, SingleHypothesis):
            return None
        given: dict[str, Any] = {"align": False, "rules": (), "numbers": None, **job.arguments}
        call, steps = SearchCall(**given), 0
        steps = max(call.most, default=0)
        takes = self.rows.takes(call.state, steps) if steps else None
        if not takes:
            return takes
        self.kinds = self.kinds if self.texts else {}
        kind = self.kinds.setdefault((job.search, call.rules, call.end, call.ends), len(self.kinds))
        counts = any(type(rule) is not Forbid for rule in call.rules)
        joined = Joined(job.search, call, [[] for _ in call.most], len(call.most), kind, counts)
        rows, tokens = self.rows.join(call.state, steps), call.first.tolist()
        call.state = None  # its caches were copied
        self.texts += [_Text(joined, n, row, token) for n, (row, token) in enumerate(zip(rows, tokens, strict=True))]
        return joined

    def leave(self, *gone: Joined) -> None:
        """Take all texts of some calls out."""
        ended = [text for text in self.texts if text.joined in gone]
        self.texts = [text for text in self.texts if text.joined not in gone]
        self.rows.leave([text.row for text in ended])

    def step(self) -> list[Joined]:
        """One step of all texts; returns the calls that are at their end, with hypotheses or an error."""
        tokens = torch.tensor([text.token for text in self.texts])
        logits = self.rows.step(tokens, torch.tensor([text.row for text in self.texts]))
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, text in enumerate(self.texts):
            groups.setdefault(text.group, []).append(place)
        for places in groups.values():
            self._choose(logits if len(groups) == 1 else logits[torch.tensor(places)], places)
        ended = [text for text in self.texts if self._ended(text)]
        failed = {text.joined for text in self.texts if text.joined.error is not None}
        ended = [text for text in self.texts if text in ended or text.joined in failed]
        for text in ended:
            text.joined.left -= 1
        if ended:
            gone = set(map(id, ended))
            self.texts = [text for text in self.texts if id(text) not in gone]
            self.rows.leave([text.row for text in ended])
        done = {text.joined: None for text in ended if not text.joined.left}
        for joined in done:
            if joined.error is None:
                joined.hypotheses = [[hypothesis_of(path, joined.call.ends)] for path in joined.paths]
        return list(done)

    def _choose(self, logits: Float[Tensor, "rows vocab"], places: list[int]) -> None:
        """The next tokens of texts of one group, in these places of the step."""
        texts = [self.texts[place] for place in places]
        search, call = texts[0].joined.search, texts[0].joined.call
        normal = logits.logsumexp(-1)
        normal = torch.add(normal, normal, alpha=0)  # infinity becomes NaN here
        own = logits.clone() if any(rule.changes for rule in call.rules) else logits
        so_far = call.so_far(len(texts[0].written), [text.written for text in texts] if call.reads else [])
        for rule in call.rules:
            rule.apply(logits, so_far._replace(normal=normal))
        numbers = [text.joined.call.numbers[text.entry] for text in texts]
        tokens = search.choose(logits, numbers, [len(text.written) for text in texts])
        index = tokens.unsqueeze(1)
        allowed, chosen = (each.gather(1, index).squeeze(1).tolist() for each in (logits, own))
        for n, (place, text, token, less) in enumerate(
            zip(places, texts, tokens.tolist(), normal.tolist(), strict=True)
        ):
            joined, logprob = text.joined, chosen[n] - less
            try:
                joined.call.check_logprob(allowed[n] - less, text.entry, len(text.written))
            except ValueError as error:
                joined.error = error
            watched = joined.call.align or joined.call.watched_rows is not None
            look = self.rows.look(place, text.row, joined.call.align) if watched else Look(None)
            joined.paths[text.entry].append(Choice(text.entry, text.row, token, logprob, look))
            text.token = token
            text.written.append(token)

    def _ended(self, text: _Text) -> bool:
        """Whether a text is at its end."""
        call = text.joined.call
        return text.token in call.ends or len(text.written) >= call.most[text.entry]

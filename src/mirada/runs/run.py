"""A trained run: the model, what its task knows, and the task, in Python as on the command line."""

import math
import os
import shlex
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from mirada import engine
from mirada.attention.observe import anybody_intervenes, anybody_looks
from mirada.data.batching import Examples
from mirada.data.options import DataOptions
from mirada.data.record import Record
from mirada.decoding.search import Stepper
from mirada.errors import require
from mirada.files import expanded, write_whole
from mirada.layers.model import Model
from mirada.runs.answers import Answer
from mirada.runs.ask import AskOptions
from mirada.runs.inputs import Question
from mirada.runs.settings import Settings, file_options
from mirada.runs.sources import SETS, Source, Splits, fingerprint, require_good, without
from mirada.runs.task import Task, encode
from mirada.training.recipe import MODEL

if TYPE_CHECKING:
    from mirada.decoding.continuous import Answering
    from mirada.looking.explain.compare import Explained
    from mirada.looking.labels import Labels
    from mirada.looking.record import Seen

NOT_FINITE = (
    "the model's answer is no number (NaN): its weights are damaged, or too large. Restore them, or train again."
)
FIX_FILE = "Fix these records, or take them out of the file."


_pass_follows = ContextVar("_pass_follows", default=False)  # over what is written now, for who looks


@dataclass(eq=False, repr=False)
class Run:
    """A trained model that does a task: `mirada.train` and `mirada.load` return one.

    `run("the red house")` answers one input, `run([...])` many at once; `beam=4` and the other options of the task say how.

    Args:
        folder: Where it was written.
        task: What it does.
        model: The network, a `torch.nn.Module`.
        known: What the task learned from its data: tokens, labels, scales, a graph.
        settings: All that decided the training.
        ask: How answers are wanted unless a call says otherwise.
        file_overrides: How other files are read (columns, encoding, ...), where they do not say.
        damage: Why the weights that were loaded cannot answer: NaN among them, for example.
        precision: What its engine writes texts with: "float32", "bfloat16" or "int8".

    >>> from mirada import train
    >>> rows = [(f"{a} {b} film", b) for a in ("a", "the", "one", "that", "this", "my") for b in ("good", "bad")]
    >>> size = {"steps": 2, "width": 16, "heads": 2, "depth": 1, "threads": 1}
    >>> run = train("classify", rows, out=getfixture("tmp_path") / "run", **size)
    on ... for validation: accuracy ...
    >>> answer = run("a good film")
    >>> answer.text in ("good", "bad"), 0 < answer.score <= 1, len(run(["good", "bad"]))
    (True, True, 2)
    """

    folder: Path
    task: Task
    model: Model[Any]
    known: Any
    settings: Settings
    ask: AskOptions = field(default_factory=AskOptions)
    file_overrides: Mapping[str, Any] = field(default_factory=dict)
    damage: str = ""  # why the weights that were loaded cannot answer
    precision: str = "float32"
    _engine: engine.Engine | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        if type(self.ask) is AskOptions:
            self.ask = self.task.usual_ask(self)

    @property
    def options(self) -> DataOptions:
        """How its own data is read."""
        return self.settings.data

    @property
    def reading(self) -> DataOptions:
        """How other data is read: in the same way, but what a file shows by itself is recognized again or overridden."""
        return self.options.for_another_file(self.file_overrides)

    @property
    def source(self) -> Source:
        """Where its data is."""
        return self.settings.source

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def stepper(self) -> Stepper:
        """What a search steps: the fast engine with the weights as they are now.

        While somebody intervenes in this thread it is the model itself; also while somebody looks, unless a pass over what
        was written follows.
        """
        if anybody_intervenes() or (anybody_looks() and not _pass_follows.get()):
            return cast(Stepper, self.model)
        with self._lock:
            if self._engine is None or not self._engine.holds(self.model):
                self._engine = engine.fast(self.model, self.precision)
            return self._engine.stepper

    def look(
        self,
        *inputs: Any,
        labels: "Callable[[Any], Labels] | None" = None,
        methods: bool = False,
        explained: "Explained | None" = None,
    ) -> "Seen":
        """All attention of one pass of the model.

        Args:
            inputs: What the model's `forward` takes.
            labels: Names what was seen, given what the model put out.
            methods: Compare the weights with value norms, rollout, gradients and ablation.
            explained: What these methods explain; by default the output's logits.
        """
        from mirada.looking.record import look  # most answers are not looked at, and looking brings the drawing with it

        given = self._on_device(inputs)
        with torch.no_grad(), look(self.model) as seen:
            output = self.model(*given)
        if labels is not None:
            named = labels(output)
            seen.labelled(replace(named, made=self.provenance(seen) | dict(named.made)))
        if methods:
            from mirada.looking.explain.compare import answer_methods

            seen.methods = answer_methods(self.model, given, output, seen, explained, self.check_cancelled)
        return seen

    def merged(self, out: str | Path) -> "Run":
        """Write this run as one that stands alone: with all weights, those of an adapter merged into its base's.

        Args:
            out: The folder to write; it must not hold a run yet.

        Returns:
            The run in that folder.
        """
        from mirada.runs.load import load
        from mirada.runs.settings import CONFIG
        from mirada.training.state import save_weights, weights

        folder, contents = expanded(out), self.known.contents()
        there = [name for name in (CONFIG, MODEL, *contents) if (folder / name).exists()]
        require(not there, f"{folder} has a {', '.join(there)}, which would be lost. Choose another folder.")
        recipe = replace(self.settings.recipe, tune="all")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content)
        save_weights(folder / MODEL, weights(self.model))
        write_whole(folder / CONFIG, replace(self.settings, recipe=recipe, start="", base="").to_bytes())
        return load(folder, str(self.device))

    def check_cancelled(self) -> None:
        """Called between the passes of a long computation; a run whose caller has left raises here."""

    def provenance(self, seen: "Seen") -> dict[str, str]:
        """Where a picture of attention comes from."""
        from mirada.looking.attn.write import version

        kernels = dict.fromkeys(seen[name].plan.kernel for name in seen.names)
        return {
            **version(), "torch": torch.__version__, "task": self.task.name, "model": self.settings.name,
            "run": str(self.folder), "kernel": ", ".join(kernels),
        }  # fmt: skip

    def __call__(self, inputs: Any, **ask: Any) -> Any:
        """The answer to one input, with its weights; a list or tuple of inputs has a list of answers.

        Args:
            inputs: One input, or several: a list, a column or a data frame of pandas or polars, an array.
            **ask: The options of the task, such as `beam=4`. Where weights cost time, many answers have them only with
                `aligned=True`.
        """
        inputs = self.task.listed(inputs)
        one = self.task.is_one(inputs)
        if one and hasattr(self.ask, "aligned"):
            ask = {"aligned": True} | ask
        answers = self.answers([inputs] if one else list(inputs), **ask)
        return answers[0] if one else answers

    @torch.inference_mode()
    def answers(self, inputs: list[Any], **ask: Any) -> list[Answer]:
        """An answer for every input."""
        return self._answered(inputs, self.asked(ask))

    def _answered(self, inputs: list[Any], asked: AskOptions) -> list[Answer]:
        """The answers of the task; those of weights that are damaged, or whose numbers overflow, are an error.

        While somebody looks at one answer, its text is written by the engine, as always, and one pass of the model over it
        shows what `answer.look()` shows: it is the last call of every layer. Of several answers, of models without an engine
        and of those that somebody intervenes in, every step is shown.
        """
        require(not self.damage, self.damage)
        token = _pass_follows.set(len(inputs) == 1)
        try:
            answers = self.task.answer(self, inputs, asked)
        finally:
            _pass_follows.reset(token)
        require(all(answer.is_finite for answer in answers), NOT_FINITE)
        engine_wrote = self._engine is not None and self._engine.reason is None
        if len(answers) == 1 and engine_wrote and anybody_looks() and not anybody_intervenes():
            self._show(answers[0])
        return answers

    def _show(self, answer: Answer) -> None:
        """Let who looks see the pass over an answer."""
        if isinstance(answer.replay, partial) and answer.replay.func == self.look:
            with torch.no_grad():
                self.model(*self._on_device(answer.replay.args))
        elif answer.replay is not None:
            answer.look()

    def _on_device(self, inputs: Iterable[Any]) -> list[Any]:
        """The inputs of a pass, where the model is."""
        return [x.to(self.device) if isinstance(x, Tensor) else x for x in inputs]

    def answers_in_place(self, texts: Sequence[str], **ask: Any) -> list[Answer]:
        """An answer for every input of a command line; one that cannot be answered has an error and hinders no other."""
        return self.answers_to([self.question(text) for text in texts], **ask)

    def question(self, text: str, fault: str = "") -> Question:
        """An input of a command line as a question; one that has a fault, or cannot be read, is one with an error."""
        try:
            require(not fault, fault)
            return Question(text, self.task.parse(text), (text,))
        except ValueError as error:
            return Question(text, text, (text,), str(error))

    def answers_to(self, questions: Sequence[Question], **ask: Any) -> list[Answer]:
        """An answer for every question; one that cannot be answered has an error and hinders no other."""
        asked = self.asked(ask)
        inputs = [question.input for question in questions if not question.error]
        with torch.inference_mode():
            try:
                answers = iter(self._answered(inputs, asked) if inputs else [])
            except ValueError:
                answers = (self._answer_or_error(given, asked) for given in inputs)
            return self._with_errors(questions, answers)

    def answering(self, questions: Sequence[Question], asked: AskOptions) -> "Answering":
        """The same as `answers_to`, as work that asks for its searches."""
        require(not self.damage, self.damage)
        inputs = [question.input for question in questions if not question.error]
        try:
            answers = (yield from self.task.answering(self, inputs, asked)) if inputs else []
            require(all(answer.is_finite for answer in answers), NOT_FINITE)
        except ValueError as error:
            if len(questions) == 1:
                return [Answer(self._shown(questions[0]), "", math.nan, error=str(error))]
            answers = [self._answer_or_error(given, asked) for given in inputs]
        return self._with_errors(questions, answers)

    def _with_errors(self, questions: Sequence[Question], answers: Iterable[Answer]) -> list[Answer]:
        """The answers to all questions: an error for those that have one, in their places."""
        answers = iter(answers)
        return [
            Answer(self._shown(question), "", math.nan, error=question.error) if question.error else next(answers)
            for question in questions
        ]

    @staticmethod
    def _shown(question: Question) -> str:
        """A question that cannot be answered, as its answer names it."""
        return question.input if isinstance(question.input, str) and question.input else question.where

    def _answer_or_error(self, given: Any, ask: AskOptions) -> Answer:
        try:
            return self._answered([given], ask)[0]
        except ValueError as error:
            return Answer(given if isinstance(given, str) else str(given), "", math.nan, error=str(error))

    def stream(self, given: Any, **ask: Any) -> Generator[str, None, Answer | None]:
        """The answer to one input, piece by piece as it is written; with its score, when it is at its end, it is returned."""
        require(not self.damage, self.damage)
        return self.task.stream(self, given, self.asked(ask))

    def asked(self, ask: Mapping[str, Any]) -> AskOptions:
        """How answers are wanted; an option that would change nothing in this task is refused."""
        return self.ask.changed(ask, self.task.name)

    def examples(self, records: Any) -> Examples:
        """Records as the model reads them."""
        return self.task.examples(records, self.known, self.model.config)

    def splits(self, data: Any = "", **keys: Any) -> Splits:
        """The records of a file as a test set, or those the run was trained with; bad ones are treated as in training.

        Args:
            data: A path, or data in memory; without it, the run's own data.
            **keys: How another file is read (columns, encoding, ...), where it does not say.
        """
        if isinstance(data, str) and not data:
            require(not keys, f"{', '.join(keys)} can be given for other data than the run's own: give some")
            self.source.require_here()
            splits = self.task.read(self.source, self.options)
            splits = splits if self.source.builtin else self.usable(splits, self.options)
            require(
                self.source.builtin or _is_same(self, splits),
                f"{self.source.data} has changed since this run was trained: what was held out then may have been learned. "
                "Measure on other data (--data).",
            )
            return splits
        source, options = Source(data, measured=True), self.reading
        options = options.from_dict(options.to_dict() | file_options(type(options), keys.items()))
        options = self.task.options_for_new_data(options, self.known)
        with self.explained(data, keys):
            splits = self.task.read(source, options)
            require_good(splits.problems, options, FIX_FILE)
        splits = self.usable(splits, options)
        place = data if isinstance(data, str) else "the data"
        require(len(splits.test) > 0, f"{place} has no record to measure with")
        return splits

    def usable(self, splits: Splits, options: DataOptions) -> Splits:
        """Splits without the records that cannot be used; these are an error, unless they may be skipped."""
        _, problems = encode(self, splits, [name for name in SETS if getattr(splits, name)])
        require_good(problems, options, FIX_FILE)
        return without(splits, problems)[0]

    @contextmanager
    def explained(self, place: Any, keys: Iterable[str] = ()) -> Iterator[None]:
        """If reading a place fails, name the options given for the run's own files, which are not used for others."""
        try:
            yield
        except ValueError as error:
            options = self.options.to_dict()
            given = {
                name: options[name] for name in self.options.recognized if name not in (*self.file_overrides, *keys)
            }
            before = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items() if value)
            if not before or (isinstance(place, str) and not os.path.exists(os.path.expanduser(place))):
                raise
            raise ValueError(
                f"{error}\nThis run was trained with {before}. That was about its own file: say what holds for this one."
            ) from None

    def measure(self, data: Any = "", **keys: Any) -> dict[str, float]:
        """Metrics by name, with those of plain baselines if what the run learned from is still there.

        Args:
            data: A path, or data in memory; without it, the run's own test set (valid, where there is no test).
            **keys: How another file is read, as in `splits`.
        """
        return self.measured(data if isinstance(data, Splits) else self.splits(data, **keys)).metrics

    @torch.inference_mode()
    def measured(self, splits: Splits) -> "Measured":
        """All that is known about the quality of a run: on the test set, or on the validation set where there is none."""
        records = splits.test or splits.valid
        metrics, answers = self.task.measure(self, records)
        for name, probe in splits.probes.items():
            metrics |= self.task.probe(self, name, probe)
        note = ""
        try:
            metrics |= self.task.baselines(self, lambda: splits.train or learned_from(self), records)
        except NoTrainingDataError as error:
            note = f"no plain baseline beside these figures: {error}"
        return Measured(records, answers, metrics, self.task.details(self, records, answers), note)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, task={self.task.name!r}, model={self.settings.name!r})"

    def __str__(self) -> str:
        """The run in four lines."""
        from mirada.training.log import in_a_line, read_metrics, summary

        size, events = sum(p.numel() for p in self.model.parameters()), read_metrics(self.folder / "metrics.jsonl")
        log = summary(events)
        quality = in_a_line(log.metrics) or "not measured yet"
        trained = f"{log.ended or 'not ended yet'}; {log.minutes:.1f} minutes"
        return "\n".join(
            (
                f"{self.task.name} in {self.folder}: {self.settings.name}, {size:,} parameters",
                f"data     {self.source.described}",
                f"quality  {quality}",
                f"training {'elsewhere' if self.source.imported else trained}",
            )
        )


@dataclass(frozen=True)
class Measured:
    """The records a run was measured with, the answers, the metrics by name, and further details."""

    records: Sequence[Record]
    answers: Sequence[Answer]
    metrics: dict[str, float]
    details: dict[str, Any]
    note: str = ""  # why there is no plain baseline among the metrics

    @property
    def verdict(self) -> str:
        """What the metrics mean in a sentence, where a baseline is as good."""
        from mirada.training.log import behind

        return self.details.get("verdict") or behind(self.metrics)


class NoTrainingDataError(ValueError):
    """The training data of a run is not available any more; the message says why."""


def learned_from(run: Run) -> Sequence[Record]:
    """The records that a run learned from, exactly those, read again: plain baselines learn from the same."""
    try:
        run.source.require_here()
        splits = run.task.read(run.source, run.options)
        if not _is_same(run, splits) and run.options.bad == "skip":
            splits = run.usable(splits, run.options)
        place = "its data" if run.source.in_memory else run.source.data or "the builtin data"
        require(_is_same(run, splits), f"{place} has changed since this run was trained")
    except (ValueError, OSError) as error:
        raise NoTrainingDataError(str(error).splitlines()[0]) from None
    return splits.train


def _is_same(run: Run, splits: Splits) -> bool:
    """Whether records are those that a run was trained and validated with."""
    return fingerprint(splits, run.task.identity) == run.settings.fingerprint

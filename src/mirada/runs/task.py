"""What every task defines; the rest (training, saving, answering) is the same for all."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from mirada.data.batching import BatchSource, Bucketed, Examples, FixedSize, Microbatch, in_buckets, in_sequence
from mirada.data.options import DataOptions, TableOptions
from mirada.data.record import Problem, Record, shared
from mirada.errors import require, unknown
from mirada.layers.model import Model
from mirada.runs.answers import Answer
from mirada.runs.ask import AskOptions
from mirada.runs.choice import BudgetChoice
from mirada.runs.inputs import Questions, Table, answered_table, table_questions
from mirada.runs.sources import SETS, Source, Splits, TrainingRecords, parts_held_out
from mirada.training.objectives import ModelLoss, Objective
from mirada.training.recipe import Recipe
from mirada.words import plural

if TYPE_CHECKING:
    from mirada.decoding.continuous import Answering
    from mirada.drawing.page import Section
    from mirada.runs.run import Run

T = TypeVar("T")
Input = TypeVar("Input")
Value = TypeVar("Value")
Learned = TypeVar("Learned", bound="Knowledge")
FILES = ("picture", "recording", "table")  # inputs that are files
MOST_EXAMPLE = 80  # characters of a text in a command that is shown
SAMPLES = 5  # answers shown when a training ends


class Knowledge(Protocol):
    """What a task learns from its data before a model does: tokens, labels, scales, a graph.

    `facts` and `contents` are written when a training begins; `restore` makes it again from what was written.
    """

    files: ClassVar[tuple[str, ...]]  # their names in the folder of a run

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""

    def contents(self) -> dict[str, bytes]:
        """What its files hold, by name."""

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and the files kept."""


@dataclass(frozen=True)
class Nothing:
    """For tasks that need to know nothing but their model.

    >>> Nothing.restore(Nothing().facts(), {}) == Nothing()
    True
    """

    files: ClassVar[tuple[str, ...]] = ()

    def facts(self) -> dict[str, Any]:
        """No facts."""
        return {}

    def contents(self) -> dict[str, bytes]:
        """No files."""
        return {}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """The same again."""
        return cls()


@dataclass(frozen=True)
class Preset:
    """A model of a task, by the name that the command line uses.

    Args:
        model: Its class.
        fields: Fields of its configuration that differ from the defaults of the class.

    >>> from mirada.models.gpt import GPT
    >>> Preset(GPT, {"width": 64}).fields["width"]
    64
    """

    model: type[Model]
    fields: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC, Generic[Input, Value, Learned]):
    """One thing that people want done. A task has no state: what it learned is in a `Run`.

    A task of your own defines at least `name` and `presets`, and how to `read` records, encode `examples`, `answer` inputs and
    `measure` itself (docs/extending.md has one that runs); everything else has a default.

    Class attributes:
        name: The word of the command line.
        presets: Its models by name.
        Data: The class of the options for reading files.
        Ask: The class of the options for answers.
        Known: The class of what is learned from the data before the model is.
        preview_options: Options of the sample answer that is shown after a validation.
        preview_examples: How many records are measured after every validation, for a metric that people know.
        input_columns: The columns of a table that hold inputs, the best name first.
        repeats: Whether records to measure with may be in the training data as well: a person has divided them so.
        tuned_data: Options for reading files of a run that fine-tunes a model.
        streams: Whether an answer is worth showing while it is written.
        plain_words: What the plain baselines of its metrics are called, where another name says more than the usual one.
        input_kind: "text", "question", "node", or one of FILES: "picture", "recording", "table".
    """

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Preset]]
    Data: ClassVar[type[DataOptions]] = DataOptions
    Ask: ClassVar[type[AskOptions]] = AskOptions
    Known: ClassVar[type[Knowledge]] = Nothing
    preview_options: ClassVar[Mapping[str, Any]] = {}
    preview_examples: ClassVar[int] = 0
    input_columns: ClassVar[tuple[str, ...]] = ()
    repeats: ClassVar[bool] = False
    tuned_data: ClassVar[Mapping[str, Any]] = {}
    streams: ClassVar[bool] = False
    plain_words: ClassVar[Mapping[str, str]] = {}
    input_kind: ClassVar[str] = "text"

    @property
    def takes_files(self) -> bool:
        """Whether an input is the path of a file."""
        return self.input_kind in FILES

    def preset(self, name: str) -> Preset:
        """A model of this task by name."""
        if name not in self.presets:
            raise unknown(f"model for {self.name}", name, self.presets)
        return self.presets[name]

    def for_model(self, name: str) -> "Task[Any, Any, Any]":
        """The task as one of its models does it: what it reads may differ.

        Args:
            name: The model by name.
        """
        return self

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        """Settings that need no look at the data, by group (model, recipe, data); the user's keys stand above them."""
        return {}

    def choose(self, model: str, splits: Splits[Value], options: Any, minutes: float) -> BudgetChoice:
        """Settings that data and budget decide, from a table of costs; they stand above `defaults`, below the user's keys.

        Args:
            model: The model by name.
            splits: The records.
            options: How they were read.
            minutes: The budget; 0 where the user gives none: then the choice may hold `minutes` or `epochs` of its own.
        """
        return BudgetChoice()

    # from data to batches

    @abstractmethod
    def read(self, source: Source, options: Any) -> Splits[Value]:
        """All records, and the problems found on the way. The task owns its split."""

    def identity(self, value: Value) -> bytes:
        """The bytes that identify a value, for fingerprints and duplicates."""
        return ("\x1f".join(map(str, value)) if isinstance(value, tuple | list) else str(value)).encode()

    def as_read(self, value: Value, known: Learned) -> Hashable:
        """What a model is given of a value: records to measure with are no new ones if that is equal."""
        return self.identity(value)

    def learn(self, splits: Splits[Value], options: Any, start: Learned | None) -> Learned:
        """What must be known to encode the data; `start` is what the run knows whose weights are started from."""
        return Nothing()  # type: ignore[return-value]

    def options_for_new_data(self, options: Any, known: Learned) -> Any:
        """How a run reads further data: its options, with what was left to the data when it was trained."""
        return options

    def sizes(self, known: Learned) -> dict[str, Any]:
        """The fields of the model's configuration that the data decides."""
        return {}

    def prepare(self, model: Model, known: Learned, options: Any) -> None:
        """Let a new model start from more than random numbers: word vectors, for example."""

    @abstractmethod
    def examples(self, records: Sequence[Record[Value]], known: Learned, config: Any) -> Examples:
        """Records as the model will read them. Called once for each set."""

    def problems(self, records: Sequence[Record[Value]], examples: Any, config: Any) -> list[Problem]:
        """The records that the model cannot read although they are whole: too long, for example."""
        return []

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        """What is made small: the loss that the model itself has."""
        return ModelLoss(model, recipe.smoothing)

    def batches(self, examples: Any, recipe: Recipe) -> BatchSource:
        """Batches to learn from."""
        return FixedSize(examples, recipe.batch_size, recipe.seed)

    def in_order(self, examples: Any, recipe: Recipe) -> Sequence[Microbatch]:
        """Every example once, in batches to validate on."""
        return in_sequence(examples, recipe.batch_size)

    def calibrate(self, run: "Run", records: Sequence[Record[Value]]) -> Learned:
        """What is known after training, calibrated on held-out records."""
        return run.known  # type: ignore[no-any-return]

    # from inputs to answers

    def parse(self, text: str) -> Input:
        """An input as the command line gives it: a sentence, a path, a node."""
        return text  # type: ignore[return-value]

    def is_known_name(self, run: "Run", text: str) -> bool:
        """Whether a text is a name that the run knows, which no file of this name makes another thing."""
        return False

    def listed(self, given: Any) -> Any:
        """What a program asks, where it is a column, a data frame or an array of inputs, as a list of them."""
        if isinstance(given, str | list | tuple):
            return given
        if self.takes_files:  # numbers are a picture, a sound or a series
            column = hasattr(given, "to_list") or hasattr(given, "tolist")
            return list(given) if column and isinstance(next(iter(given), None), str | Path) else given
        from mirada.data.files.memory import inputs_in_memory  # a command line asks with texts

        return inputs_in_memory(given, self.input_columns)

    def is_one(self, given: Any) -> bool:
        """Whether what a program asks is one input, not several of them."""
        return not isinstance(given, list | tuple)

    def usual_ask(self, run: "Run") -> AskOptions:
        """How a run is asked where nobody says how: an imported one may have settings of its own."""
        return self.Ask()

    def opened(self, run: "Run", given: Input) -> Any:
        """An input as `answer` takes it, after all reading that needs no model: a server does that in another thread."""
        return given

    @abstractmethod
    def answer(self, run: "Run", inputs: Sequence[Input], ask: Any) -> list[Answer]:
        """An answer for every input."""

    def answering(self, run: "Run", inputs: Sequence[Input], ask: Any) -> "Answering":
        """The same, as work that asks for its searches, so that a server can make those of several requests together; tasks
        that write texts have it.
        """
        yield from ()
        return self.answer(run, inputs, ask)

    def questions(self, run: "Run", place: str) -> Questions:
        """The inputs that a place holds, without the wanted answers: those of a table with the task's column of inputs."""
        require(bool(self.input_columns), f"{self.name} reads no inputs from files: give them as arguments")
        options = run.reading
        assert isinstance(options, TableOptions)
        return table_questions(place, self.input_columns, options, self.parse)

    def table(self, questions: Questions, answers: Sequence[Answer]) -> Table:
        """Columns and rows of a file of answers: what was in the file of inputs, then answer, score and error."""
        return answered_table(questions, answers)

    def stream(self, run: "Run", given: Input, ask: Any) -> Generator[str, None, Answer | None]:
        """The answer in pieces; at once, where the task has no better way. What it returns is the answer as a whole."""
        (answer,) = self.answer(run, [given], ask)
        yield answer.text
        return answer

    # from answers to a report

    @abstractmethod
    def measure(self, run: "Run", records: Sequence[Record[Value]]) -> tuple[dict[str, float], list[Answer]]:
        """Metrics by name, and the answers they were computed from."""

    def headline_metrics(self, means: Mapping[str, float]) -> dict[str, float]:
        """The means of a validation, by name, as a metric that people know; nothing where that must be measured."""
        return {}

    def probe(self, run: "Run", name: str, records: Sequence[Record[Value]]) -> dict[str, float]:
        """Metrics of a further test set."""
        return {f"{name}_{metric}": value for metric, value in self.measure(run, records)[0].items()}

    def details(self, run: "Run", records: Sequence[Record[Value]], answers: Sequence[Answer]) -> dict[str, Any]:
        """What `eval --json` shows in addition to the metrics: for classes, the confusion matrix."""
        return {}

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        """The details as lines for a terminal."""
        if "per_class" not in details:
            return []
        from mirada.runs.classes import class_lines

        return class_lines(details)

    def in_a_sentence(self, metrics: Mapping[str, float], details: Mapping[str, Any]) -> str:
        """The result for somebody who knows none of the metrics: the first sentence of the report; of classes, how many of a
        hundred are right, how far that is from the best plain baseline, and what is confused most.
        """
        if "confusion" not in details:
            return ""
        from mirada.runs.classes import class_sentence

        return class_sentence(metrics, details, self.plain_words)

    def baselines(self, run: "Run", learned: TrainingRecords, records: Sequence[Record[Value]]) -> dict[str, float]:
        """The same metrics of plain models that are made in seconds, so that nobody is fooled.

        `learned()` reads what the model learned from, for those that learn.
        """
        return {}

    def samples(self, run: "Run", splits: Splits[Value]) -> list[str]:
        """Inputs, as the command line takes them, whose answers are shown when a training ends."""
        return []

    def in_brief(self, answer: Answer) -> str:
        """An answer in a line, for a person who watches a training."""
        return answer.text

    def example(self, run: "Run", samples: Sequence[str]) -> str:
        """A command that asks the run something: the shortest of its samples."""
        return f"mirada run {shlex.quote(str(run.folder))} {shlex.quote(min(samples, key=len, default='...'))}"

    def length(self, value: Value) -> int | None:
        """How long the input of a record is, for quality by length; None: they are all alike."""
        return None

    def amount(self, records: Sequence[Record[Value]]) -> str:
        """How much some records are, in words."""
        return plural(len(records), "record")

    def sections(
        self, run: "Run", records: Sequence[Record[Value]], answers: Sequence[Answer]
    ) -> "list[Section]":  # fmt: skip
        """The task's own part of the report."""
        return []


def encode(run: "Run", splits: Splits[Any], parts: Sequence[str] = SETS) -> tuple[dict[str, Examples], list[Problem]]:
    """The examples of some parts of the data, and every record that cannot be used: not readable, not fit for the model, or
    both learned from and measured with. Builtin records to measure with are known to be good.
    """
    task, config = run.task, run.model.config
    sets = {name: task.examples(getattr(splits, name), run.known, config) for name in parts}
    problems = list(splits.problems)
    for name, examples in sets.items():
        problems += task.problems(getattr(splits, name), examples, config)
    source = run.settings.source
    if task.repeats:
        return sets, problems
    measured = splits.valid if source.builtin else [*splits.valid, *splits.test]
    problems += shared(splits.train, measured, task.identity)
    if not source.builtin:  # what we hold out is divided by equal texts: others than these may be alike
        bad, ours = {problem.where for problem in problems}, parts_held_out(source)
        given = [record for name in SETS[1:] if name not in ours for record in getattr(splits, name)]
        others = [record for record in given if record.where not in bad]
        if others:
            problems += shared(splits.train, others, lambda value: task.as_read(value, run.known))
    return sets, problems


class TextTask(Task[Input, Value, Learned]):
    """A task whose records are texts: word vectors to start from, and batches of texts of similar lengths."""

    labels_last: ClassVar[bool] = False  # whether what follows the first field of a record is a label, not a text

    def prepare(self, model: Model, known: Any, options: Any) -> None:
        if options.vectors:
            from mirada.hub.vectors import start_from_vectors

            start_from_vectors(model, options.vectors, known.tokens)

    def as_read(self, value: Value, known: Any) -> Hashable:
        fields = value if isinstance(value, tuple) else (value,)
        if not hasattr(known, "tokenizer") or not all(isinstance(field, str) for field in fields):
            return self.identity(value)
        texts = fields[:1] if self.labels_last else fields
        return (*map(known.tokenizer.plain, texts), *fields[len(texts) :])

    def batches(self, examples: Any, recipe: Recipe) -> BatchSource:
        return Bucketed(examples, recipe.batch_tokens, recipe.seed)

    def in_order(self, examples: Any, recipe: Recipe) -> Sequence[Microbatch]:
        return in_buckets(examples, recipe.batch_tokens)

    def samples(self, run: "Run", splits: Splits[Any]) -> list[str]:
        return [record.value[0] for record in sample_evenly(splits.test or splits.valid, SAMPLES)]

    def example(self, run: "Run", samples: Sequence[str]) -> str:
        return super().example(run, [shortened_at_word(min(samples, key=len, default="..."), MOST_EXAMPLE)])

    def length(self, value: Any) -> int:
        return len((value if isinstance(value, str) else value[0]).split())


def shortened_at_word(text: str, most: int) -> str:
    """The first words of a text that is longer than so many characters.

    >>> shortened_at_word("one two three", 9), shortened_at_word("one", 9)
    ('one two', 'one')
    """
    return text[:most].rsplit(" ", 1)[0] if len(text) > most else text


def sample_evenly(items: Sequence[T], count: int) -> Sequence[T]:
    """So many items from the whole of a sequence: files are often sorted, and their beginning is not like the rest.

    >>> sample_evenly("abcdefg", 3), sample_evenly("ab", 3)
    ('ace', 'ab')
    """
    return items[:: max(1, len(items) // max(1, count))][:count]

"""What every task must say about itself; the rest (training, saving, answering) is the same for all."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mirada.data.records import Record
from mirada.data.text import Problem
from mirada.data.tokenize import Tokenizer
from mirada.errors import unknown
from mirada.layers.config import Config
from mirada.layers.model import Model
from mirada.tasks.answer import Answer, Ask
from mirada.training.objectives import Objective, Part, Supply
from mirada.training.recipe import Recipe

if TYPE_CHECKING:
    from mirada.drawing import Section
    from mirada.tasks.run import Run

T = TypeVar("T")
SAMPLES = 5  # answers shown when a training ends


@dataclass(frozen=True, kw_only=True)
class DataConfig(Config):
    """How files are read. `columns` names the header's words, JSON keys or numbers of the columns to take, by commas;
    `bad` is what happens to records that cannot be used: stop, or skip them. `vectors` is a file of pretrained word vectors
    to start from, in text format.
    """

    tokenizer: str = "bpe"
    vocab: int = 8000
    lowercase: bool = False
    columns: str = ""
    bad: str = "stop"
    vectors: str = ""

    def check(self) -> None:
        self.at_least(1, "vocab")
        self.one_of("tokenizer", "bpe", "unigram", "word", "char")
        self.one_of("bad", "stop", "skip")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to take."""
        return tuple(name.strip() for name in self.columns.split(",") if name.strip())


@dataclass(frozen=True)
class Place:
    """Where the data is, as the user said it; nothing means the builtin data."""

    data: str = ""
    valid: str = ""

    @property
    def builtin(self) -> bool:
        return not self.data


@dataclass(frozen=True)
class Splits:
    """Records to learn from, to validate on and to be measured with, and those that cannot be used.

    `probes` are further test sets with a name (the context test of the translations, ...).
    """

    train: Sequence[Record]
    valid: Sequence[Record]
    test: Sequence[Record] = ()
    probes: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    problems: Sequence[Problem] = ()


@dataclass(frozen=True)
class Preset:
    """A model by the name that the command line uses: its class, and what sets it apart."""

    model: type[Model]
    fields: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC):
    """One thing that people want done. A task has no state: what it learned is in a `Run`."""

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    Data: ClassVar[type[DataConfig]] = DataConfig
    presets: ClassVar[Mapping[str, Preset]]
    asks: ClassVar[tuple[str, ...]]  # the fields of `Ask` that change its answers
    streams: ClassVar[bool] = False  # whether an answer is worth showing while it is written

    def preset(self, name: str) -> Preset:
        """A model of this task by name."""
        if name not in self.presets:
            raise unknown(f"model for {self.name}", name, self.presets)
        return self.presets[name]

    def defaults(self, model: str, place: Place, minutes: float) -> dict[str, dict[str, Any]]:
        """Settings that suit the data and the budget, by group; the user's keys stand above them."""
        return {}

    @abstractmethod
    def read(self, place: Place, options: DataConfig) -> Splits:
        """All records, and the problems found on the way."""

    @abstractmethod
    def texts(self, train: Sequence[Record]) -> Sequence[str]:
        """What the tokenizer learns from."""

    def facts(self, splits: Splits) -> dict[str, Any]:
        """What else must be known to use the model: labels, for example."""
        return {}

    @abstractmethod
    def lengths(self, records: Sequence[Record], run: "Run") -> Sequence[tuple[int, ...]]:
        """Tokens of every field, as the model will see them."""

    @abstractmethod
    def sizes(self, tokenizer: Tokenizer, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the model's configuration that the data decides."""

    @abstractmethod
    def objective(self, model: Model, recipe: Recipe) -> Objective:
        """What is made small."""

    @abstractmethod
    def supply(self, records: Sequence[Record], run: "Run", recipe: Recipe) -> Supply:
        """Batches to learn from."""

    @abstractmethod
    def parts(self, records: Sequence[Record], run: "Run", recipe: Recipe) -> Sequence[Part]:
        """Batches to validate on."""

    @abstractmethod
    def answer(self, run: "Run", inputs: Sequence[str], ask: Ask) -> list[Answer]:
        """An answer for every input."""

    def stream(self, run: "Run", text: str, ask: Ask) -> Iterator[str]:
        """The answer in pieces; at once, where the task has no better way."""
        yield self.answer(run, [text], ask)[0].text

    @abstractmethod
    def measure(self, run: "Run", records: Sequence[Record]) -> tuple[dict[str, float], list[Answer]]:
        """Metrics by name, and the answers they were computed from."""

    def probe(self, run: "Run", name: str, records: Sequence[Record]) -> dict[str, float]:
        """Metrics of a further test set."""
        return {f"{name}_{metric}": value for metric, value in self.measure(run, records)[0].items()}

    def samples(self, run: "Run", splits: Splits) -> list[str]:
        """Inputs whose answers are shown when a training ends."""
        return [record.fields[0] for record in spread(splits.test or splits.valid, SAMPLES)]

    def amount(self, records: Sequence[Record]) -> str:
        """How much some records are, in words."""
        return f"{len(records):,} record{'' if len(records) == 1 else 's'}"

    def sections(self, run: "Run", records: Sequence[Record], answers: Sequence[Answer]) -> "list[Section]":
        """The task's own part of the report."""
        return []


def spread(items: Sequence[T], count: int) -> Sequence[T]:
    """So many items from the whole of a sequence: files are often sorted, and their beginning is not like the rest.

    >>> spread("abcdefg", 3), spread("ab", 3)
    ('ace', 'ab')
    """
    return items[:: max(1, len(items) // count)][:count]

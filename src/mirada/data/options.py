"""How data is read: the KEY=VALUE of a command that are about its files."""

from dataclasses import dataclass
from typing import ClassVar

from mirada.config import Config


@dataclass(frozen=True, kw_only=True)
class DataOptions(Config):
    """What every task can be told about its data. `bad` is what happens to records that cannot be used: stop, or skip."""

    of_files: ClassVar[tuple[str, ...]] = ("bad",)  # they belong to one run's files, not to what a model can read
    fixed: ClassVar[tuple[str, ...]] = ()  # a run that starts from another's weights must have the same

    bad: str = "stop"

    def check(self) -> None:
        self.one_of("bad", "stop", "skip")


@dataclass(frozen=True, kw_only=True)
class TableOptions(DataOptions):
    """Rows of cells. `columns` names the header's words, JSON keys or numbers of the columns to take, by commas."""

    of_files: ClassVar[tuple[str, ...]] = ("bad", "columns")

    columns: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to take."""
        return tuple(name.strip() for name in self.columns.split(",") if name.strip())


@dataclass(frozen=True, kw_only=True)
class TextOptions(TableOptions):
    """Texts and their tokens. `vectors` is a file of pretrained word vectors to start from, in text format."""

    of_files: ClassVar[tuple[str, ...]] = ("bad", "columns", "vectors")
    fixed: ClassVar[tuple[str, ...]] = ("tokenizer", "vocab", "lowercase")

    tokenizer: str = "bpe"
    vocab: int = 8000
    lowercase: bool = False
    vectors: str = ""

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab")
        self.one_of("tokenizer", "bpe", "unigram", "word", "char")

"""How data is read: the KEY=VALUE of a command that are about its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from mirada.config import Config


@dataclass(frozen=True, kw_only=True)
class DataOptions(Config):
    """The options that every task has for its data. `bad` is what happens to records that cannot be used: stop, or skip.

    `split` are the shares of the records to learn from, to validate on and to be measured with: 0.8,0.1,0.1; without it,
    some are held out to validate on.
    """

    of_files: ClassVar[tuple[str, ...]] = ("bad", "split")  # they belong to one run's files, not to what a model reads
    fixed: ClassVar[tuple[str, ...]] = ()  # a run that starts from another's weights must have the same
    recognized: ClassVar[tuple[str, ...]] = ()  # recognized in every file, unless they are given for it
    split_by_rows: ClassVar[bool] = False  # whether `split` may be numbers of rows

    bad: str = "stop"
    split: str = ""

    def for_another_file(self, overrides: Mapping[str, Any]) -> Self:
        """The same for another file: what is recognized in a file is recognized again, unless `overrides` has it.

        >>> TableOptions(bad="skip", columns="review,stars", encoding="cp1252").for_another_file({"header": "no"})
        TableOptions(bad='skip', split='', columns='', header='no', separator='', encoding='')
        """
        kept = {name: value for name, value in self.to_dict().items() if name not in self.recognized}
        return type(self).from_dict({**kept, **overrides})

    def check(self) -> None:
        self.one_of("bad", "stop", "skip")
        shares = self.shares
        rows = self.split_by_rows and all(share >= 1 and share == int(share) for share in shares)
        sums = all(0 < share < 1 for share in shares) and abs(sum(shares) - 1) <= 1e-6
        if len(shares) not in (0, 2, 3) or (shares and not rows and not sums):
            numbers = ", or numbers of rows, such as 8640,2880,2880" if self.split_by_rows else ""
            raise ValueError(
                f"split must be shares of train, valid and test that add up to 1, such as 0.8,0.1,0.1{numbers}: "
                f"got {self.split!r}"
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """The numbers of `split`; a 0, which no share is, where one is no number."""
        try:
            return tuple(map(float, self.split.split(","))) if self.split.strip() else ()
        except ValueError:
            return (0.0,)


@dataclass(frozen=True, kw_only=True)
class TableOptions(DataOptions):
    """Rows of cells. `columns` names the header's words, JSON keys or numbers of the columns to take, by commas.

    What is recognized can also be given: `header` (yes or no), `separator` (a character, or tab), `encoding` (of Python).
    """

    recognized: ClassVar[tuple[str, ...]] = ("columns", "header", "separator", "encoding")
    of_files: ClassVar[tuple[str, ...]] = (*DataOptions.of_files, *recognized)

    columns: str = ""
    header: str = ""
    separator: str = ""
    encoding: str = ""

    def check(self) -> None:
        super().check()
        self.one_of("header", "", "yes", "no")
        if self.encoding:
            try:
                "".encode(self.encoding)
            except LookupError:
                raise ValueError(
                    f"unknown encoding {self.encoding!r}; known are utf-8, latin-1, cp1252, utf-16, ..."
                ) from None
        if len(self.separator.replace("tab", "\t").replace("\\t", "\t")) > 1:
            raise ValueError(f"separator must be one character, or tab: got {self.separator!r}")

    @property
    def delimiter(self) -> str:
        """The separator as a character; none where it is to be recognized."""
        return {"tab": "\t", "\\t": "\t"}.get(self.separator, self.separator)

    @property
    def describes_table(self) -> bool:
        """Whether an option is given that only a table has."""
        return bool(self.columns or self.header or self.separator)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to take."""
        return tuple(name.strip() for name in self.columns.split(",") if name.strip())


@dataclass(frozen=True, kw_only=True)
class TextOptions(TableOptions):
    """Texts and their tokens. `vectors` is a file of pretrained word vectors to start from, in text format."""

    of_files: ClassVar[tuple[str, ...]] = (*TableOptions.of_files, "vectors")
    fixed: ClassVar[tuple[str, ...]] = ("tokenizer", "vocab", "lowercase")

    tokenizer: str = "bpe"
    vocab: int = 8000
    lowercase: bool = False
    vectors: str = ""

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab")
        self.one_of("tokenizer", "bpe", "unigram", "word", "char")

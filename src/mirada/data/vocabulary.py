"""What a task learns from texts before a model does: its tokens, and the labels they can have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from mirada.data.options import TextOptions
from mirada.data.tokenize import Tokenizer
from mirada.errors import require

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer and, where texts are classified, the labels in their order."""

    files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls, texts: Iterable[str], options: TextOptions, start: "Vocabulary | None", labels: Iterable[str] = ()
    ) -> Self:
        """The tokens of these texts; those of the run to start from, where there is one."""
        if start is not None:
            return cls(start.tokenizer, tuple(labels))
        return cls(Tokenizer.train(texts, options.tokenizer, options.vocab, options.lowercase), tuple(labels))

    def __len__(self) -> int:
        return len(self.tokenizer)

    @property
    def tokens(self) -> list[str]:
        """All tokens, in the order of their numbers."""
        return [self.tokenizer.token(number) for number in range(len(self))]

    def fitted(self, tokens: list[int], most: int, text: str, truncate: bool = False) -> list[int]:
        """The tokens of an input that a model can read: all, or where it may be cut, the first and the last of them."""
        require(
            truncate or len(tokens) <= most,
            f"an input has {len(tokens)} tokens and the model reads at most {most}: {text[:60]!r}... "
            "Cut it, or let it be cut: --truncate (in Python and JSON: truncate).",
        )
        return tokens if len(tokens) <= most else [*tokens[: most - 1], tokens[-1]]

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return {"labels": list(self.labels)} if self.labels else {}

    def contents(self) -> dict[str, bytes]:
        """Its files, by name."""
        return {TOKENIZER: self.tokenizer.to_json().encode()}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and `contents` kept; `paths` has the places of its files."""
        labels = facts.get("labels", [])
        require(
            isinstance(labels, list) and all(isinstance(label, str) for label in labels),
            "the labels in config.json must be a list of texts",
        )
        return cls(Tokenizer.load(paths[TOKENIZER]), tuple(labels))

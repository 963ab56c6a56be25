"""What a run of a Whisper knows: its tokenizer, its special tokens, its languages, and how it hears.

`WhisperVocabulary` reads what the checkpoint states; where it states nothing, it finds tokens by their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from mirada.data.text.tokenize import TOKENIZER, Tokenizer, Vocabulary
from mirada.decoding.search import Forbid, Rule
from mirada.errors import require, unknown
from mirada.tasks.transcribe.timestamps import ForbidFirst, Timestamps
from mirada.tasks.transcribe.windows import LogMel, Waveform

START, HIDDEN = "<|startoftranscript|>", "<|notimestamps|>"
TRANSCRIBE, TRANSLATE = "transcribe", "translate"
MULTILINGUAL = 51_865  # tokens of the published models that know several languages; those of English have fewer
SMOOTHING = 7  # places of the median filter, where a checkpoint does not say


@dataclass(frozen=True)
class WhisperVocabulary:
    """A tokenizer and what a checkpoint states: `stated` are the facts of `hub.whisper.checkpoint`."""

    files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    vocabulary: Vocabulary
    stated: Mapping[str, Any] = field(repr=False)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the texts."""
        return self.vocabulary.tokenizer

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return dict(self.stated)

    def contents(self) -> dict[str, bytes]:
        """Its files, by name."""
        return self.vocabulary.contents()

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and the files kept; what cannot be is an error here, not in the middle of an answer."""
        known = cls(Vocabulary.restore({}, paths), facts)
        known.hears, known.start, known.end, known.hidden, known.languages, known.tasks, known.heads  # noqa: B018
        known.rules(timestamps=known.hidden is not None)
        return known

    def spoken(self, language: str) -> Self:
        """The same for data in which one language is spoken, which a model that knows several must be told."""
        told = not self.languages or bool(language or self.stated.get("spoken"))
        require(told, "this model knows several languages: say which one the texts are in, such as language=de")
        if language:
            self.language(language)
        return replace(self, stated={**self.stated, "spoken": language}) if language else self

    def spoken_token(self, asked: str) -> int | None:
        """The token of the language that is asked for, or of the one that it was fine-tuned with; None: neither."""
        code = asked or str(self.stated.get("spoken", ""))
        return self.language(code) if code else None

    def encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts, whose first words have a space before them as all others have."""
        return self.tokenizer.encode_all([f" {text.strip()}" for text in texts])

    # how it hears

    @cached_property
    def hears(self) -> LogMel:
        """The sizes of frames and windows."""
        return LogMel.of(self._table("processor"), self._size("mels"), self._size("places"))

    @property
    def waves(self) -> Waveform:
        """How recordings are kept."""
        return Waveform(self.hears.rate)

    # numbers of tokens

    @cached_property
    def start(self) -> int:
        """The token that every text begins with."""
        return self._token("decoder_start_token_id", START)

    @cached_property
    def end(self) -> int:
        """The token that ends a text; those before it are text."""
        return self._token("eos_token_id", "<|endoftext|>")

    @cached_property
    def hidden(self) -> int | None:
        """The token that says that there are no timestamps, which follow it; None: the model writes none."""
        found = self._stated("no_timestamps_token_id")
        found = self._named(HIDDEN) if found is None else found
        return None if found is None or self._number(found, HIDDEN) + 1 >= self._size("vocab") else found

    @property
    def first(self) -> int | None:
        """The token of moment 0."""
        return None if self.hidden is None else self.hidden + 1

    @cached_property
    def languages(self) -> dict[str, int]:
        """The tokens of the languages by their codes; none, where the model knows one language."""
        stated, several = self._stated("lang_to_id"), self._stated("is_multilingual")
        several = self._size("vocab") >= MULTILINGUAL if several is None and stated is None else several is not False
        if not several:
            return {}
        found = stated if isinstance(stated, Mapping) else self._names_between()
        return {str(name).strip("<|>"): self._number(token, name) for name, token in found.items()}

    @cached_property
    def tasks(self) -> dict[str, int]:
        """The tokens that say what is wanted: a transcript, or its translation into English."""
        stated = self._stated("task_to_id")
        found = stated if isinstance(stated, Mapping) else {n: self._named(f"<|{n}|>") for n in (TRANSCRIBE, TRANSLATE)}
        return {str(name): self._number(token, name) for name, token in found.items() if token is not None}

    @cached_property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """The layers and heads of the decoder that follow the sound; none, where the checkpoint names none."""
        stated = self._stated("alignment_heads") or []
        pairs = isinstance(stated, list) and all(
            isinstance(pair, list) and len(pair) == 2 and all(type(number) is int and number >= 0 for number in pair)
            for pair in stated
        )
        require(pairs, f"alignment_heads must be pairs of numbers, a layer and a head: got {str(stated)[:80]}")
        return tuple((layer, head) for layer, head in stated)

    @property
    def smoothing(self) -> int:
        """Places of the median filter over the weights of these heads."""
        width = self._stated("median_filter_width")
        return width if type(width) is int and 0 < width < 1000 and width % 2 else SMOOTHING

    # what is said to the model

    def language(self, code: str) -> int:
        """The token of a language.

        A name that is not known is an error with the nearest one.
        """
        require(bool(self.languages), f"this model knows one language only: leave out language={code!r}")
        if code.strip("<|>").lower() not in self.languages:
            raise unknown("language", code, self.languages)
        return self.languages[code.strip("<|>").lower()]

    def prompt(self, language: int | None, task: str, timestamps: bool) -> list[int]:
        """What a text begins with: the language and what is wanted, where the model knows several; no timestamps, if so."""
        require(self.hidden is not None or not timestamps, NO_TIMESTAMPS)
        asked = [] if language is None else [language, *([self.tasks[task]] if task in self.tasks else [])]
        return [self.start, *asked, *([self.hidden] if self.hidden is not None and not timestamps else [])]

    def rules(self, timestamps: bool) -> tuple[Rule, ...]:
        """What must not be written, in the order in which it is applied."""
        rules: list[Rule] = []
        if first := self._listed("begin_suppress_tokens"):
            rules.append(ForbidFirst(first))
        if never := self._listed("suppress_tokens"):
            rules.append(Forbid(never))
        if timestamps and self.hidden is not None:
            latest = self._stated("max_initial_timestamp_index")
            latest = latest if type(latest) is int and latest >= 0 else None
            rules.append(Timestamps(self.hidden + 1, self.end, self.hidden, latest))
        return tuple(rules)

    def text(self, tokens: Sequence[int]) -> str:
        """What is written, without timestamps and other special tokens; the space before its first word stays."""
        known = len(self.tokenizer)
        return self.tokenizer.decode([token for token in tokens if token < min(self.end, known)])

    # reading what is stated

    def _stated(self, key: str) -> Any:
        """What generation_config.json says, or config.json."""
        found = self._table("generation").get(key)
        return self.stated.get(key) if found is None else found

    def _table(self, key: str) -> Mapping[str, Any]:
        table = self.stated.get(key, {})
        require(isinstance(table, Mapping), f"{key} in config.json must have names: got {str(table)[:80]}")
        return table  # type: ignore[no-any-return]

    def _size(self, key: str) -> int:
        size = self.stated.get(key)
        require(type(size) is int and size > 0, f"{key} in config.json must be a positive number: got {str(size)[:80]}")
        return size  # type: ignore[return-value]

    def _number(self, token: Any, name: Any) -> int:
        """A token that the model has."""
        vocab = self._size("vocab")
        right = type(token) is int and 0 <= token < vocab
        require(right, f"the token {str(name)[:40]!r} must lie in 0..{vocab - 1}: got {str(token)[:40]}")
        return token  # type: ignore[no-any-return]

    def _token(self, key: str, name: str) -> int:
        """A token that a checkpoint states by number, or has by name."""
        found = self._stated(key)
        found = found[0] if isinstance(found, list) and found else found
        found = self._named(name) if found is None else found
        require(found is not None, f"neither {key} in config.json nor {name} in the tokenizer says which token it is")
        return self._number(found, key)

    def _named(self, name: str) -> int | None:
        """The number of a token of the tokenizer, if it has the token."""
        engine = getattr(self.tokenizer, "engine", None)
        return None if engine is None else engine.token_to_id(name)

    def _names_between(self) -> dict[str, int]:
        """The tokens of languages: those between the start and what is wanted, as `<|en|>`."""
        engine, last = getattr(self.tokenizer, "engine", None), self._named(f"<|{TRANSLATE}|>")
        if engine is None or last is None:
            return {}
        names = {number: engine.id_to_token(number) for number in range(self.start + 1, last)}
        return {name: number for number, name in names.items() if name}

    def _listed(self, key: str) -> tuple[int, ...]:
        """Tokens of a list; -1 stands for nothing, and what the model does not have is never written anyway."""
        listed, vocab = self._stated(key) or [], self._size("vocab")
        numbers = isinstance(listed, list) and all(type(token) is int for token in listed)
        require(numbers, f"{key} must be a list of tokens: got {str(listed)[:80]}")
        return tuple(token for token in listed if 0 <= token < vocab)


NO_TIMESTAMPS = "this checkpoint has no timestamp tokens: leave out timestamps"

"""What a run of translations knows: its tokenizer, and of a model from elsewhere how its texts begin, end and are found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from mirada.data.options import TextOptions
from mirada.data.text.tokenize import TOKENIZER, Tokenizer, Vocabulary
from mirada.decoding.search import AtLeast, Forbid, ForbidSequences, ForceToken, NoRepeat, Repeated, Rule
from mirada.errors import require, require_known

NOTHING = -1  # the number of no token
SHOWN = 8  # codes of languages in an error


class Sides(NamedTuple):
    """From which language to which, as codes that the tokenizer knows, and what stands before every source."""

    source: str = ""
    target: str = ""
    prefix: str = ""

    def over(self, usual: "Sides") -> "Sides":
        """These, and the usual ones where nothing is said."""
        return Sides(*(mine or other for mine, other in zip(self, usual, strict=True)))


USUAL = Sides()


@dataclass(frozen=True)
class PairVocabulary(Vocabulary):
    """What a model trained here knows: it reads a source with its end token, and writes after the start token.

    `usual` is what stands before every source, where nobody says otherwise.
    """

    files: ClassVar[tuple[str, ...]] = (TOKENIZER,)
    is_foreign: ClassVar[bool] = False  # whether the model was made elsewhere

    usual: Sides = USUAL

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        usual = {name: text for name, text in self.usual._asdict().items() if text}
        return {**super().facts(), **({"usual": usual} if usual else {})}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> "PairVocabulary":  # type: ignore[override]
        """What `facts` and the files kept; what cannot be is an error here, not in the middle of an answer."""
        known, usual = super().restore(facts, paths), facts.get("usual", {})
        good = isinstance(usual, Mapping) and set(usual) <= set(Sides._fields)
        require(good and all(isinstance(text, str) for text in usual.values()), "the usual languages must be texts")
        if "start_token" not in facts:
            return replace(known, usual=Sides(**usual))
        stated = {name: value for name, value in facts.items() if name not in ("labels", "usual")}
        require(isinstance(stated.get("writing", {}), Mapping), "what is said about writing must have names")
        return ImportedPairs(known.tokenizer, known.labels, Sides(**usual), stated)

    @classmethod
    def learn(  # type: ignore[override]
        cls, texts: Iterable[str], options: TextOptions, start: "Vocabulary | None", sides: Sides = USUAL
    ) -> "PairVocabulary":
        """The tokens of these texts, or what the run to start from knows; with the languages and the words of these sides."""
        known = start if isinstance(start, PairVocabulary) else super().learn(texts, options, start)
        sides = sides.over(known.usual)
        known.require_languages(sides)
        return replace(known, usual=sides)

    def require_languages(self, sides: Sides) -> None:
        """Require codes of languages that the tokenizer knows, if some are given: one that was learned here knows none."""
        for name, code in (("source", sides.source), ("target", sides.target)):
            require(not code, f"{name}={code}: this model has no codes of languages. Leave {name} out.")

    # tokens

    def given(self, text: str, sides: Sides = USUAL) -> str:
        """A text with the words that stand before every input."""
        prefix = sides.prefix or self.usual.prefix
        return prefix + text if prefix else text

    def sources(
        self, texts: Sequence[str], sides: Sides = USUAL, most: int = 0, truncate: bool = False
    ) -> list[list[int]]:
        """What the encoder is given of every text: at most so many tokens, if a limit is given."""
        self.require_languages(sides)
        tokens = self.tokenizer.encode_all([self.given(text, sides) for text in texts])
        found = [[*ids, self.tokenizer.end] for ids in tokens]
        fits = not most or max(map(len, found), default=0) <= most
        return (
            found if fits else [self.fitted(*each, truncate) for each in zip(found, repeat(most), texts, strict=False)]
        )

    def around(self, sides: Sides = USUAL) -> tuple[int, int]:
        """How many tokens the encoder is given before a text, and how many after it."""
        return 0, 1

    def targets(self, texts: Sequence[str], sides: Sides = USUAL) -> list[list[int]]:
        """What the decoder is to write of every text, with the end."""
        return [[*ids, self.tokenizer.end] for ids in self.tokenizer.encode_all(list(texts))]

    def first(self, sides: Sides = USUAL) -> int:
        """The token that the decoder is given before it writes."""
        return self.tokenizer.start

    @property
    def writes(self) -> Tokenizer:
        """The tokenizer of the texts that are written."""
        return self.tokenizer

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text, the usual one first."""
        return (self.tokenizer.end,)

    # how a text is searched for

    def most(self) -> int:
        """The most tokens of a text with its end, if the checkpoint says it; else 0."""
        return 0

    def asks(self) -> dict[str, Any]:
        """How answers are wanted, unless somebody says otherwise: options of `TranslateAsk`."""
        return {}

    def rules(self, most: int = 0, no_repeat: int = 0, sides: Sides = USUAL) -> list[Rule]:
        """What must not be written, and what must; `most` is the limit of all texts, where they have one in common."""
        tokenizer = self.tokenizer
        kept = {tokenizer.end, tokenizer.unknown} if tokenizer.kind == "word" else {tokenizer.end}
        own: list[Rule] = [Forbid(tuple(sorted(tokenizer.special - kept)))]
        return [*own, NoRepeat(no_repeat)] if no_repeat else own


@dataclass(frozen=True)
class ImportedPairs(PairVocabulary):
    """What a model from elsewhere knows; `stated` are the facts of the checkpoint's family (`hub/bart.py`, `hub/t5.py`).

    It reads what its tokenizer frames, and writes after its own start token, perhaps a first token that says the language,
    then the rest.
    """

    is_foreign: ClassVar[bool] = True

    stated: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), **self.stated}

    def require_languages(self, sides: Sides) -> None:
        codes = self.tokenizer.languages
        if not codes:
            super().require_languages(sides)
        for name, code in (("source", sides.source), ("target", sides.target)):
            if code:
                require_known(name, code, codes)

    # tokens

    def sources(
        self, texts: Sequence[str], sides: Sides = USUAL, most: int = 0, truncate: bool = False
    ) -> list[list[int]]:
        sides = sides.over(self.usual)
        self.require_languages(sides)
        around, found = sum(self.around(sides)), []
        for text, ids in zip(
            texts, self.tokenizer.encode_all([self.given(text, sides) for text in texts]), strict=True
        ):
            if most and len(ids) + around > most:
                self.fitted([*ids, *[0] * around], most, text, truncate)  # an error, unless it may be cut
                ids = ids[: max(0, most - around)]
            found.append(self._framed(self.tokenizer, ids, sides.source))
        return found

    def around(self, sides: Sides = USUAL) -> tuple[int, int]:
        framed = self._framed(self.tokenizer, [NOTHING], sides.over(self.usual).source)
        before = framed.index(NOTHING)
        return before, len(framed) - before - 1

    def targets(self, texts: Sequence[str], sides: Sides = USUAL) -> list[list[int]]:
        """What the decoder is to write of every text: with the language where it writes that, and the end."""
        tokens, language = self.writes.encode_all(list(texts)), sides.over(self.usual).target
        if self.stated.get("language_starts"):
            return [[*ids, self.ends[0]] for ids in tokens]
        return [self._framed(self.writes, ids, language) for ids in tokens]

    def first(self, sides: Sides = USUAL) -> int:
        sides = sides.over(self.usual)
        self.require_languages(sides)
        start: int | None = self.stated["start_token"]
        if self.stated.get("language_starts") and sides.target:
            start = self.tokenizer.languages[sides.target]
        codes = self.tokenizer.languages
        said = sides.target or "first" in self._writing or start in codes.values() or not codes
        require(bool(said), f"say the language of the answer: --target (target=), one of {_listed(codes)}")
        require(
            start is not None, "config.json of this checkpoint names no decoder_start_token_id: nothing can be written"
        )
        assert start is not None
        return start

    @property
    def writes(self) -> Tokenizer:
        return self.tokenizer.target

    @property
    def ends(self) -> tuple[int, ...]:
        return tuple(self._writing.get("end_tokens", ())) or (self.tokenizer.end,)

    def _framed(self, tokenizer: Tokenizer, ids: Sequence[int], language: str) -> list[int]:
        """The tokens of a text with those around it."""
        if language:
            return tokenizer.framed(ids, language=language)[0]  # type: ignore[call-arg]  # of tokenizers with languages
        return tokenizer.framed(ids)[0]

    # how a text is searched for

    @property
    def _writing(self) -> Mapping[str, Any]:
        """What the checkpoint says about writing (`hub/generation.py`)."""
        said: Mapping[str, Any] = self.stated.get("writing", {})
        return said

    def most(self) -> int:
        most: int = self._writing.get("most", 0)
        return most

    def asks(self) -> dict[str, Any]:
        named = {"beam": "beam", "stop": "stop", "length_penalty": "length_penalty", "no_repeat": "no_repeat"}
        said = {ours: self._writing[theirs] for ours, theirs in named.items() if theirs in self._writing}
        drawn = {name: self._writing[name] for name in ("temperature", "top_k", "top_p") if name in self._writing}
        return said | ({} if said.get("beam", 1) > 1 else drawn)

    def rules(self, most: int = 0, no_repeat: int = 0, sides: Sides = USUAL) -> list[Rule]:
        said, language = self._writing, sides.over(self.usual).target
        first = said.get("first")
        if language and not self.stated.get("language_starts"):
            first = self.tokenizer.languages[language]
        rules: list[Rule] = [NoRepeat(no_repeat, (self.first(sides),))] if no_repeat else []
        rules += [Repeated(said["repetition"], (self.first(sides),))] if said.get("repetition") else []
        rules += [Forbid(tuple(said["forbid"]))] if said.get("forbid") else []
        rules += [ForbidSequences(tuple(map(tuple, said["forbid_sequences"])))] if said.get("forbid_sequences") else []
        rules += [AtLeast(min(said["least"], most - 1) if most else said["least"])] if said.get("least") else []
        rules += [ForceToken(0, first)] if first is not None else []
        return [*rules, ForceToken(most - 1, said["last"])] if most and said.get("last") is not None else rules


def _listed(codes: Mapping[str, int]) -> str:
    """The first codes of languages."""
    some = sorted(codes)
    return ", ".join(some[:SHOWN]) + (f" and {len(some) - SHOWN} more" if len(some) > SHOWN else "")

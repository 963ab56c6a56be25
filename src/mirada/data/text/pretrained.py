"""Tokenizers of checkpoints: the interface of our own, over the files of others; and one whose text is numbers.

    PretrainedTokenizer   a tokenizer.json of Hugging Face, with the special tokens that the checkpoint names
    PieceTokenizer        SentencePiece models whose pieces a vocab.json numbers; the two sides may have one each (Marian)
    NumberTokenizer       for a checkpoint without a tokenizer: the text "1 2 3" is the tokens 1, 2, 3

All are saved in a run's tokenizer.json, a part a line, and `Tokenizer.load` reads them.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self, TypeVar

from tokenizers import AddedToken
from tokenizers import Tokenizer as Engine

from mirada.data.text.bounded import MOST_PIECES, MOST_TOKENS, require_bounded
from mirada.data.text.tokenize import BLANKS, SPACE, VISIBLE, Piece, TokenIds, Tokenizer
from mirada.errors import require, require_known
from mirada.files import parsed
from mirada.words import is_utf8, shortened

LINE = re.compile(r'[{]?"(mirada|tokenizer|target|vocab)":(.*)[,}]', re.DOTALL)
MOST_TEMPLATE = 1 << 20  # characters of a chat template
FIRST, SECOND = "A", "B"  # where the texts stand in a frame
KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "word", "WordPiece": "wordpiece"}
UNSPACED = (
    " .",
    " ?",
    " !",
    " ,",
    " ' ",
    " n't",
    " 'm",
    " 's",
    " 've",
    " 're",
)  # lose their spaces in a clean decoding
BYTE = re.compile(r"<0x([0-9A-F]{2})>")
OPENED, CLOSED = "\ue000", "\ue001"  # around the name of a special token in a message: for private use
MARKED = re.compile(f"{OPENED}([^{OPENED}{CLOSED}]*){CLOSED}")
ENDED = "</w>"  # behind the last piece of a word (CLIP)

Frame = tuple[tuple[int | str, int], ...]  # special tokens, FIRST and SECOND, and the number of the segment of each
Result = TypeVar("Result")


def _byte_letters() -> dict[str, int]:
    """The characters that stand for bytes in byte-level tokens: those that can be seen for themselves, others from 256 on.

    Radford et al. (2019), GPT-2.
    """
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = (byte for byte in range(256) if byte not in set(seen))
    return {chr(byte): byte for byte in seen} | {chr(256 + number): byte for number, byte in enumerate(rest)}


LETTERS = _byte_letters()


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """What a checkpoint says about the tokens that are no text.

    Args:
        pad: the number of the token that fills a batch; -1: there is none. So for the next four.
        unknown: that of what is not in the vocabulary.
        start: that before a text: a beginning, or the token of its class.
        end: that after a text, or between two.
        mask: that in place of a hidden word.
        special: all numbers that are no text.
        single: what stands around one text.
        pair: what stands around two; empty: one after the other, each as if alone.
        clean: whether spaces before signs are dropped in decoded texts.
        languages: the tokens of languages, by their codes.
        place: where the language of a text stands: "first", "last", or "" for nowhere.
        language: the language of a text, unless another one is given.
        names: special tokens as a chat template calls them, such as bos_token.
        chat: the chat template.

    >>> SpecialTokens(end=7, single=(("A", 0), (7, 0))).end
    7
    """

    pad: int = -1
    unknown: int = -1
    start: int = -1
    end: int = -1
    mask: int = -1
    special: tuple[int, ...] = ()
    single: Frame = ((FIRST, 0),)
    pair: Frame = ()
    clean: bool = False
    languages: Mapping[str, int] = field(default_factory=dict)
    place: str = ""
    language: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    chat: str = ""

    def __post_init__(self) -> None:
        ids = (self.pad, self.unknown, self.start, self.end, self.mask)
        require(
            all(type(id) is int and -1 <= id < MOST_TOKENS for id in ids), f"special tokens must be numbers: got {ids}"
        )
        every = (*self.special, *self.languages.values())
        require(all(type(id) is int and 0 <= id < MOST_TOKENS for id in every), "special tokens must be numbers from 0")
        for frame in (self.single, self.pair):
            require(len(frame) <= MOST_PIECES, f"a frame must have at most {MOST_PIECES} tokens: got {len(frame)}")
            for what, segment in frame:
                token = what in (FIRST, SECOND) or (type(what) is int and 0 <= what < MOST_TOKENS)
                require(token and type(segment) is int and 0 <= segment < 256, "a frame holds what is no token")
        texts = (self.place, self.language, self.chat, *self.names, *self.names.values(), *self.languages)
        good = all(isinstance(text, str) and len(text) <= MOST_TEMPLATE for text in texts) and type(self.clean) is bool
        require(good, "names, languages and the chat template must be texts")

    @classmethod
    def of(cls, described: Any) -> Self:
        """Those that a file of a run describes; ValueError if it does not."""
        known = set(cls.__dataclass_fields__)
        require(isinstance(described, dict) and set(described) <= known, "its special tokens are none")
        try:
            single, pair = (
                tuple((what, segment) for what, segment in described.pop(key)) for key in ("single", "pair")
            )
            special = tuple(described.pop("special"))
            return cls(**described, single=single, pair=pair, special=special)
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            raise ValueError(f"its special tokens are none: {shortened(str(error), 120)}") from None


class PretrainedTokenizer(Tokenizer):
    """The tokenizer of a checkpoint, as its tokenizer.json describes it.

    A special token's name in a text stays text. What its file may contain is in `bounded.py`.

    >>> from tokenizers import models, pre_tokenizers
    >>> engine = Engine(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "la": 2, "casa": 3}, unk_token="[UNK]"))
    >>> engine.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> known = SpecialTokens(unknown=0, start=1, special=(0, 1), single=((1, 0), ("A", 0)))
    >>> tokenizer = PretrainedTokenizer(engine, known)
    >>> tokenizer.framed(tokenizer.encode("la casa"))
    ([1, 2, 3], [0, 0, 0])
    """

    def __init__(self, engine: Engine, known: SpecialTokens) -> None:
        """Take an engine, whose parts are known to be harmless, and its special tokens."""
        engine.no_truncation()
        engine.no_padding()
        engine.encode_special_tokens = True  # a special token's name in a text is text
        self.engine, self.known = engine, known
        self.kind = KINDS[type(engine.model).__name__]
        self._set_vocabulary(engine.get_vocab(with_added_tokens=True))
        self.pad, self.unknown, self.start, self.end, self.mask = (
            known.pad, known.unknown, known.start, known.end, known.mask,
        )  # fmt: skip
        self.special = frozenset(known.special)
        self._never = self.special - {known.unknown}
        self.languages = dict(known.languages)
        # what its parts say of how a token is read
        parts = json.loads(engine.to_str())["decoder"] if engine.decoder else {}
        steps = [step.get("type") for step in parts.get("decoders", [parts])]
        self._bytes = "ByteLevel" in steps
        self._prefix = str(getattr(engine.model, "continuing_subword_prefix", "") or "")
        self._literal = frozenset(engine.get_added_tokens_decoder())

    def _set_vocabulary(self, ids: dict[str, int]) -> None:
        self._ids = ids
        self._by_id = {id: token for token, id in ids.items()}
        self._size = max(self._by_id, default=-1) + 1

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind={self.kind!r}, vocab={len(self)})"

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = _guarded(lambda: self.engine.encode_batch_fast(texts, add_special_tokens=False))
        return [self._as_texts(encoding.ids) for encoding in encodings]

    def _as_texts(self, ids: list[int]) -> list[int]:
        """Tokens of a text: where the model itself knows the name of a special token, that is unknown."""
        if self._never.isdisjoint(ids):
            return ids
        return [self.unknown if id in self._never else id for id in ids if self.unknown >= 0 or id not in self._never]

    def _spaced(self, text: str) -> str:
        require(
            is_utf8(text), f"not text: {shortened(text)!r} has a byte that is not UTF-8, or half of a surrogate pair"
        )
        return text

    def plain(self, text: str) -> str:
        """The text as its tokens keep it, with single spaces."""
        text = self._spaced(text)
        cleaned = _guarded(lambda: self.engine.normalizer.normalize_str(text)) if self.engine.normalizer else text
        return " ".join(cleaned.replace(SPACE, " ").split())

    def encode_blanks(self, text: str) -> list[int]:
        """The tokens of a text with blanks: each `___`, three underscores or more, is one mask."""
        require(self.mask >= 0, "the tokenizer of this run has no token for a gap")
        if isinstance(text, TokenIds):
            return self._with_masks(text)
        added = self.engine.get_added_tokens_decoder().get(self.mask)
        parts = BLANKS.split(self._spaced(text))
        if added is not None:  # a mask may take the spaces next to it
            parts[:-1] = [part.rstrip() if added.lstrip else part for part in parts[:-1]]
            parts[1:] = [part.lstrip() if added.rstrip else part for part in parts[1:]]
        ids: list[int] = []
        for number, tokens in enumerate(self.encode_all(parts)):
            ids += ([self.mask] if number else []) + tokens
        return ids

    def encode_marked(self, text: str) -> list[int]:
        """The tokens of a text in which the names of special tokens are special tokens: of a rendered chat template."""
        return _guarded(lambda: self._marking.encode(self._spaced(text), add_special_tokens=False)).ids

    def chat(self, messages: Sequence[Mapping[str, Any]], answer: bool = True, **more: Any) -> list[int]:
        """The tokens of a conversation, as the checkpoint's chat template writes it.

        The name of a special token in a message stays text: nobody can end their turn and speak as somebody else.

        Args:
            messages: each with `role` and `content`.
            answer: whether they end where the model's answer begins.
            more: further values of the template, such as `tools`.
        """
        from mirada.data.text.chat import render  # it starts a process, which few need

        require(bool(self.known.chat), "this checkpoint has no chat template: give it a text to continue")
        names = sorted((self._by_id[id] for id in self.special if id in self._by_id), key=len, reverse=True)
        marked = _marked(messages, re.compile("|".join(map(re.escape, names)) or r"(?!)"))
        (text,) = render(self.known.chat, [marked], self.known.names, answer, **more)
        ids: list[int] = []
        for number, part in enumerate(MARKED.split(text)):
            part = part.replace(OPENED, "").replace(CLOSED, "")
            ids += (self.encode(part) if number % 2 else self.encode_marked(part)) if part else []
        return ids

    @cached_property
    def _marking(self) -> Engine:
        engine = Engine.from_str(self.engine.to_str())
        engine.encode_special_tokens = False
        return engine

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        kept = [id for id in map(int, ids) if id >= 0 and id not in self.special]
        text = _guarded(lambda: self.engine.decode(kept, skip_special_tokens=True))
        if self.known.clean and self.kind != "bpe":
            for sign in UNSPACED:
                text = text.replace(sign, sign.strip(" "))
        return text

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a text with the places they cover: without spaces around them, where there is something else.

        Where a character has several tokens, each of them covers it.
        """
        if isinstance(text, TokenIds):
            return super().pieces(text)
        encoding = _guarded(lambda: self.engine.encode(self._spaced(text), add_special_tokens=False))
        return self._placed(text, encoding, encoding.ids)

    def _placed(self, text: str, encoding: Any, ids: list[int]) -> list[Piece]:
        pieces: list[Piece] = []
        for id, token, (start, end) in zip(ids, encoding.tokens, encoding.offsets, strict=True):
            covered = text[start:end]
            if covered.strip():
                end -= len(covered) - len(covered.rstrip())
                start += len(covered) - len(covered.lstrip())
                end = start if not token.strip(SPACE) else end  # the mark of a first word is not in the text
            if known := self._as_texts([id]):
                pieces.append(Piece(text[start:end], start, end, known[0]))
        return pieces

    def token(self, id: int) -> str:
        """A token as people read it: without the mark of a space, and never blank."""
        text = self.spaced(id)
        plain = text.strip(" ") or text
        return plain if plain.strip() else "".join(map(_visible, plain)) or VISIBLE[""]

    def spaced(self, id: int) -> str:
        """A token with the space that stands before it; bytes that are no whole character as numbers: <E2 82>."""
        require(id >= 0, f"a token must be at least 0: got {id}")
        token = self._by_id.get(id)
        if token is None:  # the table of a model may be larger than its vocabulary
            return f"<{id}>"
        if id in self.special or id in self._literal:
            return token
        if self._bytes and all(letter in LETTERS for letter in token):
            return _as_text(bytes(LETTERS[letter] for letter in token.removesuffix(ENDED)))
        if found := BYTE.fullmatch(token):
            return _as_text(bytes([int(found[1], 16)]))
        if self.kind == "wordpiece":
            return token.removeprefix(self._prefix) if self._prefix and token.startswith(self._prefix) else f" {token}"
        return token.replace(SPACE, " ").removesuffix(ENDED)

    def framed(
        self, first: Sequence[int], second: Sequence[int] | None = None, language: str = ""
    ) -> tuple[list[int], list[int]]:
        """The tokens of a text, or of two, with the special tokens around them, and for each the number of its segment.

        A `language` is the code of the first text's, where the checkpoint has several.
        """
        if (language or self.known.language) and self.known.place:
            require_known("language", language or self.known.language, self.languages)
            code = self.languages[language or self.known.language]
            tokens = [code, *first, self.end] if self.known.place == "first" else [*first, self.end, code]
            return tokens, [0] * len(tokens)
        if second is not None and not self.known.pair:
            parts = [self._in_frame(self.known.single, text, ()) for text in (first, second)]
            return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
        return self._in_frame(self.known.single if second is None else self.known.pair, first, second or ())

    def _in_frame(self, frame: Frame, first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
        tokens, segments = list[int](), list[int]()
        for what, segment in frame:
            added = first if what == FIRST else second if what == SECOND else (int(what),)
            tokens += added
            segments += [segment] * len(added)
        return tokens, segments

    def prompt(self, ids: Sequence[int]) -> list[int]:
        """The tokens that a decoder is given before it continues a text: after its start token, where it has one."""
        places = [what for what, _ in self.known.single]
        before = [int(what) for what in places[: places.index(FIRST)]] if FIRST in places else []
        one = [self.start] if self.start >= 0 else [self.end] if self.end >= 0 else []  # where nothing else begins
        return [*before, *ids] or one

    def parts(self) -> dict[str, str]:
        """The parts of its file, as JSON: what is known of special tokens, and the engine's own file."""
        described = {"kind": type(self).__name__, **asdict(self.known)}
        return {"mirada": json.dumps(described, ensure_ascii=False), "tokenizer": self.engine.to_str()}

    def to_json(self) -> str:
        """What is saved: an object with a part a line. `tokenizer` is the file that `tokenizers.Tokenizer` reads."""
        lines = (f'"{name}":{text}' for name, text in self.parts().items())
        return "{" + ",\n".join(lines) + "}"

    @classmethod
    def of_parts(cls, known: SpecialTokens, parts: Mapping[str, str]) -> "PretrainedTokenizer":
        """The tokenizer of the parts of a file; foreign ones are read within bounds."""
        return cls(read_engine(parts.get("tokenizer", "")), known)


class PieceTokenizer(PretrainedTokenizer):
    """Pieces of SentencePiece models with numbers of their own: one model for texts that are read, one for those written.

    `target` is the tokenizer of texts that are written: the same, where there is one model.

    Junczys-Dowmunt et al. (2018), arXiv:1804.00344 (Marian); Fan et al. (2020), arXiv:2010.11125 (M2M100).
    """

    def __init__(
        self, engine: Engine, known: SpecialTokens, vocab: dict[str, int], target: Engine | None = None
    ) -> None:
        """Take the engines of both sides and the numbers of all pieces."""
        good = all(type(id) is int and 0 <= id < MOST_TOKENS for id in vocab.values()) and known.unknown >= 0
        require(good, "a vocab.json must number its tokens from 0, one of them for what is unknown")
        super().__init__(engine, known)
        self._set_vocabulary(vocab)
        self._literal = self.special
        self._target = target

    @property
    def target(self) -> "PieceTokenizer":
        """The tokenizer of texts that are written."""
        return self if self._target is None else PieceTokenizer(self._target, self.known, self._ids)

    def _numbered(self, tokens: Iterable[str]) -> list[int]:
        return [self._ids.get(token, self.unknown) for token in tokens]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        codes, rests = zip(*map(self._language_of, texts), strict=True) if texts else ((), ())
        encodings = _guarded(lambda: self.engine.encode_batch(list(rests), add_special_tokens=False))
        return [[*code, *self._numbered(each.tokens)] for code, each in zip(codes, encodings, strict=True)]

    def _language_of(self, text: str) -> tuple[list[int], str]:
        """The token of a language at the start of a text, >>fra<<, and the rest."""
        end = text.find("<<") + 2 if text.startswith(">>") else 0
        return (self._numbered([text[:end]]), text[end:]) if end > 1 else ([], text)

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a text with the places they cover; that of a language covers its code."""
        if isinstance(text, TokenIds):
            return super().pieces(text)
        codes, rest = self._language_of(self._spaced(text))
        shift = len(text) - len(rest)
        encoding = _guarded(lambda: self.engine.encode(rest, add_special_tokens=False))
        placed = self._placed(rest, encoding, self._numbered(encoding.tokens))
        pieces = [Piece(each.text, each.start + shift, each.end + shift, each.id) for each in placed]
        return [*(Piece(text[:shift], 0, shift, id) for id in codes), *pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        kept = [id for id in map(int, ids) if id in self._by_id and id not in self.special]
        return "".join(self._by_id[id] for id in kept).replace(SPACE, " ").strip()

    def parts(self) -> dict[str, str]:
        """The parts of its file: also the numbers, and the engine of the other side."""
        more = {} if self._target is None else {"target": self._target.to_str()}
        return super().parts() | more | {"vocab": json.dumps(self._ids, ensure_ascii=False)}

    @classmethod
    def of_parts(cls, known: SpecialTokens, parts: Mapping[str, str]) -> "PieceTokenizer":
        """The tokenizer of the parts of a file."""
        vocab = parsed(parts.get("vocab", "null"))
        require(isinstance(vocab, dict), "it has no numbers of its pieces")
        target = read_engine(parts["target"]) if "target" in parts else None
        return cls(read_engine(parts.get("tokenizer", "")), known, vocab, target)


class NumberTokenizer(Tokenizer):
    """For a checkpoint without a tokenizer: a text is the numbers of its tokens.

    >>> tokenizer = NumberTokenizer(100)
    >>> tokenizer.encode("7 8 99"), tokenizer.decode([7, 8])
    ([7, 8, 99], '7 8')

    Args:
        size: the number of tokens of the model.
        known: special tokens that its config.json names.
    """

    kind = "numbers"

    def __init__(self, size: int, known: SpecialTokens | None = None) -> None:
        require(type(size) is int and 0 < size <= MOST_TOKENS, f"a model has 1 to {MOST_TOKENS:,} tokens: got {size}")
        self.size, self.known = size, known or SpecialTokens()
        self.pad, self.unknown, self.start, self.end, self.mask = (
            self.known.pad, -1, self.known.start, self.known.end, self.known.mask,
        )  # fmt: skip
        self.special, self._ids = frozenset(self.known.special), {}

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"NumberTokenizer({self.size})"

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers that stand in the texts."""
        return super().encode_all([TokenIds(text) for text in texts])

    def pieces(self, text: str) -> list[Piece]:
        """Every number with its place."""
        return super().pieces(TokenIds(text))

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [[] for _ in texts]  # all are numbers

    def plain(self, text: str) -> str:
        """The numbers with a space between them."""
        return " ".join(text.split())

    def encode_blanks(self, text: str) -> list[int]:
        """The numbers of a text; each `___` is a mask."""
        require(
            self.mask >= 0 or not BLANKS.search(text),
            "its checkpoint names no token for a gap: import it with its tokenizer",
        )
        return self._with_masks(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The numbers of tokens, without special ones."""
        return " ".join(str(int(id)) for id in ids if int(id) not in self.special)

    def spellings(self) -> dict[int, str]:
        """The numbers, as texts."""
        return {id: str(id) for id in range(self.size)}

    def token(self, id: int) -> str:
        """The number."""
        return str(id)

    def spaced(self, id: int) -> str:
        """The number with a space before it."""
        return f" {id}"

    def framed(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """The numbers as they are given: special tokens are numbers too."""
        return [*first, *(second or ())], [0] * len(first) + [1] * len(second or ())

    def prompt(self, ids: Sequence[int]) -> list[int]:
        """The numbers as they are given; where there are none, the start."""
        return list(ids) or [max(self.start, 0)]

    def to_json(self) -> str:
        """What is saved: the number of tokens, and special ones."""
        described = {"kind": type(self).__name__, "size": self.size, **asdict(self.known)}
        return "{" + f'"mirada":{json.dumps(described)}' + "}"


def _as_text(content: bytes) -> str:
    """Bytes as text; as numbers where they are no whole characters."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"<{content.hex(' ').upper()}>"


def _marked(value: Any, names: re.Pattern[str]) -> Any:
    """Messages with marks around the names of special tokens in their texts; roles and other keys are left as they are."""
    if isinstance(value, str):
        plain = value.replace(OPENED, "").replace(CLOSED, "")
        return names.sub(f"{OPENED}\\g<0>{CLOSED}", plain)
    if isinstance(value, Mapping):
        return {key: each if key == "role" else _marked(each, names) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_marked(each, names) for each in value]
    return value


def _visible(letter: str) -> str:
    """White space as a sign, or by its number."""
    return VISIBLE.get(letter, f"<{ord(letter):02X}>")


def _guarded(call: Callable[[], Result]) -> Result:
    """What the engine answers; its errors have no type of their own, and a panic in it is no Exception."""
    try:
        return call()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        reason = shortened(" ".join(str(error).split()), 200)
        raise ValueError(f"the tokenizer of this checkpoint fails on this text: {reason}") from None


def read_engine(text: str, described: Any = None) -> Engine:
    """The engine of a foreign tokenizer.json; ValueError for what it may not contain.

    Args:
        text: the file.
        described: its value, where it was parsed already.
    """
    require_bounded(parsed(text) if described is None else described)
    return _guarded(lambda: Engine.from_str(text))


def special_added(engine: Engine, tokens: Iterable[str]) -> None:
    """Tell an engine which of its tokens are special, so that it never decodes them as text."""
    known = {token.content for token in engine.get_added_tokens_decoder().values() if token.special}
    vocab = engine.get_vocab(with_added_tokens=True)
    missing = [token for token in dict.fromkeys(tokens) if token in vocab and token not in known]
    engine.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in missing])


def restored(text: str) -> Tokenizer:
    """The tokenizer of a run's file, which `to_json` of one of these classes wrote."""
    parts = {}
    for line in text.strip().split("\n"):
        found = LINE.fullmatch(line)
        require(found is not None and found[1] not in parts, f"it has a line that no tokenizer writes: {line[:60]!r}")
        assert found is not None
        parts[found[1]] = found[2]
    described = parsed(parts.pop("mirada"))
    require(isinstance(described, dict), "it does not say what it is")
    kind, size = described.pop("kind", None), described.pop("size", None)
    known = SpecialTokens.of(described)
    if kind == "NumberTokenizer":
        return NumberTokenizer(size, known)
    for one in (PretrainedTokenizer, PieceTokenizer):
        if kind == one.__name__:
            return one.of_parts(known, parts)
    raise ValueError(f"it is a {shortened(repr(kind), 40)}, which is not known")

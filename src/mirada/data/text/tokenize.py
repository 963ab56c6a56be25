"""From texts to token numbers and back, on Hugging Face `tokenizers`.

| kind    | a token is                            | a space is                                  | decode(encode(text))  |
|---------|---------------------------------------|---------------------------------------------|-----------------------|
| bpe     | a piece of a word, grown by merging   | the mark at the start of the piece after it | the text              |
| unigram | a piece of a word, left after pruning | the same                                    | the text              |
| word    | a word, a digit or a sign             | between two words; else a mark on the sign  | with single spaces    |
| char    | a character                           | a character                                 | the text              |

The last column holds where every token is known, after Unicode's composition (NFC) and, if asked for, lower case.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, product
from math import inf, log
from pathlib import Path
from typing import Any, ClassVar, Self

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from mirada.data.options import TextOptions
from mirada.errors import require, unknown
from mirada.files import parsed, require_file
from mirada.words import is_utf8, shortened

LARGEST = 256 << 20  # bytes of a tokenizer's file
HEAD = '{"mirada":'  # how the file of a tokenizer begins that came with a checkpoint
PAD, UNKNOWN, START, END, MASK = range(5)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")  # in the order of their numbers, in every tokenizer

SPACE = "▁"  # stands for a space inside a token; a text's own is read as an underscore
ENDING = r"(?<=\p{L})['\x{2019}](?i:s|t|re|ve|m|ll|d)(?!\p{L})"  # don't and Ana's have two parts, not three
SUBWORDS = "|".join(
    [
        ENDING,
        r"▁?\p{L}[\p{L}\p{M}]*",
        r"▁?\p{N}",  # digits one by one: a number is spelled, never guessed whole
        r"▁?([^\p{L}\p{N}▁])\1*",  # a sign, or the same one several times
        r"▁+(?=▁)|▁",  # of several spaces, the last belongs to what follows
    ]
)
WORDS = "|".join(
    [
        ENDING,
        r"[\p{L}\p{M}]+",  # the same token whatever stands next to it
        r"▁?[^\p{L}\p{M}▁](?:▁(?=\p{L}))?",  # a sign carries the spaces around it
    ]
)
CHARACTERS = r"[\s\S]"
# tokens are joined by spaces; the one next to a sign was not in the text unless the sign carries it
NEXT_TO_A_SIGN = r" (?!\p{L}|<unk>|<mask>)|(?<![\p{L}\p{M}]|<unk>|<mask>) "
SEED = 3  # the pieces that a unigram model is pruned from, as a multiple of those it keeps
KEPT = 0.75  # the share of pieces that one round of pruning leaves
LONGEST = 16  # characters in a piece of a unigram model
WHITESPACE = "".join(character for character in map(chr, range(1, 0x3001)) if character.isspace() and character != " ")
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍", "": "␣"}
KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "word"}  # by the engine's model
PARTS = ("normalizer", "pre_tokenizer", "decoder")  # of a tokenizer's file
SEQUENCES = ("normalizers", "pretokenizers", "decoders")  # where a part keeps its steps
ABSENT = ("truncation", "padding", "post_processor", "added_tokens")
MOST_STEPS = 16  # of a part
BLANKS = re.compile("_{3,}")
BLANK = "ꙮ"  # stands in for a blank: it is a letter, so that signs next to it are cut as next to a word


@dataclass(frozen=True)
class Piece:
    """A token and the characters that it covers: `text` is what stands at start:end of the input, without spaces around it."""

    text: str
    start: int
    end: int
    id: int


class TokenIds(str):
    """A text that is the numbers of tokens: every tokenizer takes them as they are.

    >>> tokenizer = Tokenizer.train(["the red house."], kind="word")
    >>> tokenizer.encode(TokenIds("7 5 3"))
    [7, 5, 3]
    """

    # what is made of it on its way to a tokenizer are numbers, too

    def split(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:  # type: ignore[override]
        """Its parts."""
        return [TokenIds(part) for part in super().split(sep, maxsplit)]

    def lower(self) -> str:
        """Itself."""
        return self

    def __radd__(self, before: str) -> str:
        """Itself, behind nothing; words that stand before every text have numbers that only the user can give."""
        require(not before, f"token ids cannot follow {shortened(before, 40)!r}, which stands before every text here")
        return self

    @property
    def pieces(self) -> list[Piece]:
        """The numbers with their places."""
        found = list(re.finditer(r"[^\s,]+", self))
        wrong = [each[0] for each in found if not re.fullmatch(r"[0-9]{1,9}", each[0])]
        require(not wrong, f"token ids must be numbers with spaces between them: got {shortened(repr(wrong[:1]), 40)}")
        return [Piece(each[0], each.start(), each.end(), int(each[0])) for each in found]


class Tokenizer:
    """Cut texts into tokens, and join tokens to the same text again.

    >>> texts = ["the red house.", "the red car.", "a red house?"]
    >>> tokenizer = Tokenizer.train(texts, kind="word")
    >>> tokenizer.encode("the red house?")
    [8, 5, 7, 9]
    >>> tokenizer.decode([2, 8, 5, 7, 9, 3])
    'the red house?'
    >>> [(piece.text, piece.start) for piece in tokenizer.pieces("the car.")]
    [('the', 0), ('car', 4), ('.', 7)]

    Text never becomes a special token: "<mask>" is a word between two signs. `encode_blanks` is the way to MASK.

    Sennrich, Haddow and Birch (2016), arXiv:1508.07909; Kudo (2018), arXiv:1804.10959.
    """

    kind: str
    pad, unknown, start, end, mask = PAD, UNKNOWN, START, END, MASK  # the numbers of special tokens; -1: it has none
    special = frozenset(range(len(SPECIAL)))
    languages: Mapping[str, int] = {}  # the tokens of languages, by their codes

    def __init__(self, engine: Engine) -> None:
        """Take a tokenizer of Hugging Face that was made here; `train` and `load` are the ways to one."""
        known = engine.get_vocab()
        require(
            [known.get(token) for token in SPECIAL] == list(range(len(SPECIAL))),
            f"a tokenizer must number {', '.join(SPECIAL)} from 0: got {[known.get(token) for token in SPECIAL]}",
        )
        require(
            max(known.values()) == len(known) - 1,
            f"a tokenizer must number its {len(known)} tokens without a gap: got numbers up to {max(known.values())}",
        )
        engine.encode_special_tokens = True  # a special token's name in a text is text
        self.engine = engine
        name = type(engine.model).__name__
        require(name in KINDS, f"a tokenizer must be one of {', '.join(KINDS)}: got {name}")
        # Hugging Face's format has no place for the kind
        self.kind = "char" if isinstance(engine.decoder, decoders.Fuse) else KINDS[name]
        self._ids = known
        self._tokens = sorted(known, key=known.__getitem__)
        # a line break or a hard space where none was learned is a space
        self._spaces = dict.fromkeys(map(ord, set(WHITESPACE).difference("".join(known))), " ")

    @classmethod
    def train(cls, texts: Iterable[str], kind: str = "bpe", vocab: int = 8000, lowercase: bool = False) -> Self:
        """Learn at most `vocab` tokens, the special ones included. The same texts give the same file, byte by byte.

        Where `vocab` has no room for every character, the rarest become UNKNOWN.
        """
        if kind not in LEARNERS:
            raise unknown("kind of tokenizer", kind, LEARNERS)
        require(vocab > len(SPECIAL) + 1, f"vocab must be at least {len(SPECIAL) + 2}: got {vocab}")
        cleaning = _cleaning(lowercase)
        texts = list(map(cleaning.normalize_str, texts))
        require(any(text.strip() for text in texts), f"a tokenizer learns from texts: got {len(texts)}, all empty")
        if kind in ("bpe", "unigram"):
            counts = Counter("".join(texts))
            del counts[" "]  # it has its mark
            if rare := sorted(counts, key=lambda token: (-counts[token], token))[vocab - len(SPECIAL) - 1 :]:
                texts = [text.translate(dict.fromkeys(map(ord, rare), " ")) for text in texts]
        engine = Engine(models.WordLevel({}, unk_token=SPECIAL[UNKNOWN]))
        _set_parts(engine, kind, cleaning)
        engine.model = LEARNERS[kind](engine, texts, vocab)
        return cls(engine)

    def __len__(self) -> int:
        return len(self._tokens)

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, vocab={len(self)})"

    @property
    def filler(self) -> int:
        """The token that fills a batch: `pad`, or 0 where there is none; a model is told the lengths."""
        return max(self.pad, 0)

    def framed(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """The tokens of a text, or of two, with the special tokens around them, and for each the number of its text.

        >>> Tokenizer.train(["the red house"], kind="word").framed([5, 6], [7])
        ([2, 5, 6, 3, 7, 3], [0, 0, 0, 0, 1, 1])
        """
        tokens = [self.start, *first, self.end]
        after = [] if second is None else [*second, self.end]
        return tokens + after, [0] * len(tokens) + [1] * len(after)

    def prompt(self, ids: Sequence[int]) -> list[int]:
        """The tokens that a decoder is given before it continues a text: the start token, then those of the text."""
        return [self.start, *ids]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; never a special one, except UNKNOWN."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of many texts, at once."""
        given = {row: text for row, text in enumerate(texts) if isinstance(text, TokenIds)}
        found = self._encoded(["" if row in given else self._spaced(text) for row, text in enumerate(texts)])
        return [
            [piece.id for piece in self.pieces(given[row])] if row in given else found[row] for row in range(len(found))
        ]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts with plain spaces."""
        if self.kind != "char":
            return [encoding.ids for encoding in self.engine.encode_batch_fast(texts, add_special_tokens=False)]
        # one look-up for each character is quicker than the engine's way
        cleaned = map(self.engine.normalizer.normalize_str, texts)
        return [[self._ids.get(character, UNKNOWN) for character in text] for text in cleaned]

    def _spaced(self, text: str) -> str:
        """The text with plain spaces; bytes that are not UTF-8, in an argument of a command, are no text."""
        require(
            is_utf8(text), f"not text: {shortened(text)!r} has a byte that is not UTF-8, or half of a surrogate pair"
        )
        return text.translate(self._spaces)

    def plain(self, text: str) -> str:
        """The text without what its tokens do not keep: its case where it is not read, ways to write an accent, blanks.

        >>> Tokenizer.train(["a good film"], "word", lowercase=True).plain("A  Good film ")
        'a good film'
        """
        return " ".join(self.engine.normalizer.normalize_str(self._spaced(text)).replace(SPACE, " ").split())

    def encode_blanks(self, text: str) -> list[int]:
        """The tokens of a text with blanks: each `___`, three underscores or more, is one MASK.

        >>> tokenizer = Tokenizer.train(["Ana ve una nueva casa."], kind="word")
        >>> [tokenizer.token(id) for id in tokenizer.encode_blanks("Ana ve una ___.")]
        ['Ana', 've', 'una', '<mask>', '.']
        """
        if isinstance(text, TokenIds):
            return self._with_masks(text)
        parts = BLANKS.split(self._spaced(text))
        places = {len(BLANK.join(parts[: i + 1])) for i in range(len(parts) - 1)}
        encoding = self.engine.encode(BLANK.join(parts), add_special_tokens=False)
        ids: list[int] = []
        for id, token, (start, end) in zip(encoding.ids, encoding.tokens, encoding.offsets, strict=True):
            blanks = sum(place in places for place in range(start, end)) if token.strip(SPACE) else 0
            if blanks and self.kind in ("bpe", "unigram") and token[0] != SPACE and ids[-1:] == [self._ids.get(SPACE)]:
                ids.pop()  # a masked piece has its space inside
            ids += [MASK] * blanks if blanks else [id]
        return ids

    def _with_masks(self, text: str) -> list[int]:
        """The numbers that a text has; each `___` in it is a mask."""
        parts = self.encode_all([TokenIds(part) for part in BLANKS.split(text)])
        return [id for number, part in enumerate(parts) for id in (*([self.mask] if number else []), *part)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without PAD, START and END."""
        kept = [id for id in map(int, ids) if id not in (PAD, START, END)]
        wrong = [id for id in kept if not 0 <= id < len(self)]
        require(not wrong, f"tokens must lie in 0..{len(self) - 1}: got {wrong[:5]}. Is it another run's tokenizer?")
        return self.engine.decode(kept, skip_special_tokens=False)

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a text with the places they cover. A token that is only the mark of a first word covers nothing."""
        if isinstance(text, TokenIds):
            numbers = text.pieces
            wrong = [piece.id for piece in numbers if piece.id >= len(self)]
            require(not wrong, f"token ids must lie in 0..{len(self) - 1}: got {wrong[:5]}")
            return numbers
        encoding = self.engine.encode(self._spaced(text), add_special_tokens=False)
        nexts = [start for start, _ in encoding.offsets[1:]] + [len(text)]
        pieces: list[Piece] = []
        tokens = zip(encoding.ids, encoding.tokens, encoding.offsets, nexts, strict=False)  # nexts has one for no token
        for id, token, (start, end), following in tokens:
            # the engine counts a letter and its accent, or the parts of a Korean one, as the first of them
            while end < following and not text[end].isspace():
                end += 1
            if self.kind != "char" and not token.strip(SPACE):
                end = start + len(token) - (not pieces)  # the first mark is not in the text
            elif self.kind != "char":
                end -= len(text[start:end]) - len(text[start:end].rstrip())
                start += len(text[start:end]) - len(text[start:end].lstrip())
            pieces.append(Piece(text[start:end], start, end, id))
        return pieces

    def id_of(self, token: str) -> int:
        """The number of a token as the vocabulary spells it; -1 where it has none.

        >>> Tokenizer.train(["the red house"], kind="word").id_of("<mask>")
        4
        """
        return self._ids.get(token, -1)

    def spellings(self) -> dict[int, str]:
        """Every token as the vocabulary spells it, by its number.

        >>> Tokenizer.train(["the red house"], kind="word").spellings()[4]
        '<mask>'
        """
        return {id: token for token, id in self._ids.items()}

    @property
    def target(self) -> "Tokenizer":
        """The tokenizer of texts that are written; most have one for both sides."""
        return self

    def token(self, id: int) -> str:
        """A token as people read it: without the mark of a space, and never blank."""
        require(0 <= id < len(self), f"a token must lie in 0..{len(self) - 1}: got {id}")
        plain = self._tokens[id] if self.kind == "char" else self._tokens[id].replace(SPACE, "")
        return VISIBLE.get(plain, plain)

    def spaced(self, id: int) -> str:
        """A token with the space that stands before it, where the tokenizer keeps spaces at the beginning of tokens.

        >>> tokenizer = Tokenizer.train(["la casa", "la cosa"], vocab=20)
        >>> "".join(tokenizer.spaced(id) for id in tokenizer.encode("la cosa"))
        ' la cosa'
        """
        require(0 <= id < len(self), f"a token must lie in 0..{len(self) - 1}: got {id}")
        return self._tokens[id] if self.kind in ("char", "word") else self._tokens[id].replace(SPACE, " ")

    def to_json(self) -> str:
        """The tokenizer in Hugging Face's format, which `tokenizers.Tokenizer.from_file` reads; white space that was
        never learned is unknown there, and a space here.
        """
        return self.engine.to_str(pretty=True)

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """The tokenizer of a file that `save` wrote, also of one that came with a checkpoint."""
        try:
            require_file(Path(path), LARGEST)
            text = Path(path).read_text(encoding="utf-8")
        except OSError:
            raise ValueError(f"{path} cannot be read. Is this the folder of a saved run?") from None
        except ValueError as error:
            raise ValueError(f"{path} is not a text file: {error}") from None
        try:
            if text.startswith(HEAD):
                from mirada.data.text.pretrained import restored  # it is built on this module

                return restored(text)
            _require_own_parts(parsed(text))
            tokenizer = cls(Engine.from_str(text))
            tokenizer.encode(BLANK)  # a file may lack what only an unknown letter needs
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # the engine has no type of error of its own, and a panic in it is no Exception
            reason = shortened(" ".join(str(error).split()), 300)
            raise ValueError(f"{path} does not hold a tokenizer of mirada: {reason}") from None
        return tokenizer


# What stands around the model: how texts are cleaned, cut and joined again. A file is foreign: a pattern can take for ever, a
# replacement can double a text again and again. Only parts that are made here are read.


def _cleaning(lowercase: bool) -> normalizers.Normalizer:
    return normalizers.Sequence([*([normalizers.Lowercase()] if lowercase else []), normalizers.NFC()])


def _set_parts(engine: Engine, kind: str, cleaning: normalizers.Normalizer) -> None:
    """Set how an engine cleans texts, cuts them, and joins tokens."""
    spaces = Regex(r"\s+") if kind == "word" else " "
    marking = [normalizers.Replace(SPACE, "_"), normalizers.Prepend(SPACE), normalizers.Replace(spaces, SPACE)]
    engine.normalizer = cleaning if kind == "char" else normalizers.Sequence([cleaning, *marking])
    plain = [decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    if kind == "char":
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTERS), "isolated")
        engine.decoder = decoders.Fuse()
    elif kind == "word":
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
        joined = [decoders.WordPiece("##", cleanup=False), decoders.Fuse()]
        engine.decoder = decoders.Sequence([*joined, decoders.Replace(Regex(NEXT_TO_A_SIGN), ""), *plain])
    else:
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(SUBWORDS), "isolated")
        apart = decoders.Replace(SPECIAL[MASK], SPACE + SPECIAL[MASK])  # a masked piece has its space inside
        engine.decoder = decoders.Sequence([apart, *plain])


def _require_own_parts(described: Any) -> None:
    """Require that a file of an engine has no part but those that are made here, and not many of them."""
    require(isinstance(described, dict), "it is no JSON object")
    strange = [name for name in ABSENT if described.get(name)]
    require(not strange, f"it has {' and '.join(strange)}, which none has that was made here")
    for name in PARTS:
        steps = _steps(described.get(name))
        require(len(steps) <= MOST_STEPS, f"its {name} has {len(steps)} steps, at most {MOST_STEPS} are read")
        for step in steps:
            require(step in _own_steps(), f"its {name} has a step that was not made here: {shortened(step, 120)}")


def _steps(part: Any) -> list[str]:
    """The steps of a part as JSON; sequences in it are laid out."""
    if isinstance(part, dict) and part.get("type") == "Sequence":
        inside = [step for key in SEQUENCES if isinstance(part.get(key), list) for step in part[key]]
        return [step for each in inside for step in _steps(each)]
    return [] if part is None else [json.dumps(part, sort_keys=True)]


@cache
def _own_steps() -> frozenset[str]:
    """The steps of all tokenizers that are made here."""
    steps = set[str]()
    for kind, lowercase in product(LEARNERS, (False, True)):
        engine = Engine(models.WordLevel({}, unk_token=SPECIAL[UNKNOWN]))
        _set_parts(engine, kind, _cleaning(lowercase))
        described = json.loads(engine.to_str())
        steps.update(step for name in PARTS for step in _steps(described[name]))
    return frozenset(steps)


def _characters(engine: Engine, texts: list[str], vocab: int) -> models.Model:
    """The special tokens and the most frequent characters, numbered in this order."""
    counts = Counter("".join(texts))
    frequent = sorted(counts, key=lambda token: (-counts[token], token))  # equals in the order of the alphabet
    tokens = [*SPECIAL, *frequent[: vocab - len(SPECIAL)]]
    return models.WordLevel({token: number for number, token in enumerate(tokens)}, unk_token=SPECIAL[UNKNOWN])


def _trained_by_engine(engine: Engine, texts: list[str], vocab: int, words: bool = False) -> models.Model:
    """Byte-pair encoding: start from characters, merge the most frequent neighbors, again and again; with `words`, words.

    Only the model is used: training also registers the special tokens, and texts that contain their names would match them.
    """
    known: dict[str, Any] = {"vocab_size": vocab, "special_tokens": list(SPECIAL), "show_progress": False}
    if words:
        learner = Engine(models.WordLevel({}, unk_token=SPECIAL[UNKNOWN]))
        trainer: trainers.Trainer = trainers.WordLevelTrainer(**known)
    else:
        learner = Engine(models.BPE(unk_token=SPECIAL[UNKNOWN], fuse_unk=True))
        trainer = trainers.BpeTrainer(min_frequency=2, **known)
    learner.normalizer, learner.pre_tokenizer = engine.normalizer, engine.pre_tokenizer
    learner.train_from_iterator(texts, trainer, length=len(texts))
    return learner.model


def _unigram(engine: Engine, texts: list[str], vocab: int) -> models.Model:
    """A unigram language model: a word is cut where the product of p(piece) is largest.

    It starts from the pieces of a larger byte-pair encoding, counts them on the best paths, and drops those that are
    missed the least. The trainer of Hugging Face adds in the order of a hash table: two runs give two vocabularies.
    """
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in engine.pre_tokenizer.pre_tokenize_str(engine.normalizer.normalize_str(text)))
    seed = Engine(_trained_by_engine(engine, texts, SEED * vocab)).get_vocab()
    pieces = sorted((piece for piece in set(seed) - set(SPECIAL) if len(piece) <= LONGEST), key=seed.__getitem__)
    scores = _scores(pieces, _occurrences(words, set(pieces)))
    while True:
        counts, paths = Counter[str](), _paths(scores)
        for encoding, count in zip(paths.encode_batch_fast(list(words)), words.values(), strict=True):
            for id in encoding.ids:
                counts[pieces[id - len(SPECIAL)]] += count
        scores = _scores(pieces, counts)
        if len(pieces) <= vocab - len(SPECIAL):
            return _paths(scores).model
        missed = {piece: _missed(piece, counts[piece], scores) for piece in pieces}
        room = max(vocab - len(SPECIAL), int(KEPT * len(pieces)))
        pieces = sorted(pieces, key=lambda piece: (-missed[piece], piece))[:room]
        scores = {piece: scores[piece] for piece in pieces}


def _occurrences(words: Counter[str], pieces: Container[str]) -> Counter[str]:
    """How often each piece occurs in the words."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(start + LONGEST, len(word)) + 1):
                if word[start:end] in pieces:
                    counts[word[start:end]] += count
    return counts


def _scores(pieces: Sequence[str], counts: Counter[str]) -> dict[str, float]:
    """log p of every piece; one that was not seen counts as half seen."""
    total = sum(max(counts[piece], 0.5) for piece in pieces)
    return {piece: round(log(max(counts[piece], 0.5) / total), 6) for piece in pieces}


def _paths(scores: dict[str, float]) -> Engine:
    """The engine that finds best paths, for words that are cut already."""
    return Engine(models.Unigram([*((token, 0.0) for token in SPECIAL), *scores.items()], unk_id=UNKNOWN))


def _missed(piece: str, count: int, scores: dict[str, float]) -> float:
    """What log p of the texts loses if a piece is dropped and its characters take the next best path; a character stays."""
    if len(piece) == 1:
        return inf
    best = [0.0] + [-inf] * len(piece)
    for start, end in combinations(range(len(piece) + 1), 2):
        if end - start < len(piece) and piece[start:end] in scores:
            best[end] = max(best[end], best[start] + scores[piece[start:end]])
    return count * (scores[piece] - best[-1])


LEARNERS: dict[str, Callable[[Engine, list[str], int], models.Model]] = {
    "bpe": _trained_by_engine,
    "unigram": _unigram,
    "word": partial(_trained_by_engine, words=True),
    "char": _characters,
}


def expected_tokens(text: str, kind: str) -> float:
    """About how many tokens a text has, where nothing has been learned yet that could count them.

    >>> [expected_tokens("the red house.", kind) for kind in ("char", "word", "bpe")]
    [14, 4, 3.5]
    """
    if kind == "char":
        return len(text)
    return len(text.split()) + 1 if kind == "word" else len(text.encode(errors="replace")) / 4


LEAST_VOCAB, OFTEN = 500, 50  # parts of words, and how often one should occur on average


def expected_vocab(texts: Sequence[str], tokens: float, kind: str) -> dict[str, int]:
    """The option `vocab` for so many tokens, of which these texts are some; nothing where its default serves.

    Parts of words that occur a few times only are not learned: few texts get fewer of them, and room for every character.

    >>> expected_vocab(["the red house."], 100_000, "bpe"), expected_vocab(["the red house."], 1e6, "bpe")
    ({'vocab': 2000}, {})
    """
    usual, characters = TextOptions().vocab, len(set("".join(texts)))
    vocab = max(LEAST_VOCAB, 4 * characters, int(tokens / OFTEN) // 100 * 100)
    return {"vocab": vocab} if kind in ("bpe", "unigram") and vocab < usual else {}


# What a task learns from texts before a model does: its tokens, and the labels they can have.


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
        if not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
            raise ValueError("the labels in config.json must be a list of texts")
        return cls(Tokenizer.load(paths[TOKENIZER]), tuple(labels))

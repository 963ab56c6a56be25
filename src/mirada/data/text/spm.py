"""Files of SentencePiece (`spiece.model`, `source.spm`, ...), read without its library: pieces, scores and a normalizer.

The file is a protocol buffer: fields with a number, a kind and a value. Only what decides how a text is cut is read, and
the same rules are given to the engine that all other tokenizers use.

Kudo and Richardson (2018), arXiv:1808.06226.
"""

import base64
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tokenizers import AddedToken
from tokenizers import Tokenizer as Engine

from mirada.data.text.bounded import LONGEST_TEXT, MOST_TOKENS, require_charsmap
from mirada.data.text.tokenize import SPACE
from mirada.errors import require

UNIGRAM, BPE = 1, 2  # kinds of models
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # kinds of pieces


class ScoredPiece(NamedTuple):
    """A piece of a model, its score, and its kind."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class PieceModel:
    """What a file of SentencePiece says.

    Args:
        pieces: the pieces in the order of their numbers.
        kind: UNIGRAM or BPE.
        byte_fallback: whether unknown characters are spelled in bytes.
        charsmap: the table of its normalizer.
        prefix: whether a text begins with the mark of a space.
        squeezed: whether spaces at the ends, and several in a row, are dropped.
    """

    pieces: tuple[ScoredPiece, ...]
    kind: int = UNIGRAM
    byte_fallback: bool = False
    charsmap: bytes = b""
    prefix: bool = True
    squeezed: bool = True

    @property
    def unknown(self) -> int:
        """The number of the piece for what is unknown."""
        found = [number for number, piece in enumerate(self.pieces) if piece.kind == UNKNOWN]
        require(len(found) == 1, f"a SentencePiece model has one unknown piece: got {len(found)}")
        return found[0]

    def engine(self, pieces: Sequence[ScoredPiece] = ()) -> Engine:
        """The engine that cuts texts as it does; with `pieces`, into these, where a checkpoint numbers them differently."""
        model = self if not pieces else PieceModel(tuple(pieces), self.kind, self.byte_fallback)
        squeeze = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
        spaces = [squeeze, {"type": "Strip", "strip_left": True, "strip_right": True}]
        table = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(self.charsmap).decode()}
        scheme = (
            "always" if self.prefix else "never"
        )  # a piece that users defined begins a new text, as in transformers
        marks: dict[str, Any] | None = {
            "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False,
        }  # fmt: skip
        steps = [*([table] if self.charsmap else []), *(spaces if self.squeezed else [])]
        if scheme == "always" and not self.squeezed:  # also before a space
            spelled = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
            marks, steps = None, [*steps, {"type": "Prepend", "prepend": SPACE}, spelled]
        back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
        plain = [back, {"type": "ByteFallback"}, {"type": "Fuse"}]
        first = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if self.prefix else []
        described: dict[str, Any] = {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "post_processor": None,
            "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None, "pre_tokenizer": marks,
            "decoder": {"type": "Sequence", "decoders": plain + first}, "model": model._described(),
        }  # fmt: skip
        engine = Engine.from_str(json.dumps(described))
        special = [piece.text for piece in model.pieces if piece.kind in (UNKNOWN, CONTROL)]
        engine.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
        own = [piece.text for piece in model.pieces if piece.kind == USER]
        engine.add_tokens([AddedToken(text, special=False, normalized=False) for text in own])
        return engine

    def _described(self) -> dict[str, Any]:
        """The model as a tokenizer.json has it."""
        if self.kind == UNIGRAM:
            lowest = min((piece.score for piece in self.pieces if piece.kind in (NORMAL, USER)), default=0.0)
            # these are never found in a text: their own letters are better, whatever they are
            silent = (piece for piece in self.pieces if piece.kind in (CONTROL, UNKNOWN))
            never = {piece: min(lowest, -1.0) * (len(piece.text) + 1) for piece in silent}
            vocab = [[piece.text, never.get(piece, piece.score)] for piece in self.pieces]
            return {"type": "Unigram", "unk_id": self.unknown, "vocab": vocab, "byte_fallback": self.byte_fallback}
        ids = {piece.text: number for number, piece in enumerate(self.pieces)}
        return {
            "type": "BPE", "dropout": None, "unk_token": self.pieces[self.unknown].text, "fuse_unk": True,
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "byte_fallback": self.byte_fallback,
            "ignore_merges": False, "vocab": ids, "merges": merges_of(self.pieces, ids),
        }  # fmt: skip


def merges_of(pieces: Sequence[ScoredPiece], ids: Mapping[str, int]) -> list[list[str]]:
    """The merges of a BPE whose pieces have scores: every way to put two pieces together to a third, the best score first.

    >>> merges_of([ScoredPiece("a", 0, 1), ScoredPiece("b", 0, 1), ScoredPiece("ab", -1, 1)], {"a": 0, "b": 1, "ab": 2})
    [['a', 'b']]
    """
    merges = [
        (piece.score, ids[piece.text[:cut]], ids[piece.text[cut:]], piece.text, cut)
        for piece in pieces
        if piece.kind == NORMAL
        for cut in range(1, len(piece.text))
        if piece.text[:cut] in ids and piece.text[cut:] in ids
    ]
    merges.sort(key=lambda merge: (-merge[0], merge[1], merge[2]))
    return [[text[:cut], text[cut:]] for _, _, _, text, cut in merges]


def read_pieces(content: bytes) -> PieceModel:
    """The model in a file of SentencePiece; ValueError for what is none.

    >>> read_pieces(b"no model")
    Traceback (most recent call last):
    ValueError: it is no SentencePiece model: it breaks off
    """
    try:
        return _model(content)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        reason = "it breaks off" if not isinstance(error, UnicodeDecodeError) else "a piece is not UTF-8"
        raise ValueError(f"it is no SentencePiece model: {reason}") from None


def _model(content: bytes) -> PieceModel:
    pieces, trainer, normalizer = list[ScoredPiece](), dict[int, Any](), dict[int, Any]()
    for number, value in _fields(content):
        if number == 1:
            each = dict(_fields(_bytes(value)))
            score = struct.unpack("<f", each[2])[0] if 2 in each else 0.0
            text = _bytes(each.get(1, b"")).decode()
            good = 0 < len(text) <= LONGEST_TEXT and math.isfinite(score) and len(pieces) < MOST_TOKENS
            require(good, f"its piece {len(pieces)} has no text, no score, or is too long")
            pieces.append(ScoredPiece(text, float(score), int(each.get(3, NORMAL))))
        elif number in (2, 3):
            (trainer if number == 2 else normalizer).update(_fields(_bytes(value)))
    require(bool(pieces), "it is no SentencePiece model: it has no pieces")
    require(len({piece.text for piece in pieces}) == len(pieces), "a piece of it stands there twice")
    kind = trainer.get(3, UNIGRAM)
    require(kind in (UNIGRAM, BPE), "its model must be unigram or BPE")
    charsmap = _bytes(normalizer.get(2, b""))
    require_charsmap(charsmap)
    flags = (normalizer.get(3, 1), normalizer.get(4, 1), normalizer.get(5, 1))
    require(bool(flags[2]), "it does not mark spaces (escape_whitespaces)")
    return PieceModel(tuple(pieces), kind, bool(trainer.get(35, 0)), charsmap, bool(flags[0]), bool(flags[1]))


def _bytes(value: Any) -> bytes:
    require(isinstance(value, bytes), "it is no SentencePiece model: a field is of another kind")
    return bytes(value)


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and values of the fields of a protocol buffer: whole numbers, or bytes."""
    at, end = 0, len(content)
    while at < end:
        key, at = _varint(content, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(content, at)
            yield number, value
            continue
        size, at = _varint(content, at) if kind == 2 else ({1: 8, 5: 4}.get(kind, -1), at)
        require(0 <= size <= end - at, "it is no SentencePiece model: it breaks off")
        yield number, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A whole number of up to ten bytes, seven bits each, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            return value, at
    raise IndexError

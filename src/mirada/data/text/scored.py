"""Tokenizers of llama2.c: pieces with scores in one file, as a tokenizer.json of merges in the order of their scores.

The file begins with the length of the longest piece, then comes for each its score (32 bits), its length and its UTF-8.
"""

import json
import struct
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.files import read_whole

LARGEST = 64 << 20  # bytes
UNKNOWN, START, END, BYTES = 0, 1, 2, range(3, 259)  # tokens that every vocabulary of llama2.c has
FIRST = 4  # bytes before the first piece
SPACE = "▁"


def tokenizer_json(path: Path, vocab: int) -> str:
    """A tokenizer of llama2.c in the format of Hugging Face: pieces with scores as merges in the order of their scores.

    Args:
        path: the file.
        vocab: how many tokens the model has.
    """
    scored = _pieces(path, vocab)
    names = {UNKNOWN: "<unk>", START: "<s>", END: "</s>"}
    tokens = [
        names.get(id, piece if id in BYTES else piece.replace(" ", SPACE)) for id, (piece, _) in enumerate(scored)
    ]
    require(len(set(tokens)) == vocab, f"{path} has a token twice")
    ids = {token: id for id, token in enumerate(tokens)}
    merged = sorted(range(BYTES.stop, vocab), key=lambda id: (-scored[id][1], id))
    merges = [
        [token[:cut], token[cut:]]
        for token in (tokens[id] for id in merged)
        for cut in range(1, len(token))
        if token[:cut] in ids and token[cut:] in ids
    ]
    special = [_special(id, name) for id, name in names.items()]
    start = {"id": "<s>", "ids": [START], "tokens": ["<s>"]}
    first, second = ({"Sequence": {"id": part, "type_id": 0}} for part in "AB")
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": special,
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "Prepend", "prepend": SPACE},
                    {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
                ],
            },
            "pre_tokenizer": None,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [begin, first],
                "pair": [begin, first, begin, second],
                "special_tokens": {"<s>": start},
            },
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                ],
            },
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": "<unk>",
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": True,
                "byte_fallback": True,
                "vocab": ids,
                "merges": merges,
            },
        },
        ensure_ascii=False,
    )


def _special(id: int, name: str) -> dict[str, Any]:
    """A special token of a tokenizer's file."""
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": name, "special": True, **plain}


def _pieces(path: Path, vocab: int) -> list[tuple[str, float]]:
    """Every token and its score, of a file that begins with the length of the longest."""
    data = read_whole(path, LARGEST)
    pieces, place, entry = list[tuple[str, float]](), FIRST, struct.Struct("<fi")
    while place + entry.size <= len(data) and len(pieces) < vocab:
        score, size = entry.unpack_from(data, place)
        place += entry.size
        require(0 <= size <= len(data) - place, f"{path} is damaged: token {len(pieces)} has {size} bytes")
        try:
            pieces.append((data[place : place + size].decode("utf-8"), score))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is damaged: token {len(pieces)} is no UTF-8") from None
        place += size
    whole = len(pieces) == vocab and place == len(data)
    require(
        whole and vocab > BYTES.stop,
        f"{path} must hold {vocab} tokens, one for each of the model: is it another one's?",
    )
    return pieces

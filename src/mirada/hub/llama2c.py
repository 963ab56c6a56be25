"""Files of llama2.c: a Llama as one file of numbers, and its tokenizer as another.

The file begins with seven whole numbers of 32 bits (width, hidden, layers, heads, key heads, vocabulary, context), then come
the tensors in float32, each kind for all layers at once. A negative vocabulary says that the output has a table of its own.
Coordinates that are rotated together are neighbors, unlike in the checkpoints of Hugging Face.
"""

import json
import struct
from collections.abc import Collection, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mirada.errors import require
from mirada.files import read_whole
from mirada.hub.checkpoint import Checkpoint
from mirada.hub.decoder import heads
from mirada.hub.folder import HubFolder, MappedWeights
from mirada.hub.mapping import Row, WeightTable, copy_weights, setting
from mirada.layers.model import Model
from mirada.models.gpt import GPT, GPTConfig

HEADER = struct.Struct("<7i")
NAMES = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
MOST, MOST_LAYERS = 1 << 24, 10_000  # of a size; of layers
LARGEST_TOKENIZER = 64 << 20  # bytes
NUMBER = 4  # bytes
UNKNOWN, START, END, BYTES = 0, 1, 2, range(3, 259)  # tokens that every vocabulary of llama2.c has
LAYER = "decoder.layers.{n}"
SPACE = "▁"

TABLE = WeightTable(
    source="llama2.c file",
    rows=(
        Row("words.weight", "tok_embeddings"),
        Row(f"{LAYER}.around_self.norm.weight", "layers.{n}.attention_norm"),
        Row(f"{LAYER}.self.heads.query.weight", "layers.{n}.wq"),
        Row(f"{LAYER}.self.heads.key.weight", "layers.{n}.wk"),
        Row(f"{LAYER}.self.heads.value.weight", "layers.{n}.wv"),
        Row(f"{LAYER}.self.heads.out.weight", "layers.{n}.wo"),
        Row(f"{LAYER}.around_feed.norm.weight", "layers.{n}.ffn_norm"),
        Row(f"{LAYER}.feed.gate.weight", "layers.{n}.w1"),
        Row(f"{LAYER}.feed.narrow.weight", "layers.{n}.w2"),
        Row(f"{LAYER}.feed.widen.weight", "layers.{n}.w3"),
        Row("decoder.norm.weight", "norm"),
        Row("output.weight", "output"),
    ),
    ignored=("freqs_cos", "freqs_sin"),  # angles, which are computed
)


class Slice(NamedTuple):
    """Where a tensor stands in a file: its first byte, and its shape."""

    start: int
    shape: tuple[int, ...]


class NumberFile(MappedWeights):
    """The tensors of one file of numbers, mapped.

    Args:
        path: the file.
        slices: where each tensor stands.
    """

    def __init__(self, path: Path, slices: Mapping[str, Slice]) -> None:
        super().__init__(dict.fromkeys(slices, path))
        self.path, self.slices = path, slices
        self._numbers: Tensor | None = None

    def __getitem__(self, name: str) -> Tensor:
        start, shape = self.slices[name]
        if self._numbers is None:
            count = self.path.stat().st_size // NUMBER
            self._numbers = torch.from_file(str(self.path), shared=False, size=count, dtype=torch.float32)
        first = start // NUMBER
        return self._numbers[first : first + prod(shape)].view(shape)

    def close(self) -> None:
        """Let go of the file; tensors that are still used keep theirs."""
        self._numbers = None


def sizes_of(path: Path) -> dict[str, Any] | None:
    """The sizes of a file of llama2.c, as a config.json would have them; None for any other file.

    The sizes must be plausible, and give the number of bytes that the file has.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    named = dict(zip(NAMES, HEADER.unpack(head), strict=True))
    tied, named["vocab_size"] = named["vocab_size"] > 0, abs(named["vocab_size"])
    if not all(0 < size <= MOST for size in named.values()) or named["n_layers"] > MOST_LAYERS:
        return None
    if named["dim"] % (2 * named["n_heads"]) or named["n_heads"] % named["n_kv_heads"]:
        return None
    theirs = {"model_type": "llama2c", **named, "tied": tied}
    *_, (_, last) = _slices(theirs)
    return theirs if last.start + NUMBER * prod(last.shape) == path.stat().st_size else None


def _slices(theirs: Mapping[str, Any]) -> Iterator[tuple[str, Slice]]:
    """Where every tensor of a file stands, in their order."""
    dim, hidden, layers, heads, groups, vocab, length = (theirs[name] for name in NAMES)
    head = dim // heads
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("tok_embeddings", (vocab, dim)), ("layers.{n}.attention_norm", (dim,)), ("layers.{n}.wq", (dim, dim)),
        ("layers.{n}.wk", (groups * head, dim)), ("layers.{n}.wv", (groups * head, dim)), ("layers.{n}.wo", (dim, dim)),
        ("layers.{n}.ffn_norm", (dim,)), ("layers.{n}.w1", (hidden, dim)), ("layers.{n}.w2", (dim, hidden)),
        ("layers.{n}.w3", (hidden, dim)), ("norm", (dim,)), ("freqs_cos", (length, head // 2)),
        ("freqs_sin", (length, head // 2)),
    ]  # fmt: skip
    start = HEADER.size
    for name, shape in shapes + ([] if theirs["tied"] else [("output", (vocab, dim))]):
        for layer in range(layers) if "{n}" in name else range(1):
            yield name.format(n=layer), Slice(start, shape)
            start += NUMBER * prod(shape)


def open_file(path: Path) -> HubFolder | None:
    """A file of llama2.c with the tokenizer beside it (tokN.bin for N tokens, or tokenizer.bin); None for any other file."""
    theirs = sizes_of(path)
    if theirs is None:
        return None
    beside = [path.parent / name for name in (f"tok{theirs['vocab_size']}.bin", "tokenizer.bin")]
    found = [each for each in beside if each.is_file()][:1]
    note = f"no tokenizer beside {path.name} ({' or '.join(each.name for each in beside)}): it takes token ids"
    files = {each.name: each for each in found}
    return HubFolder(path, theirs, NumberFile(path, dict(_slices(theirs))), files, () if found else (note,))


def config(theirs: Mapping[str, Any]) -> GPTConfig:
    """Our configuration of the sizes of a file.

    >>> sizes = dict(zip(NAMES, (8, 16, 2, 2, 1, 300, 32), strict=True))
    >>> config(sizes | {"tied": True}).position
    'rotary:layout=interleaved'
    """
    width, hidden, depth, count, groups, vocab, length = (setting(theirs, name) for name in NAMES)
    return GPTConfig(
        vocab=vocab,
        width=width,
        depth=depth,
        heads=count,
        hidden=hidden,
        length=length,
        projection=heads(count, groups, width, width // count, ""),
        activation="gated",
        norm="rms:1e-05",
        position="rotary:layout=interleaved",
        dropout=0.0,
        tied=setting(theirs, "tied"),
    )


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a file describes: a decoder that goes on with a text."""
    return Checkpoint(GPT, config(theirs), TABLE, "write", "gpt", {"start_token": START, "end_tokens": [END, START]})


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> GPT:
    """Our model of the sizes and tensors of a file, in evaluation mode.

    Andrej Karpathy (2023), llama2.c.
    """
    return copy_weights(GPT(config(theirs)).eval(), TABLE, weights)


def config_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """There is none: a file of llama2.c is read, not written.

    >>> config_json(GPT(GPTConfig.tiny()), {})
    Traceback (most recent call last):
    ValueError: files of llama2.c are read only: its rotations pair neighbors, which no family of Hugging Face has
    """
    raise ValueError(
        "files of llama2.c are read only: its rotations pair neighbors, which no family of Hugging Face has"
    )


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
    data = read_whole(path, LARGEST_TOKENIZER)
    pieces, place, entry = list[tuple[str, float]](), NUMBER, struct.Struct("<fi")
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

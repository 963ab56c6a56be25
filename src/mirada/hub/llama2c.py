"""Files of llama2.c: a Llama as one file of numbers, and its tokenizer as another.

The file begins with seven whole numbers of 32 bits (width, hidden, layers, heads, key heads, vocabulary, context), then come
the tensors in float32, each kind for all layers at once. A negative vocabulary says that the output has a table of its own.
Coordinates that are rotated together are neighbors, unlike in the checkpoints of Hugging Face.
"""

import struct
from collections.abc import Collection, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mirada.hub.checkpoint import Checkpoint
from mirada.hub.decoder import heads
from mirada.hub.folder import HubFolder, MappedWeights
from mirada.hub.mapping import Row, WeightTable, copy_weights, setting
from mirada.layers.model import Model
from mirada.models.gpt import GPT, GPTConfig

HEADER = struct.Struct("<7i")
NAMES = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
MOST, MOST_LAYERS = 1 << 24, 10_000  # of a size; of layers
NUMBER = 4  # bytes
UNKNOWN, START, END = range(3)  # tokens that every vocabulary of llama2.c has
LAYER = "decoder.layers.{n}"

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
    tokens = {"unk_token_id": UNKNOWN, "bos_token_id": START, "eos_token_id": END}
    theirs = {"model_type": "llama2c", **named, "tied": tied, **tokens}
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

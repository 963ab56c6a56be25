"""Files of llama2.c: against Hugging Face's Llama with its rows in their order, and the real one where it is there."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from einops import rearrange
from tokenizers import Tokenizer as Engine
from torch import Tensor
from torch.testing import assert_close

from mirada import engine
from mirada.data.text.foreign import read_tokenizer
from mirada.data.text.scored import tokenizer_json
from mirada.decoding.greedy import Greedy
from mirada.hub import llama, llama2c
from mirada.hub.folder import open_folder
from mirada.hub.mapping import copy_weights
from mirada.models.gpt import GPT

SIZES = {
    "dim": 24,
    "hidden_dim": 31,
    "n_layers": 3,
    "n_heads": 4,
    "n_kv_heads": 2,
    "vocab_size": 263,
    "max_seq_len": 17,
}
PIECES = ["a", "b", " ", " a", "ab", " ab"]  # after the special tokens and the bytes: 265 tokens
DATA = Path(os.environ.get("MIRADA_DATA", Path(__file__).parents[3] / "shared" / "data"))
STORIES = DATA / "stories260K" / "stories260K.bin"
KNOWN = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, "
    "red ball."
)


def tensors(tied: bool) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a file, in the order of llama2.c."""
    dim, hidden, layers, heads, groups, vocab, length = SIZES.values()
    key = groups * dim // heads
    yield "tok", torch.randn(vocab, dim)
    for name, *shape in (
        ("n1", dim), ("wq", dim, dim), ("wk", key, dim), ("wv", key, dim), ("wo", dim, dim), ("n2", dim), ("w1", hidden, dim),
        ("w2", dim, hidden), ("w3", hidden, dim),
    ):  # fmt: skip
        yield name, torch.randn(layers, *shape)
    yield "norm", torch.randn(dim)
    yield "cos", torch.full((length, dim // heads // 2), torch.nan)
    yield "sin", torch.full((length, dim // heads // 2), torch.nan)
    if not tied:
        yield "out", torch.randn(vocab, dim)


def write(path: Path, tied: bool) -> dict[str, Tensor]:
    """A random file, and its tensors."""
    made = dict(tensors(tied))
    sizes = list(SIZES.values())
    sizes[5] *= 1 if tied else -1
    path.write_bytes(struct.pack("<7i", *sizes) + b"".join(tensor.numpy().tobytes() for tensor in made.values()))
    return made


def halves(rows: Tensor, heads: int) -> Tensor:
    """Rows of queries or keys in the order of Hugging Face, where the halves of a head are rotated together."""
    return rearrange(rows, "(h d two) i -> (h two d) i", h=heads, two=2)


@pytest.mark.parametrize("tied", [True, False])
def test_a_file_computes_what_a_llama_of_its_tensors_computes(tmp_path: Path, tied: bool) -> None:
    made = write(tmp_path / "model.bin", tied)
    folder = open_folder(tmp_path / "model.bin")
    ours = llama2c.load(folder.config, folder.weights)
    names = {"wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj"}
    names |= {"w1": "mlp.gate_proj", "w2": "mlp.down_proj", "w3": "mlp.up_proj", "n1": "input_layernorm"}
    names |= {"n2": "post_attention_layernorm"}
    theirs = {"model.embed_tokens.weight": made["tok"], "model.norm.weight": made["norm"]}
    for short, name in names.items():
        for layer, tensor in enumerate(made[short]):
            rows = halves(tensor, {"wq": 4, "wk": 2}[short]) if short in ("wq", "wk") else tensor
            theirs[f"model.layers.{layer}.{name}.weight"] = rows
    if not tied:
        theirs["lm_head.weight"] = made["out"]
    like = {
        "model_type": "llama",
        "vocab_size": 263,
        "hidden_size": 24,
        "intermediate_size": 31,
        "num_hidden_layers": 3,
    }
    like |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 17, "rms_norm_eps": 1e-5}
    other = copy_weights(GPT(llama.config(like | {"tie_word_embeddings": tied})).eval(), llama.table("llama"), theirs)
    tokens = torch.randint(263, (2, 11))
    with torch.no_grad():
        assert_close(ours(tokens), other(tokens), atol=1e-4, rtol=1e-4)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    write(path, tied=True)
    assert "takes token ids" in open_folder(path).notes[0]
    whole = path.read_bytes()
    for damaged in (whole[:-4], whole + b"1234", whole[:12], b"\xff" * len(whole), struct.pack("<7i", *[1 << 30] * 7)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is a file of pickle"):
            open_folder(path)


def tokenizer_file(path: Path, pieces: list[str]) -> Path:
    """A file of pieces, the later the less likely."""
    special = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    entries = [struct.pack("<fi", -float(n), len(p.encode())) + p.encode() for n, p in enumerate([*special, *pieces])]
    path.write_bytes(struct.pack("<i", 27) + b"".join(entries))
    return path


def test_a_tokenizer_merges_the_best_pieces_and_spells_the_rest_in_bytes(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path / "tok265.bin", PIECES)
    engine = Engine.from_str(tokenizer_json(path, 265))
    encoded = engine.encode("ab aé")
    assert encoded.tokens == ["<s>", "▁ab", "▁a", "<0xC3>", "<0xA9>"]
    assert encoded.ids == [1, 264, 262, 3 + 0xC3, 3 + 0xA9]
    assert engine.decode(encoded.ids) == "ab aé"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "is damaged: token 264 has 3 bytes"),
        (lambda data: data + b"1234", "must hold 265 tokens"),
        (lambda data: data[:-1] + b"\xff", "token 264 is no UTF-8"),
        (lambda data: data[:4], "must hold 265 tokens"),
    ],
)
def test_a_damaged_tokenizer_is_named(tmp_path: Path, change: object, message: str) -> None:
    path = tokenizer_file(tmp_path / "tok265.bin", PIECES)
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(ValueError, match=message):
        tokenizer_json(path, 265)


@pytest.mark.skipif(not STORIES.exists(), reason="the data for measuring is not here")
def test_the_stories_go_on_as_they_are_known_to() -> None:
    folder = open_folder(STORIES)
    model = llama2c.load(folder.config, folder.weights)
    tokenizer = read_tokenizer(folder.files, folder.config)
    assert len(tokenizer) == 512
    ids = tokenizer.prompt(tokenizer.encode("Once upon a time"))
    stepper = engine.fast(model).stepper
    with torch.no_grad():
        _, state = stepper.step(torch.tensor([ids[:-1]]), stepper.start(1))
    ((best,),) = Greedy()(stepper, state, torch.tensor(ids[-1:]), tokenizer.end, 60)
    assert tokenizer.decode([*ids, *best.tokens]).startswith(KNOWN)

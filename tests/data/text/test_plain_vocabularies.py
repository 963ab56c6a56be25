"""Folders without a tokenizer.json: vocab.txt, and vocab.json with merges.txt, against transformers' own classes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, CLIPTokenizer, EsmTokenizer, GPT2Tokenizer, Qwen2Tokenizer, RobertaTokenizer

from mirada.data.text.foreign import read_tokenizer
from mirada.data.text.tokenize import Tokenizer
from tests.data.text.foreign_folders import BERT, FOLDERS, LINES, ROBERTA, TEXTS

ESM = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO", ".", "-", "<null_1>", "<mask>"]


def opened(folder: Path, **theirs: Any) -> Tokenizer:
    return read_tokenizer({path.name: path for path in folder.iterdir()}, theirs)


def require_same(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    """The same tokens with what stands around them, and the same text again."""
    for text in texts:
        ids = ours.encode(text)
        assert ours.framed(ids)[0] == theirs(text)["input_ids"], text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True), text
    pair = theirs(texts[0], texts[1])
    assert ours.framed(*map(ours.encode, texts[:2]))[0] == pair["input_ids"]


@pytest.mark.parametrize(
    "config", [{}, {"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_vocab_txt_of_bert(tmp_path: Path, config: Mapping[str, Any]) -> None:
    engine = Engine(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=160, special_tokens=list(BERT)))
    vocab = engine.get_vocab()
    tokens = [*sorted(vocab, key=vocab.__getitem__), "\u2028", "\x85"]  # line ends, for some readers
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8", newline="\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    ours, theirs = opened(tmp_path, model_type="bert"), BertTokenizer.from_pretrained(tmp_path)
    require_same(ours, theirs, TEXTS)
    assert (ours.pad, ours.unknown, ours.start, ours.end, ours.mask) == (0, 1, 2, 3, 4)
    assert ours.encode_blanks("the ___ house") == theirs("the [MASK] house", add_special_tokens=False)["input_ids"]


def test_vocab_txt_of_esm(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(ESM))
    ours, theirs = opened(tmp_path, model_type="esm"), EsmTokenizer.from_pretrained(tmp_path)
    texts = ["MKTAYIAKQR", "M K T A", "MKTxAYO", "MK TA-Y.", "", "X"]
    for text in texts:
        assert ours.framed(ours.encode(text))[0] == theirs(text)["input_ids"], text
    assert (ours.start, ours.end, ours.pad, ours.unknown, ours.mask) == (0, 2, 1, 3, ESM.index("<mask>"))
    assert ours.encode_blanks("MK___TA") == theirs("MK<mask>TA", add_special_tokens=False)["input_ids"]
    assert [piece.text for piece in ours.pieces("MKT")] == ["M", "K", "T"]


def merges_folder(folder: Path, special: list[str], ended: str = "", **config: Any) -> Path:
    """vocab.json and merges.txt of a byte-level BPE."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    engine = Engine(models.BPE(end_of_word_suffix=ended))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    sizes = {"vocab_size": 700 if ended else 320, "end_of_word_suffix": ended}
    trainer = trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet, **sizes)
    engine.train_from_iterator([line.lower() for line in LINES], trainer)
    described = json.loads(engine.to_str())["model"]
    vocab, merges = described["vocab"], described["merges"]
    if ended:
        ends = (f"{one}{ended}" for one in alphabet if f"{one}{ended}" not in vocab)
        vocab |= {text: len(vocab) + number for number, text in enumerate(ends)}
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    lines = (" ".join(pair) for pair in merges)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines]) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("kind", "special", "model_type"),
    [
        (GPT2Tokenizer, ["<|endoftext|>"], "gpt2"),
        (RobertaTokenizer, list(ROBERTA), "roberta"),
        (Qwen2Tokenizer, ["<|endoftext|>"], "qwen2"),
    ],
)
@pytest.mark.parametrize("prefix", [False, True])
def test_byte_level_vocabularies(tmp_path: Path, kind: Any, special: list[str], model_type: str, prefix: bool) -> None:
    merges_folder(tmp_path, special, add_prefix_space=prefix)
    ours = opened(tmp_path, model_type=model_type, eos_token_id=0)
    require_same(ours, kind.from_pretrained(tmp_path), TEXTS)


def test_the_vocabulary_of_clip(tmp_path: Path) -> None:
    ends = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    merges_folder(tmp_path, ["<|startoftext|>", "<|endoftext|>"], "</w>", unk_token="<|endoftext|>", **ends)
    ours, theirs = opened(tmp_path, model_type="clip"), CLIPTokenizer.from_pretrained(tmp_path)
    for text in ("the red house", "The  Café, don't!", "numbers 123", "unknown ꙮ"):
        assert ours.framed(ours.encode(text))[0] == theirs(text)["input_ids"], text
    assert "</w>" not in "".join(map(ours.token, ours.encode("the red house")))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "one\ntwo\n", r"has no \[CLS\]"),
        ("vocab.txt", b"\xff\xfe", "cannot be read as a tokenizer"),
        ("vocab.json", "[1]", "must hold a JSON object"),
        ("vocab.json", '{"a": "b"}', "must number its tokens"),
        ("merges.txt", "one two three\n", "two tokens a line"),
        ("merges.txt", "one two\n", "cannot be read as a tokenizer"),
        ("tokenizer.json", "{}", "it has no model"),
        ("tokenizer.json", '{"model": {"type": "Magic"}}', "its model is 'Magic'"),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"90": {"content": "<x>"}}}',
            "has the number 90, and comes to be",
        ),
        ("added_tokens.json", '{"<x>": 99}', "has the number 99, and comes to be"),
    ],
)
def test_broken_folders_are_named(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    if name.startswith(("vocab.json", "merges")):
        merges_folder(tmp_path, ["<|endoftext|>"])
    elif name != "vocab.txt":
        FOLDERS["words"](tmp_path)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as error:
        opened(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("kind", "model_type"), [(GPT2Tokenizer, "gpt2"), (Qwen2Tokenizer, "qwen2")])
def test_nothing_is_put_around_texts_of_a_decoder_that_knows_gaps(tmp_path: Path, kind: Any, model_type: str) -> None:
    """As many train their vocabulary: with the special tokens of RoBERTa."""
    merges_folder(tmp_path, list(ROBERTA))
    ours, theirs = opened(tmp_path, model_type=model_type), kind.from_pretrained(tmp_path)
    ids = ours.encode("the red house")
    assert ours.framed(ids)[0] == ours.prompt(ids) == theirs("the red house")["input_ids"]

"""A tokenizer's file may come from somebody else: what could take for ever, or break the engine, is refused at once."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mirada.data.text.tokenize import Tokenizer

TEXTS = ["the red house.", "the red car.", "a red house?"] * 3
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
PARTS = {
    "a catastrophic pattern that cuts": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+a+)+$"}, "behavior": "Isolated", "invert": False}
    },
    "a catastrophic pattern that cleans": {
        "normalizer": {"type": "Replace", "pattern": {"Regex": "(a|a)*(b|$)"}, "content": ""}
    },
    "a pattern that is none": {"normalizer": {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}},
    "a charsmap that is none": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}},
    "28 doublings": {"normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 28}},
    "doublings inside sequences": {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [DOUBLE] * 28}]}
    },
    "a billion steps of our own": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 1000}},
    "huge padding": {
        "padding": {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "<pad>"}
    },
    "a decoder that doubles": {"decoder": {"type": "Sequence", "decoders": [DOUBLE] * 28}},
    "added tokens": {"added_tokens": [{"id": 0, "content": "a" * 9, "special": True}]},
    "a part that is no object": {"normalizer": [[[]]]},
}  # fmt: skip


@pytest.mark.parametrize("what", PARTS)
def test_strange_parts_are_refused_at_once_in_one_line(
    tmp_path: Path, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    described: dict[str, Any] = json.loads(Tokenizer.train(TEXTS).to_json()) | PARTS[what]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described))
    began = time.perf_counter()
    with pytest.raises(ValueError, match="does not hold a tokenizer of mirada") as refused:
        Tokenizer.load(path).encode("a" * 60 + "!")
    assert time.perf_counter() - began < 2
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""  # the engine prints its own traceback where it breaks


@pytest.mark.parametrize("text", ["[]", "{}", "null", "[" * 100_000, '{"model": {"type": "BPE"}}'])
def test_what_is_no_tokenizer(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match="does not hold a tokenizer of mirada"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_our_own_are_read(tmp_path: Path, kind: str, lowercase: bool) -> None:
    tokenizer = Tokenizer.train(TEXTS, kind, lowercase=lowercase)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").to_json() == tokenizer.to_json()

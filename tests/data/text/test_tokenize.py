"""Texts become token numbers and come back."""

import json
import os
import subprocess
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from mirada.data.text.tokenize import END, MASK, PAD, SPECIAL, START, UNKNOWN, Piece, Tokenizer

KINDS = ("bpe", "unigram", "word", "char")
LETTERS = "abcdehiloqrstuñáéíóúüABCDÁÉ"
SIGNS = "¿?¡!.,;:\"'()«»-_/%#<>|=&0123456789"
TEXTS = [
    *(f"{sign}{sign} {sign} a{sign}b a {sign} b {sign}a a{sign} b" for sign in SIGNS),  # a sign with and without spaces
    " ".join(LETTERS),
    *["the red house is tall.", "the houses are red, the car is not.", "¿dónde está la casa roja?", "la casa es alta."]
    * 5,
    *["¡qué casa!", "I don't see Ana's house.", '"la casa" (roja) está aquí...', "in 2024 the car cost 1,500 euros."]
    * 5,
]
TOKENIZERS = {kind: Tokenizer.train(TEXTS, kind, vocab=600) for kind in KINDS}
LONG = [kind for kind in KINDS if kind != "word"]  # kinds that spell what they have not seen

characters = st.sampled_from(LETTERS + SIGNS)
phrases = st.lists(st.text(characters, min_size=1, max_size=8), max_size=6).map(" ".join)
WORDS = ["the", "red", "house", "is", "la", "casa", "está", "don't", "Ana's", "a", "b"]
SPANS = ["{}", "{}.", "{},", "¿{}?", "¡{}!", '"{}"', "({})", "{}...", "- {}", "{}: 12", "{}; 1,5%"]
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
spans = st.builds(str.format, st.sampled_from(SPANS), words)
sentences = st.lists(spans, min_size=1, max_size=4).map(" ".join)


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return TOKENIZERS[request.param]


def shown(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.token(id) for id in ids]


# --- the round trip


@pytest.mark.parametrize("kind", LONG)
@given(text=phrases)
def test_known_characters_come_back(kind: str, text: str) -> None:
    ids = TOKENIZERS[kind].encode(text)
    assert set(ids).isdisjoint(range(5))
    assert TOKENIZERS[kind].decode(ids) == text


@given(text=sentences)
def test_known_words_and_signs_come_back(text: str) -> None:
    ids = TOKENIZERS["word"].encode(text)
    assert set(ids).isdisjoint(range(5))
    assert TOKENIZERS["word"].decode(ids) == text


@pytest.mark.parametrize("kind", LONG)
@given(text=st.text(st.sampled_from("ab.\n\t  "), max_size=12))
def test_all_white_space_is_kept(kind: str, text: str) -> None:
    tokenizer = WITH_WHITE_SPACE[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == text


WITH_WHITE_SPACE = {kind: Tokenizer.train(["a b.\n\n\tb a\n  a"] * 3, kind, vocab=50) for kind in LONG}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strange", ["\n", "\t", "\r", "\xa0", "\u2009", "\u2028"])
def test_white_space_that_was_never_seen_is_a_space(kind: str, strange: str) -> None:
    tokenizer = TOKENIZERS[kind]
    text, plain = f"the red{strange}house is tall.", "the red house is tall."
    assert tokenizer.encode(text) == tokenizer.encode(plain)
    assert tokenizer.encode_blanks(f"the{strange}___ house") == tokenizer.encode_blanks("the ___ house")
    assert [piece.id for piece in tokenizer.pieces(text)] == [piece.id for piece in tokenizer.pieces(plain)]
    learned = Tokenizer.train([text] * 3, kind)
    assert learned.decode(learned.encode(text)) == (plain if kind == "word" else text), "what was learned stays"


def test_words_have_single_spaces() -> None:
    tokenizer = TOKENIZERS["word"]
    assert tokenizer.decode(tokenizer.encode("  the \n red\thouse . ")) == "the red house ."


def test_accents_are_composed_and_case_is_kept_or_not() -> None:
    split = unicodedata.normalize("NFD", "¿Dónde está la casa?")
    for kind in KINDS:
        plain = Tokenizer.train([split] * 2, kind)
        assert plain.decode(plain.encode(split)) == "¿Dónde está la casa?"
        lower = Tokenizer.train([split] * 2, kind, lowercase=True)
        assert lower.decode(lower.encode(split.upper())) == "¿dónde está la casa?"


def test_the_special_tokens_have_their_numbers_and_leave_the_text(tokenizer: Tokenizer) -> None:
    assert [tokenizer.token(id) for id in (PAD, UNKNOWN, START, END, MASK)] == list(SPECIAL)
    ids = tokenizer.encode("la casa roja")
    assert tokenizer.decode([START, *ids, END, PAD, PAD]) == "la casa roja"
    assert "<unk>" in tokenizer.decode([*ids, UNKNOWN])


def test_a_word_among_unknown_and_hidden_ones_keeps_its_spaces() -> None:
    tokenizer = TOKENIZERS["word"]
    the, red = tokenizer.encode("the red")
    assert tokenizer.decode([the, UNKNOWN, red, MASK, red]) == "the <unk> red <mask> red"


# --- what a token is


def test_a_word_has_the_same_pieces_next_to_a_sign() -> None:
    for kind in ("bpe", "unigram"):
        tokenizer = TOKENIZERS[kind]
        house, stop = tokenizer.encode("the house"), tokenizer.encode("the house.")
        assert stop[:-1] == house
    tokenizer = TOKENIZERS["word"]
    casa = tokenizer.encode("casa")[0]
    assert tokenizer.encode('"casa" (casa) ¿casa? casa, casa.').count(casa) == 5


def test_digits_are_spelled(tokenizer: Tokenizer) -> None:
    assert shown(tokenizer, tokenizer.encode("1234")) in ([*"1234"], ["␣", *"1234"])


def test_english_endings_are_one_token() -> None:
    tokenizer = TOKENIZERS["word"]
    assert shown(tokenizer, tokenizer.encode("I don't see Ana's house.")) == [
        "I",
        "don",
        "'t",
        "see",
        "Ana",
        "'s",
        "house",
        ".",
    ]


def test_words_are_the_most_frequent() -> None:
    tokenizer = Tokenizer.train(["uno dos tres", "uno dos", "uno"], "word", vocab=7)
    assert len(tokenizer) == 7
    assert tokenizer.encode("uno dos tres") == [5, 6, UNKNOWN]


def test_characters_are_the_most_frequent() -> None:
    tokenizer = Tokenizer.train(["aaa bb", "c"], "char", vocab=8)
    assert tokenizer.encode("a b c") == [5, 7, 6, 7, UNKNOWN]  # of two that are as frequent, the first by alphabet


def test_byte_pairs_by_hand() -> None:
    tokenizer = Tokenizer.train(["ab ab ab ac"], "bpe")  # characters a b c ▁; merged ▁a, then ▁ab; ▁ac was seen once
    assert len(tokenizer) == 11
    assert tokenizer.encode("ab ac b") == [10, 9, 7, 8, 6]


def test_unigram_takes_the_likelier_path() -> None:
    tokenizer = Tokenizer.train(["casa casas casa casa mesa mesas mesa"] * 3, "unigram", vocab=20)
    assert shown(tokenizer, tokenizer.encode("casa mesa")) == ["casa", "mesa"]
    scores = json.loads(tokenizer.to_json())["model"]["vocab"]
    assert sum(2.718281828459045**score for _, score in scores[5:]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_a_small_vocabulary_keeps_the_frequent_characters(kind: str) -> None:
    tokenizer = Tokenizer.train(["aaaa bbb cc d"] * 3, kind, vocab=8)
    assert len(tokenizer) <= 8
    assert UNKNOWN not in tokenizer.encode("ab")
    assert UNKNOWN in tokenizer.encode("d")


def test_blank_tokens_are_shown_by_a_sign() -> None:
    tokenizer = WITH_WHITE_SPACE["char"]
    assert shown(tokenizer, tokenizer.encode("a \n\t")) == ["a", "␣", "↵", "⇥"]
    assert "" not in shown(TOKENIZERS["bpe"], list(range(len(TOKENIZERS["bpe"]))))


# --- special tokens in texts


def test_names_of_special_tokens_are_text(tokenizer: Tokenizer) -> None:
    for name in SPECIAL:
        ids = tokenizer.encode(f"a {name} b{name}")
        assert not {PAD, START, END, MASK} & set(ids)
    again = Tokenizer(tokenizers.Tokenizer.from_str(tokenizer.to_json()))
    again.engine.add_special_tokens(list(SPECIAL))  # as another library may save it
    again = Tokenizer(tokenizers.Tokenizer.from_str(again.to_json()))
    assert again.encode("a<pad>b") == tokenizer.encode("a<pad>b")


def test_blanks_become_masks_and_the_rest_stays(tokenizer: Tokenizer) -> None:
    with_word, with_blank = tokenizer.encode("la casa, la casa."), tokenizer.encode_blanks("la ___, la _____.")
    casa = tokenizer.encode("la casa")[len(tokenizer.encode("la")) :]
    expected, rest = [], with_word
    while rest:
        hit = rest[: len(casa)] == casa
        space = casa[:1] if tokenizer.kind == "char" else []  # a space of its own is not hidden
        expected += [*space, MASK] if hit else rest[:1]
        rest = rest[len(casa) if hit else 1 :]
    assert with_blank == expected
    assert with_blank.count(MASK) == 2


def test_a_text_without_blanks_has_no_mask(tokenizer: Tokenizer) -> None:
    text = "la casa_roja __ ꙮ <mask>"
    assert tokenizer.encode_blanks(text) == tokenizer.encode(text)


def test_blanks_at_the_ends_and_in_a_word() -> None:
    tokenizer = TOKENIZERS["bpe"]
    assert tokenizer.encode_blanks("___") == [MASK]
    assert tokenizer.encode_blanks("___ ___") == [MASK, MASK]
    assert tokenizer.encode_blanks("¿___?") == [tokenizer.encode("¿")[0], MASK, tokenizer.encode("a?")[-1]]
    assert tokenizer.encode_blanks("casa___") == [*tokenizer.encode("casa"), MASK]


def test_masks_are_shown_with_their_space() -> None:
    for kind in ("bpe", "unigram", "word"):
        tokenizer = TOKENIZERS[kind]
        assert tokenizer.decode(tokenizer.encode_blanks("___ la ___, la ___.")) == "<mask> la <mask>, la <mask>."


# --- pieces


@given(text=phrases)
def test_pieces_cover_the_text(text: str) -> None:
    for tokenizer in TOKENIZERS.values():
        pieces = tokenizer.pieces(text)
        assert [piece.id for piece in pieces] == tokenizer.encode(text)
        assert all(piece.text == text[piece.start : piece.end] for piece in pieces)
        assert all(a.end <= b.start for a, b in pairwise(pieces))
        assert "".join(piece.text for piece in pieces).replace(" ", "") == text.replace(" ", "")


def test_pieces_by_hand() -> None:
    e, accent = "e", "\u0301"
    text = f"¿d {e}{accent}, casa?"
    pieces = TOKENIZERS["word"].pieces(text)
    assert [(piece.text, piece.start, piece.end) for piece in pieces] == [
        ("¿", 0, 1), ("d", 1, 2), (e + accent, 3, 5), (",", 5, 6), ("casa", 7, 11), ("?", 11, 12),
    ]  # fmt: skip
    assert TOKENIZERS["char"].pieces(" a")[0] == Piece(" ", 0, 1, TOKENIZERS["char"].encode(" ")[0])


def test_an_unknown_piece_covers_what_was_not_known() -> None:
    for kind in ("bpe", "unigram"):
        unknown = [piece for piece in TOKENIZERS[kind].pieces("la 中国 casa") if piece.id == UNKNOWN]
        assert [(piece.text, piece.start) for piece in unknown] == [("中国", 3)]


# --- many texts, files, determinism


def test_many_texts_at_once(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_all(TEXTS) == [tokenizer.encode(text) for text in TEXTS]
    assert tokenizer.encode_all([]) == []
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""


def test_a_file_is_read_by_hugging_face_too(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert (again.kind, len(again), again.to_json()) == (tokenizer.kind, len(tokenizer), tokenizer.to_json())
    for text in ['¿"Dónde" está <pad> la casa (roja)?', "casa  x", *TEXTS]:
        ids = tokenizer.encode(text)
        assert again.encode(text) == ids == theirs.encode(text).ids
        assert again.decode(ids) == tokenizer.decode(ids) == theirs.decode(ids)


def test_training_is_the_same_in_any_process(tmp_path: Path) -> None:
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
    program = (
        "import json, sys; from pathlib import Path; from mirada.data.text.tokenize import Tokenizer\n"
        "texts = json.loads(Path(sys.argv[1]).read_text(encoding='utf-8'))\n"
        "[Tokenizer.train(texts, kind, vocab=100).save(f'{sys.argv[2]}/{kind}.json') for kind in sys.argv[3:]]\n"
        "assert 'torch' not in sys.modules"
    )
    files = {}
    for parallel, seed in (("false", "1"), ("true", "2")):
        folder = tmp_path / parallel
        folder.mkdir()
        environment = os.environ | {"TOKENIZERS_PARALLELISM": parallel, "PYTHONHASHSEED": seed}
        arguments = [sys.executable, "-c", program, str(tmp_path / "texts.json"), str(folder), *KINDS]
        subprocess.run(arguments, env=environment, check=True, timeout=60)
        files[parallel] = [(folder / f"{kind}.json").read_bytes() for kind in KINDS]
    assert files["false"] == files["true"]
    assert [len(content) > 1000 for content in files["true"]] == [True] * 4


# --- refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Tokenizer.train(["a"], kind="bep"), "unknown kind of tokenizer 'bep'; known: bpe, char, .* Did you mean 'bpe'?"),
        (lambda: Tokenizer.train([]), "a tokenizer learns from texts: got 0, all empty"),
        (lambda: Tokenizer.train(["", " \n"], kind="char"), "a tokenizer learns from texts: got 2, all empty"),
        (lambda: Tokenizer.train(["a"], vocab=6), "vocab must be at least 7: got 6"),
        (lambda: TOKENIZERS["char"].decode([5, 10**6]), r"tokens must lie in 0\.\.\d+: got \[1000000\]"),
        (lambda: TOKENIZERS["char"].decode([-1]), r"tokens must lie in 0\.\.\d+: got \[-1\]"),
        (lambda: TOKENIZERS["char"].token(-1), r"a token must lie in 0\.\.\d+: got -1"),
    ],
)  # fmt: skip
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_broken_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.load(path)
    good = json.loads(TOKENIZERS["bpe"].to_json())
    gap = good | {"model": good["model"] | {"vocab": good["model"]["vocab"] | {"zz": 10**4}}}
    foreign = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({name: i for i, name in enumerate(SPECIAL)}, unk_token="<unk>")
    )
    for content, message in [
        ("", "does not hold a tokenizer"),
        ('{"model": 1}', "does not hold a tokenizer"),
        (TOKENIZERS["bpe"].to_json()[:-200], "does not hold a tokenizer"),
        (tokenizers.Tokenizer(tokenizers.models.BPE()).to_str(), "must number <pad>, <unk>, <s>, </s>, <mask> from 0"),
        (json.dumps(gap), "without a gap"),
        (
            TOKENIZERS["bpe"].to_json().replace('"unk_token": "<unk>"', '"unk_token": "?!"'),
            "not found in the vocabulary",
        ),
        (foreign.to_str(), "must be one of BPE, Unigram, WordLevel: got WordPiece"),
    ]:
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"tokenizer\.json does not hold .*{message}|tokenizer\.json {message}"):
            Tokenizer.load(path)
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a text file"):
        Tokenizer.load(path)


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram", "char"])
def test_pieces_cover_the_parts_of_a_letter_that_are_written_apart(kind: str) -> None:
    text = unicodedata.normalize("NFD", "한국 éa")  # a Korean letter has parts that are not accents
    pieces = Tokenizer.train(["한국 éa"], kind=kind, vocab=30).pieces(text)
    assert "".join(piece.text for piece in pieces).replace(" ", "") == text.replace(" ", "")


def test_special_tokens_around_texts() -> None:
    tokenizer = Tokenizer.train(["la casa roja"], kind="word")
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end, tokenizer.mask) == tuple(range(5))
    assert tokenizer.special == {0, 1, 2, 3, 4}
    assert tokenizer.filler == PAD
    assert tokenizer.framed([5, 6]) == ([START, 5, 6, END], [0, 0, 0, 0])
    assert tokenizer.framed([5], [6, 7]) == ([START, 5, END, 6, 7, END], [0, 0, 0, 1, 1, 1])
    assert tokenizer.prompt([5, 6]) == [START, 5, 6]

"""Pretrained word vectors: both text forms, and rows that are wrong."""

import gzip
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from mirada.data.text.vectors import Vectors, read_vectors
from mirada.layers.embed import TokenEmbedding


class Everything:
    def __contains__(self, word: object) -> bool:
        return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.txt"


def read(path: Path, data: str | bytes) -> Vectors:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_vectors(path, Everything())


@pytest.mark.parametrize("header", ["", "3 2\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_wanted_words_in_both_forms(path: Path, header: str, end: str) -> None:
    path.write_text(header + end.join(["the 0.5 -1", "cafe\u0301 1e-3 2", "a 3 4", ""]), newline="")
    vectors = read_vectors(str(path), {"a", "café", "missing"})
    assert vectors.words == ("café", "a")
    assert_close(vectors.rows, torch.tensor([[0.001, 2.0], [3.0, 4.0]]))


def test_packed_and_tab_separated(path: Path) -> None:
    vectors = read(path, gzip.compress(b"the\t1\t2\na\t3\t4\n\n"))
    assert vectors.words == ("the", "a")
    assert_close(vectors.rows, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_words_of_odd_characters_and_words_with_blanks(path: Path) -> None:
    words = ("the", "\u00a0", "\x85", "\u3000", ". . .", "to name@domain.com", "7", "ﬁn")
    vectors = read(path, "".join(f"{word} {place} 0.5\n" for place, word in enumerate(words)))
    assert vectors.words == words
    assert_close(vectors.rows[:, 0], torch.arange(8.0))


def test_of_a_word_that_comes_twice_the_first_counts(path: Path) -> None:
    assert_close(read(path, "a 1 2\nb 3 4\na 5 6\n").rows, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_the_table_fits_the_embedding(path: Path) -> None:
    vocab = ["<pad>", "casa", "gato", "perro", "casa"]
    table = read(path, "perro 1 2 3\nunused 0 0 0\ncasa 4 5 6\n").table(vocab)
    words = TokenEmbedding(vocab=5, width=3, scaled=True)
    start = words(torch.tensor([[0, 2]])).detach().clone()
    words.copy_vectors(table)
    assert_close(words(torch.tensor([[1, 3, 4]])), torch.tensor([[[4.0, 5, 6], [1, 2, 3], [4, 5, 6]]]))
    assert_close(words(torch.tensor([[0, 2]])), start)
    assert Vectors(("a",), torch.ones(1, 3)).table(["b"]).isnan().all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a 1 2\nb 3\n", r"vectors.txt:2: expected a word and 2 numbers with a blank between them, found 2 pieces"),
        ("a 1 2\nb 3 4 5\n", r"vectors.txt:2: expected a word and 2 numbers .* found 4 pieces"),
        ("a 1 2\nb  3 4\n", r"vectors.txt:2: expected a word and 2 numbers"),
        ("2 3\na 1 2\nb 3 4\n", r"vectors.txt:2: expected a word and 3 numbers"),
        (
            "a 1 2\nb 3 x\n",
            r"vectors.txt:2: expected numbers: could not convert string to float: 'x'. Is the file in text",
        ),
        ("a 1 2\nb 3 nan\n", r"vectors.txt:2: the numbers must be finite"),
        ("a 1 2\nb -inf 1\n", r"vectors.txt:2: the numbers must be finite"),
        ("a 1 2\nb 1e39 1\n", r"vectors.txt:2: the numbers must be finite"),
        (b"a 1 2\nb\xff 1 2\n", r"vectors.txt:2: not UTF-8: byte 2 of the line"),
        ("3 2\na 1 2\nb 3 4\n", r"the first line promises 3 words, the file has 2. Copy or download it again."),
        ("word\n", r"vectors.txt:1: expected a word and its numbers, or count and size: got 'word'"),
        ("3 0\n", r"vectors.txt:1: expected a word and its numbers"),
        ("", r"vectors.txt: the file is empty"),
    ],
)
def test_bad_files_are_refused(path: Path, data: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(path, data)


def test_every_row_must_have_one_size_also_unused_ones(path: Path) -> None:
    path.write_text("a 1 2\nb 3\nc 5 6\n")
    with pytest.raises(ValueError, match=r"vectors.txt:2: expected"):
        read_vectors(path, {"a"})


def test_invalid_words_do_no_harm_if_they_are_not_used(path: Path) -> None:
    path.write_bytes(b"a 1 2\n\xc3 3 4\n\0 5 6\nb 7 8\n")
    assert_close(read_vectors(path, {"b"}).rows, torch.tensor([[7.0, 8.0]]))


def test_the_binary_form_is_refused(path: Path) -> None:
    path.write_bytes(b"2 3\nthe " + bytes(range(60, 72)) + b"\nof " + bytes(range(80, 92)))
    with pytest.raises(ValueError, match=r"vectors.txt:2: .* in text form, not binary\?"):
        read_vectors(path, {"the"})


def test_no_word_found(path: Path) -> None:
    path.write_text("the 1 2\n")
    with pytest.raises(
        ValueError, match=r"vectors.txt: none of the words that are looked for. Same language, same case"
    ):
        read_vectors(path, {"The"})

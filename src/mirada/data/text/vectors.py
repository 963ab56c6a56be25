"""Pretrained word vectors in text form: word2vec and fastText (a first line with count and size), GloVe (without)."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.files.opening import scan
from mirada.errors import require


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words and a row of numbers for each."""

    words: tuple[str, ...]
    rows: Float[Tensor, "words width"]

    def table(self, vocab: Sequence[str]) -> Float[Tensor, "vocab width"]:
        """A row per token of a vocabulary, in its order; a row of NaN where there is no vector: `TokenEmbedding.copy_vectors`.

        >>> Vectors(("a",), torch.ones(1, 2)).table(["b", "a"])
        tensor([[nan, nan],
                [1., 1.]])
        """
        places = {word: place for place, word in enumerate(self.words)}
        tokens = [token for token, word in enumerate(vocab) if word in places]
        table = self.rows.new_full((len(vocab), self.rows.shape[1]), torch.nan)
        table[tokens] = self.rows[[places[vocab[token]] for token in tokens]]
        return table


def read_vectors(path: str | Path, wanted: Container[str]) -> Vectors:
    """The vectors of the wanted words, in the order of the file; of a word that comes twice, the first.

    The file is read line by line, and only the wanted rows are kept. All rows must have one size. The numbers of the others
    are not looked at: files have millions of rows.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "vectors.txt")
    >>> _ = path.write_text("casa 0.5 1\\nperro 2 0.25\\n")
    >>> read_vectors(path, {"perro", "gato"})
    Vectors(words=('perro',), rows=tensor([[2.0000, 0.2500]]))

    Mikolov et al. (2013), arXiv:1301.3781; Pennington, Socher and Manning (2014), doi:10.3115/v1/D14-1162.
    """
    vectors: dict[str, Tensor] = {}
    width, promised, rows = 0, None, 0
    for number, text, fault in scan(path):
        where = f"{path}:{number}"
        text = text.replace("\t", " ").rstrip(" ")
        if number == 1:
            promised, width = _header(where, text)
            if promised is not None:
                continue
        if not text:
            continue
        rows += 1
        word = _word_of(where, text, width)
        if word in wanted and word not in vectors:
            require(not fault, f"{where}: {fault}")
            vectors[word] = _numbers(where, text[len(word) + 1 :])
    require(
        promised in (None, rows),
        f"{path}: the first line promises {promised} words, the file has {rows}. Copy or download it again.",
    )
    if not vectors:
        raise ValueError(f"{path}: none of the words that are looked for. Same language, same case, whole words?")
    return Vectors(tuple(vectors), torch.stack(list(vectors.values())))


def _header(where: str, text: str) -> tuple[int | None, int]:
    """How many words the first line promises, or None if it is a word already; and the size of the vectors."""
    cells = text.split(" ")
    if len(cells) == 2 and all(cell.isascii() and cell.isdecimal() for cell in cells):
        count, width = map(int, cells)
    else:
        count, width = None, len(cells) - 1
    require(width >= 1, f"{where}: expected a word and its numbers, or count and size: got {text[:40]!r}")
    return count, width


def _word_of(where: str, text: str, width: int) -> str:
    """The word of a row that has as many numbers as it should.

    Only a blank separates: some files have words like U+00A0 or U+0085. Some words hold blanks themselves ("to
    name@domain.com"), and unlike a row with too many numbers they do not end with one.
    """
    blanks = text.count(" ")
    if blanks == width:
        return text.split(" ", 1)[0]
    word = text.rsplit(" ", width)[0]
    ends_as_text = False
    try:
        float(word.rsplit(" ", 1)[-1] or "0")
    except ValueError:
        ends_as_text = True
    require(
        blanks > width and ends_as_text,
        f"{where}: expected a word and {width} numbers with a blank between them, found {blanks + 1} pieces. "
        "Is the file complete, and in text form, not binary?",
    )
    return word


def _numbers(where: str, text: str) -> Float[Tensor, " width"]:
    try:
        row = torch.tensor([float(piece) for piece in text.split(" ")], dtype=torch.float32)
    except ValueError as error:
        raise ValueError(f"{where}: expected numbers: {error}. Is the file in text form, not binary?") from None
    require(bool(row.isfinite().all()), f"{where}: the numbers must be finite. Take the word out of the file.")
    return row

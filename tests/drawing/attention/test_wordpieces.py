"""Tokens as people read them."""

from mirada.drawing.attention.weights import pieces, text_of
from mirada.tasks.translate.report import Aligned
from tests.drawing.parsed import page_of, rows_of


def test_pieces_of_words() -> None:
    for tokens in [
        ("\u2581gat", "ito", "\u2581no"),
        ("gat", "##ito", "no"),
        ("gat@@", "ito", "no"),
        (" gat", "ito", " no"),
    ]:
        assert [(piece.text, piece.starts) for piece in pieces(tokens)] == [("gat", True), ("ito", False), ("no", True)]
        assert text_of((*tokens, "</s>", "[SEP]")) == "gatito no"
    assert [piece.shown for piece in pieces(("\n", "\u2581", "", "a\tb"))] == ["\u21b5", "\u2423", "\u2423", "a\u21e5b"]
    root = page_of(Aligned(("a", "b"), ("\u2581gat", "ito"), ((0.5, 0.5), (0.9, 0.1))))
    assert root.all(kind="written")[0].text == "gatito"
    assert [row[0] for row in rows_of(root.all("table")[0])] == ["", "gat", "\u00b7ito", "mean"]

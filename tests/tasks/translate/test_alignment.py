"""Maps from written to source tokens: every weight at its place."""

import pytest

from mirada.tasks.translate.report import Aligned
from tests.drawing.parsed import NAN, page_of, rows_of


def test_a_map_has_every_weight_at_its_place() -> None:
    weights = ((0.7, 0.2, 0.1), (0.05, 0.35, 0.6))
    root = page_of(Aligned(("the", "cat", "."), ("el", "gato"), weights, score=-0.25))
    table = root.all("table")[0]
    assert rows_of(table) == [
        ["", "the", "cat", "."],
        ["el", ".70", ".20", ".10"],
        ["gato", ".05", ".35", ".60"],
        ["mean", ".38", ".28", ".35"],
    ]
    cells = table.all("tbody")[0].all("td")
    assert [cell.attributes["title"] for cell in cells[:2]] == ["el \u2192 the: 0.7", "el \u2192 cat: 0.2"]
    shares = [float((cell.attributes["style"] or "").removeprefix("--w:")) for cell in cells]
    assert shares == pytest.approx([w / 0.7 for row in weights for w in row], abs=1e-3)
    assert [cell.kinds for cell in cells] == [["strong"], [], [], [], [], ["strong"]]
    assert [token.text for token in root.all(kind="source")[0].all("span")] == ["the", "cat", "."]
    assert [token.text for token in root.all(kind="written")[0].all("span")] == ["el", "gato"]
    assert "even would be 0.3333" in root.all(kind="key")[0].text
    assert root.all("figcaption")[0].text == "score -0.25"
    assert root.all(kind="caution") == []


@pytest.mark.parametrize("size", [1, 14, 15, 60])
def test_maps_of_any_size_are_whole_and_scroll(size: int) -> None:
    tokens = tuple(f"t{i}" for i in range(size))
    root = page_of(Aligned(tokens, tokens, tuple(tuple(1 / size for _ in tokens) for _ in tokens)))
    (table,) = root.all("table")
    assert len(table.all("tbody")[0].all("td")) == size * size
    assert ("dense" in table.kinds) == (size > 14)
    assert len(root.all(kind="scroll")) == 1


def test_odd_weights_are_drawn_as_what_they_are() -> None:
    root = page_of(Aligned(("a", "b", "c"), ("x",), ((NAN, -0.5, 0.25),)))
    cells = root.all("tbody")[0].all("td")
    assert [cell.text for cell in cells] == ["nan", "-.50", ".25"]
    assert [cell.kinds for cell in cells] == [["bad"], ["strong", "negative"], []]
    assert [cell.attributes["style"] for cell in cells] == ["--w:0", "--w:1", "--w:0.5"]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="a row per written token: got 2 rows for 1 tokens"):
        Aligned(("a",), ("b",), ((1.0,), (1.0,)))
    with pytest.raises(ValueError, match="a column per source token: row 1 has 1 for 2 tokens"):
        Aligned(("a", "b"), ("x", "y"), ((0.5, 0.5), (1.0,)))

"""Heat over words."""

import pytest

from mirada.drawing import Weighed
from tests.drawing.parsed import page_of


def test_a_weighed_text_names_its_answer_and_weights() -> None:
    root = page_of(Weighed(("not", "bad", "!"), (0.5, 0.375, 0.125), "good", "bad", score=0.9))
    tokens = root.all(kind="token")
    assert [token.attributes["title"] for token in tokens] == ["not: 0.5", "bad: 0.375", "!: 0.125"]
    assert [token.attributes["style"] for token in tokens] == ["--w:1", "--w:0.75", "--w:0.25"]
    assert [node.text for node in root.all(kind="verdict")[0].all("span")] == [
        "answer good", "score 0.9", "\u2717 wrong", "wanted bad",
    ]  # fmt: skip
    assert "strongest: not 0.5, bad 0.375, ! 0.125" in root.all(kind="keys")[0].text
    right = page_of(Weighed(("a",), (1.0,), "good", "good"))
    assert [node.text for node in right.all(kind="verdict")[0].all("span")] == ["answer good", "\u2713 right"]
    unknown = page_of(Weighed(("a",), (1.0,), "good"))
    assert [node.text for node in unknown.all(kind="verdict")[0].all("span")] == ["answer good"]


def test_a_weight_per_token() -> None:
    with pytest.raises(ValueError, match="a weight per token: got 1 weights for 2 tokens"):
        Weighed(("a", "b"), (1.0,), "yes")

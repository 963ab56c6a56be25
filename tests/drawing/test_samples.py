"""Written texts."""

from mirada.drawing import TextSample
from tests.drawing.parsed import page_of


def test_samples_keep_their_white_space() -> None:
    root = page_of(TextSample("greedy", "\n  b\n\n   c ", "a"), TextSample("", "x"))
    assert [node.text for node in root.all("pre")] == ["a\n  b\n\n   c ", "x"]
    assert root.all(kind="prompt")[0].text == "a"

"""Answers compared with the right ones."""

import pytest

from mirada.drawing.attention.weights import compared
from tests.drawing.parsed import parse


@pytest.mark.parametrize(
    ("wanted", "given", "marked"),
    [("la casa roja.", "la casa roja .", []), ("la casa roja.", "la casa rojo .", ["roja"]),
     ("no lo sé", "sé", ["no", "lo"]), ("a", "", ["a"]), ("a b", "a x b", [])],
)  # fmt: skip
def test_words_that_were_not_written_are_marked(wanted: str, given: str, marked: list[str]) -> None:
    root = parse(compared(wanted, given))
    assert root.text == wanted
    assert [node.text for node in root.all("mark")] == marked

"""The manual: CPython's own topics as one plain text."""

import sys
from pydoc_data.topics import topics as shipped

import pytest

from mirada.corpora.manual import LONG, manual


def test_it_is_plain_text_of_the_stated_size() -> None:
    text = manual()
    assert 300_000 < len(text) < 600_000
    assert "\r" not in text
    assert "\t" not in text
    assert text.endswith("\n")
    assert not text.startswith("\n")
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert manual() == text


def test_topics_come_in_order_and_under_their_titles() -> None:
    text = manual()
    found = [text.index(f'The "{name}" statement\n****') for name in ("assert", "break", "del", "return")]
    assert found == sorted(found)
    topics = [part.split("\n") for part in text.split("\n\n\n")]
    assert all(lines[1] == "*" * len(lines[0]) for lines in topics)
    # a few are wholly parts of others: "else" is the text of "if" again
    assert 0.9 * len(shipped) < len(topics) < len(shipped)


def test_no_long_paragraph_comes_twice() -> None:
    paragraphs = [part.strip("\n") for part in manual().split("\n\n")]
    long = [part for part in paragraphs if len(part) >= LONG]
    assert len(long) > 1000
    assert len(set(long)) == len(long)


def test_every_long_paragraph_that_ships_is_there() -> None:
    kept = {part.strip("\n") for part in manual().split("\n\n")}
    for text in shipped.values():
        clean = "\n".join(line.rstrip() for line in text.splitlines())
        missing = [part for part in clean.split("\n\n") if len(part) >= LONG and part.strip("\n") not in kept]
        assert [part for part in missing if set(part.split("\n")[-1]) - set("*=-~^")] == []


@pytest.mark.parametrize("stripped", [None, type("Empty", (), {"topics": {}})])
def test_a_python_without_its_manual_names_the_way_out(monkeypatch: pytest.MonkeyPatch, stripped: object) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", stripped)  # None: the import fails
    with pytest.raises(ValueError, match=r"ships without it .* Pass --data a text file"):
        manual()

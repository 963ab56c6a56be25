"""What tells a header from a record: the label side, word counts, and what stands above."""

import pytest

from mirada.data.columns.contents import has_labels_first, is_odd_label, is_title, usual_width
from mirada.data.columns.header import looks_like_header

CLASSES, PAIR = ("text", "label"), ("source", "target")
LONG = [("we came here for the food", "good"), ("nobody had a table for us", "bad"),
        ("they know how to cook fish", "good"), ("the wine was not worth it", "bad")]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "header"),
    [
        (("one word", "other"), True),  # shorter than any text, and a label of its own
        (("they made us wait for it", "other"), False),
        (("one word", "good"), False),
        (("one word", "7"), False),
        (("one word", "n/a"), False),
        (("they made us wait for it", "rating"), True),
        (("did they make you wait for it?", "y"), False),
        (("did they make you wait for it?", "again?"), True),
        (("", "other"), False),
    ],
)
def test_a_header_over_texts_and_labels(first: tuple[str, str], header: bool) -> None:
    assert looks_like_header([first, *LONG], CLASSES) is header
    assert looks_like_header([first[::-1], *(row[::-1] for row in LONG)], CLASSES) is header


def test_a_word_over_numbers_is_a_name() -> None:
    rows = [(text, str(number)) for number, (text, _) in enumerate(LONG)]
    assert looks_like_header([("what they told us about it all", "how good it was"), *rows], CLASSES)
    assert not looks_like_header([("what they told us about it all", "-"), *rows], CLASSES)
    assert not looks_like_header([("what they told us about it all", "3"), *rows], CLASSES)
    assert not looks_like_header([("uno dos tres cuatro", "one two three four"), *LONG], PAIR)


def test_a_word_over_phrases_is_a_name_where_it_is_written_like_one() -> None:
    rows = [(f"it is {n} now", f"son las {n} ya") for n in range(12)]
    assert looks_like_header([("complex", "simple"), *rows], PAIR)
    assert not looks_like_header([("Genesis", "Génesis"), *rows], PAIR), "a title"
    assert not looks_like_header([("stop", "alto"), *rows, ("go", "ve")], PAIR), "words are among the phrases"
    assert not looks_like_header([("stop", "alto"), *rows[:5]], PAIR)


def test_labels_that_occur_once_are_tolerated_where_rows_are_many() -> None:
    rows = [("a b", label) for label in "xyz" * 14]
    assert is_odd_label(("a b", "odd"), rows, 1)
    assert is_odd_label(("a b", "odd"), [*rows, ("a b", "rare")], 1)
    assert not is_odd_label(("a b", "odd"), [*rows, ("a b", "rare"), ("a b", "rarer")], 1)
    assert not is_odd_label(("a b", "odd"), [("a b", "x")] * 42, 1), "the only other label: of two, one is rare"


def test_what_stands_above() -> None:
    rows = [["Export"], ["a", "b", ""], ["c", "d", ""]]
    assert usual_width(rows, 2) == 2
    assert [is_title(row, 2) for row in rows] == [True, False, False]
    assert is_title(["# from a", "2024"], 2)
    assert not is_title(["Export"], 1)
    assert has_labels_first([row[::-1] for row in LONG])
    assert not has_labels_first(LONG)

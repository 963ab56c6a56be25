"""Error rates by hand, by their laws, and against jiwer."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirada.tasks.transcribe.metrics import character_error_rate, confusions, edit_distance, edits_of, word_error_rate

TEXTS = st.text(alphabet="ab c", min_size=0, max_size=12)
PAIRS = st.lists(st.tuples(TEXTS, st.text(alphabet="ab c", min_size=1, max_size=12)), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("given", "wanted", "edits"),
    [
        ("", "", 0),
        ("abc", "", 3),
        ("", "abc", 3),
        ("abc", "abc", 0),
        ("sitting", "kitten", 3),
        ("flaw", "lawn", 2),
        ("ab", "ba", 2),
        ("intention", "execution", 5),
    ],
)
def test_distances_by_hand(given: str, wanted: str, edits: int) -> None:
    assert edit_distance(given, wanted) == edits


def test_rates_by_hand() -> None:
    given, wanted = ["the cat sat", "hello"], ["the cat sat down", "hello there you"]
    assert word_error_rate(given, wanted) == 100 * (1 + 2) / (4 + 3)
    assert character_error_rate(given, wanted) == 100 * (5 + 10) / (16 + 15)
    assert word_error_rate(["a b c d"], ["x"]) == 400.0
    assert word_error_rate(["seven"], ["seven"]) == 0.0
    assert math.isnan(word_error_rate([], []))


@given(TEXTS, TEXTS, TEXTS)
def test_a_distance_is_a_distance(a: str, b: str, c: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


@given(TEXTS, TEXTS)
def test_the_edits_are_as_many_as_the_distance_and_lead_from_one_to_the_other(a: str, b: str) -> None:
    edits = edits_of(a, b)
    assert len(edits) == edit_distance(a, b)
    assert all(wanted != given for wanted, given in edits)
    changed = Counter(b) - Counter(wanted for wanted, _ in edits)
    assert +changed + Counter(g for _, g in edits if g) == Counter(a)


def test_confusions_by_hand() -> None:
    found = confusions(["kot", "kat", "ca", "cats"], ["cat", "cat", "cat", "cat"])
    assert found == {("c", "k"): 2, ("a", "o"): 1, ("t", ""): 1, ("", "s"): 1}
    assert confusions([["a", "c"]], [["a", "b", "c"]]) == {("b", ""): 1}


@given(PAIRS)
def test_they_are_those_of_jiwer(pairs: list[tuple[str, str]]) -> None:
    jiwer = pytest.importorskip("jiwer")
    pairs = [(a.strip(), b.strip()) for a, b in pairs if b.strip()]
    if not pairs:
        return
    given, wanted = map(list, zip(*pairs, strict=True))
    assert character_error_rate(given, wanted) == pytest.approx(100 * jiwer.cer(wanted, given))
    assert word_error_rate(given, wanted) == pytest.approx(100 * jiwer.wer(wanted, given))

"""Exact match and F1: by hand, and compared with another implementation of the official counting."""

import math

import pytest
from torch.testing import assert_close

from mirada.tasks.answer.metrics import answer_metrics, exact_match, normalized, token_f1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The  Quick,\tBrown\nFOX.", "quick brown fox"),
        ("a an the", ""),
        ("another theme than", "another theme than"),  # articles are whole words
        ("U.S.A.", "usa"),
        ("well-known", "wellknown"),
        ("the-end", "theend"),  # punctuation goes first, as in the official script
        ("¿El café?", "¿el café"),  # only the signs of ASCII are punctuation there
        ("", ""),
    ],
)
def test_what_does_not_count(text: str, wanted: str) -> None:
    assert normalized(text) == wanted


@pytest.mark.parametrize(
    ("answer", "references", "exact", "f1"),
    [
        ("Denver Broncos", ["Denver Broncos"], True, 1.0),
        ("the Denver Broncos", ["Denver Broncos!"], True, 1.0),
        ("Broncos", ["Denver Broncos"], False, 2 / 3),  # precision 1, recall 1/2
        ("Denver Broncos team", ["Denver Broncos"], False, 4 / 5),  # precision 2/3, recall 1
        ("red red house", ["red house house"], False, 2 * 2 / 6),  # of repeated words, as many as both have
        ("red red", ["red"], False, 2 / 3),  # one of two, one of one
        ("Rome", ["in Paris", "near Rome", "Rome"], True, 1.0),  # the best reference counts
        ("near big Rome", ["in Paris", "near Rome"], False, 4 / 5),
        ("Rome", ["Paris"], False, 0.0),
        ("", ["Rome"], False, 0.0),
        ("", [], True, 1.0),  # there is no answer, and none was given
        ("Rome", [], False, 0.0),
        ("the", [], True, 1.0),  # nothing of it counts
        ("a", ["the"], True, 1.0),
    ],
)
def test_one_answer(answer: str, references: list[str], exact: bool, f1: float) -> None:
    assert exact_match(answer, references) is exact
    assert_close(token_f1(answer, references), f1)


def test_means_are_percentages() -> None:
    found = answer_metrics(["Rome", "in Rome", "", "x"], [["Rome"], ["Rome"], ["Rome"], []])
    assert_close(found, {"exact": 25.0, "f1": 100 * (1 + 2 / 3) / 4})
    assert all(map(math.isnan, answer_metrics([], []).values()))
    with pytest.raises(ValueError, match="zip"):
        answer_metrics(["a"], [["a"], ["b"]])


def test_another_implementation_agrees() -> None:
    squad = pytest.importorskip("torchmetrics.functional.text").squad
    answers = ["The Eiffel Tower", "in 1889, by Eiffel", "red red house", "nobody", "an apple a day", "la Torre!"]
    references = [
        ["Eiffel Tower"],
        ["1889", "by Gustave Eiffel"],
        ["red house house"],
        ["x"],
        ["apple days"],
        ["la torre"],
    ]
    given = [{"prediction_text": text, "id": str(i)} for i, text in enumerate(answers)]
    wanted = [
        {"answers": {"answer_start": [0] * len(texts), "text": texts}, "id": str(i)} for i, texts in enumerate(references)
    ]  # fmt: skip
    theirs = squad(given, wanted)
    ours = answer_metrics(answers, references)
    assert_close(ours["exact"], float(theirs["exact_match"]))
    assert_close(ours["f1"], float(theirs["f1"]), rtol=1e-5, atol=1e-4)

"""The plain baseline of reading, by hand."""

import pytest

from mirada.tasks.answer.metrics import window_answer

PASSAGE = (
    "The first bridge was built by Otto Berg in 1890. Nobody liked it much, so that it was soon left to the rain and "
    "a wind. A second one was opened near Lund by Queen Mary II of the north, who loved it."
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who built the first bridge?", "Otto Berg"),
        ("Who opened the second one?", "Lund"),
        ("Who opened the second one near Lund?", "Queen Mary II"),  # what the question has is no answer
        ("When was the bridge built by Otto Berg?", "1890"),
        ("Which Queen opened one near Lund?", "Mary II"),
    ],
)
def test_the_name_or_number_with_most_words_of_the_question_around_it(question: str, answer: str) -> None:
    start, end = window_answer(question, PASSAGE)
    assert PASSAGE[start:end] == answer


def test_rare_words_count_more() -> None:
    """ "door" is next to Ana and next to Luis, "blue" only next to Luis: log(1 + 1) against log(1 + 1/2)."""
    passage = "Ana has a door and a door ... ... and so on and on and on, and Luis has a blue wall"
    assert passage[slice(*window_answer("a blue door?", passage))] == "Luis"


@pytest.mark.parametrize(
    ("question", "passage", "answer"),
    [
        ("what?", "nothing but small words", "nothing"),  # no names: the first of equal words
        ("what is small?", "a small house", "a"),
        ("Ana?", "Ana", "Ana"),  # there is nothing else
        ("who?", "...", ""),
        ("", "Ana", "Ana"),
        ("¿Quién?", "Él vio a Ana.\nEva no.", "Él"),
    ],
)
def test_there_is_always_an_answer(question: str, passage: str, answer: str) -> None:
    assert passage[slice(*window_answer(question, passage))] == answer


def test_names_do_not_go_across_sentences() -> None:
    passage = "It was found by Ana. Luis was away."
    assert passage[slice(*window_answer("It was found by whom?", passage))] == "Ana"

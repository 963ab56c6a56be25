"""The translation memory that translations are compared with."""

from mirada.tasks.translate.metrics import nearest_texts


def test_the_most_alike_text_by_its_rare_words() -> None:
    known = ["the house is red", "the house is blue", "the dog sleeps", "a cat and the dog play"]
    asked = ["is the red door", "cat", "the dog sleeps", "nothing known"]
    assert nearest_texts(known, asked, at_once=3)[:3] == [0, 3, 2]
    assert nearest_texts(known, asked)[3] in range(4)

"""Words guessed from their neighbors."""

from mirada.tasks.fill.metrics import neighbor_words


def test_both_neighbors_count_before_one() -> None:
    guess = neighbor_words([[1, 7, 2], [1, 8, 3], [1, 8, 4], [5, 9, 2], [6, 9, 2]])
    assert guess(1, 2) == 7
    assert guess(1, 99) == 8, "after 1 it was 8 most often"
    assert guess(99, 2) == 9, "before 2 it was 9 most often"


def test_nothing_known_gives_the_most_frequent_token() -> None:
    assert neighbor_words([[1, 4, 4, 2]])(77, 78) == 4

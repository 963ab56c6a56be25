"""Words guessed from their neighbors."""

from mirada.tasks.fill.metrics import NeighborWords


def test_both_neighbors_count_before_one() -> None:
    words = NeighborWords([[1, 7, 2], [1, 8, 3], [1, 8, 4], [5, 9, 2], [6, 9, 2]])
    assert words.guess(1, 2) == 7
    assert words.guess(1, 99) == 8, "after 1 it was 8 most often"
    assert words.guess(99, 2) == 9, "before 2 it was 9 most often"


def test_nothing_known_gives_the_most_frequent_token() -> None:
    assert NeighborWords([[1, 4, 4, 2]]).guess(77, 78) == 4

"""Which row is a header and which of its columns holds the inputs."""

import pytest

from mirada.data.columns.header import is_sure_header, named_input, recognize_inputs

TEXT, SOURCE = ("text",), ("source", "text")


def decided(rows: list[list[str]], asks: tuple[str, ...], header: str) -> tuple[int, bool, tuple[int, ...]]:
    """How many lines stand above, whether a header follows, and where the inputs are."""
    head = recognize_inputs(rows, asks, header)
    return head.above, head.headed, head.picked


@pytest.mark.parametrize(
    ("row", "asks", "place"),
    [
        (["id", "Review Text"], TEXT, 1),
        (["customer review", "date"], TEXT, 0),
        (["customer_review", "whatever"], TEXT, 0),
        (["whatever", "comentario"], TEXT, 1),
        (["Great review", "thanks"], TEXT, None),
        (["Great review"], TEXT, None),
        (["noticia"], TEXT, 0),
        (["They won", "news"], TEXT, None),
        (["fecha", "noticia"], TEXT, 1),
        (["Texto en inglés", "Texto en español"], SOURCE, 0),
        (["Traducción al español", "Frase en inglés"], SOURCE, 1),
        (["id", "7"], TEXT, None),
    ],
)
def test_the_column_of_inputs_by_its_name(row: list[str], asks: tuple[str, ...], place: int | None) -> None:
    assert named_input(row, [["x y z"] * len(row)], asks) == place


def test_a_name_over_short_cells_next_to_long_ones_is_a_label() -> None:
    rest = [["they counted the votes again", "review"], ["he won the last match", "report"]]
    assert named_input(["it is time to go home", "comment"], rest, TEXT) is None
    assert named_input(["it is time to go home", "comment"], [row[::-1] for row in rest], TEXT) == 1


def test_how_a_table_begins() -> None:
    rows = [["7", "a fine film"], ["8", "a dull film"]]
    assert decided([["Export"], ["# 2024"], ["id", "text"], *rows], TEXT, "") == (2, True, (1,))
    assert decided([["Reviews", ""], ["id", "text"], *rows], TEXT, "") == (1, True, (1,))
    assert decided([["id", "text"], *rows], TEXT, "no") == (0, False, ())
    assert decided([["uno", "dos"], *rows], ("mask",), "yes") == (0, True, ())
    assert decided([["# a, b", "c", "d"], *rows], TEXT, "") == (1, False, ())
    assert decided([["text"], ["a", "b"], ["c", "d"]], TEXT, "") == (0, True, (0,)), "commas in texts"


def test_what_is_a_header_and_nothing_else() -> None:
    assert is_sure_header(["id", "text"], [["7", "a b"]], TEXT)
    assert is_sure_header(["noticia", "seccion"], [["a b", "c"]], TEXT)
    assert not is_sure_header(["good review", "rating"], [["a b", "c"]], TEXT)
    assert not is_sure_header(["Great review", "thanks"], [["Bad food", "slow"]], TEXT)


def test_words_over_numbers_are_a_header_without_a_name_for_the_inputs() -> None:
    rows = [["2024", "it was good", "5"], ["2025", "it was bad", "1"]]
    assert decided([["Marca", "¿Qué le pareció?", "Nota"], *rows], ("text",), "") == (0, True, ())
    assert decided(rows, TEXT, "") == (0, False, ())

"""What is said about weights."""

from mirada.drawing.attention.weights import ColorScale, cautions
from mirada.tasks.translate.report import Aligned
from tests.drawing.parsed import NAN, page_of


def test_weights_that_would_mislead_are_named() -> None:
    def told(*rows: tuple[float, ...]) -> list[str]:
        tokens = tuple("abcd"[: len(rows[0])])
        figure = page_of(Aligned(tokens, tuple(str(i) for i in range(len(rows))), rows))
        return [node.text for node in figure.all(kind="caution")]

    assert told((0.5, 0.5), (0.9, 0.1)) == []
    assert told((0.5, NAN), (0.9, 0.1)) == ["1 weight is not a number."]
    assert told((0.5, 0.5), (0.5, 0.1)) == ["Rows sum to 0.6 up to 1, not to 1."]
    sink = ((0.1, 0.8, 0.1), (0.2, 0.6, 0.2), (0.1, 0.1, 0.8), (0.05, 0.9, 0.05))
    assert told(*sink) == ["One token, \u201cb\u201d, takes 60% of all weight."]
    alike = ((0.4, 0.3, 0.3),) * 3
    assert told(*alike) == ["Every row is the same: what is written does not change where the model looks."]
    assert cautions(((0.2, 0.3),), ("a", "b")) == ["The weights sum to 0.5, not to 1."]


def test_a_scale_of_nothing_colors_nothing() -> None:
    assert ColorScale.of(((0.0, NAN),)).share(0.0) == 0.0
    assert ColorScale.of(()).share(0.25) == 0.25


def test_columns_have_a_name_of_their_own() -> None:
    sink = ((0.1, 0.8, 0.1),) * 3
    assert cautions(sink, ("a", "b", "c"), "place")[0] == "One place, \u201cb\u201d, takes 80% of all weight."


def test_weights_too_large_to_sum_are_reported_too() -> None:
    root = page_of(Aligned(("a", "b"), ("x", "y"), ((1e308, 1e308), (0.5, 0.5))))
    assert [node.text for node in root.all(kind="caution")] == ["Rows sum to 1 up to inf, not to 1."]

"""Passages: the text stays whole, marks stand exactly where the spans are."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada.tasks.answer.report import MarkedPassage
from tests.drawing.parsed import NAN, Node, page_of, parse

TEXT = "Ana went home."


def marked(root: Node, kind: str) -> str:
    return "".join(node.text for node in root.all(kind="passage")[0].all("span", kind))


def test_the_answer_and_the_wanted_one_are_marked_and_judged() -> None:
    root = page_of(MarkedPassage(TEXT, "Who went?", (0, 8), ((0, 3),), score=0.5))
    assert root.all(kind="passage")[0].text == TEXT
    assert marked(root, "found") == "Ana went"
    assert marked(root, "sought") == "Ana"
    assert [node.text for node in root.all(kind="verdict")[0].all("span")] == [
        "answer Ana went", "score 0.5", "\u2717 wrong", "wanted Ana",
    ]  # fmt: skip
    assert root.all(kind="looked") == []
    runs = [node.attributes["title"] for node in root.all(kind="found") if "title" in node.attributes]
    assert runs == ["answer, wanted", "answer"]


def test_any_wanted_answer_is_right_wherever_it_stands() -> None:
    text = "Ana saw Ana."
    root = page_of(MarkedPassage(text, "Who?", (0, 3), ((4, 7), (8, 11))))
    assert "\u2713 right" in root.all(kind="verdict")[0].text
    assert marked(root, "sought") == "sawAna"


def test_no_answer_is_reported() -> None:
    root = page_of(MarkedPassage(TEXT, "Why?", None, ((0, 3),)))
    assert root.all(kind="verdict")[0].all("b")[0].text == "none"
    assert "\u2717 wrong" in root.text
    assert marked(root, "found") == ""
    none = page_of(MarkedPassage("none came", "Who?", None, ((0, 4),)))
    assert "\u2717 wrong" in none.all(kind="verdict")[0].text  # the wanted word, not the missing answer
    silent = page_of(MarkedPassage(TEXT, "Why?"))
    assert silent.all(kind="keys") == []


def test_weights_color_their_parts_across_marks() -> None:
    heat = ((0, 3, 0.5), (4, 8, 0.25), (9, 13, NAN))
    root = page_of(MarkedPassage(TEXT, "Who?", (1, 6), heat=heat))
    tokens = root.all(kind="passage")[0].all("span", "token")
    assert [(node.text, node.attributes["style"]) for node in tokens] == [
        ("A", "--w:1"), ("na", "--w:1"), ("we", "--w:0.5"), ("nt", "--w:0.5"), ("home", "--w:0"),
    ]  # fmt: skip
    assert tokens[1].attributes["title"] == "answer, weight 0.5"
    assert "strongest: Ana 0.5, went 0.25" in root.text
    assert [node.text for node in root.all(kind="caution")] == ["1 weight is not a number."]
    assert len(root.all(kind="looked")) == 1


def test_the_frame_of_an_answer_opens_and_closes_once() -> None:
    root = page_of(MarkedPassage(TEXT, "Who?", (1, 12), ((5, 7),), ((0, 3, 0.5), (4, 8, 0.5))))
    runs = root.all(kind="passage")[0].all("span", "found")
    assert [node.text for node in runs if "opens" in node.kinds] == ["na"]
    assert [node.text for node in runs if "closes" in node.kinds] == [" hom"]


SPANS = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: (min(pair), max(pair)))


@given(
    text=st.text(min_size=9, max_size=20),
    answer=SPANS,
    wanted=st.lists(SPANS, max_size=3),
    cuts=st.sets(st.integers(0, 9)),
)
@settings(max_examples=200, deadline=None)
def test_marks_of_any_spans_keep_the_text(
    text: str, answer: tuple[int, int], wanted: list[tuple[int, int]], cuts: set[int]
) -> None:
    places = sorted(cuts)
    heat = tuple((a, b, 0.5) for a, b in pairwise(places))
    passage = MarkedPassage(text, "?", answer, tuple(wanted), heat)
    root = parse(passage.draw())
    plain = parse(MarkedPassage(text, "?").draw())
    assert root.all(kind="passage")[0].text == plain.all(kind="passage")[0].text
    assert len(marked(root, "found")) == len(passage.answered)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="a span must lie in the text: got 3 to 99 in 14 characters"):
        MarkedPassage(TEXT, "?", (3, 99))
    with pytest.raises(ValueError, match="a span must lie in the text: got 5 to 3"):
        MarkedPassage(TEXT, "?", None, ((5, 3),))
    with pytest.raises(ValueError, match="must follow each other without overlap"):
        MarkedPassage(TEXT, "?", heat=((0, 4, 0.5), (3, 5, 0.5)))


def test_the_question_has_the_colors_of_the_same_scale() -> None:
    root = page_of(MarkedPassage(TEXT, "So who went?", heat=((0, 3, 0.5),), asked=((3, 6, 0.25), (7, 11, 0.1))))
    tokens = root.all(kind="lines")[0].all("span", "token")
    assert [(node.text, node.attributes["style"]) for node in tokens] == [("who", "--w:0.5"), ("went", "--w:0.2")]
    assert "So who went?" in root.all(kind="lines")[0].text
    assert "strongest: Ana 0.5, who 0.25, went 0.1" in root.text
    assert "even would be 0.3333" in root.text
    with pytest.raises(ValueError, match="a span must lie in the text: got 2 to 9 in 3 characters"):
        MarkedPassage(TEXT, "Who", asked=((2, 9, 0.1),))


@pytest.mark.parametrize(
    ("answer", "wanted", "right", "verdict"),
    [
        ((0, 8), ((0, 3),), True, ["answer Ana went", "\u2713 right"]),  # who judges may be milder than the letters
        (None, (), True, ["answer none", "\u2713 right"]),
        ((0, 3), (), False, ["answer Ana", "\u2717 wrong", "wanted none"]),
        ((0, 3), (), None, ["answer Ana"]),
    ],
)
def test_somebody_else_may_judge(answer, wanted, right, verdict) -> None:
    root = page_of(MarkedPassage(TEXT, "Who?", answer, wanted, right=right))
    assert [node.text for node in root.all(kind="verdict")[0].all("span")] == verdict

"""Questions and passages as a reader is given them: windows that overlap, marks, and the exact characters of every token."""

from pathlib import Path
from unicodedata import normalize

import pytest

from mirada.data.options import TextOptions
from mirada.data.text.tokenize import END, START, Tokenizer
from mirada.tasks.answer.reading import (
    MARKS,
    SHAPES,
    Frame,
    PassageQuestion,
    Reading,
    ReadingVocabulary,
    SpanFound,
    covering,
    encoded,
    marks,
    ranked_spans,
    readings,
)

TEXTS = [
    "Ana fue al café. Está aquí, el 25.", "Fotos 👩‍👩‍👧 y 👍🏽 fin", "uno\r\ndos\n\n  tres\tcuatro", "İstanbul ve IŞIK",
    "가나다 한국", "éàü ȩ́ x\u0323\u0307 y", "a\u200bb x_y", " lead and trail  ",
]  # fmt: skip


def words(kind: str = "word", lowercase: bool = True) -> Tokenizer:
    return Tokenizer.train([*TEXTS, *(normalize("NFD", text) for text in TEXTS)] * 2, kind, 400, lowercase)


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram", "char"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_tokens_cover_every_letter_of_the_text_as_it_is_written(kind: str, form: str) -> None:
    tokenizer = words(kind)
    for text in (normalize(form, text) for text in TEXTS):
        found = encoded(tokenizer, text)
        assert len(found.ids) == len(found.places) == len(found.words) == len(found.shapes)
        covered = {place for start, end in found.places for place in range(start, end)}
        assert covered >= {place for place, letter in enumerate(text) if not letter.isspace()}
        for start, end in found.places:
            assert text[start:end] == text[start:end].strip() != ""
        assert [start for start, _ in found.places] == sorted(start for start, _ in found.places)


def test_words_and_shapes() -> None:
    found = encoded(words(), "Ana fue, el 25.")
    assert found.words == ("ana", "fue", "", "el", "25", "25", "")
    assert found.shapes == (1, 0, 3, 0, 2, 2, 3)


def test_marks_tell_what_the_other_text_has() -> None:
    """Same word: 1, same beginning: 2; times the shapes, plus the shape."""
    tokenizer = words()
    question = encoded(tokenizer, "¿Quién cantaba en Roma?")
    passage = encoded(tokenizer, "Ana cantaron EN roma, Rom.")
    assert passage.words == ("ana", "cantaron", "en", "roma", "", "rom", "")
    assert marks(passage, question) == [1, 2 * SHAPES, SHAPES + 1, SHAPES, 3, 1, 3]
    assert marks(question, passage) == [3, 1, 2 * SHAPES, SHAPES, SHAPES + 1, 3]
    assert max(marks(passage, question)) < MARKS


# windows


def reading(passage: int, question: int = 2, wanted: tuple[int, int] | None = None) -> Reading:
    """Texts of so many words, each of its own; tokens are numbers from 100 (passage) and 50 (question)."""
    tokenizer = words()
    asked, told = encoded(tokenizer, "x " * question), encoded(tokenizer, "y " * passage)
    return Reading(
        asked._replace(ids=tuple(range(50, 50 + question))), told._replace(ids=tuple(range(100, 100 + passage))),
        Frame.own(tokenizer), wanted,
    )  # fmt: skip


def test_a_window_by_hand() -> None:
    (found,) = reading(4).windows([0], 20)
    assert found.tokens == [START, 50, 51, END, START, 100, 101, 102, 103]
    assert found.segments == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert len(found.marks) == len(found.tokens)
    assert (found.none, found.offset, found.first) == (4, 5, 0)
    assert found.place(2) == 7
    assert found.token(7) == 2


@pytest.mark.parametrize("passage", [1, 5, 9, 10, 11, 14, 15, 16, 37, 100])
def test_windows_overlap_by_half_and_leave_nothing_out(passage: int) -> None:
    item, length = reading(passage), 15
    room = item.room(length)
    assert room == 10
    firsts = item.first_tokens(length)
    windows = item.windows(firsts, length)
    assert firsts == list(range(0, 5 * len(firsts), 5))
    assert all(len(window.tokens) <= length for window in windows)
    seen = [window.tokens[window.offset :] for window in windows]
    assert [token for part in seen for token in part if token >= 100] != []
    assert {token for part in seen for token in part} == set(range(100, 100 + passage))
    assert all(len(part) == room for part in seen[:-1])
    assert len(firsts) == 1 or len(seen[-1]) > room // 2, "the last one brings something new"
    for start in range(passage - room // 2 + 1):  # what is no longer than the overlap stands whole in one of them
        span = set(range(100 + start, 100 + start + room // 2))
        assert any(span <= set(part) for part in seen)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (reading(5, question=7), ""),
        (
            reading(5, question=8),
            "too long: the question has 8 tokens, at most 7 fit. Shorten it, or take a longer length.",
        ),
        (reading(9, wanted=(1, 5)), ""),
        (reading(9, wanted=(1, 6)), "too long: the answer has 6 tokens, at most 5 fit. Take a longer length."),
    ],
)
def test_what_does_not_fit_is_reported(item: Reading, message: str) -> None:
    assert item.unreadable(20) == message


def test_covering_tokens() -> None:
    places = [(0, 3), (4, 8), (8, 9)]
    assert covering(places, (0, 3)) == (0, 0)
    assert covering(places, (2, 5)) == (0, 1)
    assert covering(places, (6, 7)) == (1, 1)
    assert covering(places, (3, 4)) is None


def test_a_passage_is_encoded_once() -> None:
    one, other = readings([PassageQuestion("x?", "Ana está", ((0, 3),)), PassageQuestion("y?", "Ana está")], words())
    assert one.passage is other.passage
    assert (one.wanted, other.wanted) == ((0, 0), None)


# spans


def test_spans_are_ranked_over_all_windows() -> None:
    one, other = reading(20).windows([0, 5], 15)
    found = [
        SpanFound(-3.0, one), SpanFound(-1.0, one, (2, 4)), SpanFound(-2.0, one, (4, 4)), SpanFound(-4.0, one, (9, 9)),
        SpanFound(-1.5, other), SpanFound(-1.2, other, (7, 8)), SpanFound(-0.5, other, (8, 9)),
    ]  # fmt: skip
    ranked = ranked_spans(found, 9, unanswerable=True)
    assert [(each.score, each.span) for each in ranked] == [(-0.5, (8, 9)), (-1.0, (2, 4)), (-3.0, None)]
    assert [each.span for each in ranked_spans(found, 9, unanswerable=False)] == [(8, 9), (2, 4)]
    assert [each.span for each in ranked_spans(found, 1, unanswerable=True)] == [(8, 9)]
    assert ranked[0].window is other
    sure = [*found, SpanFound(-0.1, one), SpanFound(-0.2, other)]
    assert ranked_spans(sure, 1, unanswerable=True)[0].span == (8, 9), "the window that is least sure of none decides"
    none = [SpanFound(-0.1, one), SpanFound(-0.2, other), SpanFound(-2.0, one, (2, 2))]
    assert ranked_spans(none, 1, unanswerable=True) == [none[1]]


# what is known


def test_longest_and_unanswerable_come_from_the_questions(tmp_path: Path) -> None:
    passage = "one two three four five six"
    values = [PassageQuestion("a?", passage, ((0, 3),))] * 99 + [PassageQuestion("a?", passage, ((0, 7),))] * 2
    known = ReadingVocabulary.of(values, TextOptions(tokenizer="word"), None)
    assert (known.longest, known.unanswerable) == (2, False)
    rare = ReadingVocabulary.of([*values[:99], PassageQuestion("a?", passage)], TextOptions(tokenizer="word"), known)
    assert (rare.longest, rare.unanswerable) == (1, True)
    assert rare.tokenizer is known.tokenizer
    for name, content in rare.contents().items():
        (tmp_path / name).write_bytes(content)
    again = ReadingVocabulary.restore(rare.facts(), {name: tmp_path / name for name in rare.files})
    assert (again.longest, again.unanswerable, len(again)) == (1, True, len(rare))
    with pytest.raises(ValueError, match=r"the facts in config.json must have longest, a number, and unanswerable"):
        ReadingVocabulary.restore({"longest": 0, "unanswerable": True}, {})


def test_questions_without_any_answer_teach_nothing() -> None:
    with pytest.raises(ValueError, match="no question has an answer in its passage"):
        ReadingVocabulary.of([PassageQuestion("a?", "b")], TextOptions(tokenizer="word"), None)

"""Schemes of tags, and spans counted by hand."""

import pytest

from mirada.tasks.tag.schemes import WordSpan, bio, label_counts, per_label, scheme_of, span_metrics, spans_of, tags_of


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("B-A I-A O B-B", "bio"),
        ("I-A I-A B-A O", "iob1"),
        ("I-A I-A O I-B", "iob1"),
        ("B-A I-A O I-B", "bio"),  # an I- that begins a span, in BIO
        ("B-A E-A O S-B", "bioes"),
        ("B-A L-A O U-B", "bioes"),
        ("B-A M-A E-A O", "bioes"),
        ("A A O B", "io"),
        ("NOUN VERB PUNCT", "plain"),
        ("B-X NOUN", "plain"),
    ],
)
def test_schemes_are_recognized(tags: str, scheme: str) -> None:
    assert scheme_of([tags.split()]) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O B-A I-A O B-B B-B", "bio"),
        ("O I-A I-A O I-B B-B", "iob1"),
        ("O B-A E-A O S-B S-B", "bioes"),
        ("O B-A L-A O U-B U-B", "bioes"),
    ],
)
def test_every_scheme_describes_the_same_spans(tags: str, scheme: str) -> None:
    spans = [WordSpan(1, 2, "A"), WordSpan(4, 4, "B"), WordSpan(5, 5, "B")]
    assert spans_of(tags.split(), scheme) == spans
    assert bio(tags.split(), scheme) == tags_of(spans, 6) == ("O", "B-A", "I-A", "O", "B-B", "B-B")


def test_odd_tags_are_counted_as_conll_does() -> None:
    assert spans_of(["I-A", "I-B", "O", "E-A", "I-A"]) == [
        WordSpan(0, 0, "A"), WordSpan(1, 1, "B"), WordSpan(3, 3, "A"), WordSpan(4, 4, "A"),
    ]  # fmt: skip


def test_spans_counted_by_hand() -> None:
    """Wanted: A at 0-1, B at 3, A at 5; answered: A at 0-1 (right), B at 3-4 (too long), A at 5 (right), B at 6 (none there)."""
    wanted = ["B-A", "I-A", "O", "B-B", "O", "B-A", "O"]
    given = ["B-A", "I-A", "O", "B-B", "I-B", "B-A", "B-B"]
    found = span_metrics([given], [wanted], "bio")
    assert found == pytest.approx({"f1": 400 / 7, "precision": 50.0, "recall": 200 / 3, "accuracy": 500 / 7})
    labels = per_label(label_counts([given], [wanted], "bio"))
    assert labels["A"] == {"f1": 100.0, "precision": 100.0, "recall": 100.0, "records": 2}
    assert labels["B"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "records": 1}


def test_plain_tags_have_only_an_accuracy() -> None:
    assert span_metrics([["DET", "NOUN"]], [["DET", "VERB"]], "plain") == {"accuracy": 50.0}


def test_nothing_answered_and_nothing_wanted_is_no_division_by_zero() -> None:
    assert span_metrics([["O"]], [["O"]], "bio") == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 100.0}

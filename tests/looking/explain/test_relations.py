"""Heads that follow a relation are found, and always compared with the best fixed offset."""

from pathlib import Path

import pytest
import torch

from mirada.looking.explain.relations import (
    AnnotatedSentence,
    AnnotatedWord,
    RelatedWords,
    best_heads,
    favorites,
    head_relations,
    read_conllu,
    related,
    relations_of,
)

UD = Path(__file__).parents[4] / "shared" / "data" / "ud" / "en_ewt-ud-dev.conllu.gz"


def sentence(*words: tuple[str, int | None, str, str]) -> AnnotatedSentence:
    return AnnotatedSentence(tuple(AnnotatedWord(*word) for word in words))


SENTENCES = [
    sentence(("the", 1, "det", "DET"), ("house", 2, "nsubj", "NOUN"), ("burns", None, "root", "VERB"),
             (".", 2, "punct", "PUNCT")),
    sentence(("the", 2, "det", "DET"), ("red", 2, "amod", "ADJ"), ("house", None, "root", "NOUN")),
]  # fmt: skip


def case(annotated: AnnotatedSentence) -> RelatedWords:
    """Head 0 looks from everything at its head, head 1 at the next word."""
    n = len(annotated.words)
    weights = torch.zeros(2, n, n)
    for place, word in enumerate(annotated.words):
        weights[0, place, word.head if word.head is not None else place] = 1
        weights[1, place, min(place + 1, n - 1)] = 1
    return RelatedWords(related(annotated), {"layer": weights})


def test_a_syntactic_head_beats_the_offset() -> None:
    table = head_relations(map(case, SENTENCES))
    det = [row for row in table if row.relation == "det"]
    assert [(row.head, row.accuracy) for row in det] == [(0, 1.0), (1, 0.5)]
    assert (det[0].count, det[0].baseline, det[0].offset) == (2, 0.5, 1)
    following = next(row for row in table if row.relation == "next" and row.head == 1)
    assert following.accuracy == 1
    assert (following.against, det[0].against) == ("chance", "always +1")
    assert following.baseline == pytest.approx((3 / 3 + 2 / 2) / 5)  # chance: one of the other words
    assert {row.relation for row in best_heads(table)} == {row.relation for row in table}


def test_directions_and_punctuation() -> None:
    found = related(SENTENCES[0])
    assert found["nsubj from its head"] == {2: frozenset({1})}
    assert found["punctuation"] == {place: frozenset({3}) for place in range(3)}
    assert found["previous"] == {place: frozenset({place - 1}) for place in (1, 2, 3)}
    several = relations_of([("det", 0, 2), ("det", 1, 2)], 3)
    assert several["det from its head"] == {2: frozenset({0, 1})}


def test_a_word_never_answers_with_itself() -> None:
    assert favorites(torch.eye(3)[None] + 0.1 * torch.tensor([[[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]])).tolist() == [
        [2, 0, 1]
    ]
    assert favorites(torch.ones(2, 1, 1)).tolist() == [[-1], [-1]]
    with pytest.raises(ValueError, match="heads, words, words"):
        favorites(torch.ones(2, 3, 4))


def test_a_word_that_looks_at_no_other_word_answers_nothing() -> None:
    """The first word of a causal layer sees itself only: it must not count as one that looks at the next word."""
    causal = torch.tensor([[[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.7, 0.1]], [[torch.nan] * 3, [0, 0, 0], [0, 1, 0]]])
    assert favorites(causal).tolist() == [[-1, 0, 1], [-1, -1, 1]]
    found = head_relations([RelatedWords(relations_of([], 3), {"layer": causal})])
    assert {(row.relation, row.head): row.accuracy for row in found}["next", 0] == 0


def test_rare_relations_are_left_out() -> None:
    assert "amod" not in {row.relation for row in head_relations(map(case, SENTENCES), fewest=2)}


@pytest.mark.skipif(not UD.exists(), reason="no annotated sentences here")
def test_real_annotations() -> None:
    found = read_conllu(UD)
    assert len(found.records) > 1900
    assert not found.problems
    table = best_heads(head_relations(case(record.value) for record in found.records[:50]))
    by_name = {row.relation: row for row in table}
    assert by_name["det"].accuracy == 1
    assert 0.3 < by_name["det"].baseline < 0.9

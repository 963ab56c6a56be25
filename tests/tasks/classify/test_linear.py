"""Linear models: where they end, what a word adds, and what they leave as it was."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mirada.data.text.ngrams import NgramTable, occurrences
from mirada.tasks.classify import linear
from mirada.tasks.classify.linear import LinearTexts
from mirada.training.baselines import logistic_regression

TEXTS = ["a good good film", "a bad film", "good book", "bad bad book", "a film", "the good end"]
WANTED = [1, 0, 1, 0, 0, 1]
LABELS = ["yes", "no", "yes", "no", "no", "yes"]


def problem() -> tuple:
    found = occurrences(TEXTS, "words")
    table = NgramTable.learn(found, most=100)
    return table.bags(found), torch.tensor(WANTED), len(table)


@pytest.mark.parametrize("strength", [10.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_zero_where_it_ends(strength: float, weighted: bool) -> None:
    bags, wanted, ngrams = problem()
    rows = torch.tensor([1.0, 2.0, 3.0, 0.5, 0.25, 1.0]) if weighted else None
    weights, bias = logistic_regression(bags, wanted, ngrams, 2, strength=strength, row_weights=rows)
    weights.requires_grad_(), bias.requires_grad_()
    each = F.cross_entropy(bags.scores(weights) + bias, wanted, reduction="none")
    loss = (each * (1.0 if rows is None else rows)).mean() + weights.square().sum() / (2 * strength * len(TEXTS))
    loss.backward()
    assert_close(weights.grad, torch.zeros_like(weights), rtol=0, atol=2e-3)
    assert_close(bias.grad, torch.zeros_like(bias), rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", ["words", "letters"])
def test_what_words_add_is_the_score(kind: str) -> None:
    model = LinearTexts.fit(TEXTS, WANTED, 2, kind)
    text = "the good good unknown book, badly"
    said = model.contributions(text)
    assert [word for word, _ in said] == ["the", "good", "good", "unknown", "book", ",", "badly"]
    assert_close(sum(x for _, x in said) + model.bias, model.scores([text])[0])
    good, bad = said[1][1], model.contributions("bad")[0][1]
    assert good[1] > good[0]
    assert bad[0] > bad[1]
    assert model.contributions("") == []


def test_a_word_by_hand() -> None:
    """Its own weight; half of each pair that it is in."""
    model = LinearTexts.fit(TEXTS, WANTED, 2, "words")
    found = occurrences(["good book"], "words")
    bags, rows = model.table.bags(found), model.table.rows(found.keys)
    share = dict(zip(bags.columns.tolist(), bags.values.tolist(), strict=True))
    good, book, pair = (share[int(row)] * model.weights[int(row)] for row in rows)
    first, second = (said for _, said in model.contributions("good book"))
    assert_close(first, good + pair / 2)
    assert_close(second, book + pair / 2)


def test_letters_read_words_that_were_never_seen() -> None:
    texts, wanted = ["wonderful film", "awful film", "wonderful book", "awful book"], [1, 0, 1, 0]
    letters, words = (LinearTexts.fit(texts, wanted, 2, kind) for kind in ("letters", "words"))
    assert letters.scores(["wonderfully", "awfully"]).argmax(1).tolist() == [1, 0]
    assert_close(words.scores(["wonderfully"])[0], words.bias)


def test_the_file_keeps_it_all(tmp_path: Path) -> None:
    model = LinearTexts.fit(TEXTS, WANTED, 2)
    (tmp_path / "linear").write_bytes(model.content())
    again = LinearTexts.read(tmp_path / "linear")
    assert again.kind == "letters"
    assert torch.equal(again.scores(TEXTS), model.scores(TEXTS))
    assert again.content() == model.content()
    (tmp_path / "linear").write_bytes(model.content()[:100])
    with pytest.raises(ValueError, match="is not a whole checkpoint"):
        LinearTexts.read(tmp_path / "linear")


def test_many_texts_are_read_without_letters_and_too_many_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(map(len, TEXTS))
    monkeypatch.setattr(linear, "MOST_CHARACTERS", {"letters": size - 1, "words": size})
    model = LinearTexts.fit(TEXTS, WANTED, 2)
    assert model.kind == "words"
    assert len(model.table) == len(NgramTable.learn(occurrences(TEXTS, "words"), 100))
    monkeypatch.setattr(linear, "MOST_CHARACTERS", {"letters": 1, "words": size - 1})
    half = LinearTexts.fit(TEXTS, WANTED, 2)
    assert half.table.keys.tolist() == NgramTable.learn(occurrences(TEXTS[::2], "words"), 100).keys.tolist()


def test_many_classes_have_fewer_ngrams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MOST_WEIGHTS", 40)
    assert len(LinearTexts.fit(TEXTS, WANTED, 10).table) == 4


def test_threads_and_gradients_are_left_as_they_are() -> None:
    before = torch.get_num_threads()
    with torch.inference_mode():
        LinearTexts.fit(TEXTS, WANTED, 2)
        assert torch.is_inference_mode_enabled()
    assert torch.get_num_threads() == before


def test_words_decide_and_what_is_unknown_hurts_nothing() -> None:
    model = LinearTexts.fit(TEXTS, WANTED, 2)
    assert model.scores(["good", "bad", "a good one"]).argmax(1).tolist() == [1, 0, 1]
    assert_close(model.scores(["", "§"]), model.bias.expand(2, 2))
    assert [model.knows(text) for text in ("good!", "zzz", "!", "")] == [True, False, False, False]


def test_independent_classes_are_each_a_regression_of_their_own() -> None:
    """Two classes at once, of which a text has any: the same scores as one class against the rest, up to the solver."""
    many = [[float(label), 1.0 - label] for label in WANTED]
    model = LinearTexts.fit(TEXTS, many, 2)
    scores = model.scores(TEXTS)
    assert (scores > 0).tolist() == [[bool(first), bool(second)] for first, second in many]
    assert_close(scores[:, 0], -scores[:, 1], rtol=1e-2, atol=1e-2)

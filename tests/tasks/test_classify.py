"""classify: from labelled texts to labels with probabilities."""

from pathlib import Path

import pytest
import torch

from mirada.data.record import Record
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.sources import Splits
from mirada.tasks.classify import with_every_label
from mirada.training.baselines import majority
from tests.runs.small import QUICK, reviews, trained, write_rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "reviews.tsv", reviews())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: str) -> Run:
    keys = ("width=32", "hidden=64", "depth=1", "heads=2", "steps=60", "validate=30", "lr=1e-2", "dropout=0")
    return trained("classify", data, tmp_path_factory.mktemp("run") / "reviews", *keys)


def test_it_learns_the_labels(run: Run) -> None:
    assert run.known.labels == ("bad", "good")
    found = run.measure()
    assert {name: found[name] for name in ("accuracy", "macro_f1")} == {"accuracy": 100.0, "macro_f1": 100.0}
    assert found["accuracy_linear"] == 100.0, "one word decides"
    splits = run.splits()
    often = majority([record.value[1] for record in splits.train])
    assert found["accuracy_majority"] == 100 * sum(r.value[1] == often for r in splits.valid) / len(splits.valid)
    assert [answer.text for answer in run(["the song was lovely", "an awful day"])] == ["good", "bad"]


def test_scores_are_probabilities(run: Run) -> None:
    answer = run("the song was lovely", best=2)
    assert [label for label, _ in answer.ranked] == ["good", "bad"]
    torch.testing.assert_close(sum(score for _, score in answer.ranked), 1.0)
    assert answer.score == answer.ranked[0][1]
    assert run("the song was lovely").ranked == ()


def test_candidates_are_ranked_and_must_be_labels(run: Run) -> None:
    answer = run("the song was lovely", candidates=("bad",))
    assert answer.text == "bad"
    assert len(answer.ranked) == 1
    with pytest.raises(ValueError, match="candidate 'fine' is not a label of this run; known: bad, good"):
        run("the song was lovely", candidates=("fine",))


def test_many_texts_are_answered_as_each_alone(run: Run) -> None:
    texts = ["sad", "the trip was great and the song was lovely", "a boring film"]
    assert [a.input for a in run(texts)] == texts
    together, alone = ([a.score for a in answers] for answers in (run(texts), [run(text) for text in texts]))
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)


def test_looking_at_an_answer(run: Run) -> None:
    answer = run("the song was lovely")
    assert answer.read == ("the", "song", "was", "lovely", "</s>")
    seen = answer.look()
    assert seen[seen.names[-1]].weights().shape == (1, 2, 5, 5)


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        ("", {}, "nothing to classify"),
        ("  ", {}, "nothing to classify"),
        (
            "good",
            {"beam": 2, "temperature": 1.0},
            "beam, temperature are not used by classify; it takes best, candidates",
        ),
        ("good " * 2000, {}, "the model reads at most"),
    ],
)
def test_what_cannot_be_answered_is_refused(run: Run, text: str, ask: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(text, **ask)


def test_the_report_shows_texts_and_labels(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Examples" in page
    assert run.splits().valid[0].value[0].split()[-1] in page
    assert "accuracy" in page


def test_labels_unseen_in_training_are_told_where_they_are(tmp_path: Path, run: Run) -> None:
    path = write_rows(tmp_path / "odd.tsv", [("the film was good", "good"), ("so so", "mixed"), ("hm", "unsure")])
    with pytest.raises(
        ValueError, match=r"odd.tsv:2: label 'mixed' does not occur in training; known: bad, good"
    ) as told:
        run.measure(path)
    assert "odd.tsv:3" in str(told.value)


def test_a_label_that_only_held_out_records_have_is_learned_from() -> None:
    train, valid = [Record("a:1", ("x", "yes"))], [Record("a:2", ("y", "yes")), Record("a:3", ("z", "rare"))]
    splits = with_every_label(Splits(train, valid))
    assert [record.where for record in splits.train] == ["a:1", "a:3"]
    assert [record.where for record in splits.valid] == ["a:2"]
    whole = Splits(train, valid[:1])
    assert with_every_label(whole) is whole


def test_one_label_is_too_few(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.tsv", [(f"text {n}", "yes") for n in range(9)])
    with pytest.raises(
        ValueError, match=r"at least two labels: all records have 'yes'. Is the label the second column"
    ):
        trained("classify", path, tmp_path / "run")


@pytest.mark.parametrize("model", ["transformer", "lstm-attention", "conv-attention"])
def test_every_model_reads_texts_of_one_word(tmp_path: Path, model: str) -> None:
    """A convolution needs three places: short texts are closed by several ends."""
    words = [(word, label) for word, label in (("yes", "a"), ("no", "b"), ("oui", "a"), ("non", "b"), ("si", "a"))]
    run = trained("classify", write_rows(tmp_path / "a.tsv", words), tmp_path / "run", *QUICK, model=model)
    answer = load(run.folder)("no")
    assert answer.text in ("a", "b")
    assert answer.read[0] == "no"
    assert set(answer.read[1:]) == {"</s>"}
    assert len(answer.look().names) == 1

"""classify: from labelled texts to labels with probabilities."""

import json
import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from mirada.data.record import Record
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.sources import Splits
from mirada.tasks.classify.task import Classify, ClassifyOptions, closed, network_scores
from mirada.training.baselines import majority
from tests.runs.small import QUICK, read, request, reviews, trained, write_rows


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
    assert answer.shown == 2
    plain = run("the song was lovely")
    assert (plain.ranked, plain.shown) == (answer.ranked, 0)


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


@pytest.mark.parametrize("key", ["pool=mean", "pool=first", "pool=attention", "pool=max"])
@pytest.mark.parametrize("model", ["transformer", "lstm-attention", "conv-attention"])
def test_one_answer_has_a_weight_for_every_token(tmp_path: Path, data: str, model: str, key: str) -> None:
    run = trained("classify", data, tmp_path / "run", *QUICK, key, "units=8", model=model)
    answer = run("the song was lovely")
    assert answer.written == (answer.text,)
    assert answer.weights.shape == (1, len(answer.read))
    torch.testing.assert_close(answer.weights.sum(), torch.tensor(1.0))
    seen = answer.look()
    weights = seen[seen.names[-1]].weights()[0].mean(0)  # the mean of heads
    row = weights[0] if key in ("pool=first", "pool=attention") else weights.mean(0)
    if model == "conv-attention":  # a place of three tokens, which share its weight
        row = sum(torch.nn.functional.pad(row / 3, (place, 2 - place)) for place in range(3))
    torch.testing.assert_close(answer.weights[0], row)


def test_many_answers_have_weights_on_request(run: Run) -> None:
    texts = ["the song was lovely", "an awful day"]
    assert [answer.weights for answer in run(texts)] == [None, None]
    for answer, alone in zip(run(texts, aligned=True), map(run, texts), strict=True):
        torch.testing.assert_close(answer.weights, alone.weights)
        assert (answer.written, answer.read) == (alone.written, alone.read)


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


def test_labels_that_are_numbers_stand_in_their_order() -> None:
    splits = Splits([Record(f"a:{n}", (f"text {n}", str(n))) for n in (10, 9, 2, 1)], [])
    known = Classify().learn(splits, ClassifyOptions(), None)
    assert known.labels == ("1", "2", "9", "10")


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


# Two components


def test_an_answer_is_what_both_components_score(run: Run) -> None:
    """softmax(scale x network + scale x linear), with the numbers of the folder."""
    texts = ["the song was lovely", "a sad and boring trip"]
    known, again = run.known, load(run.folder)
    assert again.known.scales == known.scales
    assert len(known.scales) == 2
    items = [[*known.tokenizer.encode(text), 3] for text in texts]
    network = torch.cat([run.model(torch.tensor([item])) for item in items]).detach()
    scores = known.scales[0] * network + known.scales[1] * known.linear.scores(texts)
    for answer, shares in zip(again(texts), scores.softmax(1), strict=True):
        torch.testing.assert_close(dict(answer.ranked), dict(zip(known.labels, shares.tolist(), strict=True)))
    assert again(texts[0]).value == {"attention": "good", "words": "good"}


def test_scales_lower_the_loss_of_the_validation(run: Run) -> None:
    records = run.splits().valid
    texts = [record.value[0] for record in records]
    wanted = torch.tensor([run.known.labels.index(record.value[1]) for record in records])
    scores = run.known.component_scores(network_scores(run, closed(texts, run.known, run.model.config)), texts)
    alone = [F.cross_entropy(each, wanted) for each in scores.values()]
    assert F.cross_entropy(run.known.joined_scores(scores), wanted) < min(alone)


def test_details_tell_each_component_and_how_sure_they_are(run: Run) -> None:
    found = run.measured(run.splits())
    assert found.details["alone"] == {"attention": 100.0, "words": 100.0}
    sure = [answer.score for answer in found.answers]
    torch.testing.assert_close(found.details["ece"], 100 * (1 - sum(sure) / len(sure)), rtol=0.3, atol=0.5)
    lines = run.task.detail_lines(found.details)
    assert lines[-4:] == [
        "attention alone      100.00",
        "words alone          100.00",
        f"calibration error    {found.details['ece']:.2f}",
        found.details["verdict"],
    ]
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    for words in ("Components", "words and parts of words, linear", "Strongest words of the linear model", "lovely"):
        assert words in page


def test_the_network_can_answer_alone(tmp_path: Path, data: str) -> None:
    run = trained("classify", data, tmp_path / "run", *QUICK, "beside=none")
    assert run.known.linear is None
    assert len(run.known.scales) == 1
    assert set(run("a good film").value) == {"attention"}
    assert "Strongest words of the linear model" not in (run.folder / "report.html").read_text(encoding="utf-8")
    item = torch.tensor([[*run.known.tokenizer.encode("a good film"), 3]])
    shares = (run.known.scales[0] * run.model(item)[0]).softmax(0)
    torch.testing.assert_close(load(run.folder)("a good film").score, shares.max().item())


def test_an_unknown_component_is_refused(tmp_path: Path, data: str) -> None:
    with pytest.raises(ValueError, match=r"unknown beside 'word'; known: letters, none, words\. Did you mean 'words'"):
        trained("classify", data, tmp_path / "run", "beside=word")


def test_a_folder_without_its_linear_model_is_refused(tmp_path: Path, data: str) -> None:
    run = trained("classify", data, tmp_path / "run", *QUICK)
    linear = (run.folder / "linear.safetensors").rename(tmp_path / "linear.safetensors")
    with pytest.raises(ValueError, match=r"linear\.safetensors is missing or damaged: .*Restore the file"):
        load(run.folder)
    linear.rename(run.folder / "linear.safetensors")
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    config["facts"]["scales"] = ["much"]
    del config["checksum"]  # the change is meant
    (run.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=r"the scales in config\.json must be a list of numbers"):
        load(run.folder)


def test_a_run_that_starts_from_another_has_a_linear_model_of_its_own_texts(tmp_path: Path, run: Run) -> None:
    rows = [
        (f"{word} {thing}", label) for thing in ("soup", "tea") for word, label in (("hot", "good"), ("cold", "bad"))
    ]
    data = write_rows(tmp_path / "rows.tsv", rows * 5)
    keys = ("steps=2", "validate=1", "bad=skip")
    again = trained("classify", data, tmp_path / "run", *keys, start=str(run.folder))
    assert len(again.known) == len(run.known)
    assert again.known.linear.scores(["hot", "cold"]).argmax(1).tolist() == [1, 0]


def test_the_best_weights_have_the_fewest_errors(run: Run) -> None:
    ended = [
        line for line in (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines() if "ended" in line
    ]
    assert "(valid accuracy 100.0)" in json.loads(ended[-1])["ended"]


# Rare labels


def rare(seed: int, count: int = 800) -> list[tuple[str, str]]:
    """One in twenty is spam; three of four spam texts have its word, and one of eight others. A name tells texts apart."""
    dice, rows = random.Random(seed), []
    for number in range(count):
        spam = number % 20 == 0
        hint = "win" if dice.random() < (0.75 if spam else 0.125) else "meet"
        rows.append((f"{hint} {''.join(dice.choices('abcdefgh', k=9))}", "spam" if spam else "mail"))
    return rows


def test_balance_finds_more_of_a_rare_label(tmp_path: Path) -> None:
    data, valid = (write_rows(tmp_path / f"{seed}.tsv", rare(seed)) for seed in (1, 2))
    keys = (
        "width=16",
        "hidden=16",
        "depth=1",
        "heads=2",
        "steps=60",
        "validate=20",
        "lr=1e-2",
        "vocab=8",
        "beside=words",
    )
    plain, balanced = (
        trained("classify", data, tmp_path / name, *keys, f"balance={name}", valid=valid) for name in ("no", "yes")
    )  # fmt: skip
    assert plain.known.weights == ()
    common, seldom = balanced.known.weights
    assert seldom > 15 * common
    assert load(balanced.folder).known.weights == balanced.known.weights
    before, after = (run.measure()["macro_f1"] for run in (plain, balanced))
    assert before < 52, "the rare label is hardly ever answered"
    assert after > before + 5


def test_a_label_of_one_record_is_learned_wherever_our_split_put_it(tmp_path: Path) -> None:
    rows = [*reviews(), *[(f"a word alone {n}", f"rare {n}") for n in range(40)]]
    data = write_rows(tmp_path / "rows.tsv", rows)
    splits = read(request("classify", data, "split=0.6,0.2,0.2").settings())
    assert not splits.problems
    assert {record.value[1] for record in splits.train} == {label for _, label in rows}
    assert len(splits.train) + len(splits.valid) + len(splits.test) == len(rows)


def test_a_validation_file_of_a_folder_stays_as_it_is(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.tsv", reviews())
    write_rows(tmp_path / "valid.tsv", [("hm", "unsure"), ("so good", "good")])
    splits = read(request("classify", str(tmp_path)).settings())
    assert len(splits.valid) == 2
    (problem,) = splits.problems
    assert "label 'unsure' does not occur in training" in str(problem)


# From a user's file to the stated quality


SST2 = Path(__file__).parents[4] / "shared" / "data" / "sst2"


@pytest.mark.slow
@pytest.mark.skipif(not SST2.exists(), reason="the data is not here")
def test_movie_reviews_reach_what_is_stated(tmp_path: Path) -> None:
    run = trained("classify", str(SST2 / "train.tsv"), tmp_path / "run", valid=str(SST2 / "dev.tsv"), minutes=5.0)
    found = run.measured(run.splits(str(SST2 / "test.tsv")))
    assert found.metrics["accuracy"] >= 81.0
    assert found.details["ece"] < 5


@pytest.mark.slow
def test_negation_needs_more_than_single_words(tmp_path: Path) -> None:
    found = trained("classify", "", tmp_path / "run").measure()
    assert found["accuracy"] > 98
    assert found["accuracy_linear"] < found["accuracy"] - 10

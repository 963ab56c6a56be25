"""Which reader answers: attention, words or both; texts of which nothing was seen; long texts; texts without blanks."""

import json
from pathlib import Path

import pytest
import torch

from mirada.data.options import TextOptions
from mirada.data.record import Record
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.sources import Splits
from mirada.tasks.classify.choice import chosen_for, context
from mirada.tasks.classify.ensemble import chosen_scales, fitted_scales
from mirada.tasks.classify.labels import label_notes
from mirada.tasks.classify.task import Classify, ClassifyOptions
from tests.runs.small import QUICK, read, request, reviews, trained, write_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("readers")
    return trained("classify", write_rows(home / "rows.tsv", reviews()), home / "run", *QUICK)


def scored(records: int, share: float, seed: int, wanted: torch.Tensor, surer: float = 0.0) -> torch.Tensor:
    """Scores that are for the wanted one of two classes in so many cases, else for the other; `surer` where they are right."""
    generator = torch.Generator().manual_seed(seed)
    right = torch.rand(records, generator=generator) < share
    size = 0.5 + torch.rand(records, generator=generator) + surer * right
    return torch.nn.functional.one_hot(torch.where(right, wanted, 1 - wanted), 2) * size[:, None]


def test_noise_does_not_answer_beside_a_reader_that_knows() -> None:
    wanted = torch.arange(300) % 2
    knows, noise = scored(300, 0.8, 1, wanted), scored(300, 0.5, 2, wanted)
    assert [bool(scale) for scale in chosen_scales([noise, knows], wanted)] == [False, True]
    assert [bool(scale) for scale in chosen_scales([knows, noise], wanted)] == [True, False]


def test_two_readers_with_different_errors_answer_together() -> None:
    wanted = torch.arange(600) % 2
    scores = [scored(600, 0.75, seed, wanted, surer=1.0) for seed in (1, 2)]
    assert chosen_scales(scores, wanted) == fitted_scales(scores, wanted)


def test_a_handful_of_records_decides_nothing() -> None:
    wanted = torch.arange(20) % 2
    scores = [scored(20, 0.5, 1, wanted), scored(20, 0.9, 2, wanted)]
    assert all(chosen_scales(scores, wanted))


def test_a_text_of_which_nothing_was_seen_has_the_shares_of_the_data(run: Run) -> None:
    answer = run("你好吗")
    assert answer.score == max(run.known.prior)
    assert answer.score < 0.6
    assert "nothing in '你好吗' occurs in the training data" in answer.note
    assert answer.to_dict()["note"] == answer.note
    assert answer.to_dict()["reader"] == "none"
    assert load(run.folder)("你好吗?").score == answer.score, "a sign is no word"
    assert not run("a good film").note


def test_parts_of_words_answer_where_no_word_is_known(run: Run) -> None:
    answer = run("goodish")
    assert (answer.text, answer.to_dict()["reader"]) == ("good", "words")


def test_an_answer_says_which_reader_decided(run: Run) -> None:
    known = run.known
    for label in known.labels:
        other = next(name for name in known.labels if name != label)
        assert known.reader_of(label, {"attention": label, "words": other}) == "attention"
        assert known.reader_of(label, {"attention": other, "words": label}) == "words"
        assert known.reader_of(label, {"attention": label, "words": label}) == "both"
    assert run("the film was good").look().labels.made["reader"] in ("attention", "words", "both")


def test_the_verdict_names_all_three_and_the_report_begins_with_a_sentence(run: Run) -> None:
    verdict = run.measured(run.splits()).verdict
    assert verdict.startswith("attention alone ")
    assert ", words alone 100.0, both " in verdict
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert " of 100 right" in page.partition('class="summary"')[2][:40]


# Long texts


def long_reviews() -> list[tuple[str, str]]:
    return [(f"{'so ' * 30}{text} {'la ' * n}", label) for n, (text, label) in enumerate(reviews())]


def test_long_texts_are_refused_with_the_key_that_helps_or_cut(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "long.tsv", long_reviews())
    with pytest.raises(ValueError, match=r"at most 50 fit\. Take a longer length \(length=7\d\), or .*truncate=yes"):
        trained("classify", data, tmp_path / "refused", *QUICK, "length=50")
    said: list[str] = []
    from mirada.runs.train import execute

    out = str(tmp_path / "cut")
    run = execute(request("classify", data, *QUICK, "length=50", "truncate=yes", out=out), said.append, said.append)
    assert any("texts are longer than length=50 tokens: the network reads the beginning" in line for line in said)
    assert load(run.folder)("so " * 400 + "good").text == "good", "the linear model reads all of it"
    assert not any(len(line) > 300 for line in said)


def test_a_context_follows_from_the_texts_and_the_minutes() -> None:
    assert context([2000] * 900, 2000, minutes=0.1) == 512
    assert context([2000] * 900, 2000, minutes=60) == 2048
    assert context([600] * 10, 600, minutes=5) == 640
    choice = chosen_for("transformer", ["la " * 2400] * 900, ["la"], TextOptions(tokenizer="word"), minutes=0.5)
    assert choice.model["length"] < 2400
    assert choice.data == {"truncate": True}


def test_small_data_is_seen_often_enough_and_many_texts_have_a_larger_network() -> None:
    few = chosen_for("transformer", ["a good film"] * 200, ["a film"], TextOptions(tokenizer="word"), 0)
    assert few.recipe["epochs"] == 40
    many = [
        chosen_for("transformer", ["a good film"] * 50_000, ["a film"], TextOptions(tokenizer="word"), m)
        for m in (1, 60)
    ]
    assert many[0].model["width"] < many[1].model["width"]
    assert "epochs" not in many[1].recipe
    assert (
        "depth" not in chosen_for("lstm-attention", ["a film"] * 9, ["a film"], TextOptions(tokenizer="word"), 1).model
    )


# Texts whose words have no blanks between them, or are mostly new


def test_characters_are_chosen_where_no_blanks_divide_the_words(tmp_path: Path) -> None:
    rows = [(f"我{word}这部电影{n}", label) for n in range(9) for word, label in (("喜欢", "good"), ("讨厌", "bad"))]
    run = trained("classify", write_rows(tmp_path / "rows.tsv", rows), tmp_path / "run", *QUICK)
    assert run.known.tokenizer.kind == "char"
    given = trained("classify", write_rows(tmp_path / "rows.tsv", rows), tmp_path / "word", *QUICK, "tokenizer=word")
    assert given.known.tokenizer.kind == "word"


def test_new_words_are_read_by_their_characters() -> None:
    train, valid = (
        [f"ab{n}x".translate({48: "o", 49: "i"}) + chr(97 + n) * 3 for n in range(20)],
        [f"q{'z' * n}" for n in range(30)],
    )
    assert chosen_for("transformer", train, valid, TextOptions(tokenizer="word"), 1).data == {"tokenizer": "char"}
    long = [" ".join(chr(97 + n) * size for size in range(1, 30)) for n in range(20)]
    assert chosen_for("transformer", long, valid, TextOptions(tokenizer="word"), 1).data["tokenizer"] == "bpe"


# Labels


def test_uneven_labels_name_the_way_out_unless_it_is_taken() -> None:
    labels = ["ham"] * 1500 + ["spam"] * 45
    (note,) = label_notes(labels, ClassifyOptions())
    assert "1,500 ham, 45 spam" in note
    assert "balance=yes" in note
    assert label_notes(labels, ClassifyOptions(balance=True)) == []
    assert label_notes(["ham"] * 60 + ["spam"] * 45, ClassifyOptions()) == []


def test_measurements_are_sent_to_estimate_and_stars_stay_classes(tmp_path: Path) -> None:
    rows = [(f"a flat of {n} m", f"{600 + 1.5 * n}") for n in range(60)]
    with pytest.raises(ValueError, match=r"estimate the number: `mirada train estimate`"):
        read(request("classify", write_rows(tmp_path / "rows.tsv", rows)).settings())
    twice = [(text, number) for text, number in rows] + [(f"{text} again", number) for text, number in rows]
    with pytest.raises(ValueError, match=r"60 different numbers: they are no classes\. `mirada train estimate`"):
        read(request("classify", write_rows(tmp_path / "twice.tsv", twice)).settings())
    assert label_notes([str(n % 5 + 1) for n in range(60)], ClassifyOptions()) == []
    assert label_notes(["0", "1", "0.5"] * 20, ClassifyOptions()) == []
    (note,) = label_notes([str(n % 30) for n in range(600)], ClassifyOptions())
    assert "taken for classes; `mirada train estimate`" in note


def test_the_prior_is_the_share_of_each_label() -> None:
    splits = Splits([Record(f"a:{n}", (f"text {n}", "yes" if n % 4 else "no")) for n in range(8)], [])
    known = Classify().learn(splits, ClassifyOptions(), None)
    assert dict(zip(known.labels, known.prior, strict=True)) == {"no": 0.25, "yes": 0.75}


def test_a_chapter_is_not_pasted_into_the_command_that_asks(run: Run) -> None:
    command = run.task.example(run, ["word " * 500])
    assert len(command) < len(str(run.folder)) + 120
    assert json.dumps(command).count("word") < 20


# Several labels a text


def films() -> list[tuple[str, str]]:
    """Texts with a genre for every word in them."""
    genres = {"laugh": "comedy", "kiss": "romance", "shoot": "action"}
    rows = []
    for n in range(60):
        words = [word for place, word in enumerate(genres) if (n % 7 + 1) >> place & 1]
        rows.append((f"film {n} has {' and '.join(words)} scenes", ",".join(genres[word] for word in words)))
    return rows


def test_labels_that_look_like_lists_are_offered_to_be_learned_one_by_one(tmp_path: Path) -> None:
    (note,) = label_notes([label for _, label in films()], ClassifyOptions())
    assert "labels look like lists" in note
    assert "labels=many" in note
    assert label_notes(["Paris, France", "Rome, Italy"] * 20, ClassifyOptions()) == []
    splits = read(request("classify", write_rows(tmp_path / "films.tsv", films())).settings())
    assert any("labels=many" in line for line in splits.notes)


def test_several_labels_have_probabilities_of_their_own(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "films.tsv", films())
    keys = (
        "width=32",
        "hidden=32",
        "depth=1",
        "heads=2",
        "steps=60",
        "validate=30",
        "lr=1e-2",
        "dropout=0",
        "threads=1",
    )
    run = trained("classify", data, tmp_path / "run", *keys, "labels=many")
    assert run.known.labels == ("action", "comedy", "romance")
    run = load(run.folder)
    answer = run("film 99 has laugh and shoot scenes")
    assert answer.text == "action, comedy"
    assert answer.score == min(score for label, score in answer.ranked if label in ("action", "comedy"))
    assert sum(score for _, score in answer.ranked) > 1.5, "they do not share one"
    found = run.measure()
    assert list(found) == ["micro_f1", "macro_f1", "accuracy", "micro_f1_linear", "micro_f1_majority"]
    assert found["micro_f1"] > 95
    assert "Every label" in (run.folder / "report.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="balance= is for texts with one label each"):
        trained("classify", data, tmp_path / "other", "labels=many", "balance=yes")


def test_metrics_of_several_labels_by_hand() -> None:
    from mirada.tasks.classify.targets import MANY

    found = MANY.metrics(["a", "a, b", "b"], ["a,b", "b,a", "c"])
    # right: 1 + 2 + 0 of 4 given and 5 wanted; F1: a 1, b 1/2 (1 right of 2 given and 2 wanted), c 0
    assert found["micro_f1"] == pytest.approx(200 * 3 / 9)
    assert found["macro_f1"] == pytest.approx(100 * (1 + 0.5 + 0) / 3)
    assert found["accuracy"] == pytest.approx(100 / 3)

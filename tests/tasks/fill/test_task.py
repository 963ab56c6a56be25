"""fill: the word for a gap, and whether one sentence follows another."""

import re
from pathlib import Path

import pytest
import torch

from mirada.runs.run import Run
from mirada.tasks.fill.gaps import askable, with_gap
from tests.runs.small import QUICK, read, request, stories, text, trained, write_rows

GAP = "We buy a red ___."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = write_rows(tmp_path_factory.mktemp("data") / "stories.tsv", stories())
    keys = ("width=32", "hidden=64", "depth=1", "heads=2", "steps=120", "validate=60", "lr=1e-2", "batch_tokens=2048")
    keys += ("tokenizer=word",)
    return trained("fill", data, tmp_path_factory.mktemp("run") / "gaps", *keys)


def test_it_learns_which_words_fit(run: Run) -> None:
    metrics = run.measure()
    assert set(metrics) == {
        "word_accuracy", "order_accuracy", "word_accuracy_neighbors", "order_accuracy_majority",
    }  # fmt: skip
    assert metrics["word_accuracy"] > 30
    assert 10 < metrics["word_accuracy_neighbors"] < 100
    assert 50 <= metrics["order_accuracy_majority"] < 80
    assert run(GAP).text in ("house", "car", "book", "table", "cat")


def test_words_come_with_their_probabilities(run: Run) -> None:
    answer = run(GAP, best=4)
    scores = [score for _, score in answer.ranked]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert 0 < sum(scores) <= 1
    assert answer.ranked[0] == (answer.text, answer.score)
    assert run(GAP).ranked == ()


def test_candidates_are_ranked_whatever_else_is_likely(run: Run) -> None:
    answer = run(GAP, candidates=("buy", "car"))
    assert [word for word, _ in answer.ranked] == ["car", "buy"]
    torch.testing.assert_close(answer.score, dict(run(GAP, best=20).ranked)["car"])


@pytest.mark.parametrize("gap", ["___", "__", "_____", "[MASK]", "<mask>"])
def test_a_gap_can_be_written_in_several_ways(run: Run, gap: str) -> None:
    assert run(GAP.replace("___", gap)).score == run(GAP).score


def test_the_order_of_two_sentences(run: Run) -> None:
    answer = run("We buy a red car.\tIt is red.")
    assert answer.text in ("follows", "does not follow")
    assert 0.5 <= answer.score <= 1
    assert answer.read[0] == "<s>"
    assert answer.read.count("</s>") == 2


def test_looking_at_an_answer(run: Run) -> None:
    answer = run(GAP)
    assert "<mask>" in answer.read
    weights = answer.look()["encoder.layers.0.self"].weights()
    assert weights.shape == (1, 2, len(answer.read), len(answer.read))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, len(answer.read)))


@pytest.mark.parametrize(("text", "place"), [(GAP, "<mask>"), ("We buy a red car.\tIt is red.", "<s>")])
def test_one_answer_has_the_attention_of_the_place_that_predicted_it(run: Run, text: str, place: str) -> None:
    answer = run(text)
    assert answer.written == (answer.text,)
    assert answer.weights.shape == (1, len(answer.read))
    whole = answer.look()["encoder.layers.0.self"].weights()[0].mean(0)
    torch.testing.assert_close(answer.weights[0], whole[answer.read.index(place)])
    assert run([text])[0].weights is None


def test_two_sentences_are_cut_away_from_their_gap_or_from_where_they_meet(run: Run) -> None:
    many = "We see a cat. " * 60
    pair = f"{many}We buy a red car.\tIt is red. {many.strip()}"
    with pytest.raises(ValueError, match=r"the model reads at most 128.*--truncate"):
        run(pair)
    answer = run(pair, truncate=True)
    assert "We buy a red car.\tIt is red." in answer.input
    assert 100 < len(answer.read) <= 128
    first = run(f"We buy a red ___.\t{many.strip()}", truncate=True)
    assert first.input.startswith("We buy a red ___.\tWe see a cat.")
    second = run(f"{many.strip()}\tWe buy a red ___.", truncate=True)
    assert second.input.endswith("\tWe buy a red ___.")
    far = run(f"Gone.\t{many}We buy a red ___.", truncate=True)
    assert far.input.endswith("We see a cat. We buy a red ___.")
    assert "\t" not in far.input, "the first sentence is the farthest from the gap"
    huge = "x." * 100
    with pytest.raises(ValueError, match="the model reads at most 128"):
        run(f"{huge}\t{huge}", truncate=True)


@pytest.mark.parametrize(
    ("given", "ask", "message"),
    [
        ("We buy a car.", {}, "has no gap: write ___ for the missing word"),
        ("", {}, "has no gap"),
        ("We ___ a ___.", {}, "one gap at a time"),
        (GAP, {"candidates": ("",)}, "candidate '' is empty"),
        (GAP, {"beam": 2}, "beam is not used by fill; it takes best, candidates"),
        ("word " * 300 + "___", {}, "the model reads at most 128"),
    ],
)
def test_what_cannot_be_answered_is_refused(run: Run, given: str, ask: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(given, **ask)


def test_the_report_shows_gaps(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Gaps" in page
    assert 'aria-label="gap"' in page


def test_the_report_asks_for_a_gap(run: Run) -> None:
    (command,) = re.findall(r"<code>(mirada run .*)</code>", (run.folder / "report.html").read_text(encoding="utf-8"))
    assert "___" in command


def test_a_plain_text_becomes_pairs_of_passages(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text(), encoding="utf-8")
    splits = read(request("fill", data=str(tmp_path / "a.txt")).settings())
    first, second = (*splits.train, *splits.valid)[0].value
    assert first.endswith(".")
    assert f"{first} {second}" in text().replace("\n", " ")


def test_a_text_with_gaps_of_its_own_can_be_learned_from(tmp_path: Path) -> None:
    """Its samples are those that have none: to ask for two gaps would end the training at its first validation."""
    lines = [f"Write __init__ or {word}. Then call {word}." for word in ("run", "go", "stop", "wait", "look", "see")]
    (tmp_path / "a.txt").write_text("\n\n".join(lines), encoding="utf-8")
    run = trained("fill", str(tmp_path / "a.txt"), tmp_path / "run", *QUICK)
    assert askable(run.splits().valid, 3) == []
    assert run("Then call ___.").text


def test_the_last_word_is_hidden() -> None:
    assert with_gap("Ana lee un libro.") == "Ana lee un ___."
    assert with_gap("¿Y Luis?") == "¿Y ___?"
    assert with_gap("...") == "..."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"One sentence only.\n", "no two sentences that follow each other"),
        (b"caf\xe9 one. caf\xe9 two.\n", r"a.txt:1: not UTF-8(?s:.*)no record is left to learn from"),
    ],
)
def test_a_text_without_pairs_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        trained("fill", str(tmp_path / "a.txt"), tmp_path / "run", *QUICK)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_texts_or_of_tables(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "texts" / name).write_text(text(), encoding="utf-8")
    splits = read(request("fill", str(tmp_path / "texts")).settings())
    assert {Path(record.where).name.split(":")[0] for record in splits.train} == {"a.txt", "b.txt"}
    (tmp_path / "tables").mkdir()
    write_rows(tmp_path / "tables" / "train.tsv", stories()[:20])
    (tmp_path / "tables" / "valid.csv").write_text("premise,hypothesis\nAna reads.,She is here.\n", encoding="utf-8")
    divided = read(request("fill", str(tmp_path / "tables")).settings())
    assert len(divided.train) == 20
    assert [record.value for record in divided.valid] == [("Ana reads.", "She is here.")]

"""write: from a text to texts that go on like it."""

import html
import math
import shlex
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from mirada.runs.run import Run
from mirada.runs.train import execute, preview
from mirada.tasks.write.task import beginning, continued
from tests.runs.small import QUICK, quiet, read, request, text, trained


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text(text(), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: str) -> Run:
    keys = ("width=32", "hidden=64", "depth=1", "heads=2", "steps=40", "validate=20", "length=32", "lr=1e-2")
    return trained("write", data, tmp_path_factory.mktemp("run") / "writer", *keys)


def test_it_learns_what_follows(run: Run) -> None:
    metrics = run.measure()
    assert metrics["loss"] < math.log(len(run.known.tokenizer)) - 0.5
    torch.testing.assert_close(metrics["perplexity"], math.exp(metrics["loss"]))
    # a character is a token; only the start before the text is not wanted
    torch.testing.assert_close(metrics["bits_per_character"], metrics["loss"] / math.log(2), rtol=1e-2, atol=0.0)


def test_a_model_of_the_last_few_characters_is_compared_with_it(run: Run) -> None:
    metrics = run.measure()
    assert 0 < metrics["loss_ngram"] < math.log(len(run.known.tokenizer))
    torch.testing.assert_close(metrics["perplexity_ngram"], math.exp(metrics["loss_ngram"]))
    ratio = metrics["bits_per_character"] / metrics["loss"]
    torch.testing.assert_close(metrics["bits_per_character_ngram"] / metrics["loss_ngram"], ratio)


def test_an_answer_continues_the_text(run: Run) -> None:
    answer = run("We buy", tokens=9)
    assert answer.text.startswith("We buy")
    assert len(answer.text) == len("We buy") + 9
    assert len(answer.written) == 9
    assert answer.score < 0
    assert answer.look().names == ["decoder.layers.0.self"]


def test_a_text_may_be_longer_than_the_reach(run: Run) -> None:
    assert run.model.config.length == 32
    assert len(run("We buy", tokens=80).written) == 80
    assert len(run("We buy the red car. " * 5, tokens=5).written) == 5


@pytest.mark.parametrize(
    ("prompt", "tokens"), [("We buy", 9), ("", 4), ("We buy", 80), ("We buy the red car. " * 5, 40)]
)
def test_one_answer_has_a_row_for_everything_written(run: Run, prompt: str, tokens: int) -> None:
    """Where a text is longer than the reach, every row is that of the time when it was written."""
    answer = run(prompt, tokens=tokens, seed=1)
    assert len(answer.written) == tokens
    assert (*answer.read[-tokens + 1 :], answer.written[-1]) == answer.written, "what was written is read for the rest"
    assert answer.weights.shape == (tokens, len(answer.read))
    torch.testing.assert_close(answer.weights.sum(-1), torch.ones(tokens))
    before = len(answer.read) - tokens + 1
    later = torch.arange(len(answer.read)) >= before + torch.arange(tokens).unsqueeze(1)
    assert not answer.weights[later].any(), "nothing is looked at before it was written"
    assert ((answer.weights > 0).sum(-1) <= 32).all()
    if len(answer.read) < 32:
        whole = answer.look()["decoder.layers.0.self"].weights()[0].mean(0)
        torch.testing.assert_close(answer.weights, whole[before - 1 : -1, :-1])
    assert run([prompt], tokens=4)[0].weights is None


def test_weights_that_are_too_many_are_not_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.tasks.write.task.MOST_WEIGHTS", 50)
    answer = run("We buy", tokens=9)
    assert answer.weights is None
    assert answer.note == "the text is too long to keep its weights: ask for fewer tokens, or give less text"


def test_a_validation_is_reported_in_a_well_known_metric(run: Run) -> None:
    shown = preview(run, run.task.samples(run, run.splits())[:1], run.splits().valid, {"loss": math.log(7)})
    assert shown.startswith("  perplexity 7.00  sample: ")


def test_a_text_from_nothing(run: Run) -> None:
    assert len(run("", tokens=4).text) == 4


def test_a_stream_gives_the_same_text_in_pieces(run: Run) -> None:
    pieces = list(run.stream("We buy", tokens=50, seed=3))
    assert pieces[0] == "We buy"
    assert len(pieces) == 51
    assert "".join(pieces) == run("We buy", tokens=50, seed=3).text


@pytest.mark.parametrize("ask", [{"seed": 3}, {"temperature": 0.0}, {"beam": 2}], ids=str)
def test_a_stream_returns_the_answer_with_its_score(run: Run, ask: dict) -> None:
    def pieces() -> Generator[str, None, None]:
        answers.append((yield from run.stream("We buy", tokens=50, **ask)))  # longer than the reach

    answers: list[Any] = []
    whole, wanted = "".join(pieces()), run("We buy", tokens=50, **ask)
    assert answers[0].to_dict() == wanted.to_dict()
    assert whole == wanted.text


def test_a_stream_of_a_beam_comes_at_once(run: Run) -> None:
    assert list(run.stream("We", beam=2, tokens=5)) == [run("We", beam=2, tokens=5).text]


def test_drawing_is_a_function_of_the_seed_and_of_the_place(run: Run) -> None:
    first, again, other = (run("We", tokens=30, seed=seed).text for seed in (1, 1, 2))
    assert first == again != other
    twins = run(["We", "We"], tokens=30)
    assert twins[0].text != twins[1].text
    greedy = run(["We", "We"], tokens=30, temperature=0.0)
    assert greedy[0].text == greedy[1].text


@pytest.mark.parametrize("ask", [{"best": 2}, {"candidates": ("a",)}, {"beam": 2, "coverage": 0.1}], ids=str)
def test_what_it_has_no_use_for_is_refused(run: Run, ask: dict) -> None:
    with pytest.raises(ValueError, match=r"(is|are) not used by write"):
        run("We", **ask)


@pytest.mark.parametrize("tokenizer", ["bpe", "unigram", "word"])
def test_a_space_between_the_text_and_what_follows(tmp_path: Path, data: str, tokenizer: str) -> None:
    run = trained("write", data, tmp_path / "run", *QUICK, f"tokenizer={tokenizer}", "vocab=80", "length=16")
    before = run.known.tokenizer.encode("We buy")
    assert continued(run, before, run.known.tokenizer.encode("the")) == " the"
    assert continued(run, before, run.known.tokenizer.encode("the red car")) == " the red car"
    answer = run("We buy", tokens=30, seed=1)
    assert answer.text.startswith("We buy")
    assert "".join(run.stream("We buy", tokens=30, seed=1)) == answer.text


def test_short_texts_can_be_measured_and_validated_on(tmp_path: Path, run: Run, data: str) -> None:
    """Only what is learned from must be longer than a window."""
    short = tmp_path / "short.txt"
    short.write_text("We see.\n", encoding="utf-8")
    assert run.measure(str(short))["loss"] > 0
    order = request("write", data, *QUICK, valid=str(short), out=str(tmp_path / "run"))
    assert [record.value for record in execute(order, quiet, quiet).splits().valid] == ["We see.\n"]
    with pytest.raises(ValueError, match=r"longer than a window.*Take a longer text or length="):
        trained("write", str(short), tmp_path / "other", *QUICK)


def test_bad_lines_stop_a_training_or_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"caf\xe9\n" + text().encode() + b"nul \0\n")
    with pytest.raises(ValueError, match=r"bad.txt:1: not UTF-8(?s:.*)bad=skip"):
        trained("write", str(path), tmp_path / "run", *QUICK)
    run = trained("write", str(path), tmp_path / "run", *QUICK, "bad=skip", "length=16")
    records = run.splits()
    assert "".join(record.value for record in (*records.train, *records.valid)) == text()
    assert len(records.problems) == 2


def test_the_report_has_samples(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "temperature 0.5" in page
    assert "perplexity" in page
    assert f"{len(run.splits().valid[0].value):,} characters for validation" in page
    assert (
        f"<code>mirada run {run.folder} {shlex.quote(beginning(run.splits().valid[0].value))}</code>"
        in html.unescape(page)
    )


def test_the_beginning_of_a_text() -> None:
    assert beginning("one line only") == "one line"
    assert beginning("half\nA whole line that goes on for long") == "A whole line that goes"


def test_texts_of_a_folder_and_their_parts(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name * 100, encoding="utf-8")
    splits = read(request("write", str(tmp_path)).settings())
    assert [(Path(record.where).name, len(record.value)) for record in splits.train] == [("a.txt", 450), ("b.txt", 450)]
    assert [len(record.value) for record in splits.valid] == [50, 50]
    assert (splits.test, list(splits.notes)) == ([], [f"{tmp_path}: 2 text files"])
    shared = read(request("write", str(tmp_path), "split=0.7,0.2,0.1").settings())
    assert [[len(r.value) for r in part] for part in (shared.train, shared.valid, shared.test)] == [
        [350] * 2,
        [100] * 2,
        [50] * 2,
    ]
    joined = [a.value + b.value + c.value for a, b, c in zip(shared.train, shared.valid, shared.test, strict=True)]
    assert joined == ["a.txt" * 100, "b.txt" * 100]


def test_a_folder_that_is_divided_already(tmp_path: Path) -> None:
    for name in ("train/a.txt", "train/b.txt", "valid.txt", "test/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    splits = read(request("write", str(tmp_path)).settings())
    values = [[record.value for record in part] for part in (splits.train, splits.valid, splits.test)]
    assert values == [["train/a.txt", "train/b.txt"], ["valid.txt"], ["test/c.txt"]]


def test_texts_with_names_for_columns(tmp_path: Path) -> None:
    splits = read(request("write", {"review": ["0123456789" * 10]}).settings())
    assert [record.value for record in splits.train] == ["0123456789" * 9]
    assert list(splits.notes) == ["text is review"]

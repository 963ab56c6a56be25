"""`mirada look`: in the terminal, as a page, a plot or a record; and every mistake is reported in one line."""

import re
from base64 import b64decode
from pathlib import Path

import pytest
import torch

from mirada.looking.record import Seen
from mirada.runs.load import load
from tests.cli.conftest import Command, Made
from tests.tasks.every_model import CASES

SENTENCE = "I see a red house."
CROSS = "decoder.layers.0.cross"


@pytest.fixture
def record(made: Made, tmp_path: Path) -> Path:
    load(made.translate)(SENTENCE).look().save(tmp_path / "x.attn")
    return tmp_path / "x.attn"


def records_of(page: Path) -> list[Seen]:
    text = page.read_text(encoding="utf-8")
    return [Seen.from_bytes(b64decode(found)) for found in re.findall(r'data-record="\d">([^<]*)<', text)]


# what is shown


def test_the_terminal_shows_the_alignment(mirada: Command, made: Made) -> None:
    done = mirada("look", made.translate, SENTENCE)
    assert done.code == 0
    assert done.err == ""
    answer = load(made.translate)(SENTENCE)
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{SENTENCE} \u2192 {answer.text[:20]}".rstrip())
    assert f"{CROSS}, mean of 2 heads" in lines
    assert "\x1b" not in done.out  # this is no terminal
    assert "rows: what was written; columns: what was read" in done.out


def test_one_head_of_one_layer(mirada: Command, made: Made) -> None:
    done = mirada("look", made.translate, SENTENCE, "--layer", "encoder.layers.0.self", "--head", 1)
    assert done.code == 0
    assert "encoder.layers.0.self, head 1" in done.out


@pytest.mark.parametrize("ending", ["html", "png", "svg", "pdf", "attn"])
def test_a_file_of_every_form(mirada: Command, made: Made, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"x.{ending}"
    done = mirada("look", made.translate, SENTENCE, "-o", out)
    assert (done.code, done.out) == (0, "")
    assert f"written to {out}" in done.err
    start = {"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "attn": b"PK"}[ending]
    assert out.read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_record_is_the_models_own_weights(mirada: Command, made: Made, tmp_path: Path) -> None:
    mirada("look", made.translate, SENTENCE, "-o", tmp_path / "x.attn")
    stored, seen = Seen.load(tmp_path / "x.attn"), load(made.translate)(SENTENCE).look()
    for name in seen.names:
        torch.testing.assert_close(stored[name].weights(), seen[name].weights(), atol=0.004, rtol=0)
    assert dict(stored.labels.made)["run"] == str(made.translate)
    again = mirada("look", tmp_path / "x.attn")
    assert again.code == 0
    assert f"{CROSS}, mean of 2 heads" in again.out


def test_a_record_under_another_name_is_still_one(mirada: Command, record: Path, tmp_path: Path) -> None:
    renamed = record.rename(tmp_path / "download.zip")
    done = mirada("look", renamed)
    assert done.code == 0, done.err
    assert "cross" in done.out


def test_two_records_on_one_page(mirada: Command, record: Path, tmp_path: Path) -> None:
    done = mirada("look", record, record, "-o", tmp_path / "two.html")
    assert done.code == 0
    assert len(records_of(tmp_path / "two.html")) == 2
    done = mirada("look", record, "--against", record, "-o", tmp_path / "too.html")
    assert (tmp_path / "two.html").read_bytes() == (tmp_path / "too.html").read_bytes()
    assert mirada("look", record, record).out.count("mean of 2 heads") == 2


def test_another_input_next_to_it(mirada: Command, made: Made, tmp_path: Path) -> None:
    done = mirada("look", made.translate, SENTENCE, "--against", "we buy a cat.", "-o", tmp_path / "x.html")
    assert done.code == 0
    assert [seen.labels.made["input"] for seen in records_of(tmp_path / "x.html")] == [SENTENCE, "we buy a cat."]


def test_a_head_is_dropped_for_real(mirada: Command, made: Made, tmp_path: Path) -> None:
    done = mirada("look", made.translate, SENTENCE, "--drop", f"{CROSS}:1", "-o", tmp_path / "x.html")
    assert done.code == 0
    plain, changed = records_of(tmp_path / "x.html")  # B - A is what the change does, as in the web app
    assert dict(changed.labels.changes[0]) == {"layer": CROSS, "do": "DropHead", "head": 1}
    assert plain.labels.changes == ()
    assert float(changed[CROSS].weights(head=1).abs().max()) == 0.0
    assert float(plain[CROSS].weights(head=1).max()) > 0.0
    first, _, second = mirada("look", made.translate, SENTENCE, "--drop", f"{CROSS}:1").out.partition("\n\n" + SENTENCE)
    assert f"What if: DropHead in {CROSS} (head 1)." in second
    assert "What if" not in first


def test_methods_and_relations_go_onto_the_page(mirada: Command, made: Made, tmp_path: Path) -> None:
    words = [("I", 2, "nsubj"), ("see", 0, "root"), ("a", 4, "det"), ("house", 2, "obj")]
    rows = (f"{n}\t{w}\t_\tX\t_\t_\t{head}\t{name}\t_\t_\n" for n, (w, head, name) in enumerate(words, 1))
    (tmp_path / "x.conllu").write_text("".join(rows) + "\n")
    done = mirada(
        "look", made.translate, SENTENCE, "--methods", "--conllu", tmp_path / "x.conllu", "-o", tmp_path / "x.html"
    )
    assert done.code == 0
    assert "1 sentences of" in done.err
    assert re.search(r"det +encoder.layers.0.self head \d: \d+% \(always [+-]\d: 100%; 1 times\)", done.err)
    (seen,) = records_of(tmp_path / "x.html")
    assert {relation.relation for relation in seen.relations} >= {"nsubj", "det", "obj", "previous", "next"}
    assert set(seen.methods.matrices) == {"attention", "value_norm", "rollout", "gradient", "ablation"}
    assert (seen.methods.rows, seen.methods.columns) == ("target", "source")


def test_one_layer_on_a_page_and_in_a_record(mirada: Command, made: Made, tmp_path: Path) -> None:
    for name in ("x.html", "x.attn"):
        assert mirada("look", made.translate, SENTENCE, "--layer", CROSS, "-o", tmp_path / name).code == 0
    assert records_of(tmp_path / "x.html")[0].names == Seen.load(tmp_path / "x.attn").names == [CROSS]


def test_the_terminal_says_how_far_methods_agree(mirada: Command, made: Made) -> None:
    done = mirada("look", made.translate, SENTENCE, "--methods")
    assert done.code == 0
    assert re.search(r"attention and ablation agree: -?\d\.\d\d, the same first place in \d\.\d\d", done.out)


def test_the_lectures_example(mirada: Command, tmp_path: Path) -> None:
    done = mirada("look", "--example", "black-cat")
    assert done.code == 0
    assert re.search(r"negro +3? *2? *40 +\[50\]", done.out)
    assert mirada("look", "--example", "negro").out == done.out  # the old name
    assert mirada("look", "--example", "black-cat", "-o", tmp_path / "x.html").code == 0
    (seen,) = records_of(tmp_path / "x.html")
    assert seen["attention"].values().shape == (1, 1, 6, 2)  # points of the plane: the convex view draws them


@pytest.mark.parametrize(
    "task",
    [
        "recognize",
        "caption",
        "transcribe",
        "forecast",
        "label",
        "answer",
        "fill",
        "write",
        "classify",
        "tag",
        "estimate",
    ],
)
def test_every_task_draws_in_a_terminal_and_on_a_page(task: str, mirada: Command, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.task == task)
    run, given = case.kept()
    done = mirada("look", run.folder, given)
    assert done.code == 0
    assert [line for line in done.err.splitlines() if not line.startswith("mirada: decided by ")] == []
    assert "decided by" not in done.err or task in ("classify", "estimate"), "whose answers are not of attention alone"
    assert f"task {task}" in done.out.replace("\n", " ")
    for name in ("x.html", "x.png"):
        assert mirada("look", run.folder, given, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).stat().st_size > 1000


def test_colors_on_request(mirada: Command, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "\x1b[38;2;" in mirada("look", record).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in mirada("look", record).out


# mistakes


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give the folder of a run and an input, or a record"),
        (("RUN",), "look takes one input: got 0"),
        (("RUN", "a", "b"), "look takes one input: got 2. Put a text of several words in quotes"),
        (("RUN", SENTENCE, "-o", "x.bmp"), "x.bmp: unknown format '.bmp'; known: .attn, .html"),
        (("RUN", SENTENCE, "-o", "nowhere/x.html"), "there is no folder nowhere. Make it first."),
        (("RUN", SENTENCE, "--layer", "decoder.layers.0.cros"), "Did you mean 'decoder.layers.0.cross'?"),
        (("RUN", SENTENCE, "--head", 2), "has 2 heads, 0 to 1: there is no head 2"),
        (("RUN", SENTENCE, "--drop", "cross"), "--drop is spelled LAYER:HEAD"),
        (("RUN", SENTENCE, "--drop", "nothing:0"), "nothing"),
        (("RUN", SENTENCE, "--drop", f"{CROSS}:7"), "7"),
        (("RUN", SENTENCE, "--drop", f"{CROSS}:1", "--against", "b"), "--drop and --against both"),
        (("RUN", SENTENCE, "--against", "b", "-o", "x.png"), "two are compared on a page"),
        (("RUN", SENTENCE, "--kind", "heads"), "--kind is for plots"),
        (("RUN", SENTENCE, "--kind", "heats", "-o", "x.png"), "Did you mean 'heads'?"),
        (("RUN", SENTENCE, "--head", 1, "-o", "x.html"), "x.html holds all heads: leave --head out"),
        (("RUN", SENTENCE, "--methods", "-o", "x.png"), "--methods is shown on a page or in the terminal"),
        (("RUN", SENTENCE, "--layer", "nope", "-o", "x.attn"), "unknown layer 'nope'"),
        (("RUN", SENTENCE, "--language", "fr"), "unknown language 'fr'"),
        (("RUN", SENTENCE, "--passage", "x"), "passage is not used by translate"),
        (("RUN", SENTENCE, "--conllu", "none.conllu"), "none.conllu"),
        (("RUN", "  "), "nothing to translate"),
        (("none.attn",), "none.attn"),
        (("bad.attn",), "bad.attn"),
        (("bad.attn", "--methods"), "--methods needs a model"),
        (("bad.attn", "bad.attn", "bad.attn"), "give one record, or two"),
        (("none", "text"), "none"),
        (("--example", "blanco"), "unknown example 'blanco'; known: black-cat"),
        (("--example", "black-cat", "RUN"), "takes no further input"),
    ],
)  # fmt: skip
def test_mistakes_are_reported(
    words: tuple, told: str, mirada: Command, made: Made, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.attn").write_bytes(b"PK no zip")
    done = mirada("look", *(made.translate if word == "RUN" else word for word in words))
    assert done.code == 2
    assert told in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 3
    assert [path.name for path in tmp_path.iterdir()] == ["bad.attn"]


def test_nothing_is_lost_when_writing_fails(mirada: Command, made: Made, tmp_path: Path) -> None:
    old = tmp_path / "old.html"
    old.write_text("old")
    assert mirada("look", made.translate, SENTENCE, "--head", 99, "-o", tmp_path / "old.png").code == 2
    assert mirada("look", made.translate, "", "-o", old).code == 2
    assert old.read_text() == "old"
    folder = tmp_path / "folder.html"
    folder.mkdir()
    assert "is a folder" in mirada("look", made.translate, SENTENCE, "-o", folder).err


def test_a_model_that_looks_nowhere_says_so(mirada: Command, made: Made, tmp_path: Path) -> None:
    from tests.runs.small import trained

    run = trained(
        "translate", str(made.pairs), tmp_path / "rnn", "width=8", "hidden=8", "steps=2", "validate=2", model="rnn"
    )
    done = mirada("look", run.folder, SENTENCE)
    assert done.code == 2
    assert "no mirada Attention layer" in done.err

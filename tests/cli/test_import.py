"""`mirada import` and `mirada export`: the whole way as a person types it."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.hub.tiny import write_folder

transformers = pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "theirs", "gpt2")


def test_from_a_folder_to_an_answer_a_page_and_back(mirada: Command, folder: Path, tmp_path: Path) -> None:
    run, page, back = tmp_path / "run", tmp_path / "page.html", tmp_path / "back"
    done = mirada("import", folder, "--out", run)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{run} is a run of write: a GPT2LMHeadModel, with ")
    answered = mirada("run", run, "the red", "--tokens", "4", "--json")
    assert answered.code == 0
    assert json.loads(answered.out)["input"] == "the red"
    assert mirada("look", run, "the red", "-o", page).code == 0
    assert page.stat().st_size > 1000
    checked = mirada("check", run)
    assert checked.code == 0
    assert checked.out.endswith("is intact\n")
    assert "checkpoints" not in checked.out
    listed = mirada("runs", run)
    assert "imported" in listed.out
    assert json.loads(mirada("runs", run, "--json").out)["data"] == "imported"
    done = mirada("export", run, "--to", "hf", "-o", back)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{back} holds a GPT2LMHeadModel with 28 tensors, which transformers loads\n"
    assert transformers.AutoTokenizer.from_pretrained(back).encode("the red", add_special_tokens=False)


def test_measuring_needs_data(mirada: Command, folder: Path, tmp_path: Path) -> None:
    mirada("import", folder, "--out", tmp_path / "run")
    refused = mirada("eval", tmp_path / "run")
    assert refused.code == 2
    assert (
        refused.err == "mirada: this run was imported, and its data is not here: give some (data=..., or --data FILE)\n"
    )
    (tmp_path / "more.txt").write_text("the red house.\nthe red car is good\n" * 40)
    measured = mirada("eval", tmp_path / "run", "--data", tmp_path / "more.txt")
    assert measured.code == 0
    assert "perplexity" in measured.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("import", "{home}/nowhere"), "there is no folder {home}/nowhere. mirada downloads nothing"),
        (
            ("import", "{home}/weights.bin"),
            "{home}/weights.bin is a file of pickle: pickle is code, which mirada never runs",
        ),
        (("import", "{home}/theirs", "--task", "wirte"), "unknown task 'wirte'; known: "),
        (("import", "{home}/pickled"), "{home}/pickled has its weights in pytorch_model.bin only: pickle is code"),
        (("import", "{home}/adapter"), "{home}/adapter holds an adapter (LoRA), not a model"),
        (("import", "{home}/pointer"), "model.safetensors is a pointer of Git LFS, not the weights"),
        (("import", "{home}/cut"), "model.safetensors is damaged, or not whole"),
        (("export", "{home}/run", "--to", "hff", "-o", "{home}/out"), "unknown format 'hff'; known: "),
        (("export", "{home}/run", "--to", "hf", "-o", "{home}/theirs"), "{home}/theirs is there and is not empty"),
        (("export", "{home}/theirs", "--to", "hf", "-o", "{home}/out"), "no run yet: mirada import {home}/theirs"),
        (("run", "{home}/theirs", "the"), "no run yet: mirada import {home}/theirs"),
        (("train", "write", "--from", "{home}/theirs"), "no run yet: mirada import {home}/theirs"),
    ],
)
def test_one_line_says_what_is_wrong(
    mirada: Command, folder: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    content = (folder / "model.safetensors").read_bytes()
    for name, files in {
        "pickled": {"pytorch_model.bin": b"\x80\x02}"},
        "adapter": {"adapter_model.safetensors": content},
        "pointer": {"model.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"},
        "cut": {"model.safetensors": content[:-9]},
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_bytes((folder / "config.json").read_bytes())
        for file, bytes_ in files.items():
            (tmp_path / name / file).write_bytes(bytes_)
    (tmp_path / "weights.bin").write_bytes(b"\x80\x02}")
    if words[0] == "export":
        mirada("import", folder, "--out", tmp_path / "run")
    before = sorted(tmp_path.rglob("*"))
    out = ("--out", tmp_path / "new") if words[0] == "import" else ()
    done = mirada(*(word.format(home=tmp_path) for word in words), *out)
    assert done.code == 2
    assert message.format(home=tmp_path) in done.err
    assert len(done.err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before

"""The README tells the truth: its blocks run, its example prints what it says, and CI runs its commands."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from typer.testing import CliRunner

import mirada
from mirada.cli.main import COMMANDS, app
from mirada.runs.registry import CATALOG

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if name == language]


PYTHON = blocks("python")
PAGES = {name: blocks("python", (ROOT / "docs" / name).read_text(encoding="utf-8")) for name in ("models.md",)}


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks write into the folder they run in."""
    monkeypatch.chdir(tmp_path)


def run(code: str) -> dict[str, Any]:
    """A block by itself, and the names it leaves: it must bring whatever it uses."""
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)
    return names


def block_with(text: str) -> str:
    (found,) = [block for block in PYTHON if text in block]
    return found


@pytest.mark.parametrize("number", range(len(PYTHON)))
@pytest.mark.usefixtures("_elsewhere")
def test_every_block_runs_by_itself(number: int) -> None:
    assert "mirada" in PYTHON[number]
    run(PYTHON[number])


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("_elsewhere")
def test_every_block_of_a_page_runs_by_itself(page: str) -> None:
    assert PAGES[page]
    for code in PAGES[page]:
        run(code)


def test_the_ten_lines_print_what_the_readme_shows(capsys: pytest.CaptureFixture) -> None:
    lines = re.search(r"## Ten lines\n\n```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)
    assert lines is not None
    run(lines[1])
    assert capsys.readouterr().out == lines[2]


@pytest.mark.usefixtures("_elsewhere")
def test_training_in_python_answers_and_can_be_looked_at(capsys: pytest.CaptureFixture) -> None:
    names = run(block_with("mirada.train("))
    assert names["answer"].text in ("pos", "neg")
    assert str(names["run"].folder) == "runs/classify"
    assert_close(names["seen"][names["seen"].names[0]].weights().sum(-1).mean(), torch.tensor(1.0))
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{names['answer'].text} ['encoder.")


@pytest.mark.usefixtures("_elsewhere")
def test_what_holds_about_bits() -> None:
    """Inside `look` a pass has the same bits; the engine and the modules write the same tokens, scores to rounding."""
    names = run(block_with("look(model)"))
    assert torch.equal(names["logits"], names["model"](names["source"], None, names["target"]))
    names = run(block_with("engine.fast("))
    model, source = names["model"], names["source"]
    assert names["fast"].reason is None
    through_modules = names["Greedy"]()(model, model.start(model.encode(source)), names["start"], end=2, most=20)
    for (ours,), (theirs,) in zip(names["found"], through_modules, strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)


def test_importing_the_package_is_enough() -> None:
    assert mirada.hub.bert.load.__module__ == "mirada.hub.bert"
    assert mirada.layers.axes.Axes.__module__ == "mirada.layers.axes"


def test_the_two_commands() -> None:
    first, second, look = (block.strip() for block in blocks("bash"))
    assert first == "pip install . && mirada train translate"
    assert second == 'pip install -e ".[test]" && python -m pytest'
    assert shlex.split(look)[:3] == ["mirada", "look", "runs/translate"], "what the first command trained is looked at"


def test_the_commands_of_the_list_are_commands() -> None:
    (listed,) = [block for block in blocks("") if block.startswith("mirada tasks")]
    commands = [shlex.split(re.split(r"  +", line)[0]) for line in listed.splitlines()]
    known = set(COMMANDS)
    for words in commands:
        words = words[words.index("mirada") + 1 :]
        assert words[0] in known
        assert words[0] not in ("train", "check") or words[1] in CATALOG
        options = [word for word in words if word.startswith("--")]
        helped = CliRunner().invoke(app(), [words[0], "--help"], env={"COLUMNS": "200"}).output
        assert [option for option in options if option not in helped] == []


def test_every_part_of_the_table_can_be_imported() -> None:
    homes = {
        "score": mirada.attention.scores,
        "where N(i)": mirada.attention.neighborhoods,
        "where, from data": mirada.attention.neighborhoods,
        "position": mirada.attention.positions,
        "normalizer": mirada.attention.normalizers,
        "heads psi": mirada.attention.heads,
    }
    for factor, home in homes.items():
        row = next(line for line in README.splitlines() if line.startswith(f"| {factor} |"))
        names = re.findall(r"`([A-Z]\w+)`", row)
        assert len(names) >= 4
        for name in names:
            assert hasattr(home, name), f"{factor}: {name}"

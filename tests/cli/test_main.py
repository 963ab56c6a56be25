"""The command line: what a new user meets."""

import subprocess
import sys

import pytest

from mirada.cli import example
from mirada.cli.main import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mirada", *arguments], capture_output=True, text=True, timeout=120)


def test_help_starts_without_torch() -> None:
    code = "import sys, mirada.cli.main; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_help_and_version() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert "mirada train translate" in shown.stdout
    assert run("--version").stdout.startswith("mirada 0.")


def test_a_wrong_name_is_one_line_on_stderr() -> None:
    failed = run("example", "black_cap")
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith("mirada: unknown example 'black_cap'; known: ")
    assert failed.stderr.endswith("Did you mean 'black_cat'?\n")


def test_examples_are_listed_with_what_they_show(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["mirada", "example"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    listed = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in listed] == list(example.scripts())
    assert all(len(line.split()) > 3 for line in listed)


@pytest.mark.parametrize("name", ["black_cat", "negro"])  # the second is the old name
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mirada", "example", name])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    assert "gato" in capsys.readouterr().out

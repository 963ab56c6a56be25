"""`mirada serve`: errors are reported before anything is loaded, and its help needs neither torch nor Starlette."""

import subprocess
import sys
from pathlib import Path

import pytest

from mirada.cli.main import main


def failed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command that must fail says, in a line or two."""
    monkeypatch.setattr(sys, "argv", ["mirada", "serve", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) <= 2 or "Usage" in error
    return error


def test_help_needs_neither_torch_nor_the_web() -> None:
    code = (
        "import sys; sys.argv = ['mirada', 'serve', '--help']\n"
        "from mirada.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'uvicorn', 'starlette'} & set(sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert "--token" in shown.stdout
    assert "mirada serve runs/translate" in shown.stdout


def test_errors_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "no such folder" in failed(monkeypatch, capsys, tmp_path / "nowhere")
    assert "config.json" in failed(monkeypatch, capsys, tmp_path)
    assert "--port must be 0 to 65535" in failed(monkeypatch, capsys, tmp_path, "--port", 70000)
    assert "at least 16 characters" in failed(monkeypatch, capsys, tmp_path, "--host", "0.0.0.0", "--token", "short")
    assert "above 0" in failed(monkeypatch, capsys, tmp_path, "--seconds", 0)
    assert "Missing argument" in failed(monkeypatch, capsys)

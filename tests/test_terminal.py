"""A terminal shows what is in the data, and obeys none of it; a pipe has every character."""

import ast
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mirada
from mirada.training.progress import Progress
from mirada.words import echo, visible

HOSTILE = "\x1b]0;owned\x07\x1b[2Jgood\r\x9b31m\u202edab\u202c\u2066x\u2069\x7f\u2028\U000e0041"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen_for(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Called in a test, not before: pytest captures anew for each phase."""
    shown = Screen()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def test_control_characters_are_written_out() -> None:
    assert visible(HOSTILE) == (
        r"\x1b]0;owned\x07\x1b[2Jgood\r\x9b31m\u202edab\u202c\u2066x\u2069\x7f\u2028\U000e0041"
    )  # fmt: skip


@given(st.text())
def test_what_is_shown_is_harmless_and_plain_text_is_untouched(text: str) -> None:
    shown = visible(text)
    assert not [
        c
        for c in shown
        if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or ord(c) in range(0x202A, 0x202F)
    ]
    assert shown == text or not text.isprintable()


@pytest.mark.parametrize("text", ["una niña", "γλώσσα", "日本語", "שלום \u200f!", "a\tb\nc", "👩‍👩‍👧"])
def test_the_letters_of_the_world_stay(text: str) -> None:
    assert visible(text) == text


def test_a_terminal_is_protected_and_a_pipe_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_for(monkeypatch)
    echo(HOSTILE)
    echo("\x1b[1m" + visible(HOSTILE) + "\x1b[0m", styled=True)
    assert screen.getvalue() == f"{visible(HOSTILE)}\n\x1b[1m{visible(HOSTILE)}\x1b[0m\n"
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    echo(HOSTILE)
    assert pipe.getvalue() == HOSTILE + "\n"


def test_what_cannot_be_encoded_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    echo("niño \udcff")
    assert raw.getvalue() == b"ni\\xf1o \\udcff\n"


def test_a_stream_that_was_closed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    echo("nobody reads this")
    assert sys.stdout is None, "it is not opened for this"


def test_a_progress_line_shows_a_sample_and_does_not_obey_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_for(monkeypatch)
    Progress(10).line(f"step 1  sample: {HOSTILE}")
    assert screen.getvalue() == f"\r\x1b[2Kstep 1  sample: {visible(HOSTILE)}\n"


def test_commands_print_by_echo_alone() -> None:
    """One place decides what a terminal is shown."""
    home = Path(mirada.__file__).parent
    calls = [
        f"{path.relative_to(home)}:{node.lineno}"
        for path in [
            *home.glob("cli/*.py"),
            *home.glob("runs/*.py"),
            *home.glob("training/*.py"),
            *home.glob("tasks/*/*.py"),
        ]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "typer.echo", "typer.secho", "sys.stdout.write")
    ]
    assert calls == []

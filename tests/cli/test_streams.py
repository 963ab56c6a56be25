"""Streams that are closed or full, an early Ctrl-C, a full disk, and errors as long as a book: a plain line each."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mirada import files
from mirada.cli.main import explained, shortened
from mirada.runs.integrity import inspect
from mirada.training import state as checkpoint
from mirada.training.log import MetricsLog
from mirada.training.state import check_room
from tests.cli.conftest import Command, Made
from tests.runs.small import QUICK

SHELL = 'exec "$0" -m mirada "$@"'


def shell(redirect: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f"{SHELL} {redirect}", sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_closed_input_is_reported(made: Made) -> None:
    done = shell("<&-", "run", made.translate)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mirada: there is no input: standard input is closed. Give one as an argument, or open it\n"


def test_a_closed_output_is_no_error_of_ours(made: Made) -> None:
    done = shell(">&-", "run", made.translate, "I see a cat.")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stream_of_errors_ends_no_training(made: Made, tmp_path: Path) -> None:
    done = shell("2>&-", "train", "classify", "--data", made.reviews, "--out", tmp_path / "run", *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("on ")
    assert mirada_whole(tmp_path / "run")


def mirada_whole(folder: Path) -> bool:
    return not any(wrong for _, wrong in inspect(folder))


def test_no_file_of_ours_gets_the_number_of_a_closed_stream() -> None:
    program = (
        "import os; from mirada.cli import main; "
        "main.app = lambda names: lambda **given: print(os.open('/dev/null', 0)); main.main()"
    )
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- 2>&-', sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_output_is_named(made: Made) -> None:
    done = shell(">/dev/full", "run", made.translate, "I see a cat.")
    assert (done.returncode, done.stderr) == (2, "mirada: standard output: No space left on device\n")


@pytest.mark.parametrize("seconds", [0.06, 0.15, 0.4])
def test_an_early_stop_is_a_line(tmp_path: Path, seconds: float) -> None:
    """While modules are being imported; the interpreter itself takes the first hundredths of a second."""
    program = (
        "import mirada.__main__ as m, os, signal, threading\n"
        f"threading.Timer({seconds}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        f"import sys; sys.argv = ['mirada', 'train', 'translate', '--out', {str(tmp_path / 'run')!r}]; m.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr.splitlines()[-1].startswith("mirada: stopped")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("module", "words"), [("mirada.cli.main", ["--version"]), ("numpy", ["train", "translate"])])
def test_a_stop_inside_of_an_import_is_not_lost(tmp_path: Path, module: str, words: list[str]) -> None:
    """An exception in a callback of the import system is only printed, and the command would go on."""
    program = (
        "import mirada.__main__ as m, os, signal, sys, weakref\n"
        "class Gone: pass\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            weakref.finalize(Gone(), os.kill, os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"sys.argv = ['mirada', *{words!r}]; m.main()"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mirada: stopped\n")


def test_a_stop_that_is_ignored_stays_ignored() -> None:
    """As a shell starts what it runs in the background."""
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import mirada.__main__ as m, sys; sys.argv = ['mirada', '--version']\n"
        "try:\n    m.main()\nfinally:\n    print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1] == "True"


def test_a_stop_at_a_command_is_a_line(mirada: Command, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mirada.runs.load.load", stopped)
    done = mirada("run", made.translate, "I see a cat.")
    assert (done.code, done.err) == (130, "mirada: stopped\n")


def full(*given: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_reported_with_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5000)
    for module in (files.shutil, checkpoint.shutil):
        monkeypatch.setattr(module, "disk_usage", lambda folder: usage)
    with pytest.raises(ValueError, match=r"has 5\.0 kB left and the run needs about 1\.1 MB"):
        check_room(tmp_path, 70_000)
    files.write_whole(tmp_path / "x", b"old")
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(
        ValueError, match=r"x cannot be written: No space left on device \(5,000 bytes are free, 9 are needed\)"
    ):
        files.write_whole(tmp_path / "x", b"123456789")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"old")]


def test_a_disk_that_is_full_during_a_training_names_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    monkeypatch.setattr("mirada.training.log.os.fsync", full)
    log.write(step=1)
    with pytest.raises(ValueError, match=r"metrics\.jsonl cannot be written: No space left on device\. Make room"):
        log.settle()


def test_an_error_fits_on_a_screen(mirada: Command, made: Made, tmp_path: Path) -> None:
    for words in (
        ["train", "x" * 1_000_000],
        ["train", "translate", "steps=" + "9" * 1_000_000],
        ["train", "translate", "y" * 1_000_000 + "=1"],
        ["train", "translate", "--data", "z" * 1_000_000],
        ["run", "r" * 1_000_000, "x"],
    ):
        done = mirada(*words)
        assert done.code == 2
        assert done.err.startswith("mirada: ")
        assert len(done.err) < 2000
    table = tmp_path / "wide.tsv"
    table.write_text("\t".join(["column" * 20] * 9000) + "\n" + "\t".join(["x"] * 9000) + "\n")
    done = mirada("train", "translate", "--data", table, "--out", tmp_path / "run", "columns=a,b", *QUICK)
    assert (done.code, len(done.err) < 2000) == (2, True)
    assert len(shortened("line\n" * 10_000)) < 2000


def test_an_error_of_the_system_names_its_file() -> None:
    assert explained(PermissionError(errno.EACCES, "Permission denied", "secret.tsv")) == (
        "secret.tsv: Permission denied",
        2,
    )
    for name in (Path("secret.tsv"), b"secret.tsv"):
        assert explained(PermissionError(errno.EACCES, "Permission denied", name)) == (
            "secret.tsv: Permission denied",
            2,
        )
    assert explained(OSError("odd")) == ("odd", 2)
    assert os.strerror(errno.ENOSPC) in str(explained(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))

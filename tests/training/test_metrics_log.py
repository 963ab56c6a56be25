import io
import json
from pathlib import Path

import pytest

from mirada.training.log import MetricsLog, read_metrics, read_start
from mirada.training.progress import Progress, Silence
from mirada.training.recipe import Recipe
from tests.training.toy import toy_training


def test_events_come_back_in_order(tmp_path: Path) -> None:
    metrics_log = MetricsLog(tmp_path / "m.jsonl")
    metrics_log.write(step=1, loss=2.5, words="ñandú")
    metrics_log.write(step=2, loss=float("nan"))
    metrics_log.close()
    assert read_metrics(tmp_path / "m.jsonl") == [{"step": 1, "loss": 2.5, "words": "ñandú"}, {"step": 2, "loss": None}]
    assert "ñandú" in (tmp_path / "m.jsonl").read_text(encoding="utf-8")


def test_a_resumed_log_is_cut_where_the_checkpoint_was(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    metrics_log = MetricsLog(path)
    metrics_log.write(step=1)
    size = metrics_log.settle()
    metrics_log.write(step=2)
    metrics_log.close()
    with open(path, "ab") as file:
        file.write(b'{"step": 3, "los')
    assert [event["step"] for event in read_metrics(path)] == [1, 2]
    resumed = MetricsLog(path, size)
    resumed.write(step=20)
    resumed.close()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 20]


def test_a_log_that_is_gone_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    MetricsLog(tmp_path / "m.jsonl", 10, "", lines.append)
    assert read_metrics(tmp_path / "m.jsonl") == []
    assert ["missing or shorter" in line for line in lines] == [True]


@pytest.mark.parametrize(
    ("change", "told", "steps"),
    [
        (lambda content: content, [], [1, 2]),
        (lambda content: content[:15], ["missing or shorter"], [1]),
        (lambda content: content.replace(b"2", b"7"), ["was changed since"], [1, 7]),
    ],
)
def test_a_changed_log_is_reported(tmp_path: Path, change, told: list[str], steps: list[int]) -> None:
    path, lines = tmp_path / "m.jsonl", []
    log = MetricsLog(path)
    for step in (1, 2):
        log.write(step=step)
    size, checksum = log.settle(), log.checksum()
    log.close()
    path.write_bytes(change(path.read_bytes()))
    again = MetricsLog(path, size, checksum, lines.append)
    again.write(step=9)
    assert [part in line for part, line in zip(told, lines, strict=True)] == [True] * len(told)
    assert [event["step"] for event in read_metrics(path)] == [*steps, 9]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_that_renews_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    progress = Progress(100, 0, out)
    progress.count(1.0, 4321)
    progress.show(100, 1.25)
    assert "step 100/100  loss 1.250  4,321 tokens/s  0:00 left" in out.getvalue()
    assert out.getvalue().startswith("\r\x1b[2K\x1b[36m")
    assert "\n" not in out.getvalue()


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    Progress(100, 0, out).show(100, 1.0)
    assert "\x1b[36m" not in out.getvalue()


def test_a_pipe_gets_plain_lines_now_and_then() -> None:
    out = io.StringIO()
    progress = Progress(1000, 0, out)
    for step in range(1, 1001):
        progress.show(step, 1.0)
    progress.line("done")
    progress.end()
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines[:-1]] == ["1/1,000", "1,000/1,000"]
    assert lines[-1] == "done"
    assert "\x1b" not in out.getvalue()


def test_silence_is_silent() -> None:
    out = io.StringIO()
    silence = Silence(10, 0, out)
    silence.show(10, 1.0)
    silence.line("x")
    silence.end()
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("lr", 0.0, "lr must be a positive number"),
        ("lr", float("nan"), "lr must be a positive number"),
        ("schedule", "cosin", "Did you mean 'cosine'"),
        ("precision", "float8", "unknown precision"),
        ("accumulate", 0, "accumulate must be at least 1"),
        ("smoothing", 1.0, r"smoothing must lie in \[0, 1\)"),
        ("seed", -1, "seed must lie in"),
        ("steps", -5, "steps must be at least 0"),
        ("minutes", float("inf"), "minutes must be (finite|at most)"),
        ("minutes", float("nan"), "minutes must be at least 0"),
        ("minutes", 1e308, "minutes must be at most 10000000"),
        ("accumulate", 2**62, "accumulate must be at most 65536"),
        ("seeds", 10**12, "seeds must be at most 65536"),
        ("threads", 5000, "threads must be at most 4096"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**{field: value})


def test_a_size_that_no_file_has_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b'{"step": 1}\n')
    assert read_start(tmp_path / "m.jsonl", 2**62) == b'{"step": 1}\n'


def test_a_line_that_is_no_event_of_ours_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    long = b'{"step": 2, "a": "' + b"x" * 5_000_000 + b'"}\n'
    path.write_bytes(b'{"step": 1}\n' + long + b'{"step": 3}\n' + b"\0" * 3_000_000 + b'\n{"step": 4}')
    assert [event["step"] for event in read_metrics(path)] == [1, 3, 4]


def test_tensorboard_is_given_the_numbers_of_the_log(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    toy_training(tmp_path, log="tensorboard").run()
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    events = read_metrics(tmp_path / "metrics.jsonl")
    for name, wanted in (
        ("loss", [(e["step"], e["loss"]) for e in events if "lr" in e]),
        ("valid/loss", [(e["step"], e["valid"]["loss"]) for e in events if "valid" in e and "averaged" not in e]),
    ):
        found = {scalar.step: scalar.value for scalar in shown.Scalars(name)}
        assert found == pytest.approx(dict(wanted))


def test_without_tensorboard_its_log_is_refused_before_the_training(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mirada.training.log.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"log=tensorboard needs the package tensorboard, .* mirada\[tensorboard\]"):
        toy_training(tmp_path, log="tensorboard")
    assert not (tmp_path / "metrics.jsonl").exists()
    toy_training(tmp_path, steps=3).run()
    assert not (tmp_path / "tensorboard").exists()

"""Series, data frames and arrays, as pandas, polars and NumPy have them, to learn from and to ask."""

from pathlib import Path

import numpy as np
import pytest

import mirada
from mirada.data.files.memory import inputs_in_memory, side_by_side
from mirada.runs.run import Run
from tests.runs.small import reviews

TINY = {"width": 16, "hidden": 16, "depth": 1, "heads": 2, "steps": 2, "validate": 2, "threads": 1, "beside": "none"}
TEXTS, LABELS = map(list, zip(*reviews(), strict=True))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return mirada.train("classify", reviews(), out=tmp_path_factory.mktemp("run") / "run", **TINY)


def columns(kind: str) -> tuple:
    """Texts and labels as columns of one kind."""
    if kind == "numpy":
        return np.array(TEXTS), np.array(LABELS, dtype=object)
    library = pytest.importorskip(kind)
    return library.Series(TEXTS), library.Series(LABELS)


def frame(kind: str, **named: list) -> object:
    return pytest.importorskip(kind).DataFrame(named)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_a_pair_of_columns_trains_what_its_rows_train(kind: str, tmp_path: Path, run: Run) -> None:
    other = mirada.train("classify", columns(kind), out=tmp_path / "run", **TINY)
    assert other.settings.fingerprint == run.settings.fingerprint


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_and_a_column_train_what_their_rows_train(kind: str, tmp_path: Path, run: Run) -> None:
    assert side_by_side((frame(kind, text=TEXTS), columns(kind)[1])) == reviews()
    other = mirada.train("classify", frame(kind, label=LABELS, text=TEXTS), out=tmp_path / "run", **TINY)
    assert other.settings.fingerprint == run.settings.fingerprint


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_a_column_is_asked_as_its_values_are(kind: str, run: Run) -> None:
    answers = run(columns(kind)[0][:5])
    assert [(answer.input, answer.score) for answer in answers] == [(a.input, a.score) for a in run(TEXTS[:5])]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_of_a_frame_the_column_of_inputs_is_asked(kind: str, run: Run) -> None:
    found = run(frame(kind, label=LABELS[:3], text=TEXTS[:3]))
    assert [answer.input for answer in found] == TEXTS[:3]
    assert [answer.input for answer in run(frame(kind, review=TEXTS[:3]))] == TEXTS[:3]
    with pytest.raises(ValueError, match=r"unknown column 'text'; known: body, title. Give one column"):
        run(frame(kind, title=TEXTS[:3], body=TEXTS[:3]))


def test_an_empty_cell_is_named() -> None:
    with pytest.raises(ValueError, match=r"input 2 of 3 is null, not text\. Leave such rows out\."):
        inputs_in_memory(np.array(["a", None, "b"], dtype=object), ("text",))
    assert inputs_in_memory(np.array([3, 5]), ("node",)) == ["3", "5"]


def test_columns_of_other_lengths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="columns must be equally long: got 40, 39"):
        mirada.train("classify", (np.array(TEXTS), np.array(LABELS[1:])), out=tmp_path / "run", **TINY)


def test_rows_stay_rows() -> None:
    rows = (("a", "b"), ("c", "d"), ["e", "f"])
    assert side_by_side(rows) is rows
    pair = [np.array(["a", "b"]), np.array(["c", "d"])]
    assert side_by_side(pair) is pair


def test_pictures_of_one_array_are_asked_one_by_one(tmp_path: Path) -> None:
    draws = np.random.default_rng(7)
    images = draws.integers(0, 255, (24, 8, 8), dtype=np.uint8)
    tiny = {"steps": 2, "validate": 2, "threads": 1, "width": 16, "heads": 2, "depth": 1}
    pictures = mirada.train("recognize", (images, np.arange(24) % 2), out=tmp_path / "run", **tiny)
    assert len(pictures(images)) == 24
    assert pictures(images[3]).score == pytest.approx(pictures(images)[3].score, abs=1e-5)


def test_numbers_are_no_classes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="40 different numbers: they are no classes"):
        mirada.train("classify", (np.array(TEXTS), np.linspace(0, 7, 40)), out=tmp_path / "run", **TINY)
    stars = mirada.train("classify", (np.array(TEXTS), np.arange(40) % 5 + 1), out=tmp_path / "stars", **TINY)
    assert stars.known.labels == ("1", "2", "3", "4", "5")

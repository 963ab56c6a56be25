"""Estimators for scikit-learn: its own checks where its tags do not exclude them, its pipelines, splits and searches."""

import pickle
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mirada
from mirada.sklearn import Classifier, Forecaster, Recognizer, Regressor
from tests.runs.small import reviews

TEXTS, LABELS = map(list, zip(*reviews(), strict=True))
TINY = {"steps": 2, "width": 16, "hidden": 16, "heads": 2, "depth": 1, "threads": 1, "beside": "none"}
SMALL = {"steps": 2, "width": 16, "heads": 2, "depth": 1, "threads": 1}
WAVE = np.sin(np.arange(120.0) / 3)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(**TINY).fit(TEXTS, LABELS)


def test_nothing_of_scikit_learn_is_needed() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None; from mirada.sklearn import Classifier; print(Classifier(minutes=1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Classifier(minutes=1)\n"


def test_probabilities_stand_in_the_order_of_the_classes(classifier: Classifier) -> None:
    shares = classifier.predict_proba(TEXTS)
    assert shares.sum(1) == pytest.approx(np.ones(len(TEXTS)))
    answers = classifier.run_(TEXTS)
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert classifier.predict(TEXTS).tolist() == [answer.text for answer in answers]
    assert shares[:, 1].tolist() == [dict(answer.ranked)["good"] for answer in answers]
    right = [answer.text == label for answer, label in zip(answers, LABELS, strict=True)]
    assert classifier.score(TEXTS, LABELS) == pytest.approx(np.mean(right))
    weights = np.arange(len(TEXTS))
    assert classifier.score(TEXTS, LABELS, weights) == pytest.approx(np.average(right, weights=weights))


@pytest.mark.parametrize("labels", [[7, 3], [2.5, -1.0], [True, False], [" x", "x"], ["", "x"]])
def test_labels_come_back_as_they_were(labels: list) -> None:
    given = np.array([labels[label == "good"] for label in LABELS])
    found = Classifier(**TINY).fit(TEXTS, given)
    assert found.classes_.tolist() == sorted(labels)
    assert found.predict(TEXTS[:2]).dtype == given.dtype


def test_a_pickled_estimator_answers_alike(classifier: Classifier) -> None:
    again = pickle.loads(pickle.dumps(classifier))
    assert again.predict_proba(TEXTS[:5]).tolist() == classifier.predict_proba(TEXTS[:5]).tolist()
    assert again.run_.folder != classifier.run_.folder


def test_a_saved_run_is_a_run(classifier: Classifier, tmp_path) -> None:
    classifier.save(tmp_path / "run")
    assert mirada.load(tmp_path / "run")("a good film").text in LABELS


def test_pipelines_splits_and_searches() -> None:
    model_selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    scores = model_selection.cross_val_score(Classifier(**TINY), np.array(TEXTS), LABELS, cv=2)
    assert scores.shape == (2,)
    pipeline = make_pipeline(FunctionTransformer(partial(map_all, str.upper)), Classifier(**TINY))
    search = model_selection.GridSearchCV(pipeline, {"classifier__width": [16, 32]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_estimator_[-1].run_.model.config.width == search.best_params_["classifier__width"]
    assert search.predict(TEXTS[:3]).shape == (3,)


def map_all(function: Any, texts: list[str]) -> list[str]:
    return [function(text) for text in texts]


def test_pictures_are_read_as_arrays_and_as_rows_of_pixels() -> None:
    draws = np.random.default_rng(5)
    images, labels = draws.integers(0, 17, (24, 8, 8)).astype(float), np.arange(24) % 2
    found = Recognizer(**SMALL).fit(images, labels)
    assert found.predict(images).shape == (24,)
    rows = images.reshape(24, 64)
    assert found.predict_proba(rows).tolist() == found.predict_proba(images).tolist()
    assert int(max(picture.max() for picture in found._asked(images))) == 255
    with pytest.raises(ValueError, match="rows of pixels must be square pictures: got 60"):
        found.predict(rows[:, :60])


def test_a_series_is_continued() -> None:
    found = Forecaster(lookback=8, horizon=3, patch=4, steps=2, width=16, threads=1).fit(WAVE)
    assert found.predict().shape == (3,)
    assert found.predict(WAVE[:50]).tolist() == pytest.approx(np.sin(np.arange(50, 53) / 3), abs=0.2)
    assert 0.9 < found.score(WAVE) <= 1
    both = np.stack([WAVE, -WAVE], 1)
    assert Forecaster(lookback=8, horizon=3, patch=4, steps=2, width=16, threads=1).fit(both).predict().shape == (3, 2)


def test_a_regressor_estimates_rows_of_arrays_frames_and_texts() -> None:
    """Of an array, also with a column that says nothing; in a pipeline, whose steps give arrays."""
    pandas, pipelines = pytest.importorskip("pandas"), pytest.importorskip("sklearn.pipeline")
    scale = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    x = np.random.default_rng(0).normal(size=(60, 3))
    wanted = x @ [1.0, -2.0, 0.5]
    x[:, 1], kept = x[:, 1] * 100, x.copy()
    kept[:, 2] = 4.0
    settings = SMALL | {"steps": 3}
    for rows in (x, kept, pandas.DataFrame(x, columns=list("abc"))):
        model = pipelines.make_pipeline(scale, Regressor(**settings)).fit(rows, wanted)
        assert model.score(rows, wanted) > 0.8, "the ridge regression alone is nearly right"
    words = [f"{n} {'dear' if n % 2 else 'cheap'}" for n in range(60)]
    assert Regressor(**settings).fit(words, [9.0 * (n % 2) for n in range(60)]).predict(words[:2])[1] > 4


def test_what_cannot_be_learned_is_named() -> None:
    for given, labels, message in (
        (TEXTS, LABELS[1:], r"X and y must be equally long: .* \(40, 39\)"),
        (TEXTS, ["good"] * 40, "Classifier needs at least two classes: got 1 class"),
        (np.ones((40, 2)), LABELS, "X must be texts: got ndarray"),
        ("a good film", LABELS, "X must be several texts: got one"),
        (TEXTS, None, "the target y is None"),
    ):
        with pytest.raises(ValueError, match=message):
            Classifier(**TINY).fit(given, labels)
    with pytest.raises(ValueError, match="widht"):
        Classifier(widht=3).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="this Classifier is not fitted yet"):
        Classifier().predict(TEXTS)


# scikit-learn's own checks


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training whose model is a plane by least squares: what is checked is the estimator, not the task."""

    def execute(request: Any, *_: Any) -> Any:
        rows, folder = np.array(request.source.data, float), request.folder()
        x = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
        folder.mkdir(parents=True)
        np.save(folder / "plane.npy", np.linalg.lstsq(x, rows[:, -1], rcond=None)[0])
        return Plane(folder)

    monkeypatch.setattr("mirada.sklearn.execute", execute)
    monkeypatch.setattr("mirada.sklearn.load", Plane)
    monkeypatch.setattr("mirada.sklearn.TrainingRequest.__post_init__", lambda self: None)
    monkeypatch.setattr("mirada.sklearn.TrainingRequest.folder", lambda self: Path(self.out))


class Plane:
    """A run that answers with a weighted sum."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.weights = folder, np.load(folder / "plane.npy")

    def __call__(self, rows: list) -> list[SimpleNamespace]:
        return [SimpleNamespace(more={"value": self.weights @ np.append(1.0, row)}) for row in rows]


API = (
    "check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types", "check_estimator_repr",
    "check_no_attributes_set_in_init", "check_do_not_raise_errors_in_init_or_set_params", "check_mixin_order",
    "check_get_params_invariance", "check_set_params", "check_parameters_default_constructible",
)  # fmt: skip


@pytest.mark.parametrize("kind", [Classifier, Regressor, Forecaster, Recognizer])
@pytest.mark.parametrize("name", API)
def test_the_interface_is_that_of_scikit_learn(kind: type, name: str) -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    getattr(checks, name)(kind.__name__, kind(minutes=0.01))


@pytest.mark.slow
@pytest.mark.usefixtures("plane")
def test_a_regressor_of_tables_passes_all_checks() -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = checks.check_estimator(Regressor(), on_fail=None)
    failed = {one["check_name"]: repr(one["exception"]) for one in found if one["status"] == "failed"}
    assert failed == {}
    assert sum(one["status"] == "passed" for one in found) > 30

"""Estimators as scikit-learn has them: `fit`, `predict`, `score`, in pipelines, cross-validation and grid search.

They need no scikit-learn: what it asks an estimator for is here by the same names. Every setting of `mirada train` is a
parameter: `Classifier(minutes=1, width=64)`.
"""

import shutil
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirada.data.files.memory import inputs_in_memory
from mirada.errors import require
from mirada.runs.load import load
from mirada.runs.request import TrainingRequest
from mirada.runs.run import Run
from mirada.runs.sources import Source
from mirada.runs.train import execute, no_print

__all__ = ["Classifier", "Forecaster", "Recognizer", "Regressor"]
NAMED = ("model", "minutes", "seed", "verbose")


class _Estimator:
    """What all estimators share: parameters, a training in a folder of its own, and the run that it made.

    Attributes:
        run_: The trained run, which answers, looks and measures.
    """

    _task: ClassVar[str]
    _type: ClassVar[str]
    _inputs: ClassVar[Mapping[str, bool]] = {}

    def __init__(
        self,
        *,
        model: str | None = None,
        minutes: float | None = None,
        seed: int = 0,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        self.model, self.minutes, self.seed, self.verbose = model, minutes, seed, verbose
        for name, value in settings.items():
            setattr(self, name, value)

    # parameters, as scikit-learn reads and changes them

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name.

        >>> Classifier(minutes=1, width=64).get_params()
        {'model': None, 'minutes': 1, 'seed': 0, 'verbose': False, 'width': 64}
        """
        return {
            name: value for name, value in vars(self).items() if not name.startswith("_") and not name.endswith("_")
        }

    def set_params(self, **params: Any) -> Self:
        """Change parameters; those that are no setting of the task are an error in `fit`."""
        for name, value in params.items():
            require(not name.startswith("_") and not name.endswith("_"), f"{name!r} is no parameter")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = {"model": None, "minutes": None, "seed": 0, "verbose": False}
        given = (f"{name}={value!r}" for name, value in self.get_params().items() if usual.get(name, self) is not value)
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks about an estimator."""
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        classifier, regressor = self._type == "classifier", self._type == "regressor"
        return Tags(
            estimator_type=self._type if classifier or regressor else None,
            target_tags=TargetTags(required=classifier or regressor),
            classifier_tags=ClassifierTags() if classifier else None,
            regressor_tags=RegressorTags() if regressor else None,
            input_tags=InputTags(**{"two_d_array": False, **self._inputs}),
            non_deterministic=True,
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a run that answers."""
        return hasattr(self, "run_")

    # training, and the run

    def _train(self, data: Any) -> Run:
        """Train on some data in a folder that is gone with the estimator."""
        settings = {name: value for name, value in self.get_params().items() if name not in NAMED}
        folder = TemporaryDirectory(prefix="mirada-")
        request = TrainingRequest(
            task=self._task, model=self.model or "", source=Source(data), out=str(Path(folder.name) / "run"),
            minutes=self.minutes or 0.0, seed=self.seed, keys=tuple(settings.items()),
        )  # fmt: skip
        if self.verbose:
            run = execute(request)
        else:
            with redirect_stderr(StringIO()):  # the loop shows its steps there
                run = execute(request, no_print, no_print)
        self._folder, self.run_ = folder, run
        return run

    def _fitted(self) -> Run:
        """The run; an error where there is none."""
        if hasattr(self, "run_"):
            return self.run_
        kind = _theirs("NotFittedError") or NotFittedError
        raise kind(f"this {type(self).__name__} is not fitted yet: call fit before it answers")

    def __getstate__(self) -> dict[str, Any]:
        """For copies and files: the run as the files of its folder."""
        state = {name: value for name, value in vars(self).items() if name not in ("run_", "_folder")}
        if hasattr(self, "run_"):
            folder = self.run_.folder
            kept = [path for path in folder.iterdir() if path.is_file()]
            state["_files"] = {path.name: path.read_bytes() for path in kept}
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update({name: value for name, value in state.items() if name != "_files"})
        if "_files" in state:
            self._folder = TemporaryDirectory(prefix="mirada-")
            folder = Path(self._folder.name) / "run"
            folder.mkdir()
            for name, content in state["_files"].items():
                (folder / Path(name).name).write_bytes(content)
            self.run_ = load(folder)

    def save(self, folder: str | Path) -> None:
        """Copy the run into a folder, for `mirada.load`, `mirada run` and `mirada serve`."""
        shutil.copytree(self._fitted().folder, Path(folder).expanduser())


def _theirs(name: str) -> Any:
    """A kind of errors or warnings of scikit-learn, where the program has imported it."""
    return getattr(sys.modules.get("sklearn.exceptions"), name, None)


class NotFittedError(ValueError, AttributeError):
    """An estimator was asked before it was fitted."""


class _ClassEstimator(_Estimator):
    """What estimators of classes share.

    Attributes:
        classes_: The labels in order, as they were given.
    """

    _type = "classifier"

    def fit(self, X: Any, y: ArrayLike) -> Self:  # noqa: N803 (scikit-learn's names)
        """Train on inputs and their labels; some of them are held out to validate on."""
        inputs, labels = self._asked(X), _target(y)
        _check_lengths(inputs, labels)
        self.classes_ = np.unique(labels)
        require(
            len(self.classes_) > 1, f"{type(self).__name__} needs at least two classes: got {len(self.classes_)} class"
        )
        texts = [str(label).strip() for label in self.classes_.tolist()]
        plain = len(set(texts)) == len(texts) and all(texts)
        names = texts if plain else [f"class {number}" for number in range(len(texts))]
        self._names = {name: place for place, name in enumerate(names)}
        places = np.searchsorted(self.classes_, labels)
        self._train([(given, names[place]) for given, place in zip(inputs, places.tolist(), strict=True)])
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probability of every class, in the order of `classes_`."""
        run, inputs = self._fitted(), self._asked(X)
        found = np.zeros((len(inputs), len(self.classes_)))
        for row, answer in enumerate(run(list(inputs)) if len(inputs) else []):
            for name, share in answer.ranked:
                found[row, self._names[name]] = share
        return found

    def predict(self, X: Any) -> NDArray:  # noqa: N803
        """The class of every input."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(1)]

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:  # noqa: N803
        """The share of inputs whose class is right."""
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        return float(np.average(self.predict(X) == _target(y), weights=weights))

    def _asked(self, X: Any) -> Sequence[Any]:  # noqa: N803
        """The inputs as the task takes them."""
        raise NotImplementedError


class Classifier(_ClassEstimator):
    """Texts to classes, as `mirada train classify`.

    Args:
        model: One of the task's models; the first is the default.
        minutes: How long a training may take.
        seed: Decides all random numbers.
        verbose: Whether the training prints what it does.
        **settings: Settings of the command: `width=64`.

    >>> texts = [f"{a} {b} film" for a in ("a", "the", "one", "that", "this", "my") for b in ("good", "bad")]
    >>> small = Classifier(steps=2, width=16, heads=2, depth=1, threads=1).fit(texts, ["good", "bad"] * 6)
    >>> small.predict_proba(["a good film", "my bad film"]).shape
    (2, 2)
    """

    _task = "classify"
    _inputs: ClassVar[Mapping[str, bool]] = {"one_d_array": True, "string": True}

    def _asked(self, X: Any) -> Sequence[str]:  # noqa: N803
        return _texts(X)


class Recognizer(_ClassEstimator):
    """Pictures to classes, as `mirada train recognize`. Pictures are paths, arrays of pixels or Pillow images.

    An array holds them along its first axis: (pictures, height, width) or (pictures, height, width, channels); rows of a table
    of pixels are pictures that are square. Numbers with a fraction are scaled so that the largest one learned from is white.

    Args:
        model: One of the task's models; the first is the default.
        minutes: How long a training may take.
        seed: Decides all random numbers.
        verbose: Whether the training prints what it does.
        **settings: Settings of the command: `width=64`.

    >>> Recognizer(minutes=1)
    Recognizer(minutes=1)
    """

    _task = "recognize"
    _inputs: ClassVar[Mapping[str, bool]] = {"three_d_array": True}

    def fit(self, X: Any, y: ArrayLike) -> Self:  # noqa: N803
        """Train on pictures and their labels; some of them are held out to validate on."""
        numbers = isinstance(X, np.ndarray) and X.dtype.kind == "f"
        self.white_ = float(np.abs(X).max() or 1.0) if numbers and X.size else 255.0
        return super().fit(X, y)

    def _asked(self, X: Any) -> Sequence[Any]:  # noqa: N803
        if not isinstance(X, np.ndarray) or X.dtype == object:
            return list(X)
        images = X
        if images.ndim == 2:
            side = round(images.shape[1] ** 0.5)
            message = f"rows of pixels must be square pictures: got {images.shape[1]}. Give (pictures, height, width)."
            require(side * side == images.shape[1], message)
            images = images.reshape(len(images), side, side)
        require(
            images.ndim in (3, 4), f"pictures must be (pictures, height, width[, channels]): got shape {images.shape}"
        )
        if images.dtype.kind == "f":
            require(bool(np.isfinite(images).all()), "pixels must be finite: X has NaN or inf")
            images = np.clip(np.rint(images * (255 / getattr(self, "white_", 255.0))), 0, 255).astype(np.uint8)
        return list(images)


class Regressor(_Estimator):
    """Texts or rows of numbers to a number, as `mirada train estimate`.

    Args:
        model: One of the task's models; the first is the default.
        minutes: How long a training may take.
        seed: Decides all random numbers.
        verbose: Whether the training prints what it does.
        **settings: Settings of the command: `width=64`.

    >>> Regressor(minutes=1)
    Regressor(minutes=1)
    """

    _task, _type = "estimate", "regressor"
    _inputs: ClassVar[Mapping[str, bool]] = {"two_d_array": True, "string": True}

    def fit(self, X: Any, y: ArrayLike) -> Self:  # noqa: N803
        """Train on inputs and their numbers; some of them are held out to validate on."""
        rows, numbers = self._asked(X, fitting=True), _target(y)
        _check_lengths(rows, numbers)
        require(numbers.dtype.kind in "fiub", f"Unknown label type: y must be numbers, got {numbers.dtype}")
        numbers = numbers.astype(np.float64)
        require(bool(np.isfinite(numbers).all()), "y must be finite: it has NaN or inf")
        self._train([(*row, number) for row, number in zip(rows, numbers.tolist(), strict=True)])
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The number for every input."""
        run, rows = self._fitted(), self._asked(X)
        asked = [row[0] if isinstance(row[0], str) and len(row) == 1 else row for row in rows]
        return np.array([float(answer.more["value"]) for answer in (run(asked) if asked else [])])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:  # noqa: N803
        """R^2: 1 is perfect, 0 is as good as the mean of `y`."""
        wanted = _target(y).astype(np.float64)
        weights = np.ones(len(wanted)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        apart = weights @ (self.predict(X) - wanted) ** 2
        around = weights @ (wanted - np.average(wanted, weights=weights)) ** 2
        return float(1 - apart / around) if around else float(apart == 0)

    def _asked(self, X: Any, fitting: bool = False) -> list[tuple[Any, ...]]:  # noqa: N803
        """Rows of inputs: a text each, or numbers."""
        array = _rectangle(X)
        if array.ndim == 1:
            rows = [(text,) for text in _texts(X)]
        else:
            rows = [tuple(row) for row in array.tolist()]
        if fitting:
            self.n_features_in_ = array.shape[1] if array.ndim == 2 else 1
        elif hasattr(self, "n_features_in_") and rows:
            count, known = len(rows[0]), self.n_features_in_
            name = type(self).__name__
            require(count == known, f"X has {count} features, but {name} is expecting {known} features as input")
        return rows


class Forecaster(_Estimator):
    """The next values of a series, as `mirada train forecast`.

    A series is an array with a row for every time step, a data frame whose index or a column may hold the times, a list of
    numbers, or a dict of columns.

    Args:
        model: One of the task's models; the first is the default.
        minutes: How long a training may take.
        seed: Decides all random numbers.
        verbose: Whether the training prints what it does.
        **settings: Settings of the command: `lookback=48`, `horizon=12`.

    >>> Forecaster(lookback=24, horizon=6)
    Forecaster(lookback=24, horizon=6)
    """

    _task, _type = "forecast", "forecaster"
    _inputs: ClassVar[Mapping[str, bool]] = {"one_d_array": True}

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Train on a series; `y` is not used, it is there for pipelines."""
        self._latest = self._asked(X)
        self.single_ = getattr(X, "ndim", 0) == 1 or (isinstance(X, list) and not isinstance(X[0], Iterable))
        self._train(self._latest)
        return self

    def predict(self, X: Any = None) -> NDArray[np.float64]:  # noqa: N803
        """The values after the last row of `X`, or of the series learned from: (horizon, columns), or (horizon) of one column."""
        run = self._fitted()
        values = run.answers([self._latest if X is None else self._asked(X)])[0].value.values
        found = np.asarray(values, dtype=np.float64)
        return found[:, 0] if self.single_ else found

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """How much smaller the squared error over all windows of a series is than that of repeating the last value: 1 is perfect,
        0 is as good as that.
        """
        found = self._fitted().measure(self._asked(X))
        return float(1 - found["mse"] / found["mse_repeat"])

    def _asked(self, X: Any) -> Any:  # noqa: N803
        if hasattr(X, "to_frame") and not hasattr(
            X, "columns"
        ):  # a series of pandas or polars: its index may have the times
            return X.to_frame()
        if isinstance(X, np.ndarray) and X.ndim == 1:
            return X.reshape(-1, 1)
        return X


# What estimators are given.


def _target(y: Any) -> NDArray:
    """A column of labels or numbers."""
    require(y is not None, "requires y to be passed, but the target y is None")
    found = np.asarray(list(y) if not hasattr(y, "__array__") else y)
    if found.ndim == 2 and found.shape[1] == 1:
        kind = _theirs("DataConversionWarning") or UserWarning
        warnings.warn("A column-vector y was passed when a 1d array was expected", kind, stacklevel=3)
        found = found.ravel()
    require(found.ndim == 1, f"y must have one value for each input: got shape {found.shape}")
    if found.dtype.kind == "f":
        require(not np.isnan(found).any(), "y must have a value for each input: it contains NaN")
    return found


def _rectangle(X: Any) -> NDArray:  # noqa: N803
    """An array of texts, or of rows of numbers."""
    require(not hasattr(X, "tocsr"), "sparse matrices are not read: give X.toarray()")
    array = np.asarray(X if hasattr(X, "__array__") else list(X))
    require(array.dtype.kind != "c", f"Complex data not supported: got {array.dtype}")
    require(array.ndim in (1, 2), f"X must be texts or rows of numbers: got an array of shape {array.shape}")
    if array.ndim == 1:
        texts = array.dtype.kind in "UO" and all(isinstance(text, str) for text in array.tolist())
        require(
            texts, f"Expected 2D array, got 1D array instead: array={array[:3]}. Reshape your data: X.reshape(-1, 1)."
        )
    else:
        size = f"(shape={array.shape}) while a minimum of 1 is required."
        require(array.shape[0] > 0, f"Found array with 0 sample(s) {size}")
        require(array.shape[1] > 0, f"Found array with 0 feature(s) {size}")
    if array.dtype.kind == "f":
        require(bool(np.isfinite(array).all()), "X must be finite: it contains NaN or infinity")
    return array


def _texts(X: Any) -> list[str]:  # noqa: N803
    """Texts of a list, a column, an array or a frame with one column."""
    require(not isinstance(X, str | bytes), "X must be several texts: got one. Put it into a list.")
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1:
        X = X[:, 0]  # noqa: N806
    if not isinstance(X, list | tuple):
        X = inputs_in_memory(X, ("text",)) if not isinstance(X, np.ndarray) or X.dtype.kind in "UO" else X  # noqa: N806
    found = list(X)
    strange = next((text for text in found if not isinstance(text, str)), None)
    require(strange is None, f"X must be texts: got {type(strange).__name__}")
    return found


def _check_lengths(inputs: Sequence[Any], target: NDArray) -> None:
    counts = len(inputs), len(target)
    require(counts[0] == counts[1], f"X and y must be equally long: got inconsistent numbers of samples, {counts}")
    require(counts[0] > 0, "Found array with 0 sample(s) while a minimum of 1 is required")

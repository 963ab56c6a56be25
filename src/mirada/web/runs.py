"""The runs that are served, by name, and their descriptions."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from mirada import engine
from mirada.attention.observe import anybody_intervenes, anybody_looks
from mirada.decoding.greedy import Sample
from mirada.decoding.search import Stepper
from mirada.errors import require, unknown
from mirada.files import expanded
from mirada.looking.change.intervene import intervene
from mirada.runs.ask import AskOptions, Option, SearchAsk
from mirada.runs.load import load
from mirada.runs.registry import entry
from mirada.runs.run import Run
from mirada.runs.task import Task
from mirada.web.options import Limits, Refused, check, form_fields, shown
from mirada.web.together import joins
from mirada.words import shortened

# A run that stops generating, and comparing methods, when its request is cancelled.


class RequestCancelled(Exception):  # noqa: N818 (a cancellation, not an error)
    """The request for what is being computed was cancelled."""


@dataclass(frozen=True, eq=False)
class WatchedStepper:
    """A stepper that checks for cancellation before every step."""

    inner: Any
    check_cancelled: Callable[[], None]

    def step(self, tokens: Any, state: Any) -> Any:
        """One step, unless the request was cancelled."""
        self.check_cancelled()
        return self.inner.step(tokens, state)

    def watched(self, heads: Mapping[str, Sequence[int]]) -> "WatchedStepper":
        """The same, which also keeps the weights of some heads."""
        return replace(self, inner=engine.watched(self.inner, heads))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


CHECKED = 1.0  # seconds for which the weights of a run are taken to be those that were packed
FILES = {"picture": "a picture", "recording": "a wav file", "table": "a CSV file"}  # input kinds that are files
INPUT_DESCRIPTIONS = {  # descriptions for API clients; `mirada run` takes paths and options instead
    "question": "questions, with the text that holds their answers as passage",
    "node": "names of nodes",
    "picture": "pictures, as files of a form or base64",
    "recording": "wav files, as files of a form or base64",
    "table": "CSV files of the latest rows, as files of a form or base64",
}


@dataclass(eq=False)
class ServedRun(Run):
    """A run with its name in requests, which can be cancelled: `wanted` is called at every step of a search, and between the
    methods of a comparison.
    """

    name: str = ""
    checked: float = field(default=0.0, repr=False)  # when the weights of the engine were compared last
    wanted: Callable[[], bool] | None = field(default=None, repr=False)

    @property
    def stepper(self) -> Stepper:
        now = time.monotonic()
        if self._engine is None or now > self.checked + CHECKED or anybody_looks() or anybody_intervenes():
            self.checked = now
            return cast(Stepper, WatchedStepper(super().stepper, self.check_cancelled))
        return cast(Stepper, WatchedStepper(self._engine.stepper, self.check_cancelled))

    def joins(self, ask: Mapping[str, Any]) -> bool:
        """Whether answers are written together with those of other requests."""
        if type(self.task).answering is Task.answering:
            return False
        asked = self.asked(ask)
        stepper = self.stepper if self._engine is None else self._engine.stepper
        return isinstance(asked, SearchAsk) and joins(stepper, asked.search())

    def check_cancelled(self) -> None:
        if self.wanted is not None and not self.wanted():
            raise RequestCancelled

    @contextmanager
    def while_wanted(self, wanted: Callable[[], bool], changes: Mapping[str, Any]) -> Iterator[None]:
        """Inside, `changes` are applied to the model, and searches and comparisons stop once `wanted` returns False."""
        self.wanted = wanted
        try:
            with intervene(self.model, changes) if changes else nullcontext():
                yield
        finally:
            self.wanted = None

    @cached_property
    def ask_options(self) -> dict[str, Option]:
        """The options of an answer, by name."""
        return self.task.Ask.options()

    @cached_property
    def draws(self) -> bool:
        """Whether answers are sampled by default."""
        return draws(self.asked({}))

    def describe(self) -> dict[str, Any]:
        """Its entry in `GET /api/health`."""
        task, about, labels = self.task, entry(self.task.name), getattr(self.known, "labels", ())
        return {
            "name": self.name,
            "task": task.name,
            "model": self.settings.name,
            "about": about.about,
            "input": task.input_kind,
            "takes": INPUT_DESCRIPTIONS.get(task.input_kind, about.takes),
            "streams": task.streams,
            "options": list(self.ask_options),
            "fields": form_fields(self.ask_options),
            "labels": list(labels) if len(labels) <= Limits().candidates else [],
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }


class ServedRuns:
    """All runs of a server."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        require(bool(runs), "there is no run to serve: give the folder of one")
        self.by_name: dict[str, ServedRun] = {}
        for name, run in runs.items():
            parts = (run.folder, run.task, run.model, run.known, run.settings, run.ask, run.file_overrides, run.damage)
            self.by_name[name] = ServedRun(*parts, name=name)

    def __iter__(self) -> Any:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def find(self, name: Any) -> ServedRun:
        """The run that a request names, or the only one."""
        if name is None or name == "":
            first, *others = self.by_name.values()
            known = ", ".join(self.by_name)
            check(not others, 400, f'several runs are served: choose one with "run"; known: {known}')
            return first
        check(isinstance(name, str), 400, f"run must be the name of a run: got {shown(name)}")
        if name not in self.by_name:
            raise Refused(404, str(unknown("run", shortened(name), self.by_name)))
        return self.by_name[name]


def draws(ask: AskOptions) -> bool:
    """Whether answers with these options are sampled."""
    return isinstance(ask, SearchAsk) and isinstance(ask.search(), Sample)


def load_runs(folders: Sequence[str], device: str, precision: str = "float32") -> ServedRuns:
    """Load the runs of some folders, each named as its folder; equal names are prefixed with their parents'."""
    paths = [expanded(folder) for folder in folders]
    require(len({path.resolve() for path in paths}) == len(paths), "a folder is given twice: give each once")
    names = _distinct(paths)
    require(len(set(names)) == len(names), f"two folders have one name: {', '.join(names)}. Rename one of them.")
    # in a thread that ends: a thread that computed once keeps its OpenMP team, and once all teams together have more threads
    # than the machine has cores, GNU's OpenMP lets them sleep between parallel regions: short ones become half as fast
    with ThreadPoolExecutor(1) as loader:
        runs = list(loader.map(lambda path: load(path, device, precision), paths))
    return ServedRuns(dict(zip(names, runs, strict=True)))


def _distinct(paths: Sequence[Path]) -> list[str]:
    """The shortest suffixes by which some paths differ.

    >>> _distinct([Path("a/x"), Path("b/x"), Path("y")])
    ['a-x', 'b-x', 'y']
    """
    resolved = [path.resolve().parts for path in paths]
    # the suffixes of all paths, one part long, two parts long, ...
    ends = [[parts[-size:] for parts in resolved] for size in range(1, max(map(len, resolved)) + 1)]
    return [
        "-".join(next((some[i] for some in ends if some.count(some[i]) == 1), full)) for i, full in enumerate(resolved)
    ]

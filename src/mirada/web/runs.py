"""The runs that are served, by name, and what each says of itself."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_type_hints

from mirada.decoding.greedy import Sample
from mirada.decoding.options import SearchOptions
from mirada.decoding.search import Stepper
from mirada.errors import require, unknown
from mirada.files import expanded
from mirada.runs.answers import INSIDE, AskOptions
from mirada.runs.load import load
from mirada.runs.registry import entry
from mirada.runs.run import Run
from mirada.web.options import RANGES, Limits, Refused
from mirada.words import shortened

# A run that stops writing, and comparing methods, when nobody waits for the result any more.


class GivenUp(Exception):  # noqa: N818 (nobody is to be told of it)
    """Nobody waits for what is being computed."""


@dataclass(frozen=True, eq=False)
class WatchedStepper:
    """A stepper that asks before every step whether there is any use in going on."""

    inner: Any
    check_cancelled: Callable[[], None]

    def start(self, memory: Any) -> Any:
        return self.inner.start(memory)

    def step(self, tokens: Any, state: Any) -> Any:
        self.check_cancelled()
        return self.inner.step(tokens, state)

    def reorder(self, state: Any, index: Any) -> Any:
        return self.inner.reorder(state, index)

    def alignment(self, state: Any) -> Any:
        return self.inner.alignment(state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _always() -> bool:
    return True


@dataclass(eq=False)
class WatchedRun(Run):
    """The same run; `wanted` is asked at every step of a search, and between the passes of a comparison of methods."""

    wanted: Callable[[], bool] = field(default=_always, repr=False)

    @classmethod
    def of(cls, run: Run) -> "WatchedRun":
        return cls(run.folder, run.task, run.model, run.known, run.settings, run.ask, run.file_overrides)

    @property
    def stepper(self) -> Stepper:
        return cast(Stepper, WatchedStepper(super().stepper, self.check_cancelled))

    def check_cancelled(self) -> None:
        if not self.wanted():
            raise GivenUp

    @contextmanager
    def while_wanted(self, wanted: Callable[[], bool]) -> Iterator[None]:
        """Inside, searches and comparisons go on only for as long as this holds."""
        self.wanted = wanted
        try:
            yield
        finally:
            self.wanted = _always


FILES = {"picture": "a picture", "recording": "a wav file", "table": "a CSV file"}  # kinds of inputs that are files
SENT = {  # what each kind of input is to a program; `mirada run` takes paths and options instead
    "question": "questions, with the text that holds their answers as passage",
    "node": "names of nodes",
    "picture": "pictures, as files of a form or base64",
    "recording": "wav files, as files of a form or base64",
    "table": "CSV files of the latest rows, as files of a form or base64",
}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
Kind = type | tuple[type]


@dataclass(frozen=True, eq=False)
class ServedRun:
    """A run, and the name that requests call it by."""

    name: str
    run: WatchedRun

    @property
    def takes_files(self) -> bool:
        return self.run.task.takes_files

    @cached_property
    def options(self) -> dict[str, Kind]:
        """The options of a question and their types; a tuple has several texts."""
        hints = get_type_hints(self.run.task.Ask)
        names = [name for name in self.run.task.Ask.takes() if name not in INSIDE]
        return {name: _kind_of(hints[name]) for name in names}

    @cached_property
    def draws(self) -> bool:
        """Whether answers are drawn at random unless it is asked otherwise."""
        return draws(self.run.asked({}))

    def describe(self) -> dict[str, Any]:
        """What `GET /api/health` says of it."""
        run = self.run
        about = entry(run.task.name)
        labels = getattr(run.known, "labels", ())
        return {
            "name": self.name,
            "task": run.task.name,
            "model": run.settings.name,
            "about": about.about,
            "input": run.task.input_kind,
            "takes": SENT.get(run.task.input_kind, about.takes),
            "streams": run.task.streams,
            "options": list(self.options),
            "labels": list(labels) if len(labels) <= Limits().candidates else [],
            "parameters": sum(p.numel() for p in run.model.parameters()),
        }


class ServedRuns:
    """All runs of a server."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        require(bool(runs), "there is no run to serve: give the folder of one")
        self.by_name = {name: ServedRun(name, WatchedRun.of(run)) for name, run in runs.items()}

    def __iter__(self) -> Any:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def find(self, name: Any) -> ServedRun:
        """The run that a request means: the one it names, or the only one."""
        if name is None or name == "":
            if len(self.by_name) == 1:
                return next(iter(self.by_name.values()))
            raise Refused(400, f'several runs are served: choose one with "run"; known: {", ".join(self.by_name)}')
        if not isinstance(name, str):
            raise Refused(400, f"run must be the name of a run: got {shown(name)}")
        if name not in self.by_name:
            raise Refused(404, str(unknown("run", shortened(name), self.by_name)))
        return self.by_name[name]


def draws(ask: AskOptions) -> bool:
    """Whether answers wanted like this are drawn at random."""
    return isinstance(ask, SearchOptions) and isinstance(ask.search(), Sample)


def _kind_of(hint: Any) -> Kind:
    """The type of an option, without the None that stands for its default.

    >>> _kind_of(float | None), _kind_of(tuple[str, ...])
    (<class 'float'>, (<class 'str'>,))
    """
    if hint in WORDS:
        return hint  # type: ignore[no-any-return]
    inside = [part for part in getattr(hint, "__args__", ()) if part not in (type(None), ...)]
    return (str,) if getattr(hint, "__origin__", None) is tuple else inside[0]


def checked_option(name: str, value: Any, kind: Kind, limits: Limits) -> Any:
    """An option of a request, as the run takes it. What a form sends is text, and read as on a command line."""
    if isinstance(kind, tuple):
        words = _listed(value) if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise Refused(400, f"{name} must be a list of texts: got {shown(value)}")
        if len(words) > limits.candidates:
            raise Refused(413, f"at most {limits.candidates:,} {name} at once: got {len(words):,}")
        return tuple(_readable(name, word.strip(), limits) for word in words if word.strip())
    if kind is str:
        if not isinstance(value, str):
            raise Refused(400, f"{name} must be text: got {shown(value)}")
        return _readable(name, value, limits)
    number = from_text(value, kind) if isinstance(value, str) else value
    whole = isinstance(number, float) and kind is int and number.is_integer() and abs(number) < 2**53
    number = int(number) if whole else number
    right = isinstance(number, bool) if kind is bool else isinstance(number, int | float) and type(number) is not bool
    if not right or (kind is int and not isinstance(number, int)):
        raise Refused(400, f"{name} must be {WORDS[kind]}: got {shown(value)}")
    if kind is bool:
        return number
    low, high = RANGES.get(name, (-(2**53), 2**53))
    if not low <= number <= high:
        raise Refused(400, f"{name} must be {low:,} to {high:,}: got {shown(value)}")
    if name == "temperature" and 0 < number < 0.01:
        raise Refused(400, f"temperature must be 0, or 0.01 to {high:,}: got {shown(value)}")
    return kind(number)


def _listed(value: str) -> list[str]:
    """Several texts as a form sends them: a list in JSON, as the web app does, or by commas, as on a command line.

    >>> _listed('["red, or blue", "green"]'), _listed("red, green"), _listed("[red]")
    (['red, or blue', 'green'], ['red', ' green'], ['[red]'])
    """
    try:
        found = json.loads(value) if value.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        found = None
    right = isinstance(found, list) and all(isinstance(word, str) for word in found)
    return found if right and found is not None else value.split(",")


def from_text(value: str, kind: type) -> Any:
    """A number or a truth as text; the text itself, where it is neither.

    >>> from_text("4", int), from_text("yes", bool), from_text("x", int)
    (4, True, 'x')
    """
    if kind is bool:
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(value.lower(), value)
    try:
        return int(value) if kind is int else float(value)
    except ValueError:
        return value


def _readable(name: str, text: str, limits: Limits) -> str:
    """A text that a model can be given: of at most so many characters, all of them characters."""
    if len(text) > limits.characters:
        raise Refused(413, f"{name} is too long: {len(text):,} characters, at most {limits.characters:,}")
    if not is_text(text):
        raise Refused(400, f"{name} is not text: it has half of a surrogate pair. Send UTF-8.")
    return text


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8: JSON can hold halves of surrogate pairs."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    """A value in an error.

    >>> shown([1] * 50), shown(None), shown("a")
    ('a list', 'null', "'a'")
    """
    if isinstance(value, str):
        return repr(shortened(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return shortened(str(value)) if isinstance(value, float) or abs(value) < 10**18 else "a very large number"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a file"


def load_runs(folders: Sequence[str], device: str) -> ServedRuns:
    """The runs of some folders, each called as its folder; equal names get their parents' before them."""
    paths = [expanded(folder) for folder in folders]
    require(len({path.resolve() for path in paths}) == len(paths), "a folder is given twice: give each once")
    names = _distinct(paths)
    require(len(set(names)) == len(names), f"two folders have one name: {', '.join(names)}. Rename one of them.")
    # in a thread that ends: GNU's OpenMP lets threads sleep between parallel regions, which makes short ones half as fast, once
    # its teams have more threads than the machine has cores, and a thread that computed once keeps its team
    with ThreadPoolExecutor(1) as loader:
        runs = list(loader.map(lambda path: load(path, device), paths))
    return ServedRuns(dict(zip(names, runs, strict=True)))


def _distinct(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of some paths that differ from each other.

    >>> _distinct([Path("a/x"), Path("b/x"), Path("y")])
    ['a-x', 'b-x', 'y']
    """
    whole = [path.resolve().parts for path in paths]
    return ["-".join(parts[-_shortest(whole, parts) :]) for parts in whole]


def _shortest(whole: Sequence[tuple[str, ...]], path: tuple[str, ...]) -> int:
    """How many parts at the end of a path suffice to tell it from the others."""
    sizes = range(1, len(path))
    return next((size for size in sizes if [p[-size:] for p in whole].count(path[-size:]) == 1), len(path))

"""A run that stops writing, and comparing methods, when nobody waits for the result any more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from mirada.decoding.stepper import Stepper
from mirada.runs.run import Run


class GivenUp(Exception):  # noqa: N818 (nobody is to be told of it)
    """Nobody waits for what is being computed."""


@dataclass(frozen=True, eq=False)
class WatchedStepper:
    """A stepper that asks before every step whether there is any use in going on."""

    inner: Any
    go_on: Callable[[], None]

    def start(self, memory: Any) -> Any:
        return self.inner.start(memory)

    def step(self, tokens: Any, state: Any) -> Any:
        self.go_on()
        return self.inner.step(tokens, state)

    def reorder(self, state: Any, index: Any) -> Any:
        return self.inner.reorder(state, index)

    def alignment(self, state: Any) -> Any:
        return self.inner.alignment(state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def always() -> bool:
    return True


@dataclass(eq=False)
class WatchedRun(Run):
    """The same run; `wanted` is asked at every step of a search, and between the passes of a comparison of methods."""

    wanted: Callable[[], bool] = field(default=always, repr=False)

    @classmethod
    def of(cls, run: Run) -> "WatchedRun":
        return cls(run.folder, run.task, run.model, run.known, run.settings, run.ask, run.told)

    @property
    def stepper(self) -> Stepper:
        return cast(Stepper, WatchedStepper(super().stepper, self.go_on))

    def go_on(self) -> None:
        if not self.wanted():
            raise GivenUp

    @contextmanager
    def while_wanted(self, wanted: Callable[[], bool]) -> Iterator[None]:
        """Inside, searches and comparisons go on only for as long as this holds."""
        self.wanted = wanted
        try:
            yield
        finally:
            self.wanted = always

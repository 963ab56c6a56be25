"""A trained run: the model, its tokenizer and its task, in Python as on the command line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, overload

import torch
from torch import Tensor

from mirada.data.tokenize import Tokenizer
from mirada.decoding.stepper import Stepper
from mirada.errors import require
from mirada.layers.model import Model, read_json
from mirada.looking.record import Seen, look
from mirada.tasks.answer import Answer, Ask
from mirada.tasks.catalog import entry
from mirada.tasks.task import DataConfig, Place, Splits, Task

CONFIG, TOKENIZER = "config.json", "tokenizer.json"


@dataclass
class Run:
    """A model that does a task.

    `run("the red house")` answers one input, `run([...])` many at once; `beam=4` and the other fields of `Ask` say how.
    """

    folder: Path
    task: Task
    model: Model[Any]
    tokenizer: Tokenizer
    options: DataConfig
    facts: Mapping[str, Any] = field(default_factory=dict)
    place: Place = field(default_factory=Place)
    ask: Ask = field(default_factory=Ask)  # how answers are wanted unless a call says otherwise

    @property
    def length(self) -> int:
        """The most tokens that the model reads."""
        return self.model.config.length

    @property
    def stepper(self) -> Stepper:
        """The model, for a search."""
        return cast(Stepper, self.model)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def look(self, *inputs: Any) -> Seen:
        """All attention of one pass of the model."""
        with torch.no_grad(), look(self.model) as seen:
            self.model(*(x.to(self.device) if isinstance(x, Tensor) else x for x in inputs))
        return seen

    def check_length(self, tokens: Sequence[int], text: str) -> None:
        """Require an input that the model can read."""
        require(
            len(tokens) <= self.length,
            f"an input has {len(tokens)} tokens and the model reads at most {self.length}: {text[:60]!r}... Cut it.",
        )

    @overload
    def __call__(self, inputs: str, **ask: Any) -> Answer: ...
    @overload
    def __call__(self, inputs: Sequence[str], **ask: Any) -> list[Answer]: ...

    def __call__(self, inputs: str | Sequence[str], **ask: Any) -> Answer | list[Answer]:
        many = [inputs] if isinstance(inputs, str) else list(inputs)
        with torch.inference_mode():
            answers = self.task.answer(self, many, replace(self.ask, **ask))
        return answers[0] if isinstance(inputs, str) else answers

    def stream(self, text: str, **ask: Any) -> Iterator[str]:
        """The answer to one input, piece by piece as it is written."""
        return self.task.stream(self, text, replace(self.ask, **ask))

    def splits(self, data: str = "") -> Splits:
        """The records of a file as a test set, or those the run was trained with."""
        if not data:
            return self.task.read(self.place, self.options)
        found = self.task.read(Place(data, data), self.options)
        return Splits(train=(), valid=(), test=found.valid, problems=found.problems)

    @torch.inference_mode()
    def measure(self, data: str = "") -> dict[str, float]:
        """Metrics by name, on the records of a file or on the run's own test set (valid, where there is no test)."""
        splits = self.splits(data)
        metrics, _ = self.task.measure(self, splits.test or splits.valid)
        for name, records in splits.probes.items():
            metrics |= self.task.probe(self, name, records)
        return metrics


def load(folder: str | Path, device: str = "cpu") -> Run:
    """The run in a folder that `mirada train` made."""
    folder = Path(folder)
    require(
        folder.is_dir(),
        f"{folder} is not a folder. A run's folder is what `mirada train` printed, such as runs/translate.",
    )
    require(
        (folder / CONFIG).exists(),
        f"{folder} is not the folder of a run: it has no {CONFIG}. Train one with `mirada train`.",
    )
    described = read_json(folder / CONFIG)
    missing = [key for key in ("task", "name", "config", "data", "place") if key not in described]
    require(not missing, f"{folder / CONFIG} does not describe a run: it has no {', '.join(missing)}")
    require(
        (folder / "model.safetensors").exists(),
        f"{folder} has no model yet: its training stopped too early. Go on with --resume.",
    )
    task = entry(described["task"]).task()
    model = task.preset(described["name"]).model.load(folder)
    return Run(
        folder, task, model.to(device), Tokenizer.load(folder / TOKENIZER), task.Data.from_dict(described["data"]),
        described.get("facts", {}), Place(**described["place"]),
    )  # fmt: skip

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
from mirada.tasks.sources import fingerprint, problems, usable
from mirada.tasks.task import DataConfig, Place, Splits, Task
from mirada.training.distributed import choose_device

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
SETTINGS = {
    "task": str, "name": str, "config": dict, "recipe": dict, "data": dict, "facts": dict, "place": dict, "start": str,
}  # fmt: skip


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
    records: str = ""  # the fingerprint of what it was trained with
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
            answers = self.task.answer(self, many, self.asked(ask))
        return answers[0] if isinstance(inputs, str) else answers

    def stream(self, text: str, **ask: Any) -> Iterator[str]:
        """The answer to one input, piece by piece as it is written."""
        return self.task.stream(self, text, self.asked(ask))

    def asked(self, ask: Mapping[str, Any]) -> Ask:
        """How answers are wanted; what would change nothing in this task is refused."""
        wanted, known = replace(self.ask, **ask), (*self.task.asks, "tokens", "aligned")
        useless = [name for name, value in vars(Ask()).items() if getattr(wanted, name) != value and name not in known]
        require(
            not useless, f"{self.task.name} has no use for {', '.join(useless)}; it takes {', '.join(self.task.asks)}"
        )
        return wanted

    def splits(self, data: str = "") -> Splits:
        """The records of a file as a test set, or those the run was trained with; bad ones are treated as in training."""
        found = self.task.read(Place(data, data) if data else self.place, self.options)
        if self.place.builtin and not data:
            return found
        good = usable(found, problems(found, self), self.options, "Mend these records, or take them out of the file.")
        if data:
            require(len(good.valid) > 0, f"{data} has no record to measure with")
            return Splits((), (), good.valid, problems=good.problems)
        require(
            fingerprint(good) == self.records,
            f"{self.place.data} has changed since this run was trained: what was held out then may have been learned. "
            "Measure on other data (--data).",
        )
        return good

    @torch.inference_mode()
    def measure(self, data: str | Splits = "") -> dict[str, float]:
        """Metrics by name, on the records of a file or on the run's own test set (valid, where there is no test)."""
        splits = self.splits(data) if isinstance(data, str) else data
        metrics, _ = self.task.measure(self, splits.test or splits.valid)
        for name, records in splits.probes.items():
            metrics |= self.task.probe(self, name, records)
        return metrics


def read_settings(folder: Path) -> dict[str, Any]:
    """What a run's config.json says."""
    require(
        folder.is_dir(),
        f"{folder} is not a folder. A run's folder is what `mirada train` printed, such as runs/translate.",
    )
    require(
        (folder / CONFIG).exists(),
        f"{folder} is not the folder of a run: it has no {CONFIG}. Train one with `mirada train`.",
    )
    described = read_json(folder / CONFIG)
    wrong = [key for key, kind in SETTINGS.items() if not isinstance(described.get(key), kind)]
    require(not wrong, f"{folder / CONFIG} does not describe a run: {', '.join(wrong)} is missing or broken")
    return described


def load(folder: str | Path, device: str = "cpu") -> Run:
    """The run in a folder that `mirada train` made."""
    folder = Path(folder).expanduser()
    described = read_settings(folder)
    require(
        (folder / "model.safetensors").exists(),
        f"{folder} has no model yet: its training stopped too early. Go on with --resume.",
    )
    task = entry(described["task"]).task()
    model = task.preset(described["name"]).model.load(folder).to(choose_device(device))
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    require(
        len(tokenizer) == model.config.vocab,
        f"{folder / TOKENIZER} has {len(tokenizer)} tokens and the model {model.config.vocab}: they are not of one run",
    )
    return Run(
        folder, task, model, tokenizer, task.Data.from_dict(described["data"]), described["facts"],
        place_of(described, folder), described.get("fingerprint", ""),
    )  # fmt: skip


def place_of(described: Mapping[str, Any], folder: Path) -> Place:
    """Where the data of a run is."""
    place = described["place"]
    known = all(isinstance(place.get(key), str) for key in ("data", "valid"))
    require(known, f"{folder / CONFIG} does not describe a run: its place must have data and valid")
    return Place(place["data"], place["valid"])

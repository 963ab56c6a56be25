"""What a person orders with `mirada train`, and the settings and the folder that it makes."""

import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.tasks.catalog import entry
from mirada.tasks.run import CONFIG, TOKENIZER, read_settings
from mirada.tasks.settings import Groups, layered
from mirada.tasks.task import Place, Preset, Task
from mirada.training.recipe import Recipe

WRITTEN = (TOKENIZER, "model.safetensors", "metrics.jsonl", "report.html")  # beside config.json
OF_FILES = ("columns", "bad", "vectors")  # settings that belong to the files of a run, not to its tokens


@dataclass(frozen=True)
class Order:
    """What a person asked for on the command line."""

    task: str
    model: str = ""
    place: Place = Place()  # noqa: RUF009 (it is frozen)
    out: str = ""
    resume: bool = False
    minutes: float = 0.0
    seed: int | None = None
    device: str = "auto"
    start: str = ""  # the folder of a run whose weights to start from
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        data, valid = absolute(self.place.data), absolute(self.place.valid)
        builtin = bool(valid) and not data and not self.resume
        require(not builtin, "--valid needs --data: the builtin data has its own validation set")
        require(
            not valid or valid != data,
            "--valid is the file of --data: a model is not measured on what it learned. Leave --valid out to hold some out.",
        )

    def folder(self) -> Path:
        """Where the run goes: as told, or runs/TASK, or the next free name beside it; resumed, the last of these."""
        if self.out:
            folder = Path(self.out).expanduser()
            taken = (folder / CONFIG).exists()
        else:
            names = [Path("runs") / (self.task if n == 1 else f"{self.task}-{n}") for n in range(1, 10_000)]
            free = next(n for n, name in enumerate(names) if not (name / CONFIG).exists())
            folder, taken = names[max(0, free - 1) if self.resume else free], self.resume and free > 0
        if self.resume:
            require(taken, f"there is nothing to resume: {folder} has no {CONFIG}. Start the run without --resume.")
            return folder
        require(not taken, f"{folder} holds a run already. Go on with it (--resume) or choose another --out.")
        strange = [name for name in WRITTEN if (folder / name).exists()]
        require(
            not strange,
            f"{folder} has a {', '.join(strange)} that is of no run and would be lost. Choose another --out.",
        )
        return folder

    def settings(self) -> dict[str, Any]:
        """All settings of a new run, as its config.json will hold them."""
        item = entry(self.task)
        task, name = item.task(), self.model or item.models[0]
        preset = task.preset(name)
        given = self.given(task, preset)
        minutes = given["recipe"].get("minutes", 0.0)
        whole = layered(
            {"recipe": {}, "data": {}, "model": dict(preset.fields)},
            task.defaults(name, self.place, minutes), self.inherited(task, name, given["data"]), given,
        )  # fmt: skip
        return {
            "mirada": version("mirada"), "task": self.task, "name": name, "model": preset.model.__name__.lower(),
            "config": whole["model"], "recipe": Recipe.from_dict(whole["recipe"]).to_dict(),
            "data": task.Data.from_dict(whole["data"]).to_dict(), "place": self.absolute_place(),
            "start": absolute(self.start),
        }  # fmt: skip

    def given(self, task: Task, preset: Preset) -> dict[str, dict[str, Any]]:
        """The settings that were asked for, by group."""
        given = Groups(Recipe, task.Data, preset.model.Config).read(self.keys)
        if self.minutes:
            given["recipe"]["minutes"] = self.minutes
        if self.seed is not None:
            given["recipe"]["seed"] = self.seed
        if "vectors" in given["data"]:
            given["data"]["vectors"] = absolute(given["data"]["vectors"])
        return given

    def absolute_place(self) -> dict[str, str]:
        return {key: absolute(value) for key, value in vars(self.place).items()}

    def inherited(self, task: Task, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """The model and the tokenizer's settings of the run that this one starts from."""
        if not self.start:
            return {}
        described = read_settings(Path(self.start).expanduser())
        there = described["name"], described["task"]
        require(
            there == (name, task.name),
            f"{self.start} holds a {there[0]} for {there[1]}: it cannot start a {name} for {task.name}",
        )
        for key in ("tokenizer", "vocab", "lowercase"):
            kept = described["data"].get(key)
            require(
                given.get(key, kept) == kept,
                f"a run that starts from another keeps its tokens: {key} is {kept!r}, not {given.get(key)!r}. Leave it out.",
            )
        data = {key: value for key, value in described["data"].items() if key not in OF_FILES}
        return {"model": described["config"], "data": data}

    def resumed(self, folder: Path) -> dict[str, Any]:
        """The settings of the run to go on with. It keeps them: others are another run.

        Its files may have moved; whether they still hold the same records, their fingerprint will tell.
        """
        described = read_settings(folder)
        there = described["name"], described["task"]
        require(there[1] == self.task, f"{folder} holds a run of {there[1]!r}, not of {self.task!r}")
        require(self.model in ("", there[0]), f"{folder} holds a {there[0]}, not a {self.model}")
        task = entry(self.task).task()
        for group, values in self.given(task, task.preset(there[0])).items():
            home = described.get("config" if group == "model" else group, {})
            for key, value in values.items():
                require(
                    home.get(key) == value,
                    f"a resumed run keeps its settings: {key} is {home.get(key)!r}, not {value!r}. Use another --out.",
                )
        start = described.get("start", "")
        require(
            absolute(self.start) in ("", start),
            f"a resumed run keeps its settings: it starts from {start or 'nothing'}, not from {self.start}. "
            "Use another --out.",
        )
        described["place"] |= {key: path for key, path in self.absolute_place().items() if path}
        return described


def absolute(path: str) -> str:
    """Paths as they can be found again from any folder; a pair of files has a comma.

    >>> absolute("/data/train.en, /data/train.es")
    '/data/train.en,/data/train.es'
    """
    whole = os.path.expanduser(path)
    if not path or os.path.exists(whole):
        return os.path.abspath(whole) if path else ""
    return ",".join(os.path.abspath(os.path.expanduser(part.strip())) for part in path.split(","))

"""What a person asks for with `mirada train`, and the settings and the folder that it makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.files import expanded
from mirada.runs.folder import is_owned, refuse_owned
from mirada.runs.registry import entry
from mirada.runs.settings import CONFIG, Groups, Settings, layered, read_settings
from mirada.runs.sources import Source, absolute
from mirada.runs.task import Preset, Task
from mirada.training.loop import CHECKPOINTS
from mirada.training.recipe import Recipe

LENGTHS = ("steps", "minutes", "epochs")  # each says how long a run is; an earlier one decides
WRITTEN = ("model.safetensors", "metrics.jsonl", "report.html")  # by every task, beside config.json


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """A training as it was asked for, on the command line or in Python."""

    task: str
    model: str = ""
    source: Source = field(default_factory=Source)
    out: str = ""
    resume: bool = False
    minutes: float = 0.0
    seed: int | None = None
    device: str = "auto"
    start: str = ""  # the folder of a run whose weights to start from
    keys: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        data, valid = self.source.absolute().data, self.source.absolute().valid
        alone = self.source.has_valid and self.source.builtin and not self.resume
        require(not alone, "--valid needs --data: the builtin data has its own validation set")
        require(
            not self.source.has_valid or (valid is not data and (not isinstance(valid, str) or valid != data)),
            "--valid is the file of --data: a model is not measured on what it learned. Leave --valid out to hold some out.",
        )

    def folder(self) -> Path:
        """Where the run goes: as told, or runs/TASK, or the next free name beside it; resumed, the last of these.

        Where nothing was saved yet, a run that is to be resumed begins: a scheduler repeats one command.
        """
        if self.out:
            folder = expanded(self.out)
            taken = (folder / CONFIG).exists()
        else:
            names = [Path("runs") / (self.task if n == 1 else f"{self.task}-{n}") for n in range(1, 10_000)]
            free = next(n for n, name in enumerate(names) if not (name / CONFIG).exists() and not is_owned(name))
            folder, taken = names[max(0, free - 1) if self.resume else free], self.resume and free > 0
        if self.resume and taken:
            return folder
        if taken:
            refuse_owned(folder)  # who writes to it now is told first: that run cannot be resumed
        require(not taken, f"{folder} holds a run already. Go on with it (--resume) or choose another --out.")
        written = (*entry(self.task).task().Known.files, *WRITTEN)
        strange = [name for name in written if (folder / name).exists()]
        require(
            not strange,
            f"{folder} has a {', '.join(strange)} that is of no run and would be lost. Choose another --out.",
        )
        return folder

    def written(self, folder: Path) -> list[Path]:
        """All that a run writes in its folder, and what is there of the runs of seeds."""
        names = (
            CONFIG,
            CHECKPOINTS,
            "seeds.json",
            "samples",
            ".torchrun",
            *entry(self.task).task().Known.files,
            *WRITTEN,
        )
        inside = (path for pattern in (f"{CHECKPOINTS}/*", "seed-*") for path in folder.glob(pattern))
        return [*(folder / name for name in names), *inside]

    def settings(self) -> Settings:
        """All settings of a new run, as far as they do not depend on its data."""
        item = entry(self.task)
        task, name = item.task(), self.model or item.models[0]
        preset = task.preset(name)
        given = self.given(task, preset)
        minutes = given["recipe"].get("minutes", 0.0)
        usual = layered({"recipe": {}}, task.defaults(name, self.source, minutes))
        if _lengths_in(given["recipe"]):  # what is usual decides no more
            usual["recipe"] = {key: value for key, value in usual["recipe"].items() if key not in LENGTHS[:2]}
        whole = layered(
            {"recipe": {}, "data": {}, "model": dict(preset.fields)}, usual, self.inherited(task, name, given["data"]), given,
        )  # fmt: skip
        return Settings(
            task=self.task, name=name, config=preset.model.Config.from_dict(whole["model"]),
            recipe=Recipe.from_dict(whole["recipe"]), data=task.Data.from_dict(whole["data"]),
            source=self.source.absolute(), start=absolute(self.start),
        )  # fmt: skip

    def given(self, task: Task, preset: Preset) -> dict[str, dict[str, Any]]:
        """The settings that were asked for, by group."""
        given = Groups(Recipe, task.Data, preset.model.Config).sort(self.keys)
        if self.minutes:
            given["recipe"]["minutes"] = float(self.minutes)
        lengths = _lengths_in(given["recipe"])
        require(len(lengths) < 2, f"{' and '.join(lengths)} say twice how long a run is. Give one of them.")
        if self.seed is not None:
            given["recipe"]["seed"] = self.seed
        if "vectors" in given["data"]:
            given["data"]["vectors"] = absolute(given["data"]["vectors"])
        return given

    def inherited(self, task: Task, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """The model and the way to read data of the run that this one starts from."""
        if not self.start:
            return {}
        there = read_settings(expanded(self.start))
        require(
            (there.name, there.task) == (name, task.name),
            f"{self.start} holds a {there.name} for {there.task}: it cannot start a {name} for {task.name}",
        )
        data = there.data.to_dict()
        for key in task.Data.fixed:
            require(
                given.get(key, data[key]) == data[key],
                f"a run that starts from another reads as that does: {key} is {data[key]!r}, not {given.get(key)!r}. "
                "Leave it out.",
            )
        kept = {key: value for key, value in data.items() if key not in task.Data.of_files}
        return {"model": there.config.to_dict(), "data": kept}

    def resumed(self, folder: Path) -> Settings:
        """The settings of the run to go on with. It keeps them: others are another run.

        Its files may have moved; whether they still hold the same records, their fingerprint will tell.
        """
        there = read_settings(folder)
        require(there.task == self.task, f"{folder} holds a run of {there.task!r}, not of {self.task!r}")
        require(self.model in ("", there.name), f"{folder} holds a {there.name}, not a {self.model}")
        task = entry(self.task).task()
        homes = {"recipe": there.recipe, "data": there.data, "model": there.config}
        recipe = there.recipe
        for group, values in self.given(task, task.preset(there.name)).items():
            for key, value in values.items():
                now = getattr(homes[group], key)
                if key == "minutes" and 0 < now < value:  # the total over all starts
                    recipe = replace(recipe, minutes=value)
                    continue
                require(
                    now == value,
                    f"a resumed run keeps its settings: {key} is {now!r}, not {value!r}. Use another --out.",
                )
        require(
            absolute(self.start) in ("", there.start),
            f"a resumed run keeps its settings: it starts from {there.start or 'nothing'}, not from {self.start}. "
            "Use another --out.",
        )
        now, before = self.source.absolute(), there.source
        data = before.data if self.source.builtin else now.data
        source = Source(data, now.valid if self.source.has_valid else before.valid)
        source.require_here()
        return there.changed(source=source, recipe=recipe)


def _lengths_in(recipe: Mapping[str, Any]) -> list[str]:
    """What a recipe says about how long a run is; 0 says nothing.

    >>> _lengths_in({"steps": 0, "minutes": 2.0, "lr": 1e-3})
    ['minutes=2.0']
    """
    return [f"{key}={recipe[key]}" for key in LENGTHS if recipe.get(key)]

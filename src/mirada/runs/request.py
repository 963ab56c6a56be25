"""What a person asks for with `mirada train`, and the settings and the folder that it makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.files import expanded
from mirada.runs.choice import BudgetChoice
from mirada.runs.folder import is_owned, refuse_owned
from mirada.runs.registry import entry
from mirada.runs.settings import CONFIG, Settings, read_settings, sort_keys
from mirada.runs.sources import Source, Splits, absolute
from mirada.runs.tuning import inherited as inherited_settings
from mirada.runs.tuning import is_tuned, preset_for, tuned_recipe
from mirada.training.recipe import Recipe
from mirada.words import is_utf8

LENGTHS = ("steps", "minutes", "epochs")  # each sets the length of a run; the first that is given decides
WRITTEN = (
    "model.safetensors",
    "adapter.safetensors",
    "metrics.jsonl",
    "report.html",
)  # by every task, next to config.json


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
        here = self.source
        alone = here.has_valid and here.builtin and not self.resume
        require(not alone, "--valid needs --data: the builtin data has its own validation set")
        paths = [path for path in (here.data, here.valid, self.out, self.start) if isinstance(path, str)]
        strange = next((path for path in paths if not is_utf8(path)), "")
        require(not strange, f"{strange!r} is no name in UTF-8, and config.json has to name it. Rename it.")
        data, valid = (absolute(place) if isinstance(place, str) else place for place in (here.data, here.valid))
        require(
            not here.has_valid or (valid is not data and (not isinstance(valid, str) or valid != data)),
            "--valid is the file of --data: a model is not measured on what it learned. Leave --valid out to hold some out.",
        )
        object.__setattr__(self, "source", Source(data, valid))  # the same from any folder

    def folder(self) -> Path:
        """Where the run goes: `out`, or runs/TASK, or the next free name after it; for a run that is resumed, the last of these.

        Where nothing was saved yet, a run that is to be resumed begins: a scheduler repeats one command.
        """
        if self.out:
            folder = expanded(self.out)
            used = (folder / CONFIG).exists()
        else:
            names = [Path("runs") / (self.task if n == 1 else f"{self.task}-{n}") for n in range(1, 10_000)]
            free = next(n for n, name in enumerate(names) if not (name / CONFIG).exists() and not is_owned(name))
            folder, used = names[max(0, free - 1) if self.resume else free], self.resume and free > 0
        if self.resume and used:
            return folder
        if used:
            refuse_owned(folder)  # named first: a run that is being written cannot be resumed
        require(not used, f"{folder} holds a run already. Go on with it (--resume) or choose another --out.")
        written = (*entry(self.task).task().Known.files, *WRITTEN)
        strange = [name for name in written if (folder / name).exists()]
        require(
            not strange,
            f"{folder} has a {', '.join(strange)} that is of no run and would be lost. Choose another --out.",
        )
        return folder

    def settings(self, folder: Path | None = None, choice: BudgetChoice | None = None) -> Settings:
        """All settings of a new run that do not depend on its data; or those of the run in `folder`, which is resumed.

        In layers, later ones win: the preset of the model, the defaults of the task, the choice that was made for the data,
        the run to start from, the keys given.
        """
        item = entry(self.task)
        elsewhere = (
            f"{self.task} is not trained here: it takes models of elsewhere, mirada import PATH --task {self.task}"
        )
        require(bool(item.builtin), elsewhere)
        before = read_settings(folder) if folder and self.resume and (folder / CONFIG).exists() else None
        if before:
            require(before.task == self.task, f"{folder} holds a run of {before.task!r}, not of {self.task!r}")
            require(self.model in ("", before.name), f"{folder} holds a {before.name}, not a {self.model}")
            way = f"Start a training from it: --from {folder}, with another --out."
            require(not before.source.imported, f"{folder} was imported, not trained: nothing can be resumed. {way}")
        task = item.task()
        start = self.start and not before
        name = (
            before.name
            if before
            else preset_for(task, self.model, self.start)
            if start
            else self.model or item.models[0]
        )
        preset = task.preset(name)
        given = sort_keys(self.keys, recipe=Recipe, data=task.Data, model=preset.model.Config)
        if self.minutes:
            given["recipe"]["minutes"] = float(self.minutes)
        lengths = [f"{key}={given['recipe'][key]}" for key in LENGTHS if given["recipe"].get(key)]
        require(len(lengths) < 2, f"{' and '.join(lengths)} say twice how long a run is. Give one of them.")
        if self.seed is not None:
            given["recipe"]["seed"] = self.seed
        if "vectors" in given["data"]:
            given["data"]["vectors"] = absolute(given["data"]["vectors"])
        if before:
            return self._resumed(before, given)

        usual, choice = task.defaults(name, self.source, given["recipe"].get("minutes", 0.0)), choice or BudgetChoice()
        fitted = {key: value for key, value in choice.recipe.items() if not (lengths and key in LENGTHS)}
        recipe = {**usual.get("recipe", {}), **fitted}
        recipe = {key: value for key, value in recipe.items() if not (lengths and key in LENGTHS[:2])}
        inherited = inherited_settings(task, name, self.start, given["data"]) if start else {}
        tuned = bool(start) and is_tuned(task, self.start, given["recipe"])
        if tuned:
            own = tuned_recipe(given["recipe"].get("tune", "all"), inherited["model"])
            own = {key: value for key, value in own.items() if not (lengths and key in LENGTHS)}
            recipe = {key: value for key, value in recipe.items() if key not in LENGTHS} | own
        tuning = str(given["recipe"].get("tune", "all"))
        message = f"tune={tuning} is for a run that starts from another model: give --from DIR"
        require(bool(start) or tuning == "all", message)
        model = {
            **preset.fields,
            **usual.get("model", {}),
            **choice.model,
            **inherited.get("model", {}),
            **given["model"],
        }
        own_data = task.tuned_data if tuned else {}
        data = {**usual.get("data", {}), **choice.data, **inherited.get("data", {}), **own_data, **given["data"]}
        return Settings(
            task=self.task, name=name, config=preset.model.Config.from_dict(model),
            recipe=Recipe.from_dict(recipe | given["recipe"]), data=task.Data.from_dict(data),
            source=self.source, start=absolute(self.start), origin=inherited.get("origin", {}),
        )  # fmt: skip

    def chosen(self, settings: Settings, splits: Splits) -> tuple[Settings, str]:
        """The settings of a new run with what its data and its budget decide, and a line that says what that is."""
        if not (splits.train and splits.valid):
            return settings, ""  # too few records: an error, later
        recipe, task = settings.recipe, entry(self.task).task()
        asked = {key.rpartition(".")[2] for key, _ in self.keys} | ({"minutes"} if self.minutes else set())
        minutes = recipe.budget / recipe.seeds if "minutes" in asked else 0.0
        choice = task.choose(settings.name, splits, settings.data, minutes)
        if "minutes" in choice.recipe:  # of one run: several share those of the whole
            choice = replace(choice, recipe={**choice.recipe, "minutes": choice.recipe["minutes"] * recipe.seeds})
        try:
            now = self.settings(choice=choice)
        except ValueError:  # the chosen model does not fit what the user sets: an odd width of heads, for example
            choice = replace(choice, model={})
            now = self.settings(choice=choice)
        groups = (choice.data, now.data), (choice.model, now.config), (choice.recipe, now.recipe)
        other = {key for part, there in groups for key, value in part.items() if getattr(there, key) != value}
        return now, choice.line(asked | other)

    def _resumed(self, before: Settings, given: Mapping[str, Mapping[str, Any]]) -> Settings:
        """The settings of the run that is resumed. It keeps them: others are another run.

        Its files may have moved; their fingerprint shows whether they still hold the same records.
        """
        groups, recipe = {"recipe": before.recipe, "data": before.data, "model": before.config}, before.recipe
        for group, key, value in [(group, *pair) for group, values in given.items() for pair in values.items()]:
            now = getattr(groups[group], key)
            if key == "minutes" and 0 < now < value:  # the total over all starts
                recipe = replace(recipe, minutes=value)
                continue
            require(
                now == value, f"a resumed run keeps its settings: {key} is {now!r}, not {value!r}. Use another --out."
            )
        require(
            absolute(self.start) in ("", before.start),
            f"a resumed run keeps its settings: it starts from {before.start or 'nothing'}, not from {self.start}. "
            "Use another --out.",
        )
        data = before.source.data if self.source.builtin else self.source.data
        source = Source(data, self.source.valid if self.source.has_valid else before.source.valid)
        source.require_here()
        return replace(before, source=source, recipe=recipe)

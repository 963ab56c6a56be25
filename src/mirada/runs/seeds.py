"""`seeds=N`: one training after the other, each with a seed of its own, for a mean and a deviation.

DIR/seed-0, DIR/seed-1, ... are whole runs. What validated best among them becomes the run in DIR; DIR/seeds.json has the
metrics of all. A command that was stopped is resumed with the seeds that are missing.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mirada.drawing.page import Section
from mirada.drawing.tables import DataTable
from mirada.errors import require
from mirada.files import read_json, write_whole
from mirada.runs.load import load
from mirada.runs.registry import entry
from mirada.runs.request import LENGTHS, TrainingRequest
from mirada.runs.run import Run
from mirada.runs.settings import CONFIG, Settings, read_settings
from mirada.training.log import in_a_line, is_number, read_metrics, summary
from mirada.training.loop import CHECKPOINTS
from mirada.training.recipe import ADAPTER, MODEL
from mirada.training.state import LAST, read_checkpoint, state_of

SEEDS = "seeds.json"
LOG = "metrics.jsonl"
NUMBERED = re.compile(r"seed-(-?[0-9]{1,19})")
ITS_OWN = ("seed", "seeds", "minutes")  # in these a seed's run differs from the whole


@dataclass(frozen=True)
class SeedRun:
    """The run of one seed: its best validation (the smaller the better), and its metrics."""

    seed: int
    folder: Path
    best: float
    metrics: dict[str, float]


def train_seeds(
    request: TrainingRequest, folder: Path, train: Callable[[TrainingRequest], Run], print_result: Callable[[str], None]
) -> Run:
    """Train with every seed that is not done yet; the run that validated best comes back, as that of the whole folder."""
    settings = request.settings(folder)
    seeds = range(settings.recipe.seed, settings.recipe.seed + settings.recipe.seeds)
    if not (folder / CONFIG).exists():
        settings, _ = request.chosen(settings, entry(settings.task).task().read(settings.source, settings.data))
        write_whole(folder / CONFIG, settings.to_bytes())
    trained = []
    for seed in seeds:
        place = folder / f"seed-{seed}"
        if _done(seed, place) is None:
            try:
                train(_one_seed(request, settings, seed, place))
            except BaseException:
                if not any((folder / f"seed-{seed}" / CONFIG).exists() for seed in seeds):  # none that can be resumed
                    (folder / CONFIG).unlink(missing_ok=True)
                raise
        one = _done(seed, place)
        assert one is not None
        trained.append(one)
        print_result(f"seed {seed}: {in_a_line(one.metrics)}")
    return _adopt(min(trained, key=lambda one: one.best), trained, folder, settings)


def _one_seed(request: TrainingRequest, settings: Settings, seed: int, place: Path) -> TrainingRequest:
    """The request of one seed: one that was begun keeps its settings, another has all those of the whole. Minutes are shared."""
    begun, keys, recipe = (place / CONFIG).exists(), [], settings.recipe
    decides = next((name for name in LENGTHS if getattr(recipe, name)), "")
    left_out = {*ITS_OWN, *LENGTHS} - {decides} | {"minutes"}
    groups = {"recipe": settings.recipe, "data": settings.data, "model": settings.config}
    for group, values in groups.items() if not begun else ():
        keys += [(f"{group}.{name}", value) for name, value in values.to_dict().items() if name not in left_out]
    minutes = recipe.budget / recipe.seeds
    return replace(
        request, model=settings.name, out=str(place), resume=begun, seed=seed, minutes=minutes, keys=tuple(keys),
        source=settings.source,
    )  # fmt: skip


def _done(seed: int, place: Path) -> SeedRun | None:
    """The run of a seed, if it was trained to its end and measured."""
    metrics = summary(read_metrics(place / LOG)).metrics
    if not metrics or not any((place / name).exists() for name in (MODEL, ADAPTER)):
        return None
    path = place / CHECKPOINTS / LAST
    return SeedRun(seed, place, float(state_of(read_checkpoint(path)[1], path).best), dict(metrics))


def _adopt(best: SeedRun, trained: Sequence[SeedRun], folder: Path, settings: Settings) -> Run:
    """Make one of the runs that of the whole folder, and write what all of them reached."""
    there = read_settings(best.folder)
    recipe = replace(there.recipe, **{name: getattr(settings.recipe, name) for name in ITS_OWN})
    task = load(best.folder).task
    for name in (*task.Known.files, there.recipe.weights_file, LOG):
        write_whole(folder / name, (best.folder / name).read_bytes())
    values = {name: [one.metrics[name] for one in trained if name in one.metrics] for name in trained[0].metrics}
    reached = {
        "chosen": best.seed, "mean": {name: fmean(some) for name, some in values.items()},
        "deviation": {name: stdev(some) if len(some) > 1 else 0.0 for name, some in values.items()},  # with n - 1
        "runs": [{"seed": one.seed, "best": one.best, "metrics": one.metrics} for one in trained],
    }  # fmt: skip
    write_whole(folder / SEEDS, (json.dumps(reached, indent=2, ensure_ascii=False) + "\n").encode())
    write_whole(folder / CONFIG, replace(there, recipe=recipe).to_bytes())
    run = load(folder)
    run.settings = replace(run.settings, source=settings.source)  # data in memory is not in the file
    return run


def read_seeds(folder: Path) -> dict[str, Any]:
    """What seeds.json holds; nothing where there is none."""
    path = folder / SEEDS
    if not path.exists():
        return {}
    seeds = read_json(path)
    require(
        _describes_seeds(seeds),
        f"{path} does not hold the metrics of several seeds: it needs chosen, mean, deviation and runs with seed, best and "
        "metrics. Restore a copy, or remove the file.",
    )
    return seeds


def _describes_seeds(seeds: dict[str, Any]) -> bool:
    """Whether values are those that `_adopt` writes."""

    def are_numbers(values: Any) -> bool:
        return isinstance(values, dict) and all(map(is_number, values.values()))

    mean, deviation, runs = (seeds.get(name) for name in ("mean", "deviation", "runs"))
    return (
        type(seeds.get("chosen")) is int
        and are_numbers(mean) and are_numbers(deviation) and mean.keys() == deviation.keys()  # type: ignore[union-attr]
        and isinstance(runs, list) and bool(runs)
        and all(
            isinstance(one, dict) and type(one.get("seed")) is int and is_number(one.get("best"))
            and are_numbers(one.get("metrics"))
            for one in runs
        )
    )  # fmt: skip


def seed_folders(folder: Path) -> list[Path]:
    """The folders of the seeds that were begun, in their order."""
    folders = [path for path in folder.glob("seed-*") if NUMBERED.fullmatch(path.name)]
    return sorted(folders, key=lambda path: int(path.name.removeprefix("seed-")))


def seed_lines(folder: Path) -> list[str]:
    """The mean over the seeds and which run was chosen, in words."""
    seeds = read_seeds(folder)
    if not seeds:
        return []
    both = [f"{name} {mean:.2f} ± {seeds['deviation'][name]:.2f}" for name, mean in seeds["mean"].items()]
    chosen = f"seed {seeds['chosen']} validated best: it is the run in {folder}"
    return [chosen, f"mean ± standard deviation of {len(seeds['runs'])} seeds: {', '.join(both)}"]


def seed_section(folder: Path) -> list[Section]:
    """The metrics of every seed, their mean and deviation, for the report."""
    seeds = read_seeds(folder)
    if not seeds:
        return []
    names = list(seeds["mean"])
    rows = [(f"seed {one['seed']}", one["best"], *(one["metrics"].get(n) for n in names)) for one in seeds["runs"]]
    rows += [
        (word, None, *(seeds[key][n] for n in names))
        for word, key in (("mean", "mean"), ("standard deviation", "deviation"))
    ]
    table = DataTable("", ("", "validation", *names), tuple(rows))
    text = f"The same training with {len(seeds['runs'])} seeds. This page is about seed {seeds['chosen']}, which validated best."
    return [Section("Seeds", text, (table,))]

"""`mirada train`: from a file to a trained run with its measured quality, sample answers and a report."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from mirada.data.tokenize import Tokenizer
from mirada.data.vectors import read_vectors
from mirada.errors import require
from mirada.layers.embed import Words
from mirada.layers.model import read_json
from mirada.tasks.catalog import entry
from mirada.tasks.run import CONFIG, TOKENIZER, Run, load
from mirada.tasks.settings import Groups, layered
from mirada.tasks.sources import fingerprint, problems, usable
from mirada.tasks.summary import write_report
from mirada.tasks.task import Place, Splits, Task
from mirada.training.checkpoint import check_room, write_whole
from mirada.training.distributed import Crew, crew
from mirada.training.loop import Training
from mirada.training.recipe import Recipe
from mirada.training.state import put_weights, weights

Tell = Callable[[str], None]


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


def fit(order: Order, tell: Tell = print, say: Tell = print) -> Run:
    """Train and measure. `tell` is for the way, `say` for the results."""
    with crew(order.device) as team:
        if not team.leads:
            tell = say = nothing
        folder = choose_folder(order)
        described = settled(order, folder) if order.resume and (folder / CONFIG).exists() else settle(order)
        if team.leads:
            check_room(folder, 0)
        splits, run, recipe = gather(described, folder)
        splits = without_bad(splits, run, tell)
        training = Training(
            run.task.objective(run.model, recipe), run.task.supply(splits.train, run, recipe),
            run.task.parts(splits.valid, run, recipe), recipe, folder, team, order.resume, tell, watch(run, splits),
        )  # fmt: skip
        described["fingerprint"] = same_data(described, splits)
        write_settings(folder, described, run, team)
        describe_run(run, splits, training, tell)
        training.run()
        if team.leads:
            conclude(run, splits, tell, say)
    return run


def nothing(text: str) -> None:
    """For the processes that do not speak."""


def choose_folder(order: Order) -> Path:
    """Where the run goes: as told, or runs/TASK, or the next free name beside it; resumed, the last of these."""
    if order.out:
        folder = Path(order.out)
        taken = (folder / CONFIG).exists()
        require(
            not taken or order.resume,
            f"{folder} holds a run already. Go on with it (--resume) or choose another --out.",
        )
        return folder
    names = [Path("runs") / (order.task if n == 1 else f"{order.task}-{n}") for n in range(1, 10_000)]
    free = next(n for n, name in enumerate(names) if not (name / CONFIG).exists())
    return names[max(0, free - 1)] if order.resume else names[free]


def settle(order: Order) -> dict[str, Any]:
    """All settings of a new run, as its config.json will hold them."""
    item = entry(order.task)
    task, name = item.task(), order.model or item.models[0]
    preset = task.preset(name)
    groups = Groups(Recipe, task.Data, preset.model.Config)
    given = groups.read(order.keys)
    if order.minutes:
        given["recipe"]["minutes"] = order.minutes
    if order.seed is not None:
        given["recipe"]["seed"] = order.seed
    minutes = given["recipe"].get("minutes", 0.0)
    inherited = inherit(order.start, task, name) if order.start else {}
    whole = layered(
        {"recipe": {}, "data": {}, "model": dict(preset.fields)},
        task.defaults(name, order.place, minutes), inherited, given,
    )  # fmt: skip
    whole["data"] = {key: absolute(value) if key == "vectors" else value for key, value in whole["data"].items()}
    place = {key: absolute(value) for key, value in vars(order.place).items()}
    return {
        "mirada": version("mirada"), "task": order.task, "name": name, "model": preset.model.__name__.lower(),
        "config": whole["model"], "recipe": Recipe.from_dict(whole["recipe"]).to_dict(),
        "data": task.Data.from_dict(whole["data"]).to_dict(), "place": place, "start": absolute(order.start),
    }  # fmt: skip


def inherit(start: str, task: Task, name: str) -> dict[str, Any]:
    """The model and the tokenizer's settings of the run that another one starts from."""
    described = read_json(Path(start) / CONFIG)
    require(
        (described.get("task"), described.get("name")) == (task.name, name),
        f"{start} holds a {described.get('name')} for {described.get('task')}: it cannot start a {name} for {task.name}",
    )
    return {"model": described["config"], "data": described["data"]}


def absolute(path: str) -> str:
    """Paths as they can be found again from any folder; a pair of files has a comma."""
    if not path or os.path.exists(path):
        return os.path.abspath(path) if path else ""
    return ",".join(os.path.abspath(part) for part in path.split(","))


def settled(order: Order, folder: Path) -> dict[str, Any]:
    """The settings of the run to go on with. It keeps them: others are another run."""
    described = read_json(folder / CONFIG)
    require(
        described.get("task") == order.task, f"{folder} holds a run of {described.get('task')!r}, not of {order.task!r}"
    )
    task = entry(order.task).task()
    groups = Groups(Recipe, task.Data, task.preset(described["name"]).model.Config)
    given = groups.read(order.keys)
    if order.minutes:
        given["recipe"]["minutes"] = order.minutes
    if order.seed is not None:
        given["recipe"]["seed"] = order.seed
    homes = {"recipe": "recipe", "data": "data", "model": "config"}
    for group, values in given.items():
        for key, value in values.items():
            kept = described[homes[group]].get(key)
            require(
                kept == value, f"a resumed run keeps its settings: {key} is {kept!r}, not {value!r}. Use another --out."
            )
    require(order.model in ("", described["name"]), f"{folder} holds a {described['name']}, not a {order.model}")
    return described


def gather(described: dict[str, Any], folder: Path) -> tuple[Splits, Run, Recipe]:
    """Read all records, make or load the tokenizer, and build the model."""
    task = entry(described["task"]).task()
    options = task.Data.from_dict(described["data"])
    place, recipe = Place(**described["place"]), Recipe.from_dict(described["recipe"])
    splits = task.read(place, options)
    tokenizer = find_tokenizer(described, task, splits, folder)
    facts = described["facts"] = task.facts(splits)
    preset = task.preset(described["name"])
    config = preset.model.Config.from_dict({**described["config"], **task.sizes(tokenizer, facts)})
    torch.manual_seed(recipe.seed)
    run = Run(folder, task, preset.model(config), tokenizer, options, facts, place)
    described["config"] = config.to_dict()
    if options.vectors:
        start_from_vectors(run, options.vectors)
    if described["start"]:
        put_weights(run.model, weights(load(described["start"]).model))
    return splits, run, recipe


def start_from_vectors(run: Run, path: str) -> None:
    """Let every word that a file has a vector for start with it."""
    tokens = [run.tokenizer.token(number) for number in range(len(run.tokenizer))]
    table = read_vectors(path, set(tokens)).table(tokens)
    for words in run.model.modules():
        if isinstance(words, Words) and words.vocab == len(tokens):
            width = words.weight.shape[1]
            require(
                table.shape[1] == width, f"{path} has vectors of {table.shape[1]} numbers: pass width={table.shape[1]}"
            )
            words.copy_vectors(table)


def without_bad(splits: Splits, run: Run, tell: Tell) -> Splits:
    """The records that can be used; bad ones are an error, or are skipped where that is wanted."""
    found = problems(splits, run)
    if found and run.options.bad == "skip":
        tell(
            f"{len(found):,} bad records are left out; `mirada check {run.task.name} --data {run.place.data}` lists them"
        )
    return usable(splits, found, run.options)


def find_tokenizer(described: dict[str, Any], task: Task, splits: Splits, folder: Path) -> Tokenizer:
    """The tokenizer of the run to go on with or to start from, or one trained on the spot."""
    for home in (folder, Path(described["start"] or folder)):
        if (home / TOKENIZER).exists():
            return Tokenizer.load(home / TOKENIZER)
    data = described["data"]
    return Tokenizer.train(task.texts(splits.train), data["tokenizer"], data["vocab"], data["lowercase"])


def same_data(described: dict[str, Any], splits: Splits) -> str:
    """The fingerprint of the records; an error if the run was started with others."""
    now = fingerprint(splits)
    require(
        described.get("fingerprint", now) == now,
        "the data has changed since this run was started: it cannot go on. Restore the data, or start another run with --out.",
    )
    return now


def write_settings(folder: Path, described: dict[str, Any], run: Run, team: Crew) -> None:
    """config.json and tokenizer.json, before the first step: a run that is stopped at any moment can be resumed."""
    if team.leads:
        write_whole(folder / TOKENIZER, run.tokenizer.to_json().encode())
        write_whole(folder / CONFIG, (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode())
    team.wait()


def describe_run(run: Run, splits: Splits, training: Training, tell: Tell) -> None:
    """What will be trained, on what."""
    size = sum(parameter.numel() for parameter in run.model.parameters())
    tell(
        f"{run.task.name}: {len(splits.train):,} records to learn from, {len(splits.valid):,} to validate on, "
        f"{len(training.supply):,} batches an epoch"
    )
    padding = getattr(getattr(training.supply, "buckets", None), "padding", None)
    share = "" if padding is None else f", {100 * padding:.1f} % padding"
    tell(
        f"{type(run.model).__name__} with {size:,} parameters, {len(run.tokenizer):,} tokens{share}; writing to {run.folder}"
    )


def watch(run: Run, splits: Splits) -> Callable[[], str]:
    """A sample answer after every validation: one sees the model learn."""
    samples = run.task.samples(run, splits)

    def told() -> str:
        training = run.model.training
        run.model.eval()
        text = run(samples[0], tokens=60).text if samples else ""
        run.model.train(training)
        return f"  {' '.join(text.split())[:70]}" if text else ""

    return told


def conclude(run: Run, splits: Splits, tell: Tell, say: Tell) -> None:
    """Measure, show sample answers, write the report."""
    run.model.eval()
    records = splits.test or splits.valid
    with torch.inference_mode():
        metrics, answers = run.task.measure(run, records)
        for name, probe in splits.probes.items():
            metrics |= run.task.probe(run, name, probe)
    with open(run.folder / "metrics.jsonl", "a", encoding="utf-8") as journal:
        journal.write(json.dumps({"test" if splits.test else "valid_metrics": metrics}) + "\n")
    say(f"on {len(records):,} {'test' if splits.test else 'validation'} records: {shown(metrics)}")
    for text in run.task.samples(run, splits):
        answer = run(text)
        say(f"  {answer.input}  ->  {answer.text}")
    write_report(run, splits, records, metrics, answers)
    first = next(iter(run.task.samples(run, splits)), "...")
    tell(f'the report is {run.folder / "report.html"}; go on with: mirada run {run.folder} "{first}"')


def shown(metrics: dict[str, float]) -> str:
    """Metrics in one line.

    >>> shown({"bleu": 97.123, "chrf": 98.0})
    'bleu 97.12, chrf 98.00'
    """
    return ", ".join(f"{name} {value:.2f}" for name, value in metrics.items())

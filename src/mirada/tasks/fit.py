"""`mirada train`: from a file to a trained run with its measured quality, sample answers and a report."""

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from mirada.data.tokenize import Tokenizer
from mirada.data.vectors import read_vectors
from mirada.errors import require
from mirada.layers.embed import Words
from mirada.tasks.catalog import entry
from mirada.tasks.order import Order
from mirada.tasks.run import CONFIG, TOKENIZER, Run, load, place_of
from mirada.tasks.sources import fingerprint, problems, require_both, usable
from mirada.tasks.summary import write_report
from mirada.tasks.task import Splits, Task
from mirada.training.checkpoint import check_room, write_whole
from mirada.training.distributed import Crew, crew
from mirada.training.loop import CHECKPOINTS, Interrupted, Training
from mirada.training.recipe import Recipe
from mirada.training.state import LAST, put_weights, weights

Tell = Callable[[str], None]


def fit(order: Order, tell: Tell = print, say: Tell = print) -> Run:
    """Train and measure. `tell` is for the way, `say` for the results."""
    with crew(order.device) as team:
        if not team.leads:
            tell = say = nothing
        folder = order.folder()
        described = order.resumed(folder) if order.resume else order.settings()
        with prepared(folder, team):
            splits = require_both(read(described, folder))
            run, recipe = gather(described, folder, splits)
            splits = require_both(without_bad(splits, run, tell))
            described["fingerprint"] = run.records = same_data(described, splits)
            training = Training(
                run.task.objective(run.model, recipe), run.task.supply(splits.train, run, recipe),
                run.task.parts(splits.valid, run, recipe), recipe, folder, team, order.resume, tell, watch(run, splits),
            )  # fmt: skip
            write_settings(folder, described, run, team)
        describe_run(run, splits, training, tell)
        try:
            training.run()
            if team.leads:
                conclude(run, splits, tell, say)
        except KeyboardInterrupt:
            raise Interrupted("stopped") from None
    return run


def nothing(text: str) -> None:
    """For the processes that do not speak."""


@contextmanager
def prepared(folder: Path, team: Crew) -> Iterator[None]:
    """A folder that can be written; if the run does not come so far, none is left behind empty."""
    places = (folder / CHECKPOINTS, folder, *folder.parents)
    new = [place for place in places if team.leads and not place.exists()]
    try:
        if team.leads:
            check_room(folder, 0)
        yield
    except BaseException:
        for place in new:
            with suppress(OSError):  # it holds something
                place.rmdir()
        raise


def read(described: dict[str, Any], folder: Path) -> Splits:
    """All records, and what is bad among them as far as reading shows it."""
    task = entry(described["task"]).task()
    return task.read(place_of(described, folder), task.Data.from_dict(described["data"]))


def gather(described: dict[str, Any], folder: Path, splits: Splits) -> tuple[Run, Recipe]:
    """Make or load the tokenizer, and build the model; what the data decides is added to the settings."""
    task = entry(described["task"]).task()
    options = task.Data.from_dict(described["data"])
    place, recipe = place_of(described, folder), Recipe.from_dict(described["recipe"])
    tokenizer = find_tokenizer(described, task, splits, folder)
    facts = described["facts"] = task.facts(splits)
    preset = task.preset(described["name"])
    config = preset.model.Config.from_dict({**described["config"], **task.sizes(tokenizer, facts)})
    torch.manual_seed(recipe.seed)
    run = Run(folder, task, preset.model(config), tokenizer, options, facts, place)
    described["config"] = config.to_dict()
    if is_resumed(described) and (folder / CHECKPOINTS / LAST).exists():
        return run, recipe  # a checkpoint has all weights
    if options.vectors:
        start_from_vectors(run, options.vectors)
    if described["start"]:
        put_weights(run.model, weights(load(described["start"]).model))
    return run, recipe


def is_resumed(described: dict[str, Any]) -> bool:
    """Whether these settings come from a run that was begun before."""
    return "fingerprint" in described


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
        files = f"--data {run.place.data}" + (f" --valid {run.place.valid}" if run.place.valid else "")
        tell(f"{len(found):,} bad records are left out; `mirada check {run.task.name} {files}` lists them")
    return usable(splits, found, run.options)


def find_tokenizer(described: dict[str, Any], task: Task, splits: Splits, folder: Path) -> Tokenizer:
    """The tokenizer of the run to go on with or to start from, or one trained on the spot."""
    homes = [folder] if is_resumed(described) else []
    for home in (*homes, *([Path(described["start"])] if described["start"] else [])):
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
    """config.json and tokenizer.json, before the first step: a run that is stopped at any moment can be resumed.

    The settings come first: whatever else is found beside them is of this run.
    """
    if team.leads:
        write_whole(folder / CONFIG, (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode())
        write_whole(folder / TOKENIZER, run.tokenizer.to_json().encode())
    team.wait()


def describe_run(run: Run, splits: Splits, training: Training, tell: Tell) -> None:
    """What will be trained, on what."""
    size = sum(parameter.numel() for parameter in run.model.parameters())
    tell(
        f"{run.task.name}: {run.task.amount(splits.train)} to learn from, {run.task.amount(splits.valid)} to validate on, "
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
        text = ""
        with suppress(ValueError):  # a model that diverges cannot answer; the loop has better words for it
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
    say(f"on {run.task.amount(records)} for {'test' if splits.test else 'validation'}: {shown(metrics)}")
    samples = run.task.samples(run, splits)
    for text in samples:
        answer = run(text)
        say(f"  {answer.input}  ->  {answer.text}")
    example = f"mirada run {run.folder} {shlex.quote(min(samples, key=len, default='...'))}"
    write_report(run, splits, records, metrics, answers, example)
    tell(f"the report is {run.folder / 'report.html'}; go on with: {example}")


def shown(metrics: dict[str, float]) -> str:
    """Metrics in one line.

    >>> shown({"bleu": 97.123, "chrf": 98.0})
    'bleu 97.12, chrf 98.00'
    """
    return ", ".join(f"{name} {value:.2f}" for name, value in metrics.items())

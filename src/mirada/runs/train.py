"""`mirada.train` and `mirada train`: from data to a trained run with its measured quality, sample answers and a report."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from mirada.data.batching import Examples
from mirada.data.record import Problem, Record, left_out
from mirada.errors import require
from mirada.files import checksum_of, expanded, physical_memory, write_whole
from mirada.layers.model import TRAINED, require_memory
from mirada.layers.norm import BatchNorm
from mirada.native import library
from mirada.runs.folder import owned
from mirada.runs.load import changed_files, load
from mirada.runs.registry import entry
from mirada.runs.report import write_report
from mirada.runs.request import WRITTEN, TrainingRequest
from mirada.runs.run import Run
from mirada.runs.seeds import SEEDS, read_seeds, seed_lines, train_seeds
from mirada.runs.settings import CONFIG, Settings
from mirada.runs.sources import SETS, Source, Splits, fingerprint, require_good, too_few, without
from mirada.runs.task import encode, sample_evenly
from mirada.runs.tuning import ORIGIN, base_checksum, base_folder, copy_origin, start_from
from mirada.training.distributed import ProcessGroup, process_group
from mirada.training.log import append_event, digits, in_a_line
from mirada.training.loop import CHECKPOINTS, Interrupted, Training
from mirada.training.state import LAST
from mirada.training.tuning import attach, checkpoint_layers, release
from mirada.words import echo, plural, shortened

MARK = ".torchrun"  # the file that says which torchrun began a run
TORCHRUN = "TORCHELASTIC_RUN_ID"  # the variable in which torchrun names its job
FIX = "Fix these records, or leave them out with bad=skip."
MOST_SHOWN = 200  # characters of an input next to its sample answer
Print = Callable[[str], None]


def train(
    task: str,
    data: Any = None,
    *,
    model: str | None = None,
    valid: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    minutes: float | None = None,
    seed: int | None = None,
    device: str = "auto",
    start: str | Path | None = None,
    **settings: Any,
) -> Run:
    """Train a model for a task, measure it and write its report, as the command `mirada train` does.

    Progress goes to stderr, results to stdout.

    Args:
        task: What the model is to do: "translate", "classify", ... (`mirada tasks` lists them).
        data: A path; or data in memory: rows in the order of the task's columns, or a dict or a data frame with those
            columns. Without it, the builtin data is learned.
        model: One of the task's models; the first is the default.
        valid: Data to validate on; by default some of `data` is held out.
        out: The folder of the run; by default runs/TASK, or the next free name.
        resume: Continue the run in that folder. It keeps its settings.
        minutes: How long the training may take.
        seed: Another seed, another run.
        device: "cpu", "cuda", "cuda:1", ...; "auto" takes a GPU where there is one.
        start: The folder of a run whose weights to start from.
        **settings: The KEY=VALUE of the command: `width=64`, or with a dotted key `**{"model.width": 64}`.

    Returns:
        The trained run, which answers: `run("the red house")`.

    >>> rows = [(f"{a} {b} film", b) for a in ("a", "the", "one", "that", "this", "my") for b in ("good", "bad")]
    >>> folder = getfixture("tmp_path") / "run"
    >>> run = train("classify", rows, out=folder, steps=2, width=16, heads=2, depth=1, threads=1)
    on ... for validation: accuracy ...
    >>> run("a good film").text in ("good", "bad")
    True
    """
    source = Source(_given_data(data), _given_data(valid))
    request = TrainingRequest(
        task=task, model=model or "", source=source, out=str(out or ""), resume=resume, minutes=minutes or 0.0, seed=seed,
        device=device, start=str(start or ""), keys=tuple(settings.items()),
    )  # fmt: skip
    return execute(request)


def _given_data(data: Any) -> Any:
    """A path as a text; data in memory as it is, and what can be read only once, such as a `zip`, as a list."""
    kept = list(data) if isinstance(data, Iterator) else data
    return "" if kept is None else str(kept) if isinstance(kept, Path) else kept


def execute(
    request: TrainingRequest,
    print_progress: Print = lambda text: echo(text, err=True),
    print_result: Print = echo,
    began: float | None = None,
) -> Run:
    """Train and measure what was asked for. A budget counts from `began`, a time of the monotonic clock, or from here."""
    began, threads = time.monotonic() if began is None else began, torch.get_num_threads()
    try:
        if TORCHRUN in os.environ:
            request = _resumed_after_restart(request, print_progress)
        alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
        if alone and request.settings(request.folder()).recipe.seeds > 1:
            return _train_all_seeds(request, print_progress, print_result)
        return train_and_measure(request, began, print_progress, print_result)
    finally:
        torch.set_num_threads(threads)  # a training may have computed with fewer


def train_and_measure(request: TrainingRequest, began: float, print_progress: Print, print_result: Print) -> Run:
    """One training: its settings, the records, what the task learns from them, the model, its examples, steps, report."""
    task = entry(request.task).task()
    files = (*task.Known.files, *WRITTEN)
    with ExitStack() as stack:
        group = stack.enter_context(process_group(request.device))
        if not group.leads:
            print_progress = print_result = no_print
        folder, settings = group.together(lambda: (at := request.folder(), request.settings(at)))
        resume = (folder / CONFIG).exists()
        if group.world > 1:  # none owns the folder before all are here
            _require_same_start(request, folder, settings, group)
        stack.enter_context(owned(folder, group, files, not request.resume))
        native = library.identity()
        if settings.native not in ("", native):
            print_progress(
                f"this run was begun with {settings.native} code and continues with {native}: its last digits will differ"
            )
        if (folder / SEEDS).exists():
            read_seeds(folder)  # one that is broken would end the report, after the training

        splits = group.together(lambda: task.read(settings.source, settings.data))
        for note in splits.notes:
            print_progress(note)
        if not resume:
            settings, line = group.together(lambda: request.chosen(settings, splits))
            if line:
                print_progress(line)
        damaged = changed_files(settings, folder) if resume else []
        run = group.together(lambda: build(replace(settings, native=native), splits, folder))
        for name in damaged:
            print_progress(f"{folder / name} was missing or damaged: rebuilt from the training data")

        sets, problems = encode(run, splits, SETS[:2] if settings.source.builtin or not splits.test else SETS)
        splits, sets = group.together(
            lambda: _skip_or_refuse(run, splits, sets, problems, print_progress) if problems else (splits, sets)
        )
        now = fingerprint(splits, task.identity)
        if group.world > 1:
            _require_same_data(run, now, group)
        require(
            settings.fingerprint in ("", now),
            "the data has changed since this run was started: it cannot go on. Restore the data, or start another run with "
            "--out.",
        )
        run.settings = replace(run.settings, fingerprint=now)
        sets.pop("test", None)  # encoded to be checked: it takes memory
        training = prepare(run, splits, sets, group, resume, print_progress, began)
        if group.leads and TORCHRUN in os.environ:
            write_whole(folder / MARK, json.dumps(_torchrun()).encode())
        write_settings(run, group, run.settings.recipe.threads)
        try:
            training.run()
            release(run.model)
            if group.leads:
                _conclude(run, splits, print_progress, print_result)
                (folder / MARK).unlink(missing_ok=True)
        except KeyboardInterrupt:
            raise Interrupted("stopped") from None
    return run


def _require_same_start(request: TrainingRequest, folder: Path, settings: Settings, group: ProcessGroup) -> None:
    """Raise an error in all processes unless their folder, what it holds, and their settings are the same.

    Paths of data may differ between machines: what is read there is compared later.
    """
    there = {name: (folder / name).exists() for name in (CONFIG, f"{CHECKPOINTS}/{LAST}")}
    found = {f"whether {folder / name} is there": exists for name, exists in there.items()}
    group.require_same({"--out": str(folder.absolute())}, "Start all processes with the same command.")
    group.require_same(found, "All processes need the same folder: give one on a disk that they share.")
    group.require_same(
        {"task": settings.task, "model": settings.name, "--resume": request.resume, **_values(settings)},
        "Start all processes with the same command.",
    )
    alone = settings.recipe.seeds == 1
    require(alone, "seeds= trains one run after the other in one process: start it without torchrun")


def _values(settings: Settings) -> dict[str, Any]:
    """The settings by name, without paths, which may differ between machines."""
    groups = {"model": settings.config, "recipe": settings.recipe, "data": settings.data}
    values = {f"{group}.{key}": value for group, part in groups.items() for key, value in part.to_dict().items()}
    return {**values, "data.vectors": bool(values.get("data.vectors")), "start": bool(settings.start)}


def _require_same_data(run: Run, records: str, group: ProcessGroup) -> None:
    """Raise an error unless all processes have the same records, and learned the same from them."""
    group.require_same({"the fingerprint of the data": records}, "Give all processes the same files.")
    files = {name: checksum_of(content) for name, content in run.known.contents().items()}
    group.require_same(
        {**_values(run.settings), **files}, "They read the same records: are their versions of mirada the same?"
    )


def no_print(text: str) -> None:
    """Print nothing: for the processes that do not lead."""


def build(settings: Settings, splits: Splits, folder: Path) -> Run:
    """Learn or load what the task must know, and build the model; what the data decides is added to the settings.

    A run that is resumed knows what it knew; another learns it from the data, besides what the run to start from knows.
    """
    task, begun = entry(settings.task).task(), bool(settings.fingerprint)
    if not (splits.train and splits.valid):
        raise too_few(splits)
    has_weights = begun and (folder / CHECKPOINTS / LAST).exists()
    tuning = settings.recipe.tuning
    place = Path()
    if settings.start and (tuning.rank or not has_weights):
        place = base_folder(settings, folder) if tuning.rank else expanded(settings.start)
    origin = load(place) if place != Path() else None
    paths = {name: folder / name for name in task.Known.files}
    optional = getattr(task.Known, "optional", ())  # files that not every run has
    whole = all(path.exists() for name, path in paths.items() if name not in optional)
    if begun and whole and not changed_files(settings, folder):
        known = task.Known.restore(settings.facts, paths)
    else:
        known = task.learn(splits, settings.data, None if origin is None else origin.known)
        contents = known.contents().items()
        other = [name for name, content in contents if settings.files.get(name) not in (None, checksum_of(content))]
        require(
            not other,
            f"{' and '.join(str(folder / name) for name in other)} is missing or damaged, and what the data teaches now is not "
            "the same. Restore the file, or start over with another --out.",
        )
    fields, sizes = settings.config.to_dict(), task.sizes(known)
    if settings.origin:  # an imported model may have rows for more tokens than its tokenizer has: it keeps them
        sizes |= {key: max(size, fields[key]) for key, size in sizes.items() if key.endswith("vocab")}
    config = type(settings.config).from_dict(fields | sizes)
    kind = task.preset(settings.name).model
    require_memory(kind, config, physical_memory(), 1 if torch.accelerator.is_available() else TRAINED)
    torch.manual_seed(settings.recipe.seed)
    model = kind(config)
    if not has_weights:
        task.prepare(model, known, settings.data)
    if origin is not None:
        settings = replace(settings, files={**settings.files, **copy_origin(origin, folder)})
        start_from(model, origin, settings.task, known)
    base = base_checksum(place) if tuning.rank else ""
    require(settings.base in ("", base), f"the weights of {place} are not those that this adapter was begun on")
    attach(model, tuning)
    if settings.recipe.checkpointing:
        stacks = checkpoint_layers(model)
        require(stacks > 0, f"a {kind.__name__} has no stack of layers: checkpointing=yes is not for it")
    return Run(folder, task, model, known, replace(settings, config=config, facts=known.facts(), base=base))


def skip(
    splits: Splits, sets: Mapping[str, Examples], problems: Sequence[Problem]
) -> tuple[Splits, dict[str, Examples]]:
    """The records that can be used, and their examples; too few of them are an error."""
    usable, rows = without(splits, problems)
    if not (usable.train and usable.valid):
        raise too_few(usable)
    return usable, {name: examples.take(rows[name]) for name, examples in sets.items()}


def _skip_or_refuse(
    run: Run, splits: Splits, sets: Mapping[str, Examples], problems: Sequence[Problem], print_progress: Print
) -> tuple[Splits, dict[str, Examples]]:
    """The records that can be used; bad ones are an error, or are skipped where that is wanted (bad=skip)."""
    require_good(problems, run.options, FIX)
    source = run.source
    files = f" --data {source.data}" + (f" --valid {source.valid}" if source.has_valid else "")
    listed = "" if source.in_memory else f"; `mirada check {run.task.name}{files}` lists them"
    print_progress(f"{left_out(len(problems))}{listed}")
    return skip(splits, sets, problems)


def prepare(
    run: Run,
    splits: Splits,
    sets: Mapping[str, Examples],
    group: ProcessGroup,
    resume: bool,
    print_progress: Print,
    began: float | None = None,
) -> Training:
    """The training of a run on these examples, after a word about what will be trained, on what."""
    task, recipe = run.task, run.settings.recipe
    batches = task.batches(sets["train"], recipe)
    print_progress(
        f"{task.name}: {task.amount(splits.train)} to learn from, {task.amount(splits.valid)} to validate on, "
        f"{plural(len(batches), 'batch')} an epoch"
    )
    if note := getattr(sets["train"], "note", ""):
        print_progress(note)
    parts = recipe.accumulate * group.world
    if parts > 1 and any(isinstance(module, BatchNorm | _BatchNorm) for module in run.model.modules()):
        print_progress(
            f"batch norms see one of the {parts} parts of a batch: losses differ from those of whole batches in one process"
        )
    size = sum(parameter.numel() for parameter in run.model.parameters())
    learned = sum(parameter.numel() for parameter in run.model.parameters() if parameter.requires_grad)
    learned_of = f", {learned:,} of which learn (tune={recipe.tune})" if recipe.tune != "all" else ""
    decided = [f"{name}={value:,}" for name, value in task.sizes(run.known).items() if isinstance(value, int)]
    padding = getattr(batches, "padding", None)
    decided += [] if padding is None else [f"{100 * padding:.1f} % padding"]
    facts = f", {', '.join(decided)}" if decided else ""
    print_progress(f"{type(run.model).__name__} with {size:,} parameters{learned_of}{facts}; writing to {run.folder}")
    return Training(
        task.objective(run.model, recipe), batches, task.in_order(sets["valid"], recipe), recipe, run.folder, group, resume,
        print_progress, partial(preview, run, task.samples(run, splits)[:1], splits.valid), began,
        partial(write_settings, run, group),
    )  # fmt: skip


def write_settings(run: Run, group: ProcessGroup, threads: int) -> None:
    """config.json and what the task knows, before the first step: a run that is stopped at any moment can be resumed.

    The settings come first: whatever else is found next to them is of this run. `threads` are those that it computes with.
    """
    contents = run.known.contents()
    kept = {name: mark for name, mark in run.settings.files.items() if name.startswith(f"{ORIGIN}/")}
    files = kept | {name: checksum_of(content) for name, content in contents.items()}
    run.settings = replace(run.settings, files=files, recipe=replace(run.settings.recipe, threads=threads))
    if group.leads:
        write_whole(run.folder / CONFIG, run.settings.to_bytes())
        for name, content in contents.items():
            write_whole(run.folder / name, content)


def preview(run: Run, samples: Sequence[str], valid: Sequence[Record], means: Mapping[str, float]) -> str:
    """What is shown after every validation: a metric that people know, and a sample answer. One sees the model learn.

    The metric follows from the means of the validation, or is measured on some of its records.
    """
    task, training, records = run.task, run.model.training, sample_evenly(valid, run.task.preview_examples)
    run.model.eval()
    shown = "".join(f"  {name} {digits(value)}" for name, value in task.headline_metrics(means).items())
    with suppress(ValueError), torch.inference_mode():  # one that diverges cannot answer: the loop reports it
        if records:
            name, value = next(iter(task.measure(run, records)[0].items()))
            shown += f"  {name} {value:.1f}{f' on {len(records):,}' if len(records) < len(valid) else ''}"
        for text in samples:
            (answer,) = run.answers([task.parse(text)], **task.preview_options)
            shown += f"  sample: {' '.join(task.in_brief(answer).split())[:60]}"
    run.model.train(training)
    return shown


def _conclude(run: Run, splits: Splits, print_progress: Print, print_result: Print) -> None:
    """Calibrate, measure, show sample answers, write the report."""
    run.model.eval()
    with torch.inference_mode():
        known = run.task.calibrate(run, splits.valid)
    if known is not run.known:  # what only a trained model can show
        run.known, run.settings = known, replace(run.settings, facts=known.facts())
        write_settings(run, ProcessGroup(), run.settings.recipe.threads)
    records = splits.test or splits.valid
    print_progress(f"measuring on {run.task.amount(records)} and writing the report")
    measured = run.measured(splits)
    append_event(run.folder / "metrics.jsonl", {"test" if splits.test else "valid_metrics": measured.metrics})
    figures = in_a_line(measured.metrics, len(records))
    print_result(f"on {run.task.amount(records)} for {'test' if splits.test else 'validation'}: {figures}")
    if measured.verdict:
        print_result(measured.verdict)
    samples = run.task.samples(run, splits)
    for text in samples:
        (answer,) = run.answers([run.task.parse(text)])
        print_result(f"  {shortened(answer.input, MOST_SHOWN)}  ->  {run.task.in_brief(answer)}")
    example = run.task.example(run, samples)
    write_report(run, splits, measured, example)
    print_progress(f"the report is {run.folder / 'report.html'}; go on with: {example}")


def _train_all_seeds(request: TrainingRequest, print_progress: Print, print_result: Print) -> Run:
    """A run for every seed; the best of them is measured once more and printed, then what all of them reached."""

    def one(seed: TrainingRequest) -> Run:
        print_progress(f"seed {seed.seed}")
        return train_and_measure(seed, time.monotonic(), print_progress, no_print)

    folder, files = request.folder(), (*entry(request.task).task().Known.files, *WRITTEN)
    with owned(folder, ProcessGroup(), files, not request.resume):
        run = train_seeds(request, folder, one, print_result)
        _conclude(run, run.splits(), print_progress, print_result)
        for line in seed_lines(folder):
            print_result(line)
    return run


# A restart by torchrun: after a process was lost it starts all of them again, with the same command, to resume.


def _torchrun() -> dict[str, Any]:
    """Which torchrun started this process: its job, and the process that watches over those of this machine."""
    return {"job": os.environ[TORCHRUN], "agent": os.getppid(), "host": socket.gethostname()}


def _resumed_after_restart(request: TrainingRequest, print_progress: Print) -> TrainingRequest:
    """The request; resumed, where torchrun has restarted the processes of the run that it is for.

    The leader's machine is known; others know the job alone.
    """
    restarts, here = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), _torchrun()
    if request.resume or not restarts.isdecimal() or int(restarts) == 0:
        return request
    resumed, leads = replace(request, resume=True), os.environ.get("RANK", "0") == "0"
    try:
        there = json.loads((resumed.folder() / MARK).read_text(encoding="utf-8"))
        if there["job"] != here["job"] or (leads and there != here):
            return request
    except (OSError, ValueError, KeyError, TypeError):
        return request
    if leads:
        print_progress(
            f"torchrun has started the processes again (restart {int(restarts)}): the run continues from its last checkpoint"
        )
    return resumed

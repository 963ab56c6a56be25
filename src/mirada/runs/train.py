"""`mirada.train` and `mirada train`: from data to a trained run with its measured quality, sample answers and a report."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mirada.data.batching import Examples
from mirada.data.record import Problem, left_out
from mirada.errors import require
from mirada.files import checksum_of, physical_memory, remove_parts, require_own, write_whole
from mirada.layers.model import TRAINED, require_memory
from mirada.native import library
from mirada.runs.folder import owned
from mirada.runs.load import changed_files, load, load_known
from mirada.runs.registry import entry
from mirada.runs.report import write_report
from mirada.runs.request import TrainingRequest
from mirada.runs.run import Run
from mirada.runs.seeds import read_seeds, seed_lines, seeds_of, train_seeds
from mirada.runs.settings import CONFIG, Settings
from mirada.runs.sources import Source, Splits, fingerprint, require_both, require_good
from mirada.runs.task import sample_evenly
from mirada.training.distributed import ProcessGroup, process_group
from mirada.training.log import append_event, digits, in_a_line
from mirada.training.loop import CHECKPOINTS, Interrupted, Training
from mirada.training.state import LAST, check_room, put_weights, weights
from mirada.words import echo, plural

MARK = ".torchrun"  # the file that says which torchrun began a run
FIX = "Fix these records, or leave them out with bad=skip."
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
        request = _resumed_after_restart(request, print_progress)
        if seeds_of(request) > 1:
            return _train_all_seeds(request, print_progress, print_result)
        return train_and_measure(request, began, print_progress, print_result)
    finally:
        torch.set_num_threads(threads)  # a training may have computed with fewer


def train_and_measure(request: TrainingRequest, began: float, print_progress: Print, print_result: Print) -> Run:
    """The whole way: settings, records, what the task learns from them, the model, its examples, training, report."""
    with process_group(request.device) as group, _owned_folder(request, group) as folder:
        if not group.leads:
            print_progress = print_result = no_print
        resume = request.resume and (folder / CONFIG).exists()
        settings = request.resumed(folder) if resume else request.settings()
        settings = _warn_if_native_changed(settings, print_progress) if resume else settings
        read_seeds(folder)  # one that is broken would end the report, after the training

        splits = require_both(read(settings))
        for note in splits.notes:
            print_progress(note)
        damaged = changed_files(settings, folder) if resume else []
        run = build(settings, splits, folder)
        for name in damaged:
            print_progress(f"{folder / name} was missing or damaged: rebuilt from the training data")

        sets = encode(run, splits).without_bad(run, print_progress)
        now, before = fingerprint(sets.splits, run.task.identity), settings.fingerprint
        require(
            before in ("", now),
            "the data has changed since this run was started: it cannot go on. Restore the data, or start another run with "
            "--out.",
        )
        run.settings = run.settings.changed(fingerprint=now)
        training = sets.training(run, group, resume, print_progress, began)
        torchrun = _torchrun()
        if group.leads and torchrun is not None:
            write_whole(folder / MARK, json.dumps(torchrun).encode())
        _write_settings(run, group)
        _describe(run, sets.splits, training, print_progress)
        try:
            training.run()
            if group.leads:
                _conclude(run, sets.splits, print_progress, print_result)
                (folder / MARK).unlink(missing_ok=True)
        except KeyboardInterrupt:
            raise Interrupted("stopped") from None
    return run


def _train_all_seeds(request: TrainingRequest, print_progress: Print, print_result: Print) -> Run:
    """A run for every seed; the best of them is measured and told once more, then what all of them reached."""

    def one(seed: TrainingRequest) -> Run:
        print_progress(f"seed {seed.seed}")
        return train_and_measure(seed, time.monotonic(), print_progress, no_print)

    with _owned_folder(request, ProcessGroup()) as folder:
        run = train_seeds(request, folder, one, print_result)
        _conclude(run, run.splits(), print_progress, print_result)
        for line in seed_lines(folder):
            print_result(line)
    return run


@contextmanager
def _owned_folder(request: TrainingRequest, group: ProcessGroup) -> Iterator[Path]:
    """The folder of a request, which nobody else writes to; if the run does not come so far, none is left behind empty."""
    folder = request.folder()
    group.wait()  # until everybody has found the same one: what is owned is not free any more
    places = (folder / CHECKPOINTS, folder, *folder.parents)
    new = [place for place in places if group.leads and not place.exists()]
    try:
        if group.leads:
            check_room(folder, 0)
        with owned(folder, group):
            taken = (folder / CONFIG).exists() and not request.resume
            require_own(request.written(folder))
            for place in (folder, folder / CHECKPOINTS) if group.leads else ():
                remove_parts(place)
            require(not taken, f"{folder} was taken by another training at this moment. Choose another --out.")
            yield folder
    except BaseException:
        for place in new:
            with suppress(OSError):  # it holds something
                place.rmdir()
        raise


def _warn_if_native_changed(settings: Settings, print_progress: Print) -> Settings:
    """The settings of a resumed run, with the code that will compute from here on; other code than before is told."""
    before, now = settings.native, library.identity()
    if before not in ("", now):
        print_progress(f"this run was begun with {before} code and goes on with {now}: its last digits will differ")
    return settings.changed(native=now)


def no_print(text: str) -> None:
    """For the processes that do not speak."""


def read(settings: Settings) -> Splits:
    """All records, and what is bad among them as far as reading shows it."""
    settings.source.require_here()
    return entry(settings.task).task().read(settings.source, settings.data)


def build(settings: Settings, splits: Splits, folder: Path) -> Run:
    """Learn or load what the task must know, and build the model; what the data decides is added to the settings.

    A run that is resumed knows what it knew; another learns it from the data, beside what the run to start from knows.
    """
    task = entry(settings.task).task()
    has_weights = settings.begun and (folder / CHECKPOINTS / LAST).exists()
    origin = load(settings.start) if settings.start and not has_weights else None
    whole = all((folder / name).exists() for name in task.Known.files)
    if settings.begun and whole and not changed_files(settings, folder):
        known = load_known(task, settings, folder)
    else:
        known = task.learn(splits, settings.data, None if origin is None else origin.known)
        contents = known.contents().items()
        other = [name for name, content in contents if settings.files.get(name) not in (None, checksum_of(content))]
        require(
            not other,
            f"{' and '.join(str(folder / name) for name in other)} is missing or damaged, and what the data teaches now is not "
            "the same. Restore the file, or start over with another --out.",
        )
    config = type(settings.config).from_dict(settings.config.to_dict() | task.sizes(known))
    settings = settings.changed(config=config, facts=known.facts())
    kind = task.preset(settings.name).model
    require_memory(kind, config, physical_memory(), 1 if torch.accelerator.is_available() else TRAINED)
    torch.manual_seed(settings.recipe.seed)
    model = kind(config)
    if not has_weights:
        task.prepare(model, known, settings.data)
        if origin is not None:
            put_weights(model, weights(origin.model))
    return Run(folder, task, model, known, settings)


@dataclass(frozen=True)
class Sets:
    """Records and their examples, encoded once."""

    splits: Splits
    train: Examples
    valid: Examples

    def without_bad(self, run: Run, print_progress: Print) -> "Sets":
        """The records that can be used; bad ones are an error, or are skipped where that is wanted."""
        splits = self.splits
        problems = run.problems(splits, (splits.train, self.train), (splits.valid, self.valid), *run.test_set(splits))
        require_good(problems, run.options, FIX)
        if not problems:
            return self
        files = f" --data {run.source.data}" + (f" --valid {run.source.valid}" if run.source.has_valid else "")
        listed = "" if run.source.in_memory else f"; `mirada check {run.task.name}{files}` lists them"
        print_progress(f"{left_out(len(problems))}{listed}")
        return self.skipping(problems)

    def skipping(self, problems: Sequence[Problem]) -> "Sets":
        """Without the records that are in one of these places."""
        bad, splits = {problem.where for problem in problems}, self.splits
        sets = {"train": splits.train, "valid": splits.valid, "test": splits.test}
        rows = {
            name: [row for row, record in enumerate(records) if record.where not in bad]
            for name, records in sets.items()
        }
        train, valid, test = ([sets[name][row] for row in kept] for name, kept in rows.items())
        splits = require_both(replace(splits, train=train, valid=valid, test=test, problems=problems))
        return Sets(splits, self.train.take(rows["train"]), self.valid.take(rows["valid"]))

    def training(
        self, run: Run, group: ProcessGroup, resume: bool, print_progress: Print, began: float | None = None
    ) -> Training:
        """The training of a run on these sets. The number of threads that it settles on is written to the settings."""

        def settled(threads: int) -> None:
            recipe = replace(run.settings.recipe, threads=threads)
            run.settings = run.settings.changed(recipe=recipe)
            if run.folder.joinpath(CONFIG).exists():
                _write_settings(run, group)

        task, recipe = run.task, run.settings.recipe
        return Training(
            task.objective(run.model, recipe), task.batches(self.train, recipe), task.in_order(self.valid, recipe),
            recipe, run.folder, group, resume, print_progress, preview(run, self.splits), began, settled,
        )  # fmt: skip


def encode(run: Run, splits: Splits) -> Sets:
    """The records to learn from and to validate on, as the model reads them."""
    return Sets(splits, run.examples(splits.train), run.examples(splits.valid))


def _write_settings(run: Run, group: ProcessGroup) -> None:
    """config.json and what the task knows, before the first step: a run that is stopped at any moment can be resumed.

    The settings come first: whatever else is found beside them is of this run.
    """
    contents = run.known.contents()
    run.settings = run.settings.changed(files={name: checksum_of(content) for name, content in contents.items()})
    if group.leads:
        write_whole(run.folder / CONFIG, run.settings.to_bytes())
        for name, content in contents.items():
            write_whole(run.folder / name, content)
    group.wait()


def _describe(run: Run, splits: Splits, training: Training, print_progress: Print) -> None:
    """What will be trained, on what."""
    size = sum(parameter.numel() for parameter in run.model.parameters())
    print_progress(
        f"{run.task.name}: {run.task.amount(splits.train)} to learn from, {run.task.amount(splits.valid)} to validate on, "
        f"{plural(len(training.batches), 'batch')} an epoch"
    )
    decided = [f"{name}={value:,}" for name, value in run.task.sizes(run.known).items() if isinstance(value, int)]
    padding = getattr(training.batches, "padding", None)
    decided += [] if padding is None else [f"{100 * padding:.1f} % padding"]
    facts = f", {', '.join(decided)}" if decided else ""
    print_progress(f"{type(run.model).__name__} with {size:,} parameters{facts}; writing to {run.folder}")


def preview(run: Run, splits: Splits) -> Callable[[Mapping[str, float]], str]:
    """What is shown after every validation: a metric that people know, and a sample answer. One sees the model learn.

    The metric follows from what the validation found, or it is measured on some records.
    """
    samples, records = run.task.samples(run, splits)[:1], sample_evenly(splits.valid, run.task.preview_examples)

    def text(means: Mapping[str, float]) -> str:
        training = run.model.training
        run.model.eval()
        shown = "".join(f"  {name} {digits(value)}" for name, value in run.task.headline_metrics(means).items())
        with suppress(ValueError), torch.inference_mode():  # one that diverges cannot answer: the loop will tell
            if records:
                name, value = next(iter(run.task.measure(run, records)[0].items()))
                shown += f"  {name} {value:.1f}{f' on {len(records):,}' if len(records) < len(splits.valid) else ''}"
            if samples:
                (answer,) = run.answers([run.task.parse(samples[0])], **run.task.preview_options)
                shown += f"  sample: {' '.join(run.task.in_brief(answer).split())[:60]}"
        run.model.train(training)
        return shown

    return text


def _conclude(run: Run, splits: Splits, print_progress: Print, print_result: Print) -> None:
    """Calibrate, measure, show sample answers, write the report."""
    run.model.eval()
    with torch.inference_mode():
        known = run.task.calibrate(run, splits.valid)
    if known is not run.known:  # what only a trained model can show
        run.known, run.settings = known, run.settings.changed(facts=known.facts())
        _write_settings(run, ProcessGroup())
    records = splits.test or splits.valid
    print_progress(f"measuring on {run.task.amount(records)} and writing the report")
    measured = run.measured(splits)
    append_event(run.folder / "metrics.jsonl", {"test" if splits.test else "valid_metrics": measured.metrics})
    print_result(
        f"on {run.task.amount(records)} for {'test' if splits.test else 'validation'}: {in_a_line(measured.metrics)}"
    )
    if measured.verdict:
        print_result(measured.verdict)
    samples = run.task.samples(run, splits)
    for text in samples:
        (answer,) = run.answers([run.task.parse(text)])
        print_result(f"  {answer.input}  ->  {run.task.in_brief(answer)}")
    example = run.task.example(run, samples)
    write_report(run, splits, measured, example)
    print_progress(f"the report is {run.folder / 'report.html'}; go on with: {example}")


# A restart by torchrun: after a process was lost it starts all of them again, with the same command, to go on.


def _torchrun() -> dict[str, Any] | None:
    """Which torchrun started this process: its job, and the process that watches over those of this machine."""
    job = os.environ.get("TORCHELASTIC_RUN_ID")
    return None if job is None else {"job": job, "agent": os.getppid(), "host": socket.gethostname()}


def _resumed_after_restart(request: TrainingRequest, print_progress: Print) -> TrainingRequest:
    """The request; resumed, where torchrun has restarted the processes of the run that it is for.

    The leader's machine is known; others know the job alone.
    """
    restarts, here = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), _torchrun()
    if request.resume or here is None or not restarts.isdecimal() or int(restarts) == 0:
        return request
    resumed, leads = replace(request, resume=True), os.environ.get("RANK", "0") == "0"
    mark = resumed.folder() / MARK
    try:
        there = json.loads(mark.read_text(encoding="utf-8"))
        if there["job"] != here["job"] or (leads and there != here):
            return request
    except (OSError, ValueError, KeyError, TypeError):
        return request
    if leads:
        print_progress(
            f"torchrun has started the processes again (restart {int(restarts)}): the run goes on from its last checkpoint"
        )
    return resumed

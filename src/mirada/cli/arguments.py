"""Arguments that commands share, and what they read: misplaced files, options of answers, standard input, passages."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from mirada.errors import require
from mirada.files import expanded
from mirada.runs.ask import Option, run_options
from mirada.words import echo

if TYPE_CHECKING:
    from mirada.runs.run import Run


# Arguments of several commands, and the examples at the end of their help.


FILES = "A file or folder, or aligned text files with a comma between them; without it, "

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a run.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="What to learn: see `mirada tasks`.")]
Model = Annotated[str, typer.Option(help="The model; without it, the task's first.")]
DataFile = Annotated[str, typer.Option("--data", help=f"{FILES}the builtin data.")]
TestFile = Annotated[str, typer.Option("--data", help=f"{FILES}what the run kept for this.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, ...")]
Precision = Annotated[
    str,
    typer.Option(help="What texts are written with: float32, or bfloat16 or int8 (rounded weights; texts may differ)."),
]
TableKeys = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="How the file of --data is read: columns=, separator=, encoding=, ..."),
]


def file_overrides_of(run: "Run", keys: Sequence[str] | None) -> dict[str, Any]:
    """The KEY=VALUE arguments that say how the file of --data is read."""
    from mirada.runs.settings import file_options, key_values

    return file_options(type(run.options), key_values(keys or ()))


def without_keys(run: "Run", words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments into paths and the KEY=VALUE that say how these files are read."""
    keys = [word for word in words if word.partition("=")[0] in run.options.of_files and "=" in word]
    keys = [word for word in keys if not os.path.exists(word)]
    return [word for word in words if word not in keys], keys


def with_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `ask` of a command by the options of an answer, all or those named. The command gets a dictionary
    of the options that were given. They are declared in `mirada.runs.ask`.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        table = {name: each for name, each in run_options().items() if name in names or not names}

        @wraps(command)
        def called(**given: Any) -> None:
            values = {name: given.pop(name) for name in table}
            ask = {name: value for name, value in values.items() if value is not None and value is not False}
            for name in ask:
                if table[name].kind is tuple:
                    ask[name] = tuple(word.strip() for word in ask[name].split(",") if word.strip())
            command(ask=ask, **given)

        parameters: list[Parameter] = []
        for own in signature(command).parameters.values():
            parameters += map(_parameter, table.values()) if own.name == "ask" else [own]
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return called

    return decorated


def _parameter(option: Option) -> Parameter:
    """An option as a parameter of typer."""
    about, kind = option.about.removesuffix("."), option.kind
    if kind is tuple:
        about += ", with commas between them"
    elif option.metavar == "FILE":
        about += "; -: standard input"
    spelled = "--" + option.name.replace("_", "-")
    given = bool if kind is bool else (str if kind is tuple else kind) | None
    hint = Annotated[given, typer.Option(spelled, help=f"{about}.", metavar=option.metavar or None, show_default=False)]  # type: ignore[valid-type]
    default = False if kind is bool else None
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def examples(*commands: str) -> str:
    """The epilog of a help text: example commands, one a line; \\b keeps the line breaks."""
    return "\n".join(["\b", "Examples:" if len(commands) > 1 else "Example:", *(f"  {line}" for line in commands)])


OPTIONS = ("data", "valid", "out", "model", "device", "from", "resume")  # of `mirada train`, which people type as keys
CONFIG = "config.json"
LOOKED_AT = 200  # files of a folder, rows of a table
BY_FILES = {"edges.csv": "label", "captions.txt": "caption", "captions.tsv": "caption", "captions.csv": "caption"}


def _is_place(word: str) -> bool:
    """Whether an argument is a file, a folder, or files separated by commas."""
    parts = [word] if os.path.exists(os.path.expanduser(word)) else word.split(",")
    return all(os.path.exists(os.path.expanduser(part.strip())) for part in parts if part) and bool(word.strip(","))


def check_task(command: str, task: str, words: Sequence[str]) -> None:
    """Require the name of a task; for a file in its place, the error shows the command that was meant."""
    from mirada.runs.registry import CATALOG, entry

    if task in CATALOG or not _is_place(task):
        if os.path.splitext(task)[1] and task not in CATALOG:
            _require_file(task, "no task")
        entry(task)
        return
    if os.path.exists(expanded(task) / CONFIG):
        raise ValueError(f"{task} is the folder of a run, and {command} takes a task: see `mirada tasks`")
    rest = [word for word in words if word not in CATALOG]
    known = next((word for word in words if word in CATALOG), "") or _likely_task(task)
    what = f"{task} is a {'folder' if os.path.isdir(os.path.expanduser(task)) else 'file'}, and the task comes first"
    line = shlex.join(["mirada", command, known or "TASK", "--data", task, *rest])
    which = "" if known else f". TASK is one of {', '.join(CATALOG)}"
    raise ValueError(f"{what}: {line}{which}")


def data_and_keys(line: Sequence[str], words: Sequence[str] | None, data: str) -> tuple[str, list[str]]:
    """Take a file among the KEY=VALUE arguments as --data; `line` is the command so far, for errors."""
    places = [word for word in words or () if _is_place(word)]
    keys = [word for word in words or () if word not in places]
    for word in keys:
        key, equals, value = word.partition("=")
        if equals and key in OPTIONS:
            raise ValueError(f"{key} is an option: --{key} {value}".rstrip())
        if not equals and (os.sep in word or os.path.splitext(word)[1]):
            _require_file(word, "no KEY=VALUE")
    if not places:
        return data, keys
    if data or len(places) > 1:
        first, *others = [data, *places] if data else places
        command = shlex.join([*line, "--data", first])
        ways = f"{command} --valid {shlex.quote(others[0])}"
        require("eval" not in line, f"one file at a time: {command}")
        raise ValueError(f"{len(others) + 1} files ({', '.join([first, *others])}). Say what they are for: {ways}")
    echo(f"mirada: {places[0]} is taken as --data", err=True)
    return places[0], keys


def _require_file(word: str, nor: str) -> None:
    """Refuse a path that does not exist, with similar names that do."""
    from mirada.data.files.opening import check_address, near

    check_address(word)
    if not _is_place(word):
        raise ValueError(f"{word}: no such file, and {nor}. {near(os.path.expanduser(word))}")


def check_folder(command: str, folder: str, words: Sequence[str]) -> None:
    """Require the folder of a run; for a file or the name of a run, the error shows what was meant."""
    place = expanded(folder)
    if place.is_file():
        run = next((word for word in words if (expanded(word) / CONFIG).exists()), "") or "DIR"
        given = {"run": ["--data", folder, "-o", "answers.csv"], "look": [folder]}.get(command, ["--data", folder])
        line = shlex.join(["mirada", command, run, *given])
        raise ValueError(f"{folder} is not a folder but a file. The folder of a run comes first: {line}")
    if not place.exists() and (Path("runs") / folder / CONFIG).exists():
        raise ValueError(f"{folder} is not a folder. Did you mean {Path('runs') / folder}?")


def check_texts(run: "Run", folder: str, inputs: Sequence[str]) -> None:
    """Refuse the name of a file where a run takes texts: its content was meant."""
    kind = run.task.input_kind
    for word in () if run.task.takes_files else inputs:
        if (
            not os.path.splitext(word)[1]
            or not os.path.isfile(os.path.expanduser(word))
            or run.task.is_known_name(run, word)
        ):
            continue
        line, file = shlex.join(["mirada", "run", folder]), shlex.quote(word)
        ways = {
            "text": f"To answer its lines: {line} --data {file} -o answers.csv, or {line} < {file}",
            "question": f'If it is the passage: {line} "QUESTION" --passage {file}; if it holds questions: {line} < {file}',
            "node": f"To answer its lines: {line} < {file}",
        }
        raise ValueError(f"{word} is a file, and this run takes {kind}s. {ways.get(kind, ways['node'])}")


def _likely_task(place: str) -> str:
    """The task that a file or folder is for, guessed from its content; empty if that is unclear."""
    from mirada.runs.registry import CATALOG

    try:
        task = _task_of_folder(place) if os.path.isdir(os.path.expanduser(place)) else _task_of_file(place)
    except ValueError:
        return ""
    return task if task in CATALOG else ""


def _task_of_folder(place: str) -> str:
    from mirada.data.files.folders import files_below
    from mirada.data.files.forms import PROSE, TEXT, form_of

    files = list(islice(files_below(place), LOOKED_AT))
    for path in files:
        if os.path.basename(path) in BY_FILES:
            return BY_FILES[os.path.basename(path)]
    task = next((form.task for form in map(form_of, files) if form.task), "")
    folders = {os.path.dirname(path) for path in files if form_of(path) in (TEXT, PROSE)}
    return task or ("classify" if len(folders) > 1 else "write" if folders else "")


def _task_of_file(place: str) -> str:
    from mirada.data.columns.contents import CLASSES
    from mirada.data.files.forms import form_of
    from mirada.data.files.opening import head
    from mirada.data.files.records import read_records

    lines = [text for text, fault in head(place, "", LOOKED_AT) if not fault]
    if any('"context"' in line and '"question' in line for line in lines):
        return "answer"
    for task, columns in (("classify", CLASSES), ("translate", ("source", "target"))):
        try:
            reading = read_records(place, columns)
        except ValueError:
            continue
        labels = {record.value[1] for record in reading.records}
        named = any("header: " in note or "keys: " in note or "fastText" in note for note in reading.notes)
        if len(reading.records) > len(reading.problems) and (
            named or task != "classify" or 2 * len(labels) < len(reading.records)
        ):
            return task
    return "" if form_of(place).is_table else "write"


# Input of a command: the lines of standard input, and the text of a passage.


SHOWN = 60  # characters of a line that is too long


class InputLine(NamedTuple):
    """A line of standard input without its line break, and what is wrong with it; a faulty line is not answered."""

    text: str
    fault: str = ""


def lines() -> Iterator[InputLine]:
    """Lines of standard input. Empty and faulty ones are kept, so that answer i belongs to line i."""
    from mirada.data.files.opening import LONGEST_LINE

    for number, raw in enumerate(iter(lambda: sys.stdin.buffer.readline(LONGEST_LINE + 1), b""), 1):
        where = f"line {number} of standard input"
        if len(raw) > LONGEST_LINE:
            _skip_line(raw, where)
            shown = raw[:SHOWN].decode(errors="replace").strip() + "..."
            yield InputLine(shown, f"{where} is longer than {LONGEST_LINE >> 20} MB. Give one input a line.")
            continue
        try:
            yield InputLine(raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            byte = f"byte {error.start + 1} is {raw[error.start]:#04x}"
            text = raw.decode(errors="replace").rstrip("\r\n")
            yield InputLine(text, f"{where} is not UTF-8: {byte}. Send it as UTF-8, or give a file with --data.")


def _skip_line(raw: bytes, where: str) -> None:
    """Skip the rest of a line that is too long; an endless one is an error."""
    from mirada.data.files.opening import BLOCK, ENDLESS

    size = len(raw)
    while raw and not raw.endswith(b"\n"):
        raw = sys.stdin.buffer.readline(BLOCK)
        size += len(raw)
        require(size <= ENDLESS, f"{where} has more than {ENDLESS >> 20} MB. Is it text?")


def _passage_text(path: str) -> str:
    """The text of a file or of standard input, unchanged: answers refer to positions in it.

    UTF-8, or UTF-16 with a mark at its beginning.
    """
    from mirada.data.files.opening import BOM, LONGEST_LINE, MARKS, check_start, opened, recoded

    name = "standard input" if path == "-" else path
    if path == "-":
        require(sys.stdin is not None, "the passage is to come from standard input, which is closed")
        raw = sys.stdin.buffer.read(LONGEST_LINE + 1)
    else:
        with opened(path) as file:
            raw = file.read(LONGEST_LINE + 1)
    require(len(raw) <= LONGEST_LINE, f"{name}: a passage of more than {LONGEST_LINE >> 20} MB. Cut it.")
    known = MARKS.get(raw[:2], "")
    if raw.strip():
        check_start(name, raw, known)
    raw = b"".join(recoded([raw], known, name)) if known else raw
    raw = raw.removeprefix(BOM)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: not UTF-8: byte {error.start + 1} is {raw[error.start]:#04x}. Save the passage as UTF-8."
        ) from None
    require(bool(text.strip()), f"{name}: the passage is empty")
    return text


def asked_run(
    folder: str, device: str, ask: Mapping[str, Any], reads_lines: bool = False, precision: str = "float32"
) -> "Run":
    """Load a run with the options of its answers; an unknown option is refused before anything is read.

    `reads_lines` says that the inputs come from standard input, which can then hold no passage.
    """
    from mirada.runs.load import load

    run = load(folder, device, precision)
    run.ask = run.asked(ask)
    for name in (name for name, each in run.ask.options().items() if each.metavar == "FILE" and name in ask):
        require(
            ask[name] != "-" or not reads_lines,
            f"--{name} - takes all of standard input: give the questions as arguments, or the {name} as a file",
        )
        run.ask = run.asked({name: _passage_text(ask[name])})
    return run

"""Files where a command expects something else: what is meant is understood, or said with the command to type."""

import os
import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mirada.errors import require
from mirada.files import expanded
from mirada.terminal import echo

if TYPE_CHECKING:
    from mirada.runs.run import Run

OPTIONS = ("data", "valid", "out", "model", "device", "from", "resume")  # of `mirada train`, which people type as keys
CONFIG = "config.json"
LOOKED_AT = 200  # files of a folder, rows of a table
BY_FILES = {"edges.csv": "label", "captions.txt": "caption", "captions.tsv": "caption", "captions.csv": "caption"}
BY_ENDINGS = {".png": "recognize", ".jpg": "recognize", ".jpeg": "recognize", ".wav": "transcribe"}


def is_place(word: str) -> bool:
    """Whether a word is a file, a folder, or files with commas between them."""
    parts = [word] if os.path.exists(os.path.expanduser(word)) else word.split(",")
    return all(os.path.exists(os.path.expanduser(part.strip())) for part in parts if part) and bool(word.strip(","))


def check_task(command: str, task: str, words: Sequence[str]) -> None:
    """Require a task; a file in its place gets the command that was meant."""
    from mirada.runs.catalog import CATALOG, entry

    if task in CATALOG or not is_place(task):
        if os.path.splitext(task)[1] and task not in CATALOG:
            require_file(task, "no task")
        entry(task)
        return
    if os.path.exists(expanded(task) / CONFIG):
        raise ValueError(f"{task} is the folder of a run, and {command} takes a task: see `mirada tasks`")
    rest = [word for word in words if word not in CATALOG]
    known = next((word for word in words if word in CATALOG), "") or likely_task(task)
    what = f"{task} is a {'folder' if os.path.isdir(os.path.expanduser(task)) else 'file'}, and the task comes first"
    line = shlex.join(["mirada", command, known or "TASK", "--data", task, *rest])
    which = "" if known else f". TASK is one of {', '.join(CATALOG)}"
    raise ValueError(f"{what}: {line}{which}")


def data_and_keys(line: Sequence[str], words: Sequence[str] | None, data: str) -> tuple[str, list[str]]:
    """A file among the KEY=VALUE of a command is its --data; `line` is the command so far, for errors."""
    places = [word for word in words or () if is_place(word)]
    keys = [word for word in words or () if word not in places]
    for word in keys:
        key, equals, value = word.partition("=")
        if equals and key in OPTIONS:
            raise ValueError(f"{key} is an option: --{key} {value}".rstrip())
        if not equals and (os.sep in word or os.path.splitext(word)[1]):
            require_file(word, "no KEY=VALUE")
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


def require_file(word: str, nor: str) -> None:
    """Say of a path that does not exist what is near it, and what it is not either."""
    from mirada.data.foreign import check_address
    from mirada.data.text import near

    check_address(word)
    if not is_place(word):
        raise ValueError(f"{word}: no such file, and {nor}. {near(os.path.expanduser(word))}")


def check_folder(command: str, folder: str, words: Sequence[str]) -> None:
    """Require the folder of a run where a file stands, or the name of a task, and say what was meant."""
    place = expanded(folder)
    if place.is_file():
        run = next((word for word in words if (expanded(word) / CONFIG).exists()), "") or "DIR"
        given = {"run": ["--data", folder, "-o", "answers.csv"], "look": [folder]}.get(command, ["--data", folder])
        line = shlex.join(["mirada", command, run, *given])
        raise ValueError(f"{folder} is not a folder but a file. The folder of a run comes first: {line}")
    if not place.exists() and (Path("runs") / folder / CONFIG).exists():
        raise ValueError(f"{folder} is not a folder. Did you mean {Path('runs') / folder}?")


def check_texts(run: "Run", folder: str, inputs: Sequence[str]) -> None:
    """Refuse the name of a file where a run takes something else: what is in the file is meant."""
    kind = run.task.input_kind
    for word in () if run.task.takes_files else inputs:
        if not os.path.splitext(word)[1] or not os.path.isfile(os.path.expanduser(word)) or run.task.knows(run, word):
            continue
        line, file = shlex.join(["mirada", "run", folder]), shlex.quote(word)
        ways = {
            "text": f"To answer its lines: {line} --data {file} -o answers.csv, or {line} < {file}",
            "question": f'If it is the passage: {line} "QUESTION" --passage {file}; if it holds questions: {line} < {file}',
            "node": f"To answer its lines: {line} < {file}",
        }
        raise ValueError(f"{word} is a file, and this run takes {kind}s. {ways.get(kind, ways['node'])}")


def likely_task(place: str) -> str:
    """The task that a file or folder is for, by what it holds; nothing where that is open."""
    from mirada.runs.catalog import CATALOG

    try:
        task = task_of_folder(place) if os.path.isdir(os.path.expanduser(place)) else task_of_file(place)
    except ValueError:
        return ""
    return task if task in CATALOG else ""


def task_of_folder(place: str) -> str:
    from mirada.data.folders import TEXTS, files_below
    from mirada.data.text import ending_of

    files = list(islice(files_below(place), LOOKED_AT))
    for path in files:
        if os.path.basename(path) in BY_FILES:
            return BY_FILES[os.path.basename(path)]
    endings = [ending_of(path) for path in files]
    found = next((BY_ENDINGS[ending] for ending in endings if ending in BY_ENDINGS), "")
    folders = {os.path.dirname(path) for path, ending in zip(files, endings, strict=True) if ending in TEXTS}
    return found or ("classify" if len(folders) > 1 else "write" if folders else "")


def task_of_file(place: str) -> str:
    from mirada.data.header import CLASSES
    from mirada.data.records import KEYED, read_records
    from mirada.data.text import ending_of, head

    lines = [text for text, fault in head(place, "", LOOKED_AT) if not fault]
    if any('"context"' in line and '"question' in line for line in lines):
        return "answer"
    table = ending_of(place) in (".csv", ".tsv", *KEYED)
    for task, columns in (("classify", CLASSES), ("translate", ("source", "target"))):
        try:
            found = read_records(place, columns)
        except ValueError:
            continue
        labels = {record.value[1] for record in found.records}
        named = any("header: " in note or "keys: " in note or "fastText" in note for note in found.notes)
        if len(found.records) > len(found.problems) and (
            named or task != "classify" or 2 * len(labels) < len(found.records)
        ):
            return task
    return "" if table else "write"

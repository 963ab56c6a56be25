"""Text files in folders: a folder for each class, or a folder of texts."""

import os
import re
from collections.abc import Iterator, Sequence

from mirada.data.files.forms import PROSE, TEXT, ending_of, form_of
from mirada.data.files.opening import head, read_text, scan
from mirada.data.record import Read, RecordCollector
from mirada.errors import require
from mirada.words import plural

# Texts with labels as fastText has them: `__label__pos a fine film`, a text a line.


MARK = "__label__"
LABEL = re.compile(rf"(?<!\S){MARK}(\S*)\s*")
LINES = 60  # that are looked at
MOST = 0.8  # of them


def is_fasttext(path: str, encoding: str = "") -> bool:
    """Whether most of the first lines have a label of fastText, first or last."""
    lines = [text.split() for text, _ in head(path, encoding, LINES) if text.strip()]
    marked = [next((word for word in (line[0], line[-1]) if word.startswith(MARK)), "") for line in lines]
    labels = [label for label in marked if label]
    cells = [label for label in labels if any(mark in label for mark in ",;|")]  # cells of a table
    return len(labels) > MOST * len(lines) and len(cells) < MOST * max(1, len(labels))


def read_fasttext(path: str, columns: tuple[str, ...], encoding: str = "") -> Read:
    r"""The texts and their labels. A text with several labels is a problem: which of them is meant is unknown.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "reviews.txt")
    >>> _ = path.write_text("__label__pos a fine film\n__label__neg __label__dull a dull film\n")
    >>> read = read_fasttext(str(path), ("text", "label"))
    >>> read.records[0].value, read.problems[0].what
    (('a fine film', 'pos'), '2 labels (neg, dull): a text has one here. Keep one of them.')
    """
    collector = RecordCollector(columns)
    for number, line, fault in scan(path, encoding):
        where, text, labels = f"{path}:{number}", *split_labels(line)
        if fault:
            collector.refuse(where, fault)
        elif not line.strip():
            collector.skip(where)
        elif len(labels) == 1:
            collector.take(where, (text, labels[0]))
        elif labels:
            some = ", ".join(labels)
            collector.refuse(where, f"{len(labels)} labels ({some}): a text has one here. Keep one of them.")
        else:
            collector.refuse(where, f"no {MARK} in the line. Each line is {MARK}NAME text.")
    return collector.read(f"{path}: fastText lines: the label is the word that begins with {MARK}")


def split_labels(line: str) -> tuple[str, list[str]]:
    """The text of a line, and its labels."""
    return LABEL.sub("", line).strip(), LABEL.findall(line)


UNLABELED = ("unsup", "unlabeled", "unlabelled", "sin_etiqueta")  # of well-known data: no class of its own
LISTED = 10  # classes in a note


def is_folder(path: str) -> bool:
    """Whether a path is a folder."""
    return os.path.isdir(os.path.expanduser(path))


def visible(folder: str) -> list[str]:
    """The names in a folder, in their order, without hidden ones."""
    return sorted(name for name in os.listdir(os.path.expanduser(folder)) if not name.startswith((".", "__MACOSX")))


def _text_files(folder: str) -> list[str]:
    """The text files in a folder and those in it: by their endings, or all where no file has such an ending."""
    files = list(files_below(folder))
    texts = [path for path in files if form_of(path) in (TEXT, PROSE)]
    media = next((form for form in map(form_of, files) if form.task), None)
    if media and not texts:
        raise ValueError(f"{folder}: no text files, but {media.name}: `mirada train {media.task}` reads them.")
    return texts or [path for path in files if not ending_of(path) or ending_of(path)[1:].isdecimal()]


def files_below(folder: str) -> Iterator[str]:
    """The paths of all files in a folder and in those in it, in order."""
    for name in visible(folder):
        path = os.path.join(folder, name)
        if is_folder(path):
            yield from files_below(path)
        else:
            yield path


def texts_at(places: str) -> list[str]:
    """The text files of places with commas between them: files as they are, folders with all their text files."""
    if is_folder(places) or os.path.exists(os.path.expanduser(places)):
        parts = [places]
    else:
        parts = [part.strip() for part in places.split(",")]
    paths: list[str] = []
    for part in parts:
        files = _text_files(part) if is_folder(part) else [part]
        require(bool(files), f"{part}: no text files in this folder. Put files that end in .txt there.")
        paths += files
    return paths


def files_note(places: str, files: Sequence[str]) -> tuple[str, ...]:
    """How many files a folder has, as a note for the user."""
    return (f"{places}: {plural(len(files), 'text file')}",) if is_folder(places) else ()


def read_class_folders(folder: str, columns: tuple[str, ...], encoding: str = "") -> Read:
    """A folder for each class, with a text file for each text: `pos/1.txt`, `neg/1.txt`."""
    inside = [name for name in visible(folder) if is_folder(os.path.join(folder, name))]
    loose = [name for name in visible(folder) if name not in inside]
    left_out = [name for name in inside if name.casefold() in UNLABELED]
    collector, counts = RecordCollector(columns), dict.fromkeys((name for name in inside if name not in left_out), 0)
    for label in counts:
        for path in _text_files(os.path.join(folder, label)):
            counts[label] += 1
            text, fault = file_text(path, encoding)
            collector.refuse(path, fault) if fault else collector.take(path, (text, label))
    empty = [label for label, count in counts.items() if not count]
    classes = [f"{label} ({count:,})" for label, count in counts.items() if count]
    if not classes:
        way = f"Give a file of it: {', '.join(loose[:3])}." if loose else "Give a file."
        raise ValueError(f"{folder}: no folder of text files for each class in it, such as pos/1.txt, neg/1.txt. {way}")
    more = f", ... ({len(classes)} in all)" if len(classes) > LISTED else ""
    notes = [f"{folder}: a folder for each class, with files: {', '.join(classes[:LISTED])}{more}"]
    notes += [f"{folder}: not used: {', '.join([*left_out, *empty])}"] if left_out or empty else []
    read = collector.read()
    return Read(read.records, read.problems, notes)


def file_text(path: str, encoding: str) -> tuple[str, str]:
    """A file as one line of text, and what is wrong with it, or nothing."""
    try:
        text, problems = read_text(path, encoding)
    except ValueError as error:
        return "", str(error).removeprefix(f"{path}: ")
    if problems:
        line = problems[0].where.rsplit(":", 1)[1]
        return "", f"{problems[0].what.rstrip('.')} (line {line})."
    return " ".join(text.split()), ""

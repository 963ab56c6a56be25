"""`mirada run`: answers to inputs, one line each."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirada.cli.arguments import (
    Device,
    Folder,
    Json,
    Precision,
    asked_run,
    check_folder,
    check_texts,
    examples,
    file_overrides_of,
    lines,
    with_options,
    without_keys,
)
from mirada.errors import require
from mirada.files import expanded
from mirada.words import echo, json_text, plural

if TYPE_CHECKING:
    from mirada.runs.answers import Answer
    from mirada.runs.inputs import Question, Questions
    from mirada.runs.run import Run

AT_ONCE = 256  # lines of a pipe that are answered in one batch
NAMED = 5  # inputs of a file that are named on stderr if they cannot be answered
EPILOG = examples(
    'mirada run runs/translate "the red house"',
    "mirada run runs/translate --beam 4 --json < lines.txt",
    "mirada run runs/classify --data new.csv -o answered.csv columns=review",
    'mirada run runs/fill "Ana va al cine a ver una nueva ___." --candidates película,tienda',
    'mirada run runs/write "The list" --temperature 0.5 --tokens 100',
    'mirada run runs/qwen3 "Who painted it?" --chat --system "Answer in a sentence."',
    'mirada run runs/answer "Who wrote the letter?" --passage story.txt',
)


@with_options()
def run(
    folder: Folder,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="What to answer; without any, lines of standard input.")
    ] = None,
    data: Annotated[
        str, typer.Option("--data", help="A file of inputs; its columns are kept. KEY=VALUE may follow: columns=text")
    ] = "",
    out: Annotated[str, typer.Option("-o", "--out", help="Where the answers to --data go: .csv, .tsv or .jsonl.")] = "",
    ids: Annotated[
        list[str] | None,
        typer.Option(
            "--ids", help='Numbers of tokens in place of a text: "5 17 9". It can be repeated.', show_default=False
        ),
    ] = None,
    as_json: Json = False,
    *,
    ask: dict[str, Any],
    device: Device = "cpu",
    precision: Precision = "float32",
) -> None:
    """Answer with a trained run, one line for each input."""
    require(bool(data) or not out, "-o is the file for the answers to --data: give both")
    require(not ids or not (inputs or data), "--ids are the inputs: give no others")
    check_folder("run", folder, inputs or ())
    if data:
        _answer_file(asked_run(folder, device, ask, precision=precision), data, out, inputs or (), as_json)
        return
    run = asked_run(folder, device, ask, reads_lines=not (inputs or ids), precision=precision)
    inputs = _numbers(run, ids) if ids else inputs
    if inputs and run.task.takes_files:
        inputs, keys = without_keys(run, inputs)
        run.file_overrides = file_overrides_of(run, keys)
    if inputs:
        check_texts(run, folder, inputs)
        terminal = sys.stdout is not None and sys.stdout.isatty()
        single = len(inputs) == 1 and not as_json and terminal and run.task.streams
        if single and not {"beam", "best"} & {name for name, value in ask.items() if value != 1}:
            _print_stream(run, inputs[0])
        elif _print_each(run.answers_in_place(inputs), as_json):
            raise typer.Exit(1)
        return
    require(sys.stdin is not None, "there is no input: standard input is closed. Give one as an argument, or open it")
    (_converse if sys.stdin.isatty() else _answer_lines)(run, as_json)


def _numbers(run: "Run", ids: Sequence[str]) -> list[str]:
    """Numbers of tokens as the inputs of a run that reads texts."""
    from mirada.data.text.tokenize import TokenIds, Vocabulary

    reads = run.task.input_kind == "text" and isinstance(run.known, Vocabulary)
    require(
        reads, f"--ids are the tokens of a text, and this run takes {plural(2, run.task.input_kind).partition(' ')[2]}"
    )
    return [TokenIds(each) for each in ids]


def _print_stream(run: "Run", text: str) -> None:
    """Print the answer to one input while it is written."""
    pieces = run.stream(run.task.parse(text))
    while True:
        try:
            echo(next(pieces), nl=False)
        except StopIteration as end:
            echo("".join(f"\t{links}" for links in end.value.links.values()) if end.value is not None else "")
            if end.value is not None and end.value.note:
                echo(f"mirada: {end.value.note}", err=True)
            return


def _answer_file(run: "Run", data: str, out: str, keys: Sequence[str], as_json: bool) -> None:
    """Answer all inputs of a file. The answers go to another file, next to the columns of the first, or to standard output."""
    from mirada.files import write_whole
    from mirada.runs.inputs import check_out, table_text

    if out:
        check_out(out, data)
    run.file_overrides = file_overrides_of(run, keys)
    questions, answers = _questions_of_file(run, data)
    for note in questions.notes:
        echo(note, err=True)
    require(len(questions.rows) > 0, f"{data} has no inputs")
    answered: list[Answer] = []
    for first in range(0, len(questions.rows), AT_ONCE):
        answered += answers(questions.rows[first : first + AT_ONCE])
        if out and len(questions.rows) > AT_ONCE:
            echo(f"answered {len(answered):,} of {len(questions.rows):,}", err=True)
        elif not out:
            _print_each(answered[first:], as_json)
    failed = [(question, answer) for question, answer in zip(questions.rows, answered, strict=True) if answer.error]
    if out:
        columns, cells = run.task.table(questions, answered)
        rows = list(cells)
        write_whole(expanded(out), table_text(out, (columns, rows)).encode())
        for question, answer in failed[:NAMED]:
            place = "" if answer.error.startswith(question.where) else f"{question.where}: "
            echo(f"mirada: {place}{answer.error}", err=True)
        more = f", {len(failed):,} without an answer (see the column error)" if failed else ""
        echo(f"{plural(len(rows), 'row')} written to {out}{more}", err=True)
    if failed:
        raise typer.Exit(1)


def _converse(run: "Run", as_json: bool) -> None:
    """Answer every line that is typed, and continue after one that cannot be answered."""
    echo("mirada: type a line and press Enter; Ctrl-D ends", err=True)
    for line in lines():
        try:
            require(not line.fault, line.fault)
            if line.text.strip():
                _print_answer(run.answers([run.task.parse(line.text)])[0], as_json)
        except ValueError as error:
            echo(f"mirada: {error}", err=True)


def _answer_lines(run: "Run", as_json: bool) -> None:
    """Answer the lines of a pipe or file in batches: line i of the output is the answer to line i."""
    any_input, failed, stdin = False, 0, lines()
    while batch := list(islice(stdin, AT_ONCE)):
        questions = [run.question(text, fault) for text, fault in batch]
        failed += _print_each(_answers_to_lines(run, questions), as_json)
        any_input = any_input or any(text.strip() for text, _ in batch)
    require(any_input, "there is no input: give one as an argument, or lines on standard input")
    if failed:
        raise typer.Exit(1)


def _answers_to_lines(run: "Run", questions: "Sequence[Question]") -> "list[Answer]":
    """An answer for every line, an empty one for a blank line, so that answer i belongs to line i."""
    from mirada.runs.answers import Answer

    answers = iter(run.answers_to([question for question in questions if not _is_blank(question)]))
    return [Answer(question.cells[0], "", 0.0) if _is_blank(question) else next(answers) for question in questions]


def _is_blank(question: "Question") -> bool:
    """Whether a question is a blank line."""
    return len(question.cells) == 1 and not str(question.cells[0]).strip()


def _questions_of_file(run: "Run", data: str) -> "tuple[Questions, Callable[[Sequence[Question]], list[Answer]]]":
    """The questions of a file, and the function that answers them. Blank lines at the end of a text are dropped."""
    from mirada.data.files.forms import form_of

    with run.explained(data):
        questions = run.task.questions(run, data)
    if len(questions.columns) > 1 or form_of(data).holds != "lines":  # it is a table
        return questions, run.answers_to
    count = max((number for number, each in enumerate(questions.rows, 1) if not _is_blank(each)), default=0)
    return replace(questions, rows=questions.rows[:count]), partial(_answers_to_lines, run)


def _print_each(answers: "Sequence[Answer]", as_json: bool) -> int:
    """Print answers. An error goes to stderr, with an empty line in the output; returns the number of errors."""
    for answer in answers:
        _print_answer(answer, as_json)
        if (answer.error or answer.note) and not as_json:
            echo(f"mirada: {answer.error or answer.note}", err=True)
    return sum(bool(answer.error) for answer in answers)


def _print_answer(answer: "Answer", as_json: bool) -> None:
    """Print one answer: as JSON, as text, or its alternatives with their scores."""
    if as_json:
        echo(json_text(answer.to_dict()))
    elif answer.shown:
        for text, score in answer.ranked[: answer.shown]:
            echo(f"{score:8.4f}  {text}")
    else:
        echo("\t".join([answer.text, *answer.links.values()]))

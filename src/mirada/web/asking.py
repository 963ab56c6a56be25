"""From the body of a request to what is asked of a run: inputs, options, what-ifs."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirada.looking.changes import Change, changes_from
from mirada.runs.answers import Answer
from mirada.runs.questions import Question
from mirada.web.body import Body, SentFile
from mirada.web.limits import Limits, Refused
from mirada.web.served import FILES, ServedRun, ServedRuns, checked_option, draws, from_text, is_text, shown
from mirada.web.uploads import HOW, as_input, as_path, from_json, is_file

RUN_FIELDS = ("inputs", "run", "stream", "changes")
LOOK_FIELDS = ("input", "run", "changes", "methods")


@dataclass(frozen=True, eq=False)
class Asked:
    """What a request asks for. A question that cannot be answered has an error, and hinders no other."""

    served: ServedRun
    questions: tuple[Question, ...]
    ask: Mapping[str, Any]
    draws: (
        bool  # whether answers are drawn at random: they depend on their numbers, and a request is answered as a whole
    )
    changes: Mapping[str, Any]  # by layer, lists of them
    stream: bool = False
    methods: bool = False  # whether rollout, gradients and ablation are wanted beside the weights
    bytes: int = 0  # of memory that the questions hold

    @property
    def key(self) -> tuple[Any, ...] | None:
        """What requests that may be answered together have in common."""
        if self.changes or self.draws:
            return None
        return (self.served.name, *sorted(self.ask.items()))

    def with_questions(self, questions: tuple[Question, ...]) -> "Asked":
        """The same, asked about other inputs."""
        return replace(self, questions=questions)

    def part(self, first: int, last: int) -> "Asked":
        """Some of the questions."""
        if first == 0 and last >= len(self.questions):
            return self
        some = self.questions[first:last]
        return replace(self, questions=some, bytes=self.bytes * len(some) // max(1, len(self.questions)))


def read_run(body: Body, runs: ServedRuns, limits: Limits) -> Asked:
    """What `POST /api/run` asks for."""
    served = runs.find(body.fields.get("run"))
    inputs = given_inputs(body, served, "inputs")
    if not isinstance(inputs, list):
        raise Refused(400, f"inputs must be a list: got {shown(inputs)}")
    if not inputs:
        raise Refused(400, "inputs is empty: there is nothing to answer")
    if len(inputs) > limits.inputs:
        raise Refused(413, f"at most {limits.inputs} inputs a request: got {len(inputs):,}. Send several requests.")
    for number, value in enumerate(inputs):
        check_type(f"inputs[{number}]", value, served)
    asked = read_asked(body, served, inputs, RUN_FIELDS, limits)
    stream = truth(body, "stream")
    if stream and len(inputs) != 1:
        raise Refused(400, f"a stream has one answer: give one input, not {len(inputs)}")
    return replace(asked, stream=True) if stream else asked


def read_look(body: Body, runs: ServedRuns, limits: Limits) -> Asked:
    """What `POST /api/look` asks for."""
    served = runs.find(body.fields.get("run"))
    given = given_inputs(body, served, "input")
    one = given[0] if body.files else given
    if len(body.files) > 1:
        raise Refused(400, f"one input is looked at: got {len(body.files)} files")
    check_type("input", one, served)
    return replace(read_asked(body, served, [one], LOOK_FIELDS, limits), methods=truth(body, "methods"))


def truth(body: Body, name: str) -> bool:
    """A field that is true or false; false where there is none."""
    value = body.fields.get(name, False)
    value = from_text(value, bool) if isinstance(value, str) and not body.typed else value
    if not isinstance(value, bool):
        raise Refused(400, f"{name} must be true or false: got {shown(value)}")
    return value


def given_inputs(body: Body, served: ServedRun, field: str) -> Any:
    """The files of a form, or a field of JSON."""
    task, kind = served.run.task, served.run.task.input_kind
    if body.files:
        if not served.takes_files:
            raise Refused(400, f'{task.name} takes text, not files: send JSON, {{"{field}": ...}}')
        if field in body.fields:
            raise Refused(400, f"give files or {field}, not both")
        return list(body.files)
    if field not in body.fields:
        what = f"{FILES[kind]} as multipart `file`, or {field} with base64" if kind in FILES else field
        raise Refused(400, f"there is nothing to answer: send {what}")
    value = body.fields[field]
    return [value] if field == "inputs" and not body.typed else value  # a form has one text


def check_type(place: str, value: Any, served: ServedRun) -> None:
    """Require text, or a file where the task takes files; what is wrong inside of one concerns this input alone."""
    if isinstance(value, str | SentFile) or (served.takes_files and is_file(value)):
        return
    if served.takes_files:
        raise Refused(400, f"{place} must be a file: got {shown(value)}; {HOW}")
    raise Refused(400, f"{place} must be text: got {shown(value)}")


def read_asked(body: Body, served: ServedRun, inputs: Sequence[Any], own: Sequence[str], limits: Limits) -> Asked:
    """Inputs as questions, and the options."""
    ask, draws = options_of({name: value for name, value in body.fields.items() if name not in own}, served, limits)
    changes = changes_of(body.fields.get("changes"), served, limits)
    pairs = [question_of(value, served, limits) for value in inputs]
    questions, size = tuple(question for question, _ in pairs), sum(size for _, size in pairs)
    return Asked(served, questions, ask, draws, changes, bytes=size)


def options_of(given: Mapping[str, Any], served: ServedRun, limits: Limits) -> tuple[dict[str, Any], bool]:
    """The options of an answer, as on the command line, and whether it is drawn; null is what is left out there."""
    if not given:
        return {}, served.draws
    known, task = served.options, served.run.task.name
    listed = f"it takes {', '.join(known)}" if known else "it takes no options"
    useless = [name for name in given if name not in known]
    if useless:
        raise Refused(400, f"{shown(useless[0])} is not used by {task}; {listed}")
    ask = {name: checked_option(name, value, known[name], limits) for name, value in given.items() if value is not None}
    if isinstance(ask.get("passage"), str):
        ask["passage"] = ask["passage"] or " "  # an empty one is a mistake, not the default
    try:
        return ask, draws(served.run.asked(ask))
    except ValueError as error:
        raise Refused(400, str(error)) from None


def changes_of(given: Any, served: ServedRun, limits: Limits) -> dict[str, list[Change]]:
    """The what-ifs of a request, by layer."""
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise Refused(400, "changes must be a list in JSON") from None
    if isinstance(given, list) and len(given) > limits.changes:
        raise Refused(413, f"at most {limits.changes} changes a request: got {len(given):,}")
    try:
        return changes_from(given)
    except ValueError as error:
        raise Refused(400, str(error)[:1000]) from None


def question_of(value: Any, served: ServedRun, limits: Limits) -> tuple[Question, int]:
    """An input as a question, and the memory it holds; one that cannot be read has an error."""
    task = served.run.task
    if isinstance(value, SentFile) or served.takes_files:
        name = value.name if isinstance(value, SentFile) else "file"
        try:
            file = value if isinstance(value, SentFile) else from_json(value)
            name = file.name
            found, size = as_input(served, file, limits)
            return Question(name, found), size
        except ValueError as error:
            return Question(name, name, error=str(error)), 0
    if not is_text(value):
        clean = value.encode(errors="replace").decode()
        return Question(clean, clean, error="not text: it has half of a surrogate pair. Send UTF-8."), 0
    if len(value) > limits.characters:
        why = f"too long: {len(value):,} characters, at most {limits.characters:,}. Cut it."
        return Question(value[:60], value[:60], error=why), 0
    try:
        return Question(value, task.parse(value)), 4 * len(value)
    except ValueError as error:
        return Question(value, value, error=str(error)), 0


def answered(asked: Asked) -> list[Answer]:
    """The answers to all questions, in their order. In the thread that computes."""
    run = asked.served.run
    if run.task.input_kind == "table":
        return [answered_table_file(asked, question) for question in asked.questions]
    found = run.answers_to(asked.questions, **asked.ask)
    if not asked.served.takes_files:
        return found
    return [replace(answer, input=question.where) for question, answer in zip(asked.questions, found, strict=True)]


def answered_table_file(asked: Asked, question: Question) -> Answer:
    """The answer to a table that was sent; it is told by the name that it was sent as."""
    if question.error:
        return Answer(question.where, "", math.nan, error=question.error)
    with as_path(question.input) as path:
        (answer,) = asked.served.run.answers_to([Question(question.where, path)], **asked.ask)
        return replace(answer, input=question.where, error=answer.error.replace(path, question.where))

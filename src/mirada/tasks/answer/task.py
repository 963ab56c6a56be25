"""answer: a question and a passage in, the words of the passage that answer it out, with the attention of the model."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch

from mirada.data.batching import in_order
from mirada.data.options import TextOptions
from mirada.data.record import Fields, Problem
from mirada.data.text.tokenize import Tokenizer, expected_tokens
from mirada.errors import require
from mirada.models.encoder import TextEncoder
from mirada.models.reader import Reader, best_spans, span_mass
from mirada.runs.answers import Answer
from mirada.runs.ask import PassageAsk
from mirada.runs.choice import SAMPLED, BudgetChoice, SequenceCost, affordable
from mirada.runs.inputs import Questions, Table
from mirada.runs.run import Run
from mirada.runs.sources import SETS, Source, Splits, TrainingRecords, numbered, splits_of
from mirada.runs.task import SAMPLES, Preset, TextTask, sample_evenly
from mirada.tasks.answer.reading import (
    MARKS,
    CharacterSpan,
    EncodedText,
    PassageQuestion,
    PassageWindow,
    QuestionRecord,
    Reading,
    Readings,
    ReadingVocabulary,
    SpanFound,
    collated,
    is_encoder,
    ranked_spans,
    readings,
    span_scores,
)
from mirada.words import plural, shortened

if TYPE_CHECKING:
    from mirada.drawing.page import Section
    from mirada.looking.labels import Labels
    from mirada.looking.record import Seen

PLACES = ("start", "end")  # of an answer, in characters of its passage
READ_AT_ONCE = 8192  # tokens
CUT = "--truncate (in Python and JSON: truncate) cuts it."
SIZES = (  # a unit is a token of a question or its window (decision 27)
    SequenceCost({"width": 96, "hidden": 192, "depth": 1, "heads": 4, "convolutions": 2}, 0.017),
    SequenceCost({"width": 128, "hidden": 256, "depth": 2, "heads": 4, "convolutions": 2}, 0.035, seen=1e6),
    SequenceCost({"width": 192, "hidden": 384, "depth": 3, "heads": 4, "convolutions": 2}, 0.073, seen=2e7, data=5e6),
    SequenceCost({"width": 256, "hidden": 512, "depth": 4, "heads": 4, "convolutions": 2}, 0.136, seen=8e7, data=1.5e7),
)
ENCODERS = tuple(  # without what a reader has before its layers
    replace(size, settings={name: value for name, value in size.settings.items() if name != "convolutions"})
    for size in SIZES
)
WINDOW = 256  # tokens that are read together
CANDIDATES = 20  # spans of a window for each that is requested: most of them overlap


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(TextOptions):
    """Lower-case words by default, and only frequent ones: others are recognized by their marks, and soon memorized."""

    tokenizer: str = "word"
    vocab: int = 2000
    lowercase: bool = True


class AnswerQuestions(TextTask[PassageQuestion, PassageQuestion, ReadingVocabulary]):
    """Answer a question with words of a passage, or say that the passage has no answer."""

    name, input_kind = "answer", "question"
    Data = QuestionOptions
    Ask = PassageAsk
    Known = ReadingVocabulary
    preview_examples = 200
    presets: ClassVar[Mapping[str, Preset]] = {
        "reader": Preset(Reader, {"marks": MARKS, "position": "rotary"}),
        "encoder": Preset(TextEncoder, {"head": "span", "order": "pre", "norm": "layer", "position": "rotary"}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        recipe = {"smoothing": 0.0, "warmup": 200}
        if source.builtin:
            sizes = {"width": 96, "hidden": 192, "depth": 3, "heads": 4, "dropout": 0.0, "length": 128}
            return {"model": sizes, "recipe": recipe | {"lr": 2e-3, "batch_tokens": 2048, "epochs": 8}}
        sizes = {"width": 128, "hidden": 256, "depth": 2, "heads": 4, "dropout": 0.3, "length": 256}
        sizes |= {"convolutions": 2} if model == "reader" else {}
        return {"model": sizes, "recipe": recipe | {"lr": 1e-3, "epochs": 6}}

    def choose(
        self, model: str, splits: Splits[PassageQuestion], options: QuestionOptions, minutes: float
    ) -> BudgetChoice:
        if splits.builtin:
            return BudgetChoice()
        some, count = [record.value for record in sample_evenly(splits.train, SAMPLED)], len(splits.train)
        sizes = [
            min(WINDOW, 3 + sum(expected_tokens(text, "word") for text in (one.question, one.passage))) for one in some
        ]
        mean = sum(sizes) / len(sizes)
        found = affordable(SIZES if model == "reader" else ENCODERS, mean * count, minutes, epochs=6)
        batch = 1536 if found.seen < 5e6 else 4096
        own = {"length": WINDOW, "dropout": found.by_epochs(0.2, (3, 0.3))}
        recipe = {"batch_tokens": batch, "warmup": found.warmup(batch)}
        return found.choice(own, recipe, {}, f"{plural(count, 'question')} of about {mean:.0f} tokens")

    def read(self, source: Source, options: QuestionOptions) -> Splits[PassageQuestion]:
        if source.builtin:
            return _builtin()
        from mirada.tasks.answer.questions import read_questions  # an answer needs no readers of files

        # all questions about a passage are in one split
        splits = splits_of(source, partial(read_questions, options=options), options, group=attrgetter("passage"))
        known, notes = {record.value.passage for record in splits.train}, list(splits.notes)
        for name, part in (("valid", splits.valid), ("test", splits.test)):
            if count := sum(record.value.passage in known for record in part):
                about = "are about passages of the training data, so that they measure less than they seem to"
                notes.append(f"{count:,} questions of {name} {about}")
        return replace(splits, notes=notes)

    def identity(self, value: PassageQuestion) -> bytes:
        return "\x1f".join((value.question, value.passage, str(value.spans))).encode()

    def as_read(self, value: PassageQuestion, known: ReadingVocabulary) -> tuple[str, str]:
        return known.tokenizer.plain(value.question), known.tokenizer.plain(value.passage)

    def learn(
        self, splits: Splits[PassageQuestion], options: QuestionOptions, start: ReadingVocabulary | None
    ) -> ReadingVocabulary:
        return ReadingVocabulary.of([record.value for record in splits.train], options, start)

    def sizes(self, known: ReadingVocabulary) -> dict[str, Any]:
        return {"vocab": len(known)}

    def examples(self, records: Sequence[QuestionRecord], known: ReadingVocabulary, config: Any) -> Readings:
        marks = getattr(config, "marks", 0)
        require(marks in (0, MARKS), f"marks must be {MARKS}, or 0 for none: got {marks}")
        items = readings([record.value for record in records], known.tokenizer, is_encoder(config))
        return Readings(items, config, known.tokenizer)

    def problems(self, records: Sequence[QuestionRecord], examples: Readings, config: Any) -> list[Problem]:
        problems = []
        for record, item in zip(records, examples.items, strict=True):
            lost = record.value.span is not None and item.wanted is None
            what = "the answer has no token. Fix it, or take the record out." if lost else ""
            problems.append(Problem(record.where, item.unreadable(config.length) or what))
        return [problem for problem in problems if problem.what]

    def parse(self, text: str) -> PassageQuestion:
        """A question, or a question and its passage with a tab between them."""
        question, _, passage = text.partition("\t")
        return PassageQuestion(question.strip(), passage)

    def listed(self, given: Any) -> Any:
        if not all(name in getattr(given, "columns", ()) for name in ("question", "context")):
            return super().listed(given)
        return list(
            zip(*(super(AnswerQuestions, self).listed(given[name]) for name in ("question", "context")), strict=True)
        )

    def is_one(self, given: Any) -> bool:
        return not isinstance(given, list)  # a pair is a question and its passage

    def answer(self, run: Run, inputs: Sequence[Any], ask: PassageAsk) -> list[Answer]:
        parsed = (self.parse(given) if isinstance(given, str) else given for given in inputs)
        values = [_with_passage(given, ask.passage) for given in parsed]
        config, length = run.model.config, run.model.config.length
        items = readings(values, run.known.tokenizer, is_encoder(config))
        if ask.truncate:  # half of a window is for the question
            rooms = [max(1, length // 2 - item.frame.size) for item in items]
            cut = [EncodedText._make(x[:room] for x in item.question) for item, room in zip(items, rooms, strict=True)]
            items = [item._replace(question=question) for item, question in zip(items, cut, strict=True)]
        for value, item in zip(values, items, strict=True):
            fault = item.unreadable(length)
            require(not fault, f"{fault} The question is {shortened(value.question)!r}. {CUT}")
            require(bool(item.passage.ids), f"there is nothing to read in the passage of {shortened(value.question)!r}")
        windows = [item.windows(item.first_tokens(length), length) for item in items]
        parts = [(row, part) for row, some in enumerate(windows) for part in some]
        spans: list[list[SpanFound]] = [[] for _ in items]
        for places in in_order([(len(part.tokens),) for _, part in parts], READ_AT_ONCE):
            found = _search(run, [parts[place][1] for place in places], ask.best)
            for place, some in zip(places, found, strict=True):
                spans[parts[place][0]] += some
        return [_answered(run, *each, ask) for each in zip(values, items, spans, strict=True)]

    def questions(self, run: Run, place: str) -> Questions:
        from mirada.tasks.answer.questions import read_unanswered

        options, ask = run.reading, run.ask
        assert isinstance(options, TextOptions)
        assert isinstance(ask, PassageAsk)
        return read_unanswered(place, options, ask.passage)

    def table(self, questions: Questions, answers: Sequence[Answer]) -> Table:
        given = tuple(f"{name}_given" if name in PLACES else name for name in questions.columns)
        columns, rows = super().table(replace(questions, columns=given), answers)
        places = [[answer.more.get(name) for name in PLACES] for answer in answers]
        ends = (("" if place is None else place for place in pair) for pair in places)
        return (*columns, *PLACES), ((*row, *pair) for row, pair in zip(rows, ends, strict=True))

    def measure(self, run: Run, records: Sequence[QuestionRecord]) -> tuple[dict[str, float], list[Answer]]:
        from mirada.tasks.answer.metrics import answer_metrics

        answers = run([record.value for record in records])
        texts, references = [answer.text for answer in answers], [record.value.answers for record in records]
        return answer_metrics(texts, references), answers

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[QuestionRecord]) -> dict[str, float]:
        """The name or number with the most words of the question around it: nothing is learned."""
        from mirada.tasks.answer.metrics import answer_metrics, window_answer

        values = [record.value for record in records]
        guesses = [value.passage[slice(*window_answer(value.question, value.passage))] for value in values]
        metrics = answer_metrics(guesses, [value.answers for value in values])
        return {f"{name}_window": figure for name, figure in metrics.items()}

    def length(self, value: PassageQuestion) -> int:
        return len(value.question.split())

    def amount(self, records: Sequence[QuestionRecord]) -> str:
        return plural(len(records), "question")

    def samples(self, run: Run, splits: Splits[PassageQuestion]) -> list[str]:
        values = [record.value for record in sample_evenly(splits.test or splits.valid, SAMPLES)]
        return [f"{value.question}\t{value.passage}" for value in values]

    def example(self, run: Run, samples: Sequence[str]) -> str:
        value = self.parse(min(samples, key=len, default="...\t..."))
        folder, question = shlex.quote(str(run.folder)), shlex.quote(value.question)
        return f"echo {shlex.quote(value.passage)} | mirada run {folder} {question} --passage -"

    def sections(self, run: Run, records: Sequence[QuestionRecord], answers: Sequence[Answer]) -> list["Section"]:
        from mirada.tasks.answer.report import sections

        return sections(run, records, answers)


def _builtin() -> Splits[PassageQuestion]:
    """Stories about who is where and who has what."""
    from mirada.corpora.texts import embedded_texts

    sets = embedded_texts("stories")

    def value(row: Fields) -> PassageQuestion:
        number, question, *span = row
        spans = ((int(span[0]), int(span[1])),) if span else ()
        return PassageQuestion(question, sets["story"][int(number)][0], spans)

    train, valid, test = (numbered(name, map(value, sets[name])) for name in SETS)
    return Splits(train, valid, test)


def _with_passage(given: Any, passage: str) -> PassageQuestion:
    """An input as a question with its passage: its own, or that of the options."""
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(text, str) for text in given):
        given = PassageQuestion(*given)
    if not isinstance(given, PassageQuestion):
        shown = shortened(str(given))
        raise ValueError(f"an input is a question, or a pair of a question and its passage: got {shown!r}")
    require(bool(given.question.strip()), "there is no question in an input. Give one, such as 'Where is Ana?'")
    value = given if given.passage else replace(given, passage=passage)
    lacks = f"a question needs a passage that contains its answer: {shortened(value.question)!r} has none."
    way_out = "Give it with --passage FILE (in Python and JSON: passage), or after the question and a tab."
    require(bool(value.passage.strip()), f"{lacks} {way_out}")
    return value


def _search(run: Run, windows: Sequence[PassageWindow], best: int) -> list[list[SpanFound]]:
    """For every window, the log-probabilities of "no answer" and of the most likely spans."""
    inputs = collated(windows, run.model.config, run.known.tokenizer)
    scores = span_scores(run.model(**{name: x.to(run.device) for name, x in inputs.items()}), windows)
    start, end = (side.float().log_softmax(-1).cpu() for side in scores)
    none = torch.tensor([[part.none] for part in windows])
    absent = (start.gather(1, none) + end.gather(1, none))[:, 0]
    start = start.scatter(1, none, -torch.inf)
    places, logs = best_spans(start, end, run.known.longest, CANDIDATES * best)
    mass = span_mass(start, end, run.known.longest).logaddexp(absent)  # normalizes over valid spans only
    absent, logs = absent - mass, logs - mass.unsqueeze(1)
    found = []
    for part, nothing, spans, values in zip(windows, absent.tolist(), places.tolist(), logs.tolist(), strict=True):
        ranked = [(log, span) for log, span in zip(values, spans, strict=True) if log > -math.inf]
        likely = [SpanFound(log, part, (part.token(first), part.token(last))) for log, (first, last) in ranked]
        found.append([SpanFound(nothing, part), *likely])
    return found


class AnswerPlace(NamedTuple):
    """The span of an answer in its passage (None: no answer), the spans of the passage's tokens in its window, and that."""

    span: CharacterSpan | None
    read: Sequence[CharacterSpan]
    window: PassageWindow


def _answered(run: Run, value: PassageQuestion, item: Reading, found: Sequence[SpanFound], ask: PassageAsk) -> Answer:
    """The most likely span of all windows and the alternatives; or no answer, where that is more likely in every window."""
    ranked = ranked_spans(found, ask.best, run.known.unanswerable)
    diverged = "the scores of this model are not numbers: its training diverged. Train it with a smaller lr."
    require(bool(ranked), diverged)
    places = item.passage.places
    spans = [(places[each.span[0]][0], places[each.span[1]][1]) if each.span else None for each in ranked]
    texts = [value.passage[slice(*span)] if span else "" for span in spans]
    listed = [(text, math.exp(each.score)) for text, each in zip(texts, ranked, strict=True)]
    text, score = listed[0]
    note = "" if text else f"the passage has no answer to {shortened(value.question)!r} (probability {score:.2f})"
    window = ranked[0].window
    ends = tuple(map(window.place, ranked[0].span)) if ranked[0].span else (window.none, window.none)
    place = AnswerPlace(spans[0], places[window.first : window.first + window.size], window)
    labels = partial(_passage_labels, run.known.tokenizer, value, item, window, ends, listed[0])
    answer = Answer(
        value.question, text, score, place, more=dict(zip(PLACES, spans[0] or (None, None), strict=True)), note=note,
        ranked=tuple(listed) if ask.best > 1 else (), shown=len(listed) if ask.best > 1 else 0,
        replay=partial(_look, run, window, labels),
    )  # fmt: skip
    if not ask.aligned:
        return answer
    # the weights of the question's tokens over those of the passage, averaged over heads; of the last layer but one, if there
    # are several: of the last layer, only the outputs at the passage are used
    seen = answer.look()
    weights = seen[seen.names[-2:][0]].weights()[0].mean(0)
    written = tuple(value.question[slice(*span)] for span in item.question.places)
    read = tuple(value.passage[slice(*span)] for span in place.read)
    asked = len(item.frame.before)
    weights = weights[asked : asked + len(written), window.offset : window.offset + window.size]
    return replace(answer, weights=weights, written=written, read=read)


def _look(run: Run, window: PassageWindow, labels: Callable[[Any], "Labels"], methods: bool = False) -> "Seen":
    """All attention over a window. Methods explain the first position of the answer, then its last."""
    from mirada.looking.explain.compare import Explained

    inputs = collated([window], run.model.config, run.known.tokenizer)
    given = (inputs["tokens"], inputs.get("segments"), None, inputs.get("marks"))
    if is_encoder(run.model.config):
        given = (inputs["tokens"], None, inputs.get("segments"))  # type: ignore[assignment]
    # a row for each step of the labels
    explained = Explained(lambda predicted: torch.stack(list(span_scores(predicted, [window])), dim=1))
    return run.look(*given, labels=labels, methods=methods, explained=explained)


def _passage_labels(
    tokenizer: Tokenizer, value: PassageQuestion, item: Reading, window: PassageWindow, ends: Sequence[int],
    answer: tuple[str, float], predicted: Any,
) -> "Labels":  # fmt: skip
    """The axis labels: the question, then the part of the passage in the window.

    The two steps are the first and the last position of the answer, with the model's ranking of all positions.
    """
    from mirada.looking.labels import ANSWER, RANKED, AxisLabels, Labels, TextLabels, WrittenStep

    text, shift = f"{value.question}\n{value.passage}", len(value.question) + 1
    frame, read = item.frame, item.passage.places[window.first : window.first + window.size]
    passage = ((start + shift, end + shift) for start, end in read)
    around = [[None] * len(part) for part in (frame.before, frame.between, frame.after)]
    spans = (*around[0], *item.question.places, *around[1], *passage, *around[2])
    tokens = tuple(
        (span and text[slice(*span)]) or tokenizer.token(token)
        for token, span in zip(window.tokens, spans, strict=True)
    )
    steps = []
    for row, logits in zip(ends, span_scores(predicted, [window]), strict=True):
        shares = logits[0].float().softmax(-1).cpu()
        top = shares.topk(min(RANKED, int((shares > 0).sum())))
        ranked = zip((tokens[i] for i in top.indices.tolist()), top.values.tolist(), strict=True)
        steps.append(WrittenStep(row, tokens[row], float(shares[row]), tuple(ranked), row))
    named = tuple(f"{side}: {tokens[row]}" for side, row in zip(("first", "last"), ends, strict=True))
    axes = {"text": TextLabels(tokens, text, spans), ANSWER: AxisLabels(named)}
    return Labels(axes, {"*": ("text", "text")}, {"input": value.question}, answer, tuple(steps))

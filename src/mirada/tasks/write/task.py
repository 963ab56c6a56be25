"""write: the beginning of a text in, its continuation out.

An answer imports no more than it needs: what reads files, measures, labels and draws is imported where it is used.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mirada.data.batching import BatchSource, Microbatch
from mirada.data.record import Found, Problem, Record, shared_out
from mirada.data.text.tokenize import Vocabulary, expected_tokens
from mirada.decoding.beam import Beam
from mirada.decoding.continuous import Answering, SearchJob, answered_alone
from mirada.decoding.greedy import Choice, hypothesis_of
from mirada.errors import require
from mirada.models.gpt import GPT
from mirada.runs.answers import Answer, WrittenPiece
from mirada.runs.ask import WriteAsk
from mirada.runs.choice import BudgetChoice, SequenceCost, affordable
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, TrainingRecords, splits_of
from mirada.runs.task import Preset, TextTask
from mirada.tasks.write.continuation import (
    GrowingText,
    continued,
    document_of,
    ends_of,
    is_foreign,
    prompts_of,
    rules_of,
    usual_ask,
)
from mirada.tasks.write.packing import DOCUMENTS, PackedDocuments, WriteOptions, WriteVocabulary, packed_in_order
from mirada.tasks.write.windows import TextTokens, Windows, in_order, window_part
from mirada.training.recipe import Recipe

if TYPE_CHECKING:
    from mirada.drawing.page import Section
    from mirada.looking.labels import Labels
    from mirada.runs.alignments import Alignments

TOKENS = 300
WINDOW = 1024  # tokens of a window at most, of an imported model: it may read more at once than anybody can train with
VALID_SHARE = 0.1
MANY = 20  # documents, of which whole ones are held out
MOST_WEIGHTS = 1 << 24  # kept with an answer
SIZES = (  # a unit is a token (decision 27)
    SequenceCost({"width": 64, "hidden": 256, "depth": 2, "heads": 4, "length": 64}, 0.014),
    SequenceCost({"width": 128, "hidden": 512, "depth": 4, "heads": 4, "length": 64}, 0.048, seen=3e5, data=1e4),
    SequenceCost({"width": 192, "hidden": 768, "depth": 4, "heads": 4, "length": 128}, 0.083, seen=5e6, data=2e5),
    SequenceCost({"width": 256, "hidden": 1024, "depth": 6, "heads": 4, "length": 256}, 0.24, seen=1e7, data=1e6),
)
PROMPT = 24  # characters of the sample prompts


class Write(TextTask[str, str, WriteVocabulary]):
    """Continue a text with a causal language model."""

    name = "write"
    Data = WriteOptions
    Ask = WriteAsk
    Known = WriteVocabulary
    input_columns = ("text",)
    preview_options: ClassVar[Mapping[str, Any]] = {"tokens": 60}
    presets: ClassVar[Mapping[str, Preset]] = {"gpt": Preset(GPT)}
    streams = True

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        width, length, dropout = (128, 64, 0.0) if (minutes or 2) < 8 else (192, 128, 0.1)
        sizes = {"width": width, "hidden": 4 * width, "depth": 4, "heads": 4, "length": length, "dropout": dropout}
        recipe = {"lr": 2e-3, "warmup": 100, "smoothing": 0.0, "batch_tokens": 1024, "patience": 0, "average": 0}
        return {"model": sizes, "recipe": recipe if minutes else recipe | {"minutes": 2.0}}

    def choose(self, model: str, splits: Splits[str], options: WriteOptions, minutes: float) -> BudgetChoice:
        if splits.builtin:
            return BudgetChoice()
        tokens = sum(expected_tokens(record.value, options.tokenizer) for record in splits.train)
        found = affordable(SIZES, tokens, minutes, epochs=4)
        own = {"position": "rotary", "dropout": found.by_epochs(0.0, (6, 0.1), (30, 0.2), (100, 0.3))}
        recipe = {"batch_tokens": 1024, "warmup": found.warmup(1024)}
        return found.choice(own, recipe, {}, self.amount(splits.train))

    def read(self, source: Source, options: WriteOptions) -> Splits[str]:
        if source.builtin:
            from mirada.corpora.manual import manual

            return _divided(Found([Record("builtin manual", manual())]), options)
        return splits_of(
            source, partial(_texts_of, options=options), options, divide=partial(_divided, options=options)
        )

    def learn(self, splits: Splits[str], options: WriteOptions, start: Vocabulary | None) -> WriteVocabulary:
        return WriteVocabulary.learn([record.value for record in splits.train], options, start).packed(options.packing)

    def sizes(self, known: WriteVocabulary) -> dict[str, Any]:
        return {"vocab": len(known)}

    def examples(self, records: Sequence[Record[str]], known: WriteVocabulary, config: Any) -> TextTokens:
        texts = known.tokenizer.encode_all([record.value for record in records])
        documents = [document_of(known.tokenizer, ids) for ids in texts]
        tokens = torch.tensor([token for ids in documents for token in ids], dtype=torch.long)
        lengths = tuple(map(len, documents)) if known.packing == DOCUMENTS else None
        if not is_foreign(known.tokenizer):
            return TextTokens(tokens, config.length, lengths=lengths)
        return TextTokens(tokens, min(config.length, WINDOW), tuple(sorted(known.tokenizer.special)), lengths)

    def batches(self, examples: TextTokens, recipe: Recipe) -> BatchSource:
        if examples.lengths is not None:
            return PackedDocuments(examples.tokens, examples.lengths, examples.reach, recipe.batch_tokens, recipe.seed)
        rows = max(1, recipe.batch_tokens // examples.reach)
        return Windows(examples.tokens, examples.reach, rows, recipe.seed)

    def in_order(self, examples: TextTokens, recipe: Recipe) -> list[Microbatch]:
        if examples.lengths is not None:
            return packed_in_order(
                examples.tokens, examples.lengths, examples.reach, recipe.batch_tokens, examples.uncounted
            )
        rows = max(1, recipe.batch_tokens // examples.reach)
        batches = in_order(examples.tokens, examples.reach, rows)
        return [window_part(tokens, examples.counted(wanted)) for tokens, wanted in batches]

    def usual_ask(self, run: Run) -> WriteAsk:
        return usual_ask(run)

    def answer(self, run: Run, inputs: Sequence[str], ask: WriteAsk) -> list[Answer]:
        return answered_alone(self.answering(run, inputs, ask))  # type: ignore[no-any-return]

    def answering(self, run: Run, inputs: Sequence[str], ask: WriteAsk) -> Answering:
        prompts, answers = prompts_of(run, inputs, ask), list[Answer]()
        for number, (text, prompt) in enumerate(zip(inputs, prompts, strict=True)):
            answers.append((yield from self.write(run, text, prompt, ask, number)))
        return answers

    def write(self, run: Run, text: str, prompt: list[int], ask: WriteAsk, number: int) -> Answering:
        """The text and its continuation, in rounds if that is longer than the context of the model."""
        search, looked, score, ends = ask.search(), ask.attention(), 0.0, ends_of(run)
        written, rounds, finished, stepper = list[int](), list[tuple[int, int]](), False, looked.watch(run.stepper)
        for state, first, most, start in _rounds(run, stepper, prompt, written, ask.tokens or TOKENS):
            rounds.append((start, len(prompt) + len(written)))
            _check_rounds(run, looked, len(rounds))
            numbers, rules = [number + len(written)], rules_of(run, [*prompt, *written], ask)
            arguments = {"stepper": stepper, "state": state, "first": first, "end": ends or None, "most": most}
            ((best, *_),) = yield SearchJob(search, arguments | {"numbers": numbers, "rules": rules})
            written += best.tokens
            score += best.logprob
            if finished := best.finished:
                break
        answer = self.written(run, text, ask, prompt, written, (score, finished), rounds[-1][0])
        answer = replace(answer, **looked.fields(best, len(answer.read))) if looked.wanted else answer
        wanted = ask.aligned and bool(written)
        return _with_weights(run, answer, [*prompt, *written], rounds) if wanted else answer

    def written(
        self,
        run: Run,
        text: str,
        ask: WriteAsk,
        prompt: list[int],
        written: list[int],
        score: tuple[float, bool],
        start: int,
    ) -> Answer:
        """The answer: the text and the tokens written after it, or in a chat these alone.

        `score` is the sum of the log-probabilities, and whether the end of the text was the last of them; `start` the first
        token that was read for the last one.
        """
        pieces = [run.known.tokenizer.token(token) for token in (*prompt, *written)]
        seen = [*prompt, *written][-run.model.config.length :]
        more, (total, finished) = continued(run, prompt, written), score
        answer = Answer(
            text, more if ask.chat else text + more, total / max(1, len(written) + finished), read=tuple(pieces[:-1]),
            written=tuple(pieces[len(prompt) :]), note=_note(run, start, written),
        )  # fmt: skip
        labels = partial(_labels_of, run, answer, seen, len(written))
        return replace(answer, replay=partial(run.look, torch.tensor([seen]), labels=labels))

    def stream(self, run: Run, text: str, ask: WriteAsk) -> Generator[str, None, Answer | None]:
        search = ask.search()
        if isinstance(search, Beam):  # it picks the best text at the end
            return (yield from super().stream(run, text, ask))
        score, start, ends, looked = 0.0, 0, ends_of(run), ask.attention()
        (prompt,), written, known = prompts_of(run, [text], ask), list[int](), run.known.tokenizer
        if not ask.chat:
            yield text
        growing, stepper, path = GrowingText(known.decode, prompt), looked.watch(run.stepper), list[Choice]()
        for state, first, most, begun in _rounds(run, stepper, prompt, written, ask.tokens or TOKENS):
            _check_rounds(run, looked, 1 + bool(path))
            start, path, rules, number = begun, [], rules_of(run, [*prompt, *written], ask), len(written)
            for choice in search.stream(stepper, state, first, ends or None, most, number=number, rules=rules):
                path.append(choice)
                if choice.token in ends:
                    break
                written.append(choice.token)
                if (piece := growing.add(choice.token)) or looked.wanted:
                    yield WrittenPiece(piece, known.token(choice.token), looked.of(choice.look))
            score += sum(choice.logprob for choice in path)
            if path[-1].token in ends:
                break
        answer = self.written(run, text, ask, prompt, written, (score, path[-1].token in ends), start)
        more = looked.fields(hypothesis_of(path, ends), len(answer.read)) if looked.wanted else {}
        return replace(answer, **more)

    def measure(self, run: Run, records: Sequence[Record[str]]) -> tuple[dict[str, float], list[Answer]]:
        from mirada.tasks.write.metrics import loss_metrics
        from mirada.training.distributed import ProcessGroup
        from mirada.training.objectives import evaluate

        recipe = Recipe(batch_tokens=4096)
        parts = self.in_order(self.examples(records, run.known, run.model.config), recipe)
        loss = evaluate(self.objective(run.model, recipe).eval(), parts, ProcessGroup(device=run.device))["loss"]
        return loss_metrics(loss, sum(part.tokens for part in parts), records), []

    def headline_metrics(self, found: Mapping[str, float]) -> dict[str, float]:
        from mirada.training.metrics import perplexity

        return {"perplexity": perplexity(found["loss"])}

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[Record[str]]) -> dict[str, float]:
        """An n-gram model: predictions from the last few tokens."""
        from mirada.tasks.write.metrics import loss_metrics, ngram_loss

        known, asked = (self.examples(part, run.known, run.model.config).tokens for part in (learned(), records))
        loss = ngram_loss(known.numpy(), asked.numpy(), len(run.known))
        return {f"{name}_ngram": value for name, value in loss_metrics(loss, len(asked) - 1, records).items()}

    def samples(self, run: Run, splits: Splits[str]) -> list[str]:
        return [beginning(splits.valid[0].value)]

    def amount(self, records: Sequence[Record[str]]) -> str:
        return f"{sum(len(record.value) for record in records):,} characters"

    def sections(self, run: Run, records: Sequence[Record[str]], answers: Sequence[Answer]) -> "list[Section]":
        from mirada.tasks.write.report import sections

        return sections(run, records)


def _check_rounds(run: Run, looked: "Alignments", rounds: int) -> None:
    """Refuse alignments of a text that the model reads in several parts."""
    once = f"the model reads {run.model.config.length} tokens at once, and alignments are those of one reading"
    require(rounds == 1 or not looked.wanted, f"{once}: ask for fewer tokens, or give a shorter text")


def beginning(text: str) -> str:
    """The beginning of the first complete line of a text, without a partial word at its end.

    >>> beginning("of a line.\\nThe first complete line of it\\n")
    'The first complete line'
    """
    rest = text.partition("\n")[2].lstrip() or text
    return rest[:PROMPT].split("\n")[0].rsplit(" ", 1)[0]


def _labels_of(run: Run, answer: Answer, tokens: list[int], written: int, logits: Tensor) -> "Labels":
    """The axis labels: the tokens in the context of the model. Each row predicts the token after it."""
    from mirada.looking.labels import Labels, written_axis, written_steps  # an answer is labeled when it is looked at

    known = run.known.tokenizer
    start, rest = (tokens[:1], tokens[1:]) if tokens[0] == known.start else ([], tokens)
    first = max(0, len(tokens) - written - 1)
    return Labels(
        {"text": written_axis(known, rest, start)}, {"*": ("text", "text")}, {"input": answer.input},
        (answer.text, answer.score), written_steps(logits[0], tokens[first + 1 :], known, first),
    )  # fmt: skip


def _with_weights(run: Run, answer: Answer, tokens: list[int], rounds: Sequence[tuple[int, int]]) -> Answer:
    """An answer with the weights of every written token over all tokens before it: of the last layer, averaged over heads, 0
    outside the model's context. If there are more than `MOST_WEIGHTS`, a note replaces them.

    `rounds` has for each round the positions of the first token read and of the first token written.
    """
    first = rounds[0][1]
    if (len(tokens) - first) * len(tokens) > MOST_WEIGHTS:
        return replace(answer, note="the text is too long to keep its weights: ask for fewer tokens, or give less text")
    weights = torch.zeros(len(tokens) - first, len(tokens) - 1)
    ends = [*(begun for _, begun in rounds[1:]), len(tokens)]
    for (start, begun), end in zip(rounds, ends, strict=True):
        seen = run.look(torch.tensor([tokens[start : end - 1]]))
        rows = seen[seen.names[-1]].weights(rows=slice(begun - 1 - start, None))[0].float().mean(0)
        weights[begun - first : end - first, start : end - 1] = rows.cpu()
    return replace(answer, weights=weights)


def _note(run: Run, start: int, written: Sequence[int]) -> str:
    """What a person should know: that an imported model did not see all of a text, or wrote nothing."""
    length = run.model.config.length
    if start and run.settings.origin:
        return f"the text is longer than the {length:,} tokens that the model reads at once: it went on from the last of them"
    return "" if written else "the model ended the text at once"


def _texts_of(data: Any, options: WriteOptions) -> Found[str]:
    """The texts of files and folders (a list with commas) and their bad lines; of rows of a table; or texts in memory.

    A table is read as rows where its texts are documents, or where the column is named; Parquet is nothing but a table.
    """
    from mirada.data.files.folders import files_note, texts_at
    from mirada.data.files.forms import PARQUET, form_of
    from mirada.data.files.memory import rows_in_memory
    from mirada.data.files.opening import read_text

    by_rows = options.packing == DOCUMENTS or options.describes_table
    form = form_of(data) if isinstance(data, str) else None
    if form is None or form is PARQUET or (form.is_table and by_rows):
        from mirada.data.files.records import read_records

        in_memory = form is None
        found = rows_in_memory(data, ("text",)) if in_memory else read_records(data, ("text",), options)
        return Found([Record(record.where, record.value[0]) for record in found.records], found.problems, found.notes)
    records, problems, files = list[Record[str]](), list[Problem](), texts_at(data)
    for path in files:
        text, bad = read_text(path, options.encoding)
        problems += bad
        records += [Record(path, text)] if text.strip() else []
    return Found(records, problems, files_note(data, files))


def _divided(found: Found[str], options: WriteOptions) -> Splits[str]:
    """Every text divided: its end is held out, as the task is to continue texts. Of many documents, whole ones are held out."""
    shares = options.shares or (1 - VALID_SHARE, VALID_SHARE)
    if options.packing == DOCUMENTS and len({record.value for record in found.records}) >= MANY:
        sets = shared_out(found.records, shares, group=str)
        return Splits(sets[0], sets[1], sets[2] if len(sets) > 2 else (), problems=found.problems)
    ends = list(accumulate(shares))
    parts: list[list[Record[str]]] = [[], [], []]
    for record in found.records:
        cuts = [0, *(round(len(record.value) * end) for end in ends[:-1]), len(record.value)]
        for part, (first, last) in zip(parts, pairwise(cuts), strict=False):
            part.append(Record(record.where, record.value[first:last]))
    train, valid, test = parts
    return Splits(train, valid, test, problems=found.problems)


def _rounds(
    run: Run, stepper: Any, prompt: list[int], written: list[int], wanted: int
) -> Iterator[tuple[Any, Tensor, int, int]]:
    """Rounds of writing, until `written`, which the caller extends, has as many tokens as wanted. Each round is: the state
    after all tokens but the last, that token, how many tokens to write at most, and the position of the first token read.

    A text that fills the context of the model is continued from its last half.
    """
    reach = run.model.config.length
    while len(written) < wanted:
        tokens = [*prompt, *written]
        start = len(tokens) - max(1, reach // 2) if len(tokens) >= reach else 0
        state, tokens = stepper.start(1), tokens[start:]
        if len(tokens) > 1:
            _, state = stepper.step(torch.tensor([tokens[:-1]], device=run.device), state)
        most = min(reach - len(tokens) + 1, wanted - len(written))
        yield state, torch.tensor(tokens[-1:], device=run.device), most, start

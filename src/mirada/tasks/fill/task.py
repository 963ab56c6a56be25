"""fill: a text with a gap in, the missing word out; and whether one sentence follows another.

An answer imports no more than it needs: what reads files, measures, labels and draws is imported where it is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from mirada.data.batching import Bucketed
from mirada.data.options import TextOptions
from mirada.data.record import Fields, Found, Problem, TableRow, too_long
from mirada.data.text.tokenize import Vocabulary, expected_tokens
from mirada.layers.model import Model
from mirada.models.bert import BERT, BERTConfig
from mirada.models.encoder import TextEncoder
from mirada.runs.answers import Answer
from mirada.runs.ask import TextRankAsk
from mirada.runs.choice import SAMPLED, BudgetChoice, SequenceCost, affordable
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, TrainingRecords, embedded, from_tables
from mirada.runs.task import Preset, TextTask, sample_evenly
from mirada.tasks.fill.gaps import askable, fill_gap, with_gap
from mirada.tasks.fill.masking import FillObjective, SentencePairs, WordObjective
from mirada.training.objectives import Objective
from mirada.training.recipe import Recipe

if TYPE_CHECKING:
    from mirada.drawing.page import Section

COLUMNS = ("first", "second")
SIZES = (  # a unit is a token (decision 27)
    SequenceCost({"width": 96, "hidden": 256, "depth": 2, "heads": 4}, 0.031),
    SequenceCost({"width": 128, "hidden": 512, "depth": 3, "heads": 4}, 0.045, seen=1e6, data=2e4),
    SequenceCost({"width": 192, "hidden": 768, "depth": 4, "heads": 4}, 0.105, seen=2e7, data=1e6),
    SequenceCost({"width": 256, "hidden": 1024, "depth": 6, "heads": 4}, 0.23, seen=8e7, data=1e7),
)
LENGTHS = (128, 256, 512)  # of the longest pair that is read


class Fill(TextTask[str, Fields, Vocabulary]):
    """Words for a gap in a text, by a masked language model that reads both sides of it."""

    name = "fill"
    Data = TextOptions
    Ask = TextRankAsk
    Known = Vocabulary
    input_columns = ("text", "first")
    preview_examples = 200
    presets: ClassVar[Mapping[str, Preset]] = {
        "bert": Preset(BERT),
        "encoder": Preset(TextEncoder, {"head": "mask", "transform": "gelu:norm=yes", "position": "rotary"}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        sizes = {"width": 128, "hidden": 512, "depth": 3, "heads": 4, "length": 128, "order": "pre"}
        recipe = {"batch_tokens": 2048, "lr": 2e-3, "warmup": 200, "smoothing": 0.0, "patience": 0, "epochs": 15}
        return {"model": sizes, "recipe": recipe}

    def choose(self, model: str, splits: Splits[Fields], options: TextOptions, minutes: float) -> BudgetChoice:
        if splits.builtin:
            return BudgetChoice()
        some, count = sample_evenly(splits.train, SAMPLED), len(splits.train)
        sizes = [sum(expected_tokens(text, options.tokenizer) for text in record.value) + 3 for record in some]
        mean = sum(sizes) / len(sizes)
        found = affordable(SIZES, mean * count, minutes, epochs=15)
        batch = 1024 if found.seen < 1e7 else 2048
        length = next((length for length in LENGTHS if 2 * max(sizes) <= length), LENGTHS[-1])
        own = {"position": "rotary", "length": length, "dropout": found.by_epochs(0.1, (60, 0.2))}
        recipe = {"batch_tokens": batch, "warmup": found.warmup(batch)}
        return found.choice(own, recipe, {}, f"{count:,} pairs of about {mean:.0f} tokens")

    def read(self, source: Source, options: TextOptions) -> Splits[Fields]:
        if source.builtin:
            return embedded("places")
        from mirada.data.files.forms import form_of
        from mirada.data.files.records import read_records
        from mirada.tasks.fill.passages import read_passages

        def read(place: str) -> Found[Fields]:
            """Pairs of sentences from a table, or consecutive passages of text files."""
            is_table = form_of(place).is_table
            return read_records(place, COLUMNS, options) if is_table else read_passages(place, options.encoding)

        return from_tables(source, COLUMNS, options, read)

    def learn(self, splits: Splits[Fields], options: TextOptions, start: Vocabulary | None) -> Vocabulary:
        return Vocabulary.learn([text for record in splits.train for text in record.value], options, start)

    def sizes(self, known: Vocabulary) -> dict[str, Any]:
        return {"vocab": len(known)}

    def examples(self, records: Sequence[TableRow], known: Vocabulary, config: Any) -> SentencePairs:
        sides = [known.tokenizer.encode_all([record.value[side] for record in records]) for side in (0, 1)]
        ends = frozenset(number for number in range(len(known)) if known.tokenizer.token(number) in ".!?…")
        pairs = SentencePairs(list(zip(*sides, strict=True)), known.tokenizer, ends)
        return replace(pairs, ordered=isinstance(config, BERTConfig), told_apart=config.segments > 1)

    def problems(self, records: Sequence[TableRow], examples: SentencePairs, config: Any) -> list[Problem]:
        return too_long(records, examples.lengths, config.length, ("the pair",))

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        return (FillObjective if isinstance(model, BERT) else WordObjective)(model, recipe.smoothing)

    def batches(self, examples: SentencePairs, recipe: Recipe) -> Bucketed:
        return Bucketed(replace(examples, seed=recipe.seed), recipe.batch_tokens, recipe.seed)

    def answer(self, run: Run, inputs: Sequence[str], ask: TextRankAsk) -> list[Answer]:
        return [fill_gap(run, text, ask) for text in inputs]

    def measure(self, run: Run, records: Sequence[TableRow]) -> tuple[dict[str, float], list[Answer]]:
        from mirada.tasks.fill.metrics import model_accuracy

        examples = self.examples(records, run.known, run.model.config)
        return model_accuracy(run, self.in_order(examples, Recipe(batch_tokens=4096))), []

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[TableRow]) -> dict[str, float]:
        from mirada.tasks.fill.metrics import plain_accuracy

        known, asked = (self.examples(part, run.known, run.model.config) for part in (learned(), records))
        return plain_accuracy(known, self.in_order(asked, Recipe(batch_tokens=4096)))

    def samples(self, run: Run, splits: Splits[Fields]) -> list[str]:
        if run.source.builtin:
            return ["Ana va al cine a ver una nueva ___.", "Luis va al museo a ver una nueva ___."]
        return [with_gap(record.value[0]) for record in askable(splits.valid, 3)]

    def sections(self, run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> "list[Section]":
        from mirada.tasks.fill.report import sections

        return sections(run, records)

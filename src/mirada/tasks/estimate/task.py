"""estimate: a text or a row of a table in, a number out, with the words or columns that the model attends to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.data.batching import BatchSource, Bucketed, EncodedRecords, Microbatch, in_buckets, in_order, pad
from mirada.data.record import Found, Problem, Record, held_out, shared_out, too_long
from mirada.errors import require
from mirada.layers.model import Model
from mirada.models.classifier import Classifier
from mirada.runs.answers import Answer
from mirada.runs.ask import AskOptions
from mirada.runs.choice import BudgetChoice
from mirada.runs.inputs import Question, Questions
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, TrainingRecords, numbered, splits_of
from mirada.runs.task import MOST_EXAMPLE, Preset, Task, sample_evenly, shortened_at_word
from mirada.tasks.estimate.columns import TableColumns, by_column
from mirada.tasks.estimate.rows import EstimateOptions, MeasuredRow, asked_cells, cells_of, read_measured
from mirada.training.objectives import Objective
from mirada.training.recipe import Recipe

if TYPE_CHECKING:
    from mirada.drawing.page import Section
    from mirada.looking.labels import Labels

READ_AT_ONCE = 8192  # tokens
SHARES = 21  # from 0 to 1, of the network in an estimate
SMALL = 2_000  # rows, of which a larger share is held out: it decides how much the network counts
SMALL_SHARE, USUAL_SHARE = 0.15, 0.05
SAMPLES = 5  # inputs whose answers are shown
DIGITS = 3  # of the deviation of the target: more of an estimate mean nothing
Encoded = tuple[list[int], list[float], float]  # tokens, values of numbers, the wanted number


class ValueLoss(Objective):
    """The distance between an estimated number and the right one, in deviations: squared near it, straight far from it.

    The best weights are those with the smallest mean distance.

    Huber (1964).
    """

    selection_metrics = ("error",)

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The mean loss over one part."""
        return self._both(**inputs)[:1]

    def validate(self, **inputs: Any) -> Float[Tensor, " terms_and_judged"]:
        return self._both(**inputs)

    def _both(self, wanted: Float[Tensor, " batch"], **inputs: Any) -> Float[Tensor, " two"]:
        estimates = self.model(**inputs)[:, 0]
        return torch.stack([F.smooth_l1_loss(estimates, wanted), (estimates - wanted).abs().mean()])

    def quality(self, rank: tuple[float, float]) -> str:
        return f"valid error {rank[0]:.4f} deviations"


class Estimate(Task[Any, MeasuredRow, TableColumns]):
    """Estimate a number from the columns of a table, or from a text, with a network with attention and a ridge regression."""

    name, input_kind = "estimate", "text"
    Data = EstimateOptions
    Known = TableColumns
    plain_words: ClassVar[Mapping[str, str]] = {"mean": "the mean", "ridge": "ridge regression"}
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(Classifier, {"encoder": "transformer", "position": "rotary", "pool": "attention"}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        sizes = {"width": 64, "hidden": 128, "depth": 2, "dropout": 0.0 if source.builtin else 0.1}
        recipe = {"batch_tokens": 1024, "warmup": 100, "lr": 3e-3, "epochs": 15, "patience": 10.0, "smoothing": 0.0}
        return {"model": sizes, "recipe": recipe}

    def choose(self, model: str, splits: Splits[MeasuredRow], options: EstimateOptions, minutes: float) -> BudgetChoice:
        if splits.train[0].where.startswith("builtin") or (splits.problems and options.bad == "stop"):
            return BudgetChoice()
        from mirada.tasks.estimate.choice import chosen_for

        return chosen_for(splits.train, minutes)

    # from rows to examples

    def read(self, source: Source, options: EstimateOptions) -> Splits[MeasuredRow]:
        if source.builtin:
            return _builtin()

        def read(place: Any) -> Found[MeasuredRow]:
            return read_measured(place, options)

        def divide(found: Found[MeasuredRow]) -> Splits[MeasuredRow]:
            rows = found.records
            if options.shares:
                train, valid, *rest = shared_out(rows, options.shares, _inputs)
                return Splits(train, valid, rest[0] if rest else ())
            return Splits(*held_out(rows, SMALL_SHARE if len(rows) < SMALL else USUAL_SHARE, group=_inputs))

        return splits_of(source, read, options, group=_inputs, divide=divide)

    def identity(self, value: MeasuredRow) -> bytes:
        return "\x1f".join((*value.cells, repr(value.target))).encode(errors="surrogatepass")

    def learn(self, splits: Splits[MeasuredRow], options: EstimateOptions, start: TableColumns | None) -> TableColumns:
        known = TableColumns.learn(splits.train, splits.valid, options)
        if start is None:
            return known
        mine, theirs = ([c.name for c in each.columns] for each in (known, start))
        require(mine == theirs, f"a run that starts from another reads the same columns: {theirs}, not {mine}")
        return replace(known, columns=start.columns, tokenizer=start.tokenizer, mean=start.mean, scale=start.scale)

    def options_for_new_data(self, options: EstimateOptions, known: TableColumns) -> EstimateOptions:
        return replace(options, target=options.target or known.target, inputs="")

    def sizes(self, known: TableColumns) -> dict[str, Any]:
        return {"vocab": len(known), "classes": 1, "numbers": known.numbers}

    def examples(
        self, records: Sequence[Record[MeasuredRow]], known: TableColumns, config: Any
    ) -> EncodedRecords[Encoded]:
        if not records:
            return EncodedRecords([], [], collate)
        tokens, values = known.encoded(by_column(_names(known), records))
        long = sum(len(row) > config.length for row in tokens)
        note = f"{long:,} of {len(tokens):,} texts are longer than length={config.length} tokens: the network reads the beginning"
        wanted = ((record.value.target - known.mean) / known.scale for record in records)
        items = [(row[: config.length], own, right) for row, own, right in zip(tokens, values, wanted, strict=True)]
        return EncodedRecords(items, [(len(item[0]),) for item in items], collate, note if long else "")

    def problems(self, records: Sequence[Record[MeasuredRow]], examples: Any, config: Any) -> list[Problem]:
        return too_long(records, examples.lengths, config.length, ("row",)) if records else []

    def objective(self, model: Model, recipe: Recipe) -> ValueLoss:
        return ValueLoss(model)

    def batches(self, examples: Any, recipe: Recipe) -> BatchSource:
        return Bucketed(examples, recipe.batch_tokens, recipe.seed)

    def in_order(self, examples: Any, recipe: Recipe) -> Sequence[Microbatch]:
        return in_buckets(examples, recipe.batch_tokens)

    # from an input to a number

    def answer(self, run: Run, inputs: Sequence[Any], ask: AskOptions) -> list[Answer]:
        known: TableColumns = run.known
        names = _names(known)
        asked = [asked_cells(given, names, known.text) for given in inputs]
        for given, cells in zip(inputs, asked, strict=True):
            require(any(cells.values()), f"there is nothing to estimate {known.target} from in {str(given)[:60]!r}")
        rows = {name: [cells.get(name, "") for cells in asked] for name in names}
        tokens, _ = known.encoded(rows)
        network, ridge = self._both(run, rows)
        estimates = known.mean + known.scale * (known.share * network + (1 - known.share) * ridge)
        places = max(0, DIGITS - 1 - math.floor(math.log10(known.scale))) if known.scale > 0 else DIGITS
        reader = "both" if 0 < known.share < 1 else "attention" if known.share else "ridge"
        answers = []
        for row, (given, cells) in enumerate(zip(inputs, asked, strict=True)):
            value = float(estimates[row])
            shown = given if isinstance(given, str) else ", ".join(f"{name}={cell}" for name, cell in cells.items())
            read = known.described(cells, tokens[row][: run.model.config.length])
            parts = tuple(known.mean + known.scale * float(each[row]) for each in (network, ridge))
            replay = partial(self._look, run, cells, shown, f"{value:.{places}f}", read)
            answers.append(
                Answer(
                    shown, f"{value:.{places}f}", math.nan, (value, *parts), read=read, replay=replay,
                    more={"value": value, "reader": reader},
                )
            )  # fmt: skip
        return answers

    def _both(self, run: Run, rows: Mapping[str, Sequence[str]]) -> tuple[Tensor, Tensor]:
        """What the network and the ridge regression estimate, in deviations from the mean."""
        known: TableColumns = run.known
        tokens, values = known.encoded(rows)
        items = [row[: run.model.config.length] for row in tokens]
        network = torch.empty(len(items))
        for some in in_order([(len(item),) for item in items], READ_AT_ONCE):
            inputs = collate([(items[row], values[row], 0.0) for row in some]).inputs
            inputs.pop("wanted")
            given = {name: value.to(run.device) for name, value in inputs.items()}
            network[some] = run.model(**given)[:, 0].float().cpu()
        return network.double(), known.ridge.estimates(known.columns, rows).double()

    def _look(
        self, run: Run, cells: Mapping[str, str], shown: str, text: str, read: Sequence[str], methods: bool = False
    ) -> Any:
        """All attention while one row is read."""
        known: TableColumns = run.known
        tokens, values = known.encoded({name: [cells.get(name, "")] for name in _names(known)})
        given = collate([(tokens[0][: run.model.config.length], values[0], 0.0)]).inputs
        inputs = [given["tokens"], given["lengths"], *([given["values"]] if known.numbers else [])]
        return run.look(*inputs, labels=partial(row_labels, read, shown, (text, None)), methods=methods)

    def questions(self, run: Run, place: str) -> Questions:
        options = run.reading
        assert isinstance(options, EstimateOptions)
        table = cells_of(place, options)
        known: TableColumns = run.known
        missing = [name for name in _names(known) if name not in table.names]
        require(not missing, f"{place}: there is no column {', '.join(missing)}, which is read")
        rows = [
            Question(
                where, {n: cell for n, cell in zip(table.names, cells, strict=True) if n in _names(known)}, cells, fault
            )
            if not fault
            else Question(where, "", cells, fault)
            for where, cells, fault in table.rows
        ]
        return Questions(table.names, rows)

    def samples(self, run: Run, splits: Splits[MeasuredRow]) -> list[str]:
        some = sample_evenly(splits.test or splits.valid, SAMPLES)
        columns = [column.name for column in run.known.columns]
        if run.known.text:
            return [record.value.cells[record.value.names.index(run.known.text)] for record in some]
        return [
            ", ".join(
                f"{n}={c}" for n, c in zip(record.value.names, record.value.cells, strict=True) if c and n in columns
            )
            for record in some
        ]

    def example(self, run: Run, samples: Sequence[str]) -> str:
        shortest = min(samples, key=len, default="...")
        return super().example(run, [shortened_at_word(shortest, MOST_EXAMPLE) if run.known.text else shortest])

    # from numbers to a report

    def calibrate(self, run: Run, records: Sequence[Record[MeasuredRow]]) -> TableColumns:
        """How much the network and the ridge regression count, as the records to validate on have it."""
        known: TableColumns = run.known
        network, ridge = self._both(run, by_column(_names(known), records))
        wanted = torch.tensor([(record.value.target - known.mean) / known.scale for record in records]).double()
        shares = [number / (SHARES - 1) for number in range(SHARES)]
        errors = [float((share * network + (1 - share) * ridge - wanted).square().mean()) for share in shares]
        return replace(known, share=shares[min(range(SHARES), key=errors.__getitem__)])

    def measure(self, run: Run, records: Sequence[Record[MeasuredRow]]) -> tuple[dict[str, float], list[Answer]]:
        names = _names(run.known)
        rows = by_column(names, records)
        answers = run.answers([dict(zip(names, cells, strict=True)) for cells in zip(*rows.values(), strict=True)])
        wanted = [record.value.target for record in records]
        return {"mae": mean_error([a.value[0] for a in answers], wanted), "r2": r_squared(answers, wanted)}, answers

    def details(self, run: Run, records: Sequence[Record[MeasuredRow]], answers: Sequence[Answer]) -> dict[str, Any]:
        wanted = [record.value.target for record in records]
        both, network, ridge = (mean_error([answer.value[n] for answer in answers], wanted) for n in range(3))
        return {
            "alone": {"attention": network, "ridge": ridge},
            "verdict": verdict(network, ridge, both, run.known.share),
        }

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        return [details["verdict"]]

    def in_a_sentence(self, metrics: Mapping[str, float], details: Mapping[str, Any]) -> str:
        from mirada.training.log import digits

        plain = f"; guessing the mean is off by {digits(metrics['mae_mean'])}" if "mae_mean" in metrics else ""
        return f"estimates are off by {digits(metrics['mae'])} on the average{plain}"

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[Record[MeasuredRow]]) -> dict[str, float]:
        known: TableColumns = run.known
        wanted = [record.value.target for record in records]
        ridge = known.ridge.estimates(known.columns, by_column(_names(known), records)).double()
        return {
            "mae_mean": mean_error([known.mean] * len(wanted), wanted),
            "mae_ridge": mean_error((known.mean + known.scale * ridge).tolist(), wanted),
        }

    def sections(self, run: Run, records: Sequence[Record[MeasuredRow]], answers: Sequence[Answer]) -> "list[Section]":
        from mirada.tasks.estimate.report import sections

        return sections(run, records, answers)


def _inputs(value: MeasuredRow) -> str:
    """What is read of a row: rows with equal inputs stay in one part."""
    return "\x1f".join(value.cells)


def _builtin() -> Splits[MeasuredRow]:
    """Flats and their rents, drawn by code."""
    from mirada.corpora.flats import NAMES, TRAIN, VALID, flats

    rows = [MeasuredRow(NAMES[:-1], cells[:-1], float(cells[-1]), NAMES[-1]) for cells in flats()]
    parts = rows[:TRAIN], rows[TRAIN : TRAIN + VALID], rows[TRAIN + VALID :]
    train, valid, test = (numbered(name, part) for name, part in zip(("train", "valid", "test"), parts, strict=True))
    return Splits(train, valid, test)


def _names(known: TableColumns) -> tuple[str, ...]:
    """The columns that are read, as they stand in the file."""
    read = {column.name for column in known.columns}
    return tuple(name for name in known.names if name in read)


def collate(items: list[Encoded]) -> Microbatch:
    """A padded batch of rows and the numbers that are wanted, in deviations."""
    tokens, lengths = pad([row for row, _, _ in items])
    inputs = {"tokens": tokens, "lengths": lengths, "wanted": torch.tensor([right for _, _, right in items])}
    if items[0][1]:
        inputs["values"] = torch.tensor([own for _, own, _ in items])
    return Microbatch(inputs, (len(items),), int(lengths.sum()))


def mean_error(estimates: Sequence[float], wanted: Sequence[float]) -> float:
    """The mean absolute error.

    >>> mean_error([1.0, 5.0], [2.0, 3.0])
    1.5
    """
    return sum(abs(a - b) for a, b in zip(estimates, wanted, strict=True)) / len(wanted)


def r_squared(answers: Sequence[Answer], wanted: Sequence[float]) -> float:
    """The share of the variance that estimates explain: 1 - squared errors / squared distances from the mean."""
    mean = sum(wanted) / len(wanted)
    total = sum((value - mean) ** 2 for value in wanted)
    rest = sum((answer.value[0] - value) ** 2 for answer, value in zip(answers, wanted, strict=True))
    return 1 - rest / total if total else math.nan


def verdict(network: float, ridge: float, both: float, share: float) -> str:
    """What attention adds to the ridge regression, in a line; errors are mean absolute ones.

    >>> verdict(40.0, 90.0, 39.0, 0.9)
    'mean error: attention alone 40.00, ridge regression alone 90.00, both 39.00: attention lowers it by 57 %'
    >>> verdict(95.0, 90.0, 90.0, 0.0)
    'mean error: attention alone 95.00, ridge regression alone 90.00, both 90.00: attention does not help on this data'
    """
    from mirada.training.log import digits

    line = f"mean error: attention alone {digits(network)}, ridge regression alone {digits(ridge)}, both {digits(both)}"
    gain = 100 * (1 - both / ridge) if ridge else 0.0
    helps = f"attention lowers it by {gain:.0f} %" if share and gain >= 0.5 else "attention does not help on this data"
    return f"{line}: {helps}"


def row_labels(read: Sequence[str], shown: str, answer: tuple[str, float | None], output: Tensor) -> "Labels":
    """The axis labels of a row: its columns with their cells, and the words of its texts."""
    from mirada.looking.labels import AxisLabels, Labels

    axes = {"row": AxisLabels(tuple(read)), "query": AxisLabels(("[query]",))}
    return Labels(axes, {"pool*": ("query", "row"), "*": ("row", "row")}, {"input": shown}, answer, chosen=0)

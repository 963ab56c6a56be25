"""sort: numbers in, the same numbers in order out. A task without any text, to see that nothing asks for one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.config import Config
from mirada.data.batching import drawn
from mirada.data.files.opening import Line, read_lines
from mirada.data.record import Problem, Record
from mirada.drawing.page import Section
from mirada.drawing.tables import DataTable
from mirada.layers.model import Model
from mirada.runs.answers import Answer
from mirada.runs.batches import EncodedRecords
from mirada.runs.run import Run
from mirada.runs.sources import SETS, Source, Splits, numbered
from mirada.runs.task import Preset, Task
from mirada.training.objectives import Microbatch

Numbers = tuple[int, ...]
COUNT, TOP = 5, 20  # numbers in a row, all below TOP


@dataclass(frozen=True, kw_only=True)
class SorterConfig(Config):
    width: int = 32


class Sorter(Model[SorterConfig]):
    """Every number looks at all of them and says its place: the rank is a class."""

    Config = SorterConfig

    def __init__(self, config: SorterConfig) -> None:
        super().__init__(config)
        self.numbers = nn.Embedding(TOP, config.width)
        self.attention = Attention(MultiHead(config.width, heads=2))
        self.rank = nn.Linear(config.width, COUNT)

    def forward(self, numbers: Int[Tensor, "batch count"]) -> Float[Tensor, "batch count ranks"]:
        x = self.numbers(numbers)
        return self.rank(torch.relu(x + self.attention(x)))

    def loss(self, numbers: Int[Tensor, "batch count"], ranks: Int[Tensor, "batch count"]) -> Float[Tensor, ""]:
        return F.cross_entropy(self(numbers).flatten(0, 1), ranks.flatten())


class Sort(Task[Numbers, Numbers, Any]):
    name = "sort"
    presets: ClassVar[Mapping[str, Preset]] = {"ranks": Preset(Sorter)}

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        return {"recipe": {"steps": 300, "lr": 1e-2, "batch_size": 32}}

    def read(self, source: Source, options: Any) -> Splits[Numbers]:
        if source.builtin:
            return Splits(*(numbered(name, draw(600 // 9**seed, seed)) for seed, name in enumerate(SETS)))
        records, problems = [], []
        for line in read_lines(source.data):
            try:
                assert isinstance(line, Line)
                records.append(Record(line.where, self.parse(line.text)))
            except ValueError as error:
                problems.append(Problem(line.where, str(error)))
        if source.measured:
            return Splits((), (), records, problems=problems)
        return Splits(records[::2], records[1::2], problems=problems)

    def parse(self, text: str) -> Numbers:
        numbers = tuple(map(int, text.split()))
        if len(set(numbers)) != COUNT or not all(0 <= n < TOP for n in numbers):
            raise ValueError(f"expected {COUNT} different numbers below {TOP}: got {text!r}")
        return numbers

    def examples(self, records: Sequence[Record[Numbers]], known: Any, config: Any) -> EncodedRecords[Numbers]:
        return EncodedRecords([record.value for record in records], [(COUNT,)] * len(records), collate)

    def answer(self, run: Run, inputs: Sequence[Numbers], ask: Any) -> list[Answer]:
        scores = run.model(torch.tensor(inputs, device=run.device)).log_softmax(-1)
        return [sorted_answer(run, *row) for row in zip(inputs, scores, strict=True)]

    def measure(self, run: Run, records: Sequence[Record[Numbers]]) -> tuple[dict[str, float], list[Answer]]:
        answers = run([record.value for record in records])
        right = [answer.value == tuple(sorted(record.value)) for answer, record in zip(answers, records, strict=True)]
        return {"accuracy": 100 * sum(right) / len(right)}, answers

    def samples(self, run: Run, splits: Splits[Numbers]) -> list[str]:
        return [" ".join(map(str, record.value)) for record in (splits.test or splits.valid)[:2]]

    def sections(self, run: Run, records: Any, answers: Sequence[Answer]) -> list[Section]:
        rows = tuple((answer.input, answer.text) for answer in answers[:5])
        return [Section("Sorted", items=(DataTable("", ("given", "sorted"), rows),))]


def sorted_answer(run: Run, numbers: Numbers, scores: Tensor) -> Answer:
    value = tuple(n for _, n in sorted(zip(scores.argmax(-1).tolist(), numbers, strict=True)))
    shown, text = (" ".join(map(str, some)) for some in (numbers, value))
    replay = partial(run.look, torch.tensor([numbers]))
    return Answer(shown, text, float(scores.amax(-1).mean()), value, replay=replay)


def draw(count: int, seed: int) -> list[Numbers]:
    """Rows of different numbers."""
    noise = drawn(count * TOP, seed, 7).reshape(count, TOP)
    return [tuple(row[:COUNT].tolist()) for row in noise.argsort(1)]


def collate(items: list[Numbers]) -> Microbatch:
    numbers = torch.tensor(items)
    return Microbatch({"numbers": numbers, "ranks": numbers.argsort(1).argsort(1)}, (numbers.numel(),), len(items))

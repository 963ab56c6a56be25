"""write: the beginning of a text in, its continuation out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from mirada.data.builtin.manual import manual
from mirada.data.pack import Windows, in_order
from mirada.data.records import Record
from mirada.data.text import Problem, read_text
from mirada.data.tokenize import END, MASK, PAD, START, UNKNOWN, Tokenizer
from mirada.decoding.beam import Beam
from mirada.decoding.rules import Forbid
from mirada.drawing import Section, TextSample
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.models.gpt import GPT
from mirada.tasks.answer import Answer, Ask
from mirada.tasks.run import Run
from mirada.tasks.search import DRAWING, search_of
from mirada.tasks.task import DataConfig, Place, Preset, Splits, Task
from mirada.training.distributed import Crew
from mirada.training.metrics import perplexity
from mirada.training.objectives import ModelLoss, Objective, Part, evaluate
from mirada.training.recipe import Recipe

TEMPERATURE = 0.8  # without one asked for
TOKENS = 300
VALID_SHARE = 0.1
NEVER = Forbid((PAD, UNKNOWN, START, END, MASK))  # these are no text
PROMPT = 24  # characters of the sample prompts


@dataclass(frozen=True, kw_only=True)
class WriteData(DataConfig):
    """Characters by default: small texts have few words."""

    tokenizer: str = "char"


@dataclass(frozen=True)
class WindowShares:
    """Windows of a text, divided among processes and accumulation steps."""

    windows: Windows

    def __len__(self) -> int:
        return len(self.windows)

    def part(self, step: int, index: int, count: int) -> Part:
        tokens, wanted = self.windows.batch(step)
        if index < len(tokens):
            return window_part(tokens[index::count], wanted[index::count])
        return Part({"tokens": tokens[:1], "wanted": wanted[:1]}, (0,), 0)


class Write(Task):
    name = "write"
    columns = ("text",)
    Data = WriteData
    asks = ("beam", "length_penalty", *DRAWING)
    presets: ClassVar[Mapping[str, Preset]] = {"gpt": Preset(GPT)}
    streams = True

    def defaults(self, model: str, place: Place, minutes: float) -> dict[str, dict[str, Any]]:
        if (minutes or 2) < 8:
            sizes = {"width": 128, "hidden": 512, "depth": 4, "heads": 4, "length": 64, "dropout": 0.0}
        else:
            sizes = {"width": 192, "hidden": 768, "depth": 4, "heads": 4, "length": 128, "dropout": 0.1}
        recipe = {"lr": 2e-3, "warmup": 100, "smoothing": 0.0, "batch_tokens": 1024, "patience": 0, "average": 0}
        return {"model": sizes, "recipe": recipe if minutes else recipe | {"minutes": 2.0}}

    def read(self, place: Place, options: DataConfig) -> Splits:
        if place.builtin:
            return divided([("builtin manual", manual())])
        found, bad = texts_of(place.data)
        if place.valid == place.data:  # a file to be measured on
            return Splits((), found, problems=bad)
        if place.valid:
            valid, more = texts_of(place.valid)
            return Splits(found, valid, problems=bad + more)
        return replace(divided([(record.where, record.fields[0]) for record in found]), problems=bad)

    def texts(self, train: Sequence[Record]) -> Sequence[str]:
        return [record.fields[0] for record in train]

    def sizes(self, tokenizer: Tokenizer, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"vocab": len(tokenizer)}

    def lengths(self, records: Sequence[Record], run: Run) -> list[tuple[int, ...]]:
        return [(0,) for _ in records]  # a text of any length is cut into windows

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        return ModelLoss(model, recipe.smoothing)

    def supply(self, records: Sequence[Record], run: Run, recipe: Recipe) -> WindowShares:
        return WindowShares(Windows(tokens_of(records, run), run.length, rows_of(run, recipe), recipe.seed))

    def parts(self, records: Sequence[Record], run: Run, recipe: Recipe) -> list[Part]:
        windows = in_order(tokens_of(records, run), run.length, rows_of(run, recipe))
        return [window_part(*batch) for batch in windows]

    def answer(self, run: Run, inputs: Sequence[str], ask: Ask) -> list[Answer]:
        return [self.write(run, text, ask, number) for number, text in enumerate(inputs)]

    def write(self, run: Run, text: str, ask: Ask, number: int) -> Answer:
        """The text and what follows it, in rounds where the model's reach is shorter than what is asked for."""
        prompt, score = start_of(run, text), 0.0
        written: list[int] = []
        wanted = ask.tokens or TOKENS
        search = search_of(ask, TEMPERATURE)
        while len(written) < wanted:
            state, first, room = primed(run, [*prompt, *written])
            (found,) = search(
                run.stepper,
                state,
                first,
                None,
                min(room, wanted - len(written)),
                numbers=[number + len(written)],
                rules=[NEVER],
            )
            written += found[0].tokens
            score += found[0].logprob
        pieces = [run.tokenizer.token(token) for token in (*prompt, *written)]
        return Answer(
            text, text + continued(run, prompt, written), score / len(written), read=tuple(pieces[: len(prompt)]),
            written=tuple(pieces[len(prompt) :]), again=partial(run.look, torch.tensor([[*prompt, *written][-run.length :]])),
        )  # fmt: skip

    def stream(self, run: Run, text: str, ask: Ask) -> Iterator[str]:
        search = search_of(ask, TEMPERATURE)
        if isinstance(search, Beam):  # it decides at the end
            yield from super().stream(run, text, ask)
            return
        yield text
        prompt = start_of(run, text)
        written: list[int] = []
        wanted = ask.tokens or TOKENS
        while len(written) < wanted:
            state, first, room = primed(run, [*prompt, *written])
            begun = len(written)
            for token in search.stream(
                run.stepper, state, first, None, min(room, wanted - begun), number=begun, rules=[NEVER]
            ):
                before = [*prompt, *written]
                written.append(token)
                yield continued(run, before, [token])

    def measure(self, run: Run, records: Sequence[Record]) -> tuple[dict[str, float], list[Answer]]:
        recipe = Recipe(batch_tokens=4096)
        parts = self.parts(records, run, recipe)
        loss = evaluate(self.objective(run.model, recipe).eval(), parts, Crew(device=run.device))["loss"]
        characters = sum(len(record.fields[0]) for record in records)
        bits = loss * sum(part.tokens for part in parts) / characters / math.log(2)
        return {"loss": loss, "perplexity": perplexity(loss), "bits_per_character": bits}, []

    def samples(self, run: Run, splits: Splits) -> list[str]:
        return [beginning(splits.valid[0].fields[0])]

    def amount(self, records: Sequence[Record]) -> str:
        return f"{sum(len(record.fields[0]) for record in records):,} characters"

    def sections(self, run: Run, records: Sequence[Record], answers: Sequence[Answer]) -> list[Section]:
        prompt = beginning(records[0].fields[0])
        drawn = [(f"temperature {t:g}", run(prompt, temperature=t).text) for t in (0.5, 0.8, 1.0)]
        samples = tuple(TextSample(title, text[len(prompt) :], prompt) for title, text in drawn)
        return [Section("Samples", "Continuations of the same beginning, from careful to wild.", samples)]


def beginning(text: str) -> str:
    """The beginning of the first whole line of a text, without a broken word at its end.

    >>> beginning("of a line.\\nThe whole line goes on and on\\n")
    'The whole line goes on'
    """
    rest = text.partition("\n")[2].lstrip() or text
    return rest[:PROMPT].split("\n")[0].rsplit(" ", 1)[0]


def continued(run: Run, before: list[int], tokens: list[int]) -> str:
    """What some more tokens add to a text: the first of them also has the space before it, if there is one."""
    return run.tokenizer.decode([*before, *tokens])[len(run.tokenizer.decode(before)) :]


def texts_of(paths: str) -> tuple[list[Record], list[Problem]]:
    """The texts of files, by commas, without their bad lines, and those."""
    records, problems = [], []
    for path in paths.split(","):
        text, bad = read_text(path.strip())
        problems += bad
        if text.strip():
            records.append(Record(path, (text,)))
    return records, problems


def divided(texts: Sequence[tuple[str, str]]) -> Splits:
    """The last tenth of every text is for validation: it is what a writer has to go on with."""
    cuts = [(where, text, round(len(text) * (1 - VALID_SHARE))) for where, text in texts]
    return Splits(
        [Record(where, (text[:cut],)) for where, text, cut in cuts],
        [Record(where, (text[cut:],)) for where, text, cut in cuts],
    )


def tokens_of(records: Sequence[Record], run: Run) -> Int[Tensor, " n"]:
    """All texts one after the other, each begun with a start token."""
    texts = run.tokenizer.encode_all([record.fields[0] for record in records])
    return torch.tensor([token for ids in texts for token in (START, *ids)])


def rows_of(run: Run, recipe: Recipe) -> int:
    """Windows in a batch."""
    return max(1, recipe.batch_tokens // run.length)


def window_part(tokens: Tensor, wanted: Tensor) -> Part:
    count = int((wanted != IGNORED).sum())
    return Part({"tokens": tokens, "wanted": wanted}, (count,), count)


def start_of(run: Run, text: str) -> list[int]:
    """The tokens of a prompt, after the start."""
    return [START, *run.tokenizer.encode(text)]


def primed(run: Run, tokens: list[int]) -> tuple[Any, Tensor, int]:
    """The state after all tokens but the last, that one, and how many more fit.

    A text that fills the model's reach is taken up again from its last half.
    """
    model: Any = run.model
    reach = run.length
    if len(tokens) >= reach:
        tokens = tokens[-(reach // 2) :]
    state = model.start(1)
    if len(tokens) > 1:
        _, state = model.step(torch.tensor([tokens[:-1]], device=run.device), state)
    return state, torch.tensor(tokens[-1:], device=run.device), reach - len(tokens) + 1

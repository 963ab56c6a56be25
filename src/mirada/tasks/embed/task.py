"""embed: a text in, a vector out, by an encoder that was trained elsewhere; with candidates, which of them is nearest.

An answer imports no more than it needs: what reads files and measures is imported where it is used.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.data.batching import EncodedRecords, Microbatch, in_order
from mirada.data.options import TextOptions
from mirada.data.record import Fields, Problem, TableRow
from mirada.data.text.framed import FramedText, framed_pieces, framed_texts, padded
from mirada.data.text.tokenize import Tokenizer, Vocabulary
from mirada.errors import require
from mirada.models.clip import CLIP
from mirada.models.encoder import TextEncoder, told_apart
from mirada.models.vit import ViT
from mirada.runs.answers import Answer
from mirada.runs.ask import VectorAsk
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, from_tables
from mirada.runs.task import Preset, Task, TextTask
from mirada.training.distributed import to_device
from mirada.words import plural, shortened

if TYPE_CHECKING:
    from mirada.looking.labels import Labels

READ_AT_ONCE = 4096  # tokens
COLUMNS = ("first", "second", "score")
SHOWN = 4  # numbers of a vector, for a person
IMPORTED = "embed takes models that were trained elsewhere: mirada import PATH --task embed"


@dataclass(frozen=True)
class TextVectors(Vocabulary):
    """A tokenizer, and what is done with texts before they are read and with vectors afterwards.

    Args:
        normalize: whether vectors have length 1.
        most: tokens that are read of a text; 0: what the model can read.
        lower: whether texts are read in lower case.
        prompt: what stands before every text.
        vectors: how the vectors are made, in words.
    """

    normalize: bool = False
    most: int = 0
    lower: bool = False
    prompt: str = ""
    vectors: str = ""

    def facts(self) -> dict[str, Any]:
        own = ("normalize", "most", "lower", "prompt", "vectors")
        return super().facts() | {name: getattr(self, name) for name in own}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        kinds = {"normalize": bool, "most": int, "lower": bool, "prompt": str, "vectors": str}
        own = {name: facts.get(name, kind()) for name, kind in kinds.items()}
        wrong = [name for name, kind in kinds.items() if type(own[name]) is not kind]
        require(not wrong and own["most"] >= 0, f"{' and '.join(wrong) or 'most'} in config.json is broken")
        return replace(super().restore(facts, paths), **own)

    def given(self, text: str) -> str:
        """A text as it is read: behind the prompt."""
        whole = self.prompt + text
        return whole.lower() if self.lower else whole


class Embed(TextTask[str, Fields, TextVectors]):
    """Vectors of texts: the tokens of an encoder without a head, pooled as its folder says."""

    name = "embed"
    Data = TextOptions
    Ask = VectorAsk
    Known = TextVectors
    input_columns = ("text", "first")
    presets: ClassVar[Mapping[str, Preset]] = {
        "encoder": Preset(TextEncoder, {"head": "none", "pool": "mean"}),
        "vit": Preset(ViT, {"classes": 0}),
        "clip": Preset(CLIP),
    }

    def for_model(self, name: str) -> Task[Any, Any, Any]:
        from mirada.tasks.embed.pictures import EmbedBoth, EmbedPictures

        return {"vit": EmbedPictures, "clip": EmbedBoth}.get(name, type(self))()

    def read(self, source: Source, options: TextOptions) -> Splits[Fields]:
        require(source.measured, IMPORTED)
        return from_tables(source, COLUMNS, options)

    def sizes(self, known: TextVectors) -> dict[str, Any]:
        return {"vocab": len(known)}

    def examples(self, records: Sequence[TableRow], known: TextVectors, config: Any) -> EncodedRecords[FramedText]:
        texts = framed_texts(known.tokenizer, [known.given(record.value[0]) for record in records], known.most)
        collated = partial(_collated, tokenizer=known.tokenizer, segments=config.segments)
        return EncodedRecords(texts, [(len(text.tokens),) for text in texts], collated)

    def problems(self, records: Sequence[TableRow], examples: Any, config: Any) -> list[Problem]:
        """Pairs whose similarity is no number."""
        wrong = [record for record in records if not _is_number(record.value[2])]
        return [Problem(record.where, f"the similarity is no number: {record.value[2][:40]!r}") for record in wrong]

    def answer(self, run: Run, inputs: Sequence[str], ask: VectorAsk) -> list[Answer]:
        items, notes = _items(run, inputs, ask.truncate)
        vectors = text_vectors(run, items)
        ranked: list[tuple[tuple[str, float], ...]] = [()] * len(inputs)
        if ask.candidates:
            others = text_vectors(run, _items(run, ask.candidates, ask.truncate)[0])
            cosines = F.normalize(vectors, dim=-1) @ F.normalize(others, dim=-1).T
            pairs = [zip(ask.candidates, row, strict=True) for row in cosines.tolist()]
            ranked = [tuple(sorted(each, key=lambda pair: -pair[1])) for each in pairs]
        answers = []
        for text, item, vector, best, note in zip(inputs, items, vectors, ranked, notes, strict=True):
            segments = told_apart(torch.tensor([item.segments]), run.model.config)
            replay = partial(
                run.look, torch.tensor([item.tokens]), None, segments, labels=partial(_labels, run, text, item)
            )
            answered, score = best[0] if best else (_in_words(vector), math.nan)
            answers.append(
                Answer(text, answered, score, vector, best, len(best), note=note, replay=replay, read=_read(run, item))
            )
        return answers

    def measure(self, run: Run, records: Sequence[TableRow]) -> tuple[dict[str, float], list[Answer]]:
        from mirada.tasks.embed.metrics import pearson, spearman

        require(len(records) > 1, f"a correlation needs at least two pairs of texts: got {len(records)}")
        sides = [
            self.answer(run, [record.value[side] for record in records], VectorAsk(truncate=True)) for side in (0, 1)
        ]
        one, two = (torch.stack([answer.value for answer in side]) for side in sides)
        cosines = F.cosine_similarity(one, two, dim=-1).double()
        wanted = torch.tensor([float(record.value[2]) for record in records], dtype=torch.float64)
        metrics = {"spearman": 100 * spearman(cosines, wanted), "pearson": 100 * pearson(cosines, wanted)}
        return metrics, sides[0]

    def amount(self, records: Sequence[TableRow]) -> str:
        return plural(len(records), "pair")


def text_vectors(run: Run, items: Sequence[FramedText]) -> Float[Tensor, "texts width"]:
    """The vectors of texts, computed in batches of similar lengths."""
    model: Any = run.model
    vectors = torch.empty(len(items), model.config.width)
    for rows in in_order([(len(item.tokens),) for item in items], READ_AT_ONCE):
        inputs = padded([items[row] for row in rows], run.known.tokenizer, run.model.config.segments)
        vectors[rows] = model.vector(**to_device(inputs, run.device)).float().cpu()
    return F.normalize(vectors, dim=-1) if run.known.normalize else vectors


def _items(run: Run, texts: Sequence[str], cut: bool) -> tuple[list[FramedText], list[str]]:
    """The tokens of texts, and a note about each that was cut: where a folder says how much is read, all longer ones are."""
    known, longest = run.known, run.model.config.length
    most = min(known.most or longest, longest)
    for text in texts:
        require(bool(text.strip()), f"there is nothing to read in {text[:60]!r}")
    items = framed_texts(known.tokenizer, [known.given(text) for text in texts])
    notes = []
    for row, (text, item) in enumerate(zip(texts, items, strict=True)):
        size = len(item.tokens)
        if size > most:
            if not (cut or known.most):
                known.fitted(item.tokens, most, text)
            items[row] = framed_texts(known.tokenizer, [known.given(text)], most)[0]
        notes.append(f"the first {most} of {size} tokens of {shortened(text, 40)!r} were read" if size > most else "")
    return items, notes


def _in_words(vector: Float[Tensor, " width"]) -> str:
    """A vector as a person reads it: its first numbers.

    >>> _in_words(torch.tensor([0.5, -1.0, 0.0, 2.0, 3.0]))
    '5 numbers: 0.5000 -1.0000 0.0000 2.0000 ...'
    """
    return f"{plural(len(vector), 'number')}: {' '.join(f'{x:.4f}' for x in vector[:SHOWN].tolist())} ..."


def _read(run: Run, item: FramedText) -> tuple[str, ...]:
    return tuple(map(run.known.tokenizer.token, item.tokens))


def _labels(run: Run, text: str, item: FramedText, output: Any) -> "Labels":
    """The axis labels: the tokens of the text, behind those of a prompt."""
    from mirada.looking.labels import Labels, read_axis

    given = run.known.given(text)
    covered = framed_pieces(run.known.tokenizer, given)
    axes = {"text": read_axis(run.known.tokenizer, given, item.tokens, covered=covered)}
    return Labels(axes, {"*": ("text", "text")}, {"input": text})


def _collated(items: list[FramedText], tokenizer: Tokenizer, segments: int) -> Microbatch:
    inputs = padded(items, tokenizer, segments)
    return Microbatch(inputs, (len(items),), int(inputs["lengths"].sum()))


def _is_number(cell: str) -> bool:
    """Whether a cell holds a finite number.

    >>> _is_number("4.5"), _is_number("nan"), _is_number("similar")
    (True, False, False)
    """
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False

"""translate: a sentence in, the same sentence in another language out, with what the model looked at for every word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch

from mirada.data.batch import Buckets, in_order, pad
from mirada.data.records import Record
from mirada.data.tokenize import END, MASK, PAD, SPECIAL, START, UNKNOWN, Piece, Tokenizer
from mirada.decoding.hypothesis import Hypothesis
from mirada.decoding.rules import Forbid
from mirada.drawing import Aligned, DataTable, Item, Section
from mirada.errors import require
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.models.seq2seq import Seq2Seq
from mirada.models.transformer import Transformer
from mirada.tasks.answer import Answer, Ask
from mirada.tasks.batches import Shares, all_parts
from mirada.tasks.run import Run
from mirada.tasks.search import DRAWING, RANKING, Search, search_of
from mirada.tasks.sources import SETS, from_files, numbered
from mirada.tasks.task import DataConfig, Place, Preset, Splits, Task, spread
from mirada.training.metrics import bleu, chrf, sentence_chrf
from mirada.training.objectives import ModelLoss, Objective, Part
from mirada.training.recipe import Recipe

DECODED_AT_ONCE = 2048  # source tokens
GENERAL = "general:scale=None"  # unscaled, all weight goes to the last word within some steps and stays there
SHOWN = 6  # examples and errors in the report


@dataclass(frozen=True, kw_only=True)
class TranslateData(DataConfig):
    """`reverse` translates from the second column to the first."""

    reverse: bool = False


class Translate(Task):
    name = "translate"
    columns = ("source", "target")
    Data = TranslateData
    asks = (*RANKING, "best", *DRAWING)
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(Transformer, {"tied": "all"}),
        "bahdanau": Preset(Seq2Seq, {"attention": "bahdanau", "score": "additive"}),
        "luong": Preset(Seq2Seq, {"attention": "luong", "score": GENERAL, "feeding": True}),
        "luong-local-m": Preset(Seq2Seq, {"attention": "luong", "score": GENERAL, "reach": "local-m"}),
        "luong-local-p": Preset(Seq2Seq, {"attention": "luong", "score": GENERAL, "reach": "local-p"}),
        "rnn": Preset(Seq2Seq, {"attention": "no"}),
    }

    def defaults(self, model: str, place: Place, minutes: float) -> dict[str, dict[str, Any]]:
        if place.builtin:
            transformer = model == "transformer"
            sizes = {"width": 128, "hidden": 256} | ({"depth": 2} if transformer else {})
            recipe = {"batch_tokens": 1024, "lr": 2e-3, "warmup": 200, "smoothing": 0.0, "patience": 0, "epochs": 6}
            return {"model": sizes, "data": {"vocab": 3000}, "recipe": recipe}
        own: dict[str, Any] = {"hidden": 512, "dropout": 0.2} if model == "transformer" else {}
        return {"model": own, "recipe": {"batch_tokens": 2048, "lr": 1e-3 if model == "transformer" else 2e-3}}

    def read(self, place: Place, options: DataConfig) -> Splits:
        splits = builtin() if place.builtin else from_files(place, self.columns, options)
        return turned(splits) if options.reverse else splits  # type: ignore[attr-defined]

    def texts(self, train: Sequence[Record]) -> Sequence[str]:
        return [text for record in train for text in record.fields]

    def sizes(self, tokenizer: Tokenizer, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"vocab": len(tokenizer), "source_vocab": len(tokenizer)}

    def lengths(self, records: Sequence[Record], run: Run) -> list[tuple[int, ...]]:
        return [(len(source) + 1, len(target) + 1) for source, target in encoded(records, run.tokenizer)]

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        return ModelLoss(model, recipe.smoothing)

    def supply(self, records: Sequence[Record], run: Run, recipe: Recipe) -> Shares:
        items = encoded(records, run.tokenizer)
        sizes = [(len(source) + 1, len(target) + 1) for source, target in items]
        return Shares(Buckets(sizes, recipe.batch_tokens, recipe.seed), partial(pair_part, items))

    def parts(self, records: Sequence[Record], run: Run, recipe: Recipe) -> list[Part]:
        items = encoded(records, run.tokenizer)
        sizes = [(len(source) + 1, len(target) + 1) for source, target in items]
        return all_parts(sizes, recipe.batch_tokens, partial(pair_part, items))

    def answer(self, run: Run, inputs: Sequence[str], ask: Ask) -> list[Answer]:
        sources = [[*ids, END] for ids in run.tokenizer.encode_all(list(inputs))]
        for text, source in zip(inputs, sources, strict=True):
            require(len(source) > 1 and bool(text.strip()), f"there is nothing to translate in {text!r}")
            run.check_length(source, text)
        search, aligned = search_of(ask), attends(run) and (ask.aligned or run.tokenizer.kind == "word")
        answers: dict[int, Answer] = {}
        for rows in in_order([(len(source),) for source in sources], DECODED_AT_ONCE):
            found = decode(run, [sources[row] for row in rows], search, ask, aligned)
            for row, ranked in zip(rows, found, strict=True):
                answers[row] = as_answer(run, inputs[row], sources[row], ranked)
        return [answers[row] for row in range(len(inputs))]

    def measure(self, run: Run, records: Sequence[Record]) -> tuple[dict[str, float], list[Answer]]:
        answers = run([record.fields[0] for record in records])
        wanted = [record.fields[1] for record in records]
        texts = [answer.text for answer in answers]
        return {"bleu": bleu(texts, wanted), "chrf": chrf(texts, wanted)}, answers

    def sections(self, run: Run, records: Sequence[Record], answers: Sequence[Answer]) -> list[Section]:
        pairs = list(zip(answers, records, strict=True))
        wrong = [pair for pair in pairs if pair[0].text != pair[1].fields[1]]
        wrong.sort(key=lambda pair: sentence_chrf(pair[0].text, pair[1].fields[1]))
        about = "A row is a word that was written, a column a word that was read: the darker, the more the model looked at it."
        return [
            Section("Examples", about if attends(run) else "", examples(run, spread(pairs, SHOWN))),
            Section("Worst errors", "Farthest from what was wanted (chrF).", examples(run, wrong[:SHOWN])),
        ]

    def samples(self, run: Run, splits: Splits) -> list[str]:
        if not run.place.builtin:
            return super().samples(run, splits)
        if run.options.reverse:  # type: ignore[attr-defined]
            return ["Me gustan los nachos.", "Quiero ir al cine.", "la casa roja"]
        return [
            "I am writing a letter to her.",
            "the first letter of the word",
            "I want to go to the cinema.",
            "the red house",
        ]

    def probe(self, run: Run, name: str, records: Sequence[Record]) -> dict[str, float]:
        """The context test: a record also has the word that must be written and those that must not."""
        answers = run([record.fields[0] for record in records])
        right = [
            has_right_word(answer.text, *record.fields[2:4]) for answer, record in zip(answers, records, strict=True)
        ]
        return {name: 100 * sum(right) / len(right)}


def builtin() -> Splits:
    """The grammar's sentences."""
    from mirada.data.builtin.spanish.grammar import english_spanish  # its tables take time to import

    grammar = english_spanish()
    train, valid, test = (numbered(name, ((p.english, p.spanish) for p in getattr(grammar, name))) for name in SETS)
    context = numbered("context", ((p.english, p.spanish, p.wanted, "|".join(p.wrong)) for p in grammar.context))
    return Splits(train, valid, test, {"context": context})


def turned(splits: Splits) -> Splits:
    """From the second column to the first. The probes ask for words of the second, so they stay behind."""
    train, valid, test = (
        [Record(record.where, (record.fields[1], record.fields[0])) for record in part]
        for part in (splits.train, splits.valid, splits.test)
    )
    return Splits(train, valid, test, problems=splits.problems)


def encoded(records: Sequence[Record], tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
    """The tokens of both sides."""
    sides = [tokenizer.encode_all([record.fields[side] for record in records]) for side in (0, 1)]
    return list(zip(*sides, strict=True))


def pair_part(items: Sequence[tuple[list[int], list[int]]], rows: list[int], epoch: int) -> Part:
    """A padded batch: the source with its end; the target once from its start and once to its end."""
    source, lengths = pad([[*items[row][0], END] for row in rows], PAD)
    target, _ = pad([[START, *items[row][1]] for row in rows], PAD)
    wanted, counts = pad([[*items[row][1], END] for row in rows], IGNORED)
    tokens = int(counts.sum())
    return Part({"source": source, "lengths": lengths, "target": target, "wanted": wanted}, (tokens,), tokens)


def decode(run: Run, sources: list[list[int]], search: Search, ask: Ask, aligned: bool) -> list[list[Hypothesis]]:
    """The best hypotheses for each source of one batch."""
    model: Any = run.model
    source, lengths = pad(sources, PAD)
    state = model.start(model.encode(source.to(run.device), lengths.to(run.device)))
    most = [min(run.length - 1, ask.tokens or 2 * len(tokens) + 10) for tokens in sources]
    first = torch.full((len(sources),), START, device=run.device)
    never = Forbid((PAD, START, MASK) if run.tokenizer.kind == "word" else (PAD, START, MASK, UNKNOWN))
    return search(model, state, first, END, most, align=aligned, rules=[never])


def as_answer(run: Run, text: str, source: list[int], ranked: list[Hypothesis]) -> Answer:
    """The best hypothesis as text, with what it looked at; unknown words are copied from where it looked most."""
    best = ranked[0]
    read = run.tokenizer.pieces(text)
    texts = [written_text(run.tokenizer, hypothesis, read) for hypothesis in ranked]
    weights = best.alignment
    return Answer(
        text, texts[0], best.score,
        ranked=tuple(zip(texts, (h.score for h in ranked), strict=True)) if len(ranked) > 1 else (),
        read=(*(piece.text for piece in read), "</s>"),
        written=tuple(run.tokenizer.token(token) for token in best.tokens), tokens=tuple(best.tokens),
        weights=None if weights is None else weights[: len(best.tokens), : len(source)].cpu(),
        again=partial(run.look, torch.tensor([source]), None, torch.tensor([[START, *best.tokens]])),
    )  # fmt: skip


def written_text(tokenizer: Tokenizer, hypothesis: Hypothesis, read: Sequence[Piece]) -> str:
    """The hypothesis as text, with words of the source in the place of unknown ones.

    What is copied is the word that was looked at most while the unknown one was written: among those of the source that
    are unknown as well (names, mostly), or if there are none, among all its words.
    """
    text = tokenizer.decode(hypothesis.tokens)
    if UNKNOWN not in hypothesis.tokens or hypothesis.alignment is None:
        return text
    words = [place for place, piece in enumerate(read) if any(map(str.isalnum, piece.text))]
    places = [place for place in words if read[place].id == UNKNOWN] or words or list(range(len(read)))
    for row, token in enumerate(hypothesis.tokens):
        if token == UNKNOWN:
            looked = places[int(hypothesis.alignment[row, places].argmax())]
            text = text.replace(SPECIAL[UNKNOWN], read[looked].text, 1)
    return text


def attends(run: Run) -> bool:
    """Whether the model looks at the source while it writes: all do but the plain recurrent one."""
    return getattr(run.model.config, "attention", "") != "no"


def examples(run: Run, pairs: Sequence[tuple[Answer, Record]]) -> tuple[Item, ...]:
    """Translations with what they looked at, for the report; in a table, where the model looks nowhere."""
    if attends(run):
        return tuple(aligned(run, record) for _, record in pairs)
    rows = tuple((answer.input, answer.text, record.fields[1]) for answer, record in pairs)
    return (DataTable("", ("source", "written", "wanted"), rows),)


def aligned(run: Run, record: Record) -> Aligned:
    """A translation with what it looked at."""
    answer = run(record.fields[0], aligned=True)
    weights = () if answer.weights is None else tuple(tuple(row) for row in answer.weights.tolist())
    read, written = answer.read, answer.written
    if run.tokenizer.kind != "word":  # pieces of words, with the spaces that tell where words begin
        read = (*map(run.tokenizer.spaced, run.tokenizer.encode(answer.input)), read[-1])
        written = tuple(map(run.tokenizer.spaced, answer.tokens))
    return Aligned(read, written, weights, record.fields[1], score=answer.score)


def has_right_word(text: str, wanted: str, wrong: str) -> bool:
    """Whether a text has the wanted word and none of the wrong ones, as whole words."""
    words = set("".join(c if c.isalpha() else " " for c in text.lower()).split())
    return wanted.lower() in words and not words & set(wrong.lower().split("|"))

"""translate: a sentence in, the same sentence in another language out, with the attention of every word.

An answer imports no more than it needs: what reads files, measures, labels and draws is imported where it is used.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mirada.data.batching import EncodedRecords, Microbatch, in_order, pad
from mirada.data.options import TextOptions
from mirada.data.record import Fields, Problem, Record, TableRow, too_long
from mirada.data.text.tokenize import Piece, expected_tokens, expected_vocab
from mirada.decoding.beam import Beam
from mirada.decoding.continuous import Answering, SearchJob, answered_alone
from mirada.decoding.greedy import Choice, hypothesis_of
from mirada.decoding.search import Hypothesis
from mirada.errors import require
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.models.seq2seq import Seq2Seq
from mirada.models.transformer import Transformer
from mirada.runs.answers import Answer, WrittenPiece
from mirada.runs.ask import TranslateAsk
from mirada.runs.choice import SAMPLED, BudgetChoice, SequenceCost, affordable
from mirada.runs.inputs import Questions, table_questions
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, TrainingRecords, embedded, from_tables
from mirada.runs.task import SAMPLES, Preset, TextTask, sample_evenly
from mirada.tasks.translate.pairs import USUAL, PairVocabulary, Sides
from mirada.training.objectives import Objective, TokenLoss
from mirada.training.recipe import Recipe

if TYPE_CHECKING:
    from mirada.drawing.page import Section
    from mirada.looking.labels import Labels
    from mirada.runs.alignments import Alignments

BROKEN = "\ufffd"  # what bytes that are no whole character are decoded to
DECODED_AT_ONCE = 2048  # source tokens
SMALL = {"width": 128, "hidden": 256, "depth": 2, "heads": 4}
MEDIUM = {"width": 192, "hidden": 384, "depth": 3, "heads": 4}
LARGE = {"width": 256, "hidden": 512, "depth": 3, "heads": 4}
LARGEST = {"width": 384, "hidden": 1024, "depth": 4, "heads": 6}
SIZES = (  # a unit is a token of the longer side (decision 27)
    SequenceCost(SMALL, 0.075),
    SequenceCost(MEDIUM, 0.14, seen=2e6, data=5e4),
    SequenceCost(LARGE, 0.195, seen=5e6, data=2e5),
    SequenceCost(LARGEST, 0.60, seen=6e7, data=3e6),
)
RECURRENT_SIZES = (
    SequenceCost({"width": 128, "hidden": 128}, 0.075),
    SequenceCost({"width": 256, "hidden": 256}, 0.17, seen=1e6, data=1e5),
)
GENERAL = "general:scale=None"  # unscaled, all weight moves to the last word within a few steps and stays there


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(TextOptions):
    """`reverse` translates from the second column to the first.

    `source` and `target` are codes of languages, where the model that is started from knows several; `prefix` stands before every
    input, such as "translate English to German: ".
    """

    reverse: bool = False
    source: str = ""
    target: str = ""
    prefix: str = ""


Tokens = tuple[list[int], list[int]]  # source and target
COLUMNS = ("source", "target")


class Translate(TextTask[str, Fields, PairVocabulary]):
    """Translate sentences from one language to another, learned from pairs."""

    name = "translate"
    Data = TranslateOptions
    Ask = TranslateAsk
    Known = PairVocabulary
    input_columns = ("source", "text")
    preview_options: ClassVar[Mapping[str, Any]] = {"tokens": 60}
    preview_examples = 16
    streams = True
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(Transformer, {"tied": "all"}),
        "bahdanau": Preset(Seq2Seq, {"attention": "bahdanau", "score": "additive"}),
        "luong": Preset(Seq2Seq, {"attention": "luong", "score": GENERAL, "feeding": True}),
        "luong-local-m": Preset(Seq2Seq, {"attention": "luong", "score": GENERAL, "reach": "local-m"}),
        "luong-local-p": Preset(Seq2Seq, {"attention": "luong", "score": GENERAL, "reach": "local-p"}),
        "rnn": Preset(Seq2Seq, {"attention": "no"}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        if source.builtin:
            transformer = model == "transformer"
            sizes = {"width": 128, "hidden": 256} | ({"depth": 2} if transformer else {})
            recipe = {"batch_tokens": 1024, "lr": 2e-3, "warmup": 200, "smoothing": 0.0, "patience": 0, "epochs": 6}
            return {"model": sizes, "data": {"vocab": 3000}, "recipe": recipe}
        own: dict[str, Any] = {"hidden": 512, "dropout": 0.2} if model == "transformer" else {}
        return {"model": own, "recipe": {"batch_tokens": 2048, "lr": 1e-3 if model == "transformer" else 2e-3}}

    def choose(self, model: str, splits: Splits[Fields], options: TranslateOptions, minutes: float) -> BudgetChoice:
        if splits.builtin:
            return BudgetChoice()
        some = sample_evenly(splits.train, SAMPLED)
        sides = [[expected_tokens(text, options.tokenizer) for text in record.value[:2]] for record in some]
        longer, count, transformer = sum(map(max, sides)) / len(sides) + 1, len(splits.train), model == "transformer"
        found = affordable(SIZES if transformer else RECURRENT_SIZES, longer * count, minutes, epochs=15)
        batch = 1024 if found.seen < 1e7 else 2048
        lr = 1e-3 if transformer and found.size.settings["width"] > 192 else 2e-3
        recipe = {"batch_tokens": batch, "lr": lr, "warmup": found.warmup(batch)}
        own = {"dropout": found.by_epochs(0.1, (6, 0.2), (40, 0.3))} if transformer else {}
        tokens, texts = count * sum(map(sum, sides)) / len(sides), [" ".join(record.value[:2]) for record in some]
        data = expected_vocab(texts, tokens, options.tokenizer)
        return found.choice(own, recipe, data, f"{count:,} pairs of about {longer:.0f} tokens")

    def read(self, source: Source, options: TranslateOptions) -> Splits[Fields]:
        splits = _builtin() if source.builtin else from_tables(source, COLUMNS, options)
        return swap_columns(splits) if options.reverse else splits

    def learn(self, splits: Splits[Fields], options: TranslateOptions, start: PairVocabulary | None) -> PairVocabulary:
        sides = Sides(options.source, options.target, options.prefix)
        texts = (text for record in splits.train for text in record.value[:2])
        return PairVocabulary.learn(texts, options, start, sides)

    def sizes(self, known: PairVocabulary) -> dict[str, Any]:
        return {"vocab": len(known), "source_vocab": len(known)}

    def examples(self, records: Sequence[TableRow], known: PairVocabulary, config: Any) -> EncodedRecords[Tokens]:
        sources = known.sources([record.value[0] for record in records])
        items = list(zip(sources, known.targets([record.value[1] for record in records]), strict=True))
        sizes = [(len(source), len(target)) for source, target in items]
        return EncodedRecords(items, sizes, partial(_collated, known))

    def problems(self, records: Sequence[TableRow], examples: EncodedRecords[Tokens], config: Any) -> list[Problem]:
        return too_long(records, examples.lengths, config.length, COLUMNS)

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        return TokenLoss(model, recipe.smoothing)

    def usual_ask(self, run: Run) -> TranslateAsk:
        return TranslateAsk(**run.known.asks())

    def questions(self, run: Run, place: str) -> Questions:
        options = run.reading
        assert isinstance(options, TranslateOptions)
        columns = ("target", *self.input_columns[1:]) if options.reverse else self.input_columns
        return table_questions(place, columns, options, self.parse)

    def sources(self, run: Run, inputs: Sequence[str], ask: TranslateAsk) -> list[list[int]]:
        """The tokens of what is translated."""
        known: PairVocabulary = run.known
        for text in inputs:
            require(bool(text.strip()), f"there is nothing to translate in {text!r}")
        sources = known.sources(inputs, sides_of(ask), run.model.config.length, ask.truncate)
        for text, source in zip(inputs, sources, strict=True):
            require(len(source) > 1 or known.is_foreign, f"there is nothing to translate in {text!r}")
        return sources

    def answer(self, run: Run, inputs: Sequence[str], ask: TranslateAsk) -> list[Answer]:
        return answered_alone(self.answering(run, inputs, ask))  # type: ignore[no-any-return]

    def answering(self, run: Run, inputs: Sequence[str], ask: TranslateAsk) -> Answering:
        sources = self.sources(run, inputs, ask)
        aligned = attends(run) and (ask.aligned or copies(run.known))
        wanted, answers = ask.attention() if ask.alignments else None, dict[int, Answer]()
        stepper = run.stepper if wanted is None else wanted.watch(run.stepper)
        for rows in in_order([(len(source),) for source in sources], DECODED_AT_ONCE):
            arguments = _arguments(run, stepper, [sources[row] for row in rows], ask)
            decoded = yield SearchJob(ask.search(), arguments | {"align": aligned})
            for row, ranked in zip(rows, decoded, strict=True):
                answers[row] = as_answer(run, inputs[row], sources[row], ranked, wanted, sides_of(ask))
        return [answers[row] for row in range(len(inputs))]

    def stream(self, run: Run, text: str, ask: TranslateAsk) -> Generator[str, None, Answer | None]:
        search, known = ask.search(), run.known
        if isinstance(search, Beam):  # it picks the best text at the end
            return (yield from super().stream(run, text, ask))
        (source,), wanted = self.sources(run, [text], ask), ask.attention()
        stepper, path, shown = wanted.watch(run.stepper), list[Choice](), ""
        pieces = _pieces(known, text, source, sides_of(ask))
        arguments = _arguments(run, stepper, [source], ask)
        most, aligned = arguments.pop("most")[0], attends(run) and copies(known)
        for choice in search.stream(**arguments, most=most, align=aligned):
            path.append(choice)
            if choice.token in known.ends:
                break
            so_far = written_text(known, hypothesis_of(path, known.ends), pieces).rstrip(BROKEN)
            piece = so_far[len(shown) :] if so_far.startswith(shown) else ""
            shown += piece
            if piece or wanted.wanted:
                yield WrittenPiece(piece, known.writes.token(choice.token), wanted.of(choice.look))
        best, watched = hypothesis_of(path, known.ends), wanted if wanted.wanted else None
        answer = as_answer(run, text, source, [best], watched, sides_of(ask))
        if len(answer.text) > len(shown) and answer.text.startswith(shown):
            yield answer.text[len(shown) :]
        return answer

    def measure(self, run: Run, records: Sequence[TableRow]) -> tuple[dict[str, float], list[Answer]]:
        from mirada.tasks.translate.metrics import translation_metrics

        answers = run([record.value[0] for record in records])
        texts, wanted = [answer.text for answer in answers], [record.value[1] for record in records]
        return translation_metrics(texts, wanted), answers

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[TableRow]) -> dict[str, float]:
        """A translation memory: the known translation of the most similar source sentence."""
        from mirada.tasks.translate.metrics import nearest_texts, translation_metrics

        known = learned()
        near = nearest_texts([record.value[0] for record in known], [record.value[0] for record in records])
        texts, wanted = [known[row].value[1] for row in near], [record.value[1] for record in records]
        return {f"{name}_nearest": value for name, value in translation_metrics(texts, wanted).items()}

    def sections(self, run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> "list[Section]":
        from mirada.tasks.translate.report import sections

        return sections(run, records, answers)

    def samples(self, run: Run, splits: Splits[Fields]) -> list[str]:
        if not run.settings.source.builtin:
            return [record.value[0] for record in sample_evenly(splits.test or splits.valid, SAMPLES)]
        if run.options.reverse:  # type: ignore[attr-defined]
            return ["Me gustan los nachos.", "Quiero ir al cine.", "la casa roja"]
        return [
            "I am writing a letter to her.",
            "the first letter of the word",
            "I want to go to the cinema.",
            "the red house",
        ]

    def probe(self, run: Run, name: str, records: Sequence[TableRow]) -> dict[str, float]:
        """The context test: a record also has the word that must be in the translation and those that must not."""
        from mirada.tasks.translate.metrics import has_right_word

        answers = run([record.value[0] for record in records])
        right = [
            has_right_word(answer.text, *record.value[2:4]) for answer, record in zip(answers, records, strict=True)
        ]
        return {name: 100 * sum(right) / len(right)}


def _builtin() -> Splits[Fields]:
    """Sentences of a grammar. A record of the context test has source, target, the wanted word and the wrong ones."""
    splits = embedded("english_spanish")
    context = [Record(record.where, record.value[:4]) for record in splits.probes["context"]]
    return replace(splits, probes={"context": context})


def swap_columns(splits: Splits[Fields]) -> Splits[Fields]:
    """Records from the second column to the first; without the probes, which test words of the second."""
    train, valid, test = (
        [Record(record.where, (record.value[1], record.value[0])) for record in part]
        for part in (splits.train, splits.valid, splits.test)
    )
    return Splits(train, valid, test, problems=splits.problems, notes=splits.notes)


def _collated(known: PairVocabulary, items: list[Tokens]) -> Microbatch:
    """A batch to learn from."""
    return collate(items, known.first(), known.tokenizer.filler)


def collate(items: list[Tokens], first: int, filler: int) -> Microbatch:
    """A padded batch: the source; the target once after the first token that the decoder is given and once to its end."""
    source, lengths = pad([source for source, _ in items], filler)
    target, _ = pad([[first, *target[:-1]] for _, target in items], filler)
    wanted, counts = pad([target for _, target in items], IGNORED)
    tokens = int(counts.sum())
    return Microbatch({"source": source, "lengths": lengths, "target": target, "wanted": wanted}, (tokens,), tokens)


def sides_of(ask: TranslateAsk) -> Sides:
    """The languages and the words that somebody asks for."""
    return Sides(ask.source, ask.target, ask.prefix)


def copies(known: PairVocabulary) -> bool:
    """Whether unknown words are copied: those of our own tokenizers of words."""
    return not known.is_foreign and known.tokenizer.kind == "word"


def _arguments(run: Run, stepper: Any, sources: list[list[int]], ask: TranslateAsk) -> dict[str, Any]:
    """The arguments of a search for the translations of some sources."""
    known: PairVocabulary = run.known
    source, lengths = pad(sources, known.tokenizer.filler)
    state = stepper.start(stepper.encode(source.to(run.device), lengths.to(run.device)))
    limit = run.model.config.length - (not known.is_foreign)
    stated = min(limit, ask.tokens or known.most()) if known.is_foreign else 0  # one limit for all, or one for each
    most = [stated or min(limit, ask.tokens or 2 * len(tokens) + 10) for tokens in sources]
    first = torch.full((len(sources),), known.first(sides_of(ask)), device=run.device)
    rules = known.rules(stated, ask.no_repeat, sides_of(ask))
    if max(ask.beam, ask.best) > 1:  # a beam ranks by the model's own scores
        rules = [rule for rule in rules if not rule.changes]
    return {"stepper": stepper, "state": state, "first": first, "end": known.ends, "most": most, "rules": rules}


def _pieces(known: PairVocabulary, text: str, source: list[int], sides: Sides) -> Sequence[Piece]:
    """The pieces of a text among what is read; it may have been cut."""
    return known.tokenizer.pieces(known.given(text, sides))[: len(source) - sum(known.around(sides))]


def _alignments(
    known: PairVocabulary,
    given: str,
    pieces: Sequence[Piece],
    before: int,
    best: Hypothesis,
    wanted: "Alignments",
    read: int,
) -> dict[str, Any]:
    """The attention that was asked for, and which word comes from which."""
    from mirada.runs.alignments import words_of_spans, words_of_tokens  # few answers have it

    words = words_of_spans(given, [*[(0, 0)] * before, *((piece.start, piece.end) for piece in pieces)])
    return wanted.fields(best, read, words, partial(words_of_tokens, known.writes.decode, best.tokens))


def as_answer(
    run: Run,
    text: str,
    source: list[int],
    ranked: list[Hypothesis],
    wanted: "Alignments | None" = None,
    sides: Sides = USUAL,
) -> Answer:
    """The best hypothesis as an answer with its attention; for unknown words, the source word with the most attention is
    copied.
    """
    best, known = ranked[0], run.known
    given, (before, _) = known.given(text, sides), known.around(sides)
    pieces = _pieces(known, text, source, sides)
    framing, ended = (
        tuple(map(known.tokenizer.token, part)) for part in (source[:before], source[before + len(pieces) :])
    )
    texts = [written_text(known, hypothesis, pieces) for hypothesis in ranked]
    weights, first = best.alignment, known.first(sides)
    more = {} if wanted is None else _alignments(known, given, pieces, before, best, wanted, len(source))
    return Answer(
        text, texts[0], best.score, **more,
        ranked=tuple(zip(texts, (h.score for h in ranked), strict=True)) if len(ranked) > 1 else (),
        shown=len(ranked) if len(ranked) > 1 else 0,
        read=(*framing, *(piece.text.strip() or known.tokenizer.token(piece.id) for piece in pieces), *ended),
        written=tuple(map(known.writes.token, best.tokens)), tokens=tuple(best.tokens),
        weights=None if weights is None else weights[: len(best.tokens), : len(source)].cpu(),
        replay=partial(
            run.look, torch.tensor([source]), None, torch.tensor([[first, *best.tokens]]),
            labels=partial(_labels_of, known, given, source, best, texts[0], first),
        ),
    )  # fmt: skip


def _labels_of(
    known: PairVocabulary, text: str, source: list[int], best: Hypothesis, written: str, first: int, logits: Tensor
) -> "Labels":
    """The axis labels of a translation."""
    from mirada.looking.labels import read_axis, written_labels  # an answer is labeled when it is looked at

    read = read_axis(known.tokenizer, text, source)
    return written_labels("source", read, known.writes, best, written, text, logits, (first,), known.ends[0])


def written_text(known: PairVocabulary, hypothesis: Hypothesis, read: Sequence[Piece]) -> str:
    """The hypothesis as text, with source words copied in place of unknown tokens, where the tokens are words.

    The copied word is the one with the most attention when the unknown token was written: among the source words that
    are unknown too (names, mostly); if there are none, among all of them.
    """
    tokenizer = known.writes
    text = tokenizer.decode(hypothesis.tokens)
    if not copies(known) or tokenizer.unknown not in hypothesis.tokens or hypothesis.alignment is None:
        return text
    words = [place for place, piece in enumerate(read) if any(map(str.isalnum, piece.text))]
    places = [place for place in words if read[place].id == tokenizer.unknown] or words or list(range(len(read)))
    for row, token in enumerate(hypothesis.tokens):
        if token == tokenizer.unknown:
            looked = places[int(hypothesis.alignment[row, places].argmax())]
            text = text.replace(tokenizer.token(token), read[looked].text, 1)
    return text


def attends(run: Run) -> bool:
    """Whether the decoder attends to the source: all models do, except the plain recurrent one."""
    return getattr(run.model.config, "attention", "") != "no"

"""classify: a text in, one of the labels of the training data out, with the words that the model attends to.

An answer imports no more than it needs: what reads files, measures, labels and draws is imported where it is used.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.batching import EncodedRecords, Microbatch, in_order
from mirada.data.options import TextOptions
from mirada.data.record import Fields, Problem, TableRow, summarized, too_long
from mirada.data.text.framed import FramedText, framed_pieces, framed_texts, padded
from mirada.data.text.ngrams import KINDS
from mirada.data.text.tokenize import Tokenizer
from mirada.errors import require
from mirada.layers.model import Model
from mirada.models.classifier import Classifier, ClassifierConfig
from mirada.models.encoder import TextEncoder, TextEncoderConfig
from mirada.runs.answers import Answer
from mirada.runs.ask import TextRankAsk
from mirada.runs.choice import BudgetChoice
from mirada.runs.run import Run
from mirada.runs.sources import NAMED, Source, Splits, TrainingRecords, embedded, from_tables, parts_held_out, splits_of
from mirada.runs.task import Preset, TextTask
from mirada.tasks.classify.ensemble import (
    TextClasses,
    calibration_error,
    chosen_scales,
    component_accuracies,
    fitted_scales,
    readers_verdict,
)
from mirada.tasks.classify.targets import KINDS_OF_LABELS, ONE, TARGETS, TextLoss
from mirada.training.objectives import class_weights, to_device
from mirada.training.recipe import Recipe
from mirada.words import shortened

if TYPE_CHECKING:
    from mirada.drawing.page import Section
    from mirada.looking.labels import Labels, TextLabels
    from mirada.looking.record import Seen

READ_AT_ONCE = 8192  # tokens


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(TextOptions):
    """Lower-case words by default: few texts are enough to learn most of them.

    `balance` makes rare labels count as much as frequent ones. `beside` selects the linear model that is combined with the
    network: over words and their pairs, over letters as well (parts of words), or none. `truncate` lets the network read the
    beginning of texts that are longer than `length`; the linear model reads all of them. With `labels=many` a text has any
    number of labels, each with a probability of its own: divided by commas in one cell, or in columns of their own, which hold
    1 and 0 under the name of a label, or labels (columns=TEXT,FIRST,SECOND,... names them).
    """

    of_files: ClassVar[tuple[str, ...]] = (*TextOptions.of_files, "balance")

    tokenizer: str = "word"
    vocab: int = 10_000
    lowercase: bool = True
    balance: bool = False
    beside: str = "none"
    truncate: bool = False
    labels: str = "one"

    def check(self) -> None:
        super().check()
        self.one_of("labels", *KINDS_OF_LABELS)
        if self.labels == "many" and self.balance:
            raise ValueError("balance= is for texts with one label each: leave it out, or labels=many")
        self.one_of("beside", "none", *KINDS)


COLUMNS = ("text", "label")
_label_of = itemgetter(1)  # of a record's fields
Labeled = tuple[FramedText, int]  # the tokens of a text, the number of its label
FROM_NOTHING = {  # an encoder that no checkpoint describes
    "head": "classes", "order": "pre", "norm": "layer", "position": "rotary", "segments": 0, "input_norm": "none", "pool": "mean",
}  # fmt: skip


class Classify(TextTask[str, Fields, TextClasses]):
    """Label texts with a network with attention and, optionally, a linear model of their n-grams."""

    name = "classify"
    Data = ClassifyOptions
    Ask = TextRankAsk
    Known = TextClasses
    input_columns = ("text",)
    labels_last = True
    tuned_data: ClassVar[Mapping[str, Any]] = {"truncate": True}
    preview_examples = 200
    plain_words: ClassVar[Mapping[str, str]] = {"linear": "counting words"}
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(Classifier, {"encoder": "transformer", "position": "rotary"}),
        "lstm-attention": Preset(Classifier, {"encoder": "lstm", "units": 64}),
        "conv-attention": Preset(Classifier, {"encoder": "convolution", "units": 64}),
        "encoder": Preset(TextEncoder, FROM_NOTHING),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        recipe = {"batch_tokens": 1024, "warmup": 100, "patience": 8}
        if source.builtin:
            sizes = {"width": 64, "hidden": 128, "depth": 2, "dropout": 0.0}
            return {"model": sizes, "recipe": recipe | {"lr": 3e-3, "smoothing": 0.0, "epochs": 12}}
        # labeled texts are few: a model soon memorizes them
        sizes = {"width": 128, "hidden": 128, "depth": 1, "dropout": 0.5}
        return {"model": sizes, "recipe": recipe | {"lr": 1e-3, "epochs": 5}, "data": {"beside": "letters"}}

    def read(self, source: Source, options: ClassifyOptions) -> Splits[Fields]:
        if source.builtin:
            return embedded("sentiment")
        from mirada.data.columns.contents import number_first
        from mirada.runs.classes import every_class_learned, unseen_classes
        from mirada.tasks.classify.labels import label_notes, with_many_labels
        from mirada.tasks.classify.many import offered, read_many_labels

        if options.labels == "many":
            return with_many_labels(splits_of(source, partial(read_many_labels, options=options), options))
        with offered(source, options):
            found = from_tables(source, COLUMNS, options)
        splits = every_class_learned(found, _label_of, parts_held_out(source))
        known = sorted({_label_of(record.value) for record in splits.train}, key=number_first)
        unseen = unseen_classes([*splits.valid, *splits.test], known, _label_of) if known else []
        notes = [*splits.notes, *label_notes([_label_of(record.value) for record in splits.train], options)]
        return replace(splits, problems=[*splits.problems, *unseen], notes=notes)

    def choose(self, model: str, splits: Splits[Fields], options: ClassifyOptions, minutes: float) -> BudgetChoice:
        same = len({_label_of(record.value) for record in splits.train}) < 2
        if splits.train[0].where.startswith("builtin") or same or (splits.problems and options.bad == "stop"):
            return BudgetChoice()  # the settings of the task, or an error soon
        from mirada.tasks.classify.choice import chosen_for

        train, valid = ([record.value[0] for record in part] for part in (splits.train, splits.valid))
        return chosen_for(model, train, valid, options, minutes)

    def learn(self, splits: Splits[Fields], options: ClassifyOptions, start: TextClasses | None) -> TextClasses:
        from mirada.data.columns.contents import number_first

        texts, given = ([record.value[column] for record in splits.train] for column in (0, 1))
        kind = "any" if options.labels == "many" and "" in given else options.labels
        target = TARGETS[kind]
        counts = Counter(label for cell in given for label in target.labels_in(cell))
        labels = sorted(counts, key=number_first)
        one = f"a classifier needs at least two labels: all records have {labels[0]!r}. Is the label the second column?"
        require(len(labels) > 1, one)
        known = replace(
            TextClasses.learn(texts, options, start, labels), truncate=options.truncate, kind=kind,
            prior=tuple(counts[label] / len(given) for label in labels),
        )  # fmt: skip
        known = replace(known, weights=class_weights(given, labels)) if options.balance else known
        return known if options.beside == "none" else known.with_linear(texts, given, options.beside)

    def sizes(self, known: TextClasses) -> dict[str, Any]:
        return {"vocab": len(known), "classes": len(known.labels)}

    def examples(self, records: Sequence[TableRow], known: TextClasses, config: Any) -> EncodedRecords[Labeled]:
        texts = closed([record.value[0] for record in records], known, config)
        numbers = {label: number for number, label in enumerate(known.labels)}
        long = sum(len(text.tokens) > config.length for text in texts)
        note = (
            f"{long:,} of {len(texts):,} texts are longer than length={config.length} tokens: the network reads the beginning"
            f"{'' if known.linear is None else ', the linear model all of it'}"
        )
        if known.truncate:
            texts = [
                _fitted(known, record.value[0], item, config, True) for record, item in zip(records, texts, strict=True)
            ]
        wanted = (known.target.wanted(record.value[1], numbers) for record in records)
        items = list(zip(texts, wanted, strict=True))
        segments = getattr(config, "segments", 0)
        collated = partial(collate, tokenizer=known.tokenizer, segments=segments, weights=known.weights)
        lengths = [(len(text.tokens),) for text in texts]
        return EncodedRecords(items, lengths, collated, note if long and known.truncate else "")

    def problems(self, records: Sequence[TableRow], examples: EncodedRecords[Labeled], config: Any) -> list[Problem]:
        longest = max([size for (size,) in examples.lengths], default=0)
        way_out = f"Take a longer length (length={longest}), or let texts be cut (truncate=yes)."
        return too_long(records, examples.lengths, config.length, COLUMNS[:1], way_out)

    def objective(self, model: Model, recipe: Recipe) -> TextLoss:
        return TextLoss(model, recipe.smoothing)

    def answer(self, run: Run, inputs: Sequence[str], ask: TextRankAsk) -> list[Answer]:
        items, cut = closed(list(inputs), run.known, run.model.config), ask.truncate or run.known.truncate
        for row, (text, item) in enumerate(zip(inputs, items, strict=True)):
            there = item.says(run.known.tokenizer) and bool(text.strip())
            require(there, f"there is nothing to classify in {text[:60]!r}")
            items[row] = _fitted(run.known, text, item, run.model.config, cut)
        labels = run.known.labels
        for name in ask.candidates:
            require(name in labels, f"candidate {name!r} is not a label of this run; known: {', '.join(labels)}")
        scores = run.known.component_scores(network_scores(run, items), inputs)
        alone = {name: _answers_of(run.known, each) for name, each in scores.items()}
        if run.known.together:  # measured as well, although one component answers
            alone["both"] = _answers_of(run.known, replace(run.known, scales=run.known.together).joined_scores(scores))
        shares = run.known.target.shares(run.known.joined_scores(scores)).tolist()
        answers = []
        for row, (text, item) in enumerate(zip(inputs, items, strict=True)):
            by_component = {name: given[row] for name, given in alone.items()}
            shares[row], reader, note = _seen_before(
                run, text, item.tokens, {n: s[row] for n, s in scores.items()}, shares[row], by_component
            )
            ranked = sorted(zip(labels, shares[row], strict=True), key=lambda pair: -pair[1])
            ranked = [pair for pair in ranked if not ask.candidates or pair[0] in ask.candidates]
            read = _names_read(run, text, item)
            named = partial(class_labels, run, text, item.tokens, ranked[0], reader)
            told = padded([item], run.known.tokenizer, getattr(run.model.config, "segments", 0))
            segments = (None, told["segments"]) if "segments" in told else ()
            replay = partial(run.look, told["tokens"], *segments, labels=named)
            more = {"reader": reader} | ({"note": note} if note else {})
            best, score = run.known.target.answer(ranked)
            answer = Answer(
                text, best, score, by_component, read=read, replay=replay, more=more, note=note, **ask.ranking(ranked)
            )
            if ask.aligned:  # the linear model has no weights
                weights = last_weights(answer.look(), run.model.config, len(read))
                answer = replace(answer, written=(answer.text,), weights=weights)
            answers.append(answer)
        return answers

    def calibrate(self, run: Run, records: Sequence[TableRow]) -> TextClasses:
        texts = [record.value[0] for record in records]
        items = closed(texts, run.known, run.model.config)
        items = [_fitted(run.known, *each, run.model.config, True) for each in zip(texts, items, strict=True)]
        network = network_scores(run, items)
        numbers = {label: number for number, label in enumerate(run.known.labels)}
        wanted = torch.tensor([run.known.target.wanted(record.value[1], numbers) for record in records])
        weights = torch.tensor(run.known.weights)[wanted] if run.known.weights else None
        scores = run.known.component_scores(network, texts)
        components = list(scores.values())
        target = run.known.target
        scales = chosen_scales(components, wanted, weights, target)
        together = () if all(scales) else fitted_scales(components, wanted, weights, target)
        return replace(run.known, scales=scales, together=together)

    def measure(self, run: Run, records: Sequence[TableRow]) -> tuple[dict[str, float], list[Answer]]:
        from mirada.tasks.classify.labels import unseen_labels

        unseen = unseen_labels(records, run.known.labels, run.known.target)  # an error here, not a wrong answer
        require(not unseen, summarized(unseen, NAMED))
        answers = run([record.value[0] for record in records])
        given, wanted = [answer.text for answer in answers], [record.value[1] for record in records]
        return run.known.target.metrics(given, wanted), answers

    def details(self, run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> dict[str, Any]:
        from mirada.tasks.classify.labels import label_details

        given, wanted = [answer.text for answer in answers], [record.value[1] for record in records]
        target = run.known.target
        alone = component_accuracies([answer.value for answer in answers], wanted, target)
        both = alone.pop("both", next(iter(target.metrics(given, wanted).values())))
        verdict = {"verdict": readers_verdict(alone, run.known.readers, both)} if run.known.linear else {}
        right = [one == other for one, other in zip(given, wanted, strict=True)]
        ece = {"ece": calibration_error([answer.score for answer in answers], right)} if target is ONE else {}
        return label_details(given, wanted, run.known.labels, target) | ece | {"alone": alone} | verdict

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        names = {"attention": "attention alone", "words": "words alone"}
        alone = [(names[name], value) for name, value in details["alone"].items()] if len(details["alone"]) > 1 else []
        alone += [("calibration error", details["ece"])] if "ece" in details else []
        lines = [f"{name:<20} {value:.2f}" for name, value in alone]
        verdict = [details["verdict"]] if details.get("verdict") else []
        return [*super().detail_lines(details), *lines, *verdict]

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[TableRow]) -> dict[str, float]:
        from mirada.training.baselines import majority

        texts, labels = zip(*(record.value for record in learned()), strict=True)
        asked, wanted = zip(*(record.value for record in records), strict=True)
        known = run.known if run.known.linear else run.known.with_linear(texts, labels, KINDS[-1])
        answers = {
            "linear": _answers_of(known, known.linear.scores(asked)),
            "majority": [majority(labels)] * len(wanted),
        }
        metrics = {plain: next(iter(known.target.metrics(given, wanted).items())) for plain, given in answers.items()}
        return {f"{name}_{plain}": value for plain, (name, value) in metrics.items()}

    def sections(self, run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> "list[Section]":
        from mirada.tasks.classify.report import sections

        return sections(run, records, answers)


def _seen_before(
    run: Run,
    text: str,
    tokens: Sequence[int],
    scores: Mapping[str, Float[Tensor, " classes"]],
    shares: list[float],
    alone: Mapping[str, str],
) -> tuple[list[float], str, str]:
    """The shares of the labels for a text, which component decided, and a note. A text of which nothing was ever seen has the
    shares of the training data, where that is known.
    """
    known = run.known
    elsewhere = isinstance(run.model, TextEncoder) and not known.prior  # an unknown word was learned from, too
    by_network, by_words = (False, False) if elsewhere else known.unseen(text, tokens)
    if by_network and not by_words and "words" in known.readers:
        return known.target.shares(known.scales[1] * scores["words"]).tolist(), "words", ""
    if by_network:
        note = f"nothing in {shortened(text)!r} occurs in the training data: the score is only how often the label does there"
        return list(known.prior) or [1 / len(shares)] * len(shares), "none", note
    label, _ = known.target.answer(sorted(zip(known.labels, shares, strict=True), key=lambda pair: -pair[1]))
    return shares, known.reader_of(label, alone), ""


def _answers_of(known: TextClasses, scores: Float[Tensor, "texts classes"]) -> list[str]:
    """What some scores alone would answer."""
    if known.target is ONE:
        return [known.labels[number] for number in scores.argmax(1).tolist()]
    ranked = (sorted(zip(known.labels, row, strict=True), key=lambda p: -p[1]) for row in scores.sigmoid().tolist())
    return [known.target.answer(pairs)[0] for pairs in ranked]


def closed(texts: list[str], known: TextClasses, config: Any) -> list[FramedText]:
    """The tokens of texts as the network reads them: an encoder's with special tokens around, others with an end token, and
    with several where a text is shorter than the kernel of a convolution.
    """
    if isinstance(config, TextEncoderConfig):
        return framed_texts(known.tokenizer, texts)
    least = config.kernel if config.encoder == "convolution" else 1
    end, all_tokens = known.tokenizer.end, known.tokenizer.encode_all(texts)
    return [FramedText([*tokens, *[end] * max(1, least - len(tokens))], []) for tokens in all_tokens]


def _fitted(known: TextClasses, text: str, item: FramedText, config: Any, cut: bool) -> FramedText:
    """The tokens of a text that the network can read: an error, where it has more and may not be cut."""
    fits = len(item.tokens) <= config.length
    if cut and not fits and isinstance(config, TextEncoderConfig):
        return framed_texts(known.tokenizer, [text], config.length)[0]
    return item if fits else FramedText(known.fitted(item.tokens, config.length, text, cut), item.segments)


def _names_read(run: Run, text: str, item: FramedText) -> tuple[str, ...]:
    """What the network read, a name for each token."""
    tokenizer, tokens = run.known.tokenizer, item.tokens
    if isinstance(run.model, TextEncoder):
        return tuple(map(tokenizer.token, tokens))
    words = [piece.text for piece in tokenizer.pieces(text)][: len(tokens) - 1]
    return (*words, *[tokenizer.token(tokens[-1])] * (len(tokens) - len(words)))


def network_scores(run: Run, items: Sequence[FramedText]) -> Float[Tensor, "texts classes"]:
    """The scores of the network, computed in batches of texts of similar lengths."""
    scores = torch.empty(len(items), len(run.known.labels))
    segments = getattr(run.model.config, "segments", 0)
    for rows in in_order([(len(item.tokens),) for item in items], READ_AT_ONCE):
        inputs = padded([items[row] for row in rows], run.known.tokenizer, segments)
        scores[rows] = run.model(**to_device(inputs, run.device)).float().cpu()
    return scores


def collate(items: list[Labeled], tokenizer: Tokenizer, segments: int = 0, weights: Sequence[float] = ()) -> Microbatch:
    """A padded batch of texts and their classes; `weights` are the weights of the classes."""
    inputs = padded([text for text, _ in items], tokenizer, segments)
    classes = torch.tensor([label for _, label in items])
    of_classes = {"weights": torch.tensor(weights)[classes]} if weights else {}
    tokens = int(inputs["lengths"].sum())
    return Microbatch(inputs | {"classes": classes} | of_classes, (len(items),), tokens)


def last_weights(seen: "Seen", config: ClassifierConfig | TextEncoderConfig, tokens: int) -> Float[Tensor, "1 tokens"]:
    """The weights of the last layer, averaged over heads: those of the pooling query or of the first position; where all
    positions are pooled equally, the mean over them.

    A position of a convolution covers several tokens, which share its weight.
    """
    rows = slice(0, 1) if config.pool in ("first", "attention") else None
    weights = seen[seen.names[-1]].weights(rows=rows)[0].float().mean((0, 1)).cpu()
    if not isinstance(config, ClassifierConfig) or config.encoder != "convolution":
        return weights.unsqueeze(0)
    shares = torch.zeros(1, tokens)
    for place in range(config.kernel):
        shares[0, place : place + len(weights)] += weights / config.kernel
    return shares


def class_labels(
    run: Run, text: str, item: list[int], answer: tuple[str, float], reader: str, scores: Tensor
) -> "Labels":
    """The axis labels of a classifier: tokens; after a convolution, windows of tokens."""
    from mirada.looking.labels import AxisLabels, Labels, read_axis  # an answer is labeled when it is looked at

    known = run.known.tokenizer
    covered = framed_pieces(known, text) if isinstance(run.model, TextEncoder) else None
    words = read_axis(known, text, item, covered=covered)
    if getattr(run.model.config, "encoder", "") == "convolution":
        words = windows(words, run.model.config.kernel)
    axes: dict[str, AxisLabels] = {"text": words, "query": AxisLabels(("[query]",))}
    places = {"pool*": ("query", "text"), "*": ("text", "text")}
    return Labels(axes, places, {"input": text, "reader": reader}, answer, chosen=run.known.labels.index(answer[0]))


def windows(words: "TextLabels", size: int) -> "TextLabels":
    """The positions of a convolution without padding: windows of `size` tokens, each with its span in the text."""
    spans = list[tuple[int, int] | None]()
    for first in range(len(words.tokens) - size + 1):
        inside = [span for span in words.spans[first : first + size] if span is not None]
        spans.append((inside[0][0], inside[-1][1]) if inside else None)
    tokens = (" ".join(words.tokens[first : first + size]) for first in range(len(spans)))
    return replace(words, tokens=tuple(tokens), spans=tuple(spans))

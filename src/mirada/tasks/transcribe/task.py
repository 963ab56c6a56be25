"""transcribe: a recording in, what is said in it out, with the moments that the model listened to for every character."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mirada.corpora.morse import RATE, morse, spelled
from mirada.data.batching import Bucketed, Microbatch, in_buckets, in_order, pad
from mirada.data.options import TextOptions
from mirada.data.record import Found, Problem
from mirada.data.text.tokenize import Tokenizer, expected_tokens
from mirada.data.wav import read_wav
from mirada.decoding.search import Forbid, Hypothesis
from mirada.errors import require
from mirada.hub.vectors import start_from_vectors
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.looking.labels import Labels, TimeLabels, written_labels
from mirada.models.transcriber import Transcriber
from mirada.models.whisper import HALVED, Whisper
from mirada.runs.alignments import Alignments
from mirada.runs.answers import Answer
from mirada.runs.ask import TranscribeAsk
from mirada.runs.choice import SAMPLED, BudgetChoice, SequenceCost, affordable
from mirada.runs.inputs import Question, Questions
from mirada.runs.run import Run
from mirada.runs.sources import SETS, Source, Splits, TrainingRecords, numbered, splits_of
from mirada.runs.task import SAMPLES, Preset, Task, sample_evenly
from mirada.tasks.transcribe.listening import answers_of
from mirada.tasks.transcribe.metrics import (
    cell_text,
    character_error_rate,
    confusions,
    normalized,
    wanted_text,
    word_error_rate,
)
from mirada.tasks.transcribe.recordings import (
    HOP,
    REDUCED,
    FeatureExtractor,
    Hearing,
    MelBands,
    Recording,
    Spoken,
    SpokenRecord,
    find_wav,
    read_recordings,
    sound_in_memory,
    survey,
    wav_files,
)
from mirada.tasks.transcribe.speech import STRENGTHS, SpeechVocabulary, named_augmentation, random_draws
from mirada.tasks.transcribe.spoken_windows import SpokenWindows
from mirada.tasks.transcribe.whisper import WhisperVocabulary
from mirada.tasks.transcribe.windows import Waveform
from mirada.training.baselines import majority
from mirada.training.recipe import Recipe
from mirada.words import plural

if TYPE_CHECKING:
    from mirada.drawing.page import Section

GRID = 8  # lengths are rounded up to multiples of it, so that neighbors change from epoch to epoch
DECODED_AT_ONCE = 8192  # places of recordings
SIZES = (  # a unit is a place of the encoder, 0.04 s (decision 27)
    SequenceCost({"width": 96, "hidden": 192, "depth": 2, "heads": 4}, 0.049),
    SequenceCost({"width": 128, "hidden": 256, "depth": 2, "heads": 4}, 0.062, seen=2e5),
    SequenceCost({"width": 192, "hidden": 768, "depth": 3, "heads": 4}, 0.16, seen=1e7, data=5e5),
    SequenceCost({"width": 256, "hidden": 1024, "depth": 4, "heads": 4}, 0.3, seen=5e7, data=3e6),
)
MOST_PLACES = 2048  # of the longest recording that is learned from: 82 s
SHOWN, LISTED = 6, 20  # confusions in the terminal, and in the report
WHISPER, WHISPERS = (
    "whisper",
    ("language", "translate", "timestamps", "words"),
)  # its preset, and what only it can be asked
PLAIN_TEXT = {"timestamps": False, "words": False, "best": 1}  # of an answer that is compared with a text
FINE_TUNING = {"smoothing": 0.0, "batch_tokens": 12_000, "lr": 1e-5, "warmup": 50}
MORSE = "morse:"  # how an input begins that is a text to be keyed


@dataclass(frozen=True, kw_only=True)
class TranscribeOptions(TextOptions):
    """Recordings and texts. All are resampled to `rate`, and heard in so many `mels` bands. `augment` is how much recordings
    are changed while they are learned from: no, light or strong. `hears` says what is kept of them: bands, or for a Whisper
    waves; `language` is the one that is spoken, where a Whisper is fine-tuned that knows several.
    """

    fixed: ClassVar[tuple[str, ...]] = (*TextOptions.fixed, "rate", "mels", "hears")

    tokenizer: str = "char"
    rate: int = 16_000
    mels: int = 40
    augment: str = "strong"
    hears: str = "bands"
    language: str = ""

    def check(self) -> None:
        super().check()
        self.at_least(1_000, "rate")
        self.at_least(1, "mels")
        self.one_of("augment", *STRENGTHS)
        self.one_of("hears", "bands", "waves")

    @property
    def bands(self) -> Hearing:
        """How recordings are heard."""
        return Waveform(self.rate) if self.hears == "waves" else MelBands(self.rate, self.mels)


Heard = Recording | str | Path | tuple[Any, int]  # what a person may give: a file, or samples and their rate


class Transcribe(Task[Heard, Spoken, SpeechVocabulary]):
    """An input is a path, samples with their rate, or a text to be keyed (`morse:sos`)."""

    name, input_kind = "transcribe", "recording"
    Data = TranscribeOptions
    Ask = TranscribeAsk
    Known = SpeechVocabulary
    preview_options: ClassVar[Mapping[str, Any]] = {"tokens": 40}
    preview_examples = 64
    input_columns = ("name",)
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(Transcriber, {"kind": "transformer", "position": "rotary", "ctc": 0.5}),
        "luong": Preset(Transcriber, {"kind": "luong", "ctc": 0.5}),
        "whisper": Preset(Whisper),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        if model == WHISPER:
            return {"data": {"hears": "waves"}, "recipe": FINE_TUNING}
        sizes = {"width": 128, "hidden": 256, "depth": 2}
        recipe = {"smoothing": 0.0, "batch_tokens": 1500, "lr": 2e-3, "warmup": 200}
        if source.builtin:
            return {
                "model": sizes | {"dropout": 0.0}, "data": {"rate": RATE, "augment": "no"}, "recipe": recipe | {"epochs": 8},
            }  # fmt: skip
        return {"model": sizes | {"dropout": 0.2}, "data": {"rate": survey(source.data).rate}, "recipe": recipe}

    def choose(self, model: str, splits: Splits[Spoken], options: TranscribeOptions, minutes: float) -> BudgetChoice:
        if splits.builtin or model == WHISPER:
            return BudgetChoice()
        values = [record.value for record in splits.train]
        places = [places_of(len(recording.frames)) for recording, _ in values]
        tokens = [expected_tokens(text, options.tokenizer) for _, text in sample_evenly(values, SAMPLED)]
        count, mean = len(values), max(sum(places) / len(places), sum(tokens) / len(tokens)) + GRID / 2
        found = affordable(SIZES, mean * count, minutes, epochs=60)
        batch = 750 if found.seen < 3e6 else 1500 if found.seen < 1e7 else 3000
        longest = max(places)
        own = {"dropout": found.by_epochs(0.1, (10, 0.2))} | ({"length": MOST_PLACES} if longest > 512 else {})
        recipe = {"batch_tokens": batch, "warmup": found.warmup(batch)}
        seconds = sum(recording.seconds for recording, _ in values) / count
        return found.choice(own, recipe, {}, f"{plural(count, 'recording')} of about {seconds:.1f} s")

    def read(self, source: Source, options: TranscribeOptions) -> Splits[Spoken]:
        if source.builtin:
            return _builtin(options)

        def read(place: Any) -> Found[Spoken]:
            return read_recordings(place, FeatureExtractor(options.bands), options)

        return splits_of(source, read, options, group=lambda value: value[0].digest.hex())  # equal recordings

    def identity(self, value: Spoken) -> bytes:
        return value[0].digest + value[1].encode()

    def learn(
        self, splits: Splits[Spoken], options: TranscribeOptions, start: SpeechVocabulary | None
    ) -> SpeechVocabulary:  # fmt: skip
        if isinstance(start, WhisperVocabulary):
            return start.spoken(options.language)  # type: ignore[return-value]
        require(
            options.hears == "bands",
            "a Whisper is not trained from nothing: import a checkpoint, and give it with --from",
        )
        recordings, texts = zip(*(record.value for record in splits.train), strict=True)
        known = SpeechVocabulary.learn(texts, [recording.frames for recording in recordings], options, start)
        return replace(known, augment=options.augment)

    def options_for_new_data(self, options: Any, known: SpeechVocabulary | WhisperVocabulary) -> Any:
        if isinstance(known, WhisperVocabulary):
            return replace(options, hears="waves", rate=known.hears.rate)
        return options

    def sizes(self, known: SpeechVocabulary) -> dict[str, Any]:
        if isinstance(known, WhisperVocabulary):
            return {"mels": known.hears.mels, "places": known.hears.frames // HALVED}
        return {"vocab": len(known.vocabulary), "mels": len(known.mean), "pace": known.pace / REDUCED}

    def prepare(self, model: Model, known: SpeechVocabulary, options: TranscribeOptions) -> None:
        if options.vectors:
            start_from_vectors(model, options.vectors, known.vocabulary.tokens)

    def examples(
        self, records: Sequence[SpokenRecord], known: SpeechVocabulary, config: Any
    ) -> "SpokenExamples | SpokenWindows":
        if isinstance(known, WhisperVocabulary):
            return SpokenWindows(
                [record.value for record in records], known, known.encoded([r.value[1] for r in records])
            )
        texts = known.tokenizer.encode_all([record.value[1] for record in records])
        items = [(record.value[0].frames, text) for record, text in zip(records, texts, strict=True)]
        return SpokenExamples(items, known)

    def problems(self, records: Sequence[SpokenRecord], examples: Any, config: Any) -> list[Problem]:
        if isinstance(examples, SpokenWindows):
            faults = examples.faults(config.length)
        else:
            faults = [too_long(len(frames), len(text), config.length) for frames, text in examples.items]
        return [Problem(record.where, what) for record, what in zip(records, faults, strict=True) if what]

    def batches(self, examples: Any, recipe: Recipe) -> Bucketed:
        drawn = examples if isinstance(examples, SpokenWindows) else replace(examples, seed=recipe.seed)
        return Bucketed(drawn, recipe.batch_tokens, recipe.seed)

    def in_order(self, examples: Any, recipe: Recipe) -> list[Microbatch]:
        return in_buckets(examples, recipe.batch_tokens)

    def is_one(self, given: Any) -> bool:
        return super().is_one(given) or is_sound(given)

    def answer(self, run: Run, inputs: Sequence[Heard], ask: TranscribeAsk) -> list[Answer]:
        if isinstance(run.known, WhisperVocabulary):
            return answers_of(run, [_heard(given, run.known.waves) for given in inputs], ask)
        told = [name for name in WHISPERS if getattr(ask, name)]
        require(not told, f"{', '.join(told)} can be asked of a Whisper, and this run has none: import one")
        recordings = [_heard(given, run.options.bands) for given in inputs]  # type: ignore[attr-defined]
        wanted = ask.attention()
        stepper: Any = wanted.watch(run.stepper)
        tokenizer: Tokenizer = run.known.tokenizer
        never = Forbid(tuple(sorted(tokenizer.special - {tokenizer.end})))
        most, answers = run.model.config.length, dict[int, Answer]()
        recordings = [recording.beginning(most * REDUCED) for recording in recordings] if ask.truncate else recordings
        for recording in recordings:
            what = too_long(len(recording.frames), 0, most)
            require(not what, f"{recording.name}: {what} --truncate (in Python and JSON: truncate) cuts it here.")
        for rows in in_order([(places_of(len(recording.frames)),) for recording in recordings], DECODED_AT_ONCE):
            frames, lengths = _padded([recordings[row].frames for row in rows])
            state = stepper.start(stepper.encode(run.known.scaled(frames).to(run.device), lengths.to(run.device)))
            longest = [min(most - 1, ask.tokens or places_of(n) + 10) for n in lengths.tolist()]
            first = torch.full((len(rows),), tokenizer.start, device=run.device)
            hypotheses = ask.search()(stepper, state, first, tokenizer.end, longest, align=True, rules=[never])
            for row, ranked in zip(rows, hypotheses, strict=True):
                answers[row] = _as_answer(run, recordings[row], ranked, wanted)
        return [answers[row] for row in range(len(inputs))]

    def questions(self, run: Run, place: str) -> Questions:
        """Every wav file of a folder; or those that a table names, from where it is or from here."""
        if os.path.isdir(os.path.expanduser(place)):
            paths = wav_files(place)
            require(len(paths) > 0, f"{place}: no wav file in this folder")
            return Questions(("name",), [Question(path, path, (os.path.relpath(path, place),)) for path in paths])
        listed, folder = super().questions(run, place), os.path.dirname(place)
        rows = [replace(each, input=find_wav(folder, each.input) or each.input) for each in listed.rows]
        return replace(listed, rows=rows)

    def measure(self, run: Run, records: Sequence[SpokenRecord]) -> tuple[dict[str, float], list[Answer]]:
        answers = run.answers([record.value[0] for record in records], **PLAIN_TEXT)
        texts, wanted = [answer.text for answer in answers], [wanted_text(run, record) for record in records]
        metrics = {"wer": word_error_rate(texts, wanted), "cer": character_error_rate(texts, wanted)}
        if isinstance(run.known, WhisperVocabulary):
            texts, wanted = list(map(normalized, texts)), list(map(normalized, wanted))
            metrics["wer_normalized"] = word_error_rate(texts, wanted)
            metrics["cer_normalized"] = character_error_rate(texts, wanted)
        return metrics, answers

    def details(self, run: Run, records: Sequence[SpokenRecord], answers: Sequence[Answer]) -> dict[str, Any]:
        pairs = zip(answers, records, strict=True)
        texts = [(answer.text, wanted_text(run, record)) for answer, record in pairs]
        one = str if run.known.tokenizer.kind == "char" else str.split  # words, where tokens are words
        edits = confusions([one(text) for text, _ in texts], [one(wanted) for _, wanted in texts])
        listed = edits.most_common(LISTED)
        return {"confusions": [{"wanted": want, "given": text, "count": count} for (want, text), count in listed]}

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        shown = details["confusions"][:SHOWN]
        return [f"{cell_text(c['wanted'])} -> {cell_text(c['given'])}  {c['count']:,}" for c in shown]

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[SpokenRecord]) -> dict[str, float]:
        """The transcript that is wanted most often, whatever is heard."""
        wanted, known = ([wanted_text(run, record) for record in part] for part in (records, learned()))
        often = [majority(known)] * len(wanted)
        return {"wer_majority": word_error_rate(often, wanted), "cer_majority": character_error_rate(often, wanted)}

    def samples(self, run: Run, splits: Splits[Spoken]) -> list[str]:
        if run.source.builtin:
            return [f"{MORSE}{text}" for text in ("sos", "mirada", "hear me")]
        recordings = [record.value[0] for record in sample_evenly(splits.test or splits.valid, SAMPLES)]
        return [recording.name for recording in recordings if os.path.isfile(recording.name)]

    def length(self, value: Spoken) -> int:
        return len(value[1].split())

    def amount(self, records: Sequence[SpokenRecord]) -> str:
        seconds = sum(record.value[0].seconds for record in records)
        return f"{plural(len(records), 'recording')} ({seconds / 60:.1f} minutes)"

    def sections(self, run: Run, records: Sequence[SpokenRecord], answers: Sequence[Answer]) -> list["Section"]:
        from mirada.tasks.transcribe.report import sections

        return sections(run, records, answers)


def _builtin(options: TranscribeOptions) -> Splits[Spoken]:
    """Morse code in noise."""
    extract = FeatureExtractor(options.bands)
    train, valid, test = (
        numbered(name, ((extract(one.sound, f"{name} {n}"), one.text) for n, one in enumerate(morse(name), 1)))
        for name in SETS
    )
    return Splits(train, valid, test)


def is_sound(given: Any) -> bool:
    """Whether a value is (samples, rate), not two inputs."""
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], int | float | np.number)


def _heard(given: Heard, bands: Hearing) -> Recording:
    """An input as a recording: a file, samples with their rate, a text to be keyed in Morse code, or a recording."""
    if isinstance(given, Recording):
        return given
    extract = FeatureExtractor(bands)
    if not isinstance(given, str | Path):
        sound = sound_in_memory(given)
        return extract(sound, f"{sound.seconds:.2f} s of sound")
    name = str(given)
    if name.startswith(MORSE) and not os.path.exists(name):
        return extract(spelled(name.removeprefix(MORSE)), name)
    return extract(read_wav(name), name)


def places_of(frames: int) -> int:
    """What the convolutions of the model leave of so many frames.

    >>> places_of(1), places_of(8), places_of(9)
    (1, 2, 3)
    """
    return -(-frames // REDUCED)


def too_long(frames: int, tokens: int, most: int) -> str:
    """What is wrong with a recording or a text that the model is too short for; nothing, where it fits."""
    places, one = places_of(frames), HOP * REDUCED
    if places > most:
        return (
            f"too long: {places * one:.1f} s, and the model hears at most {most * one:.1f} s. Cut the recording, or train with "
            f"length={places}."
        )
    return f"too long: its text has {tokens} tokens, at most {most - 1} fit. Cut it." if tokens >= most else ""


Encoded = tuple[NDArray[np.float16], list[int]]  # frames and tokens


@dataclass(frozen=True)
class SpokenExamples:
    """Recordings and texts as the model is given them; with a seed, changed in every epoch."""

    items: Sequence[Encoded]
    known: SpeechVocabulary
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Rounded lengths of every recording and its text, by which batches are made."""
        lengths = ((places_of(len(frames)), len(text) + 1) for frames, text in self.items)
        return [(-(-places // GRID) * GRID, -(-tokens // GRID) * GRID) for places, tokens in lengths]

    def take(self, rows: Sequence[int]) -> "SpokenExamples":
        """Some of the recordings."""
        return replace(self, items=[self.items[row] for row in rows])

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """A padded batch: the frames; the text once from its start and once to its end."""
        frames, lengths = _padded([self.items[row][0] for row in rows])
        if self.seed is not None and self.known.augment != "no":
            draws = torch.from_numpy(random_draws(len(self), self.seed, epoch)[list(rows)])
            frames, lengths = named_augmentation(self.known.augment)(frames, lengths, draws)
        tokenizer, texts = self.known.tokenizer, [self.items[row][1] for row in rows]
        target, _ = pad([[tokenizer.start, *text] for text in texts], tokenizer.filler)
        wanted, counts = pad([[*text, tokenizer.end] for text in texts], IGNORED)
        inputs = {"frames": self.known.scaled(frames), "lengths": lengths, "target": target, "wanted": wanted}
        tokens = int(counts.sum())
        return Microbatch(inputs, (tokens,), tokens)


def _padded(recordings: Sequence[NDArray[np.float16]]) -> tuple[Tensor, Int[Tensor, " batch"]]:
    """Frames as one tensor, (batch, frames, mels), filled up with zeros, and their true numbers."""
    lengths = [len(frames) for frames in recordings]
    whole = np.zeros((len(recordings), max(lengths), recordings[0].shape[1]), dtype=np.float32)
    for row, frames in zip(whole, recordings, strict=True):
        row[: len(frames)] = frames
    return torch.from_numpy(whole), torch.tensor(lengths)


def _as_answer(run: Run, recording: Recording, ranked: list[Hypothesis], wanted: Alignments) -> Answer:
    """The best hypothesis as text, with the moments that it listened to."""
    tokenizer, best = run.known.tokenizer, ranked[0]
    texts = [tokenizer.decode(hypothesis.tokens).strip() for hypothesis in ranked]
    several = tuple(zip(texts, (h.score for h in ranked), strict=True)) if len(ranked) > 1 else ()
    places = places_of(len(recording.frames))
    weights, labels = best.alignment, partial(_labels_of, tokenizer, recording, best, texts[0])
    frames = run.known.scaled(torch.from_numpy(recording.frames.astype(np.float32))).unsqueeze(0)
    return Answer(
        recording.name, texts[0], best.score, value=recording, ranked=several, shown=len(several),
        read=_moments(places), **wanted.fields(best, places),
        written=tuple(tokenizer.token(token) for token in best.tokens), tokens=tuple(best.tokens),
        weights=None if weights is None else weights[: len(best.tokens), :places].cpu(),
        replay=partial(run.look, frames, None, torch.tensor([[tokenizer.start, *best.tokens]]), labels=labels),
    )  # fmt: skip


def _labels_of(tokenizer: Tokenizer, recording: Recording, best: Hypothesis, text: str, logits: Tensor) -> Labels:
    """What rows and columns are: tokens, and moments with the loudness of each."""
    loudness = recording.frames.astype(np.float32).mean(1)
    values = [float(loudness[first : first + REDUCED].mean()) for first in range(0, len(loudness), REDUCED)]
    times = TimeLabels(_moments(len(values)), tuple(values))
    return written_labels("times", times, tokenizer, best, text, recording.name, logits)


def _moments(places: int) -> tuple[str, ...]:
    """The middles of the places that the model makes of frames.

    >>> _moments(3)
    ('0.02 s', '0.06 s', '0.10 s')
    """
    return tuple(f"{(place + 0.5) * REDUCED * HOP:.2f} s" for place in range(places))

"""Answers of a Whisper: recordings of any length, heard window by window, many at once.

recording -> frames -> window -> prompt, search -> segments -> the next window begins where the last segment ended -> text
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.decoding.search import Hypothesis
from mirada.errors import require
from mirada.looking.labels import Labels, TimeLabels, written_axis, written_steps
from mirada.models.whisper import HALVED
from mirada.runs.answers import Answer
from mirada.runs.ask import TranscribeAsk
from mirada.runs.run import Run
from mirada.tasks.transcribe.moments import WITHOUT_SPACES, timed, token_places, word_groups
from mirada.tasks.transcribe.recordings import Recording
from mirada.tasks.transcribe.segments import Segment, TimedWord, cut
from mirada.tasks.transcribe.whisper import NO_TIMESTAMPS, TRANSCRIBE, TRANSLATE, WhisperVocabulary

AT_ONCE = 8  # windows that are decoded together
LEAST = 30  # a window moves on by at least this part of itself, so that nothing is heard for ever


@dataclass(frozen=True)
class _Heard:
    """What was written of one window."""

    offset: float  # when it begins, in seconds
    window: Float[Tensor, "window mels"]
    filled: float  # seconds of it that the recording fills
    prompt: tuple[int, ...]
    ranked: tuple[Hypothesis, ...]
    segments: tuple[Segment, ...]
    weights: Float[Tensor, "written places"] | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """What was written."""
        return tuple(self.ranked[0].tokens)


@dataclass(eq=False)
class _Listening:
    """A recording while it is heard."""

    recording: Recording
    frames: Float[Tensor, "frames mels"]
    seconds: float
    start: int = 0  # the frame at which the next window begins
    language: int | None = None
    heard: list[_Heard] = field(default_factory=list)


def answers_of(run: Run, recordings: Sequence[Recording], ask: TranscribeAsk) -> list[Answer]:
    """An answer for every recording, whose frames are its samples."""
    known: WhisperVocabulary = run.known
    asked = known.spoken_token(ask.language)
    require(not ask.translate or TRANSLATE in known.tasks, "this model cannot translate: leave out translate")
    require(known.hidden is not None or not ask.timestamps, NO_TIMESTAMPS)
    all_of_them = [_begin(known, recording, asked, ask.truncate) for recording in recordings]
    for first in range(0, len(all_of_them), AT_ONCE):
        waiting = [one for one in all_of_them[first : first + AT_ONCE] if one.recording.frames.any()]
        while waiting:
            run.check_cancelled()
            _hear(run, waiting, ask)
            waiting = [one for one in waiting if one.start * _frame(known) < one.seconds]
    return [_as_answer(run, one, ask) for one in all_of_them]


def _frame(known: WhisperVocabulary) -> float:
    """Seconds from one frame to the next."""
    return known.hears.place / HALVED


def _begin(known: WhisperVocabulary, recording: Recording, language: int | None, truncate: bool) -> _Listening:
    """A recording of which nothing is heard yet; cut, if so, after one window."""
    hears, samples = known.hears, recording.frames[:, 0]
    samples = samples[: hears.samples] if truncate else samples
    return _Listening(recording, hears(samples), len(samples) / hears.rate, language=language)


def _hear(run: Run, listening: Sequence[_Listening], ask: TranscribeAsk) -> None:
    """Hear the next window of each recording."""
    known: WhisperVocabulary = run.known
    stepper: Any = ask.attention().watch(run.stepper)
    windows = torch.stack([known.hears.window(one.frames, one.start) for one in listening]).to(run.device)
    memory = stepper.encode(windows)
    if known.languages:
        _detect(known, stepper, memory, listening)
    whole = [one.start == 0 and one.seconds <= known.hears.seconds for one in listening]
    moments = [known.hidden is not None and (ask.timestamps or not one) for one in whole]
    task = TRANSLATE if ask.translate else TRANSCRIBE
    prompts = [known.prompt(one.language, task, stamped) for one, stamped in zip(listening, moments, strict=True)]
    for stamped in sorted(set(moments)):  # these rows have prompts of one length, and the same rules
        rows = [row for row, each in enumerate(moments) if each == stamped]
        found = _search(run, stepper, type(memory)(memory.states[rows]), [prompts[row] for row in rows], stamped, ask)
        for row, ranked in zip(rows, found, strict=True):
            one = listening[row]
            heard = _cut(known, one, windows[row], prompts[row], ranked, stamped)
            looks = ask.words or ask.aligned
            one.heard.append(_placed(run, heard, memory.states[row], ask, one.language) if looks else heard)


def _detect(known: WhisperVocabulary, stepper: Any, memory: Any, listening: Sequence[_Listening]) -> None:
    """Set the language of recordings that have none yet: the likeliest after the start of a text."""
    rows = [row for row, one in enumerate(listening) if one.language is None]
    if rows:
        tokens = torch.tensor(sorted(known.languages.values()), device=memory.states.device)
        first = torch.full((len(rows),), known.start, device=tokens.device)
        scores, _ = stepper.step(first, stepper.start(type(memory)(memory.states[rows])))
        for row, best in zip(rows, scores[:, tokens].argmax(-1).tolist(), strict=True):
            listening[row].language = int(tokens[best])


def _search(
    run: Run, stepper: Any, memory: Any, prompts: list[list[int]], stamped: bool, ask: TranscribeAsk
) -> list[list[Hypothesis]]:
    """What is written after prompts of one length."""
    known: WhisperVocabulary = run.known
    state, columns = stepper.start(memory), torch.tensor(prompts, device=run.device).T
    for column in columns[:-1]:
        _, state = stepper.step(column, state)
    room = run.model.config.length - len(columns)
    require(
        room > 0, f"a text has room for {run.model.config.length} tokens, and {len(columns)} of them are its prompt"
    )
    most = min(room, ask.tokens) if ask.tokens else room
    found: list[list[Hypothesis]] = ask.search()(
        stepper, state, columns[-1].contiguous(), known.end, most, rules=known.rules(stamped)
    )
    return found


def _cut(
    known: WhisperVocabulary, one: _Listening, window: Tensor, prompt: list[int], ranked: list[Hypothesis],
    stamped: bool,
) -> _Heard:  # fmt: skip
    """The segments of a window; the recording goes on where the last of them ended."""
    hears, frame = known.hears, _frame(known)
    offset = one.start * frame
    filled, tokens = min(one.seconds - offset, hears.frames * frame), ranked[0].tokens
    segments, used = [Segment(offset, offset + filled, tuple(tokens))], filled
    if stamped and known.first is not None:
        segments, used = cut(tokens, known.first, hears.place, offset, filled)
    if used < filled and used * LEAST < hears.seconds:  # no further window would hear what follows the last pair
        said = sum(len(segment.tokens) for segment in segments)
        segments.append(Segment(segments[-1].end, offset + filled, tuple(tokens[said:])))
        used = filled
    one.start += hears.frames if used >= filled else round(used / frame)
    texts = [replace(segment, text=known.text(segment.tokens).strip()) for segment in segments]
    segments = [segment for segment in texts if segment.text or not stamped]
    return _Heard(offset, window, filled, tuple(prompt), tuple(ranked), tuple(segments))


# Where the words are: one pass over what was written, with its attention.


def _placed(run: Run, heard: _Heard, states: Tensor, ask: TranscribeAsk, language: int | None) -> _Heard:
    """A window with the weights of what was written over the sound, and if so with its words in time."""
    known: WhisperVocabulary = run.known
    weights = None
    if ask.aligned:
        rows = len(heard.prompt) - 1
        top = _cross(run, states, [*heard.prompt, *heard.tokens])[-1].mean(0)
        weights = top[rows : rows + len(heard.tokens)].cpu()
    if not ask.words:
        return replace(heard, weights=weights)
    texts = [[token for token in segment.tokens if token < known.end] for segment in heard.segments]
    said = [token for text in texts for token in text]
    task = TRANSLATE if ask.translate else TRANSCRIBE
    prompt = known.prompt(language, task, timestamps=False)
    room = run.model.config.length - len(prompt) - 1
    said = said[:room]
    layers = _cross(run, states, [*prompt, *said, known.end])
    places = max(1, min(layers[0].shape[-1], round(heard.filled / known.hears.place)))
    chosen = _following(known, layers)[..., :places]
    begins = token_places(chosen[:, len(prompt) - 1 : -1], known.smoothing)
    code = next((code for code, token in known.languages.items() if token == language), "en")
    segments, at = [], 0
    for segment, text in zip(heard.segments, texts, strict=True):
        text = text[: max(0, room - at)]
        words: tuple[TimedWord, ...] = ()
        if text:
            groups = word_groups(text, known.text, code if code in WITHOUT_SPACES else "en")
            words = timed(groups, begins[at : at + len(text) + 1].tolist(), known.hears.place, heard.offset)
        segments.append(replace(segment, words=words))
        at += len(text)
    return replace(heard, weights=weights, segments=tuple(segments))


@torch.no_grad()
def _cross(run: Run, states: Tensor, tokens: list[int]) -> list[Float[Tensor, "heads tokens places"]]:
    """The weights over the sound of every layer of the decoder, while it reads these tokens."""
    from mirada.looking.record import look

    model: Any = run.model
    target = torch.tensor([tokens], device=run.device)
    with look(model) as seen:
        model.decoder(model.target_place(model.words(target)), states.unsqueeze(0).to(run.device))
    return [seen[f"decoder.layers.{number}.cross"].weights()[0] for number in range(len(model.decoder.layers))]


def _following(
    known: WhisperVocabulary, layers: Sequence[Float[Tensor, "heads tokens places"]]
) -> Float[Tensor, "chosen tokens places"]:
    """The heads that follow the sound: those the checkpoint names, else all of the upper half of the layers."""
    for layer, head in known.heads:
        there = layer < len(layers) and head < len(layers[0])
        require(
            there, f"alignment_heads names layer {layer}, head {head}: the model has {len(layers)} of {len(layers[0])}"
        )
    if known.heads:
        return torch.stack([layers[layer][head] for layer, head in known.heads])
    return torch.cat(list(layers[len(layers) // 2 :]))


# Answers.


def _as_answer(run: Run, one: _Listening, ask: TranscribeAsk) -> Answer:
    """All windows of a recording as one answer."""
    known: WhisperVocabulary = run.known
    name, heard = one.recording.name, one.heard
    if not heard:
        more: dict[str, Any] = {"segments": []} if ask.timestamps else {}
        return Answer(name, "", 0.0, value=one.recording, more=more, note=f"{name}: silent from beginning to end")
    segments = [segment for part in heard for segment in part.segments]
    text = known.text([token for segment in segments for token in segment.tokens]).strip()
    best = [part.ranked[0] for part in heard]
    steps = sum(len(each.tokens) + each.finished for each in best)
    score = best[0].score if len(best) == 1 else sum(each.logprob for each in best) / max(1, steps)
    words = [word for segment in segments for word in segment.words]
    shown, more = _described(known, one, segments, words, text, ask)
    alone = heard[0].ranked if len(heard) == 1 else ()
    several = tuple((known.text(each.tokens).strip(), each.score) for each in alone) if len(alone) > 1 else ()
    tokens, last, wanted = heard[0].tokens, heard[-1], ask.attention()
    read = moments_of(known, heard[0].filled)
    require(
        len(heard) == 1 or not wanted.wanted,
        f"alignments are those of one window: {name} has {len(heard)}. Cut it, or let it be cut: --truncate",
    )
    return Answer(
        name, shown, score, value=one.recording, ranked=several, shown=len(several),
        read=read, written=tuple(map(known.tokenizer.token, tokens)), more=more, **wanted.fields(best[0], len(read)),
        tokens=tokens, weights=_within(known, heard[0]),
        note="" if last.ranked[0].finished or ask.tokens else f"{name}: the text of a window was too long, and is cut",
        replay=partial(_replay, run, heard[0], text, name),
    )  # fmt: skip


def _described(
    known: WhisperVocabulary,
    one: _Listening,
    segments: list[Segment],
    words: list[TimedWord],
    text: str,
    ask: TranscribeAsk,
) -> tuple[str, dict[str, Any]]:
    """An answer as a person reads it, and what `--json` shows besides: with moments, the text is lines of segments or words."""
    language = next((code for code, token in known.languages.items() if token == one.language), "")
    more: dict[str, Any] = {"language": language} if language else {}
    if ask.timestamps:
        more["segments"] = [segment.described(ask.words) for segment in segments]
    if ask.words and not ask.timestamps:
        said = [Segment(word.start, word.end, (), word.text) for word in words]
        more["words"] = [each.described(False) for each in said]
        segments = said
    if not (ask.timestamps or ask.words):
        return text, more
    return "\n".join(segment.line for segment in segments), more | {"text": text}


def _within(known: WhisperVocabulary, heard: _Heard) -> Tensor | None:
    """The weights over the part of a window that the recording fills."""
    return None if heard.weights is None else heard.weights[:, : len(moments_of(known, heard.filled))]


def moments_of(known: WhisperVocabulary, seconds: float) -> tuple[str, ...]:
    """The middles of the places of so many seconds."""
    place = known.hears.place
    return tuple(f"{(number + 0.5) * place:.2f} s" for number in range(max(1, round(seconds / place))))


def _replay(run: Run, heard: _Heard, text: str, name: str, **more: Any) -> Any:
    """All attention of the first window and of what was written of it."""
    target = torch.tensor([[*heard.prompt, *heard.tokens]])
    return run.look(heard.window.unsqueeze(0), target, labels=partial(_labels, run.known, heard, text, name), **more)


def _labels(known: WhisperVocabulary, heard: _Heard, text: str, name: str, logits: Tensor) -> Labels:
    """What rows and columns are: the moments of the window with their loudness, and tokens."""
    frames = heard.window.float().mean(1)
    loudness = [float(part.mean()) for part in frames.split(HALVED)]
    times = TimeLabels(moments_of(known, len(loudness) * known.hears.place), tuple(loudness))
    axes = {"times": times, "target": written_axis(known.tokenizer, heard.tokens, heard.prompt)}
    places = {"*encoder*": ("times", "times"), "*decoder*self": ("target", "target"), "*decoder*": ("target", "times")}
    written = [*heard.tokens, *[known.end] * heard.ranked[0].finished]
    steps = written_steps(logits[0], written, known.tokenizer, first=len(heard.prompt) - 1)
    return Labels(axes, places, {"input": name}, (text, heard.ranked[0].score), steps)

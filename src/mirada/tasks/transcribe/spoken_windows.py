"""Recordings and texts that a Whisper is fine-tuned with: whole windows, and what is to be written after a prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from mirada.data.batching import Microbatch, pad
from mirada.layers.output import IGNORED
from mirada.models.whisper import HALVED
from mirada.tasks.transcribe.recordings import Spoken
from mirada.tasks.transcribe.whisper import TRANSCRIBE, WhisperVocabulary

GRID = 8  # lengths of texts are rounded up to multiples of it, so that neighbors change from epoch to epoch


@dataclass(frozen=True)
class SpokenWindows:
    """Recordings, each of at most a window, and the tokens of their texts. Frames are made when a batch is."""

    items: Sequence[Spoken]
    known: WhisperVocabulary
    texts: Sequence[list[int]]

    def __len__(self) -> int:
        return len(self.items)

    @property
    def prompt(self) -> list[int]:
        """What every text begins with."""
        return self.known.prompt(self.known.spoken_token(""), TRANSCRIBE, timestamps=False)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Places of a window, and the rounded length of a text, by which batches are made."""
        places, before = self.known.hears.frames // HALVED, len(self.prompt)
        return [(places, -(-(before + len(text)) // GRID) * GRID) for text in self.texts]

    def faults(self, most: int) -> list[str]:
        """What is wrong with each, for a model that writes so many tokens; nothing, where it fits."""
        window, before = self.known.hears.seconds, len(self.prompt)
        found = []
        for (recording, _), text in zip(self.items, self.texts, strict=True):
            long = f"too long: {recording.seconds:.1f} s, and a window has {window:g} s. Cut the recording."
            wordy = f"too long: its text has {len(text)} tokens, at most {most - before} fit. Cut it."
            found.append(long if recording.seconds > window else wordy if before + len(text) > most else "")
        return found

    def take(self, rows: Sequence[int]) -> "SpokenWindows":
        """Some of the recordings."""
        return replace(self, items=[self.items[row] for row in rows], texts=[self.texts[row] for row in rows])

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """A batch: windows; the prompts and texts; what is wanted, which the prompt is not."""
        hears, prompt, end = self.known.hears, self.prompt, self.known.end
        frames = torch.stack([hears.window(hears(self.items[row][0].frames[:, 0]), 0) for row in rows])
        target, _ = pad([[*prompt, *self.texts[row]] for row in rows], end)
        wanted, _ = pad([[*[IGNORED] * (len(prompt) - 1), *self.texts[row], end] for row in rows], IGNORED)
        tokens = int((wanted != IGNORED).sum())
        return Microbatch({"frames": frames, "target": target, "wanted": wanted}, (tokens,), tokens)

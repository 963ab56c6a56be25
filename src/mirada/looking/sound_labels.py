"""Rows and columns of a transcript: what was written, and moments of a recording."""

import numpy as np
from torch import Tensor

from mirada.data.mel import HOP
from mirada.data.recording import Recording
from mirada.data.tokenize import Tokenizer
from mirada.decoding.hypothesis import Hypothesis
from mirada.looking.labels import Labels, TimeLabels
from mirada.looking.text_labels import written_labels


def sound_labels(
    tokenizer: Tokenizer, recording: Recording, best: Hypothesis, text: str, frames: int, logits: Tensor
) -> Labels:
    """The labels of a model that hears so many frames at once; beside the moments stands how loud they are."""
    loudness = recording.frames.astype(np.float32).mean(1)
    values = [float(loudness[first : first + frames].mean()) for first in range(0, len(loudness), frames)]
    times = TimeLabels(moments(len(values), frames), tuple(values))
    return written_labels("times", times, tokenizer, best, text, recording.name, logits)


def moments(places: int, frames: int) -> tuple[str, ...]:
    """The middles of places of so many frames.

    >>> moments(3, frames=4)
    ('0.02 s', '0.06 s', '0.10 s')
    """
    return tuple(f"{(place + 0.5) * frames * HOP:.2f} s" for place in range(places))

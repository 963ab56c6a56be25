"""What comes before and after the stack in a step: words and their positions, and the scores of the next word."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.positions import Learned, Sinusoidal
from mirada.layers.dropout import Dropout
from mirada.layers.embed import Placed, Words
from mirada.layers.output import Output

FIRST = 64  # positions of which sines are made at once; more are made when they are needed

_waves: "WeakKeyDictionary[nn.Module, Tensor]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Ends:
    """The ends of a model whose steps go from words to the scores of words."""

    words: Words
    place: Placed
    output: Output

    def refuses(self) -> str | None:
        """Why these ends cannot be quick; None if they can."""
        if (type(self.words), type(self.place), type(self.output)) != (Words, Placed, Output):
            return "its words are embedded or scored in a way of their own"
        if type(self.place.dropout) is not Dropout or type(self.place.position) not in (type(None), Learned, Sinusoidal):
            return f"its position is {self.place.position}"
        if self.words.weight.shape != self.output.weight.shape:
            return "it reads and writes two vocabularies"
        return None

    def position(self, place: int) -> Float[Tensor, " width"] | None:
        """What the position adds at a place that it `reaches`; None: nothing."""
        position, like = self.place.position, self.words.weight
        if isinstance(position, Learned):
            return position.table[place]
        if position is None:
            return None
        waves = _waves.get(position)
        if waves is None or place >= len(waves) or waves.dtype != like.dtype or waves.device != like.device:
            places = torch.arange(max(FIRST, 2 * place), device=like.device)
            waves = _waves[position] = position(places, dtype=like.dtype)
        return waves[place]

    def reaches(self, place: int) -> bool:
        """Whether there is a position for that place."""
        position = self.place.position
        return not isinstance(position, Learned) or place < len(position.table)

"""What comes before and after a stack: words and their positions, and the scores of the next word."""

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
POSITIONS = (type(None), Learned, Sinusoidal)
OUTPUTS = (type(None), Output)

_waves: "WeakKeyDictionary[nn.Module, tuple[tuple[object, ...], Tensor]]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Ends:
    """The ends of a model that goes from words to the scores of words, or of an encoder, which has no output."""

    words: Words
    place: Placed
    output: Output | None = None

    @property
    def modules(self) -> list[nn.Module]:
        return [self.words, self.place, *([] if self.output is None else [self.output])]

    def refuses(self) -> str | None:
        """Why these ends cannot be passed by; None if they can."""
        if type(self.words) is not Words or type(self.place) is not Placed or type(self.output) not in OUTPUTS:
            return "its words are embedded or scored in a way of their own"
        if type(self.place.dropout) is not Dropout or type(self.place.position) not in POSITIONS:
            return f"its position is {self.place.position}"
        if self.output is not None and self.words.weight.shape != self.output.weight.shape:
            return "it reads one vocabulary and writes another"
        return None

    def reaches(self, last: int) -> bool:
        """Whether there are positions for all places up to that one."""
        position = self.place.position
        return not isinstance(position, Learned) or last < len(position.table)

    def positions(self, last: int) -> Float[Tensor, "places width"] | None:
        """What the position adds at place 0, 1, ..., up to a place that it `reaches` or further; None: nothing."""
        position, like = self.place.position, self.words.weight
        if isinstance(position, Learned):
            return position.table.detach().contiguous()
        if not isinstance(position, Sinusoidal):
            return None
        kind = (position.width, position.base, position.layout, like.dtype, like.device)
        kept = _waves.get(position)
        if kept is None or kept[0] != kind or last >= len(kept[1]):
            places = torch.arange(max(FIRST, 2 * last), device=like.device)
            kept = _waves[position] = (kind, position(places, dtype=like.dtype))
        return kept[1]

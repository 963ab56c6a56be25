"""Keys and values of another sequence, made once and looked at by many calls."""

from dataclasses import dataclass, field, replace

from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.neighborhoods import Padding
from mirada.attention.scores import Score


@dataclass(frozen=True, eq=False)
class Memory:
    """What `Attention.remember` made of a memory: projected, turned and prepared for the score.

    `score` compares queries with keys in that form. `padding` is what the memory's lengths hide. `origin` tells one memory
    from another: a reordered memory has the origin of the one it was made from.
    """

    keys: Float[Tensor, "batch kheads keys kdim"]
    values: Float[Tensor, "batch vheads keys value_dim"]
    score: Score
    padding: Padding | None = None
    positions: Int[Tensor, "*batch keys"] | None = None
    origin: object = field(default_factory=object, repr=False)

    @property
    def batch(self) -> int:
        """How many samples there are."""
        return self.keys.shape[0]

    @property
    def length(self) -> int:
        """How many keys a sample has."""
        return self.keys.shape[2]

    def reorder(self, index: Int[Tensor, " entries"]) -> "Memory":
        """The memory in which entry b is what entry index[b] was."""
        padding, positions = self.padding, self.positions
        if padding is not None and len(padding.lengths) > 1:
            padding = Padding(padding.lengths.index_select(0, index))
        if positions is not None and positions.ndim == 2 and len(positions) > 1:
            positions = positions.index_select(0, index)
        keys, values = (x.index_select(0, index) for x in (self.keys, self.values))
        return replace(self, keys=keys, values=values, padding=padding, positions=positions)

"""Keys and values of another sequence, made once and looked at by many calls."""

from dataclasses import dataclass, field, replace

from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.neighborhoods import Padding
from mirada.attention.scores import Score


@dataclass(frozen=True, eq=False)
class Memory:
    """What `Attention.remember` made of a memory: keys and values, projected, rotated and prepared for the score.

    Args:
        keys: keys in the form that `score` compares, (batch, key heads, keys, dim).
        values: values, (batch, value heads, keys, value_dim).
        score: what compares queries with these keys.
        padding: the keys that are padding; None where there is none.
        positions: the positions of the keys; 0, 1, 2, ... if None.
        origin: what identifies a memory: a reordered one has the origin of the one it was made from.

    >>> import torch
    >>> from mirada.attention import Attention, MultiHead
    >>> memory = Attention(MultiHead(width=4, heads=2)).remember(torch.zeros(3, 5, 4))
    >>> memory.batch, memory.length
    (3, 5)
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

"""What happens without a place of the input: hidden from every layer, one place after the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.attention.equation import Attention
from mirada.attention.neighborhoods import Mask, Neighborhood
from mirada.attention.places import Places


@dataclass(frozen=True, eq=False, repr=False)
class Without(Neighborhood):
    """Every key but one: N(i) = {j: j != key}.

    >>> Without(1).dense(1, 3).int().tolist()
    [[[[1, 0, 1]]]]
    """

    key: int

    def sees(self, places: Places) -> Mask:
        return places.column != self.key


@contextmanager
def hidden(layers: Sequence[Attention], key: int) -> Iterator[None]:
    """No query of these layers sees the key, inside the block."""
    before = [layer.where for layer in layers]
    for layer in layers:
        layer.where = layer.where & Without(key)
    try:
        yield
    finally:
        for layer, where in zip(layers, before, strict=True):
            layer.where = where


def drops(
    values: Callable[[], Float[Tensor, "..."]], hide: Callable[[int], AbstractContextManager[None]], places: int
) -> Float[Tensor, "rows places ..."]:
    """By how much the value of each row falls while each place is hidden; what it says of itself through the residual
    stream stays.
    """
    with torch.no_grad():
        whole = values()
        columns = []
        for key in range(places):
            with hide(key):
                columns.append(whole - values())
    return torch.stack(columns, dim=1)

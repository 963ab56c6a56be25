"""Numbers that are not finite, where nobody may look: they are 0 before anything is computed from them."""

from dataclasses import replace

import torch
from torch import Tensor

from mirada.attention.kernels.reference import NUMBERS_AT_ONCE
from mirada.attention.neighborhoods import Neighborhood
from mirada.attention.places import Places
from mirada.shapes import finite


def clean(
    x: Tensor, memory: Tensor, values: Tensor, where: Neighborhood, places: Places, room: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs with 0 for every number that is not finite and stands where no query of its sample may look.

    A projection's gradient multiplies its input, so a NaN in the padding would poison the weights even where the
    gradient that meets it is zero. With `room`, the queries up to there are still to come: a key that one of them may see
    is not hidden, as it is not in the full computation.
    """
    if not where.reflexive and finite(memory) and (values is memory or finite(values)):
        return x, memory, values
    if room is not None:
        places = to_come(where, places, room)
    hidden = where.unseen(places, rows_at_once=max(1, NUMBERS_AT_ONCE // max(1, places.keys)))
    if hidden is None:
        return x, memory, values
    hidden = hidden.all(1)[:, places.keys - memory.shape[1] :].unsqueeze(-1)
    cleaned = torch.where(hidden, memory.nan_to_num(0, 0, 0), memory)
    own = cleaned if x is memory else x
    return own, cleaned, cleaned if values is memory else torch.where(hidden, values.nan_to_num(0, 0, 0), values)


def to_come(where: Neighborhood, places: Places, room: int) -> Places:
    """The places of a step with all queries up to `room` behind it, or as many as a set of fixed size has."""
    for last in range(room, places.start + places.queries, -1):
        longer = replace(places, queries=last - places.start)
        try:
            where.check(replace(longer, keys=last), heads=0, exact=False)
        except ValueError:
            continue
        return longer
    return places

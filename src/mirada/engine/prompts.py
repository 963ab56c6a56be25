"""The keys and values of the last prompts, for those that begin alike: a chat that goes on, or the same instructions again."""

from collections.abc import Sequence
from threading import Lock

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.cache import Cache, writable

Text = Int[Tensor, " length"]
Rooms = list[Float[Tensor, "heads length dim"]]  # keys and values of every layer

MOST_BYTES = 1 << 28  # of all that is kept
MOST = 64  # prompts
SHORTEST = 16  # places that are worth a copy


class Prompts:
    """What was read last, bounded by `most_bytes`; what was not used for longest is forgotten first.

    Places have the same bits however they are read, so a text that begins with copies goes on as if it had been read.

    >>> known, caches = Prompts(), [Cache(torch.rand(1, 2, 32, 3), torch.rand(1, 2, 32, 3))]
    >>> known.keep(torch.arange(20), caches)
    >>> known.recall(torch.tensor([*range(18), 7, 7]), caches)
    18
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes, self.lock = most_bytes, Lock()
        self.kept: list[tuple[Text, Rooms]] = []  # the last one used at the end

    def recall(self, tokens: Text, caches: Sequence[Cache]) -> int:
        """Copy the longest beginning of a text that was read before; how many places it has, at most all but the last."""
        with self.lock:
            lengths = [alike(tokens[:-1], text) for text, _ in self.kept]
            length = max(lengths, default=0)
            if length < SHORTEST:
                return 0
            self.kept.append(self.kept.pop(lengths.index(length)))
            rooms = self.kept[-1][1]
        with writable():
            for to, room in zip(rooms_of(caches), rooms, strict=True):
                to[:, :length] = room[:, :length]
        return length

    def keep(self, tokens: Text, caches: Sequence[Cache]) -> None:
        """Keep a text that was read, in place of those that it begins with."""
        length = len(tokens)
        size = sum(4 * room[:, :length].numel() for room in rooms_of(caches))
        if length <= SHORTEST or size > self.most_bytes:
            return
        with writable():
            entry = (tokens.clone(), [room[:, :length].clone() for room in rooms_of(caches)])
        with self.lock:
            self.kept = [each for each in self.kept if alike(tokens, each[0]) < len(each[0])] + [entry]
            while len(self.kept) > MOST or self.bytes > self.most_bytes:
                del self.kept[0]

    @property
    def bytes(self) -> int:
        """The memory of all keys and values."""
        return sum(4 * room.numel() for _, rooms in self.kept for room in rooms)

    def forget(self) -> None:
        """Forget all texts."""
        with self.lock:
            self.kept = []


def rooms_of(caches: Sequence[Cache]) -> Rooms:
    """The keys and values of the first row."""
    return [room[0] for cache in caches for room in (cache.keys, cache.values)]


def alike(one: Int[Tensor, " length"], other: Int[Tensor, " known"]) -> int:
    """How many tokens two texts begin with alike.

    >>> alike(torch.tensor([3, 5, 7]), torch.tensor([3, 5, 8, 9]))
    2
    """
    length = min(len(one), len(other))
    return int(torch.eq(one[:length], other[:length]).cumprod(0).sum())

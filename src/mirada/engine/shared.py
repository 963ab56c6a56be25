"""Decodings whose rows have lengths of their own: texts join and leave between steps, and share each of them.

A text begins in a decoding of its own, which reads its source and its prompt. Its keys and values are copied when it joins.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.cache import Cache, writable
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Padding
from mirada.decoding.search import Look
from mirada.engine.compiled import Compiled, CompiledDecoding
from mirada.engine.rows import WatchedState, Watching
from mirada.engine.state import EngineState, KeptHead
from mirada.engine.stepper import PackedStepper
from mirada.native import decode
from mirada.native.library import address, threads_for

MOST_BYTES = 1 << 30  # of the caches and sources of all rows; more memory is taken for a single text only
WORTH = 20_000_000  # multiplications of a step from which texts with a source are written together
KEPT_BYTES = 1 << 26  # of caches that stay while nothing is written


class SharedDecoding(CompiledDecoding):
    """The rows of several texts. `fills` has how many places each row of the caches holds; free rows are not computed."""

    def __init__(self, compiled: Compiled, rows: int, room: int, source: int, heads: Sequence[KeptHead]) -> None:
        job, new = compiled.blank, compiled.words.new_empty
        with torch.inference_mode(False):
            rooms = new(job.depth, 2, rows, job.groups, room, job.dim)
            caches = [Cache(*each.unbind(0)) for each in rooms.unbind(0)]
            sources = new(job.depth, 2, rows, job.groups, source, job.dim) if job.cross else new(0, 2)
            padding, scores = (
                Padding(torch.zeros(rows, dtype=torch.int64)),
                [each.score for each in compiled.half.across],
            )
            memories = [
                Memory(keys, values, score, padding)
                for (keys, values), score in zip(sources.unbind(0), scores, strict=True)
            ]
            super().__init__(compiled, caches, memories, heads)
            self.fills = torch.zeros(rows, dtype=torch.int64)
        self.size = (rows, room, source)

    def copy(self, row: int, other: CompiledDecoding, from_row: int, filled: int, source: int) -> None:
        """Let a row continue the row of another decoding."""
        with writable():
            for mine, its in zip(self.caches, other.caches, strict=True):
                if filled:
                    mine.keys[row, :, :filled] = its.keys[from_row, :, :filled]
                    mine.values[row, :, :filled] = its.values[from_row, :, :filled]
            for memory, read in zip(self.sources, other.sources, strict=True):
                memory.keys[row, :, :source] = read.keys[from_row, :, :source]
                memory.values[row, :, :source] = read.values[from_row, :, :source]
            if self.sources:
                self.lengths[row] = source
            self.fills[row] = filled

    def step_rows(
        self, tokens: Int[Tensor, " rows"], homes: Int[Tensor, " rows"]
    ) -> tuple[Float[Tensor, "rows vocab"], Float[Tensor, "rows slots keys"]] | None:
        """The scores of the next tokens of these rows, and the weights of the heads that are kept; None if a token is no word."""
        job, compiled, rows, words = self.job, self.compiled, len(tokens), self.compiled.words
        fills = self.fills[homes]
        threads, last = threads_for(rows * job.work), int(fills.max())
        if self.bound != threads:
            self.bind(threads)
        job.rows, job.all, job.cache_rows, job.filled = rows, rows, self.size[0], last
        if self.tables is None or self.tables.places <= last:
            self.use(compiled.tables_up_to(last))
        logits, asked = words.new_empty(rows, job.vocab), words.new_empty(rows, job.width)
        job.room = max(last + 1, self.size[2])
        kept = words.new_empty(rows, job.slots, job.room)
        job.kept = address(kept) if job.slots else None
        job.fills, job.homes, job.tokens = fills.data_ptr(), homes.data_ptr(), tokens.data_ptr()
        job.entry = homes.data_ptr() if self.sources else None
        job.position = address(compiled.positions.up_to(last))
        job.output, job.asked = logits.data_ptr(), asked.data_ptr()
        if not decode.step(job):
            return None
        self.fills[homes] = fills + 1
        return logits, kept


class SharedRows:
    """The texts of a stepper that are written together: what `decoding.ContinuousSearch` steps.

    Args:
        stepper: an engine's stepper, or one that is watched.
        most: how many texts may be written at once.
    """

    def __init__(self, stepper: PackedStepper | Watching, most: int = 32) -> None:
        self.packed = stepper.stepper if isinstance(stepper, Watching) else stepper
        assert isinstance(self.packed, PackedStepper)
        assert isinstance(self.packed.decoder, Compiled)
        self.compiled, self.most = self.packed.decoder, most
        self.heads = stepper.heads if isinstance(stepper, Watching) else list(self.packed.top)
        self.top = [self.heads.index(head) for head in self.packed.top]
        self.slots = list(stepper.slots.values()) if isinstance(stepper, Watching) else []
        self.decoding: SharedDecoding | None = None
        self.used: dict[int, tuple[int, int]] = {}  # the places that each row in use may need, and those of its source

    @staticmethod
    def serves(stepper: object) -> bool:
        """Whether it pays to write the texts of a stepper together: those of a compiled engine. Small models read a source so
        quickly that reading those of several requests in one batch saves more.
        """
        inner = stepper.stepper if isinstance(stepper, Watching) else stepper
        if not isinstance(inner, PackedStepper) or not isinstance(inner.decoder, Compiled):
            return False
        return inner.parts.source is None or inner.decoder.blank.work >= WORTH

    def takes(self, state: EngineState | WatchedState, steps: int) -> bool | None:
        """Whether a text may join now; None if it never can."""
        inner = state.inner if isinstance(state, WatchedState) else state
        if not isinstance(inner, EngineState) or not isinstance(inner.decoding, CompiledDecoding):
            return None
        if inner.entry is not None or not self.compiled.positions.reaches(inner.filled + steps - 1):
            return None
        fits = len(self.used) + inner.batch <= self.most and self.bytes_of(self.wanted(inner, steps)) <= MOST_BYTES
        return fits or not self.used

    def bytes_of(self, size: tuple[int, int, int]) -> int:
        """The memory of a decoding of that size."""
        job, (rows, room, source) = self.compiled.blank, size
        return 8 * job.depth * job.groups * job.dim * rows * (room + source)

    def wanted(self, state: EngineState, steps: int) -> tuple[int, int, int]:
        """The size of the decoding in which a text fits beside those that are written: rows, places, places of a source."""
        rows = len(self.used) + state.batch
        read = state.decoding.sources[0].length if state.decoding.sources else 0
        room, source = (max(sizes) for sizes in zip((state.filled + steps, read), *self.used.values(), strict=True))
        return rounded(rows, 4), rounded(room, 32), rounded(source, 16) if read else 0

    def join(self, state: EngineState | WatchedState, steps: int) -> list[int]:
        """The numbers of the rows in which the texts of a state are continued, for at most so many steps."""
        state = state.inner if isinstance(state, WatchedState) else state
        assert isinstance(state.decoding, CompiledDecoding)
        state.require_current()
        state.decoding.settle()
        wanted = self.wanted(state, steps)
        if self.decoding is None or any(map(int.__lt__, self.decoding.size, wanted)):
            self.resize(wanted)
        assert self.decoding is not None
        free = [row for row in range(self.decoding.size[0]) if row not in self.used][: state.batch]
        sources = state.decoding.sources
        padding = sources[0].padding if sources else None
        for number, row in enumerate(free):
            source = 0 if not sources else sources[0].length
            source = source if padding is None else int(padding.lengths[number])
            self.decoding.copy(row, state.decoding, number, state.filled, source)
            self.used[row] = (state.filled + steps, source)
        return free

    def resize(self, size: tuple[int, int, int]) -> None:
        """Move all texts into a decoding of another size."""
        before = self.decoding
        rows, room, source = size if before is None else map(max, size, before.size)
        self.decoding = SharedDecoding(self.compiled, rows, room, source, self.heads)
        for row, (_, source) in self.used.items():
            assert before is not None
            self.decoding.copy(row, before, row, int(before.fills[row]), source)

    def leave(self, rows: Sequence[int]) -> None:
        """The rows are free for other texts."""
        for row in rows:
            del self.used[row]
        if not self.used and self.decoding is not None and self.bytes_of(self.decoding.size) > KEPT_BYTES:
            self.decoding = None

    def step(self, tokens: Int[Tensor, " rows"], rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """The scores of the next tokens of some rows."""
        assert self.decoding is not None
        result = self.decoding.step_rows(tokens, rows)
        if result is None:
            raise ValueError(f"tokens must lie in 0..{self.compiled.blank.vocab - 1}: got {tokens.tolist()}")
        logits, self.kept = result
        return logits

    def look(self, place: int, row: int, mean: bool) -> Look:
        """Where the model looked in the last step, for a row that was the given one of the step."""
        assert self.decoding is not None
        filled, source = int(self.decoding.fills[row]), self.used[row][1]

        def weights(slots: list[int]) -> Tensor:
            keys = source if self.heads[slots[0]].across else filled
            return self.kept[place, slots, :keys]

        return Look(weights(self.top).mean(0) if mean else None, tuple(map(weights, self.slots)))


def rounded(n: int, least: int) -> int:
    """The next power of two, at least so many: texts of other lengths fit without moving the others.

    >>> rounded(5, 4), rounded(1, 4)
    (8, 4)
    """
    return max(least, 1 << (n - 1).bit_length())

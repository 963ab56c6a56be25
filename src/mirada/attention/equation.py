"""The equation: `attend`, the function, and `Attention`, the layer around it.

h_i = sum over j in N(i) of alpha_ij psi_v(x_j),   alpha_i = normalize_j(score(q_i, k_j) + position)
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from mirada.attention.cache import Cache, Rolling, SharedCache
from mirada.attention.heads import Heads
from mirada.attention.kernels.plan import Plan, named, plan
from mirada.attention.kernels.plan import run as run_planned
from mirada.attention.kernels.reference import NUMBERS_AT_ONCE, weigh, widen
from mirada.attention.kernels.request import KernelOutput, Request
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Causal, Complete, Neighborhood, Padding, PerHead, as_neighborhood
from mirada.attention.normalizers import Normalizer, Softmax, publish
from mirada.attention.observe import Event, anybody_intervenes, anybody_looks, changed, finished, notify
from mirada.attention.places import Places, place
from mirada.attention.positions import Position
from mirada.attention.rules import (
    Parts,
    as_part,
    check_edges,
    check_normalizer,
    check_parts,
    check_rolling,
    check_step_by_step,
    check_tensors,
    fit,
    fit_scale,
)
from mirada.attention.scores import Dot, Score
from mirada.errors import require
from mirada.shapes import broadcast_heads, check_axes, check_dtype, check_size, finite

# Numbers that are not finite, where nobody may look: they are 0 before anything is computed from them.


def _clean(
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
        places = _to_come(where, places, room)
    hidden = where.unseen(places, rows_at_once=max(1, NUMBERS_AT_ONCE // max(1, places.keys)))
    if hidden is None:
        return x, memory, values
    hidden = hidden.all(1)[:, places.keys - memory.shape[1] :].unsqueeze(-1)
    cleaned = torch.where(hidden, memory.nan_to_num(0, 0, 0), memory)
    own = cleaned if x is memory else x
    return own, cleaned, cleaned if values is memory else torch.where(hidden, values.nan_to_num(0, 0, 0), values)


def _to_come(where: Neighborhood, places: Places, room: int) -> Places:
    """The places of a step with all queries up to `room` behind it, or as many as a set of fixed size has."""
    for last in range(room, places.start + places.queries, -1):
        longer = replace(places, queries=last - places.start)
        try:
            where.check(replace(longer, keys=last), heads=0, exact=False)
        except ValueError:
            continue
        return longer
    return places


# One early call of each vectorized function, on one element and one thread.


def _warm_up() -> None:
    """Call every function once, and with it the matrix product that fused kernels make from several threads."""
    for dtype in (torch.float32, torch.float64):
        one = torch.ones(1, 1, 1, 1, dtype=dtype)
        for function in (torch.exp, torch.log, torch.tanh, torch.sigmoid, torch.sin, torch.cos):
            function(one)
        torch.mm(one[0, 0], one[0, 0])
        F.scaled_dot_product_attention(one, one, one)


_warm_up()

# the parts of a plain call, made once: a module takes longer to make than to run
DOT, COMPLETE, NO_POSITION, SOFTMAX = Dot(), Complete(), Position(), Softmax()
PARTS: dict[str, type] = {
    "heads": Heads, "score": Score, "where": Neighborhood, "position": Position, "normalizer": Normalizer,
}  # fmt: skip


def attend(
    q: Float[Tensor, "batch heads queries dim"],
    k: Float[Tensor, "batch kheads keys kdim"],
    v: Float[Tensor, "batch vheads keys value_dim"],
    *,
    score: Score | None = None,
    where: Neighborhood | None = None,
    position: Position | None = None,
    normalizer: Normalizer | None = None,
    positions: Integer[Tensor, "*batch queries"] | None = None,
    key_positions: Integer[Tensor, "*kbatch keys"] | None = None,
    kernel: str | None = None,
) -> Float[Tensor, "batch heads queries value_dim"]:
    """Attention of queries over keys and values, by the fastest kernel that takes these parts.

    h_i = sum over j in N(i) of normalize_j(score(q_i, k_j) + position) v_j

    The parts default to `Dot()`, `Complete()`, no position and `Softmax()`. Positions default to 0, 1, 2, ...; a query at
    position 5 stands at row 5 of the neighborhood. Keys and values may have fewer heads than the queries, which then share them.
    `kernel` forces one by name and raises a ValueError with its reason if it refuses.

    Args:
        q: queries, (batch, heads, queries, dim).
        k: keys; their number of heads divides that of the queries.
        v: values, one per key.
        score: how alike a query and a key are.
        where: which keys a query may see.
        position: what order and distance add.
        normalizer: how scores become weights.
        positions: integers of (queries,) or (batch, queries).
        key_positions: integers of (keys,) or (batch, keys).
        kernel: the name of the only kernel to use; None for the fastest.

    Returns:
        The weighted sums of the values, (batch, heads, queries, value_dim).

    >>> q = k = torch.eye(2).view(1, 1, 2, 2)
    >>> attend(q, k, torch.tensor([[[[0.0], [10.0]]]]), score=Dot(scale=100.0)).squeeze().round().tolist()
    [0.0, 10.0]
    """
    score, where = as_part("score", score, Score, DOT), COMPLETE if where is None else as_neighborhood(where)
    position = as_part("position", position, Position, NO_POSITION)
    normalizer = as_part("normalizer", normalizer, Normalizer, SOFTMAX)
    check_parts(Parts(score, where, position, normalizer))
    check_tensors(q, k, v)
    check_normalizer(normalizer, q.shape[1])
    places = place(q.shape[0], q.shape[2], k.shape[2], q.device, positions, key_positions)
    where.check(places, q.shape[1])
    check_edges(score, where, normalizer)
    position.check_places(places)
    fit(score, position, q, k, v)
    q, k = position.rotate(q, places.query_positions), position.rotate(k, places.memory_positions)
    request = Request(q, k, v, score, where, position, normalizer, places)
    chosen = plan(request, kernel)
    answer = run(request, chosen)
    if anybody_looks():
        kind = "self" if q.shape[2] == k.shape[2] else "cross"
        notify(Event(None, request, chosen, answer.draw, None, kind, aliases=True))
    return answer.output


class Attention(nn.Module):
    """Attention with its projections: every factor of the equation is a value.

    Args:
        heads: the projections, such as `MultiHead(width, heads)`.
        score: how alike a query and a key are; `Dot()` by default.
        where: which keys a query may see in every call; `Complete()` by default.
        position: what order and distance add; nothing by default.
        normalizer: how scores become weights; `Softmax()` by default.
        kernel: the name of the only kernel to use; None for the fastest of each call. One that refuses a call raises a
            ValueError with its reason.

    >>> from mirada.attention.heads import MultiHead
    >>> from mirada.attention.neighborhoods import Causal
    >>> attention = Attention(MultiHead(width=8, heads=2), where=Causal())
    >>> attention(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    >>> attention.plan(torch.zeros(1, 3, 8)).kernel
    'fused'
    """

    kernel: str | None = None  # of layers that were saved before there was one, too

    def __init__(
        self,
        heads: Heads,
        score: Score | None = None,
        where: Neighborhood | None = None,
        position: Position | None = None,
        normalizer: Normalizer | None = None,
        kernel: str | None = None,
    ) -> None:
        super().__init__()
        require(isinstance(heads, Heads), f"heads must be a value such as MultiHead(width, heads): got {heads!r}")
        self.heads = heads
        self.score = fit_scale(as_part("score", score, Score, Dot()), heads)
        self.where = as_neighborhood(Complete() if where is None else where)
        self.position = as_part("position", position, Position, Position())
        self.normalizer = as_part("normalizer", normalizer, Normalizer, Softmax())
        self.kernel = None if kernel is None else named(kernel).name
        self._check_built()

    def __setattr__(self, name: str, value: Any) -> None:
        """A part that is exchanged later is fitted and checked like one that the layer is built with."""
        kind = PARTS.get(name)
        if kind is None or (name not in vars(self) and name not in self._modules):
            super().__setattr__(name, value)
            return
        require(isinstance(value, kind), f"{name} must be a {kind.__name__}: got {value!r}")
        before = {"score": self.score, name: getattr(self, name)}
        super().__setattr__(name, value)
        try:
            super().__setattr__("score", fit_scale(self.score, self.heads))
            self._check_built()
        except Exception:
            for changed_name, part in before.items():
                super().__setattr__(changed_name, part)
            raise

    def _check_built(self) -> None:
        """Require parts that fit each other and the heads."""
        heads = self.heads
        check_parts(Parts(self.score, self.where, self.position, self.normalizer))
        check_normalizer(self.normalizer, heads.heads)
        self._check_heads(self.where & Causal())  # the neighborhood of a call may be the one that is causal
        for part in self.where.conjuncts():
            if isinstance(part, PerHead):
                part.check_heads(heads.heads)
        self.position.check(heads.heads, heads.dim, heads.value_dim)
        q, k = (torch.empty(1, heads.heads, 0, dim, device="meta") for dim in (heads.dim, heads.key_dim))
        (type(self.score) if self.score.reads_keys else Score).check(self.score, q, k)

    def _check_heads(self, where: Neighborhood) -> None:
        """Require the other parts that the heads need."""
        if reason := self.heads.fits(self.score, where, self.position, self.normalizer):
            raise ValueError(f"{type(self.heads).__name__} does not fit: {reason}")

    def forward(
        self,
        x: Float[Tensor, "batch queries width"],
        memory: Float[Tensor, "batch keys memory_width"] | Memory | None = None,
        values: Float[Tensor, "batch keys values_width"] | None = None,
        where: Neighborhood | None = None,
        positions: Integer[Tensor, "*batch queries"] | None = None,
        key_positions: Integer[Tensor, "*kbatch keys"] | None = None,
        cache: Cache | None = None,
        position: Position | None = None,
    ) -> Float[Tensor, "batch queries out"]:
        """Self-attention of x; or attention of x over `memory` (keys and values), or over `memory` (keys) and `values`.

        A call's `where` (data: padding, documents, edges) is ANDed with the layer's (structure). With a `cache` the queries stand
        at the next positions, and see the keys of all steps so far. A `memory` that many calls look at is projected once by
        `remember`.

        Args:
            x: what the queries are made from, (batch, queries, width).
            memory: what the keys are made from, or what `remember` returned; None is x.
            values: what the values are made from; None is the memory.
            where: which keys the queries of this call may see.
            positions: integers of (queries,) or (batch, queries); 0, 1, 2, ... by default.
            key_positions: integers of (keys,) or (batch, keys).
            cache: keys and values of earlier steps, to which those of this one are added.
            position: what this call adds besides the layer's own position, such as `Pairs(numbers)`.

        Returns:
            An output for every query, (batch, queries, width).
        """
        request = self.request(x, memory, values, where, positions, key_positions, cache, position)
        try:
            if anybody_intervenes():
                request = changed(self, request, memory)
            chosen = plan(request, self.kernel)
            answer = run(request, chosen)
        except BaseException:
            if cache is not None:  # a step that failed was not taken
                cache.undo(x.shape[1])
            raise
        if anybody_intervenes():
            finished(self, request, memory)
        if anybody_looks():
            kind = "self" if memory is None and values is None else "cross"
            seen = isinstance(memory, Memory), self.heads.aliases, answer.output
            notify(Event(self, request, chosen, answer.draw, cache, kind, *seen))
        if not self.heads.gates:
            return self.heads.merge(answer.output)
        merge: Any = self.heads.merge
        return merge(answer.output, x if finite(x) else x.nan_to_num(0, 0, 0))

    def plan(
        self,
        x: Tensor,
        memory: Tensor | Memory | None = None,
        values: Tensor | None = None,
        where: Neighborhood | None = None,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        cache: Cache | None = None,
        position: Position | None = None,
    ) -> Plan:
        """The kernel that a call with these arguments would run on, and why each faster one refused."""
        with nullcontext() if cache is None else cache.untouched():
            with torch.no_grad():
                request = self.request(x, memory, values, where, positions, key_positions, cache, position)
                request = changed(self, request, memory) if anybody_intervenes() else request
            return plan(request, self.kernel)

    def cache(
        self, batch: int, length: int, dtype: torch.dtype | None = None, device: torch.device | None = None
    ) -> Cache:
        """Room for the keys and values of `length` positions, in the layer's dtype and on its device unless given.

        Args:
            batch: sequences that are decoded at once.
            length: the most positions of a sequence.
            dtype: that of the layer if None.
            device: that of the layer if None.

        Returns:
            A `Cache` to be passed to every step: `attention(x, cache=cache)`.
        """
        check_parts(Parts(self.score, self.where & Causal(), self.position, self.normalizer, cached=True))
        check_normalizer(self.normalizer, self.heads.heads, cached=True)
        check_step_by_step(self.heads)
        require(batch >= 0 and length >= 0, f"sizes must be at least 0: got batch={batch}, length={length}")
        like, heads = next(self.parameters(), torch.empty(0)), self.heads
        dtype, device = dtype or like.dtype, device or like.device
        with torch.inference_mode(False):  # room made in inference mode could not be written outside it
            sizes = (heads.key_heads, heads.key_dim), (heads.value_heads, heads.value_dim)
            if heads.shared_from is not None:
                return SharedCache(
                    torch.zeros(batch, sizes[0][0], length, sizes[0][1], dtype=dtype, device=device), heads.shared_from
                )
            return Cache(*(torch.zeros(batch, n, length, dim, dtype=dtype, device=device) for n, dim in sizes))

    def rolling(self, batch: int, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Rolling:
        """A cache that keeps only the places that the layer's causal window sees, for texts of any length.

        Args:
            batch: sequences that are decoded at once.
            dtype: that of the layer if None.
            device: that of the layer if None.

        Returns:
            A `Rolling` to be passed to every step: `attention(x, cache=cache)`.

        >>> from mirada.attention.heads import MultiHead
        >>> from mirada.attention.neighborhoods import Window
        >>> attention = Attention(MultiHead(width=4, heads=2), where=Causal() & Window(2))
        >>> cache, x = attention.rolling(batch=1), torch.randn(1, 9, 4)
        >>> steps = torch.cat([attention(x[:, i : i + 1], cache=cache) for i in range(9)], dim=1)
        >>> torch.allclose(steps, attention(x), atol=1e-6), cache.keys.shape[2]
        (True, 2)
        """
        reach = check_rolling(self.heads, Parts(self.score, self.where, self.position, self.normalizer))
        room = self.cache(batch, 0, dtype, device)
        return Rolling(room.keys, room.values, reach)

    def request(
        self,
        x: Tensor,
        memory: Tensor | Memory | None = None,
        values: Tensor | None = None,
        where: Neighborhood | None = None,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        cache: Cache | None = None,
        position: Position | None = None,
    ) -> Request:
        """What a call with these arguments asks a kernel to compute. A cache takes the new keys and values."""
        own = (
            self.position if position is None else self.position + as_part("position", position, Position, NO_POSITION)
        )
        if isinstance(memory, Memory):
            message = "a remembered memory brings its own values and key positions, and needs no cache: drop them"
            require(values is None and cache is None and key_positions is None, message)
            return self._recall(x, memory, where, positions, own)
        where = self.where if where is None else self.where & as_neighborhood(where)
        if not isinstance(cache, Cache | None):
            raise ValueError(f"cache must come from attention.cache(batch, length): got {type(cache).__name__}")
        alone = memory is None and values is None
        memory = x if memory is None else memory
        values = memory if values is None else values
        self._check_inputs(x, memory, values)
        if cache is not None:
            require(alone, "a cache is for self-attention: pass memory and values without one")
            require(
                positions is None and key_positions is None,
                "a cache counts positions itself: the new queries stand at the next ones. Drop positions and key_positions.",
            )
            check_normalizer(self.normalizer, self.heads.heads, cached=True)
            if isinstance(cache, Rolling):
                reach = check_rolling(self.heads, Parts(self.score, where, own, self.normalizer))
                require(reach <= cache.reach, f"the cache keeps {cache.reach} places: got a window of {reach}")
                message = "look and intervene need all keys, and a rolling cache forgets them: use attention.cache"
                require(not (anybody_looks() or anybody_intervenes()), message)
        across = not alone and (positions is None or key_positions is None)
        as_built = where is self.where and cache is None and not across and position is None
        if not as_built:  # the others were checked when the layer was built
            check_parts(Parts(self.score, where, own, self.normalizer, cache is not None, across))
        self._check_heads(where)
        key_positions = positions if alone and key_positions is None else key_positions
        start = None if cache is None else cache.filled
        keys = memory.shape[1] + (start or 0)
        places = place(x.shape[0], x.shape[1], keys, x.device, positions, key_positions, start)
        where.check(places, self.heads.heads, exact=cache is None)
        check_edges(self.score, where, self.normalizer)
        own.check_places(places, exact=cache is None)
        if cache is None:
            x, memory, values = _clean(x, memory, values, where, places)
        elif not where.reflexive:  # a new key that its own query sees is not hidden
            x, memory, values = _clean(x, memory, values, where, places, cache.length)
        rotate = own.rotate
        if cache is not None and self.heads.carries:
            q, k, v = self.heads.project_next(x, cache.keys[:, :, : cache.filled])
        else:
            q, k, v = self.heads.project(x, memory, values)
        q = rotate(q, places.query_positions)
        if cache is None:
            k = rotate(k, places.memory_positions)
            fit(self.score, own, q, k, v)
        else:
            cache.check(k, v)
            fit(self.score, own, q, cache.keys[:, :, :keys], cache.values[:, :, :keys])
            k, v = cache.append(rotate(k, places.query_positions), v, self._tracked(q, k, v))
            if isinstance(cache, Rolling):  # only distances decide, so that places count from the first that is kept
                places = replace(places, start=k.shape[2] - q.shape[2], keys=k.shape[2])
        return Request(q, k, v, self.score, where, own, self.normalizer, places)

    def _tracked(self, q: Tensor, k: Tensor, v: Tensor) -> bool:
        """Whether a gradient may be asked of a step: of its tensors, or of what weighs them."""
        if not torch.is_grad_enabled():
            return False
        parts = (self.score, self.position, self.normalizer)
        return any(x.requires_grad for x in (q, k, v)) or any(x.requires_grad for p in parts for x in p.parameters())

    def remember(
        self,
        memory: Float[Tensor, "batch keys memory_width"],
        values: Float[Tensor, "batch keys values_width"] | None = None,
        padding: Padding | None = None,
        key_positions: Integer[Tensor, "*kbatch keys"] | None = None,
    ) -> Memory:
        """Keys and values of a memory, projected and prepared once for many calls: `attention(x, memory=remembered)`.

        Args:
            memory: what the keys are made from.
            values: what the values are made from; None is the memory.
            padding: the true lengths of the memory.
            key_positions: the positions of the keys; 0, 1, 2, ... by default.

        Returns:
            A `Memory`, for the argument of that name.

        >>> from mirada.attention.heads import MultiHead
        >>> cross, memory = Attention(MultiHead(width=4, heads=2)), torch.randn(1, 3, 4)
        >>> x = torch.randn(1, 2, 4)
        >>> torch.equal(cross(x, memory=cross.remember(memory)), cross(x, memory=memory))
        True
        """
        check_axes("memory", memory, "batch keys width")
        require(isinstance(padding, Padding | None), f"padding must be Padding(lengths): got {type(padding).__name__}")
        values = memory if values is None else values
        where = COMPLETE if padding is None else padding
        self._check_inputs(memory.new_empty(memory.shape[0], 0, self.heads.width), memory, values)
        places = place(memory.shape[0], 1, memory.shape[1], memory.device, None, key_positions)
        where.check(places, self.heads.heads)
        _, memory, values = _clean(memory, memory, values, where, places)
        k, v = self.heads.remember(memory, values)
        k, score = self.position.rotate(k, places.memory_positions), self.score.ready()
        if score is not self.score:  # keys are prepared with a matrix per head
            k = self.score.keys(broadcast_heads(k, self.heads.heads))
        return Memory(k, v, score, padding, places.key_positions)

    def weights(
        self,
        x: Tensor,
        memory: Tensor | Memory | None = None,
        values: Tensor | None = None,
        where: Neighborhood | None = None,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        cache: Cache | None = None,
        position: Position | None = None,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The weights before dropout that a call with these arguments uses; hard attention in training draws them anew.

        A cache is left as it is. `look` has the weights of any call of any model, those that were drawn too.
        """
        with torch.no_grad(), nullcontext() if cache is None else cache.untouched():
            request = self.request(x, memory, values, where, positions, key_positions, cache, position)
            if anybody_intervenes():
                request = changed(self, request, memory, again=True)
            k, _ = request.visible()
            q, k = request.score.queries(widen(request.q)), request.score.keys(widen(k))
            return weigh(request, q, k, 0, request.queries).weights

    def _recall(
        self, x: Tensor, memory: Memory, where: Neighborhood | None, positions: Tensor | None, own: Position
    ) -> Request:
        where = self.where if where is None else self.where & as_neighborhood(where)
        where = where if memory.padding is None else where & memory.padding
        check_axes("x", x, "batch n width")
        self._check_input("x", x, x.shape[0])
        check_size("x", x, 0, "batch", memory.batch)
        check_size("x", x, 2, "width", self.heads.width)
        across = positions is None or memory.positions is None
        check_parts(Parts(self.score, where, own, self.normalizer, False, across))
        places = place(x.shape[0], x.shape[1], memory.length, x.device, positions, memory.positions)
        where.check(places, self.heads.heads)
        check_edges(self.score, where, self.normalizer)
        own.check_places(places)
        q = own.rotate(self.heads.queries(x), places.query_positions)
        fit(memory.score, own, q, memory.keys, memory.values)
        return Request(q, memory.keys, memory.values, memory.score, where, own, self.normalizer, places)

    def _check_inputs(self, x: Tensor, memory: Tensor, values: Tensor) -> None:
        check_axes("x", x, "batch n width")
        self._check_input("x", x, x.shape[0])
        if not (memory is x and values is x):
            self._check_input("memory", memory, x.shape[0])
            self._check_input("values", values, x.shape[0])
        check_size("values", values, 1, "keys", memory.shape[1])
        self.heads.check(x, memory, values)

    def check_length(self, length: int) -> None:
        """Raise a ValueError if this layer cannot attend over a sequence of that length to itself."""
        heads, device = self.heads, torch.device("meta")
        self.where.check(Places.count(length, length), heads.heads)
        q, k = (torch.empty(1, heads.heads, length, dim, device=device) for dim in (heads.dim, heads.key_dim))
        self.score.check(q, k)

    def _check_input(self, name: str, tensor: Tensor, batch: int) -> None:
        check_axes(name, tensor, "batch n width")
        check_dtype(name, tensor, next(self.parameters(), tensor))
        check_size(name, tensor, 0, "batch", batch)

    def extra_repr(self) -> str:
        return f"where={self.where}" + (f", kernel={self.kernel!r}" if self.kernel else "")


def run(request: Request, chosen: Plan) -> KernelOutput:
    """Compute as planned, and hand what was drawn to every open `draws()`."""
    answer = run_planned(request, chosen)
    if answer.draw is not None and request.normalizer.training:
        publish(answer.draw)
    return answer

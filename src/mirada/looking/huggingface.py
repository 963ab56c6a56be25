"""`look` on models of Hugging Face transformers, while they keep running on PyTorch's fused kernel.

Their layers ask one table, the AttentionInterface, for the function that attends. Inside a `look` the table's "sdpa" entry
calls what stood there, with the same arguments, and then shows the call. transformers is never imported from here: a model
of it has imported it already.
"""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mirada.attention.kernels.plan import Plan, plan, run
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Causal, Complete, Dense, Mask, Neighborhood
from mirada.attention.normalizers import Softmax
from mirada.attention.observe import Event, anybody_intervenes, anybody_looks, changed, finished, notify
from mirada.attention.places import Places
from mirada.attention.positions import Position
from mirada.attention.scores import Dot
from mirada.errors import require

FUSED = "sdpa"
CROSS = ("cross", "encoder_attn", "encdec", "enc_dec")  # how the names of layers over another sequence read
SDPA, SOFTMAX, NO_POSITION = Plan(FUSED, {}), Softmax(), Position()
scaled_dot = lru_cache(maxsize=64)(Dot)  # by the scale; None is 1 / sqrt(dim)
MOST_DROPPED = 0.999  # the largest dropout of our softmax, which refuses 1


def foreign_names(model: nn.Module) -> dict[nn.Module | None, str]:
    """All modules of a transformers model, or of what contains one, by dotted path; empty if there is none inside."""
    modeling = sys.modules.get("transformers.modeling_utils")
    if modeling is None or not isinstance(model, nn.Module):
        return {}
    models = [module for module in model.modules() if isinstance(module, modeling.PreTrainedModel)]
    for each in models[:1]:
        used, kind = each.config._attn_implementation, type(each).__name__
        require(
            used == FUSED or getattr(each, "_supports_sdpa", True),
            f"{kind} attends by code of its own, which transformers has no {FUSED!r} form of, and look cannot watch it. "
            "Its weights: load it with attn_implementation='eager', and call model(..., output_attentions=True).",
        )
        require(
            used == FUSED,
            f"{kind} attends by {used!r}, and look watches {FUSED!r}. Call model.set_attn_implementation({FUSED!r}).",
        )
    return {module: name for name, module in model.named_modules()} if models else {}


def foreign_heads(model: nn.Module) -> dict[nn.Module | None, int]:
    """The modules of a transformers model that may attend, and how many heads each has."""
    counts: dict[nn.Module | None, int] = {}
    for module in foreign_names(model):
        if module is None or "Attention" not in type(module).__name__:
            continue
        config = getattr(module, "config", None)
        named = (getattr(module, name, None) for name in ("num_attention_heads", "num_heads", "n_heads"))
        heads = next((n for n in (*named, getattr(config, "num_attention_heads", None)) if isinstance(n, int)), None)
        if heads is not None:
            counts[module] = heads
    return counts


class Watch:
    """The entry of the AttentionInterface inside `look` and `intervene`: the first block sets it, the last one removes it."""

    def __init__(self) -> None:
        self._lock, self._open = threading.Lock(), 0
        self._function: Any = None
        self._local: Any = None  # what had been set in the table itself, above the library's default

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Show every call of the table's function, inside the block."""
        table = sys.modules["transformers.modeling_utils"].ALL_ATTENTION_FUNCTIONS
        with self._lock:
            if not self._open:
                self._function, self._local = table[FUSED], table._local_mapping.get(FUSED)
                table[FUSED] = self
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                if not self._open and self._local is None:
                    del table[FUSED]
                elif not self._open:
                    table[FUSED] = self._local

    def __call__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any
    ) -> Any:
        if not anybody_looks() and not anybody_intervenes():
            return self._function(module, query, key, value, mask, **more)
        require(more.get("cache") is None, "look does not see into a paged cache: generate without one")
        room = _Room.of(sys._getframe(1).f_locals, module, query.shape[2], key.shape[2])
        request = _request_of(module, query, key, value, mask, more, room)
        wanted = changed(module, request, None)
        finished(module, wanted, None)
        chosen = SDPA if wanted is request else plan(wanted)
        if wanted is request:
            answer = self._function(module, query, key, value, mask, **more)
        else:
            require(not more.get("dropout"), "a model is changed in evaluation, without dropout: call model.eval()")
            answer = run(wanted, chosen).output.transpose(1, 2).contiguous(), None
        if anybody_looks():
            output = answer[0].transpose(1, 2)
            if output.requires_grad:  # the way of the gradient leads through what observers keep
                answer = output.transpose(1, 2), *answer[1:]
            notify(Event(module, wanted, chosen, None, None, "self", output=output))
        return answer


watch = Watch()


class _Room(NamedTuple):
    """What the library's cache says of the keys of a call: how many places came before its queries, how many of those it
    has dropped, since it keeps a window, and whether later steps write into the same tensors.
    """

    start: int
    dropped: int
    written: bool

    @classmethod
    def of(cls, local: Mapping[str, Any], module: nn.Module, queries: int, keys: int) -> "_Room | None":
        """From the variables of the `module` in the middle of its forward pass, whose keys are in the cache by now."""
        cache = local.get("past_key_values")
        cache = getattr(cache, "self_attention_cache", cache)
        layer, length = getattr(module, "layer_idx", None), getattr(cache, "get_seq_length", None)
        if layer is None or length is None or local.get("key_value_states") is not None:
            return None
        end = int(length(layer))
        layers = getattr(cache, "layers", ())
        kind = layers[layer] if layer < len(layers) else None
        window = getattr(kind, "is_sliding", False)
        return cls(end - queries, max(0, end - keys) if window else 0, getattr(kind, "is_compileable", False))


def _in_place(x: Tensor, room: _Room, queries: int, value: float | bool = 0) -> Tensor:
    """Keys, values, or what is said of every key in the last axis of a mask: each at its place among all so far."""
    x = x[..., : room.start + queries - room.dropped]
    return F.pad(x, (room.dropped, 0), value=value) if room.dropped else x


def _request_of(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, more: dict[str, Any], room: _Room | None
) -> Request:
    """What a call of the library's function computes, as a request: softmax(scale q.k + bias) v inside a neighborhood."""
    causal, bias = more.get("is_causal"), more.get("position_bias")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    cross = getattr(module, "is_cross_attention", False) or "cross" in type(module).__name__.lower()
    written = k.is_inference()  # a buffer that later steps write to would not tell
    dropped = 0
    if room is not None and causal and not cross and room.start >= 0:
        start, dropped, written = room.start, room.dropped, written or (room.written and not dropped)
        if dropped or k.shape[2] > start + q.shape[2]:
            if bias is not None and bias.shape[-1] == k.shape[2]:
                bias = _in_place(bias, room, q.shape[2])
            if mask is None and dropped:
                pairs = torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool, device=k.device)
                mask = pairs.tril(k.shape[2] - q.shape[2])
            if mask is not None:
                hidden = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
                mask = _in_place(mask, room, q.shape[2], hidden)
            k, v = (_in_place(x.mT, room, q.shape[2]).mT for x in (k, v))
    else:
        start = first_place(q.shape[2], k.shape[2], mask) if causal and not cross else 0
    where: Neighborhood = Complete()
    if mask is None and causal and (q.shape[2] > 1 or start):
        where = Causal()
    elif mask is not None and mask.dtype == torch.bool:
        where = GivenMask(mask, start, dropped)
    elif mask is not None:
        bias = mask if bias is None else bias + mask
    places = replace(Places.count(q.shape[2], k.shape[2], start, q.device), batch=q.shape[0])
    position = NO_POSITION if bias is None else GivenBias(bias.detach(), start)
    if written:
        k, v = k.clone(), v.clone()
    return Request(
        q, k, v, scaled_dot(more.get("scaling")), where, position, _dropped(more.get("dropout") or 0.0), places
    )


def first_place(queries: int, keys: int, mask: Tensor | None) -> int:
    """The position of the first query of a causal call among its keys: a cache holds those before it.

    The queries are the last of the keys; where the cache has room that is still empty, of those that the last query sees.
    Without a mask several queries are the first ones: so the library's function takes it.

    >>> first_place(1, 9, None), first_place(2, 9, None), first_place(2, 9, torch.ones(1, 1, 2, 9, dtype=torch.bool).tril(5))
    (8, 0, 5)
    """
    if mask is None or queries == keys or mask.shape[-1] != keys:
        return max(0, keys - 1) if queries == 1 else 0
    row = mask[..., -1, :].reshape(-1, keys)
    seen = (row if row.dtype == torch.bool else row > torch.finfo(row.dtype).min / 2).any(0).nonzero()
    last = int(seen[-1]) + 1 if len(seen) else keys
    return max(0, last - queries)


@lru_cache(maxsize=64)
def _dropped(share: float) -> Softmax:
    """A softmax after which that share of the weights is dropped at random, as in training."""
    return Softmax(min(float(share), MOST_DROPPED)) if share else SOFTMAX


@dataclass(frozen=True, eq=False, repr=False)
class GivenMask(Dense):
    """A mask that the model computed for the queries of one call, whose positions are start, start + 1, ...; its cache
    has dropped the first keys.
    """

    start: int = 0
    dropped: int = 0

    def sees(self, places: Places) -> Mask:
        return super().sees(replace(places, start=places.start - self.start))

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        super().check(replace(places, start=places.start - self.start), heads, exact)

    def repeat(self, times: int) -> Neighborhood:
        return (
            self
            if self._four.shape[0] == 1
            else GivenMask(self._four.repeat_interleave(times, dim=0), self.start, self.dropped)
        )


class GivenBias(Position):
    """Numbers to be added to the scores, one for every pair of one call, as the model made them; its queries begin at `start`."""

    acts = frozenset({"bias"})

    def __init__(self, pairs: Tensor, start: int = 0) -> None:
        super().__init__()
        self.pairs, self.start = pairs, start

    def bias(self, q: Tensor, places: Places) -> Tensor:
        first = places.start - self.start
        rows = self.pairs if self.pairs.shape[2] == 1 else self.pairs[:, :, first : first + places.queries]
        return rows[..., places.first_key : places.first_key + places.keys].to(q.dtype)


def kind_of(name: str) -> str:
    """Whether a layer looks at its own sequence or at another, from its name."""
    return "cross" if any(word in name.lower() for word in CROSS) else "self"

"""`look` on models of Hugging Face transformers, while they keep running on PyTorch's fused kernel.

Their layers ask one table, the AttentionInterface, for the function that attends. Inside a `look` the table's "sdpa" entry
calls what stood there, with the same arguments, and then shows the call. transformers is never imported from here: a model
of it has imported it already.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from mirada.attention.interventions import anybody_intervenes, changed, finished
from mirada.attention.kernels.plan import Plan, plan, run
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Causal, Complete, Dense, Neighborhood
from mirada.attention.normalizers import Softmax
from mirada.attention.observe import Event, anybody_looks, notify
from mirada.attention.places import Places
from mirada.attention.positions import Position
from mirada.attention.scores import Dot
from mirada.errors import require

FUSED = "sdpa"
CROSS = ("cross", "encoder_attn", "encdec", "enc_dec")  # how the names of layers over another sequence read
SDPA, SOFTMAX, NO_POSITION = Plan(FUSED, {}), Softmax(), Position()


def foreign_names(model: nn.Module) -> dict[nn.Module | None, str]:
    """All modules of a transformers model, or of what contains one, by dotted path; empty if there is none inside."""
    modeling = sys.modules.get("transformers.modeling_utils")
    if modeling is None or not isinstance(model, nn.Module):
        return {}
    models = [module for module in model.modules() if isinstance(module, modeling.PreTrainedModel)]
    for each in models[:1]:
        used = each.config._attn_implementation
        require(
            used == FUSED,
            f"{type(each).__name__} attends by {used!r}, and look watches {FUSED!r}. "
            f"Call model.set_attn_implementation({FUSED!r}).",
        )
    return {module: name for name, module in model.named_modules()} if models else {}


def foreign_heads(model: nn.Module) -> dict[nn.Module | None, int]:
    """The modules of a transformers model that may attend, and how many heads each has."""
    found: dict[nn.Module | None, int] = {}
    for module in foreign_names(model):
        if module is None or "Attention" not in type(module).__name__:
            continue
        config = getattr(module, "config", None)
        named = (getattr(module, name, None) for name in ("num_attention_heads", "num_heads", "n_heads"))
        heads = next((n for n in (*named, getattr(config, "num_attention_heads", None)) if isinstance(n, int)), None)
        if heads is not None:
            found[module] = heads
    return found


class Watch:
    """The entry of the AttentionInterface while somebody looks or intervenes: put there by the first, taken away by the last."""

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
        request = request_of(module, query, key, value, mask, more)
        wanted = changed(module, request, None)
        finished(module, wanted, None)
        chosen = SDPA if wanted is request else plan(wanted)
        if wanted is request:
            answer = self._function(module, query, key, value, mask, **more)
        else:
            require(not more.get("dropout"), "a model is changed in evaluation, without dropout: call model.eval()")
            answer = run(wanted, chosen).output.transpose(1, 2).contiguous(), None
        if anybody_looks():
            notify(Event(module, wanted, chosen, None, None, "self"))
        return answer


watch = Watch()


def request_of(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, more: dict[str, Any]
) -> Request:
    """What a call of the library's function computes, as a request: softmax(scale q.k + bias) v inside a neighborhood."""
    causal, bias = more.get("is_causal"), more.get("position_bias")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    where: Neighborhood = Complete()
    if mask is None and causal and q.shape[2] > 1:
        where = Causal()
    elif mask is not None and mask.dtype == torch.bool:
        where = Dense(mask)
    elif mask is not None:
        bias = mask if bias is None else bias + mask
    places = replace(Places.count(q.shape[2], k.shape[2], device=q.device), batch=q.shape[0])
    position = NO_POSITION if bias is None else GivenBias(bias.detach())
    if k.is_inference():  # a buffer that later steps write to would not tell
        k, v = k.clone(), v.clone()
    return Request(q, k, v, scaled(more.get("scaling")), where, position, SOFTMAX, places)


@lru_cache(maxsize=64)
def scaled(scale: float | None) -> Dot:
    """The dot product with that scale; None is 1 / sqrt(dim)."""
    return Dot(scale)


class GivenBias(Position):
    """Numbers to be added to the scores, one for every pair, as the model made them."""

    acts = frozenset({"bias"})

    def __init__(self, pairs: Tensor) -> None:
        super().__init__()
        self.pairs = pairs

    def bias(self, q: Tensor, places: Places) -> Tensor:
        rows = (
            self.pairs if self.pairs.shape[2] == 1 else self.pairs[:, :, places.start : places.start + places.queries]
        )
        return rows[..., places.first_key : places.first_key + places.keys].to(q.dtype)


def kind_of(name: str) -> str:
    """Whether a layer looks at its own sequence or at another, from its name."""
    return "cross" if any(word in name.lower() for word in CROSS) else "self"

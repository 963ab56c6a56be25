"""`intervene`: what would the model do if a head, a pair or a weight were different? A real run with the change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from torch import nn

from mirada.attention.equation import Attention
from mirada.attention.kernels.request import Request
from mirada.attention.memory import Memory
from mirada.attention.observe import intervening
from mirada.errors import require, unknown
from mirada.looking.change.changes import Change, Force, Reweighing, apply, as_list
from mirada.looking.huggingface import foreign_heads, foreign_names, watch
from mirada.looking.record import layer_names, unwrapped


@contextmanager
def intervene(
    model: nn.Module, changes: "Mapping[str, Change | Reweighing | list[Change | Reweighing]]"
) -> Iterator[None]:
    """Change the attention of some layers of a model, inside the block and in this thread.

    Args:
        model: A model of mirada, or of Hugging Face transformers on its "sdpa" implementation.
        changes: From the names of layers (those of `look`) to a change or a list: `DropHead`, `Cut`, `MaskKey`, `Force`,
            or a function from weights to weights, (batch, heads, queries, keys).

    Masks apply before the normalizer; then weights are forced, then functions are called in their order. Nested blocks add
    up. `look` inside shows the weights as they were used. A backward pass that computes activations again (checkpointing)
    belongs inside the block too.

    A query is counted by its position in its sequence: with a cache, step t is query t; over a memory that was made once
    for many calls (`Attention.remember`, as decoders do) queries are counted from the first call on, so step t is query t
    there too. Every other call begins with query 0.

    The steps of a cached generation of transformers are counted on in causal self-attention; over another sequence every
    call begins with query 0.

    A layer or head that is not there is an error at once, a place that no call had is one at the end of the block.

    >>> import torch
    >>> from mirada import Attention, MultiHead
    >>> attention, x = Attention(MultiHead(width=4, heads=2)), torch.zeros(1, 3, 4)
    >>> with intervene(attention, {"": Force(query=0, key=1, weight=0.5)}):
    ...     attention.weights(x)[0, 0, 0].tolist()
    [0.25, 0.5, 0.25]
    """
    block = InterventionBlock(*heads_of(model, "intervene"), changes)
    foreign = any(not isinstance(layer, Attention) for layer in block._of)  # of another library
    with watch.opened() if foreign else nullcontext(), intervening(block):
        yield
    block.check_places()


def heads_of(model: nn.Module, who: str) -> tuple[dict[nn.Module | None, str], dict[nn.Module | None, int]]:
    """The names of all attention layers, of mirada's and of Hugging Face transformers', and how many heads each has."""
    others = foreign_heads(unwrapped(model)) if isinstance(model, nn.Module) else {}
    names = layer_names(model, who, required=not others)
    heads: dict[nn.Module | None, int] = {layer: layer.heads.heads for layer in names}  # type: ignore[union-attr, misc]
    paths = foreign_names(unwrapped(model)) if others else {}
    return {**{layer: paths[layer] for layer in others}, **names}, {**others, **heads}


@dataclass(eq=False)
class InterventionBlock:
    """The changes of one `intervene` block, and what became of them."""

    names: Mapping[nn.Module | None, str]
    heads: Mapping[nn.Module | None, int]
    changes: Mapping[str, object]
    _of: dict[nn.Module | None, list[Change | Reweighing]] = field(init=False)
    _called: dict[nn.Module | None, tuple[int, int]] = field(default_factory=dict)  # most queries and keys of its calls
    _counts: dict[int, tuple[object, int]] = field(default_factory=dict)  # queries so far, by the memory's origin
    _forced: set[tuple[str, Force]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not isinstance(self.changes, Mapping):
            example = '{"encoder.layers.0.self": DropHead(3)}'
            raise ValueError(f"intervene needs a dict such as {example}: got {self.changes!r}")
        layers = {name: layer for layer, name in self.names.items()}
        self._of = {}
        for name, given in self.changes.items():
            if name not in layers:
                raise unknown("layer", name, layers)
            for change in as_list(given):
                if not isinstance(change, Change) and (not callable(change) or isinstance(change, type)):
                    got = f"got {change!r} for {name or 'the layer'}"
                    raise ValueError(f"a change is DropHead, Cut, MaskKey, Force or a function of the weights: {got}")
                head, last = getattr(change, "head", None), self.heads[layers[name]] - 1
                fits = not isinstance(change, Change) or head is None or head <= last
                require(fits, f"{name or 'the layer'} has heads 0 to {last}: got {change}. Did you mean head={last}?")
            self._of[layers[name]] = as_list(given)

    def change(self, layer: nn.Module, request: Request, memory: Memory | None, again: bool) -> Request:
        """The request of a call, changed."""
        if layer not in self._of:
            return request
        name = self.names[layer]
        before = self._before(request, memory)
        if again:
            before = max(0, before - request.queries)
        return apply(self._of[layer], request, before, lambda force: self._forced.add((name, force)))

    def made(self, layer: nn.Module, request: Request, memory: Memory | None) -> None:
        """Count the queries of a call."""
        if layer not in self._of:
            return
        last, (queries, keys) = self._before(request, memory) + request.queries, self._called.get(layer, (0, 0))
        self._called[layer] = max(queries, request.places.start + last), max(keys, request.keys)
        if memory is not None and request.places.positions is None:
            self._counts[id(memory.origin)] = (memory.origin, last)

    def _before(self, request: Request, memory: Memory | None) -> int:
        """How many queries came before those of a call, where the call itself does not say."""
        if memory is None or request.places.positions is not None:
            return 0
        return self._counts.get(id(memory.origin), (None, 0))[1]

    def check_places(self) -> None:
        """Require that every place that was named occurred in a call; a layer that was not called has nothing to say."""
        for layer in self._of:
            require(
                isinstance(layer, Attention) or layer in self._called,
                f"{self.names[layer]} changed nothing: no attention was computed there. `look` lists the names of those that do.",
            )
        for layer, (queries, keys) in self._called.items():
            name = self.names[layer] or "the layer"
            for change in self._of[layer]:
                if not isinstance(change, Change):
                    continue
                for word, at, size in (("query", change.query, queries), ("key", change.key, keys)):
                    fits = at is None or at < size
                    require(fits, f"{change} changed nothing: {name} had {word} 0 to {size - 1}, and no {word} {at}.")
                require(
                    not isinstance(change, Force) or (self.names[layer], change) in self._forced,
                    f"{change} changed nothing: in {name}, query {change.query} may not see key {change.key}.",
                )

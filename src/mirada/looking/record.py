"""`look`: watch a model's attention without touching it.

Recorded are the queries, keys and values of each call, by reference, and the parts that weigh them: memory grows as
length x dim. Weights are computed when asked for.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mirada.attention.cache import Cache
from mirada.attention.equation import Attention
from mirada.attention.kernels.plan import Plan
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Neighborhood
from mirada.attention.normalizers import Draw
from mirada.attention.observe import Event, observed
from mirada.errors import require, unknown
from mirada.files import write_whole
from mirada.looking import weights as exact
from mirada.looking.attn import read
from mirada.looking.attn.format import PARTS
from mirada.looking.attn.write import whole_file, write
from mirada.looking.explain.methods import Methods
from mirada.looking.explain.relations import HeadRelation
from mirada.looking.huggingface import GivenMask, foreign_names, kind_of, watch
from mirada.looking.labels import AxisLabels, Labels
from mirada.looking.reduce import Reduction, reduced
from mirada.looking.statistics import Checks, HeadStatistics, WeightTile
from mirada.looking.stream import Factors, Stream, chosen, recurrent_lookers
from mirada.shapes import broadcast_heads

if TYPE_CHECKING:
    from mirada.drawing.plots.view import AttentionView
    from mirada.drawing.terminal.text import Terminal

# Records do not change: the parts are copied, and recorded tensors are checked for changes.


SETTINGS = (int, float, str, type(None))  # types of settings; isinstance is faster with a tuple than with a union


def _versions(request: Request) -> tuple[int, ...]:
    """How often each recorded tensor was changed in place. Tensors of inference mode keep no count and cannot be checked."""
    given = (request.places.positions, request.places.key_positions)
    tensors = (request.q, request.k, request.v, *request.where.tensors(), *(x for x in given if x is not None))
    return tuple(-1 if x.is_inference() else x._version for x in tensors)


def _numbers_of(part: nn.Module) -> list[Tensor]:
    """The parameters and buffers of a part, in an order of their own: quicker than asking PyTorch for both."""
    tensors = [x for store in (part._parameters, part._buffers) for x in store.values() if x is not None]
    for inner in part._modules.values():
        tensors += [] if inner is None else _numbers_of(inner)
    return tensors


def _same(tensor: Tensor, before: Tensor) -> bool:
    """Whether a tensor still has the numbers of its copy. They are read: not every optimizer counts what it changes."""
    return tensor.shape == before.shape and tensor.dtype == before.dtype and torch.equal(tensor, before)


def _freeze(part: nn.Module) -> nn.Module:
    """A part with its own copies of its tensors."""
    twin = copy(part)
    for store in ("_parameters", "_buffers"):
        kept = {name: None if x is None else x.detach().clone() for name, x in getattr(part, store).items()}
        object.__setattr__(twin, store, kept)
    object.__setattr__(twin, "_modules", {name: None if m is None else _freeze(m) for name, m in part._modules.items()})
    return twin


@contextmanager
def look(model: nn.Module | None = None) -> Iterator["Seen"]:
    """Record the attention of every layer of a model, inside the block and in this thread.

    Nothing the model computes changes: the same kernels run, and outputs are bit-identical.

    Args:
        model: A model of mirada, or of Hugging Face transformers on its fused implementation. Without one, calls of the
            function `attend` are recorded under the name "attend".

    >>> from mirada import Attention, MultiHead
    >>> attention = Attention(MultiHead(width=4, heads=2))
    >>> with look(attention) as seen:
    ...     _ = attention(torch.zeros(1, 3, 4))
    >>> seen[""].weights(head=0)
    tensor([[[0.3333, 0.3333, 0.3333],
             [0.3333, 0.3333, 0.3333],
             [0.3333, 0.3333, 0.3333]]])
    """
    if model is None:
        seen, watched = Seen({None: "attend"}), False
    else:
        others = foreign_names(unwrapped(model))
        seen, watched = Seen(others | layer_names(model, "look", required=not others)), bool(others)
        recurrent = recurrent_lookers(model)
        seen.recurrent = frozenset(name for layer, name in seen.layer_names.items() if layer in recurrent)
    with watch.opened() if watched else nullcontext(), observed(seen):
        yield seen


def layer_names(model: nn.Module, who: str, required: bool = True) -> dict[nn.Module | None, str]:
    """The attention layers of a model and their dotted paths, without what wraps it (a compiler, DDP)."""
    require(isinstance(model, nn.Module), f"{who} needs a torch module: got {type(model).__name__}")
    model = unwrapped(model)
    names: dict[nn.Module | None, str] = {
        module: path.replace("_orig_mod.", "").removesuffix("_orig_mod").removesuffix(".")
        for path, module in model.named_modules()
        if isinstance(module, Attention)
    }
    require(
        len(names) > 0 or not required,
        f"{who} found no mirada Attention layer in {type(model).__name__}: it attends nowhere. Take a model that does.",
    )
    return names


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel and torch.compile."""
    model = model.module if isinstance(model, DistributedDataParallel) else model
    return getattr(model, "_orig_mod", model)


@dataclass
class History:
    """What a cache held, step by step: each key once.

    A step is the keys and values that one call added, and how often the cache had been reordered by then.
    """

    cache: Cache
    steps: list[tuple[Tensor, Tensor, int]] = field(default_factory=list)
    filled: int = 0

    def add(self, request: Request) -> None:
        """Keep what the call added; everything, if some of it was there before we looked."""
        new = request.queries if self.filled == request.places.start else request.keys
        k, v = (x[:, :, request.keys - new :].detach().clone() for x in (request.k, request.v))
        self.steps.append((k, v, len(self.cache.reorders)))
        self.filled = request.keys

    def restore(self, count: int, reorders: int) -> tuple[Tensor, Tensor]:
        """The keys and values after `count` steps and `reorders` reorderings."""
        kept: tuple[list[Tensor], list[Tensor]] = ([], [])
        for *added, before in self.steps[:count]:
            for pieces, part in zip(kept, added, strict=True):
                for index in self.cache.reorders[before:reorders]:
                    part = part.index_select(0, index)
                pieces.append(part)
        return torch.cat(kept[0], dim=2), torch.cat(kept[1], dim=2)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of one layer: its queries, keys and values, from which weights are computed on demand. `look` makes them.

    Args:
        name: The layer's dotted path.
        kind: "self", "cross" or "graph".
        plan: The kernel that ran, and why the others did not.
        calls: All calls of the layer so far, in order.
        request: What the layer attended with.
        draw: What a stochastic normalizer drew, if it did.

    >>> from mirada.looking.black_cat import black_cat
    >>> call = black_cat()["attention"]
    >>> call.kind, call.heads, call.queries, call.keys
    ('cross', 1, 6, 6)
    >>> call.weights(head=0, rows=slice(0, 1)).shape
    torch.Size([1, 1, 6])
    """

    name: str
    kind: str  # self, cross or graph
    plan: Plan
    calls: "list[Call]"  # all calls of this layer so far, in order
    request: Request
    draw: Draw | None
    _history: tuple[History, int, int] | None
    _versions: tuple[int, ...]

    @property
    def batch(self) -> int:
        """How many samples it saw."""
        return self.request.batch

    @property
    def heads(self) -> int:
        """How many heads it has."""
        return self.request.heads

    @property
    def queries(self) -> int:
        """How many queries it had."""
        return self.request.queries

    @property
    def keys(self) -> int:
        """How many keys it had, those of a cache included."""
        return self.request.places.keys

    @property
    def start(self) -> int:
        """The place of the first query in its sequence: how many a cache held before it."""
        return self.request.places.start

    @property
    def where(self) -> Neighborhood:
        """The neighborhood: which keys each query may see."""
        return self.request.where

    @property
    def edges(self) -> Int[Tensor, "2 edges"] | None:
        """Source and target of every weight, for attention over the edges of a graph; None elsewhere."""
        graph = exact.edges_of(self.request)
        return None if graph is None else graph.pairs[:, : int(graph.offsets[self.queries])]

    def weights(self, head: int | None = None, rows: slice | None = None) -> Tensor:
        """The weights before dropout: (batch, heads, queries, keys), without the heads axis for one head.

        `rows` computes some queries only. Over the edges of a graph there is one weight per edge, (batch, heads, edges), in
        the order of `edges`.
        """
        request = self.restored()
        heads, first, last = chosen(self, head, rows)
        graph = exact.edges_of(request)
        with torch.no_grad(), torch.autocast(request.q.device.type, enabled=False):
            if graph is None:
                weights = exact.dense_weights(request, self.draw, heads, first, last)
            else:
                weights = exact.edge_weights(request, self.draw, heads, graph)
        return weights if head is None else weights[:, 0]

    def tiles(self, head: int | None = None) -> Iterator[WeightTile]:
        """The weights before dropout, some rows at a time with the keys that these can see: for what need not hold them all."""
        request = self.restored()
        require(self.edges is None, "the weights of a graph are one per edge: ask for `weights()`")
        heads, first, last = chosen(self, head, None)
        with torch.no_grad(), torch.autocast(request.q.device.type, enabled=False):
            yield from exact.tiles(request, self.draw, heads, first, last)

    def reduce(self, *reductions: Reduction, head: int | None = None) -> dict[str, Any]:
        """What reductions make of the weights, by their class names, without ever holding more than some rows of them.

        Args:
            reductions: `Entropy()`, `TopK(8)`, ... of `mirada.looking.reduce`, or your own.
            head: one head; without it, all.

        >>> from mirada.looking.black_cat import black_cat
        >>> from mirada.looking.reduce import Entropy
        >>> black_cat()["attention"].reduce(Entropy())["Entropy"].shape
        torch.Size([1, 1, 6])
        """
        return reduced(self, reductions, head)

    def scores(self, head: int | None = None, rows: slice | None = None) -> Tensor:
        """What the normalizer was given, before the mask: score + position, (batch, heads, queries, keys); exact.

        Over the edges of a graph there is one score per edge, (batch, heads, edges). `rows` and `head` choose as in `weights`.
        """
        return replace(self, draw=None, request=exact.raw(self.restored()), _history=None).weights(head, rows)

    def values(self) -> Float[Tensor, "batch heads keys value_dim"]:
        """The values that the weights mixed."""
        request = self.restored()
        return broadcast_heads(request.v, request.heads)

    def output(self) -> Float[Tensor, "batch heads queries value_dim"]:
        """The weights times the values by this call's value rule: the heads' outputs, before the output projection."""
        with torch.no_grad(), torch.autocast(self.request.q.device.type, enabled=False):
            return exact.outputs(self.restored(), self.draw)

    @property
    def cached(self) -> bool:
        """Whether its keys are those of a cache."""
        return self._history is not None

    @property
    def dropout(self) -> float:
        """The share of weights that were dropped at random in this call."""
        normalizer = self.request.normalizer
        return float(getattr(normalizer, "dropout", 0.0)) if normalizer.training else 0.0

    def factors(self) -> Factors | None:
        """Prepared queries and keys, where the scores are their products."""
        return exact.factors(self.restored(), self.draw)

    def mask(self, first: int, last: int) -> Tensor:
        """Who may be seen by the queries first, ..., last - 1: broadcasts to (batch, heads, queries, keys)."""
        return self.request.mask(first, last)

    def parts(self) -> dict[str, str]:
        """The factors of the equation, as they print themselves."""
        request = self.request
        position = "" if type(request.position).__name__ == "Position" else repr(request.position)
        printed = repr(request.score), repr(request.where), position, repr(request.normalizer)
        return dict(zip(PARTS, (self.plan.kernel, *printed), strict=True))

    def continued(self, other: "Call", sample: int) -> int | None:
        """The sample of an earlier call whose next step this is: a query more, over the same keys or keys that grew by its own.

        None if it is no next step. A beam search goes on from other samples than its own.
        """
        if self.batch != other.batch or self.cached != other.cached:
            return None
        if self._history is not None and other._history is not None:
            next_step = self._history[0] is other._history[0] and self._history[1] == other._history[1] + 1
            for index in reversed(self._history[0].cache.reorders[other._history[2] : self._history[2]]):
                sample = int(index[sample])
            return sample if next_step else None
        mine, its, before = self.request.k, other.request.k, self.request.places.start
        if before and before == other.request.places.start + other.queries <= its.shape[2]:  # another library's cache
            first = max((part.dropped for part in self.where.conjuncts() if isinstance(part, GivenMask)), default=0)
            order = sorted(range(self.batch), key=lambda one: one != sample)
            same = (one for one in order if torch.equal(mine[sample, :, first:before], its[one, :, first:before]))
            return next(same, None)
        same_keys = self.queries == 1 and mine.shape == its.shape and (mine is its or torch.equal(mine, its))
        return sample if same_keys else None

    def statistics(self, sample: int = 0) -> list[HeadStatistics]:
        """What every head does in this call: entropy, distance, previous, next, first and self mass, sinks."""
        return Stream((self,), sample).statistics()[0]

    def checks(self, sample: int = 0) -> Checks:
        """What a reader of these weights must be warned of."""
        return Stream((self,), sample).statistics()[1]

    def nbytes(self) -> int:
        """The memory this call keeps alive; of a cache, only what this step added to it."""
        request, tensors = self.request, []
        if self._history is not None:
            history, count, _ = self._history
            tensors = list(history.steps[count - 1][:2])
        return sum(x.numel() * x.element_size() for x in (request.q, request.k, request.v, *tensors))

    def restored(self) -> Request:
        """What the layer attended with, keys and values of a cache included; an error if it was changed since."""
        require(
            self._versions == _versions(self.request),
            f"what {self.name or 'the layer'} attended with was changed in place after the call, so its weights are lost. "
            "Ask for them earlier, or change a copy.",
        )
        if self._history is None:
            return self.request
        history, count, reorders = self._history
        k, v = history.restore(count, reorders)
        return replace(self.request, k=k, v=v)

    def __repr__(self) -> str:
        shape = f"heads={self.heads}, queries={self.queries}, keys={self.keys}"
        return f"Call({self.name!r}, {self.kind}, {shape}, where={self.where}, kernel={self.plan.kernel})"


class Seen:
    """Everything that was looked at: `seen.names`, and `seen[name]`, the last call of that layer.

    Args:
        names: The layers that are watched and their names; `look` finds them.

    >>> from mirada.looking.black_cat import black_cat
    >>> seen = black_cat()
    >>> seen.names, seen["attention"].weights().shape
    (['attention'], torch.Size([1, 1, 6, 6]))
    """

    def __init__(self, names: Mapping[nn.Module | None, str]) -> None:
        self.layer_names = names
        self._calls: dict[str, list[Any]] = {}  # of Call; of one StoredCall where it was read from a file
        self.recurrent: frozenset[str] = frozenset()  # the layers with which a recurrent net looks
        self.foreign: set[str] = set()  # the layers of another library
        self.labels = Labels()
        self.methods: Methods | None = None
        self.relations: tuple[HeadRelation, ...] = ()
        self._histories: dict[int, History] = {}
        self._frozen: dict[nn.Module | None, tuple[tuple[object, ...], list[Tensor], dict[str, Any]]] = {}

    @property
    def names(self) -> list[str]:
        """The layers that were called, as dotted paths, in the order of their first call."""
        return list(self._calls)

    def __getitem__(self, name: str) -> Call:
        if name not in self._calls:
            raise KeyError(str(unknown("layer", name, self.names)) if self.names else "no layer was called inside look")
        return self._calls[name][-1]

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __contains__(self, name: object) -> bool:
        return name in self._calls

    def labelled(self, labels: Labels) -> "Seen":
        """This, with what its rows and columns are."""
        self.labels = labels
        return self

    def stream(self, name: str, sample: int | None = None) -> Stream:
        """The layer as a picture shows it: one sample, the steps of a decoding joined."""
        return Stream.of(self[name].calls, sample)

    def layer(self, name: str = "") -> str:
        """A layer by its name or the end of it; without one, the last that looks from what is written at what was read."""
        names = self.names
        require(len(names) > 0, "there is nothing to see: no layer was called inside look")
        if name in names or not name:
            across = [each for each in names if self[each].kind == "cross"]
            return name or (across or names)[-1]
        near = [each for each in names if each.endswith(f".{name}")]
        if len(near) != 1:
            raise unknown("layer", name, names)
        return near[0]

    def save(
        self, path: str | os.PathLike[str], sample: int | None = None, layers: Sequence[str] | None = None
    ) -> None:
        """Write an attention file at once or not at all. `docs/attn.md` describes it.

        Args:
            path: The file, `.attn` by custom.
            sample: Which one, where several were seen at once.
            layers: The layers to write; without them, all.
        """
        with whole_file(Path(path)) as file:
            self._write(file, sample, layers)

    def to_bytes(self, sample: int | None = None, layers: Sequence[str] | None = None) -> bytes:
        """What `save` writes."""
        file = io.BytesIO()
        self._write(file, sample, layers)
        return file.getvalue()

    def _write(self, file: IO[bytes], sample: int | None, layers: Sequence[str] | None) -> None:
        streams = [self.stream(name, sample) for name in (self.names if layers is None else layers)]
        write(file, streams, self.labels, self.methods, self.relations, self.recurrent, self.foreign)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Seen":
        """What `save` wrote: the same names, weights (within 0.004) and labels. A damaged file is a ValueError.

        >>> from mirada.looking.black_cat import black_cat
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "x.attn")
        >>> black_cat().save(path)
        >>> Seen.load(path).names
        ['attention']
        """
        return cls._of(read.load(path))

    @classmethod
    def from_bytes(cls, content: bytes) -> "Seen":
        """What `to_bytes` gave."""
        return cls._of(read.from_bytes(content))

    @classmethod
    def _of(cls, loaded: read.Loaded) -> "Seen":
        seen = cls({})
        seen._calls = {name: [call] for name, call in loaded.calls.items()}
        seen.labels, seen.methods, seen.relations = loaded.labels, loaded.methods, loaded.relations
        return seen

    def with_requests(self, change: Callable[[Call], Request]) -> "Seen":
        """The same calls and labels, each call with another request: of fewer samples, or of a part of a graph."""
        seen = Seen({}).labelled(self.labels)
        seen.recurrent, seen.foreign = self.recurrent, self.foreign
        for name in self.names:
            calls = seen._calls[name] = []
            for call in self[name].calls:
                request = change(call)
                calls.append(replace(call, calls=calls, request=request, _versions=_versions(request)))
        return seen

    # Pictures. Drawing is imported when it is asked for: looking at a model needs none of it.

    @property
    def samples(self) -> int:
        """How many samples were seen at once."""
        return max((self[name].batch for name in self.names), default=1)

    def view(self, layer: str = "", head: int | None = None, sample: int | None = None) -> "AttentionView":
        """One layer as still pictures show it.

        Args:
            layer: Its name or the end of it; without one, the last that looks from what is written at what was read.
            head: Which one; without it, the mean of all.
            sample: Which one, where several were seen at once.
        """
        from mirada.looking import show

        stream = self.stream(self.layer(layer), sample)
        return show.view(stream, self.labels, show.title(self.labels, sample, self.samples), head)

    def text(
        self, layer: str = "", head: int | None = None, terminal: "Terminal | None" = None, sample: int | None = None
    ) -> str:
        """A drawing for a terminal: this one, unless another is given. `layer`, `head` and `sample` as in `view`."""
        from mirada.drawing.terminal.text import Terminal
        from mirada.looking import show

        return show.in_terminal(self.view(layer, head, sample), terminal or Terminal.of())

    def plot(
        self,
        path: str | os.PathLike[str],
        layer: str = "",
        head: int | None = None,
        kind: str = "",
        sample: int | None = None,
    ) -> None:
        """Write a plot: PNG, SVG or PDF by the name of the file. `layer`, `head` and `sample` as in `view`.

        Args:
            path: The file.
            kind: "matrix", all "heads" small, a "picture" or a "graph"; without it, what suits the layer.
        """
        from mirada.looking import show

        shown = self.view(layer, head, sample)
        kind = show.plot_kind(shown, kind)
        heads = []
        if kind == "heads":
            names = [self.layer(layer)] if layer else self._alike(self.layer(), sample)
            heads = [[self.view(name, each, sample) for each in range(self[name].heads)] for name in names]
        show.plot(Path(path), shown, heads, kind)

    def _alike(self, layer: str, sample: int | None) -> list[str]:
        """The layers with the same rows and columns as this one."""

        def axes(name: str) -> tuple[AxisLabels, AxisLabels]:
            stream = self.stream(name, sample)
            return self.labels.rows_and_columns(name, stream.queries, stream.keys)

        wanted = axes(layer)
        return [name for name in self.names if axes(name) == wanted]

    def html(
        self,
        other: "Seen | None" = None,
        language: str = "",
        layers: Sequence[str] | None = None,
        sample: int | None = None,
    ) -> str:
        """The page as text: matrix, heads, lines, playback, arithmetic, offline.

        Args:
            other: Another look, to show both and their difference.
            language: "en" or "es"; without it, that of the browser.
            layers: The layers to show; without them, all.
            sample: Which one, where several were seen at once.
        """
        from mirada.drawing.viewer.page import attention_page
        from mirada.looking import show

        records = [self.to_bytes(sample, layers)]
        if other is not None:
            records.append(other.to_bytes(sample if other.samples > 1 else None, layers))
        title = show.title(self.labels, sample, self.samples)
        heading = f"{title[:100]} \u00b7 mirada" if title else "mirada"
        return attention_page(records, heading, language, self.labels.opening)

    def page(
        self,
        path: str | os.PathLike[str],
        other: "Seen | None" = None,
        language: str = "",
        layers: Sequence[str] | None = None,
        sample: int | None = None,
    ) -> None:
        """Write one HTML file that shows all of it or some layers, offline; the arguments are those of `html`.

        >>> from mirada.looking.black_cat import black_cat
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "x.html")
        >>> black_cat().page(path)
        >>> path.read_text()[:15]
        '<!doctype html>'
        """
        write_whole(Path(path), self.html(other, language, layers, sample).encode())

    def _repr_html_(self) -> str:
        """A cell of a notebook. Of several samples it shows the first, with a note."""
        if not self.names:
            return "<p>nothing was seen</p>"
        from mirada.looking import show

        return show.in_notebook(self.html(sample=0), self.samples)

    def see(self, event: Event) -> None:
        """Record a call of one of the watched layers."""
        if event.layer not in self.layer_names:
            return
        name = self.layer_names[event.layer]
        request, history = self._keep(event)
        kind = "graph" if exact.edges_of(request) is not None else event.kind
        if not isinstance(event.layer, Attention | None):
            kind = kind_of(name)
            self.foreign.add(name)
        calls = self._calls.setdefault(name, [])
        draw = event.draw.detach() if event.draw is not None else None
        calls.append(Call(name, kind, event.plan, calls, request, draw, history, _versions(request)))

    def _keep(self, event: Event) -> tuple[Request, tuple[History, int, int] | None]:
        request = event.request
        q, k, v = (x.detach() for x in (request.q, request.k, request.v))
        history = None
        if event.cache is not None:
            past = self._histories.get(id(event.cache))
            if past is None or past.filled != request.places.start:  # it was filled before we looked, or rewound since
                past = self._histories[id(event.cache)] = History(event.cache)
            past.add(request)
            history = (past, len(past.steps), len(event.cache.reorders))
            k, v = k[:, :, :0].clone(), v[:, :, :0].clone()
        if event.aliases:
            q = q.clone()
            k, v = (k, v) if event.kept else (k.clone(), v.clone())
        return replace(request, q=q, k=k, v=v, **self._freeze(event.layer, request)), history

    def _freeze(self, layer: nn.Module | None, request: Request) -> dict[str, Any]:
        """The layer's parts as they are now: a later training step must not change what was seen."""
        parts = {"score": request.score, "position": request.position, "normalizer": request.normalizer}
        # all that their numbers depend on: which parts they are, their settings and their tensors
        state = tuple(
            x for part in parts.values() for x in (part, *(v for v in vars(part).values() if isinstance(v, SETTINGS)))
        )
        tensors = [x for part in parts.values() for x in _numbers_of(part)]
        before = self._frozen.get(layer)
        if before is None or before[0] != state or not all(map(_same, tensors, before[1])):
            kept = {name: _freeze(part) for name, part in parts.items()}
            copies = [x for part in kept.values() for x in _numbers_of(part)]
            before = self._frozen[layer] = (state, copies, kept)
        return before[2]

    def __repr__(self) -> str:
        if not self._calls:
            return "Seen(no calls)"
        rows = [("layer", "kind", "calls", "heads", "queries", "keys", "kernel", "where")]
        for name, calls in self._calls.items():
            last = calls[-1]
            sizes = map(str, (len(calls), last.heads, last.queries, last.keys))
            rows.append((name or "(the layer)", last.kind, *sizes, last.plan.kernel, repr(last.where)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(w.ljust(n) for w, n in zip(row, widths, strict=True)).rstrip() for row in rows)

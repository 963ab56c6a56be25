"""The weights of chosen heads of chosen layers, for every token that is written, at the speed of the engine.

A packed stepper keeps them from the memory that a step has just used. Any other model takes its steps itself while an observer
takes the last row of every call of these layers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.kernels import reference
from mirada.attention.observe import Event, observed
from mirada.decoding.search import Stepper
from mirada.engine.recurrent import RecurrentEngineState
from mirada.engine.state import EngineState, KeptHead, Scores
from mirada.engine.stepper import EngineStepper
from mirada.errors import require, unknown

Tokens = Int[Tensor, "batch *places"]  # one for each text, or several of a prompt


def watched(stepper: Stepper, heads: Mapping[str, Sequence[int]]) -> "Watching":
    """A stepper that also keeps the weights of some heads, which a search returns as `Hypothesis.rows`.

    Args:
        stepper: `engine.fast(model).stepper`, or a model.
        heads: heads by the name of their layer, as `look` names it; an empty list: all of them.

    >>> from mirada.decoding import Greedy
    >>> from mirada.engine import fast
    >>> from mirada.models import GPT, GPTConfig
    >>> stepper = watched(fast(GPT(GPTConfig.tiny()).eval()).stepper, {"decoder.layers.1.self": [0]})
    >>> [[text]] = Greedy()(stepper, stepper.start(1), torch.tensor([3]), None, most=5)
    >>> text.rows[0].shape
    torch.Size([1, 5, 5])
    """
    model = _model_of(stepper)
    layers = {name: module for name, module in model.named_modules() if isinstance(module, Attention)}
    require(bool(layers), f"{type(model).__name__} has no attention: nothing can be watched in it")
    chosen: dict[str, tuple[int, ...]] = {}
    for name, numbers in heads.items():
        if name not in layers:
            raise unknown("layer of attention", name, layers)
        count = layers[name].heads.heads
        wrong = [number for number in numbers if not 0 <= number < count]
        require(not wrong, f"heads of {name} must lie in 0..{count - 1}: got {', '.join(map(str, wrong))}")
        chosen[name] = tuple(numbers) or tuple(range(count))
    return Watching(stepper, chosen, {name: layers[name] for name in chosen})


def _model_of(stepper: Stepper) -> nn.Module:
    """The modules that a stepper steps with."""
    model = stepper.model if isinstance(stepper, EngineStepper) else stepper
    require(isinstance(model, nn.Module), f"what is watched must be a model or an engine: got {type(model).__name__}")
    return model  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class WatchedState:
    """The state of a stepper that is watched, and the rows of its last step, if modules took it."""

    inner: Any
    rows: tuple[Float[Tensor, "batch _ _"], ...] | None = None

    @property
    def batch(self) -> int:
        """How many texts are written at once."""
        return self.inner.batch  # type: ignore[no-any-return]


class _Observer:
    """Keeps the last row of every call of some layers."""

    def __init__(self, layers: Mapping[str, Attention]) -> None:
        self.names = {id(layer): name for name, layer in layers.items()}
        self.rows: dict[str, Float[Tensor, "batch heads keys"]] = {}

    def see(self, event: Event) -> None:
        """The weights of the last query of a call, computed now: a cache may be written again in the next step."""
        if (name := self.names.get(id(event.layer))) is None:
            return
        request, last = event.request, event.request.queries - 1
        with torch.no_grad():
            if event.draw is not None:
                self.rows[name] = event.draw.one_hot(request.keys, request.q.dtype)[:, :, last]
                return
            k, _ = request.visible()
            q, k = request.score.queries(reference.widen(request.q)), request.score.keys(reference.widen(k))
            self.rows[name] = reference.weigh(request, q, k, last, last + 1).weights[:, :, 0]


class Watching:
    """What `watched` returns: the steps of another stepper, and the weights of the heads that are watched.

    Args:
        stepper: whose steps are taken.
        chosen: the heads, by the name of their layer.
        layers: the layers, by name, among the modules of the stepper.
    """

    def __init__(
        self, stepper: Stepper, chosen: Mapping[str, tuple[int, ...]], layers: Mapping[str, Attention]
    ) -> None:
        self.stepper, self.chosen, self.layers = stepper, dict(chosen), dict(layers)
        self.slots: dict[str, list[int]] = {}  # in what a packed stepper keeps
        self.heads: list[KeptHead] = []
        if isinstance(stepper, EngineStepper):
            self.heads = [*stepper.top]
            for name, layer in layers.items():
                place = _place_in(stepper, name, layer)
                wanted = [KeptHead(*place, head) for head in chosen[name]]
                self.heads += [head for head in wanted if head not in self.heads]
                self.slots[name] = [self.heads.index(head) for head in wanted]

    def encode(self, *inputs: Any, **named: Any) -> Any:
        """What the stepper's encoder makes of a source."""
        return self.stepper.encode(*inputs, **named)  # type: ignore[attr-defined]

    def start(self, memory: Any = 1) -> WatchedState:
        """The state before the first token."""
        if isinstance(self.stepper, EngineStepper):
            return WatchedState(self.stepper.start(memory, self.heads))
        return WatchedState(self.stepper.start(memory))

    def step(self, tokens: Tokens, state: WatchedState) -> tuple[Scores, WatchedState]:
        """The scores of the next tokens, and the next state, with the rows of this step."""
        observer = _Observer(self.layers)
        with observed(observer):
            logits, inner = self.stepper.step(tokens, state.inner)
        if isinstance(inner, EngineState | RecurrentEngineState) and inner.kept is not None:
            return logits, WatchedState(inner)  # the rows are in what it kept
        missing = [name for name in self.chosen if name not in observer.rows]
        require(
            not missing,
            f"{', '.join(missing)} looks at nothing while tokens are written: only the decoder's layers can be watched. "
            "Look at one answer instead (answer.look(), mirada look).",
        )
        return logits, WatchedState(
            inner, tuple(observer.rows[name][:, list(heads)] for name, heads in self.chosen.items())
        )

    def _kept(
        self, state: EngineState | RecurrentEngineState, kept: Tensor, name: str
    ) -> Float[Tensor, "batch heads keys"]:
        """The rows of a layer, from what a packed stepper kept."""
        slots = self.slots[name]
        together = slots == list(range(slots[0], slots[0] + len(slots)))  # a view takes less time than a copy
        return kept[:, slice(slots[0], slots[-1] + 1) if together else slots, : state.keys(self.heads[slots[0]].across)]

    def reorder(self, state: WatchedState, index: Int[Tensor, " entries"]) -> WatchedState:
        """The state in which entry b continues from entry index[b]."""
        rows = None if state.rows is None else tuple(each.index_select(0, index) for each in state.rows)
        return replace(state, inner=self.stepper.reorder(state.inner, index), rows=rows)

    def alignment(self, state: WatchedState) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step: the mean of the heads of the top layer."""
        return self.stepper.alignment(state.inner)

    def watched_rows(self, state: WatchedState) -> tuple[Float[Tensor, "batch _ _"], ...]:
        """The weights of the last step, for every layer that is watched."""
        if state.rows is not None:
            return state.rows
        kept: Any = getattr(state.inner, "kept", None)
        require(kept is not None, "there are no weights before the first step")
        return tuple(self._kept(state.inner, kept, name) for name in self.chosen)


def _place_in(stepper: EngineStepper, name: str, layer: Attention) -> tuple[int, bool]:
    """The number of a decoder's layer, and whether this attention of it looks at the source."""
    place = stepper.place_of(layer)
    require(
        place is not None,
        f"{name} looks at nothing while tokens are written: only the decoder's layers can be watched. "
        "Look at one answer instead (answer.look(), mirada look).",
    )
    return place  # type: ignore[return-value]

"""Quick steps: the same numbers as through the modules, refusals with reasons, nothing missed and nothing stale."""

import ctypes
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Padding, Window
from mirada.attention.positions import Rotary
from mirada.layers.block import BlockConfig
from mirada.layers.norm import BatchNorm, LayerNorm
from mirada.layers.quick import compiled, kept, library, reading, run
from mirada.layers.quick.compiled import Compiled
from mirada.layers.quick.eager import Eager, neighbors
from mirada.layers.stack import ROOM, Decoder, State
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.transformer import SourceMemory, Transformer, TransformerConfig
from tests.models.stirring import stirred

SIZES = {"vocab": 71, "width": 24, "heads": 3, "hidden": 37, "depth": 2, "dropout": 0.1, "length": 97}
LENGTHS = torch.tensor([7, 4, 5])
NATIVE = library.library() is not None
needs_compiler = pytest.mark.skipif(not NATIVE, reason="there is no C compiler")


@contextmanager
def through_the_modules() -> Iterator[None]:
    """Somebody has hooked a function to all modules: none of them may be passed by."""
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        yield
    finally:
        handle.remove()


def transformer(dtype: torch.dtype = torch.float32, **fields: object) -> Transformer:
    torch.manual_seed(0)
    return stirred(Transformer(TransformerConfig(**(SIZES | {"source_vocab": 61} | fields))), dtype, strength=0.1)


def gpt(dtype: torch.dtype = torch.float32, **fields: object) -> GPT:
    torch.manual_seed(0)
    return stirred(GPT(GPTConfig(**(SIZES | fields))), dtype, strength=0.1)


def words(*shape: int, vocab: int = 61, seed: int = 0) -> Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def begun(model: Transformer | GPT, batch: int, lengths: Tensor | None = None) -> State:
    """The state of that many sources or texts."""
    if isinstance(model, GPT):
        return model.start(batch)
    return model.start(model.encode(words(batch, 7, seed=1), lengths))


Steps = tuple[list[Tensor], State]


def walk(
    model: Transformer | GPT, state: State, steps: int, indices: dict[int, Tensor] | None = None, first: int = 0
) -> Steps:
    """The scores of some steps with random words, reordered before those that have an index."""
    scores = []
    for time in range(first, first + steps):
        if indices and time in indices:
            state = model.reorder(state, indices[time])
        logits, state = model.step(words(state.batch, seed=time), state)
        scores.append(logits)
    return scores, state


def assert_same(ours: object, theirs: object, dtype: torch.dtype) -> None:
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def assert_quick(
    make: Callable[[], State], model: Transformer | GPT, steps: int, indices: dict[int, Tensor] | None = None
) -> State:
    """Steps are quick, and give what the modules give: scores, caches and alignments."""
    dtype = next(model.parameters()).dtype
    scores, state = walk(model, make(), steps, indices)
    assert isinstance(state.run.way, Compiled if NATIVE and dtype == torch.float32 else Eager), state.run.record.reason
    with through_the_modules():
        expected, other = walk(model, make(), steps, indices)
    assert other.run.way is None
    assert_same(scores, expected, dtype)
    assert (state.filled, state.reorders, state.batch) == (other.filled, other.reorders, other.batch)
    assert_same(model.alignment(state), model.alignment(other), dtype)
    for ours, theirs in zip(state.caches, other.caches, strict=True):  # settled by now if there is no source
        if state.run.writers is None:
            assert_same(ours.keys[:, :, : ours.filled], theirs.keys[:, :, : theirs.filled], dtype)
            assert_same(ours.values[:, :, : ours.filled], theirs.values[:, :, : theirs.filled], dtype)
    return state


@pytest.fixture(params=["compiled", "eager"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to take a step in float32."""
    if request.param == "compiled" and not NATIVE:
        pytest.skip("there is no C compiler")
    if request.param == "eager":
        without_compiler(monkeypatch)
    return request.param


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "serves", lambda x: False)
    monkeypatch.setattr(reading, "serves", lambda x: False)
    monkeypatch.setattr("tests.layers.test_quick.NATIVE", False)


# The same numbers

KINDS = list(itertools.product(["layer", "rms"], ["pre", "post"], ["relu", "gelu", "gelu-tanh", "silu"]))


@pytest.mark.parametrize(("norm", "order", "activation"), KINDS)
def test_every_usual_kind_of_layer(way: str, norm: str, order: str, activation: str) -> None:
    fields = {"norm": norm, "order": order, "activation": activation}
    model = transformer(**fields)
    assert_quick(lambda: begun(model, 3, LENGTHS), model, steps=5)
    other = gpt(**fields)
    assert_quick(lambda: begun(other, 3), other, steps=5)


@pytest.mark.parametrize("position", ["sinusoidal", "sinusoidal:layout=half", "learned", "none"])
@pytest.mark.parametrize("projection", ["multihead", "multihead:dim=5", "multihead:bias=False"])
def test_every_usual_position_and_head(way: str, position: str, projection: str) -> None:
    model = transformer(position=position, projection=projection, output_bias=True, tied="no")
    assert_quick(lambda: begun(model, 3, LENGTHS), model, steps=3)
    other = gpt(position=position, projection=projection, tied=False)
    assert_quick(lambda: begun(other, 3), other, steps=3)


@pytest.mark.parametrize("batch", [1, 2, 6, 7, 13, 40, 101])
def test_any_number_of_rows(way: str, batch: int) -> None:
    model, lengths = transformer(score="dot:0.3"), torch.arange(batch) % 7 + 1
    assert_quick(lambda: begun(model, batch, lengths), model, steps=3)
    other = gpt()
    assert_quick(lambda: begun(other, batch), other, steps=3)


def test_in_float64() -> None:
    for model in (transformer(torch.float64), gpt(torch.float64, order="post")):
        assert_quick(lambda: begun(model, 3, LENGTHS), model, steps=4, indices={2: torch.tensor([2, 0, 0])})  # noqa: B023


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 5, 40, 101])
@torch.no_grad()
def test_any_number_of_threads(threads: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "WORTH_A_THREAD", 1)
    torch.set_num_threads(threads)
    model, alone = transformer(width=72, vocab=1003, heads=4), ctypes.c_int64.in_dll(library.loaded(), "alone")
    with through_the_modules():
        expected, _ = walk(model, begun(model, batch), 6)
    state = begun(model, batch)
    for time, right in enumerate(expected):
        alone.value = 0  # on a busy machine steps might be taken by one thread
        logits, state = model.step(words(batch, seed=time), state)
        assert_same(logits, right, torch.float32)
    assert state.run.way.job.threads == threads


def test_a_model_of_ordinary_size(way: str) -> None:
    """Sums over a thousand numbers still agree."""
    model = transformer(width=128, heads=4, hidden=1024, vocab=300, depth=3)
    assert_quick(lambda: begun(model, 9), model, steps=3)


# Beams

ORDERS = {
    "stay": {2: [0, 1, 2], 4: [0, 1, 2]},
    "mix": {1: [2, 0, 0], 2: [1, 1, 2], 5: [0, 2, 1]},
    "open": {1: [0, 0, 1, 1, 2, 2], 3: [1, 0, 2, 3, 4, 4], 4: [0, 0, 3, 2, 5, 4]},
    "open and leave": {1: [0, 0, 0, 1, 1, 1, 2, 2, 2], 2: [2, 0, 1, 6, 6, 8], 4: [3, 5, 4]},
    "across": {2: [2, 2, 1], 3: [1, 0, 0], 4: [2, 1, 2]},
    "before the first step": {0: [2, 1, 1, 0]},
}


@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
def test_rows_go_on_from_others(way: str, orders: dict[int, list[int]]) -> None:
    indices = {time: torch.tensor(listed) for time, listed in orders.items()}
    for lengths in (None, LENGTHS):
        model = transformer()
        assert_quick(lambda: begun(model, 3, lengths), model, 7, indices)  # noqa: B023
    other = gpt()
    assert_quick(lambda: begun(other, 3), other, 7, indices)


def test_long_texts_outgrow_the_room_of_the_caches(way: str) -> None:
    steps, indices = ROOM + 9, {time: words(3, vocab=3, seed=time) for time in range(2, ROOM + 8, 5)}
    for model in (transformer(), gpt(position="learned")):
        state = assert_quick(lambda: begun(model, 3, LENGTHS), model, steps, indices)  # noqa: B023
        assert min(cache.length for cache in state.caches) > ROOM


@torch.no_grad()
def test_an_index_is_taken_as_it_was(way: str) -> None:
    """Who called may write to it afterwards, and may have made it in int32."""
    model, results = transformer(), []
    for spoil in (False, True):
        index = torch.tensor([2, 0, 1], dtype=torch.int32 if spoil else torch.int64)
        _, state = walk(model, begun(model, 3), 2)
        state = model.reorder(state, index)
        if spoil:
            index.zero_()
        results.append(walk(model, state, 3, first=2)[0])
    assert_close(*results)


def test_neighbors_share_a_source() -> None:
    assert neighbors(torch.tensor([1, 1, 0, 0])) == 2
    assert neighbors(torch.tensor([1, 1, 1])) == 3
    assert neighbors(torch.tensor([1, 1, 0, 1])) == 1
    assert neighbors(torch.tensor([4])) == 1


# From step to step


@torch.no_grad()
def test_ways_may_change_from_step_to_step(way: str) -> None:
    """With a hook, a step goes through the modules; what it finds and leaves is the same, also in reordered caches."""
    index = {2: torch.tensor([2, 0, 0]), 4: torch.tensor([1, 2, 0]), 7: torch.tensor([0, 0, 1])}
    for model in (transformer(), gpt()):
        with through_the_modules():
            expected, other = walk(model, begun(model, 3, LENGTHS), 10, index)
        state, scores = begun(model, 3, LENGTHS), []
        for time in range(10):
            if time in index:
                state = model.reorder(state, index[time])
            if time % 3 == 1:
                with look(model) as seen:
                    logits, state = model.step(words(3, seed=time), state)
                assert len(seen.names) == (4 if isinstance(model, Transformer) else 2)
                top = "cross" if isinstance(model, Transformer) else "self"
                weights = seen[f"decoder.layers.1.{top}"].weights()[:, :, -1].mean(1)
                assert_same(model.alignment(state), weights, torch.float32)
            elif time % 3 == 2:
                with through_the_modules():
                    logits, state = model.step(words(3, seed=time), state)
            else:
                logits, state = model.step(words(3, seed=time), state)
            scores.append(logits)
        assert_same(scores, expected, torch.float32)
        assert_same(model.alignment(state), model.alignment(other), torch.float32)


@torch.no_grad()
def test_looking_changes_no_bit(way: str) -> None:
    """Sources read, steps and reorders: the same numbers with and without somebody who looks, and all of it is seen."""
    index = {2: torch.tensor([2, 0, 0]), 4: torch.tensor([1, 2, 0, 0]), 7: torch.tensor([0, 3])}
    for model in (transformer(), gpt()):
        expected, other = walk(model, begun(model, 3, LENGTHS), 10, index)
        with look(model) as seen:
            scores, state = walk(model, begun(model, 3, LENGTHS), 10, index)
        for ours, theirs in zip(scores, expected, strict=True):
            assert torch.equal(ours, theirs)
        assert torch.equal(model.alignment(state), model.alignment(other))
        layers = [name for name, _ in model.named_modules() if name.endswith((".self", ".cross"))]
        assert sorted(seen.names) == sorted(layers)
        assert len(seen["decoder.layers.1.self"].calls) == 10


@torch.no_grad()
def test_a_whole_pass_takes_the_modules() -> None:
    model, source, target = transformer(), words(3, 7), words(3, 5)
    with through_the_modules():
        expected = model(source, LENGTHS, target)
    assert torch.equal(model(source, LENGTHS, target), expected)
    with look(model):
        assert torch.equal(model(source, LENGTHS, target), expected)


def test_a_gradient_is_never_lost() -> None:
    model = transformer()
    with torch.no_grad():
        _, state = walk(model, begun(model, 3), 2)
    logits, state = model.step(words(3), state)
    assert logits.requires_grad
    with torch.no_grad():
        logits, _ = model.step(words(3), state)
    assert state.run.refuses_step(state.caches).startswith("a gradient may be asked")
    assert not logits.requires_grad


@torch.no_grad()
def test_a_state_is_continued_once(way: str) -> None:
    for model in (transformer(), gpt()):
        _, state = walk(model, begun(model, 3), 2)
        _, after = walk(model, state, 1)
        for again in (
            lambda: model.step(words(3), state),  # noqa: B023
            lambda: model.reorder(state, torch.tensor([1, 0, 2])),  # noqa: B023
            lambda: model.alignment(state),  # noqa: B023
            lambda: state.reserve(3),  # noqa: B023
        ):
            with pytest.raises(ValueError, match="this state was continued already"):
                again()
        model.reorder(after, torch.tensor([1, 0, 2]))
        with pytest.raises(ValueError, match="this state was continued already"):
            model.step(words(3), after)


@torch.no_grad()
def test_room_may_be_reserved_at_any_time(way: str) -> None:
    model = transformer()
    expected, _ = walk(model, begun(model, 3), 6, {2: torch.tensor([1, 1, 0])})
    scores, state = walk(model, begun(model, 3), 3, {2: torch.tensor([1, 1, 0])})
    state.reserve(300)
    assert min(cache.length for cache in state.caches) >= 303
    assert_close(scores + walk(model, state, 3, first=3)[0], expected)


@torch.no_grad()
def test_scores_belong_to_who_asked_for_them(way: str) -> None:
    model = transformer()
    expected, _ = walk(model, begun(model, 3), 3)
    state = begun(model, 3)
    for time, right in enumerate(expected):
        logits, state = model.step(words(3, seed=time), state)
        assert_close(logits, right)
        logits.fill_(-torch.inf)


@torch.no_grad()
def test_the_same_steps_give_the_same_bits(way: str) -> None:
    model = transformer()
    one, other = (walk(model, begun(model, 5), 4)[0] for _ in range(2))
    assert_close(one, other, rtol=0, atol=0)


@needs_compiler
@torch.no_grad()
def test_the_default_dtype_is_none_of_its_business() -> None:
    model, default = transformer(norm="rms"), torch.get_default_dtype()
    expected, _ = walk(model, begun(model, 3), 3)
    kept.forget()
    try:
        torch.set_default_dtype(torch.float64)
        scores, state = walk(model, begun(model, 3), 3)
    finally:
        torch.set_default_dtype(default)
    assert isinstance(state.run.way, Compiled)
    assert_close(scores, expected, rtol=0, atol=0)


def test_steps_inside_and_outside_inference_mode(way: str) -> None:
    model, index = transformer(), torch.tensor([1, 1, 0])
    with torch.no_grad():
        expected, _ = walk(model, begun(model, 3), 6, {2: index})
    with torch.inference_mode():
        scores, state = walk(model, begun(model, 3), 2)
        state = model.reorder(state, index)
        more, state = walk(model, state, 2, first=2)
    with torch.no_grad():
        last, _ = walk(model, state, 2, first=4)
    assert_close([*scores, *more, *last], expected)


@torch.no_grad()
def test_wrong_words_are_named_as_by_the_modules(way: str) -> None:
    model, short = transformer(), gpt(position="learned", length=4)
    state = begun(model, 2)
    for wrong in ([3, 71], [-1, 3]):
        with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.70: got"):
            model.step(torch.tensor(wrong), state)
    with pytest.raises(ValueError, match="tokens must have batch=2: got batch=3"):
        model.step(words(3), state)
    scores, _ = walk(model, state, 2)  # nothing happened to the state
    assert_close(scores, walk(model, begun(model, 2), 2)[0])
    _, state = walk(short, short.start(2), 4)
    with pytest.raises(ValueError, match="positions must lie in the table of 4: got 4 to 4"):
        short.step(words(2), state)


# Stacks without words


@torch.no_grad()
def test_a_decoder_of_vectors(way: str) -> None:
    torch.manual_seed(0)
    config = BlockConfig(width=24, heads=3, hidden=37, position="none")
    model, memory, x = stirred(Decoder(config, 2), torch.float32), torch.randn(3, 7, 24), torch.randn(3, 5, 24)
    for padding in (None, Padding(LENGTHS)):
        state, outputs = model.start(memory, padding), []
        for part in x.split(1, dim=1):
            y, state = model.step(part, state)
            outputs.append(y)
        assert state.run.way is not None
        assert_same(torch.cat(outputs, dim=1), model(x, memory, padding), torch.float32)
        assert_same(model.alignment(state).sum(1), torch.ones(3), torch.float32)


# Reading


@needs_compiler
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "none"])
@torch.no_grad()
def test_a_source_is_read_as_by_the_modules(order: str, norm: str, position: str) -> None:
    model = transformer(order=order, norm=norm, position=position)
    for batch, length in ((1, 1), (3, 7), (11, 13), (40, 5), (2, reading.LONGEST)):
        if position == "learned" and length > SIZES["length"]:
            continue
        source, lengths = words(batch, length), torch.arange(batch) % length + 1
        for padding in (None, lengths):
            quickly = model.encode(source, padding)
            with through_the_modules():
                expected = model.encode(source, padding)
            assert_same(quickly.states, expected.states, torch.float32)
            assert (quickly.padding is None) == (expected.padding is None)


@needs_compiler
@torch.no_grad()
def test_what_is_remembered_is_what_the_layers_remember() -> None:
    model = transformer(projection="multihead:bias=False")
    memory = model.encode(words(3, 7), LENGTHS)
    state = model.start(memory)
    assert isinstance(state.run.way, Compiled)
    for ours, layer in zip(state.memories, model.decoder.layers, strict=True):
        theirs = layer.cross.remember(memory.states, padding=memory.padding)
        assert_same((ours.keys, ours.values), (theirs.keys, theirs.values), torch.float32)
        assert ours.padding is theirs.padding
        assert ours.score is theirs.score


@torch.no_grad()
def test_what_stands_in_the_padding_reaches_nobody(way: str) -> None:
    model = transformer()
    memory = model.encode(words(3, 7), LENGTHS)
    spoiled = memory.states.masked_fill(torch.arange(7).view(1, 7, 1) >= LENGTHS.view(3, 1, 1), torch.nan)
    clean, dirty = (walk(model, model.start(SourceMemory(x, memory.padding)), 3)[0] for x in (memory.states, spoiled))
    assert_close(dirty, clean)


@torch.no_grad()
def test_sources_that_cannot_be_read_quickly_are_read_by_the_modules() -> None:
    model = transformer(position="sinusoidal")
    long = model.encode(words(2, reading.LONGEST + 3))
    assert_close(long.states, model.encode(words(2, reading.LONGEST + 3)).states)
    assert_same(model.encode(words(2, 5).int()).states, model.encode(words(2, 5)).states, torch.float32)
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.60: got"):
        model.encode(torch.tensor([[3, 61]]))
    with pytest.raises(ValueError, match="positions must lie in the table of 97"):
        transformer(position="learned").encode(words(2, 98))


@pytest.mark.parametrize("lengths", [[7, 0, 4], [7, 7, 7]])
@torch.no_grad()
def test_an_empty_source_gives_what_it_gives_by_the_modules(way: str, lengths: list[int]) -> None:
    model = transformer()
    make = lambda: model.start(model.encode(words(3, 7), torch.tensor(lengths)))  # noqa: E731
    scores, state = walk(model, make(), 3)
    with through_the_modules():
        expected, _ = walk(model, make(), 3)
    assert_same(scores, expected, torch.float32)
    assert (state.run.reason == "a source is empty") == (0 in lengths)


# Refusals


def reason(model: Transformer | GPT) -> str | None:
    """Why the next step of a model is not quick."""
    with torch.no_grad():
        state = begun(model, 2)
        return state.run.refuses_tokens(words(2), state.caches)


UNUSUAL = {
    "heads are Grouped": {"projection": "grouped:1"},
    "heads are Collaborative": {"projection": "collaborative:8"},
    "heads are Split": {"projection": "split"},
    "keys and values differ in dim: 8 and 5": {"projection": "multihead:value_dim=5"},
    "score is Additive": {"score": "additive"},
    r"score is Dot\(scale='learned'\)": {"score": "dot:learned"},
    "position is Rotary": {"position": "rotary"},
    "position is ALiBi": {"position": "alibi"},
    "normalizer is Sparsemax": {"normalizer": "sparsemax"},
    "neighborhood is .*Window": {"where": "window:3"},
    "norm is BatchNorm": {"norm": "batch"},
    "feed-forward layer is Gated": {"activation": "gated"},
}


@pytest.mark.parametrize(("expected", "fields"), UNUSUAL.items(), ids=UNUSUAL)
def test_what_is_unusual_is_refused_with_a_reason(expected: str, fields: dict[str, str]) -> None:
    for model in (transformer(**fields), gpt(**fields)):
        with pytest.raises(AssertionError, match=expected):
            assert reason(model) is None, reason(model)


def replaced(name: str, part: object) -> Callable[[Transformer], None]:
    def change(model: Transformer) -> None:
        owner, last = model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
        setattr(owner, last, part(getattr(owner, last)) if callable(part) and not isinstance(part, nn.Module) else part)

    return change


class Thick(nn.Linear):
    """A linear layer of somebody else."""


CHANGED = {
    "it is in training": lambda model: model.train(),
    "a weight is a Parameter of torch.bfloat16 on cpu": lambda model: model.bfloat16(),
    "its weights differ in dtype or device": lambda model: model.output.double(),
    "a module has a forward hook": lambda model: model.decoder.layers[0].feed.register_forward_hook(lambda *_: None),
    "a linear layer is Thick": replaced("decoder.layers.0.feed.widen", Thick(24, 37)),
    "a module has a forward of its own": replaced("decoder.layers.1.feed.forward", lambda own: own),
    "its norms differ": replaced("decoder.layers.1.around_feed.order", "post"),
    "its layers differ": replaced("decoder.layers.1.feed.activation", "gelu"),
    "its norm is BatchNorm": replaced("decoder.layers.1.around_cross.norm", BatchNorm(24)),
    "its last norm is BatchNorm": replaced("decoder.norm", BatchNorm(24)),
    "its position is Rotary": replaced("decoder.layers.1.self.position", Rotary(8)),
    "its neighborhood is Window": replaced("decoder.layers.1.cross.where", Window(1)),
    "a weight is a view": replaced("output.weight", lambda own: nn.Parameter(torch.randn(24, 71).T)),
    "would be kept twice": None,
}


@pytest.mark.parametrize(("expected", "change"), CHANGED.items(), ids=CHANGED)
@torch.no_grad()
def test_what_becomes_unusual_is_refused_from_then_on(
    expected: str, change: Callable[[Transformer], object] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = transformer(tied="no")
    assert reason(model) is None
    if change is None:
        monkeypatch.setattr("mirada.layers.quick.refusal.MOST", 1000)
        model = transformer()
    else:
        change(model)
    with pytest.raises(AssertionError, match=expected):
        assert reason(model) is None, reason(model)


def test_what_happens_around_a_step_is_refused() -> None:
    model = transformer()
    with torch.no_grad():
        state = begun(model, 2)

    def refused(tokens: Tensor | None = None) -> str | None:
        return state.run.refuses_tokens(words(2) if tokens is None else tokens, state.caches)

    assert "step inside torch.no_grad()" in refused()
    with torch.no_grad():
        assert refused() is None
        with torch.autocast("cpu", torch.bfloat16):
            assert refused() == "autocast is on"
        with torch._subclasses.fake_tensor.FakeTensorMode():
            assert refused(words(2)) == "it is being traced"
        assert refused(words(3)) == "it takes one int64 token of every entry: got (3,) torch.int64"
        assert refused(words(2).int()) == "it takes one int64 token of every entry: got (2,) torch.int32"
        assert state.run.refuses(torch.zeros(2, 2, 24), state.caches).startswith("it takes one place of every entry")
        assert state.run.refuses(torch.zeros(2, 1, 24).double(), state.caches).startswith("the input is torch.float64")
        reasons, tokens = [], words(2)
        torch.func.vmap(lambda x: (reasons.append(refused(tokens)), x)[1])(torch.zeros(2))
        assert reasons == ["it is inside a function transform"]


@torch.no_grad()
def test_a_hook_sees_every_step(way: str) -> None:
    model, seen = transformer(), []
    _, state = walk(model, begun(model, 3), 2)
    handle = model.decoder.layers[1].cross.heads.out.register_forward_hook(lambda *_: seen.append(1))
    _, state = walk(model, state, 3)
    assert len(seen) == 3
    handle.remove()
    _, state = walk(model, state, 2)
    assert len(seen) == 3
    everywhere = nn.modules.module.register_module_forward_hook(lambda *_: seen.append(1))
    walk(model, state, 1)
    everywhere.remove()
    assert len(seen) > 20


def test_dropout_falls_in_training_only() -> None:
    model = transformer(dropout=0.5)
    with torch.no_grad():
        state = begun(model, 3)
        model.train()
        one, other = (walk(model, begun(model, 3), 1)[0][0] for _ in range(2))
        model.eval()
        walk(model, state, 1)
    assert (one - other).abs().amax() > 1e-3


def test_a_reserved_word_for_what_has_no_words() -> None:
    with torch.no_grad():
        state = Decoder(BlockConfig(width=24, heads=3, hidden=37), 1).eval().start(torch.zeros(2, 3, 24))
        assert state.say(words(2)) is None
        assert state.run.refuses_tokens(words(2), state.caches) == "it has no ends"


# Nothing stale


def fused_step(model: Transformer) -> None:
    """A training step by an optimizer whose writes PyTorch does not count."""
    with torch.enable_grad():
        model.loss(words(2, 5), None, words(2, 4), words(2, 4, seed=1)).backward()
        torch.optim.Adam(model.parameters(), lr=0.01, fused=True).step()
    model.zero_grad()


CHANGES: dict[str, Callable[[Transformer], object]] = {
    "in place": lambda model: model.decoder.layers[1].feed.widen.weight.mul_(1.5),
    "one number": lambda model: model.decoder.layers[0].self.heads.value.bias[3].add_(1),
    "output": lambda model: model.output.weight[5, 2].add_(1),
    "words": lambda model: model.target_words.weight.copy_(torch.randn(71, 24)),
    "encoder": lambda model: model.encoder.layers[0].feed.narrow.bias[5].add_(3),
    "keys of the source": lambda model: model.decoder.layers[1].cross.heads.key.weight.mul_(3),
    "through data": lambda model: model.decoder.layers[0].feed.widen.weight.data.mul_(1.5),
    "a fused optimizer": fused_step,
    "another parameter": replaced("decoder.layers.0.feed.widen.bias", lambda own: nn.Parameter(own + 1)),
    "another module": replaced("decoder.layers.0.around_self.norm", LayerNorm(24, eps=0.5)),
    "eps": replaced("decoder.norm.eps", 0.5),
    "scale": replaced("decoder.layers.1.cross.score.scale", 0.9),
    "words' scale": replaced("target_words.scale", 2.0),
    "wavelengths": replaced("target_place.position.base", 50.0),
    "state dict": lambda model: model.load_state_dict(transformer(tied="no", depth=2, hidden=37).state_dict() | {
        "output.weight": torch.randn(71, 24)}),
    "precision and back": lambda model: model.bfloat16().float(),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@torch.no_grad()
def test_a_new_state_sees_every_change(way: str, change: Callable[[Transformer], object]) -> None:
    model = transformer(tied="no")
    before, _ = walk(model, begun(model, 3), 2)
    change(model)
    after, state = walk(model, begun(model, 3), 2)
    assert state.run.way is not None
    with through_the_modules():
        expected, _ = walk(model, begun(model, 3), 2)
    assert_same(after, expected, torch.float32)
    assert (after[1] - before[1]).abs().amax() > 1e-4


@needs_compiler
@torch.no_grad()
def test_weights_are_packed_once() -> None:
    model = transformer()
    ways = [walk(model, begun(model, 3), 1)[1].run.way for _ in range(2)]
    assert ways[0].packed is ways[1].packed
    kept.forget()
    assert walk(model, begun(model, 3), 1)[1].run.way.packed is not ways[0].packed


@needs_compiler
@torch.no_grad()
def test_models_that_are_gone_leave_nothing() -> None:
    kept.forget()
    model = transformer()
    walk(model, begun(model, 3), 1)
    assert len(kept._kept) == 2  # of the encoder and of the decoder
    del model
    assert len(kept._kept) == 0


@torch.no_grad()
def test_a_state_keeps_the_weights_it_was_started_with() -> None:
    model = transformer(torch.float32)
    expected, _ = walk(model, begun(model, 3), 4)
    if not NATIVE:
        return
    first, state = walk(model, begun(model, 3), 2)
    model.decoder.layers[0].feed.widen.weight.mul_(2)
    rest, _ = walk(model, state, 2, first=2)
    assert_close(first + rest, expected)


# The library


def test_the_job_is_described_as_c_reads_it() -> None:
    """As many fields as the struct has, in its order."""
    source = library.SOURCE.read_text(encoding="utf-8")
    body = source[source.index("typedef struct {\n    int64_t width") : source.index("} Step;")]
    declared = [line.split("/*")[0].strip() for line in body.splitlines()[1:]]
    names = [
        name.replace("*", "").replace("const", "").split()[-1]
        for line in declared
        for statement in line.split(";")
        for name in statement.split(",")
        if name.strip()
    ]
    assert names == [name for name, _ in compiled.Job._fields_]
    assert ctypes.sizeof(compiled.Job) % 8 == 0


def test_without_a_compiler_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.native.build.shutil.which", lambda name: None)
    assert library.library.__wrapped__() is None
    monkeypatch.undo()
    monkeypatch.setenv("MIRADA_NATIVE", "0")
    assert library.library.__wrapped__() is None


@needs_compiler
def test_a_compiler_that_fails_gives_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("mirada.native.build.shutil.which", lambda name: "/bin/false")
    assert library.library.__wrapped__() is None
    assert list(tmp_path.rglob("*.so")) == []


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small models are not worth more, and tests should not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_configurations_may_be_replaced() -> None:
    """A model of another configuration is another model: nothing of the first is used for it."""
    one = transformer()
    other = stirred(Transformer(replace(one.config, order="post")), torch.float32)
    assert_quick(lambda: begun(one, 2), one, 2)
    assert_quick(lambda: begun(other, 2), other, 2)

"""Decoding with a cache, in steps of any size, is the full computation: outputs and gradients, for all parts that allow it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.cache import Cache
from mirada.attention.equation import Attention, attend
from mirada.attention.heads import Collaborative, Grouped, MultiHead, Split, Tied
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dense,
    Documents,
    Edges,
    Fixed,
    Grid,
    Monotonic,
    Neighborhood,
    Padding,
    PerHead,
    Strided,
    Window,
)
from mirada.attention.normalizers import (
    Gumbel,
    Hard,
    Identity,
    Normalized,
    Normalizer,
    Softmax,
    Sparsemax,
    masked_softmax,
)
from mirada.attention.positions import ALiBi, LocalGaussian, Relative, Rotary, T5Bias
from mirada.attention.scores import Additive, Bilinear, Concat, Dot, Graph, GraphV2, Location, Offset, Score, TanhSum
from mirada.looking.record import look

BATCH, LENGTH, WIDTH, HEADS, DIM = 3, 11, 12, 3, 4
ONE_BY_ONE, UNEVEN = (1,) * LENGTH, (3, 1, 5, 2)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The tensors are tiny: a second thread costs more waiting than it saves."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def layer(heads=None, where: Neighborhood | None = None, **parts) -> Attention:
    torch.manual_seed(0)
    made = Attention(MultiHead(WIDTH, HEADS) if heads is None else heads(), where=where or Causal(), **parts).double()
    for place, parameter in enumerate(made.parameters()):  # biases too
        parameter.data.add_(0.1 * numbers(*parameter.shape, seed=place))
    return made


def grouped(kv_heads: int = 2) -> Grouped:
    return Grouped(WIDTH, 6, kv_heads, dim=DIM)


LAYERS: dict[str, Callable[[], Attention]] = {
    "dot": layer,
    "dot-learned": lambda: layer(score=Dot("learned")),
    "bilinear": lambda: layer(score=Bilinear(DIM, DIM, HEADS)),
    "additive": lambda: layer(score=Additive(DIM, DIM, 5)),
    "concat": lambda: layer(score=Concat(DIM, DIM, 5, HEADS)),
    "concat-linear": lambda: layer(score=Concat(DIM, DIM, None)),
    "tanh-sum": lambda: layer(score=TanhSum(DIM)),
    "location": lambda: layer(score=Location(DIM, max_keys=13)),
    "graph": lambda: layer(score=Graph(DIM, HEADS)),
    "graph-v2": lambda: layer(score=GraphV2(DIM, HEADS)),
    "rotary-half": lambda: layer(position=Rotary(DIM)),
    "rotary-interleaved": lambda: layer(position=Rotary(DIM, layout="interleaved")),
    "rotary-window": lambda: layer(position=Rotary(DIM), where=Causal() & Window(3)),
    "rotary-bilinear": lambda: layer(position=Rotary(DIM), score=Bilinear(DIM, DIM)),
    "relative": lambda: layer(position=Relative(DIM, clip=2)),
    "relative-keys": lambda: layer(position=Relative(DIM, clip=2, values=False)),
    "alibi": lambda: layer(position=ALiBi(HEADS)),
    "t5": lambda: layer(position=T5Bias(HEADS, 6, 5, bidirectional=False)),
    "t5-window": lambda: layer(position=T5Bias(HEADS, 8, 7), where=Window(3)),
    "alibi-additive": lambda: layer(position=ALiBi(HEADS), score=Additive(DIM, DIM, 5)),
    "window": lambda: layer(where=Window(2)),
    "strided": lambda: layer(where=Strided(3)),
    "strided-local": lambda: layer(where=Strided(3, "local")),
    "strided-stride": lambda: layer(where=Strided(3, "stride")),
    "fixed": lambda: layer(where=Fixed(3, 1)),
    "fixed-local": lambda: layer(where=Fixed(3, 1, "local")),
    "fixed-summary": lambda: layer(where=Fixed(3, 1, "summary")),
    "holes": lambda: layer(where=Causal() & ~Window(2)),
    "union": lambda: layer(where=Window(1) | Strided(5, "stride")),
    "per-head": lambda: layer(where=PerHead(Causal(), Window(2), Fixed(3, 1))),
    "monotonic": lambda: layer(where=Causal() & Monotonic(2)),
    "grid": lambda: layer(where=Causal() & Grid(1, LENGTH, radius=2)),
    "sparsemax": lambda: layer(normalizer=Sparsemax()),
    "identity": lambda: layer(normalizer=Identity()),
    "sized": lambda: layer(lambda: MultiHead(WIDTH, HEADS, dim=5, value_dim=7, out=13, bias=False)),
    "grouped": lambda: layer(grouped),
    "grouped-rotary": lambda: layer(grouped, position=Rotary(DIM)),
    "grouped-one": lambda: layer(lambda: grouped(1), score=Additive(DIM, DIM, 5, heads=6)),
    "collaborative": lambda: layer(lambda: Collaborative(WIDTH, HEADS, shared=7)),
    "split": lambda: layer(lambda: Split(WIDTH, HEADS, bias=True)),
    "tied": lambda: layer(lambda: Tied(WIDTH, HEADS, 5, combine="mean")),
}

CALLS: dict[str, Callable[[], Neighborhood]] = {
    "padding": lambda: Padding([4, 11, 0]),
    "documents": lambda: Documents(torch.tensor([[0] * 5 + [1] * 6, [0] * 11, [0, 1] * 5 + [1]])),
    "dense": lambda: Dense(numbers(BATCH, LENGTH, LENGTH, seed=9) > 0),
    "padding-and-window": lambda: Padding([4, 11, 7]) & Window(3),
}


def in_steps(attention: Attention, x: Tensor, steps: tuple[int, ...], where: Neighborhood | None = None) -> Tensor:
    cache = attention.cache(batch=x.shape[0], length=13)
    outputs = [attention(piece, where=where, cache=cache) for piece in x.split(list(steps), dim=1)]
    assert cache.filled == sum(steps)
    return torch.cat(outputs, dim=1)


@pytest.mark.parametrize("name", LAYERS)
def test_steps_are_the_full_computation(name):
    attention, x = LAYERS[name](), numbers(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        whole = attention(x)
        assert_close(in_steps(attention, x, ONE_BY_ONE), whole)
        assert_close(in_steps(attention, x, UNEVEN), whole)


@pytest.mark.parametrize("steps", [(2, 9), (LENGTH,), (7, 1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("name", ["dot", "rotary-half", "relative", "fixed"])
def test_steps_of_other_sizes(name, steps):
    attention, x = LAYERS[name](), numbers(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        assert_close(in_steps(attention, x, steps), attention(x))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "name", ["dot", "rotary-half", "relative", "additive", "grouped", "fixed-summary", "monotonic"]
)
def test_steps_with_a_neighborhood_from_the_call(name, call):
    attention, where, x = LAYERS[name](), CALLS[call](), numbers(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        assert_close(in_steps(attention, x, UNEVEN, where), attention(x, where=where))


@pytest.mark.parametrize("call", CALLS)
def test_single_steps_with_a_neighborhood_from_the_call(call):
    attention, where, x = layer(), CALLS[call](), numbers(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        assert_close(in_steps(attention, x, ONE_BY_ONE, where), attention(x, where=where))


def test_steps_may_be_causal_by_the_call_alone():
    attention, x = layer(where=Complete()), numbers(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        assert_close(in_steps(attention, x, UNEVEN, Causal()), attention(x, where=Causal()))


def gradients(attention: Attention, run: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Of the input and of every parameter that is trained."""
    x = numbers(BATCH, LENGTH, WIDTH).requires_grad_()
    out = run(x)
    trained = [parameter for parameter in attention.parameters() if parameter.requires_grad]
    return list(torch.autograd.grad((out * numbers(*out.shape, seed=8)).sum(), [x, *trained], materialize_grads=True))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_through_steps_are_those_of_the_full_computation(name):
    attention = LAYERS[name]()
    in_pieces = gradients(attention, lambda x: in_steps(attention, x, UNEVEN))
    at_once = gradients(attention, attention)
    assert len(at_once) == 1 + len(list(attention.parameters()))
    assert_close(in_pieces, at_once)


@pytest.mark.parametrize("frozen", [("key",), ("value",), ("query",), ("key", "value"), ("query", "key")], ids=str)
def test_gradients_through_steps_with_frozen_projections(frozen):
    attention, x = layer(), numbers(BATCH, LENGTH, WIDTH)
    for name in frozen:
        getattr(attention.heads, name).requires_grad_(False)
    trained = [parameter for parameter in attention.parameters() if parameter.requires_grad]
    upstream = numbers(BATCH, LENGTH, WIDTH, seed=8)
    at_once = torch.autograd.grad((attention(x) * upstream).sum(), trained)
    in_pieces = torch.autograd.grad((in_steps(attention, x, UNEVEN) * upstream).sum(), trained)
    assert_close(in_pieces, at_once)


def test_gradients_after_a_prefix_without_them():
    attention, x = layer(), numbers(BATCH, LENGTH, WIDTH)
    cache = attention.cache(BATCH, LENGTH)
    with torch.no_grad():
        attention(x[:, :6], cache=cache)
    new = x[:, 6:].clone().requires_grad_()
    outputs = [attention(piece, cache=cache) for piece in new.split([1, 4], dim=1)]
    (ours,) = torch.autograd.grad(torch.cat(outputs, dim=1).sum(), new)
    whole = x.clone().requires_grad_()
    (theirs,) = torch.autograd.grad(attention(whole)[:, 6:].sum(), whole)
    assert_close(ours, theirs[:, 6:])


# The room itself


def test_a_cache_has_the_sizes_of_the_heads():
    cache = layer(grouped).cache(batch=5, length=7)
    assert cache.keys.shape == cache.values.shape == (5, 2, 7, DIM)
    assert (cache.length, cache.filled) == (7, 0)
    cache = layer(lambda: Collaborative(WIDTH, HEADS, shared=7)).cache(batch=5, length=11)
    assert cache.keys.shape == (5, 1, 11, 7)
    assert cache.values.shape == (5, HEADS, 11, DIM)
    assert layer().cache(1, 1).keys.dtype == torch.float64
    assert layer().cache(1, 1, dtype=torch.float16).keys.dtype == torch.float16


def test_a_cache_keeps_turned_keys_and_plain_values():
    attention, x = layer(position=Rotary(DIM)), numbers(BATCH, 5, WIDTH)
    cache = attention.cache(BATCH, 7)
    with torch.no_grad():
        attention(x[:, :2], cache=cache)
        attention(x[:, 2:], cache=cache)
        keys, values = attention.heads.keys(x), attention.heads.values(x)
    assert_close(cache.keys[:, :, :5], Rotary(DIM).rotate(keys, torch.arange(5)))
    assert_close(cache.values[:, :, :5], values)
    assert_close(cache.keys[:, :, 5:], torch.zeros(BATCH, HEADS, 2, DIM, dtype=torch.float64))


def test_a_cache_is_filled_in_place_without_gradients():
    attention, x = layer(), numbers(BATCH, 5, WIDTH)
    cache = attention.cache(BATCH, 7)
    places = cache.keys.data_ptr(), cache.values.data_ptr()
    with torch.no_grad():
        for piece in x.split(1, dim=1):
            attention(piece, cache=cache)
    assert (cache.keys.data_ptr(), cache.values.data_ptr()) == places


def test_a_step_may_be_empty():
    attention, x = layer(), numbers(BATCH, 3, WIDTH)
    cache = attention.cache(BATCH, 5)
    with torch.no_grad():
        first = attention(x[:, :2], cache=cache)
        nothing = attention(x[:, :0], cache=cache)
        last = attention(x[:, 2:], cache=cache)
        assert nothing.shape == (BATCH, 0, WIDTH)
        assert_close(torch.cat([first, last], dim=1), attention(x))


def test_a_plan_does_not_move_the_cache():
    attention, x = layer(), numbers(BATCH, 5, WIDTH)
    cache = attention.cache(BATCH, 7)
    with torch.no_grad():
        attention(x[:, :3], cache=cache)
        attention.plan(numbers(BATCH, 2, WIDTH, seed=5), cache=cache)
        assert cache.filled == 3
        assert_close(attention(x[:, 3:], cache=cache), attention(x)[:, 3:])


def test_append_by_hand():
    cache = Cache(torch.zeros(1, 1, 5, 1), torch.zeros(1, 1, 5, 2))
    cache.append(torch.tensor([[[[1.0], [2.0]]]]), torch.tensor([[[[3.0, 4.0], [5.0, 6.0]]]]))
    keys, values = cache.append(torch.tensor([[[[7.0]]]]), torch.tensor([[[[8.0, 9.0]]]]))
    assert keys.flatten().tolist() == [1.0, 2.0, 7.0]
    assert values.flatten().tolist() == [3.0, 4.0, 5.0, 6.0, 8.0, 9.0]
    assert cache.filled == 3


# Reorder


@pytest.mark.parametrize("name", ["dot", "rotary-half", "relative", "grouped", "collaborative"])
def test_reorder_lets_entries_continue_others(name):
    attention, prefix, after = LAYERS[name](), numbers(BATCH, 5, WIDTH, seed=1), numbers(BATCH, 3, WIDTH, seed=2)
    index = torch.tensor([1, 1, 0])
    cache = attention.cache(BATCH, 11)
    with torch.no_grad():
        attention(prefix, cache=cache)
        cache.reorder(index)
        steps = torch.cat([attention(piece, cache=cache) for piece in after.split(1, dim=1)], dim=1)
        expected = attention(torch.cat([prefix[index], after], dim=1))[:, 5:]
    assert_close(steps, expected)
    assert [order.tolist() for order in cache.reorders] == [[1, 1, 0]]


def test_reorder_carries_gradients():
    attention, after, index = layer(), numbers(BATCH, 2, WIDTH, seed=2), torch.tensor([2, 0, 0])

    def stepwise(x: Tensor) -> Tensor:
        cache = attention.cache(BATCH, 7)
        attention(x, cache=cache)
        cache.reorder(index)
        return attention(after, cache=cache)

    def whole(x: Tensor) -> Tensor:
        return attention(torch.cat([x[index], after], dim=1))[:, 3:]

    ours, theirs = (numbers(BATCH, 3, WIDTH, seed=1).requires_grad_() for _ in range(2))
    assert_close(torch.autograd.grad(stepwise(ours).sum(), ours), torch.autograd.grad(whole(theirs).sum(), theirs))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 3], r"must name entries in 0\.\.2: got 0 to 3"),
        ([-1, 0], r"must name entries in 0\.\.2: got -1 to 0"),
        ([0.0, 1.0], "must hold integers: got torch.float32"),
        ([[0, 1]], r"must have the axes \(entries\): got shape \(1, 2\)"),
    ],
)
@torch.no_grad()
def test_a_reorder_that_fails_changes_nothing(index, message):
    attention, x = layer(), numbers(BATCH, 4, WIDTH)
    cache = attention.cache(BATCH, 7)
    attention(x[:, :3], cache=cache)
    with pytest.raises(ValueError, match=message):
        cache.reorder(torch.tensor(index))
    assert cache.reorders == []
    assert_close(attention(x[:, 3:], cache=cache), attention(x)[:, 3:])


@pytest.mark.parametrize("index", [[0, 0, 1, 2, 2], [2, 0], [1]], ids=["more", "fewer", "one"])
@pytest.mark.parametrize("tracked", [True, False])
def test_there_may_be_more_entries_or_fewer_after_a_reorder(index, tracked):
    attention, prefix, after = layer(), numbers(BATCH, 5, WIDTH, seed=1), numbers(len(index), 2, WIDTH, seed=2)
    with torch.set_grad_enabled(tracked):
        cache = attention.cache(BATCH, 11)
        attention(prefix, cache=cache)
        cache.reorder(torch.tensor(index))
        assert_close(attention(after, cache=cache), attention(torch.cat([prefix[index], after], dim=1))[:, 5:])


@torch.no_grad()
def test_asking_the_last_step_again_leaves_no_trace():
    attention, x = layer(), numbers(BATCH, 4, WIDTH)
    cache = attention.cache(BATCH, 7)
    attention(x, cache=cache)
    before = cache.copy()
    attention.weights(x[:, 3:] + 1, cache=cache.rewound(1))
    assert torch.equal(cache.keys, before.keys)
    assert torch.equal(cache.values, before.values)
    assert cache.filled == 4


# Errors


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layer(normalizer=Hard()), "a cache and Hard attention"),
        (lambda: layer(normalizer=Gumbel()), "a cache and Hard attention"),
        (lambda: layer(position=LocalGaussian(DIM, 2)), "a cache and LocalGaussian"),
        (
            lambda: layer(where=Edges([[0], [1]], 3)),
            r"a cache and a score or neighborhood of fixed size \(Offset, Edges\)",
        ),
        (lambda: layer(where=Causal() & ~Edges([[0], [1]], 3)), "a cache and a score or neighborhood of fixed size"),
        (lambda: layer(score=Offset(1, 5)), "a cache and a score or neighborhood of fixed size"),
    ],
)
def test_parts_that_refuse_a_cache_say_so_when_it_is_made(build, message):
    with pytest.raises(ValueError, match=message):
        build().cache(BATCH, LENGTH)


@pytest.mark.parametrize(
    ("where", "call"),
    [
        (Complete(), None),
        (Window(2, 1), None),
        (Monotonic(2), None),
        (Causal() | Complete(), None),
        (~Causal(), None),
        (Complete(), Padding([1, 1, 1])),
        (PerHead(Causal(), Causal(), Complete()), None),
    ],
    ids=str,
)
def test_a_neighborhood_that_sees_later_keys_refuses_a_cache(where, call):
    attention, x = layer(where=where), numbers(BATCH, 1, WIDTH)
    cache = attention.cache(BATCH, 7)
    with pytest.raises(
        ValueError, match=r"a cache and a neighborhood that sees later keys .* AND the neighborhood with Causal"
    ):
        attention(x, where=call, cache=cache)
    assert cache.filled == 0


def test_edges_from_the_call_refuse_a_cache():
    attention, x = layer(), numbers(BATCH, 1, WIDTH)
    with pytest.raises(ValueError, match="Call the layer on the whole grid or graph"):
        attention(x, where=Edges([[0], [0]], 1), cache=attention.cache(BATCH, 7))


def test_a_cache_that_is_full_wrong_or_misused():
    attention, x = layer(), numbers(BATCH, 5, WIDTH)
    cache = attention.cache(BATCH, 7)
    with torch.no_grad():
        attention(x, cache=cache)
        with pytest.raises(ValueError, match=r"room for length=7: got positions up to 8\. Make it longer\."):
            attention(x[:, :3], cache=cache)
        with pytest.raises(ValueError, match="the cache was made for batch=3: got batch=2"):
            attention(x[:2, :1], cache=cache)
        with pytest.raises(
            ValueError, match=r"made for torch\.float64: got torch\.float32\. Pass dtype= to attention\.cache"
        ):
            layer().float()(x[:, :1].float(), cache=cache)
        with pytest.raises(ValueError, match=r"a cache counts positions itself: .* Drop positions and key_positions"):
            attention(x[:, :1], positions=torch.tensor([5]), cache=cache)
        with pytest.raises(ValueError, match="a cache counts positions itself"):
            attention(x[:, :1], key_positions=torch.tensor([5]), cache=cache)
        with pytest.raises(ValueError, match="a cache is for self-attention: pass memory and values without one"):
            attention(x[:, :1], memory=x, cache=cache)
        assert cache.filled == 5
        assert attention(x[:, :2], cache=cache).shape == (BATCH, 2, WIDTH)
    with pytest.raises(ValueError, match="sizes must be at least 0: got batch=3, length=-1"):
        attention.cache(BATCH, -1)


def test_a_step_that_fails_leaves_the_cache_as_it_was():
    attention, x = layer(), numbers(BATCH, 5, WIDTH)
    cache = attention.cache(BATCH, 7)
    with torch.no_grad():
        attention(x[:, :3], cache=cache)
        with pytest.raises(ValueError, match="document ids cover 3 places"):
            attention(x[:, 3:], where=Documents([[0, 0, 0]]), cache=cache)
        assert cache.filled == 3
        assert_close(attention(x[:, 3:], cache=cache), attention(x)[:, 3:])


def test_a_step_that_the_score_refuses_leaves_the_cache_as_it_was():
    attention, x = layer(score=Location(DIM, max_keys=5)), numbers(BATCH, 7, WIDTH)
    cache = attention.cache(BATCH, 7)
    with torch.no_grad():
        attention(x[:, :3], cache=cache)
        with pytest.raises(ValueError, match="Location has rows for max_keys=5: got keys=7"):
            attention(x[:, 3:], cache=cache)
        assert cache.filled == 3
        assert_close(attention(x[:, 3:5], cache=cache), attention(x[:, :5])[:, 3:])


def test_dropped_weights_do_not_refuse_a_cache():
    attention, x = layer(normalizer=Softmax(dropout=0.5)).eval(), numbers(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        assert_close(in_steps(attention, x, (2, 9)), attention(x))


def remembering(score: Score, **parts) -> Attention:
    return Attention(Split(6, heads=1, memory_width=10), score=score, **parts)


@pytest.mark.parametrize(
    "layer",
    [
        Attention(MultiHead(6, heads=2, memory_width=10)),
        Attention(Grouped(6, heads=3, kv_heads=1)),
        remembering(Bilinear(6, 10)),
        remembering(Additive(6, 10, hidden=7)),
        remembering(Concat(6, 10, hidden=7)),
        remembering(Location(6, max_keys=11)),
        remembering(Bilinear(6, 10), where=Monotonic(1)),
        remembering(Bilinear(6, 10), position=LocalGaussian(6, half=2)),
    ],
    ids=lambda layer: f"{type(layer.heads).__name__}-{type(layer.score).__name__}-{type(layer.position).__name__}",
)
def test_a_remembered_memory_is_that_memory(layer):
    lengths = torch.tensor([5, 3])
    memory = torch.randn(2, 5, layer.heads.memory_width)
    memory[1, 3:] = torch.nan
    x = torch.randn(2, 4, 6)
    remembered = layer.remember(memory, padding=Padding(lengths))
    assert_close(layer(x, memory=remembered), layer(x, memory=memory, where=Padding(lengths)))
    index = torch.tensor([1, 1])
    assert_close(
        layer(x, memory=remembered.reorder(index)),
        layer(x, memory=memory[index], where=Padding(lengths[index])),
    )
    with look(layer) as seen:
        layer(x, memory=remembered)
    assert_close(seen[""].weights(), layer.weights(x, memory=memory, where=Padding(lengths)))


def test_a_remembered_memory_needs_nothing_else():
    layer = Attention(MultiHead(6, heads=2))
    remembered = layer.remember(torch.randn(2, 5, 6))
    with pytest.raises(ValueError, match="brings its own values"):
        layer(torch.randn(2, 4, 6), memory=remembered, values=torch.randn(2, 5, 6))
    with pytest.raises(ValueError, match="batch=2"):
        layer(torch.randn(3, 4, 6), memory=remembered)


def test_reserving_room_keeps_what_is_there():
    layer = Attention(MultiHead(6, heads=2), where=Causal())
    x = torch.randn(2, 7, 6)
    cache = layer.cache(2, 3)
    first = layer(x[:, :3], cache=cache)
    cache.reserve(4)
    assert cache.length == 6
    cache.reserve(13)
    assert cache.length == 13
    assert_close(torch.cat([first, layer(x[:, 3:], cache=cache)], dim=1), layer(x))


def test_the_weights_of_a_cached_step():
    layer = Attention(MultiHead(6, heads=2), where=Causal())
    x = torch.randn(2, 5, 6)
    cache = layer.cache(2, 5)
    layer(x, cache=cache)
    assert_close(layer.weights(x[:, 4:], cache=cache.rewound(1)), layer.weights(x)[:, :, 4:])
    assert cache.filled == 5


def test_asking_for_weights_or_a_plan_takes_no_step() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        full, cache = layer.weights(x), layer.cache(BATCH, LENGTH)
        layer(x[:, :4], cache=cache)
        for _ in range(2):
            assert_close(layer.weights(x[:, 4:6], cache=cache), full[:, :, 4:6, :6])
            layer.plan(x[:, 4:5], cache=cache)
            assert cache.filled == 4
        assert_close(layer(x[:, 4:], cache=cache), layer(x)[:, 4:])


@pytest.mark.parametrize(
    "parts",
    [
        {"score": Dot("learned")},
        {"score": Additive(DIM, DIM, 5)},
        {"position": Relative(DIM, 2)},
    ],
    ids=["learned scale", "additive", "relative"],
)
def test_a_score_or_position_that_trains_alone_has_its_gradient(parts: dict[str, object]) -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal(), **parts), torch.randn(BATCH, LENGTH, WIDTH)  # type: ignore[arg-type]
    layer.heads.requires_grad_(False)
    trained = [p for p in layer.parameters() if p.requires_grad]
    expected = torch.autograd.grad(layer(x).square().sum(), trained)
    cache = layer.cache(BATCH, LENGTH)
    steps = torch.cat([layer(one, cache=cache) for one in x.split(1, dim=1)], dim=1)
    assert_close(torch.autograd.grad(steps.square().sum(), trained), expected, rtol=1e-4, atol=1e-4)


HALF_SEEN = {
    "seen later": Causal() & ~Window(0),
    "seen much later": Causal() & ~Window(2),
    "never seen": Fixed(3, 1, part="summary"),
    "padding": Causal() & Padding([5]),
    "padding, seen later": Causal() & ~Window(0) & Padding([5]),
    "documents": Documents(torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2]])) & Causal() & ~Window(0),
    "mask": Dense(torch.ones(8, 8, dtype=torch.bool).tril(-2)) & Causal(),
}


@pytest.mark.parametrize("name", HALF_SEEN)
@pytest.mark.parametrize("room", [8, 11])
@torch.no_grad()
def test_a_nan_is_cleaned_in_steps_where_the_full_pass_cleans_it(name: str, room: int) -> None:
    layer, places = Attention(MultiHead(WIDTH, HEADS), where=HALF_SEEN[name]), 8
    seen = HALF_SEEN[name].dense(places, places).any((0, 1, 2))
    for place in range(places):
        x = torch.randn(1, places, WIDTH)
        x[:, place] = torch.nan
        cache = layer.cache(1, room)
        steps = torch.cat([layer(one, cache=cache) for one in x.split(1, dim=1)], dim=1)
        if bool(seen[place]):  # it is there, and reaches whoever looks at it
            assert layer(x).isnan().any()
            assert steps.isnan().any()
        elif room == places or "seen" not in name or name == "never seen":
            assert_close(steps, layer(x))
            assert not steps.isnan().any()


class Share(Softmax):
    """Weights that count the keys, seen or not: no normalizer for a cache."""

    def normalize(self, scores: Tensor, mask: Tensor) -> Normalized:
        return Normalized(super().normalize(scores, mask).weights / scores.shape[-1])


class OwnShare(Softmax):
    """Weights that count the keys that may be seen."""

    def normalize(self, scores: Tensor, mask: Tensor) -> Normalized:
        return Normalized(super().normalize(scores, mask).weights / mask.expand_as(scores).sum(-1, keepdim=True))


def test_a_normalizer_that_counts_masked_keys_has_no_cache() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Share())
    with pytest.raises(ValueError, match="Share counts keys that are masked"):
        layer.cache(BATCH, LENGTH)
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=OwnShare()), torch.randn(BATCH, 5, WIDTH)
    cache = layer.cache(BATCH, 5)
    assert_close(torch.cat([layer(one, cache=cache) for one in x.split(1, dim=1)], dim=1), layer(x))


def test_a_normalizer_that_is_exchanged_is_checked_by_the_next_step() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, 5, WIDTH)
    cache = layer.cache(BATCH, 5)
    layer(x[:, :2], cache=cache)
    layer.normalizer = Share()
    with pytest.raises(ValueError, match="Share counts keys that are masked"):
        layer(x[:, 2:3], cache=cache)
    assert cache.filled == 2
    layer.normalizer = OwnShare()
    layer(x[:, 2:3], cache=cache)
    assert cache.filled == 3


class Sinks(Normalizer):
    """A softmax beside one more score per head that nobody can see."""

    rowwise = True

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.sink = torch.nn.Parameter(torch.randn(heads))

    def normalize(self, scores: Tensor, mask: Tensor) -> Normalized:
        sinks = self.sink.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        joined = torch.cat([scores.masked_fill(~mask, -torch.inf), sinks], dim=-1)
        return Normalized(joined.softmax(-1)[..., :-1])


class Selective(Normalizer):
    """What earlier queries of the first head select is hidden from later ones: arXiv:2410.02703."""

    def normalize(self, scores: Tensor, mask: Tensor) -> Normalized:
        selected = scores[:, :1].relu().masked_fill(~mask[:, :1], 0).cumsum(2).roll(1, dims=2)
        selected[:, :, 0] = 0
        return Normalized(masked_softmax(scores - selected, mask))


class SaysRowwise(Selective):
    """A declaration that is not true."""

    rowwise = True


class Gated(MultiHead):
    """Keys that hold the sum of all gates so far, as in the forgetting transformer."""

    def keys(self, memory: Tensor) -> Tensor:
        keys = super().keys(memory)
        return torch.cat([keys[..., :-1], keys[..., -1:].sigmoid().log().cumsum(2)], dim=-1)


def test_numbers_per_head_have_a_cache() -> None:
    x = torch.randn(BATCH, 5, WIDTH)
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Sinks(HEADS))
    cache = layer.cache(BATCH, 5)
    assert_close(torch.cat([layer(one, cache=cache) for one in x.split(1, dim=1)], dim=1), layer(x))
    with pytest.raises(ValueError, match=r"Sinks\(\) failed on scores of \(batch=1, heads=3, "):
        Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Sinks(HEADS + 1))


def test_a_normalizer_that_reads_other_rows_sees_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.attention.kernels.reference.NUMBERS_AT_ONCE", 40)
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Selective()), torch.randn(2, 13, WIDTH)
    q, k, v = layer.heads.project(x, x, x)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    weights = Selective().normalize(scores, torch.ones(1, 1, 13, 13, dtype=torch.bool).tril()).weights
    assert_close(layer(x), layer.heads.merge(weights @ v))
    with look(layer) as seen:
        layer(x)
    assert_close(seen[""].weights(head=1, rows=slice(7, 11)), weights[:, 1, 7:11])


def test_a_declaration_is_tried_out() -> None:
    message = "SaysRowwise declares rowwise = True, but the weights of a query change with the other queries"
    with pytest.raises(ValueError, match=message):
        Attention(MultiHead(WIDTH, HEADS), normalizer=SaysRowwise())
    q = torch.randn(1, HEADS, 3, 4)
    with pytest.raises(ValueError, match=message):
        attend(q, q, q, normalizer=SaysRowwise())


def test_what_reads_earlier_places_has_no_cache() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Selective())
    with pytest.raises(ValueError, match="Selective reads the scores of other queries"):
        layer.cache(1, 5)
    layer = Attention(Gated(WIDTH, HEADS), where=Causal())
    with pytest.raises(ValueError, match="keys or values of Gated depend on earlier places, which a step"):
        layer.cache(1, 5)
    assert layer(torch.randn(1, 5, WIDTH)).shape == (1, 5, WIDTH)


def test_a_normalizer_is_tried_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=OwnShare()), torch.randn(BATCH, 5, WIDTH)
    cache = layer.cache(BATCH, 5)
    monkeypatch.setattr(OwnShare, "forward", lambda *_: pytest.fail("it was found to count no masked keys"))
    assert torch.cat([layer(one, cache=cache) for one in x.split(1, dim=1)], dim=1).shape == x.shape


# Rolling: only as many places as a causal window sees.

ROLLED = {
    "plain": ({}, MultiHead(12, 6)),
    "rotary": ({"position": Rotary(2)}, MultiHead(12, 6)),
    "alibi": ({"position": ALiBi(6)}, MultiHead(12, 6)),
    "both": ({"position": Rotary(2) + ALiBi(6)}, Grouped(12, 6, 3)),
    "t5": ({"position": T5Bias(6, buckets=8, distance=16)}, Grouped(12, 6, 2)),
    "relative": ({"position": Relative(2, 3)}, MultiHead(12, 6)),
}


@pytest.mark.parametrize("name", ROLLED)
def test_a_rolling_cache_is_the_whole_pass(name: str) -> None:
    given, heads = ROLLED[name]
    attention = Attention(heads, where=Causal() & Window(4), **given)
    x, cache, steps = torch.randn(2, 31, 12), attention.rolling(2), []
    for size in (7, 1, 1, 3, 1, 11, 2, 1, 1, 1, 1, 1):  # from a prompt that is longer than the window on
        steps.append(attention(x[:, cache.filled : cache.filled + size], cache=cache))
        assert cache.keys.shape[2] == 4
    assert_close(torch.cat(steps, dim=1), attention(x))
    probe = torch.randn_like(x)
    parameters = list(attention.parameters())
    got = torch.autograd.grad((torch.cat(steps, dim=1) * probe).sum(), parameters, allow_unused=True)
    assert_close(got, torch.autograd.grad((attention(x) * probe).sum(), parameters, allow_unused=True))


def test_a_rolling_cache_is_reordered_copied_reset_and_undone() -> None:
    attention = Attention(MultiHead(12, 6), where=Causal() & Window(2), position=Rotary(2))
    x, cache = torch.randn(2, 7, 12), attention.rolling(2)
    attention(x[:, :5], cache=cache)
    with cache.untouched():
        attention(x[:, 5:], cache=cache)
    twin = cache.copy()
    with pytest.raises(ValueError, match="float64"):
        attention(x[:, 5:].double(), cache=cache)
    cache.reorder(torch.tensor([1, 0]))
    assert_close(attention(x.flip(0)[:, 5:], cache=cache), attention(x.flip(0))[:, 5:])
    assert_close(attention(x[:, 5:], cache=twin), attention(x)[:, 5:])
    cache.reset()
    assert_close(attention(x[:, :3], cache=cache), attention(x[:, :3]))
    kept = cache.keys
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mirada.attention.equation.run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            attention(x[:, 3:4], cache=cache)
    assert cache.filled == 3
    assert cache.keys is kept
    with pytest.raises(ValueError, match="has forgotten earlier places"):
        cache.rewind(1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs a causal window"),
        ({"where": Window(3, 3)}, "needs a causal window"),
        ({"where": Causal() & Window(3), "position": LocalGaussian(2, 1)}, "positions that go by distance"),
        ({"where": Causal() & Window(3), "score": Location(2, 9)}, "cannot serve"),
    ],
)
def test_what_a_rolling_cache_cannot_serve(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Attention(MultiHead(12, 6), **given).rolling(1)


def test_what_a_call_asks_of_a_rolling_cache() -> None:
    attention = Attention(MultiHead(12, 6), where=Causal() & Window(3))
    cache, x = attention.rolling(1), torch.randn(1, 2, 12)
    with pytest.raises(ValueError, match="needs a causal window"):
        attention(x, cache=cache, where=Padding([2]))
    with pytest.raises(ValueError, match="a rolling cache forgets"), look(attention):
        attention(x, cache=cache)
    assert cache.filled == 0

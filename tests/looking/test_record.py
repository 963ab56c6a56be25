"""Looking changes nothing, shows what was used, and costs memory in proportion to length x dim."""

import copy
import threading
from contextlib import ExitStack
from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from mirada import Attention, MultiHead, attend, draws, look
from mirada.attention.heads import Collaborative, Grouped, Split, Tied
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Documents,
    Edges,
    Fixed,
    Grid,
    Monotonic,
    Padding,
    PerHead,
    Strided,
    Window,
)
from mirada.attention.normalizers import Gumbel, Hard, Identity, Softmax, Sparsemax, StraightThrough
from mirada.attention.observe import Event, anybody_looks, observed
from mirada.attention.positions import ALiBi, LocalGaussian, Relative, Rotary, T5Bias
from mirada.attention.scores import Additive, Bilinear, Concat, Dot, Graph, GraphV2, Location, Offset, TanhSum

BATCH, N, M, WIDTH, HEADS = 3, 7, 11, 12, 3
DIM = WIDTH // HEADS
PLAIN = MultiHead(WIDTH, HEADS)
EDGES = Edges(torch.tensor([[0, 1, 2, 2, 5, 6], [1, 1, 4, 0, 3, 1]]), N)

LAYERS = {
    "dot": Attention(PLAIN),
    "causal": Attention(PLAIN, where=Causal()),
    "learned scale": Attention(PLAIN, Dot("learned")),
    "bilinear": Attention(PLAIN, Bilinear(DIM, DIM, HEADS)),
    "additive": Attention(PLAIN, Additive(DIM, DIM, 5)),
    "concat": Attention(PLAIN, Concat(DIM, DIM, 5)),
    "linear concat": Attention(PLAIN, Concat(DIM, DIM, None)),
    "tanh sum": Attention(PLAIN, TanhSum(DIM)),
    "location": Attention(PLAIN, Location(DIM, 13)),
    "graph": Attention(Tied(WIDTH, HEADS, 5), Graph(5, HEADS)),
    "graph v2": Attention(Tied(WIDTH, HEADS, 5, queries="own"), GraphV2(5, HEADS)),
    "convolution": Attention(Split(WIDTH, WIDTH), Offset(1, N, heads=WIDTH), Grid(1, N), normalizer=Identity()),
    "window": Attention(PLAIN, where=Window(2, 1)),
    "strided": Attention(PLAIN, where=Strided(3)),
    "empty rows": Attention(PLAIN, where=Fixed(3, 1, part="summary")),
    "monotonic": Attention(PLAIN, where=Monotonic(1)),
    "documents": Attention(PLAIN, where=Documents(torch.tensor([[0, 0, 1, 1, 1, 2, 2]]))),
    "per head": Attention(PLAIN, where=PerHead(Causal(), Window(1, 1), ~Window(1))),
    "rotary": Attention(PLAIN, position=Rotary(DIM)),
    "interleaved": Attention(PLAIN, position=Rotary(DIM, layout="interleaved")),
    "relative": Attention(PLAIN, position=Relative(DIM, clip=2)),
    "relative keys": Attention(PLAIN, position=Relative(DIM, clip=2, values=False)),
    "alibi": Attention(PLAIN, where=Causal(), position=ALiBi(HEADS)),
    "t5": Attention(PLAIN, position=T5Bias(HEADS, 8, 5)),
    "local": Attention(PLAIN, position=LocalGaussian(DIM, half=2)),
    "sparsemax": Attention(PLAIN, normalizer=Sparsemax()),
    "identity": Attention(PLAIN, normalizer=Identity()),
    "hard": Attention(PLAIN, normalizer=Hard()),
    "sometimes soft": Attention(PLAIN, normalizer=Hard(soft=0.5)),
    "straight through": Attention(PLAIN, normalizer=StraightThrough()),
    "gumbel": Attention(PLAIN, normalizer=Gumbel()),
    "hard at test time": Attention(PLAIN, normalizer=Hard()).eval(),
    "local hard": Attention(PLAIN, position=LocalGaussian(DIM, half=2), normalizer=Hard()),
    "grouped": Attention(Grouped(WIDTH, HEADS, 1)),
    "normed": Attention(Grouped(WIDTH, HEADS, 1, dim=10, bias="q", qk_norm=0.1), position=Rotary(10, part=0.6)),
    "slower": Attention(PLAIN, position=Rotary(DIM, 50, factor=8, low=1, high=4, original=16)),
    "collaborative": Attention(Collaborative(WIDTH, HEADS, 8), position=Rotary(8)),
    "split": Attention(Split(WIDTH, HEADS)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("where", [Complete(), Padding([7, 3, 0])], ids=["all", "padded"])
def test_the_weights_shown_are_the_weights_used(name: str, where: object) -> None:
    layer, x = LAYERS[name], torch.randn(BATCH, N, WIDTH)
    torch.manual_seed(11)
    before = layer(x, where=where)
    torch.manual_seed(11)
    with look(layer) as seen:
        y = layer(x, where=where)
    assert torch.equal(y, before)  # bit-identical inside and outside
    call = seen[""]
    assert_close(layer.heads.merge(call.output()), y, rtol=1e-5, atol=1e-5)
    weights = call.weights()
    assert weights.shape == (BATCH, layer.heads.heads, N, N)
    assert not weights.requires_grad
    if not isinstance(layer.position, Relative):
        assert_close(weights @ call.values(), call.output(), rtol=1e-5, atol=1e-5)
    for head in (0, layer.heads.heads - 1, -1):
        assert_close(
            call.weights(head=head), weights[:, head], rtol=1e-5, atol=1e-6
        )  # products of other sizes round otherwise
    assert_close(call.weights(rows=slice(2, 5)), weights[:, :, 2:5], rtol=1e-6, atol=1e-6)


def test_weights_of_edges_are_per_edge() -> None:
    layer = Attention(Tied(WIDTH, HEADS, 5), Graph(5, HEADS))
    with look(layer) as seen:
        y = layer(torch.randn(BATCH, N, WIDTH), where=EDGES)
    call = seen[""]
    assert call.kind == "graph"
    assert_close(call.edges, EDGES.pairs)
    weights, (source, target) = call.weights(), call.edges
    assert weights.shape == (BATCH, HEADS, 6)
    per_node = torch.zeros(BATCH, HEADS, N).index_add(2, target, weights)
    assert_close(per_node, torch.tensor([1.0, 1, 0, 1, 1, 0, 0]).expand(BATCH, HEADS, N))
    mixed = torch.zeros(BATCH, HEADS, N, 5).index_add(2, target, weights.unsqueeze(-1) * call.values()[:, :, source])
    assert_close(layer.heads.merge(mixed), y)
    assert_close(call.weights(head=1), weights[:, 1], rtol=0, atol=0)


def test_hard_attention_replays_the_drawn_index() -> None:
    layer, x = LAYERS["hard"], torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen, draws() as d:
        layer(x)
        layer(x)
    for call, draw in zip(seen[""].calls, d, strict=True):
        assert_close(call.weights().argmax(-1), draw.index)
        assert_close(call.weights().sum(-1), torch.ones(BATCH, HEADS, N))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"self": Attention(MultiHead(WIDTH, HEADS))}) for _ in range(2))
        self.cross = Attention(MultiHead(WIDTH, HEADS))
        self.unused = Attention(MultiHead(WIDTH, HEADS))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer["self"](x, where=Causal())
        return self.cross(self.cross(x, memory), memory)


def test_names_are_dotted_paths_in_the_order_of_the_calls() -> None:
    model, x, memory = Stack(), torch.randn(BATCH, N, WIDTH), torch.randn(BATCH, M, WIDTH)
    with look(model) as seen:
        model(x, memory)
    assert seen.names == ["layers.0.self", "layers.1.self", "cross"]
    assert [seen[name].kind for name in seen] == ["self", "self", "cross"]
    assert len(seen["cross"].calls) == 2
    assert seen["cross"] is seen["cross"].calls[-1]
    assert seen["cross"].weights().shape == (BATCH, HEADS, N, M)
    assert "unused" not in seen
    lines = str(seen).splitlines()
    assert len(lines) == 4
    assert lines[3].split()[:6] == ["cross", "cross", "2", "3", "7", "11"]
    with pytest.raises(KeyError, match=r"unknown layer 'layers\.0'; known: cross"):
        seen["layers.0"]


def test_nothing_is_recorded_outside_the_block_or_in_another_thread() -> None:
    layer, x = LAYERS["dot"], torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen:
        layer(x)
        other = threading.Thread(target=lambda: layer(x))
        other.start()
        other.join()
    layer(x)
    assert len(seen[""].calls) == 1


def test_two_looks_at_once() -> None:
    model, x, memory = Stack(), torch.randn(BATCH, N, WIDTH), torch.randn(BATCH, M, WIDTH)
    with look(model) as outer:
        with look(model.cross) as inner:
            model(x, memory)
        model(x, memory)
    assert len(inner[""].calls) == 2
    assert len(outer["cross"].calls) == 4
    assert_close(inner[""].weights(), outer["cross"].calls[1].weights(), rtol=0, atol=0)


def test_a_training_step_does_not_change_what_was_seen() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), Bilinear(DIM, DIM), position=ALiBi(HEADS), where=Causal())
    optimizer = torch.optim.SGD(layer.parameters(), lr=10.0)
    x = torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen:
        layer(x).square().sum().backward()
        before = seen[""].weights()
        optimizer.step()
        layer(x)
    assert_close(seen[""].calls[0].weights(), before, rtol=0, atol=0)
    assert (seen[""].calls[1].weights() - before).abs().max() > 1e-2


def test_an_input_changed_in_place_is_an_error_not_a_lie() -> None:
    lengths = torch.tensor([7, 3, 2])
    layer, x = LAYERS["dot"], torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen:
        layer(x, where=Padding(lengths))
    lengths += 1
    with pytest.raises(ValueError, match="changed in place after the call"):
        seen[""].weights()


def test_heads_without_projections_may_be_changed_in_place() -> None:
    layer, x = LAYERS["split"], torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen:
        layer(x)
    before = seen[""].weights()
    x += 1
    assert_close(seen[""].weights(), before, rtol=0, atol=0)


def test_dropout_is_not_in_the_weights() -> None:
    layer, x = Attention(PLAIN, normalizer=Softmax(dropout=0.5)), torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen:
        layer(x)
    assert_close(seen[""].weights().sum(-1), torch.ones(BATCH, HEADS, N))
    layer.eval()
    with look(layer) as evaluated:
        layer(x)
    assert_close(seen[""].weights(), evaluated[""].weights())


@pytest.mark.parametrize("position", [None, Rotary(DIM), Relative(DIM, clip=2)], ids=repr)
def test_cached_steps_keep_each_key_once(position: nn.Module | None) -> None:
    layer = Attention(Grouped(WIDTH, HEADS, 1), where=Causal() & Window(4), position=position)
    x = torch.randn(BATCH, M, WIDTH)
    cache = layer.cache(BATCH, M)
    order = torch.tensor([2, 0, 0])
    with torch.no_grad():
        layer(x[:, :2], cache=cache)  # before we look
        with look(layer) as seen:
            layer(x[:, 2:5], cache=cache)
            layer(x[:, 5:6], cache=cache)
            cache.reorder(order)
            layer(x[:, 6:8], cache=cache)
    first, second, third = seen[""].calls
    mixed = torch.cat([x[order][:, :6], x[:, 6:8]], dim=1)
    for call, inputs, rows in ((first, x, slice(2, 5)), (second, x, slice(5, 6)), (third, mixed, slice(6, 8))):
        stop = rows.stop
        with look(layer) as whole:
            layer(inputs[:, :stop])
        assert_close(call.weights(), whole[""].weights()[:, :, rows])
        assert_close(call.output(), whole[""].output()[:, :, rows])
    history = seen._histories[id(cache)]
    assert [k.shape[2] for k, _, _ in history.steps] == [5, 1, 2]


def test_memory_grows_with_the_length_not_its_square() -> None:
    layer = Attention(MultiHead(16, 2), where=Causal())

    def kept(length: int) -> int:
        with look(layer) as seen, torch.no_grad():
            layer(torch.randn(1, length, 16))
        return seen[""].nbytes()

    assert kept(256) == 256 * 16 * 3 * 4
    assert kept(2048) == 8 * kept(256)


def test_a_compiled_model_is_seen_as_it_is() -> None:
    torch._dynamo.reset()
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal())
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), layer)
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.randn(BATCH, N, WIDTH)
    compiled(x)
    with look(compiled) as seen:
        y = compiled(x)
    with look(model) as plain:
        assert_close(y, model(x))
    assert seen.names == plain.names == ["1"]
    assert_close(seen["1"].weights(), plain["1"].weights())
    compiled(x)
    assert len(seen["1"].calls) == 1


def test_inference_mode_and_deep_copies() -> None:
    layer = copy.deepcopy(LAYERS["relative"])
    with torch.inference_mode(), look(layer) as seen:
        y = layer(torch.randn(BATCH, N, WIDTH))
    assert_close(layer.heads.merge(seen[""].output()), y, rtol=1e-5, atol=1e-5)


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(ValueError, match="no mirada Attention layer in Linear"), look(nn.Linear(2, 3)):
        pass
    with pytest.raises(ValueError, match="needs a torch module: got str"), look("model"):
        pass


def test_bad_questions_are_named() -> None:
    layer = LAYERS["dot"]
    with look(layer) as seen:
        layer(torch.randn(BATCH, N, WIDTH))
    with pytest.raises(ValueError, match=r"head must lie in 0\.\.2: got 3"):
        seen[""].weights(head=3)
    with pytest.raises(ValueError, match="rows must be consecutive"):
        seen[""].weights(rows=slice(0, 5, 2))


def test_attend_itself_is_the_output_before_the_projection() -> None:
    layer, x = LAYERS["rotary"], torch.randn(BATCH, N, WIDTH)
    heads = layer.heads
    with look(layer) as seen:
        layer(x)
    expected = attend(heads.queries(x), heads.keys(x), heads.values(x), position=layer.position)
    assert_close(seen[""].output(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", ["bilinear", "additive", "relative", "learned scale"])
def test_a_step_of_any_optimizer_is_noticed(name: str, fused: bool) -> None:
    layer, x = copy.deepcopy(LAYERS[name]), torch.randn(BATCH, N, WIDTH)
    adam = torch.optim.Adam(layer.parameters(), lr=0.5, fused=fused)
    with look(layer) as seen:
        for _ in range(3):
            adam.zero_grad()
            layer(x).square().sum().backward()
            used = layer.weights(x)
            assert_close(seen[""].weights(), used)
            adam.step()
    assert (seen[""].calls[0].weights() - seen[""].calls[2].weights()).abs().max() > 1e-3
    assert_close(seen[""].weights(), used)


def test_frozen_parts_are_shared_by_calls_that_used_the_same_numbers() -> None:
    layer, x = copy.deepcopy(LAYERS["bilinear"]), torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen:
        layer(x)
        layer(x)
        with torch.no_grad():
            layer.score.weight.add_(1)
        layer(x)
    first, second, third = (call.request.score for call in seen[""].calls)
    assert first is second
    assert third is not second


class Checkpointed(nn.Module):
    def __init__(self, layer: Attention) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.layer, x, use_reentrant=False)


@pytest.mark.parametrize("name", ["dot", "hard", "additive"])
def test_activation_checkpointing_is_seen_once(name: str) -> None:
    model, x = Checkpointed(LAYERS[name]), torch.randn(BATCH, N, WIDTH, requires_grad=True)
    with look(model) as seen, draws() as drawn:
        model(x).square().sum().backward()
    assert len(seen["layer"].calls) == 1
    assert len(drawn) == (name == "hard")


def test_draws_and_looks_of_other_threads_are_theirs() -> None:
    layer, x, found = Attention(PLAIN, normalizer=Hard()), torch.randn(BATCH, N, WIDTH), []

    def elsewhere() -> None:
        with draws() as mine:
            layer(x)
        found.append((len(mine), anybody_looks()))

    with draws() as here, look(layer) as seen:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(here) == 0
        assert seen.names == []
        layer(x)
    assert found == [(1, False)]
    assert len(here) == len(seen[""].calls) == 1


def test_without_a_model_the_function_is_looked_at() -> None:
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 1, 7, 4), torch.randn(2, 1, 7, 4)
    layer = LAYERS["dot"]
    with look() as seen, look(layer) as other:
        output = attend(q, k, v, where=Window(3, 1))
        layer(torch.randn(BATCH, N, WIDTH))
        weights = seen["attend"].weights()
        q.zero_()
    assert seen.names == ["attend"]
    assert other.names == [""]
    assert seen["attend"].kind == "cross"
    assert_close(weights @ v, output, rtol=1e-5, atol=1e-5)
    assert_close(seen["attend"].output(), output, rtol=1e-5, atol=1e-5)


class Counter:
    """Counts what it is shown."""

    def __init__(self) -> None:
        self.seen = 0

    def see(self, event: Event) -> None:
        self.seen += 1


def test_a_block_that_another_thread_ends_meanwhile_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is changed while it is gone through skips an entry: here another block ends at that moment."""
    q, me = torch.zeros(1, 1, 2, 4), threading.get_ident()
    for watch in (draws, partial(observed, Counter())):
        other = ExitStack()
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(threading, "get_ident", lambda: me + 1)
            other.enter_context(watch())
        counter = Counter()
        with draws() as drawn, observed(counter), monkeypatch.context() as ending:
            ending.setattr(threading, "get_ident", lambda ended=other: (ended.close(), me)[1])
            attend(q, q, q, normalizer=Hard())
        assert len(drawn) == 1
        assert counter.seen == 1

"""The layer as a PyTorch citizen, and its errors."""

import copy
import os
from collections.abc import Callable

import pytest
import torch
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from torch import nn
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend
from mirada.attention.heads import Collaborative, Grouped, Split, Tied
from mirada.attention.neighborhoods import (
    Causal,
    Dense,
    Documents,
    Edges,
    Grid,
    Padding,
    PerHead,
    Strided,
    Window,
)
from mirada.attention.normalizers import Hard, Softmax
from mirada.attention.positions import ALiBi, Learned, LocalGaussian, Relative, Rotary, Sinusoidal
from mirada.attention.scores import Additive, Bilinear, Dot, Graph, Location, Offset

BATCH, N, M, WIDTH, HEADS = 2, 7, 11, 12, 3
DIM = WIDTH // HEADS


def layers() -> list[Attention]:
    """One layer of each kind that has parameters of its own."""
    return [
        Attention(MultiHead(WIDTH, HEADS), where=Causal() & Window(3), position=Rotary(DIM)),
        Attention(MultiHead(WIDTH, HEADS), position=Relative(DIM, clip=2)),
        Attention(MultiHead(WIDTH, HEADS), score=Additive(DIM, DIM, 5, HEADS), position=ALiBi(HEADS), where=Causal()),
        Attention(MultiHead(WIDTH, HEADS), score=Bilinear(DIM, DIM), position=LocalGaussian(DIM, half=2)),
        Attention(Grouped(WIDTH, HEADS, 1), score=Dot("learned")),
        Attention(Collaborative(WIDTH, HEADS, 8)),
        Attention(Tied(WIDTH, HEADS, 5), score=Graph(5, HEADS)),
        Attention(MultiHead(WIDTH, HEADS), score=Location(DIM, 13)),
    ]


def name(layer: Attention) -> str:
    parts = (layer.heads, layer.score, layer.position)
    return "-".join(type(part).__name__ for part in parts)


@pytest.mark.parametrize("layer", layers(), ids=name)
def test_safetensors_and_deepcopy_keep_the_outputs(layer: Attention, tmp_path: object) -> None:
    x = torch.randn(BATCH, N, WIDTH)
    expected = layer(x)
    twin = copy.deepcopy(layer)
    assert_close(twin(x), expected, rtol=0, atol=0)
    for parameter in twin.parameters():
        nn.init.normal_(parameter)
    assert (twin(x) - expected).abs().max() > 1e-3
    save_file(layer.state_dict(), f"{tmp_path}/layer.safetensors")
    twin.load_state_dict(load_file(f"{tmp_path}/layer.safetensors"))
    assert_close(twin(x), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layer", layers(), ids=name)
def test_half_precision(layer: Attention, dtype: torch.dtype) -> None:
    low = copy.deepcopy(layer).to(dtype)
    exact = copy.deepcopy(low).double()
    x = torch.randn(BATCH, N, WIDTH).to(dtype).requires_grad_()
    y = low(x, where=Padding([7, 4]))
    y.sum().backward()
    assert y.dtype == dtype
    assert x.grad is not None
    assert x.grad.isfinite().all()
    if not isinstance(layer.position, LocalGaussian):  # there a last digit decides which keys are inside the window
        assert_close(y.double(), exact(x.detach().double(), where=Padding([7, 4])), rtol=5e-2, atol=5e-2)


def test_autocast() -> None:
    layer, x = layers()[0], torch.randn(BATCH, N, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert_close(y.float(), layer(x), rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("layer", [layers()[0], layers()[1], layers()[2]], ids=name)
def test_compile(layer: Attention) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    for length in (N, M):
        x = torch.randn(BATCH, length, WIDTH, requires_grad=True)
        y, expected = compiled(x, where=Padding([length, 3])), layer(x, where=Padding([length, 3]))
        assert_close(y, expected)
        probe = torch.randn_like(y)
        assert_close(*(torch.autograd.grad((out * probe).sum(), x) for out in (y, expected)))


@pytest.mark.slow
def test_compile_to_machine_code_without_a_graph_break() -> None:
    torch._dynamo.reset()
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=Rotary(DIM)), torch.randn(BATCH, N, WIDTH)
    assert_close(torch.compile(layer, fullgraph=True)(x), layer(x))


def train_in_parallel(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(1)
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=Relative(DIM, clip=2))
    x = torch.randn(2, N, WIDTH)
    parallel = nn.parallel.DistributedDataParallel(layer)
    parallel(x[rank : rank + 1]).square().mean().backward()
    if rank == 0:
        save_file({name: parameter.grad for name, parameter in layer.named_parameters()}, f"{folder}/gradients")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    os._exit(0)  # on a busy machine gloo's threads may still run when Python ends, which aborts the process


def test_distributed_data_parallel_averages_the_gradients(tmp_path: object) -> None:
    mp.spawn(train_in_parallel, (str(tmp_path),), nprocs=2)
    torch.manual_seed(1)
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=Relative(DIM, clip=2))
    layer(torch.randn(2, N, WIDTH)).square().mean().backward()
    for name, gradient in load_file(f"{tmp_path}/gradients").items():
        assert_close(gradient, layer.get_parameter(name).grad)


def test_a_nan_in_the_padding_reaches_no_output_and_no_parameter() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), position=Rotary(DIM))
    x = torch.randn(BATCH, N, WIDTH)
    x[1, 4:] = torch.nan
    x.requires_grad_()
    y = layer(x, where=Padding([N, 4]))
    (y[0].sum() + y[1, :4].sum()).backward()
    assert y.isfinite().all()
    for gradient in (x.grad, *(p.grad for p in layer.parameters())):
        assert gradient.isfinite().all()
    memory = torch.randn(BATCH, M, WIDTH)
    memory[0, 2:] = torch.inf
    cross = Attention(MultiHead(WIDTH, HEADS))
    cross(torch.randn(BATCH, N, WIDTH), memory=memory, where=Padding([2, M])).sum().backward()
    for parameter in cross.parameters():
        assert parameter.grad.isfinite().all()


def test_what_a_query_sees_for_itself_is_not_cleaned_away() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    x[1, 2] = torch.nan
    assert layer(x, where=Padding([N, 4]))[1].isnan().all()
    assert layer(x, where=Padding([N, 4]))[0].isfinite().all()


def test_keys_and_values_from_two_inputs() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS, memory_width=5, values_width=13))
    x, k, v = torch.randn(BATCH, N, WIDTH), torch.randn(BATCH, M, 5), torch.randn(BATCH, M, 13)
    heads = layer.heads
    expected = heads.merge(attend(heads.queries(x), heads.keys(k), heads.values(v)))
    assert_close(layer(x, memory=k, values=v), expected)


def test_the_call_s_neighborhood_is_anded_with_the_layer_s() -> None:
    x = torch.randn(BATCH, N, WIDTH)
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal())
    both = copy.deepcopy(layer)
    both.where = Causal() & Padding([3, 5])
    assert_close(layer(x, where=Padding([3, 5])), both(x))


def test_plan_tells_the_kernel_and_the_reasons() -> None:
    x = torch.randn(BATCH, N, WIDTH)
    layer = Attention(MultiHead(WIDTH, HEADS), normalizer=Softmax(dropout=0.1))
    assert layer.plan(x).kernel == "reference"
    assert "cannot drop" in layer.plan(x).refused["fused"]
    lines = str(layer.plan(x)).splitlines()
    assert lines[0] == "reference"
    assert "  not flex: it is for cuda, not cpu" in lines
    assert "  not fused: it cannot drop weights (dropout=0.1, training)" in lines
    assert layer.eval().plan(x).kernel == "fused"
    cache = Attention(MultiHead(WIDTH, HEADS), where=Causal()).cache(BATCH, N)
    Attention(MultiHead(WIDTH, HEADS), where=Causal()).plan(x, cache=cache)
    assert cache.filled == 0


def test_the_parts_show_in_the_repr() -> None:
    shown = repr(Attention(MultiHead(WIDTH, HEADS), Dot("learned"), Causal() & Window(3), Rotary(DIM), Softmax(0.1)))
    for part in ("MultiHead", "Dot(scale='learned')", "Causal() & Window(left=3, right=0)", "Rotary(4", "dropout=0.1"):
        assert part in shown


X = torch.randn(BATCH, N, WIDTH)
Q, K = torch.randn(BATCH, HEADS, N, DIM), torch.randn(BATCH, HEADS, M, DIM)
PLAIN = Attention(MultiHead(WIDTH, HEADS))

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "width and heads": (lambda: MultiHead(10, 3), "width must be divisible by heads: got width=10, heads=3"),
    "lengths past the keys": (lambda: attend(Q, K, K, where=Padding([3, 12])), "lengths up to 12, keys=11"),
    "negative lengths": (lambda: Padding([3, -1]), "at least 0: got -1"),
    "lengths of another batch": (lambda: attend(Q, K, K, where=Padding([3, 3, 3])), "got 3 for batch=2"),
    "float lengths": (lambda: Padding(torch.tensor([1.5])), "padding lengths must hold integers"),
    "rank of x": (lambda: PLAIN(X[0]), r"x must have the axes \(batch n width\): got shape \(7, 12\)"),
    "width of x": (lambda: PLAIN(X[..., :5]), r"needs x of width=12: got shape \(2, 7, 5\)"),
    "tokens instead of vectors": (lambda: PLAIN(torch.ones(2, 7, 12, dtype=torch.long)), "floating-point"),
    "batch of the memory": (lambda: PLAIN(X, memory=X[:1]), "memory must have batch=2: got batch=1"),
    "values and keys differ": (lambda: PLAIN(X, memory=X, values=X[:, :3]), "values must have keys=7: got keys=3"),
    "rank of q": (lambda: attend(Q[0], K, K), r"q must have the axes \(batch heads queries dim\)"),
    "dtypes": (lambda: attend(Q, K.double(), K), "one dtype: got torch.float32 and k torch.float64"),
    "dims": (lambda: attend(Q, K[..., :3], K), "queries and keys of one dim"),
    "heads": (lambda: attend(Q, K[:, :2], K[:, :2]), "query heads must be divisible"),
    "a mask instead of a neighborhood": (lambda: attend(Q, K, K, where=torch.ones(7, 11)), r"Dense\(mask\)"),
    "a float mask": (lambda: Dense(torch.ones(7, 11)), "must be a bool tensor"),
    "a mask of another size": (lambda: attend(Q, K, K, where=Dense(torch.ones(7, 7) > 0)), "keys=11"),
    "an edge out of range": (lambda: Edges(torch.tensor([[0], [7]]), 7), "from 0 to 6: got 0 to 7 with nodes=7"),
    "edge shape": (lambda: Edges(torch.tensor([[0, 1, 2]]), 7), r"axes \(2 edges\)"),
    "graph of another size": (lambda: PLAIN(X, where=Edges(torch.tensor([[0], [1]]), 5)), "needs keys=5"),
    "grid of another size": (lambda: PLAIN(X, where=Grid(2, 3)), "has 6 cells"),
    "documents of another size": (lambda: PLAIN(X, where=Documents(torch.zeros(2, 5).long())), "cover 5 places"),
    "one neighborhood per head": (lambda: PLAIN(X, where=PerHead(Causal(), Causal())), "lists 2 .* got heads=3"),
    "position beyond the table": (lambda: Learned(4, 8)(torch.tensor([8])), "table of 8: got 8 to 8"),
    "float positions": (lambda: attend(Q, Q, Q, positions=torch.rand(7)), "positions must hold integers"),
    "shape of positions": (lambda: attend(Q, Q, Q, positions=torch.arange(3)), r"shape \(7,\) or \(2, 7\): got \(3,\)"),
    "forced kernel": (lambda: attend(Q, Q, Q, score=Location(DIM, 9), kernel="fused"), "refuses this request: Location"),
    "unknown kernel": (lambda: attend(Q, Q, Q, kernel="fusd"), "Did you mean 'fused'"),
    "input position": (lambda: attend(Q, Q, Q, position=Sinusoidal(4)), "added to the input"),
    "input position in a layer": (lambda: Attention(MultiHead(12, 3), position=Learned(12, 5)), "added to the input"),
    "rotary dim": (lambda: Attention(MultiHead(12, 3), position=Rotary(8)), "dim=8: got dim=4"),
    "rotary across": (
        lambda: Attention(MultiHead(12, 3), position=Rotary(4))(X, memory=X),
        "Pass positions= and key_positions=",
    ),
    "score heads": (lambda: Attention(MultiHead(12, 3), score=Graph(4, 2)), "made for heads=2: got heads=3"),
    "score dims": (lambda: Attention(MultiHead(12, 3), score=Bilinear(5, 5)), "queries of dim 5"),
    "location too short": (lambda: Attention(MultiHead(12, 3), score=Location(4, 6))(X), "max_keys=6: got keys=7"),
    "offset of another grid": (lambda: Attention(Split(12, 3), score=Offset(2, 3))(X), "2 x 3 = 6 cells"),
    "cache with memory": (
        lambda: Attention(MultiHead(12, 3), where=Causal())(
            X, memory=X, cache=Attention(MultiHead(12, 3), where=Causal()).cache(2, 9)
        ),
        "a cache is for self-attention",
    ),
    "hard cache": (lambda: Attention(MultiHead(12, 3), normalizer=Hard()).cache(2, 9), "a cache and Hard attention"),
    "heads instead of a number": (lambda: Attention(512), "heads must be a value such as MultiHead"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        make()


def test_empty_inputs_give_empty_or_zero_outputs() -> None:
    for batch, queries, keys in ((0, 3, 5), (2, 0, 5), (2, 3, 0)):
        x, m = torch.randn(batch, queries, WIDTH), torch.randn(batch, keys, WIDTH, requires_grad=True)
        y = PLAIN(x, memory=m)
        y.sum().backward()
        expected = PLAIN.heads.out.bias.expand(batch, queries, WIDTH) if keys == 0 else y
        assert_close(y, expected)
        assert y.shape == (batch, queries, WIDTH)


def test_queries_that_see_nothing_get_zeros_and_finite_gradients() -> None:
    for layer in layers():
        x = torch.randn(BATCH, N, WIDTH, requires_grad=True)
        nothing = Padding([0, N]) if not isinstance(layer.position, LocalGaussian) else ~Window(N, N)
        heads = layer.heads
        y = layer(x, where=nothing)
        expected = heads.merge(torch.zeros(1, heads.heads, N, heads.value_dim))
        assert_close(y[:1], expected)
        y.sum().backward()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("kernel", "layer", "length", "where"),
    [
        ("banded", Attention(MultiHead(WIDTH, HEADS), where=Window(16)), 300, None),
        ("strided", Attention(MultiHead(WIDTH, HEADS), where=Strided(24)), 601, None),
        ("edges", Attention(Tied(WIDTH, HEADS, 5), Graph(5, HEADS)), 101, Edges(torch.randint(0, 101, (2, 400)), 101)),
    ],
    ids=["banded", "strided", "edges"],
)
def test_compile_with_a_kernel_of_our_own(kernel: str, layer: Attention, length: int, where: Edges | None) -> None:
    torch._dynamo.reset()
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    assert layer.plan(x, where=where).kernel == kernel
    y, expected = torch.compile(layer, backend="aot_eager")(x, where=where), layer(x, where=where)
    assert_close(y, expected)
    assert_close(*(torch.autograd.grad(out.square().sum(), x) for out in (y, expected)))

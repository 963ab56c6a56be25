"""Our kernels over bare calls and over peers, as ratios of times in one process.

    python benchmarks/kernels.py            every table (about ten minutes on two cores)
    python benchmarks/kernels.py look       one of them: sdpa, rotary, look, window, length, strided, relative, edges,
                                            documents, places, bias

In the first three tables the ratio is ours / baseline, so smaller is better; in the others it is peer / ours, so larger is.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise

import peers
import torch
import torch.nn.functional as F
from ratios import HEADER, Ratio, race
from torch import Tensor

from mirada import Attention, MultiHead, attend, look
from mirada.attention.heads import Tied
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dilated,
    Documents,
    Edges,
    Fixed,
    Global,
    Prefix,
    Strided,
    Window,
)
from mirada.attention.places import Places
from mirada.attention.positions import ALiBi, Relative, Rotary, T5Bias
from mirada.attention.scores import Graph

BATCH, HEADS, DIM = 4, 8, 64


def inputs(length: int, gradient: bool) -> list[Tensor]:
    """Queries, keys and values as projections leave them: heads interleaved in memory."""
    return [
        torch.randn(BATCH, length, HEADS, DIM).transpose(1, 2).detach().requires_grad_(gradient) for _ in range(3)
    ]  # fmt: skip


def compare(ours: Callable[[], Tensor], base: Callable[[], Tensor], gradient: bool, rounds: int = 40) -> Ratio:
    """The ratio of two calls: forward only, without a graph, or forward and backward."""
    if gradient:
        return race(forward_backward(ours), forward_backward(base), rounds)
    with torch.no_grad():
        return race(ours, base, rounds)


def forward_backward(call: Callable[[], Tensor]) -> Callable[[], None]:
    """A training step's share: forward, then backward from a gradient of ones."""

    def step() -> None:
        output = call()
        output.backward(torch.ones_like(output))

    return step


def sdpa() -> None:
    """attend() over a bare F.scaled_dot_product_attention."""
    print("\n## attend / bare SDPA (target: at most 1.03 for T >= 512)\n")
    print(HEADER)
    for length in (512, 1024, 2048):
        for where, is_causal in ((Complete(), False), (Causal(), True)):
            for gradient in (False, True):
                q, k, v = inputs(length, gradient)

                ours = partial(attend, q, k, v, where=where)
                bare = partial(F.scaled_dot_product_attention, q, k, v, is_causal=is_causal)
                what = f"{where}, T {length}, {'forward + backward' if gradient else 'forward'}"
                print(compare(ours, bare, gradient).row(what), flush=True)


def rotary() -> None:
    """What Rotary adds to causal attention: to a bare call of attend, and to the layer with its projections."""
    print("\n## with Rotary / without (target: at most 1.08 at T 512)\n")
    print(HEADER)
    width = HEADS * DIM
    plain_layer = Attention(MultiHead(width, HEADS), where=Causal())
    x = torch.randn(BATCH, 512, width)
    for layout in ("interleaved", "half"):
        position = Rotary(DIM, layout=layout)
        turned_layer = Attention(plain_layer.heads, where=Causal(), position=position)
        for gradient in (False, True):
            q, k, v = inputs(512, gradient)
            turned, plain = (
                partial(attend, q, k, v, where=Causal(), position=position),
                partial(attend, q, k, v, where=Causal()),
            )
            pairs = {"attend": (turned, plain), "Attention": (partial(turned_layer, x), partial(plain_layer, x))}
            for name, (ours, base) in pairs.items():
                what = f"{name}, {layout}, T 512, {'forward + backward' if gradient else 'forward'}"
                print(compare(ours, base, gradient, rounds=60).row(what), flush=True)


def looking() -> None:
    """A forward pass inside look, for every kernel."""
    print("\n## inside look / outside (target: at most 1.05)\n")
    print(HEADER)
    width = HEADS * DIM
    graph = Edges(torch.randint(0, 20000, (2, 200000)), 20000)
    graph = Edges(torch.randint(0, 20000, (2, 200000)), 20000)
    cases = [
        (f"fused, T {length}", Attention(MultiHead(width, HEADS), where=Causal()), length, None)
        for length in (128, 512, 2048)
    ]
    cases += [
        ("banded, T 4096", Attention(MultiHead(width, HEADS), where=Window(256)), 4096, None),
        ("strided, T 4096", Attention(MultiHead(width, HEADS), where=Strided(64)), 4096, None),
        ("reference (Relative), T 512", Attention(MultiHead(width, HEADS), position=Relative(DIM, 16)), 512, None),
        ("edges, 20,000 nodes", Attention(Tied(width, HEADS, 8), Graph(8, HEADS)), 20000, graph),
    ]  # fmt: skip
    for what, layer, length, where in cases:
        x = torch.randn(1 if length > 2048 else BATCH, length, width)
        outside = partial(layer, x, where=where)

        def inside(layer: Attention = layer, outside: Callable[[], Tensor] = outside) -> None:
            with look(layer):
                outside()

        print(compare(inside, outside, False, rounds=15 if length > 2048 else 40).row(what), flush=True)


def window() -> None:
    """A causal window of 256 against compiled FlexAttention (forward only on a CPU) and unfold + SDPA."""
    print("\n## peer / ours: Window(256) (targets: FlexAttention 1.3 forward, unfold + SDPA 1.5 forward + backward)\n")
    print(HEADER)
    for length, rounds in ((8192, 12), (32768, 5)):
        plain = [torch.randn(1, HEADS, length, DIM) for _ in range(3)]
        trained = [x.clone().requires_grad_() for x in plain]
        ours, flex = (
            partial(attend, *plain, where=Window(256)),
            partial(peers.flex(length, lambda b, h, i, j: (j <= i) & (i - j <= 256)), *plain),
        )
        print(compare(flex, ours, False, rounds).row(f"FlexAttention, T {length}, forward"), flush=True)
        unfolded, ours = partial(peers.unfolded_window, *trained, 256), partial(attend, *trained, where=Window(256))
        print(compare(unfolded, ours, True, rounds).row(f"unfold + SDPA, T {length}, forward + backward"), flush=True)


def length() -> None:
    """Time and memory of a window as the length doubles."""
    print("\n## Window(256), forward + backward, as the length doubles (time and memory should double)\n")
    print(
        "| T | time, ms | over the row above | peak memory beyond the input, MB | over the row above |\n|---|---|---|---|---|"
    )
    before: tuple[float, float] | None = None
    for size in (8192, 16384, 32768, 65536, 131072):
        milliseconds, megabytes = measured(size)
        ratios = ("", "") if before is None else (f"{milliseconds / before[0]:.2f}", f"{megabytes / before[1]:.2f}")
        print(f"| {size} | {milliseconds:.0f} | {ratios[0]} | {megabytes:.0f} | {ratios[1]} |", flush=True)
        before = (milliseconds, megabytes)


def measured(size: int) -> tuple[float, float]:
    """Median time in ms and peak memory in MB of one step, each in a process of its own."""
    code = f"""
import statistics, threading, time, torch
from mirada import attend
from mirada.attention.neighborhoods import Window

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

def step(q, k, v):
    q.grad = k.grad = v.grad = None
    y = attend(q, k, v, where=Window(256))
    y.backward(torch.ones_like(y))

def watch():
    while not done.is_set():
        seen.append(resident())
        time.sleep(0.002)

step(*(torch.randn(1, {HEADS}, 2048, {DIM}, requires_grad=True) for _ in range(3)))
q, k, v = (torch.randn(1, {HEADS}, {size}, {DIM}, requires_grad=True) for _ in range(3))
start, seen, times, done = resident(), [], [], threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
for _ in range(3):
    begin = time.perf_counter()
    step(q, k, v)
    times.append(1e3 * (time.perf_counter() - begin))
done.set()
watcher.join()
print(statistics.median(times), max(seen) - start)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    milliseconds, megabytes = map(float, printed.split())
    return milliseconds, megabytes


def strided() -> None:
    """Child's patterns against one SDPA call with the dense mask."""
    print("\n## dense mask / ours: Child's patterns, T 8192, forward + backward (target: 4)\n")
    print(HEADER)
    q, k, v = (torch.randn(1, 4, 8192, DIM, requires_grad=True) for _ in range(3))
    for where in (Strided(90), Strided(90, part="stride"), Fixed(90, 8)):
        dense = partial(F.scaled_dot_product_attention, q, k, v, where.dense(8192, 8192))
        print(compare(dense, partial(attend, q, k, v, where=where), True, rounds=5).row(f"{where}"), flush=True)


def relative() -> None:
    """Relative positions against the direct n x n x dim form."""
    print("\n## direct form / ours: Relative, forward + backward (targets: 2.3 at T 512, 7 at T 2048)\n")
    print(HEADER)
    for size, clip, rounds in ((512, 16, 12), (2048, 64, 3)):
        q, k, v = (torch.randn(1, HEADS, size, DIM, requires_grad=True) for _ in range(3))
        position = Relative(DIM, clip)
        direct = partial(peers.direct_relative, q, k, v, position.keys, position.values, clip)
        ours = partial(attend, q, k, v, position=position)
        print(compare(direct, ours, True, rounds).row(f"T {size}, clip {clip}"), flush=True)


def edges() -> None:
    """Graph attention against PyG's GATConv, forward + backward, the projection included."""
    from torch_geometric.nn import GATConv

    print("\n## PyG / ours: graph attention, forward + backward, 8 heads of 8 (targets: 1.0 and 1.15)\n")
    print(HEADER)
    sizes = {"Cora's size": (2708, 10556, 1433, 30), "100,000 nodes, 2,000,000 edges": (100_000, 2_000_000, 64, 4)}
    for what, (nodes, count, width, rounds) in sizes.items():
        listed = Edges(torch.randint(0, nodes, (2, count)), nodes).pairs
        listed, x = listed[:, listed[0] != listed[1]], torch.randn(nodes, width)
        theirs, ours = GATConv(width, 8, heads=8), Attention(Tied(width, 8, 8), Graph(8, 8))
        graph = Edges(listed, nodes).with_self_loops()
        pair = partial(theirs, x, listed), partial(ours, x.unsqueeze(0), where=graph)
        print(compare(*pair, True, rounds).row(f"GATConv, {what}"), flush=True)


def documents() -> None:
    """Documents packed into one row against one call of SDPA per document, and compiled FlexAttention (forward only)."""
    print(
        "\n## ours / peer: Causal() & Documents, T 8192, 32 documents (targets: SDPA per document 1.3, FlexAttention 1)\n"
    )
    print(HEADER)
    lengths = [int(x) for x in torch.linspace(64, 448, 32)]
    lengths[-1] += 8192 - sum(lengths)
    packed = Documents.of(lengths)
    where, ends = Causal() & packed, list(accumulate(lengths, initial=0))

    def apart(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        runs = [[x[:, :, begin:end] for x in (q, k, v)] for begin, end in pairwise(ends)]
        return torch.cat([F.scaled_dot_product_attention(*run, is_causal=True) for run in runs], dim=2)

    ids = packed.ids[0]
    flex = peers.flex(8192, lambda b, h, i, j: (j <= i) & (ids[i] == ids[j]))
    for dtype in (torch.float32, torch.bfloat16):
        plain = [torch.randn(1, HEADS, 8192, DIM).to(dtype) for _ in range(3)]
        trained = [x.clone().requires_grad_() for x in plain]
        ours = partial(attend, *plain, where=where)
        print(compare(ours, partial(apart, *plain), False, 15).row(f"SDPA per document, {dtype}, forward"), flush=True)
        both = partial(attend, *trained, where=where), partial(apart, *trained)
        print(compare(*both, True, 15).row(f"SDPA per document, {dtype}, forward + backward"), flush=True)
        if dtype == torch.float32:
            print(compare(ours, partial(flex, *plain), False, 15).row("FlexAttention, forward"), flush=True)


def places() -> None:
    """A window and a few places that all see, a prefix, and gaps, against FlexAttention and SDPA with a dense mask."""
    print("\n## ours / peer, T 4096, 8 heads of 64 (target: 1.0 of FlexAttention, forward)\n")
    print(HEADER)
    plain = [torch.randn(1, HEADS, 4096, DIM) for _ in range(3)]
    trained = [x.clone().requires_grad_() for x in plain]
    flexes = {
        Window(128, 128) | Global(16): lambda b, h, i, j: ((i - j).abs() <= 128) | (i < 16) | (j < 16),
        Prefix(512) | Causal(): lambda b, h, i, j: (j < 512) | (j <= i),
        Strided(64) | Window(128): lambda b, h, i, j: (j <= i) & (((i - j) <= 128) | ((i - j) % 64 == 0)),
        Dilated(64, 64, step=4): lambda b, h, i, j: ((i - j).abs() <= 256) & ((i - j) % 4 == 0),
    }
    for where, seen in flexes.items():
        ours, flex = partial(attend, *plain, where=where), partial(peers.flex(4096, seen), *plain)
        print(compare(ours, flex, False, 12).row(f"FlexAttention, {where}, forward"), flush=True)
        dense = partial(F.scaled_dot_product_attention, *trained, where.dense(4096, 4096))
        pair = partial(attend, *trained, where=where), dense
        print(compare(*pair, True, 5).row(f"SDPA with a mask, {where}, forward + backward"), flush=True)


def bias() -> None:
    """Biases by distance against SDPA with a constant bias, and without one."""
    print("\n## ours / peer: biases, causal, 8 heads of 64 (targets: see docs/results.md)\n")
    print(HEADER)
    for length, rounds in ((2048, 9), (4096, 5)):
        q, k, v = (torch.randn(1, HEADS, length, DIM, requires_grad=True) for _ in range(3))
        t5 = T5Bias(HEADS, bidirectional=False)
        t5.table.data.normal_()
        ours = partial(attend, q, k, v, where=Causal(), position=t5)
        mask = torch.where(
            Causal().dense(length, length), t5.bias(q, Places.count(length, length)), -torch.inf
        ).detach()
        constant = partial(F.scaled_dot_product_attention, q, k, v, mask)
        plain = partial(F.scaled_dot_product_attention, q, k, v, is_causal=True)
        print(
            compare(ours, constant, True, rounds).row(f"SDPA, constant bias: T5, T {length}, forward + backward"),
            flush=True,
        )
        print(compare(ours, plain, True, rounds).row(f"SDPA, no bias: T5, T {length}, forward + backward"), flush=True)
    for length, dtype in ((8192, torch.float32), (4096, torch.bfloat16)):
        for gradient in (False, True):
            q, k, v = (torch.randn(1, HEADS, length, DIM).to(dtype).requires_grad_(gradient) for _ in range(3))
            ours = partial(attend, q, k, v, where=Causal(), position=ALiBi(HEADS))
            plain = partial(F.scaled_dot_product_attention, q, k, v, is_causal=True)
            what = f"SDPA, no bias: ALiBi, T {length}, {dtype}, {'forward + backward' if gradient else 'forward'}"
            print(compare(ours, plain, gradient, 5).row(what), flush=True)


TABLES = {
    "sdpa": sdpa,
    "rotary": rotary,
    "look": looking,
    "window": window,
    "length": length,
    "strided": strided,
    "relative": relative,
    "edges": edges,
    "documents": documents,
    "places": places,
    "bias": bias,
}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"any of: {', '.join(TABLES)} (default: all)")
    parser.add_argument("--threads", type=int, default=0, help="threads of PyTorch (default: as many as it takes)")
    given = parser.parse_args()
    chosen = given.tables or list(TABLES)
    torch.set_num_threads(given.threads or torch.get_num_threads())
    for name in chosen:
        if name not in TABLES:
            parser.error(f"unknown table {name!r}; known: {', '.join(TABLES)}")
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {BATCH}, {HEADS} heads of {DIM}, fp32")
    for name in chosen:
        TABLES[name]()


if __name__ == "__main__":
    main()

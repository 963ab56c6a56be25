"""What the layer costs over a bare kernel call, as ratios of times in one process.

python benchmarks/kernels.py            every table
python benchmarks/kernels.py look       one of them: sdpa, rotary, look
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from ratios import HEADER, Ratio, race
from torch import Tensor

from mirada import Attention, MultiHead, attend, look
from mirada.attention.neighborhoods import Causal, Complete
from mirada.attention.positions import Rotary

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
    """A forward pass inside look, with and without asking for one sample's head afterwards."""
    print("\n## inside look / outside (target: at most 1.05)\n")
    print(HEADER)
    width = HEADS * DIM
    for length in (128, 512, 2048):
        layer = Attention(MultiHead(width, HEADS), where=Causal(), position=Rotary(DIM))
        x = torch.randn(BATCH, length, width)

        def inside(layer=layer, x=x) -> Tensor:
            with torch.no_grad(), look(layer):
                return layer(x)

        def outside(layer=layer, x=x) -> Tensor:
            with torch.no_grad():
                return layer(x)

        print(race(inside, outside, rounds=60).row(f"Attention forward, T {length}"), flush=True)


TABLES = {"sdpa": sdpa, "rotary": rotary, "look": looking}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"any of: {', '.join(TABLES)} (default: all)")
    chosen = parser.parse_args().tables or list(TABLES)
    for name in chosen:
        if name not in TABLES:
            parser.error(f"unknown table {name!r}; known: {', '.join(TABLES)}")
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {BATCH}, {HEADS} heads of {DIM}, fp32")
    for name in chosen:
        TABLES[name]()


if __name__ == "__main__":
    main()

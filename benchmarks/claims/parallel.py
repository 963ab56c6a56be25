"""Recurrent nets do not parallelize over time: `python benchmarks/claims/parallel.py [FIGURE]` times a training step by length.

One LSTM layer and one self-attention layer (with its feed-forward layer) of the same width, forward and backward: for one
sequence alone, whose steps must wait for each other in the LSTM, and for a batch of 16,384 tokens whatever the length, in
which an LSTM works on all sequences at once. The contestants take turns, and the fastest of the rounds counts, in
milliseconds: what others do on the machine only ever makes a round slower. The figure shows how many times longer attention
takes.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from mirada.drawing.plots.lines import plot
from mirada.layers.block import BlockConfig, EncoderLayer
from mirada.layers.recurrent import Recurrent

WIDTH, TOKENS = 128, 16_384
LENGTHS = (16, 64, 256, 1024, 4096)


def step_of(layer: nn.Module, read: Callable[[Tensor], Tensor]) -> Callable[[Tensor], None]:
    def step(x: Tensor) -> None:
        layer.zero_grad()
        read(x).sum().backward()

    return step


def fastest(contestants: list[Callable[[Tensor], None]], x: Tensor, rounds: int) -> list[float]:
    """Milliseconds of every contestant's fastest round; they take turns, and the first round warms up."""
    times: list[list[float]] = [[] for _ in contestants]
    for turn in range(rounds + 1):
        for mine, step in zip(times, contestants, strict=True):
            began = time.perf_counter()
            step(x)
            if turn:
                mine.append(1000 * (time.perf_counter() - began))
    return [min(mine) for mine in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="?", default="")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch.manual_seed(0)
    lstm = Recurrent("lstm", WIDTH, WIDTH, 1)
    block = EncoderLayer(BlockConfig(width=WIDTH, heads=4, hidden=4 * WIDTH, dropout=0.0, length=max(LENGTHS)))
    contestants = [step_of(lstm, lambda x: lstm(x)[0]), step_of(block, block)]
    found: dict[str, list[tuple[str, float]]] = {"one sequence": [], "16,384 tokens": []}
    print(f"threads: {torch.get_num_threads()}\n")
    print("| length | LSTM, one sequence | attention, one sequence | LSTM, batch | attention, batch |")
    print("|---|---|---|---|---|", flush=True)
    for length in LENGTHS:
        row = []
        for points, batch in zip(found.values(), (1, TOKENS // length), strict=True):
            recurrent, attention = fastest(contestants, torch.randn(batch, length, WIDTH), given.rounds)
            points.append((f"{length:,}", attention / recurrent))
            row += [recurrent, attention]
        print(f"| {length:,} | " + " | ".join(f"{value:.1f}" for value in row) + " |", flush=True)
    if given.figure:
        plot(found, Path(given.figure), x="length of a sequence", y="time of attention / of the LSTM")


if __name__ == "__main__":
    main()

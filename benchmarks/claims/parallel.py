"""Recurrent nets do not parallelise: `python benchmarks/claims/parallel.py [FIGURE]` times a training step by length.

One LSTM layer and one self-attention layer (with its feed-forward layer) of the same width, forward and backward, on the
same number of tokens (16,384) whatever the length. They take turns; medians of the rounds in milliseconds. On a CPU with two
cores the arithmetic of both is similar; what grows is the number of steps that must wait for each other, and for attention
the pairs of places.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from mirada.drawing.plot import plot
from mirada.layers.block import BlockConfig, EncoderLayer
from mirada.layers.recurrent import Recurrent

WIDTH, TOKENS, ROUNDS = 128, 16_384, 7
LENGTHS = (16, 64, 256, 1024, 4096)


def step_of(layer: nn.Module, read: Callable[[Tensor], Tensor]) -> Callable[[Tensor], None]:
    def step(x: Tensor) -> None:
        layer.zero_grad()
        read(x).sum().backward()

    return step


def main(figure: str) -> None:
    torch.manual_seed(0)
    lstm = Recurrent("lstm", WIDTH, WIDTH, 1)
    block = EncoderLayer(BlockConfig(width=WIDTH, heads=4, hidden=4 * WIDTH, dropout=0.0, length=max(LENGTHS)))
    contestants = {"LSTM": step_of(lstm, lambda x: lstm(x)[0]), "self-attention": step_of(block, block)}
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in contestants}
    print("| length | LSTM, ms | self-attention, ms | ratio |\n|---|---|---|---|")
    for length in LENGTHS:
        x = torch.randn(TOKENS // length, length, WIDTH)
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(ROUNDS + 1):
            for name, step in contestants.items():
                began = time.perf_counter()
                step(x)
                if turn:
                    times[name].append(1000 * (time.perf_counter() - began))
        middle = {name: statistics.median(values) for name, values in times.items()}
        for name, value in middle.items():
            found[name].append((str(length), value))
        first, second = middle.values()
        print(f"| {length} | {first:.0f} | {second:.0f} | {first / second:.2f} |", flush=True)
    if figure:
        plot(found, Path(figure), x="length of a sequence (16,384 tokens in all)", y="ms a training step")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")

"""Distant words: `python benchmarks/claims/distance.py [FIGURE]` copies a word over a distance, with and without attention.

A sequence begins with one of 16 words; then come distractors of another vocabulary; at the end the first word is asked for.
An LSTM must carry it through every step; attention looks back at it. Both have the same width, the same 400 steps of the
same batches, and a fresh model for every distance. Printed: accuracy on new sequences, in percent (chance: 6).
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mirada import Attention, MultiHead
from mirada.attention.positions import Sinusoidal
from mirada.drawing.plots.lines import plot
from mirada.layers.embed import AddPosition
from mirada.layers.recurrent import Recurrent

WORDS, OTHERS, WIDTH, STEPS, BATCH = 16, 32, 64, 400, 64
DISTANCES = (5, 10, 20, 40, 80, 160)


class LastState(nn.Module):
    """An LSTM; its last state answers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.net = nn.Embedding(WORDS + OTHERS, WIDTH), Recurrent("lstm", WIDTH, WIDTH, 1)
        self.answer = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.answer(self.net(self.words(tokens))[0][:, -1])


class LookBack(nn.Module):
    """One attention layer; the last place asks."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS + OTHERS, WIDTH)
        self.place = AddPosition(Sinusoidal(WIDTH), 0.0)
        self.attention = Attention(MultiHead(WIDTH, heads=4))
        self.answer = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.place(self.words(tokens))
        return self.answer(self.attention(x[:, -1:], memory=x)[:, 0])


def batch(distance: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    first = torch.randint(WORDS, (count, 1), generator=chance)
    rest = WORDS + torch.randint(OTHERS, (count, distance), generator=chance)
    return torch.cat([first, rest], 1), first[:, 0]


def accuracy(kind: type[nn.Module], distance: int) -> float:
    """The share of right answers on new sequences, in percent, after the training."""
    torch.manual_seed(0)
    model = kind()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        tokens, wanted = batch(distance, BATCH, 1 + step)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), wanted).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        tokens, wanted = batch(distance, 1000, 0)
        return 100 * (model(tokens).argmax(-1) == wanted).float().mean().item()


def main(figure: str) -> None:
    kinds = {"LSTM": LastState, "attention": LookBack}
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in kinds}
    print("| distance | LSTM | attention |\n|---|---|---|")
    for distance in DISTANCES:
        for name, kind in kinds.items():
            found[name].append((str(distance), accuracy(kind, distance)))
        print(f"| {distance} | " + " | ".join(f"{points[-1][1]:.1f}" for points in found.values()) + " |", flush=True)
    if figure:
        plot(found, Path(figure), x="distance in words", y="right answers, %")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")

"""Order is invisible without positions: `python benchmarks/claims/order.py [FIGURE]`.

Sentences such as "the dog sees the cat" are to be told from "the cat sees the dog": which animal acts? Both have the same
words. The same classifier is trained with each position; without any, attention is a function of the bag of words.
Printed: accuracy on new sentences, in percent (chance: 50), and how much the answer moves if the words are shuffled.
"""

import sys
from itertools import permutations
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mirada.drawing.plots.lines import plot_bars
from mirada.models.classifier import Classifier, ClassifierConfig

ANIMALS, VERBS, THE, STEPS = 24, 8, 5, 300
POSITIONS = ("none", "sinusoidal", "learned", "relative:4", "rotary", "alibi")


def sentences() -> tuple[Tensor, Tensor]:
    """the A verb the B; the label says whether A comes before B in the list of animals."""
    rows, labels = [], []
    for first, second in permutations(range(ANIMALS), 2):
        for verb in range(VERBS):
            rows.append([THE, 6 + first, 6 + ANIMALS + verb, THE, 6 + second])
            labels.append(int(first < second))
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    return torch.tensor(rows)[order], torch.tensor(labels)[order]


def trained(position: str) -> tuple[float, float]:
    tokens, labels = sentences()
    known = len(tokens) * 3 // 4
    torch.manual_seed(0)
    config = ClassifierConfig(
        vocab=6 + ANIMALS + VERBS, width=32, heads=2, hidden=64, depth=1, dropout=0.0, classes=2, position=position,
        length=16,
    )  # fmt: skip
    model = Classifier(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        rows = torch.randint(known, (128,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[rows]), labels[rows]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(tokens[known:]).argmax(-1) == labels[known:]).float().mean().item()
        turned = tokens[known:][:, [3, 4, 2, 0, 1]]
        moved = (model(tokens[known:]).softmax(-1) - model(turned).softmax(-1)).abs().mean().item()
    return 100 * right, moved


def main(figure: str) -> None:
    print("| position | right, % | moved by shuffling |\n|---|---|---|")
    points = []
    for position in POSITIONS:
        right, moved = trained(position)
        points.append((position, right))
        print(f"| {position} | {right:.1f} | {moved:.4f} |", flush=True)
    if figure:
        plot_bars({"who acts?": points}, Path(figure), x="right answers, %", line=("chance", 50.0))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")

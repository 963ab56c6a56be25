"""The Vision Transformer compared with a convolution: `python benchmarks/claims/vision.py [FIGURE] [--data IMAGES,LABELS]`.

Three models of about the same number of parameters learn from few and from more pictures, with the same steps of the same
batches: a ViT as in the paper (a patch becomes a vector by one linear layer), the same with two convolutions in its place
(what `mirada train recognize` begins with), and convolutions alone. A convolution knows that neighbors belong together and
that a thing is the same thing elsewhere; a ViT has to learn it. The drawn objects of the task recognize are used, or a data
set in idx or npz form; nothing is augmented, and the last step is measured on the test pictures (of a file: on a tenth).
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mirada.drawing.plots.lines import plot
from mirada.models.vit import ViT, ViTConfig
from mirada.runs.registry import entry
from mirada.runs.sources import Source
from mirada.tasks.recognize.examples import scaled_pixels, sorted_labels

WIDTH, DEPTH, HEADS, BATCH = 64, 4, 4, 64
LR, WARMUP = 1e-3, 100


class Convolutions(nn.Module):
    """Five convolutions of 3 x 3, two of which halve the picture, and the mean of what they find."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        sizes = ((channels, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 2), (64, 64, 1))
        layers = [(nn.Conv2d(a, b, 3, step, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()) for a, b, step in sizes]
        self.layers = nn.Sequential(*(part for layer in layers for part in layer))
        self.classes = nn.Linear(64, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.classes(self.layers(pictures).mean((2, 3)))


def contestants(channels: int, size: int, classes: int) -> dict[str, Callable[[], nn.Module]]:
    config = ViTConfig(
        width=WIDTH, heads=HEADS, hidden=2 * WIDTH, depth=DEPTH, dropout=0.0, channels=channels, size=size, patch=4,
        classes=classes, length=(size // 4) ** 2 + 1,
    )  # fmt: skip
    return {
        "ViT": lambda: ViT(config),
        "ViT, convolution stem": lambda: ViT(replace(config, stem="convolution", depth=DEPTH - 1)),
        "convolutions": lambda: Convolutions(channels, classes),
    }


def pictures_of(data: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pictures and the numbers of their classes, to learn from and to be measured with."""
    task = entry("recognize").task()
    splits = task.read(Source(data), task.Data())
    fitting, _ = task.Data().fitting([record.value.picture for record in splits.train])
    names = sorted_labels(record.value.label for record in splits.train)
    found = []
    for part in (splits.train, splits.test or splits.valid):
        squares = np.stack([record.value.picture.seen(fitting) for record in part])
        labels = torch.tensor([names.index(record.value.label) for record in part])
        found += [torch.from_numpy(scaled_pixels(squares)), labels]
    return tuple(found)  # type: ignore[return-value]


def accuracy(model: nn.Module, steps: int, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> float:
    """The share of right answers on the test pictures, in percent, after the last step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.05)

    def rate(step: int) -> float:
        return min((step + 1) / WARMUP, 0.5 + 0.5 * float(np.cos(np.pi * step / steps)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    chance = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(train[0]), (BATCH,), generator=chance)
        optimizer.zero_grad()
        F.cross_entropy(model(train[0][rows]), train[1][rows]).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = [(model(x).argmax(-1) == y) for x, y in zip(test[0].split(250), test[1].split(250), strict=True)]
    return 100 * torch.cat(right).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="?", default="")
    parser.add_argument("--data", default="")
    parser.add_argument("--sizes", default="500,2000,8000")
    parser.add_argument("--steps", type=int, default=1500)
    given = parser.parse_args()
    images, labels, *test = pictures_of(given.data)
    models = contestants(images.shape[1], images.shape[-1], int(labels.max()) + 1)
    parameters = {name: sum(p.numel() for p in build().parameters()) for name, build in models.items()}
    print("| pictures | " + " | ".join(f"{name} ({parameters[name]:,})" for name in models) + " |")
    print("|---|" + "---|" * len(models), flush=True)
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in models}
    for size in map(int, given.sizes.split(",")):
        for name, build in models.items():
            torch.manual_seed(0)
            right = accuracy(build(), given.steps, (images[:size], labels[:size]), (test[0], test[1]))
            found[name].append((f"{size:,}", right))
        print(f"| {size:,} | " + " | ".join(f"{points[-1][1]:.1f}" for points in found.values()) + " |", flush=True)
    if given.figure:
        plot(found, Path(given.figure), x="pictures to learn from", y="right answers, %")


if __name__ == "__main__":
    main()

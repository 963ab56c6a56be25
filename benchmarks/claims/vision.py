"""The Vision Transformer beside a convolution: `python benchmarks/claims/vision.py [FIGURE] [--data IMAGES,LABELS]`.

The models `vit` and `conv-attention` of the task recognize, trained for the same number of steps on few and on more pictures:
the drawn objects, or those of a data set in idx or npz form. Parameters and accuracy on held-out pictures are printed; a
convolution knows that neighbors belong together, a ViT has to learn it.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import mirada
from mirada.drawing.plot import plot
from mirada.runs.catalog import entry
from mirada.runs.sources import Source

MODELS = ("vit", "conv-attention")


def arrays(data: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures and labels to learn from and to be measured with."""
    task = entry("recognize").task()
    splits = task.read(Source(data), task.Data())
    test = splits.test or splits.valid
    found = []
    for part in (splits.train, test):
        found += [np.stack([np.asarray(r.value.picture.pixels) for r in part]), np.array([r.value.label for r in part])]
    return tuple(found)  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", nargs="?", default="")
    parser.add_argument("--data", default="")
    parser.add_argument("--sizes", default="300,1000,3000")
    parser.add_argument("--steps", type=int, default=500)
    given = parser.parse_args()
    images, labels, test_images, test_labels = arrays(given.data)
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in MODELS}
    print("| pictures | model | parameters | accuracy, % |\n|---|---|---|---|")
    for size in map(int, given.sizes.split(",")):
        for model in MODELS:
            with tempfile.TemporaryDirectory() as folder:
                run = mirada.train(
                    "recognize", data={"images": images[:size], "labels": labels[:size]}, model=model,
                    out=Path(folder) / "run", steps=given.steps, patience=0,
                )  # fmt: skip
                right = run.measure({"images": test_images, "labels": test_labels})["accuracy"]
            parameters = sum(p.numel() for p in run.model.parameters())
            found[model].append((f"{size:,}", right))
            print(f"| {size:,} | {model} | {parameters:,} | {right:.1f} |", flush=True)
    if given.figure:
        plot(found, Path(given.figure), x="pictures to learn from", y="right answers, %")


if __name__ == "__main__":
    main()

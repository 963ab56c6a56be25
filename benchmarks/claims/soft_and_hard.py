"""Soft against hard attention: `python benchmarks/claims/soft_and_hard.py [FIGURE]` captions the drawn scenes with both.

Show, Attend and Tell (Xu et al. 2015): a weighted mean of all places, or one place that is drawn and learned by REINFORCE.
The same data, the same number of steps for both. BLEU, CIDEr, captions without an error, and pointing: whether the place
that a word looked at lies on its object.
"""

import argparse
import tempfile
from pathlib import Path

import mirada
from mirada.drawing.plots.lines import plot_bars

MODELS = ("soft", "hard")
DRAWN = {"bleu": "BLEU", "exact": "without an error, %", "pointing": "pointing, %"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", nargs="?", default="")
    parser.add_argument("--steps", type=int, default=0, help="0: as many as the task makes by itself")
    given = parser.parse_args()
    found: dict[str, list[tuple[str, float]]] = {}
    chance = 0.0
    print("| model | BLEU | CIDEr | without an error, % | pointing, % |\n|---|---|---|---|---|")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"steps": given.steps} if given.steps else {}
            run = mirada.train("caption", model=model, out=Path(folder) / "run", **settings)
            metrics = run.measure()
        found[model] = [(title, metrics[name]) for name, title in DRAWN.items()]
        chance = metrics["pointing_chance"]
        values = (metrics[name] for name in ("bleu", "cider", "exact", "pointing"))
        print(f"| {model} | " + " | ".join(f"{value:.1f}" for value in values) + " |", flush=True)
    print(f"\nPointing by chance: {chance:.1f} %")
    if given.figure:
        plot_bars(found, Path(given.figure))


if __name__ == "__main__":
    main()

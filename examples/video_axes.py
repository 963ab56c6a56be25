"""A video has space and time: attend over either, or over both.

Lecture row 1.1 names video among the sequences. Here a bright dot crosses a small picture from left to right. Each cell of
each frame is a vector (brightness, row, column), and the same attention without parameters runs over three choices of axes.
"""

import torch
from torch import Tensor

from mirada import Attention, look
from mirada.attention.heads import Split
from mirada.layers.axes import Axes

FRAMES, HEIGHT, WIDTH = 4, 3, 5
CHOICES = {"time": 1, "space": (2, 3), "space x time": (1, 2, 3)}


def film() -> Tensor:
    """(1, time, height, width, 3): a dot in the middle row that moves one column a frame."""
    clip = torch.zeros(1, FRAMES, HEIGHT, WIDTH, 3)
    clip[..., 1] = torch.linspace(-0.5, 0.5, HEIGHT).view(-1, 1)
    clip[..., 2] = torch.linspace(-0.5, 0.5, WIDTH)
    for t in range(FRAMES):
        clip[0, t, HEIGHT // 2, t, 0] = 3.0
    return clip


def weights_of(axes: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The output, and the weights of every place along the axes that are not attended."""
    layer = Axes(Attention(Split(3, heads=1)), axes)
    with look(layer) as seen:
        output = layer(film())
    return output, seen["attention"].weights(head=0)


def main() -> None:
    """Print what each choice of axes looks at."""
    print(f"A dot crosses {FRAMES} frames of {HEIGHT} x {WIDTH} cells. Input and output: {tuple(film().shape)}\n")
    print(f"{'attends over':<14}{'axes':<12}{'sequences':>10}{'length':>8}{'weights':>9}")
    for name, axes in CHOICES.items():
        _, weights = weights_of(axes)
        rows, length = weights.shape[:2]
        print(f"{name:<14}{axes!s:<12}{rows:>10}{length:>8}{weights.numel():>9}")
    _, joint = weights_of(CHOICES["space x time"])
    dots = [t * HEIGHT * WIDTH + (HEIGHT // 2) * WIDTH + t for t in range(FRAMES)]
    print("\nWith space x time the dot of a frame finds itself in the others; weights among the dots:")
    for t, row in enumerate(dots):
        cells = "  ".join(f"{joint[0, row, column]:.3f}" for column in dots)
        print(f"  frame {t}:  {cells}   all of its weight on dots: {joint[0, row, dots].sum():.3f}")
    print(f"\nThe {len(dots)} dots are {len(dots) / joint.shape[-1]:.1%} of the cells.")


if __name__ == "__main__":
    main()

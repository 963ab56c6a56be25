"""Attention as a weighted graph: the new vector of a word is a convex combination of the values.

In "el gato negro salta la cuerda" the lecture gives negro the weights

    h_negro = 0.025 el + 0.4 gato + 0.5 negro + 0.025 salta + 0.025 la + 0.025 cuerda

Those weights come out of a real attention call here: keys are unit vectors, so q_i.k_j is the j-th number of the query, and
a query that holds logarithms of weights gives exactly these weights after the softmax. The other rows of the adjacency
matrix A_ij = alpha_ij and the values, points of the plane, are made up. Lectures, row 1.5.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from mirada import Attention, look
from mirada.attention.heads import Split
from mirada.attention.scores import Dot

WORDS = ("el", "gato", "negro", "salta", "la", "cuerda")
WANTED = (
    (0.500, 0.400, 0.025, 0.025, 0.025, 0.025),
    (0.200, 0.500, 0.200, 0.050, 0.025, 0.025),
    (0.025, 0.400, 0.500, 0.025, 0.025, 0.025),  # the lecture's row
    (0.025, 0.350, 0.025, 0.300, 0.050, 0.250),
    (0.025, 0.025, 0.025, 0.025, 0.500, 0.400),
    (0.025, 0.025, 0.025, 0.200, 0.225, 0.500),
)
VALUES = ((0.0, 2.5), (2.5, 5.0), (8.0, 4.5), (9.0, 2.0), (2.0, 0.5), (6.0, 0.0))
Point = tuple[float, float]


def graph() -> tuple[Float[Tensor, "words words"], Float[Tensor, "words 2"]]:
    """One attention call: its weights, which are the adjacency matrix, and its outputs."""
    queries, keys, values = torch.tensor(WANTED).log(), torch.eye(len(WORDS)), torch.tensor(VALUES)
    layer = Attention(Split(width=len(WORDS), heads=1), score=Dot(scale=1.0))
    with look(layer) as seen:
        h = layer(queries[None], memory=keys[None], values=values[None])
    return seen[""].weights(head=0)[0], h[0]


def convex_hull(points: list[Point]) -> list[Point]:
    """The corners of the smallest convex set that holds all points, counterclockwise (Andrew's monotone chain)."""

    def chain(ordered: list[Point]) -> list[Point]:
        corners: list[Point] = []
        for point in ordered:
            while len(corners) > 1 and turn(corners[-2], corners[-1], point) <= 0:
                corners.pop()
            corners.append(point)
        return corners[:-1]

    ordered = sorted(set(points))
    return chain(ordered) + chain(ordered[::-1])


def turn(a: Point, b: Point, c: Point) -> float:
    """Positive where the way a, b, c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def inside(point: Point, hull: list[Point]) -> bool:
    """Whether a point lies in the hull: to the left of every side, or on it."""
    return all(turn(a, b, point) >= 0 for a, b in zip(hull, hull[1:] + hull[:1], strict=True))


def drawing(named: dict[str, Point], height: int = 11, columns: int = 60) -> list[str]:
    """Names at their points; both axes start at 0."""
    wide, tall = (max(point[axis] for point in named.values()) for axis in (0, 1))
    lines = [[" "] * (columns + 10) for _ in range(height)]
    for name, (x, y) in named.items():
        row, column = round((1 - y / tall) * (height - 1)), round(x / wide * columns)
        lines[row][column : column + len(name)] = name
    return ["".join(line).rstrip() for line in lines]


def main() -> None:
    weights, h = graph()
    print("adjacency matrix A_ij = alpha_ij\n")
    print(f"{'':8}" + "".join(f"{word:>8}" for word in WORDS) + f"{'sum':>8}")
    for word, row in zip(WORDS, weights, strict=True):
        print(f"{word:8}" + "".join(f"{x:8.3f}" for x in row) + f"{row.sum():8.3f}")

    negro = WORDS.index("negro")
    terms = " + ".join(f"{weight:.3g} {word}" for weight, word in zip(weights[negro], WORDS, strict=True))
    print(f"\nh_negro = {terms}\n        = ({h[negro, 0]:.3f}, {h[negro, 1]:.3f})")

    hull = convex_hull(list(VALUES))
    held = [inside((x, y), hull) for x, y in h.tolist()]
    print(
        f"\nthe values, and h_negro at its star; outputs inside the convex hull of the values: {sum(held)} of {len(held)}\n"
    )
    print(
        "\n".join(
            drawing({**dict(zip(WORDS, VALUES, strict=True)), "*h_negro": (h[negro, 0].item(), h[negro, 1].item())})
        )
    )


if __name__ == "__main__":
    main()

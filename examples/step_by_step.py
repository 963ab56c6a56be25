"""Scaled dot-product attention, one step at a time, with every number printed.

    h = softmax(mask(q.k / sqrt(dim))) v

The sentence is "Ana lee su libro" (Ana reads her book). Queries, keys and values are written by hand: a query says what a
word looks for, a key what it offers, a value what it carries. The steps are plain torch; the last line compares them with
`mirada.attend`. Lectures, row 0.3.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mirada import attend
from mirada.attention.neighborhoods import Causal

WORDS = ("Ana", "lee", "su", "libro")
FEATURES = ("person", "action", "owner", "thing")  # of queries and keys
CARRIED = ("who", "does", "what")  # of values
LOOKS_FOR = ((2, 0, 0, 0), (4, 1, 0, 3), (4, 0, 1, 0), (0, 4, 2, 1))
OFFERS = ((2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2))
CARRIES = ((9, 0, 0), (0, 9, 0), (1, 0, 1), (0, 0, 9))


class Steps(NamedTuple):
    """What each step gives."""

    products: Float[Tensor, "queries keys"]
    scaled: Float[Tensor, "queries keys"]
    masked: Float[Tensor, "queries keys"]
    weights: Float[Tensor, "queries keys"]
    output: Float[Tensor, "queries value_dim"]


def vectors() -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of the sentence, one row per word."""
    q, k, v = (torch.tensor(rows, dtype=torch.float32) for rows in (LOOKS_FOR, OFFERS, CARRIES))
    return q, k, v


def steps(q: Tensor, k: Tensor, v: Tensor) -> Steps:
    """The five steps, each a line of plain torch."""
    products = q @ k.T
    scaled = products / q.shape[-1] ** 0.5
    seen = Causal().dense(len(q), len(k))[0, 0]
    masked = scaled.masked_fill(~seen, -torch.inf)
    weights = masked.softmax(-1)
    return Steps(products, scaled, masked, weights, weights @ v)


def attended(q: Tensor, k: Tensor, v: Tensor) -> Float[Tensor, "queries value_dim"]:
    """The same by one call; `attend` takes (batch, heads, n, dim)."""
    q, k, v = (x[None, None] for x in (q, k, v))
    return attend(q, k, v, where=Causal())[0, 0]


def table(title: str, columns: tuple[str, ...], rows: Tensor, digits: int = 2) -> list[str]:
    """A titled matrix with a word before each row."""
    head = f"{'':5}" + "".join(f"{name:>8}" for name in columns)
    body = [f"{word:5}" + "".join(f"{x:8.{digits}f}" for x in row) for word, row in zip(WORDS, rows, strict=True)]
    return [title, head, *body, ""]


def beside(left: list[str], right: list[str]) -> list[str]:
    """Two blocks of lines next to each other."""
    return [f"{a:42}{b}".rstrip() for a, b in zip(left, right, strict=True)]


def report() -> list[str]:
    """The whole page."""
    q, k, v = vectors()
    s = steps(q, k, v)
    difference = (attended(q, k, v) - s.output).abs().max()
    word = WORDS.index("su")
    best = int(s.weights[word].argmax())
    lines = [f'"{" ".join(WORDS)}" (Ana reads her book):  h = softmax(mask(q.k / sqrt({q.shape[-1]}))) v', ""]
    lines += beside(table("q: looks for", FEATURES, q, 0), table("k: offers", FEATURES, k, 0))
    lines += beside(table("v: carries", CARRIED, v, 0), table("1. compare: q.k", WORDS, s.products))
    lines += beside(
        table(f"2. scale: / sqrt({q.shape[-1]})", WORDS, s.scaled), table("3. mask: no later word", WORDS, s.masked)
    )
    lines += beside(
        table("4. softmax: each row sums to 1", WORDS, s.weights, 3), table("5. h = weights x v", CARRIED, s.output)
    )
    lines += [
        f'Read row "{WORDS[word]}" (her): its largest weight, {s.weights[word, best]:.3f}, is on "{WORDS[best]}", '
        f"so h now says who she is.",
        f"mirada.attend(q, k, v, where=Causal()) gives the same h: largest difference {difference:.0e}.",
    ]
    return lines


def main() -> None:
    print("\n".join(report()))


if __name__ == "__main__":
    main()

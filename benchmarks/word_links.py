"""Gold word links for `relations.py`: which words of two sentences are translations of each other, as people linked them."""

from dataclasses import dataclass
from pathlib import Path

from mirada.data.files.opening import read_lines
from mirada.data.record import Found, Problem, Record

Links = frozenset[tuple[int, int]]  # (source word, target word), from 0


@dataclass(frozen=True)
class LinkedPair:
    """Two sentences as words, the links that are sure, and those that are possible (the sure ones too)."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: Links
    possible: Links


def read_links(source: str | Path, target: str | Path, links: str | Path) -> Found[LinkedPair]:
    """Two files with a sentence a line, its words separated by spaces, and one with a link a line.

    A link is `sentence source target [S|P]`, all counted from 1: a sure one (the default), or one that is only possible.
    """
    problems: list[Problem] = []
    sides = []
    for path in (source, target):
        lines = list(read_lines(path))
        problems += [line for line in lines if isinstance(line, Problem)]
        sides.append([() if isinstance(line, Problem) else tuple(line.text.split()) for line in lines])
    if len(sides[0]) != len(sides[1]):
        what = f"{len(sides[1])} sentences, and {source} has {len(sides[0])}. They belong together line by line."
        return Found([], [*problems, Problem(str(target), what)])
    sure: list[set[tuple[int, int]]] = [set() for _ in sides[0]]
    possible: list[set[tuple[int, int]]] = [set() for _ in sides[0]]
    for line in read_lines(links):
        if isinstance(line, Problem):
            problems.append(line)
        elif line.text.strip():
            cells = line.text.split()
            fault = _wrong_link(cells, sides[0], sides[1])
            if fault:
                problems.append(Problem(line.where, fault))
                continue
            number, left, right = (int(cell) - 1 for cell in cells[:3])
            possible[number].add((left, right))
            if cells[3:] != ["P"]:
                sure[number].add((left, right))
    pairs = zip(sides[0], sides[1], sure, possible, strict=True)
    return Found(
        [
            Record(f"{source}:{number}", LinkedPair(left, right, frozenset(s), frozenset(p)))
            for number, (left, right, s, p) in enumerate(pairs, 1)
            if left and right
        ],
        problems,
    )


def _wrong_link(cells: list[str], source: list[tuple[str, ...]], target: list[tuple[str, ...]]) -> str:
    """What is wrong with a link; "" if nothing is."""
    numbers = cells[:3]
    good = (
        len(cells) in (3, 4)
        and all(cell.isascii() and cell.isdigit() for cell in numbers)
        and cells[3:] in ([], ["S"], ["P"])
    )
    if not good:
        return f"expected `sentence source target [S|P]`, found {' '.join(cells)[:40]!r}."
    sentence, left, right = map(int, numbers)
    if not 1 <= sentence <= len(source):
        return f"there are {len(source)} sentences, found number {sentence}."
    for word, words, side in ((left, source[sentence - 1], "source"), (right, target[sentence - 1], "target")):
        if not 1 <= word <= len(words):
            return f"the {side} of sentence {sentence} has {len(words)} words, found number {word}."
    return ""

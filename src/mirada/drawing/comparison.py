"""What was answered beside what was wanted, in words: the lines around an example."""

import re
from difflib import SequenceMatcher

from mirada.drawing.markup import Markup, element, join
from mirada.drawing.numerals import number

WORD = re.compile(r"\w+|[^\w\s]")


def head(note: str, score: float | None) -> Markup | None:
    """What is said above an example."""
    parts = [element("span", note, dir="auto") if note else None]
    parts.append(element("span", "score ", element("b", number(score)), class_="score") if score is not None else None)
    return element("figcaption", *parts) if any(parts) else None


def line(name: str, text: str) -> Markup:
    """A named line of an example."""
    return element("div", element("dt", name), element("dd", text))


def compared(wanted: str, given: str) -> Markup:
    """The wanted text with the words marked that were not written there.

    >>> compared("la casa roja.", "la casa rojo .")
    '<span dir="auto" lang="" translate="no">la casa <mark>roja</mark>.</span>'
    """
    words = list(WORD.finditer(wanted))
    matcher = SequenceMatcher(None, [word.group() for word in words], WORD.findall(given), autojunk=False)
    parts: list[str] = []
    end = 0
    for kind, start, stop, _, _ in matcher.get_opcodes():
        for word in words[start:stop]:
            parts.append(wanted[end : word.start()])
            parts.append(word.group() if kind == "equal" else element("mark", word.group()))
            end = word.end()
    return element("span", join([*parts, wanted[end:]]), dir="auto", lang="", translate="no")


def verdict(answer: str, wanted: str, score: float | None, right: bool | None = None) -> list[Markup | None]:
    """An answer beside the wanted one; right and wrong are said in words and signs, not by color alone.

    `right` is for those who judge themselves: nothing can be wanted, and an article too many may not matter.
    """
    if right is None and wanted:
        right = answer == wanted
    judged = element("span", "\u2713 right" if right else "\u2717 wrong", class_="right" if right else "wrong")
    return [
        element("span", "answer ", element("b", answer or "none", dir="auto")),
        element("span", "score ", element("b", number(score))) if score is not None else None,
        judged if right is not None else None,
        element("span", "wanted ", element("b", wanted or "none", dir="auto")) if right is False else None,
    ]

"""Texts and small tables: what was written, what was wanted, what else was possible."""

import re
from difflib import SequenceMatcher
from math import isfinite

from mirada.drawing.contents import Ranked, Sample, Table
from mirada.drawing.markup import Markup, element, join, scroll
from mirada.drawing.numerals import number, plain, written

GAP = re.compile(r"_{3,}|\[MASK\]|<mask>")
WORD = re.compile(r"\w+|[^\w\s]")


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


def verdict(answer: str, wanted: str, score: float | None) -> list[Markup | None]:
    """An answer beside the wanted one; right and wrong are said in words and signs, not by color alone."""
    right = answer == wanted
    judged = element("span", "\u2713 right" if right else "\u2717 wrong", class_="right" if right else "wrong")
    return [
        element("span", "answer ", element("b", answer, dir="auto")),
        element("span", "score ", element("b", number(score))) if score is not None else None,
        judged if wanted else None,
        element("span", "wanted ", element("b", wanted, dir="auto")) if wanted and not right else None,
    ]


def sample(value: Sample) -> Markup:
    """A written text as it is, after what was given."""
    prompt = element("span", value.prompt, class_="prompt", title="given") if value.prompt else None
    return element(
        "figure",
        element("figcaption", element("h3", value.title, dir="auto")) if value.title else None,
        element("pre", prompt, value.text, dir="auto", lang="", translate="no", tabindex=0),
        class_="card sample",
    )


def ranked(value: Ranked) -> Markup:
    """The text with its gap and a bar per candidate. Scores that are no probabilities are drawn against the largest."""
    scores = [score for _, score in value.candidates if isfinite(score)]
    top = 1.0 if all(0 <= score <= 1 for score in scores) else max(scores) if max(scores) > 0 else 1.0
    rows = []
    for word, score in value.candidates:
        share = min(max(score, 0.0) / top, 1.0) if isfinite(score) else 0.0
        right = bool(value.wanted) and word == value.wanted
        rows.append(
            element(
                "li",
                element("span", word, element("span", " \u2713 wanted", class_="right") if right else None, dir="auto"),
                element("span", element("i", style=f"width:{plain(100 * share)}%"), class_="bar", aria_hidden="true"),
                element("b", number(score)),
            )
        )
    missed = None
    if value.wanted and value.wanted not in [word for word, _ in value.candidates]:
        name = element("b", value.wanted, dir="auto")
        missed = element("p", "wanted ", name, ", not among these", class_="missed wrong")
    return element(
        "figure",
        element("figcaption", element("span", value.note, dir="auto")) if value.note else None,
        element("p", gapped(value.text), class_="gapped", dir="auto", lang="", translate="no"),
        element("ol", *rows, class_="ranked", lang="", translate="no"),
        missed,
        class_="card",
    )


def gapped(text: str) -> Markup:
    """The text with its gaps drawn as gaps."""
    parts: list[str] = []
    end = 0
    for gap in GAP.finditer(text):
        parts += [text[end : gap.start()], element("span", gap.group(), class_="gap", role="img", aria_label="gap")]
        end = gap.end()
    return join([*parts, text[end:]])


def table(value: Table) -> Markup:
    """Numbers right-aligned under each other, texts to the left."""
    texts = [all(isinstance(entry, str) for entry in column) for column in zip(*value.rows, strict=True)]
    kinds = ["text" if text else None for text in texts]

    def row(name: str, cells: list[str], scope: str) -> Markup:
        tag = "th" if scope == "col" else "td"
        rest = zip(cells, kinds[1:], strict=True)
        others = [
            element(tag, cell, class_=kind, scope="col" if tag == "th" else None, dir="auto") for cell, kind in rest
        ]
        return element("tr", element("th", name, scope=scope, dir="auto"), *others)

    head = row(value.columns[0], list(value.columns[1:]), "col")
    rows = [row(written(entries[0]), [written(entry) for entry in entries[1:]], "row") for entries in value.rows]
    whole = element(
        "table", element("thead", head), element("tbody", *rows), class_="numbers wordy" if all(texts) else "numbers"
    )
    return element(
        "figure",
        element("figcaption", element("h3", value.title, dir="auto")) if value.title else None,
        scroll(whole, value.title or "Table"),
        class_="card",
    )

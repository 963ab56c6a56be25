"""The page of a report: headline numbers, sections of items, commands. It knows no kind of item."""

from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from mirada.drawing.document import document, static
from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element, join
from mirada.drawing.numerals import Value, written

Fact: TypeAlias = tuple[str, Value]

LOOKED = (
    "Colors show where the model looked. That is evidence, not yet a reason: other weights may give the same answer."
)
HEADLINE = 14  # letters of a value that can be large


@dataclass(frozen=True)
class Section:
    """A heading, a short explanation and what it is about. A section whose items are all empty is left out."""

    heading: str
    text: str = ""
    items: tuple[Item, ...] = ()

    @property
    def empty(self) -> bool:
        return all(item.empty for item in self.items)


@dataclass(frozen=True)
class Report:
    """The whole page: headline numbers (`facts`), smaller print (`details`), sections, and commands to go on with."""

    title: str
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...] = ()
    commands: tuple[str, ...] = ()
    summary: str = ""
    details: tuple[Fact, ...] = ()


def html(report: Report) -> str:
    """The report as the text of one HTML file, to be written as UTF-8.

    >>> page = html(Report("English to Spanish", facts=(("BLEU", 34.27), ("pairs", 12000))))
    >>> page[:15], "12,000" in page
    ('<!doctype html>', True)
    """
    return document(report.title, body(report), styles=(static("page.css"),), scripts=(static("page.js"),))


def body(report: Report) -> Markup:
    """Everything that is seen."""
    sections = [section for section in report.sections if not section.empty]
    names = [(f"part-{index}", part) for index, part in enumerate(sections, start=1)]
    links = [element("a", part.heading, href=f"#{name}", dir="auto") for name, part in names]
    links += [element("a", "How to go on", href="#commands")] if report.commands else []
    header = element(
        "header",
        element("p", "mirada", class_="brand"),
        element("h1", report.title, dir="auto"),
        element("p", report.summary, class_="summary", dir="auto") if report.summary else None,
        facts(report.facts, "facts"),
        facts(report.details, "details"),
        element("nav", *links, aria_label="Sections") if len(links) > 1 else None,
    )
    return join([header, element("main", *(section(part, name) for name, part in names), commands(report.commands))])


def facts(values: tuple[Fact, ...], kind: str) -> Markup | None:
    """Names and values; a value too long for a headline is written smaller."""
    pairs = []
    for name, value in values:
        text = written(value)
        long = "long" if len(text) > HEADLINE else None
        pairs.append(element("div", element("dt", name, dir="auto"), element("dd", text, class_=long, dir="auto")))
    return element("dl", *pairs, class_=kind) if pairs else None


def section(value: Section, name: str) -> Markup:
    """A section; neighbors of one kind stand side by side."""
    items = [item for item in value.items if not item.empty]
    groups = [
        element("div", *(item.draw() for item in group), class_=f"group {kind.__name__.lower()}-group")
        for kind, group in groupby(items, key=type)
    ]
    looked = any(item.shows_attention for item in items)
    return element(
        "section",
        element("h2", value.heading, dir="auto", id=f"{name}-heading"),
        element("p", value.text, class_="lead", dir="auto") if value.text else None,
        element("p", LOOKED, class_="lead looked") if looked else None,
        *groups,
        id=name,
        aria_labelledby=f"{name}-heading",
    )


def commands(values: tuple[str, ...]) -> Markup | None:
    """What to type next; a click selects a whole command."""
    if not values:
        return None
    return element(
        "section",
        element("h2", "How to go on", id="commands-heading"),
        join(element("pre", element("code", value), class_="command", translate="no", tabindex=0) for value in values),
        id="commands",
        aria_labelledby="commands-heading",
    )

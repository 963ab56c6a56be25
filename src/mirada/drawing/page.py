"""The page of a report: headline numbers, sections of items, commands. It knows no kind of item."""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape as escape_html
from importlib.resources import files
from itertools import groupby
from typing import Protocol, TypeAlias, runtime_checkable

from mirada.words import Value, written

# HTML elements whose texts are escaped by construction: only what this file wrote is trusted.


# no place in HTML for these, and half a surrogate pair cannot be written to a file
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
VOID = frozenset({"meta", "br", "img"})


class Markup(str):
    """HTML that is already escaped."""

    __slots__ = ()


Child: TypeAlias = str | Markup | None
Attribute: TypeAlias = str | int | float | bool | None


def escape(text: str) -> Markup:
    """The text as HTML; markup passes as it is.

    >>> escape("<b> & \\x00")
    '&lt;b&gt; &amp; \ufffd'
    """
    if isinstance(text, Markup):
        return text
    return Markup(escape_html(UNPRINTABLE.sub("\ufffd", text)))


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other; None is left out."""
    return Markup("".join(escape(child) for child in children if child is not None))


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. In attribute names a final underscore is dropped and the others are hyphens.

    An attribute that is None or False is left out, one that is True has no value.

    >>> element("a", "1 < 2", class_="x", aria_label='"', hidden=True, title=None)
    '<a class="x" aria-label="&quot;" hidden>1 &lt; 2</a>'
    """
    opened = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        opened.append(key if value is True else f'{key}="{escape(str(value))}"')
    start = f"<{' '.join(opened)}>"
    return Markup(start if name in VOID else f"{start}{join(children)}</{name}>")


def card(title: str, *children: Child, class_: str = "card") -> Markup:
    """The figure of an item, below its title if it has one."""
    heading = element("figcaption", element("h3", title, dir="auto")) if title else None
    return element("figure", heading, *children, class_=class_)


def scroll(content: Markup, label: str) -> Markup:
    """Content that may be too large scrolls inside its box, with the keyboard as well."""
    return element("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)


# What a page asks of a picture: whether there is anything to see, and its markup.


@runtime_checkable
class Item(Protocol):
    """Something that draws itself: a frozen dataclass of plain values, checked when made.

    A page draws items without knowing their classes; adjacent items of one class are shown side by side. The protocol
    has no fields of its own. A new kind of picture is a new class in a file of its own:

    >>> from dataclasses import dataclass
    >>> from mirada.drawing.page import element
    >>> @dataclass(frozen=True)
    ... class Quotation(Item):
    ...     text: str
    ...
    ...     @property
    ...     def empty(self) -> bool:
    ...         return not self.text
    ...
    ...     def draw(self) -> Markup:
    ...         return element("figure", self.text, class_="card")
    >>> Quotation("1 < 2").draw()
    '<figure class="card">1 &lt; 2</figure>'
    """

    @property
    def empty(self) -> bool:
        """Whether there is nothing to see; the page leaves such an item out."""
        ...

    @property
    def shows_attention(self) -> bool:
        """Whether its colors are weights: the page then adds a note on what they do not prove."""
        return False

    def draw(self) -> Markup:
        """The figure. Every text of the item is escaped by `element`."""
        ...


# The frame of a page: one HTML file with its style and script inside. Nothing is fetched, nothing foreign can run.


# nothing may be loaded, except pictures that are written into the page itself
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: Markup, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """A whole page as the text of one HTML file, to be written as UTF-8.

    Only the given scripts may run, whatever the body contains: the page's content security policy has their digests.

    Args:
        title: The title of the page.
        body: What it shows; `element` makes it.
        styles: Style sheets, trusted texts that never come from data.
        scripts: Scripts, trusted texts that never come from data.

    >>> page = document("1 < 2", element("p", "<script>"), scripts=("document.title = 'ready';",))
    >>> page[:15], "<title>1 &lt; 2</title>" in page, "<p>&lt;script&gt;</p>" in page
    ('<!doctype html>', True, True)
    """
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=f"{POLICY}; script-src {allowed}"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        *(element("style", Markup(style)) for style in styles),
    )
    # after the body, so that scripts find what they are about
    seen = element("body", body, join(element("script", Markup(script)) for script in scripts))
    return f"<!doctype html>\n{element('html', head, seen, lang='en')}\n"


def static(name: str) -> str:
    """The text of a file in static/: plain style and script, written as they are used."""
    return files("mirada.drawing").joinpath("static", name).read_text(encoding="utf-8")


Fact: TypeAlias = tuple[str, Value]

LOOKED = (
    "Colors show where the model looked. That is evidence, not yet a reason: other weights may give the same answer."
)
HEADLINE = 14  # letters of a value that can be large


@dataclass(frozen=True)
class Section:
    """A part of a report. A section whose items are all empty is not shown.

    Args:
        heading: Its heading.
        text: A short explanation.
        items: What it shows.

    >>> Section("Samples", items=(TextSample("first", ""),)).empty
    True
    """

    heading: str
    text: str = ""
    items: tuple[Item, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether no item has anything to show."""
        return all(item.empty for item in self.items)


@dataclass(frozen=True)
class Report:
    """The content of a page; `html` draws it.

    Args:
        title: The heading.
        facts: Headline numbers: pairs of a name and a value.
        sections: The sections.
        commands: Commands to run next.
        summary: A sentence below the title.
        details: More names and values, in smaller print.

    >>> Report("English to Spanish", facts=(("BLEU", 34.27),), commands=("mirada run runs/translate",)).title
    'English to Spanish'
    """

    title: str
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...] = ()
    commands: tuple[str, ...] = ()
    summary: str = ""
    details: tuple[Fact, ...] = ()


def html(report: Report) -> str:
    """The report as the text of one HTML file, to be written as UTF-8.

    Args:
        report: The content of the page.

    >>> page = html(Report("English to Spanish", facts=(("BLEU", 34.27), ("pairs", 12000))))
    >>> page[:15], "12,000" in page
    ('<!doctype html>', True)
    """
    return document(report.title, _body(report), styles=(static("page.css"),), scripts=(static("page.js"),))


def _body(report: Report) -> Markup:
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
        _facts(report.facts, "facts"),
        _facts(report.details, "details"),
        element("nav", *links, aria_label="Sections") if len(links) > 1 else None,
    )
    # a click selects a whole command
    commands = [
        element("pre", element("code", value), class_="command", translate="no", tabindex=0)
        for value in report.commands
    ]
    heading = element("h2", "How to go on", id="commands-heading")
    last = (
        element("section", heading, *commands, id="commands", aria_labelledby="commands-heading") if commands else None
    )
    return join([header, element("main", *(_section(part, name) for name, part in names), last)])


def _facts(values: tuple[Fact, ...], kind: str) -> Markup | None:
    """Names and values; a value too long for a headline is written smaller."""
    pairs = []
    for name, value in values:
        text = written(value)
        long = "long" if len(text) > HEADLINE else None
        pairs.append(element("div", element("dt", name, dir="auto"), element("dd", text, class_=long, dir="auto")))
    return element("dl", *pairs, class_=kind) if pairs else None


def _section(value: Section, name: str) -> Markup:
    """A section; adjacent items of one class are side by side."""
    items = [item for item in value.items if not item.empty]
    groups = [
        element("div", *(item.draw() for item in group), class_=f"group {kind.__name__.lower()}-group")
        for kind, group in groupby(items, key=type)
    ]
    looked = any(item.shows_attention for item in items)
    heading = element("h2", value.heading, dir="auto", id=f"{name}-heading")
    lead = element("p", value.text, class_="lead", dir="auto") if value.text else None
    note = element("p", LOOKED, class_="lead looked") if looked else None
    return element("section", heading, lead, note, *groups, id=name, aria_labelledby=f"{name}-heading")


# Written texts, as they are.


@dataclass(frozen=True)
class TextSample(Item):
    """A text that a model wrote.

    Args:
        title: The heading.
        text: What was written.
        prompt: The beginning that the model was given.

    >>> TextSample("step 100", " house", prompt="the red").empty
    False
    """

    title: str
    text: str
    prompt: str = ""

    @property
    def empty(self) -> bool:
        return not (self.text or self.prompt)

    def draw(self) -> Markup:
        """A written text as it is, after what was given."""
        prompt = element("span", self.prompt, class_="prompt", title="given") if self.prompt else None
        text = element("pre", prompt, self.text, dir="auto", lang="", translate="no", tabindex=0)
        return card(self.title, text, class_="card sample")

"""The page: cards, sections and commands, with style and script inside. Nothing is fetched, nothing foreign can run."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from itertools import groupby

from mirada.drawing.attended import aligned, weighed
from mirada.drawing.charts import chart
from mirada.drawing.contents import Aligned, Chart, Fact, Item, Ranked, Report, Sample, Section, Table, Weighed
from mirada.drawing.markup import Markup, element, join
from mirada.drawing.numerals import written
from mirada.drawing.texts import ranked, sample, table

LOOKED = (
    "Colors show where the model looked. That is evidence, not yet a reason: other weights may give the same answer."
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
HEADLINE = 14  # letters of a value that can be large


def html(report: Report) -> str:
    """The report as the text of one HTML file, to be written as UTF-8.

    >>> page = html(Report("English to Spanish", facts=(("BLEU", 34.27), ("pairs", 12000))))
    >>> page[:15], "12,000" in page
    ('<!doctype html>', True)
    """
    style, script = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # only this very script may run, whatever the texts contain, and nothing may be loaded
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"{POLICY}; script-src 'sha256-{digest}'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", report.title),
        element("style", Markup(style)),
    )
    return f"<!doctype html>\n{element('html', head, body(report, Markup(script)), lang='en')}\n"


def body(report: Report, script: Markup) -> Markup:
    """Everything that is seen, and the script after it."""
    sections = [section for section in report.sections if not section.empty]
    names = [(f"part-{index}", part) for index, part in enumerate(sections, start=1)]
    links = [element("a", part.heading, href=f"#{name}", dir="auto") for name, part in names]
    links += [element("a", "How to go on", href="#commands")] if report.commands else []
    return element(
        "body",
        element(
            "header",
            element("p", "mirada", class_="brand"),
            element("h1", report.title, dir="auto"),
            element("p", report.summary, class_="summary", dir="auto") if report.summary else None,
            facts(report.facts, "facts"),
            facts(report.details, "details"),
            element("nav", *links, aria_label="Sections") if len(links) > 1 else None,
        ),
        element("main", *(section(part, name) for name, part in names), commands(report.commands)),
        element("script", script),
    )


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
        element("div", *(drawn(item) for item in group), class_=f"group {kind.__name__.lower()}-group")
        for kind, group in groupby(items, key=type)
    ]
    looked = any(isinstance(item, Aligned | Weighed) for item in items)
    return element(
        "section",
        element("h2", value.heading, dir="auto", id=f"{name}-heading"),
        element("p", value.text, class_="lead", dir="auto") if value.text else None,
        element("p", LOOKED, class_="lead looked") if looked else None,
        *groups,
        id=name,
        aria_labelledby=f"{name}-heading",
    )


def drawn(item: Item) -> Markup:
    """An item in its form."""
    match item:
        case Chart():
            return chart(item)
        case Aligned():
            return aligned(item)
        case Weighed():
            return weighed(item)
        case Sample():
            return sample(item)
        case Ranked():
            return ranked(item)
        case Table():
            return table(item)


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

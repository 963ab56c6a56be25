"""HTML elements whose texts are escaped by construction: only what this file wrote is trusted."""

from html import escape as escape_html
import re
from collections.abc import Iterable
from typing import TypeAlias

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


def scroll(content: Markup, label: str) -> Markup:
    """What may be larger than its place scrolls inside it, with the keyboard as well."""
    return element("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)

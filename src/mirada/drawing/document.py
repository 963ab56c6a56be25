"""The frame of a page: one HTML file with its style and script inside. Nothing is fetched, nothing foreign can run."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from mirada.drawing.markup import Markup, element, join

# nothing may be loaded, except pictures that are written into the page itself
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: Markup, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """A whole page as the text of one HTML file, to be written as UTF-8.

    Styles and scripts are texts of our own (see `static`), never of the data. Only these very scripts may run, whatever
    the body contains: the page's content security policy has their digests.

    >>> page = document("1 < 2", element("p", "<script>"), scripts=("document.title = 'ready';",))
    >>> page[:15], "<title>1 &lt; 2</title>" in page, "<p>&lt;script&gt;</p>" in page
    ('<!doctype html>', True, True)
    """
    allowed = " ".join(f"'sha256-{digest(script)}'" for script in scripts) or "'none'"
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


def digest(script: str) -> str:
    return b64encode(sha256(script.encode()).digest()).decode()


def static(name: str) -> str:
    """The text of a file in static/: plain style and script, written as they are used."""
    return files("mirada.drawing").joinpath("static", name).read_text(encoding="utf-8")

"""One HTML file that shows `.attn` records, offline: the viewer's modules, its style and the records inside."""

import re
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files

from mirada.drawing.page import Markup, document, element, join
from mirada.errors import require

KIND = "application/octet-stream"  # a type that no browser runs
ENTRY = "page.js"
IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./([\w]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
BODY = "html, body { margin: 0; } body { background: light-dark(#f6f5f2, #0e1014); color-scheme: light dark; }"
THEMES = '[data-theme="light"] body { color-scheme: light; } [data-theme="dark"] body { color-scheme: dark; }'


def attention_page(records: Sequence[bytes], title: str, language: str = "", start: str = "") -> str:
    """A page of one record, or of two and their difference, as the text of one HTML file, to be written as UTF-8.

    `records` are the bytes of `.attn` files (`docs/attn.md`); a broken one is named in the page. `language` is "es" or "en";
    without one the page asks its address (`?lang=es`), then the browser. In the page, `window.mirada` has `streams` and
    `weights(name, head, query)`. Nothing is loaded from anywhere, and no content of a record can run.

    `start` says where to begin, as the page's address may too (`#view=graph&row=2`): view, stream, heads, row, column.

    >>> page = attention_page([b"no record"], "1 < 2")
    >>> page[:15], "<title>1 &lt; 2</title>" in page, 'data-record="0"' in page
    ('<!doctype html>', True, True)
    """
    require(len(records) in (1, 2), f"a page shows one record, or two and their difference: got {len(records)}")
    require(language in ("", "es", "en"), f"unknown language {language!r}; known: en, es")
    opening = element("p", "mirada", class_="opening")
    texts = [Markup(b64encode(record).decode()) for record in records]
    blocks = [element("script", text, type=KIND, data_record=str(index)) for index, text in enumerate(texts)]
    shown = element("div", opening, id="mirada", class_="mirada", data_language=language, data_start=start)
    without = element("noscript", element("p", "This page needs JavaScript. Esta página necesita JavaScript."))
    styles = (BODY, THEMES, module_text("attention.css"))
    return document(title, join([shown, without, *blocks]), styles=styles, scripts=(script(),))


def module_text(name: str) -> str:
    """A file of `drawing/viewer/static`: modules and a style, as they are; an app may serve the folder."""
    return files("mirada.drawing.viewer").joinpath("static", name).read_text(encoding="utf-8")


def script() -> str:
    """The modules as one script that imports nothing: each becomes a function of its own, after those it imports."""
    done: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        text = module_text(f"{name}.js")
        done[name] = ""  # while its imports are visited
        for _, other in IMPORT.findall(text):
            visit(other)
        done[name] = done.pop(name) or _wrapped(name, text)

    visit(ENTRY.removesuffix(".js"))
    return '"use strict";\n' + "\n".join(done.values())


def _wrapped(name: str, text: str) -> str:
    """A module as `const module_name = (() => { ...; return {exports}; })();`."""
    exported = EXPORT.findall(text)
    body = EXPORT.sub("", IMPORT.sub(lambda match: f"const {{ {match[1]} }} = module_{match[2]};\n", text))
    stray = re.search(r"^(?:import|export)\b.*", body, re.MULTILINE)
    require(
        stray is None,
        f'{name}.js: only `import {{ a, b }} from "./c.js";` and `export` of a declaration are bundled: {stray}',
    )
    return f"const module_{name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();\n"

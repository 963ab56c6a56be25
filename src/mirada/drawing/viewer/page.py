"""One HTML file that shows `.attn` records, offline: the viewer's modules, its style and the records inside."""

import re
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from math import inf

import numpy as np

from mirada.drawing.page import Markup, document, element, join
from mirada.errors import require

# Records as text inside a page: in base64, or denser where a record is large.


KIND = "application/octet-stream"  # a type that no browser runs
LARGE = 2 << 20  # bytes of a record above which a page in a file is written densely
LEFT_OUT = "\0\n\r<"  # what HTML would read as something else, or would not keep
OTHERS = 256  # the first of the letters that stand for one of these and what follows it: two bytes each in UTF-8
AT_ONCE = 7 << 17  # bytes: a multiple of seven
LETTER = re.compile(f"[{re.escape(LEFT_OUT)}].?", re.DOTALL)
PAIRS = {
    left_out + following: chr(OTHERS + 128 * place + (ord(following) if following else 0))
    for place, left_out in enumerate(LEFT_OUT)
    for following in ("", *map(chr, range(128)))
}


def _block(record: bytes, index: int, dense_above: float) -> Markup:
    """An element that holds a record: in base64, or in seven bits a byte if it has more bytes than `dense_above`.

    Base64 takes 4 bytes for 3, none of them odd; it cannot end the element. Dense text takes 8 bytes for 7: every
    character of ASCII stands for its number, but those which a page cannot hold, control characters among them. Each of
    these makes one letter together with the character that follows. `page.js` reads both.
    """
    if len(record) <= dense_above:
        return element("script", Markup(b64encode(record).decode()), type=KIND, data_record=str(index))
    return element("script", Markup(dense_text(record)), type=KIND, data_record=str(index), data_size=str(len(record)))


def dense_text(record: bytes) -> str:
    """Bytes as a text that takes 8 bytes of UTF-8 for 7.

    >>> dense_text(b"abcdefg").encode(), dense_text(bytes(2))
    (b'0XL6#\\x15Lg', 'ĀĀ')
    """
    parts = [_seven_bits(record[first : first + AT_ONCE]) for first in range(0, len(record), AT_ONCE)]
    count = -(-8 * len(record) // 7)  # characters that hold something
    return LETTER.sub(lambda found: PAIRS[found[0]], b"".join(parts)[:count].decode("ascii"))


def _seven_bits(part: bytes) -> bytes:
    """The bits of some bytes, seven in each byte, the first bit highest."""
    padded = np.frombuffer(part + bytes(-len(part) % 7), np.uint8).reshape(-1, 7).astype(np.uint64)
    whole = np.zeros(len(padded), np.uint64)
    for place in range(7):
        whole = (whole << np.uint64(8)) | padded[:, place]
    shifts = np.arange(49, -1, -7, dtype=np.uint64)
    return bytes(((whole[:, None] >> shifts) & np.uint64(127)).astype(np.uint8).tobytes())


ENTRY = "page.js"
IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./([\w]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
BODY = "html, body { margin: 0; } body { background: light-dark(#f6f5f2, #0e1014); color-scheme: light dark; }"
THEMES = '[data-theme="light"] body { color-scheme: light; } [data-theme="dark"] body { color-scheme: dark; }'


def attention_page(
    records: Sequence[bytes],
    title: str,
    language: str = "",
    start: str = "",
    dense_above: float = inf,
) -> str:
    """A page of one record, or of two and their difference, as the text of one HTML file, to be written as UTF-8.

    `records` are the bytes of `.attn` files (`docs/attn.md`); a broken one is named in the page. `language` is "es" or "en";
    without one the page asks its address (`?lang=es`), then the browser. In the page, `window.mirada` has `streams` and
    `weights(name, head, query)`. Nothing is loaded from anywhere, and nothing that a record says can run.

    `start` says where to begin, as the page's address may too (`#view=graph&row=2`): view, stream, heads, row, column.
    Records of more than `dense_above` bytes are written densely, with control characters among them: for pages in files.

    >>> page = attention_page([b"no record"], "1 < 2")
    >>> page[:15], "<title>1 &lt; 2</title>" in page, 'data-record="0"' in page
    ('<!doctype html>', True, True)
    """
    require(len(records) in (1, 2), f"a page shows one record, or two and their difference: got {len(records)}")
    require(language in ("", "es", "en"), f"unknown language {language!r}; known: en, es")
    opening = element("p", "mirada", class_="opening")
    blocks = [_block(record, index, dense_above) for index, record in enumerate(records)]
    shown = element("div", opening, id="mirada", class_="mirada", data_language=language, data_start=start)
    without = element("noscript", element("p", "This page needs JavaScript. Esta página necesita JavaScript."))
    styles = (BODY, THEMES, module_text("attention.css"))
    return document(title, join([shown, without, *blocks]), styles=styles, scripts=(script(),))


def module_text(name: str) -> str:
    """A file of static/attention: modules and a style, as they are; an app may serve the folder."""
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
    body = EXPORT.sub("", IMPORT.sub(lambda found: f"const {{ {found[1]} }} = module_{found[2]};\n", text))
    stray = re.search(r"^(?:import|export)\b.*", body, re.MULTILINE)
    require(
        stray is None,
        f'{name}.js: only `import {{ a, b }} from "./c.js";` and `export` of a declaration are bundled: {stray}',
    )
    return f"const module_{name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();\n"

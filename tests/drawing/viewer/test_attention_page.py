"""The page of attention, in a browser: its numbers are the record's, every view opens, nothing foreign runs or leaves."""

import json
import re
import shutil
import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from mirada.drawing.viewer.page import attention_page, module_text, script
from tests.drawing import attn_records
from tests.drawing.attn_records import RECORDS, Written, archive
from tests.drawing.conftest import Open, Opened
from tests.drawing.parsed import parse

MODULES = sorted(Path(str(files("mirada.drawing.viewer").joinpath("static"))).glob("*.js"))
WITHIN = 0.004
VIEWS = {
    "translation": "matrix heads lines play steps graph compare relations",
    "luong": "matrix heads lines play graph",
    "vit": "matrix heads lines picture graph",
    "caption": "matrix heads lines play picture graph",
    "gat": "matrix heads lines graph",
    "gpt": "matrix heads lines graph",
    "black-cat": "matrix heads lines steps graph",
}


@pytest.fixture(scope="module")
def written() -> dict[str, Written]:
    return {name: make() for name, make in RECORDS.items()}


def small(**fields: Any) -> Written:
    """Three queries, two keys, one head."""
    record = Written()
    record.text("rows", ["a", "b", "c"])
    record.text("columns", ["x", "y"])
    record.stream("one", "cross", "rows", "columns", np.array([[[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]]), **fields)
    return record


# the file


def test_only_the_bundled_modules_run() -> None:
    page = parse(attention_page([b"x"], "</title><script>alert(1)</script>"))
    scripts = page.all("script")
    assert [node.attributes.get("type") for node in scripts] == ["application/octet-stream", None]
    assert scripts[1].text == script()
    assert page.all("title")[0].text == "</title><script>alert(1)</script>"
    assert not [node for node in page.all() if node.attributes.get("src") or node.attributes.get("href")]


def test_the_bundle_holds_every_module_once_and_imports_nothing() -> None:
    bundle = script()
    for path in MODULES:
        assert bundle.count(f"const module_{path.stem} = ") == 1, path.name
    assert re.findall(r"^(?:import|export)\b", bundle, re.MULTILINE) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_makes_no_html_of_texts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|</script", text) == []
    )
    assert "fetch(" not in text or path.name == "mount.js"
    assert max(map(len, text.splitlines())) <= (500 if path.name == "words.js" else 140)


def test_every_word_has_both_languages() -> None:
    entries = re.findall(
        r'^  (\w+): \["((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\],$', module_text("words.js"), re.MULTILINE
    )
    names = {name for name, _, _ in entries}
    assert len(entries) == len(names) > 150
    for name, english, spanish in entries:
        assert english, name
        assert spanish, name
        assert sorted(set(re.findall(r"\{\d\}", english))) == sorted(set(re.findall(r"\{\d\}", spanish))), name
    code = "".join(path.read_text(encoding="utf-8") for path in MODULES)
    for used in re.findall(r'\bt\("(\w+)"', code):
        assert used in names, used
    for reason in re.findall(r'new RecordError\("(\w+)"', code):
        assert f"error_{reason}" in names, reason


def test_a_page_shows_one_or_two_records() -> None:
    with pytest.raises(ValueError, match="one record, or two"):
        attention_page([], "none")
    with pytest.raises(ValueError, match="known: en, es"):
        attention_page([b""], "x", "fr")


# numbers


@pytest.mark.parametrize("name", RECORDS)
def test_the_numbers_of_the_page_are_those_of_the_record(
    name: str, open_page: Open, written: dict[str, Written]
) -> None:
    record = written[name]
    page = open_page(record.bytes())
    wanted = [{key: stream[key] for key in ("name", "kind", "heads", "queries", "keys")} for stream in record.streams]
    assert page("window.mirada.streams") == wanted
    for stream in record.streams:
        exact = record.exact[stream["name"]]
        for head in {0, stream["heads"] - 1}:
            for query in {0, stream["queries"] // 2, stream["queries"] - 1}:
                np.testing.assert_allclose(page.weights(stream["name"], head, query), exact[head, query], atol=WITHIN)
    assert page("mirada.ready.then(() => true)") is True
    assert page.errors == []


def test_masks_of_windows_and_bits_and_exact_numbers(open_page: Open) -> None:
    random = np.random.default_rng(3)
    queries, keys, dim = 7, 11, 5
    q, k = random.normal(size=(2, queries, dim)).astype("<f2"), random.normal(size=(2, keys, dim)).astype("<f2")
    scores = np.einsum("hqd,hkd->hqk", q.astype(float), k.astype(float)) * 0.7
    near = np.arange(queries)[:, None] - np.arange(keys)
    masks = {"window": (near <= 2) & (near >= -1), "bits": random.random((queries, keys)) < 0.5, "complete": near < 99}
    masks["bits"][3] = False  # a query that sees nothing
    record = Written()
    record.text("rows", [f"q{place}" for place in range(queries)])
    record.text("columns", [f"k{place}" for place in range(keys)])
    kinds = {
        "window": {"kind": "window", "left": 2, "right": 1},
        "bits": {"kind": "bits", "data": record.blob(np.packbits(masks["bits"]).tobytes())},
        "complete": {"kind": "complete"},
    }
    for name, mask in masks.items():
        weights = np.where(mask, np.exp(scores), 0)
        exact = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
        data = {"q": record.blob(q.tobytes()), "k": record.blob(k.tobytes()), "scale": 0.7, "mask": kinds[name]}
        record.stream(name, "cross", "rows", "columns", exact, encoding="qk16", data=data)
    odd = random.normal(size=(1, queries, keys))
    odd[0, 2, 5] = np.nan
    record.stream("odd", "cross", "rows", "columns", odd, encoding="float32")
    page = open_page(record.bytes())
    for name in masks:
        for query in range(queries):
            np.testing.assert_allclose(page.weights(name, 1, query), record.exact[name][1, query], atol=1e-5)
    got = page("Array.from({length: 7}, (_, q) => mirada.weights('odd', 0, q).map((x) => Number.isNaN(x) ? null : x))")
    np.testing.assert_allclose(np.array(got, float), odd[0], atol=1e-6)
    for name in ("matrix", "lines", "graph", "heads"):
        page.view(name)
    assert "NaN" in page.view("matrix").inner_text()
    assert page.errors == []


def test_edges_with_exact_weights_and_what_is_not_there(open_page: Open) -> None:
    record = Written()
    record.axes["nodes"] = {"kind": "graph", "size": 3, "tokens": ["a", "b", "c"]}
    exact = np.array([[[0, 1.5, 0], [-0.25, 0, 1.25], [0, 0, 0]]])
    data = {
        "weights": record.blob(np.array([[1.5, -0.25, 1.25]], "<f4").tobytes()), "weights_type": "float32",
        "edges": record.blob(np.array([[1, 0, 2], [0, 1, 1]], "<i4").tobytes()),
    }  # fmt: skip
    record.stream("gat", "graph", "nodes", "nodes", exact, encoding="edges8", data=data)
    page = open_page(record.bytes())
    assert [page.weights("gat", 0, query).tolist() for query in range(3)] == exact[0].tolist()
    for bad in ("mirada.weights('no', 0, 0)", "mirada.weights('gat', 1, 0)", "mirada.weights('gat', 0, 3)"):
        message = page(f"(() => {{ try {{ {bad}; }} catch (error) {{ return error.message; }} }})()")
        assert "gat" in message


# views


@pytest.mark.parametrize("name", RECORDS)
def test_every_view_that_a_record_supports_opens(name: str, open_page: Open, written: dict[str, Written]) -> None:
    page = open_page(written[name].bytes())
    views = page("[...document.querySelectorAll('[data-view]')].map((element) => element.dataset.view)")
    assert views == VIEWS[name].split()
    for view in views:
        panel = page.view(view)
        assert panel.count() == 1
        assert len(panel.inner_text()) > 40
        assert panel.locator(".problem").count() == 0
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("file://")] == []
    assert len(page.requests) == 1


def test_two_records_have_a_difference(open_page: Open) -> None:
    a, b = attn_records.translation(0), attn_records.translation(7)
    page = open_page(a.bytes(), b.bytes())
    panel = page.view("difference")
    name = "decoder.layers.2.cross"
    moved = np.abs(a.exact[name].mean(0) - b.exact[name].mean(0)).sum(-1).mean() / 2
    assert abs(float(re.findall(r"([\d.]+)%", panel.locator(".moved").inner_text())[0]) / 100 - moved) < 0.01
    change = (b.exact[name].mean(0) - a.exact[name].mean(0))[0]
    first = panel.locator(".compare-table tbody tr").first.locator("td").last.inner_text()
    assert abs(float(first.replace("\u2212", "-")) - change[np.abs(change).argmax()]) < WITHIN
    other = small()
    assert "nothing to subtract" in open_page(a.bytes(), other.bytes()).view("difference").inner_text()


def test_answers_of_different_lengths_are_compared_as_far_as_both_go(open_page: Open) -> None:
    """A what-if that changes a translation often changes its length: what both have is still subtracted."""
    records, exact = [], []
    for rows in (7, 4):
        record = Written()
        record.text("source", ["the", "red", "house"])
        record.text("target", [f"w{place}" for place in range(rows)])
        exact.append(np.random.default_rng(rows).dirichlet(np.ones(3), (2, rows)))
        record.stream("decoder.cross", "cross", "target", "source", exact[-1])
        square = np.random.default_rng(rows).dirichlet(np.ones(rows), (2, rows))
        record.stream("decoder.self", "self", "target", "target", square)
        records.append(record.bytes())
    page = open_page(*records)
    panel = page.view("difference")
    text = panel.inner_text()
    assert "only the first 4 rows are in both" in text
    moved = np.abs(exact[0].mean(0)[:4] - exact[1].mean(0)).sum() / 2 / 4
    assert abs(int(re.search(r"On average (\d+)%", text)[1]) / 100 - moved) < 0.011
    page("window.mirada.viewer.app.set({ row: 6 })")  # which the second has not
    assert panel.locator(".row-mark:visible").count() == 0
    page("window.mirada.viewer.app.set({ stream: 1 })")
    assert "nothing to subtract" in panel.inner_text()
    assert panel.locator(".moved-head").count() == 2  # of the layer that both have
    assert page.errors == []


def test_the_matrix_is_a_table_too(open_page: Open, written: dict[str, Written]) -> None:
    page = open_page(written["black-cat"].bytes())
    cells = page(
        "[...document.querySelectorAll('.matrix-table tbody tr')]"
        ".map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent))"
    )
    np.testing.assert_allclose(np.array(cells, float), written["black-cat"].exact[""][0], atol=WITHIN)
    long = open_page(written["gpt"].bytes())
    long.page.click(".numbers summary")
    rows = long.page.locator(".matrix-table tbody tr")
    rows.first.wait_for()
    assert rows.count() == 200


def test_the_arithmetic_has_the_numbers_of_numpy(open_page: Open, written: dict[str, Written]) -> None:
    record = written["translation"]
    stream = next(one for one in record.streams if one["name"] == "encoder.layers.1.self")
    q, k = (np.frombuffer(record.blobs[stream["vectors"][name]], "<f4").reshape(4, 11, 16) for name in "qk")
    page = open_page(record.bytes(), start="view=steps&stream=encoder.layers.1.self&heads=2&row=4&column=3")
    line = page.page.locator(".step").nth(1).locator("tbody tr.chosen td").all_inner_texts()
    product = float(q[2, 4] @ k[2, 3])
    assert [float(line[1]), float(line[2])] == [pytest.approx(product, abs=0.006), pytest.approx(product / 4, abs=6e-4)]
    shown = page.page.locator(".step").nth(2).locator("tbody tr.chosen td").last.inner_text()
    assert float(shown) == pytest.approx(record.exact["encoder.layers.1.self"][2, 4, 3], abs=1e-4)


def test_the_lecture_stands_inside_its_hull_and_a_dragged_weight_moves_it(
    open_page: Open, written: dict[str, Written]
) -> None:
    page = open_page(written["black-cat"].bytes(), start="view=graph&row=2", query="?lang=es")
    formula = "negro = 0,025 el + 0,400 gato + 0,500 negro + 0,025 salta + 0,025 la + 0,025 cuerda"
    assert formula in " ".join(page.page.inner_text(".formula-line").split())
    star = "document.querySelector('.star').getAttribute('d')"
    before = page(star)
    page(
        "(() => { const slider = document.querySelectorAll('.weights input')[4]; slider.value = 0.8;"
        " slider.dispatchEvent(new Event('input')); })()"
    )
    assert page(star) != before
    told = page("[...document.querySelectorAll('.weights output')].map((o) => Number(o.textContent.replace(',', '.')))")
    wanted = np.array([0.025, 0.4, 0.5, 0.025, 0.025, 0.025])
    wanted = np.where(np.arange(6) == 4, 0.8, wanted * 0.2 / (1 - 0.025))
    np.testing.assert_allclose(told, wanted, atol=6e-4)


def test_the_meter_counts_what_is_not_drawn(open_page: Open, written: dict[str, Written]) -> None:
    record = written["luong"]
    page = open_page(record.bytes())
    page.view("lines")
    page(
        "(() => { const s = document.querySelector('.threshold input'); s.value = 0.5; s.dispatchEvent(new Event('input')); })()"
    )
    exact = record.exact["decoder.attention"][0]
    shown = exact[exact >= 0.25].sum() / exact.sum()
    assert abs(float(page("document.querySelector('[role=meter]').getAttribute('aria-valuenow')")) / 100 - shown) < 0.02


def test_even_attention_is_drawn_and_a_threshold_that_was_moved_stays(open_page: Open) -> None:
    """Where no weight stands out none is above the usual threshold: the views show all of them, not nothing."""
    record = Written()
    record.text("keys", [f"k{place}" for place in range(40)])
    record.text("queries", ["a", "b"])
    even = np.full((2, 2, 40), 1 / 40)
    even[1, :, 0], even[1, :, 1:] = 0.9, 0.1 / 39
    record.stream("decoder.cross", "cross", "queries", "keys", even)
    page = open_page(record.bytes())
    meter = "Number(document.querySelector('[role=meter]').getAttribute('aria-valuenow'))"
    page("window.mirada.viewer.app.set({ heads: [0] })")
    for view in ("lines", "graph"):
        page.view(view)
        assert page(meter) == 100
    page("window.mirada.viewer.app.set({ heads: [1] })")
    assert 85 <= page(meter) <= 95  # the strong weight only
    page(
        "(() => { const s = document.querySelector('.threshold input'); s.value = 1; s.dispatchEvent(new Event('input')); })()"
    )
    page("window.mirada.viewer.app.set({ heads: [0] })")
    assert page(meter) == 0


@pytest.mark.parametrize("low", [0.0, -0.5], ids=["shares", "signed"])
def test_what_a_record_has_not_leaves_no_word(low: float, open_page: Open) -> None:
    """Without probabilities, alternatives or a uniform weight to compare with there is nothing, not the word "null"."""
    record = Written()
    record.text("keys", ["a", "b", "c"])
    record.text("rows", ["x", "y"])
    weights = np.array([[[0.5, 0.5 - low, low], [0.25, 0.25, 0.5]]])
    record.stream("decoder.cross", "cross", "rows", "keys", weights, encoding="float32", normalizer="Identity()")
    record.more["outputs"] = [
        {"row": row, "text": text, "probability": None, "ranked": []} for row, text in enumerate("xy")
    ]
    page = open_page(record.bytes())
    for view in page("[...document.querySelectorAll('[data-view]')].map((tab) => tab.dataset.view)"):
        text = page.view(view).inner_text()
        assert not re.search(r"\b(null|undefined|NaN)\b", text), (view, text)


def test_playback_shows_probabilities_and_alternatives(open_page: Open, written: dict[str, Written]) -> None:
    page = open_page(written["translation"].bytes())
    panel = page.view("play")
    assert panel.locator(".said.now").inner_text() == "la"
    page.page.keyboard.press("ArrowRight")
    assert panel.locator(".said.now").inner_text() == "casa"
    assert "vivienda" in panel.locator(".chances").inner_text()
    page.page.keyboard.press("Space")
    panel.locator(".said.now", has_text="roja").wait_for()
    page.page.keyboard.press("Space")
    assert page.errors == []


# what if


def test_what_ifs_change_the_row_as_they_say(open_page: Open) -> None:
    record = attn_records.translation()
    name = "decoder.layers.2.cross"
    page = open_page(record.bytes(), start=f"stream={name}&heads=1&row=3&column=3")
    exact = record.exact[name][1, 3]
    row = "Array.from(mirada.viewer.app.row())"

    def do(change: dict[str, Any]) -> np.ndarray:
        page("(change) => mirada.viewer.app.set({changes: [change]})", {"layer": name, **change})
        return np.array(page(row))

    others = np.arange(len(exact)) != 3
    hidden = np.where(others, exact, 0) / exact[others].sum()
    np.testing.assert_allclose(do({"do": "MaskKey", "key": 3}), hidden, atol=2 * WITHIN)
    np.testing.assert_allclose(do({"do": "Cut", "query": 3, "key": 3, "head": 1}), hidden, atol=2 * WITHIN)
    np.testing.assert_allclose(do({"do": "Cut", "query": 2, "key": 3, "head": 1}), exact, atol=WITHIN)
    np.testing.assert_allclose(do({"do": "MaskKey", "key": 3, "head": 0}), exact, atol=WITHIN)
    forced = np.where(others, exact * 0.9 / exact[others].sum(), 0.1)
    np.testing.assert_allclose(do({"do": "Force", "query": 3, "key": 3, "weight": 0.1}), forced, atol=2 * WITHIN)
    assert do({"do": "DropHead", "head": 1}).tolist() == [0] * len(exact)
    assert "moves by" in page.text()
    np.testing.assert_allclose(page.weights(name, 1, 3), exact, atol=WITHIN)  # the record stays what it is
    page.page.click("text=undo all")
    page.page.click("text=cut this edge")
    assert page("mirada.viewer.app.state.changes") == [{"layer": name, "do": "Cut", "query": 3, "key": 3, "head": 1}]


def test_an_app_mounts_the_modules_and_runs_the_model_again(browser: Any, tmp_path: Path) -> None:
    """The same files as ES modules, from a server: a record by its address, what-ifs given back, a second run beside it."""
    shutil.copytree(MODULES[0].parent, tmp_path / "attention")
    (tmp_path / "a.attn").write_bytes(attn_records.translation(0).bytes())
    (tmp_path / "b.attn").write_bytes(attn_records.translation(7).bytes())
    (
        tmp_path / "index.html"
    ).write_text("""<!doctype html><link rel=icon href="data:,"><link rel=stylesheet href="attention/attention.css">
        <div id=here></div>
        <script type=module>
        import { mount } from "./attention/mount.js";
        window.events = [];
        window.viewer = mount(document.getElementById("here"), "a.attn", {
          language: "en", onChange: (event) => window.events.push(event),
          rerun: async (changes) => { window.asked = changes; return (await fetch("b.attn")).arrayBuffer(); },
        });
        </script>""")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SilentHandler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page = Opened(browser.new_page())
        page.page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.page.wait_for_selector("[data-view=matrix]")
        page("viewer.app.set({heads: [0], column: 2})")
        page.page.click("text=drop head 0")
        page.page.click("text=Run the model again")
        page.page.wait_for_selector("[data-panel=difference]")
        assert page("window.asked") == [{"layer": "decoder.layers.2.cross", "do": "DropHead", "head": 0}]
        assert page("window.events.some((event) => event.changes.length === 1 && event.changed.includes('changes'))")
        lightness = page(
            "import('./attention/palette.js').then((p) => [p.sequential(false), p.sequential(true)].map((one) => one.colors))"
        )
        assert page.errors == []
        page.page.close()
    finally:
        server.shutdown()
        server.server_close()
    for colors, sign in zip(lightness, (-1, 1), strict=True):
        assert (np.diff(luminance(np.array(colors))) * sign > -1e-3).all()  # one direction only, within rounding
        assert abs(luminance(np.array(colors))[-1] - luminance(np.array(colors))[0]) > 0.8


def test_what_ifs_on_a_part_of_a_graph_name_the_nodes_of_the_whole(open_page: Open) -> None:
    record = attn_records.gat()
    record.axes["nodes"]["places"] = [100 + 3 * node for node in range(34)]
    page = open_page(record.bytes())
    cut = {"layer": "layers.1", "do": "Cut", "query": 5, "key": 0}
    asked = page(
        """async (cut) => {
          const { viewer } = window.mirada;
          const { bytes } = viewer.records[0].archive;
          viewer.options.rerun = async (changes) => { window.asked = changes; return bytes; };
          viewer.show(bytes);
          await viewer.app.rerun([cut, { layer: "layers.0", do: "DropHead", head: 2 }]);
          return [window.asked, viewer.app.state.changes];
        }""",
        cut,
    )
    drop = {"layer": "layers.0", "do": "DropHead", "head": 2}
    assert asked == [
        [{**cut, "query": 115, "key": 100}, drop],
        [cut, drop],
    ]  # what the model is told, what the page shows


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def luminance(colors: np.ndarray) -> np.ndarray:
    parts = colors / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


# people


HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\u202eevil", "שלום", "مرحبا",
    "\U0001f469\u200d\U0001f467",
    "a\x00b\x07\n\t", "", " ", "x" * 2000, "&lt;b&gt;", "${alert(3)}", "constructor", "__proto__",
]  # fmt: skip
SPELLED = {  # tokens as they are shown: joiners belong to words of Persian and of the scripts of India, and hide elsewhere
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937": "\u0915\u094d\u200d\u0937",
    "pass\u200cword": "pass\\u200cword",
    "\u200c": "\\u200c",
    "\u0645\u200c\u200c\u062e": "\u0645\\u200c\\u200c\u062e",
    "\u0645\u200f\u062e": "\u0645\\u200f\u062e",
}


def test_hostile_tokens_stay_text(open_page: Open) -> None:
    count = len(HOSTILE)
    record = Written()
    record.text("tokens", HOSTILE)
    exact = attn_records.softmax(np.random.default_rng(0).normal(size=(2, count, count)))
    stream = record.stream("</script><b>", "self", "tokens", "tokens", exact)
    record.vectors(
        stream,
        np.zeros((2, count, 3)),
        np.zeros((2, count, 3)),
        np.random.default_rng(1).normal(size=(2, count, 3)),
        1.0,
    )
    record.more = {
        "made": {"task": "<i>", "input": HOSTILE[0]}, "answer": {"text": HOSTILE[1], "score": 1},
        "outputs": [{"row": row, "text": text, "probability": 0.5, "ranked": [[text, 0.5]]} for row, text in enumerate(HOSTILE)],
        "relations": [
            {"relation": HOSTILE[1], "stream": "</script><b>", "head": 0, "accuracy": 0.5, "baseline": 0.1, "offset": 1},
        ],
    }  # fmt: skip
    page = open_page(record.bytes())
    for view in page("[...document.querySelectorAll('[data-view]')].map((element) => element.dataset.view)"):
        page.view(view)
        for row in (0, 1, 9):
            page("(row) => mirada.viewer.app.set({row})", row)
        assert (
            page("document.querySelectorAll('img, iframe, b > b, i > i, script:not([data-record])').length") == 1
        )  # our own script
    page.view("matrix")
    strip = page.page.locator(".strip .word").all_inner_texts()
    assert strip[1] == HOSTILE[1]
    assert strip[2] == "\\u202eevil"
    assert strip[5] == HOSTILE[5]
    assert strip[6] == "a\\0b\\u0007\\n\\t"
    assert strip[9].endswith("…")
    assert len(strip[9]) <= 40
    assert page("[...document.querySelectorAll('.strip .word')].every((word) => word.localName === 'bdi')")
    page("mirada.viewer.app.set({row: 9})")
    assert page("[...document.querySelectorAll('.row-card [title]')].some((one) => one.title.length === 2000)")
    assert page.errors == []


def test_joiners_are_shown_where_they_hide_and_kept_where_they_belong(open_page: Open) -> None:
    record = Written()
    record.text("rows", ["a"])
    record.text("columns", list(SPELLED))
    record.stream("one", "cross", "rows", "columns", np.full((1, 1, len(SPELLED)), 1 / len(SPELLED)))
    page = open_page(record.bytes())
    assert page.page.locator(".strip").last.locator(".word").all_text_contents() == list(SPELLED.values())


def test_a_grid_may_name_its_own_cells(open_page: Open) -> None:
    record = Written()
    record.text("rows", ["a"])
    cells = {"kind": "grid", "size": 5, "height": 2, "width": 2, "before": ["[class]"]}
    record.axes |= {"named": {**cells, "tokens": ["all", "sky", "sun", "sea", "sand"]}, "plain": cells}
    for name in ("named", "plain"):
        record.stream(name, "vision", "rows", name, np.full((1, 1, 5), 0.2))
    page = open_page(record.bytes())
    tokens = page("mirada.viewer.records[0].streams.map((stream) => stream.columns.tokens)")
    assert tokens == [["all", "sky", "sun", "sea", "sand"], ["[class]", "1·1", "1·2", "2·1", "2·2"]]


def test_a_keyboard_is_enough(open_page: Open) -> None:
    page = open_page(attn_records.translation().bytes())
    state = (
        "(({view, stream, heads, row, language}) => ({view, stream, heads, row, language}))(mirada.viewer.app.state)"
    )
    press = page.page.keyboard.press
    press("ArrowRight")
    assert page(state)["heads"] == [0]
    press("ArrowLeft")
    assert page(state)["heads"] == [3]
    for _ in range(3):
        press("ArrowDown")
    press("ArrowUp")
    assert page(state)["row"] == 2
    assert "roja" in page("document.querySelector('.aloud').textContent")
    before = page(state)["stream"]
    press("[")
    assert page(state)["stream"] == before - 1
    press("a")
    assert page(state)["heads"] == [0, 1, 2, 3]
    for number, view in enumerate(VIEWS["translation"].split(), start=1):
        press(str(number))
        assert page(state)["view"] == view
    for letter, view in (("m", "matrix"), ("h", "heads"), ("g", "graph"), ("s", "steps")):
        press(letter)
        assert page(state)["view"] == view
    press("?")
    assert "previous or next head" in page.page.inner_text("dialog")
    press("Escape")
    page.page.locator("dialog").wait_for(state="detached")
    press("e")
    assert page(state)["language"] == "es"
    page.page.focus("[role=tab][aria-selected=true]")
    press("ArrowRight")
    assert page(state)["view"] == "graph"
    assert page.errors == []


def test_several_rows_are_shown_as_their_mean(open_page: Open, written: dict[str, Written]) -> None:
    record = written["black-cat"]
    page = open_page(record.bytes(), start="row=1")
    page("mirada.viewer.app.toggleRow(4)")
    mean = record.exact[""][0, [1, 4]].mean(0)
    np.testing.assert_allclose(page("Array.from(mirada.viewer.app.chosenMean())"), mean, atol=WITHIN)
    assert "mean of 2 rows" in page.page.inner_text(".row-card")
    page.page.keyboard.press("Escape")
    assert "query 5 of 6" in page.page.inner_text(".row-card")


def test_a_graph_of_very_many_nodes(open_page: Open) -> None:
    nodes, edges = 17_000, 40_000
    random = np.random.default_rng(0)
    target, source = np.sort(random.integers(0, nodes, edges)), random.integers(0, nodes, edges)
    record = Written()
    record.axes["nodes"] = {"kind": "graph", "size": nodes}
    data = {
        "weights": record.blob(random.integers(0, 256, (8, edges)).astype(np.uint8).tobytes()),
        "edges": record.blob(np.stack([source, target]).astype("<i4").tobytes()),
    }
    made = {
        "name": "gat",
        "kind": "graph",
        "heads": 8,
        "queries": nodes,
        "keys": nodes,
        "rows": "nodes",
        "columns": "nodes",
    }
    record.streams.append({**made, "encoding": "edges8", "data": data})
    page = open_page(record.bytes())
    for view in VIEWS["gat"].split():
        page.view(view)
    assert page.errors == []
    assert page.page.locator(".problem").count() == 0
    row = page.weights("gat", 7, int(target[0]))
    assert set(np.flatnonzero(row)) <= set(source[target == target[0]])


def test_both_languages(open_page: Open, written: dict[str, Written]) -> None:
    record = written["luong"].bytes()
    assert "Layers and heads" in open_page(record, query="?lang=en", locale="es-MX").text()
    assert "Capas y cabezas" in open_page(record, query="?lang=es").text()
    assert "Capas y cabezas" in open_page(record, locale="es-MX").text()
    assert "Capas y cabezas" in open_page(record, language="es").text()
    page = open_page(record)
    assert page("document.documentElement.lang") == "en"
    page.page.click("[aria-label='Cambiar a español']")
    assert "Capas y cabezas" in page.text()
    assert page("document.documentElement.lang") == "es"


def test_nothing_is_wider_than_a_phone(open_page: Open, written: dict[str, Written]) -> None:
    for name in ("translation", "caption", "gpt"):
        page = open_page(written[name].bytes(), viewport={"width": 390, "height": 844}, color_scheme="dark")
        for view in VIEWS[name].split():
            page.view(view)
            assert page("document.documentElement.scrollWidth") <= 390, (name, view)
        assert page.errors == []


def test_light_and_dark(open_page: Open, written: dict[str, Written]) -> None:
    page = open_page(written["luong"].bytes(), color_scheme="dark")
    ground = "getComputedStyle(document.querySelector('.mirada')).backgroundColor"
    dark = page(ground)
    page.page.keyboard.press("t")
    assert page(ground) != dark
    assert page("mirada.viewer.app.dark") is False


@pytest.mark.parametrize("tokens", [1, 2048])
def test_short_and_long_texts(tokens: int, open_page: Open) -> None:
    record = attn_records.gpt(tokens=tokens, layers=1, heads=1, dim=4)
    page = open_page(record.bytes())
    for view in VIEWS["gpt"].split():
        page.view(view)
    last = tokens - 1
    np.testing.assert_allclose(
        page.weights("blocks.0.self", 0, last), record.exact["blocks.0.self"][0, last], atol=1e-4
    )
    assert page.errors == []


def test_cautions_stand_in_the_figure(open_page: Open) -> None:
    checks = {"row_sum_min": 0.6, "row_sum_max": 1.2, "dropout": 0.1, "identical_rows": True, "empty_rows": 2}
    record = Written()
    record.text("rows", ["a", "b"])
    record.text("columns", ["x", "y", "z", "end"])
    made = record.stream("one", "cross", "rows", "columns", np.full((1, 2, 4), 0.25), checks=checks)
    made["statistics"] = [{"entropy": 0.3, "sink": {"key": 1, "mass": 0.8}}]
    told = open_page(record.bytes()).page.inner_text(".cautions")
    for words in (
        "80% of this head's attention rests on “y”",
        "between 0.600 and 1.200",
        "Dropout (0.10)",
        "All rows are the same",
        "may see nothing: 2",
    ):
        assert words in told
    assert "does not explain" in told


# broken records


def changed(change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> bytes:
    record = small()
    manifest, blobs = record.manifest(), dict(record.blobs)
    change(manifest, blobs)
    return archive({"manifest.json": json.dumps(manifest).encode(), **blobs})


def doubled() -> bytes:
    from io import BytesIO

    file = BytesIO(small().bytes())
    with ZipFile(file, "a") as target, pytest.warns(UserWarning, match="Duplicate"):
        target.writestr("data/0.bin", b"")
    return file.getvalue()


def damaged() -> bytes:
    data = bytearray(archive({**small().blobs, "manifest.json": json.dumps(small().manifest()).encode()}))
    place = data.index(b"data/0.bin") + len("data/0.bin")
    data[place] ^= 255
    return bytes(data)


CELLS = {"kind": "grid", "size": 10**9, "height": 10**9, "width": 1, "before": "abc"}


def edgeless(heads: int) -> bytes:
    """A graph without edges fits any number of heads."""
    record = small()
    data = {"weights": record.blob(b""), "edges": record.blob(b"")}
    record.streams[0].update(kind="graph", encoding="edges8", data=data, heads=heads)
    return record.bytes()


BROKEN = {
    "notZip": (lambda: b"", "not an .attn file"),
    "text": (lambda: b"hello" * 100, "not an .attn file"),
    "truncated": (lambda: small().bytes()[:-30], "not an .attn file"),
    "notRecord": (lambda: archive({"manifest.json": b"{}"}), "no record of attention"),
    "json": (lambda: archive({"manifest.json": b"{"}), "not JSON"),
    "missing": (lambda: archive({"data/0.bin": b""}), "manifest.json is missing"),
    "newer": (lambda: changed(lambda manifest, _: manifest.update(version=2)), "version 2"),
    "outside": (lambda: changed(lambda _, blobs: blobs.update({"../x": b""})), "../x"),
    "twice": (doubled, "data/0.bin is there twice"),
    "size": (lambda: changed(lambda _, blobs: blobs.update({"data/0.bin": b"12345"})), "5 bytes"),
    "axis": (lambda: changed(lambda manifest, _: manifest["axes"]["rows"].update(size=4)), "needs 4 tokens"),
    "fits": (lambda: changed(lambda manifest, _: manifest["streams"][0].update(rows="columns")), "2 places"),
    "absent": (lambda: changed(lambda manifest, _: manifest["streams"][0].update(rows="__proto__")), "__proto__"),
    "huge": (lambda: changed(lambda manifest, _: manifest["streams"][0].update(heads=10**9)), "2^31"),
    "places": (lambda: changed(lambda manifest, _: manifest["axes"].update(x={"kind": "plain", "size": 10**9})), "1048576"),
    "cells": (lambda: changed(lambda manifest, _: manifest["axes"].update(x=CELLS)), "1048576"),
    "before": (lambda: changed(lambda manifest, _: manifest["axes"].update(x={**CELLS, "size": 9, "height": 6})), "do not make"),
    "heads": (lambda: edgeless(10**9), "65536"),
    "count": (lambda: changed(lambda manifest, _: manifest["streams"][0].update(queries=-1)), "not a count"),
    "encoding": (lambda: changed(lambda manifest, _: manifest["streams"][0].update(encoding="toString")), "toString"),
    "none": (lambda: changed(lambda manifest, _: manifest.update(streams=[])), "nothing was looked at"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_named(name: str, open_page: Open) -> None:
    make, message = BROKEN[name]
    page = open_page(make())
    assert message in page.page.inner_text("[role=alert]")
    assert page("window.mirada.streams") == []
    assert page.errors == []


def test_a_blob_that_is_damaged_is_named_where_it_is_needed(open_page: Open) -> None:
    page = open_page(damaged(), query="?lang=es")
    assert "data/0.bin está dañado" in page.page.inner_text("[role=alert]")

"""The app in a browser: the form answers, a what-if changes the answer, nothing leaves this computer."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirada.web.app import STATIC_FOLDERS, Access, static_files
from tests.web.conftest import Live, Tried

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
STATIC = Path(__file__).parents[2] / "src" / "mirada" / "web" / "static"
Start = Callable[..., Live]
Trial = Callable[[str], Tried]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium. Where it must be there (MIRADA_BROWSER=required), its absence is a failure."""
    required = os.environ.get("MIRADA_BROWSER") == "required"
    if not required and not os.path.exists(CHROMIUM):
        pytest.skip("there is no Chromium here")
    api = pytest.importorskip("playwright.sync_api") if not required else __import__("playwright.sync_api").sync_api
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


class Visit:
    """A page of a server; what it asks for, and what goes wrong in it, is kept."""

    def __init__(self, browser: Any, server: Live, **more: Any) -> None:
        self.context = browser.new_context(locale=more.pop("locale", "en-US"), **more)
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.server = server

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.context.close()
        if kind is None:
            assert self.wrong == []
            assert [url for url in self.asked if not url.startswith((self.server.url, "blob:", "data:"))] == []


def ask(page: Any, text: str) -> str:
    """Type a text and press Enter; the answer that is shown."""
    page.fill("#input", text)
    page.press("#input", "Enter")
    page.wait_for_selector("#viewer [role=tab]")
    return str(page.inner_text("#answer .text"))


def test_the_form_answers_and_a_what_if_changes_the_answer(browser: Any, live: Start, trial: Trial) -> None:
    run, given = trial("classify")
    server = live("classify")
    with Visit(browser, server) as page:
        page.goto(server.url)
        assert page.inner_text("h1") == "What does this text say?"
        assert ask(page, given) == run(given).text
        assert page.locator(".ranked li").count() == 2
        streams = page.evaluate("window.mirada.streams")
        assert [stream["name"] for stream in streams] == run(given).look().names

        page.evaluate("window.mirada.app.set({stream: 0, heads: [0], column: 1})")
        page.click(".whatif button:has-text('head 0')")
        page.click(".whatif .primary")
        page.wait_for_selector(".change .after")
        changes = [{"layer": streams[0]["name"], "do": "DropHead", "head": 0}]
        with server.client() as client:
            wanted = client.post("/api/run", json={"inputs": [given], "changes": changes}).json()["answers"][0]
        before, after = (page.get_attribute(f".change .{side} .sure", "title") for side in ("before", "after"))
        assert float(before) == pytest.approx(run(given).score, abs=1e-6)
        assert float(after) == pytest.approx(wanted["score"], abs=1e-6)
        assert before != after
        page.click(".change .quiet")
        assert page.inner_text("#answer .text") == run(given).text


def test_the_viewer_keeps_its_own_look_and_fits_a_phone(browser: Any, live: Start, trial: Trial) -> None:
    """What the app says of its own texts and titles is not said of the viewer's; on a phone nothing lies on anything else."""
    _, given = trial("translate")
    server = live("translate")
    phone = {"width": 390, "height": 844}
    with Visit(browser, server, locale="es-ES", viewport=phone) as page:
        page.goto(server.url)
        ask(page, given)
        strip, body = (
            page.evaluate("(name) => getComputedStyle(document.querySelector(name)).fontSize", name)
            for name in ("#viewer .strip.text", "#viewer")
        )
        assert strip == body
        assert page.evaluate("getComputedStyle(document.querySelector('#viewer h3')).textTransform") == "none"
        told, tools = (page.locator(f"#attention > .head {part}").bounding_box() for part in ("p", ".tools"))
        apart = told["x"] + told["width"] <= tools["x"] or told["y"] + told["height"] <= tools["y"]
        assert apart, (told, tools)


def test_a_stream_may_hold_every_end_of_a_line(browser: Any, live: Start) -> None:
    server = live("write")
    with Visit(browser, server) as page:
        page.goto(server.url)
        given = "one\u2028two\u2029three\u0085four"
        assert ask(page, given).startswith(given)


def test_hostile_texts_stay_texts(browser: Any, live: Start) -> None:
    server = live("write")
    with Visit(browser, server) as page:
        page.goto(server.url)
        page.click("details.options summary")
        page.locator(".option input").first.wait_for()
        hostile = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
        assert ask(page, hostile).startswith(hostile)
        assert page.locator("#answer img, #answer script").count() == 0


def test_a_picture_is_uploaded_and_looked_at(browser: Any, live: Start, trial: Trial) -> None:
    run, given = trial("recognize")
    server = live("recognize", "translate")
    with Visit(browser, server) as page:
        page.goto(f"{server.url}/?run=recognize")
        page.set_input_files("#file", given)
        page.wait_for_selector("#viewer [role=tab]")
        assert page.inner_text("#answer .text") == run(given).text
        page.select_option("#run", "translate")
        assert page.inner_text("h1") == "Translate a sentence"
        assert page.is_hidden("#attention")


def test_candidates_are_asked_about_a_picture(browser: Any, live: Start, trial: Trial) -> None:
    run, given = trial("recognize")
    labels = [str(label) for label in run.known.labels[:2]]
    server = live("recognize")
    with Visit(browser, server) as page:
        page.goto(server.url)
        page.click("details.options summary")
        page.get_by_label("Candidates").fill(", ".join(labels))
        page.set_input_files("#file", given)
        page.wait_for_selector("#viewer [role=tab]")
        assert set(page.locator("#answer .ranked .name").all_inner_texts()) == set(labels)


def test_two_languages_dark_mode_and_a_phone(browser: Any, live: Start) -> None:
    server = live("translate")
    with Visit(browser, server, locale="es-ES", viewport={"width": 390, "height": 844}, color_scheme="dark") as page:
        page.goto(server.url)
        assert page.inner_text("h1") == "Traduce una frase"
        ask(page, "I see a red house.")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # nothing to scroll sideways
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 16, 20)"
        page.click("#language")
        assert page.inner_text("h1") == "Translate a sentence"
        assert page.input_value("#input") == "I see a red house."
        page.click("#theme")
        page.click("#theme")
        assert page.get_attribute("html", "data-theme") == "light"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 245, 242)"


def test_all_can_be_done_with_the_keyboard(browser: Any, live: Start) -> None:
    server = live("translate")
    with Visit(browser, server) as page:
        page.goto(server.url)
        page.wait_for_selector("#input:focus")  # it waits for a text
        page.keyboard.type("we buy a car.")
        page.keyboard.press("Enter")
        page.wait_for_selector("#viewer [role=tab]")
        names = []
        for _ in range(12):
            page.keyboard.press("Tab")
            names.append(
                page.evaluate(
                    "document.activeElement.tagName + '.' + (document.activeElement.id || document.activeElement.className)"
                )
            )
        assert "BUTTON.go" in names
        assert "BUTTON.save" in names


def test_a_token_is_taken_from_the_address_and_not_left_there(browser: Any, live: Start) -> None:
    secret = "a-token-of-some-length"
    server = live("classify", access=Access(secret, local=False, log=False))
    visit = Visit(browser, server)
    with visit as page:
        page.goto(f"{server.url}/#token={secret}")
        page.wait_for_selector("#input")
        assert secret not in page.url
        assert all(secret not in url.partition("#")[0] for url in visit.asked)
        page.evaluate("sessionStorage.clear()")
        page.goto(server.url)
        page.fill("#token", secret)
        page.press("#token", "Enter")
        page.wait_for_selector("#input")
        visit.wrong.clear()  # the browser notes the 401


def test_the_description_is_a_page_that_works_offline(browser: Any, live: Start) -> None:
    server = live("classify")
    with Visit(browser, server) as page:
        page.goto(f"{server.url}/docs")
        page.wait_for_selector("article")
        page.locator("article", has_text="/api/health").get_by_role("button").click()
        page.wait_for_selector("pre:has-text('classify')")


def test_errors_are_told_in_the_page(browser: Any, live: Start) -> None:
    server = live("translate")
    visit = Visit(browser, server)
    with visit as page:
        page.goto(server.url)
        page.click(".go")
        assert page.inner_text(".form .problem") == "Write something first."
        page.fill("#input", "word " * 500)
        page.click(".go")
        page.wait_for_selector("#answer .problem")
        assert "2502 tokens" in page.inner_text("#answer .problem")
        assert len(visit.wrong) == 1
        assert "status of 422" in visit.wrong.pop()  # how a stream is refused


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_what_a_model_says_can_only_become_text(path: Path) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://(?!www\.w3\.org/2000/svg)"
    assert re.findall(forbidden, path.read_text(encoding="utf-8")) == []


def test_every_text_of_the_page_is_in_both_languages() -> None:
    words = (STATIC / "words.js").read_text(encoding="utf-8")
    known = dict(re.findall(r"^  (\w+): \[(.*)\],$", words, re.MULTILINE))
    assert len(known) > 60
    assert [name for name, parts in known.items() if len(re.findall(r'"(?:[^"\\]|\\.)*"', parts)) != 2] == []
    used = {
        name for path in STATIC.glob("*.js") for name in re.findall(r'\bt\("(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert used - set(known) == set()


def test_all_files_are_ours_and_known() -> None:
    files = static_files()
    assert {"app.html", "app.js", "app.css", "docs.html", "attention/mount.js", "attention/attention.css"} <= set(files)
    assert set(STATIC_FOLDERS) == {"", "attention/"}

"""A browser for the pages of attention."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirada.drawing.viewer.page import attention_page

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, where there is one; `MIRADA_BROWSER=required` fails instead of skipping."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        message = "these tests need Chromium and playwright"
        pytest.fail(message) if os.environ.get("MIRADA_BROWSER") == "required" else pytest.skip(message)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield started
        started.close()


class Opened:
    """A page in a browser, with all that went wrong in it and all that it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))

    def __call__(self, expression: str, *argument: Any) -> Any:
        return self.page.evaluate(expression, *argument)

    def weights(self, name: str, head: int, query: int) -> np.ndarray:
        return np.array(self("([name, head, query]) => window.mirada.weights(name, head, query)", [name, head, query]))

    def view(self, name: str) -> Any:
        self.page.click(f"[data-view={name}]")
        return self.page.locator(f"[data-panel={name}]")

    def text(self) -> str:
        return str(self.page.inner_text("body"))


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def contexts(browser: Any) -> dict[str, Any]:
    """Windows of a browser by their options, made once."""
    return {}


@pytest.fixture
def open_page(browser: Any, contexts: dict[str, Any], tmp_path: Path) -> Iterator[Open]:
    pages: list[Any] = []

    def open_page(*records: bytes, query: str = "", language: str = "", start: str = "", **options: Any) -> Opened:
        file = tmp_path / f"page-{len(pages)}.html"
        file.write_text(attention_page(records, "a page", language, start), encoding="utf-8")
        options.setdefault("viewport", {"width": 1280, "height": 800})
        options.setdefault("locale", "en-US")
        key = json.dumps(options)
        if key not in contexts:
            contexts[key] = browser.new_context(**options)
        pages.append(contexts[key].new_page())
        opened = Opened(pages[-1])
        opened.page.goto(f"file://{file}{query}")
        return opened

    yield open_page
    for page in pages:
        page.close()

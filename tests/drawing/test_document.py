"""The frame of a page: only its own scripts run, and nothing is loaded."""

import base64
import hashlib

from mirada.drawing.page import document, element, static
from tests.drawing.parsed import parse

HOSTILE = "</script></style><img src=x onerror=\"alert('1')\"> <b>& &amp; -->"


def policy_of(page: str) -> str:
    (policy,) = [node for node in parse(page).all("meta") if node.attributes.get("http-equiv")]
    assert policy.attributes["http-equiv"] == "Content-Security-Policy"
    return policy.attributes["content"] or ""


def test_only_the_scripts_of_the_page_may_run() -> None:
    scripts = (static("page.js"), "document.title += 1;")
    page = document(HOSTILE, element("p", HOSTILE), scripts=scripts)
    assert [node.text for node in parse(page).all("script")] == list(scripts)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert policy_of(page).endswith(f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}'")


def test_nothing_is_loaded_but_what_is_written_in_the_page() -> None:
    rules = dict(rule.split(" ", 1) for rule in policy_of(document("x", element("p"))).split("; "))
    assert rules == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:", "base-uri": "'none'",
        "form-action": "'none'", "script-src": "'none'",
    }  # fmt: skip


def test_styles_come_before_and_scripts_after_the_body() -> None:
    root = parse(document("t", element("main", "seen"), styles=("a {}", "b {}"), scripts=("1;",)))
    names = [node.name for node in root.all() if node.name in ("style", "body", "main", "script")]
    assert names == ["style", "style", "body", "main", "script"]
    assert root.all("title")[0].text == "t"

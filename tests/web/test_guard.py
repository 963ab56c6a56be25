"""No page elsewhere may talk to the server: Host, Origin, token, headers."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from mirada.web.app import Access
from mirada.web.guard import POLICY
from mirada.web.options import Limits

Client = Callable[..., TestClient]
SECRET = "a-token-of-some-length"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost:8000", "localhost", "[::1]:8000", "127.0.0.1:9999", "127.8.8.8"]
)
def test_names_of_this_computer_are_answered(client: Client, host: str) -> None:
    assert client("classify").get("/api/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "192.168.1.5",
        "127.0.0.1.evil.example",
        "",
        "[",
        "a b",
    ],
)
def test_other_names_are_refused(client: Client, host: str) -> None:
    for path in ("/", "/api/health", "/static/app.js"):
        response = client("classify").get(path, headers={"host": host})
        assert response.status_code == 403
        assert "error" in response.json()


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8000", "file://"]
)
def test_pages_elsewhere_are_refused(client: Client, origin: str) -> None:
    response = client("classify").post("/api/run", json={"inputs": ["a"]}, headers={"origin": origin})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_our_own_page_is_answered(client: Client) -> None:
    web = client("classify")
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert web.post("/api/run", json={"inputs": ["a"]}, headers=headers).status_code == 200
    assert web.options("/api/run", headers={"origin": "http://evil.example"}).status_code == 403


def test_a_request_that_a_browser_says_comes_from_elsewhere_is_refused(client: Client) -> None:
    web = client("classify")
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert web.get("/api/metrics", headers=elsewhere).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert web.get("/", headers=link).status_code == 200  # a link to the page is harmless
    assert web.get("/api/health", headers=link).status_code == 403


def test_a_token_is_wanted_for_everything_that_tells_something(client: Client) -> None:
    web = client("classify", access=Access(SECRET, ("my.host",), local=False, log=False))
    for path in ("/api/health", "/api/metrics", "/api/samples", "/openapi.json"):
        refused = web.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert SECRET not in refused.text
        assert web.get(path, headers={"authorization": f"Bearer {SECRET}"}).status_code == 200
        for wrong in (f"Bearer {SECRET}x", "Bearer ", f"Basic {SECRET}", SECRET, "Bearer é"):
            assert web.get(path, headers={"authorization": wrong.encode()}).status_code == 401
    assert web.get("/").status_code == 200
    assert web.get("/docs").status_code == 200
    right = {"authorization": f"Bearer {SECRET}"}
    assert web.post("/api/run", json={"inputs": ["a"]}, headers=right).status_code == 200
    assert web.get("/api/health", headers=right | {"host": "my.host"}).status_code == 200
    assert web.get("/api/health", headers=right | {"host": "192.168.1.5"}).status_code == 200
    assert web.get("/api/health", headers=right | {"host": "evil.example"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/docs", "/static/app.js", "/api/health", "/nowhere"])
def test_security_headers_are_sent(client: Client, path: str) -> None:
    headers = client("classify").get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    if path.startswith("/api"):
        assert headers["cache-control"] == "no-store"


def test_the_log_has_a_line_for_every_request(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    web = client("classify", access=Access())
    web.get("/api/health?secret=1")
    web.get("/%0d%0aforged")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert '"GET /api/health" 200' in lines[0]
    assert "secret" not in lines[0]
    assert '"GET /%0d%0aforged" 404' in lines[1]


def test_too_many_requests_at_once_are_refused(client: Client) -> None:
    web = client("classify", limits=Limits(connections=0))
    refused = web.get("/api/health")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")

"""The description of the API is true, and no request made from it, or against it, makes the server fail."""

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from starlette.testclient import TestClient

from mirada.web.app import Access
from mirada.web.options import Limits

Client = Callable[..., TestClient]
CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]
LIMITS = Limits(inputs=4, characters=300)  # small, so that what is made from the description stays quick
NAMED = Access(hosts=("testserver",), log=False)


def test_the_description_names_every_route_and_option(client: Client) -> None:
    found = client("translate").get("/openapi.json").json()
    assert set(found["paths"]) == {"/api/run", "/api/look", "/api/health", "/api/samples", "/api/metrics"}
    fields = found["paths"]["/api/run"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert {"inputs", "run", "stream", "changes", "beam", "temperature", "truncate"} <= set(fields)
    assert fields["beam"]["maximum"] == 32
    assert "multipart/form-data" not in found["paths"]["/api/run"]["post"]["requestBody"]["content"]
    described = found["components"]["schemas"]["Health"]["properties"]
    assert set(client("translate").get("/api/health").json()) == set(described)
    files = client("recognize", "translate").get("/openapi.json").json()
    assert "multipart/form-data" in files["paths"]["/api/look"]["post"]["requestBody"]["content"]


def requests(web: TestClient, examples: int) -> int:
    """Send requests made from the description, valid and not; how many were sent."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", web.app)
    sent = 0
    for operation in schema.get_all_operations():
        api = operation.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            strategy = api.as_strategy(generation_mode=mode)

            @hypothesis.settings(
                max_examples=examples, deadline=None, database=None, derandomize=True,
                suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate],
            )  # fmt: skip
            @hypothesis.given(case=strategy)
            def send(case: Any) -> None:
                nonlocal sent
                sent += 1
                case.call_and_validate(checks=CHECKS)

            try:
                send()
            except hypothesis.errors.Unsatisfiable:
                continue  # nothing about this route can be wrong
    return sent


@pytest.mark.parametrize("task", ["translate", "recognize"])
def test_no_generated_request_makes_the_server_fail(client: Client, task: str) -> None:
    assert requests(client(task, limits=LIMITS, access=NAMED), 8) >= 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "tasks", [("translate",), ("write", "answer"), ("recognize", "label"), ("forecast",), ("transcribe",)]
)
def test_no_generated_request_makes_the_server_fail_at_length(client: Client, tasks: tuple[str, ...]) -> None:
    assert requests(client(*tasks, limits=LIMITS, access=NAMED), 300) >= 1000

"""Responses: JSON that is JSON, errors in one form, events of a stream."""

import json
import math
from typing import Any

from starlette.responses import Response

from mirada.web.limits import Refused

ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # to make one takes as long as to write a response


def json_bytes(value: Any) -> bytes:
    r"""A value as JSON: no NaN, and what is no UTF-8 is escaped.

    >>> json_bytes({"text": "niña", "score": float("nan")}).decode()
    '{"text": "niña", "score": null}'
    """
    try:
        return ENCODER.encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(finite(value)).encode()
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False).encode(errors="replace")


def finite(value: Any) -> Any:
    """The value with null in the place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes(value), status, headers, "application/json")


def error_response(refused: Refused) -> Response:
    """Why a request was not answered."""
    return json_response({"error": refused.why}, refused.status, refused.headers)


def event(value: Any, name: str = "") -> bytes:
    r"""A server-sent event.

    >>> event({"text": "a"}, "done")
    b'event: done\ndata: {"text": "a"}\n\n'
    """
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + json_bytes(value) + b"\n\n"

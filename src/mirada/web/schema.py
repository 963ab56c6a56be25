"""The OpenAPI description of the API: `GET /openapi.json`."""

from typing import Any

import mirada
from mirada.looking.change.changes import CHANGES
from mirada.runs.ask import Option
from mirada.web.options import TYPES, Limits
from mirada.web.runs import FILES, ServedRuns

Schema = dict[str, Any]
EVENT_FIELDS = {"event": {"type": "string"}, "data": {"type": "string"}}  # of a server-sent event; its data is JSON
EVENT: Schema = {"type": "object", "required": ["data"], "properties": EVENT_FIELDS}
ERRORS = {
    "400": "What is wrong with the request.",
    "401": "A token is needed.",
    "403": "A Host or an Origin that is not ours.",
    "404": "There is no such run.",
    "408": "The request arrived too slowly.",
    "413": "The request is too large.",
    "415": "Neither JSON nor a form.",
    "422": "The input cannot be answered.",
    "503": "Too many requests wait; Retry-After says when to ask again.",
    "504": "There was no answer in time.",
}


def openapi(runs: ServedRuns, limits: Limits, token: bool) -> Schema:
    """The OpenAPI document for the runs that are served."""
    properties = {name: _property(option, limits) for served in runs for name, option in served.ask_options.items()}
    names = [served.name for served in runs]
    about = "Which run is asked; it may be left out if there is one."
    run: Schema = {"type": "string", "enum": names, "description": about}
    needed = ["run"] if len(names) > 1 else []
    item, file_too = _input_schema(runs, limits)
    changes: Schema = {"type": "array", "items": _ref("Change"), "maxItems": limits.changes}
    inputs = {"type": "array", "items": item, "minItems": 1, "maxItems": limits.inputs}
    stream = {"type": "boolean", "description": "Server-sent events: pieces of text, then done. One input."}
    shared = {"run": run, **properties, "changes": changes}
    run_fields = _object_of({"inputs": inputs, **shared, "stream": stream}, ["inputs", *needed])
    methods = {"type": "boolean", "description": "Rollout, gradients and ablation next to the weights: slower."}
    look_fields = _object_of({"input": item, **shared, "methods": methods}, ["input", *needed])
    answers = {"application/json": {"schema": _ref("Answers")}, "text/event-stream": {"schema": EVENT}}
    record = {"application/zip": {"schema": {"type": "string", "format": "binary"}}}
    run_body, look_body = _body(run_fields, file_too, needed), _body(look_fields, file_too, needed)
    run_parameter = {"parameters": [{"name": "run", "in": "query", "required": True, "schema": run}]} if needed else {}
    counters = {"text/plain": {"schema": {"type": "string"}}}
    description = "Answers, and the attention behind them."
    document: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "mirada", "version": mirada.__version__, "description": description},
        "paths": {
            "/api/run": {"post": _operation("Answers to inputs.", answers, run_body)},
            "/api/look": {"post": _operation("All attention behind an answer: a .attn file.", record, look_body)},
            "/api/health": {"get": _operation("The runs that are served.", _json(_ref("Health")))},
            "/api/samples": {"get": _operation("Inputs to try.", _json({"type": "object"}), run_parameter)},
            "/api/metrics": {"get": _operation("Counters in the text format of Prometheus.", counters)},
        },
        "components": {"schemas": _schemas()},
    }
    if token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _input_schema(runs: ServedRuns, limits: Limits) -> tuple[Schema, bool]:
    """The schema of an input, and whether it may be a file."""
    kinds = {served.task.input_kind for served in runs}
    text: Schema = {"type": "string", "maxLength": limits.characters}
    file: Schema = _object_of({"name": {"type": "string"}, "base64": {"type": "string", "format": "byte"}}, ["base64"])
    if not kinds & set(FILES):
        return text, False
    return (file if kinds <= set(FILES) else {"oneOf": [text, file]}), True


def _property(option: Option, limits: Limits) -> Schema:
    """The schema of an option."""
    schema: Schema = {"type": TYPES[option.kind]}
    if option.kind is tuple:
        schema |= {"items": {"type": "string"}, "maxItems": limits.candidates}
    if option.bounds:
        schema["minimum"], schema["maximum"] = option.bounds
    if option.kind is str:
        schema["maxLength"] = limits.characters
    return schema | ({"description": option.about} if option.about else {})


def _object_of(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _body(fields: Schema, files: bool, needed: list[str]) -> Schema:
    """The request body of a POST: JSON, or a form with files."""
    content = _json(fields)
    if files:
        shared = {name: {"type": "string"} for name in fields["properties"] if name not in ("inputs", "input")}
        file = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}
        content["multipart/form-data"] = {"schema": _object_of({"file": file, **shared}, ["file", *needed])}
    return {"requestBody": {"required": True, "content": content}}


def _operation(summary: str, answer: Schema, request: Schema | None = None) -> Schema:
    """An operation: its request, its response, and its errors."""
    errors = {status: {"description": about, "content": _json(_ref("Error"))} for status, about in ERRORS.items()}
    responses = {"200": {"description": summary, "content": answer}, **errors}
    return {"summary": summary, **(request or {}), "responses": responses}


def _schemas() -> Schema:
    """The schemas that `$ref` refers to."""
    place = {"type": "integer", "minimum": 0}
    counted = "as the layer counts it: a row or column of the .attn file; of a part of a graph, its `places` there"
    parts = {
        "layer": {"type": "string", "description": "The dotted name of a layer, as in the .attn file."},
        "do": {"type": "string", "enum": sorted(CHANGES)},
        "head": place,
        "query": place | {"description": f"A query, {counted}."},
        "key": place | {"description": f"A key, {counted}."},
        "weight": {"type": "number", "minimum": 0, "maximum": 1},
    }
    change = _object_of(parts, ["layer", "do"])
    text, number = {"type": "string"}, {"type": ["number", "null"]}
    ranked = {"type": "array", "items": {"type": "object", "properties": {"text": text, "score": number}}}
    place_in_text, texts = {"type": ["integer", "null"]}, {"type": "array", "items": text}
    numbers = {"type": "array", "items": {"type": "array", "items": number}}
    answer = {
        "type": "object", "required": ["input"],
        "properties": {
            "input": text, "text": text, "score": number, "ranked": ranked, "error": text,
            "start": place_in_text, "end": place_in_text, "times": texts, "columns": texts, "values": numbers,
        },
    }  # fmt: skip
    run = dict.fromkeys(("name", "task", "model", "about", "input", "takes"), text)
    served = {"type": "object", "required": ["name", "task", "model"], "properties": run}
    answers = {"answers": {"type": "array", "items": _ref("Answer")}}
    runs = {"type": "array", "items": served}
    health = {"status": {"const": "ok"}, "task": text, "model": text, "version": text, "runs": runs}
    return {
        "Change": change,
        "Answer": answer,
        "Answers": {"type": "object", "required": ["answers"], "properties": answers},
        "Error": {"type": "object", "required": ["error"], "properties": {"error": text}},
        # task and model are present if one run is served
        "Health": {"type": "object", "required": ["status", "version", "runs"], "properties": health},
    }

"""Every route: the API answers as the run does, and errors of a request are reported in JSON."""

import base64
import io
import json
import re
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import mirada
from mirada.tasks.forecast import next_rows
from mirada.web.api import explained
from mirada.web.options import Limits
from tests.tasks.every_model import CASES
from tests.web.conftest import Tried, file_of

Client = Callable[..., TestClient]
Trial = Callable[[str], Tried]
TASKS = sorted({case.task for case in CASES})
FILES = ("caption", "forecast", "recognize", "transcribe")


def post(client: TestClient, path: str = "/api/run", **fields: Any) -> tuple[int, dict[str, Any]]:
    response = client.post(path, json=fields)
    return response.status_code, response.json()


def close(found: Any, wanted: Any) -> bool:
    """Equal, numbers nearly."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(close(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    return found == pytest.approx(wanted, rel=1e-4, abs=1e-5) if isinstance(wanted, float) else found == wanted


def sent(client: TestClient, task: str, given: str, path: str, **fields: Any) -> Any:
    """An input in the form that the task takes: JSON, or a file of a form."""
    if task in FILES:
        return client.post(path, files=file_of(given), data={name: json.dumps(value) for name, value in fields.items()})
    one = {"inputs": [given]} if path == "/api/run" else {"input": given}
    return client.post(path, json={**one, **fields})


@pytest.mark.parametrize("task", TASKS)
def test_every_task_answers_as_the_run_does_and_can_be_looked_at(
    task: str, client: Client, trial: Trial, tmp_path: Path
) -> None:
    run, given = trial(task)
    web = client(task)
    (answer,) = sent(web, task, given, "/api/run").json()["answers"]
    (wanted,) = [answer.to_dict() for answer in run.answers_in_place([given])]
    if task in FILES:
        wanted["input"] = Path(given).name
    assert close(answer, json.loads(json.dumps(wanted)))

    looked = sent(web, task, given, "/api/look")
    assert looked.headers["content-type"] == "application/zip"
    manifest = json.loads(zipfile.ZipFile(io.BytesIO(looked.content)).read("manifest.json"))
    assert manifest["made"]["run"] == task
    assert manifest["made"]["task"] == task
    assert str(run.folder) not in json.dumps(manifest)
    assert manifest["streams"]
    assert manifest["changes"] == []

    layer = manifest["streams"][-1]["name"]
    changes = [{"layer": layer, "do": "DropHead", "head": 0}]
    changed = sent(web, task, given, "/api/look", changes=changes)
    assert changed.status_code == 200, changed.text
    assert json.loads(zipfile.ZipFile(io.BytesIO(changed.content)).read("manifest.json"))["changes"] == changes
    (tmp_path / "x.attn").write_bytes(changed.content)
    seen = mirada.Seen.load(tmp_path / "x.attn")
    assert float(seen[layer].weights(head=0).abs().max()) == 0


def test_health_tells_the_task_and_the_model(client: Client) -> None:
    found = client("classify").get("/api/health").json()
    assert (found["status"], found["task"], found["model"]) == ("ok", "classify", "transformer")
    several = client("classify", "translate").get("/api/health").json()
    assert [(run["name"], run["task"]) for run in several["runs"]] == [
        ("classify", "classify"),
        ("translate", "translate"),
    ]
    assert "task" not in several


@pytest.mark.parametrize("task", TASKS)
def test_health_tells_what_to_send_in_words_of_the_api(client: Client, task: str) -> None:
    (run,) = client(task).get("/api/health").json()["runs"]
    assert run["takes"]
    assert not re.search(r"--|FILE|path|folder|morse:", run["takes"])
    assert ("files of a form or base64" in run["takes"]) == (task in FILES)
    assert ("passage" in run["takes"]) == (task == "answer")


def test_several_runs_are_distinguished_by_name(client: Client) -> None:
    web = client("classify", "translate")
    status, found = post(web, inputs=["a good film"], run="classify")
    assert status == 200
    assert found["answers"][0]["text"] in ("good", "bad")
    assert post(web, inputs=["a"]) == (
        400,
        {"error": 'several runs are served: choose one with "run"; known: classify, translate'},
    )
    status, found = post(web, inputs=["a"], run="clasify")
    assert status == 404
    assert "Did you mean 'classify'?" in found["error"]
    assert post(web, inputs=["a"], run=3)[0] == 400


def test_options_are_those_of_the_command_line(client: Client, trial: Trial) -> None:
    run, _ = trial("translate")
    found = post(client("translate"), inputs=["I see a red house."], beam=4, best=2, truncate=True)[1]["answers"][0]
    wanted = run("I see a red house.", beam=4, best=2)
    assert [item["text"] for item in found["ranked"]] == [text for text, _ in wanted.ranked]
    ranked = post(client("classify"), inputs=["a good film"], candidates=["bad", "good"])[1]["answers"][0]["ranked"]
    assert {item["text"] for item in ranked} == {"bad", "good"}


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({}, 400, "inputs"),
        ({"inputs": "text"}, 400, "inputs must be a list: got 'text'"),
        ({"inputs": []}, 400, "empty"),
        ({"inputs": ["a"], "beam": "four"}, 400, "beam must be a whole number: got 'four'"),
        ({"inputs": ["a"], "beam": 2.5}, 400, "beam must be a whole number: got 2.5"),
        ({"inputs": ["a"], "beam": True}, 400, "beam must be a whole number: got true"),
        ({"inputs": ["a"], "beam": 10**9}, 400, "beam must be 1 to 32: got 1000000000"),
        ({"inputs": ["a"], "temperature": 1e-300}, 400, "temperature must be 0, or 0.01 to 100"),
        ({"inputs": ["a"], "beam": 4, "temperature": 1}, 400, "a beam draws nothing"),
        ({"inputs": ["a"], "truncate": "maybe"}, 400, "truncate must be true or false"),
        ({"inputs": ["a"], "candidates": ["x"]}, 400, "'candidates' is not used by translate; it takes beam, best"),
        ({"inputs": ["a"], "aligned": True}, 400, "'aligned' is not used by translate"),
        ({"inputs": ["a"], "stream": 1}, 400, "stream must be true or false: got 1"),
        ({"inputs": ["a", "b"], "stream": True}, 400, "a stream has one answer"),
        ({"inputs": ["a"] * 257}, 413, "at most 256 inputs"),
        ({"inputs": ["a"], "changes": {}}, 400, "changes must be a list"),
        ({"inputs": ["a"], "changes": [{"layer": "x", "do": "Dance"}]}, 400, "unknown change 'Dance'"),
        ({"inputs": ["a"], "changes": [{"layer": "nowhere", "do": "DropHead", "head": 0}]}, 422, "unknown layer 'nowhere'"),
    ],
)  # fmt: skip
def test_a_bad_request_is_told_in_plain_words(client: Client, fields: dict[str, Any], status: int, says: str) -> None:
    found, error = post(client("translate"), **fields)
    assert found == status, error
    assert says in error["error"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "says"),
    [
        (b"", "application/json", 400, "not JSON"),
        (b"{", "application/json", 400, "not JSON"),
        (b'{"inputs": ["a"], "inputs": ["b"]}', "application/json", 400, "the field 'inputs' is there twice"),
        (b"[]", "application/json", 400, "must be a JSON object"),
        (b"\xff\xfe", "application/json", 400, "not JSON"),
        (b'{"inputs": ["a"], "beam": NaN}', "application/json", 400, "NaN"),
        (b"[" * 200_000, "application/json", 400, "nested too deeply"),
        (b"inputs=a", "application/x-www-form-urlencoded", 415, "application/json"),
        (b"a", "", 415, "there is none"),
        (b"a", "multipart/form-data", 400, "no boundary"),
        (b"--c\r\nnothing", "multipart/form-data; boundary=b", 400, "damaged"),
        (b'--b\r\nContent-Disposition: form-data; name="run"\r\n\r\nx', "multipart/form-data; boundary=b", 400, "cut short"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(client: Client, content: bytes, kind: str, status: int, says: str) -> None:
    response = client("translate").post("/api/run", content=content, headers={"content-type": kind} if kind else {})
    assert response.status_code == status
    assert says in response.json()["error"]


def test_one_bad_input_hinders_no_other(client: Client) -> None:
    inputs = ["I see a red house.", "", "\ud800", "x" * 200_000, "we buy a car."]
    raw = json.dumps({"inputs": inputs})
    found = (
        client("translate")
        .post("/api/run", content=raw, headers={"content-type": "application/json"})
        .json()["answers"]
    )
    assert ["error" in answer for answer in found] == [False, True, True, True, False]
    assert "surrogate" in found[2]["error"]
    assert "too long" in found[3]["error"]


@pytest.mark.parametrize(
    ("value", "named"),
    [(5, "5"), (None, "null"), (["x"], "a list"), ({"text": "x"}, "an object"), (True, "true"), (1.5, "1.5")],
)
def test_an_input_of_a_wrong_type_is_a_bad_request_that_names_its_place(client: Client, value: Any, named: str) -> None:
    web = client("translate")
    assert post(web, inputs=["we buy a car.", value]) == (400, {"error": f"inputs[1] must be text: got {named}"})
    assert post(web, inputs=[value], stream=True)[0] == 400
    assert post(web, "/api/look", input=value) == (400, {"error": f"input must be text: got {named}"})


@pytest.mark.parametrize("value", [5, None, ["x"], {"name": "a.png"}, {"base64": 5}, {"base64": "", "path": "/etc"}])
def test_what_is_no_file_is_a_bad_request_where_files_are_wanted(client: Client, value: Any) -> None:
    status, error = post(client("recognize"), inputs=[value])
    assert (status, error["error"].startswith("inputs[0] must be a file: got ")) == (400, True)
    assert "Paths of the server are not read" in error["error"]
    assert post(client("recognize"), "/api/look", input=value)[0] == 400


def test_paths_of_the_server_are_never_read(client: Client, trial: Trial, tmp_path: Path) -> None:
    for task in FILES:
        given = trial(task).given
        (answer,) = post(client(task), inputs=[given])[1]["answers"]
        assert "Paths of the server are not read" in answer["error"]
        named = {"name": given, "base64": base64.b64encode(b"nothing").decode()}
        (answer,) = post(client(task), inputs=[named])[1]["answers"]
        assert answer["input"] == Path(given).name
        assert answer["error"]
    secret = tmp_path / "secret.txt"
    secret.write_text("The treasure is in the cave.")
    (answer,) = post(client("answer"), inputs=["Where is the treasure?"], passage=str(secret))[1]["answers"]
    assert "cave" not in json.dumps(answer)


def test_files_come_as_base64_or_in_a_form_several_at_once(client: Client, trial: Trial) -> None:
    run, given = trial("recognize")
    content = Path(given).read_bytes()
    encoded = base64.b64encode(content).decode()
    web, wanted = client("recognize"), run(given).text
    for item in ({"name": "a.png", "base64": encoded}, encoded, f"data:image/png;base64,{encoded}"):
        assert post(web, inputs=[item])[1]["answers"][0]["text"] == wanted
    files = [("file", ("a.png", content)), ("file", ("bad.png", b"no picture")), ("file", ("../b.png", content))]
    found = web.post("/api/run", files=files, data={"best": "2"}).json()["answers"]
    assert [answer["input"] for answer in found] == ["a.png", "bad.png", "b.png"]
    assert found[1]["error"] == "bad.png: not a picture, or of an unknown format. Save it as PNG or JPEG."
    assert found[0]["text"] == found[2]["text"] == wanted
    refused = client("translate").post("/api/run", files=files)
    assert refused.status_code == 400
    assert "translate takes text, not files" in refused.json()["error"]


@pytest.mark.parametrize("written", [json.dumps, ",".join], ids=["json", "commas"])
def test_candidates_come_with_a_file_too(client: Client, trial: Trial, written: Callable[[list[str]], str]) -> None:
    run, given = trial("recognize")
    labels = [str(label) for label in run.known.labels[:2]]
    response = client("recognize").post("/api/run", files=file_of(given), data={"candidates": written(labels)})
    (answer,) = response.json()["answers"]
    assert {item["text"] for item in answer["ranked"]} == set(labels)
    wanted = run(given, candidates=tuple(labels))
    assert close(answer["ranked"], [{"text": text, "score": score} for text, score in wanted.ranked])


def test_hostile_files_are_refused(client: Client) -> None:
    wide = b"P6 30000 30000 255\n"  # a few bytes that claim gigabytes
    bomb = client("recognize").post("/api/run", files={"file": ("a.ppm", wide)}).json()["answers"][0]
    assert "too large" in bomb["error"]
    packed = (
        client("forecast").post("/api/run", files={"file": ("a.csv", b"\x1f\x8b" + b"\0" * 20)}).json()["answers"][0]
    )
    assert packed["error"] == "a.csv: packed by gzip. Unpack it before it is sent."
    broken = client("forecast").post("/api/run", files={"file": ("mine.csv", b"a,b\n1,x\n2,y\n")}).json()["answers"][0]
    assert broken["error"].startswith("mine.csv")
    assert "/mirada-" not in broken["error"]
    silent = client("transcribe").post("/api/run", files={"file": ("a.wav", b"RIFF")}).json()["answers"][0]
    assert silent["error"].startswith("a.wav: ")


def test_a_question_needs_a_passage(client: Client) -> None:
    passage = "Today Ana took the key. It rained."
    (answer,) = post(client("answer"), inputs=["Who has the key?"], passage=passage)[1]["answers"]
    assert passage[answer["start"] : answer["end"]] == answer["text"]
    for fields in ({}, {"passage": ""}):
        (answer,) = post(client("answer"), inputs=["Who has the key?"], **fields)[1]["answers"]
        assert "a question needs a passage" in answer["error"]


def test_a_what_if_changes_the_answer_and_only_this_one(client: Client, trial: Trial) -> None:
    run, given = trial("translate")
    web = client("translate")
    layers = [name for name in run(given).look().names if "cross" in name]
    before = post(web, inputs=[given])[1]["answers"][0]
    changes = [{"layer": layer, "do": "DropHead", "head": head} for layer in layers for head in range(2)]
    after = post(web, inputs=[given], changes=changes)[1]["answers"][0]
    assert after["score"] != pytest.approx(before["score"], abs=1e-6)
    assert post(web, inputs=[given])[1]["answers"][0] == before
    status, error = post(web, "/api/look", input=given, changes=[{"layer": layers[0], "do": "MaskKey", "key": 999}])
    assert status == 422
    assert "no key 999" in error["error"]


def test_other_methods_stand_next_to_the_weights_where_there_are_any(client: Client, trial: Trial) -> None:
    response = sent(client("translate"), "translate", trial("translate").given, "/api/look", methods=True)
    manifest = json.loads(zipfile.ZipFile(io.BytesIO(response.content)).read("manifest.json"))
    assert {"attention", "ablation"} <= {matrix["name"] for matrix in manifest["methods"]["matrices"]}
    series = sent(client("forecast"), "forecast", trial("forecast").given, "/api/look", methods=True)
    assert series.status_code == 200
    assert json.loads(zipfile.ZipFile(io.BytesIO(series.content)).read("manifest.json"))["methods"]
    assert post(client("translate"), "/api/look", input="a", methods="yes")[0] == 400


def commands() -> list[tuple[str, dict[str, Any]]]:
    """The requests of the page on serving, as (path, JSON)."""
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    lines = [
        line
        for block in re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    found = [re.search(r"localhost:8000(/\S+) .*-d '(.*?)'", line) for line in lines]
    return [(match[1], json.loads(match[2])) for match in found if match]


@pytest.mark.parametrize(("path", "fields"), commands())
def test_what_the_page_on_serving_shows_works(client: Client, path: str, fields: dict[str, Any]) -> None:
    response = client("translate").post(path, json=fields)
    assert response.status_code == 200
    assert "error" not in response.text[:1000] if path == "/api/run" else response.content.startswith(b"PK")


def test_what_cannot_be_answered_cannot_be_looked_at(client: Client) -> None:
    assert post(client("translate"), "/api/look", input="") == (422, {"error": "there is nothing to translate in ''"})
    assert post(client("translate"), "/api/look")[0] == 400
    assert post(client("recognize"), "/api/look", input="x")[0] == 422


def events(text: str) -> list[tuple[str, Any]]:
    """Server-sent events as (name, data)."""
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((lines.get("event", "message"), json.loads(lines["data"])))
    return found


def test_texts_are_streamed_as_they_are_written(client: Client, trial: Trial) -> None:
    run, _ = trial("write")
    fields = {"inputs": ["I see"], "tokens": 30, "temperature": 1.0, "seed": 3}
    response = client("write").post("/api/run", json={**fields, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *pieces, (last, data) = events(response.text)
    assert last == "done"
    text = "".join(piece["text"] for _, piece in pieces)
    assert len(pieces) > 10
    assert text == data["answers"][0]["text"] == run("I see", tokens=30, temperature=1.0, seed=3).text
    (wanted,) = post(client("write"), **fields)[1]["answers"]
    assert data["answers"] == [wanted]  # the score too
    assert wanted["score"] < 0
    beams = {"inputs": ["we buy a car."], "stream": True, "beam": 2}  # a beam knows the best text at the end
    whole = events(client("translate").post("/api/run", json=beams).text)
    assert [name for name, _ in whole] == ["message", "done"]
    assert client("translate").post("/api/run", json={"inputs": [""], "stream": True}).status_code == 422


@pytest.mark.parametrize(
    ("task", "given", "layer"),
    [("write", "I", "decoder.layers.0.self"), ("translate", "we buy a car.", "decoder.layers.0.cross")],
)
@pytest.mark.parametrize("heads", ["0", "mean", "links"])
def test_every_token_of_a_stream_brings_its_rows(client: Client, task: str, given: str, layer: str, heads: str) -> None:
    fields = {"inputs": [given], "tokens": 4, "temperature": 0, "alignments": f"{layer}:{heads}"}
    *pieces, (last, data) = events(client(task).post("/api/run", json={**fields, "stream": True}).text)
    assert last == "done", data
    (answer,), (wanted,) = data["answers"], post(client(task), **fields)[1]["answers"]
    assert answer == wanted
    text = "".join(piece["text"] for _, piece in pieces)
    assert text == answer["text"]
    if heads == "links":  # which need the whole text
        assert all("alignments" not in piece for _, piece in pieces)
        return
    rows = [(piece["token"], piece["alignments"][layer]) for _, piece in pieces if "token" in piece]
    assert [token for token, _ in rows] == answer["written"]
    for number, (_, (row,)) in enumerate(rows):
        (whole,) = answer["alignments"][layer]
        assert row == whole[number][: len(row)]
        assert sum(row) == pytest.approx(1, abs=1e-5)


def test_texts_are_written_together(client: Client, trial: Trial) -> None:
    """Requests with other options and lengths, one that cannot be answered among them: each has the answer of `mirada run`."""
    (run, _), web = trial("write"), client("write")
    asks: list[dict[str, Any]] = [
        {"tokens": 3 + 5 * n, "temperature": 0.0 if n % 3 else 1.0, "seed": n} for n in range(9)
    ]
    asks[4] |= {"alignments": "decoder.layers.0.self:0"}  # of a text that is longer than the model reads at once
    asks[5] |= {"repetition_penalty": 1.3}
    with ThreadPoolExecutor(len(asks)) as pool:
        found = list(pool.map(lambda ask: post(web, inputs=["I see"], **ask), asks))
    for ask, (status, body) in zip(asks, found, strict=True):
        assert status == 200
        (wanted,), (answer,) = run.answers_in_place(["I see"], **ask), body["answers"]
        assert ("error" in answer) == bool(wanted.error)
        assert answer.get("text", "") == wanted.text
        assert wanted.error or answer["score"] == pytest.approx(wanted.score, rel=1e-5)


def test_drawn_answers_depend_on_their_request_alone(client: Client, trial: Trial) -> None:
    run, _ = trial("translate")
    inputs = ["I see a red house.", "we buy a car."] * 20  # more than one batch
    found = post(client("translate"), inputs=inputs, temperature=1.0, seed=5)[1]["answers"]
    assert [answer["text"] for answer in found] == [answer.text for answer in run(inputs, temperature=1.0, seed=5)]


def test_streams_and_looks_are_counted_among_the_inputs(client: Client, trial: Trial) -> None:
    web = client("write")
    post(web, inputs=["I see", "we"], tokens=3)
    web.post("/api/run", json={"inputs": ["I see"], "tokens": 3, "stream": True})
    web.post("/api/look", json={"input": "I see", "tokens": 3})
    web.post("/api/look", json={"input": "x" * 200_000})  # too long
    web.post("/api/run", json={"inputs": ["x" * 200_000], "stream": True})
    lines = web.get("/api/metrics").text.splitlines()
    assert 'mirada_inputs_total{run="write"} 6' in lines
    assert 'mirada_input_errors_total{run="write"} 2' in lines


def test_metrics_are_counted(client: Client) -> None:
    web = client("classify")
    post(web, inputs=["a good film", ""])
    web.get("/nowhere")
    lines = web.get("/api/metrics").text.splitlines()
    assert 'mirada_inputs_total{run="classify"} 2' in lines
    assert 'mirada_requests_total{route="/api/run",method="POST",status="200"} 1' in lines
    assert 'mirada_requests_total{route="other",method="GET",status="404"} 1' in lines
    assert "mirada_queue_inputs 0" in lines
    assert all(
        line.startswith("#") or (len(line.rsplit(" ", 1)) == 2 and float(line.rsplit(" ", 1)[1]) >= 0) for line in lines
    )


def test_a_log_of_what_went_wrong_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    refused = explained(RuntimeError("\x1b[2J\x07 \u202e what was sent \r\n"))
    assert refused.status == 500
    log = capsys.readouterr().err
    assert "RuntimeError: \\x1b[2J\\x07 \\u202e what was sent \\r\n" in log
    assert all(letter.isprintable() or letter in "\n\t" for letter in log)


def test_what_does_not_exist_is_reported_in_json(client: Client) -> None:
    web = client("classify")
    assert web.get("/nowhere").json() == {"error": "there is no such page"}
    refused = web.delete("/api/run")
    assert refused.status_code == 405
    assert "error" in refused.json()
    assert web.get("/static/../served.py").status_code == 404
    assert web.get("/static/%2e%2e/served.py").status_code == 404


def test_the_pages_and_all_they_name_are_served(client: Client) -> None:
    web = client("classify")
    for path in ("/", "/docs"):
        page = web.get(path)
        assert page.status_code == 200
        names = [part.split('"')[0] for part in page.text.replace('src="', 'href="').split('href="')[1:]]
        assert names
        assert [name for name in names if name.startswith("/") and web.get(name).status_code != 200] == []
        assert all(name.startswith(("/", "#")) for name in names)  # nothing from elsewhere
    tag = web.get("/static/app.js").headers["etag"]
    assert web.get("/static/app.js", headers={"if-none-match": tag}).status_code == 304
    assert web.head("/").status_code == 200


def test_limits_can_be_changed(client: Client) -> None:
    web = client("translate", limits=Limits(characters=20, inputs=2, body=200))
    assert "at most 20" in post(web, inputs=["x" * 21])[1]["answers"][0]["error"]
    assert post(web, inputs=["a", "b", "c"])[0] == 413
    status, error = post(web, inputs=["x" * 500])
    assert (status, "too large" in error["error"]) == (413, True)


def test_wide_and_large_tables_are_refused_before_they_are_parsed(client: Client) -> None:
    web, began = client("forecast"), time.process_time()
    names = ",".join(f"a{number}" for number in range(300_000)).encode()
    for content, why in (
        (names + b"\n" + b"1,2\n" * 50, "wide.csv:1: about 300,000 columns, at most 4,096. Send fewer."),
        (b"day,A\n" + names.replace(b",", b";") + b"\n", "wide.csv:2: about 300,000 columns"),
        (b"1,2\n" * 400_000, "wide.csv: too large: about 800,000 cells, at most 500,000. Send fewer rows."),
        (b"\r" * 600_000, "wide.csv: too large"),
    ):
        answer = web.post("/api/run", files={"file": ("wide.csv", content)}).json()["answers"][0]
        assert answer["error"].startswith(why)
    assert time.process_time() - began < 5


def test_a_table_is_parsed_outside_of_the_model_thread(client: Client, trial: Trial, monkeypatch: Any) -> None:
    threads: list[str] = []
    read = next_rows.series_in

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return read(*given)

    monkeypatch.setattr(next_rows, "series_in", noted)
    run, path = trial("forecast")
    (answer,) = client("forecast").post("/api/run", files=file_of(path)).json()["answers"]
    assert answer["input"] == Path(path).name
    assert answer["text"] == run(path).text
    assert threads[0] != "mirada-model"


def test_a_table_that_takes_too_long_is_given_up(client: Client, trial: Trial, monkeypatch: Any) -> None:
    monkeypatch.setattr(next_rows, "series_in", lambda *given: time.sleep(0.6))
    late = client("forecast", limits=Limits(seconds=0.1)).post("/api/run", files=file_of(trial("forecast").given))
    assert late.status_code == 504
    assert "not read within 0.1 seconds" in late.json()["error"]


@pytest.mark.parametrize("coding", ["br", "gzip", "deflate"])
def test_a_packed_body_is_refused(client: Client, coding: str) -> None:
    headers = {"content-type": "application/json", "content-encoding": coding}
    refused = client("classify").post("/api/run", content=b'{"inputs": ["a"]}', headers=headers)
    assert refused.status_code == 415
    assert f"Content-Encoding '{coding}' is not read" in refused.json()["error"]

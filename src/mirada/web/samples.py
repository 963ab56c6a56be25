"""Inputs to try: a person who has no picture, recording or sentence at hand begins with one of these."""

import asyncio
import base64
import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from mirada.drawing.raster import png
from mirada.runs.run import Run
from mirada.runs.task import SAMPLES
from mirada.web.responses import json_response
from mirada.web.served import FILES, ServedRun, ServedRuns

MOST = 1 << 20  # bytes of a sample


class Samples:
    """`GET /api/samples`: made when they are first asked for, and kept."""

    def __init__(self, runs: ServedRuns) -> None:
        self.runs = runs
        self.kept: dict[str, list[Any]] = {}
        self.lock = asyncio.Lock()

    async def samples(self, request: Request) -> Response:
        """Inputs as `POST /api/run` takes them."""
        served = self.runs.find(request.query_params.get("run"))
        async with self.lock:
            if served.name not in self.kept:
                self.kept[served.name] = await asyncio.to_thread(samples_of, served)
        return json_response({"run": served.name, "samples": self.kept[served.name]})


def samples_of(served: ServedRun) -> list[Any]:
    """Some inputs of the builtin data, texts or files. A user's own data is not shown around: it may be private, and large."""
    run = served.run
    try:
        if not run.source.builtin:
            return []
        texts = run.task.samples(run, run.splits())[:SAMPLES]
        return [as_file(run, text) if served.takes_files else text for text in texts]
    except (ValueError, OSError):
        return []  # there is nothing to try, and everything else works


def as_file(run: Run, sample: str) -> dict[str, str]:
    """A sample that the command line would name, as a file."""
    kind = run.task.input_kind
    assert kind in FILES
    name, content = sample, b""
    given = run.task.parse(sample)
    if isinstance(given, str) and Path(given).is_file():
        name, content = Path(given).name, Path(given).read_bytes()[:MOST]
    elif kind == "picture":
        name, content = f"{sample.replace(' ', '-').replace(':', '-')}.png", png(given.given)
    elif kind == "recording":
        name, content = f"{sample.replace(':', '-')}.wav", morse_file(sample)
    return {"name": name, "base64": base64.b64encode(content).decode()}


def morse_file(sample: str) -> bytes:
    """A text of the builtin data, keyed, as a wav file."""
    from mirada.data.builtin.morse import spelled

    sound, file = spelled(sample.partition(":")[2]), io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sound.rate)
        out.writeframes(np.rint(np.clip(sound.samples, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()

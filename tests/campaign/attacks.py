"""What strangers do: requests, processes that differ, dates, sentinels, foreign tokenizers."""

import asyncio
import json
import logging
import random
import shutil
import time
import tracemalloc
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.campaign.figures import Figures
from tests.campaign.forked import Outcome, forked
from tests.runs.small import reviews, write_rows

PEAK = 8 << 20  # bytes of memory that one connection may take


def bad(outcome: Outcome) -> Any:
    """What a failure says; None where a task was done or refused."""
    failed = outcome.kind in ("traceback", "hang", "memory")
    return [outcome.value, round(outcome.seconds, 1), outcome.memory] if failed else None


# Requests


def _request(dice: random.Random) -> bytes:
    """A request, mostly chunked: sizes, extensions and trailers of any length, now and then a byte that is wrong."""
    length = dice.choice((0, 1, 20, 500, 5_000, 70_000, 500_000))
    lines = b"".join(b"X-%d: %s\r\n" % (n, b"a" * (length // 40)) for n in range(dice.choice((0, 1, 40))))
    head = (
        dice.choice((b"POST /api/run", b"GET /", b"PUT " + b"/a" * dice.choice((1, 40_000))))
        + b" HTTP/1.1\r\nHost: x\r\n"
    )
    if dice.random() < 0.2:
        return head + lines + b"Content-Length: 9\r\n\r\n123456789"
    chunks = b""
    for _ in range(dice.choice((0, 1, 3, 300))):
        body, more = b"b" * dice.choice((1, 17, 5_000)), b";" + b"e" * dice.choice((0, 0, 9, 300, 70_000))
        chunks += (
            b"0" * dice.choice((0, 0, 0, 900)) + b"%x" % len(body) + more * (len(more) > 1) + b"\r\n" + body + b"\r\n"
        )
        if len(chunks) > 3 << 20:
            break
    trailers = dice.choice((b"", b"T: " + b"t" * length + b"\r\n", b"T: t\r\n" * length))
    whole = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"
    if dice.random() < 0.3:
        place = dice.randrange(len(whole))
        whole = whole[:place] + dice.randbytes(dice.choice((1, 9))) + whole[place + 1 :]
    return whole


def protocol(seed: int, home: Path, figures: Figures) -> None:
    """A connection that is given requests in pieces of any size: no exception, little memory, and none of the trailers."""
    from tests.web.test_protocol import connected

    dice = random.Random(seed)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    stream = b"".join(_request(dice) for _ in range(dice.randrange(1, 4)))

    async def main() -> tuple[str, int]:
        tracemalloc.start()
        here, transport = connected()
        here.cycle, place = None, 0  # type: ignore[assignment]
        while place < len(stream) and not transport.closing:
            size = dice.choice((1, 100, 4096, 262_144)) if len(stream) - place < 5_000 else 262_144
            here.data_received(stream[place : place + size])
            place += size
            if here.cycle is not None:
                here.cycle.body.clear()  # as an app that reads
        closed = transport.closing
        await asyncio.sleep(0)
        here.connection_lost(None)
        peak = tracemalloc.get_traced_memory()[1]
        return "closed" if closed else "read", peak

    try:
        kind, peak = asyncio.run(main())
        failure = ["memory", peak] if peak > PEAK else None
    except Exception as error:
        kind, failure = "traceback", repr(error)
    finally:
        tracemalloc.stop()
    figures.add("requests", kind, failure)


# Processes that differ


def ranks(seed: int, home: Path, figures: Figures) -> None:
    """Two processes of one training: they train where they agree, and where they do not, both refuse in a line."""
    from tests.runs.test_processes import KEYS, ends

    dice = random.Random(seed)
    rows, folder = reviews(), home / f"ranks-{seed}"
    folder.mkdir()
    data, other = write_rows(folder / "a.tsv", rows), folder / "b.tsv"
    what = dice.choice(("nothing", "rows", "order", "label", "rate", "size", "folder", "missing", "bad row", "taken"))
    changed = list(rows)
    if what == "rows":
        del changed[dice.randrange(len(rows))]
    if what == "order":
        changed = changed[::-1]
    if what == "label":
        place = dice.randrange(len(rows))
        changed[place] = (rows[place][0], "good" if rows[place][1] == "bad" else "bad")
    if what == "bad row":
        changed[dice.randrange(len(rows))] = ("", "good")
    if what != "missing":
        write_rows(other, changed)
    more = {"rate": ("lr=0.002",), "size": ("dropout=0.25",)}.get(what, ())
    out = folder / "run"
    elsewhere = folder / "other" if what in ("folder", "taken") else out
    if what == "taken":
        elsewhere.mkdir()
        (elsewhere / "config.json").write_text("{}")
    calls = [(data, out, KEYS, False), (str(other), elsewhere, (*KEYS, *more), False)]
    began = time.monotonic()
    found = ends(*calls)
    agreed, lines = found == ["done", "done"], [text.count("\n") for text in found]
    right = agreed if what == "nothing" else "done" not in found and not any("Traceback" in text for text in found)
    hung = time.monotonic() - began > 60
    figures.add(f"ranks, {what}", "trained" if agreed else "refused", None if right and not hung else [found, lines])
    shutil.rmtree(folder)


# Dates and sentinels


def _series(path: Path, times: list[str], values: list[str]) -> str:
    rows = [f"{when},{value},{n % 7}" for n, (when, value) in enumerate(zip(times, values, strict=True))]
    path.write_text("time,a,b\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def _forecastable(path: str, distinct: bool) -> int:
    """How many rows come next, each with a time of its own, where the rows of the file have `distinct` ones."""
    from mirada.tasks.forecast.series import SeriesOptions, read_series

    times = read_series(path, SeriesOptions()).times
    after = times.after(24)
    assert len(set(after)) == len(after) or not distinct, after[:3]
    return len(after)


def dates(seed: int, home: Path, figures: Figures) -> None:
    """Times of any spacing, form and age, to the end of the calendar: read with as many next times, or refused."""
    dice = random.Random(seed)
    first = datetime(
        dice.choice((1, 1583, 1899, 1970, 1999, 2024, 2038, 9990, 9999)), dice.randint(1, 12), dice.randint(1, 28)
    )
    pattern = dice.choice(
        (
            "%Y-%m-%d",
            "%d/%m/%Y",
            "%m/%d/%Y",
            "%Y-%m-%d %H:%M:%S",
            "%Y-%m-%dT%H:%MZ",
            "%d.%m.%y",
            "%b %Y",
            "%Y%m%d",
            "%d %B %Y",
        )
    )
    step = timedelta(seconds=dice.choice((1, 60, 900, 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)))
    times: list[str] = []
    for number in range(dice.choice((3, 40, 300))):
        try:
            times.append((first + number * step).strftime(pattern))
        except (OverflowError, ValueError):
            break
    if dice.random() < 0.3 and times:
        times[dice.randrange(len(times))] = dice.choice(
            ("", "9999-12-31", "0000-00-00", "1970-01-01", "31/02/2020", times[0])
        )
    path = _series(home / "dates.csv", times or ["x"], [f"{n % 5}.5" for n in range(len(times) or 1)])
    outcome = forked(lambda: _forecastable(path, len(set(times)) == len(times)))
    figures.add(f"dates as {pattern}", outcome.kind, bad(outcome))


def sentinels(seed: int, home: Path, figures: Figures) -> None:
    """A series with a mark for "no value": `mirada check` names it, asks, or estimates; nothing overflows."""
    from tests.campaign.files import read

    dice = random.Random(seed)
    mark = dice.choice(
        ("-3.4028e38", "1.797e308", "-1.797e308", "9.96921e36", "-9999", "-999", "1e30", "2147483647", "1e-320", "inf", "NaN",
         "-", "N/A", "99999999999999999999", "1e400")
    )  # fmt: skip
    values = [f"{50 + 9 * ((n * 7919) % 13) / 13:.3f}" for n in range(300)]
    for _ in range(dice.choice((1, 1, 2, 30))):
        values[dice.randrange(len(values))] = mark
    first = datetime(2020, 1, 1)
    times = [(first + timedelta(hours=n)).strftime("%Y-%m-%d %H:%M") for n in range(len(values))]
    path = _series(home / "sentinels.csv", times, values)
    outcome = forked(lambda: read("forecast", Path(path), deep=True))
    figures.add(f"sentinel {mark}", outcome.kind, bad(outcome))


# Foreign tokenizers


HOSTILE: tuple[dict[str, Any], ...] = (
    {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"},
    {"type": "Replace", "pattern": {"String": ""}, "content": "aaaaaaaa"},
    {"type": "Replace", "pattern": {"Regex": "(a|a)*(b|$)"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
    {"type": "Split", "pattern": {"Regex": "(a+a+)+$"}, "behavior": "Isolated", "invert": False},
    {"type": "Precompiled", "precompiled_charsmap": "/////w=="}, {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    {"type": "Prepend", "prepend": "a" * 100_000}, {"type": "NFKD"}, {"type": "Strip", "content": "a", "start": 10**9, "stop": 0},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "Unknown"}, {"type": None},
)  # fmt: skip


def tokenizers(seed: int, home: Path, figures: Figures) -> None:
    """A tokenizer's file with parts of strangers: refused, or the same tokens as before."""
    from mirada.data.text.tokenize import LEARNERS, Tokenizer

    dice = random.Random(seed)
    text = "the film was good, a" + "a" * dice.choice((1, 60)) + "!"
    mine = Tokenizer.train([row[0] for row in reviews()], dice.choice([*LEARNERS]), 60)
    wanted, described = mine.encode(text), json.loads(mine.to_json())
    what = dice.choice(
        ("normalizer", "pre_tokenizer", "decoder", "padding", "truncation", "model", "added_tokens", "cut")
    )
    key = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}.get(what)
    if key:
        steps = [dice.choice(HOSTILE)] * dice.choice((1, 28, 10_000))
        described[what] = {"type": "Sequence", key: [*dice.choice(([], [described[what]])), *steps]}
    elif what == "padding":
        described[what] = {
            "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "<pad>",
        }  # fmt: skip
    elif what == "truncation":
        described[what] = {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 10**9}
    elif what == "model":
        described[what] = {
            **described[what],
            dice.choice([*described[what]]): dice.choice((None, 7, "x", [], {}, [["a"]])),
        }
    elif what == "added_tokens":
        described[what] = [
            {"id": dice.choice((0, 9, 10**9)), "content": dice.choice(("a", "", "a" * 10**6)), "special": True}
        ]
    written = json.dumps(described)
    path = home / "tokenizer.json"
    path.write_text(written[: dice.randrange(len(written))] if what == "cut" else written)

    def load() -> list[int]:
        loaded = Tokenizer.load(path)
        loaded.decode(loaded.encode(text))
        return loaded.encode(text)

    outcome = forked(load)
    other = outcome.kind == "done" and outcome.value != wanted and what != "model"  # another model has other tokens
    figures.add(
        f"tokenizer, {what}", outcome.kind, bad(outcome) or (["other tokens", outcome.value] if other else None)
    )


ATTACKS: dict[str, Callable[[int, Path, Figures], None]] = {
    "protocol": protocol, "ranks": ranks, "dates": dates, "sentinels": sentinels, "tokenizers": tokenizers,
}  # fmt: skip

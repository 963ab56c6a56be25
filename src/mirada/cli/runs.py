"""`mirada runs`: a table of trained runs; or some runs side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mirada.cli.arguments import Json, examples
from mirada.errors import require
from mirada.files import expanded, read_json
from mirada.words import echo, json_text

EPILOG = examples("mirada runs", "mirada runs experiments/", "mirada runs runs/translate runs/translate-2")
CONFIG = "config.json"


def runs(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER", help="Where to look for runs (without it: runs/); or runs to set side by side."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List runs with task, model, quality and minutes; two or more runs are set side by side."""
    places = [expanded(folder) for folder in folders or ["runs"]]
    for place in places:
        hint = " Train one with `mirada train`." if not folders else ""
        require(place.is_dir(), f"there is no folder {place}.{hint}")
    chosen = all((place / CONFIG).exists() for place in places)
    homes = places if chosen else sorted(path.parent for place in places for path in place.rglob(CONFIG))
    require(len(homes) > 0, f"there is no run in {', '.join(map(str, places))}: no folder there has a {CONFIG}")
    rows = [_described(folder) for folder in homes]
    if as_json:
        echo("\n".join(json_text(row) for row in rows))
    elif chosen and len(rows) > 1:
        print_side_by_side(rows)
    else:
        _print_list(rows)


def _described(folder: Path) -> dict[str, Any]:
    """A run as plain values. One that cannot be read is listed with its error."""
    from mirada.training.log import Summary, read_metrics, summary

    try:
        config = read_json(folder / CONFIG)
        wrong = [key for key in ("task", "name") if not isinstance(config[key], str)]
        require(not wrong, f"{' and '.join(wrong)} must be a text")
        log, place = folder / "metrics.jsonl", config["place"]
        training = summary(read_metrics(log)) if log.exists() else Summary()
        return {
            "folder": str(folder), "task": config["task"], "model": config["name"],
            "metrics": dict(training.metrics), "minutes": round(training.minutes, 1),
            "steps": training.steps, "ended": "imported" if place.get("imported") else training.ended,
            "data": _data_of(place),
            "settings": {**config["config"], **config["recipe"], **config["data"]},
        }  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return {"folder": str(folder), "error": f"{CONFIG} or metrics.jsonl cannot be read: {error}"}


def _data_of(place: dict[str, Any]) -> Any:
    """Where the data of a run is, as its config.json says it."""
    absent = next((word for key, word in (("imported", "imported"), ("memory", "in memory")) if place.get(key)), "")
    return absent or place["data"] or "builtin"


def _print_list(rows: list[dict[str, Any]]) -> None:
    """Print a line for each run, with its first metric as its quality."""
    lines = [("folder", "task", "model", "quality", "minutes", "")]
    for row in rows:
        if "error" in row:
            lines.append((row["folder"], "?", "", "", "", row["error"]))
            continue
        quality = next((f"{name} {_number(value)}" for name, value in row["metrics"].items()), "")
        ended = {"": "not ended", "imported": "imported"}.get(row["ended"], "")
        lines.append((row["folder"], row["task"], row["model"], quality, f"{row['minutes']:.1f}", ended))
    _print_columns(lines)


def print_side_by_side(rows: list[dict[str, Any]]) -> None:
    """Print runs as columns: their metrics, and the settings in which they differ."""
    for row in rows:
        require("error" not in row, f"{row['folder']}: {row.get('error')}")
    names = dict.fromkeys(name for row in rows for name in row["metrics"])
    lines = [("", *(row["folder"] for row in rows))]
    lines += [(key, *(str(row[key]) for row in rows)) for key in ("task", "model", "data", "minutes", "steps")]
    lines += [(name, *(_number(row["metrics"].get(name)) for row in rows)) for name in names]
    keys = dict.fromkeys(key for row in rows for key in row["settings"])
    values = {key: [str(row["settings"].get(key, "-")) for row in rows] for key in keys}
    above = {line[0] for line in lines}  # "steps" are those that were trained, "steps=" the setting
    lines += [(f"{key}=" if key in above else key, *row) for key, row in values.items() if len(set(row)) > 1]
    _print_columns(lines)


def _number(value: float | None) -> str:
    from mirada.training.log import digits

    return "-" if value is None else digits(value)


def _print_columns(lines: Sequence[tuple[str, ...]]) -> None:
    """Print rows with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())

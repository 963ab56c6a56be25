"""The effect of sentence length, with and without attention: one figure for several runs.

    mirada train translate --model rnn --data D --valid V --out runs/rnn --minutes 15       (and bahdanau, luong, transformer)
    python benchmarks/length.py TEST FIGURE.png runs/rnn runs/bahdanau runs/luong ...

Prints BLEU for groups of test sentences by their number of words, a column for each run, and draws them.
"""

import argparse
from pathlib import Path

from mirada.cli.eval import by_length
from mirada.drawing.plots.lines import plot
from mirada.runs.load import load


def main(test: str, figure: Path, folders: list[str]) -> None:
    rows = {}
    for folder in folders:
        run = load(folder)
        rows[Path(folder).name] = by_length(run, run.splits(test).test)
    groups = next(iter(rows.values()))
    print(f"| words | sentences | {' | '.join(rows)} |\n|---|---|{'---|' * len(rows)}")
    for number, (name, count, _) in enumerate(groups):
        scores = [f"{each[number][2]['bleu']:.1f}" for each in rows.values()]
        print(f"| {name} | {count} | {' | '.join(scores)} |")
    lines = {name: [(length, metrics["bleu"]) for length, _, metrics in groups] for name, groups in rows.items()}
    plot(lines, figure, x="words of the input", y="BLEU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", help="test records, as for `mirada eval --data`")
    parser.add_argument("figure", type=Path)
    parser.add_argument("runs", nargs="+")
    given = parser.parse_args()
    main(given.test, given.figure, given.runs)

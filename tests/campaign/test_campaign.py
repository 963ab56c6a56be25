"""The campaign in short: a few cases of every part. The whole of it: `python -m tests.campaign all --seconds 600`."""

from pathlib import Path

import pytest

from mirada.native import library
from tests.campaign.__main__ import run

SHORT = {"kernels": 150, "files": 12, "folders": 4, "kills": 1, "checkpoints": 10}
SHORT |= {
    "protocol": 60,
    "ranks": 1,
    "dates": 8,
    "sentinels": 2,
    "tokenizers": 12,
    "disks": 1,
    "stops": 1,
    "forks": 1,
    "filesystems": 1,
}


@pytest.mark.parametrize("part", SHORT)
def test_in_short(tmp_path: Path, part: str) -> None:
    figures = run(part, SHORT[part], 120.0, tmp_path, tmp_path / "figures.json")
    assert figures.failures == [], str(figures)
    assert figures.tried >= SHORT[part]
    if part == "kernels" and library.library() is not None:
        kinds = {name.split(":")[0].split()[0] for name in figures.counts}
        assert kinds >= {
            "reference",
            "fused",
            "short",
            "edges",
            "convolution",
            "decoding,",
            "cross_entropy",
            "dropout",
            "linear_activation",
        }


def test_figures_add_up(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    first = run("kernels", 4, 60.0, tmp_path, path)
    again = run("kernels", 3, 60.0, tmp_path, path)
    assert (first.seed, again.seed) == (4, 7)
    assert again.tried >= first.tried + 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "count"), [("kernels", 3000), ("files", 500), ("folders", 200), ("kills", 20), ("checkpoints", 1000)]
)
def test_at_length(tmp_path: Path, part: str, count: int) -> None:
    figures = run(part, count, 600.0, tmp_path, tmp_path / "figures.json")
    print(figures)
    assert figures.failures == [], str(figures)

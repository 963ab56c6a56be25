"""Without compiled C everything works the same: the tests of all that uses it, once more with `MIRADA_NATIVE=0`.

`python -m pytest -m slow -n 0 tests/native/test_plain.py`
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = [
    part
    for part in ("attention", "layers", "decoding", "models", "native", "engine")
    if (ROOT / "tests" / part).is_dir()
]


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_everything_passes_without_compiled_c(part: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"tests/{part}", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT, env={**os.environ, "MIRADA_NATIVE": "0"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.slow
def test_the_sanitizers_find_nothing() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.native.sanitize"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "nothing found" in done.stdout or "not run" in done.stdout

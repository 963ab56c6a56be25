"""What is imported to answer one sentence: no drawing, no reader of files, no metric, nothing that looks."""

import json
import os
import subprocess
import sys
from pathlib import Path

RUNS = Path(__file__).parents[1] / "runs" / "written_by_0_1"
MOST = 120  # modules of mirada after `mirada run` of a translation
ANSWER = """
import json, sys
sys.argv = ["mirada", "run", sys.argv[1], sys.argv[2]]
from mirada.cli.main import main
try:
    main()
except SystemExit:
    pass
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "mirada"]))
"""
NEEDLESS = (
    "mirada.drawing",
    "mirada.looking.record",
    "mirada.data.files",
    "mirada.corpora",
    "mirada.hub",
    "mirada.training.metrics",
    "mirada.training.loop",
)


def test_an_answer_imports_neither_drawing_nor_readers() -> None:
    found = subprocess.run(
        [sys.executable, "-c", ANSWER, str(RUNS / "translate"), "the red house"],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    modules = json.loads(found.stdout.splitlines()[-1])
    assert "mirada.tasks.translate.task" in modules
    assert [name for name in modules if name.startswith(NEEDLESS)] == []
    assert len(modules) <= MOST

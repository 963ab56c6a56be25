"""How far one walks through the code: `python tools/walk.py`, on files of its own, for this checkout or `--source` of another.

Counted are functions and files of mirada, each once, that run before the first step of `mirada train translate --data
pairs.tsv`; the longest chain of calls of mirada from the request for a batch to its tensors; and the modules of mirada that
are imported when `mirada run` has answered, for a task of text.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1] / "src"
TRACE = """
import json, sys
from pathlib import Path

source, mode, *words = sys.argv[1:]
package = str(Path(source) / "mirada")
entered, chain, stopped = {}, 0, False
UNNAMED = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")


def depth_of(frame, until):
    depth = 0
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(package) and code.co_name not in UNNAMED:
            depth += 1
        if code.co_name == until and code.co_filename.startswith(package):
            return depth
        frame = frame.f_back
    return 0


def watch(frame, event, argument):
    global chain, stopped
    code = frame.f_code
    if event != "call" or stopped or not code.co_filename.startswith(package):
        return
    if code.co_name not in UNNAMED and not code.co_name.startswith("__"):
        if "class" not in code.co_qualname.lower().split(".")[0]:
            entered.setdefault((code.co_filename, code.co_qualname), len(entered))
    if code.co_name == "part":
        chain = max(chain, 1)
    if chain:
        chain = max(chain, depth_of(frame, "part"))
    if code.co_name == "training_step":
        stopped = True


sys.setprofile(watch)
sys.argv = ["mirada", *words]
sys.path.insert(0, source)
from mirada.__main__ import main

first = None
if mode == "train":
    import mirada.training.objectives as objectives

    original = objectives.ModelLoss.__call__

    def stop(self, *given, **named):
        global stopped
        stopped = True
        return original(self, *given, **named)

    objectives.ModelLoss.__call__ = stop
    entered.clear()
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
found = {"functions": len(entered), "files": len({name for name, _ in entered}), "chain": chain}
found["modules"] = len([name for name in sys.modules if name == "mirada" or name.startswith("mirada.")])
found["entered"] = [[name[len(package) + 1 :], function] for name, function in entered]
Path(sys.argv[0] if False else "walk.json").write_text(json.dumps(found))
"""


def walk(source: Path, mode: str, words: list[str], folder: Path) -> dict:
    """What one command entered, from a process that has only that checkout on its path."""
    script = folder / "trace.py"
    script.write_text(TRACE, encoding="utf-8")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), str(source), mode, *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not (folder / "walk.json").exists():
        raise SystemExit(done.stderr)
    return json.loads((folder / "walk.json").read_text(encoding="utf-8"))


def main() -> None:
    """Print the counts, or with --list every function in the order in which it was entered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=HERE, help="the folder that holds the package")
    parser.add_argument("--list", action="store_true", help="every function entered before the first step")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = [(f"the {a} {b}", f"{b} {a}") for a in ("red", "blue", "old", "new") for b in ("house", "door", "cat")]
        lines = "".join(f"{english}\t{spanish}\n" for english, spanish in pairs * 9)
        (folder / "pairs.tsv").write_text(lines, encoding="utf-8")
        model = ["width=16", "heads=2", "depth=1", "hidden=32", "steps=3", "bad=skip", "threads=1"]
        words = ["train", "translate", "--data", "pairs.tsv", "--out", "run", *model]
        trained = walk(given.source, "train", words, folder)
        if given.list:
            for file, function in trained["entered"]:
                print(f"{file:<36} {function}")
            return
        answered = walk(given.source, "run", ["run", "run", "the red house"], folder)
        print(f"before the first step: {trained['functions']} functions in {trained['files']} files")
        print(f"from part() to a batch: {trained['chain']} calls deep")
        print(f"modules imported by an answer: {answered['modules']}")


if __name__ == "__main__":
    main()

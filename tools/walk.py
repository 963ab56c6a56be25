"""How far one walks through the code: `python tools/walk.py`, for this checkout or `--source` of another.

On the way of `mirada train translate --data pairs.tsv` to its first step, counted are the functions and the files of the
packages in PACKAGES (cli, runs, tasks, data, training), each once. Not counted: whatever runs because a module is imported
(class bodies, decorators, tables), lambdas and comprehensions, special methods, and the parts that a maintainer takes as
given: attention, layers, models and engine (building a model), native, decoding, looking, drawing, and the plain helpers of
layer 0 (config, errors, files, lazy, shapes, words). `--all` counts all packages, imports too.

Then: the longest chain of calls of mirada from the request for a batch to its tensors, and the modules of mirada that are
imported when `mirada run` has answered, for a task of text.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1] / "src"
PACKAGES = ("cli", "runs", "tasks", "data", "training")
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


def is_imported(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(package):
            return True
        frame = frame.f_back
    return False


def watch(frame, event, argument):
    global chain, stopped
    code = frame.f_code
    if event != "call" or stopped or not code.co_filename.startswith(package):
        return
    if code.co_name not in UNNAMED and not code.co_name.startswith("__"):
        name = code.co_filename, code.co_qualname
        if name not in entered or entered[name]:  # True: only while a module was imported
            entered[name] = is_imported(frame) or not code.co_flags & 1  # the body of a class
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
found = {"chain": chain}
found["modules"] = len([name for name in sys.modules if name == "mirada" or name.startswith("mirada.")])
found["entered"] = [[name[len(package) + 1 :], *rest, imported] for (name, *rest), imported in entered.items()]
Path("walk.json").write_text(json.dumps(found))
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
    parser.add_argument(
        "--list", action="store_true", help="every function that is counted, in the order of the first calls"
    )
    parser.add_argument(
        "--all", action="store_true", help="count all packages, and what runs while modules are imported"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = [
            (color, thing, n)
            for color in ("red", "blue", "old", "new")
            for thing in ("house", "cat")
            for n in range(15)
        ]
        lines = "".join(f"the {color} {thing} {n}\t{n} {thing} {color}\n" for color, thing, n in places)
        (folder / "pairs.tsv").write_text(lines, encoding="utf-8")
        model = ["width=16", "heads=2", "depth=1", "hidden=32", "steps=3", "threads=1"]
        words = ["train", "translate", "--data", "pairs.tsv", "--out", "run", *model]
        trained = walk(given.source, "train", words, folder)
        counted = [
            (file, function)
            for file, function, imported in trained["entered"]
            if given.all or (not imported and file.split("/")[0] in PACKAGES)
        ]
        if given.list:
            for file, function in counted:
                print(f"{file:<36} {function}")
            return
        answered = walk(given.source, "run", ["run", "run", "the red house"], folder)
        print(f"before the first step: {len(counted)} functions in {len({file for file, _ in counted})} files")
        print(f"from part() to a batch: {trained['chain']} calls deep")
        print(f"modules imported by an answer: {answered['modules']}")


if __name__ == "__main__":
    main()

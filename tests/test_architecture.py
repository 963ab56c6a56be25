"""The layers, read from the source: imports point down only."""

import ast
import re
from functools import cache
from itertools import accumulate
from pathlib import Path

from mirada.cli.main import COMMANDS
from mirada.runs.registry import CATALOG

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mirada"
SOURCES = sorted(PACKAGE.rglob("*.py"))

LAYERS = {
    "errors": -2, "lazy": -1, "files": -1,
    "config": 0, "shapes": 0, "words": 0, "native": 0,
    "attention": 1, "drawing": 1,
    "layers": 2, "testing": 2,
    "models": 3, "data": 3, "decoding": 3,
    "corpora": 3.5,  # the embedded data, made of records
    "training": 4, "looking": 4, "engine": 4, "hub": 4,
    "runs": 5,
    "tasks": 6,
    "web": 7, "sklearn": 7,
    "cli": 8,  # it starts the web app
}  # fmt: skip
ONLY_LAYER_0 = {"data", "decoding"}  # these import nothing above layer 0
NO_MODEL = {"training", "looking"}  # these serve any model, so they know none

# inside attention/: equation > observe > kernels > {rules memory} > the factors and cache > places
ORDER = {
    "places": 0, "distances": 0, "rotation": 0, "transforms": -1, "dropout": 0,
    "scores": 1, "neighborhoods": 1, "positions": 1, "normalizers": 1, "heads": 1, "cache": 1,
    "rules": 2, "memory": 2,
    "kernels": 3,
    "observe": 4,
    "equation": 5,
}  # fmt: skip


def parts(path: Path) -> tuple[str, ...]:
    return path.relative_to(PACKAGE).with_suffix("").parts


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Every import of ours, with its line, written out in full."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found += [(node.lineno, name) for name in names if name == "mirada" or name.startswith("mirada.")]
    return found


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 20
    assert sum(len(imports(path)) for path in SOURCES) > 50


def test_imports_point_down() -> None:
    wrong = []
    for path in SOURCES:
        here = parts(path)[0]
        if here in ("__init__", "__main__"):
            continue  # the package's face gathers names from every layer, lazily
        for line, name in imports(path):
            there = name.split(".")[1] if "." in name else None
            if there is None or there == "__version__":
                allowed = LAYERS[here] >= 7  # only the top layer imports the package itself
            elif there == here:
                allowed = True
            else:
                allowed = LAYERS[there] < LAYERS[here]
                allowed &= here not in ONLY_LAYER_0 or LAYERS[there] <= 0
                allowed &= here not in NO_MODEL or there != "models"  # it must serve any model
            if not allowed:
                wrong.append(f"{path}:{line}: {here} must not import {name}")
    assert wrong == []


def test_the_attention_layer_has_an_order() -> None:
    wrong = []
    for path in PACKAGE.glob("attention/**/*.py"):
        where = parts(path)
        if where[1] == "__init__":
            continue
        for line, name in imports(path):
            steps = name.split(".")
            inside = steps[1] == "attention" and len(steps) > 2 and steps[2] != where[1]
            if inside and ORDER[steps[2]] >= ORDER[where[1]]:
                wrong.append(f"{path}:{line}: {where[1]} must not import {steps[2]}")
    assert wrong == []


def test_no_model_imports_a_model() -> None:
    models = [path for path in PACKAGE.glob("models/*.py") if path.stem != "__init__"]  # which names them all, lazily
    found = [(path.name, name) for path in models for _, name in imports(path)]
    assert found
    assert [pair for pair in found if pair[1].startswith("mirada.models.")] == []


def test_models_and_layers_know_no_engine() -> None:
    paths = [*PACKAGE.glob("models/**/*.py"), *PACKAGE.glob("layers/**/*.py")]
    assert paths
    assert [path for path in paths if re.search(r"(?i)\bengines?\b", path.read_text(encoding="utf-8"))] == []


def test_runs_know_no_text() -> None:
    texts = ("mirada.data.text", "mirada.tasks")
    found = [(path.name, name) for path in PACKAGE.glob("runs/**/*.py") for _, name in imports(path)]
    assert found
    assert [pair for pair in found if pair[1].startswith(texts)] == []


def test_a_task_is_a_room_and_a_command_is_a_file() -> None:
    homes = {name: item.home.split(":") for name, item in CATALOG.items()}
    assert set(homes) == {path.parent.name for path in PACKAGE.glob("tasks/*/__init__.py")}
    for name, (module, kind) in homes.items():  # the class may say more than the task's name, which can be taken
        assert module == f"mirada.tasks.{name}.task"
        assert kind.startswith(name.title())
    shared = {"__init__", "main", "arguments", "speed"}
    stems = {path.stem for path in PACKAGE.glob("cli/*.py")} - shared
    commands = {stem.rstrip("_") for stem in stems}  # `import` is a word of Python
    assert commands == set(COMMANDS)


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(("mirada", *parts(path))).removesuffix(".__init__")


def users() -> dict[str, set[str]]:
    """The rooms that use each module: tasks by name, every other package by its first word."""
    modules = {module_of(path): path for path in SOURCES}
    rooms = {name: parts(path)[1] if parts(path)[0] == "tasks" else "" for name, path in modules.items()}
    found: dict[str, set[str]] = {name: set() for name in modules}
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for _, imported in imports(path):
            for there in accumulate(imported.split("."), "{}.{}".format):  # a module is imported with its packages
                if there in modules and there != name:
                    importers[there].add(name)
    for name in modules:
        waiting, seen = [name], {name}
        while waiting:
            for user in importers[waiting.pop()] - seen:
                seen.add(user)
                if rooms[user] or not importers[user]:
                    found[name].add(rooms[user] or user)
                if not rooms[user]:
                    waiting.append(user)
    return found


def test_what_one_task_alone_uses_stands_in_its_room() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("tasks/*/__init__.py")}
    elsewhere = ("mirada.tasks", "mirada.models", "mirada.corpora")
    alone = {
        name: users_of
        for name, users_of in users().items()
        if not name.startswith(elsewhere) and len(users_of) == 1 and users_of <= rooms
    }
    assert alone == {}


def test_no_room_opens_into_another() -> None:
    paths = list(PACKAGE.glob("tasks/*/*.py"))
    assert paths
    doors = [(path, name) for path in paths for _, name in imports(path) if name.startswith("mirada.tasks.")]
    assert [(path, name) for path, name in doors if name.split(".")[2] != parts(path)[1]] == []


def test_a_class_name_is_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and path != PACKAGE / "sklearn.py":  # its names are those of scikit-learn
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_all_c_is_in_one_place() -> None:
    assert {path.parent for path in PACKAGE.rglob("*.[ch]")} == {PACKAGE / "native"}


def test_no_vague_file_names() -> None:
    vague = {"utils", "util", "helpers", "common", "base", "misc", "look"}
    private = {"bent", "kept", "ends", "spell", "walk", "top", "order", "quick"}  # words that only we would know
    command = PACKAGE / "cli" / "look.py"  # a command is a file with its name; elsewhere `look` is the function
    assert [path for path in SOURCES if path != command and (vague | private) & set(parts(path))] == []


def test_sources_stay_readable() -> None:
    long = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 800:
            long.append(str(path))
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 70:
                long.append(f"{path}:{node.lineno} {node.name}")
    assert long == []


def test_nothing_loads_a_pickle() -> None:
    pickles = re.compile(r"torch\.load\(|\b(import|from) pickle\b|\bpickle\.\w|allow_pickle=True")
    assert [path for path in SOURCES if pickles.search(path.read_text(encoding="utf-8"))] == []

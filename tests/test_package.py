"""What is installed: a wheel and an sdist that hold what they should and nothing else, and dependencies with bounds."""

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import mirada

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CODE = {".py", ".c", ".h", ".css", ".js", ".typed", ".html", ".svg"}  # what a package of ours consists of
TOPS = {"src", "examples", "tests", "benchmarks", "tools", "docs"}
PAGES = {
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "pyproject.toml",
    "PKG-INFO",
    ".gitignore",
}


def test_every_dependency_has_a_lower_bound_and_torch_an_upper_one() -> None:
    listed = PROJECT["project"]["dependencies"]
    extras = [item for items in PROJECT["project"]["optional-dependencies"].values() for item in items]
    assert listed
    assert [item for item in (*listed, *extras) if not re.search(r">=\d", item)] == []
    assert any(re.fullmatch(r"torch>=2\.\d+,<2\.\d+", item) for item in listed)
    major = [item for item in listed if not re.search(r",<\d", item)]
    assert major == [], "the next major version of these may change what we compute"


def test_the_source_has_only_code_and_small_tables_of_texts() -> None:
    files = [
        path for path in (ROOT / "src" / "mirada").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert len(files) > 200
    tables = {path for path in files if path.parent.name == "corpora" and path.name.endswith(".tsv.bz2")}
    assert sum(path.stat().st_size for path in tables) < 900_000
    others = [path for path in files if path not in tables]
    assert [str(path) for path in others if path.suffix not in CODE] == []
    assert max(path.stat().st_size for path in others) < 200_000


def test_a_command_starts_without_torch_and_without_what_it_does_not_need() -> None:
    program = (
        "import sys; import mirada.cli.main; heavy = 'torch numpy matplotlib PIL sacrebleu starlette pyarrow tokenizers'; "
        "print([name for name in heavy.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_mirada_imports_nothing_that_takes_time() -> None:
    program = (
        "import sys; before = set(sys.modules); import mirada; new = {name.split('.')[0] for name in sys.modules} - before; "
        "print(sorted(new - {'importlib', 'mirada', 'warnings'})); "
        "from mirada.models import GPT; print('mirada.models.gpt' in sys.modules, 'mirada.models.bert' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False"]


def test_every_part_that_the_readme_names_comes_from_mirada() -> None:
    rows = re.findall(
        r"^\| (score|where N\(i\)|where, from data|position|normalizer|heads psi) \|(.*)$",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    homes = {
        "score": "scores", "where N(i)": "neighborhoods", "where, from data": "neighborhoods", "position": "positions",
        "normalizer": "normalizers", "heads psi": "heads",
    }  # fmt: skip
    assert [factor for factor, _ in rows] == list(homes)
    names = {name: homes[factor] for factor, row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(names) == 42
    for name, home in names.items():
        assert getattr(mirada, name) is getattr(import_module(f"mirada.attention.{home}"), name)
        assert name in mirada.__all__


@pytest.mark.parametrize("package", ["", ".attention", ".layers", ".models", ".decoding", ".engine"])
def test_a_package_lists_what_it_offers_to_users_and_to_type_checkers(package: str) -> None:
    module = import_module(f"mirada{package}")
    offered = {name: getattr(module, name) for name in module.__all__}
    assert not [name for name, value in offered.items() if isinstance(value, ModuleType) or not value.__doc__]
    imported = {
        alias.name
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"mirada{package}.")
        for alias in node.names
    }
    assert imported == set(offered)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        module.nothing_of_that_name  # noqa: B018


def test_a_system_without_resource_is_no_reason_to_fail() -> None:
    """As Windows is."""
    program = (
        "import sys; sys.modules['resource'] = None; from mirada.training.plan import _memory_in_use as m; print(m())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


@pytest.mark.slow
def test_the_wheel_and_the_sdist_hold_what_they_should(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="built without an isolated environment: hatchling has to be there")
    for target in ("wheel", "sdist"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tmp_path)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"mirada"}
    assert {Path(name).suffix for name in names} <= CODE | {".bz2"}
    modules = {
        str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "mirada").rglob("*.[pch]*") if path.is_file()
    }
    assert {name for name in modules if "__pycache__" not in name} <= set(names)
    assert any(name.startswith("mirada/examples/") for name in names)
    with tarfile.open(sdist) as archive:
        inside = [member for member in archive.getmembers() if member.isfile()]
        assert not [member.name for member in archive.getmembers() if member.issym() or member.islnk()]
    places = [Path(member.name).parts[1:] for member in inside]
    assert {place[0] for place in places if len(place) > 1} == TOPS
    assert {place[0] for place in places if len(place) == 1} <= PAGES
    assert not [place for place in places if "__pycache__" in place or place[-1].endswith((".pyc", ".so"))]

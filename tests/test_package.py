"""What is installed: a wheel and an sdist that hold what they should and nothing else, and dependencies with bounds."""

import ast
import os
import re
import shutil
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
from mirada.native import variants

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
        path
        for path in (ROOT / "src" / "mirada").rglob("*")
        if path.is_file() and not {"__pycache__", "installed"} & set(path.parts)  # what an installation compiled
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
        environment = os.environ | {"MIRADA_NATIVE": "0"}  # as where there is no compiler
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,), (sdist,) = tmp_path.glob("*-py3-none-any.whl"), tmp_path.glob("*.tar.gz")
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


IN_A_WHEEL = """
import mirada
from mirada.native import library
recipe, path = library.search_once().built
run = mirada.train("translate", [("one two", "uno dos"), ("two", "dos"), ("one", "uno"), ("two one", "dos uno")] * 8, steps=2)
answers = run(["one two"])
print(mirada.__file__, recipe.variant, path.parent, run.settings.native, len(answers), sep="\\n")
"""


@pytest.mark.slow
def test_an_installed_wheel_computes_where_there_is_no_compiler(tmp_path: Path) -> None:
    """Nothing is compiled, nothing is kept in the cache, and the tag is that of the platform."""
    pytest.importorskip("hatchling", reason="built without an isolated environment: hatchling has to be there")
    if not shutil.which("cc") or not sys.platform.startswith("linux"):
        pytest.skip("libraries are built on Linux, with a C compiler")
    environment = {name: value for name, value in os.environ.items() if name not in ("MIRADA_NATIVE", "PYTHONPATH")}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert re.fullmatch(r"mirada-[\d.]+-py3-none-(manylinux_2_\d+|linux)_(x86_64|aarch64)\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        about = next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: false" in archive.read(about).decode()
        libraries = {name for name in archive.namelist() if name.endswith(".so")}
        assert len(libraries) == len(variants.of_machine())
        assert {str(Path(name).parent) for name in libraries} == {"mirada/native/installed"}
    place, empty = tmp_path / "place", tmp_path / "empty"
    empty.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(place), str(wheel)]
    subprocess.run(install, env=environment, check=True, capture_output=True)
    environment |= {"PYTHONPATH": str(place), "PATH": str(empty), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_WHEEL], cwd=empty, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    package, variant, folder, native, answers = done.stdout.splitlines()[-5:]
    assert Path(package) == place / "mirada" / "__init__.py"
    assert Path(folder) == place / "mirada" / "native" / "installed"
    assert variant == variants.runnable()[0].name
    assert native.startswith(f"{variant}-")
    assert answers == "1"
    assert not (tmp_path / "cache" / "mirada").exists()

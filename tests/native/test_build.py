"""The library is ours and whole, or it is not loaded; what failed is remembered; and the reason can be read."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mirada.native import build, library

needs_compiler = pytest.mark.skipif(library.library() is None, reason=f"nothing is compiled here: {library.reason()}")


@pytest.fixture(autouse=True)
def _nothing_is_installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a folder of sources, also where the package was installed in place."""
    monkeypatch.setattr(build, "INSTALLED", tmp_path_factory.mktemp("installed"))
    if os.environ.get("MIRADA_NATIVE") != "0":
        monkeypatch.delenv("MIRADA_NATIVE", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mirada"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the compiler is asked to make: a small library, quickly."""
    asked: list[list[str]] = []

    def small(plan: build.BuildRecipe, target: Path) -> list[str]:
        asked.append([*plan.flags])
        return [plan.compiler, "-shared", "-fPIC", "-x", "c", "-o", str(target), os.devnull]

    monkeypatch.setattr(build.BuildRecipe, "command", small)
    return asked


def plan(**changed: object) -> build.BuildRecipe:
    first = build.plans()[0]
    return build.BuildRecipe(**{"compiler": first.compiler, "version": first.version, "flags": first.flags, **changed})


# The key


@needs_compiler
@pytest.mark.parametrize(
    "changed",
    [{"compiler": "/opt/cc"}, {"version": "cc 99"}, {"flags": ("-O2",)}],
    ids=lambda changed: next(iter(changed)),
)
def test_the_key_covers_compiler_version_and_flags(changed: dict[str, object]) -> None:
    assert plan(**changed).key != plan().key == plan().key


@needs_compiler
@pytest.mark.parametrize("name", ["DEFINED", "SHARED"])
def test_the_key_covers_constants_and_base_flags(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan().key
    monkeypatch.setattr(build, name, (*getattr(build, name), "-DMORE=1"))
    assert plan().key != before


@needs_compiler
def test_the_key_covers_sources_headers_and_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    for path in build.sources():
        copies.append(tmp_path / path.name)
        copies[-1].write_bytes(path.read_bytes())
    monkeypatch.setattr(build, "sources", lambda: copies)
    keys = {plan().key}
    for path in copies:
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        keys.add(plan().key)
    assert {path.suffix for path in copies} == {".c", ".h"}
    monkeypatch.setattr(build, "features", lambda: "another")
    assert len(keys | {plan().key}) == len(copies) + 2


# Whole, and ours


@needs_compiler
def test_a_library_is_built_once(folder: Path, runs: list[list[str]]) -> None:
    first = build.build(plan())
    assert build.build(plan()) == first
    assert len(runs) == 1
    assert sorted(folder.iterdir()) == [first]  # nothing else is left behind
    assert first.stat().st_mode & 0o077 == folder.stat().st_mode & 0o077 == 0


@needs_compiler
@pytest.mark.parametrize("damage", ["empty", "cut short", "changed"])
def test_a_damaged_library_is_built_anew(folder: Path, runs: list[list[str]], damage: str) -> None:
    path = build.build(plan())
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "cut short": whole[: len(whole) // 2], "changed": whole[:-1] + b"?"}[damage])
    assert build.build(plan()).read_bytes()
    assert len(runs) == 2
    assert [path.name for path in folder.iterdir()] == [build.named(folder, plan().key, path.read_bytes()).name]


@needs_compiler
def test_a_library_cut_short_kills_nobody(tmp_path: Path) -> None:
    """In a process of its own: what is mapped beyond a file's end is a bus error."""
    good = library.search_once().built[1]
    cut = tmp_path / "mirada" / good.name
    cut.parent.mkdir(mode=0o700)
    cut.write_bytes(good.read_bytes()[:5000])
    cut.chmod(0o700)
    program = "from mirada.native import library; print(library.library().decode_panel())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(library.library().decode_panel())), done.stderr


@needs_compiler
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(folder: Path, runs: list[list[str]], mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(build.NotBuiltError, match="must be yours and writable by nobody else"):
        build.build(plan())
    assert runs == []


@needs_compiler
def test_what_belongs_to_another_user_is_refused(
    folder: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    build.build(plan())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(build.NotBuiltError, match="must be yours"):
        build.build(plan())


@needs_compiler
@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_a_folder_that_others_may_replace_is_refused(
    tmp_path: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Who may write to the folder above may put another one in the place of ours between a check and the loading."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    with pytest.raises(build.NotBuiltError, match="can be replaced by others"):
        build.build(plan())
    assert (runs, library.search().library) == ([], None)
    shared.chmod(0o1777)  # as /tmp: others may add, and not rename
    assert build.build(plan()).exists()


@needs_compiler
def test_a_library_of_another_user_in_a_linked_folder_is_refused(
    tmp_path: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in our cache to a folder that is ours, below one that is not."""
    real = tmp_path / "open"
    (real / "mirada").mkdir(parents=True, mode=0o700)
    real.chmod(0o777)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mirada").symlink_to(real / "mirada")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(build.NotBuiltError, match="can be replaced by others"):
        build.build(plan())


@needs_compiler
def test_a_user_without_name_and_home_computes_without_the_library(tmp_path: Path) -> None:
    """As in a container that is started with a number for a user."""
    program = (
        "import os, pwd; os.environ.pop('HOME', None); os.environ.pop('XDG_CACHE_HOME', None); os.environ['USER'] = ''\n"
        "def nobody(uid): raise KeyError('getpwuid(): uid not found')\n"
        "pwd.getpwuid = nobody\n"
        "from mirada.native import library; print(library.library(), library.describe())"
    )
    environment = os.environ | {"MIRADA_NATIVE": "native"}  # not a library that was installed
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "there is no home folder to keep it in" in done.stdout


@needs_compiler
def test_a_file_that_others_may_write_to_is_built_anew(folder: Path, runs: list[list[str]]) -> None:
    build.build(plan()).chmod(0o777)
    assert build.ours(build.build(plan()))
    assert len(runs) == 2


# No folder


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for odd in ("", "here", "./there"):
        monkeypatch.setenv("XDG_CACHE_HOME", odd)
        assert build.cache_home() == tmp_path / ".cache"


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_no_home_folder_gives_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for odd in ("somewhere", "/nonexistent"):  # where Debian says that nobody lives: it is not to be made
        monkeypatch.setenv("HOME", odd)
        with pytest.raises(build.NotBuiltError, match="no home folder"):
            build.cache_home()
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(build.NotBuiltError, match=r"no home folder.*set XDG_CACHE_HOME"):
        build.cache_home()
    if library.library() is not None:
        assert library.search()[:2] == (None, "there is no home folder to keep it in (Could not determine home directory."
                                        "): set XDG_CACHE_HOME")  # fmt: skip


@needs_compiler
def test_a_folder_that_cannot_be_made_gives_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert library.search().library is None
    assert "could not be kept" in library.search().reason


# Failures


def test_without_a_compiler_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRADA_NATIVE", raising=False)
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    assert library.search() == (None, "there is no C compiler (cc, gcc, clang)", None)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRADA_NATIVE", "0")
    assert library.search() == (None, "MIRADA_NATIVE=0 turns it off", None)


@needs_compiler
def test_a_failed_build_is_remembered_until_something_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = []
    broken = tmp_path / "broken.c"
    broken.write_text("int x = y;\n")

    def command(given: build.BuildRecipe, target: Path) -> list[str]:
        calls.append(given.flags)
        return [given.compiler, "-c", "-o", str(target), str(broken)]

    monkeypatch.setattr(build.BuildRecipe, "command", command)
    with pytest.raises(build.NotBuiltError, match=r"cc failed: .*broken.c:1:9: error: .*y.*undeclared"):
        build.build(plan())
    with pytest.raises(build.NotBuiltError, match=r"undeclared.*remembered: remove .*\.failed to try again"):
        build.build(plan())
    assert len(calls) == 1
    with pytest.raises(build.NotBuiltError):
        build.build(plan(flags=("-O1",)))
    assert len(calls) == 2
    broken.write_text("int x;\n")
    monkeypatch.setattr(build, "REMEMBERED", 0)  # a day later
    assert build.build(plan()).exists()
    assert not (folder / f"mirada-{plan().key}.failed").exists()


def test_a_compiler_that_does_not_run_gives_no_library(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MIRADA_NATIVE", raising=False)
    monkeypatch.setattr(build.shutil, "which", lambda name: str(tmp_path / "no-compiler"))
    assert "does not run" in library.search().reason
    monkeypatch.setattr(build.shutil, "which", lambda name: "/bin/false")
    assert library.search().reason == "/bin/false failed: it says nothing"
    assert list(folder.rglob("*.so")) == []


@needs_compiler
def test_without_openmp_there_is_a_library_for_one_thread(
    folder: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_plain(given: build.BuildRecipe) -> Path:
        if build.THREADS in given.flags:
            raise build.NotBuiltError("no OpenMP")
        return made(given)

    made = build.build
    monkeypatch.setattr(library, "build", only_plain)
    monkeypatch.setattr(library, "declared", lambda loaded: loaded)
    plan, _ = library.search().built
    assert build.THREADS not in plan.flags


# What can be read of it


def test_it_says_what_is_compiled_or_why_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    if library.library() is not None:
        recipe, _ = library.search_once().built
        assert library.describe().startswith("compiled by /")
        assert f"for {recipe.variant}: -O3 " in library.describe()
        assert library.identity() == f"{recipe.variant}-{recipe.key}"
    monkeypatch.setattr(library, "search_once", lambda: library.FoundLibrary(None, "there is no C compiler"))
    assert library.describe().startswith("not compiled: there is no C compiler.")
    assert library.identity() == "plain"


def test_a_compiler_that_hangs_is_waited_for_a_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves a child behind that holds its output open."""
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nsleep 60 &\necho $! > "$0.pid"\nsleep 60\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(build, "LONGEST_VERSION", 0.3)
    began = time.monotonic()
    with pytest.raises(build.NotBuiltError, match=r"does not run: .*timed out"):
        build.plans()
    assert time.monotonic() - began < 5
    os.kill(int((tmp_path / "cc.pid").read_text()), signal.SIGKILL)


def test_every_process_waits_at_most_a_few_seconds() -> None:
    assert build.LONGEST_VERSION <= 5

"""A wheel's libraries: the best one for the processor is loaded, nothing is compiled, and every variant computes the same."""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mirada.native import build, library, variants

ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, build.COMPILERS)), reason="there is no C compiler here")
V3 = "flags\t\t: fpu sse2 " + " ".join(sorted(variants._V3))
PROCESSORS = {  # what Linux lists, and what they run, the best one first
    V3: ["x86-64-v3", "x86-64-v2"],
    f"{V3} avx_vnni": ["x86-64-v3-vnni", "x86-64-v3", "x86-64-v2"],
    f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl": ["x86-64-v3", "x86-64-v2"],
    f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni": ["x86-64-v4-vnni", "x86-64-v3", "x86-64-v2"],
    V3.replace("avx2", ""): ["x86-64-v2"],
    "flags : fpu sse2": [],
}


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One with AVX2."""
    monkeypatch.delenv("MIRADA_NATIVE", raising=False)
    monkeypatch.setattr(variants.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(variants, "features", lambda: V3)
    return monkeypatch


@pytest.fixture
def installed(processor: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of libraries, as a wheel brings them: small ones, quickly made."""

    def small(plan: build.BuildRecipe, target: Path) -> list[str]:
        return [plan.compiler, "-shared", "-fPIC", "-x", "c", "-o", str(target), os.devnull]

    folder = tmp_path / "installed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build.BuildRecipe, "command", small)
        assert build.build_variants(folder) == []
    processor.setattr(build, "INSTALLED", folder)
    processor.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def refuse(*_: object) -> Path:
    raise AssertionError("nothing is to be compiled")


# Which one


@pytest.mark.parametrize(("features", "names"), PROCESSORS.items(), ids=map(str, range(len(PROCESSORS))))
def test_the_processor_decides(processor: pytest.MonkeyPatch, features: str, names: list[str]) -> None:
    processor.setattr(variants, "features", lambda: features)
    assert [variant.name for variant in variants.runnable()] == names


def test_arm_has_its_own(processor: pytest.MonkeyPatch) -> None:
    processor.setattr(variants.platform, "machine", lambda: "aarch64")
    processor.setattr(variants, "features", lambda: "Features\t: fp asimd evtstrm aes")
    assert [variant.name for variant in variants.runnable()] == ["aarch64"]


def test_a_variant_can_be_chosen_and_must_run_here(processor: pytest.MonkeyPatch) -> None:
    for name, found in (("", None), ("1", None), ("0", "0"), ("native", "native"), ("x86-64-v2", "x86-64-v2")):
        processor.setenv("MIRADA_NATIVE", name)
        assert variants.chosen() == found
    processor.setenv("MIRADA_NATIVE", "x86-64-v4-vnni")
    with pytest.raises(ValueError, match="this processor runs x86-64-v3, x86-64-v2 only"):
        variants.chosen()
    processor.setenv("MIRADA_NATIVE", "x86-64-v33")
    with pytest.raises(ValueError, match=r"unknown MIRADA_NATIVE 'x86-64-v33'.*Did you mean 'x86-64-v3'"):
        variants.chosen()


@needs_compiler
def test_the_best_installed_library_is_loaded_and_nothing_compiled(
    installed: Path, processor: pytest.MonkeyPatch
) -> None:
    processor.setattr(build, "_compiled", refuse)
    processor.setattr(library, "declared", lambda loaded: loaded)
    processor.setattr(build.shutil, "which", lambda name: None)
    recipe, path = library.search().built
    assert (recipe.variant, path.parent) == ("x86-64-v3", installed)
    assert "-march=x86-64-v3" in recipe.flags
    assert list((installed.parent).glob("cache/*")) == []
    processor.setenv("MIRADA_NATIVE", "x86-64-v2")
    assert library.search().built[0].variant == "x86-64-v2"


@needs_compiler
def test_its_key_is_that_of_the_variant_on_every_processor(installed: Path, processor: pytest.MonkeyPatch) -> None:
    recipe, _ = next(build.installed())
    processor.setattr(build, "features", lambda: f"{V3} avx512_something")
    assert next(build.installed())[0].key == recipe.key


@needs_compiler
@pytest.mark.parametrize("harm", ["cut short", "other sources", "no list", "a list of something else"])
def test_what_is_not_whole_or_not_of_these_sources_is_not_loaded(
    installed: Path, processor: pytest.MonkeyPatch, harm: str, tmp_path: Path
) -> None:
    recipe, path = next(build.installed())
    if harm == "cut short":
        path.write_bytes(path.read_bytes()[:100])
        assert [each.variant for each, _ in build.installed()] == ["x86-64-v2"]
        path.unlink()
    elif harm == "other sources":
        more = tmp_path / "more.h"
        more.write_text("/* changed */\n")
        before = build.sources()
        processor.setattr(build, "sources", lambda: [*before, more])
    else:
        (installed / build.RECIPES).write_text("{" if harm == "no list" else json.dumps([{"variant": 3}]))
    assert recipe not in [each for each, _ in build.installed()]
    if harm != "cut short":
        assert [plan.variant for plan, _ in build.candidates()] == ["native", "native"]


@needs_compiler
def test_building_again_compiles_only_what_changed_and_removes_the_rest(
    installed: Path, processor: pytest.MonkeyPatch
) -> None:
    before = sorted(installed.iterdir())
    assert len(before) == 5
    old = installed / "mirada-0000000000000000-0.so"
    old.write_text("")
    processor.setattr(build, "_compiled", refuse)
    assert build.build_variants(installed) == []
    assert sorted(installed.iterdir()) == before
    processor.setattr(build.shutil, "which", lambda name: None)
    assert build.build_variants(installed)[0] == "x86-64-v4-vnni: there is no C compiler (cc, gcc, clang)"
    assert [path.name for path in installed.iterdir()] == [build.RECIPES]


def test_no_library_is_said_once_unless_nobody_wants_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("MIRADA_NATIVE", raising=False)
    monkeypatch.setattr(library, "search", lambda: library.FoundLibrary(None, "there is no C compiler (cc)"))
    ask = library.search_once.__wrapped__
    with caplog.at_level(logging.WARNING):
        ask()
        assert caplog.messages == ["mirada computes in plain PyTorch, which is slower: there is no C compiler (cc)"]
        monkeypatch.setenv("MIRADA_NATIVE", "0")
        ask()
    assert len(caplog.messages) == 1


# What is in it (slow: every variant is compiled)


INSTRUCTIONS = {  # what a variant's machine code has, and what it must not have
    "x86-64-v4-vnni": (("%zmm", "vfmadd", "vpdpbusd"), ()),
    "x86-64-v3-vnni": (("%ymm", "vfmadd", "vpdpbusd"), ("%zmm", "%k1")),
    "x86-64-v3": (("%ymm", "vfmadd"), ("%zmm", "%k1", "vpdpbusd")),
    "x86-64-v2": (("mulps", "pmovzx|pmovsx|pshufb|palignr|blendv|dpps|insertps"), ("%ymm", "%zmm", "vfmadd")),
}


@pytest.mark.slow
@needs_compiler
@pytest.mark.skipif(not shutil.which("objdump"), reason="there is no objdump here")
@pytest.mark.parametrize("variant", variants.of_machine("x86_64"), ids=lambda variant: variant.name)
def test_the_machine_code_is_that_of_the_variant(variant: variants.Variant, tmp_path: Path) -> None:
    """Also of variants that this processor does not run."""
    if "x86" not in variants.platform.machine():
        pytest.skip("a compiler for another machine")
    assert build.build_variants(tmp_path, [variant]) == []
    (path,) = tmp_path.glob("*.so")
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    wanted, forbidden = INSTRUCTIONS[variant.name]
    assert [word for word in wanted if not re.search(word, code.stdout)] == []
    assert [word for word in forbidden if re.search(word, code.stdout)] == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("variant", variants.runnable(), ids=lambda variant: variant.name)
def test_every_variant_that_runs_here_computes_the_same(variant: variants.Variant) -> None:
    """The tests of all C, with this variant compiled on first use."""
    tests = [f"tests/native/test_{name}.py" for name in ("decode", "bytes", "products", "library")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests, "tests/engine/test_compiled.py", "-q", "-n", "0", "-p", "no:cacheprovider"],
        cwd=ROOT, env={**os.environ, "MIRADA_NATIVE": variant.name}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


# Arm, by a cross-compiler and an emulator

CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PROGRAMS = Path(__file__).parent / "programs"  # each calls the C of one file, and prints numbers


def printed(compiler: str, flags: tuple[str, ...], name: str, folder: Path, emulator: list[str]) -> list[list[str]]:
    """What a program prints that calls the C of one file."""
    source, target = PROGRAMS / f"{name}_numbers.c", folder / f"{name}-{compiler}"
    others = [str(path) for path in build.sources() if path.suffix == ".c" and path.stem != name]
    words = [compiler, *build.FLAGS, *flags, *build.DEFINED, "-static", "-I", str(build.HERE)]
    subprocess.run([*words, "-o", str(target), str(source), *others, "-lm"], check=True, capture_output=True, text=True)
    done = subprocess.run([*emulator, str(target)], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(CROSS), reason="needs Debian's gcc-aarch64-linux-gnu and libc6-dev-arm64-cross")
def test_arm_is_compiled_and_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "COMPILERS", (CROSS,))
    monkeypatch.delenv("MIRADA_NATIVE", raising=False)
    (arm,) = variants.of_machine("aarch64")
    assert build.build_variants(tmp_path, [arm]) == []
    (path,) = tmp_path.glob("*.so")
    assert path.read_bytes()[18:20] == b"\xb7\x00"  # ELF's number of this machine
    objdump = CROSS.replace("gcc", "objdump")
    code = subprocess.run([objdump, "-d", path], capture_output=True, text=True, check=True).stdout
    assert re.search(r"fmla\s+v\d+\.4s", code)
    if not shutil.which(EMULATOR) or not shutil.which("cc") or "x86" not in variants.platform.machine():
        pytest.skip("compiled; no emulator (qemu-user) to run it")
    for name in ("decode", "short"):  # with panels as wide as those of x86-64-v3, so both read the same numbers
        ours = printed(CROSS, arm.flags, name, tmp_path, [EMULATOR])
        theirs = printed("cc", variants.VARIANTS[2].flags, name, tmp_path, [])
        assert [row[0] for row in ours] == [row[0] for row in theirs]
        assert len(ours) > 700
        for (kind, mine), (_, other) in zip(ours, theirs, strict=True):
            assert (
                mine == other if kind == "checksum" else float(mine) == pytest.approx(float(other), rel=1e-3, abs=1e-4)
            ), kind

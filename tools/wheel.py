"""The wheel, with the compiled libraries of this machine: `python -m tools.wheel` writes it to dist/.

This file is also the build hook of pyproject.toml: `pip install .` and `pip install -e .` run it. Where there is no C compiler,
or with MIRADA_NATIVE=0, the wheel is pure Python, and the library is compiled on first use.
"""

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parents[1]
LIBRARIES = "mirada/native/installed"
OLDEST_GLIBC = 17  # of the tags that name a version, 2.17 is the first


class LibraryHook(BuildHookInterface[Any]):
    """Adds the libraries to a wheel. An editable installation gets them in the folder of the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the libraries; the wheel belongs to this platform if it has some."""
        self.scratch = tempfile.TemporaryDirectory()
        folder = ROOT / "src" / LIBRARIES if version == "editable" else Path(self.scratch.name)
        try:
            libraries = built(folder)
        except OSError as failed:  # sources that nobody may write to
            libraries = []
            print(f"mirada: no compiled libraries: {failed}", file=sys.stderr)
        if libraries and version != "editable":
            listed = [*libraries, folder / "recipes.json"]
            build_data["force_include"] |= {str(path): f"{LIBRARIES}/{path.name}" for path in listed}
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform_tag(libraries)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        self.scratch.cleanup()


def built(folder: Path) -> list[Path]:
    """The libraries of all variants of this machine, built into a folder; what could not be built is told."""
    if not sys.platform.startswith("linux"):  # elsewhere nobody would know which of them the processor runs
        return []
    if str(ROOT / "src") not in sys.path:
        sys.path.insert(0, str(ROOT / "src"))
    from mirada.native.build import build_variants

    for problem in build_variants(folder):
        print(f"mirada: not compiled for {problem}", file=sys.stderr)
    return sorted(folder.glob("mirada-*.so"))


def platform_tag(libraries: list[Path]) -> str:
    """The platform that wheels with these libraries are for: by the newest version of glibc that they ask for.

    >>> import tempfile
    >>> library = Path(tempfile.mkdtemp(), "mirada-0.so")
    >>> _ = library.write_bytes(b"..GLIBC_2.2.5..GLIBC_2.27..")
    >>> re.sub("x86_64|aarch64", "MACHINE", platform_tag([library]))
    'manylinux_2_27_MACHINE'
    """
    here = re.sub(r"[.-]", "_", sysconfig.get_platform())
    asked = [int(minor) for path in libraries for minor in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())]
    return here.replace("linux_", f"manylinux_2_{max(OLDEST_GLIBC, *asked)}_", 1) if asked else here


def main() -> None:
    """Build the wheel."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()

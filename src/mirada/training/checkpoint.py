"""Files that are whole or not there: tensors and facts in one safetensors file, written beside and renamed."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mirada.checksums import damage, with_checksum
from mirada.errors import require
from mirada.files import write_whole


FACTS = "facts"
BESIDE = 1 << 20  # bytes of settings, log and report beside the weights, about


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors and facts (anything JSON can hold) in one file."""
    write_whole(path, packed(tensors, facts))


def packed(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> bytes:
    """What such a file holds."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return with_checksum(save(plain, metadata={FACTS: json.dumps(dict(facts))}))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_checkpoint` wrote."""
    try:
        wrong = damage(path)
        require(not wrong, wrong)
        with safe_open(str(path), framework="pt") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
            require(isinstance(facts, dict), "its facts are no JSON object")
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118 (it is no mapping)
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{path} is not a whole checkpoint: {reason}. Delete it to start over, or restore a copy."
        ) from None


def check_room(folder: Path, needed: int) -> None:
    """Make the folder and require that it can be written and has room, before any work is done.

    A disk that is full only later still loses nothing: files are replaced whole.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as probe:
            probe.write(b"mirada")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be written: {error.strerror or error}. Choose another folder with --out."
        ) from None
    needed += BESIDE
    if free < needed:
        raise ValueError(
            f"{folder} has {in_bytes(free)} left and the run needs about {in_bytes(needed)}. "
            "Make room, or choose another folder with --out."
        )


def in_bytes(count: float) -> str:
    """A size in words.

    >>> in_bytes(0), in_bytes(25_600), in_bytes(3_141_592)
    ('0 bytes', '25.6 kB', '3.1 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} bytes"

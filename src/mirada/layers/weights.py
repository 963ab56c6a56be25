"""Weights in a file: written a tensor at a time, and given to a model that was built without any.

A large file is mapped, not read: its numbers are in memory once, shared by all processes that use them, and the system reads
them when they are first used.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.modules import module as registration
from torch.overrides import TorchFunctionMode

from mirada.errors import require
from mirada.files import METADATA, NAME, Sums, pieces_of, replaced, safetensors_start
from mirada.shapes import show
from mirada.words import plural, shortened

M = TypeVar("M", bound=nn.Module)
MAPPED_FROM = 64 << 20  # bytes; what happens to a smaller file later does not matter to who loaded it
SHOWN = 3  # names in an error
NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
FILLED = (
    "normal_", "uniform_", "trunc_normal_", "constant_", "zeros_", "ones_", "eye_", "orthogonal_", "xavier_uniform_",
    "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "fill_", "zero_", "copy_", "mul_", "add_", "sub_", "div_",
)  # fmt: skip


class Stored(NamedTuple):
    """A tensor that goes into a file: its value is made when it is written."""

    name: str
    dtype: torch.dtype
    shape: Sequence[int]
    value: Callable[[], Tensor]


def write_tensors(
    path: Path,
    tensors: Sequence[Stored],
    about: dict[str, str] | None = None,
    sync: bool = True,
    located: Callable[[Tensor], tuple[Path, int] | None] = lambda tensor: None,
) -> None:
    """Write a safetensors file with its checksum, a tensor at a time; the file is there whole, or not at all.

    Args:
        path: the file.
        tensors: what it holds; they are written by size of their numbers, then by name.
        about: further metadata.
        sync: whether to wait until the disk has it. A copy of what is on the disk anyway need not.
        located: the file that a tensor is mapped from, and its first byte there: the system copies it from file to file.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp(), "w.safetensors")
    >>> write_tensors(path, [Stored("w", torch.float32, (2,), lambda: torch.ones(2))])
    >>> tensors_of(path)["w"]
    tensor([1., 1.])
    """
    tensors = sorted(tensors, key=lambda each: (-each.dtype.itemsize, each.name))
    header: dict[str, Any] = {METADATA: {"format": "pt", **(about or {})}}
    end = 0
    for each in tensors:
        size = each.dtype.itemsize
        for length in each.shape:
            size *= length
        header[each.name] = {"dtype": NAMES[each.dtype], "shape": list(each.shape), "data_offsets": [end, end + size]}
        end += size
    start, digest = safetensors_start(header)[0], Sums(header)
    with replaced(path, len(start) + end, sync) as file, ThreadPoolExecutor(1) as beside:
        file.write(start)
        hashed = beside.submit(_add, digest, memoryview(b""))
        for each in tensors:
            value = each.value().detach()
            ready = value.dtype == each.dtype and tuple(value.shape) == tuple(each.shape)
            require(ready, f"{each.name} must be {each.dtype} {tuple(each.shape)}: got {value.dtype} {show(value)}")
            source = located(value) if value.is_contiguous() else None
            content = value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            hashed.result()  # a tensor is hashed while it is written
            hashed = beside.submit(_add, digest, content)
            if source is None or not _copied(file, *source, len(content)):
                file.write(content)
        hashed.result()
        header[METADATA][NAME] = digest.hexdigest()
        file.seek(0)
        file.write(safetensors_start(header)[0])


def _copied(file: BinaryIO, path: Path, first: int, size: int) -> bool:
    """Whether the system could copy bytes of one file to the end of another; where it cannot, nothing is written."""
    if not hasattr(os, "copy_file_range"):
        return False
    file.flush()
    end = file.tell()
    with open(path, "rb") as there:
        copied = 0
        try:
            while copied < size:
                count = os.copy_file_range(there.fileno(), file.fileno(), size - copied, first + copied, end + copied)
                require(count > 0, f"{path} became shorter while it was read")
                copied += count
        except OSError:  # files of two systems, or one that cannot do this
            return False
    file.seek(end + size)
    return True


def _add(digest: Sums, content: memoryview) -> None:
    """Add a tensor to a hash."""
    first = 0
    for size in pieces_of(len(content)):
        digest.update(content[first : first + size])
        first += size


def tensors_of(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; those of a large file are mapped."""
    with safe_open(str(path), framework="pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    # Windows does not replace a file that is mapped
    keep = path.stat().st_size >= MAPPED_FROM and sys.platform != "win32"
    return found if keep else {name: tensor.clone() for name, tensor in found.items()}


class WithoutFilling(TorchFunctionMode):
    """Skips the initialization of tensors on the meta device: PyTorch would import its compiler for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = args[0] if args else (kwargs or {}).get("tensor")
        if isinstance(first, Tensor) and first.is_meta and getattr(func, "__name__", "") in FILLED:
            return first
        return func(*args, **(kwargs or {}))


@contextmanager
def without_weights() -> Iterator[None]:
    """Inside, modules that are made in this thread have parameters on the meta device; their tables are computed as ever.

    >>> with without_weights():
    ...     nn.Linear(2, 3).weight.device
    device(type='meta')
    """
    thread = threading.get_ident()

    def emptied(module: nn.Module, name: str, value: nn.Parameter | None) -> nn.Parameter | None:
        if value is None or value.is_meta or threading.get_ident() != thread:
            return None
        return nn.Parameter(value.detach().to("meta"), value.requires_grad)

    hook = registration.register_module_parameter_registration_hook(emptied)  # type: ignore[arg-type]
    try:
        with WithoutFilling():
            yield
    finally:
        hook.remove()


def built_empty(build: Callable[[], M]) -> M:
    """A model without weights, for `fill`; one that cannot be built so, from outside, is built as ever."""
    try:
        with without_weights():
            return build()
    except (RuntimeError, NotImplementedError):
        return build()


def fill(model: M, tensors: dict[str, Tensor]) -> M:
    """The model with these tensors as its parameters and buffers: not copied, where they have its dtype.

    Every one of them must be there once, by one of its names, and nothing else may be there.

    >>> with without_weights():
    ...     layer = nn.Linear(1, 1)
    >>> fill(layer, {"weight": torch.ones(1, 1), "bias": torch.zeros(1)})(torch.ones(1, 1)).item()
    1.0
    """
    known = model.state_dict(keep_vars=True)
    strange = sorted(set(tensors) - set(known))
    message = f"it has {plural(len(strange), 'tensor')} that the model has not: {_listed(strange)}, ..."
    require(not strange, message)
    groups: dict[int, list[str]] = {}
    for name, value in known.items():
        groups.setdefault(id(value), []).append(name)
    missing = [names[0] for names in groups.values() if not any(name in tensors for name in names)]
    require(not missing, f"it lacks {plural(len(missing), 'tensor')} of the model: {_listed(missing)}")
    modules = dict(model.named_modules(remove_duplicate=False))
    for names in groups.values():
        there = [name for name in names if name in tensors]
        require(len(there) == 1, f"it has one tensor under several names: {_listed(there)}")
        value = _fitted(known[names[0]], tensors[there[0]], there[0])
        for name in names:
            owner, _, short = name.rpartition(".")
            setattr(modules[owner], short, value)
    return model


def _fitted(old: Tensor, new: Tensor, name: str) -> Tensor:
    """A tensor of a file in the place of one of a model."""
    alike = old.shape == new.shape and old.is_floating_point() == new.is_floating_point()
    require(alike, f"{name} must be {old.dtype} {show(old)}: got {new.dtype} {show(new)}")
    new = new.to(old.dtype)
    return nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new


def _listed(names: Sequence[str]) -> str:
    """The first few names."""
    return ", ".join(shortened(name) for name in names[:SHOWN])

"""How weights are stored: bytes of their square roots, plain numbers, or queries and keys to recompute them from.

`docs/attn.md` has the table. Every encoding is checked against the exact weights when it is written.
"""

import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer, UInt8
from torch import Tensor

from mirada.attention.normalizers import masked_softmax
from mirada.errors import require
from mirada.looking.statistics import Checks
from mirada.looking.stream import NUMBERS_AT_ONCE, Factors, Stream
from mirada.words import shortened

# The manifest of an attention file: every value is checked before it is used.


FORMAT, VERSION = "mirada.attn", 1
PARTS = ("kernel", "score", "where", "position", "normalizer")  # of a layer, as they print themselves
PNG = b"\x89PNG\r\n\x1a\n"  # how every PNG begins
LARGEST_SIDE = 2**24  # places of an axis
MOST_STREAMS, MOST_WEIGHTS = 4096, 2**31
MOST_ROWS = 2**26  # heads x places of a layer: there are numbers for each, whatever the encoding


class Fields:
    """The fields of a JSON object by type. A wrong one is named by its path."""

    def __init__(self, value: Any, path: str = "manifest") -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{path} must be an object: got {shown(value)}")
        self.value, self.path = value, path

    def __contains__(self, name: str) -> bool:
        return self.value.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def _checked(self, name: str, good: bool, expected: str) -> Any:
        """The value of a field; an error if it is missing or not good."""
        if name not in self.value:
            raise ValueError(f"{self.path} has no {name!r}")
        if not good:
            raise ValueError(f"{self.path}.{name} must be {expected}: got {shown(self.value[name])}")
        return self.value[name]

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        if default is not None and name not in self:
            return default
        return str(self._checked(name, isinstance(self.value.get(name), str), "a string"))

    def whole(self, name: str, low: int = 0, high: int = LARGEST_SIDE) -> int:
        """A whole number between bounds."""
        value = self.value.get(name)
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return int(self._checked(name, good, f"a whole number from {low} to {high}"))

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number."""
        if default is not None and name not in self:
            return default
        return float(self._checked(name, is_number(self.value.get(name)), "a number"))

    def maybe_number(self, name: str) -> float | None:
        """A finite number, or None where the field is missing."""
        return self.number(name) if name in self else None

    def flag(self, name: str) -> bool:
        """True or false; false where the field is missing."""
        return name in self.value and bool(self._checked(name, isinstance(self.value[name], bool), "true or false"))

    def object(self, name: str) -> "Fields":
        """An object, with its path for errors."""
        return Fields(self._checked(name, True, "an object"), f"{self.path}.{name}")

    def items(self, name: str, needed: bool = False) -> list[Any]:
        """A list; empty where the field is missing and not needed."""
        if name not in self and not needed:
            return []
        return list(self._checked(name, isinstance(self.value.get(name), list), "a list"))

    def objects(self, name: str, needed: bool = False) -> "list[Fields]":
        """A list of objects."""
        return [Fields(item, f"{self.path}.{name}[{place}]") for place, item in enumerate(self.items(name, needed))]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        items = self.items(name)
        good = all(isinstance(item, str) for item in items)
        return tuple(self._checked(name, good, "a list of strings")) if items else ()

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """A list of `count` finite numbers."""
        items = self.items(name)
        good = all(map(is_number, items)) and len(items) == count
        return tuple(map(float, self._checked(name, good, f"a list of {count} numbers")))


def is_number(value: Any) -> bool:
    """Whether a value is a number that fits a float and is finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= 1e308 if isinstance(value, int) else math.isfinite(value)


def shown(value: Any) -> str:
    """A value of a file in an error: short, and on one line."""
    return shortened(repr(value))


def parse(content: bytes) -> Fields:
    """The manifest, if it is one that this version reads."""
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its manifest.json is not JSON: {str(error).splitlines()[0][:120]}") from None
    fields = Fields(value)
    if fields.value.get("format") != FORMAT:
        raise ValueError(f"its manifest.json is not that of an attention file: format is {shown(value.get('format'))}")
    version = fields.whole("version", 1, 2**31)
    if version > VERSION:
        raise ValueError(f"it has version {version}, and this mirada reads up to {VERSION}: install a newer one")
    return fields


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


LARGEST_ERROR = 0.004
SAMPLE = 2**18  # weights that are deflated to guess how small all of them would be
DEFLATE_LEVEL = 6


def compand(weights: Float[Tensor, "..."]) -> UInt8[Tensor, "..."]:
    """A byte b for a weight in [0, 1] such that (b / 255)^2 is near it: small weights keep more digits than large ones.

    >>> expand(compand(torch.tensor([0.0, 0.0001, 0.5, 1.0])))
    tensor([0.0000e+00, 1.3841e-04, 4.9827e-01, 1.0000e+00])
    """
    return (weights.clamp(0, 1).sqrt() * 255).round().to(torch.uint8)


def expand(codes: UInt8[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The weights of the bytes that `compand` made."""
    return (codes.float() / 255).square()


def companded(pieces: Iterable[Tensor], errors: list[float]) -> Iterator[bytes]:
    """The bytes of the square roots, piece by piece; the largest difference of each piece is added to `errors`."""
    for weights in pieces:
        codes = compand(weights)
        errors.append(float((expand(codes) - weights).abs().max()) if weights.numel() else 0.0)
        yield little(codes)


def bytes_hold(checks: Checks) -> bool:
    """Whether all weights lie in [0, 1], up to rounding, and are numbers."""
    return checks.nan_rows == 0 and checks.weight_min >= 0 and checks.weight_max <= 1 + 1e-5


HELD = 2**26  # bytes of weights held in memory while the rows of a head are brought together


def by_head(stream: Stream) -> Iterator[Float[Tensor, "rows keys"]]:
    """The weights head by head, as the file has them, in pieces of some rows.

    Recomputed pieces have all heads of some rows. Where all fit they are computed once and transposed, else some heads at a
    time; bounded memory is worth the second pass.
    """
    size = 4 * stream.queries * stream.keys
    at_once = max(1, min(stream.heads, HELD // max(1, size)))
    for first in range(0, stream.heads, at_once):
        heads = slice(first, min(first + at_once, stream.heads))
        if size <= HELD:
            kept = torch.zeros(heads.stop - first, stream.queries, stream.keys)
            for row, piece in stream.pieces():
                kept[:, row : row + piece.shape[1]] = piece[heads]
            yield from kept
        else:
            yield from (piece[first] for _, piece in stream.pieces())


def little(x: Tensor) -> bytes:
    """The numbers in C order, little-endian."""
    array = x.contiguous().numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


@dataclass(frozen=True, eq=False)
class HalfProduct:
    """weights = softmax(scale q.k) inside the mask, from float16."""

    q: Float[Tensor, "heads queries dim"]
    k: Float[Tensor, "heads keys dim"]
    scale: float
    mask: dict[str, Any]  # as in the manifest
    bits: UInt8[Tensor, " bytes"] | None = None

    def may_see(self, first: int, last: int) -> Bool[Tensor, "rows keys"]:
        """Who may be seen by the rows first, ..., last - 1."""
        keys = self.k.shape[1]
        if self.bits is None:
            return _shape_mask(self.mask, first, last, keys)
        begin, end = first * keys, last * keys
        part = np.unpackbits(self.bits[begin // 8 : math.ceil(end / 8)].numpy())
        return torch.from_numpy(part[begin % 8 : begin % 8 + end - begin].astype(bool)).view(last - first, keys)

    def scores(self, heads: slice, first: int, last: int) -> Float[Tensor, "heads rows keys"]:
        """The scores of some rows, from queries and keys."""
        return self.scale * (self.q[heads, first:last].float() @ self.k[heads].float().transpose(1, 2))

    def weights(self, heads: slice, first: int, last: int) -> Float[Tensor, "heads rows keys"]:
        """The weights of some rows: a softmax of the scores inside the mask."""
        return masked_softmax(self.scores(heads, first, last)[None], self.may_see(first, last)[None, None])[0]


def _shape_mask(mask: dict[str, Any], first: int, last: int, keys: int) -> Bool[Tensor, "rows keys"]:
    """The masks that need no bits: complete, causal, window."""
    i, j = torch.arange(first, last).view(-1, 1), torch.arange(keys)
    if mask["kind"] == "causal":
        return j <= i
    if mask["kind"] == "window":
        return (j >= i - mask["left"]) & (j <= i + mask["right"])
    return torch.ones(last - first, keys, dtype=torch.bool)


def half_product(stream: Stream, checks: Checks) -> tuple[HalfProduct, float] | None:
    """The stream as float16 queries and keys, and their largest error; None where they do not fit it or are not smaller."""
    if stream.stepped or stream.edges is not None or not bytes_hold(checks) or not stream.queries * stream.keys:
        return None
    factors = stream.factors()
    if factors is None or not factors.plain or not _smaller(stream, factors):
        return None
    mask = _described_mask(stream)
    if mask is None:
        return None
    halves = HalfProduct(factors.q.half(), factors.k.half(), factors.scale, *mask)
    error = 0.0
    for first, weights in stream.pieces():
        again = halves.weights(slice(None), first, first + weights.shape[1])
        error = max(error, float((again - weights).abs().nan_to_num(nan=1.0).max()))
        if error > LARGEST_ERROR:
            return None
    return halves, error


def _smaller(stream: Stream, factors: Factors) -> bool:
    """Whether the product would take less room than bytes, by deflating some of both."""
    halves = 2 * (factors.q.numel() + factors.k.numel())
    all_weights = stream.heads * stream.queries * stream.keys
    if halves >= all_weights:
        return False
    rows = max(1, SAMPLE // max(1, stream.heads * stream.keys))
    middle = max(0, stream.queries // 2 - rows // 2)
    weights = stream.last.weights(rows=slice(middle, min(middle + rows, stream.queries)))[stream.sample]
    codes = compand(weights.detach().cpu().float())
    some = little(factors.k.half().flatten()[:SAMPLE])
    return halves * _deflated(some) < all_weights * _deflated(codes.numpy().tobytes())


def _deflated(content: bytes) -> float:
    packer = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -15, 9, zlib.Z_FILTERED)
    return len(packer.compress(content) + packer.flush()) / max(1, len(content))


def _described_mask(stream: Stream) -> tuple[dict[str, Any], UInt8[Tensor, " bytes"] | None] | None:
    """The mask by its shape, or as bits; None where heads have different ones."""
    left, right = getattr(stream.last.where, "band", (math.inf, math.inf))
    candidates: list[dict[str, Any]] = [{"kind": "complete"}, {"kind": "causal"}]
    if math.isfinite(left) and math.isfinite(right):
        candidates.append({"kind": "window", "left": int(left), "right": int(right)})
    rows, packed, rest = max(1, NUMBERS_AT_ONCE // stream.keys), [], np.zeros(0, dtype=bool)
    for first in range(0, stream.queries, rows):
        last = min(first + rows, stream.queries)
        mask = stream.mask(first, last)
        if not bool((mask == mask[:1]).all()):
            return None
        candidates = [c for c in candidates if torch.equal(_shape_mask(c, first, last, stream.keys), mask[0])]
        rest = np.concatenate([rest, mask[0].numpy().ravel()])
        whole = len(rest) // 8 * 8 if last < stream.queries else len(rest)
        packed.append(np.packbits(rest[:whole]))
        rest = rest[whole:]
    if candidates:
        return candidates[0], None
    return {"kind": "bits"}, torch.from_numpy(np.concatenate(packed))


@dataclass(frozen=True, eq=False)
class Codes:
    """Weights as they are stored: bytes of square roots, or float32."""

    stored: UInt8[Tensor, "..."] | Float[Tensor, "..."]  # (heads, queries, keys) or (heads, edges)

    def weights(self, heads: slice, first: int, last: int) -> Float[Tensor, "..."]:
        """The weights of some heads and rows, or edges."""
        part = self.stored[heads, first:last]
        return expand(part) if part.dtype == torch.uint8 else part


def as_tensor(content: bytes, dtype: str, shape: tuple[int, ...]) -> Integer[Tensor, "..."] | Float[Tensor, "..."]:
    """A blob as a tensor. Its size was checked before."""
    array = np.frombuffer(content, dtype=np.dtype(dtype).newbyteorder("<")).reshape(shape)
    return torch.from_numpy(array.astype(np.dtype(dtype)))


# The ZIP around an attention file: written in pieces, read within limits.


MANIFEST = "manifest.json"
LARGEST_MANIFEST, LARGEST_WHOLE = 64 * 2**20, 512 * 2**20
MOST_ENTRIES = 2**16
BEGINNING = (1980, 1, 1, 0, 0, 0)  # of ZIP's time: the same content gives the same bytes


class BlobWriter:
    """Adds numbered blobs to a ZIP, never more in memory than a piece."""

    def __init__(self, file: IO[bytes]) -> None:
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=DEFLATE_LEVEL)
        self.count = self.total = 0

    def __enter__(self) -> "BlobWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.zip.close()

    def add(self, pieces: Iterable[bytes], ending: str = "bin") -> str:
        """The name of a new blob with these bytes."""
        name = f"data/{self.count}.{ending}"
        self.count += 1
        self._write(name, pieces, zipfile.ZIP_STORED if ending == "png" else zipfile.ZIP_DEFLATED)
        return name

    def finish(self, manifest: bytes) -> None:
        """Write the manifest and close the archive."""
        fits = len(manifest) <= LARGEST_MANIFEST
        require(fits, f"the labels take {len(manifest) / 2**20:.0f} MB: at most 64 MB are read")
        self._write(MANIFEST, [manifest], zipfile.ZIP_DEFLATED)

    def _write(self, name: str, pieces: Iterable[bytes], method: int) -> None:
        info = zipfile.ZipInfo(name, BEGINNING)
        info.compress_type = method
        info._compresslevel = DEFLATE_LEVEL  # type: ignore[attr-defined]
        with self.zip.open(info, "w") as entry:
            if name != MANIFEST and method == zipfile.ZIP_DEFLATED and hasattr(entry, "_compressor"):
                # weights are like noise, which this strategy packs a tenth smaller; zipfile has no setting for it
                entry._compressor = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -15, 9, zlib.Z_FILTERED)
            for piece in pieces:
                self.total += len(piece)
                require(
                    self.total <= LARGEST_WHOLE,
                    "this is more than 512 MB of attention, which no reader takes: choose some with layers=[...], "
                    "or look at a shorter input",
                )
                entry.write(piece)


# what zipfile raises for a broken archive
DAMAGES = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError)


class BlobReader:
    """The entries of a ZIP. All are checked at once, before anything is inflated; each is read once, to its exact size.

    No more than 512 MB is ever inflated: a blob that several streams name would be one for each of them.
    """

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self.zip = zipfile.ZipFile(file)
            entries = self.zip.infolist()
        except DAMAGES as error:
            raise ValueError(f"it is no ZIP, or cut short: {first_line(error)}") from None
        require(len(entries) <= MOST_ENTRIES, f"it has {len(entries)} entries: at most {MOST_ENTRIES} are read")
        self.entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            _check_entry(entry)
            require(entry.filename not in self.entries, f"it has {shown(entry.filename)} twice")
            self.entries[entry.filename] = entry
        self.read: set[str] = set()
        total = sum(entry.file_size for entry in entries)
        require(total <= LARGEST_WHOLE, f"it would unpack to {total / 2**20:.0f} MB: at most 512 MB are read")

    def manifest(self) -> bytes:
        """The text of the manifest."""
        require(MANIFEST in self.entries, "it has no manifest.json")
        size = self.entries[MANIFEST].file_size
        require(size <= LARGEST_MANIFEST, f"its manifest.json has {size / 2**20:.0f} MB: at most 64 MB are read")
        return self._inflate(MANIFEST)

    def blob(self, name: Any, size: int | None = None) -> bytes:
        """A blob, which must have exactly that size."""
        if not isinstance(name, str) or name not in self.entries or name == MANIFEST:
            raise ValueError(f"it names a blob that is not there: {shown(name)}")
        length = self.entries[name].file_size
        if size is not None and length != size:
            raise ValueError(f"{name} has {length} bytes, and its stream says {size}")
        require(name not in self.read, f"it names {name} twice: every blob belongs to one place")
        self.read.add(name)
        return self._inflate(name)

    def _inflate(self, name: str) -> bytes:
        entry = self.entries[name]
        try:
            with self.zip.open(entry) as file:
                content = file.read(entry.file_size + 1)
        except DAMAGES as error:
            raise ValueError(f"{name} is damaged: {first_line(error)}") from None
        require(len(content) == entry.file_size, f"{name} holds {len(content)} bytes, and says {entry.file_size}")
        return content


def _check_entry(entry: zipfile.ZipInfo) -> None:
    """Refuse what a file of ours never has."""
    name = entry.filename
    known = name == MANIFEST or (name.startswith("data/") and ".." not in name.split("/") and "\\" not in name)
    fits = known and "\0" not in entry.orig_filename
    require(fits, f"it has an entry {shown(entry.orig_filename)}; only manifest.json and data/... belong there")
    require(not entry.flag_bits & 1, f"{name} is encrypted")
    known = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    require(known, f"{name} is packed by method {entry.compress_type}: only stored and deflated are read")


def first_line(error: Exception) -> str:
    """The first line of an error message."""
    return (str(error).splitlines() or [type(error).__name__])[0]

"""The ZIP around an attention file: written in pieces, read within limits."""

import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO, Any

from mirada.errors import require
from mirada.looking.encodings import DEFLATE_LEVEL
from mirada.looking.manifest import shown

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
        require(
            len(manifest) <= LARGEST_MANIFEST, f"the labels take {len(manifest) / 2**20:.0f} MB: at most 64 MB are read"
        )
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


class BlobReader:
    """The entries of a ZIP. All are checked at once, before anything is inflated; each is read once, to its exact size.

    No more than 512 MB is ever inflated: a blob that several streams name would be one for each of them.
    """

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self.zip = zipfile.ZipFile(file)
            entries = self.zip.infolist()
        except (zipfile.BadZipFile, struct.error, OSError, ValueError, NotImplementedError, OverflowError) as error:
            raise ValueError(f"it is no ZIP, or cut short: {first_line(error)}") from None
        require(len(entries) <= MOST_ENTRIES, f"it has {len(entries)} entries: at most {MOST_ENTRIES} are read")
        self.entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            check_entry(entry)
            require(entry.filename not in self.entries, f"it has {shown(entry.filename)} twice")
            self.entries[entry.filename] = entry
        self.taken: set[str] = set()
        total = sum(entry.file_size for entry in entries)
        require(total <= LARGEST_WHOLE, f"it would unpack to {total / 2**20:.0f} MB: at most 512 MB are read")

    def manifest(self) -> bytes:
        require(MANIFEST in self.entries, "it has no manifest.json")
        size = self.entries[MANIFEST].file_size
        require(size <= LARGEST_MANIFEST, f"its manifest.json has {size / 2**20:.0f} MB: at most 64 MB are read")
        return self._inflate(MANIFEST)

    def blob(self, name: Any, size: int | None = None) -> bytes:
        """A blob, which must have exactly that size."""
        if not isinstance(name, str) or name not in self.entries or name == MANIFEST:
            raise ValueError(f"it names a blob that is not there: {shown(name)}")
        found = self.entries[name].file_size
        if size is not None and found != size:
            raise ValueError(f"{name} has {found} bytes, and its stream says {size}")
        require(name not in self.taken, f"it names {name} twice: every blob belongs to one place")
        self.taken.add(name)
        return self._inflate(name)

    def _inflate(self, name: str) -> bytes:
        entry = self.entries[name]
        try:
            with self.zip.open(entry) as file:
                content = file.read(entry.file_size + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            NotImplementedError,
            RuntimeError,
            ValueError,
        ) as error:
            raise ValueError(f"{name} is damaged: {first_line(error)}") from None
        require(len(content) == entry.file_size, f"{name} holds {len(content)} bytes, and says {entry.file_size}")
        return content


def check_entry(entry: zipfile.ZipInfo) -> None:
    """Refuse what a file of ours never has."""
    name = entry.filename
    known = name == MANIFEST or (name.startswith("data/") and ".." not in name.split("/") and "\\" not in name)
    require(known and "\0" not in entry.orig_filename, f"it has an entry {shown(entry.orig_filename)}; "
            "only manifest.json and data/... belong there")  # fmt: skip
    require(not entry.flag_bits & 1, f"{name} is encrypted")
    require(
        entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
        f"{name} is packed by method {entry.compress_type}: only stored and deflated are read",
    )


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

"""WAV files of every kind, byte by byte, for tests."""

import struct
from pathlib import Path

import numpy as np

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
TAIL = bytes.fromhex("000000001000800000aa00389b71")


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def header(kind: int, channels: int, rate: int, bits: int, block: int | None = None) -> bytes:
    block = channels * bits // 8 if block is None else block
    return struct.pack("<HHIIHH", kind, channels, rate, rate * block % 2**32, block, bits)


def extensible(kind: int, channels: int, rate: int, bits: int) -> bytes:
    return header(EXTENSIBLE, channels, rate, bits) + struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", kind) + TAIL


def riff(*chunks: bytes) -> bytes:
    content = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(content)) + content


def encoded(samples: np.ndarray, kind: int, bits: int) -> bytes:
    """Numbers between -1 and 1 as the bytes of a format."""
    if kind == FLOAT:
        return samples.astype(f"<f{bits // 8}").tobytes()
    if bits == 8:
        return np.clip(np.rint(samples * 128) + 128, 0, 255).astype(np.uint8).tobytes()
    whole = np.clip(np.rint(samples * 2.0 ** (bits - 1)), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype("<i8")
    return whole.astype("<i8").view(np.uint8).reshape(-1, 8)[:, : bits // 8].tobytes()


def wav(samples: np.ndarray, rate: int = 8000, kind: int = PCM, bits: int = 16) -> bytes:
    """A plain file; samples of several channels are (samples, channels)."""
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    data = encoded(samples.reshape(-1), kind, bits)
    return riff(chunk(b"fmt ", header(kind, channels, rate, bits)), chunk(b"data", data))


def write_wav(path: Path, samples: np.ndarray, rate: int = 8000, **more: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wav(samples, rate, **more))
    return str(path)


def tone(hertz: float, seconds: float = 0.5, rate: int = 8000, loud: float = 0.5) -> np.ndarray:
    return loud * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)

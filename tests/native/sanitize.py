"""Every C function under the address and undefined-behavior sanitizers, over many sizes: `python -m tests.native.sanitize`.

Each variant that this processor runs (AVX-512, AVX2, ...) is tried, or those that are named as arguments. A library is
compiled with the sanitizers into a folder of its own, and this program starts itself again with the sanitizers' library loaded
first, so that what PyTorch allocates is watched too. It prints what was run; a finding ends a variant with a report.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import torch

from mirada import engine
from mirada.native import build, decode, library
from mirada.native.edges import edges_backward, edges_forward
from mirada.native.passes import KINDS, activate_, activate_backward, cross_entropy_backward_, dropout
from mirada.native.short import short_backward, short_forward
from mirada.native.structures import ACTIVATIONS
from mirada.native.variants import NATIVE, runnable
from tests.engine.models import gpt, walk, words
from tests.engine.test_recurrent import BAHDANAU, LUONG, WITHOUT, seq2seq
from tests.native.stack import Shape, Stack, decoded, packed, read, rounded_product

SANITIZERS = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
FLAGS = ("-O1", "-g", "-fno-math-errno", *SANITIZERS)
ODD = (float("nan"), float("inf"), -float("inf"), 1e38, -1e38, 1e-40)


def start(variant: str) -> int:
    """Compile a variant, and run the rest in a process in which the sanitizers come first."""
    os.environ["MIRADA_NATIVE"] = variant
    compiler = build.plans()[0].compiler
    first = [found for name in ("libasan.so", "libubsan.so") if (found := file_of(compiler, name))]
    if not first:
        print("not run: the compiler brings no sanitizers (install libasan and libubsan)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder, "MIRADA_SANITIZED": "1", "OMP_NUM_THREADS": "3"}
        os.environ["XDG_CACHE_HOME"] = folder
        build.build(build.plans()[0])
        environment |= {
            "LD_PRELOAD": " ".join(first),
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        print(f"{variant}:", flush=True)
        return subprocess.run([sys.executable, "-m", "tests.native.sanitize"], env=environment).returncode


def file_of(compiler: str, name: str) -> str | None:
    """Where a library of the compiler lies."""
    said = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return str(Path(said).resolve()) if Path(said).is_absolute() and Path(said).exists() else None


def passes_over_memory() -> None:
    for n in (0, 1, 7, 63, 64, 65, 1000):
        x = torch.randn(n)
        x[: len(ODD)] = torch.tensor(ODD)[:n]
        dropout(x, None, 2**64 - 1, 77, 1.4)
        dropout(x, torch.randn(n), 3, 255, 256.0)
    for rows, width in product((0, 1, 5, 64), (1, 3, 16, 33, 257)):
        for kind in KINDS:
            h = torch.randn(rows, width)
            h.view(-1)[: len(ODD)] = torch.tensor(ODD)[: h.numel()]
            activate_(h, torch.randn(width), kind)
            activate_backward(torch.randn(rows, width), h, kind)
        for bias, smoothing in product((None, torch.randn(width)), (0.0, 0.1)):
            logits = 30 * torch.randn(rows, width)
            logits.view(-1)[: len(ODD)] = torch.tensor(ODD)[: logits.numel()]
            cross_entropy_backward_(logits, bias, torch.randint(width, (rows,)), smoothing)


def short_attention() -> None:
    for queries, keys in ((1, 1), (2, 3), (16, 16), (17, 33), (64, 64), (64, 1), (63, 64)):
        for (dim, value_dim), causal in product(((16, 16), (128, 128), (48, 16), (16, 112)), (False, True)):
            for lengths in (None, torch.tensor([keys, 0]), torch.tensor([-3, keys + 5]), torch.tensor([1, keys // 2])):
                q, k, v = (torch.randn(2, 2, n, d) for n, d in ((queries, dim), (keys, dim), (keys, value_dim)))
                q[0, 0, 0, : len(ODD)] = torch.tensor(ODD)
                output, weights = short_forward(q, k, v, lengths, causal, 0.3)
                short_backward(torch.randn_like(output), q, k, v, lengths, causal, 0.3, weights)


def graphs() -> None:
    for nodes, edges, (heads, dim), dtype in product(
        (1, 7, 101), (1, 40, 400), ((1, 1), (3, 5), (8, 16)), (torch.float32, torch.float64)
    ):
        others = nodes + 3  # the sources are other nodes than the targets
        pairs = torch.stack([torch.randint(others, (edges,)), torch.randint(nodes, (edges,))])
        pairs = pairs[:, pairs[1].argsort(stable=True)].contiguous()
        offsets = torch.searchsorted(pairs[1], torch.arange(nodes + 1))
        sources, order = torch.sort(pairs[0], stable=True)
        outgoing = torch.searchsorted(sources, torch.arange(others + 1)), order
        scores, values = torch.randn(edges, heads, dtype=dtype), torch.randn(others, heads, dim, dtype=dtype)
        for kept in (None, torch.rand(edges, heads, dtype=dtype)):
            weights, output = edges_forward(scores, values, kept, offsets, pairs[0], nodes)
            edges_backward(torch.randn_like(output), weights, values, kept, offsets, pairs, outgoing)


def decoding() -> None:
    for rows, inner, columns in product((1, 6, 7, 13, 97, 200), (1, 5, 64), (1, 63, 64, 65, 130)):
        decode.product(torch.randn(rows, inner), packed(torch.randn(columns, inner), torch.randn(columns)), columns)
    shapes = [
        Shape(5, 1, 3, 7), Shape(16, 1, 16, 16, post=True), Shape(72, 4, 18, 33, rms=True, vocab=101),
        Shape(40, 2, 17, 65, cross=True, vocab=3), Shape(64, 4, 16, 128, cross=True, post=True),
        *(Shape(24, 3, 8, 37, activation=activation) for activation in ACTIVATIONS),
        Shape(24, 6, 5, 37, times=3, turned=4, interleaved=True, normed=True, window=1),
        Shape(20, 4, 7, 1030, times=4, turned=6, cross=True, gated=True, biased=True, rms=True, vocab=3),
    ]  # fmt: skip
    for shape, threads in product(shapes, (1, 3)):
        for rows in (1, 7, 49):
            decode.forget()
            decoded(Stack(shape), rows, 3, threads, source_length=11)
            decoded(Stack(shape), rows, 7, threads, source_length=11, at_once=True)
        if not shape.cross and shape.times == 1:  # a pass takes no other heads
            for batch, length in ((1, 1), (3, 5), (7, 33)):
                read(Stack(shape), batch, length, threads)
    for (inner, out), rows in product(((1, 1), (3, 65), (257, 130)), (1, 7, 101)):
        for precision in ("int8", "bfloat16"):
            rounded_product(torch.randn(rows, inner), torch.randn(out, inner), torch.randn(out), 3, precision)
    for sizes in ((), (0,), (1,), (3, 0, 64), (65, 1000, 70_000, 300_001)):
        decode.checksum([torch.randn(n) for n in sizes])
        decode.checksum([torch.zeros(n, dtype=torch.uint8) for n in sizes])
    decode.enlarge(torch.empty(3 * 2**20))
    decode.enlarge(torch.empty(3))


@torch.no_grad()
def relative() -> None:
    for threads, clip, batch in product((1, 3), (0, 2, 90), (1, 5, 37)):
        torch.set_num_threads(threads)
        stepper = engine.fast(gpt(position=f"relative:{clip}", projection="grouped:1")).stepper
        walk(stepper, stepper.start(batch), 70 if batch == 1 else 5)


@torch.no_grad()
def recurrent() -> None:
    for threads, precision, fields in product(
        (1, 3), ("float32", "bfloat16", "int8"), [*LUONG[::3], *BAHDANAU, *WITHOUT]
    ):
        if fields.get("score") == "tanhsum":
            continue
        torch.set_num_threads(threads)
        stepper = engine.fast(seq2seq(**fields), precision).stepper
        for batch in (1, 5, 37):
            lengths = torch.arange(batch) % 7 + 1
            state = stepper.start(stepper.encode(words(batch, int(lengths.max())), lengths))
            _, state = walk(stepper, state, 3, {1: torch.arange(batch).flip(0)})


def main() -> int:
    build.FLAGS, build.INSTALLED, build.LONGEST_BUILD = FLAGS, Path(os.devnull), 900
    if "MIRADA_SANITIZED" not in os.environ:
        names = sys.argv[1:] or [variant.name for variant in runnable()] or [NATIVE]
        ended = [start(name) for name in names]
        return int(any(ended))
    assert library.library() is not None, library.reason()
    assert hasattr(ctypes.CDLL(None), "__asan_init"), "the sanitizers are not loaded"
    for worth in (2**19, 1):  # by one thread, and by several
        library.WORTH_A_THREAD = worth
        for part in (passes_over_memory, short_attention, graphs, decoding, relative, recurrent):
            part()
            print(f"{part.__name__}: nothing found (worth a thread: {worth})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

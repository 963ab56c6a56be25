"""The variants of the compiled library against what is compiled for this processor alone (`-march=native`).

    python benchmarks/variants.py               decoding and training steps with every variant that runs here, on one thread
    python benchmarks/variants.py x86-64-v3     one of them

All libraries are loaded into one process and take turns. A ratio is the variant's time over that of `native`, limited to the
vectors that the variant has; smaller is better.
"""

import argparse
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import torch
from ratios import HEADER, race
from torch.nn.functional import cross_entropy

from mirada import engine
from mirada.decoding.beam import Beam
from mirada.decoding.greedy import Greedy
from mirada.decoding.search import Forbid, Search
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.native import decode, library
from mirada.native.build import build, plans
from mirada.native.variants import NATIVE, SWITCH, runnable

STEPS, VOCAB = 25, 9000
Call = Callable[[], object]


LIMITS = {
    "x86-64-v3-vnni": ("-mno-avx512f",),
    "x86-64-v3": ("-mno-avx512f", "-mno-avxvnni"),
    "x86-64-v2": ("-mno-avx",),
}


def loaded(name: str, *limits: str) -> library.FoundLibrary:
    """The library of a variant, compiled if necessary."""
    with mock.patch.dict(os.environ, {SWITCH: name}):
        recipe = plans()[0]
        recipe = replace(recipe, flags=(*recipe.flags, *limits))
        path = build(recipe)
    return library.FoundLibrary(library.declared(ctypes.CDLL(str(path))), None, (recipe, path))


@contextmanager
def used(there: library.FoundLibrary) -> Iterator[None]:
    """Let a library compute."""
    decode.panel.cache_clear()  # a panel's width is the library's
    with mock.patch.object(library, "search_once", return_value=there):
        yield


def decoder(there: library.FoundLibrary, model: Transformer, search: Search, batch: int, precision: str) -> Call:
    """Read and write as many tokens as all do."""
    source = torch.randint(1, VOCAB, (batch, 23), generator=torch.Generator().manual_seed(batch))
    first, rules = torch.zeros(batch, dtype=torch.long), [Forbid([0])]
    with used(there):
        stepper = engine.fast(model, precision=precision).stepper

    def call() -> object:
        with used(there), torch.inference_mode():
            state = stepper.start(stepper.encode(source, torch.full((batch,), source.shape[1])))
            return search(stepper, state, first, None, STEPS, rules=rules)

    return call


def trainer(there: library.FoundLibrary, model: Transformer) -> Call:
    """A step forward and backward, with dropout, activations and short attention."""
    random = torch.Generator().manual_seed(1)
    source, target = (torch.randint(1, VOCAB, (32, 32), generator=random) for _ in "st")

    def call() -> object:
        with used(there):
            loss = cross_entropy(model(source, None, target).flatten(0, 1), target.flatten())
            loss.backward()
            return loss

    return call


def main() -> None:
    """Print a table for each variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", help="which variants (default: all)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    sizes = {"source_vocab": VOCAB, "vocab": VOCAB, "width": 256, "heads": 4, "depth": 3, "hidden": 1024}
    model = Transformer(TransformerConfig(**sizes)).eval()
    training = Transformer(TransformerConfig(**sizes)).train()
    for name in chosen.variants or [variant.name for variant in runnable()]:
        there, native = loaded(name), loaded(NATIVE, *LIMITS.get(name, ()))
        print(
            f"\n## {name} over {NATIVE} {' '.join(LIMITS.get(name, ()))}, {chosen.threads} threads\n\n{HEADER}",
            flush=True,
        )
        for title, search, batch, precision in (
            ("greedy, batch 1", Greedy(), 1, "float32"),
            ("beam 4, batch 1", Beam(size=4), 1, "float32"),
            ("greedy, batch 32", Greedy(), 32, "float32"),
            ("greedy, batch 1, int8", Greedy(), 1, "int8"),
        ):
            pair = [decoder(each, model, search, batch, precision) for each in (there, native)]
            print(race(*pair, chosen.rounds, warm_up=2).row(title), flush=True)
        print(race(trainer(there, training), trainer(native, training), chosen.rounds).row("training step"), flush=True)


if __name__ == "__main__":
    main()

"""Run by torchrun in the tests: the toy problem, trained by all processes together, in several ways, one after the other.

Arguments: a folder, dropout and accumulate for each of the ways.
"""

import sys
from pathlib import Path

from mirada.training.distributed import process_group
from tests.training.toy import toy_training

if __name__ == "__main__":
    with process_group("cpu") as group:
        for folder, dropout, accumulate in zip(*[iter(sys.argv[1:])] * 3, strict=True):
            toy_training(Path(folder), float(dropout), group, steps=50, accumulate=int(accumulate)).run()

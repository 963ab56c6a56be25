"""Run by torchrun in the tests: the toy problem, trained by all processes together. Arguments: folder, dropout, accumulate."""

import sys
from pathlib import Path

from mirada.training.distributed import process_group
from tests.training.toy import toy_training

if __name__ == "__main__":
    with process_group("cpu") as group:
        toy_training(Path(sys.argv[1]), float(sys.argv[2]), group, steps=50, accumulate=int(sys.argv[3])).run()

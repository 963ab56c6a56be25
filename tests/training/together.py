"""Run by torchrun in the tests: the toy problem, trained by all processes together. Arguments: folder, dropout, accumulate."""

import sys
from pathlib import Path

from mirada.training.distributed import crew
from tests.training.toy import toy_training

if __name__ == "__main__":
    with crew("cpu") as team:
        toy_training(Path(sys.argv[1]), float(sys.argv[2]), team, steps=50, accumulate=int(sys.argv[3])).run()

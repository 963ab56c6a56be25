"""Settings that must be made before torch and keras are imported."""

import gc
import os
import signal
from collections.abc import Iterator

# started in the background, Python ignores Ctrl-C, and so would every process that a test starts
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# a CPU may announce AMX and then refuse it to the process; bf16 products would end it with an illegal instruction
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("KERAS_BACKEND", "torch")

import hypothesis
import pytest
import torch

from tests import axes

hypothesis.settings.register_profile("mirada", deadline=None, max_examples=50)  # a busy machine is no reason to fail
hypothesis.settings.load_profile("mirada")

axes.install("mirada")

SEED = 7
ALL_THREADS = torch.get_num_threads()
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the processes that tests start have one thread, too: two would wait
MANY = {"native", "campaign"}  # folders whose tests compute with all threads: elsewhere models are tiny


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives to the end: the garbage collector need not walk over it, neither now nor in the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def seed() -> None:
    """As `torch.manual_seed`, which without a GPU keeps a list of all that it would have seeded, with their stacks."""
    torch.manual_seed(SEED) if torch.cuda.is_initialized() else torch.default_generator.manual_seed(SEED)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What a module draws when it is imported does not depend on the modules before it."""
    seed()


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """All processes must collect the same names: bytes may have the clock in them (gzip does), and are named by their place."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True, scope="session")
def _session() -> None:
    """Fixtures that all modules share are made first, with one thread, as the tests that compare with them compute."""
    from mirada.training import plan

    torch.set_num_threads(1)
    plan.TRIAL_SECONDS = 0.0  # hundreds of trainings would measure their pace for longer than they take


@pytest.fixture(autouse=True, scope="module")
def _module(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a module's fixtures draw does not depend on the tests before it."""
    seed()
    if MANY & set(request.path.relative_to(request.config.rootpath).parts):
        torch.set_num_threads(ALL_THREADS)
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _test() -> Iterator[None]:
    """A test draws the same numbers whatever ran before it, and leaves PyTorch as it found it, also when it fails."""
    seed()
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)

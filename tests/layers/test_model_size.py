"""The size of a model is known before it is built, and one that is too large is refused at once."""

import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mirada.config import Config
from mirada.layers.model import Model, TooLargeError, largest, require_explained, require_memory, size_of
from mirada.models.bert import BERT
from mirada.models.captioner import Captioner
from mirada.models.classifier import Classifier
from mirada.models.forecaster import Forecaster
from mirada.models.gat import GAT
from mirada.models.gpt import GPT
from mirada.models.reader import Reader
from mirada.models.seq2seq import Seq2Seq
from mirada.models.transcriber import Transcriber
from mirada.models.transformer import Transformer
from mirada.models.vit import ViT

MODELS = (BERT, Captioner, Classifier, Forecaster, GAT, GPT, Reader, Seq2Seq, Transcriber, Transformer, ViT)


@dataclass(frozen=True, kw_only=True)
class StairsConfig(Config):
    width: int = 5
    layers: int = 2
    table: int = 3


class Stairs(Model[StairsConfig]):
    """Layers that share their first weight, and a table that no file has."""

    Config = StairsConfig

    def __init__(self, config: StairsConfig) -> None:
        super().__init__(config)
        self.steps = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(config.layers))
        self.last = nn.Linear(config.width, config.width, bias=False)
        self.last.weight = self.steps[0].weight
        self.register_buffer("table", torch.zeros(config.table), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("model", MODELS)
def test_it_is_the_size_of_the_model_that_is_built(model: type[Model]) -> None:
    config = model.Config.tiny()
    before = torch.get_rng_state()
    size = size_of(lambda: model(config), 2**30)
    assert torch.equal(torch.get_rng_state(), before), "no random number is drawn"
    built = model(config)
    stored = {id(value): value for value in built.state_dict(keep_vars=True).values()}
    assert size is not None
    assert size.numbers == sum(value.numel() for value in stored.values())
    assert size.weights == sum(value.numel() * value.element_size() for value in stored.values())
    assert not any(value.is_meta for value in [*built.parameters(), *built.buffers()])


def test_what_is_shared_counts_once_and_tables_by_themselves() -> None:
    size = size_of(lambda: Stairs(StairsConfig()), 2**20)
    assert size is not None
    assert (size.numbers, size.weights, size.tables) == (2 * 30, 4 * 60, 4 * 3)


@pytest.mark.parametrize(
    "sizes", [{"width": 2**20}, {"width": 2**31}, {"width": 2**62}, {"layers": 2**40}, {"table": 2**40}]
)
def test_one_that_is_far_too_large_is_refused_at_once(sizes: dict[str, int]) -> None:
    began = time.monotonic()
    with pytest.raises(TooLargeError):
        size_of(lambda: Stairs(StairsConfig(**sizes)), 2**14)
    ((name, value),) = sizes.items()
    with pytest.raises(
        ValueError, match=rf"the memory: this machine has 0\.0 GB\. The largest settings are {name}={value:,}, "
    ):
        require_memory(Stairs, StairsConfig(**sizes), 2**14)
    with pytest.raises(ValueError, match=rf"the settings {name}={value:,}, .* describe a model"):
        require_explained(Stairs, StairsConfig(**sizes), 1000)
    assert time.monotonic() - began < 5


def test_one_that_does_not_fit_is_reported_with_its_size() -> None:
    config = StairsConfig(width=500)
    needed = 4 * 4 * 2 * (500 * 500 + 500) + 12
    require_memory(Stairs, config, needed)
    require_memory(Stairs, config, 0)
    with pytest.raises(ValueError, match=r"with their gradients and the two moments of Adam 0\.0 GB, and this machine"):
        require_memory(Stairs, config, needed - 1)
    require_memory(Stairs, config, needed - 1, copies=1)


def test_weights_explain_a_model_of_as_many_numbers() -> None:
    config = StairsConfig(width=1000)
    require_explained(Stairs, config, 2 * 1001 * 1000)
    with pytest.raises(ValueError, match=r"with 2,002,000 numbers, and the file has 2,001,999 bytes"):
        require_explained(Stairs, config, 2 * 1001 * 1000 - 1)
    with pytest.raises(ValueError, match="bytes of tables"):
        require_explained(Stairs, StairsConfig(table=2**28 + 1), 1000)


def test_another_thread_is_not_counted() -> None:
    ready, done = threading.Event(), threading.Event()

    def build() -> nn.Module:
        ready.set()
        assert done.wait(20)
        return nn.Linear(3, 5)

    def other() -> None:
        assert ready.wait(20)
        nn.Linear(1000, 1000)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert size_of(build, 100) is not None
    thread.join()
    nn.Linear(1000, 1000)  # and afterwards nobody counts


def test_a_model_that_cannot_be_described_is_let_through() -> None:
    def build() -> nn.Module:
        torch.zeros(3).tolist()
        return nn.Linear(3, 5)

    assert size_of(build, 10) is None


def test_a_config_of_somebody_elses_is_refused_at_once(tmp_path: Path) -> None:
    GPT(GPT.Config.tiny()).save(tmp_path)
    path = tmp_path / "config.json"
    whole = path.read_text()
    for field, value in (("width", 2**20), ("width", 2**40), ("hidden", 2**34), ("vocab", 2**36), ("length", 2**40)):
        before = getattr(GPT.Config.tiny(), field)
        path.write_text(
            whole.replace(f'"{field}": {before}', f'"{field}": {value}').replace('"sinusoidal"', '"learned"')
        )
        began = time.monotonic()
        with pytest.raises(ValueError, match=rf"{field}={value}|{field}={value:,}"):
            GPT.load(tmp_path)
        assert time.monotonic() - began < 5


def test_the_largest_settings_are_named() -> None:
    assert largest(StairsConfig(width=1, layers=70_000)) == "layers=70,000, table=3"


def test_no_compiler_is_imported_to_tell_it() -> None:
    """That would take seconds, before every answer."""
    program = (
        "import sys; from mirada.models.bert import BERT; from mirada.layers.model import size_of\n"
        "from mirada.models.transformer import Transformer; configs = BERT.Config(), Transformer.Config()\n"
        "before = {*sys.modules}; size_of(lambda: BERT(configs[0]), 2**34); size_of(lambda: Transformer(configs[1]), 2**34)\n"
        "print(len({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 20

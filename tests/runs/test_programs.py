"""Models as programs: the outputs of the models, for batches and lengths that a program was not traced with."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from mirada.models.encoder import TextEncoder, TextEncoderConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.models.vit import ViT, ViTConfig
from mirada.runs.programs import program, to_torch
from tests.models.stirring import stirred

SMALL = {"width": 16, "heads": 4, "hidden": 24, "depth": 2, "length": 32, "dropout": 0.0}
LLAMA = {"position": "rotary", "norm": "rms", "activation": "gated", "projection": "grouped:2"}
MODELS = {
    "gpt": lambda: GPT(GPTConfig(vocab=13, **SMALL)),
    "gpt like llama": lambda: GPT(GPTConfig(vocab=13, **(SMALL | LLAMA))),
    "gpt like mistral": lambda: GPT(GPTConfig(vocab=13, **(SMALL | LLAMA | {"where": "window:3"}))),
    "encoder": lambda: TextEncoder(TextEncoderConfig(vocab=13, **(SMALL | {"position": "learned"}))),
    "encoder with rotary positions": lambda: TextEncoder(TextEncoderConfig(vocab=13, **(SMALL | {"position": "rotary"}))),
    "transformer": lambda: Transformer(TransformerConfig(vocab=13, source_vocab=13, **SMALL)),
    "transformer like t5": lambda: Transformer(
        TransformerConfig(vocab=13, source_vocab=13, **(SMALL | {"position": "t5:8,9", "norm": "rms"}))
    ),
    "vit": lambda: ViT(ViTConfig(size=8, patch=4, classes=3, **(SMALL | {"length": 5}))),
}  # fmt: skip


def inputs(model: Any, batch: int, length: int, written: int) -> dict[str, torch.Tensor]:
    """Inputs of other sizes, padded."""
    tokens = torch.randint(13, (batch, length))
    lengths = torch.randint(1, length + 1, (batch,))
    if isinstance(model, GPT):
        return {"tokens": tokens}
    if isinstance(model, TextEncoder):
        return {"tokens": tokens, "lengths": lengths}
    if isinstance(model, Transformer):
        return {"source": tokens, "lengths": lengths, "target": torch.randint(13, (batch, written))}
    return {"pictures": torch.randn(batch, model.config.channels, 8, 8)}


PLAIN = ("gpt", "encoder", "transformer")  # those with more parts have theirs


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in PLAIN else n for n in MODELS])
@torch.no_grad()
def test_a_program_puts_out_what_its_model_does_at_other_sizes(name: str) -> None:
    torch.manual_seed(0)
    model = stirred(MODELS[name](), torch.float32)
    made = program(model).module()
    for sizes in ((1, 1, 1), (2, 11, 6), (5, 3, 9)):
        given = inputs(model, *sizes)
        got, wanted = made(*given.values()), model(**given)
        one, other = (x if isinstance(x, torch.Tensor) else x[0] for x in (got, wanted))
        if "lengths" in given and "target" not in given and one.ndim == 3:  # what stands in padding is not compared
            real = torch.arange(sizes[1]) < given["lengths"].unsqueeze(1)
            one, other = one[real], other[real]
        assert_close(one, other, atol=1e-5, rtol=1e-5)


class OfModel:
    """As much of a run as an export needs."""

    def __init__(self, model: Any) -> None:
        self.model = model


def test_the_file_is_run_without_this_package(tmp_path: Path) -> None:
    model = GPT(GPTConfig.tiny()).eval()
    [line] = to_torch(OfModel(model), tmp_path / "model.pt2")  # type: ignore[arg-type]
    assert "torch.export.load('model.pt2').module()(tokens)" in line
    tokens = torch.tensor([[3, 4, 5, 6]])
    assert_close(torch.export.load(tmp_path / "model.pt2").module()(tokens), model(tokens), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="is there already"):
        to_torch(OfModel(model), tmp_path / "model.pt2")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "out", "message"),
    [
        (GPT(GPTConfig.tiny()), "model.onnx", r"a program is a file that ends in \.pt2: got 'model\.onnx'"),
        (
            torch.nn.Linear(2, 3),
            "a.pt2",
            "no program can be made of a Linear; of these it can: BERT, CLIP, .*ViT, Whisper",
        ),
    ],
)
def test_what_cannot_be_a_program_is_named(tmp_path: Path, model: Any, out: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_torch(OfModel(model), tmp_path / out)
    assert list(tmp_path.iterdir()) == []

"""Models for engines, and walks through their steps."""

from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import engine
from mirada.models.captioner import Captioner, CaptionerConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.transcriber import Transcriber, TranscriberConfig
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.models.whisper import Whisper, WhisperConfig
from tests.models.stirring import stirred

SIZES = {"vocab": 71, "width": 24, "heads": 3, "hidden": 37, "depth": 2, "dropout": 0.1, "length": 97}
LENGTHS = torch.tensor([7, 4, 5])


def transformer(dtype: torch.dtype = torch.float32, **fields: Any) -> Transformer:
    torch.manual_seed(0)
    return stirred(Transformer(TransformerConfig(**(SIZES | {"source_vocab": 61} | fields))), dtype, strength=0.1)


def gpt(dtype: torch.dtype = torch.float32, **fields: Any) -> GPT:
    torch.manual_seed(0)
    return stirred(GPT(GPTConfig(**(SIZES | fields))), dtype, strength=0.1)


def transcriber(dtype: torch.dtype = torch.float32, **fields: Any) -> Transcriber:
    torch.manual_seed(0)
    return stirred(Transcriber(TranscriberConfig(**(SIZES | {"mels": 5} | fields))), dtype, strength=0.1)


def whisper(dtype: torch.dtype = torch.float32, **fields: Any) -> Whisper:
    torch.manual_seed(0)
    return stirred(Whisper(WhisperConfig(**(SIZES | {"mels": 5, "places": 12} | fields))), dtype, strength=0.1)


def captioner(dtype: torch.dtype = torch.float32, **fields: Any) -> Captioner:
    torch.manual_seed(0)
    sizes = SIZES | {"decoder": "transformer", "decoder_depth": 2, "patch": 4} | fields
    return stirred(Captioner(CaptionerConfig(**sizes)), dtype, strength=0.1)


def words(*shape: int, vocab: int = 61, seed: int = 0) -> Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def numbers(*shape: int, like: Any) -> Tensor:
    dtype = next(like.parameters()).dtype
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)


def read(model: Any, stepper: Any, batch: int, lengths: Tensor | None = None) -> Any:
    """The memory of that many sources; for a model without a source, their number."""
    if isinstance(model, GPT):
        return batch
    if isinstance(model, Transformer):
        return stepper.encode(words(batch, 7, seed=1), lengths)
    if isinstance(model, Transcriber):
        return stepper.encode(numbers(batch, 23, 5, like=model), None if lengths is None else 3 * lengths)
    if isinstance(model, Whisper):
        return stepper.encode(numbers(batch, 23, 5, like=model))
    return stepper.encode(numbers(batch, 3, 16, 16, like=model))


def walk(
    stepper: Any, state: Any, steps: int, indices: dict[int, Tensor] | None = None, first: int = 0
) -> tuple[list[Tensor], Any]:
    """The scores of some steps with random words, reordered before those that have an index."""
    scores = []
    for time in range(first, first + steps):
        if indices and time in indices:
            state = stepper.reorder(state, indices[time])
        logits, state = stepper.step(words(state.batch, seed=time), state)
        scores.append(logits)
    return scores, state


def assert_same(ours: object, theirs: object, dtype: torch.dtype = torch.float32) -> None:
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def assert_fast(
    model: Any, steps: int, indices: dict[int, Tensor] | None = None, batch: int = 3, lengths: Tensor | None = None
) -> Any:
    """An engine takes the model, and gives what its modules give: sources, scores and alignments."""
    dtype, made = next(model.parameters()).dtype, engine.fast(model)
    assert made.reason is None
    stepper = made.stepper
    memory = read(model, stepper, batch, lengths)
    scores, state = walk(stepper, stepper.start(memory), steps, indices)
    expected, other = walk(model, model.start(read(model, model, batch, lengths)), steps, indices)
    assert_same(scores, expected, dtype)
    assert (state.filled, state.reorders, state.batch) == (other.filled, other.reorders, other.batch)
    assert_same(stepper.alignment(state), model.alignment(other), dtype)
    state.decoding.settle()
    for ours, theirs in zip(state.decoding.caches, other.caches, strict=True):
        assert_same(ours.keys[:, :, : ours.filled], theirs.keys[:, :, : theirs.filled], dtype)
        assert_same(ours.values[:, :, : ours.filled], theirs.values[:, :, : theirs.filled], dtype)
    return state

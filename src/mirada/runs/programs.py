"""`mirada export --to torch`: the model of a run as one program, a `.pt2` that PyTorch runs without this package.

    import torch
    logits = torch.export.load("model.pt2").module()(tokens, lengths)

Batch and lengths may be others than those it was traced with. What a model refuses in Python (tokens that it has not) is not
checked by its program.
"""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mirada.errors import require
from mirada.files import require_own, write_whole
from mirada.models.encoder import TextEncoder
from mirada.models.gpt import GPT
from mirada.models.transformer import Transformer
from mirada.models.vit import ViT
from mirada.runs.run import Run

ENDING = ".pt2"
BATCH, LENGTH, WRITTEN = 3, 7, 5  # that a program is traced with; 1 would be a case of its own
LONGEST = 1 << 16  # where no table of positions ends before


class Signature(NamedTuple):
    """What a program is given: tensors by name, and which of their axes may be of any size."""

    inputs: dict[str, Tensor]
    dynamic: dict[str, dict[int, Any]]


def to_torch(run: Run, out: Path) -> list[str]:
    """Write the model as a program."""
    require(out.suffix == ENDING, f"a program is a file that ends in {ENDING}: got {out.name!r}")
    require(not out.exists(), f"{out} is there already. Choose another -o.")
    require_own([out])
    made, signature = program(run.model), signature_of(run.model)
    content = BytesIO()
    torch.export.save(made, content)
    write_whole(out, content.getvalue())
    names = ", ".join(signature.inputs)
    return [f"{out} holds the model as a program: torch.export.load({out.name!r}).module()({names})"]


def program(model: Any) -> torch.export.ExportedProgram:
    """A model in evaluation mode as a program, for batches and lengths of any size.

    >>> from mirada.models.gpt import GPTConfig
    >>> model = GPT(GPTConfig.tiny()).eval()
    >>> tokens = torch.tensor([[3, 4]])
    >>> torch.allclose(program(model).module()(tokens), model(tokens), atol=1e-6)
    True
    """
    signature = signature_of(model)
    with torch.no_grad():
        given = tuple(signature.inputs.values())
        return torch.export.export(model.eval(), given, dynamic_shapes=signature.dynamic, strict=False)


def signature_of(model: Any) -> Signature:
    """The inputs of a model's program.

    >>> signature_of(torch.nn.Linear(2, 2))
    Traceback (most recent call last):
    ValueError: no program can be made of a Linear; of these it can: GPT, TextEncoder, Transformer, ViT
    """
    known: dict[type, Callable[[Any], Signature]] = {
        GPT: _of_gpt, TextEncoder: _of_encoder, Transformer: _of_transformer, ViT: _of_vit,
    }  # fmt: skip
    names = ", ".join(sorted(kind.__name__ for kind in known))
    kind = type(model)
    require(kind in known, f"no program can be made of a {kind.__name__}; of these it can: {names}")
    return known[kind](model.config)


def _batch() -> Any:
    return torch.export.Dim("batch", min=1)


def _length(name: str, config: Any, limited: bool = False) -> Any:
    """The axis of a text, which a table of positions ends, or a model of limited length."""
    limited = limited or str(config.position).startswith("learned")
    return torch.export.Dim(name, min=1, max=config.length if limited else LONGEST)


def _tokens(length: int) -> Tensor:
    return torch.zeros(BATCH, length, dtype=torch.long)


def _of_gpt(config: Any) -> Signature:
    length = min(LENGTH, config.length)
    return Signature({"tokens": _tokens(length)}, {"tokens": {0: _batch(), 1: _length("length", config)}})


def _of_encoder(config: Any) -> Signature:
    length, batch = min(LENGTH, config.length), _batch()
    inputs = {"tokens": _tokens(length), "lengths": torch.full((BATCH,), length)}
    read = _length("length", config, limited=True)
    return Signature(inputs, {"tokens": {0: batch, 1: read}, "lengths": {0: batch}})


def _of_transformer(config: Any) -> Signature:
    length, written, batch = min(LENGTH, config.length), min(WRITTEN, config.length), _batch()
    inputs = {"source": _tokens(length), "lengths": torch.full((BATCH,), length), "target": _tokens(written)}
    read, wrote = _length("length", config), _length("written", config)
    return Signature(inputs, {"source": {0: batch, 1: read}, "lengths": {0: batch}, "target": {0: batch, 1: wrote}})


def _of_vit(config: Any) -> Signature:
    pictures = torch.zeros(BATCH, config.channels, config.size, config.size)
    return Signature({"pictures": pictures}, {"pictures": {0: _batch()}})

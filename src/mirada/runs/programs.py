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
from mirada.models.bert import BERT
from mirada.models.captioner import Captioner
from mirada.models.classifier import Classifier
from mirada.models.clip import CLIP
from mirada.models.encoder import TextEncoder
from mirada.models.forecaster import Forecaster
from mirada.models.gpt import GPT
from mirada.models.reader import Reader
from mirada.models.seq2seq import Seq2Seq
from mirada.models.transcriber import Transcriber
from mirada.models.transformer import Transformer
from mirada.models.vit import ViT
from mirada.models.whisper import Whisper
from mirada.runs.run import Run

ENDING = ".pt2"
BATCH, LENGTH, WRITTEN, FRAMES = 3, 7, 5, 22  # that a program is traced with; 1 would be a case of its own
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
        try:
            return torch.export.export(model.eval(), given, dynamic_shapes=signature.dynamic, strict=False)
        except (RuntimeError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(
                f"no program for all sizes can be made of this {type(model).__name__}: {reason}"
            ) from error


def signature_of(model: Any) -> Signature:
    """The inputs of a model's program.

    >>> signature_of(torch.nn.Linear(2, 2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: no program can be made of a Linear; of these it can: BERT, CLIP, Captioner, ...
    """
    names = ", ".join(sorted(kind.__name__ for kind in _SIGNATURES))
    kind = type(model)
    require(kind in _SIGNATURES, f"no program can be made of a {kind.__name__}; of these it can: {names}")
    return _SIGNATURES[kind](model.config)


def _signature(**inputs: tuple[Tensor, dict[int, Any]]) -> Signature:
    """Inputs in the order of the model's `forward`, each with its axes of any size."""
    given = {name: tensor for name, (tensor, _) in inputs.items()}
    return Signature(given, {name: axes for name, (_, axes) in inputs.items()})


def _batch() -> Any:
    return torch.export.Dim("batch", min=1)


def _length(name: str, config: Any, limited: bool = False, least: int = 1, most: int = LONGEST) -> Any:
    """The axis of a text, which a table of positions ends, or a model of limited length."""
    limited = limited or str(getattr(config, "position", "")).startswith("learned")
    return torch.export.Dim(name, min=least, max=config.length if limited else most)


def _tokens(length: int, batch: int = BATCH) -> Tensor:
    return torch.zeros(batch, length, dtype=torch.long)


def _text(name: str, config: Any, traced: int = LENGTH, limited: bool = False) -> tuple[Tensor, dict[int, Any]]:
    """Tokens of a text."""
    return _tokens(min(traced, config.length)), {0: _batch(), 1: _length(name, config, limited)}


def _lengths(length: int) -> tuple[Tensor, dict[int, Any]]:
    return torch.full((BATCH,), length), {0: _batch()}


def _of_gpt(config: Any) -> Signature:
    return _signature(tokens=_text("length", config))


def _of_encoder(config: Any) -> Signature:
    return _signature(tokens=_text("length", config, limited=True), lengths=_lengths(min(LENGTH, config.length)))


def _of_bert(config: Any) -> Signature:
    text, segments = _text("length", config), _text("length", config)  # one tensor given twice would be one input
    return _signature(tokens=text, lengths=_lengths(text[0].shape[1]), segments=segments)


def _of_reader(config: Any) -> Signature:
    text, segments = _text("length", config), _text("length", config)
    marks = {"marks": _text("length", config)} if config.marks else {}
    return _signature(tokens=text, segments=segments, lengths=_lengths(text[0].shape[1]), **marks)


def _of_classifier(config: Any) -> Signature:
    least = 1 if config.encoder == "transformer" else config.kernel + 1 if config.encoder == "convolution" else 1
    least = max(least, config.numbers + 2 if config.numbers else 1)
    traced = min(max(LENGTH, least + 2), config.length)
    axes = {0: _batch()} if least >= config.length else {0: _batch(), 1: _length("length", config, True, least)}
    values = {"values": (torch.zeros(BATCH, config.numbers), {0: _batch()})} if config.numbers else {}
    return _signature(tokens=(_tokens(traced), axes), lengths=_lengths(traced), **values)


def _of_transformer(config: Any) -> Signature:
    source, target = _text("length", config), _text("written", config, WRITTEN)
    return _signature(source=source, lengths=_lengths(source[0].shape[1]), target=target)


def _of_seq2seq(config: Any) -> Signature:
    limited = config.score.startswith("location")  # a row for every place of the source
    source = _text("length", config, limited=limited)
    target = _tokens(WRITTEN), {0: _batch(), 1: torch.export.Dim("written", min=1, max=LONGEST)}
    return _signature(source=source, lengths=_lengths(source[0].shape[1]), target=target)


def _of_transcriber(config: Any) -> Signature:
    most = 4 * config.length if config.position.startswith("learned") else LONGEST
    frames = torch.zeros(BATCH, FRAMES, config.mels), {0: _batch(), 1: torch.export.Dim("frames", min=6, max=most)}
    return _signature(frames=frames, lengths=_lengths(FRAMES), target=_text("written", config, WRITTEN))


def _of_whisper(config: Any) -> Signature:
    frames = torch.zeros(BATCH, 2 * config.places, config.mels), {0: _batch()}  # a window is whole
    return _signature(frames=frames, target=_text("written", config, WRITTEN))


def _of_clip(config: Any) -> Signature:
    pictures = torch.zeros(BATCH, config.channels, config.size, config.size), {0: _batch()}
    length, texts = _length("length", config, limited=True), torch.export.Dim("texts", min=1)
    return _signature(pictures=pictures, tokens=(_tokens(min(LENGTH, config.length), BATCH + 1), {0: texts, 1: length}))


def _of_captioner(config: Any) -> Signature:
    if config.encoder == "patches":
        unit, least = config.patch, 2
    else:
        unit, least = 1, 2 ** (config.depth + 1)
    sides = [unit * torch.export.Dim(name, min=least, max=LONGEST) for name in ("height", "width")]
    traced = (unit * (least + 1), unit * (least + 2))
    pictures = torch.zeros(BATCH, config.channels, *traced), {0: _batch(), 2: sides[0], 3: sides[1]}
    return _signature(pictures=pictures, target=_text("written", config, WRITTEN))


def _of_forecaster(config: Any) -> Signature:
    batch, axes, codes = _batch(), {}, {}
    if config.kind != "patches":
        axes = {1: _length("time", config, least=1)}
    if config.codes:
        steps = {1: axes[1] + config.horizon} if axes else {}
        codes = {
            "codes": (torch.zeros(BATCH, config.length + config.horizon, 2, dtype=torch.long), {0: batch, **steps})
        }
    series = torch.zeros(BATCH, config.length, config.features), {0: batch, **axes}
    return _signature(series=series, first=(torch.zeros(BATCH, config.targets), {0: batch}), **codes)


def _of_vit(config: Any) -> Signature:
    return _signature(pictures=(torch.zeros(BATCH, config.channels, config.size, config.size), {0: _batch()}))


_SIGNATURES: dict[type, Callable[[Any], Signature]] = {
    BERT: _of_bert, CLIP: _of_clip, Captioner: _of_captioner, Classifier: _of_classifier, Forecaster: _of_forecaster,
    GPT: _of_gpt, Reader: _of_reader, Seq2Seq: _of_seq2seq, TextEncoder: _of_encoder,
    Transcriber: _of_transcriber, Transformer: _of_transformer, ViT: _of_vit, Whisper: _of_whisper,
}  # fmt: skip

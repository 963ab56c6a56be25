"""Raw attention compared with value norms, rollout, gradients and ablation, for one input of any model."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.errors import require
from mirada.looking.change.changes import MaskKey
from mirada.looking.change.intervene import intervene
from mirada.looking.explain import measures
from mirada.looking.explain.methods import Matrix, Methods
from mirada.looking.labels import ANSWER
from mirada.looking.record import Seen
from mirada.looking.stream import Stream

MOST_PLACES = 4096
Inputs = Sequence[Any] | Mapping[str, Any]
RowScore = Callable[[Any], Float[Tensor, "..."]]  # (rows,) or (rows, parts)


def _nothing() -> None:
    """What happens between two passes by default."""


@torch.inference_mode(False)
@torch.enable_grad()
def compare_methods(
    model: nn.Module,
    inputs: Inputs,
    target: Sequence[int] | Int[Tensor, " rows"] | int | None = None,
    *,
    logits: Callable[[Any], Tensor] | None = None,
    score: RowScore | None = None,
    reader: int | Sequence[int] | None = None,
    sample: int | None = None,
    without: Callable[[int], Inputs] | None = None,
    rows: str = "",
    columns: str = "",
    between: Callable[[], object] = _nothing,
) -> Methods:
    """What every output depended on, by five methods, and how far they agree.

    The places are those of the input: what the encoder reads where there is cross-attention, else the places of
    self-attention. Ablation hides a place from every layer. A model of Hugging Face transformers will do.

    Args:
        model: A model in evaluation mode whose output has logits of (1, rows, vocab) or (1, classes).
        inputs: Its arguments, by position or by name.
        target: The token of every row, or the class; by default the likeliest.
        logits: From the output to its logits.
        score: For an output that chooses nothing, such as a forecast: a number for every row, or several, whose changes
            count without their signs.
        reader: The query, or one for each row, whose attention is compared (0 for a [CLS] token); by default that of the
            same row, of a class the mean over all.
        sample: Which one, where the layers see several at once.
        without: Returns the inputs without a place, such as with its token replaced, instead of hiding it.
        rows: The name of the labels' axis of the rows.
        columns: The name of the labels' axis of the columns.
        between: Called before every further pass; an exception in it ends the comparison.

    >>> from mirada.models.transformer import Transformer, TransformerConfig
    >>> model = Transformer(TransformerConfig.tiny()).eval()
    >>> methods = compare_methods(model, (torch.tensor([[1, 2, 3]]), None, torch.tensor([[0, 4]])))
    >>> list(methods.matrices), methods.matrices["rollout"].shape
    (['attention', 'value_norm', 'rollout', 'gradient', 'ablation'], torch.Size([2, 3]))
    """
    training = "the model is in training mode, where dropout makes every pass different: call model.eval()"
    require(not model.training, training)
    run = measures.differentiable(model, inputs)
    row_values, size = _row_values(run.result, target, logits, score)
    values = row_values(run.result)
    cross, around = _input_layers(run.seen, sample)
    first = next(iter((cross or around).values()))
    names, places = [*around, *cross], first.keys

    matrices = _forward_methods(cross, around)
    matrices = {name: _answer_rows(matrix, len(values), reader) for name, matrix in matrices.items()}
    totals = values.flatten(1).sum(1) if values.ndim > 1 else values
    matrices["gradient"] = _gradients(run, names, first.sample, places, totals, size, between)

    def again(given: Inputs = inputs) -> Tensor:
        between()
        return row_values(measures.call_model(model, given if isinstance(given, Mapping) else tuple(given)))

    def hide(place: int) -> AbstractContextManager[None]:
        return intervene(model, dict.fromkeys(names, MaskKey(place)))

    sizes = size(_ablation(again, hide, without, places).cpu())
    matrices["ablation"] = sizes.flatten(2).sum(2) if sizes.ndim > 2 else sizes
    return Methods.of(matrices, rows, columns)


def _forward_methods(cross: Mapping[str, Stream], around: Mapping[str, Stream]) -> dict[str, Matrix]:
    """What the weights themselves say, mean of heads and layers: alone, with the values' sizes, through the layers."""
    norms, read = measures.value_norms, (cross or around).values()  # the layers whose rows stand for the outputs
    matrices = {
        "attention": torch.stack([_whole(stream).mean(0) for stream in read]).mean(0),
        "value_norm": torch.stack([norms(_whole(stream), stream.values()).mean(0) for stream in read]).mean(0),
    }
    if around:
        encoder, decoder = map(_whole, around.values()), map(_whole, cross.values())
        matrices["rollout"] = measures.cross_rollout(decoder, encoder) if cross else measures.rollout(encoder)
    return matrices


@torch.no_grad()
def _ablation(
    values: Callable[..., Tensor],
    hide: Callable[[int], AbstractContextManager[None]],
    without: Callable[[int], Inputs] | None,
    places: int,
) -> Float[Tensor, "rows places ..."]:
    """By how much the value of each row falls without each place: hidden, or replaced in the inputs.

    A hidden place still contributes to itself through the residual stream.
    """
    whole, changes = values(), []
    for place in range(places):
        with hide(place) if without is None else nullcontext():
            changes.append(whole - (values() if without is None else values(without(place))))
    return torch.stack(changes, dim=1)


def _row_values(
    result: Any, target: Any, logits: Callable[[Any], Tensor] | None, score: RowScore | None
) -> tuple[RowScore, Callable[[Tensor], Tensor]]:
    """The numbers that are explained, one or several per row, and which part of their changes counts.

    They are the log-probabilities of the targets, whose decrease counts; or a score, whose changes count in both directions.
    """
    if score is not None:
        require(target is None and logits is None, "score already defines what is explained: remove target and logits")
        return score, torch.abs
    scores = _rows_of(result, logits)
    wanted = _as_target(target, scores)

    def log_probability(output: Any) -> Float[Tensor, " rows"]:
        shares = _rows_of(output, logits).log_softmax(-1)
        return shares[torch.arange(len(wanted)), wanted].float()

    return log_probability, partial(torch.clamp, min=0)


def _rows_of(result: Any, logits: Callable[[Any], Tensor] | None) -> Float[Tensor, "rows vocab"]:
    """The logits of the one sample."""
    values: Any = result if logits is None else logits(result)
    if isinstance(values, tuple) or isinstance(getattr(values, "logits", None), Tensor):
        values = measures.logits_in(values)
    require(
        isinstance(values, Tensor) and values.ndim in (2, 3) and values.shape[0] == 1,
        "comparing methods needs one sample and logits of (1, rows, vocab) or (1, classes): "
        f"got {tuple(values.shape) if isinstance(values, Tensor) else type(result).__name__}. Say where they are with logits=",
    )
    return values[0] if values.ndim == 3 else values


def _as_target(target: Any, scores: Float[Tensor, "rows vocab"]) -> Int[Tensor, " rows"]:
    """The token of every row."""
    if target is None:
        return scores.detach().argmax(-1)
    tokens = torch.as_tensor(target, device=scores.device).reshape(-1)
    fits = len(tokens) == len(scores) and not tokens.is_floating_point()
    require(fits, f"the target needs a token for each of the {len(scores)} rows: got {len(tokens)}")
    vocab = scores.shape[1]
    require(int(tokens.min()) >= 0 and int(tokens.max()) < vocab, f"the target's tokens must lie in 0..{vocab - 1}")
    return tokens.long()


def _input_layers(seen: Seen, sample: int | None = None) -> tuple[dict[str, Stream], dict[str, Stream]]:
    """The layers that look at the input: from a decoder, and among the places of the input themselves.

    Where there is cross-attention, self-attention counts if it is not the decoder's: of another part of the model.
    """
    streams = {name: seen.stream(name, sample) for name in seen.names}
    streams = {name: stream for name, stream in streams.items() if stream.edges is None}
    cross = {name: stream for name, stream in streams.items() if stream.last.kind == "cross"}
    around = {name: stream for name, stream in streams.items() if stream.last.kind == "self"}
    if cross:
        writing, places = set(map(_part_of, cross)), next(reversed(cross.values())).keys
        cross = {name: stream for name, stream in cross.items() if stream.keys == places}
        around = {name: s for name, s in around.items() if _part_of(name) not in writing}
    else:
        places = next(reversed(around.values())).keys if around else 0
    around = {name: s for name, s in around.items() if (s.queries, s.keys) == (places, places)}
    require(bool(cross or around), "the model has no dense attention over the places of its input")
    require(places <= MOST_PLACES, f"methods are compared over at most {MOST_PLACES} places: got {places}")
    return cross, around


def _part_of(name: str) -> str:
    """The part of a model that a layer belongs to: its encoder, its decoder, or what its name begins with.

    >>> _part_of("model.decoder.layers.0.encoder_attn"), _part_of("encoder.layers.1.self"), _part_of("h.0.attn")
    ('decoder', 'encoder', 'h')
    """
    words = name.split(".")
    return next((word for word in words if "coder" in word), words[0])


def _whole(stream: Stream) -> Float[Tensor, "heads queries keys"]:
    return torch.cat([piece for _, piece in stream.pieces()], dim=1)


def _answer_rows(matrix: Float[Tensor, "queries keys"], rows: int, reader: int | Sequence[int] | None) -> Matrix:
    """From rows of attention to rows of the answer: the same ones, those of readers, or for a class the mean of all."""
    if reader is not None:
        readers = [reader] * rows if isinstance(reader, int) else list(reader)
        require(len(readers) == rows, f"there must be a reader for each of the {rows} rows: got {len(readers)}")
        wrong = [one for one in readers if not 0 <= one < len(matrix)]
        require(not wrong, f"reader must lie in 0..{len(matrix) - 1}: got {wrong[0] if wrong else 0}")
        return matrix[readers]
    if len(matrix) == rows:
        return matrix
    require(rows == 1, f"{rows} rows of logits do not fit {len(matrix)} rows of attention")
    return matrix.mean(0, keepdim=True)


def _gradients(
    run: measures.Differentiable,
    names: Sequence[str],
    sample: int,
    places: int,
    values: Float[Tensor, " rows"],
    size: Callable[[Tensor], Tensor],
    between: Callable[[], object],
) -> Matrix:
    """alpha x d value / d alpha, as much of it as counts, over all layers, heads and queries that look at the input."""
    weights = {name: [call.weights() for call in run.seen[name].calls] for name in names}
    rows = []
    for value in values:
        between()
        total = torch.zeros(places)
        for name, by_call in run.gradients(value, names).items():
            for alpha, gradient in zip(weights[name], by_call, strict=True):
                mass = size(alpha * gradient)[sample].sum((0, 1)).cpu().float()
                total[: len(mass)] += mass
        rows.append(total)
    return torch.stack(rows)


# The methods for an answer: its labels say what was written, and which axes the methods have.


@dataclass(frozen=True, eq=False)
class Explained:
    """What is explained of an answer that is not the logits of every row of the model's output.

    `logits` returns those of the labels' outputs, a row for each of them in their order. `score` returns numbers for every
    row, for a model without classes. `sample` is the one that is shown, if the layers see several at once.
    """

    logits: Callable[[Any], Tensor] | None = None
    score: RowScore | None = None
    sample: int | None = None


def answer_methods(
    model: nn.Module,
    inputs: Sequence[Any],
    output: Any,
    seen: Seen,
    explained: Explained | None = None,
    between: Callable[[], object] = _nothing,
) -> Methods:
    """`compare_methods` for what the labels of `seen` say was answered; where they do not say, for the likeliest."""
    explained, steps = explained or Explained(), seen.labels.outputs
    if explained.score is not None:
        methods = compare_methods(model, inputs, score=explained.score, sample=explained.sample, between=between)
    elif explained.logits is not None:
        tokens = [step.token for step in steps if step.token is not None]
        readers = [step.row for step in steps]
        target = tokens if len(tokens) == len(steps) else None
        methods = compare_methods(model, inputs, target, logits=explained.logits, reader=readers, between=between)
    else:
        # the token of every row: what was written from it or answered, else the likeliest
        likeliest = _rows_of(output, None).argmax(-1).clone()
        if seen.labels.chosen is not None and len(likeliest) == 1:
            likeliest[0] = seen.labels.chosen
        for step in steps:
            if step.token is not None and step.row < len(likeliest):
                likeliest[step.row] = step.token
        reader = steps[0].row if steps and len(likeliest) == 1 else None  # the query that decides on a class
        methods = compare_methods(model, inputs, likeliest, reader=reader, between=between)
    size = next(iter(methods.matrices.values())).shape
    rows, columns = _named_axes(seen, size[0], size[1], explained.sample)
    return Methods(methods.matrices, methods.agreement, rows, columns)


def _named_axes(seen: Seen, rows: int, columns: int, sample: int | None = None) -> tuple[str, str]:
    """The axes of the labels that rows and columns of these sizes are; nothing where no layer has such."""
    across = sorted(seen.names, key=lambda name: seen[name].kind != "cross")
    streams = [seen.stream(name, sample) for name in across]
    pairs = [seen.labels.axes_of(stream.name, stream.queries, stream.keys) for stream in streams]
    axes = seen.labels.axes
    read = next((pair[1] for pair in pairs if pair and axes[pair[1]].size == columns), "")
    if ANSWER in axes and axes[ANSWER].size == rows:
        return ANSWER, read
    return next((pair[0] for pair in pairs if pair and axes[pair[0]].size == rows), ""), read

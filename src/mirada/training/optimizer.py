"""Adam, gradient clipping, and the optimizer's state as named tensors."""

import math
import re
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from mirada.errors import require

# How the learning rate goes up and down: a schedule is a function of (step, steps, warmup) with its highest value
# at 1.


Schedule = Callable[[int, int, int], float]


def _noam(step: int, steps: int, warmup: int) -> float:
    """Up in a line, down as 1 / sqrt(step): min(step / warmup, sqrt(warmup / step)).

    The paper's rate, width^-0.5 min(step^-0.5, step warmup^-1.5), is this times a peak of (width warmup)^-0.5.

    >>> [_noam(step, 0, 100) for step in (1, 50, 100, 400)]
    [0.01, 0.5, 1.0, 0.5]

    Vaswani et al. (2017), arXiv:1706.03762, 5.3.
    """
    warmup = max(1, warmup)
    return min(step / warmup, math.sqrt(warmup / step))


def _cosine(step: int, steps: int, warmup: int) -> float:
    """Up in a line, down along half a cosine that would be at zero one step after the end of the run.

    >>> [round(_cosine(step, 1099, 100), 3) for step in (50, 100, 600, 1100)]
    [0.5, 1.0, 0.5, 0.0]

    Loshchilov and Hutter (2017), arXiv:1608.03983.
    """
    if step <= warmup:
        return step / max(1, warmup)
    done = (step - warmup) / max(1, steps + 1 - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _constant(step: int, steps: int, warmup: int) -> float:
    """Up in a line, then steady.

    >>> [_constant(step, 1000, 100) for step in (50, 100, 1000)]
    [0.5, 1.0, 1.0]
    """
    return min(1.0, step / max(1, warmup))


SCHEDULES: dict[str, Schedule] = {"noam": _noam, "cosine": _cosine, "constant": _constant}


def rate(schedule: str, step: int, steps: int, warmup: int) -> float:
    """The factor of a step, counted from 0. A warm-up never takes more than a fifth of a run.

    >>> rate("constant", 0, 1000, 400), rate("constant", 199, 1000, 400)
    (0.005, 1.0)
    """
    return SCHEDULES[schedule](step + 1, steps, min(warmup, max(1, steps // 5)))


MOMENTS = ("exp_avg", "exp_avg_sq")
PREFIX = "optimizer"


LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def layer_shares(model: nn.Module, decay: float) -> dict[str, float]:
    """The share of the learning rate that each parameter has, by its name: 1 behind the layers, less and less below them.

    share = decay^(layers above + 1) in a layer, decay^(layers + 1) of what stands before all of them

    A model may have several stacks of layers, and says in `head_parts` and `pool` what stands behind them.

    >>> from mirada.models.encoder import TextEncoder, TextEncoderConfig
    >>> shares = layer_shares(TextEncoder(TextEncoderConfig.tiny()), 0.5)
    >>> [shares[f"{name}.weight"] for name in ("words", "encoder.layers.0.feed.widen", "encoder.layers.1.feed.widen", "output")]
    [0.125, 0.25, 0.5, 1.0]

    Howard and Ruder (2018), arXiv:1801.06146; Clark et al. (2020), arXiv:2003.10555.
    """
    names = [name for name, _ in model.named_parameters()]
    places = {name: (name[: found.start()], int(found[1])) for name in names if (found := LAYER.search(name))}
    depths = {stack: 1 + max(layer for own, layer in places.values() if own == stack) for stack, _ in places.values()}
    behind = {*getattr(model, "head_parts", ()), "pool", *(stack.partition(".")[0] for stack in depths)}
    before = max(depths.values(), default=0)
    shares = {}
    for name in names:
        if name in places:
            stack, layer = places[name]
            shares[name] = decay ** (depths[stack] - layer)
        else:
            shares[name] = 1.0 if name.partition(".")[0] in behind else decay ** (before + 1)
    return shares


def adam(model: nn.Module, lr: float, decay: float = 0.0, layer_decay: float = 1.0) -> torch.optim.Optimizer:
    """Adam with the betas of the Transformer paper. Decay is decoupled and spares vectors (biases, norms). Lower layers learn
    more slowly, where `layer_decay` is below 1.

    Kingma and Ba (2015), arXiv:1412.6980; Loshchilov and Hutter (2019), arXiv:1711.05101.
    """
    shares = layer_shares(model, layer_decay)
    learned = [(shares[name], p) for name, p in model.named_parameters() if p.requires_grad]
    groups = []
    for share in sorted({share for share, _ in learned}, reverse=True):
        own = [p for given, p in learned if given == share]
        groups += [
            {"params": [p for p in own if p.ndim > 1], "weight_decay": decay, "share": share},
            {"params": [p for p in own if p.ndim <= 1], "weight_decay": 0.0, "share": share},
        ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, betas=(0.9, 0.98), eps=1e-9, fused=True)


@torch.no_grad()
def penalize(parameters: Iterable[nn.Parameter], penalty: float) -> None:
    """Add the gradient of penalty/2 times the sum of all squared weights: L2 regularization as a part of the loss.

    Adam scales it with the rest of the gradient, so a weight that the data does not ask for goes to zero; decoupled decay
    (`adam`) does not have that effect. Krogh and Hertz (1991); Loshchilov and Hutter (2019), arXiv:1711.05101, section 2.

    >>> w = nn.Parameter(torch.tensor([2.0, -4.0])); w.grad = torch.tensor([1.0, 1.0])
    >>> penalize([w], 0.5); w.grad
    tensor([ 2., -1.])
    """
    penalized = [(p.grad, p.data) for p in parameters if p.grad is not None] if penalty else []
    if penalized:
        torch._foreach_add_(
            [gradient for gradient, _ in penalized], [weights for _, weights in penalized], alpha=penalty
        )


def clip(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Scale all gradients so that their joint norm is at most `most` (0: leave them); the norm before comes back.

    >>> w = nn.Parameter(torch.zeros(2)); w.grad = torch.tensor([3.0, 4.0])
    >>> clip([w], 1.0), w.grad
    (5.0, tensor([0.6000, 0.8000]))
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return 0.0
    norms = torch._foreach_norm(gradients)
    norm = float(torch.linalg.vector_norm(torch.stack([n.float() for n in norms])))
    if most > 0 and math.isfinite(norm) and norm > most:
        torch._foreach_mul_(gradients, most / norm)
    return norm


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Let the next step be made with this learning rate, of which each group of parameters has its share."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("share", 1.0)


def named_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's moments by the names of their parameters, ready for a file."""
    state = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            state[f"{PREFIX}.{key}.{name}"] = value
    return state


def restore_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], where: object = "the checkpoint"
) -> None:
    """Put moments back where `named_state` took them from; `where` is the file, for errors.

    The fused optimizer writes as many numbers as the parameter has, whatever the size of the moments: each must fit.
    """
    for name, parameter in model.named_parameters():
        saved = {key: tensors.get(f"{PREFIX}.{key}.{name}") for key in (*MOMENTS, "step")}
        if any(value is not None for value in saved.values()):
            missing = [key for key, value in saved.items() if value is None]
            if missing:
                raise ValueError(f"{where} has no {', '.join(missing)} for {name}: it is not whole")
            moments = {key: value for key, value in saved.items() if value is not None}
            for key, value in moments.items():
                _check_moment(key, value, name, parameter, where)
            optimizer.state[parameter] = {key: value.to(parameter.device, copy=True) for key, value in moments.items()}


def _check_moment(key: str, value: Tensor, name: str, parameter: Tensor, where: object) -> None:
    """Require a moment of the shape and the type of its parameter, and a number of steps that can be."""
    shape, kind = ((), torch.float32) if key == "step" else (tuple(parameter.shape), parameter.dtype)
    require(
        tuple(value.shape) == shape and value.dtype == kind,
        f"{where} is not a checkpoint of this run: {key} of {name} is {value.dtype} of shape {tuple(value.shape)}, and the model "
        f"needs {kind} of shape {shape}. Restore a copy, or start over with another --out.",
    )
    require(
        key != "step" or 0 <= value.item() < math.inf,
        f"{where} is not a checkpoint of this run: it counts {value.flatten()[:1].tolist()} steps of {name}. Restore a copy, or "
        "start over with another --out.",
    )

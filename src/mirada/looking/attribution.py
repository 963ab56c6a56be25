"""How much a result depends on each weight: weights times the size of what they bring, weights times their gradient."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.kernels import reference
from mirada.attention.observe import Event, observed
from mirada.errors import require
from mirada.looking.model_output import call_model
from mirada.looking.record import Call, Seen, look


def value_norms(call: Any, sample: int = 0) -> Float[Tensor, "heads queries keys"]:
    """alpha_ij |v_j|: a key that brings a vector of zeros brings nothing, however much it is looked at.

    Kobayashi et al. (2020), arXiv:2004.10102, who also follow the values through the output projection.
    """
    weights, values = call.weights()[sample].cpu().float(), call.values()[sample].cpu().float()
    return weights * values.norm(dim=-1).unsqueeze(-2)


@dataclass
class HeadOutputs:
    """An observer that keeps what the heads of every call gave, with its gradient."""

    calls: dict[Any, list[Tensor]] = field(default_factory=dict)

    def see(self, event: Event) -> None:
        if event.output is not None:
            self.calls.setdefault(event.layer, []).append(event.output)


@dataclass(eq=False)
class Differentiable:
    """A pass of a model that can be asked for the gradient of a result with respect to the weights of every call."""

    seen: Seen
    result: Any  # what the model returned
    outputs: dict[str, list[Tensor]]  # of every layer's calls, before the heads were merged

    def gradients(
        self, target: Float[Tensor, ""], layers: Collection[str] | None = None
    ) -> dict[str, list[Float[Tensor, "batch heads queries keys"]]]:
        """d target / d alpha for every call of every layer, or of some; the weights are as if each could be changed alone.

        The heads' outputs are linear in the weights, h = mix(alpha, v), so the gradient of h, which autograd has on any kernel,
        gives that of alpha. Over the edges of a graph there is none.
        """
        found: dict[str, list[Tensor]] = {}
        missing = [name for name in (self.seen.names if layers is None else layers) if name not in self.outputs]
        require(
            not missing,
            f"no gradient of the weights is known for {', '.join(missing)}: its heads' outputs were not seen",
        )
        names = [name for name in self.outputs if layers is None or name in layers]
        flat = [(name, place) for name in names for place in range(len(self.outputs[name]))]
        outputs = [self.outputs[name][place] for name, place in flat]
        gradients = torch.autograd.grad(target, outputs, retain_graph=True, allow_unused=True)
        for (name, place), output, gradient in zip(flat, outputs, gradients, strict=True):
            call = self.seen[name].calls[place]
            found.setdefault(name, []).append(
                through_mix(call, torch.zeros_like(output) if gradient is None else gradient)
            )
        return found


def through_mix(call: Call, gradient: Float[Tensor, "batch heads queries value_dim"]) -> Tensor:
    """The gradient of the heads' outputs as one of the weights that made them."""
    require(call.edges is None, f"{call.name or 'the layer'} has a weight per edge: gradients are of dense weights")
    request = call._restored()
    _, v = request.visible()
    with torch.enable_grad():
        weights = call.weights().requires_grad_()
        mixed = reference.mix(request, weights, reference.widen(v.detach()), 0, request.queries)
        return torch.autograd.grad(mixed, weights, gradient.to(mixed.dtype))[0]


def differentiable(model: nn.Module, inputs: Sequence[Any] | Mapping[str, Any]) -> Differentiable:
    """Run a model on its arguments, in a row or by name, keeping its attention and the gradients to come.

    >>> from mirada import Attention, MultiHead
    >>> layer = Attention(MultiHead(width=4, heads=2))
    >>> one = differentiable(layer, [torch.randn(1, 3, 4)])
    >>> one.gradients(one.result.sum())[""][0].shape
    torch.Size([1, 2, 3, 3])
    """
    outputs = HeadOutputs()
    with torch.inference_mode(False), torch.enable_grad(), trainable(model), look(model) as seen, observed(outputs):
        result = call_model(model, ordinary(inputs))
    kept = {name: outputs.calls[layer] for layer, name in seen._names.items() if layer in outputs.calls}
    return Differentiable(seen, result, kept)


def ordinary(inputs: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
    """Arguments that autograd takes: tensors of inference mode are copied."""

    def copied(x: Any) -> Any:
        return x.clone() if isinstance(x, Tensor) and x.is_inference() else x

    if isinstance(inputs, Mapping):
        return {name: copied(x) for name, x in inputs.items()}
    return tuple(map(copied, (inputs,) if isinstance(inputs, Tensor) else inputs))


@contextmanager
def trainable(model: nn.Module) -> Iterator[None]:
    """Parameters that are frozen have gradients inside, so that something in the pass has."""
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def weight_gradients(
    model: nn.Module, inputs: Sequence[Any] | Mapping[str, Any], target: Callable[[Any], Float[Tensor, ""]]
) -> tuple[Seen, dict[str, list[Tensor]]]:
    """What was seen, and for every call of every layer the gradient of `target(model(*inputs))` by its weights.

    The model keeps its kernels, and may be one of Hugging Face transformers; `inputs` are in a row, or a dict by name.

    >>> from mirada import Attention, MultiHead
    >>> seen, gradients = weight_gradients(Attention(MultiHead(width=4, heads=2)), [torch.randn(1, 3, 4)], torch.sum)
    >>> (seen[""].weights() * gradients[""][0]).shape
    torch.Size([1, 2, 3, 3])
    """
    with torch.inference_mode(False), torch.enable_grad():
        run = differentiable(model, inputs)
        return run.seen, run.gradients(target(run.result))

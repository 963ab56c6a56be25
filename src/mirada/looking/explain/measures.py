"""How much a result depends on each weight: weights times the norms of the values, weights times their gradients."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.kernels import reference
from mirada.attention.observe import Event, observed
from mirada.errors import require
from mirada.looking.record import Call, Seen, look

# Running any model, and finding the logits in its output: a tensor, several of them, or an output with names.


def call_model(model: nn.Module, inputs: Any) -> Any:
    """The output of a model for its arguments: a tensor, a tuple of several, or a dict by name."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*(inputs if isinstance(inputs, tuple) else (inputs,)))


def logits_in(output: Any) -> Tensor | None:
    """The logits of an output: itself, what it calls `logits`, or the first of several tensors; None where there are none.

    >>> import torch
    >>> logits_in((torch.zeros(2), torch.zeros(3))).shape, logits_in("text")
    (torch.Size([2]), None)
    """
    if isinstance(output, Tensor):
        return output
    named = getattr(output, "logits", None)
    if isinstance(named, Tensor):
        return named
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
    return next((part for part in parts if isinstance(part, Tensor) and part.ndim), None)


# Attention through several layers at once: the product of their weights, each mixed with the residual.


RESIDUAL = 0.5  # the share of a layer's output that did not go through its attention


def rollout(layers: Iterable[Float[Tensor, "heads places places"]]) -> Float[Tensor, "places places"]:
    """Attention rollout: the product of the layers' weights, each mixed with the residual connection.

    rollout = A_n ... A_1,    A_l = 0.5 I + 0.5 (mean of the heads of layer l), each row divided by its sum

    Args:
        layers: The self-attention weights of one sample, from the first layer to the last.

    Returns:
        How much each place after the last layer depends on each input place.

    >>> swap = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> rollout([swap]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    >>> uniform = torch.full((1, 2, 2), 0.5)
    >>> rollout([uniform, uniform]).tolist()
    [[0.625, 0.375], [0.375, 0.625]]

    Abnar and Zuidema (2020), arXiv:2005.00928.
    """
    product = None
    for weights in layers:
        mixed = RESIDUAL * torch.eye(weights.shape[-1], dtype=weights.dtype) + (1 - RESIDUAL) * weights.mean(0)
        mixed = mixed / mixed.sum(-1, keepdim=True)  # a row that sees nothing keeps what it was
        product = mixed if product is None else mixed @ product
    if product is None:
        raise ValueError("rollout needs at least one layer of self-attention: got none")
    return product


def cross_rollout(
    cross: Iterable[Float[Tensor, "heads queries keys"]], encoder: Iterable[Float[Tensor, "heads keys keys"]]
) -> Float[Tensor, "queries keys"]:
    """What every row of a decoder has seen of the input: its cross-attention, mean of layers and heads, through the encoder.

    >>> cross_rollout([torch.tensor([[[1.0, 0.0]]])], [torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])]).tolist()
    [[0.5, 0.5]]
    """
    looked = torch.stack([weights.mean(0) for weights in cross]).mean(0)
    return looked @ rollout(encoder)


def value_norms(
    weights: Float[Tensor, "heads queries keys"], values: Float[Tensor, "heads keys value_dim"]
) -> Float[Tensor, "heads queries keys"]:
    """alpha_ij |v_j|: a key whose value is a vector of zeros contributes nothing, whatever its weight.

    >>> value_norms(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])).tolist()
    [[[2.5, 0.0]]]

    Kobayashi et al. (2020), arXiv:2004.10102, who also follow the values through the output projection.
    """
    return weights * values.norm(dim=-1).unsqueeze(-2)


@dataclass
class HeadOutputs:
    """An observer that keeps the outputs of the heads of every call, with their gradients."""

    calls: dict[Any, list[Tensor]] = field(default_factory=dict)

    def see(self, event: Event) -> None:
        """Keep the output of a call."""
        if event.output is not None:
            self.calls.setdefault(event.layer, []).append(event.output)


@dataclass(eq=False)
class Differentiable:
    """A forward pass that has gradients of a result with respect to the weights of every call."""

    seen: Seen
    result: Any  # what the model returned
    outputs: dict[str, list[Tensor]]  # of every layer's calls, before the heads were merged

    def gradients(
        self, target: Float[Tensor, ""], layers: Collection[str] | None = None
    ) -> dict[str, list[Float[Tensor, "batch heads queries keys"]]]:
        """d target / d alpha for every call of every layer, or of some; the weights are as if each could be changed alone.

        The heads' outputs are linear in the weights, h = mix(alpha, v), so the gradient of h, which autograd has on any kernel,
        determines that of alpha. Over the edges of a graph there is none.
        """
        wanted = self.seen.names if layers is None else layers
        missing = ", ".join(name for name in wanted if name not in self.outputs)
        require(not missing, f"no gradient of the weights is known for {missing}: its heads' outputs were not seen")
        names = [name for name in self.outputs if layers is None or name in layers]
        outputs = [output for name in names for output in self.outputs[name]]
        gradients = iter(torch.autograd.grad(target, outputs, retain_graph=True, allow_unused=True))
        by_layer: dict[str, list[Tensor]] = {name: [] for name in names}
        for name in names:
            for call, output, gradient in zip(self.seen[name].calls, self.outputs[name], gradients, strict=False):
                by_layer[name].append(_through_mix(call, torch.zeros_like(output) if gradient is None else gradient))
        return by_layer


def _through_mix(call: Call, gradient: Float[Tensor, "batch heads queries value_dim"]) -> Tensor:
    """From the gradient of the heads' outputs to that of their weights."""
    require(call.edges is None, f"{call.name or 'the layer'} has a weight per edge: gradients are of dense weights")
    request = call.restored()
    _, v = request.visible()
    with torch.enable_grad():
        weights = call.weights().requires_grad_()
        mixed = reference.mix(request, weights, reference.widen(v.detach()), 0, request.queries)
        return torch.autograd.grad(mixed, weights, gradient.to(mixed.dtype))[0]


def differentiable(model: nn.Module, inputs: Sequence[Any] | Mapping[str, Any]) -> Differentiable:
    """Run a model on its arguments, by position or by name, keeping its attention and the graph of its gradients.

    >>> from mirada import Attention, MultiHead
    >>> layer = Attention(MultiHead(width=4, heads=2))
    >>> one = differentiable(layer, [torch.randn(1, 3, 4)])
    >>> one.gradients(one.result.sum())[""][0].shape
    torch.Size([1, 2, 3, 3])
    """
    outputs = HeadOutputs()
    with torch.inference_mode(False), torch.enable_grad(), _trainable(model), look(model) as seen, observed(outputs):
        result = call_model(model, _ordinary(inputs))
    kept = {name: outputs.calls[layer] for layer, name in seen.layer_names.items() if layer in outputs.calls}
    return Differentiable(seen, result, kept)


def _ordinary(inputs: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
    """Arguments that autograd takes: tensors of inference mode are copied."""

    def copied(x: Any) -> Any:
        return x.clone() if isinstance(x, Tensor) and x.is_inference() else x

    if isinstance(inputs, Mapping):
        return {name: copied(x) for name, x in inputs.items()}
    return tuple(map(copied, (inputs,) if isinstance(inputs, Tensor) else inputs))


@contextmanager
def _trainable(model: nn.Module) -> Iterator[None]:
    """Frozen parameters require gradients inside the block, so that there is something to differentiate."""
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

    Args:
        model: A model of mirada or of Hugging Face transformers; it keeps its kernels.
        inputs: Its arguments, by position or by name.
        target: From the model's output to the number whose gradient is wanted.

    >>> from mirada import Attention, MultiHead
    >>> seen, gradients = weight_gradients(Attention(MultiHead(width=4, heads=2)), [torch.randn(1, 3, 4)], torch.sum)
    >>> (seen[""].weights() * gradients[""][0]).shape
    torch.Size([1, 2, 3, 3])
    """
    with torch.inference_mode(False), torch.enable_grad():
        run = differentiable(model, inputs)
        return run.seen, run.gradients(target(run.result))

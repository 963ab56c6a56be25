"""What quick steps do not take, and why: layers, modules, sources, moments. What is refused takes the ordinary way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules import module as everywhere
from torch.utils.hooks import RemovableHandle

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Causal, Complete, Padding
from mirada.attention.normalizers import Softmax
from mirada.attention.positions import Position
from mirada.attention.scores import Dot
from mirada.layers.block import DecoderLayer, EncoderLayer
from mirada.layers.dropout import Dropout
from mirada.layers.feedforward import FeedForward
from mirada.layers.norm import LayerNorm, Norm, RMSNorm
from mirada.layers.quick.parts import Layer, shape_of
from mirada.layers.residual import Residual

DTYPES = (torch.float32, torch.float64)
DEVICES = ("cpu", "cuda")
MOST = 2**28  # weights that may be kept twice: a gibibyte of float32


@dataclass(eq=False)
class Watch:
    """What may change from step to step in the modules that are passed by."""

    hooks: list[dict]  # of every module; empty where nobody hooked anything to it
    dropouts: list[nn.Module]
    clear: int = -1  # how many hooks there had ever been, anywhere, when there were none here

    @classmethod
    def over(cls, modules: Sequence[nn.Module]) -> "Watch":
        everyone = [everywhere._global_forward_hooks, everywhere._global_forward_pre_hooks]
        own = [hooks for module in modules for hooks in (module._forward_hooks, module._forward_pre_hooks)]
        return cls(everyone + own, [module for module in modules if isinstance(module, Dropout | Softmax)])

    def refuses(self) -> str | None:
        """Why the modules must be called at this moment; None if they may be passed by."""
        if self.clear != RemovableHandle.next_id:  # a new hook has a new number; looking for it takes longer
            if any(self.hooks):
                return "a module has a forward hook"
            self.clear = RemovableHandle.next_id
        if any(module.training for module in self.dropouts):
            return "it is in training"
        return None


def refuses_now() -> str | None:
    """Why nothing can be passed by at this moment."""
    if torch.is_grad_enabled():
        return "a gradient may be asked of it: step inside torch.no_grad() or torch.inference_mode()"
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return "it is being traced"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "it is inside a function transform"
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return "autocast is on"
    return None


def refuses_stack(layers: Sequence[Layer], norm: Norm | None, causal: bool = True) -> str | None:
    """Why no step of these layers and of their last norm can be quick."""
    for layer in layers:
        reason = refuses_layer(layer, causal)
        if reason is not None:
            return reason
    if len({shape_of(layer) for layer in layers}) != 1:
        return "its layers differ"
    if norm is not None and type(norm) is not type(layers[0].around_feed.norm):
        return f"its last norm is {type(norm).__name__}"
    return None


def refuses_layer(layer: Layer, causal: bool = True) -> str | None:
    """Why a step of this layer cannot be quick."""
    if type(layer) not in (EncoderLayer, DecoderLayer):
        return f"a layer is {type(layer).__name__}"
    around, reason = [layer.around_self, layer.around_feed], refuses_attention(layer.self, causal)
    if isinstance(layer, DecoderLayer):
        around.append(layer.around_cross)
        reason = reason or refuses_attention(layer.cross, causal=False)
        own, across = layer.self.heads, layer.cross.heads
        if (own.heads, own.dim) != (across.heads, across.dim):
            reason = reason or "its two attentions have different heads"
    if type(layer.feed) is not FeedForward:
        reason = reason or f"its feed-forward layer is {type(layer.feed).__name__}"
    for residual in around:
        if type(residual) is not Residual or type(residual.norm) not in (LayerNorm, RMSNorm):
            reason = reason or f"its norm is {type(residual.norm).__name__}"
    if len({(type(residual.norm), residual.order) for residual in around}) != 1:
        reason = reason or "its norms differ"
    return reason


def refuses_attention(attention: Attention, causal: bool) -> str | None:
    """Why a step of this attention cannot be quick."""
    heads, score = attention.heads, attention.score
    if type(attention) is not Attention:
        return f"its attention is {type(attention).__name__}"
    if type(heads) is not MultiHead:
        return f"its heads are {type(heads).__name__}"
    if heads.dim != heads.value_dim:
        return f"its keys and values differ in dim: {heads.dim} and {heads.value_dim}"
    if type(score) is not Dot or isinstance(score.scale, Tensor):
        return f"its score is {score}"
    if type(attention.position) is not Position:
        return f"its position is {attention.position}"
    if type(attention.normalizer) is not Softmax:
        return f"its normalizer is {attention.normalizer}"
    kinds = {type(part) for part in attention.where.conjuncts()}
    if not kinds <= {Causal, Complete} or (Causal in kinds) != causal:
        return f"its neighborhood is {attention.where}"
    return None


def refuses_modules(modules: Sequence[nn.Module]) -> str | None:
    """Why these modules cannot be passed by, whatever happens."""
    for kind in {type(module) for module in modules}:
        if issubclass(kind, nn.Linear) and kind is not nn.Linear:
            return f"a linear layer is {kind.__name__}"
    if any("forward" in vars(module) for module in modules):
        return "a module has a forward of its own"
    weights = [weight for module in modules for weight in module._parameters.values() if weight is not None]
    kinds = {(type(weight), weight.dtype, weight.device) for weight in weights}
    for kept, dtype, device in kinds:
        if kept is not nn.Parameter or dtype not in DTYPES or device.type not in DEVICES:
            return f"a weight is a {kept.__name__} of {dtype} on {device.type}"
    if len(kinds) != 1:
        return "its weights differ in dtype or device"
    if not all(weight.is_contiguous() for weight in weights):
        return "a weight is a view of another tensor"
    numbers = sum(weight.numel() for weight in weights)
    return f"its {numbers:,} weights would be kept twice" if numbers > MOST else None


def refuses_sources(sources: Iterable[Memory], keys: Tensor) -> str | None:
    """Why these memories cannot be looked at quickly, beside such keys."""
    for memory in sources:
        if memory.length == 0:
            return "a source is empty"
        if memory.keys.dtype != keys.dtype or memory.keys.device != keys.device:
            return f"a source is {memory.keys.dtype} on {memory.keys.device}"
        reason = None if memory.padding is None else refuses_lengths(memory.padding)
        if reason is not None:
            return reason
    return None


def refuses_lengths(padding: Padding) -> str | None:
    """Why sources of these lengths cannot be looked at quickly."""
    return "a source is empty" if padding.lengths.numel() == 0 or int(padding.lengths.min()) == 0 else None

"""What of a model learns that started from another one: all of it, its head, or adapters beside its linear layers."""

from torch import nn

from mirada.errors import require
from mirada.layers.lora import adapt, merge
from mirada.layers.model import Model
from mirada.layers.stack import Decoder, Encoder
from mirada.training.recipe import Tuning
from mirada.training.state import OF_BASE


def attach(model: Model, tuning: Tuning) -> None:
    """Let only those parameters of a model learn that a tuning names; adapters are put in the place of linear layers.

    With adapters, the parameters that do not learn are marked: `training.state.weights` leaves them to the folder of the base.

    Args:
        model: the model, with the weights of the one that it starts from.
        tuning: what learns.

    >>> from mirada.models.encoder import TextEncoder, TextEncoderConfig
    >>> model = TextEncoder(TextEncoderConfig.tiny())
    >>> attach(model, Tuning("head"))
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['output.weight', 'output.bias']
    """
    if tuning.kind == "all":
        return
    head = _head_parameters(model)
    name = type(model).__name__
    if tuning.rank:
        adapted = adapt(model, tuning.rank, tuning.every, without=model.head_parts)
        require(bool(adapted), f"a {name} has no linear layers of queries and values: take tune=all, or lora:8:all")
        head |= {id(p) for place in adapted for p in (model.get_submodule(place).down, model.get_submodule(place).up)}
    else:
        require(bool(head), f"a {name} has no head of its own: take tune=all or tune=lora:8")
        model.body_rests = True
    for parameter in model.parameters():
        if id(parameter) not in head:
            parameter.requires_grad_(False)
            setattr(parameter, OF_BASE, tuning.rank > 0)


def release(model: Model) -> None:
    """Undo what `attach` did, after training: adapters are merged, and all parameters may learn again.

    Args:
        model: the model.
    """
    merge(model)
    for parameter in model.parameters():
        if hasattr(parameter, OF_BASE):
            delattr(parameter, OF_BASE)
            parameter.requires_grad_(True)
    model.body_rests = False


def _head_parameters(model: Model) -> set[int]:
    """The parameters of the head by their identity; a table that the body shares is the body's."""
    parts = {name: child for name, child in model.named_children() if name in model.head_parts}
    own = {id(p) for part in parts.values() for p in part.parameters()}
    body = {id(p) for name, child in model.named_children() if name not in parts for p in child.parameters()}
    return own - body


def checkpoint_layers(model: nn.Module) -> int:
    """Let the layers of a model be computed again in the backward pass; how many stacks there are comes back."""
    stacks = [module for module in model.modules() if isinstance(module, Encoder | Decoder)]
    for stack in stacks:
        stack.checkpointing = True
    return len(stacks)

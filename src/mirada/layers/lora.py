"""Low-rank adapters of linear layers: the weights stay, and a small product beside them is learned."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mirada.errors import require
from mirada.native.products import called

SCALE = 2.0  # alpha / rank of the paper: the same at every rank
USUAL = ("query", "value")  # the layers that are adapted unless all are
DOWN, UP = "down", "up"


class LowRank(nn.Module):
    """A linear layer whose weight stays, and a product of rank r that is learned beside it.

    h = W x + b + 2 U D x, with D (rank, in) and U (out, rank)

    U begins with zeros: at first nothing is changed. `merged` is the linear layer with W + 2 U D.

    Args:
        base: the linear layer.
        rank: the rank of the product.

    >>> layer = LowRank(nn.Linear(3, 5), rank=2)
    >>> x = torch.randn(7, 3)
    >>> bool((layer(x) == layer.base(x)).all()), layer.merged().weight.shape
    (True, torch.Size([5, 3]))

    Hu et al. (2022), arXiv:2106.09685.
    """

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        require(rank >= 1, f"the rank of an adapter must be at least 1: got {rank}")
        self.base = base
        self.down = nn.Parameter(base.weight.new_empty(rank, base.in_features).normal_(std=base.in_features**-0.5))
        self.up = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, x: Float[Tensor, "*places in"]) -> Float[Tensor, "*places out"]:
        """The output of the layer with what was learned beside it."""
        return called(self.base, x) + SCALE * F.linear(F.linear(x, self.down), self.up)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A linear layer that computes the same, with weights of its own."""
        out, width = self.base.out_features, self.base.in_features
        with torch.device("meta"):
            layer = nn.Linear(width, out, bias=self.base.bias is not None)
        weight = self.base.weight.double() + SCALE * self.up.double() @ self.down.double()
        layer.weight = nn.Parameter(weight.to(self.base.weight.dtype))
        if self.base.bias is not None:
            layer.bias = nn.Parameter(self.base.bias.clone())
        return layer.train(self.training)

    def extra_repr(self) -> str:
        return f"rank={len(self.down)}"


def adapt(model: nn.Module, rank: int, every: bool = False, without: Sequence[str] = ()) -> list[str]:
    """Replace linear layers of a model by adapted ones, in place: queries and values, or all. Their names come back.

    Args:
        model: the model.
        rank: the rank of every adapter.
        every: all linear layers, not those of queries and values alone.
        without: parts of the model that are left as they are: its head.

    >>> from mirada.layers.block import BlockConfig
    >>> from mirada.layers.stack import Encoder
    >>> stack = Encoder(BlockConfig(width=8, heads=2, hidden=16), depth=1)
    >>> adapt(stack, rank=2)
    ['layers.0.self.heads.query', 'layers.0.self.heads.value']
    """
    names = [
        name
        for name, module in model.named_modules()
        if type(module) is nn.Linear
        and (every or name.rpartition(".")[2] in USUAL)
        and name.partition(".")[0] not in without
    ]
    shared = {id(p) for parts in _tables(model) for p in parts}
    names = [name for name in names if id(model.get_submodule(name).weight) not in shared]
    for name in names:
        _replace(model, name, LowRank(model.get_submodule(name), rank))  # type: ignore[arg-type]
    return names


def merge(model: nn.Module) -> nn.Module:
    """Replace adapted layers by linear ones with merged weights, in place: whatever looks at the model sees those.

    >>> model = nn.Sequential(LowRank(nn.Linear(3, 5), rank=2))
    >>> type(merge(model)[0]).__name__
    'Linear'
    """
    for name, module in list(model.named_modules()):
        if isinstance(module, LowRank):
            _replace(model, name, module.merged())
    return model


def _tables(model: nn.Module) -> Iterator[list[nn.Parameter]]:
    """The weights of modules that are no linear layers: one that shares its weight with such a table is no layer alone."""
    for module in model.modules():
        if not isinstance(module, nn.Linear):
            yield list(module.parameters(recurse=False))


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    """Put a module in the place of another."""
    owner, _, last = name.rpartition(".")
    setattr(model.get_submodule(owner) if owner else model, last, module)

"""The page about models of other libraries: its programs run, and the exchanged layers of a timm ViT compute the same."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import DropHead, intervene, look

PAGE = (Path(__file__).parents[2] / "docs" / "models-of-others.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


class LikeTimm(nn.Module):
    """An attention layer with the parts, the names and the formula of timm's."""

    def __init__(self, width: int, heads: int, bias: bool = True, normed: bool = False) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.fused_attn = heads, width // heads, True
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width)
        self.q_norm = nn.LayerNorm(self.head_dim) if normed else nn.Identity()
        self.k_norm, self.attn_drop, self.weights = nn.Identity(), nn.Identity(), torch.empty(0)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        batch, places, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, places, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        self.weights = (self.head_dim**-0.5 * q @ k.transpose(-2, -1)).softmax(-1)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, places, width))


class Blocks(nn.Module):
    def __init__(self, **more: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(2):
            block = nn.Module()
            block.attn = LikeTimm(12, 3, **more)
            self.blocks.append(block)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block.attn(x, attn_mask=None)
        return x


def test_the_program_for_transformers_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    exec(PROGRAMS[0], {})
    assert capsys.readouterr().out == "torch.Size([1, 4, 5, 5])\n"


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_an_exchanged_layer_computes_the_same_and_is_seen(bias: bool) -> None:
    names: dict[str, object] = {}
    exec(PROGRAMS[1], names)
    model, x = Blocks(bias=bias), torch.randn(2, 5, 12)
    theirs = [block.attn for block in model.blocks]
    with pytest.raises(ValueError, match="attends nowhere"), look(model):
        model(x)
    wanted = model(x)
    names["watched"](model)  # type: ignore[operator]
    with look(model) as seen:
        assert_close(model(x), wanted)
    assert seen.names == ["blocks.0.attn.attention", "blocks.1.attn.attention"]
    for name, layer in zip(seen.names, theirs, strict=True):
        assert_close(seen[name].weights(), layer.weights)
    with intervene(model, {seen.names[1]: DropHead(0)}):
        assert (model(x) - wanted).abs().max() > 1e-3


def test_what_is_not_taken_over_is_said() -> None:
    names: dict[str, object] = {}
    exec(PROGRAMS[1], names)
    with pytest.raises(ValueError, match="norms of queries and keys are not taken over"):
        names["watched"](Blocks(normed=True))  # type: ignore[operator]

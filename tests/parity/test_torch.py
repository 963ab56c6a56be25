"""Parity with torch.nn.MultiheadAttention: outputs and gradients."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mirada.attention import Attention, Grouped, MultiHead, Sparsemax
from mirada.attention.neighborhoods import Causal, Dense, Padding
from mirada.hub.torch_mha import from_torch, to_torch

BATCH, QUERIES, KEYS, WIDTH, HEADS = 3, 5, 7, 12, 4


def gradients(module: nn.Module, output: torch.Tensor, *inputs: torch.Tensor) -> list[torch.Tensor]:
    probe = torch.linspace(-1, 1, output.numel()).view_as(output)
    return list(torch.autograd.grad((output * probe).sum(), inputs))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_self_attention(bias: bool, batch_first: bool) -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=batch_first)
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
    ours = from_torch(theirs)
    x = torch.randn(BATCH, QUERIES, WIDTH, requires_grad=True)
    x_theirs = x if batch_first else x.transpose(0, 1)
    expected, _ = theirs(x_theirs, x_theirs, x_theirs, need_weights=False)
    expected = expected if batch_first else expected.transpose(0, 1)
    assert_close(ours(x), expected)
    assert_close(gradients(ours, ours(x), x), gradients(theirs, expected, x))


def test_cross_attention_with_its_own_widths_and_padding() -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, kdim=13, vdim=17, batch_first=True)
    ours = from_torch(theirs)
    x = torch.randn(BATCH, QUERIES, WIDTH, requires_grad=True)
    k = torch.randn(BATCH, KEYS, 13, requires_grad=True)
    v = torch.randn(BATCH, KEYS, 17, requires_grad=True)
    lengths = torch.tensor([7, 1, 4])
    hidden = torch.arange(KEYS) >= lengths[:, None]
    expected, _ = theirs(x, k, v, key_padding_mask=hidden, need_weights=False)
    got = ours(x, memory=k, values=v, where=Padding(lengths))
    assert_close(got, expected)
    assert_close(ours(x, memory=k, values=v, where=Dense(~hidden.unsqueeze(1))), expected)
    assert_close(gradients(ours, got, x, k, v), gradients(theirs, expected, x, k, v))


def test_causal_with_padding_on_every_row() -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = from_torch(theirs)
    x = torch.randn(BATCH, KEYS, WIDTH, requires_grad=True)
    lengths = torch.tensor([7, 2, 5])
    future = torch.ones(KEYS, KEYS, dtype=torch.bool).triu(1)
    hidden = torch.arange(KEYS) >= lengths[:, None]
    expected, _ = theirs(x, x, x, attn_mask=future, key_padding_mask=hidden, need_weights=False)
    got = ours(x, where=Causal() & Padding(lengths))
    assert_close(got, expected)
    assert_close(gradients(ours, got, x), gradients(theirs, expected, x))


def test_parameter_gradients() -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = from_torch(theirs)
    x = torch.randn(BATCH, QUERIES, WIDTH)
    theirs(x, x, x, need_weights=False)[0].square().sum().backward()
    ours(x).square().sum().backward()
    heads = ours.heads
    stacked = torch.cat([heads.query.weight.grad, heads.key.weight.grad, heads.value.weight.grad])
    assert_close(stacked, theirs.in_proj_weight.grad)
    assert_close(heads.out.weight.grad, theirs.out_proj.weight.grad)
    assert_close(heads.out.bias.grad, theirs.out_proj.bias.grad)


def test_weights_are_copied_not_shared() -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = from_torch(theirs)
    x = torch.randn(BATCH, QUERIES, WIDTH)
    before = ours(x)
    with torch.no_grad():
        theirs.in_proj_weight.zero_()
    assert_close(ours(x), before, rtol=0, atol=0)


def test_dtype_mode_and_dropout_carry_over() -> None:
    ours = from_torch(nn.MultiheadAttention(WIDTH, HEADS, dropout=0.25, dtype=torch.float64).eval())
    assert not ours.training
    assert ours.heads.query.weight.dtype == torch.float64
    assert ours.normalizer.dropout == 0.25


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_rows_from_nowhere_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match="add_bias_kv or add_zero_attn"):
        from_torch(nn.MultiheadAttention(WIDTH, HEADS, **{option: True}))


def test_another_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a MultiheadAttention: got Linear"):
        from_torch(nn.Linear(3, 5))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [{}, {"memory_width": 13, "values_width": 17}], ids=["self", "cross"])
def test_back_to_torch(bias: bool, widths: dict[str, int]) -> None:
    ours = Attention(MultiHead(WIDTH, HEADS, bias=bias, **widths)).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    theirs = to_torch(ours)
    x = torch.randn(BATCH, QUERIES, WIDTH, dtype=torch.float64)
    k = torch.randn(BATCH, KEYS, widths.get("memory_width", WIDTH), dtype=torch.float64)
    v = torch.randn(BATCH, KEYS, widths.get("values_width", WIDTH), dtype=torch.float64)
    where = Dense(torch.rand(QUERIES, KEYS) < 0.7) & Padding([7, 3, 5])
    hidden = ~where.dense(QUERIES, KEYS).expand(BATCH, HEADS, -1, -1).flatten(0, 1)
    seen = where.dense(QUERIES, KEYS).any(-1).squeeze(1)  # theirs gives NaN for a query that sees nothing
    expected, _ = theirs(x, k, v, attn_mask=hidden)
    assert_close(ours(x, memory=k, values=v, where=where)[seen], expected[seen])
    assert_close(dict(from_torch(theirs).state_dict()), dict(ours.state_dict()))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Attention(Grouped(WIDTH, HEADS, 2)), "its heads are MultiHead, not Grouped"),
        (Attention(MultiHead(WIDTH, HEADS, dim=5)), "its heads share the width"),
        (Attention(MultiHead(WIDTH, HEADS, bias="qkv")), "have a bias, or none"),
        (Attention(MultiHead(WIDTH, HEADS), normalizer=Sparsemax()), "a softmax and no position"),
        (Attention(MultiHead(WIDTH, HEADS), where=Causal()), "given its mask in each call"),
    ],
)  # fmt: skip
def test_what_torch_does_not_have(layer: Attention, message: str) -> None:
    with pytest.raises(ValueError, match=f"a MultiheadAttention cannot be this layer: .*{message}"):
        to_torch(layer)

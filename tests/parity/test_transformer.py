"""Parity of our stacks with torch.nn.Transformer: outputs and gradients, with the norm in front and behind."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mirada.attention.neighborhoods import Padding
from mirada.hub.mapping import Row, WeightTable, copy_weights
from mirada.layers.block import BlockConfig
from mirada.layers.stack import Decoder, Encoder

BATCH, SOURCE, TARGET, WIDTH, HEADS, HIDDEN = 3, 11, 7, 20, 5, 31
LENGTHS = torch.tensor([11, 5, 8])
REAL = torch.arange(SOURCE) < LENGTHS.unsqueeze(1)
NEAR = {"atol": 1e-4, "rtol": 1e-4}
PROJECTIONS = ("query", "key", "value")


def attention(ours: str, theirs: str) -> tuple[Row, ...]:
    """Queries, keys and values are one tensor there, with rows for the queries first."""
    weights, biases = (tuple(f"{ours}.heads.{name}.{part}" for name in PROJECTIONS) for part in ("weight", "bias"))
    return (
        Row(weights, f"{theirs}.in_proj_weight", "(parts o) i -> parts o i"),
        Row(biases, f"{theirs}.in_proj_bias", "(parts o) -> parts o"),
        Row(f"{ours}.heads.out.*", f"{theirs}.out_proj.*"),
    )


TABLE = WeightTable(
    source="nn.Transformer",
    rows=(
        *attention("encoder.layers.{n}.self", "encoder.layers.{n}.self_attn"),
        Row("encoder.layers.{n}.feed.widen.*", "encoder.layers.{n}.linear1.*"),
        Row("encoder.layers.{n}.feed.narrow.*", "encoder.layers.{n}.linear2.*"),
        Row("encoder.layers.{n}.around_self.norm.*", "encoder.layers.{n}.norm1.*"),
        Row("encoder.layers.{n}.around_feed.norm.*", "encoder.layers.{n}.norm2.*"),
        Row("encoder.norm.*", "encoder.norm.*"),
        *attention("decoder.layers.{n}.self", "decoder.layers.{n}.self_attn"),
        *attention("decoder.layers.{n}.cross", "decoder.layers.{n}.multihead_attn"),
        Row("decoder.layers.{n}.feed.widen.*", "decoder.layers.{n}.linear1.*"),
        Row("decoder.layers.{n}.feed.narrow.*", "decoder.layers.{n}.linear2.*"),
        Row("decoder.layers.{n}.around_self.norm.*", "decoder.layers.{n}.norm1.*"),
        Row("decoder.layers.{n}.around_cross.norm.*", "decoder.layers.{n}.norm2.*"),
        Row("decoder.layers.{n}.around_feed.norm.*", "decoder.layers.{n}.norm3.*"),
        Row("decoder.norm.*", "decoder.norm.*"),
    ),
)


def their_model(norm_first: bool, activation: str) -> nn.Transformer:
    """Theirs, every weight moved away from its start.

    By itself nn.Transformer puts a last norm on both stacks, also where every block ends with a norm; the paper does not. So
    the stacks are built by hand.
    """
    settings = {"activation": activation, "dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, **settings),
        num_layers=3,
        norm=nn.LayerNorm(WIDTH) if norm_first else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, **settings),
        num_layers=2,
        norm=nn.LayerNorm(WIDTH) if norm_first else None,
    )
    model = nn.Transformer(WIDTH, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def our_model(norm_first: bool, activation: str) -> nn.ModuleDict:
    config = BlockConfig(
        width=WIDTH, heads=HEADS, hidden=HIDDEN, activation=activation, dropout=0.0, order="pre" if norm_first else "post"
    )  # fmt: skip
    return nn.ModuleDict({"encoder": Encoder(config, 3), "decoder": Decoder(config, 2)})


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_outputs_and_all_gradients_are_equal_in_a_padded_batch(norm_first: bool, activation: str) -> None:
    theirs, ours = their_model(norm_first, activation), our_model(norm_first, activation)
    copy_weights(ours, TABLE, theirs.state_dict())
    source, target = (torch.randn(BATCH, n, WIDTH, requires_grad=True) for n in (SOURCE, TARGET))

    memory = ours["encoder"](source, Padding(LENGTHS))
    got = ours["decoder"](target, memory, Padding(LENGTHS))
    hidden = ~REAL
    wanted = theirs(
        source,
        target,
        tgt_mask=torch.ones(TARGET, TARGET, dtype=torch.bool).triu(1),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
        tgt_is_causal=True,
    )
    assert_close(memory[REAL], theirs.encoder(source, src_key_padding_mask=hidden)[REAL], **NEAR)
    assert_close(got, wanted, **NEAR)

    probe = torch.randn_like(got)
    gradients = [torch.autograd.grad((y * probe).sum(), (source, target), retain_graph=True) for y in (got, wanted)]
    assert_close(*gradients, **NEAR)
    (got * probe).sum().backward()
    (wanted * probe).sum().backward()
    # a table that leads from weights to weights leads from gradients to gradients
    expected = copy.deepcopy(ours)
    copy_weights(expected, TABLE, {name: p.grad for name, p in theirs.named_parameters()})
    for (name, parameter), gradient in zip(ours.named_parameters(), expected.parameters(), strict=True):
        assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
        assert "key.bias" in name or gradient.abs().max() > 0.02  # softmax does not see what is added to all keys


@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_give_what_their_whole_pass_gives(norm_first: bool) -> None:
    theirs, ours = their_model(norm_first, "relu"), our_model(norm_first, "relu")
    copy_weights(ours, TABLE, theirs.state_dict())
    source, target = (torch.randn(BATCH, n, WIDTH) for n in (SOURCE, TARGET))
    with torch.no_grad():
        wanted = theirs(
            source,
            target,
            tgt_mask=torch.ones(TARGET, TARGET, dtype=torch.bool).triu(1),
            src_key_padding_mask=~REAL,
            memory_key_padding_mask=~REAL,
        )
        padding = Padding(LENGTHS)
        state = ours["decoder"].start(ours["encoder"](source, padding), padding)
        for place in range(TARGET):
            got, state = ours["decoder"].step(target[:, place : place + 1], state)
            assert_close(got[:, 0], wanted[:, place], **NEAR)

"""Blocks against torch's own layers, step by step against all at once, and configurations that cannot be built."""

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import look
from mirada.attention.heads import Collaborative, Grouped, MultiHead, Split
from mirada.attention.neighborhoods import Causal, Padding, Window
from mirada.attention.normalizers import Sparsemax
from mirada.attention.positions import Learned, Rotary, Sinusoidal
from mirada.attention.scores import Additive
from mirada.layers.block import BlockConfig, DecoderLayer, EncoderLayer, input_position, norm
from mirada.layers.feedforward import Gated
from mirada.layers.norm import BatchNorm, RMSNorm
from mirada.layers.stack import Encoder

BATCH, LENGTH, KEYS, WIDTH, HEADS, HIDDEN = 2, 5, 7, 12, 3, 11
PLAIN = BlockConfig(width=WIDTH, heads=HEADS, hidden=HIDDEN, dropout=0.0, position="none", length=17)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(module: nn.Module) -> nn.Module:
    """The module in float64, with random numbers in every parameter, the biases and norms too."""
    module = module.double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * parameter.shape[-1] ** -0.5)
    return module


# Parity with torch


def copy_attention(theirs: nn.MultiheadAttention, ours: nn.Module) -> None:
    heads = ours.heads
    for name, source in (("weight", theirs.in_proj_weight), ("bias", theirs.in_proj_bias)):
        for layer, rows in zip((heads.query, heads.key, heads.value), source.data.chunk(3), strict=True):
            getattr(layer, name).data.copy_(rows)
    heads.out.load_state_dict(theirs.out_proj.state_dict())


def copy_encoder(theirs: nn.TransformerEncoderLayer, ours: EncoderLayer) -> None:
    copy_attention(theirs.self_attn, ours.self_attention)
    ours.feed.widen.load_state_dict(theirs.linear1.state_dict())
    ours.feed.narrow.load_state_dict(theirs.linear2.state_dict())
    ours.around_self.norm.load_state_dict(theirs.norm1.state_dict())
    ours.around_feed.norm.load_state_dict(theirs.norm2.state_dict())


def copy_decoder(theirs: nn.TransformerDecoderLayer, ours: DecoderLayer) -> None:
    copy_encoder(theirs, ours)
    copy_attention(theirs.multihead_attn, ours.cross)
    ours.around_cross.norm.load_state_dict(theirs.norm2.state_dict())
    ours.around_feed.norm.load_state_dict(theirs.norm3.state_dict())


def torch_layer(kind: type, order: str, activation: str) -> nn.Module:
    options = {"dropout": 0.0, "activation": activation, "norm_first": order == "pre", "batch_first": True}
    return seeded(kind(WIDTH, HEADS, HIDDEN, **options))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_an_encoder_layer_is_that_of_torch(order: str, activation: str) -> None:
    theirs = torch_layer(nn.TransformerEncoderLayer, order, activation)
    ours = EncoderLayer(replace(PLAIN, order=order, activation=activation)).double()
    copy_encoder(theirs, ours)
    x, twin = (numbers(BATCH, LENGTH, WIDTH).requires_grad_() for _ in range(2))
    y, wanted = ours(x), theirs(twin)
    assert_close(y, wanted)
    gradient = numbers(BATCH, LENGTH, WIDTH, seed=1)
    (y * gradient).sum().backward()
    (wanted * gradient).sum().backward()
    assert_close(x.grad, twin.grad)
    assert_close(ours.feed.widen.weight.grad, theirs.linear1.weight.grad)
    assert_close(ours.self_attention.heads.key.weight.grad, theirs.self_attn.in_proj_weight.grad[WIDTH : 2 * WIDTH])
    assert_close(ours.around_self.norm.weight.grad, theirs.norm1.weight.grad)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_an_encoder_layer_is_that_of_torch_with_padding(order: str) -> None:
    theirs = torch_layer(nn.TransformerEncoderLayer, order, "relu")
    ours = EncoderLayer(replace(PLAIN, order=order)).double()
    copy_encoder(theirs, ours)
    x, lengths = numbers(BATCH, LENGTH, WIDTH), torch.tensor([5, 3])
    padded = torch.arange(LENGTH) >= lengths.unsqueeze(1)
    wanted = theirs(x, src_key_padding_mask=padded)
    assert_close(ours(x, Padding(lengths), ~padded)[~padded], wanted[~padded])


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_decoder_layer_is_that_of_torch(order: str) -> None:
    theirs = torch_layer(nn.TransformerDecoderLayer, order, "gelu")
    ours = DecoderLayer(replace(PLAIN, order=order, activation="gelu")).double()
    copy_decoder(theirs, ours)
    later = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
    lengths = torch.tensor([3, 7])
    hidden = torch.arange(KEYS) >= lengths.unsqueeze(1)
    x, twin = (numbers(BATCH, LENGTH, WIDTH).requires_grad_() for _ in range(2))
    memory, other = (numbers(BATCH, KEYS, WIDTH, seed=1).requires_grad_() for _ in range(2))
    y = ours(x, memory, Padding(lengths))
    wanted = theirs(twin, other, tgt_mask=later, memory_key_padding_mask=hidden)
    assert_close(y, wanted)
    gradient = numbers(BATCH, LENGTH, WIDTH, seed=2)
    (y * gradient).sum().backward()
    (wanted * gradient).sum().backward()
    assert_close(x.grad, twin.grad)
    assert_close(memory.grad, other.grad)
    assert_close(ours.cross.heads.out.weight.grad, theirs.multihead_attn.out_proj.weight.grad)


def test_an_encoder_layer_with_a_causal_neighborhood_is_torchs_with_a_mask() -> None:
    theirs = torch_layer(nn.TransformerEncoderLayer, "pre", "relu")
    ours = EncoderLayer(PLAIN, Causal()).double()
    copy_encoder(theirs, ours)
    x, later = numbers(BATCH, LENGTH, WIDTH), torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    assert_close(ours(x), theirs(x, src_mask=later))


# Step by step

STEPPED = [
    {"position": "none"},
    {"position": "sinusoidal"},
    {"position": "rotary"},
    {"position": "relative:2"},
    {"position": "alibi", "projection": "grouped:1"},
    {"position": "none", "where": "window:2", "norm": "rms", "activation": "gated"},
    {"position": "rotary", "where": "strided:2", "order": "post", "normalizer": "sparsemax"},
    {"position": "none", "score": "additive", "order": "post"},
    {"position": "none", "projection": "collaborative:7"},
    {"position": "none", "projection": "split", "score": "general"},
]


@pytest.mark.parametrize("fields", STEPPED, ids=lambda fields: " ".join(fields.values()))
@pytest.mark.parametrize("size", [1, 3])
def test_an_encoder_layer_step_by_step(fields: dict[str, str], size: int) -> None:
    layer, x = seeded(EncoderLayer(replace(PLAIN, **fields), Causal())), numbers(BATCH, LENGTH, WIDTH)
    cache = layer.self_attention.cache(BATCH, LENGTH)
    steps = [layer.step(part, cache)[0] for part in x.split(size, dim=1)]
    assert_close(torch.cat(steps, dim=1), layer(x))
    assert cache.filled == LENGTH


@pytest.mark.parametrize("fields", STEPPED, ids=lambda fields: " ".join(fields.values()))
@pytest.mark.parametrize("size", [1, 3])
def test_a_decoder_layer_step_by_step(fields: dict[str, str], size: int) -> None:
    layer = seeded(DecoderLayer(replace(PLAIN, **fields)))
    x, memory, padding = numbers(BATCH, LENGTH, WIDTH), numbers(BATCH, KEYS, WIDTH, seed=1), Padding([3, 7])
    cache, remembered = layer.self_attention.cache(BATCH, LENGTH), layer.cross.remember(memory, padding=padding)
    steps = [layer.step(part, remembered, cache)[0] for part in x.split(size, dim=1)]
    assert_close(torch.cat(steps, dim=1), layer(x, memory, padding))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_step_says_what_its_attention_was_asked_with(order: str) -> None:
    x, memory = numbers(BATCH, 1, WIDTH), numbers(BATCH, KEYS, WIDTH, seed=1)
    encoder = seeded(EncoderLayer(replace(PLAIN, order=order), Causal()))
    _, asked = encoder.step(x, encoder.self_attention.cache(BATCH, 1))
    assert_close(asked, encoder.around_self.norm(x) if order == "pre" else x)
    decoder = seeded(DecoderLayer(replace(PLAIN, order=order)))
    _, asked = decoder.step(x, decoder.cross.remember(memory), decoder.self_attention.cache(BATCH, 1))
    between = decoder.around_self(x, decoder.self_attention)
    assert_close(asked, decoder.around_cross.norm(between) if order == "pre" else between)


# Laws


def test_a_decoder_layer_sees_no_later_place() -> None:
    layer, memory = seeded(DecoderLayer(PLAIN)), numbers(BATCH, KEYS, WIDTH, seed=1)
    x = numbers(BATCH, LENGTH, WIDTH)
    changed = x.clone()
    changed[:, 3:] += 1
    assert_close(layer(changed, memory)[:, :3], layer(x, memory)[:, :3], rtol=0, atol=1e-12)
    assert not torch.equal(layer(changed, memory)[:, 3:], layer(x, memory)[:, 3:])


def test_an_encoder_layer_without_position_knows_no_order() -> None:
    layer, x, order = seeded(EncoderLayer(PLAIN)), numbers(BATCH, LENGTH, WIDTH), torch.tensor([3, 0, 4, 1, 2])
    assert_close(layer(x[:, order]), layer(x)[:, order])


def test_positions_can_be_given() -> None:
    layer, x = seeded(EncoderLayer(replace(PLAIN, position="relative:5"))), numbers(BATCH, LENGTH, WIDTH)
    assert_close(layer(x, positions=torch.arange(11, 11 + LENGTH)), layer(x))
    order = torch.tensor([3, 0, 4, 1, 2])
    assert_close(layer(x[:, order], positions=order), layer(x)[:, order])


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
@pytest.mark.parametrize(("order", "norm"), [("pre", "layer"), ("post", "rms"), ("pre", "batch:1")])
@pytest.mark.parametrize("projection", ["multihead", "grouped:1", "collaborative:8", "multihead:8"])
@pytest.mark.parametrize("position", ["none", "rotary", "relative:2", "alibi"])
def test_every_parameter_of_a_block_is_used(kind: type, order: str, norm: str, projection: str, position: str) -> None:
    # collaborative and multihead:8 have heads of their own dim, which a position must be told
    fitting = position in ("none", "alibi") or projection in ("multihead", "grouped:1")
    position = (
        position if fitting else {"rotary": "rotary:dim=8", "relative:2": "relative:2,values=False,dim=8"}[position]
    )
    config = replace(PLAIN, order=order, norm=norm, projection=projection, position=position, activation="silu")
    layer, x = seeded(kind(config)), numbers(BATCH, LENGTH, WIDTH)
    y = layer(x) if kind is EncoderLayer else layer(x, numbers(BATCH, KEYS, WIDTH, seed=1))
    assert y.shape == x.shape
    (y * numbers(*y.shape, seed=2)).sum().backward()
    unused = [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert unused == []
    silent = [name for name, p in layer.named_parameters() if not p.grad.any()]
    assert silent == []


def test_padding_is_no_part_of_batch_norm() -> None:
    x, real = numbers(BATCH, LENGTH, WIDTH), torch.arange(LENGTH) < torch.tensor([[5], [3]])
    for kind in (EncoderLayer, DecoderLayer):
        outputs = []
        for garbage in (0.0, 1e3):
            layer = seeded(kind(replace(PLAIN, norm="batch")))
            filled, memory = x.masked_fill(~real.unsqueeze(-1), garbage), numbers(BATCH, KEYS, WIDTH, seed=1)
            y = (
                layer(filled, Padding([5, 3]), real)
                if kind is EncoderLayer
                else layer(filled, memory, None, real=real)
            )  # fmt: skip
            outputs.append(y[real])
        assert_close(*outputs)


def test_look_names_the_attention_of_a_block() -> None:
    layer = seeded(DecoderLayer(PLAIN))
    with look(layer) as seen:
        layer(numbers(BATCH, LENGTH, WIDTH), numbers(BATCH, KEYS, WIDTH, seed=1))
    assert seen.names == ["self", "cross"]
    assert seen["self"].weights().shape == (BATCH, HEADS, LENGTH, LENGTH)
    assert seen["cross"].weights().shape == (BATCH, HEADS, LENGTH, KEYS)
    assert seen["self"].where == Causal()


# Configurations


def test_a_block_is_what_its_configuration_describes() -> None:
    config = replace(
        PLAIN, activation="gated", norm="rms", order="post", dropout=0.25, where="window:3", projection="grouped:1",
        score="additive", normalizer="sparsemax",
    )  # fmt: skip
    layer = DecoderLayer(config)
    assert isinstance(layer.feed, Gated)
    for attention in (layer.self_attention, layer.cross):
        assert type(attention.heads) is Grouped
        assert type(attention.score) is Additive
        assert attention.score.pair_width == WIDTH // HEADS
        assert type(attention.normalizer) is Sparsemax
    assert layer.self_attention.where == Window(3) & Causal()
    for around in (layer.around_self, layer.around_cross, layer.around_feed):
        assert (around.order, around.dropout.rate, type(around.norm)) == ("post", 0.25, RMSNorm)
    kinds = {"multihead": MultiHead, "collaborative:5": Collaborative, "split": Split}
    for text, kind in kinds.items():
        assert type(EncoderLayer(replace(PLAIN, projection=text)).self.heads) is kind
    assert type(norm(replace(PLAIN, norm="batch:1"))) is BatchNorm
    assert norm(replace(PLAIN, norm="batch:1")).correction == 1


def test_positions_act_at_the_input_or_inside_the_block() -> None:
    assert type(input_position(replace(PLAIN, position="sinusoidal"))) is Sinusoidal
    learned = input_position(replace(PLAIN, position="learned"))
    assert type(learned) is Learned
    assert learned.table.shape == (17, WIDTH)
    for position in ("none", "rotary", "relative:3", "alibi"):
        assert input_position(replace(PLAIN, position=position)) is None
    rotary = EncoderLayer(replace(PLAIN, position="rotary:base=500")).self.position
    assert (type(rotary), rotary.dim, rotary.base) == (Rotary, WIDTH // HEADS, 500)
    assert not EncoderLayer(replace(PLAIN, position="sinusoidal")).self.position.acts


def test_a_neighborhood_may_be_given_as_a_value() -> None:
    config = BlockConfig(where=Causal() & Window(3))
    assert config.where == "Causal() & Window(left=3, right=0)"
    assert BlockConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert EncoderLayer(config).self.where == Causal() & Window(3)


def test_a_configuration_computes_nothing() -> None:
    state = torch.get_rng_state()
    BlockConfig(width=2**16, heads=4, hidden=2**17, position="learned", length=2**20)  # 100 GB, if they were built
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.zeros(1).device.type == "cpu"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 13}, r"width must be divisible by heads: got width=13, heads=3\. Change one, or give dim\."),
        ({"width": 9, "position": "rotary"}, "Rotary rotates pairs, so dim must be even: got dim=3"),
        ({"position": "relative:3", "score": "additive"}, "Relative and a score other than Dot cannot work together"),
        ({"position": "rotary", "score": "location"}, "Rotary and a score that reads no keys"),
        ({"position": "relative"}, "position 'relative' does not fit: relative takes clip, values"),
        ({"position": "sinusodial"}, r"unknown position .* Did you mean 'sinusoidal'\?"),
        ({"order": "between"}, r"unknown order 'between'; known: post, pre\."),
        ({"dropout": 1.0}, r"BlockConfig: dropout must lie in \[0, 1\): got 1\.0"),
        ({"dropout": -0.1}, r"BlockConfig: dropout must lie in \[0, 1\): got -0\.1"),
        ({"dropout": "0.1"}, "BlockConfig: dropout must be of type float: got '0.1'"),
        ({"width": 12.0}, "BlockConfig: width must be of type int: got 12.0"),
        ({"heads": True}, "BlockConfig: heads must be of type int: got True"),
        ({"where": 3}, "BlockConfig: where must be of type str: got 3"),
        ({"where": None}, "BlockConfig: where must be of type str: got None"),
        ({"position": None}, "BlockConfig: position must be of type str: got None"),
        ({"width": 0}, "BlockConfig: width must be at least 1: got 0"),
        ({"heads": 0}, "BlockConfig: heads must be at least 1: got 0"),
        ({"hidden": 0}, "BlockConfig: hidden must be at least 1: got 0"),
        ({"length": 0}, "BlockConfig: length must be at least 1: got 0"),
        ({"activation": "rleu"}, r"unknown activation 'rleu'; known: .* Did you mean 'relu'\?"),
        ({"norm": "lyer"}, r"unknown norm 'lyer'; known: batch, layer, rms\. Did you mean 'layer'\?"),
        ({"projection": "grouped:2"}, "heads must be divisible by kv_heads: got heads=3, kv_heads=2"),
        ({"projection": "multihead:5", "position": "rotary"}, "Rotary rotates pairs, so dim must be even: got dim=5"),
        ({"where": "causal &"}, "where cannot be read: got 'causal &'"),
        ({"where": "Padding([3])"}, "unknown where 'Padding'"),
        ({"normalizer": "softmax:1"}, r"dropout must lie in \[0, 1\): got 1"),
        ({"score": "dto"}, r"unknown score 'dto'; known: .* Did you mean 'dot'\?"),
    ],
    ids=str,
)
def test_what_cannot_be_built_is_refused_at_once(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **fields)


def test_the_width_of_a_call_is_checked() -> None:
    with pytest.raises(ValueError, match="MultiHead needs x of width=12"):
        EncoderLayer(replace(PLAIN, order="post"))(torch.zeros(BATCH, LENGTH, 11))
    with pytest.raises(ValueError, match="MultiHead needs memory of width=12"):
        DecoderLayer(PLAIN)(torch.zeros(BATCH, LENGTH, WIDTH), torch.zeros(BATCH, KEYS, 11))


# Words of their own for every layer


def test_layers_take_turns_with_the_words_of_a_list() -> None:
    listed = replace(PLAIN, where="complete / window:2,2 / window:1,1", position="rotary:base=100 / none", heads=2)
    assert listed.turn == 6
    assert [listed.of_layer(n).where for n in (0, 1, 5)] == ["complete", "window:2,2", "window:1,1"]
    assert [listed.of_layer(n).position for n in (0, 1, 5)] == ["rotary:base=100", "none", "none"]
    stack = seeded(Encoder(listed, depth=4))
    x = numbers(BATCH, LENGTH, WIDTH)
    one_by_one = x
    for number, theirs in enumerate(stack.layers):
        alone = EncoderLayer(listed.of_layer(number)).double()
        alone.load_state_dict(theirs.state_dict())
        one_by_one = alone(one_by_one)
    assert_close(stack(x), stack.norm(one_by_one))
    assert BlockConfig.from_dict(json.loads(json.dumps(listed.to_dict()))) == listed


def test_a_list_is_as_good_as_each_of_its_words() -> None:
    with pytest.raises(ValueError, match="Did you mean 'window'"):
        replace(PLAIN, where="complete / windwo:2")
    with pytest.raises(ValueError, match="is that of all layers: got 'none / learned'"):
        replace(PLAIN, position="none / learned")
    with pytest.raises(ValueError, match="up to 1000 words: got 1001"):
        replace(PLAIN, where=" / ".join(["complete"] * 1001))

"""Stacks: layer by layer, step by step, and in the order of a beam search."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Causal, Padding, Window
from mirada.layers import stack
from mirada.layers.block import BlockConfig
from mirada.layers.stack import Decoder, DecoderState, Encoder, Stack, caches

BATCH, LENGTH, KEYS, WIDTH, HEADS, DEPTH = 4, 11, 7, 12, 3, 2
PLAIN = BlockConfig(width=WIDTH, heads=HEADS, hidden=5, dropout=0.0, position="none", length=23)
KINDS = [
    {"position": "none"},
    {"position": "rotary", "norm": "rms", "activation": "gated"},
    {"position": "relative:2", "order": "post"},
    {"position": "alibi", "projection": "grouped:1", "where": "window:3"},
    {"position": "t5:8,9", "norm": "rms"},
]
LENGTHS = torch.tensor([7, 2, 5, 3])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(module: nn.Module) -> nn.Module:
    module = module.double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * parameter.shape[-1] ** -0.5)
    return module


def causal_stack(**fields: str) -> Stack:
    return seeded(Stack(replace(PLAIN, **fields), DEPTH))


def decoder(**fields: str) -> Decoder:
    return seeded(Decoder(replace(PLAIN, **fields), DEPTH))


@pytest.fixture
def x() -> Tensor:
    return numbers(BATCH, LENGTH, WIDTH)


@pytest.fixture
def memory() -> Tensor:
    return numbers(BATCH, KEYS, WIDTH, seed=1)


@pytest.fixture(autouse=True)
def _small_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "ROOM", 2)


def walk(model: Stack | Decoder, x: Tensor, state: DecoderState, sizes: list[int]) -> tuple[Tensor, DecoderState]:
    """The outputs of steps of those sizes, side by side, and the state after them."""
    outputs = []
    for part in x.split(sizes, dim=1):
        y, state = model.step(part, state)
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


# All at once


@pytest.mark.parametrize("order", ["pre", "post"])
def test_layers_come_one_after_the_other_and_a_last_norm_where_theirs_is_in_front(
    order: str, x: Tensor, memory: Tensor
) -> None:
    model = seeded(Encoder(replace(PLAIN, order=order), DEPTH))
    y = model.layers[1](model.layers[0](x))
    assert_close(model(x), model.norm(y) if order == "pre" else y)
    assert (model.norm is None) == (order == "post")
    model = decoder(order=order)
    y = model.layers[1](model.layers[0](x, memory), memory)
    assert_close(model(x, memory), model.norm(y) if order == "pre" else y)
    assert (model.norm is None) == (order == "post")


def test_a_padded_batch_is_each_sample_alone(x: Tensor) -> None:
    model, lengths = seeded(Encoder(replace(PLAIN, position="rotary"), DEPTH)), [11, 2, 5, 3]
    real = torch.arange(LENGTH) < torch.tensor(lengths).unsqueeze(1)
    y = model(x.masked_fill(~real.unsqueeze(-1), 1e3), Padding(lengths), real)
    for sample, length in enumerate(lengths):
        assert_close(y[sample, :length], model(x[sample : sample + 1, :length])[0])


def test_a_padded_memory_is_each_memory_alone(x: Tensor, memory: Tensor) -> None:
    model = decoder(position="rotary")
    y = model(x, memory, Padding(LENGTHS))
    for sample, length in enumerate(LENGTHS.tolist()):
        here = slice(sample, sample + 1)
        assert_close(y[here], model(x[here], memory[here, :length]))


def test_what_is_real_reaches_every_batch_norm(x: Tensor, memory: Tensor) -> None:
    real = torch.arange(LENGTH) < torch.tensor([[11], [2], [5], [3]])
    outputs = []
    for garbage in (0.0, 1e3):
        filled = x.masked_fill(~real.unsqueeze(-1), garbage)
        encoded = seeded(Encoder(replace(PLAIN, norm="batch"), DEPTH))(filled, Padding([11, 2, 5, 3]), real)
        decoded = decoder(norm="batch")(filled, memory, Padding(LENGTHS), real)
        outputs.append((encoded[real], decoded[real]))
    assert_close(*outputs)


def test_positions_reach_every_layer(x: Tensor) -> None:
    model = seeded(Encoder(replace(PLAIN, position="relative:5"), DEPTH))
    order = torch.randperm(LENGTH)
    assert_close(model(x[:, order], positions=order), model(x)[:, order])


# Step by step

SIZES = {"one": [1] * 11, "three": [3, 3, 3, 2], "a prompt first": [5, 1, 1, 1, 3], "at once": [11]}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("fields", KINDS, ids=lambda fields: fields["position"])
def test_an_encoder_step_by_step_is_its_full_pass(fields: dict[str, str], sizes: list[int], x: Tensor) -> None:
    model = causal_stack(**fields)
    y, state = walk(model, x, model.start(BATCH), sizes)
    assert_close(y, model(x))
    assert state.filled == LENGTH
    with torch.no_grad():  # here the caches are written in place
        assert_close(walk(model, x, model.start(BATCH), sizes)[0], model(x))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("fields", KINDS, ids=lambda fields: fields["position"])
def test_a_decoder_step_by_step_is_its_full_pass(
    fields: dict[str, str], sizes: list[int], x: Tensor, memory: Tensor
) -> None:
    model, padding = decoder(**fields), Padding(LENGTHS)
    y, state = walk(model, x, model.start(memory, padding), sizes)
    assert_close(y, model(x, memory, padding))
    assert state.filled == LENGTH
    with torch.no_grad():
        assert_close(walk(model, x, model.start(memory, padding), sizes)[0], model(x, memory, padding))
    with torch.inference_mode():
        assert_close(walk(model, x, model.start(memory), sizes)[0], model(x, memory))


def test_the_gradient_of_all_steps_is_that_of_the_full_pass(x: Tensor, memory: Tensor) -> None:
    model, padding, slope = decoder(position="rotary"), Padding(LENGTHS), numbers(BATCH, LENGTH, WIDTH, seed=2)
    gradients = []
    for stepped in (False, True):
        inputs = [x.clone().requires_grad_(), memory.clone().requires_grad_(), *model.parameters()]
        if stepped:
            y, _ = walk(model, inputs[0], model.start(inputs[1], padding), [3, 1, 1, 6])
        else:
            y = model(*inputs[:2], padding)
        gradients.append(torch.autograd.grad((y * slope).sum(), inputs))
    assert_close(*gradients)


def test_the_room_grows_with_the_steps(x: Tensor) -> None:
    model = causal_stack()
    state = model.start(BATCH)
    assert [cache.length for cache in state.caches] == [2] * DEPTH
    assert state.filled == 0
    _, state = walk(model, x, state, [1] * 11)
    assert {cache.length for cache in state.caches} == {16}  # doubled, and doubled again
    state.reserve(100)
    assert min(cache.length for cache in state.caches) >= 111
    assert state.filled == 11


def test_a_state_of_the_layers_own_dtype(x: Tensor) -> None:
    model = causal_stack().bfloat16()
    y, state = model.step(x[:, :3].bfloat16(), model.start(BATCH))
    assert y.dtype == state.caches[0].keys.dtype == torch.bfloat16


def test_steps_need_a_neighborhood_that_sees_no_later_place(x: Tensor) -> None:
    model = seeded(Encoder(PLAIN, DEPTH))
    with pytest.raises(ValueError, match=r"AND the neighborhood with Causal\(\)"):
        model.layers[0].step(x[:, :1], caches(model.layers, BATCH)[0])


def test_an_empty_state_has_nothing_in_it() -> None:
    assert DecoderState(nn.Identity(), []).filled == 0


# The order of a beam search

ACROSS = torch.tensor([2, 2, 0, 3])
INSIDE = torch.tensor([1, 1, 3, 2])  # beams 0 and 1 are of one sentence, 2 and 3 of another


@pytest.mark.parametrize("index", [ACROSS, INSIDE, torch.arange(BATCH)], ids=["across", "inside", "stay"])
@pytest.mark.parametrize("fields", KINDS, ids=lambda fields: fields["position"])
def test_an_encoder_goes_on_from_reordered_entries(fields: dict[str, str], index: Tensor, x: Tensor) -> None:
    model = causal_stack(**fields)
    with torch.no_grad():
        _, state = walk(model, x[:, :5], model.start(BATCH), [3, 1, 1])
        y, _ = walk(model, x[:, 5:], state.reorder(index), [1, 2, 3])
        assert_close(y, model(torch.cat([x[index, :5], x[:, 5:]], dim=1))[:, 5:])


@pytest.mark.parametrize("index", [ACROSS, INSIDE, torch.arange(BATCH)], ids=["across", "inside", "stay"])
@pytest.mark.parametrize("padding", [None, Padding(LENGTHS)], ids=["full", "padded"])
def test_a_decoder_goes_on_from_reordered_entries(
    index: Tensor, padding: Padding | None, x: Tensor, memory: Tensor
) -> None:
    model = decoder(position="rotary")
    with torch.no_grad():
        _, state = walk(model, x[:, :5], model.start(memory, padding), [3, 1, 1])
        y, _ = walk(model, x[:, 5:], state.reorder(index), [1, 2, 3])
        whole = torch.cat([x[index, :5], x[:, 5:]], dim=1)
        their_padding = padding and Padding(LENGTHS[index])
        assert_close(y, model(whole, memory[index], their_padding)[:, 5:])


def test_beams_of_one_sentence_leave_its_memory_where_it_is(x: Tensor, memory: Tensor) -> None:
    model, sentence = decoder(), torch.tensor([0, 0, 1, 1])
    shared, padding = memory[sentence], Padding(LENGTHS[sentence])
    with torch.no_grad():
        state = model.start(memory[:2], Padding(LENGTHS[:2])).reorder(sentence)
        _, state = walk(model, x[:, :5], state, [2, 3])
        inside = state.reorder(INSIDE)
        assert all(a is b for a, b in zip(inside.memories, state.memories, strict=True))
        assert inside.entry.tolist() == [0, 0, 1, 1]
        y, inside = walk(model, x[:, 5:8], inside, [1, 2])
        whole = torch.cat([x[INSIDE, :5], x[:, 5:8]], dim=1)
        assert_close(y, model(whole, shared, padding)[:, 5:])
        across = inside.reorder(ACROSS)
        assert across.entry.tolist() == [1, 1, 0, 1]
        y, across = walk(model, x[:, 8:], across, [1, 2])
        whole = torch.cat([whole[ACROSS], x[:, 8:]], dim=1)
        assert_close(y, model(whole, shared[ACROSS], Padding(padding.lengths[ACROSS]))[:, 8:])


@pytest.mark.parametrize("index", [[0, 0, 1, 2, 3, 3], [3, 1], [2]], ids=["more", "fewer", "one"])
@pytest.mark.parametrize("tracked", [True, False])
def test_there_may_be_more_entries_than_before_or_fewer(
    index: list[int], tracked: bool, x: Tensor, memory: Tensor
) -> None:
    model, chosen, other = decoder(position="rotary"), torch.tensor(index), numbers(len(index), 6, WIDTH, seed=5)
    with torch.set_grad_enabled(tracked):
        _, state = walk(model, x[:, :5], model.start(memory, Padding(LENGTHS)), [3, 1, 1])
        state = state.reorder(chosen)
        assert state.batch == len(index)
        y, state = walk(model, other, state, [1, 2, 3])
        whole = torch.cat([x[chosen, :5], other], dim=1)
        assert_close(y, model(whole, memory[chosen], Padding(LENGTHS[chosen]))[:, 5:])
        assert model.alignment(state).shape == (len(index), KEYS)


def test_reorderings_add_up(x: Tensor, memory: Tensor) -> None:
    model = decoder()
    with torch.no_grad():
        states = []
        for indices in ([ACROSS, INSIDE], [ACROSS[INSIDE]]):
            _, state = walk(model, x[:, :3], model.start(memory, Padding(LENGTHS)), [3])
            for index in indices:
                state = state.reorder(index)
            states.append(state)
        one, other = (model.step(x[:, 3:4], state)[0] for state in states)
    assert_close(one, other)


def test_what_is_no_index_is_refused(memory: Tensor) -> None:
    with pytest.raises(ValueError, match=r"the index of reorder must have the axes \(entries\): got shape \(1, 2\)"):
        decoder().start(memory).reorder(torch.tensor([[0, 1]]))


@pytest.mark.parametrize("index", [[0, 4], [-1, 0, 1, 2]], ids=str)
@torch.no_grad()
def test_a_reorder_that_fails_leaves_the_state_as_it_was(index: list[int], x: Tensor, memory: Tensor) -> None:
    one, other = causal_stack(), decoder()
    for model, start in ((one, lambda: one.start(BATCH)), (other, lambda: other.start(memory, Padding(LENGTHS)))):
        _, state = walk(model, x[:, :4], start(), [2, 2])
        with pytest.raises(ValueError, match=r"the index of reorder must name entries in 0\.\.3"):
            state.reorder(torch.tensor(index))
        y, _ = walk(model, x[:, 4:], state, [3, 4])
        assert_close(y, walk(model, x, start(), [2, 2, 3, 4])[0][:, 4:], rtol=0, atol=0)


# Who made a state


def test_a_state_is_not_stepped_by_another_stack(x: Tensor, memory: Tensor) -> None:
    for model, other, start in (
        (causal_stack(), causal_stack(), lambda model: model.start(BATCH)),
        (decoder(), decoder(), lambda model: model.start(memory)),
    ):
        _, state = model.step(x[:, :1], start(model))
        for wrong in (lambda: other.step(x[:, 1:2], state), lambda: other.alignment(state)):  # noqa: B023
            with pytest.raises(ValueError, match="this state was made by another model: step it with the one whose"):
                wrong()
        y, _ = model.step(x[:, 1:2], state)  # nothing happened to it
        assert_close(y, walk(model, x[:, :2], start(model), [1, 1])[0][:, 1:])


def test_what_is_no_state_is_refused(x: Tensor) -> None:
    with pytest.raises(ValueError, match="step takes the DecoderState that start returned: got NoneType"):
        causal_stack().step(x[:, :1], None)


@pytest.mark.parametrize("width", [1, WIDTH - 1, WIDTH + 1, 400])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_an_input_of_another_width_is_refused(width: int, dtype: torch.dtype, memory: Tensor) -> None:
    for model in (causal_stack().to(dtype).eval(), decoder().to(dtype).eval()):
        state = model.start(BATCH) if isinstance(model, Stack) else model.start(memory.to(dtype))
        with pytest.raises(ValueError, match=f"x must have width={WIDTH}: got width={width}"):
            model.step(torch.zeros(BATCH, 1, width, dtype=dtype), state)
        y, _ = model.step(torch.zeros(BATCH, 1, WIDTH, dtype=dtype), state)
        assert y.shape == (BATCH, 1, WIDTH)


# Alignment


@pytest.mark.parametrize("last", [1, 3])
def test_the_alignment_of_an_encoder_is_what_look_shows(last: int, x: Tensor) -> None:
    model = causal_stack(position="rotary")
    with look(model) as seen, torch.no_grad():
        _, state = walk(model, x[:, : 5 + last], model.start(BATCH), [5, last])
    alignment = model.alignment(state)
    assert alignment.shape == (BATCH, 5 + last)
    assert_close(alignment, seen[f"layers.{DEPTH - 1}.self"].weights()[:, :, -1].mean(1))
    assert_close(alignment.sum(-1), torch.ones(BATCH, dtype=torch.float64))


@pytest.mark.parametrize("last", [1, 3])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_alignment_of_a_decoder_is_what_look_shows(order: str, last: int, x: Tensor, memory: Tensor) -> None:
    model = decoder(order=order)
    with look(model) as seen, torch.no_grad():
        _, state = walk(model, x[:, : 5 + last], model.start(memory, Padding(LENGTHS)), [5, last])
    alignment = model.alignment(state)
    assert alignment.shape == (BATCH, KEYS)
    assert_close(alignment, seen[f"layers.{DEPTH - 1}.cross"].weights()[:, :, -1].mean(1))
    hidden = torch.arange(KEYS) >= LENGTHS.unsqueeze(1)
    assert_close(alignment[hidden], torch.zeros_like(alignment[hidden]))


def test_the_alignment_of_the_full_pass(x: Tensor, memory: Tensor) -> None:
    model = decoder(position="rotary")
    _, state = walk(model, x, model.start(memory, Padding(LENGTHS)), [1] * LENGTH)
    with look(model) as seen:
        model(x, memory, Padding(LENGTHS))
    assert_close(model.alignment(state), seen["layers.1.cross"].weights()[:, :, -1].mean(1))


@pytest.mark.parametrize("tracked", [True, False])
def test_asking_for_the_alignment_changes_nothing(tracked: bool, x: Tensor) -> None:
    model = causal_stack(where="window:3")
    with torch.set_grad_enabled(tracked):
        state, outputs = model.start(BATCH), []
        for part in x.split(2, dim=1):
            y, state = model.step(part, state)
            assert_close(model.alignment(state), model.alignment(state), rtol=0, atol=0)
            outputs.append(y)
        y = torch.cat(outputs, dim=1)
        assert_close(y, model(x))
        assert y.requires_grad == tracked
    if tracked:
        y.sum().backward()
        assert model.layers[0].feed.widen.weight.grad.isfinite().all()
    assert model.layers[0].self_attention.where == Window(3) & Causal()


def test_the_alignment_is_reordered_too(x: Tensor, memory: Tensor) -> None:
    with torch.no_grad():
        one, other = causal_stack(), decoder()
        for model, state in ((one, one.start(BATCH)), (other, other.start(memory, Padding(LENGTHS)))):
            _, state = walk(model, x[:, :5], state, [3, 2])
            before = model.alignment(state)
            assert_close(model.alignment(state.reorder(ACROSS)), before[ACROSS])


def test_there_is_no_alignment_before_the_first_step(memory: Tensor) -> None:
    one, other = causal_stack(), decoder()
    for model, state in ((one, one.start(BATCH)), (other, other.start(memory))):
        with pytest.raises(ValueError, match="there is no alignment before the first step"):
            model.alignment(state)
        with pytest.raises(ValueError, match="there is no alignment before the first step"):
            model.alignment(state.reorder(ACROSS))


@pytest.mark.parametrize("make", [Encoder, Stack, Decoder])
def test_a_t5_bias_is_one_table_of_the_whole_stack(make):
    stack = make(replace(PLAIN, position="t5:8,9"), depth=3)
    positions = [layer.self_attention.position for layer in stack.layers]
    assert all(position is positions[0] for position in positions)
    assert positions[0].bidirectional == (make is Encoder)
    assert [name for name, _ in stack.named_parameters() if "position" in name] == ["layers.0.self.position.table"]

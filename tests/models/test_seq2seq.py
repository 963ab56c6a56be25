"""The recurrent encoder-decoder against loops written out, against numbers worked out by hand, and its laws."""

import math
from dataclasses import replace
from itertools import cycle, product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Padding
from mirada.layers.recurrent import Carried
from mirada.models.seq2seq import RecurrentMemory, Seq2Seq, Seq2SeqConfig
from tests.models.recurrent_by_hand import by_hand

BATCH, SOURCE, TARGET = 3, 5, 7
LENGTHS = torch.tensor([5, 2, 4])
CONFIG = Seq2SeqConfig(
    vocab=13, source_vocab=11, width=3, hidden=6, dropout=0.0, half=1, length=SOURCE + 3, cell="gru", directions=2
)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tokens(*shape: int, below: int, seed: int = 0) -> Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def seeded(config: Seq2SeqConfig, dtype: torch.dtype = torch.float64) -> Seq2Seq:
    """The model in evaluation mode, with random numbers in every parameter, the biases too."""
    model = Seq2Seq(config).to(dtype).eval()
    for place, parameter in enumerate(model.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * parameter.shape[-1] ** -0.5)
    return model


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    """A source, with arbitrary tokens in its padding, and a target that is longer than it."""
    return (
        tokens(BATCH, SOURCE, below=CONFIG.source_vocab, seed=seed),
        tokens(BATCH, TARGET, below=CONFIG.vocab, seed=1 + seed),
    )


def named(config: Seq2SeqConfig) -> str:
    parts = [config.attention]
    if config.attention != "no":
        parts.append(config.score)
    if config.attention == "luong":
        parts += [config.reach, "fed" if config.feeding else "unfed"]
    return "-".join([*parts, config.cell, f"{config.directions}way", f"{config.depth}deep"])


# The direct loop

SCORES = ["dot:1.0", "dot", "general", "general:scale=None", "concat", "concat:None", "additive", "location"]
NO = [{"attention": "no"}]
BAHDANAU = [{"attention": "bahdanau", "score": score} for score in SCORES]
LUONG = [
    {"attention": "luong", "score": score, "reach": reach, "feeding": feeding}
    for reach, feeding, score in product(["global", "local-m", "local-p"], [False, True], SCORES)
]


def shaped(mechanisms: list[dict]) -> list[Seq2SeqConfig]:
    """Every mechanism with two shapes in turn: seven scores make each score and each reach meet all twelve shapes."""
    shapes = cycle(product([1, 2], [2, 1], ["rnn", "gru", "lstm"]))
    configs = []
    for mechanism in mechanisms:
        for _ in range(2):
            depth, directions, cell = next(shapes)
            hidden = {1: 7, 2: 6}[directions]
            configs.append(replace(CONFIG, **mechanism, cell=cell, depth=depth, directions=directions, hidden=hidden))
    return configs


ALL_SHAPES = [
    replace(CONFIG, **mechanism, cell=cell, depth=depth, directions=directions, hidden={1: 7, 2: 6}[directions])
    for mechanism in ({"attention": "no"}, {"attention": "bahdanau", "score": "additive"}, {"feeding": True})
    for cell, depth, directions in product(["rnn", "gru", "lstm"], [1, 2], [1, 2])
]


def check_against_the_loop(config: Seq2SeqConfig, dtype: torch.dtype = torch.float64, **tolerance: float) -> None:
    model, (source, target) = seeded(config, dtype), batch()
    parameters = dict(model.named_parameters())
    expected, alignments = by_hand(parameters, config, source, LENGTHS, target)
    logits = model(source, LENGTHS, target)
    assert_close(logits, expected, **tolerance)
    probe = numbers(*logits.shape, seed=3).to(dtype)
    ours, theirs = (
        torch.autograd.grad((x * probe).sum(), list(parameters.values()), allow_unused=True) for x in (logits, expected)
    )
    for name, mine, other in zip(parameters, ours, theirs, strict=True):
        assert other is not None or mine is None or not mine.any(), f"{name} should have no gradient"
        if other is not None:
            assert mine is not None, f"{name} should have a gradient"
            assert_close(mine, other, msg=lambda text, name=name: f"gradient of {name}: {text}", **tolerance)
    if config.attention == "no":
        return
    state = model.start(model.encode(source, LENGTHS))
    for time, column in enumerate(target.unbind(1)):
        _, state = model.step(column, state)
        assert_close(model.alignment(state), alignments[:, time].detach(), **tolerance)


@pytest.mark.parametrize("config", shaped(NO + BAHDANAU + LUONG), ids=named)
def test_logits_gradients_and_alignments_are_those_of_the_direct_loop(config):
    check_against_the_loop(config)


@pytest.mark.parametrize("config", ALL_SHAPES, ids=named)
def test_every_cell_depth_and_direction_is_that_of_the_direct_loop(config):
    check_against_the_loop(config)


@pytest.mark.parametrize("mechanism", [*NO, BAHDANAU[5], LUONG[2], LUONG[-2]], ids=["no", "bahdanau", "luong", "fed"])
def test_single_precision_is_close_to_the_direct_loop(mechanism):
    check_against_the_loop(replace(CONFIG, **mechanism, cell="lstm", depth=2), torch.float32, rtol=1e-4, atol=1e-4)


# Numbers by hand, from tanh(ln(3) / 2) = 1/2, tanh(ln 2) = 3/5, tanh(ln 3) = 4/5

LN2, LN3 = math.log(2), math.log(3)
SMALL = Seq2SeqConfig(
    vocab=3, source_vocab=2, width=1, hidden=2, depth=1, cell="rnn", directions=1, dropout=0.0, half=1, length=5
)


def with_numbers(config: Seq2SeqConfig, **given: list) -> Seq2Seq:
    """A model that is zero everywhere but in the given parameters."""
    model = Seq2Seq(config).double().eval()
    parameters = dict(model.named_parameters())
    for parameter in parameters.values():
        parameter.data.zero_()
    for name, values in given.items():
        parameter = parameters[name.replace("__", ".")]
        parameter.data.copy_(torch.tensor(values, dtype=torch.float64).reshape(parameter.shape))
    return model


def two_states_and_padding() -> RecurrentMemory:
    """h_1 = (1, 0), h_2 = (0, 1), and one place of padding. The encoder ended at 0."""
    states = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, -9.0]]], dtype=torch.float64)
    last = torch.zeros(1, 1, 2, dtype=torch.float64)
    return RecurrentMemory(states, Padding([2]), Carried(last, last))


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_one_step_of_bahdanau_by_hand():
    model = with_numbers(
        replace(SMALL, attention="bahdanau", score="additive"),
        # s_0 = tanh(0 + (ln(3) / 2, 0)) = (1/2, 0)
        bridge_h__bias=[LN3 / 2, 0],
        # W_q s_0 = (ln(3) / 2, 0);  W_k h_1 = (ln(3) / 2, 0);  W_k h_2 = 0
        # e_1 = v . tanh((ln 3, 0))     = 10 ln 2 * 4/5 = 8 ln 2
        # e_2 = v . tanh((ln(3) / 2, 0)) = 10 ln 2 * 1/2 = 5 ln 2
        # alpha = (2^8, 2^5) / (2^8 + 2^5) = (8/9, 1/9), and 0 for the padding
        # c_1 = 8/9 h_1 + 1/9 h_2 = (8/9, 1/9)
        decoder__attention__score__query=[[LN3, 0], [0, 0]],
        decoder__attention__score__key=[[LN3 / 2, 0], [0, 0]],
        decoder__attention__score__v=[10 * LN2, 0],
        # y_0 = sqrt(1) * 2
        target_words__weight=[[0], [2], [0]],
        # s_1 = tanh(U [y; c] + W s_0 + b)
        #     = tanh(9/8 ln 2 * 8/9 + 2 (ln 3 - ln 2) * 1/2,  ln(3) / 2 * 2 + (ln 2 - ln 3))
        #     = tanh(ln 3, ln 2) = (4/5, 3/5)
        decoder__cell__read__0=[[0, 9 / 8 * LN2, 0], [LN3 / 2, 0, 0]],
        decoder__cell__carry__0=[[2 * (LN3 - LN2), 0], [0, 0]],
        decoder__cell__bias__0=[0, LN2 - LN3],
        # readout = tanh(W [s; y; c] + b) = tanh(5/4 ln 2 * 4/5,  ln(3) / 2 * 2 - 9/2 ln 3 * 1/9)
        #         = tanh(ln 2, ln(3) / 2) = (3/5, 1/2)
        decoder__readout__weight=[[5 / 4 * LN2, 0, 0, 0, 0], [0, 0, LN3 / 2, 0, -9 / 2 * LN3]],
        # logits = (3/5, 1/2, 3/5 + 1/2 + 1)
        output__weight=[[1, 0], [0, 1], [1, 1]],
        output__bias=[0, 0, 1],
    )
    state = model.start(two_states_and_padding())
    assert_close(state.carried.h[0], rows([1 / 2, 0]))
    with look(model) as seen:
        logits, state = model.step(torch.tensor([1]), state)
    assert_close(seen["decoder.attention"].weights(head=0)[:, 0], rows([8 / 9, 1 / 9, 0]))
    assert_close(seen["decoder.attention"].output()[:, 0, 0], rows([8 / 9, 1 / 9]))
    assert_close(model.alignment(state), rows([8 / 9, 1 / 9, 0]))
    assert_close(state.carried.h[0], rows([4 / 5, 3 / 5]))
    assert_close(logits, rows([3 / 5, 1 / 2, 21 / 10]))


def test_one_step_of_luong_by_hand_and_what_it_feeds_into_the_next():
    model = with_numbers(
        replace(SMALL, attention="luong", score="general", feeding=True),
        # s_0 = tanh((ln(3) / 2, 0)) = (1/2, 0), and h~_0 = (0, 0)
        bridge_h__bias=[LN3 / 2, 0],
        target_words__weight=[[0], [2], [0]],
        # s_1 = tanh(U [y; h~_0] + W s_0) = tanh(ln(3) / 2 * 2,  2 ln 2 * 1/2) = (4/5, 3/5)
        decoder__cell__read__0=[[LN3 / 2, 5 / 3 * LN2, 0], [0, 0, -6 / 5 * LN2]],
        decoder__cell__carry__0=[[0, 0], [2 * LN2, 0]],
        # s_1^T W = (5/4 ln 3 * 4/5, 5/3 ln 2 * 3/5) = (ln 3, ln 2)
        # e_1 = ln 3, e_2 = ln 2:  alpha = (3/5, 2/5), and 0 for the padding;  c_1 = (3/5, 2/5)
        decoder__attention__score__weight=[[5 / 4 * LN3, 0], [0, 5 / 3 * LN2]],
        # h~_1 = tanh(W_c [c; s]) = tanh(5/3 ln 2 * 3/5,  5/2 ln 3 * 2/5 - 5/6 ln 3 * 3/5)
        #      = tanh(ln 2, ln(3) / 2) = (3/5, 1/2)
        decoder__combine__weight=[[5 / 3 * LN2, 0, 0, 0], [0, 5 / 2 * LN3, 0, -5 / 6 * LN3]],
        output__weight=[[1, 0], [0, 1], [1, 1]],
        output__bias=[0, 0, 1],
    )
    state = model.start(two_states_and_padding())
    assert_close(state.fed, rows([0, 0]))
    with look(model) as seen:
        logits, state = model.step(torch.tensor([1]), state)
    assert_close(state.carried.h[0], rows([4 / 5, 3 / 5]))
    assert_close(seen["decoder.attention"].weights(head=0)[:, 0], rows([3 / 5, 2 / 5, 0]))
    assert_close(seen["decoder.attention"].output()[:, 0, 0], rows([3 / 5, 2 / 5]))
    assert_close(model.alignment(state), rows([3 / 5, 2 / 5, 0]))
    assert_close(state.fed, rows([3 / 5, 1 / 2]))
    assert_close(logits, rows([3 / 5, 1 / 2, 21 / 10]))
    # the next step, with y = 0: s_2 = tanh(U [0; h~_1] + W s_1)
    #   = tanh(5/3 ln 2 * 3/5,  -6/5 ln 2 * 1/2 + 2 ln 2 * 4/5) = tanh(ln 2, ln 2) = (3/5, 3/5)
    _, state = model.step(torch.tensor([0]), state)
    assert_close(state.carried.h[0], rows([3 / 5, 3 / 5]))


def equal_scores(config: Seq2SeqConfig, length: int, keys: int) -> tuple[Seq2Seq, RecurrentMemory]:
    """A model of zeros, for which all scores are equal, and a memory of `length` places and padding."""
    last = torch.zeros(1, 1, 2, dtype=torch.float64)
    return with_numbers(config), RecurrentMemory(numbers(1, keys, 2), Padding([length]), Carried(last, last))


def test_local_p_by_hand_is_not_normalized_again():
    model, memory = equal_scores(replace(SMALL, reach="local-p"), length=4, keys=5)
    _, state = model.step(torch.tensor([0]), model.start(memory))
    # p = 4 sigmoid(0) = 2, so the window is 1..3; inside it alpha = 1/3 exp(-(s - 2)^2 / (2 (1/2)^2)) = 1/3 exp(-2 (s - 2)^2)
    side = math.exp(-2) / 3
    assert_close(model.alignment(state), rows([0, side, 1 / 3, side, 0]))
    # with half = 2 the window is 0..4, of which 4 are real, and alpha = 1/4 exp(-(s - 2)^2 / 2)
    model, memory = equal_scores(replace(SMALL, reach="local-p", half=2), length=4, keys=5)
    _, state = model.step(torch.tensor([0]), model.start(memory))
    assert_close(model.alignment(state), rows([math.exp(-2) / 4, math.exp(-1 / 2) / 4, 1 / 4, math.exp(-1 / 2) / 4, 0]))


def test_local_m_by_hand_stops_at_the_end_of_the_true_source():
    model, memory = equal_scores(replace(SMALL, reach="local-m"), length=3, keys=4)
    state, alignments = model.start(memory), []
    for _ in range(5):
        _, state = model.step(torch.tensor([0]), state)
        alignments.append(model.alignment(state)[0])
    start, middle, end = [1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 2, 1 / 2, 0]
    assert_close(torch.stack(alignments), rows(start, middle, end, end, end))


# Laws

VARIANTS = [
    replace(CONFIG, **mechanism)
    for mechanism in (
        {"attention": "no", "cell": "rnn"},
        {"attention": "no", "cell": "lstm", "depth": 2, "directions": 1},
        {"attention": "bahdanau", "score": "additive"},
        {"attention": "bahdanau", "score": "dot:1.0", "cell": "lstm", "depth": 2},
        {"attention": "bahdanau", "score": "location", "cell": "rnn"},
        {"score": "general"},
        {"score": "location", "cell": "lstm"},
        {"score": "concat", "feeding": True, "cell": "lstm", "depth": 2},
        {"score": "additive", "reach": "local-m", "cell": "rnn"},
        {"score": "dot:1.0", "reach": "local-m", "feeding": True},
        {"score": "general", "reach": "local-p", "depth": 2, "directions": 1},
        {"score": "dot:1.0", "reach": "local-p", "feeding": True, "cell": "lstm"},
    )
]
LOOKING = [config for config in VARIANTS if config.attention != "no"]
every_variant = pytest.mark.parametrize("config", VARIANTS, ids=named)
every_look = pytest.mark.parametrize("config", LOOKING, ids=named)


@pytest.mark.parametrize("reach", ["global", "local-m", "local-p"])
@pytest.mark.parametrize("score", SCORES)
def test_luong_without_feeding_at_once_is_its_own_loop_with_the_same_gradients(score, reach):
    model, (source, target) = seeded(replace(CONFIG, score=score, reach=reach)), batch()
    memory, x = model.encode(source, LENGTHS), model.target_words(target)
    first = model.bridge(memory.last)
    with look(model) as seen:
        at_once = model.decoder.run(x, memory.states, memory.padding, first)
    assert len(seen["decoder.attention"].calls) == 1
    state, readouts = model.decoder.start(memory.states, memory.padding, first), []
    for inputs in x.unbind(1):
        readout, state = model.decoder.step(inputs, state)
        readouts.append(readout)
    one_by_one = torch.stack(readouts, dim=1)
    assert_close(at_once, one_by_one)
    probe, parameters = numbers(*at_once.shape, seed=5), [*model.decoder.parameters(), *model.encoder.parameters()]
    ours, theirs = (
        torch.autograd.grad((x * probe).sum(), parameters, retain_graph=True) for x in (at_once, one_by_one)
    )
    assert_close(ours, theirs)


def test_what_is_fed_back_is_reordered_too():
    model, (source, target) = seeded(replace(CONFIG, feeding=True)), batch()
    _, state = model.step(target[:, 0], model.start(model.encode(source, LENGTHS)))
    index = torch.tensor([1, 1, 0])
    reordered = model.reorder(state, index)
    assert_close(reordered.fed, state.fed[index])
    # it matters: the next step of a state that keeps the old readouts is another one
    right, _ = model.step(target[:, 1], reordered)
    wrong, _ = model.step(target[:, 1], replace(reordered, fed=state.fed))
    assert ((right - wrong).abs().amax(-1) > 1e-4).any()


def test_a_state_can_be_continued_twice():
    model, (source, target) = seeded(replace(CONFIG, feeding=True, reach="local-m")), batch()
    _, state = model.step(target[:, 0], model.start(model.encode(source, LENGTHS)))
    once, _ = model.step(target[:, 1], state)
    model.step(target[:, 2], state)
    again, _ = model.step(target[:, 1], state)
    assert_close(again, once, rtol=0, atol=0)


# Where it looks


@every_look
def test_the_alignment_is_what_look_recorded_of_that_step(config):
    model, (source, target) = seeded(config), batch()
    state, alignments = model.start(model.encode(source, LENGTHS)), []
    with look(model) as seen:
        for column in target.unbind(1):
            _, state = model.step(column, state)
            alignments.append(model.alignment(state))
    assert seen.names == ["decoder.attention"]
    calls = seen["decoder.attention"].calls
    assert len(calls) == TARGET  # asking for an alignment is not a look
    for alignment, call in zip(alignments, calls, strict=True):
        assert alignment.shape == (BATCH, SOURCE)
        assert_close(alignment, call.weights(head=0)[:, 0])
    with look(model) as seen:
        model(source, LENGTHS, target)
    at_once = torch.cat([call.weights(head=0) for call in seen["decoder.attention"].calls], dim=1)
    assert_close(torch.stack(alignments, dim=1), at_once)


@every_look
def test_alignments_are_weights_and_zero_in_the_padding(config):
    model, (source, target) = seeded(config), batch()
    state = model.start(model.encode(source, LENGTHS))
    for column in target.unbind(1):
        _, state = model.step(column, state)
        alignment = model.alignment(state)
        assert (alignment >= 0).all()
        for sample, length in enumerate(LENGTHS.tolist()):
            assert_close(alignment[sample, length:], torch.zeros(SOURCE - length, dtype=torch.float64))
        total = alignment.sum(1)
        if config.reach == "local-p":  # the Gaussian only takes away
            assert (total < 1 - 1e-6).all()
            assert (total > 0).all()
        else:
            assert_close(total, torch.ones(BATCH, dtype=torch.float64))


def test_without_attention_there_is_no_alignment():
    model, (source, target) = seeded(replace(CONFIG, attention="no")), batch()
    _, state = model.step(target[:, 0], model.start(model.encode(source, LENGTHS)))
    with pytest.raises(ValueError, match="a decoder without attention has no alignment"):
        model.alignment(state)


# Learning and keeping


@every_variant
def test_the_loss_is_the_mean_cross_entropy_of_the_tokens_that_count(config):
    model, (source, target) = seeded(config), batch()
    wanted = tokens(BATCH, TARGET, below=config.vocab, seed=7)
    wanted[0, 4:], wanted[2, 1] = -100, -100
    log_p = model(source, LENGTHS, target).log_softmax(-1)
    counted = [(b, t) for b, t in product(range(BATCH), range(TARGET)) if wanted[b, t] != -100]
    expected = -sum(log_p[b, t, wanted[b, t]] for b, t in counted) / len(counted)
    assert_close(model.loss(source, LENGTHS, target, wanted), expected)
    smooth = -sum(0.9 * log_p[b, t, wanted[b, t]] + 0.1 * log_p[b, t].mean() for b, t in counted) / len(counted)
    assert_close(model.loss(source, LENGTHS, target, wanted, smoothing=0.1), smooth)


# Errors


def test_token_ids_must_lie_in_the_vocabulary():
    model, (source, target) = seeded(CONFIG), batch()
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.10: got 0 to 11\. Was the text read with"):
        model(torch.tensor([[0, 11]]), None, target[:1])
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.12: got -1 to 13"):
        model(source[:1], None, torch.tensor([[-1, 13]]))
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.12: got 13 to 13"):
        model.step(torch.tensor([13]), model.start(model.encode(source[:1])))
    with pytest.raises(ValueError, match=r"targets must lie in 0\.\.12 or be -100: got 13 to 13"):
        model.loss(source[:1], None, target[:1], torch.full((1, TARGET), 13))
    with pytest.raises(ValueError, match=r"tokens must hold integers: got torch\.float32"):
        model(torch.zeros(1, 2), None, target[:1])


@pytest.mark.parametrize("attention", ["bahdanau", "luong"])
def test_location_refuses_a_source_longer_than_its_table(attention):
    model = seeded(replace(CONFIG, attention=attention, score="location", length=SOURCE - 1))
    source, target = batch()
    with pytest.raises(ValueError, match=r"Location has rows for max_keys=4: got keys=5\. Build it larger or cut"):
        model(source, None, target)
    assert model(source[:, :4], None, target).shape == (BATCH, TARGET, 13)


ONE_OF_EACH = pytest.mark.parametrize(
    "config", [VARIANTS[0], VARIANTS[2], VARIANTS[5], VARIANTS[7]], ids=["no", "bahdanau", "luong", "fed"]
)


def test_a_source_without_a_place_is_refused_in_words():
    model, (source, target) = seeded(CONFIG), batch()
    with pytest.raises(ValueError, match="length=0"):
        model(source[:, :0], None, target)


@ONE_OF_EACH
def test_a_target_of_no_words_is_refused_in_words(config):
    model, (source, target) = seeded(config), batch()
    with pytest.raises(ValueError, match="length=0"):
        model(source, LENGTHS, target[:, :0])


@ONE_OF_EACH
def test_source_and_target_must_be_batches_of_one_size(config):
    model, (source, target) = seeded(config), batch()
    with pytest.raises(ValueError, match="batch"):
        model(source, None, target[:2])

"""The captioner against a loop written out, the price of uneven looks, the gate by hand, hard looks, and its laws."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import draws, look
from mirada.models.captioner import Captioner, CaptionerConfig, PictureCoordinatesEncoder, PictureMemory
from tests.models.recurrent_by_hand import cell, mix

BATCH, TARGET, VOCAB, CELLS = 3, 7, 13, 15
CONFIG = CaptionerConfig(
    vocab=VOCAB, channels=2, patch=4, depth=2, width=6, heads=2, hidden=10, dropout=0.0, length=17, decoder_depth=2
)
EYES, GAZES = ["convolution", "patches"], ["softmax", "hard:0.5"]
VARIANTS = [
    *(replace(CONFIG, encoder=eye, gaze=gaze) for eye, gaze in product(EYES, GAZES)),
    *(replace(CONFIG, encoder=eye, decoder="transformer") for eye in EYES),
    *(replace(CONFIG, encoder="coordinates", gaze=gaze) for gaze in GAZES),
    replace(CONFIG, encoder="coordinates", decoder="transformer"),
]
LSTMS = [config for config in VARIANTS if config.decoder == "lstm"]


def named(config: CaptionerConfig) -> str:
    return f"{config.encoder}-{config.decoder}-{config.gaze}"


every_variant = pytest.mark.parametrize("config", VARIANTS, ids=named)
every_lstm = pytest.mark.parametrize("config", LSTMS, ids=named)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def seeded(config: CaptionerConfig, dtype: torch.dtype = torch.float64) -> Captioner:
    """The model in evaluation mode, with random numbers in every parameter, the biases too."""
    model = Captioner(config).to(dtype).eval()
    for place, parameter in enumerate(model.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * (parameter[:1].numel() or 1) ** -0.5)
    return model


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures of 3 x 5 cells, the words so far, and the words to come, of which some do not count."""
    pictures, words, wanted = numbers(BATCH, 2, 12, 20, seed=seed), tokens(BATCH, TARGET), tokens(BATCH, TARGET, seed=1)
    wanted[0, 5:], wanted[2, 2:] = -100, -100
    return pictures, words, wanted


def steps(model: Captioner, pictures: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and alignments, word by word."""
    state, logits, alignments = model.start(model.encode(pictures)), [], []
    for column in words.unbind(1):
        said, state = model.step(column, state)
        logits.append(said)
        alignments.append(model.alignment(state))
    return torch.stack(logits, dim=1), torch.stack(alignments, dim=1)


# The direct loop


def tell(
    model: Captioner, cells: Tensor, words: list[int], choose: Callable[[int, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Logits and probabilities of one picture, word by word and cell by cell; `choose` makes weights of probabilities."""
    p, depth = dict(model.named_parameters()), model.config.decoder_depth
    score, name = "decoder.cell.attention.score.", "decoder.cell.cell"
    mean = sum(cells) / len(cells)
    h, c = (
        list(torch.tanh(p[f"decoder.{x}.weight"] @ mean + p[f"decoder.{x}.bias"]).split(model.config.width))
        for x in ("begin_h", "begin_c")
    )
    logits, looks = [], []
    for time, word in enumerate(words):
        y, previous, powers = math.sqrt(model.config.width) * p["words.weight"][word], h[-1], []
        for place in cells:
            inside = p[score + "query"][0] @ previous + p[score + "key"][0] @ place + p[score + "bias"][0, 0]
            powers.append(torch.exp(p[score + "v"][0] @ torch.tanh(inside)))
        probabilities = torch.stack([power / sum(powers) for power in powers])
        beta = torch.sigmoid(p["decoder.cell.gate.weight"][0] @ previous + p["decoder.cell.gate.bias"][0])
        context = beta * mix(choose(time, probabilities), list(cells))
        x = torch.cat([y, context])
        for layer in range(depth):
            x, c[layer] = cell(p, "lstm", name, layer, x, h[layer], c[layer])
            h[layer] = x
        joined = torch.cat([x, y, context])
        readout = torch.tanh(p["decoder.cell.readout.weight"] @ joined + p["decoder.cell.readout.bias"])
        logits.append(p["output.weight"] @ readout + p["output.bias"])
        looks.append(probabilities)
    return torch.stack(logits), torch.stack(looks)


def soft(time: int, probabilities: Tensor) -> Tensor:
    return probabilities


def likeliest(time: int, probabilities: Tensor) -> Tensor:
    best = max(range(len(probabilities)), key=lambda place: probabilities[place].item())
    return torch.eye(len(probabilities), dtype=probabilities.dtype)[best]


@every_lstm
@pytest.mark.parametrize("depth", [1, 2])
def test_logits_and_gradients_are_those_of_the_direct_loop(config, depth):
    model, (pictures, words, _) = seeded(replace(config, decoder_depth=depth)), batch()
    cells = model.encode(pictures).cells
    assert cells.shape == (BATCH, CELLS, 6)
    choose = soft if config.gaze == "softmax" else likeliest
    expected = torch.stack([tell(model, cells[b], words[b].tolist(), choose)[0] for b in range(BATCH)])
    logits, probe = model(pictures, words), numbers(BATCH, TARGET, VOCAB, seed=3)
    assert_close(logits, expected)
    parameters = dict(model.named_parameters())
    ours, theirs = (
        torch.autograd.grad((x * probe).sum(), list(parameters.values()), allow_unused=True) for x in (logits, expected)
    )
    for name, mine, other in zip(parameters, ours, theirs, strict=True):
        zero = torch.zeros_like(parameters[name])  # of a hard look: the score has no gradient
        mine, other = (zero if x is None else x for x in (mine, other))
        assert_close(mine, other, msg=lambda text, name=name: f"gradient of {name}: {text}")
        if config.gaze == "softmax":
            assert other.any(), name


# Laws


@every_variant
def test_the_picture_matters(config):
    model, (pictures, words, _) = seeded(config), batch()
    assert (model(pictures[:1], words[:1]) - model(pictures[1:2], words[:1])).abs().amax() > 1e-4


# Cells that know where they are


def eye(depth: int) -> PictureCoordinatesEncoder:
    return PictureCoordinatesEncoder(replace(CONFIG, encoder="coordinates", depth=depth, channels=2)).double()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_cell_stands_in_the_middle_of_what_it_sees(depth):
    """Of the pixels that reach a cell, the mean is the middle of the cell's own square, to half a pixel."""
    encoder, cell, sides = eye(depth), 2**depth, (4, 5)
    torch.nn.init.zeros_(encoder.around.weight)  # the last convolution looks as far to all sides
    torch.nn.init.zeros_(encoder.around.bias)
    pictures = numbers(1, 2, sides[0] * cell, sides[1] * cell).requires_grad_()
    cells = encoder(pictures)
    assert cells.shape == (1, 20, 6)
    row, column = 2, 3
    (gradient,) = torch.autograd.grad(cells[0, row * 5 + column].square().sum(), pictures)
    for axis, place in ((3, row), (2, column)):
        seen = gradient.abs().sum((0, 1, axis)).nonzero().flatten().double() + 0.5
        assert abs(seen.mean() - (place + 0.5) * cell) <= 0.5
        assert len(seen) == 2 ** (depth + 1) - 1


def test_the_same_thing_elsewhere_is_another_cell_only_where_coordinates_tell():
    pictures = torch.zeros(2, 2, 24, 40, dtype=torch.float64)
    pictures[0, :, 8:12, 8:12], pictures[1, :, 8:12, 24:28] = 1.0, 1.0
    plain, placed = (
        seeded(replace(CONFIG, encoder=name)).encode(pictures).cells for name in ("convolution", "coordinates")
    )
    first, second = (2 * 10 + column for column in (2, 6))  # cells of 4 x 4 pixels, ten in a row
    assert_close(plain[0, first], plain[1, second])
    assert (placed[0, first] - placed[1, second]).abs().amax() > 1e-3


@pytest.mark.parametrize("sides", [(12, 20), (11, 17), (9, 19), (1, 1)])
def test_cells_cover_pictures_of_any_size(sides):
    cells = eye(2)(numbers(1, 2, *sides))
    assert cells.shape == (1, math.ceil(sides[0] / 4) * math.ceil(sides[1] / 4), 6)
    assert cells.isfinite().all()


def test_how_often_a_cell_is_drawn_comes_near_its_probability():
    """The first look depends on nothing that was drawn before."""
    model, (pictures, words, _) = seeded(replace(CONFIG, gaze="hard")), batch()
    smooth = seeded(CONFIG)
    smooth.load_state_dict(model.state_dict())
    shares = model.drawn_shares(pictures, words, 4000)
    assert shares.shape == (BATCH, TARGET, CELLS)
    assert_close(shares.sum(-1), torch.ones(BATCH, TARGET))
    _, chances = steps(smooth, pictures, words[:, :1])
    assert_close(shares[:, 0].double(), chances[:, 0], rtol=0, atol=0.03)
    assert not any(layer.training for layer in model.modules())
    assert_close(model.drawn_shares(pictures, words, 10), model.drawn_shares(pictures, words, 10))
    with pytest.raises(ValueError, match="only hard looks are drawn: this captioner has gaze='softmax'"):
        smooth.drawn_shares(pictures, words, 1)


# Where it looks


@every_lstm
def test_the_alignment_of_an_lstm_is_what_look_recorded_of_that_step(config):
    model, (pictures, words, _) = seeded(config), batch()
    with look(model) as seen:
        _, alignments = steps(model, pictures, words)
    calls = seen["decoder.cell.attention"].calls
    assert len(calls) == TARGET
    assert_close(alignments, torch.stack([call.weights(head=0)[:, 0] for call in calls], dim=1))
    assert_close(alignments.sum(-1), torch.ones(BATCH, TARGET, dtype=torch.float64))
    with look(model) as seen:
        model(pictures, words)
    calls = seen["decoder.cell.attention"].calls
    assert_close(alignments, torch.stack([call.weights(head=0)[:, 0] for call in calls], dim=1))


@pytest.mark.parametrize("encoder", EYES)
def test_a_hard_look_is_at_the_likeliest_cell(encoder):
    sharp, smooth = (seeded(replace(CONFIG, encoder=encoder, gaze=gaze)) for gaze in ("hard:0.5", "softmax"))
    pictures, words, _ = batch()
    (_, hard), (_, gentle) = (steps(model, pictures, words[:, :1]) for model in (sharp, smooth))
    assert_close(hard, F.one_hot(gentle.argmax(-1), CELLS).double())


@pytest.mark.parametrize("encoder", EYES)
def test_the_alignment_of_a_transformer_is_the_mean_of_the_heads_of_its_top_layer(encoder):
    model = seeded(replace(CONFIG, encoder=encoder, decoder="transformer"))
    pictures, words, _ = batch()
    with look(model) as seen:
        _, alignments = steps(model, pictures, words)
    calls = seen["decoder.stack.layers.1.cross"].calls
    assert len(calls) == TARGET
    assert_close(alignments, torch.stack([call.weights()[:, :, 0].mean(1) for call in calls], dim=1))
    assert_close(alignments.sum(-1), torch.ones(BATCH, TARGET, dtype=torch.float64))


@pytest.mark.parametrize("config", [VARIANTS[0], VARIANTS[2], VARIANTS[4], VARIANTS[5]], ids=named)
def test_every_look_has_a_name(config):
    model, (pictures, words, _) = seeded(config), batch()
    with look(model) as seen:
        model(pictures, words)
    eye = [f"encoder.stack.layers.{layer}.self" for layer in (0, 1)] if config.encoder == "patches" else []
    looks = [f"decoder.stack.layers.{layer}.{kind}" for layer in (0, 1) for kind in ("self", "cross")]
    assert seen.names == eye + (["decoder.cell.attention"] if config.decoder == "lstm" else looks)


# The price of uneven looks


def price(model: Captioner, pictures: Tensor, words: Tensor, wanted: Tensor) -> Tensor:
    """sum over cells of (1 - sum over words of alpha)^2, for every picture, from what look saw."""
    with look(model) as seen:
        model(pictures, words)
    prices = []
    for b in range(BATCH):
        total = torch.zeros(CELLS, dtype=torch.float64)
        for time, call in enumerate(seen["decoder.cell.attention"].calls):
            if wanted[b, time] != -100:
                total += call.weights(head=0)[b, 0]
        prices.append(sum((1 - looked) ** 2 for looked in total))
    return torch.stack(prices)


@every_lstm
@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.3])
def test_the_loss_is_that_of_show_attend_and_tell_per_word(config, penalty):
    # per caption: -log p(words) + penalty * sum over cells of (1 - sum over words of alpha)^2; then per word
    model, (pictures, words, wanted) = seeded(replace(config, penalty=penalty)), batch()
    log_p, counted = model(pictures, words).log_softmax(-1), (wanted != -100).sum().item()
    surprise = [-sum(log_p[b, t, wanted[b, t]] for t in range(TARGET) if wanted[b, t] != -100) for b in range(BATCH)]
    expected = (sum(surprise) + penalty * price(model, pictures, words, wanted).sum()) / counted
    assert_close(model.loss(pictures, words, wanted), expected)


@every_lstm
def test_the_loss_is_the_cross_entropy_and_the_mean_price_of_a_picture_over_the_words_of_a_caption(config):
    model, (pictures, words, wanted) = seeded(replace(config, penalty=0.7)), batch()
    surprise = F.cross_entropy(model(pictures, words).flatten(0, 1), wanted.flatten(), label_smoothing=0.1)
    captions = (wanted != -100).sum() / BATCH
    expected = surprise + 0.7 * price(model, pictures, words, wanted).mean() / captions
    assert_close(model.loss(pictures, words, wanted, smoothing=0.1), expected)


@pytest.mark.parametrize("encoder", EYES)
def test_the_price_has_the_gradients_of_the_direct_loop_and_they_reach_the_score(encoder):
    # the same weights with and without a penalty: the difference is the price alone
    priced, free = (seeded(replace(CONFIG, encoder=encoder, penalty=penalty)) for penalty in (0.7, 0.0))
    pictures, words, wanted = batch()
    parameters = dict(priced.named_parameters())
    gradients = torch.autograd.grad(priced.loss(pictures, words, wanted), list(parameters.values()), allow_unused=True)
    without = torch.autograd.grad(free.loss(pictures, words, wanted), list(free.parameters()), allow_unused=True)
    cells, counted = priced.encode(pictures).cells, wanted != -100
    total = 0
    for b in range(BATCH):
        _, looks = tell(priced, cells[b], words[b].tolist(), soft)
        total = total + sum((1 - looked) ** 2 for looked in looks[counted[b]].sum(0))
    by_hand = torch.autograd.grad(0.7 * total / counted.sum(), list(parameters.values()), allow_unused=True)
    for name, one, other, expected in zip(parameters, gradients, without, by_hand, strict=True):
        expected = torch.zeros_like(parameters[name]) if expected is None else expected
        assert_close(one - other, expected, msg=lambda text, name=name: f"gradient of {name}: {text}")
        if ".score." in name:
            assert expected.abs().amax() > 1e-6, name


@every_variant
def test_words_that_do_not_count_change_nothing(config):
    model, (pictures, words, wanted) = seeded(config), batch()
    longer = torch.cat([words, tokens(BATCH, 2, seed=9)], dim=1)
    more = torch.cat([wanted, torch.full((BATCH, 2), -100)], dim=1)
    other = torch.where(wanted == -100, (words + 5) % VOCAB, words)  # the words said where none is wanted
    other[:, 0] = words[:, 0]
    expected = model.loss(pictures, words, wanted)
    assert_close(model.loss(pictures, longer, more), expected)
    assert not torch.equal(other, words)
    assert_close(model.loss(pictures, other, wanted), expected)
    parameters = list(model.parameters())
    ours, theirs = (
        torch.autograd.grad(model.loss(pictures, *pair), parameters, allow_unused=True)
        for pair in ((longer, more), (words, wanted))
    )
    for parameter, mine, expected in zip(parameters, ours, theirs, strict=True):
        zero = torch.zeros_like(parameter)
        assert_close(zero if mine is None else mine, zero if expected is None else expected)


def test_the_price_is_the_lstms_only():
    pictures, words, wanted = batch()
    dear, free = (seeded(replace(CONFIG, decoder="transformer", penalty=penalty)) for penalty in (9.0, 0.0))
    assert_close(dear.loss(pictures, words, wanted), free.loss(pictures, words, wanted))


@every_variant
def test_a_batch_without_a_word_that_counts_has_a_finite_loss(config):
    model, (pictures, words, wanted) = seeded(config), batch()
    loss = model.loss(pictures, words, torch.full_like(wanted, -100))
    # nothing was looked at: every cell lacks one whole look
    expected = CELLS * config.penalty if config.decoder == "lstm" else 0.0
    assert_close(loss, torch.tensor(expected, dtype=torch.float64))


# The gate, by hand: tanh(ln(3) / 2) = 1/2, tanh(ln 2) = 3/5, tanh(ln 3) = 4/5, sigmoid(ln 3) = 3/4


def test_one_step_with_its_gate_by_hand():
    ln2, ln3 = math.log(2), math.log(3)
    model = Captioner(CaptionerConfig(vocab=3, width=2, heads=1, hidden=1, depth=1, dropout=0.0)).double().eval()
    parameters = dict(model.named_parameters())
    for parameter in parameters.values():
        parameter.data.zero_()

    def put(name: str, values: list) -> None:
        parameters[name].data.copy_(torch.tensor(values, dtype=torch.float64).reshape(parameters[name].shape))

    # h_0 = c_0 = tanh((ln(3) / 2, 0)) = (1/2, 0)
    put("decoder.begin_h.bias", [ln3 / 2, 0])
    put("decoder.begin_c.bias", [ln3 / 2, 0])
    # all scores are 0: alpha = (1/2, 1/2), and c = 1/2 (4, 0) + 1/2 (0, 8) = (2, 4)
    cells = torch.tensor([[[4.0, 0.0], [0.0, 8.0]]], dtype=torch.float64)
    # beta = sigmoid(w . h_0) = sigmoid(2 ln 3 * 1/2) = 3/4: one number for the whole context, (3/2, 3)
    put("decoder.cell.gate.weight", [2 * ln3, 5])
    # y = sqrt(2) * (1 / sqrt(2), 0) = (1, 0)
    put("words.weight", [[0, 0], [2**-0.5, 0], [0, 0]])
    # i = sigmoid(ln 3) = 3/4, f = sigmoid(-ln 3) = 1/4, o = sigmoid(0) = 1/2
    put("decoder.cell.cell.bias.0", [ln3, ln3, -ln3, -ln3, 0, 0, 0, 0])
    # g = tanh(2/3 ln 2 * 3/2, 1/3 ln 3 * 3) = (3/5, 4/5), from [y; beta c]
    g = [[0, 0, 2 / 3 * ln2, 0], [0, 0, 0, ln3 / 3]]
    put("decoder.cell.cell.read.0", [[0] * 4] * 4 + g + [[0] * 4] * 2)
    # readout = tanh(2/3 ln 2 * 3/2, ln(3) / 2 * 1) = (3/5, 1/2), from [s; y; beta c]
    put("decoder.cell.readout.weight", [[0, 0, 0, 0, 2 / 3 * ln2, 0], [0, 0, ln3 / 2, 0, 0, 0]])
    put("output.weight", [[1, 0], [0, 1], [1, 1]])

    logits, state = model.step(torch.tensor([1]), model.start(PictureMemory(cells)))
    # c_1 = f c_0 + i g = (1/4 * 1/2 + 3/4 * 3/5, 3/4 * 4/5) = (23/40, 3/5);  s_1 = 1/2 tanh(c_1)
    assert_close(state.carried.c[0], torch.tensor([[23 / 40, 3 / 5]], dtype=torch.float64))
    said = [math.tanh(23 / 40) / 2, math.tanh(3 / 5) / 2]
    assert_close(state.carried.h[0], torch.tensor([said], dtype=torch.float64))
    assert_close(model.alignment(state), torch.tensor([[1 / 2, 1 / 2]], dtype=torch.float64))
    assert_close(logits, torch.tensor([[3 / 5, 1 / 2, 11 / 10]], dtype=torch.float64))


def test_a_closed_gate_hides_the_picture():
    model, (_, words, _) = seeded(CONFIG), batch()
    cells, twist = numbers(BATCH, CELLS, 6), numbers(BATCH, CELLS, 6, seed=1)
    other = cells + twist - twist.mean(1, keepdim=True)  # of the same mean, so with the same first state
    said, also = (model.decoder.run(model.words(words), x)[0] for x in (cells, other))
    assert (said - also).abs().amax() > 1e-3
    model.decoder.cell.gate.bias.data.fill_(-700.0)
    said, also = (model.decoder.run(model.words(words), x)[0] for x in (cells, other))
    assert_close(said, also)


# Hard looks


@pytest.mark.parametrize("gaze", ["hard", "hard:0.5"])
def test_draws_collects_every_choice_with_the_probability_of_the_direct_loop(gaze):
    model, (pictures, words, _) = seeded(replace(CONFIG, gaze=gaze)).train(), batch()
    with draws() as drawn:
        logits = model(pictures, words)
    assert len(drawn) == TARGET
    cells, expected, total, entropy = model.encode(pictures).cells, [], [], []
    for b in range(BATCH):

        def as_drawn(time: int, probabilities: Tensor, b: int = b) -> Tensor:
            chosen = torch.eye(CELLS, dtype=torch.float64)[drawn[time].index[b, 0, 0]]
            return probabilities if drawn[time].soft[b, 0, 0] else chosen

        said, looks = tell(model, cells[b], words[b].tolist(), as_drawn)
        expected.append(said)
        total.append(sum(looks[time, drawn[time].index[b, 0, 0]].log() for time in range(TARGET)))
        entropy.append(-(looks * looks.log()).sum())
    assert_close(logits, torch.stack(expected))
    assert_close(drawn.log_probability(), torch.stack(total))
    assert_close(drawn.entropy(), torch.stack(entropy))
    softened = sum(int(draw.soft.sum()) for draw in drawn)
    assert softened == 0 if gaze == "hard" else 0 < softened < BATCH * TARGET
    # REINFORCE: the gradient of the log-probability reaches the score, and is the direct loop's
    parts = list(model.decoder.cell.attention.score.parameters())
    ours, theirs = (torch.autograd.grad(x.sum(), parts) for x in (drawn.log_probability(), torch.stack(total)))
    assert_close(ours, theirs)
    assert all(gradient.abs().amax() > 1e-6 for gradient in ours)


def test_a_draw_teaches_the_score_nothing_by_itself():
    model, (pictures, words, wanted) = seeded(replace(CONFIG, gaze="hard")).train(), batch()
    parts = list(model.decoder.cell.attention.score.parameters())
    gradients = torch.autograd.grad(model.loss(pictures, words, wanted), parts, allow_unused=True)
    assert all(gradient is None or not gradient.any() for gradient in gradients)


def test_a_draw_is_a_look_at_one_cell_and_look_shows_it():
    model, (pictures, words, _) = seeded(replace(CONFIG, gaze="hard")).train(), batch()
    with draws() as drawn, look(model) as seen:
        model(pictures, words)
    for draw, call in zip(drawn, seen["decoder.cell.attention"].calls, strict=True):
        assert_close(call.weights(head=0)[:, 0], F.one_hot(draw.index[:, 0, 0], CELLS).double())


def test_the_alignment_of_a_draw_is_the_cell_that_was_drawn():
    model, (pictures, words, _) = seeded(replace(CONFIG, gaze="hard")).train(), batch()
    with draws() as drawn:
        _, alignments = steps(model, pictures, words)
    chosen = torch.stack([draw.index[:, 0, 0] for draw in drawn], dim=1)
    assert_close(alignments, F.one_hot(chosen, CELLS).double())


@every_variant
def test_nothing_is_drawn_in_evaluation(config):
    model, (pictures, words, _) = seeded(config), batch()
    with draws() as drawn:
        model(pictures, words)
    assert len(drawn) == 0
    with pytest.raises(ValueError, match="nothing was drawn: no layer with a Hard normalizer ran in training mode"):
        drawn.log_probability()


# Learning and keeping


def test_the_price_makes_looks_even():
    model, (pictures, words, wanted) = seeded(replace(CONFIG, penalty=5.0)), batch()
    model.decoder.cell.attention.score.v.data.mul_(5)  # begin with sharp looks
    # n words give n looks to share: the least price is that of n / cells for every cell
    least = (CELLS * (1 - (wanted != -100).sum(1).double() / CELLS) ** 2).mean()
    assert price(model, pictures, words, wanted).mean() > least + 0.1
    optimizer = torch.optim.Adam(model.decoder.cell.attention.score.parameters(), lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(pictures, words, wanted).backward()
        optimizer.step()
    assert_close(price(model, pictures, words, wanted).mean(), least, rtol=0, atol=0.02)


# Errors


@every_variant
def test_pictures_must_be_what_the_model_was_made_for(config):
    model, (_, words, _) = seeded(config, torch.float32), batch()
    with pytest.raises(ValueError, match=r"pictures must have 2 channels: got .*\(3, 5, 12, 20\)"):
        model(torch.zeros(BATCH, 5, 12, 20), words)
    with pytest.raises(ValueError, match=r"pictures must have the axes \(batch channels height width\): got shape"):
        model(torch.zeros(2, 12, 20), words)
    with pytest.raises(ValueError, match=r"pictures must hold floating-point numbers: got torch\.uint8"):
        model(torch.zeros(BATCH, 2, 12, 20, dtype=torch.uint8), words)


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_pictures_must_divide_into_patches(decoder):
    model = Captioner(replace(CONFIG, encoder="patches", decoder=decoder))
    with pytest.raises(ValueError, match=r"pictures must divide into patches of 4 x 4: got 12 x 18\. Crop or resize"):
        model(torch.zeros(BATCH, 2, 12, 18), tokens(BATCH, TARGET))


def test_convolutions_take_pictures_of_any_size():
    model = Captioner(CONFIG)
    assert model.encode(torch.zeros(BATCH, 2, 11, 17)).cells.shape == (BATCH, CELLS, 6)
    assert model.encode(torch.zeros(BATCH, 2, 1, 1)).cells.shape == (BATCH, 1, 6)


@every_variant
def test_words_must_lie_in_the_vocabulary(config):
    model, (pictures, words, wanted) = seeded(config), batch()
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.12: got 13 to 13"):
        model(pictures[:1], torch.tensor([[13]]))
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.12: got -1 to -1"):
        model.step(torch.tensor([-1]), model.start(model.encode(pictures[:1])))
    with pytest.raises(ValueError, match=r"targets must lie in 0\.\.12 or be -100: got .* to 13"):
        model.loss(pictures, words, wanted.clamp(min=0).index_fill(1, torch.tensor([0]), 13))
    with pytest.raises(ValueError, match=r"wanted must fit the target \(3, 7\): got \(3, 5\)"):
        model.loss(pictures, words, wanted[:, :5])


@pytest.mark.parametrize("config", [VARIANTS[0], VARIANTS[4]], ids=named)
def test_there_must_be_a_caption_for_every_picture(config):
    model, (pictures, words, _) = seeded(config), batch()
    with pytest.raises(ValueError, match="batch"):
        model(pictures, words[:2])

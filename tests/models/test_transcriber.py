"""The transcriber: recordings of any length, padded or alone, against loops written out, and its laws."""

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.positions import Sinusoidal
from mirada.models.transcriber import PacedPositions, Transcriber, TranscriberConfig
from tests.models.recurrent_by_hand import bridge, embed, read, write

BATCH, FRAMES, MELS, TARGET, VOCAB = 3, 23, 5, 7, 13
LENGTHS, SHORTER = torch.tensor([23, 9, 14]), [6, 3, 4]  # of two layers that halve, each rounded up
CONFIG = TranscriberConfig(
    vocab=VOCAB, mels=MELS, width=6, heads=2, hidden=10, depth=2, dropout=0.0, length=31, kind="transformer"
)
KINDS = {
    "transformer": CONFIG,
    "transformer-post-rotary": replace(CONFIG, order="post", heads=3, position="rotary"),
    "transformer-relative": replace(CONFIG, position="relative:2", depth=1),
    "transformer-paced": replace(CONFIG, position="rotary", pace=2.5, heads=3),
    "luong": replace(CONFIG, kind="luong"),
    "luong-flat": replace(CONFIG, kind="luong", depth=1),
}
every_kind = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
both_kinds = pytest.mark.parametrize("config", [KINDS["transformer"], KINDS["luong"]], ids=["transformer", "luong"])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def seeded(config: TranscriberConfig, dtype: torch.dtype = torch.float64) -> Transcriber:
    """The model in evaluation mode, with random numbers in every parameter, the biases too."""
    model = Transcriber(config).to(dtype).eval()
    for place, parameter in enumerate(model.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * (parameter[:1].numel() or 1) ** -0.5)
    return model


def batch() -> tuple[Tensor, Tensor]:
    """Frames, with arbitrary numbers in the padding, and tokens."""
    return numbers(BATCH, FRAMES, MELS), tokens(BATCH, TARGET)


def steps(model: Transcriber, frames: Tensor, lengths: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and alignments, token by token."""
    state, logits, alignments = model.start(model.encode(frames, lengths)), [], []
    for column in target.unbind(1):
        said, state = model.step(column, state)
        logits.append(said)
        alignments.append(model.alignment(state))
    return torch.stack(logits, dim=1), torch.stack(alignments, dim=1)


# The direct loop


def convolve(weight: Tensor, bias: Tensor, frames: list[Tensor]) -> list[Tensor]:
    """Every second place, from itself and both its neighbors; gelu(x) = x Phi(x)."""
    outputs = []
    for center in range(0, len(frames), 2):
        total = bias
        for tap, place in enumerate((center - 1, center, center + 1)):
            if 0 <= place < len(frames):
                total = total + weight[:, :, tap] @ frames[place]
        outputs.append(total * (1 + torch.erf(total / math.sqrt(2))) / 2)
    return outputs


@pytest.mark.parametrize("depth", [1, 2])
def test_luong_has_logits_gradients_and_alignments_of_the_direct_loop(depth):
    model, (frames, target) = seeded(replace(CONFIG, kind="luong", depth=depth)), batch()
    parameters = dict(model.named_parameters())
    p = {name.removeprefix("body."): parameter for name, parameter in parameters.items()}
    config = SimpleNamespace(
        attention="luong",
        score="general:scale=None",
        reach="global",
        feeding=True,
        cell="lstm",
        directions=2,
        depth=depth,
    )
    expected, looks = [], torch.zeros(BATCH, TARGET, 6, dtype=torch.float64)
    for b, length in enumerate(LENGTHS.tolist()):
        heard = list(frames[b, :length])
        for layer in (0, 1):
            heard = convolve(p[f"stem.layers.{layer}.weight"], p[f"stem.layers.{layer}.bias"], heard)
        assert len(heard) == SHORTER[b]
        states, h, c = read(p, config, heard)
        inputs = embed(p["words.weight"], target[b])
        readouts, looked = write(p, config, states, *bridge(p, config, h, c), inputs)
        expected.append(torch.stack([p["output.weight"] @ readout + p["output.bias"] for readout in readouts]))
        looks[b, :, : SHORTER[b]] = looked.detach()
    expected, logits = torch.stack(expected), model(frames, LENGTHS, target)
    assert_close(logits, expected)
    assert_close(steps(model, frames, LENGTHS, target)[1], looks)
    probe = numbers(*logits.shape, seed=3)
    ours, theirs = (torch.autograd.grad((x * probe).sum(), list(parameters.values())) for x in (logits, expected))
    for name, mine, other in zip(parameters, ours, theirs, strict=True):
        assert_close(mine, other, msg=lambda text, name=name: f"gradient of {name}: {text}")
        assert other.any(), name


# Laws


@every_kind
def test_the_memory_has_a_quarter_of_the_frames_rounded_up_twice(config):
    model, (frames, _) = seeded(config), batch()
    memory = model.encode(frames, LENGTHS)
    assert memory.states.shape == (BATCH, 6, 6)
    assert memory.padding.lengths.tolist() == SHORTER == [math.ceil(math.ceil(n / 2) / 2) for n in LENGTHS.tolist()]
    assert model.encode(frames).padding is None


@every_kind
def test_a_padded_recording_says_what_it_says_alone_at_every_length(config):
    model = seeded(config)
    lengths = torch.arange(1, FRAMES + 1)
    frames, target = numbers(FRAMES, FRAMES, MELS, seed=4), tokens(FRAMES, 3, seed=5)
    together = model(frames, lengths, target)
    for sample, length in enumerate(lengths.tolist()):
        one = slice(sample, sample + 1)
        assert_close(together[one], model(frames[one, :length], None, target[one]))


@every_kind
def test_every_frame_matters(config):
    model, (frames, target) = seeded(config), batch()
    logits = model(frames, LENGTHS, target)
    for place in range(FRAMES):
        changed = frames.clone()
        changed[:, place] += 1
        moved = (model(changed, LENGTHS, target) - logits).abs().amax((1, 2))
        assert ((moved > 1e-9) == (place < LENGTHS)).all(), place


def test_paced_positions_by_hand():
    """Place n has the sinusoids of token n / pace."""
    found = PacedPositions(6, 2.5)(torch.zeros(2, 9, 6, dtype=torch.float64))
    for place, i in product(range(9), range(3)):
        angle = place / 2.5 / 10000 ** (2 * i / 6)
        expected = torch.tensor([math.sin(angle), math.cos(angle)], dtype=torch.float64)
        assert_close(found[:, place, 2 * i : 2 * i + 2], expected.expand(2, 2))
    assert PacedPositions(5, 2.5)(torch.zeros(1, 3, 5)).shape == (1, 3, 5)


def test_with_a_pace_the_memory_and_the_tokens_have_positions():
    plain, paced = (seeded(replace(CONFIG, position="rotary", heads=3, pace=pace)) for pace in (0.0, 2.5))
    paced.load_state_dict(plain.state_dict())
    frames, target = batch()
    states = plain.encode(frames, LENGTHS).states
    assert_close(paced.encode(frames, LENGTHS).states, PacedPositions(6, 2.5)(states))
    x = plain.words(target)
    assert_close(paced.body.target_place(x), Sinusoidal(6).add(x))
    assert_close(plain.body.target_place(x), x)


# Where it looks


@every_kind
def test_alignments_are_what_look_recorded_and_zero_in_the_padding(config):
    model, (frames, target) = seeded(config), batch()
    with look(model) as seen:
        _, alignments = steps(model, frames, LENGTHS, target)
    name = "body.decoder.attention" if config.kind == "luong" else f"body.decoder.layers.{config.depth - 1}.cross"
    calls = seen[name].calls
    assert len(calls) == TARGET
    assert_close(alignments, torch.stack([call.weights()[:, :, 0].mean(1) for call in calls], dim=1))
    assert_close(alignments.sum(-1), torch.ones(BATCH, TARGET, dtype=torch.float64))
    for sample, length in enumerate(SHORTER):
        assert_close(alignments[sample, :, length:], torch.zeros(TARGET, 6 - length, dtype=torch.float64))
        assert (alignments[sample, :, :length] > 0).all()


# Learning and keeping


@every_kind
def test_the_loss_is_the_mean_cross_entropy_of_the_tokens_that_count(config):
    model, (frames, target) = seeded(config), batch()
    wanted = tokens(BATCH, TARGET, seed=1)
    wanted[0, 4:], wanted[2, 1] = -100, -100
    log_p = model(frames, LENGTHS, target).log_softmax(-1)
    counted = [(b, t) for b, t in product(range(BATCH), range(TARGET)) if wanted[b, t] != -100]
    expected = -sum(log_p[b, t, wanted[b, t]] for b, t in counted) / len(counted)
    assert_close(model.loss(frames, LENGTHS, target, wanted), expected)
    smooth = -sum(0.9 * log_p[b, t, wanted[b, t]] + 0.1 * log_p[b, t].mean() for b, t in counted) / len(counted)
    assert_close(model.loss(frames, LENGTHS, target, wanted, smoothing=0.1), smooth)


def collapsed(path: tuple[int, ...], nothing: int) -> list[int]:
    """What a path through the places tells: equal neighbors count once, nothing does not count."""
    return [label for place, label in enumerate(path) if label != nothing and path[place - 1 : place] != (label,)]


@both_kinds
def test_ctc_is_the_sum_over_all_paths(config):
    """Of all ways to tell a token or nothing at every place, those that tell the text without its end."""
    vocab = 3
    model, frames = seeded(replace(config, vocab=vocab, ctc=0.3)), numbers(3, 14, MELS)
    lengths, wanted = torch.tensor([14, 9, 12]), torch.tensor([[2, 0, 1], [1, 1, 2], [0, 2, -100]])
    memory, total = model.encode(frames, lengths), 0.0
    shares = model.heard(memory.states).softmax(-1)
    for row, (places, text) in enumerate([(4, [2, 0]), (3, [1, 1]), (3, [0])]):
        paths = [path for path in product(range(vocab + 1), repeat=places) if collapsed(path, vocab) == text]
        total -= sum(math.prod(shares[row, n, label] for n, label in enumerate(path)) for path in paths).log()
    assert_close(model.ctc_loss(memory, wanted), total / 8)
    alone = model.encode(frames[:1, :14])
    assert_close(model.ctc_loss(alone, wanted[:1]), model.ctc_loss(model.encode(frames[:1], lengths[:1]), wanted[:1]))


@both_kinds
def test_ctc_counts_in_training_only(config):
    plain, with_ctc = (Transcriber(replace(config, ctc=weight)).double() for weight in (0.0, 0.3))
    with_ctc.load_state_dict(plain.state_dict(), strict=False)
    frames, target = batch()
    wanted = tokens(BATCH, TARGET, seed=1)
    wanted[1, 2:] = -100
    wanted[2, 3:] = -100
    assert plain.heard is None
    assert with_ctc.training
    extra = with_ctc.ctc_loss(with_ctc.encode(frames, LENGTHS), wanted)
    assert extra > 0
    difference = with_ctc.loss(frames, LENGTHS, target, wanted) - plain.loss(frames, LENGTHS, target, wanted)
    assert_close(difference, 0.3 * extra)
    assert_close(
        with_ctc.eval().loss(frames, LENGTHS, target, wanted), plain.eval().loss(frames, LENGTHS, target, wanted)
    )


def test_a_text_that_no_path_can_tell_adds_nothing():
    model = seeded(replace(CONFIG, ctc=0.3))
    loss = model.ctc_loss(model.encode(numbers(1, 8, MELS)), torch.tensor([[1, 2, 3, 4, 5]]))
    assert loss.item() == 0.0


# Errors


@both_kinds
def test_frames_must_be_what_the_model_was_made_for(config):
    model, (frames, target) = seeded(config), batch()
    with pytest.raises(ValueError, match=r"frames must have mels=5: got mels=4 in shape \(3, 23, 4\)"):
        model(frames[:, :, :4], None, target)
    with pytest.raises(ValueError, match=r"frames must have the axes \(batch frames mels\): got shape \(23, 5\)"):
        model(frames[0], None, target)
    with pytest.raises(ValueError, match="a recording needs at least one frame: got none"):
        model(frames[:, :0], None, target)


@both_kinds
def test_frames_must_be_numbers_with_a_point(config):
    model, (frames, target) = seeded(config), batch()
    with pytest.raises(ValueError, match=r"frames must hold floating-point numbers: got torch\.int64"):
        model(frames.long(), None, target)


@both_kinds
@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([23, 24, 14], "lengths must be at most the length of the batch: got lengths up to 24, length=23"),
        ([23, 9], "lengths must have one number per sample: got 2 for batch=3"),
        ([23, -1, 14], "lengths must be at least 0: got -1"),
        ([23.0, 9.0, 14.0], "lengths must hold integers"),
        ([[23, 9, 14]], r"lengths must have the axes \(batch\): got shape \(1, 3\)"),
    ],
)
def test_lengths_must_fit_the_frames(config, lengths, message):
    model, (frames, target) = seeded(config), batch()
    with pytest.raises(ValueError, match=message):
        model(frames, torch.tensor(lengths), target)


@both_kinds
def test_a_recording_of_length_zero_in_a_batch_is_refused_like_one_alone(config):
    model, (frames, target) = seeded(config), batch()
    with pytest.raises(ValueError, match="at least"):
        model(frames, torch.tensor([23, 0, 14]), target)


@both_kinds
def test_token_ids_must_lie_in_the_vocabulary(config):
    model, (frames, target) = seeded(config), batch()
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.12: got 13 to 13"):
        model(frames[:1], None, torch.tensor([[13]]))
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.12: got -1 to -1"):
        model.step(torch.tensor([-1]), model.start(model.encode(frames[:1])))
    with pytest.raises(ValueError, match=r"targets must lie in 0\.\.12 or be -100: got 13 to 13"):
        model.loss(frames, LENGTHS, target, torch.full_like(target, 13))


def test_a_learned_position_must_reach_to_the_last_frame():
    model = Transcriber(replace(CONFIG, position="learned", length=5))
    with pytest.raises(ValueError, match=r"positions must lie in the table of 5: got 0 to 5\. Build Learned with more"):
        model(torch.zeros(1, FRAMES, MELS), None, tokens(1, 3))

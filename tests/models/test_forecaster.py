"""The forecaster: step by step it predicts what teacher forcing gives, shifts, causality, and a loop written out."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.models.forecaster import Forecaster, ForecasterConfig
from tests.models.recurrent_by_hand import read, write

BATCH, TIME, FEATURES, TARGETS, HORIZON = 3, 14, 5, 2, 11
CONFIG = ForecasterConfig(
    width=6, heads=2, hidden=10, depth=2, dropout=0.0, length=TIME, features=FEATURES, targets=TARGETS,
    horizon=HORIZON, patch=7, kind="encoder-decoder",
)  # fmt: skip
KINDS = {kind: replace(CONFIG, kind=kind) for kind in ("encoder-decoder", "lstm", "patches")}
COLUMNS = {  # kind patches, a column by itself
    "apart": replace(CONFIG, kind="patches", channels="apart", own=TARGETS, features=FEATURES),
    "apart-relative": replace(CONFIG, kind="patches", channels="apart", own=TARGETS, relative=True, patch=4),
    "across": replace(CONFIG, kind="patches", channels="across", own=TARGETS),
    "across-unread": replace(CONFIG, kind="patches", channels="auto", own=1, patch=3, position="rotary", heads=3),
}
VARIANTS = (
    KINDS
    | COLUMNS
    | {
        "encoder-decoder-post-rotary": replace(CONFIG, order="post", heads=3, position="rotary", depth=1),
        "lstm-flat": replace(CONFIG, kind="lstm", depth=1),
        "patches-relative": replace(CONFIG, kind="patches", position="relative:2", patch=2),
    }
)
every_kind = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
every_variant = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
going_on = pytest.mark.parametrize(
    "config",
    [x for x in VARIANTS.values() if x.kind != "patches"],
    ids=[name for name, x in VARIANTS.items() if x.kind != "patches"],
)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(config: ForecasterConfig, dtype: torch.dtype = torch.float64) -> Forecaster:
    """The model in evaluation mode, with random numbers in every parameter, the biases too."""
    model = Forecaster(config).to(dtype).eval()
    for place, parameter in enumerate(model.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * parameter.shape[-1] ** -0.5)
    return model


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """A series, the last known values, and the values to come."""
    return numbers(BATCH, TIME, FEATURES), numbers(BATCH, TARGETS, seed=1), numbers(BATCH, HORIZON, TARGETS, seed=2)


# Forecasts


@every_variant
def test_a_forecast_is_what_teaching_it_its_own_forecast_gives(config):
    model, (series, first, _) = seeded(config), batch()
    forecast = model(series, first)
    assert forecast.shape == (BATCH, HORIZON, TARGETS)
    assert_close(model.teacher_forced(series, first, forecast), forecast)


@going_on
def test_a_forecast_is_teaching_value_by_value_with_its_own_predictions_fed_in(config):
    model, (series, first, _) = seeded(config), batch()
    fed = numbers(BATCH, HORIZON, TARGETS, seed=9)  # anything: a value that is not yet predicted is not yet read
    for time in range(HORIZON):
        fed[:, time] = model.teacher_forced(series, first, fed)[:, time].detach()
    assert_close(model(series, first), fed)


@every_variant
def test_adding_to_the_last_known_value_shifts_the_forecast(config):
    model, (series, first, wanted) = seeded(config), batch()
    shift = torch.tensor([[100.0, -7.0], [0.5, 3.0], [-11.0, 0.0]], dtype=torch.float64)
    assert_close(model(series, first + shift), model(series, first) + shift.unsqueeze(1))
    moved = model.teacher_forced(series, first + shift, wanted + shift.unsqueeze(1))
    assert_close(moved, model.teacher_forced(series, first, wanted) + shift.unsqueeze(1))
    loss = model.loss(series, first + shift, wanted + shift.unsqueeze(1))
    assert_close(loss, model.loss(series, first, wanted))


@every_variant
def test_a_model_that_predicts_nothing_repeats_the_last_value(config):
    model, (series, first, wanted) = seeded(config), batch()
    model.body.output.weight.data.zero_()
    model.body.output.bias.data.zero_()
    repeated = first.unsqueeze(1).expand(-1, HORIZON, -1)
    assert_close(model(series, first), repeated)
    assert_close(model.teacher_forced(series, first, wanted), repeated)


@going_on
def test_a_true_value_changes_only_what_comes_after_it(config):
    model, (series, first, wanted) = seeded(config), batch()
    forced = model.teacher_forced(series, first, wanted)
    for time in range(HORIZON):
        changed = wanted.clone()
        changed[:, time] += 1
        after = model.teacher_forced(series, first, changed)
        assert_close(after[:, : time + 1], forced[:, : time + 1])
        if time + 1 < HORIZON:
            assert ((after[:, time + 1] - forced[:, time + 1]).abs().amax(-1) > 1e-5).all()


@pytest.mark.parametrize("config", [x for x in VARIANTS.values() if x.kind == "patches"])
def test_patches_say_all_values_at_once_whatever_came_before_them(config):
    model, (series, first, wanted) = seeded(config), batch()
    assert_close(model.teacher_forced(series, first, wanted), model(series, first))


@every_variant
def test_every_time_step_of_the_series_matters(config):
    model, (series, first, _) = seeded(config), batch()
    forecast = model(series, first)
    for time in range(TIME):
        changed = series.clone()
        changed[:, time] += 1
        assert ((model(changed, first) - forecast).abs().amax((1, 2)) > 1e-9).all(), time


@going_on
def test_the_series_may_have_any_length(config):
    model, (_, first, wanted) = seeded(config), batch()
    for length in (1, TIME + 5):
        series = numbers(BATCH, length, FEATURES)
        forecast = model(series, first)
        assert_close(model.teacher_forced(series, first, forecast), forecast)
        assert model.teacher_forced(series, first, wanted).shape == (BATCH, HORIZON, TARGETS)


# Columns


@pytest.mark.parametrize("name", ["apart", "apart-relative"])
def test_a_column_by_itself_is_forecast_as_if_there_were_no_other(name):
    config = COLUMNS[name]
    model, (series, first, _) = seeded(config), batch()
    alone = Forecaster(replace(config, features=1, targets=1, own=1)).double().eval()
    alone.load_state_dict(model.state_dict())
    forecast = model(series, first)
    for column in range(TARGETS):
        here = slice(column, column + 1)
        assert_close(alone(series[:, :, here], first[:, here]), forecast[:, :, here])


def test_apart_a_target_depends_on_its_own_column_only_and_across_on_all():
    series, first, _ = batch()
    for name, seen in (("apart", torch.eye(TARGETS, FEATURES)), ("across", torch.ones(TARGETS, FEATURES))):
        model = seeded(COLUMNS[name])
        forecast = model(series, first)
        for column in range(FEATURES):
            changed = series.clone()
            changed[:, 3, column] += 1
            moved = (model(changed, first) - forecast).abs().amax((0, 1)) > 1e-9
            assert moved.tolist() == seen[:, column].bool().tolist(), (name, column)


def test_a_target_that_is_not_read_is_forecast_from_the_others():
    model, (series, first, _) = seeded(COLUMNS["across-unread"]), batch()
    assert model.config.across
    moved = series.clone()
    moved[:, 5, 0] += 1
    assert ((model(moved, first) - model(series, first)).abs().amax((0, 1)) > 1e-9).all()


def test_relative_columns_are_the_same_wherever_they_stand():
    series, first, _ = batch()
    for config in (COLUMNS["apart-relative"], replace(KINDS["lstm"], relative=True)):
        model = seeded(config)
        assert_close(model(series + numbers(BATCH, 1, FEATURES, seed=5), first), model(series, first))


def test_a_length_that_does_not_divide_is_filled_up_with_the_first_value():
    config = COLUMNS["apart-relative"]
    model, (series, first, _) = seeded(config), batch()
    longer = Forecaster(replace(config, length=16)).double().eval()
    longer.load_state_dict(model.state_dict())
    filled = torch.cat([series[:, :1], series[:, :1], series], dim=1)
    assert_close(model(series, first), longer(filled, first))


def test_auto_is_apart_where_the_columns_are_the_targets():
    alone = {"features": 2, "targets": 2, "own": 2}
    for fields, across in ((alone, False), (alone | {"features": 3}, True), (alone | {"own": 1}, True)):
        assert ForecasterConfig(kind="patches", channels="auto", **fields).across is across


def test_every_kind_of_dropout_acts_in_an_lstm_of_one_layer():
    model, (series, first, _) = Forecaster(replace(CONFIG, kind="lstm", depth=1, dropout=0.5)).double(), batch()
    torch.manual_seed(1)
    once, again = model.train()(series, first), model(series, first)
    assert (once - again).abs().max() > 1e-6
    assert_close(model.eval()(series, first), model(series, first))


# The direct loop


@pytest.mark.parametrize("depth", [1, 2])
def test_the_lstm_has_forecasts_and_gradients_of_the_direct_loop(depth):
    model, (series, first, wanted) = seeded(replace(CONFIG, kind="lstm", depth=depth)), batch()
    parameters = dict(model.named_parameters())
    p = {name.removeprefix("body."): parameter for name, parameter in parameters.items()}
    p["decoder.attention.score.weight"] = p["decoder.attention.score.weight"] / CONFIG.width**0.5
    config = SimpleNamespace(
        attention="luong", score="general", reach="global", feeding=False, cell="lstm", directions=1, depth=depth
    )
    expected = []
    for b in range(BATCH):
        states, h, c = read(p, config, list(series[b]))
        # how far each true value lies from the last known one; the first is told nothing
        before = [torch.zeros_like(first[b]), *(wanted[b, time] - first[b] for time in range(HORIZON - 1))]
        readouts, _ = write(p, config, states, h, c, before)
        expected.append(torch.stack([first[b] + p["output.weight"] @ r + p["output.bias"] for r in readouts]))
    expected, forced = torch.stack(expected), model.teacher_forced(series, first, wanted)
    assert_close(forced, expected)
    error = sum((expected[b, t, k] - wanted[b, t, k]) ** 2 for b, t, k in torch.cartesian_prod(
        torch.arange(BATCH), torch.arange(HORIZON), torch.arange(TARGETS))) / (BATCH * HORIZON * TARGETS)  # fmt: skip
    loss = model.loss(series, first, wanted)
    assert_close(loss, error)
    ours, theirs = (torch.autograd.grad(x, list(parameters.values())) for x in (loss, error))
    for name, mine, other in zip(parameters, ours, theirs, strict=True):
        assert_close(mine, other, msg=lambda text, name=name: f"gradient of {name}: {text}")
        assert other.any(), name


@every_variant
def test_the_loss_is_the_mean_squared_error_under_teacher_forcing(config):
    model, (series, first, wanted) = seeded(config), batch()
    differences = (model.teacher_forced(series, first, wanted) - wanted).flatten().tolist()
    expected = sum(d * d for d in differences) / len(differences)
    assert_close(model.loss(series, first, wanted).item(), expected)


@every_variant
def test_the_gradient_of_a_forecast_is_its_derivative_through_all_its_own_predictions(config):
    model, (series, first, _) = seeded(config), batch()
    probe, parameters = numbers(BATCH, HORIZON, TARGETS, seed=4), list(model.parameters())
    directions = [numbers(*x.shape, seed=200 + place) for place, x in enumerate(parameters)]
    gradients = torch.autograd.grad((model(series, first) * probe).sum(), parameters)
    derivative = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    step, sides = 1e-6, []
    for sign in (1, -1):
        moved = seeded(config)
        for parameter, direction in zip(moved.parameters(), directions, strict=True):
            parameter.data.add_(direction, alpha=sign * step)
        with torch.no_grad():
            sides.append((moved(series, first) * probe).sum())
    assert_close(derivative, (sides[0] - sides[1]) / (2 * step), rtol=1e-5, atol=1e-6)


# Where it looks


@every_kind
def test_every_look_has_a_name(config):
    model, (series, first, wanted) = seeded(config), batch()
    with look(model) as seen:
        model.teacher_forced(series, first, wanted)
    encoder = [f"body.encoder.layers.{layer}.self" for layer in (0, 1)]
    decoder = [f"body.decoder.layers.{layer}.{kind}" for layer in (0, 1) for kind in ("self", "cross")]
    expected = {"encoder-decoder": encoder + decoder, "lstm": ["body.decoder.attention"], "patches": encoder}
    assert seen.names == expected[config.kind]


@going_on
def test_a_forecast_looks_where_teaching_its_own_forecast_looks(config):
    model, (series, first, _) = seeded(config), batch()
    with look(model) as going:
        forecast = model(series, first)
    with look(model) as forced:
        model.teacher_forced(series, first, forecast)
    name = "body.decoder.attention" if config.kind == "lstm" else "body.decoder.layers.0.cross"
    steps = torch.cat([call.weights() for call in going[name].calls], dim=2)
    assert steps.shape[2:] == (HORIZON, TIME)
    assert_close(steps, forced[name].weights())


# Errors


@every_kind
def test_wanted_values_must_be_what_the_model_was_made_for(config):
    model, (series, first, wanted) = seeded(config), batch()
    for other in (wanted[:, :-1], wanted[:2], wanted[:, :, :1], wanted[0]):
        with pytest.raises(ValueError, match=r"wanted must have shape \(3, 11, 2\): got"):
            model.teacher_forced(series, first, other)
        with pytest.raises(ValueError, match=r"wanted must have shape \(3, 11, 2\): got"):
            model.loss(series, first, other)


def test_patches_take_series_of_one_length_only():
    model, (series, first, wanted) = seeded(KINDS["patches"]), batch()
    for length in (TIME - 1, TIME - 7):
        with pytest.raises(ValueError, match=rf"series must have time=14: got time={length} in shape"):
            model(series[:, :length], first)
        with pytest.raises(ValueError, match=rf"series must have time=14: got time={length} in shape"):
            model.teacher_forced(series[:, :length], first, wanted)


@pytest.mark.parametrize("kind", ["encoder-decoder", "lstm"])
def test_only_patches_need_a_length_that_divides(kind):
    model = seeded(replace(CONFIG, kind=kind, length=15))
    series, first, _ = batch()
    assert model(series, first).shape == (BATCH, HORIZON, TARGETS)


@pytest.mark.parametrize("channels", ["apart", "across", "mixed"])
def test_codes_move_a_forecast_from_the_patches_and_from_the_steps_to_come(channels: str) -> None:
    """A code in one patch changes what is read; one of a step to come changes that step alone; an unknown one nothing."""
    config = replace(COLUMNS["apart"], channels=channels, codes=6, length=14, patch=7)
    model, (series, first, _) = seeded(config), batch()
    codes = torch.ones(BATCH, TIME + HORIZON, 2, dtype=torch.int64)
    codes[:, :, 1] = 0
    before = model(series, first, codes)
    coming, read = codes.clone(), codes.clone()
    coming[:, TIME + 3, 1], read[:, 2, 1] = 4, 5
    moved = (model(series, first, coming) - before).abs().amax((0, 2))
    assert moved[3] > 1e-3
    assert_close(moved.sum(), moved[3])
    assert bool(((model(series, first, read) - before).abs().amax((0, 2)) > 1e-6).all())
    with torch.no_grad():
        model.beside.kinds.weight[0] += 7.0  # the row of what is not known
    assert_close(model(series, first, codes), before)


def test_the_change_of_a_step_is_its_formula() -> None:
    """W gelu(A e[h] + B e[last]) + b, written out."""
    model = seeded(replace(COLUMNS["apart"], codes=6))
    codes = torch.tensor([[[1 + (step + kind) % 5 for kind in range(2)] for step in range(TIME + HORIZON)]])
    beside = model.beside
    e = beside.kinds.weight[codes].sum(2)[0]
    hidden = e[TIME:] @ beside.coming.weight.T + beside.coming.bias + e[TIME - 1] @ beside.last.weight.T
    wanted = torch.nn.functional.gelu(hidden) @ beside.output.weight.T + beside.output.bias
    context, moved = beside(codes, TIME)
    assert_close(moved[0], wanted)
    assert_close(context[0], e[:TIME])


def test_codes_that_are_missing_or_not_wanted_are_refused() -> None:
    series, first, _ = batch()
    with pytest.raises(ValueError, match="give codes="):
        seeded(replace(COLUMNS["apart"], codes=6))(series, first)
    with pytest.raises(ValueError, match="reads no codes"):
        seeded(COLUMNS["apart"])(series, first, torch.ones(BATCH, TIME + HORIZON, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="steps"):
        seeded(replace(COLUMNS["apart"], codes=6))(series, first, torch.ones(BATCH, TIME, 2, dtype=torch.int64))

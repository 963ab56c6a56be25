"""What every model must pass, whatever it reads. How to make its inputs is in `tests/models/cases/`."""

import copy
import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import mirada.models
from mirada.config import Config
from mirada.decoding.search import Stepper
from mirada.layers.model import Model
from tests.models.cases import CASES
from tests.models.cases.case import Batch, Case, Changes, loss, outputs
from tests.models.stirring import assert_near, stirred

QUICK_SEEDS = 6  # combinations of each model; the others are slow
GENERATING = [case for case in CASES if case.writes]


def name(case: Case) -> str:
    return case.model.__name__


def over(table: str, cases: list[Case] = CASES) -> pytest.MarkDecorator:
    """Every entry of a table of every case."""
    listed = [(case, key, value) for case in cases for key, value in getattr(case, table).items()]
    ids = [f"{name(case)}-{key}" for case, key, _ in listed]
    return pytest.mark.parametrize(("case", "changes"), [(case, value) for case, _, value in listed], ids=ids)


def one_by_one(cases: list[Case], *fields: str) -> list[Any]:
    """Every value of every field by itself, or of those fields."""
    return [
        pytest.param(case, {field: value}, id=f"{name(case)}-{field}={value}")
        for case in cases
        for field, values in case.values.items()
        if not fields or field in fields
        for value in values
    ]


every_model = pytest.mark.parametrize("case", CASES, ids=name)
every_generator = pytest.mark.parametrize("case", GENERATING, ids=name)
every_variant = over("variants")
every_written_variant = over("variants", GENERATING)


def made(case: Case, config: Config, dtype: torch.dtype = torch.float64) -> tuple[Model, Batch]:
    """A model in evaluation, away from its neutral start, and a batch for it."""
    return stirred(case.model(config), dtype, case.strength), case.batch(config).to(dtype)


# Configurations


def test_every_model_has_a_case() -> None:
    [folder] = mirada.models.__path__
    files = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    assert {case.model.__module__.rpartition(".")[2] for case in CASES} == files


@every_model
def test_a_configuration_is_frozen_and_named_after_its_model(case: Case) -> None:
    assert case.model.Config.__name__ == f"{name(case)}Config"
    with pytest.raises(dataclasses.FrozenInstanceError):
        case.model.Config.tiny().depth = 3


@every_model
def test_a_configuration_is_complete(case: Case) -> None:
    assert case.model.Config.from_dict({}) == case.model.Config()


@every_model
def test_a_configuration_knows_its_fields(case: Case) -> None:
    kind = case.model.Config
    with pytest.raises(ValueError, match=rf"unknown field of {kind.__name__} 'dept'.* Did you mean 'depth'\?"):
        kind.from_dict({"dept": 3})
    with pytest.raises(ValueError, match=f"{kind.__name__}: depth must be at least 1: got 0"):
        dataclasses.replace(kind.tiny(), depth=0)


@every_model
def test_a_model_takes_its_own_configuration_only(case: Case) -> None:
    other = next(kind for kind in CASES if kind is not case)
    for wrong in (case.model.Config.tiny().to_dict(), other.model.Config.tiny()):
        with pytest.raises(
            ValueError, match=f"{name(case)} takes a {case.model.Config.__name__}: got {type(wrong).__name__}"
        ):
            case.model(wrong)


@pytest.mark.parametrize(("case", "changes"), one_by_one(CASES))
def test_a_configuration_is_plain_json(case: Case, changes: Changes) -> None:
    ours = case.config(**changes)
    assert case.model.Config.from_dict(json.loads(json.dumps(ours.to_dict()))) == ours


@every_model
def test_the_tiny_configuration_is_plain_json(case: Case) -> None:
    tiny = case.model.Config.tiny()
    assert case.model.Config.from_dict(json.loads(json.dumps(tiny.to_dict()))) == tiny


@pytest.mark.parametrize(
    ("case", "changes", "message"),
    [pytest.param(case, *entry, id=f"{name(case)}-{entry[0]}") for case in CASES for entry in case.refused],
)
def test_a_configuration_that_cannot_work_is_refused_when_made(case: Case, changes: Changes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(case.base, **changes)


# Inputs


@every_model
def test_the_tiny_model_works(case: Case) -> None:
    tiny = case.model.Config.tiny()
    model, batch = case.model(tiny), case.batch(tiny).to(torch.float32)
    found = outputs(model, batch)
    assert [tuple(output.shape) for output in found] == case.shapes(tiny)
    assert not any(output.isnan().any() for output in found)
    assert loss(model, batch).isfinite()


@over("misfits")
def test_inputs_that_do_not_fit_are_refused(case: Case, changes: tuple[Changes, str]) -> None:
    arguments, message = changes
    model, batch = made(case, case.base, torch.float32)
    with pytest.raises(ValueError, match=message):
        model(**(batch.given | arguments))


# Learning


@every_variant
def test_the_loss_is_finite_and_gradients_reach_every_parameter(case: Case, changes: Changes) -> None:
    config = case.config(**changes)
    model, batch = made(case, config)
    total = loss(model, batch)
    assert total.shape == ()
    assert total.isfinite()
    total.backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert [name for name in idle if not name.startswith(case.idle(config))] == []
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@over("by_heart")
def test_one_small_batch_is_learned_by_heart(case: Case, changes: Changes) -> None:
    config = dataclasses.replace(case.model.Config.tiny(), **changes)
    model, batch = case.model(config), case.batch(config).to(torch.float32)
    adam = torch.optim.Adam(model.parameters(), lr=case.rate)
    for _ in range(300):
        total = loss(model, batch)
        if total < 0.02:
            break
        adam.zero_grad()
        total.backward()
        adam.step()
    model.eval()
    assert loss(model, batch) < 0.05
    case.assert_learned(model, batch)


@every_variant
def test_evaluation_is_deterministic_and_dropout_is_for_training_only(case: Case, changes: Changes) -> None:
    config = case.config(**changes | case.dropout)
    model, batch = made(case, config)
    without = case.model(case.config(**changes)).double().eval()
    without.load_state_dict(model.state_dict())
    for once, again, plain in zip(*(outputs(each, batch) for each in (model, model, without)), strict=True):
        assert_close(again, once, rtol=0, atol=0)
        assert_close(plain, once)
    model.train()
    once, again = (torch.cat([x.flatten() for x in outputs(model, batch)]) for _ in range(2))
    difference = (again - once).nan_to_num().abs().amax()  # infinity less infinity is nothing
    assert difference > 1e-4 if case.drops(config) else difference == 0


# Weights


@every_variant
@torch.no_grad()
def test_a_saved_model_says_the_same_bit_for_bit(case: Case, changes: Changes, tmp_path) -> None:
    model, batch = made(case, case.config(**changes), torch.float32)
    model.save(tmp_path / "there" / "model")
    loaded = case.model.load(tmp_path / "there" / "model")
    assert loaded.config == model.config
    assert not loaded.training
    assert len(list(loaded.parameters())) == len(list(model.parameters()))  # what is tied is one parameter again
    for ours, theirs in zip(outputs(loaded, batch), outputs(model, batch), strict=True):
        assert_close(ours, theirs, rtol=0, atol=0)


# Samples and padding


@every_variant
def test_each_sample_gets_in_a_padded_batch_what_it_gets_alone(case: Case, changes: Changes) -> None:
    config = case.config(**changes)
    model, batch = made(case, config)
    assert_alone(case, model, case.averaged(batch))
    # in training a batch norm averages over the batch, and a hard look is drawn
    counts_batch = getattr(config, "norm", "") == "batch" or getattr(config, "stem", "").startswith("pooled")
    if not counts_batch and "hard" not in getattr(config, "gaze", ""):
        assert_alone(case, model.train(), case.averaged(batch))


def assert_alone(case: Case, model: Model, batch: Batch) -> None:
    """Each sample has its own outputs, and the loss is the mean over all samples of what counts in each, where it is one."""
    together, losses, counts = outputs(model, batch), [], []
    for sample in range(3):
        alone = case.alone(batch, sample)
        for ours, theirs in zip(together, outputs(model, alone), strict=True):
            assert_near(case.part(ours, theirs, sample), theirs)
        counts.append(case.counted(alone))
        losses.append(counts[-1] * loss(model, alone, **case.smooth))
    if case.averages:
        assert_near(loss(model, batch, **case.smooth), sum(losses) / sum(counts))


@over("variants", [case for case in CASES if case.padded])
def test_what_stands_in_the_padding_does_not_matter_nor_how_much_of_it_there_is(case: Case, changes: Changes) -> None:
    model, batch = made(case, case.config(**changes))
    once, again = outputs(model, batch), outputs(model, case.other_padding(batch))
    for sample in range(3):
        for theirs, ours, alone in zip(once, again, outputs(model, case.alone(batch, sample)), strict=True):
            assert_near(case.part(ours, alone, sample), case.part(theirs, alone, sample))


@over("variants", [case for case in CASES if case.padded])
def test_padding_counts_in_no_loss_no_gradient_and_no_running_average(case: Case, changes: Changes) -> None:
    model, batch = made(case, case.config(**changes))
    twin, results = copy.deepcopy(model), []
    for each, given in ((model, batch), (twin, case.other_padding(batch))):
        torch.manual_seed(5)  # of a hard look: both draw alike
        results.append(loss(each.train(), given))
        results[-1].backward()
    assert_near(results[1], results[0])
    for (name, ours), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
        assert_close(theirs, ours, msg=lambda text, name=name: f"{name}: {text}")
    for (name, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None:
            assert_close(theirs.grad, ours.grad, msg=lambda text, name=name: f"{name}: {text}")


# Any combination


def drawn(case: Case, seed: int) -> tuple[Config, torch.dtype]:
    """A random combination of all values that a configuration accepts, and a precision."""
    chance = random.Random(f"{name(case)} {seed}")
    while True:
        choice = {field: chance.choice(values) for field, values in case.values.items()}
        try:
            return case.config(**choice), chance.choice([torch.float32, torch.float64])
        except ValueError:
            continue  # refused when made, with a reason


@pytest.mark.parametrize(
    ("case", "seed"),
    [
        pytest.param(case, seed, id=f"{name(case)}-{seed}", marks=[pytest.mark.slow] if seed >= QUICK_SEEDS else [])
        for case in CASES
        for seed in range(case.seeds)
    ],
)
def test_any_combination_just_works(case: Case, seed: int) -> None:
    config, dtype = drawn(case, seed)
    model, batch = made(case, config, dtype)
    loss(model.train(), batch, **case.smooth).backward()
    lost = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert [name for name in lost if not name.startswith(case.idle(config))] == []
    model.eval()
    with torch.no_grad():
        assert not any(output.isnan().any() for output in outputs(model, batch))
        assert_alone(case, model, case.averaged(batch))
        if case.writes:
            assert_near(decoded(case, model, batch), outputs(model, batch)[0])


# Step by step


def steps(model: Any, state: Any, target: Tensor) -> tuple[Tensor, Any]:
    """The logits of every step, and the last state."""
    logits = []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        logits.append(scores)
    return torch.stack(logits, dim=1), state


def decoded(case: Case, model: Model, batch: Batch) -> Tensor:
    """The logits of the full pass, made token by token."""
    return steps(model, case.start(model, batch), batch.given[case.writes])[0]


@every_generator
def test_it_is_a_stepper(case: Case) -> None:
    assert isinstance(case.model(case.base), Stepper)


@every_written_variant
def test_step_by_step_is_the_full_pass(case: Case, changes: Changes) -> None:
    model, batch = made(case, case.config(**changes))
    assert_near(decoded(case, model, batch), outputs(model, batch)[0])
    if "lengths" in batch.given:
        whole = Batch(batch.given | {"lengths": None}, {})
        assert_near(decoded(case, model, whole), outputs(model, whole)[0])


@pytest.mark.parametrize(("case", "changes"), one_by_one(GENERATING))
@torch.no_grad()
def test_step_by_step_is_the_full_pass_for_every_value_of_every_field(case: Case, changes: Changes) -> None:
    """In single precision and without a gradient, as models decode."""
    model, batch = made(case, case.config(**changes), torch.float32)
    assert_near(decoded(case, model, batch), outputs(model, batch)[0])


@every_written_variant
@pytest.mark.parametrize("index", [[2, 0, 1], [1, 1, 0]], ids=str)
@torch.no_grad()
def test_reordering_a_state_is_decoding_the_reordered_batch(case: Case, changes: Changes, index: list[int]) -> None:
    config, order, fork = case.config(**changes), torch.tensor(index), 3
    model, batch = made(case, config)
    target = batch.given[case.writes]
    _, state = steps(model, case.start(model, batch), target[:, :fork])
    before = model.alignment(state) if case.looks(config) else None
    state = model.reorder(state, order)
    if before is not None:
        assert_near(model.alignment(state), before[order])
    logits, _ = steps(model, state, target[:, fork:])  # not reordered: the tokens that each entry goes on with
    given = {name: value[order] for name, value in batch.given.items()}
    given[case.writes] = torch.cat([target[order, :fork], target[:, fork:]], dim=1)
    assert_near(logits, model(**given)[:, fork:])


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        *(pytest.param(case, changes, id=f"{name(case)}-{key}") for case in GENERATING for key, changes in case.variants.items()),
        *one_by_one(GENERATING, "position", "where"),
    ],
)  # fmt: skip
@torch.no_grad()
def test_a_token_changes_no_logits_before_it(case: Case, changes: Changes) -> None:
    model, batch = made(case, case.config(**changes))
    target, logits = batch.given[case.writes], outputs(model, batch)[0]
    for place in range(target.shape[1]):
        other = target.clone()
        other[:, place] = (other[:, place] + 1) % 13
        after = model(**(batch.given | {case.writes: other}))
        assert_close(after[:, :place], logits[:, :place], rtol=0, atol=0)
        assert ((after - logits)[:, place].abs().amax(-1) > 1e-6).all()


@every_written_variant
@torch.no_grad()
def test_asking_for_the_alignment_changes_nothing(case: Case, changes: Changes) -> None:
    config = case.config(**changes)
    model, batch = made(case, config)
    state, logits = case.start(model, batch), []
    if case.looks(config):
        with pytest.raises(ValueError, match="there is no alignment before the first step"):
            model.alignment(state)
    for tokens in batch.given[case.writes].unbind(1):
        scores, state = model.step(tokens, state)
        logits.append(scores)
        if case.looks(config):
            assert_close(model.alignment(state), model.alignment(state), rtol=0, atol=0)
    assert_close(torch.stack(logits, 1), decoded(case, model, batch), rtol=0, atol=0)

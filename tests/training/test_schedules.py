import math

import pytest

from mirada.training.optimizer import SCHEDULES, rate


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_rises_to_one_at_the_end_of_the_warm_up(name: str) -> None:
    values = [rate(name, step, 1000, 100) for step in range(1000)]
    assert max(values) == values[99] == 1.0
    assert values[:100] == sorted(values[:100])
    assert values[0] == pytest.approx(0.01)
    assert values[100:] == sorted(values[100:], reverse=True)


def test_noam_is_the_formula_of_the_paper() -> None:
    width, warmup = 512, 4000
    peak = (width * warmup) ** -0.5
    for step in (1, 100, 4000, 100_000):
        wanted = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert peak * SCHEDULES["noam"](step, 0, warmup) == pytest.approx(wanted)


def test_cosine_is_at_half_in_the_middle_and_wastes_no_step() -> None:
    assert SCHEDULES["cosine"](550, 999, 100) == pytest.approx(0.5)
    assert SCHEDULES["cosine"](325, 999, 100) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert 0 < SCHEDULES["cosine"](999, 999, 100) < 1e-5


def test_a_short_run_has_a_short_warm_up() -> None:
    assert rate("constant", 1, 10, 400) == 1.0


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_warm_up_and_one_step_are_fine(name: str) -> None:
    assert 0 < rate(name, 0, 1, 0) <= 1

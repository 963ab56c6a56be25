"""Scales of scores: by hand, and the laws that they must keep."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mirada.tasks.classify.ensemble import calibration_error, fitted_scales


def overconfident(records: int = 400, classes: int = 3, factor: float = 5.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes drawn with known probabilities, and scores that are `factor` times too sure."""
    generator = torch.Generator().manual_seed(7)
    scores = torch.randn(records, classes, generator=generator)
    return factor * scores, torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)


def test_a_temperature_lowers_the_loss_and_changes_no_answer() -> None:
    scores, wanted = overconfident()
    (scale,) = fitted_scales([scores], wanted)
    assert 1 / 6.5 < scale < 1 / 4
    assert F.cross_entropy(scale * scores, wanted) < 0.6 * F.cross_entropy(scores, wanted)
    assert torch.equal((scale * scores).argmax(1), scores.argmax(1))
    for other in (0.95 * scale, 1.05 * scale):
        assert F.cross_entropy(scale * scores, wanted) < F.cross_entropy(other * scores, wanted) + 1e-6


def test_by_hand() -> None:
    """Always the same score for the first of two classes, right three times of four: sigmoid(scale x score) = 3/4."""
    scores = torch.tensor([[2.0, 0.0]]).expand(4000, 2)
    wanted = (torch.arange(4000) % 4 == 0).long()
    (scale,) = fitted_scales([scores], wanted)
    assert_close(scale, torch.log(torch.tensor(3.0)).item() / 2, rtol=1e-3, atol=1e-3)


def test_weights_count_as_repeated_records() -> None:
    scores, wanted = overconfident(60)
    twice = torch.cat([scores, scores[:20]]), torch.cat([wanted, wanted[:20]])
    weights = torch.ones(60)
    weights[:20] = 2
    weighted, repeated = fitted_scales([scores], wanted, weights), fitted_scales([twice[0]], twice[1])
    assert_close(weighted, repeated, rtol=1e-3, atol=1e-4)


def test_who_knows_nothing_has_little_to_say() -> None:
    scores, wanted = overconfident()
    noise = torch.randn(scores.shape, generator=torch.Generator().manual_seed(8))
    knows, guesses = fitted_scales([scores, noise], wanted)
    assert guesses < 0.2
    both = knows * scores + guesses * noise
    assert F.cross_entropy(both, wanted) <= F.cross_entropy(fitted_scales([scores], wanted)[0] * scores, wanted) + 5e-3


@pytest.mark.parametrize("records", [1, 5])
def test_a_few_right_answers_do_not_make_it_certain(records: int) -> None:
    scores, wanted = torch.tensor([[3.0, 0.0]]).expand(records, 2), torch.zeros(records, dtype=torch.long)
    (scale,) = fitted_scales([scores], wanted)
    assert 1 <= scale < 2


def test_it_works_while_answers_are_measured() -> None:
    with torch.inference_mode():
        scores, wanted = overconfident()
        assert fitted_scales([scores], wanted, torch.ones(len(wanted)))[0] < 0.5


def test_calibration_error_by_hand() -> None:
    assert calibration_error([1.0, 1.0], [True, True]) == 0.0
    assert calibration_error([1.0, 1.0], [True, False]) == 50.0
    # two bins of ten: |0.95 + 0.91 - 2| = 0.14 and |0.55 - 0| = 0.55, of three answers
    assert calibration_error([0.95, 0.91, 0.55], [True, True, False], bins=10) == pytest.approx(100 * 0.69 / 3)
    assert calibration_error([], []) != calibration_error([], [])  # not a number


def test_a_temperature_makes_the_calibration_error_small() -> None:
    scores, wanted = overconfident(4000)
    (scale,) = fitted_scales([scores], wanted)
    right = (scores.argmax(1) == wanted).tolist()
    before, after = (
        calibration_error((s * scores).softmax(1).amax(1).tolist(), right) for s in (1.0, scale)
    )  # fmt: skip
    assert before > 20
    assert after < 5

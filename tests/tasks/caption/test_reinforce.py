"""REINFORCE: the gradient by hand, its expectation, the moving baseline, and what does not count."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.normalizers import draws
from mirada.models.captioner import Captioner, CaptionerConfig
from mirada.tasks.caption.reinforce import PLACES, Reinforce
from mirada.training.distributed import ProcessGroup
from mirada.training.objectives import ModelLoss

BATCH, LENGTH, VOCAB = 3, 5, 7
CONFIG = CaptionerConfig(
    vocab=VOCAB, channels=1, width=6, heads=2, hidden=8, depth=1, dropout=0.0, gaze="hard:0.5", penalty=0.0
)
ALONE = ProcessGroup()


def objective(entropy: float = 0.05, strength: float = 0.7, **changed: object) -> Reinforce:
    torch.manual_seed(1)
    model = Captioner(replace(CONFIG, **changed)).double()  # type: ignore[arg-type]
    for parameter in model.parameters():
        parameter.data.normal_(std=0.5)
    return Reinforce(model, strength=strength, entropy=entropy).double()


def batch() -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(2)
    wanted = torch.randint(VOCAB, (BATCH, LENGTH), generator=source)
    wanted[1, 3:], wanted[2, 1:] = -100, -100
    return {
        "pictures": torch.randn(BATCH, 1, 6, 4, generator=source, dtype=torch.float64),
        "target": torch.randint(VOCAB, (BATCH, LENGTH), generator=source),
        "wanted": wanted,
    }


def log_p(model: torch.nn.Module, given: dict[str, Tensor]) -> Tensor:
    """The log-probability of every wanted word, 0 where there is none."""
    found = model(given["pictures"], given["target"]).log_softmax(-1)
    real = given["wanted"] != -100
    return found.gather(-1, given["wanted"].clamp(min=0).unsqueeze(-1))[..., 0] * real


@pytest.mark.parametrize("gaze", ["hard", "hard:0.5"])
def test_value_and_gradient_by_hand(gaze: str) -> None:
    learner, given = objective(gaze=gaze), batch()
    learner.baseline[:LENGTH] = torch.tensor([-9.0, -7, -5, -3, -1])
    parameters = list(learner.model.parameters())
    torch.manual_seed(5)
    loss = learner(**given)
    ours = torch.autograd.grad(loss.sum(), parameters, allow_unused=True)
    torch.manual_seed(5)
    with draws() as drawn:
        each = log_p(learner.model, given)
    real = given["wanted"] != -100
    total = torch.zeros((), dtype=torch.float64)
    for row in range(BATCH):
        for t in range(LENGTH):
            if not real[row, t]:
                continue
            total = total - each[row, t] - 0.05 * drawn[t].entropy[row, 0, 0]
            if not drawn[t].soft[row, 0, 0]:
                reward = sum(each[row, later].item() for later in range(t, LENGTH))
                total = total - 0.7 * (reward - (2 * t - 9)) * drawn[t].log_probability[row, 0, 0]
    theirs = torch.autograd.grad(total / real.sum(), parameters, allow_unused=True)
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine, other)
    assert_close(loss, -(each.sum() / real.sum()).detach().unsqueeze(0))
    softened = sum(int(draw.soft.sum()) for draw in drawn)
    assert (softened > 0) == (gaze == "hard:0.5")


def test_the_gradient_is_that_of_the_expected_cross_entropy() -> None:
    """One word, twelve cells: the expectation over draws can be written out, and many draws come near its gradient."""
    learner = objective(entropy=0.0, strength=1.0, gaze="hard")
    model, given = learner.model, {name: x[:1, ..., :1] if name != "pictures" else x[:1] for name, x in batch().items()}
    score = list(model.decoder.cell.attention.score.parameters())  # type: ignore[union-attr]
    cells = model.encode(given["pictures"]).cells  # type: ignore[operator]
    count = cells.shape[1]
    asked = model.decoder.initial_state(cells).h[-1]  # type: ignore[union-attr, operator]
    chances = model.decoder.cell.attention.score(asked[:, None, None], cells[:, None]).softmax(-1)[0, 0, 0]  # type: ignore[union-attr, operator]
    assert chances.shape == (count,)
    many = {name: x.repeat(40_000, *[1] * (x.ndim - 1)) for name, x in given.items()}
    torch.manual_seed(0)
    with draws() as drawn:
        each = log_p(model, many)[:, 0]
    chosen = drawn[0].index[:, 0, 0]
    by_cell = torch.stack([each[chosen == cell][0] for cell in range(count)])  # what a look at every cell leads to
    exact = torch.autograd.grad((chances * by_cell.detach()).sum(), score)
    learner.baseline[0] = by_cell.mean().item()
    torch.manual_seed(0)
    found = torch.autograd.grad(learner(**many).sum(), score)
    for mine, other in zip(found, exact, strict=True):
        assert_close(-mine, other, rtol=0.1, atol=0.02 * other.abs().max().item())


def test_without_draws_it_is_the_plain_loss() -> None:
    learner, given = objective(), batch()
    learner.eval()
    assert_close(learner(**given), ModelLoss(learner.model).eval()(**given))
    soft = objective(gaze="softmax")
    assert_close(soft(**given), ModelLoss(soft.model)(**given))
    assert soft.sums.sum() == 0
    smooth = Reinforce(soft.model, smoothing=0.1)
    assert_close(smooth(**given), ModelLoss(soft.model, smoothing=0.1)(**given))


def test_the_baseline_moves_by_a_tenth() -> None:
    learner, given = objective(gaze="hard"), batch()
    torch.manual_seed(7)
    learner(**given)
    torch.manual_seed(7)
    each = log_p(learner.model, given).detach()
    reward = each.flip(1).cumsum(1).flip(1)
    mean = torch.stack([reward[:, 0].mean(), reward[:2, 1].mean(), reward[:2, 2].mean(), reward[0, 3], reward[0, 4]])
    learner.end_step(ALONE)
    assert_close(learner.baseline[:LENGTH], mean)  # the first mean itself
    assert learner.baseline[LENGTH:].eq(0).all()
    before = learner.baseline.clone()
    torch.manual_seed(8)
    learner(**given)
    torch.manual_seed(8)
    reward = log_p(learner.model, given).detach().flip(1).cumsum(1).flip(1)
    learner.end_step(ALONE)
    assert_close(learner.baseline[0], 0.9 * before[0] + 0.1 * reward[:, 0].mean())
    unchanged = learner.baseline.clone()
    learner.eval()(**given)
    learner.end_step(ALONE)
    assert_close(learner.baseline, unchanged)


def test_a_batch_is_whole_for_the_baseline() -> None:
    """Two parts of a batch move it as the batch does; a soft gaze at test time makes rewards that do not depend on draws."""
    whole, halves, given = objective(), objective(), batch()
    for learner in (whole, halves):
        learner.model.decoder.cell.attention.normalizer.soft = 1.0  # type: ignore[union-attr]
    whole(**given)
    for rows in (slice(0, 1), slice(1, None)):
        halves(**{name: x[rows] for name, x in given.items()})
    whole.end_step(ALONE)
    halves.end_step(ALONE)
    assert_close(whole.baseline, halves.baseline)


def test_words_that_do_not_count_teach_nothing() -> None:
    learner, given = objective(), batch()
    longer = {
        "pictures": given["pictures"],
        "target": F.pad(given["target"], (0, 2)),
        "wanted": F.pad(given["wanted"], (0, 2), value=-100),
    }
    gradients = []
    for inputs in (given, longer):
        torch.manual_seed(3)
        gradients.append(torch.autograd.grad(learner(**inputs).sum(), list(learner.model.parameters())))
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other)


def test_late_places_share_a_baseline() -> None:
    learner = objective(gaze="hard")
    target = torch.zeros(1, PLACES + 3, dtype=torch.int64)
    learner(pictures=torch.zeros(1, 1, 4, 4, dtype=torch.float64), target=target, wanted=target)
    learner.end_step(ALONE)
    assert learner.baseline.lt(0).all()
    assert learner.counts.sum() == 0

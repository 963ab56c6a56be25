"""Changes of recordings, each by itself against a plain loop or by hand, and their laws."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.tasks.transcribe.speech import (
    DRAWS,
    STRENGTHS,
    SpecAugment,
    add_noise,
    change_speed,
    frequency_warp,
    lowest_energy,
    masked,
    named_augmentation,
    random_draws,
)

BATCH, FRAMES, MELS = 3, 29, 11
LENGTHS = torch.tensor([29, 13, 1])


def frames() -> Tensor:
    return torch.randn(BATCH, FRAMES, MELS, generator=torch.Generator().manual_seed(1))


def numbers(seed: int = 0) -> Tensor:
    return torch.from_numpy(random_draws(BATCH, seed, 0))


def test_no_change_is_no_change() -> None:
    x = frames()
    found, lengths = named_augmentation("no")(x, LENGTHS, numbers())
    assert lengths.tolist() == LENGTHS.tolist()
    for row, length in enumerate(LENGTHS.tolist()):
        assert_close(found[row, :length], x[row, :length])


@pytest.mark.parametrize("name", ["light", "strong"])
def test_what_fills_up_a_batch_changes_nothing(name: str) -> None:
    x, other = frames(), frames()
    for row, length in enumerate(LENGTHS.tolist()):
        other[row, length:] = 1e6
    (one, lengths), (two, same) = (named_augmentation(name)(each, LENGTHS, numbers()) for each in (x, other))
    assert lengths.tolist() == same.tolist()
    for row, length in enumerate(lengths.tolist()):
        assert_close(one[row, :length], two[row, :length])
        assert one[row, :length].isfinite().all()


@pytest.mark.parametrize("name", ["light", "strong"])
def test_a_row_is_augmented_in_the_same_way_in_any_batch(name: str) -> None:
    x, draws = frames(), numbers()
    together, lengths = named_augmentation(name)(x, LENGTHS, draws)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, size = named_augmentation(name)(x[row : row + 1, :length], LENGTHS[row : row + 1], draws[row : row + 1])
        assert size.item() == lengths[row].item()
        assert_close(together[row, : size.item()], alone[0])


def test_speed_and_silence_by_a_plain_loop() -> None:
    x, speed, before, after = frames(), torch.tensor([1.5, 0.8, 1.0]), torch.tensor([0, 2, 3]), torch.tensor([1, 0, 2])
    quiet = lowest_energy(x, LENGTHS)
    found, lengths = change_speed(x, LENGTHS, speed, before, after, quiet)
    for row in range(BATCH):
        length, pace = int(LENGTHS[row]), float(speed[row])
        inside = int(np.ceil(length / np.float32(pace)))
        assert lengths[row] == inside + before[row] + after[row]
        for t in range(int(lengths[row])):
            place = (t - int(before[row])) * pace
            if t < before[row] or t >= before[row] + inside:
                expected = x[row, :length].amin(0)
            else:
                place = min(place, length - 1)
                low = int(place)
                share = place - low
                expected = (1 - share) * x[row, low] + share * x[row, min(low + 1, length - 1)]
            assert_close(found[row, t], expected, atol=1e-5, rtol=1e-4)


def test_bands_lie_higher_or_lower() -> None:
    ramp = torch.arange(MELS, dtype=torch.float32).view(1, 1, MELS).expand(2, 1, MELS)
    found = ramp @ frequency_warp(MELS, torch.tensor([1.0, 1.25]))
    assert_close(found[0, 0], ramp[0, 0])
    assert_close(found[1, 0], ramp[1, 0] / 1.25)
    lower = ramp[:1] @ frequency_warp(MELS, torch.tensor([0.5]))
    assert_close(lower[0, 0], (2 * ramp[0, 0]).clamp(max=MELS - 1))


def test_noise_fills_what_is_silent_and_leaves_what_is_loud() -> None:
    x = torch.full((1, 2000, MELS), -20.0)
    x[:, :, 5] = 20.0
    found = add_noise(x, torch.tensor([0.0]), torch.tensor([1.0]), torch.tensor([0.3]))
    assert_close(found[:, :, 5], x[:, :, 5], atol=1e-4, rtol=0)
    quiet = found[0, :, [0, 10]]
    assert abs(quiet.exp().mean().log().item() - 2.0) < 0.1, "e-folds above the mean of the recording"
    assert quiet.std() > 0.3
    faint = add_noise(x, torch.tensor([0.0]), torch.tensor([0.0]), torch.tensor([0.3]))
    assert_close(faint[0, :, 0] - found[0, :, 0], torch.full((2000,), -8.0), atol=1e-3, rtol=0)


def test_masks_by_hand() -> None:
    draws = torch.tensor([[0.999, 0.0, 0.5, 0.999], [0.0, 0.0, 0.0, 0.5]])
    hidden = masked(torch.tensor([10, 10]), 0.3, 12, draws)
    assert hidden[0].nonzero().flatten().tolist() == [0, 1, 2, 8, 9]
    assert not hidden[1].any()
    assert not masked(torch.tensor([10, 10]), 0.0, 12, draws).any()


def test_masks_stay_inside_and_below_their_share() -> None:
    draws = torch.rand(500, 2, generator=torch.Generator().manual_seed(2))
    sizes = torch.randint(1, 40, (500,), generator=torch.Generator().manual_seed(3))
    hidden = masked(sizes, 0.2, 40, draws)
    assert not (hidden & (torch.arange(40) >= sizes.unsqueeze(1))).any()
    assert (hidden.sum(1) <= 0.2 * sizes + 1e-6 + (0.2 * sizes).frac().gt(0)).all()
    assert hidden.any()


def test_hidden_places_have_the_mean_of_the_recording() -> None:
    x = frames()
    found, _ = SpecAugment(time=0.5)(x, LENGTHS, torch.full((BATCH, DRAWS), 0.7))
    for row, length in enumerate(LENGTHS.tolist()):
        level = x[row, :length].mean()
        changed = (found[row, :length] != x[row, :length]).any(1)
        assert_close(found[row, :length][changed], level.expand(int(changed.sum()), MELS))
    assert (found[0] != x[0]).any()


def test_louder_by_hand() -> None:
    draws = torch.full((BATCH, DRAWS), 0.5)
    draws[:, 4] = torch.tensor([0.0, 0.5, 1.0])
    found, _ = SpecAugment(gain=0.6)(frames(), LENGTHS, draws)
    for row, more in enumerate((-0.6, 0.0, 0.6)):
        assert_close(found[row, 0], frames()[row, 0] + more)


def test_draws_are_a_function_of_seed_epoch_and_row() -> None:
    one = random_draws(5, 1, 2)
    assert one.shape == (5, DRAWS)
    assert (one >= 0).all()
    assert (one < 1).all()
    assert np.array_equal(one, random_draws.__wrapped__(5, 1, 2))
    assert np.array_equal(one, random_draws(9, 1, 2)[:5]), "rows that come after change nothing"
    assert not np.array_equal(one, random_draws(5, 1, 3))
    assert not np.array_equal(one, random_draws(5, 2, 2))
    assert one.dtype == np.float32
    assert abs(random_draws(1000, 0, 0).mean() - 0.5) < 0.01


def test_unknown_strengths_are_refused() -> None:
    assert set(STRENGTHS) == {"no", "light", "strong"}
    with pytest.raises(ValueError, match=r"unknown augment 'lihgt'; known: light, no, strong\. Did you mean 'light'\?"):
        named_augmentation("lihgt")

"""Windows of a long text."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mirada.tasks.write.windows import Windows, in_order

LENGTH, ROWS = 7, 5


def epoch_of(windows: Windows, epoch: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [windows.batch(epoch * len(windows) + place) for place in range(len(windows))]


# --- windows


@given(n=st.integers(2, 300), length=st.integers(1, 20), rows=st.integers(1, 9), seed=st.integers(0, 1000))
def test_an_epoch_visits_windows_that_touch_but_do_not_overlap(n: int, length: int, rows: int, seed: int) -> None:
    if n <= length:
        return
    windows = Windows(torch.arange(n), length, rows, seed)
    for epoch in range(3):
        batches = epoch_of(windows, epoch)
        sizes = [len(inputs) for inputs, _ in batches]
        assert 1 <= min(sizes) <= max(sizes) <= min(min(sizes) + 1, rows)
        for inputs, wanted in batches:
            torch.testing.assert_close(wanted, inputs + 1)  # token i is i
        seen = torch.cat([inputs.flatten() for inputs, _ in batches]).sort().values
        torch.testing.assert_close(seen, torch.arange(len(seen)) + seen[0])
        assert n - 1 - len(seen) < 2 * length


def test_epochs_cut_elsewhere_and_order_anew() -> None:
    windows = Windows(torch.arange(1000), LENGTH, ROWS, seed=3)
    starts = [[int(row[0]) for inputs, _ in epoch_of(windows, epoch) for row in inputs] for epoch in range(40)]
    assert {epoch[0] % LENGTH for epoch in starts} == set(range(LENGTH))
    assert all(epoch != sorted(epoch) for epoch in starts)
    assert min(min(epoch) for epoch in starts) == 0  # both ends are seen in some epoch
    assert max(max(epoch) for epoch in starts) == 1000 - 1 - LENGTH


def test_a_batch_depends_on_nothing_that_was_asked_before() -> None:
    tokens = torch.randint(100, (211,))
    windows = Windows(tokens, LENGTH, ROWS, seed=3)
    expected = [windows.batch(step) for step in range(3 * len(windows))]
    again = Windows(tokens, LENGTH, ROWS, seed=3)
    for step in reversed(range(3 * len(windows))):
        torch.testing.assert_close(again.batch(step), expected[step])
    assert not torch.equal(Windows(tokens, LENGTH, ROWS, seed=4).batch(0)[0], expected[0][0])


def test_the_shortest_text_is_one_window() -> None:
    windows = Windows(torch.tensor([4, 5, 6], dtype=torch.int16), length=2, rows=3, seed=0)
    assert len(windows) == 1
    for step in range(3):
        inputs, wanted = windows.batch(step)
        torch.testing.assert_close(inputs, torch.tensor([[4, 5]]))
        torch.testing.assert_close(wanted, torch.tensor([[5, 6]]))


# --- in order


@given(n=st.integers(2, 100), length=st.integers(1, 20), rows=st.integers(1, 9))
def test_every_token_but_the_first_is_wanted_once(n: int, length: int, rows: int) -> None:
    batches = in_order(torch.arange(n), length, rows)
    wanted = torch.cat([wanted.flatten() for _, wanted in batches])
    torch.testing.assert_close(wanted[wanted != -100], torch.arange(1, n))
    for inputs, wanted in batches:
        assert inputs.shape == wanted.shape
        assert inputs.shape[1] == length
        assert len(inputs) <= rows
        torch.testing.assert_close(inputs[wanted != -100] + 1, wanted[wanted != -100])
        assert inputs.min() >= 0


def test_in_order_by_hand() -> None:
    (first, first_wanted), (second, second_wanted) = in_order(torch.arange(20, 28), 3, 2)
    torch.testing.assert_close(first, torch.tensor([[20, 21, 22], [23, 24, 25]]))
    torch.testing.assert_close(first_wanted, torch.tensor([[21, 22, 23], [24, 25, 26]]))
    torch.testing.assert_close(second, torch.tensor([[26, 0, 0]]))
    torch.testing.assert_close(second_wanted, torch.tensor([[27, -100, -100]]))


# --- refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Windows(torch.arange(7), 7, 1, 0),
            "a text must be longer than a window: got 7 tokens, length=7. Take a longer text or length=6",
        ),
        (lambda: Windows(torch.arange(7), 0, 1, 0), "length and rows must be at least 1: got length=0, rows=1"),
        (lambda: Windows(torch.arange(7), 1, 0, 0), "length and rows must be at least 1: got length=1, rows=0"),
        (lambda: Windows(torch.zeros(7), 2, 1, 0), "tokens must hold integers"),
        (lambda: Windows(torch.zeros(7, 1, dtype=torch.int64), 2, 1, 0), r"tokens must have the axes \(n\)"),
        (lambda: Windows(torch.arange(7), 2, 1, -3), "must be at least 0"),
        (lambda: Windows(torch.arange(7), 2, 1, 0).batch(-1), "step must be at least 0: got -1"),
        (lambda: in_order(torch.arange(1), 2, 1), "at least 2 tokens to predict one: got 1"),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

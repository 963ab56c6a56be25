"""Sampling: frequencies against probabilities, supports, and texts that depend on their numbers alone."""

import math

import pytest
import torch
from torch.testing import assert_close

from mirada.decoding.greedy import Greedy, Sample, draw
from mirada.decoding.search import Forbid
from tests.decoding.models import FIRST, LIMITS, early_end, replay, subject
from tests.decoding.table import Table, random_table
from tests.decoding.test_stepper import BATCH, MODELS

MANY = 10_000
P = torch.tensor([0.05, 0.3, 0.1, 0.4, 0.15])


def frequencies(search: Sample, probabilities=P, rules=(), many=MANY) -> torch.Tensor:
    """How often each token comes first, of many texts."""
    table = Table(probabilities.expand(len(probabilities), -1))
    found = search(table, table.start(many), torch.zeros(many, dtype=torch.long), None, 1, rules=rules)
    return torch.bincount(torch.tensor([best[0].tokens[0] for best in found]), minlength=len(probabilities)) / many


def assert_drawn_from(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Frequencies of a sample of this distribution: a chi-square as 999 of 1000 are, and nothing that cannot come."""
    possible = expected > 0
    assert (found[~possible] == 0).all()
    expected, found = expected[possible], found[possible]
    free = len(expected) - 1
    chi = float(MANY * ((found - expected) ** 2 / expected).sum())
    assert chi < free * (1 - 2 / (9 * free) + 3.09 * math.sqrt(2 / (9 * free))) ** 3  # Wilson and Hilferty


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tokens_come_as_often_as_they_are_likely(seed):
    assert_drawn_from(frequencies(Sample(seed=seed)), P)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_a_power(temperature):
    heated = P ** (1 / temperature)
    assert_drawn_from(frequencies(Sample(temperature)), heated / heated.sum())


def test_top_k_keeps_the_likeliest():
    assert_drawn_from(frequencies(Sample(top_k=3)), torch.tensor([0, 0.3, 0, 0.4, 0.15]) / 0.85)
    assert_drawn_from(frequencies(Sample(top_k=9)), P)


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.01, [3]), (0.39, [3]), (0.41, [1, 3]), (0.69, [1, 3]), (0.71, [1, 3, 4]), (0.96, range(5))]
)
def test_top_p_keeps_the_smallest_set_that_is_enough(top_p, kept):
    expected = torch.zeros(5)
    expected[list(kept)] = P[list(kept)]
    found = frequencies(Sample(top_p=top_p))
    if len(kept) == 1:
        assert found[3] == 1
    else:
        assert_drawn_from(found, expected / expected.sum())


def test_top_p_is_of_what_temperature_and_top_k_leave():
    assert_drawn_from(
        frequencies(Sample(top_k=3, top_p=0.8)), torch.tensor([0, 3.0, 0, 4.0, 0]) / 7
    )  # .35 + .47 of .85
    squared = P**2 / (P**2).sum()  # .57 and .32 of it are enough for .8
    expected = torch.zeros(5).index_copy(0, torch.tensor([1, 3]), squared[[1, 3]])
    assert_drawn_from(frequencies(Sample(0.5, top_p=0.8)), expected / expected.sum())


def test_rules_leave_the_others_as_likely_among_themselves():
    assert_drawn_from(frequencies(Sample(), rules=(Forbid([3]),)), torch.tensor([0.05, 0.3, 0.1, 0, 0.15]) / 0.6)


def test_a_nucleus_may_be_most_of_a_large_vocabulary():
    vocab = 3001
    p = torch.arange(1.0, vocab + 1)
    p /= p.sum()
    found = frequencies(Sample(top_p=0.75), p, many=1000)
    smallest = vocab - 1 - int((p.flip(0).cumsum(0) < 0.75).sum())  # half of it: the mass grows as the square
    drawn = found.nonzero().flatten()
    assert smallest == 1500
    assert smallest <= int(drawn.min()) < smallest + 30
    assert int(drawn.max()) > vocab - 30


def test_two_draws_of_a_text_have_nothing_to_do_with_each_other():
    table = Table(P.expand(5, -1))
    found = Sample()(table, table.start(MANY), torch.zeros(MANY, dtype=torch.long), None, 2)
    pairs = torch.tensor([best[0].tokens for best in found])
    counted = torch.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=25) / MANY
    assert_drawn_from(counted, torch.outer(P, P).flatten())


def test_only_the_seed_and_the_number_matter():
    table = Table(random_table(5, 5))

    def texts(numbers, seed=0):
        first = torch.zeros(len(numbers), dtype=torch.long)
        found = Sample(seed=seed)(table, table.start(len(numbers)), first, 3, 9, numbers=numbers)
        return [best[0].tokens for best in found]

    numbers = [4, 17, 0, 3, 9, 12]
    together = texts(numbers)
    assert together == [texts([number])[0] for number in numbers]
    assert together == texts(numbers[::-1])[::-1]
    assert together == texts(numbers)
    assert len({tuple(text) for text in together}) > 1
    assert texts(numbers, seed=1) != together
    assert texts(range(3)) == [best[0].tokens for best in Sample()(table, table.start(3), torch.zeros(3).long(), 3, 9)]


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_is_its_entries_alone(name):
    model, start, alone, _ = subject(name)
    end, search = early_end(model, start), Sample(0.8, top_k=7, top_p=0.95, seed=5)
    together = search(model, start(), FIRST, end, LIMITS)
    for entry in range(BATCH):
        [[own]] = search(model, alone(entry), FIRST[entry : entry + 1], end, LIMITS[entry], numbers=[entry])
        assert own.tokens == together[entry][0].tokens
        assert own.logprob == pytest.approx(together[entry][0].logprob, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["transformer", "bahdanau", "luong", "luong local-m"])
def test_log_probabilities_and_alignments_are_those_of_the_model(name):
    model, start, _, _ = subject(name)
    for entry, [found] in enumerate(Sample(1.5, top_k=5)(model, start(), FIRST, 2, LIMITS, align=True)):
        logprob, looks = replay(model, model.reorder(start(), torch.tensor([entry])), entry, found, 2)
        assert found.logprob == pytest.approx(logprob, rel=1e-4)
        assert_close(found.alignment, looks, rtol=1e-4, atol=1e-4)


def test_one_candidate_is_greedy():
    table = Table(random_table(7, 7))
    greedy = Greedy()(table, table.start(2), torch.tensor([0, 1]), 3, 6)
    for search in (Sample(top_k=1), Sample(top_p=1e-9), Sample(temperature=1e-6)):
        found = search(table, table.start(2), torch.tensor([0, 1]), 3, 6)
        assert [best[0].tokens for best in found] == [best[0].tokens for best in greedy]


def test_large_scores_are_safe():
    class Loud(Table):
        def step(self, tokens, state):
            logits, state = super().step(tokens, state)
            return logits * 1e4 - 1e6, state

    table = Loud(P.expand(5, -1))
    [[found]] = Sample()(table, table.start(1), torch.tensor([0]), None, 3)
    assert found.tokens == [3, 3, 3]
    assert math.isfinite(found.logprob)


def test_draws_are_even():
    drawn = torch.tensor([draw(3, number, length) for number in range(100) for length in range(50)])
    assert 0 <= float(drawn.min()) < 0.002
    assert 0.998 < float(drawn.max()) < 1
    assert_close(torch.histc(drawn, 10, 0, 1) / len(drawn), torch.full((10,), 0.1), rtol=0, atol=0.015)


def test_refusals():
    for temperature in (0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"temperature must be above 0 and finite: got .* use Greedy\(\)"):
            Sample(temperature)
    with pytest.raises(ValueError, match="top_k must be at least 1, or 0 for all tokens: got -1"):
        Sample(top_k=-1)
    for top_p in (0, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"top_p must lie in \(0, 1\]: got"):
            Sample(top_p=top_p)

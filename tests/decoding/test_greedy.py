"""Greedy search: the argmax of full passes, numbers by hand, and batches of texts that end at different times."""

import math

import pytest
import torch
from torch.testing import assert_close

from mirada import look
from mirada.decoding.greedy import Greedy
from mirada.decoding.search import AtLeast, Forbid, NoRepeat
from tests.decoding.models import FIRST, LIMITS, early_end, replay, subject
from tests.decoding.table import Table, random_table
from tests.decoding.test_stepper import BATCH, LENGTHS, MODELS, SOURCE

every_model = pytest.mark.parametrize("name", MODELS)
looking = pytest.mark.parametrize("name", [name for name in MODELS if "without attention" not in name])

# 0 starts; 1 follows it, then 2, then 1 or the end, 3
CHAIN = torch.tensor([[0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.2, 0.2, 0.5], [0.25, 0.25, 0.25, 0.25]])


def test_by_hand():
    [[found]] = Greedy()(Table(CHAIN), Table(CHAIN).start(1), torch.tensor([0]), end=3, most=9)
    assert (found.tokens, found.finished, found.alignment) == ([1, 2], True, None)
    assert found.logprob == pytest.approx(math.log(0.6 * 0.7 * 0.5), rel=1e-6)
    assert found.score == pytest.approx(found.logprob / 3)


@pytest.mark.parametrize(("most", "tokens", "finished"), [(1, [1], False), (2, [1, 2], False), (3, [1, 2], True)])
def test_the_end_takes_a_step_of_the_limit(most, tokens, finished):
    table = Table(CHAIN)
    [[found]] = Greedy()(table, table.start(1), torch.tensor([0]), 3, most)
    assert (found.tokens, found.finished, len(table.rows)) == (tokens, finished, most)


def test_without_an_end_all_steps_are_taken():
    table = Table(CHAIN)
    [[found]] = Greedy()(table, table.start(1), torch.tensor([0]), None, 5)
    assert found.tokens == [1, 2, 3, 0, 1]
    assert not found.finished


@every_model
@torch.no_grad()
def test_every_token_is_the_argmax_of_a_full_pass(name):
    model, start, _, full = subject(name)
    end = early_end(model, start)
    for entry, [found] in enumerate(Greedy()(model, start(), FIRST, end, LIMITS)):
        wanted = [*found.tokens, end] if found.finished else found.tokens
        logits = full(entry, torch.tensor([[int(FIRST[entry]), *wanted[:-1]]]))[0]
        assert logits.argmax(-1).tolist() == wanted
        assert found.finished or len(wanted) == LIMITS[entry]
        own = logits.log_softmax(-1)[torch.arange(len(wanted)), wanted].sum()
        assert found.logprob == pytest.approx(float(own), rel=1e-4, abs=1e-4)


@every_model
def test_a_batch_is_its_entries_alone(name):
    model, start, alone, _ = subject(name)
    end = early_end(model, start)
    together = Greedy()(model, start(), FIRST, end, LIMITS)
    for entry in range(BATCH):
        [[own]] = Greedy()(model, alone(entry), FIRST[entry : entry + 1], end, LIMITS[entry])
        [found] = together[entry]
        assert (own.tokens, own.finished) == (found.tokens, found.finished)
        assert own.logprob == pytest.approx(found.logprob, rel=1e-4, abs=1e-4)


@looking
def test_alignments_are_those_of_its_own_steps(name):
    model, start, alone, _ = subject(name)
    end = early_end(model, start)
    for entry, [found] in enumerate(Greedy()(model, start(), FIRST, end, LIMITS, align=True)):
        assert len(found.alignment) == len(found.tokens) + found.finished
        _, looks = (
            replay(model, alone(entry), entry, found, end)
            if "gpt" in name
            else replay_in_place(name, entry, found, end)
        )
        assert_close(found.alignment, looks, rtol=1e-4, atol=1e-4)


def replay_in_place(name, entry, found, end):
    """The hypothesis stepped in a batch of one, read out of the padded source: places beyond its length stay."""
    model, start, _, _ = subject(name)
    return replay(model, model.reorder(start(), torch.tensor([entry])), entry, found, end)


def test_alignments_are_those_of_a_full_pass():
    model, start, _, _ = subject("transformer")
    end = early_end(model, start)
    for entry, [found] in enumerate(Greedy()(model, start(), FIRST, end, LIMITS, align=True)):
        written = torch.tensor([[int(FIRST[entry]), *found.tokens]])[:, : len(found.alignment)]
        with look(model) as seen, torch.no_grad():
            model(SOURCE[entry : entry + 1], LENGTHS[entry : entry + 1], written)
        weights = seen["decoder.layers.1.cross"].weights().mean(1)[0]
        assert_close(found.alignment, weights, rtol=1e-4, atol=1e-5)


def test_a_growing_text_is_looked_at_from_below():
    model, start, _, _ = subject("gpt")
    [[found], *_] = Greedy()(model, start(), FIRST, None, 4, align=True)
    assert found.alignment.shape == (4, 4)
    assert_close(found.alignment, found.alignment.tril(), rtol=0, atol=0)
    assert_close(found.alignment.sum(1), torch.ones(4))


def test_a_model_without_attention_has_no_alignment_but_words():
    model, start, _, _ = subject("seq2seq without attention")
    assert len(Greedy()(model, start(), FIRST, None, 3)) == BATCH
    with pytest.raises(ValueError, match="without attention has no alignment"):
        Greedy()(model, start(), FIRST, None, 3, align=True)


def test_texts_that_have_ended_leave_when_they_are_many():
    tables = random_table(8, 5, 5, seed=4)
    limits, table = [1, 1, 3, 3, 5, 6, 7, 8], Table(tables)
    found = Greedy()(table, table.start(8), torch.zeros(8, dtype=torch.long), None, limits)
    assert [len(best[0].tokens) for best in found] == limits
    assert table.rows == [8, 6, 6, 4, 4, 3, 2, 1]
    assert table.reorders == 5
    for entry in range(8):
        single = Table(tables[entry])
        [[own]] = Greedy()(single, single.start(1), torch.tensor([0]), None, limits[entry])
        assert own.tokens == found[entry][0].tokens


def test_one_of_many_texts_stays_in_the_batch_when_it_has_ended():
    table = Table(random_table(8, 5, 5))
    found = Greedy()(table, table.start(8), torch.zeros(8, dtype=torch.long), None, [2] + [4] * 7)
    assert table.rows == [8, 8, 8, 8]
    assert [len(best[0].tokens) for best in found] == [2] + [4] * 7


def test_rules_take_tokens_away_but_not_probability():
    table = Table(CHAIN)
    [[found]] = Greedy()(table, table.start(1), torch.tensor([0]), 3, 9, rules=(Forbid([1]), AtLeast(3), NoRepeat(2)))
    # never 1; no end before three tokens; 2 2 only once, so 0; after 2 2 0 2 no 2 and no 0 may follow
    assert (found.tokens, found.finished) == ([2, 2, 0, 2], True)
    assert found.logprob == pytest.approx(math.log(0.2 * 0.2 * 0.1 * 0.2 * 0.5), rel=1e-6)


def test_an_empty_batch_has_no_texts():
    assert Greedy()(Table(CHAIN), Table(CHAIN).start(0), torch.zeros(0, dtype=torch.long), 3, 5) == []


def test_half_precision_scores_are_enough():
    class Half(Table):
        def step(self, tokens, state):
            logits, state = super().step(tokens, state)
            return logits.bfloat16(), state

    table = Half(CHAIN)
    [[found]] = Greedy()(table, table.start(1), torch.tensor([0]), 3, 9)
    assert found.tokens == [1, 2]
    assert found.logprob == pytest.approx(math.log(0.6 * 0.7 * 0.5), rel=1e-2)

"""What every search checks before it begins, and how it treats scores that are not numbers."""

import pytest
import torch

from mirada.decoding.beam import Beam
from mirada.decoding.greedy import Greedy, Sample
from mirada.decoding.search import AtLeast, Forbid, Repeated
from mirada.models.bert import BERT, BERTConfig
from mirada.models.gpt import GPT, GPTConfig
from tests.decoding.table import Table, random_table

every_search = pytest.mark.parametrize("search", [Greedy(), Beam(3), Sample()], ids=str)
FIRST = torch.tensor([0, 0])


def call(search, table=None, first=FIRST, end=3, most=5, **options):
    table = Table(random_table(5, 5)) if table is None else table
    return search(table, table.start(2), first, end, most, **options)


@every_search
def test_the_refusals(search):
    with pytest.raises(ValueError, match="needs a model with start, step, reorder and alignment: got BERT"):
        search(BERT(BERTConfig.tiny()), None, FIRST, 3, 5)
    with pytest.raises(ValueError, match=r"GPT is in training mode, .* Call model.eval\(\) first"):
        search(GPT(GPTConfig.tiny()), None, FIRST, 3, 5)
    with pytest.raises(ValueError, match=r"first must have the axes \(batch\): got shape \(2, 1\)"):
        call(search, first=FIRST.unsqueeze(1))
    with pytest.raises(ValueError, match=r"first must hold integers: got torch\.float32"):
        call(search, first=FIRST.float())
    with pytest.raises(ValueError, match="end must be a token or None: got -1"):
        call(search, end=-1)
    with pytest.raises(ValueError, match="end must be a token of the vocabulary of 5: got 5"):
        call(search, end=5)
    with pytest.raises(ValueError, match="most must be one number, or one per entry: got 3 for batch=2"):
        call(search, most=[1, 2, 3])
    with pytest.raises(ValueError, match=r"most must be at least 1: got \[4, 0\]"):
        call(search, most=[4, 0])
    with pytest.raises(ValueError, match="numbers must have one per entry: got 1 for batch=2"):
        call(search, numbers=[7])
    with pytest.raises(ValueError, match=r"rules must be values such as Forbid\(\[0\]\) or AtLeast\(3\): got 3"):
        call(search, rules=[3])


class Broken(Table):
    """Its scores of one token turn into something else after a while."""

    value = torch.nan

    def step(self, tokens, state):
        logits, state = super().step(tokens, state)
        if len(self.rows) == 3:
            logits[-1, 4] = self.value
        return logits, state


@every_search
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_not_numbers_are_named(search, value):
    table = Broken(random_table(5, 5))
    table.value = value
    for rules in ((), (Forbid([4]),)):
        table.rows.clear()
        with pytest.raises(ValueError, match=r"scores are not numbers, after 2 tokens of text 17. Look for NaN or inf"):
            call(search, table, end=None, numbers=[11, 17], rules=rules)


@every_search
def test_scores_of_texts_that_have_ended_do_not_matter(search):
    table = Broken(random_table(5, 5))
    found = search(table, table.start(8), torch.zeros(8, dtype=torch.long), None, [4] * 7 + [1])
    assert [len(best[0].tokens) for best in found] == [4] * 7 + [1]


@every_search
def test_tokens_that_the_model_rules_out_are_not_written(search):
    table = random_table(5, 5)
    table[:, 2] = 0
    for best in call(search, Table(table), end=None):
        assert all(2 not in found.tokens for found in best)


@every_search
def test_rules_that_leave_nothing_are_named(search):
    rules = (Forbid([0, 1, 2, 4]), AtLeast(1))
    with pytest.raises(ValueError, match=r"no token may come next, after 0 tokens of text 0: the rules \[Forbid"):
        call(search, rules=rules)


@every_search
def test_a_step_runs_in_inference_mode_and_results_are_ordinary(search):
    table = Table(random_table(5, 5), random_table(5, 7))
    found = call(search, table, align=True)
    assert table.inference
    assert not torch.is_inference_mode_enabled()
    assert not any(best[0].alignment.is_inference() for best in found)


@every_search
def test_limits_are_each_entry_s_own(search):
    found = call(search, end=None, most=[2, 5])
    assert [len(best[0].tokens) for best in found] == [2, 5]
    assert not any(best[0].finished for best in found)


@every_search
def test_the_same_search_finds_the_same(search):
    once, again = ([best[0] for best in call(search)] for _ in range(2))
    assert [(found.tokens, found.logprob) for found in once] == [(found.tokens, found.logprob) for found in again]


def test_searches_are_values():
    assert Beam(3) == Beam(3) != Beam(4)
    assert Greedy() == Greedy()
    assert Sample(seed=1) != Sample(seed=2)


@every_search
def test_the_first_of_several_ends_ends_a_text(search):
    scores = torch.full((5, 5), -3.0)
    scores[0, 1] = scores[1, 2] = scores[2, 4] = scores[4, 3] = 30.0  # 0 -> 1 -> 2 -> 4 -> 3
    for end, wanted in ((3, [1, 2, 4]), ([3], [1, 2, 4]), ([3, 4], [1, 2]), ((4, 3), [1, 2]), ([3, 2, 4], [1])):
        for best, *_ in call(search, Table(scores.exp()), end=end):
            assert (best.tokens, best.finished) == (wanted, True)
    with pytest.raises(ValueError, match="end must be a token of the vocabulary of 5: got 7"):
        call(search, end=[3, 7])


def test_a_log_probability_is_that_of_the_model_whatever_a_penalty_chooses():
    scores = torch.tensor([[1.0, 3.0, 2.5]]).repeat(3, 1)
    ((best, *_), *_) = call(Greedy(), Table(scores.exp()), end=None, most=2, rules=[Repeated(2.0)])
    assert best.tokens == [1, 2]
    own = scores[0].double().log_softmax(-1)
    assert best.logprob == pytest.approx(float(own[1] + own[2]), abs=1e-6)
    with pytest.raises(ValueError, match="a beam ranks texts by the scores of the model: Repeated"):
        call(Beam(2), Table(scores.exp()), end=None, most=2, rules=[Repeated(2.0)])

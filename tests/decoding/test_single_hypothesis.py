"""A stream is the text of a call, token by token."""

from itertools import islice

import pytest
import torch

from mirada.decoding.greedy import Greedy, Sample
from mirada.decoding.search import AtLeast, Forbid
from tests.decoding.models import subject
from tests.decoding.table import Table, random_table

searches = pytest.mark.parametrize("search", [Greedy(), Sample(0.7, seed=4)], ids=str)


@searches
@pytest.mark.parametrize("number", [0, 3, 5])
def test_a_stream_is_the_text_of_a_call(search, number):
    table, first, rules = Table(random_table(5, 5, seed=2)), torch.tensor([0]), (Forbid([0]), AtLeast(2))
    [[found]] = search(table, table.start(1), first, 3, 9, rules=rules, numbers=[number])
    choices = list(search.stream(table, table.start(1), first, 3, 9, rules=rules, number=number))
    assert [choice.token for choice in choices if choice.token != 3] == found.tokens
    assert sum(choice.logprob for choice in choices) / len(choices) == found.score


@searches
@pytest.mark.parametrize("name", ["transformer", "gpt", "luong", "captioner"])
def test_models_stream(search, name):
    model, _, alone, _ = subject(name)
    [[found]] = search(model, alone(0), torch.tensor([0]), None, 6)
    choices = search.stream(model, alone(0), torch.tensor([0]), None, 6)
    assert [choice.token for choice in choices] == found.tokens


@torch.no_grad()
def test_a_stream_continues_a_prompt():
    model, _, _, full = subject("gpt")
    prompt = torch.tensor([[4, 8, 2, 7]])
    _, state = model.step(prompt[:, :-1], model.start(1))
    tokens = [choice.token for choice in Greedy().stream(model, state, prompt[0, -1:], None, 5)]
    whole = torch.cat([prompt, torch.tensor([tokens])], dim=1)
    assert full(0, whole)[0].argmax(-1).tolist()[3:-1] == tokens


@searches
def test_a_stream_takes_a_step_when_it_is_asked(search):
    table = Table(random_table(5, 5))
    stream = search.stream(table, table.start(1), torch.tensor([0]), None, 9)
    assert table.rows == []
    assert len(list(islice(stream, 3))) == 3
    assert len(table.rows) == 3


@searches
def test_the_caller_is_not_put_into_inference_mode(search):
    table = Table(random_table(5, 5))
    for _ in search.stream(table, table.start(1), torch.tensor([0]), None, 4):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
    assert table.inference


def test_a_stream_of_several_texts_is_refused_at_once():
    table = Table(random_table(5, 5))
    with pytest.raises(ValueError, match=r"a stream is of one text: got first of batch=2\. Call the search instead"):
        Greedy().stream(table, table.start(2), torch.tensor([0, 0]), 3, 4)
    with pytest.raises(ValueError, match="most must be at least 1"):
        Greedy().stream(table, table.start(1), torch.tensor([0]), 3, 0)

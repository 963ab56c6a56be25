"""Every head is dropped once; what the output loses is what is reported."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mirada import Attention, DropHead, MultiHead, importance, intervene
from mirada.layers.model import Model
from mirada.looking.explain.importance import difference, divergence
from mirada.models.bert import BERT
from mirada.models.reader import Reader


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (Attention(MultiHead(12, heads)) for heads in (2, 3))
        self.classes = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor, twice: bool = False) -> torch.Tensor:
        return self.classes(x + self.second(x + self.first(x)) * (1 + twice))


@pytest.mark.parametrize("measure", [divergence, difference])
def test_it_is_the_change_without_each_head(measure) -> None:  # type: ignore[no-untyped-def]
    model, x = Two(), torch.randn(2, 7, 12)
    found = importance(model, x, measure)
    assert {name: len(row) for name, row in found.by_layer.items()} == {"first": 2, "second": 3}
    for name, head, change in found.ranked:
        with torch.no_grad(), intervene(model, {name: DropHead(head)}):
            after = model(x)
        assert_close(change, float(measure(model(x).detach(), after)))
    changes = [change for _, _, change in found.ranked]
    assert changes == sorted(changes, reverse=True)
    assert min(changes) > 0


def test_a_head_that_says_nothing_matters_nothing() -> None:
    model, x = Two(), torch.randn(2, 7, 12)
    with torch.no_grad():
        model.second.heads.out.weight[:, 4:8] = 0
    assert importance(model, {"x": x, "twice": True})["second"][1] == 0
    assert importance(model, lambda: model(x)[:, 0])["second"][1] == 0


def test_it_prints_as_a_table() -> None:
    lines = str(importance(Two(), (torch.randn(2, 7, 12),))).splitlines()
    assert lines[0].split() == ["divergence", "without", "head", "0", "head", "1", "head", "2"]
    assert [line.split()[0] for line in lines[1:]] == ["first", "second"]
    assert [len(line.split()) for line in lines[1:]] == [3, 4]


def test_measures_by_hand() -> None:
    before, after = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 3.0]]).log() * torch.tensor([1.0, 0.0])
    expected = 0.5 * torch.tensor([0.5 / 0.75, 0.5 / 0.25]).log().sum()
    assert_close(divergence(before, after), expected.double())


def test_a_class_that_is_ruled_out_counts_nothing() -> None:
    gone = -torch.inf
    before, after = torch.tensor([[0.0, 0.0, gone]]), torch.tensor([[0.0, 1.0, gone]])
    assert_close(divergence(before, after), divergence(before[:, :2], after[:, :2]))
    assert divergence(before, torch.tensor([[0.0, gone, 0.0]])) == torch.inf
    assert divergence(torch.full((1, 3), gone), before).isnan()  # what is broken stays so


@pytest.mark.parametrize("make", [BERT, Reader], ids=["bert", "reader"])
def test_an_output_of_several_tensors_is_compared_by_its_first(make: type[Model]) -> None:
    model = make(make.Config.tiny()).eval()
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    given = (tokens,) if make is BERT else (tokens, torch.tensor([[0, 0, 1, 1, 1]]))
    found = importance(model, given)
    assert all(bool(row.isfinite().all()) for row in found.by_layer.values())
    expected = importance(model, lambda: model(*given)[0])
    assert [x for *_, x in found.ranked] == [x for *_, x in expected.ranked]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [(lambda: (1, 2), "compares tensors: got tuple"), (lambda: torch.ones(1), "reached no attention layer")],
)
def test_wrong_inputs(inputs, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        importance(Two(), inputs)
    with pytest.raises(ValueError, match="found no mirada Attention layer in Linear"):
        importance(nn.Linear(2, 2), torch.ones(2))

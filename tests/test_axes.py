"""Axis words are enforced while tests run: what breaks an annotation fails, what a function refuses itself does not."""

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.scores import Dot
from mirada.layers.norm import LayerNorm
from mirada.models.bert import BERT, BERTConfig
from tests.axes import WrongAxesError, enforced


def joined(x: Float[Tensor, "batch width"], y: Float[Tensor, "batch other"]) -> Float[Tensor, "batch both"]:
    return torch.cat([x, y[: len(x)]], dim=1)


def mean(x: Float[Tensor, "batch width"]) -> Float[Tensor, " batch"]:
    return x.mean(0)


def picked(x: Float[Tensor, "batch width"], index: Int[Tensor, " batch"] | None = None) -> Float[Tensor, "..."]:
    if x.ndim == 1:
        raise ValueError("x must have a batch")
    return x if index is None else x[index]


def test_one_word_is_one_size() -> None:
    assert enforced(joined)(torch.ones(3, 2), torch.ones(3, 5)).shape == (3, 7)
    with pytest.raises(
        WrongAxesError, match=r"joined: y is not .*got x=torch.float32\(3, 2\), y=torch.float32\(5, 5\)"
    ):
        enforced(joined)(torch.ones(3, 2), torch.ones(5, 5))


def test_a_result_is_checked_against_the_arguments() -> None:
    assert enforced(mean)(torch.ones(3, 3)).shape == (3,)
    with pytest.raises(WrongAxesError, match="mean: return is not"):
        enforced(mean)(torch.ones(3, 2))


def test_kinds_of_numbers_count() -> None:
    with pytest.raises(WrongAxesError, match="picked: index is not"):
        enforced(picked)(torch.ones(2, 2), torch.tensor([True, False]))
    with pytest.raises(WrongAxesError, match="picked: x is not"):
        enforced(picked)(torch.ones(2, 2, dtype=torch.int64), index=None)


def test_arrays_count_too() -> None:
    def first(levels: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, " columns"]:
        return levels[0]

    assert enforced(first)(np.ones((2, 3))).shape == (3,)
    with pytest.raises(WrongAxesError, match=r"first: levels is not .*got levels=float64\(2, 3, 5\)"):
        enforced(first)(np.ones((2, 3, 5)))


def test_what_a_function_refuses_itself_is_its_own_error() -> None:
    with pytest.raises(ValueError, match="x must have a batch"):
        enforced(picked)(torch.ones(2))


def test_a_verdict_is_not_kept_for_other_shapes() -> None:
    check = enforced(mean)
    for _ in range(2):
        assert check(torch.ones(5, 5)).shape == (5,)
        with pytest.raises(WrongAxesError):
            check(torch.ones(5, 7))


def test_a_verdict_is_not_kept_for_other_parts_of_a_tuple() -> None:
    def both(pair: tuple[Float[Tensor, "batch width"], Float[Tensor, "batch width"] | None]) -> int:
        return len(pair)

    check, fits = enforced(both), torch.ones(3, 5)
    for _ in range(2):
        assert check((fits, fits)) == check((fits, None)) == 2
        for wrong in ((fits, torch.ones(5, 3)), (fits, fits, fits), (fits, "text")):
            with pytest.raises(WrongAxesError, match="both: pair is not"):
                check(wrong)


def test_a_function_of_mirada_called_with_a_wrong_axis_is_caught() -> None:
    """The summary reads the first place, whatever the axes are: without the hook this passes unseen."""
    model = BERT(BERTConfig.tiny())
    assert model.summary(torch.ones(2, 3, 16)).shape == (2, 16)
    with pytest.raises(WrongAxesError, match=r"BERT\.summary: h is not"):
        model.summary(torch.ones(2, 3, 5, 16))
    with pytest.raises(WrongAxesError, match="queries"):
        Dot().queries(torch.ones(3, 5, 4))
    with pytest.raises(WrongAxesError, match=r"LayerNorm\.forward: real is not"):
        LayerNorm(4)(torch.ones(2, 3, 4), real=torch.ones(2, 5, dtype=torch.bool))


def test_compiled_code_is_left_alone() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(enforced(joined), backend="eager", fullgraph=True)
    assert compiled(torch.ones(3, 2), torch.ones(3, 5)).shape == (3, 7)

"""The largest scores are those of topk, by whichever way."""

import pytest
import torch
from torch.testing import assert_close

from mirada.decoding.search import topk


@pytest.mark.parametrize(("rows", "vocab"), [(1, 13), (3, 700), (5, 9001), (7, 8192), (1, 40000)])
@pytest.mark.parametrize("count", [1, 2, 8, 40])
def test_it_is_topk(rows, vocab, count):
    logits = torch.randn(rows, vocab)
    count = min(count, vocab)
    values, ids = topk(logits, count)
    expected = logits.topk(count)
    assert_close(values, expected.values, rtol=0, atol=0)
    assert_close(ids, expected.indices, rtol=0, atol=0)


def test_the_largest_may_all_be_in_one_block_or_at_the_very_end():
    logits = torch.zeros(4, 9001)
    logits[:, 64:70] = torch.arange(1.0, 7.0)
    logits[:, -2:] = torch.tensor([8.0, 9.0])
    values, ids = topk(logits, 5)
    assert ids.tolist() == [[9000, 8999, 69, 68, 67]] * 4
    assert values[0].tolist() == [9.0, 8.0, 6.0, 5.0, 4.0]


@pytest.mark.parametrize("vocab", [13, 40000])
def test_not_a_number_comes_first(vocab):
    logits = torch.randn(2, vocab)
    logits[1, 7] = torch.nan
    for count in (1, 3):
        values, ids = topk(logits, count)
        assert values[1, 0].isnan()
        assert ids[1, 0] == 7
        assert values[0].isfinite().all()

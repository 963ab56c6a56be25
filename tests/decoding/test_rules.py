"""What rules take away, alone and together, and what they refuse."""

import pytest
import torch

from mirada.decoding.search import AtLeast, Forbid, NoRepeat, Repeated, Rule, SoFar


def left(*rules: Rule, text: list[int], vocab: int = 6, end: int | None = 5) -> list[int]:
    """The tokens that may follow a text."""
    logits = torch.zeros(1, vocab)
    for rule in rules:
        rule.apply(logits, SoFar(len(text), end, [text]))
    assert (logits[logits != 0] == -torch.inf).all()
    return (logits[0] == 0).nonzero().flatten().tolist()


def test_forbidden_tokens_never_come():
    assert left(Forbid([0, 3]), text=[]) == [1, 2, 4, 5]
    assert left(Forbid(()), text=[1]) == [0, 1, 2, 3, 4, 5]


def test_the_end_waits():
    assert left(AtLeast(2), text=[1]) == [0, 1, 2, 3, 4]
    assert left(AtLeast(2), text=[1, 1]) == [0, 1, 2, 3, 4, 5]
    assert left(AtLeast(2), text=[1], end=None) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("size", "text", "tokens"),
    [
        (1, [], [0, 1, 2, 3, 4, 5]),
        (1, [3, 1, 3], [0, 2, 4, 5]),
        (2, [3], [0, 1, 2, 3, 4, 5]),
        (2, [3, 1, 3], [0, 2, 3, 4, 5]),
        (2, [3, 3], [0, 1, 2, 4, 5]),
        (2, [3, 1, 3, 2, 3], [0, 3, 4, 5]),
        (3, [1, 2, 3, 1, 2], [0, 1, 2, 4, 5]),
        (3, [1, 2, 3, 2, 1], [0, 1, 2, 3, 4, 5]),
        (7, [1, 2], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_nothing_is_said_twice(size, text, tokens):
    assert left(NoRepeat(size), text=text) == tokens


def test_every_row_has_its_own_text():
    logits = torch.zeros(2, 4)
    NoRepeat(1).apply(logits, SoFar(1, 3, [[0], [2]]))
    assert (logits == 0).tolist() == [[False, True, True, True], [True, True, False, True]]


def test_rules_add_up():
    assert left(Forbid([0]), AtLeast(9), NoRepeat(1), text=[4]) == [1, 2, 3]


def test_rules_are_values():
    assert Forbid([1, 2]) == Forbid((1, 2))
    assert hash(Forbid([1, 2])) == hash(Forbid((1, 2)))
    assert AtLeast(2) != AtLeast(3)


def test_refusals():
    with pytest.raises(ValueError, match=r"tokens must be at least 0: got \(-1,\)"):
        Forbid([-1])
    with pytest.raises(ValueError, match=r"must be in the vocabulary of 6: got \(2, 6\)"):
        left(Forbid([2, 6]), text=[])
    with pytest.raises(ValueError, match="count must be at least 0: got -1"):
        AtLeast(-1)
    with pytest.raises(ValueError, match="size must be at least 1: got 0"):
        NoRepeat(0)


def test_all_ends_wait():
    logits = torch.zeros(2, 4)
    AtLeast(1).apply(logits, SoFar(0, 3, [[], []], (1,)))
    assert (logits == 0).tolist() == [[True, False, True, False]] * 2


def test_what_was_there_becomes_less_likely_by_a_factor():
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0], [2.0, 2.0, 2.0, 2.0]])
    Repeated(2.0, before=(3,)).apply(logits, SoFar(2, None, [[0, 0, 1], [2]]))
    assert logits.tolist() == [[1.0, -4.0, 2.0, -4.0], [2.0, 2.0, 1.0, 1.0]]
    with pytest.raises(ValueError, match=r"factor must be above 0 and finite: got 0\.0"):
        Repeated(0.0)

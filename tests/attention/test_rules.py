"""Every rule of the list is raised by a real construction or call, and nothing else is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mirada.attention.equation import Attention, attend
from mirada.attention.heads import MultiHead, Split
from mirada.attention.neighborhoods import Causal, Complete, Edges, Neighborhood, Padding, PerHead, Window
from mirada.attention.normalizers import Gumbel, Hard, Softmax, StraightThrough
from mirada.attention.positions import ALiBi, Learned, LocalGaussian, Position, Relative, Rotary, Sinusoidal, T5Bias
from mirada.attention.rules import EXCLUSIONS, Parts, check_parts, contains
from mirada.attention.scores import Additive, Bilinear, Dot, Location, Offset, TanhSum

WIDTH, HEADS, DIM = 6, 3, 2
X, MEMORY = torch.zeros(2, 5, WIDTH), torch.zeros(2, 7, WIDTH)
Q = torch.zeros(2, HEADS, 5, DIM)
GRAPH = Edges([[0, 1], [1, 2]], 5)


def layer(**parts) -> Attention:
    return Attention(MultiHead(WIDTH, HEADS), **parts)


def cached(attention: Attention, where: Neighborhood | None = None) -> torch.Tensor:
    return attention(X, where=where, cache=attention.cache(batch=2, length=5))


# one list per rule, in the order of `EXCLUSIONS`
CASES: tuple[tuple[str, tuple[Callable[[], object], ...]], ...] = (
    (
        "attention and an input position (Sinusoidal, Learned)",
        (
            lambda: layer(position=Sinusoidal(WIDTH)),
            lambda: layer(position=Learned(WIDTH, 5)),
            lambda: attend(Q, Q, Q, position=Sinusoidal(DIM)),
        ),
    ),
    (
        "Relative and a score other than Dot",
        (
            lambda: layer(position=Relative(DIM, 2), score=Bilinear(DIM, DIM)),
            lambda: attend(Q, Q, Q, position=Relative(DIM, 2), score=TanhSum(DIM)),
        ),
    ),
    (
        "Rotary and a score that reads no keys (Location, Offset)",
        (
            lambda: layer(position=Rotary(DIM), score=Location(DIM, 5)),
            lambda: attend(Q, Q, Q, position=Rotary(DIM), score=Offset(1, 5)),
        ),
    ),
    (
        "Edges and a position",
        (
            lambda: layer(position=ALiBi(HEADS), where=GRAPH),
            lambda: layer(position=Rotary(DIM))(X, where=GRAPH),
            lambda: layer(position=LocalGaussian(DIM, 2))(X, where=~(Causal() & GRAPH)),
            lambda: attend(Q, Q, Q, position=Relative(DIM, 2), where=PerHead(Causal(), GRAPH, Causal())),
        ),
    ),
    (
        "Rotary, Relative or T5Bias and a memory without positions",
        (
            lambda: layer(position=Rotary(DIM))(X, memory=MEMORY),
            lambda: layer(position=Relative(DIM, 2))(X, memory=MEMORY),
            lambda: layer(position=T5Bias(HEADS))(X, memory=MEMORY),
            lambda: layer(position=Rotary(DIM))(X, memory=MEMORY, positions=torch.arange(5)),
            lambda: layer(position=Rotary(DIM))(X, memory=MEMORY, key_positions=torch.arange(7)),
        ),
    ),
    (
        "a cache and a neighborhood that sees later keys",
        (
            lambda: cached(layer()),
            lambda: cached(layer(where=Window(1, 1))),
            lambda: cached(layer(), Padding([3, 5])),
        ),
    ),
    (
        "a cache and Hard attention",
        (
            lambda: layer(where=Causal(), normalizer=Hard()).cache(2, 5),
            lambda: layer(where=Causal(), normalizer=StraightThrough()).cache(2, 5),
            lambda: layer(where=Causal(), normalizer=Gumbel()).cache(2, 5),
        ),
    ),
    (
        "a cache and LocalGaussian",
        (lambda: layer(where=Causal(), position=LocalGaussian(DIM, 2)).cache(2, 5),),
    ),
    (
        "a cache and a score or neighborhood of fixed size (Offset, Edges)",
        (
            lambda: layer(where=Causal(), score=Offset(1, 5)).cache(2, 5),
            lambda: layer(where=GRAPH).cache(2, 5),
            lambda: cached(layer(where=Causal()), GRAPH),
        ),
    ),
)


def test_there_are_cases_for_every_rule():
    assert [parts for parts, _ in CASES] == [rule.parts for rule in EXCLUSIONS]


@pytest.mark.parametrize("place", range(len(EXCLUSIONS)), ids=lambda place: EXCLUSIONS[place].parts)
def test_each_rule_is_raised_with_its_way_out(place):
    for breaks in CASES[place][1]:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared below
            breaks()
        assert str(caught.value) == str(EXCLUSIONS[place])


@pytest.mark.parametrize("rule", EXCLUSIONS, ids=lambda rule: rule.parts)
def test_a_rule_reads_as_sentences(rule):
    assert str(rule) == f"{rule.parts} cannot work together: {rule.why}. {rule.instead}."
    assert not any(text.endswith(".") for text in (rule.parts, rule.why, rule.instead))


@pytest.mark.parametrize(
    "allowed",
    [
        lambda: layer(position=Relative(DIM, 2), score=Dot("learned"))(X),
        lambda: layer(position=ALiBi(HEADS), score=Additive(DIM, DIM, 5))(X),
        lambda: layer(position=ALiBi(HEADS), score=Location(DIM, 5))(X),
        lambda: layer(position=ALiBi(HEADS))(X, memory=MEMORY),
        lambda: layer(position=LocalGaussian(DIM, 2))(X, memory=MEMORY),
        lambda: layer(position=LocalGaussian(DIM, 2), normalizer=Hard())(X),
        lambda: layer(position=Rotary(DIM))(X, memory=MEMORY, positions=torch.arange(5), key_positions=torch.arange(7)),
        lambda: attend(Q, torch.zeros(2, HEADS, 7, DIM), torch.zeros(2, HEADS, 7, DIM), position=Rotary(DIM)),
        lambda: layer(where=GRAPH)(X),
        lambda: Attention(Split(WIDTH, HEADS), score=Offset(1, 5))(X),
        lambda: cached(layer(), Causal()),
        lambda: cached(layer(), Causal() & Padding([3, 5])),
        lambda: cached(layer(where=Window(2), position=Rotary(DIM))),
    ],
)
def test_what_no_rule_forbids_works(allowed):
    assert allowed().isfinite().all()


def test_the_way_out_of_a_cache_is_to_and_with_causal():
    with pytest.raises(ValueError, match=r"AND the neighborhood with Causal\(\)"):
        cached(layer(where=Window(1, 1)))
    attention = layer(where=Window(1, 1) & Causal())
    assert attention(X, cache=attention.cache(2, 5)).shape == X.shape


def test_contains_looks_into_the_whole_expression():
    inside = [GRAPH, GRAPH & Causal(), Causal() | GRAPH, ~GRAPH, ~(Causal() & GRAPH), PerHead(Causal(), ~GRAPH)]
    assert [contains(where, Edges) for where in inside] == [True] * len(inside)
    assert not contains(PerHead(Causal(), ~Window(2)) & (Complete() | Padding([3])), Edges)
    assert contains(Padding([3]) & Causal(), Padding)


def test_check_parts_names_the_first_broken_rule_only():
    parts = Parts(Bilinear(DIM, DIM), Complete(), Relative(DIM, 2), Hard(), cached=True, across=True)
    broken = [rule for rule in EXCLUSIONS if rule.broken(parts)]
    assert len(broken) == 4
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared below
        check_parts(parts)
    assert str(caught.value) == str(broken[0])
    assert check_parts(Parts(Dot(), Complete(), Position(), Softmax())) is None


def test_the_published_list_is_the_one_that_is_enforced() -> None:
    page = (Path(__file__).parents[2] / "docs" / "combining.md").read_text(encoding="utf-8")
    listed = page.partition("\n- ")[2].partition("\n\n")[0]
    assert [" ".join(entry.split()) for entry in listed.split("\n- ")] == [str(rule) for rule in EXCLUSIONS]

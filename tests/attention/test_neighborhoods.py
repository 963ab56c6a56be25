"""Every neighborhood against masks that are written out, and its promises against its own mask for many sizes."""

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.neighborhoods import (
    Causal,
    Complement,
    Complete,
    Dense,
    Documents,
    Edges,
    Fixed,
    Grid,
    Intersection,
    Monotonic,
    Neighborhood,
    Padding,
    PerHead,
    Strided,
    Union,
    Window,
    as_neighborhood,
    lengths_of,
)
from mirada.attention.places import Places


def drawn(*rows: str) -> Tensor:
    """A mask of (queries, keys) from a picture: # may be seen."""
    return torch.tensor([[mark == "#" for mark in row] for row in rows])


def pairs(queries: int, keys: int, start: int, sees: Callable[[int, int], bool]) -> Tensor:
    """A mask of (queries, keys) from a rule for absolute positions."""
    return torch.tensor([[bool(sees(start + r, j)) for j in range(keys)] for r in range(queries)], dtype=torch.bool)


def mask_of(where: Neighborhood, queries: int, keys: int, start: int = 0) -> Tensor:
    """The mask of (batch, heads, queries, keys), with every axis as long as it is."""
    mask = where.dense(queries, keys, start)
    assert mask.dtype == torch.bool
    assert mask.ndim == 4
    return mask.expand(-1, -1, queries, keys)


def assert_sees(where: Neighborhood, expected: Tensor, start: int = 0) -> None:
    """The same mask for the whole batch and all heads."""
    assert_close(mask_of(where, *expected.shape, start), expected[None, None])


# Patterns, drawn


def test_complete():
    assert_sees(Complete(), drawn("###", "###"))
    assert_sees(Complete(), drawn("###", "###"), start=5)


def test_causal():
    assert_sees(Causal(), drawn("#....", "##...", "###.."))
    assert_sees(Causal(), drawn("###..", "####.", "#####"), start=2)
    assert_sees(Causal(), drawn("#######"), start=11)


def test_causal_with_one_query_late_sees_all_keys_before_it():
    assert mask_of(Causal(), 1, 7, start=5)[0, 0, 0].tolist() == [True] * 6 + [False]


def test_window():
    assert_sees(Window(2), drawn("#....", "##...", "###..", ".###.", "..###"))
    assert_sees(Window(1, 2), drawn("###..", "####.", ".####", "..###", "...##"))
    assert_sees(Window(0), drawn("#..", ".#.", "..#"))
    assert_sees(Window(1, 1), drawn("..###", "...##", "....#", "....."), start=3)


def test_window_of_left_k_holds_k_plus_one_keys():
    assert mask_of(Window(5), 31, 31)[0, 0].sum(-1).tolist() == [1, 2, 3, 4, 5, *[6] * 26]


def test_strided():
    local = ("#......", "##.....", "###....", "####...", ".####..", "..####.", "...####")
    stride = ("#......", ".#.....", "..#....", "#..#...", ".#..#..", "..#..#.", "#..#..#")
    # with stride 3, query 5 sees its last three keys and itself, {2, 3, 4, 5}, and those a multiple of 3 back, {2, 5}
    expected = drawn(*local) | drawn(*stride)
    assert_sees(Strided(3, part="local"), drawn(*local))
    assert_sees(Strided(3, part="stride"), drawn(*stride))
    assert_sees(Strided(3), expected)
    assert_sees(Strided(3), expected[4:], start=4)


def test_fixed():
    local = ("#......", "##.....", "###....", "...#...", "...##..", "...###.", "......#")
    summary = (".......", ".......", "..#....", "..#....", "..#....", "..#..#.", "..#..#.")
    both = ("#......", "##.....", "###....", "..##...", "..###..", "..####.", "..#..##")
    assert_sees(Fixed(3, 1, part="local"), drawn(*local))
    assert_sees(Fixed(3, 1, part="summary"), drawn(*summary))
    assert_sees(Fixed(3, 1), drawn(*both))
    assert_sees(Fixed(3, 1), drawn(*both[5:]), start=5)
    assert_sees(Fixed(3, 2), drawn("#......", "##.....", "###....", ".###...", ".####..", ".#####.", ".##.###"))


def test_fixed_summary_half_leaves_empty_rows():
    seen = mask_of(Fixed(5, 2, part="summary"), 11, 11)[0, 0]
    assert seen.any(-1).tolist() == [False] * 3 + [True] * 8


def test_grid():
    expected = drawn("##.##.", "######", ".##.##", "##.##.", "######", ".##.##")
    assert_sees(Grid(2, 3), expected)
    assert_sees(Grid(2, 3), expected[4:], start=4)
    assert_sees(Grid(1, 5, radius=2), drawn("###..", "####.", "#####", ".####", "..###"))
    assert_sees(Grid(2, 3, radius=0), torch.eye(6, dtype=torch.bool))


def test_grid_of_radius_one_is_eight_neighbors_and_the_cell():
    seen = mask_of(Grid(3, 5), 15, 15)[0, 0, 7]  # the middle of 3 x 5 cells
    assert seen.view(3, 5).tolist() == drawn(".###.", ".###.", ".###.").tolist()


def test_monotonic():
    expected = drawn("##...", "###..", ".###.", "..###", "...##", "...##", "...##")
    assert_sees(Monotonic(1), expected)
    assert_sees(Monotonic(1), expected[3:], start=3)
    assert_sees(Monotonic(0), drawn("#..", ".#.", "..#", "..#"))


def test_monotonic_stops_at_the_true_length_from_a_padding():
    where = Monotonic(1) & Padding([2, 5])
    mask = mask_of(where, 4, 5)
    assert_close(mask[0, 0], drawn("##...", "##...", "##...", "##..."))
    assert_close(mask[1, 0], drawn("##...", "###..", ".###.", "..###"))
    # the order does not matter, and a padding that stands deeper in the same intersection counts too
    assert_close(mask_of(Padding([2, 5]) & (Complete() & Monotonic(1)), 4, 5), mask)
    # on its own it clamps to the keys, and what is cut afterwards may be everything
    outside = mask_of(Monotonic(1), 4, 5) & mask_of(Padding([2, 5]), 4, 5)
    assert not outside[0, 0, 3].any()


def test_monotonic_inside_heads_and_unions_knows_the_length_too():
    where = PerHead(Monotonic(0), Monotonic(0) | Window(1)) & Padding([2])
    mask = mask_of(where, 4, 5)
    assert_close(mask[0, 0], drawn("#....", ".#...", ".#...", ".#..."))
    assert_close(mask[0, 1], drawn("#....", "##...", ".#...", ".#..."))


@pytest.mark.parametrize(("queries", "keys", "start"), [(13, 13, 0), (5, 17, 7), (19, 11, 3), (1, 23, 22), (7, 5, 11)])
@pytest.mark.parametrize(
    ("where", "rule"),
    [
        (Causal(), lambda i, j: j <= i),
        (Window(3), lambda i, j: i - 3 <= j <= i),
        (Window(2, 5), lambda i, j: i - 2 <= j <= i + 5),
        (Strided(3), lambda i, j: j <= i and (i - j <= 3 or (i - j) % 3 == 0)),
        (Strided(5, "local"), lambda i, j: i - 5 <= j <= i),
        (Strided(5, "stride"), lambda i, j: j <= i and j % 5 == i % 5),
        (Fixed(5, 2), lambda i, j: j <= i and (j // 5 == i // 5 or j % 5 >= 3)),
        (Fixed(5, 2, "local"), lambda i, j: j <= i and j // 5 == i // 5),
        (Fixed(5, 2, "summary"), lambda i, j: j <= i and j % 5 in (3, 4)),
        (~Window(2), lambda i, j: j < i - 2 or j > i),
        (Causal() & ~Window(2), lambda i, j: j < i - 2),
        (Window(1, 1) | Strided(3, "stride"), lambda i, j: abs(i - j) <= 1 or (j <= i and (i - j) % 3 == 0)),
    ],
    ids=lambda value: repr(value) if isinstance(value, Neighborhood) else "",
)
def test_patterns_by_their_rule(where, rule, queries, keys, start):
    assert_sees(where, pairs(queries, keys, start, rule), start)


# Data


def test_padding():
    mask = mask_of(Padding(torch.tensor([0, 2, 3])), 2, 3)
    assert_close(mask[:, 0], torch.stack([drawn("...", "..."), drawn("##.", "##."), drawn("###", "###")]))
    assert_close(mask_of(Padding([0, 2, 3]), 2, 3, start=5), mask)


def test_padding_says_its_errors():
    with pytest.raises(ValueError, match=r"padding lengths must be one number per sample: got shape \(1, 2\)"):
        Padding([[1, 2]])
    with pytest.raises(ValueError, match="padding lengths must be at least 0: got -2"):
        Padding([3, -2])
    with pytest.raises(ValueError, match=r"padding lengths must hold integers: got torch\.float32"):
        Padding([1.5])
    places = replace(Places.count(5, 7), batch=2)
    with pytest.raises(
        ValueError, match=r"at most keys: got lengths up to 9, keys=7\. Pad the batch or cut the lengths\."
    ):
        Padding([3, 9]).check(places, heads=1)
    with pytest.raises(ValueError, match="padding lengths must have one row per sample: got 3 for batch=2"):
        Padding([3, 5, 7]).check(places, heads=1)


def test_padding_may_be_longer_than_the_keys_while_a_cache_grows():
    Padding([3, 9]).check(replace(Places.count(5, 7), batch=2), heads=1, exact=False)
    assert mask_of(Padding([3, 9]), 1, 7)[1].all()


def test_documents():
    where = Documents(torch.tensor([[7, 7, 8, 9], [1, 2, 1, 2]]))
    mask = mask_of(where, 4, 4)
    assert_close(mask[0, 0], drawn("##..", "##..", "..#.", "...#"))
    assert_close(mask[1, 0], drawn("#.#.", ".#.#", "#.#.", ".#.#"))
    assert_close(mask_of(where, 2, 3, start=1), mask[:, :, 1:3, :3])


def test_documents_and_causal_do_not_cross():
    mask = mask_of(Documents([[5, 5, 5, 6, 6]]) & Causal(), 5, 5)
    assert_close(mask[0, 0], drawn("#....", "##...", "###..", "...#.", "...##"))


def test_documents_say_their_errors():
    with pytest.raises(ValueError, match=r"document ids must have the axes \(batch length\): got shape \(3,\)"):
        Documents([1, 2, 3])
    with pytest.raises(ValueError, match=r"document ids must hold integers: got torch\.float32"):
        Documents([[1.0, 2.0]])
    with pytest.raises(ValueError, match="document ids cover 3 places: got queries up to 5, keys=3"):
        Documents([[1, 2, 3]]).dense(2, 3, start=3)
    with pytest.raises(ValueError, match="document ids cover 3 places: got queries up to 2, keys=5"):
        Documents([[1, 2, 3]]).dense(2, 5)
    places = replace(Places.count(2, 2), batch=5)
    with pytest.raises(ValueError, match="document ids cover 3 places: got queries up to 2, keys=2"):
        Documents([[1, 2, 3]]).check(places, heads=1)
    with pytest.raises(ValueError, match="document ids must have one row per sample: got 2 for batch=5"):
        Documents([[1, 2], [3, 4]]).check(places, heads=1)


def test_dense_takes_two_three_or_four_axes():
    generator = torch.Generator().manual_seed(0)
    four = torch.rand(2, 3, 5, 7, generator=generator) < 0.5
    assert_close(mask_of(Dense(four), 5, 7), four)
    assert_close(mask_of(Dense(four[:, 0]), 5, 7), four[:, :1])  # three axes: batch, queries, keys
    assert_close(mask_of(Dense(four[0, 0]), 5, 7), four[:1, :1])
    assert_close(mask_of(Dense(four), 2, 7, start=3), four[:, :, 3:])
    assert_close(mask_of(Dense(four), 2, 3, start=1), four[:, :, 1:3, :3])


def test_dense_axes_of_size_one_are_for_all():
    row, column = drawn("#.##"), drawn("#", ".", "#")
    assert_close(mask_of(Dense(row), 3, 4)[0, 0], drawn("#.##", "#.##", "#.##"))
    assert_close(mask_of(Dense(row), 3, 4, start=5)[0, 0], drawn("#.##", "#.##", "#.##"))
    assert_close(mask_of(Dense(column), 3, 4)[0, 0], drawn("####", "....", "####"))


def test_dense_takes_a_mask_that_is_not_contiguous():
    mask = drawn("#..", "##.", ".##", "..#", "#.#")
    assert_close(mask_of(Dense(mask.T), 3, 5)[0, 0], drawn("##..#", ".##..", "..###"))


def test_dense_says_its_errors():
    with pytest.raises(ValueError, match=r"a dense mask must be a bool tensor, True = may be seen: got torch\.float32"):
        Dense(torch.zeros(3, 5))
    with pytest.raises(ValueError, match="a dense mask must be a bool tensor, True = may be seen: got list"):
        Dense([[True]])
    with pytest.raises(ValueError, match=r"a dense mask has 2, 3 or 4 axes, .*: got \(3,\)"):
        Dense(drawn("###")[0])
    mask = torch.ones(2, 3, 5, 7, dtype=torch.bool)
    places = replace(Places.count(5, 7), batch=2)
    Dense(mask).check(places, heads=3)
    with pytest.raises(ValueError, match="the dense mask has heads=3: got heads=11"):
        Dense(mask).check(places, heads=11)
    with pytest.raises(ValueError, match="the dense mask must have one row per sample: got 2 for batch=13"):
        Dense(mask).check(replace(places, batch=13), heads=3)
    for wrong in (replace(places, queries=3), replace(places, keys=11), replace(places, start=1)):
        with pytest.raises(
            ValueError, match=r"the dense mask has shape \(2, 3, 5, 7\): got queries up to \d, keys=\d+"
        ):
            Dense(mask).check(wrong, heads=3)


# Edges

SOURCE_TARGET = torch.tensor([[3, 0, 1, 0, 3, 2], [1, 1, 0, 1, 1, 2]])  # 3 -> 1 and 0 -> 1 twice, 2 -> 2 a self loop


def test_edges():
    where = Edges(SOURCE_TARGET, nodes=5)
    expected = drawn(".#...", "#..#.", "..#..", ".....", ".....")  # nodes 3 and 4 see nobody
    assert_sees(where, expected)
    assert_sees(where, expected[1:3], start=1)
    assert_sees(where, expected[3:], start=3)
    assert_sees(where, expected[:0])


def test_edges_are_sorted_by_target_then_source_and_count_once():
    where = Edges(SOURCE_TARGET, nodes=5)
    assert where.pairs.tolist() == [[1, 0, 3, 2], [0, 1, 1, 2]]
    assert where.offsets.tolist() == [0, 1, 3, 4, 4, 4]


def test_edges_add_no_self_loops_unless_asked():
    where = Edges(SOURCE_TARGET, nodes=5)
    looped = where.with_self_loops()
    assert_sees(looped, drawn("##...", "##.#.", "..#..", "...#.", "....#"))
    assert looped.pairs.tolist() == [[0, 1, 0, 1, 3, 2, 3, 4], [0, 0, 1, 1, 1, 2, 3, 4]]
    assert looped.with_self_loops().pairs.tolist() == looped.pairs.tolist()
    assert where.pairs.shape == (2, 4)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_edges_of_small_integers_do_not_overflow(dtype):
    nodes = 113  # 112 * 113 + 111 needs more than 8 bits
    where = Edges(torch.tensor([[111, 0], [112, 112]], dtype=dtype), nodes)
    assert where.pairs.tolist() == [[0, 111], [112, 112]]


def test_edges_of_an_empty_graph():
    for nothing in (torch.zeros(2, 0, dtype=torch.int64), torch.zeros(2, 0), [[], []]):
        where = Edges(nothing, nodes=3)
        assert where.pairs.shape == (2, 0)
        assert where.offsets.tolist() == [0, 0, 0, 0]
        assert_sees(where, drawn("...", "...", "..."))


def test_edges_of_a_random_graph_are_the_listed_pairs():
    index = torch.randint(0, 17, (2, 89), generator=torch.Generator().manual_seed(0))
    listed = {(int(j), int(i)) for j, i in index.T}
    assert len(listed) < 89
    where = Edges(index, 17)
    assert_sees(where, pairs(17, 17, 0, lambda i, j: (j, i) in listed))
    assert [tuple(pair) for pair in where.pairs.T.tolist()] == sorted(listed, key=lambda pair: (pair[1], pair[0]))


def test_edges_say_their_errors():
    with pytest.raises(ValueError, match=r"edge_index must name nodes from 0 to 2: got 0 to 3 with nodes=3"):
        Edges(SOURCE_TARGET, nodes=3)
    with pytest.raises(ValueError, match="got -1 to 1 with nodes=3"):
        Edges([[-1, 0], [1, 1]], nodes=3)
    with pytest.raises(ValueError, match=r"must have the axes \(2 edges\), sources above targets: got shape \(6, 2\)"):
        Edges(SOURCE_TARGET.T, nodes=5)
    with pytest.raises(ValueError, match=r"edge_index must hold integers: got torch\.float32"):
        Edges(SOURCE_TARGET.float(), nodes=5)
    with pytest.raises(ValueError, match="needs keys=5, one per node: got queries up to 5, keys=3"):
        Edges(SOURCE_TARGET, nodes=5).dense(5, 3)
    with pytest.raises(ValueError, match="needs keys=5, one per node: got queries up to 7, keys=5"):
        Edges(SOURCE_TARGET, nodes=5).dense(5, 5, start=2)


# Algebra


def test_and_or_not():
    near, past = drawn("##..", "###.", ".###", "..##"), drawn("#...", "##..", "###.", "####")
    assert_sees(Window(1, 1) & Causal(), near & past)
    assert_sees(Window(1, 1) | Causal(), near | past)
    assert_sees(~Window(1, 1), ~near)
    assert_sees(~(Window(1, 1) & Causal()), ~(near & past))
    assert_sees(~(Window(1, 1) | Causal()) & Complete(), ~(near | past))
    assert_sees(Window(1, 1) & Causal(), (near & past)[2:], start=2)


def test_and_or_broadcast_over_batch_and_heads():
    heads = PerHead(Complete(), Causal(), Window(0))
    mask = mask_of(Padding([1, 3]) & heads, 3, 3)
    assert mask.shape == (2, 3, 3, 3)
    padding = torch.stack([drawn("#..", "#..", "#.."), drawn("###", "###", "###")])[:, None]
    each = torch.stack([drawn("###", "###", "###"), drawn("#..", "##.", "###"), drawn("#..", ".#.", "..#")])
    assert_close(mask, padding & each)
    assert_close(mask_of(Padding([1, 3]) | heads, 3, 3), padding | each)
    assert_close(mask_of(~heads, 3, 3), ~each[None])


def test_per_head():
    mask = mask_of(PerHead(Causal(), Window(0), Complete()), 2, 3, start=1)
    assert_close(mask[0], torch.stack([drawn("##.", "###"), drawn(".#.", "..#"), drawn("###", "###")]))


def test_per_head_joins_masks_with_and_without_a_batch():
    mask = mask_of(PerHead(Padding([1, 2]), Causal()), 2, 3)
    assert mask.shape == (2, 2, 2, 3)
    assert_close(mask[0], torch.stack([drawn("#..", "#.."), drawn("#..", "##.")]))
    assert_close(mask[1], torch.stack([drawn("##.", "##."), drawn("#..", "##.")]))


def test_per_head_of_no_samples():
    where = PerHead(Padding(torch.zeros(0, dtype=torch.long)), Causal())
    assert where.dense(3, 3).shape == (0, 2, 3, 3)


def test_per_head_says_its_errors():
    with pytest.raises(ValueError, match="PerHead needs one neighborhood per head: got none"):
        PerHead()
    with pytest.raises(ValueError, match=r"PerHead lists 2 neighborhoods: got heads=3\. List one per head\."):
        PerHead(Causal(), Complete()).check(Places.count(5, 7), heads=3)
    with pytest.raises(ValueError, match=r"got Tensor\. Wrap a bool mask \(True = may be seen\) in Dense\(mask\)"):
        PerHead(Causal(), torch.ones(2, 2))


def test_complete_is_neutral_and_repetition_does_nothing():
    assert Causal() & Complete() == Causal()
    assert Complete() & Complete() == Complete()
    assert Causal() & Causal() == Causal()
    assert (Causal() & Window(2)) & Causal() == Causal() & Window(2)
    assert ~~Window(2) == Window(2)
    assert isinstance(~Window(2), Complement)
    assert isinstance(Causal() | Window(2), Union)
    assert isinstance(Causal() & Window(2), Intersection)
    assert Causal() | Causal() == Causal()
    assert (Causal() & (Window(2) & Fixed(3, 1))).conjuncts() == (Causal(), Window(2), Fixed(3, 1))


def test_equality_is_by_value_and_ignores_the_order_of_sets():
    assert Window(2) == Window(2, 0)
    assert Window(2) != Window(3)
    assert Window(2) != Monotonic(2)
    assert Strided(3) != Strided(3, "local")
    assert Causal() != "Causal()"
    assert Causal() & Window(2) == Window(2) & Causal()
    assert Causal() | Window(2) == Window(2) | Causal()
    assert Causal() & Window(2) != Causal() | Window(2)
    assert Causal() | (Window(2) | Fixed(3, 1)) == (Causal() | Window(2)) | Fixed(3, 1)
    assert ~Causal() == ~Causal()
    assert ~Causal() != Causal()
    assert PerHead(Causal(), Window(2)) == PerHead(Causal(), Window(2))
    assert PerHead(Causal(), Window(2)) != PerHead(Window(2), Causal())


def test_tensors_are_compared_by_identity():
    lengths, ids, mask = torch.tensor([2, 3]), torch.tensor([[1, 1]]), drawn("#.")
    for kind, data in ((Padding, lengths), (Documents, ids), (Dense, mask)):
        assert kind(data) == kind(data)
        assert hash(kind(data)) == hash(kind(data))
        assert kind(data) != kind(data.clone())
    assert Edges(SOURCE_TARGET, 5) == Edges(SOURCE_TARGET, 5)
    assert Edges(SOURCE_TARGET, 5) != Edges(SOURCE_TARGET, 7)
    assert Edges(SOURCE_TARGET, 5) != Edges(SOURCE_TARGET.clone(), 5)
    assert Causal() & Padding(lengths) == Padding(lengths) & Causal()


def test_neighborhoods_are_dictionary_keys():
    lengths = torch.tensor([2, 3])
    table = {
        Causal() & Window(2): "band",
        Causal() | Window(2): "union",
        Padding(lengths): "padding",
        ~Causal(): "after",
    }
    assert table[Window(2) & Causal()] == "band"
    assert table[Window(2) | Causal()] == "union"
    assert table[Padding(lengths)] == "padding"
    assert table[~Causal()] == "after"
    assert Padding(lengths.clone()) not in table


def test_neighborhoods_do_not_change():
    with pytest.raises(AttributeError):
        Window(2).left = 3


def test_neighborhoods_print_as_they_are_written():
    assert repr(Causal() & Window(127)) == "Causal() & Window(left=127, right=0)"
    assert repr((Causal() | Window(2)) & Complete() & Fixed(5, 2)) == (
        "(Causal() | Window(left=2, right=0)) & Fixed(block=5, summary=2)"
    )
    assert repr(Strided(3, "local")) == "Strided(stride=3, part='local')"
    assert repr(~Causal()) == "~Causal()"
    assert repr(~(Causal() & Window(2))) == "~(Causal() & Window(left=2, right=0))"
    assert repr(PerHead(Causal(), Complete())) == "PerHead(Causal(), Complete())"
    assert repr(Padding([2, 3, 5])) == "Padding(lengths=(3,))"
    assert repr(Documents([[1, 2]])) == "Documents(ids=(1, 2))"
    assert repr(Edges(SOURCE_TARGET, 5)) == "Edges(edge_index=(2, 6), nodes=5)"
    assert repr(Dense(drawn("#.#"))) == "Dense(mask=(1, 3))"


def test_an_expression_without_tensors_can_be_read_back():
    wheres = [
        Causal() & Window(2) & Fixed(5, 2, "summary"),
        ~(Causal() | Strided(3)),
        (Causal() | Window(2)) & Grid(2, 3),
        Causal() & Window(2) | Monotonic(1),
        Causal() | (Window(2) | Monotonic(1)),
        PerHead(~Causal(), Complete() | Window(1, 1)),
    ]
    for where in wheres:
        assert eval(repr(where)) == where


def test_neighborhoods_survive_copying_and_pickling():
    for where in (Causal() & Window(2), PerHead(Causal(), ~Window(1)), Causal() | Fixed(3, 1), Grid(2, 3)):
        assert copy.deepcopy(where) == where
        assert pickle.loads(pickle.dumps(where)) == where
    graph = Edges(SOURCE_TARGET, 5)
    assert (
        copy.deepcopy(graph).pairs.tolist() == pickle.loads(pickle.dumps(graph)).pairs.tolist() == graph.pairs.tolist()
    )


def test_wrong_operands_and_values():
    with pytest.raises(TypeError):
        Causal() & 3
    with pytest.raises(TypeError):
        Causal() | drawn("#")
    with pytest.raises(
        ValueError, match=r"where must be a neighborhood such as Causal\(\) or Padding\(lengths\): got str"
    ):
        as_neighborhood("causal")
    assert as_neighborhood(Causal()) == Causal()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Window(-1), "a window needs left and right >= 0: got left=-1, right=0"),
        (lambda: Window(1, -2), "got left=1, right=-2"),
        (lambda: Strided(0), "stride must be at least 1: got 0"),
        (lambda: Strided(3, "summary"), "unknown part 'summary'; known: local, stride"),
        (lambda: Fixed(3, 0), "a block needs 1 <= summary <= block: got block=3, summary=0"),
        (lambda: Fixed(3, 5), "got block=3, summary=5"),
        (lambda: Fixed(3, 1, "locl"), "unknown part 'locl'; known: local, summary. Did you mean 'local'?"),
        (lambda: Grid(0, 3), "a grid needs height, width >= 1 and radius >= 0: got Grid(height=0, width=3, radius=1)"),
        (lambda: Grid(2, 3).dense(7, 6), "has 6 cells: got queries up to 7, keys=6. Flatten the grid row by row."),
        (lambda: Monotonic(-1), "half must be at least 0: got -1"),
        (lambda: Causal().dense(-1, 3), "sizes must be at least 0: got queries=-1, keys=3, start=0"),
    ],
)
def test_wrong_sizes_are_named(build, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the text is compared below
        build()
    assert message in str(caught.value)


def test_lengths_of_reads_the_paddings_that_every_query_obeys():
    assert lengths_of(Causal()) is None
    assert lengths_of(Causal() & Padding([2, 5])).tolist() == [2, 5]
    assert lengths_of(Padding([2, 5]) & Window(1) & Padding([3, 3])).tolist() == [2, 3]
    assert lengths_of(Padding([2, 5, 7]) & Padding([3])).tolist() == [2, 3, 3]
    assert lengths_of(Causal() | Padding([2, 5])) is None
    assert lengths_of(~Padding([2, 5])) is None
    assert lengths_of(PerHead(Padding([2, 5]), Complete())) is None


# The flags and `unseen`, against the mask itself

SIZES = [(queries, keys, start) for queries, keys, start in product((0, 1, 2, 5), (0, 1, 2, 3, 7), (0, 1, 5))]


def everywhere(queries: int, keys: int, start: int) -> Iterator[Neighborhood]:
    """Neighborhoods of all kinds that fit these sizes."""
    generator = torch.Generator().manual_seed(queries + 10 * keys + 100 * start)
    last = start + queries
    side = max(last, keys)
    lengths = Padding(torch.randint(0, keys + 1, (3,), generator=generator))
    documents = Documents(torch.randint(0, 3, (3, side), generator=generator))
    mask = torch.rand(3, 2, max(last, 1), keys, generator=generator) < 0.3
    patterns = [
        Complete(),
        Causal(),
        Window(0),
        Window(1),
        Window(2, 1),
        Window(0, 3),
        Strided(2),
        Strided(3, "local"),
        Strided(3, "stride"),
        Fixed(3, 1),
        Fixed(3, 2, "local"),
        Fixed(3, 1, "summary"),
        Monotonic(0),
        Monotonic(2),
    ]
    yield from patterns
    yield from (~pattern for pattern in patterns)
    yield from (pattern & lengths for pattern in patterns)
    yield from (pattern & documents for pattern in patterns)
    yield from (a | b for a, b in zip(patterns, patterns[3:], strict=False))
    yield from (a & b for a, b in zip(patterns, patterns[3:], strict=False))
    yield from (lengths, documents, Dense(mask), Dense(mask[:, 0]), Dense(mask[0, 0]), Dense(mask[:, :, :1]))
    yield from (~lengths, ~documents, lengths | Causal(), lengths & Padding([keys // 2]) & Causal())
    yield from (PerHead(Causal(), Monotonic(1)) & lengths, PerHead(lengths, Window(1)), ~PerHead(Causal(), lengths))
    yield Dense(mask) & Causal() & lengths
    if side:
        yield Grid(1, side)
    if side and side % 2 == 0:
        yield Grid(2, side // 2)
        yield Grid(2, side // 2, radius=0) & lengths
    if last <= keys:
        edges = Edges(torch.randint(0, max(keys, 1), (2, 2 * keys), generator=generator), keys)
        yield from (edges, ~edges, edges.with_self_loops(), edges & Causal(), edges & lengths)


@pytest.mark.parametrize("start", [0, 1, 5])
def test_flags_hold_for_the_mask(start):
    checked = 0
    for queries, keys, _ in (sizes for sizes in SIZES if sizes[2] == start):
        for where in everywhere(queries, keys, start):
            mask = mask_of(where, queries, keys, start)
            if where.causal:
                after = pairs(queries, keys, start, lambda i, j: j > i).reshape(queries, keys)
                assert not (mask & after).any(), f"{where} sees later keys"
            if where.reflexive:
                own = pairs(queries, keys, start, lambda i, j: j == i).reshape(queries, keys)
                assert (mask | ~own).all(), f"{where} does not see itself"
            checked += where.causal + where.reflexive
    assert checked > 100


def test_flags_of_the_parts():
    causal = [
        Causal(),
        Window(3),
        Strided(3),
        Fixed(3, 1),
        Fixed(3, 1, "summary"),
        Causal() & Complete(),
        Causal() & ~Window(1),
    ]
    causal += [Window(3) | Strided(3), PerHead(Causal(), Window(2)), Padding([2]) & Causal()]
    not_causal = [Complete(), Window(3, 1), Grid(2, 3), Monotonic(1), Padding([2]), ~Causal(), Causal() | Complete()]
    not_causal += [PerHead(Causal(), Complete()), Edges(SOURCE_TARGET, 5), Documents([[1]]), Dense(drawn("#"))]
    assert [where.causal for where in causal] == [True] * len(causal)
    assert [where.causal for where in not_causal] == [False] * len(not_causal)
    reflexive = [Complete(), Causal(), Window(0), Window(3, 1), Strided(3), Fixed(3, 1), Grid(2, 3), Documents([[1]])]
    reflexive += [Causal() & Window(1), Causal() | ~Causal(), PerHead(Causal(), Complete())]
    not_reflexive = [Fixed(3, 1, "summary"), Padding([2]), ~Causal(), Causal() & Padding([2]), Edges(SOURCE_TARGET, 5)]
    not_reflexive += [PerHead(Causal(), Padding([2])), Monotonic(1), Dense(drawn("#"))]
    assert [where.reflexive for where in reflexive] == [True] * len(reflexive)
    assert [where.reflexive for where in not_reflexive] == [False] * len(not_reflexive)


def assert_unseen(where: Neighborhood, places: Places, rows_at_once: int | None) -> None:
    mask = where.sees(places)
    expected = ~mask.expand(-1, -1, places.queries, places.keys).any(2)
    unseen = where.unseen(places, rows_at_once)
    found = torch.zeros_like(expected) if unseen is None else unseen.expand_as(expected)
    assert_close(found, expected, msg=lambda text: f"{where}, {places}: {text}")


@pytest.mark.parametrize("rows_at_once", [None, 2])
@pytest.mark.parametrize("start", [0, 1, 5])
def test_unseen_are_the_keys_that_no_query_sees(start, rows_at_once):
    for queries, keys, _ in (sizes for sizes in SIZES if sizes[2] == start):
        for where in everywhere(queries, keys, start):
            assert_unseen(where, Places.count(queries, keys, start), rows_at_once)


def test_unseen_follows_given_positions():
    for where in everywhere(5, 7, 0):
        places = Places.count(5, 7)
        backwards, gaps = (
            torch.tensor([4, 3, 2, 1, 0]),
            torch.tensor([[0, 2, 4, 6, 8], [3, 3, 3, 0, 1], [9, 9, 0, 0, 2]]),
        )
        late = torch.tensor([6, 0, 5, 1, 4, 2, 3])
        assert_unseen(where, replace(places, positions=backwards), 2)
        assert_unseen(where, replace(places, positions=gaps), None)
        assert_unseen(where, replace(places, key_positions=late), None)
        assert_unseen(where, replace(places, positions=gaps, key_positions=late + 3), 2)


def test_unseen_needs_no_mask_where_every_key_is_seen():
    places = Places.count(7, 7)
    assert Complete().unseen(places) is None
    assert Causal().unseen(places) is None
    assert Causal().unseen(Places.count(1, 7, start=6)) is None
    assert (Causal() & Window(2)).unseen(places) is None
    assert Causal().unseen(Places.count(5, 7)).tolist() == [[[False] * 5 + [True] * 2]]


# Repeat


def test_repeat_says_each_entry_several_times_in_a_row():
    lengths, ids = torch.tensor([2, 5]), torch.tensor([[1, 1, 2, 2, 2], [1, 2, 3, 4, 5]])
    mask = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    wheres = [
        Padding(lengths),
        Documents(ids),
        Dense(mask),
        Dense(mask[:, 0]),
        Causal() & Padding(lengths),
        Causal() | Padding(lengths),
        ~Padding(lengths),
        PerHead(Padding(lengths), Causal(), Documents(ids)),
        Monotonic(1) & Padding(lengths),
    ]
    for where in wheres:
        expected = mask_of(where, 5, 5).repeat_interleave(3, dim=0)
        assert_close(mask_of(where.repeat(3), 5, 5), expected)
        assert type(where.repeat(3)) is type(where)


def test_repeat_of_what_is_the_same_for_all_entries_stays_so():
    graph = Edges(SOURCE_TARGET, 5)
    single = [Causal(), Causal() & Window(2), graph, Dense(drawn("#.#")), Dense(drawn("#.#")[None])]
    assert [where.repeat(3) for where in single] == single
    shared = [Padding([3]), Documents([[1, 1, 2, 2, 2]])]
    places = replace(Places.count(5, 5), batch=14)
    for where in shared:
        where.repeat(7).check(places, heads=1)  # one row for a batch of 2 is one row for a batch of 14
        assert_close(mask_of(where.repeat(7), 5, 5)[:1], mask_of(where, 5, 5))


class Every(Neighborhood):
    """Every n-th key, in a class that is no dataclass."""

    def __init__(self, n: int, of: list[int] | None = None) -> None:
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "of", of)

    def sees(self, places: Places) -> Tensor:
        return (places.column % self.n == 0).expand(1, 1, places.queries, places.keys)


def test_a_class_that_is_no_dataclass_compares_by_what_it_was_given() -> None:
    assert Every(2) == Every(2)
    assert hash(Every(2)) == hash(Every(2))
    assert Every(2) != Every(3)
    assert Every(2, [1]) != Every(2, [1])  # what cannot be hashed is only equal to itself
    both = Every(2) & Every(3)
    assert both.dense(1, 7).flatten().tolist() == [True, False, False, False, False, False, True]
    assert len((Every(2) & Every(2)).conjuncts()) == 1
    assert repr(Every(3)) == "Every(n=3)"
    nested = Every(2, [1]), Every(3, [1])
    for one in nested:
        object.__setattr__(one, "of", ([1],))  # a tuple, which cannot be hashed all the same
    assert len((nested[0] & nested[1]).conjuncts()) == 2


class Slotted(Neighborhood):
    """Every n-th key, in a class with slots."""

    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        object.__setattr__(self, "n", n)

    def sees(self, places: Places) -> Tensor:
        return (places.column % self.n == 0).expand(1, 1, places.queries, places.keys)


def test_attributes_in_slots_count_too() -> None:
    assert Slotted(2) == Slotted(2)
    assert (Slotted(2) & Slotted(3)).dense(1, 7).flatten().tolist() == [True, False, False, False, False, False, True]
    assert repr(Slotted(3)) == "Slotted(n=3)"


class Nobody(Complete):
    """A subclass that sees less than its parent is not its parent."""

    def sees(self, places: Places) -> Tensor:
        return torch.zeros(1, 1, places.queries, places.keys, dtype=torch.bool)


def test_a_subclass_of_complete_is_not_left_out() -> None:
    assert not (Causal() & Nobody()).dense(3, 3).any()

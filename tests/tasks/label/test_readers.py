"""Plain readers of a graph: what they are by hand, and how they are mixed with attention."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import mirada
from mirada.runs.load import load
from mirada.tasks.label.graph import MADE, MOST_OWN, made_features
from mirada.tasks.label.readers import ClassedNodes, LinearNodes, PlainReaders, ReadGraph
from mirada.training.mixtures import fitted_scales
from tests.data.graph_files import clubs, folder
from tests.runs.small import trained

MOMENT = ("steps=4", "validate=2", "dim=4", "heads=2", "threads=1")


def moment() -> dict[str, int]:
    """The same as arguments, for what is printed."""
    return {key: int(value) for key, value in (word.split("=") for word in MOMENT)}


PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2, and 3 alone


def readers(share: float = 0.5) -> PlainReaders:
    linear = {"features": LinearNodes(0, torch.zeros(2, 2), torch.zeros(2))}
    return PlainReaders(linear, share, torch.tensor([0, 2]), torch.tensor([0, 1]), {})


def test_features_are_smoothed_by_the_roots_of_degrees() -> None:
    """With loops, nodes 0 and 2 have degree 2, node 1 has 3, node 3 is alone: it keeps what it has."""
    x = torch.tensor([[6.0], [0.0], [0.0], [5.0]])
    (found,) = ReadGraph(PATH, x).smoothed(1)
    assert_close(found.flatten(), torch.tensor([3.0, 6 / 6**0.5, 0.0, 5.0]))


def test_labels_are_passed_along_the_edges() -> None:
    shares = readers().propagated(ReadGraph(PATH, torch.zeros(4, 2))).exp()
    assert_close(shares[1], torch.tensor([0.501, 0.501]))  # as far from either seed
    assert_close(shares[3], torch.tensor([0.501, 0.501]))  # unreached
    # of class 0: f = 0.5 g / sqrt(2) + 0.5 at node 0, g = 0.5 (f + h) / sqrt(2) at 1, h = 0.5 g / sqrt(2) at 2
    f, h = 7 / 12, 1 / 12
    assert_close(shares[0, 0], torch.tensor(f / (f + h) + 0.001), rtol=1e-4, atol=1e-4)
    elsewhere = readers().propagated(ReadGraph(PATH, torch.zeros(4, 2)), same=False)
    assert_close(elsewhere, torch.full((4, 2), 0.501).log())


def test_edges_help_where_features_say_little() -> None:
    """Two cliques whose features are noise, but for a few."""
    draws = np.random.default_rng(3)
    side = np.arange(26) % 2
    edges = torch.tensor([[a, b] for a in range(26) for b in range(26) if a != b and side[a] == side[b]]).T
    x = torch.from_numpy(draws.normal(size=(26, 5)).astype(np.float32))
    x[:, 0] += torch.from_numpy(side * 0.5).float()
    train, valid = (ClassedNodes(some, torch.from_numpy(side)[some]) for some in (torch.arange(4), torch.arange(4, 12)))
    found = PlainReaders.fit(ReadGraph(edges, x), train, valid, (1.0, 1.0))
    assert found.linear["sgc"].hops in (1, 2, 3, 4)
    scores = found.scores(ReadGraph(edges, x), same=True)
    rest, wanted = torch.arange(12, 26), torch.from_numpy(side[12:])
    for name in ("propagation", "sgc"):
        assert (scores[name][rest].argmax(1) == wanted).all()
    assert (scores["features"][rest].argmax(1) == wanted).float().mean() < 1


def test_scales_follow_who_is_right() -> None:
    torch.manual_seed(0)
    wanted = torch.arange(60) % 3
    right = torch.nn.functional.one_hot(wanted, 3).double() * 2
    noise = torch.randn(60, 3)
    found = fitted_scales({"right": right, "noise": noise}, wanted, torch.ones(60))
    assert found["right"] > 1 > 2 * found["noise"] > 0


def test_attention_that_does_not_help_does_not_answer() -> None:
    torch.manual_seed(0)
    wanted = torch.arange(90) % 3
    right = torch.nn.functional.one_hot(wanted, 3).float() * 2 + torch.randn(90, 3)
    scores = {"attention": torch.randn(90, 3) * 5, "features": right}
    plain = readers().calibrated(scores, wanted, torch.ones(90))
    assert set(plain.scales) == {"features"}
    assert_close(plain.mixed(scores), plain.scales["features"] * right)
    both = readers().calibrated({"attention": right, "features": scores["attention"]}, wanted, torch.ones(90))
    assert set(both.scales) == {"attention"}
    assert_close(readers().mixed(scores), scores["attention"])  # before anything is fitted


@pytest.mark.parametrize(("more", "stays"), [(1, True), (3, False)])
def test_a_gain_within_chance_changes_nothing(more: int, stays: bool) -> None:
    """One node that differs is 1 of sqrt(1); three, all of them better, are 3 of sqrt(3)."""
    wanted = torch.arange(90) % 3
    answered = wanted.clone()
    answered[:10] = (wanted[:10] + 1) % 3
    better = answered.clone()
    better[:more] = wanted[:more]
    scores = {
        name: torch.nn.functional.one_hot(given, 3).float() * 2
        for name, given in (("attention", answered), ("features", better))
    }
    found = readers().calibrated(scores, wanted, torch.ones(90))
    assert (set(found.scales) == {"attention"}) == stays


# in a run


def test_a_run_says_who_answers_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = mirada.train("label", folder(tmp_path / "clubs", **clubs()), out=tmp_path / "run", **moment())
    found = run.measured(run.splits())
    assert set(found.details["alone"]) == {"attention", "features", "propagation", "sgc"}
    for name in ("features", "propagation", "sgc"):
        assert found.metrics[f"accuracy_{name}"] == found.details["alone"][name]
    assert found.details["mixed"] == list(run.known.readers.scales)
    assert found.verdict.startswith("attention alone ")
    assert found.verdict in capsys.readouterr().out
    again = load(run.folder)
    assert [a.score for a in again(["odd1", "even2"])] == [a.score for a in run(["odd1", "even2"])]
    assert again("odd1").to_dict()["readers"].keys() == found.details["alone"].keys()


def test_attention_alone_where_it_is_wanted(tmp_path: Path) -> None:
    run = trained("label", folder(tmp_path / "clubs", **clubs()), tmp_path / "run", *MOMENT, "beside=none")
    assert run.known.readers is None
    assert "readers" not in run("odd1").to_dict()
    assert set(run.measure()) == {"accuracy", "macro_f1", "accuracy_features", "accuracy_majority"}


# graphs without features, and isolated nodes


def test_a_folder_without_features_has_the_nodes_that_it_names(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    files = clubs()
    place = folder(tmp_path / "clubs", **(files | {"features": None}))
    run = mirada.train("label", place, out=tmp_path / "run", **moment())
    assert "there are no features, so every node is given one of its own" in capsys.readouterr().err
    assert sorted(run.known.graph.names) == sorted(line.split(",")[0] for line in files["labels"].split()[1:])
    assert run.model.config.features == len(run.known.graph) == 24
    again = load(run.folder)
    assert again.known.graph.made
    assert again("even4").score == run("even4").score
    new = folder(tmp_path / "new", edges="source,target\nnewcomer,odd1\nnewcomer,odd3\n", features=None, labels=None)
    questions = run.task.questions(run, new)
    (answer,) = run.answers_to(questions.rows)
    assert (answer.input, answer.error) == ("newcomer", "")
    other = folder(tmp_path / "other", edges="a,b\nb,c\n", labels="a,red\nb,blue\nc,red\n", features=None)
    with pytest.raises(ValueError, match="learned from a graph without features, so it can label no other graph"):
        run.measure(other)


def test_the_first_edge_of_a_headless_list_is_an_edge(tmp_path: Path) -> None:
    from mirada.tasks.label.files import GraphOptions, read_graph

    place = folder(tmp_path / "g", edges="a,b\nb,c\nc,a\n", labels="a,red\nb,blue\nc,red\n", features=None)
    found = read_graph(place, GraphOptions()).graph
    assert found.names == ("a", "b", "c")
    assert found.edges.shape == (2, 6)


def test_arrays_without_features(tmp_path: Path) -> None:
    given = {"edge_index": np.array([[0, 1, 2, 3, 4], [1, 2, 0, 4, 5]]), "y": np.array([0, 0, 0, 1, 1, 1, 1])}
    run = mirada.train("label", given, out=tmp_path / "run", steps=2, validate=2, dim=4, heads=2, threads=1)
    assert run.model.config.features == 7  # the last node has no edge
    assert run("6").text in ("0", "1")


def test_nodes_with_the_same_neighbors_have_similar_features() -> None:
    """Two cliques of a graph with too many nodes for a feature each."""
    nodes, size = MOST_OWN + 2, 7
    edges = np.array(
        [[a, b] for first in (0, size) for a in range(first, first + size) for b in range(first, first + size)]
    ).T
    rows, text = made_features(nodes, edges)
    assert rows.width == MADE
    assert str(MADE) in text
    x = rows.dense()
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert (x[:size] @ x[:size].T).min() > 0.9
    assert (x[:size] @ x[size : 2 * size].T).max() < 0.5


@pytest.mark.parametrize("kind", ["isolated", pytest.param("wordless", marks=pytest.mark.slow)])
def test_the_builtin_graph_comes_with_isolated_papers_and_without_words(kind: str, tmp_path: Path) -> None:
    run = trained("label", "", tmp_path / "run", *MOMENT, f"builtin={kind}")
    graph = run.known.graph
    alone = set(range(len(graph))) - set(graph.edges.flatten().tolist())
    assert (len(alone) > 300) == (kind == "isolated")
    assert bool(graph.made) == (kind == "wordless")
    assert run.measure()["accuracy"] > 60  # the plain readers', after four steps

"""Every example runs as a program, and what it shows is true."""

import importlib.util
import math
import runpy
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.testing import assert_close

FOLDER = Path(__file__).parents[1] / "examples"


@cache
def example(name: str) -> ModuleType:
    """An example as a module, without running its main."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def printed(capsys, monkeypatch):
    """What an example prints when it is run as a program."""

    def run(name: str) -> str:
        monkeypatch.setattr("sys.argv", [f"{name}.py"])
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_every_example_runs_prints_and_says_its_row(name, printed):
    first = printed(name)
    assert first.strip()
    assert printed(name) == first, "an example must print the same every time"
    assert "row" in runpy.run_path(str(FOLDER / f"{name}.py"))["__doc__"]


def numbers(text: str, start: str) -> list[float]:
    """The numbers of the first line that starts so."""
    line = next(line for line in text.splitlines() if line.strip().startswith(start))
    return [float(word) for word in line.strip().removeprefix(start).split()]


def test_context_similarity_matrix_is_symmetric_with_ones_on_the_diagonal():
    module = example("context_similarity")
    matrix = module.similarity(module.SENTENCE)
    assert_close(matrix, matrix.T)
    assert_close(matrix.diagonal(), torch.ones(len(module.SENTENCE)))


def test_context_similarity_a_number_by_hand():
    module = example("context_similarity")
    matrix = module.similarity(module.SENTENCE)
    cine, ver = (module.SENTENCE.index(word) for word in ("cine", "ver"))
    assert matrix[cine, ver].item() == pytest.approx(6 / math.sqrt(19 * 8))


def test_context_similarity_blank_looks_most_at_cine_and_ver_and_not_at_itself():
    module = example("context_similarity")
    weights, _ = module.context(module.SENTENCE)
    assert {module.SENTENCE[i] for i in weights.topk(2).indices} == {"cine", "ver"}
    assert weights[-1] == 0
    assert_close(weights.sum(), torch.tensor(1.0))


def test_context_similarity_fitting_candidates_rank_above_all_others():
    module = example("context_similarity")
    _, taken = module.context(module.SENTENCE)
    ranked = [name for name, _ in module.rank(taken, module.FITTING + module.OTHERS)]
    assert set(ranked[:4]) == {"película", "comedia", "película de risa", "película francesa"}
    assert set(ranked[4:]) == {"tienda", "exposición", "partida de ajedrez", "obra teatral"}


def test_context_similarity_without_the_context_candidates_are_mixed():
    module = example("context_similarity")
    alone = dict(module.rank(module.vector("___"), module.FITTING + module.OTHERS))
    assert min(alone[name] for name in module.FITTING) < max(alone[name] for name in module.OTHERS)


@pytest.mark.parametrize(("place", "best"), [("teatro", "obra teatral"), ("museo", "exposición")])
def test_context_similarity_another_place_has_another_answer(place, best):
    module = example("context_similarity")
    sentence = tuple(place if word == "cine" else word for word in module.SENTENCE)
    _, taken = module.context(sentence)
    assert module.rank(taken, module.FITTING + module.OTHERS)[0][0] == best


def test_context_similarity_table_is_printed_and_aligned(printed):
    lines = printed("context_similarity").splitlines()
    table = lines[2 : 3 + len(example("context_similarity").SENTENCE)]
    assert {len(line) for line in table} == {len(table[0])}
    assert any(line.startswith("película ") for line in lines)


def test_self_attention_layer_is_the_formula():
    module = example("self_attention_without_parameters")
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    _, weights, y = module.by_formula(x)
    layer, layer_weights, layer_y = module.by_mirada(x)
    assert_close(layer_weights, weights)
    assert_close(layer_y, y)
    assert not list(layer.parameters())


def test_self_attention_a_vector_equally_like_all_others_takes_their_mean():
    module = example("self_attention_without_parameters")
    x = module.inputs()
    _, weights, y = module.by_mirada(x)
    assert_close(weights[1], torch.full((4,), 0.25))
    assert_close(y[1], x.mean(0))


def test_self_attention_what_is_printed(printed):
    out = printed("self_attention_without_parameters")
    assert "parameters of the layer: 0" in out
    assert "0.250   0.250   0.250   0.250" in out


def test_user_movie_a_preference_is_a_dot_product():
    module = example("user_movie")
    liked = module.preferences(*module.features())
    by_hand = [
        [sum(u * m for u, m in zip(user, movie, strict=True)) for movie in module.MOVIES.values()]
        for user in module.USERS.values()
    ]
    assert_close(liked, torch.tensor(by_hand))


def test_user_movie_favorite_of_each_user():
    module = example("user_movie")
    liked = module.preferences(*module.features())
    best = [list(module.MOVIES)[i] for i in liked.argmax(-1)]
    assert best == ["Risas en Madrid", "La persecución", "Cartas de amor"]


def test_user_movie_weights_keep_the_order_and_mix_the_movies():
    module = example("user_movie")
    users, movies = module.features()
    weights, mixture = module.watch(users, movies)
    liked = module.preferences(users, movies)
    assert_close(weights, liked.softmax(-1))
    assert torch.equal(weights.argsort(-1), liked.argsort(-1))
    assert_close(mixture, weights @ movies)


def test_user_movie_what_is_printed(printed):
    assert numbers(printed("user_movie"), "Luis") == [0, 3, -1]


NEGRO = (0.025, 0.4, 0.5, 0.025, 0.025, 0.025)


def test_black_cat_softmax_gives_the_lectures_weights():
    module = example("black_cat")
    weights, _ = module.graph()
    assert_close(weights[module.WORDS.index("negro")], torch.tensor(NEGRO))
    assert_close(weights, torch.tensor(module.WANTED))
    assert_close(weights.sum(-1), torch.ones(6))


def test_black_cat_output_is_that_combination_of_the_values():
    module = example("black_cat")
    _, h = module.graph()
    by_hand = [sum(w * value[axis] for w, value in zip(NEGRO, module.VALUES, strict=True)) for axis in (0, 1)]
    assert_close(h[2], torch.tensor(by_hand))


def test_black_cat_every_output_lies_in_the_convex_hull():
    module = example("black_cat")
    _, h = module.graph()
    hull = module.convex_hull(list(module.VALUES))
    assert all(module.inside((x, y), hull) for x, y in h.tolist())


def test_black_cat_hull():
    module = example("black_cat")
    square = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]
    assert module.convex_hull([(1.0, 1.0), (1.0, 0.0), *square]) == square
    assert module.inside((1.0, 0.5), square)
    assert module.inside((2.0, 1.0), square)
    assert not module.inside((2.1, 1.0), square)


def test_black_cat_what_is_printed(printed):
    out = printed("black_cat")
    assert "h_negro = 0.025 el + 0.4 gato + 0.5 negro + 0.025 salta + 0.025 la + 0.025 cuerda" in out
    assert "6 of 6" in out


def test_step_by_step_steps_by_hand():
    module = example("step_by_step")
    s = module.steps(*module.vectors())
    assert s.products[1].tolist() == [8, 2, 0, 6]
    assert s.scaled[1].tolist() == [4, 1, 0, 3]
    assert s.masked[1].tolist() == [4, 1, -math.inf, -math.inf]
    total = math.exp(4) + math.exp(1)
    assert_close(s.weights[1], torch.tensor([math.exp(4) / total, math.exp(1) / total, 0, 0]))
    assert_close(s.output[1], torch.tensor([9 * math.exp(4) / total, 9 * math.exp(1) / total, 0]))


def test_step_by_step_attend_agrees():
    module = example("step_by_step")
    assert_close(module.attended(*module.vectors()), module.steps(*module.vectors()).output)


def test_step_by_step_page_is_compact_and_shows_the_numbers(printed):
    out = printed("step_by_step")
    lines = out.splitlines()
    assert len(lines) < 45
    assert max(map(len, lines)) < 90
    weights = example("step_by_step").steps(*example("step_by_step").vectors()).weights
    for row in weights:
        assert "".join(f"{x:8.3f}" for x in row) in out
    assert "attend" in lines[-1]


@pytest.fixture(scope="module")
def measured():
    module = example("why_scale")
    return [[module.measure(dim, scale) for dim in module.DIMS] for scale in (1.0, None)]


def test_why_scale_without_the_scale_the_variance_is_the_dim(measured):
    for dim, at in zip(example("why_scale").DIMS, measured[0], strict=True):
        assert at.variance == pytest.approx(dim, rel=0.05)


def test_why_scale_without_the_scale_the_softmax_saturates(measured):
    raw = measured[0]
    for a, b in pairwise(raw):
        assert a.largest < b.largest
        assert a.entropy > b.entropy
        assert a.gradient > b.gradient
    assert raw[-1].gradient < 1e-3 < raw[0].gradient


def test_why_scale_with_the_scale_nothing_depends_on_the_dim(measured):
    for at in measured[1]:
        assert at.variance == pytest.approx(1, rel=0.05)
        assert at.largest == pytest.approx(measured[1][0].largest, rel=0.1)
        assert at.entropy == pytest.approx(measured[1][0].entropy, rel=0.1)
        assert at.gradient == pytest.approx(measured[1][0].gradient, rel=0.1)


def test_why_scale_what_is_printed(printed, measured):
    shown = numbers(printed("why_scale"), "1024")
    assert shown == [round(x, digits) for x, digits in zip(measured[0][-1], (2, 3, 3, 5), strict=True)]


LETTERS = (("I am writing a letter to her", "carta"), ("the first letter of the word", "letra"))


def test_letter_word_wise_lookup_cannot_decide():
    module = example("letter")
    assert {module.translate(module.word_wise(sentence))[0] for sentence, _ in LETTERS} == {"carta or letra"}


@pytest.mark.parametrize(("sentence", "right"), LETTERS)
def test_letter_uniform_mean_is_wrong(sentence, right):
    module = example("letter")
    found, _ = module.translate(module.uniform_mean(sentence))
    assert module.judge(found, right) == "wrong"


@pytest.mark.parametrize(("sentence", "right"), LETTERS)
def test_letter_attention_is_right(sentence, right):
    module = example("letter")
    found, _ = module.translate(module.attention(sentence))
    assert found == right == module.RIGHT[sentence]


@pytest.mark.parametrize(("sentence", "word"), [(LETTERS[0][0], "writing"), (LETTERS[1][0], "word")])
def test_letter_telling_word_weighs_most_after_letter_itself(sentence, word):
    module = example("letter")
    weights, y = module.attend_from_letter(sentence)
    words = sentence.split()
    assert [words[i] for i in weights.topk(2).indices] == ["letter", word]
    assert_close(y, weights @ module.vectors(sentence))


def test_letter_what_is_printed(printed):
    out = printed("letter")
    assert [out.count(verdict) for verdict in ("undecided", "wrong", "right")] == [2, 2, 2]


def test_convolution_grid_attention_is_a_depthwise_convolution():
    module = example("convolution")
    torch.manual_seed(0)
    layer = module.convolution_layer(channels=3, height=5, width=7)
    by_attention, by_torch = module.convolve(layer, torch.randn(2, 3, 5, 7))
    assert by_attention.shape == (2, 3, 5, 7)
    assert_close(by_attention, by_torch)
    assert layer.heads.bias.abs().min() > 0


def test_convolution_complete_graph_is_self_attention():
    module = example("convolution")
    torch.manual_seed(0)
    layer = module.Attention(module.MultiHead(6, heads=3))
    over_graph, plain = module.self_attention(layer, torch.randn(2, 5, 6))
    assert_close(over_graph, plain)


def test_convolution_bipartite_graph_is_encoder_decoder_attention():
    module = example("convolution")
    torch.manual_seed(0)
    layer = module.Attention(module.MultiHead(6, heads=3))
    over_graph, cross = module.encoder_decoder(layer, torch.randn(2, 5, 6), torch.randn(2, 7, 6))
    assert over_graph.shape == (2, 7, 6)
    assert_close(over_graph, cross)


def test_convolution_graphs_have_the_edges_they_say():
    module = example("convolution")
    assert module.complete_graph(5).dense(5, 5).all()
    seen = module.bipartite_graph(2, 3).dense(5, 5)[0, 0]
    assert seen[2:, :2].all()
    assert seen.sum() == 6


def test_convolution_what_is_printed(printed):
    out = printed("convolution")
    assert numbers(out, "4") == [6, 6, 6, 6, 6, 4]
    shown = [float(line.split()[-1]) for line in out.splitlines()[-3:]]
    assert max(shown) < 1e-5


@pytest.fixture(scope="module")
def phrases(tmp_path_factory):
    """A model of two-word phrases, and what the example does with it."""
    module = example("alignments")
    return module, module.small_run(str(tmp_path_factory.mktemp("run")))


def test_tags_stand_around_what_was_written_from_their_words(phrases):
    module, run = phrases
    text, lost = module.tagged(run, "<i>the <b>red</b> house</i>")
    words = module.TAG.sub("", text).split()
    assert words == run("the red house").text.split()
    links = run("the red house", alignments=f"{module.cross_layer(run)}:links").links[module.cross_layer(run)]
    red = [int(link.split("-")[1]) for link in links.split() if link.startswith("1-")]
    assert lost == ([] if red else ["b"])
    assert text.startswith("<i>")
    if red:
        assert f"<b>{words[min(red)]}" in text
        assert f"{words[max(red)]}</b>" in text


def test_simultaneous_translation_waits_for_what_is_safe(phrases):
    module, run = phrases
    text, delays = module.simultaneous(run, "the white window", safe=9)
    assert (text, set(delays)) == (run("the white window").text, {3})  # nothing is safe: the whole phrase
    _, early = module.simultaneous(run, "the white window", safe=0)
    assert early == sorted(early)
    assert early[0] == 1
    assert module.average_lagging(early, 3) < module.average_lagging(delays, 3) == 3


def test_certainty_and_correlation_by_hand(phrases):
    module, run = phrases
    layer = module.cross_layer(run)
    answer = run("the red house", alignments=f"{layer}:mean")
    answer.alignments[layer] = torch.tensor([[[0.5, 0.5, 0, 0], [1.0, 0, 0, 0]]])
    assert math.isclose(module.certainty(run, answer), -0.25, abs_tol=1e-6)
    assert math.isclose(module.correlation([1, 2, 2, 3], [10, 20, 20, 90]), 1, abs_tol=1e-6)
    assert math.isclose(module.correlation([1, 2, 3], [3, 1, 2]), -0.5, abs_tol=1e-6)

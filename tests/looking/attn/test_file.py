"""What is saved comes back: names, sizes, labels, and weights within what the encodings promise."""

import json
import math
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import mirada
from mirada import Attention, MultiHead, Seen, look
from mirada.attention.neighborhoods import Causal, Edges, Padding, Window
from mirada.attention.normalizers import Identity, Softmax, Sparsemax
from mirada.attention.positions import ALiBi, LocalGaussian, Rotary
from mirada.attention.scores import Additive, Bilinear, Dot, Graph
from mirada.looking.attn import write as file
from mirada.looking.attn.format import LARGEST_ERROR, compand, expand
from mirada.looking.explain.methods import Methods
from mirada.looking.explain.relations import HeadRelation
from mirada.looking.labels import AxisLabels, GridLabels, Labels, NodeLabels, TextLabels, TimeLabels, WrittenStep
from mirada.looking.record import look as watched
from mirada.models.gat import GAT, GATConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.models.vit import ViT, ViTConfig

WIDTH, HEADS = 12, 3


def seen_of(layer: Attention, queries: int = 7, width: int = WIDTH, scale: float = 1.0, **given_: object) -> Seen:
    torch.manual_seed(queries)
    with look(layer) as seen, torch.no_grad():
        layer(scale * torch.randn(1, queries, width), **given_)  # type: ignore[arg-type]
    return seen


def manifest_of(seen: Seen) -> dict:
    return json.loads(zipfile.ZipFile(BytesIO(seen.to_bytes())).read("manifest.json"))


def plain(**parts: object) -> Attention:
    torch.manual_seed(0)
    return Attention(MultiHead(WIDTH, HEADS), **parts)  # type: ignore[arg-type]


LAYERS = {
    "dot": plain(),
    "causal": plain(where=Causal()),
    "window": plain(where=Window(2, 1)),
    "bilinear": plain(score=Bilinear(4, 4, HEADS)),
    "additive": plain(score=Additive(4, 4, 5)),
    "rotary": plain(position=Rotary(4)),
    "alibi": plain(position=ALiBi(HEADS)),
    "gaussian": plain(position=LocalGaussian(4, 2)),
    "sparsemax": plain(normalizer=Sparsemax()),
    "identity": plain(normalizer=Identity()),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("queries", [1, 7, 41])
def test_weights_come_back(name: str, queries: int, tmp_path: Path) -> None:
    seen = seen_of(LAYERS[name], queries)
    seen.save(tmp_path / "x.attn")
    again = mirada.Seen.load(tmp_path / "x.attn")
    assert again.names == seen.names
    exact, stored = seen[""], again[""]
    assert (stored.kind, stored.heads, stored.queries, stored.keys) == ("self", HEADS, queries, queries)
    assert_close(stored.weights(), exact.weights(), atol=LARGEST_ERROR, rtol=0)
    assert_close(stored.weights(head=-1), exact.weights(head=-1), atol=LARGEST_ERROR, rtol=0)
    assert_close(stored.weights(rows=slice(2, 5)), exact.weights(rows=slice(2, 5)), atol=LARGEST_ERROR, rtol=0)
    assert stored.error is not None
    assert float((stored.weights() - exact.weights()).abs().max()) <= stored.error + 1e-6
    assert [math.isclose(a.entropy, b.entropy) for a, b in zip(stored.statistics(), exact.statistics(), strict=True)]
    assert str(again).splitlines()[0] == str(seen).splitlines()[0]
    assert repr(LAYERS[name].where) in str(again)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=1))
def test_bytes_of_square_roots_are_near_and_stable(values: list[float]) -> None:
    weights = torch.tensor(values)
    codes = compand(weights)
    assert float((expand(codes) - weights).abs().max()) <= LARGEST_ERROR
    assert torch.equal(compand(expand(codes)), codes)


def test_a_small_weight_is_never_taken_for_none() -> None:
    """A linear byte would be zero for every weight below 1/510; the square root keeps weights down to 4e-6."""
    assert int(compand(torch.tensor([5e-6]))[0]) > 0


def test_numbers_outside_of_bytes_are_floats() -> None:
    seen = seen_of(LAYERS["identity"])
    assert manifest_of(seen)["streams"][0]["encoding"] == "float32"
    assert_close(Seen.from_bytes(seen.to_bytes())[""].weights(), seen[""].weights(), atol=0, rtol=0)


def test_nan_rows_are_kept_and_counted() -> None:
    x = torch.randn(1, 5, WIDTH)
    x[0, 2] = math.nan
    layer = plain(where=Causal())
    with look(layer) as seen, torch.no_grad():
        layer(x)
    found = manifest_of(seen)["streams"][0]
    assert found["encoding"] == "float32"
    assert found["checks"]["nan_rows"] > 0
    again = Seen.from_bytes(seen.to_bytes())
    assert_close(again[""].weights(), seen[""].weights(), atol=0, rtol=0, equal_nan=True)


LONG = {
    "complete": Attention(MultiHead(16, 2)),
    "causal": Attention(MultiHead(16, 2), where=Causal()),
    "window": Attention(MultiHead(16, 2), where=Window(37, 5)),
    "bilinear": Attention(MultiHead(16, 2), score=Bilinear(8, 8, 2)),
}


@pytest.mark.parametrize("name", LONG)
def test_long_inputs_keep_queries_and_keys(name: str) -> None:
    seen = seen_of(LONG[name], 211, 16)
    data = manifest_of(seen)["streams"][0]
    assert data["encoding"] == "qk16"
    assert data["data"]["mask"]["kind"] == {"bilinear": "complete"}.get(name, name)
    again = Seen.from_bytes(seen.to_bytes())
    assert_close(again[""].weights(), seen[""].weights(), atol=LARGEST_ERROR, rtol=0)
    assert_close(again[""].weights(1, slice(3, 9)), seen[""].weights(1, slice(3, 9)), atol=LARGEST_ERROR, rtol=0)
    twice = Seen.from_bytes(again.to_bytes())
    assert torch.equal(twice[""].weights(), again[""].weights())


def test_a_mask_of_no_simple_shape_is_bits() -> None:
    layer = LONG["complete"]
    with look(layer) as seen, torch.no_grad():
        layer(torch.randn(1, 211, 16), where=Padding([190]))
    assert manifest_of(seen)["streams"][0]["data"]["mask"]["kind"] == "bits"
    again = Seen.from_bytes(seen.to_bytes())[""].weights()
    assert_close(again, seen[""].weights(), atol=LARGEST_ERROR, rtol=0)
    assert float(again[..., 190:].abs().max()) == 0


def test_half_precision_that_is_too_coarse_is_not_used() -> None:
    """Scores of several hundred lose whole units in float16: bytes take over, and stay within the promise."""
    seen = seen_of(LONG["complete"], 211, 16, scale=120.0)
    assert manifest_of(seen)["streams"][0]["encoding"] == "sqrt8"
    again = Seen.from_bytes(seen.to_bytes())
    assert_close(again[""].weights(), seen[""].weights(), atol=LARGEST_ERROR, rtol=0)


def test_graphs_have_a_weight_per_edge() -> None:
    edges = Edges(torch.tensor([[0, 1, 2, 2, 5, 6, 3], [1, 1, 4, 0, 3, 1, 3]]), 7)
    layer = plain(score=Graph(4, HEADS))
    seen = seen_of(layer, 7, where=edges).labelled(
        Labels({"nodes": NodeLabels(tuple("abcdefg"), (3, 5, 8, 13, 21, 34, 55))}, {"*": ("nodes", "nodes")})
    )
    again = Seen.from_bytes(seen.to_bytes())
    assert again.labels.axes == seen.labels.axes  # of a part of a graph, with their numbers in the whole
    assert again[""].kind == "graph"
    assert again[""].edges is not None
    assert torch.equal(again[""].edges, seen[""].edges)
    assert_close(again[""].weights(), seen[""].weights(), atol=LARGEST_ERROR, rtol=0)
    assert_close(again[""].weights(head=1), seen[""].weights(head=1), atol=LARGEST_ERROR, rtol=0)
    assert again.labels.axes_of("", 7, 7) == ("nodes", "nodes")
    assert again[""].statistics()[0].distance is None


def test_cached_steps_are_joined_and_padded() -> None:
    layer = plain(where=Causal())
    x = torch.randn(1, 6, WIDTH)
    with torch.no_grad():
        whole = layer.weights(x)
        with look(layer) as seen:
            cache = layer.cache(1, 9)
            layer(x[:, :2], cache=cache)
            for place in range(2, 6):
                layer(x[:, place : place + 1], cache=cache)
    again = Seen.from_bytes(seen.to_bytes())
    assert (again[""].queries, again[""].keys, again[""].kind) == (6, 6, "self")
    assert_close(again[""].weights(), whole, atol=LARGEST_ERROR, rtol=0)


def test_steps_without_a_cache_are_recurrent() -> None:
    layer, x, memory = plain(), torch.randn(1, 5, WIDTH), torch.randn(1, 4, WIDTH)
    with torch.no_grad(), look(layer) as seen:
        layer(torch.randn(1, 3, WIDTH))  # another call before it, which it does not continue
        kept = layer.remember(memory)
        for place in range(5):
            layer(x[:, place : place + 1], memory=kept)
    again = Seen.from_bytes(seen.to_bytes())
    assert (again[""].queries, again[""].keys, again[""].kind) == (5, 4, "recurrent")
    assert_close(again[""].weights(), layer.weights(x, memory).detach(), atol=LARGEST_ERROR, rtol=0)


def test_one_sample_of_a_batch() -> None:
    layer, x = plain(), torch.randn(3, 5, WIDTH)
    with torch.no_grad(), look(layer) as seen:
        layer(x)
    with pytest.raises(ValueError, match=r"saw 3 samples.*sample=0"):
        seen.to_bytes()
    again = Seen.from_bytes(seen.to_bytes(sample=2))
    assert_close(again[""].weights()[0], seen[""].weights()[2], atol=LARGEST_ERROR, rtol=0)
    with pytest.raises(ValueError, match=r"0\.\.2"):
        seen.to_bytes(sample=3)


def labelled() -> Seen:
    png = b"\x89PNG\r\n\x1a\nrest"
    axes = {
        "words": TextLabels(
            ("a</script>", "\ud800", "رأى", "</s>", "x" * 2000, "🙂", ""), "text", ((0, 1), None, (1, 4), None, None, None, None)
        ),
        "cells": GridLabels.of(2, 3, ("[class]",), png),
        "times": TimeLabels(tuple("1234567"), (0.5, math.nan, 1, 2, 3, 4, 5)),
        "other": AxisLabels(tuple("abcdefg")),
    }  # fmt: skip
    labels = Labels(
        axes, {"*": ("words", "cells")}, {"task": "caption", "run": "runs/x"}, ("an answer", -0.5),
        (WrittenStep(0, "a", 0.9, (("a", 0.9), ("b", 0.1))), WrittenStep(1, "b")), ((1, (0.0, 1.0, 2.5, 3.0)),),
        ({"layer": "", "do": "DropHead", "head": 1},),
    )  # fmt: skip
    return seen_of(plain(), 7).labelled(labels)


def test_labels_methods_and_relations_come_back() -> None:
    seen = labelled()
    seen.methods = Methods.of({"a": torch.rand(7, 7), "b": torch.rand(7, 7)}, "words", "cells")
    seen.relations = (HeadRelation("det", "", 1, 0.9, 0.4, 1, 20),)
    again = Seen.from_bytes(seen.to_bytes())
    assert again[""].kind == "vision"
    assert {**seen.labels.axes, "times": None} == {**again.labels.axes, "times": None}
    assert_close(torch.tensor(again.labels.axes["times"].values), torch.tensor(seen.labels.axes["times"].values), equal_nan=True)  # type: ignore[attr-defined]  # fmt: skip
    for field in ("answer", "outputs", "boxes", "changes"):
        assert getattr(again.labels, field) == getattr(seen.labels, field)
    assert dict(seen.labels.made).items() <= dict(again.labels.made).items()
    assert again.labels.axes_of("", 7, 7) == ("words", "cells")
    assert again.relations == seen.relations
    assert again.methods is not None
    assert seen.methods is not None
    assert again.methods.agreement == seen.methods.agreement
    assert_close(again.methods.matrices["b"], seen.methods.matrices["b"])


def test_layers_can_be_chosen_and_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    model = nn.ModuleList([plain(), plain()])
    with torch.no_grad(), watched(model) as seen:
        model[1](model[0](torch.ones(1, 3, WIDTH)))
    assert Seen.from_bytes(seen.to_bytes(layers=["1"])).names == ["1"]
    assert seen.to_bytes() == seen.to_bytes()
    with pytest.raises(KeyError, match="unknown layer"):
        seen.to_bytes(layers=["2"])


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.attn"
    path.write_bytes(b"before")
    layer = plain()
    with torch.no_grad(), look(layer) as seen:
        layer(torch.randn(2, 3, WIDTH))
    with pytest.raises(ValueError, match="samples"):
        seen.save(path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="cannot be written"):
        seen.save(tmp_path / "missing" / "x.attn", sample=0)


def test_nothing_was_seen() -> None:
    with look(plain()) as seen:
        pass
    with pytest.raises(ValueError, match="no attention to save"):
        seen.to_bytes()


def test_vectors_give_the_scores_and_the_output() -> None:
    seen = seen_of(plain())
    stored, exact = Seen.from_bytes(seen.to_bytes())[""], seen[""]
    assert_close(stored.values(), exact.values())
    assert_close(stored.scores(), exact.scores())
    assert_close(stored.scores(1, slice(2, 4)), exact.scores(1, slice(2, 4)))
    additive = Seen.from_bytes(seen_of(LAYERS["additive"]).to_bytes())[""]
    with pytest.raises(ValueError, match="not its scores"):
        additive.scores()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    queries=st.integers(1, 9), keys=st.integers(1, 9), heads=st.sampled_from([1, 2, 3]), dropout=st.sampled_from([0.0, 0.3]),
    scale=st.sampled_from([0.0, 1.0, 1e4]), where=st.sampled_from([None, Causal(), Window(1, 1)]), seed=st.integers(0, 9),
)  # fmt: skip
def test_any_layer_round_trips(
    queries: int, keys: int, heads: int, dropout: float, scale: float, where: object, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = Attention(MultiHead(6, heads), Dot(scale=scale), where, normalizer=Softmax(dropout))  # type: ignore[arg-type]
    with torch.no_grad(), look(layer) as seen:
        layer(torch.randn(1, queries, 6), memory=torch.randn(1, keys, 6))
    again = Seen.from_bytes(seen.to_bytes())[""]
    assert (again.kind, again.queries, again.keys, again.dropout) == ("cross", queries, keys, dropout)
    assert_close(again.weights(), seen[""].weights(), atol=LARGEST_ERROR, rtol=0)


def test_scores_of_a_file_are_exact_or_refused() -> None:
    rotary, alibi = seen_of(LAYERS["rotary"]), seen_of(LAYERS["alibi"])
    assert_close(Seen.from_bytes(rotary.to_bytes())[""].scores(), rotary[""].scores())
    with pytest.raises(ValueError, match="not its scores"):
        Seen.from_bytes(alibi.to_bytes())[""].scores()


@pytest.mark.parametrize(
    ("length", "spread", "most"),
    [(256, 0.7, 5.0e6), (256, 1.0, 5.8e6), (256, 1.5, 5.8e6), (256, 2.0, 5.0e6), (1024, 0.7, 41e6), (1024, 2.0, 41e6)],
)
def test_a_file_is_small(length: int, spread: float, most: float) -> None:
    """A layer of 12 heads takes at most a twelfth of what 12 layers may take.

    Random weights between even and sharp are the hardest to pack, and take more than 5 MB for 256 places.
    """
    layer = Attention(MultiHead(768, 12))
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, 0, spread / 768**0.5)
    assert len(seen_of(layer, length, 768).to_bytes()) <= most / 12


TOKENS = st.lists(st.text(max_size=8), min_size=3, max_size=3).map(tuple)


@settings(max_examples=60, deadline=None)
@given(
    tokens=TOKENS, others=TOKENS, made=st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3),
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
    ranked=st.lists(st.tuples(st.text(max_size=5), st.floats(0, 1)), max_size=3), name=st.text(max_size=8),
)  # fmt: skip
def test_any_labels_come_back(
    tokens: tuple[str, ...], others: tuple[str, ...], made: dict[str, str], values: list[float],
    ranked: list[tuple[str, float]], name: str,
) -> None:  # fmt: skip
    text = "".join(tokens)
    ends = [sum(map(len, tokens[: n + 1])) for n in range(3)]
    spans = tuple((end - len(token), end) for token, end in zip(tokens, ends, strict=True))
    axes = {name: TextLabels(tokens, text, spans), name + "'": TimeLabels(others, tuple(values))}
    labels = Labels(axes, {"*": (name, name + "'")}, made, (text, None), (WrittenStep(2, text, None, tuple(ranked)),))
    again = Seen.from_bytes(seen_of(SMALL, 3).labelled(labels).to_bytes()).labels
    assert again.axes == axes
    assert (again.answer, again.outputs) == (labels.answer, labels.outputs)
    assert made.items() <= dict(again.made).items()
    assert again.axes_of("", 3, 3) == (name, name + "'")


SMALL = plain()


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (TextLabels(("a",) * 7, "a", ((0, 2),) * 7), "1 characters"),
        (GridLabels.of(1, 7, (), b"GIF89a"), "must be a PNG"),
    ],
)
def test_labels_that_no_reader_would_take_are_not_written(axis: AxisLabels, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        seen_of(SMALL).labelled(Labels({"x": axis})).to_bytes()
    with pytest.raises(ValueError, match="JSON cannot"):
        seen_of(SMALL).labelled(Labels(changes=({"do": object()},))).to_bytes()


def test_every_model_of_the_lectures_has_its_kind() -> None:
    source, target = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[1, 4, 2]])
    gat = GAT(GATConfig.tiny())
    graph = (torch.randn(5, gat.config.features), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
    cases: dict[str, tuple[nn.Module, tuple[object, ...], set[str]]] = {
        "transformer": (Transformer(TransformerConfig.tiny()), (source, None, target), {"self", "cross"}),
        "luong": (Seq2Seq(Seq2SeqConfig.tiny()), (source, None, target), {"recurrent"}),
        "gat": (gat, graph, {"graph"}),
        "gpt": (GPT(GPTConfig.tiny()), (source,), {"self"}),
        "vit": (ViT(ViTConfig.tiny()), (torch.rand(1, ViTConfig.tiny().channels, 8, 8),), {"vision"}),
    }
    for name, (model, inputs, kinds) in cases.items():
        with torch.no_grad(), look(model.eval()) as seen:
            model(*inputs)
        if name == "vit":
            seen.labelled(Labels({"cells": GridLabels.of(2, 2, ("[class]",))}, {"*": ("cells", "cells")}))
        again = Seen.from_bytes(seen.to_bytes())
        assert {again[layer].kind for layer in again.names} == kinds, name
        for layer in again.names:
            assert_close(again[layer].weights(), seen[layer].weights(), atol=LARGEST_ERROR, rtol=0)
            assert Seen.from_bytes(again.to_bytes())[layer].kind == again[layer].kind


def test_few_weights_are_kept_as_they_are() -> None:
    """Numbers of a blackboard stay what they are: a row of 0.5 and 0.5 is not one of 0.498 and 0.502."""
    seen = seen_of(SMALL, 5)
    assert manifest_of(seen)["streams"][0]["encoding"] == "float32"
    assert torch.equal(Seen.from_bytes(seen.to_bytes())[""].weights(), seen[""].weights())


def test_bytes_hold_weights_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "EXACT_WEIGHTS", 0)
    seen = seen_of(SMALL, 5)
    assert manifest_of(seen)["streams"][0]["encoding"] == "sqrt8"
    again = Seen.from_bytes(seen.to_bytes())[""].weights()
    assert_close(again, seen[""].weights(), atol=0.004, rtol=0)
    assert not torch.equal(again, seen[""].weights())

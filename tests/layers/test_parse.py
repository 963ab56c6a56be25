"""Parts written as words: everything can be read, what is printed too, and nothing else."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mirada
from mirada.attention import heads, neighborhoods, normalizers, positions, scores
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dense,
    Dilated,
    Fixed,
    Global,
    Grid,
    Monotonic,
    Neighborhood,
    PerHead,
    Prefix,
    Strided,
    Window,
)
from mirada.layers import norm
from mirada.layers.output import Transform
from mirada.layers.parse import PARTS, parse

KNOWN = {"width": 21, "heads": 3, "dim": 14, "dim_q": 14, "dim_k": 14, "positions": 11, "max_keys": 13}
SIZES = {"width": 21, "heads": 3}
TRANSFORMED = {"width": 21, "out": 5, "normed": norm.LayerNorm}

# kind, name, as it is written, the class, and what came out of the arguments
SPELLED = [
    ("score", "dot", "dot:0.5", scores.Dot, {"scale": 0.5}),
    ("score", "bilinear", "bilinear", scores.Bilinear, {"dims": (14, 14), "heads": 3}),
    ("score", "general", "general:scale=None", scores.Bilinear, {"dims": (14, 14), "heads": 3, "scale": None}),
    ("score", "additive", "additive:5", scores.Additive, {"dims": (14, 14), "pair_width": 5, "heads": 3}),
    ("score", "concat", "concat:None", scores.Concat, {"hidden": None, "v": None}),
    ("score", "tanhsum", "tanh-sum:scalar,learned", scores.TanhSum, {"pair_width": 14}),
    ("score", "location", "location", scores.Location, {}),
    ("score", "qknorm", "qk-norm:5.0", scores.QKNorm, {}),
    ("score", "softcap", "softcap:30", scores.Softcap, {"cap": 30}),
    ("where", "complete", "complete", Complete, {}),
    ("where", "causal", "causal", Causal, {}),
    ("where", "window", "window:64,32", Window, {"left": 64, "right": 32}),
    ("where", "global", "global:16", Global, {"tokens": 16}),
    ("where", "prefix", "prefix:7", Prefix, {"places": 7}),
    ("where", "dilated", "dilated:3,step=4", Dilated, {"left": 3, "step": 4}),
    ("where", "strided", "strided:8,part=local", Strided, {"stride": 8, "part": "local"}),
    ("where", "fixed", "fixed:8,2", Fixed, {"block": 8, "summary": 2, "part": None}),
    ("where", "grid", "grid:5,7,radius=2", Grid, {"height": 5, "width": 7, "radius": 2}),
    ("where", "monotonic", "monotonic:3", Monotonic, {"half": 3}),
    ("where", "perhead", "PerHead(Causal(), Window(3))", PerHead, {"parts": (Causal(), Window(3))}),
    ("position", "none", "none", positions.Position, {}),
    ("position", "sinusoidal", "sinusoidal:layout=half", positions.Sinusoidal, {"width": 21, "layout": "half"}),
    ("position", "learned", "learned", positions.Learned, {"width": 21, "offset": 0}),
    ("position", "learned", "learned:offset=2", positions.Learned, {"width": 21, "offset": 2}),
    ("position", "rotary", "rotary:base=500", positions.Rotary, {"dim": 14, "base": 500}),
    ("position", "relative", "relative:16,False", positions.Relative, {"dim": 14, "clip": 16, "values": None}),
    ("position", "alibi", "alibi", positions.ALiBi, {"heads": 3}),
    (
        "position",
        "t5",
        "t5:16,64",
        positions.T5Bias,
        {"heads": 3, "buckets": 16, "distance": 64, "bidirectional": True},
    ),
    ("position", "localgaussian", "local-gaussian:5", positions.LocalGaussian, {"reach": 5}),
    ("normalizer", "softmax", "softmax:0.1", normalizers.Softmax, {"dropout": 0.1}),
    ("normalizer", "sparsemax", "sparsemax", normalizers.Sparsemax, {}),
    ("normalizer", "entmax15", "entmax15", normalizers.Entmax15, {}),
    ("normalizer", "softmaxtopk", "softmax-top-k:5", normalizers.SoftmaxTopK, {"k": 5}),
    ("normalizer", "sigmoid", "sigmoid:bias=-3.5", normalizers.Sigmoid, {"bias": -3.5}),
    ("normalizer", "softmaxplusone", "softmax-plus-one", normalizers.SoftmaxPlusOne, {}),
    ("normalizer", "sinks", "sinks:3", normalizers.Sinks, {}),
    ("normalizer", "identity", "identity", normalizers.Identity, {}),
    ("normalizer", "hard", "hard:0.5", normalizers.Hard, {"soft": 0.5}),
    ("normalizer", "straightthrough", "straight-through", normalizers.StraightThrough, {}),
    ("normalizer", "gumbel", "gumbel:2.5", normalizers.Gumbel, {"temperature": 2.5}),
    ("heads", "multihead", "multihead", heads.MultiHead, {"width": 21, "heads": 3, "dim": 7}),
    ("heads", "grouped", "grouped:1", heads.Grouped, {"heads": 3, "key_heads": 1}),
    ("heads", "collaborative", "collaborative:13", heads.Collaborative, {"heads": 3, "dim": 13}),
    ("heads", "split", "split:bias=True", heads.Split, {"width": 21, "heads": 3}),
    ("heads", "gated", "gated:gate=head", heads.GatedHeads, {"width": 21, "heads": 3}),
    (
        "heads",
        "differential",
        "differential:width=30,initial=0.5",
        heads.Differential,
        {"value_heads": 3, "initial": 0.5},
    ),
    ("heads", "latent", "latent:latent=5,rotary=4", heads.Latent, {"heads": 3, "shared_from": 4}),
    ("heads", "forgetting", "forgetting", heads.Forgetting, {"width": 21, "heads": 3, "dim": 8}),
    ("norm", "layer", "layer", norm.LayerNorm, {"width": 21}),
    ("norm", "rms", "rms:0.001", norm.RMSNorm, {"width": 21, "eps": 0.001}),
    ("norm", "batch", "batch:correction=1", norm.BatchNorm, {"width": 21, "correction": 1}),
    ("transform", "tanh", "tanh", Transform, {"activation": "tanh", "norm": None}),
    ("transform", "relu", "relu:bias=no", Transform, {"activation": "relu"}),
    ("transform", "gelu", "gelu:norm=no,bias=yes", Transform, {"activation": "gelu", "norm": None}),
    ("transform", "gelusigmoid", "gelu-sigmoid", Transform, {"activation": "gelu-sigmoid"}),
    ("transform", "gelutanh", "gelu-tanh", Transform, {"activation": "gelu-tanh"}),
    ("transform", "silu", "silu", Transform, {"activation": "silu"}),
]


def known(kind: str) -> dict[str, int]:
    """What a block fills in for parts of that kind."""
    return {"where": {}, "normalizer": {}, "heads": SIZES, "norm": SIZES, "transform": TRANSFORMED}.get(kind, KNOWN)


def test_yes_and_no_are_answers() -> None:
    assert parse("norm", "layer:bias=no", SIZES).bias is None
    assert parse("norm", "layer:1e-05,bias=yes", SIZES).bias is not None
    transform = parse("transform", "gelu:norm=yes,bias=no", TRANSFORMED)
    assert transform.dense.bias is None
    assert transform.norm.width == 5


def test_every_part_is_written_below() -> None:
    assert {(kind, name) for kind, names in PARTS.items() for name in names} == {row[:2] for row in SPELLED}


@pytest.mark.parametrize(("kind", "name", "text", "made", "values"), SPELLED, ids=[row[2] for row in SPELLED])
def test_every_part_can_be_read(kind: str, name: str, text: str, made: type, values: dict[str, object]) -> None:
    part = parse(kind, text, known(kind))
    assert type(part) is made
    assert PARTS[kind][name] is made or kind == "transform"  # which a function makes, by the name of its activation
    assert {word: getattr(part, word) for word in values} == values


@pytest.mark.parametrize(
    ("kind", "short", "python"),
    [
        ("where", "causal & window:3", "Causal() & Window(3)"),
        ("where", "window:left=3,right=5", "Window(right=5, left=3)"),
        ("where", "~causal | strided:2,stride & fixed:5,2", "~Causal() | Strided(2, 'stride') & Fixed(5, summary=2)"),
        ("where", "window:3&causal", "Window(3)&Causal()"),
        ("where", " causal  ", "Causal()"),
        ("where", "~~causal", "Causal()"),
        ("position", "rotary:base=500,layout=interleaved", "Rotary(base=500, layout='interleaved')"),
        ("position", "relative:16", "Relative(16)"),
        ("position", "local-gaussian:3", "LocalGaussian(half=3)"),
        ("position", "ALiBi", "alibi()"),
        ("score", "dot:learned", "Dot('learned')"),
        ("score", "tanh_sum:weight=None", "TanhSum(weight=None)"),
        ("normalizer", "softmax:0.25", "Softmax(dropout=0.25)"),
        ("heads", "grouped:1,bias=False", "Grouped(1, bias=False)"),
        ("norm", "batch:1,momentum=0.5", "batch(1, momentum=0.5)"),
    ],
)
def test_words_and_python_say_the_same(kind: str, short: str, python: str) -> None:
    one, other = (parse(kind, text, known(kind)) for text in (short, python))
    assert type(one) is type(other)
    assert repr(one) == repr(other)
    if isinstance(one, nn.Module):
        assert [x.shape for x in one.parameters()] == [x.shape for x in other.parameters()]


def test_what_is_usual_stands_in_where_the_text_says_nothing() -> None:
    assert parse("score", "additive", KNOWN, hidden=5).pair_width == 5
    assert parse("score", "additive:11", KNOWN, hidden=5).pair_width == 11
    assert parse("score", "additive:hidden=11", KNOWN, hidden=5).pair_width == 11
    assert parse("score", "concat:None", KNOWN, hidden=5).hidden is None
    assert parse("score", "dot", KNOWN, hidden=5).scale is None
    with pytest.raises(ValueError, match="score 'additive' does not fit: additive takes hidden"):
        parse("score", "additive", KNOWN)


def test_what_is_known_can_be_said_otherwise() -> None:
    assert parse("position", "rotary:dim=6", KNOWN).dim == 6
    assert parse("score", "bilinear:heads=1", KNOWN).heads == 1


ATOMS = st.one_of(
    st.just(Causal()),
    st.builds(Window, st.integers(0, 9), st.integers(0, 9)),
    st.builds(Dilated, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)),
    st.builds(Prefix, st.integers(0, 9)),
    st.builds(Global, st.one_of(st.integers(0, 9), st.tuples(st.integers(0, 9), st.integers(0, 9)))),
    st.builds(Strided, st.integers(1, 9), st.sampled_from([None, "local", "stride"])),
    st.builds(Fixed, st.integers(5, 9), st.integers(1, 5), st.sampled_from([None, "local", "summary"])),
    st.builds(Grid, st.integers(1, 5), st.integers(1, 5), st.integers(0, 3)),
    st.builds(Monotonic, st.integers(0, 9)),
    st.just(Complete()),
)
NEIGHBORHOODS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=6,
)


@given(where=NEIGHBORHOODS)
@settings(max_examples=60, deadline=None)
def test_a_neighborhood_is_read_as_it_was_printed(where: Neighborhood) -> None:
    assert parse("where", repr(where)) == where


@pytest.mark.parametrize(
    "where",
    [
        PerHead(Causal(), Complete()),
        PerHead(Causal() & Window(3), Window(2, 5) | Strided(7)),
        PerHead(~(Causal() | Window(2)), Complete()),
        PerHead(Complete(), ~Causal()),
        PerHead(Causal(), Window(3)) & Window(5, 5),
        ~PerHead(Causal(), Fixed(5, 2, "summary")),
        PerHead(PerHead(Causal()), Monotonic(2)),
    ],
    ids=repr,
)
def test_a_neighborhood_per_head_is_read_as_it_was_printed(where: Neighborhood) -> None:
    assert parse("where", repr(where)) == where


@pytest.mark.parametrize("kind", PARTS)
def test_an_unknown_name_is_answered_with_the_known_ones(kind: str) -> None:
    with pytest.raises(ValueError, match=f"unknown {kind} 'qqqq'; known: {', '.join(sorted(PARTS[kind]))}[.]$"):
        parse(kind, "qqqq", KNOWN)


@pytest.mark.parametrize(
    ("kind", "text", "near"),
    [
        ("where", "casual", "causal"),
        ("where", "causal & windwo:3", "window"),
        ("where", "PerHead(Causal(), Widnow(3))", "window"),
        ("position", "rotry", "rotary"),
        ("score", "dto", "dot"),
        ("normalizer", "softmx:0.1", "softmax"),
        ("heads", "multi-heads", "multihead"),
        ("norm", "lyer", "layer"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(kind: str, text: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"unknown {kind} .* Did you mean '{near}'[?]$"):
        parse(kind, text, KNOWN)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("where", "window", "where 'window' does not fit: window takes left, right"),
        ("where", "window:right=3", "where 'window:right=3' does not fit: window takes left, right"),
        ("where", "window:1,2,3", "where 'window:1,2,3' does not fit: window takes left, right"),
        ("where", "window:3,middle=2", "where 'window:3,middle=2' does not fit: window takes left, right"),
        ("where", "causal:3", "where 'causal:3' does not fit: causal takes nothing"),
        ("where", "window:word", "where 'window:word' does not fit: left must be a whole number: got 'word'"),
        ("where", "window:None", "where 'window:None' does not fit"),
        ("where", "window:-1", "a window needs left and right >= 0: got left=-1"),
        ("where", "fixed:3,5", "a block needs 1 <= summary <= block"),
        ("where", "strided:8,lokal", r"unknown part 'lokal'; known: local, stride\. Did you mean 'local'\?"),
        ("where", "perhead", "PerHead needs one neighborhood per head: got none"),
        ("where", "PerHead(3)", "where must be a neighborhood such as"),
        ("position", "relative", "position 'relative' does not fit: relative takes clip, values. For example 'rotary'"),
        ("position", "relative:1.5", "position 'relative:1.5' does not fit"),
        ("position", "relative:far", "position 'relative:far' does not fit"),
        ("position", "learned:3,4", "position 'learned:3,4' does not fit: learned takes offset"),
        ("position", "rotary:layout=thirds", "unknown layout 'thirds'; known: half, interleaved"),
        ("score", "dot:lerned", "unknown scale 'lerned'; known: learned"),
        ("normalizer", "softmax:2", r"dropout must lie in \[0, 1\): got 2"),
        ("normalizer", "softmax:much", "normalizer 'softmax:much' does not fit"),
        ("heads", "grouped", "heads 'grouped' does not fit: grouped takes kv_heads"),
        ("heads", "grouped:2", "heads must be divisible by kv_heads: got heads=3, kv_heads=2"),
        ("norm", "batch:2", "correction must be 0 or 1: got 2"),
        ("norm", "layer:bias=maybe", "norm 'layer:bias=maybe' does not fit: bias must be yes or no: got 'maybe'"),
        ("transform", "tanh:norm=2", "norm must be yes or no: got 2"),
        ("norm", "layer & rms", "norm cannot be read: got 'layer & rms'. Write it as in 'layer'"),
        ("position", "~rotary", "position cannot be read"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(kind: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(kind, text, known(kind))


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "&", "causal &", "causal causal", "not causal", "causal and causal", "causal + causal", "causal ^ causal",
        "Causal() & 3", "3", "'causal'", "window:", "Window(3", "Window(3))", "causal, causal",
        "causal; causal", "x = causal", "Window(3) if 1 else 2", "[causal]", "\x00", "Window(\n",
    ],
)  # fmt: skip
def test_what_cannot_be_parsed_is_shown_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"where cannot be read: got .*\. Write it as in 'window:128'"):
        parse("where", text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "Window(__import__('os').system('x'))",
        "Window(left=__import__('os').system('x'))",
        "window:__import__('os').system('x')",
        "Causal() & __import__('os').system('x')",
        "PerHead(*__import__('os').system('x'))",
        "Window(**__import__('os').system('x'))",
        "(lambda: __import__('os').system('x'))()",
        "Window((lambda: __import__('os').system('x'))())",
        "[__import__('os').system('x') for _ in (1,)]",
        "Window([__import__('os').system('x') for _ in (1,)])",
        "Window(f\"{__import__('os').system('x')}\")",
        "window:().__class__",
        "Window(().__class__)",
        "Window(3).__class__",
        "Causal().__init__()",
        "().__class__.__base__.__subclasses__()",
        "open('canary', 'w')",
        "Window(open('canary', 'w'))",
        'exec(\'open("canary", "w")\')',
        "eval('1')",
        "(x := open('canary', 'w'))",
        "Window(x := 3)",
        "window:os.system",
    ],
)
def test_a_text_is_never_run(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []
    monkeypatch.setattr(os, "system", ran.append)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError):  # noqa: PT011
        parse("where", text)
    assert ran == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("where", "PerHead(Causal(), part=3)"),  # a name that a list of parts does not take
        ("position", "none:3"),  # too many for a class without a constructor of its own
        ("normalizer", "sparsemax:3"),
        ("normalizer", "identity:soft=3"),
        ("where", "Window({[]: 1})"),  # Python itself cannot build this number
        ("where", "Window(3, **{'right': 2})"),  # would be left out in silence
        ("where", "Window(left=1, left=2)"),  # so would the first
        ("where", "Window(1, left=2)"),  # the first number is left, as in Python
        ("where", "window:1.5"),  # half a key
        ("norm", "batch:momentum=much"),  # would fail in the middle of training
        ("where", "~" * 3000 + "causal"),
    ],
    ids=lambda text: text[:30],
)
def test_odd_texts_are_value_errors_too(kind: str, text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse(kind, text, known(kind))


def test_values_that_are_data_cannot_be_written() -> None:
    text = repr(Causal() & Dense(torch.ones(2, 3, dtype=torch.bool)))
    with pytest.raises(ValueError, match="unknown where 'Dense'"):
        parse("where", text)


def test_every_neighborhood_that_can_be_printed_without_data_can_be_read() -> None:
    with_data = {"Dense", "Documents", "Edges", "Padding"}
    algebra = {"Complement", "Intersection", "Union", "Neighborhood"}
    classes = {name for name in neighborhoods.__all__ if isinstance(getattr(neighborhoods, name), type)}
    assert {name.lower() for name in classes - with_data - algebra if name not in ("Mask", "KeyRange")} == set(
        PARTS["where"]
    )


# public parts that no configuration can hold: they need tensors, or are what others are made of
INNER = {
    "PositionSum",
    "Complement",
    "Intersection",
    "Mask",
    "Union",
    "InputPosition",
}  # made by &, | and ~; a base class
UNSPELLED = {"Pairs",
    "Dense", "Documents", "Edges", "Padding", "Graph", "GraphV2", "Offset", "Tied",
    "Cache", "Heads", "Memory", "Neighborhood", "Normalized", "Normalizer", "Position", "Product", "Score",
}  # fmt: skip


def test_every_public_part_can_be_imported_from_mirada_and_spelled() -> None:
    modules = (scores, neighborhoods, normalizers, positions, heads)
    bases = (scores.Score, Neighborhood, normalizers.Normalizer, positions.Position, heads.Heads)
    spelled = {part for parts in PARTS.values() for part in parts.values()}
    for module, base in zip(modules, bases, strict=True):
        made = {
            each
            for name in (getattr(module, "__all__", None) or vars(module))
            if isinstance(each := getattr(module, name), type) and issubclass(each, base) and not name.startswith("_")
        }
        own = {each for each in made if each.__module__.startswith(module.__name__) and each.__name__ not in INNER}
        assert len(own) > 3
        for each in own - {base}:
            assert each.__name__ in mirada.attention.__all__, each
            assert each.__name__ in mirada.__all__ or each.__name__ in UNSPELLED, each
            assert each in spelled or each.__name__ in UNSPELLED, each


HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("where", f"window:{HUGE},1"), ("where", f"window:1,{HUGE}"), ("where", f"Window(left={HUGE})"),
        ("where", f"causal & strided:{HUGE}"), ("where", f"fixed:{HUGE},1"), ("where", f"grid:2,{HUGE}"),
        ("where", f"grid:{HUGE},{HUGE},1"), ("where", f"grid:2,2,{HUGE}"), ("where", f"monotonic:{HUGE}"),
        ("where", f"PerHead(Window({HUGE}), Causal())"), ("position", f"rotary:{HUGE}"), ("position", "rotary:base=1e400"),
        ("position", f"relative:{HUGE}"), ("position", f"sinusoidal:base={HUGE}"), ("where", f"window:{'9' * 4000}"),
        ("where", f"window:{2**31}"),
    ],
)  # fmt: skip
def test_a_number_that_overflows_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"must lie within 2,147,483,648: got (a number of \d+ bits|inf|1e\+20)"):
        parse(kind, text, {"dim": 8, "heads": 2} | ({"width": 16} if kind == "position" else {}))


def test_a_part_of_ones_own_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cosine(scores.Product):
        def __init__(self, dim: int, sharpness: float = 10.0) -> None:
            super().__init__()
            self.dim, self.sharpness = dim, sharpness

    monkeypatch.setitem(PARTS, "score", dict(PARTS["score"]))
    with pytest.raises(ValueError, match=r"unknown score 'cosine'; known: "):
        parse("score", "cosine", KNOWN)
    mirada.register("score", cosine=Cosine)
    mirada.register("score", cosine=Cosine)  # as an imported module does that is imported again
    made = parse("score", "cosine:3", KNOWN)
    assert (type(made), made.dim, made.sharpness) == (Cosine, 14, 3)
    with pytest.raises(ValueError, match=r"unknown score 'cosin'; known: .* Did you mean 'cosine'\?"):
        parse("score", "cosin")
    model = mirada.models.GPT(replace(mirada.models.GPTConfig.tiny(), score="cosine:3"))
    assert {type(score) for score in _scores(model)} == {Cosine}


def _scores(model: nn.Module) -> list[nn.Module]:
    return [layer.score for layer in model.modules() if isinstance(layer, mirada.Attention)]


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("scor", {"cosine": scores.Dot}, r"unknown kind of part 'scor'; known: .*Did you mean 'score'"),
        ("score", {"dot": scores.Bilinear}, r"score 'dot' is taken: mirada has one of that name"),
        ("where", {"yes": Causal}, r"where 'yes' is taken"),
        ("score", {"Cosine": scores.Dot}, r"lower-case letters and digits: got 'Cosine'"),
        ("score", {"cosine": 3}, r"score 'cosine' must be a class, or a function that makes a part: got 3"),
    ],
)
def test_what_cannot_be_registered(kind: str, given: dict, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: dict(made) for name, made in PARTS.items()}
    with pytest.raises(ValueError, match=message):
        mirada.register(kind, **given)
    assert before == PARTS


def test_a_saved_model_whose_part_is_not_registered_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nearby(Neighborhood):
        causal = reflexive = True

        def sees(self, places):
            return (places.j <= places.i) & (places.i - places.j < 3)

    monkeypatch.setitem(PARTS, "where", dict(PARTS["where"]))
    mirada.register("where", nearby=Nearby)
    model = mirada.models.GPT(replace(mirada.models.GPTConfig.tiny(), where="nearby")).eval()
    model.save(tmp_path / "model")
    ids = torch.randint(0, 7, (2, 5))
    torch.testing.assert_close(mirada.models.GPT.load(tmp_path / "model")(ids), model(ids))
    del PARTS["where"]["nearby"]
    with pytest.raises(ValueError, match=r"mirada\.register\('where', nearby=\.\.\.\)"):
        mirada.models.GPT.load(tmp_path / "model")


def test_a_package_registers_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, "score", dict(PARTS["score"]))
    described = tmp_path / "half-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: half\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[mirada.parts]\nhalf = half_score\n")
    code = "import mirada\nclass Half(mirada.Dot):\n    pass\nmirada.register('score', half=Half)\n"
    (tmp_path / "half_score.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert type(parse("score", "half")).__name__ == "Half"

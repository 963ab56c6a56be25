"""A change is a real run with the change: on every layer, kernel and model, in one thread, inside the block."""

import re
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import mirada
from mirada import Attention, Cut, DropHead, Force, MaskKey, MultiHead, intervene, look
from mirada.attention.neighborhoods import Causal, Dense, PerHead, Window
from mirada.attention.normalizers import Hard, Identity
from mirada.attention.observe import anybody_intervenes
from mirada.looking.change.changes import changes_as_json, changes_from
from mirada.looking.record import layer_names
from tests.looking.test_record import BATCH, EDGES, HEADS, LAYERS, WIDTH, N
from tests.models.cases import CASES
from tests.models.stirring import assert_near
from tests.models.test_battery import decoded, every_written_variant, made, outputs
from tests.sampling import slow

PAGE = Path(__file__).parents[3] / "docs" / "interventions.md"
QUERY, KEY, HEAD = 4, 1, 2  # a pair that a causal neighborhood lets see
NARROW = "window", "empty rows", "monotonic", "documents", "per head", "strided", "local", "local hard", "convolution"


def changed_call(layer: Attention, x: Tensor, change: object, **given: object) -> tuple[Tensor, Tensor]:
    """The weights shown and the heads' outputs of a changed call; the law of `look` holds for it."""
    torch.manual_seed(3)
    with intervene(layer, {"": change}), look(layer) as seen:
        output = layer(x, **given)
    assert_close(layer.heads.merge(seen[""].output()), output, atol=1e-5, rtol=1e-5)
    return seen[""].weights(), seen[""].output()


def plain_call(layer: Attention, x: Tensor, **given: object) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    with look(layer) as seen:
        layer(x, **given)
    return seen[""].weights(), seen[""].output()


@pytest.mark.parametrize("name", LAYERS)
def test_a_dropped_head_sees_nothing_and_the_others_do_not_notice(name: str) -> None:
    layer, x = LAYERS[name], torch.randn(BATCH, N, WIDTH)
    _, plain = plain_call(layer, x)
    weights, output = changed_call(layer, x, DropHead(HEAD))
    assert weights[:, HEAD].count_nonzero() == 0
    assert output[:, HEAD].count_nonzero() == 0
    if not layer.normalizer.chooses:
        others = [head for head in range(layer.heads.heads) if head != HEAD]
        assert_close(output[:, others], plain[:, others])


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("head", [None, HEAD])
def test_what_is_masked_has_no_weight(name: str, head: int | None) -> None:
    layer, x = LAYERS[name], torch.randn(BATCH, N, WIDTH)
    rows = slice(None) if head is None else head
    weights, _ = changed_call(layer, x, Cut(QUERY, KEY, head))
    assert weights[:, rows, QUERY, KEY].count_nonzero() == 0
    weights, _ = changed_call(layer, x, MaskKey(KEY, head))
    assert weights[:, rows, :, KEY].count_nonzero() == 0


def test_a_cut_is_a_mask_before_the_softmax() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    mask = torch.ones(1, HEADS, N, N, dtype=torch.bool)
    mask[:, HEAD, QUERY, KEY] = False
    with intervene(layer, {"": Cut(QUERY, KEY, HEAD)}):
        cut = layer(x)
    assert_close(cut, layer(x, where=Dense(mask)))
    plain, _ = plain_call(layer, x)
    weights, _ = changed_call(layer, x, Cut(QUERY, KEY))
    expected = plain.clone()
    expected[:, :, QUERY, KEY] = 0
    expected[:, :, QUERY] /= expected[:, :, QUERY].sum(-1, keepdim=True)
    assert_close(weights, expected)


def test_a_forced_weight_has_the_digits_of_the_model() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)).double(), torch.randn(1, N, WIDTH, dtype=torch.float64)
    with intervene(layer, {"": Force(0, 1, 0.3)}):
        weights = layer.weights(x)
    assert_close(weights[0, :, 0, 1], torch.full((HEADS,), 0.3, dtype=torch.float64), rtol=0, atol=1e-15)


def test_a_forced_weight_by_hand() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    plain, _ = plain_call(layer, x)
    weights, output = changed_call(layer, x, [Force(QUERY, KEY, 0.5, HEAD), Force(QUERY, 3, 0.25, HEAD)])
    expected = plain.clone()
    row = expected[:, HEAD, QUERY]
    row[:, [KEY, 3]] = 0
    row *= 0.25 / row.sum(-1, keepdim=True)
    row[:, KEY], row[:, 3] = 0.5, 0.25
    assert_close(weights, expected)
    v = layer.heads.values(x)
    assert_close(output, expected @ v)


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in NARROW])
def test_a_forced_weight_is_that_weight_and_the_others_share_the_remainder(name: str) -> None:
    layer, x = LAYERS[name], torch.randn(BATCH, N, WIDTH)
    plain, _ = plain_call(layer, x)
    weights, _ = changed_call(layer, x, Force(QUERY, KEY, 0.3))
    assert_close(weights[:, :, QUERY, KEY], torch.full_like(weights[:, :, QUERY, KEY], 0.3))
    if isinstance(layer.normalizer, Identity):
        plain[:, :, QUERY, KEY] = 0.3
        assert_close(weights, plain)
    else:
        assert_close(weights.sum(-1)[:, :, QUERY], torch.ones(BATCH, layer.heads.heads))
    others = [row for row in range(N) if row != QUERY]
    if not layer.normalizer.chooses:
        assert_close(weights[:, :, others], plain[:, :, others])


def test_a_function_of_the_weights() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, N, WIDTH)
    plain, _ = plain_call(layer, x)
    weights, _ = changed_call(layer, x, [Force(QUERY, KEY, 1.0), lambda w: w.flip(1)])
    expected = plain.clone()
    expected[:, :, QUERY] = torch.eye(N)[KEY]
    assert_close(weights, expected.flip(1))
    with intervene(layer, {"": lambda w: w.flip(1)}), look(layer) as seen:
        layer(x)
    assert_close(seen[""].weights(rows=slice(2, 5)), plain.flip(1)[:, :, 2:5])
    with intervene(layer, {"": lambda w: w[:, :1]}), pytest.raises(ValueError, match="must keep their shape"):
        layer(x)


def test_weights_over_the_edges_of_a_graph() -> None:
    layer, x = LAYERS["graph"], torch.randn(BATCH, N, WIDTH)
    pairs = EDGES.pairs.T.tolist()
    assert layer.plan(x, where=EDGES).kernel in ("edges", "reference")
    edge, other = pairs.index([0, 1]), pairs.index([1, 1])
    weights, _ = changed_call(layer, x, Force(1, 0, 0.7, HEAD), where=EDGES)
    assert_close(weights[:, HEAD, edge], torch.full((BATCH,), 0.7))
    assert_close(weights[:, HEAD, [edge, other, pairs.index([6, 1])]].sum(-1), torch.ones(BATCH))
    weights, _ = changed_call(layer, x, MaskKey(0), where=EDGES)
    assert weights[:, :, edge].count_nonzero() == 0
    with pytest.raises(ValueError, match="query 2 may not see key 0"):
        changed_call(layer, x, Force(2, 0, 0.5), where=EDGES)


@pytest.mark.parametrize("where", [PerHead(Causal(), Window(1, 1), Causal() & Window(2)), Causal()], ids=str)
def test_a_long_sequence_with_its_fast_kernels(where: object) -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=where & Window(60)), torch.randn(1, 300, WIDTH)
    assert layer.plan(x).kernel == "banded"
    with intervene(layer, {"": [MaskKey(280), Cut(290, 289), DropHead(0)]}), look(layer) as seen:
        layer(x)
    assert seen[""].plan.kernel != "reference"
    weights = seen[""].weights()
    assert weights[:, :, :, 280].count_nonzero() + weights[:, :, 290, 289].count_nonzero() == 0
    assert weights[:, 0].count_nonzero() == 0
    assert_close(weights[:, 1:, 299].sum(-1), torch.ones(1, 2))


def test_cached_steps_count_on() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, N, WIDTH)
    changes = {"": [Cut(4, 2), Force(5, 1, 0.5, 0), MaskKey(3, 1), DropHead(2)]}
    with intervene(layer, changes):
        whole = layer(x)
        cache = layer.cache(BATCH, N)
        steps = torch.cat([layer(step, cache=cache) for step in x.split([1, 3, 1, 2], dim=1)], dim=1)
    assert_close(steps, whole)
    assert (whole - layer(x)).abs().amax() > 1e-3


THREE = Cut(2, 1), MaskKey(0), DropHead(0)


def offset(case, changes) -> int:  # type: ignore[no-untyped-def]
    """Which of the three changes the first layer of a variant gets: it goes round from variant to variant."""
    return list(case.variants.values()).index(changes)


@every_written_variant
@pytest.mark.parametrize("every", slow([False, True], but=[0]), ids=["one change a layer", "every change"])
@torch.no_grad()
def test_step_by_step_is_the_full_pass_under_a_change(case, changes, every) -> None:  # type: ignore[no-untyped-def]
    config = case.config(**changes)
    if not case.looks(config):
        pytest.skip("it looks nowhere")
    model, batch = made(case, config)
    with look(model) as seen:
        plain = outputs(model, batch)[0]
    moved = 0.0
    for place, name in enumerate(seen.names):
        for change in THREE if every or len(seen.names) == 1 else (THREE[(place + offset(case, changes)) % 3],):
            with intervene(model, {name: change}):
                whole, stepped = outputs(model, batch)[0], decoded(case, model, batch)
            assert_near(stepped, whole)
            moved = max(moved, float((whole - plain).abs().max()))
    assert moved > 1e-6


@every_written_variant
@torch.no_grad()
def test_the_alignment_of_a_step_shows_the_change(case, changes) -> None:  # type: ignore[no-untyped-def]
    config = case.config(**changes)
    model, batch = made(case, config)
    if not case.looks(config):
        pytest.skip("it looks nowhere")
    name = list(layer_names(model, "look").values())[-1]

    def alignments() -> list[Tensor]:
        state, found = case.start(model, batch), []
        for tokens in batch.given[case.writes].unbind(1):
            _, state = model.step(tokens, state)
            found.append(model.alignment(state))
        return found

    plain = alignments()
    with intervene(model, {name: Cut(2, 1)}):
        changed = alignments()
    assert_near(changed[1], plain[1])
    assert changed[2][:, 1].count_nonzero() == 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model.__name__)
@torch.no_grad()
def test_every_layer_of_every_model_can_be_changed(case) -> None:  # type: ignore[no-untyped-def]
    model, batch = made(case, case.base)
    with look(model) as seen:
        plain = outputs(model, batch)
    moved = []
    for name in seen.names:
        with intervene(model, {name: DropHead(0)}), look(model) as again:
            after = outputs(model, batch)
        assert again[name].weights(head=0).count_nonzero() == 0
        moved.append(max(float((a - b).nan_to_num().abs().max()) for a, b in zip(plain, after, strict=True)))
    assert min(moved) > 0
    for now, before in zip(outputs(model, batch), plain, strict=True):
        assert_close(now, before, rtol=0, atol=0)


def test_nested_blocks_add_up_and_end() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    plain = layer(x)
    with intervene(layer, {"": [DropHead(0), Force(1, 2, 0.5)]}):
        assert anybody_intervenes()
        with intervene(layer, {"": [Cut(1, 3), Force(1, 0, 0.25)]}):
            weights = layer.weights(x)
        outer = layer.weights(x)
    assert weights[:, 0].count_nonzero() == 0
    assert_close(weights[:, 1:, 1, [0, 2, 3]], torch.tensor([0.25, 0.5, 0.0]).expand(BATCH, 2, 3))
    assert (outer[:, 1:, 1, 3] > 0).all()
    assert not anybody_intervenes()
    assert_close(layer(x), plain, rtol=0, atol=0)


def test_other_threads_are_left_alone() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    plain, found = layer(x), []

    def elsewhere() -> None:
        found.append((anybody_intervenes(), layer(x)))

    with intervene(layer, {"": DropHead(0)}):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        layer(x)
    assert found[0][0] is False
    assert_close(found[0][1], plain, rtol=0, atol=0)


def test_gradients_flow_through_what_is_left() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)).double(), torch.randn(2, 5, WIDTH, dtype=torch.float64)
    x.requires_grad_()

    def changed(x: Tensor) -> Tensor:
        with intervene(layer, {"": [Force(2, 1, 0.5), Cut(0, 3), DropHead(1)]}):
            return layer(x)

    assert torch.autograd.gradcheck(changed, (x,))


def test_hard_attention_draws_among_what_is_left() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), normalizer=Hard())
    x = torch.randn(BATCH, N, WIDTH)
    with intervene(layer, {"": [MaskKey(key) for key in range(N - 1)]}):
        assert_close(layer.weights(x), torch.eye(N)[N - 1].expand(BATCH, HEADS, N, N))


def test_a_compiled_layer_is_changed_too() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    compiled = torch.compile(layer, backend="eager")
    with torch.no_grad():
        plain = compiled(x)
        with intervene(compiled, {"": Force(1, 2, 0.5)}):
            forced = compiled(x)
        with intervene(layer, {"": Force(1, 2, 0.5)}):
            assert_close(forced, layer(x))
        assert_close(compiled(x), plain)


WRONG = [
    ({"crss": DropHead(0)}, "unknown layer 'crss'; known: cross, self. Did you mean 'cross'?"),
    ({"cross": DropHead(9)}, r"cross has heads 0 to 2: got DropHead\(head=9\)"),
    ({"cross": Cut(0, 0, 3)}, "cross has heads 0 to 2"),
    ({"cross": [DropHead]}, "a change is DropHead, Cut, MaskKey, Force or a function"),
    ({"cross": 3}, "a change is DropHead"),
    ([DropHead(0)], "needs a dict"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=str)
def test_wrong_names_and_heads_are_said_at_once(changes: object, message: str) -> None:
    model = torch.nn.ModuleDict({name: Attention(MultiHead(WIDTH, HEADS)) for name in ("self", "cross")})
    with pytest.raises(ValueError, match=message), intervene(model, changes):  # type: ignore[arg-type]
        raise AssertionError("the block must not begin")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Cut(7, 0), "Cut.query=7, key=0, head=None. changed nothing: the layer had query 0 to 6, and no query 7"),
        (MaskKey(9), "the layer had key 0 to 6, and no key 9"),
        (Force(1, 5, 0.5), "query 1 may not see key 5"),
        ([Force(5, 1, 0.7), Force(5, 2, 0.7)], "must add up to at most 1: got 1.4"),
    ],
)
def test_places_that_no_call_had_are_said_at_the_end(change: object, message: str) -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, N, WIDTH)
    with pytest.raises(ValueError, match=message), intervene(layer, {"": change}):
        layer(x)
    assert not anybody_intervenes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DropHead(-1), "head must be a whole number from 0 on: got head=-1"),
        (lambda: DropHead(None), "head must be a whole number"),
        (lambda: Cut(1.5, 0), "query must be a whole number"),
        (lambda: Cut(True, 0), "query must be a whole number"),
        (lambda: MaskKey("3"), "key must be a whole number"),
        (lambda: MaskKey(10**30), "key must be less than 2,147,483,648"),
        (lambda: Force(0, 0, 1.2), "weight must be a number from 0 to 1: got weight=1.2"),
        (lambda: Force(0, 0, float("nan")), "weight must be a number from 0 to 1"),
        (lambda: Force(0, 0, "x"), "weight must be a number from 0 to 1"),
        (lambda: Force(0, 0, 10**400), "weight must be a number from 0 to 1: got weight=1000"),
        (lambda: Force(0, 0, -(10**400)), "weight must be a number from 0 to 1"),
        (lambda: Force(0, 0, float("inf")), "weight must be a number from 0 to 1: got weight=inf"),
    ],
)
def test_wrong_numbers_are_said_when_the_change_is_made(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()


def test_changes_to_json_and_back() -> None:
    items = [
        {"layer": "a", "do": "DropHead", "head": 3},
        {"layer": "a", "do": "Force", "query": 1, "key": 2, "weight": 0.5},
        {"layer": "b", "do": "Cut", "query": 1, "key": 2, "head": 0},
        {"layer": "b", "do": "MaskKey", "key": 2},
    ]
    changes = changes_from(items)
    assert changes == {"a": [DropHead(3), Force(1, 2, 0.5)], "b": [Cut(1, 2, 0), MaskKey(2)]}
    assert changes_as_json(changes) == items


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("DropHead", "changes must be a list"),
        ({"layer": "a"}, "changes must be a list"),
        ([3], r"changes\[0\]: a change is an object"),
        ([{"do": "DropHead", "head": 1}], '"layer" must be the name of a layer: got None'),
        ([{"layer": "a", "do": "Drophead", "head": 1}], "unknown change 'Drophead'.*Did you mean 'DropHead'"),
        ([{"layer": "a", "do": ["x"], "head": 1}], "unknown change"),
        ([{"layer": "a", "do": "DropHead"}], "DropHead needs head: got nothing"),
        ([{"layer": "a", "do": "Cut", "query": 1}], "Cut needs key: got query"),
        ([{"layer": "a", "do": "MaskKey", "kye": 1}], "unknown field of MaskKey 'kye'.*Did you mean 'key'"),
        ([{"layer": "a", "do": "MaskKey", "key": "1"}], "key must be a whole number"),
        ([{"layer": "a", "do": "Force", "query": 1, "key": 1, "weight": None}], "weight must be a number"),
    ],
)
def test_wrong_json_is_named(items: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        changes_from(items)


def test_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert isinstance(names["importances"], mirada.looking.explain.importance.Importance)

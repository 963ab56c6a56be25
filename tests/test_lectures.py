"""docs/lectures.md tells the truth, and the rows of the lectures that are tested nowhere else."""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend, look
from mirada.attention.heads import Split
from mirada.attention.neighborhoods import Padding, Window
from mirada.attention.positions import Rotary
from mirada.attention.scores import Additive, Dot, Location

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "lectures.md").read_text(encoding="utf-8")
ROWS = {0: 8, 1: 12, 2: 5, 3: 8, 4: 14}
ROW_IDS = [f"{deck}.{row}" for deck, rows in ROWS.items() for row in range(1, rows + 1)]
PATHS = sorted(set(re.findall(r"`((?:src|examples|tests|docs|benchmarks)/[^`\s]+)`", DOCUMENT)))
PARTS = ("scores", "neighborhoods", "positions", "normalizers", "heads")


@cache
def functions_of(path: Path) -> set[str]:
    """The names of the test functions of a file, read without importing it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def entry_of(row: str) -> str:
    """What the lists say about a row of the lectures."""
    found = [part for part in re.split(r"^(?=- |#)", DOCUMENT, flags=re.MULTILINE) if part.startswith(f"- **{row}** ")]
    assert len(found) == 1, f"docs/lectures.md must have one entry for row {row}: found {len(found)}"
    return found[0]


@pytest.mark.parametrize("path", PATHS)
def test_every_path_exists(path):
    file, _, name = path.partition("::")
    assert (ROOT / file).exists(), f"docs/lectures.md names {file}, which is not there"
    if name:
        assert name in functions_of(ROOT / file), f"docs/lectures.md names {path}, which is not there"


@pytest.mark.parametrize("row", ROW_IDS)
def test_every_row_has_an_entry_with_a_test_or_is_planned(row):
    entry = entry_of(row)
    assert "- test: `tests/" in entry or "**planned**" in entry


@pytest.mark.parametrize("part", PARTS)
def test_every_public_class_is_named(part):
    module = importlib.import_module(f"mirada.attention.{part}")
    classes = {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__.startswith(module.__name__) and not name.startswith("_")
    }
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", DOCUMENT))))
    assert classes <= words, f"docs/lectures.md does not name {sorted(classes - words)}"


MODELS = sorted(path.stem for path in (ROOT / "src" / "mirada" / "models").glob("[a-z]*.py"))
FROM_OUTSIDE = {"encoder", "clip", "whisper"}  # for checkpoints of others: no lecture has them


@pytest.mark.parametrize("name", sorted(set(MODELS) - FROM_OUTSIDE))
def test_every_model_of_the_lectures_has_an_entry(name):
    models = DOCUMENT.partition("\n## Every model\n")[2].partition("\n## ")[0]
    assert f"): `src/mirada/models/{name}.py`\n" in models


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_diagram(name):
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert section.count("```") == 2, f"docs/models.md must show {name} in one diagram"


def weights_of(layer: Attention, *args, **kwargs) -> torch.Tensor:
    """The weights of the first head and sample of one call: (queries, keys)."""
    with look(layer) as seen:
        layer(*args, **kwargs)
    return seen[""].weights(head=0)[0]


def test_hard_soft_and_self_attention():
    x = torch.randn(1, 7, 5)
    hard = Attention(Split(5, heads=1), where=Window(0))
    assert_close(hard(x), x)

    soft = Attention(Split(5, heads=1), score=Additive(5, 5, hidden=3))
    weights = weights_of(soft, x)
    assert (weights > 0).all()
    assert_close(soft(x)[0], weights @ x[0])

    alike = Attention(Split(5, heads=1), score=Dot(scale=1.0))
    assert torch.equal(weights_of(alike, x).argsort(-1), (x[0] @ x[0].T).argsort(-1))


def test_stacked_layers_see_further():
    layers = [Attention(MultiHead(6, heads=2), where=Window(1, 1)) for _ in range(3)]
    for depth in (1, 2, 3):
        stack = nn.Sequential(*layers[:depth])
        x = torch.randn(1, 11, 6, requires_grad=True)
        with look(stack) as seen:
            (reach,) = torch.autograd.grad(stack(x)[0, 5].sum(), x)
        assert seen.names == [str(i) for i in range(depth)]
        read = reach[0].abs().sum(-1).nonzero().flatten().tolist()
        assert read == list(range(5 - depth, 6 + depth))


def test_the_context_of_a_decoder_step_mixes_all_encoder_states():
    states, decoder = torch.randn(1, 1, 7, 5), torch.randn(1, 1, 3, 5)
    score = Additive(5, 5, hidden=11)
    contexts = attend(decoder, states, states, score=score)
    for t in range(3):
        alpha = torch.stack([score(decoder[:, :, [t]], states[:, :, [i]]).squeeze() for i in range(7)]).softmax(0)
        assert (alpha > 0).all()
        assert_close(contexts[0, 0, t], sum(alpha[i] * states[0, 0, i] for i in range(7)))


def test_the_scale_is_inside_the_softmax():
    x = torch.randn(1, 7, 5)
    weights = weights_of(Attention(Split(5, heads=1)), x)
    assert_close(weights, (x[0] @ x[0].T / 5**0.5).softmax(-1))
    assert_close(weights.sum(-1), torch.ones(7))


def test_the_decoder_asks_and_the_encoder_answers():
    decoder, encoder = torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    cross = Attention(MultiHead(6, heads=2))
    weights = weights_of(cross, decoder, memory=encoder)
    assert weights.shape == (3, 5)
    assert_close(weights.sum(-1), torch.ones(3))
    assert cross(decoder, memory=encoder).shape == decoder.shape


def test_alpha_is_the_query_of_i_with_the_key_of_j():
    layer = Attention(MultiHead(5, heads=1))
    x = torch.randn(1, 7, 5)
    q, k = layer.heads.query(x[0]), layer.heads.key(x[0])
    weights = weights_of(layer, x)
    for i in range(7):
        scores = torch.stack([q[i] @ k[j] / 5**0.5 for j in range(7)])
        assert_close(weights[i], scores.softmax(0))


def test_rotary_keys_have_their_own_projection():
    position = Rotary(6)
    layer = Attention(MultiHead(6, heads=1), position=position)
    x, places = torch.randn(1, 5, 6), torch.arange(5)
    q = position.rotate(layer.heads.queries(x), places)
    k = position.rotate(layer.heads.keys(x), places)
    assert_close(weights_of(layer, x), Dot()(q, k)[0, 0].softmax(-1))
    assert not torch.equal(layer.heads.query.weight, layer.heads.key.weight)


def test_location_scores_are_normalized():
    layer = Attention(Split(5, heads=1), score=Location(5, max_keys=11))
    weights = weights_of(layer, torch.randn(1, 7, 5), where=Padding([3]))
    assert_close(weights.sum(-1), torch.ones(7))
    assert (weights[:, 3:] == 0).all()

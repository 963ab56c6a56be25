"""What-ifs and the even baseline in the page agree with Python: with a real run under the same changes, and with its masks."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch

from mirada import Attention, MultiHead, intervene, look
from mirada.attention.neighborhoods import Causal, Complete, Dense, Neighborhood, Padding, PerHead, Strided, Window
from mirada.attention.normalizers import Hard, Identity, Normalizer, Softmax, Sparsemax
from mirada.looking.change.changes import changes_from
from tests.drawing.conftest import Open

HEADS, PLACES = 3, 7
DENSE = torch.rand(PLACES, PLACES, generator=torch.Generator().manual_seed(5)) < 0.6
WHERE: dict[str, Neighborhood] = {
    "complete": Complete(),
    "causal": Causal(),
    "window": Causal() & Window(2),
    "padding": Padding([5]),
    "dense": Dense(DENSE),
    "united": Window(1, 1) | Dense(torch.eye(PLACES, dtype=torch.bool).flip(0)),
}
ROWS = """(changes) => {
  const app = mirada.viewer.app;
  app.set({ changes });
  const { heads, queries, keys } = app.stream;
  const row = (head, query) => Array.from(app.fill(app.stream, head, query, new Float32Array(keys)));
  return Array.from({ length: heads }, (_, head) => Array.from({ length: queries }, (_, query) => row(head, query)));
}"""


def layer(where: Neighborhood, normalizer: Normalizer | None = None, dim: int = 4) -> Attention:
    torch.manual_seed(3)
    return Attention(MultiHead(width=dim * HEADS, heads=HEADS), where=where, normalizer=normalizer or Softmax()).eval()


def inputs(places: int = PLACES, dim: int = 4) -> torch.Tensor:
    return torch.randn(1, places, dim * HEADS, generator=torch.Generator().manual_seed(4))


def recorded(attention: Attention, x: torch.Tensor) -> bytes:
    with torch.no_grad(), look(attention) as seen:
        attention(x)
    return seen.to_bytes()


def really(attention: Attention, x: torch.Tensor, changes: list[dict[str, Any]]) -> np.ndarray:
    """The weights of a run under the changes; a weight that could not be forced is reported at the end, and not here."""
    with torch.no_grad(), suppress(ValueError), intervene(attention, changes_from(changes)):
        found = attention.weights(x)[0].numpy()
    return found


def drawn(random: np.random.Generator, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    """Some changes in any order; the forced weights of a row add up to less than 1."""
    found: list[dict[str, Any]] = []
    for _ in range(random.integers(2, 6)):
        kind = str(random.choice(kinds))
        change = {"layer": "", "do": kind, "head": int(random.integers(HEADS))}
        if kind != "DropHead":
            change["key"] = int(random.integers(PLACES))
            if random.random() < 0.5:
                del change["head"]
        if kind in ("Cut", "Force"):
            change["query"] = int(random.integers(3))  # few, so that changes meet in a row
        if kind == "Force":
            change["weight"] = round(0.15 * float(random.random()), 3)
        found.append(change)
    return found


def test_what_ifs_agree_with_a_real_run_in_the_cases_that_meet(open_page: Open) -> None:
    attention, x = layer(Causal()), inputs()
    page = open_page(recorded(attention, x))
    force = {"layer": "", "do": "Force", "query": 5, "key": 1, "weight": 0.5}
    other = {**force, "key": 3, "weight": 0.2}
    for changes in (
        [force, other],  # the second leaves the first as it is
        [force, {"layer": "", "do": "MaskKey", "key": 2}],  # masks come first, wherever they stand
        [{"layer": "", "do": "Cut", "query": 5, "key": 1, "head": 0}, force],  # what is hidden cannot be forced
        [{"layer": "", "do": "DropHead", "head": 1}, force],
        [force, {"layer": "", "do": "DropHead", "head": 1}],
        [{**force, "key": 6}],  # hidden by the neighborhood
        [force, {**force, "weight": 0.3}],  # the last one counts
    ):
        np.testing.assert_allclose(page(ROWS, changes), really(attention, x, changes), atol=1e-5, err_msg=str(changes))
    row = page(ROWS, [force, other])[0][5]
    assert (row[1], row[3], sum(row)) == (pytest.approx(0.5), pytest.approx(0.2), pytest.approx(1))
    assert page.errors == []


@pytest.mark.parametrize("name", WHERE)
def test_what_ifs_agree_with_a_real_run(name: str, open_page: Open) -> None:
    attention, x, random = layer(WHERE[name]), inputs(), np.random.default_rng(11)
    page = open_page(recorded(attention, x))
    for _ in range(12):
        changes = drawn(random, ("DropHead", "Cut", "MaskKey", "Force", "Force", "Force"))
        np.testing.assert_allclose(page(ROWS, changes), really(attention, x, changes), atol=1e-5, err_msg=str(changes))
    assert page.errors == []


@pytest.mark.parametrize(
    ("normalizer", "kinds"),
    [(Hard(), ("Force", "DropHead")), (Sparsemax(), ("Force",)), (Identity(), ("Force", "Cut", "MaskKey", "DropHead"))],
    ids=str,
)
def test_what_ifs_on_other_weights_than_a_softmax_gives(
    normalizer: Normalizer, kinds: tuple[str, ...], open_page: Open
) -> None:
    """Of a hard row the rest shares equally; weights that no normalizer makes sum to one leave it as it is."""
    attention, x, random = layer(Causal(), normalizer), inputs(), np.random.default_rng(12)
    page = open_page(recorded(attention, x))
    for _ in range(8):
        changes = drawn(random, kinds)
        np.testing.assert_allclose(page(ROWS, changes), really(attention, x, changes), atol=1e-5, err_msg=str(changes))


def test_forced_weights_of_a_row_leave_room_for_each_other(open_page: Open) -> None:
    page = open_page(recorded(layer(Complete()), inputs()), start="heads=0&row=2&column=4")
    page(
        "(change) => mirada.viewer.app.set({changes: [change]})",
        {"layer": "", "do": "Force", "query": 2, "key": 1, "weight": 0.75},
    )
    assert float(page.page.get_attribute(".force input", "max")) == 0.25
    page("mirada.viewer.app.set({row: 3})")
    assert float(page.page.get_attribute(".force input", "max")) == 1


def masked(places: int) -> Dense:
    mask = torch.rand(places, places, generator=torch.Generator().manual_seed(6)) < 0.4
    return Dense(mask | torch.eye(places, dtype=torch.bool))


SEEN: dict[str, Callable[[int], Neighborhood]] = {
    "complete": lambda places: Complete(),
    "causal": lambda places: Causal(),
    "window": lambda places: Window(3, 2),
    "causal window": lambda places: Causal() & Window(5),
    "padding": lambda places: Padding([places - 4]),
    "causal padding": lambda places: Causal() & Padding([places - 4]),
    "dense": masked,
    "causal dense": lambda places: Causal() & masked(places),
    "united": lambda places: Window(1, 1) | masked(places),
    "strided": lambda places: Strided(3),
    "per head": lambda places: PerHead(Window(1), Window(4), Window(0, 2)),
}


@pytest.mark.parametrize(("places", "dim", "encoding"), [(11, 4, "float32"), (67, 4, "qk16 sqrt8"), (67, 32, "sqrt8")])
@pytest.mark.parametrize("name", SEEN)
def test_an_even_row_divides_its_attention_among_what_may_be_seen(
    name: str, places: int, dim: int, encoding: str, open_page: Open
) -> None:
    where = SEEN[name](places)
    page = open_page(recorded(layer(where, dim=dim), inputs(places, dim)))
    assert page("mirada.viewer.app.stream.fields.encoding") in encoding.split()
    mask = where.dense(places, places).expand(1, HEADS, places, places)[0].any(0)  # with some head
    counts = (
        "Array.from({length: mirada.viewer.app.stream.queries}, (_, query) => mirada.viewer.app.stream.visible(query))"
    )
    assert page(counts) == mask.sum(-1).tolist()
    page("mirada.viewer.app.set({row: 8})")
    even = 1 / int(mask[8].sum())
    assert f"{even:.3f}" in page.page.inner_text(".uniform-text")

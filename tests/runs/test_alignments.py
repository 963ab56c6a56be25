"""Attention that is handed out with an answer is that of one pass over it, and is named where it cannot be had."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from mirada import load
from mirada.runs.alignments import Alignments, pharaoh, words_of_spans, words_of_tokens

WRITTEN = Path(__file__).parent / "written_by_0_1"
ASKED = {
    "translate": ("the red house", "decoder.layers.0.cross:1,0;decoder.layers.0.self"),
    "write": ("if the", "decoder.layers.0.self"),
    "transcribe": ("morse:so", "body.decoder.layers.0.cross"),
}


@pytest.mark.parametrize("ask", [{}, {"beam": 3}, {"temperature": 0.7}], ids=["greedy", "beam", "sample"])
@pytest.mark.parametrize("task", ASKED)
def test_they_are_the_weights_of_a_pass_over_the_answer(task: str, ask: dict[str, Any]) -> None:
    run, (given, wanted) = load(WRITTEN / task), ASKED[task]
    answer = run(given, alignments=wanted, tokens=7, **ask)
    plain = run(given, tokens=7, **ask)
    seen = answer.look()
    assert answer.text == plain.text
    assert plain.alignments == {}
    assert set(answer.alignments) == {each.layer for each in Alignments.parse(wanted).wanted}
    for each in Alignments.parse(wanted).wanted:
        exact = seen[each.layer].weights()[0]
        exact = exact[:, -len(answer.written) - 1 : -1] if task == "write" else exact[:, : len(answer.written)]
        exact = exact[list(each.heads)] if each.heads else exact
        kept = answer.alignments[each.layer]
        assert kept.shape[:2] == exact.shape[:2]
        assert_close(kept, exact[:, :, : kept.shape[2]], rtol=0, atol=1e-5)


def test_many_answers_have_their_own() -> None:
    run, layer = load(WRITTEN / "translate"), "decoder.layers.0.cross"
    together = run(["the red house", "a cat", "the letter of the word"], alignments=layer, tokens=6)
    for answer in together:
        assert answer.alignments[layer].shape[1:] == (len(answer.written), len(answer.read))
        assert_close(answer.alignments[layer], run(answer.input, alignments=layer, tokens=6).alignments[layer])


def test_json_and_links() -> None:
    run, layer = load(WRITTEN / "translate"), "decoder.layers.0.cross"
    shown = run("the red house", alignments=f"{layer}:mean", tokens=4).to_dict()
    assert len(shown["alignments"][layer][0]) == len(shown["written"]) == 4
    assert len(shown["alignments"][layer][0][0]) == len(shown["read"])
    assert json.loads(json.dumps(shown)) == shown
    linked = run("the red house", alignments=f"{layer}:links", tokens=4)
    assert linked.to_dict()["alignments"][layer] == linked.links[layer]
    sources = [int(link.split("-")[0]) for link in linked.links[layer].split()]
    assert sources
    assert all(0 <= source < 3 for source in sources)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decoder.layers.7.cross", "unknown layer of attention 'decoder.layers.7.cross'; known: "),
        ("decoder.layers.0.cross:9", r"heads of decoder.layers.0.cross must lie in 0\.\.1: got 9"),
        ("encoder.layers.0.self:mean", "only the decoder's layers can be watched"),
        ("decoder.layers.0.cross:first", "no such heads: 'first'; give LAYER:0,3"),
        ("decoder.layers.0.cross:", "no such heads: ''"),
        (":0", "no such heads: '0'"),
        ("decoder.layers.0.cross:0;decoder.layers.0.cross:1", "decoder.layers.0.cross is named twice"),
    ],
)
def test_what_cannot_be_handed_out_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(WRITTEN / "translate")("the red house", alignments=text)


def test_a_text_beyond_the_context_has_none() -> None:
    run = load(WRITTEN / "write")
    with pytest.raises(ValueError, match="alignments are those of one reading: ask for fewer tokens"):
        run("if the", alignments="decoder.layers.0.self", tokens=2 * run.model.config.length)


def test_links_sum_over_the_pieces_of_a_word() -> None:
    weights = torch.tensor([[0.4, 0.3, 0.3], [0.5, 0.3, 0.2], [0.0, 0.1, 0.9]])
    assert pharaoh(weights) == "0-0 0-1 2-2"
    assert pharaoh(weights, [0, 1, 1], [0, 0, 1]) == "1-0 1-1"
    assert pharaoh(weights, [0, 1], [0, 1, -1]) == "0-0 0-1"  # the end is no word, and neither is what wrote nothing


def test_places_of_words() -> None:
    assert words_of_spans("a  cat", [(0, 1), (1, 3), (3, 5), (5, 6)]) == [0, -1, 1, 1]
    assert words_of_tokens(lambda tokens: "".join(" xy z"[token] for token in tokens), [1, 2, 0, 3, 4]) == [
        0,
        0,
        -1,
        -1,
        1,
    ]

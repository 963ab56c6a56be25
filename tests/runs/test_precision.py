"""int8 is chosen by whoever asks, never unasked, and said."""

from pathlib import Path

import pytest

from mirada import load
from mirada.native import library

WRITTEN = Path(__file__).parent / "written_by_0_1"
needs_compiler = pytest.mark.skipif(library.library() is None, reason="nothing is compiled here")


@needs_compiler
@pytest.mark.parametrize("task", ["translate", "write"])
def test_a_run_in_int8_answers_with_an_engine_in_int8(task: str) -> None:
    given = {"translate": "the red house", "write": "if the"}[task]
    run, usual = load(WRITTEN / task, precision="int8"), load(WRITTEN / task)
    assert run(given, tokens=4).text
    usual(given, tokens=4)
    assert run._engine is not None
    assert usual._engine is not None
    assert (run._engine.precision, usual._engine.precision) == ("int8", "float32")


@needs_compiler
def test_alignments_come_from_an_engine_in_int8() -> None:
    layer = "decoder.layers.0.cross"
    answer = load(WRITTEN / "translate", precision="int8")("the red house", alignments=layer, tokens=4)
    assert answer.alignments[layer].shape == (2, 4, len(answer.read))
    assert answer.alignments[layer].sum(-1).sub(1).abs().max() < 1e-5


def test_runs_that_write_nothing_refuse_it() -> None:
    with pytest.raises(ValueError, match="precision=int8 is for runs that write texts: classify does not"):
        load(WRITTEN / "classify", precision="int8")
    with pytest.raises(ValueError, match="unknown precision 'int4'; known: bfloat16, float32, int8"):
        load(WRITTEN / "translate", precision="int4")

"""`--precision int8` of run and eval."""

import json
from pathlib import Path

import pytest

from mirada.native import library
from tests.cli.conftest import Command

WRITTEN = Path(__file__).parents[1] / "runs" / "written_by_0_1"
PAIRS, RUN = WRITTEN / "data" / "pairs.tsv", WRITTEN / "translate"


@pytest.mark.skipif(library.library() is None, reason="nothing is compiled here")
def test_eval_prints_what_int8_changes(mirada: Command) -> None:
    shown = mirada("eval", RUN, "--data", PAIRS, "--precision", "int8")
    assert shown.code == 0
    assert "in float32: int8 changes it by" in shown.out
    shown = mirada("eval", RUN, "--data", PAIRS, "--precision", "int8", "--json")
    found = json.loads(shown.out)
    assert found["precision"] == "int8"
    assert set(found["float32"]) == {"bleu", "chrf"}
    assert "precision" not in json.loads(mirada("eval", RUN, "--data", PAIRS, "--json").out)


def test_a_wrong_precision_is_one_line(mirada: Command) -> None:
    for words, message in [
        ((RUN, "a", "--precision", "int9"), "unknown precision 'int9'"),
        ((WRITTEN / "classify", "a", "--precision", "int8"), "is for runs that write texts"),
    ]:
        shown = mirada("run", *words)
        assert shown.code != 0
        assert message in shown.err
        assert len(shown.err.splitlines()) == 1

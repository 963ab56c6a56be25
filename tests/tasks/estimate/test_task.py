"""estimate: from rows of a table, or texts, to a number."""

import json
import math
from pathlib import Path

import pytest
import torch

from mirada.corpora.flats import NAMES, flats
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.tasks.estimate.columns import InputColumn, RidgeRegression
from mirada.tasks.estimate.rows import EstimateOptions, read_measured
from tests.cli.conftest import Command, mirada  # noqa: F401
from tests.runs.small import QUICK, trained, write_rows

TABLE = ("width=16", "hidden=32", "heads=2", "depth=1", "steps=4", "validate=2", "warmup=2", "threads=1")


def write_flats(path: Path, count: int = 120) -> str:
    """A CSV of flats with a header."""
    path.write_text("".join(",".join(row) + "\n" for row in (NAMES, *flats(count))), encoding="utf-8")
    return str(path)


def stars() -> list[tuple[str, str]]:
    """Texts with a number each, under a header."""
    return [("text", "stars"), *((f"a {'very ' * n}good film number {k}", str(n)) for n in range(5) for k in range(12))]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("flats")
    return trained("estimate", write_flats(home / "flats.csv"), home / "run", *TABLE)


def test_it_has_the_metrics_of_the_contract(run: Run) -> None:
    found = run.measure()
    assert list(found) == ["mae", "r2", "mae_mean", "mae_ridge"]
    splits = run.splits()
    wanted = [record.value.target for record in splits.valid]
    assert found["mae_mean"] == pytest.approx(sum(abs(run.known.mean - value) for value in wanted) / len(wanted))
    assert found["mae_ridge"] < found["mae_mean"]
    assert found["mae"] < found["mae_mean"]


def test_an_answer_is_a_share_of_both(run: Run) -> None:
    answer = run("size=70, rooms=3, district=center")
    both, network, ridge = answer.value
    share = run.known.share
    assert both == pytest.approx(share * network + (1 - share) * ridge)
    described = answer.to_dict()
    assert described["score"] is None
    assert described["value"] == pytest.approx(float(described["text"]), abs=1)
    assert described["reader"] in ("attention", "ridge", "both")


def test_rows_are_asked_by_name_as_json_or_as_objects(run: Run) -> None:
    texts = ["size=70, district=center", '{"size": 70, "district": "center"}', "district=center; size=70"]
    values = [answer.value[0] for answer in run(texts)]
    assert values == pytest.approx([run({"size": 70, "district": "center"}).value[0]] * 3)
    assert run({"size": 140, "district": "center"}).value[2] > values[0]
    for text, message in (("a big flat", "give the cells of a row by name"), ("colour=red", "unknown column 'colour'")):
        with pytest.raises(ValueError, match=message):
            run(text)


def test_a_loaded_run_estimates_the_same(run: Run) -> None:
    text = "size=55, district=harbor, lift=yes"
    assert load(run.folder)(text).value == run(text).value


def test_looking_shows_a_weight_for_every_column(run: Run) -> None:
    answer = run("size=70, district=center")
    seen = answer.look()
    weights = seen[seen.names[-1]].weights()
    assert weights.shape[-1] == len(run.known.columns) == len(NAMES) - 1
    assert "size=70" in answer.read
    assert "size=70" in seen.text()
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "What was looked at" in page
    assert "estimates are off by" in page.partition('class="summary"')[2][:60]


def test_texts_have_numbers_as_well(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "stars.tsv", stars())
    run = trained("estimate", path, tmp_path / "run", *QUICK)
    assert run.known.text == "text"
    assert [column.kind for column in run.known.columns] == ["text"]
    few, many = run(["a good film", "a very very very very good film"])
    assert many.value[2] > few.value[2] + 1, "the ridge regression counts words"
    assert few.read[:3] == ("a", "good", "film")


def test_the_column_to_estimate_is_named_or_recognized(tmp_path: Path) -> None:
    path = write_flats(tmp_path / "flats.csv", 20)
    assert read_measured(path, EstimateOptions()).records[0].value.target_name == "rent"
    chosen = read_measured(path, EstimateOptions(target="size", inputs="rooms,rent")).records[0].value
    assert (chosen.names, chosen.target) == (("rooms", "rent"), float(flats(1)[0][0]))
    with pytest.raises(ValueError, match=r"unknown column 'rents'; known: .*Did you mean 'rent'"):
        read_measured(path, EstimateOptions(target="rents"))
    plain = {"kind": ["a", "b", "a"], "height": [1.5, 2.5, 3.5]}
    assert read_measured(plain, EstimateOptions()).records[2].value.target == 3.5
    with pytest.raises(ValueError, match="no column has numbers to estimate"):
        read_measured({"a": ["x", "y"], "b": ["u", "v"]}, EstimateOptions())


def test_a_row_without_its_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "flats.csv"
    path.write_text("size,rent\n50,600\n60,\n70,many\n80,900\n90,1000\n", encoding="utf-8")
    found = read_measured(str(path), EstimateOptions())
    assert [problem.where for problem in found.problems] == [f"{path}:3", f"{path}:4"]
    assert "no number in rent, which is to be estimated" in found.problems[0].what


def test_missing_cells_are_read_and_json_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "flats.jsonl"
    rows = [{"size": 40 + n, "rent": 500 + 9 * n} | ({"floor": n % 4} if n % 3 else {}) for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = trained("estimate", str(path), tmp_path / "run", *TABLE)
    assert {column.name for column in run.known.columns} == {"size", "floor"}
    assert math.isfinite(run({"size": 50}).value[0])


def test_identifiers_and_row_numbers_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "flats.csv"
    rows = [f"{n},{'abcdefgh'[n % 8]}{n * n}x,{30 + n % 17},{500 + n % 17}" for n in range(1, 41)]
    path.write_text("\n".join(["no,code,size,rent", *rows]) + "\n", encoding="utf-8")
    run = trained("estimate", str(path), tmp_path / "run", *TABLE)
    assert [column.name for column in run.known.columns] == ["size"]


def test_a_token_of_a_number_is_its_bin_and_a_missing_one_has_its_own() -> None:
    column = InputColumn.learn("size", [str(n) for n in range(100)])
    assert column is not None
    tokens, values = column.encoded(["0", "99", "", "49.5"])
    assert tokens[2] == column.first
    assert tokens[0] == column.first + 1
    assert tokens[1] == column.first + column.tokens - 1
    assert values[2:] == [0.0, 0.0]
    assert values[0] == pytest.approx(-values[1])


def test_the_ridge_regression_solves_its_equations() -> None:
    """(X'X + penalty) w = X'y, against a direct solution."""
    from mirada.tasks.estimate.columns import _bags, _solve

    rows = {"a": [str(n % 7) for n in range(40)], "b": ["xyz"[n % 3] for n in range(40)]}
    columns = [InputColumn.learn(name, cells) for name, cells in rows.items()]
    from mirada.data.text.ngrams import NgramTable, occurrences

    x = _bags(columns, rows, NgramTable.learn(occurrences([]), 1))
    dense = x.product(torch.eye(x.ngrams))
    wanted = torch.randn(40, generator=torch.Generator().manual_seed(1))
    direct = torch.linalg.solve(dense.T @ dense + 0.5 * torch.eye(x.ngrams), dense.T @ wanted)
    torch.testing.assert_close(_solve(x, wanted, torch.ones(40), 0.5)[:, 0], direct, rtol=1e-3, atol=1e-4)
    assert RidgeRegression(direct[:, None], NgramTable.learn(occurrences([]), 1)).estimates(columns, rows).shape == (
        40,
    )


def test_the_ridge_regression_has_not_learned_the_held_out_rows() -> None:
    from mirada.data.record import Record
    from mirada.tasks.estimate.columns import TableColumns
    from mirada.tasks.estimate.rows import MeasuredRow

    def rows(shift: float) -> list[Record[MeasuredRow]]:
        return [Record(f"a:{n}", MeasuredRow(("size",), (str(n),), n + shift, "rent")) for n in range(20)]

    options = EstimateOptions()
    known = TableColumns.learn(rows(0.0), rows(1000.0), options)
    estimates = known.ridge.estimates(known.columns, {"size": ["10"]})
    assert abs(known.mean + known.scale * float(estimates[0]) - 10) < 5


def test_the_command_line_answers_rows_and_files(run: Run, mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    data, out = write_flats(tmp_path / "new.csv", 5), tmp_path / "out.csv"
    assert mirada("run", run.folder, "--data", data, "-o", out).code == 0
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join((*NAMES, "answer", "score", "error"))
    assert len(lines) == 6
    assert all(line.endswith(",,") for line in lines[1:]), "no score: not a number that is none"
    found = json.loads(mirada("eval", run.folder, "--data", data, "--json").out)
    assert {"mae", "r2", "mae_mean", "mae_ridge", "verdict"} <= found.keys()


@pytest.mark.slow
def test_rents_are_estimated_better_than_by_a_sum(tmp_path: Path) -> None:
    found = trained("estimate", "", tmp_path / "run").measure()
    assert found["mae"] < found["mae_ridge"] / 2

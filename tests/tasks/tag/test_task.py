"""tag: from a text to its spans."""

import json
from pathlib import Path

import pytest
import torch

from mirada.corpora.travels import travels
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.tasks.tag.sentences import TagOptions, joined
from mirada.tasks.tag.task import Tag, TagVocabulary, _encoded, collate, frequent_tags
from tests.cli.conftest import Command, mirada  # noqa: F401
from tests.runs.small import QUICK, trained


def write_conll(path: Path, count: int = 120) -> str:
    """A file of CoNLL with persons, places and dates."""
    rows = travels(train=count, valid=0, test=0)["train"]
    sentences = ("\n".join(map(" ".join, zip(*row, strict=True))) for row in rows)
    path.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("names")
    more = ("steps=60", "validate=20", "lr=1e-2", "vocab=300", "patience=0")
    kept = [key for key in QUICK if not key.startswith(("steps", "validate"))]
    return trained("tag", write_conll(home / "names.conll"), home / "run", *kept, *more)


def test_it_has_the_metrics_of_the_contract(run: Run) -> None:
    found = run.measure()
    assert list(found) == ["f1", "precision", "recall", "accuracy", "f1_frequent", "accuracy_frequent"]
    assert found["accuracy"] > 40


def test_spans_lie_in_the_text_as_it_was_given(run: Run) -> None:
    text = "Anna  Smith flew to New York on Monday."
    described = run(text).to_dict()
    assert described["spans"]
    for span in described["spans"]:
        assert text[span["start"] : span["end"]] == span["text"]
        assert 0 < span["score"] <= 1
        assert span["label"] in ("PER", "LOC", "DATE")
    again = load(run.folder)(text).to_dict()
    assert again == described


def test_words_have_the_place_of_their_first_token(run: Run) -> None:
    value = joined(["Anna", "Okafor-Smith", ",", "x"], ["B-PER", "I-PER", "O", "O"])
    tokens, places = _encoded(run.known.tokenizer, value)
    pieces = run.known.tokenizer.pieces(value.text)
    assert tokens[0] == run.known.tokenizer.start
    assert [pieces[place - 1].start for place in places] == [0, 5, 18, 20]
    part = collate([(tokens, places, [1, 2, 0, 0])], run.known)
    assert part.inputs["wanted"][0, places].tolist() == [1, 2, 0, 0]
    assert part.counts == (4,)


def test_a_token_over_two_words_has_the_tag_of_the_first(run: Run) -> None:
    part = collate([([2, 7, 8, 3], [1, 1, 2], [4, 5, 6])], run.known)
    assert part.inputs["wanted"].tolist() == [[-100, 4, 6, -100]]


def test_tokens_are_hidden_only_while_it_learns(run: Run) -> None:
    objective = Tag().objective(run.model, run.settings.recipe)
    seen = []
    part = collate([([2, 7, 8, 3], [1, 2], [0, 0])], run.known)
    assert part.inputs["hidden"].tolist()[0] == pytest.approx([0.0, 0.15, 0.15, 0.0])
    hidden = {**part.inputs, "hidden": torch.tensor([[0.0, 1.0, 0.0, 0.0]])}
    handle = run.model.register_forward_pre_hook(
        lambda module, given, named: seen.append(named["tokens"].tolist()), with_kwargs=True
    )
    try:
        objective.train()
        objective(**dict(hidden))
        objective.eval()
        objective.validate(**dict(hidden))
    finally:
        handle.remove()
        run.model.eval()
    assert seen == [[[2, run.known.tokenizer.unknown, 8, 3]], [[2, 7, 8, 3]]]


def test_what_is_known_is_restored(run: Run) -> None:
    paths = {name: run.folder / name for name in TagVocabulary.files}
    restored = TagVocabulary.restore(run.settings.facts, paths)
    assert (restored.labels, restored.scheme, restored.hide) == (run.known.labels, "bio", 0.15)
    assert run.known.labels == ("O", "B-DATE", "I-DATE", "B-LOC", "I-LOC", "B-PER", "I-PER")


def test_a_long_text_is_refused_or_cut(run: Run) -> None:
    text = " ".join(["Oslo"] * 600)
    with pytest.raises(ValueError, match="--truncate"):
        run(text)
    answer = run(text, truncate=True)
    assert "not read" in answer.note
    assert len(answer.value) == 600


def test_looking_says_the_tag_of_every_token(run: Run) -> None:
    seen = run("Anna left Oslo.").look(methods=True)
    labels = seen.labels
    assert labels.axes["text"].tokens[0] == "<s>"
    assert len(labels.outputs) == labels.axes["text"].size - 2
    assert all(step.text in run.known.labels for step in labels.outputs)


def test_plain_tags_of_universal_dependencies(tmp_path: Path) -> None:
    lines = "".join(
        f"1\t{noun}\t_\tNOUN\tn\t_\t2\tx\t_\t_\n2\t{verb}\t_\tVERB\tv\t_\t0\tx\t_\t_\n\n"
        for noun in ("dogs", "cats", "birds", "men", "cars") for verb in ("run", "sing", "sleep", "go")
    )  # fmt: skip
    (tmp_path / "x.conllu").write_text(lines)
    run = trained("tag", str(tmp_path / "x.conllu"), tmp_path / "run", *QUICK)
    assert run.known.plain
    assert run.known.labels == ("NOUN", "VERB")
    assert list(run.measure()) == ["accuracy", "accuracy_frequent"]
    answer = run("dogs run")
    assert [span["text"] for span in answer.more["spans"]] == ["dogs", "run"]
    assert answer.text.startswith("dogs/")
    assert run.measure([(["dogs", "run"], ["NOUN", "VERB"])])["accuracy_frequent"] == 100


def test_a_tag_that_training_has_not_is_named(tmp_path: Path) -> None:
    write_conll(tmp_path / "train.conll")
    (tmp_path / "valid.conll").write_text("Oslo B-CITY\n")
    with pytest.raises(
        ValueError, match=r"valid.conll:1: tag 'CITY' does not occur in training; known: DATE, LOC, PER"
    ):
        trained("tag", str(tmp_path / "train.conll"), tmp_path / "run", *QUICK, valid=str(tmp_path / "valid.conll"))


def test_sentences_that_are_there_twice_are_noted_not_refused(tmp_path: Path) -> None:
    path = write_conll(tmp_path / "train.conll")
    text = Path(path).read_text(encoding="utf-8").partition("\n\n")[0]
    (tmp_path / "valid.conll").write_text(text + "\n\nOslo B-LOC\n", encoding="utf-8")
    run = trained("tag", path, tmp_path / "run", *QUICK, valid=str(tmp_path / "valid.conll"))
    from mirada.runs.sources import Source

    notes = run.task.read(Source(path, str(tmp_path / "valid.conll")), TagOptions()).notes
    assert "1 text to measure with stands in the training data as well" in notes


@pytest.mark.parametrize(
    ("tags", "what"), [(["O", "O"], "all words are O"), (["NN", "NN"], "at least two tags: all words have 'NN'")]
)
def test_one_tag_teaches_nothing(tmp_path: Path, tags: list[str], what: str) -> None:
    rows = [([f"a{n}", "b"], tags) for n in range(9)]
    with pytest.raises(ValueError, match=what):
        trained("tag", rows, tmp_path / "run", *QUICK, *(["scheme=bio"] if "O" in tags else []))


def test_the_plain_baseline_by_hand() -> None:
    values = [joined(["May", "sings"], ["B-PER", "O"]), joined(["May", "May"], ["B-DATE", "B-DATE"])]
    assert frequent_tags(values) == ({"May": "B-DATE", "sings": "O"}, "B-DATE")


def test_the_command_line_check_run_and_a_file(mirada: Command, run: Run, tmp_path: Path) -> None:  # noqa: F811
    bad = tmp_path / "bad.conll"
    bad.write_text("Ana B-PER\nleft\n\n" + "".join(f"Oslo{n} B-LOC\nleft O\n\n" for n in range(9)))
    done = mirada("check", "tag", "--data", bad, *QUICK)
    assert done.code == 1
    assert f"{bad}:2: expected 2 columns, found 1." in done.out
    (tmp_path / "words.conll").write_text("Anna\nleft\nOslo\n\nIt\nrained\n")
    done = mirada("run", run.folder, "--data", tmp_path / "words.conll", "--json")
    assert done.code == 0
    assert [json.loads(line)["input"] for line in done.out.splitlines()] == ["Anna left Oslo", "It rained"]
    report = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Worst errors" in report

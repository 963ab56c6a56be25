"""caption: from pictures with captions to sentences, with where the model looked."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mirada.data.record import Record
from mirada.data.text.tokenize import END, START, Tokenizer
from mirada.runs.answers import Answer
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.sources import Source
from mirada.runs.train import train
from mirada.tasks.caption.captions import CaptionedPicture, PictureOptions
from mirada.tasks.caption.metrics import is_right
from mirada.tasks.caption.reinforce import Reinforce
from mirada.tasks.caption.report import blame, errors, heat
from mirada.tasks.caption.task import Caption, CaptionExamples, builtin
from mirada.training.log import read_metrics
from mirada.training.loop import Training
from mirada.training.objectives import ModelLoss
from mirada.training.recipe import Recipe
from mirada.training.state import LAST, TrainingState, read_checkpoint, weights
from tests.cli.conftest import Command, mirada  # noqa: F401 (a fixture)
from tests.runs.small import trained

COLORS = {"red": (210, 20, 20), "green": (20, 160, 20), "blue": (20, 20, 210)}
SIZES = ("size=16", "width=32", "hidden=32", "heads=2", "depth=2", "batch_size=16", "warmup=4")
QUICK = (*SIZES, "steps=6", "validate=3")


def written_folder(folder: Path, count: int = 120, boxes: bool = True) -> Path:
    """Pictures of 16 x 16 pixels with a box of some color, left or right, and two captions each."""
    folder.mkdir(parents=True, exist_ok=True)
    dice, lines = random.Random(3), []
    for number in range(count):
        color, side = list(COLORS)[number % 3], ("left", "right")[number // 3 % 2]
        x, y = dice.randrange(0, 3) + (9 if side == "right" else 0), dice.randrange(0, 10)
        pixels = np.full((16, 16, 3), 230 + dice.randrange(20), np.uint8)
        pixels[y : y + 5, x : x + 5] = COLORS[color]
        Image.fromarray(pixels).save(folder / f"{number}.png")
        at = {"boxes": {color: [x, y, x + 5, y + 5], "box": [x, y, x + 5, y + 5]}} if boxes else {}
        for text in (f"A {color} box on the {side}.", f"a {color} box, {side}"):
            lines.append(json.dumps({"name": f"{number}.png", "caption": text} | at))
    (folder / "captions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_folder(tmp_path_factory.mktemp("data") / "boxes")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Run:
    keys = (*SIZES, "steps=180", "validate=60", "lr=5e-3", "dropout=0", "smoothing=0", "split=0.7,0.1,0.2")
    return trained("caption", str(data), tmp_path_factory.mktemp("run") / "soft", *keys)


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Run:
    return trained("caption", str(data), tmp_path_factory.mktemp("run") / "hard", *QUICK, model="hard")


def test_it_learns_to_say_what_is_there(run: Run) -> None:
    found = run.measure()
    baselines = {f"{metric}_{name}" for metric in ("bleu", "cider") for name in ("majority", "nearest")}
    assert set(found) == {"bleu", "cider", "exact", "pointing", "pointing_chance"} | baselines
    assert found["exact"] > 70
    assert found["bleu"] > found["bleu_majority"]
    assert found["cider"] > found["cider_majority"]
    assert 0 <= found["pointing"] <= 100
    assert 20 < found["pointing_chance"] < 30  # a box of 5 x 5 touches 4 of 16 cells, or more


def test_baselines_by_hand(run: Run) -> None:
    """The most frequent caption, and that of the nearest picture, are worth what a plain program gets for them."""
    splits = run.splits()
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (84, 12, 24)
    pixels = np.stack([record.value.pixels.astype(float) for record in splits.train])
    near = []
    for record in splits.test:
        distances = ((pixels - record.value.pixels) ** 2).sum((1, 2, 3))
        near.append(splits.train[int(distances.argmin())].value.captions[0].lower())
    from mirada.training.metrics import bleu_of_several

    references = [[text.lower() for text in record.value.captions] for record in splits.test]
    found = run.task.baselines(run, lambda: splits.train, splits.test)
    assert found["bleu_nearest"] == pytest.approx(bleu_of_several(near, references))


def test_an_answer_has_words_weights_and_a_look(run: Run, data: Path) -> None:
    answer = run(str(data / "4.png"))
    assert answer.input == str(data / "4.png")
    assert answer.text.startswith("a green box")
    assert answer.written[:3] == ("a", "green", "box")
    assert answer.read[:5] == (
        "row 1, column 1",
        "row 1, column 2",
        "row 1, column 3",
        "row 1, column 4",
        "row 2, column 1",
    )
    assert answer.weights.shape == (len(answer.written), 16)
    torch.testing.assert_close(answer.weights.sum(-1), torch.ones(len(answer.written)))
    calls = answer.look()["decoder.cell.attention"].calls
    replayed = torch.stack([call.weights(head=0)[0, 0] for call in calls])[: len(answer.written)]
    torch.testing.assert_close(answer.weights, replayed, rtol=1e-4, atol=1e-5)


def test_paths_images_and_arrays_are_one_picture(run: Run, data: Path) -> None:
    path = data / "4.png"
    image = Image.open(path)
    texts = {run(given).text for given in (path, str(path), image, np.asarray(image), np.asarray(image) / 255)}
    assert len(texts) == 1
    assert [answer.input for answer in run([path, image])] == [str(path), "picture"]
    with pytest.raises(ValueError, match="a picture must be a path, a Pillow image or an array"):
        run(7)


@pytest.mark.parametrize("ask", [{"beam": 3}, {"beam": 4, "best": 3}, {"temperature": 1.0, "seed": 2}], ids=str)
def test_searches(run: Run, hard: Run, data: Path, ask: dict) -> None:
    for some in (run, hard):
        answer = some(str(data / "1.png"), **ask)
        assert answer.weights.shape == (len(answer.written), 16)
        assert len(answer.ranked) == (3 if "best" in ask else 0)
    with pytest.raises(ValueError, match="candidates is not used by caption"):
        run(str(data / "1.png"), candidates=("a",))


def test_many_pictures_are_answered_as_each_alone(run: Run, data: Path) -> None:
    paths = [str(data / f"{number}.png") for number in range(5)]
    together, alone = run(paths), [run(path) for path in paths]
    assert [a.text for a in together] == [a.text for a in alone]
    torch.testing.assert_close([a.score for a in together], [a.score for a in alone], rtol=1e-4, atol=1e-5)
    assert run([]) == []


def test_the_report_shows_pictures_with_heat(run: Run, hard: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Where the model looked while it wrote each word" in page
    assert page.count("picture-heat") >= 4
    assert "of the weight in the box" in page
    assert "Draws" not in page
    page = (hard.folder / "report.html").read_text(encoding="utf-8")
    assert "one cell for every word" in page
    assert "How often each cell was drawn for a word in 100 draws" in page
    assert "Worst errors" in page


def test_a_loaded_run_answers_as_the_trained_one(run: Run, data: Path) -> None:
    assert load(run.folder)(str(data / "2.png")).text == run(str(data / "2.png")).text


@pytest.mark.parametrize("model", ["soft", "hard", "transformer"])
def test_every_model_learns_and_points(tmp_path: Path, data: Path, model: str) -> None:
    run = trained("caption", str(data), tmp_path / "run", *QUICK, model=model)
    found = run.measure()
    assert {"bleu", "cider", "exact", "pointing"} <= set(found)
    answer = run(str(data / "2.png"))
    torch.testing.assert_close(answer.weights.sum(-1), torch.ones(len(answer.written)))
    if model == "hard":
        assert set(answer.weights.unique().tolist()) == {0.0, 1.0}
    kind = type(run.task.objective(run.model, Recipe()))
    assert kind is (Reinforce if model == "hard" else ModelLoss)


# Training


def test_an_epoch_sees_a_picture_with_one_caption_and_the_next_with_another() -> None:
    tokenizer = Tokenizer.train(["a"], kind="word")
    pictures = [np.full((8, 8, 3), n, np.uint8) for n in (0, 255)]
    examples = CaptionExamples(pictures, [[[7, 8], [9]], [[5, 5, 5]]], tokenizer)
    first, second, third = (examples.part([0, 1], epoch).inputs["wanted"].tolist() for epoch in range(3))
    assert first == [[7, 8, END, -100], [5, 5, 5, END]] == third
    assert second == [[9, END, -100, -100], [5, 5, 5, END]]
    part = examples.part([1], 0)
    assert part.inputs["pictures"].unique().tolist() == [1.0]
    assert part.inputs["target"].tolist() == [[START, 5, 5, 5]]
    assert part.counts == (4,)
    assert len(examples.each_caption()) == 3
    assert examples.each_caption().part([1], 0).inputs["wanted"].tolist() == [[9, END]]
    assert len(examples.take([1])) == 1


class CrashError(Exception):
    pass


def test_a_hard_run_that_crashed_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moving baseline of hard attention is part of what is saved."""
    data = written_folder(tmp_path / "boxes", 24)
    keys = (*SIZES, "steps=16", "validate=8", "save_seconds=0", "average=0", "threads=1")
    whole = trained("caption", str(data), tmp_path / "whole", *keys, model="hard")
    real = Training.step

    def step(training: Training, state: TrainingState, stop: bool) -> tuple[float, int, bool]:
        if state.step == 10 and state.steps == 16:  # not a step of the measurement
            raise CrashError
        return real(training, state, stop)

    monkeypatch.setattr(Training, "step", step)
    with pytest.raises(CrashError):
        trained("caption", str(data), tmp_path / "crashed", *keys, model="hard")
    monkeypatch.undo()
    saved, _ = read_checkpoint(tmp_path / "crashed" / "checkpoints" / LAST)
    assert saved["baseline"][:5].lt(0).all()
    again = trained("caption", str(data), tmp_path / "crashed", *keys, model="hard", resume=True)
    for name, value in weights(whole.model).items():
        assert torch.equal(weights(again.model)[name], value), name
    baselines = [read_checkpoint(run.folder / "checkpoints" / LAST)[0]["baseline"] for run in (whole, again)]
    assert torch.equal(*baselines)
    clock = ("seconds", "tokens_per_second", "waiting")
    lines = [
        [{k: v for k, v in event.items() if k not in clock} for event in read_metrics(run.folder / "metrics.jsonl")]
        for run in (whole, again)
    ]
    assert lines[0] == lines[1]


def test_data_in_memory(tmp_path: Path) -> None:
    rows = [(np.full((12, 10, 3), 10 * n, np.uint8), f"number {n}") for n in range(20)]
    keys = dict(key.split("=") for key in QUICK)
    run = train("caption", rows, out=tmp_path / "run", **keys)
    assert len(run.splits(rows).test) == 20
    assert isinstance(run(rows[3][0]).text, str)
    with pytest.raises(ValueError, match="this run was trained on data in memory, which is gone"):
        load(run.folder).measure()


# Splits


def test_the_same_picture_is_never_learned_from_and_measured_with(tmp_path: Path) -> None:
    """Twenty files, ten pictures: copies of one stay together."""
    for number in range(20):
        Image.new("RGB", (9, 9), (number // 2 * 20, 0, 0)).save(tmp_path / f"{number}.png")
    rows = "".join(f"{number}.png,picture {number}\n" for number in range(20))
    (tmp_path / "captions.csv").write_text(rows)
    splits = Caption().read(Source(str(tmp_path)), PictureOptions(size=8, split="0.6,0.2,0.2"))
    digests = [{record.value.digest for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert sum(map(len, digests)) == 10
    assert not splits.problems
    (tmp_path / "captions.csv").rename(tmp_path / "train.csv")
    (tmp_path / "valid.csv").write_text("1.png,other words\n19.png,picture 18\n")
    train, valid = str(tmp_path / "train.csv"), str(tmp_path / "valid.csv")
    splits = Caption().read(Source(train, valid), PictureOptions(size=8))
    assert [problem.where for problem in splits.problems] == [f"{valid}:1", f"{valid}:2"]
    assert "the same picture is in the training data: " in splits.problems[0].what


def test_a_divided_folder_and_pictures_called_train(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        written_folder(tmp_path / "divided" / name, 6)
    splits = Caption().read(Source(str(tmp_path / "divided")), PictureOptions(size=8))
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (6, 6, 6)
    folder = written_folder(tmp_path / "plain", 6)
    for name, number in (("train", 0), ("test", 1)):
        (folder / f"{number}.png").rename(folder / f"{name}.png")
    text = (folder / "captions.jsonl").read_text().replace('"0.png"', '"train.png"').replace('"1.png"', '"test.png"')
    (folder / "captions.jsonl").write_text(text)
    splits = Caption().read(Source(str(folder)), PictureOptions(size=8))
    assert len(splits.train) + len(splits.valid) == 6


def test_the_builtin_scenes_come_in_any_size() -> None:
    small, usual = (builtin(PictureOptions(size=size)) for size in (24, 48))
    first, same = small.test[0].value, usual.test[0].value
    assert first.pixels.shape == (24, 24, 3)
    word = same.captions[0].split()[1]
    assert first.boxes[word][0] == pytest.approx([x / 2 for x in same.boxes[word][0]])
    assert (len(usual.train), len(usual.valid), len(usual.test)) == (5000, 300, 600)


def test_what_went_wrong_is_reported_with_where_it_looked(run: Run, data: Path) -> None:
    value = CaptionedPicture("x", np.zeros((16, 16, 3), np.uint8), ("a blue box.",), {"blue": ((0, 0, 5, 5),)})
    answer = Answer("x", "a red box", -1.0, written=("a", "red", "box"), weights=torch.eye(16)[:3])
    (error,) = errors(answer, Record("here", value))
    assert str(error) == "red for blue, looking at it"
    assert heat(answer, Record("here", value), answer.weights).note == "here; red for blue, looking at it"
    elsewhere = replace(answer, weights=torch.eye(16)[13:])
    assert [error.looked for error in errors(elsewhere, Record("here", value))] == [False]
    (table,) = blame([(answer, Record("here", value)), (elsewhere, Record("there", value))])
    assert [row[1] for row in table.rows] == [1, 1]
    assert blame([(run(str(data / "0.png")), Record("here", replace(value, boxes={})))]) == ()


def test_is_right() -> None:
    assert is_right("a dog .", ["A dog.", "the dog"])
    assert not is_right("a dog", ["the dog"])


# Commands


def test_commands(mirada: Command, run: Run, data: Path, tmp_path: Path) -> None:  # noqa: F811
    (found,) = [json.loads(line) for line in mirada("eval", run.folder, "--json").out.splitlines()]
    assert {"bleu", "cider", "exact", "pointing", "pointing_chance", "bleu_majority", "words"} <= set(found)
    assert found["words"]["box"]["written"] > 0
    shown = mirada("run", run.folder, data / "0.png", data / "1.png")
    assert shown.out.splitlines() == [answer.text for answer in run([str(data / "0.png"), str(data / "1.png")])]
    done = mirada("run", run.folder, "--data", data, "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "name,answer,score,error"
    assert len(lines) == 121
    assert lines[1].replace('"', "").startswith("0.png,a red box")
    (tmp_path / "list.csv").write_text(f"id,name\n7,{data / '0.png'}\n8,nowhere.png\n")
    done = mirada("run", run.folder, "--data", tmp_path / "list.csv", "-o", tmp_path / "out.jsonl")
    assert done.code == 1
    first, second = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["id"], first["answer"][:9]) == ("7", "a red box")
    assert "no such file" in second["error"]


def test_a_bad_picture_hinders_no_other(mirada: Command, run: Run, data: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "bad.png").write_text("no picture")
    done = mirada("run", run.folder, data / "0.png", tmp_path / "bad.png", data / "0.png")
    assert done.code == 1
    lines = done.out.split("\n")
    assert lines[0] == lines[2] != ""
    assert lines[1] == ""
    assert "bad.png: not a picture, or of an unknown format" in done.err


BAD = [
    ("nowhere", (), "nowhere: no such file"),
    ("boxes/0.png", (), "0.png"),
    ("empty", (), "no captions file. The folder must have pictures and captions.txt"),
    ("broken", (), "captions.tsv:2: no such picture: 'nowhere.png' is not in "),
    ("broken", ("bad=ignore",), "unknown bad 'ignore'"),
    ("boxes", ("size=4",), "size must be at least 8"),
    ("boxes", ("resize=cut",), "unknown resize 'cut'"),
    ("boxes", ("memory=1e-6",), "more than memory=1e-06. Give a smaller size="),
    ("boxes", ("gaze=hrad",), "unknown normalizer 'hrad'"),
    ("boxes", ("length=4",), "too long: caption has"),
    ("one", (), "holding out needs at least 2 different records"),
]


@pytest.mark.parametrize(("place", "keys", "text"), BAD)
def test_bad_data_is_reported_before_training(
    mirada: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, keys: tuple[str, ...], text: str  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    written_folder(tmp_path / "boxes", 12)
    for name, lines in (
        ("broken", "0.png\ta box\nnowhere.png\ta box\n0.png\n1.png\ta box\n"),
        ("one", "0.png\ta box\n"),
    ):
        written_folder(tmp_path / name, 2)
        (tmp_path / name / "captions.jsonl").unlink()
        (tmp_path / name / "captions.tsv").write_text(lines)
    (tmp_path / "empty").mkdir()
    done = mirada("train", "caption", "--data", place, "--out", "out", *keys, *(q for q in QUICK if q[:4] != "size"))
    assert done.code == 2
    assert text in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "out").exists()


def test_bad_lines_can_be_skipped_and_are_listed(mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    folder = written_folder(tmp_path / "boxes", 12)
    lines = (folder / "captions.jsonl").read_text().splitlines()
    (folder / "3.png").write_bytes(b"")
    (folder / "captions.jsonl").write_text("\n".join([*lines, '{"name": "0.png", "caption": ""}', "{"]))
    listed = mirada("check", "caption", "--data", folder, "--all")
    assert listed.code == 1
    for place in (
        "captions.jsonl:7: unreadable picture: ",
        "captions.jsonl:25: empty caption",
        "captions.jsonl:26: not JSON",
    ):
        assert place in listed.out + listed.err
    done = mirada("train", "caption", "--data", folder, "--out", tmp_path / "run", "bad=skip", *QUICK)
    assert done.code == 0, done.err
    assert "3 bad records are left out" in done.err
    assert "10 pictures to learn from, 1 picture to validate on" in done.err


def test_records_without_boxes_have_no_pointing(tmp_path: Path) -> None:
    folder = written_folder(tmp_path / "plain", 12, boxes=False)
    found = trained("caption", str(folder), tmp_path / "run", *QUICK).measure()
    assert "pointing" not in found
    assert "bleu" in found


def test_builtin_samples_are_files(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    record = Record("builtin test:7", CaptionedPicture("scene", pixels, ("a",)))
    from mirada.tasks.caption.task import as_file

    path = as_file(tmp_path / "samples", record)
    assert Path(path).name == "test-7.png"
    np.testing.assert_array_equal(np.asarray(Image.open(path)), pixels)


# What the default trainings on the drawn scenes reach


@pytest.mark.slow
@pytest.mark.parametrize(("model", "bleu", "point"), [("soft", 97, 80), ("hard", 93, 80), ("transformer", 90, 0)])
def test_the_drawn_scenes_are_learned(tmp_path: Path, model: str, bleu: float, point: float) -> None:
    found = trained("caption", "", tmp_path / model, model=model).measure()
    assert found["bleu"] >= bleu
    assert found["pointing"] >= point
    assert found["bleu_nearest"] < 50

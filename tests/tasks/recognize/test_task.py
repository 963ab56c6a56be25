"""recognize: from labelled pictures to classes with probabilities and the patches that were looked at."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.train import train
from mirada.tasks.recognize.examples import AugmentedExamples, PictureExamples
from mirada.tasks.recognize.pictures import Fitting
from mirada.tasks.recognize.task import Recognize, RecognizeOptions
from mirada.training.loop import Interrupted, Training
from tests.cli.conftest import Command, mirada  # noqa: F401  a fixture
from tests.runs.small import trained
from tests.tasks.recognize.test_idx import idx

SMALL = ("width=16", "heads=2", "hidden=32", "depth=1", "batch_size=16", "dropout=0")
QUICK = (*SMALL, "steps=4", "validate=2", "warmup=2")
COUNT = 60  # pictures: 20 a class


def marked(count: int = COUNT, side: int = 16, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Dark pictures with a light bar: above, in the middle, or below."""
    pixels = np.random.default_rng(seed).integers(0, 60, (count, side, side), dtype=np.uint8)
    names = ("above", "below", "middle")
    tops = {"above": 0, "middle": side // 3, "below": 2 * side // 3}
    labels = [names[row % 3] for row in range(count)]
    for picture, label in zip(pixels, labels, strict=True):
        picture[tops[label] : tops[label] + side // 4] += 150
    return pixels, labels


def save(folder: Path, count: int = COUNT, seed: int = 0) -> Path:
    """A folder per class, in several formats and sizes, some in color."""
    for row, (pixels, label) in enumerate(zip(*marked(count, seed=seed), strict=True)):
        image, home = Image.fromarray(pixels), folder / label
        home.mkdir(parents=True, exist_ok=True)
        image = image.resize((16 + row % 5, 16)) if row % 2 else image.convert("RGB")
        image.save(home / f"{row}.{('png', 'bmp', 'gif')[row % 3]}")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("data") / "bars")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Run:
    keys = (*SMALL, "steps=60", "validate=30", "lr=1e-2")
    return trained("recognize", str(data), tmp_path_factory.mktemp("run") / "bars", *keys)


# training


def test_it_learns_the_classes(run: Run) -> None:
    assert run.known.labels == ("above", "below", "middle")
    assert (run.known.fitting.size, run.known.fitting.channels, run.known.patch) == (16, 3, 2)
    found = run.measure()
    assert list(found) == ["accuracy", "macro_f1", "accuracy_linear", "accuracy_forest", "accuracy_majority"]
    assert found["accuracy"] == found["macro_f1"] == found["accuracy_linear"] == 100
    assert len(run.splits().valid) == 12, "of few pictures a fifth is held out"
    assert run.measure(str(save(run.folder.parent / "others", 9, seed=1)))["accuracy"] == 100


def test_the_chosen_way_is_reported(mirada: Command, data: Path, tmp_path: Path) -> None:  # noqa: F811
    done = mirada("train", "recognize", "--data", data, "--out", tmp_path / "run", *QUICK)
    assert done.code == 0, done.err
    assert (
        "60 pictures of 3 classes: pictures in color of 5 sizes, 16 x 16 to 16 x 20: scaled to 16 x 16, those that are not "
        "square padded at their borders" in done.err
    )
    assert "48 pictures to learn from, 12 pictures to validate on, 399 batches an epoch" in done.err
    assert re.search(r"ViT with [\d,]+ parameters, size=16, patch=2, channels=3, classes=3, length=65", done.err)
    assert done.out.startswith("on 12 pictures for validation: accuracy ")
    assert f"  {data}/" in done.out
    facts = json.loads((tmp_path / "run" / "config.json").read_text())["facts"]
    assert facts == {
        "labels": ["above", "below", "middle"], "size": 16, "channels": 3, "fit": "pad", "patch": 2, "shift": 1,
        "flip": False, "light": 0.1, "readers": facts["readers"],
    }  # fmt: skip
    assert facts["readers"]
    assert set(facts["readers"]) <= {"attention", "linear", "forest"}
    waits = [json.loads(line).get("waiting") for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any(wait is not None for wait in waits)


def test_a_stopped_run_ends_as_one_that_was_not(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (*SMALL, "steps=8", "validate=4", "save_seconds=0", "flip=yes")
    whole = trained("recognize", str(data), tmp_path / "whole", *keys)
    step = Training.timed_step

    def stopping(self, state, *rest):
        if state.step == 5:
            raise KeyboardInterrupt
        return step(self, state, *rest)

    monkeypatch.setattr(Training, "timed_step", stopping)
    with pytest.raises(Interrupted):
        trained("recognize", str(data), tmp_path / "stopped", *keys)
    monkeypatch.undo()
    again = trained("recognize", str(data), tmp_path / "stopped", resume=True)
    for name in ("model.safetensors", "config.json"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()


@pytest.mark.parametrize("model", ["vit", "conv-attention"])
@pytest.mark.parametrize("pool", ["first", "mean", "attention"])
def test_every_model_and_pool_says_where_it_looked(tmp_path: Path, model: str, pool: str) -> None:
    pixels, labels = marked(12)
    run = trained(
        "recognize", {"images": pixels, "labels": labels}, tmp_path / "run", *QUICK, f"pool={pool}", model=model
    )
    answer = load(run.folder)(pixels[0])
    assert answer.weights.shape == (1, 64)
    assert_close(float(answer.weights.sum()), 1.0)
    assert answer.read[9] == "row 2, column 2"
    assert answer.written == (answer.text,)
    seen = answer.look()
    last = seen[seen.names[-1]].weights()[0]
    if pool == "mean":
        wanted = last.mean((0, 1))
    else:
        wanted = last[:, 0].mean(0)[int(pool == "first") :]
    assert_close(answer.weights[0], wanted / wanted.sum())


def test_augmented_rows_are_a_function_of_seed_epoch_and_row() -> None:
    task = Recognize()
    options = RecognizeOptions()
    pixels = np.random.default_rng(0).integers(0, 256, (10, 28, 28, 1), dtype=np.uint8)
    plain = PictureExamples(pixels, np.arange(10) % 3, 50, options.augmentation(28), Fitting(28, 1))
    examples = AugmentedExamples(plain, seed=3)
    assert len(examples) == 6400
    first = examples.part([5, 13, 999], epoch=2).inputs
    assert_close(first["classes"], torch.tensor([5 % 3, 3 % 3, 9 % 3]))
    other = AugmentedExamples(plain, seed=3)
    other.part([1], epoch=7)
    assert_close(other.part([999], epoch=2).inputs["pictures"][0], first["pictures"][2], rtol=0, atol=0)
    seeded = AugmentedExamples(plain, seed=4)
    for changed in (examples.part([5], epoch=3), examples.part([15], epoch=2), seeded.part([5], epoch=2)):
        assert not torch.equal(changed.inputs["pictures"][0], first["pictures"][0])
    assert_close(plain.part([5], 2).inputs["pictures"][0, 0], torch.from_numpy(pixels[5, :, :, 0] / 127.5 - 1).float())
    assert len(plain.take([1, 3])) == 2
    assert len(examples.take(range(0, 6400, 2))) == 6400
    assert RecognizeOptions(augment=False).augmentation(28) == RecognizeOptions(augment=False).augmentation(64)
    assert (options.augmentation(28).shift, options.augmentation(64).shift) == (2, 5)
    assert task.amount([1]) == "1 picture"  # type: ignore[list-item]


# files


def test_idx_files_as_mnist_and_their_numbers(mirada: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    pixels, labels = marked(60, side=28)
    numbers = np.array([("above", "below", "middle").index(label) for label in labels], np.uint8)
    for name, part in (("train", slice(0, 48)), ("test", slice(48, 60))):
        Path(f"{name}-images").write_bytes(idx(pixels[part]))
        Path(f"{name}-labels").write_bytes(idx(numbers[part]))
    keys = (*SMALL, "steps=40", "lr=1e-2")
    done = mirada("train", "recognize", "--data", "train-images,train-labels", "--out", "run", *keys)
    assert done.code == 0, done.err
    assert "48 pictures of 3 classes: gray pictures of 28 x 28" in done.err
    assert "size=28, patch=4, channels=1, classes=3" in done.err
    found = json.loads(mirada("eval", "run", "--data", "test-images,test-labels", "--json").out)
    assert found["accuracy"] == 100
    assert found["labels"] == ["0", "1", "2"]
    assert found["confusion"] == [[4, 0, 0], [0, 4, 0], [0, 0, 4]]
    assert found["per_class"]["2"]["records"] == 4
    answers = [
        json.loads(line) for line in mirada("run", "run", "test-images:1", "test-images:2", "--json").out.splitlines()
    ]
    assert [answer["text"] for answer in answers] == ["0", "1"]
    assert answers[0]["input"] == "test-images:1"
    assert answers[0]["ranked"][0]["text"] == "0"
    assert len(answers[0]["ranked"]) == 3


def test_npz_with_its_own_test_part(mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    pixels, labels = marked(60)
    np.savez(tmp_path / "bars.npz", images=pixels, labels=np.array(labels))
    done = mirada(
        "train", "recognize", "--data", tmp_path / "bars.npz", "--out", tmp_path / "run", "split=0.6,0.2,0.2", *QUICK
    )
    assert done.code == 0, done.err
    assert "36 pictures to learn from, 12 pictures to validate on" in done.err
    assert done.out.startswith("on 12 pictures for test: ")


def test_a_folder_that_is_divided_already(mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    for seed, (name, count) in enumerate((("train", 30), ("val", 9), ("test", 6))):
        save(tmp_path / "bars" / name, count, seed)
    done = mirada("train", "recognize", "--data", tmp_path / "bars", "--out", tmp_path / "run", *QUICK)
    assert done.code == 0, done.err
    assert "train is train, valid is val, test is test" in done.err
    assert "30 pictures to learn from, 9 pictures to validate on" in done.err
    assert done.out.startswith("on 6 pictures for test: ")


def test_the_form_is_as_asked_for(tmp_path: Path) -> None:
    pixels, labels = marked(12)
    rows = list(zip(pixels, labels, strict=True))
    run = trained("recognize", rows, tmp_path / "run", *QUICK, "size=24", "patch=8", "fit=stretch", "augment=no")
    assert run.known.fitting.size == 24
    assert (run.known.fitting.way, run.known.patch, run.known.grid) == ("stretch", 8, 3)
    assert run.known.augmentation.shift == 0
    assert run(pixels[0]).weights.shape == (1, 9)


def test_from_another_run(data: Path, run: Run, tmp_path: Path) -> None:
    """Weights, size and patches are those of the other run, whatever suits the new pictures."""
    pixels, labels = marked(12, side=48)
    again = trained(
        "recognize", {"images": pixels, "labels": labels}, tmp_path / "run", "steps=2", start=str(run.folder)
    )
    assert again.known.fitting == run.known.fitting
    assert again.model.config == run.model.config


# answers


def test_a_path_an_image_and_an_array_have_one_answer(run: Run, data: Path) -> None:
    path = sorted((data / "middle").iterdir())[0]
    image = Image.open(path)
    pixels = np.asarray(image.convert("RGB"))
    answers = [run(given) for given in (str(path), path, image, pixels, pixels / 255)]
    assert {answer.text for answer in answers} == {"middle"}
    for answer in answers[1:]:
        assert_close(answer.score, answers[0].score, rtol=1e-5, atol=1e-6)
    assert answers[0].input == str(path)
    assert answers[3].input == f"a picture of {image.height} x {image.width}"
    assert answers[0].score == answers[0].ranked[0][1]
    assert_close(sum(score for _, score in answers[0].ranked), 1.0)
    assert run(str(path), candidates=("above", "below")).text in ("above", "below")
    with pytest.raises(ValueError, match="candidate 'cat' is not a class of this run; known: above, below, middle"):
        run(str(path), candidates=("cat",))


def test_many_pictures_are_answered_as_each_alone(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(path) for path in sorted(data.rglob("*.*"))[:7]]
    alone = [run(path).score for path in paths]
    monkeypatch.setattr("mirada.tasks.recognize.task.SEEN_AT_ONCE", 3)
    together = run(paths)
    assert [answer.input for answer in together] == paths
    assert_close([answer.score for answer in together], alone, rtol=1e-5, atol=1e-6)


def test_pictures_are_answered_from_the_command_line(mirada: Command, run: Run, data: Path, tmp_path: Path) -> None:  # noqa: F811
    good, text = sorted((data / "above").iterdir())[0], tmp_path / "notes.txt"
    text.write_text("not a picture")
    done = mirada("run", run.folder, good, text, tmp_path / "gone.png", good)
    assert done.code == 1
    assert done.out == "above\n\n\nabove\n"
    assert done.err.splitlines() == [
        f"mirada: {text}: not a picture, or of an unknown format. Save it as PNG or JPEG.",
        f"mirada: {tmp_path / 'gone.png'}: no such file. Check the path.",
    ]
    best = mirada("run", run.folder, good, "--best", 2).out.splitlines()
    assert len(best) == 2
    assert best[0].endswith("above")
    lines = mirada("run", run.folder, "--json", stdin=f"{good}\n{text}\n".encode())
    found = [json.loads(line) for line in lines.out.splitlines()]
    assert set(found[0]) == {"input", "text", "score", "ranked", "reader", "readers"}
    assert found[1] == {
        "input": str(text),
        "error": f"{text}: not a picture, or of an unknown format. Save it as PNG or JPEG.",
    }


def test_a_folder_of_pictures_to_a_table(mirada: Command, run: Run, data: Path, tmp_path: Path) -> None:  # noqa: F811
    folder, out = save(tmp_path / "new", 6, seed=3), tmp_path / "answers.csv"
    (folder / "notes.txt").write_text("not a picture")
    done = mirada("run", run.folder, "--data", folder, "-o", out)
    assert done.code == 1
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "answer", "score", "error"]
    assert len(rows) == 7
    for row in rows:
        if row["name"] == "notes.txt":
            assert row["answer"] == row["score"] == ""
            assert row["error"].startswith("not a picture")
        else:
            assert row["answer"] == row["name"].split("/")[0]
            assert 0 < float(row["score"]) <= 1


def test_a_table_of_names_of_pictures(mirada: Command, run: Run, tmp_path: Path) -> None:  # noqa: F811
    folder, out = save(tmp_path / "new", 4, seed=3), tmp_path / "answers.jsonl"
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*.png"))
    lines = "".join(f"{number};{path}\n" for number, path in enumerate(paths))
    (folder / "list.csv").write_text(f"n;imagen\n{lines}9;gone.png\n10;\n")
    done = mirada("run", run.folder, "--data", folder / "list.csv", "-o", out)
    assert done.code == 1
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["answer"] for row in rows[:-2]] == [path.parts[0] for path in paths]
    assert "gone.png: no such file" in rows[-2]["error"]
    assert rows[-1]["error"] == "there is no picture: give the path of one"


def test_metrics_by_name(mirada: Command, run: Run) -> None:  # noqa: F811
    found = json.loads(mirada("eval", run.folder, "--json").out)
    assert set(found) == {
        "accuracy", "macro_f1", "accuracy_linear", "accuracy_forest", "accuracy_majority", "labels", "confusion", "per_class",
        "alone", "mixed", "verdict",
    }  # fmt: skip
    shown = mirada("eval", run.folder).out
    assert shown.startswith("accuracy ")
    assert "class   precision" in shown
    assert shown.rstrip().endswith(found["verdict"])


def test_validation_decides_who_reads_pictures(mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    """A network that learned nothing does not answer where a linear model is right, and every surface says so."""
    pixels, labels = marked(150, side=8)
    np.savez(tmp_path / "bars.npz", images=pixels, labels=labels)
    keys = (*SMALL, "steps=1", "lr=1e-9", "threads=1")
    run = trained("recognize", str(tmp_path / "bars.npz"), tmp_path / "run", *keys)
    assert "attention" not in run.known.plain.scales
    found = run.measured(run.splits())
    assert found.metrics["accuracy"] > 95 > found.details["alone"]["attention"]
    assert found.verdict.startswith("attention alone ")
    assert "attention does not help on this data" in found.verdict
    assert found.verdict in (run.folder / "report.html").read_text(encoding="utf-8").replace("&#x27;", "'")
    answer, again = run(pixels[4]), load(run.folder)(pixels[4])
    assert answer.more == again.more
    assert answer.more["reader"] in run.known.plain.scales
    assert (answer.text, answer.score) == (again.text, again.score) == answer.look().labels.answer
    assert_close(float(answer.weights.sum()), 1.0)
    row = json.loads(mirada("run", run.folder, str(tmp_path / "bars.npz:5"), "--json").out)
    assert (row["text"], row["reader"]) == (labels[4], answer.more["reader"])
    alone = trained("recognize", str(tmp_path / "bars.npz"), tmp_path / "alone", *keys, "beside=none")
    assert alone.known.plain is None
    assert "reader" not in alone(pixels[4]).more
    (run.folder / "readers.safetensors").unlink()
    with pytest.raises(ValueError, match=r"readers\.safetensors is missing or damaged"):
        load(run.folder)


def test_the_report_shows_pictures_with_heat(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert page.count("picture-heat") >= 8
    assert "data:image/png;base64," in page
    assert "Taken for what" in page
    assert "the query that pools the patches looked at it in the last layer" in page


def test_data_in_memory(tmp_path: Path) -> None:
    pixels, labels = marked(12)
    run = train(
        "recognize", {"images": pixels, "labels": labels}, out=tmp_path / "run", steps=2, width=16, heads=2, depth=1
    )
    assert run.known.labels == ("above", "below", "middle")
    assert run.measure({"images": pixels, "labels": labels})["accuracy"] >= 0
    with pytest.raises(ValueError, match="trained on data in memory, which is gone"):
        load(run.folder).measure()


def test_numbers_are_scaled_alike_in_training_and_in_answers(mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    """Pictures of 0 to 16, as scikit-learn has its digits: in npz, in a table, and asked as an array."""
    pixels, labels = marked(60, side=8)
    pictures = np.rint(pixels / 255 * 16)
    pictures[0, 0, 0] = 16
    np.savez(tmp_path / "sixteen.npz", images=pictures, labels=labels)
    rows = [
        ",".join([*(f"{pixel:g}" for pixel in picture.ravel()), label])
        for picture, label in zip(pictures, labels, strict=True)
    ]
    (tmp_path / "sixteen.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "asked.csv").write_text("\n".join(row.rpartition(",")[0] for row in rows[:5]) + "\n")
    keys = (*SMALL, "steps=60", "lr=1e-2", "threads=1", "warmup=5")
    done = mirada("train", "recognize", "--data", tmp_path / "sixteen.npz", "--out", tmp_path / "a", *keys)
    assert done.code == 0, done.err
    assert "gray pictures of 8 x 8, numbers from 0 (black) to 16 (white)" in done.err
    run = load(tmp_path / "a")
    assert run.known.fitting.scale == (0.0, 16.0)
    found = run.measure(str(tmp_path / "sixteen.csv"))
    assert found["accuracy"] == run.measure(str(tmp_path / "sixteen.npz"))["accuracy"] > 90
    lines = mirada("run", tmp_path / "a", "--data", tmp_path / "asked.csv", "--json").out.splitlines()
    asked = [json.loads(line) for line in lines]
    assert [answer["text"] for answer in asked] == [run(picture).text for picture in pictures[:5]]
    assert_close(asked[3]["score"], run(pictures[3]).score, rtol=1e-5, atol=1e-6)


# drawn objects


def test_drawn_objects_have_boxes_and_can_be_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.corpora.objects.SIZES", (64, 16, 24))
    run = trained("recognize", "", tmp_path / "run", "steps=2", "batch_size=8", "validate=2")
    found = run.measure()
    assert {"on_object", "on_object_even"} <= set(found)
    splits = run.splits()
    answers = run([record.value.picture for record in splits.test])
    shares, even = [], []
    for record, answer in zip(splits.test, answers, strict=True):  # a second way: pixel by pixel
        left, top, right, bottom = record.value.box
        cells = {(y // 4, x // 4) for y in range(top, bottom) for x in range(left, right)}
        shares.append(sum(float(answer.weights[0, 8 * row + column]) for row, column in cells))
        even.append(len(cells) / 64)
    assert_close(found["on_object"], 100 * float(np.mean(shares)), rtol=1e-5, atol=1e-4)
    assert_close(found["on_object_even"], 100 * float(np.mean(even)))
    task = Recognize()
    assert_close(run(task.parse("builtin test:3")).score, answers[2].score, rtol=1e-5, atol=1e-6)
    assert run(task.parse("builtin test:3")).input == "builtin test:3"
    with pytest.raises(ValueError, match="the builtin test pictures are 1 to 24: there is no 25"):
        task.parse("builtin test:25")
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "% on patches of the object" in page
    assert f"even attention would put {found['on_object_even']:.0f} % there" in page
    assert "the query that pools the patches looked at it" in page


# what cannot be used


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_bad_pictures_are_named_before_training_and_left_out_where_asked(
    mirada: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    save(Path("bars"), 30)
    whole = (Path("bars") / "above" / "0.png").read_bytes()
    write(Path("bars/above/cut.png"), whole[: len(whole) // 2])
    write(Path("bars/below/notes.txt"), b"hello")
    write(Path("bars/lonely/1.png"), whole)
    Path("bars/none").mkdir()
    for command in ("train", "check"):
        done = mirada(command, "recognize", "--data", "bars", *(("--out", "run") if command == "train" else ()))
        said = done.out + done.err
        assert done.code == (2 if command == "train" else 1)
        for text in (
            "bars/above/cut.png: the picture is damaged or cut short",
            "bars/below/notes.txt: not a picture, or of an unknown format. Save it as PNG or JPEG.",
            "bars/lonely/1.png: the only picture of 'lonely'. A class needs two at least: one to learn from, one to validate on.",
            "bars/none: a class without pictures. Put some there, or remove the folder.",
        ):
            assert text in said
        assert "Traceback" not in said
    assert not Path("run").exists()
    done = mirada("train", "recognize", "--data", "bars", "--out", "run", "bad=skip", *QUICK)
    assert done.code == 0, done.err
    assert "4 bad records are left out" in done.err
    assert load(Path("run")).known.labels == ("above", "below", "middle")


def test_bad_test_pictures_are_named_before_training_and_when_measured(
    mirada: Command, run: Run, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    for seed, (name, count) in enumerate((("train", 12), ("valid", 6), ("test", 6))):
        save(tmp_path / "bars" / name, count, seed + 5)
    path = tmp_path / "bars" / "test" / "above" / "0.png"
    path.write_bytes(path.read_bytes()[:-70])
    done = mirada("train", "recognize", "--data", tmp_path / "bars", "--out", tmp_path / "run", *QUICK)
    assert done.code == 2
    assert f"{path}: the picture is damaged or cut short" in done.err
    done = mirada("eval", run.folder, "--data", tmp_path / "bars" / "test")
    assert done.code == 2
    assert f"{path}: the picture is damaged or cut short" in done.err
    save(tmp_path / "odd", 6)
    (tmp_path / "odd" / "middle").rename(tmp_path / "odd" / "center")
    done = mirada("eval", run.folder, "--data", tmp_path / "odd")
    assert done.code == 2
    assert "label 'center' does not occur in training; known: above, below, middle" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "gone"), "gone: no such file or folder"),
        (("--data", "bars/above"), "bars/above: there is no folder in it."),
        (("--data", "one"), "there must be two classes or more to tell apart: all pictures are 'above'."),
        (
            ("--data", "bars", "size=50"),
            "size=50 does not divide into patches of 8 x 8: take size=48, or give patch=2, 5",
        ),
        (("--data", "bars", "size=50", "patch=4"), "a picture must divide into patches: got size=50, patch=4"),
        (("--data", "bars", "size=-1"), "RecognizeOptions: size must be at least 0: got -1"),
        (
            ("--data", "bars", "patch=3"),
            "convolutions halve a picture: got patch=3. Take 2, 4, 8, ..., or stem=linear.",
        ),
        (("--data", "bars", "fit=cut"), "unknown fit 'cut'; known: crop, model, pad, stretch"),
        (("--data", "bars", "memory=1e-6"), "12 pictures of 16 x 16 take 0.0 GB, and at most 1e-06 GB are kept."),
        (("--data", "bars", "fllip=yes"), "Did you mean 'flip'?"),
        (("--data", "bars", "--model", "vitt"), "unknown model for recognize 'vitt'; known: conv-attention, vit"),
        (("--data", "float.npz"), "float.npz: 12 pictures with NaN or infinite numbers, first 1, 2, 3"),
        (("--data", "few.npz"), "few.npz: every picture needs a label: there are 12 pictures and 11 labels"),
        (
            ("--data", "bars", "--valid", "odd"),
            "label 'center' does not occur in training; known: above, below, middle",
        ),
        (("--data", "bars", "--valid", "bars2"), "also in the training data: "),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    mirada: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, seed in (("bars", 0), ("bars2", 0), ("odd", 1), ("one", 2)):
        save(Path(name), 12, seed)
    Path("odd/middle").rename("odd/center")
    for name in ("below", "middle"):
        for path in Path("one", name).iterdir():
            path.unlink()
        Path("one", name).rmdir()
    pixels, labels = marked(12)
    np.savez("float.npz", images=pixels / np.nan, labels=labels)
    np.savez("few.npz", images=pixels, labels=labels[:-1])
    done = mirada("train", "recognize", *words, "--out", "run", *QUICK)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("  ", "there is no picture: give the path of one"),
        ("builtin test:0", "the builtin test pictures are 1 to"),
        (".", "a folder, not a file"),
    ],
)
def test_inputs_that_are_no_pictures(given: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.corpora.objects.SIZES", (8, 8, 8))
    with pytest.raises(ValueError, match=message):
        Recognize().parse(given)


def test_arrays_that_are_no_pictures(run: Run) -> None:
    for given, message in (
        (np.zeros((2, 2, 2, 2), np.uint8), "shape"),
        (np.full((4, 4), np.nan), "a pixel is NaN or infinite"),
        (None, "NoneType"),
    ):
        with pytest.raises(ValueError, match=message):
            run(given)
    with pytest.raises(ValueError, match="beam is not used by recognize; it takes best, candidates"):
        run(np.zeros((4, 4), np.uint8), beam=2)


@pytest.mark.slow
def test_drawn_objects_are_recognized_by_looking_at_them(tmp_path: Path) -> None:
    run = trained("recognize", "", tmp_path / "run")
    found = run.measure()
    assert found["accuracy"] > 95
    assert found["on_object"] > 60
    assert found["on_object_even"] < 15
    assert found["accuracy_linear"] < 30


def test_balance_weighs_rare_classes(tmp_path: Path) -> None:
    pixels, labels = marked(40)
    kept = [row for row, label in enumerate(labels) if label != "middle" or row % 4 == 0]
    data = {"images": pixels[kept], "labels": [labels[row] for row in kept]}
    plain = trained("recognize", data, tmp_path / "no", *QUICK)
    balanced = trained("recognize", data, tmp_path / "yes", *QUICK, "balance=yes")
    assert plain.known.weights == ()
    weights = dict(zip(balanced.known.labels, balanced.known.weights, strict=True))
    assert weights["middle"] > 2 * weights["above"]
    assert load(balanced.folder).known.weights == balanced.known.weights
    before, after = (dict(run.model.named_parameters()) for run in (plain, balanced))
    assert any(not torch.equal(before[name], after[name]) for name in before)

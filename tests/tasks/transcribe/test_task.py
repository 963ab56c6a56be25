"""transcribe: from recordings to texts, with the moments that the model listened to."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mirada as package
from mirada.data.record import Record
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.train import build
from mirada.tasks.transcribe.recordings import Recording
from mirada.tasks.transcribe.task import SpokenExamples, Transcribe, is_sound, places_of, too_long
from mirada.training.loop import Interrupted, Training
from tests.cli.conftest import Command
from tests.cli.conftest import mirada as command  # noqa: F401 (a fixture)
from tests.data.wav_bytes import tone, write_wav
from tests.runs.small import SIZES, read, request, trained

HERTZ = {"a": 500.0, "b": 1000.0, "c": 2000.0}
TEXTS = [text for a in "abc" for text in (a, *(a + b for b in "abc"))]
QUICK = (*SIZES, "steps=6", "validate=3", "batch_tokens=256", "warmup=2")


def played(text: str, seed: int, rate: int = 8000) -> np.ndarray:
    """A tone for every letter, with gaps and a little noise."""
    rng = np.random.default_rng([seed, *text.encode()])
    parts = [np.zeros(round(0.04 * rate))]
    for letter in text:
        parts += [tone(HERTZ[letter], 0.12, rate), np.zeros(round(0.04 * rate))]
    sound = np.concatenate(parts)
    return sound + rng.normal(0, 0.01, len(sound))


def write_folder(folder: Path, seeds: range, rate: int = 8000) -> str:
    """Recordings of all texts, and their transcripts."""
    rows = []
    for seed in seeds:
        for text in TEXTS:
            name = f"{text}-{seed}"
            write_wav(folder / f"{name}.wav", played(text, seed, rate), rate)
            rows.append(f"{name}\t{text}\n")
    (folder / "transcripts.tsv").write_text("".join(rows))
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_folder(tmp_path_factory.mktemp("data"), range(8))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: str) -> Run:
    keys = (*SIZES, "steps=150", "validate=75", "lr=5e-3", "warmup=10", "dropout=0", "augment=no", "split=0.8,0.1,0.1")
    return trained("transcribe", data, tmp_path_factory.mktemp("run") / "tones", *keys)


@pytest.fixture
def mirada(request: pytest.FixtureRequest) -> Command:
    return request.getfixturevalue("command")


def test_it_learns_to_write_down_what_it_hears(run: Run) -> None:
    found = run.measure()
    assert set(found) == {"wer", "cer", "wer_majority", "cer_majority"}
    assert found["cer"] < 20 < found["cer_majority"]
    assert found["wer"] < 30 < found["wer_majority"]
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "report.html", "checkpoints"
    }  # fmt: skip


def test_files_arrays_and_recordings_are_answered_alike(run: Run, tmp_path: Path) -> None:
    sound = played("ab", 99)
    path = write_wav(tmp_path / "ab.wav", sound)
    by_path, by_array = run(path), run((sound, 8000))
    assert by_path.input == path
    assert by_array.input == "0.36 s of sound"
    assert by_path.text == by_array.text
    assert run([path, (sound, 8000), Path(path)])[2].text == by_path.text
    (again,) = load(run.folder)([path])
    assert again.text == by_path.text
    assert again.score == pytest.approx(by_path.score, abs=1e-5)
    fast = run((np.interp(np.arange(len(sound) * 2) / 2, np.arange(len(sound)), sound), 16000))
    assert len(fast.read) == len(by_path.read), "another rate is resampled"


def test_weights_have_a_row_for_everything_written_and_a_column_for_every_moment(run: Run) -> None:
    answer = run((played("abc"[:2], 99), 8000))
    assert answer.read == tuple(f"{0.04 * place + 0.02:.2f} s" for place in range(len(answer.read)))
    assert len(answer.read) == places_of(34) == 9
    assert "".join(answer.written) == answer.text
    assert answer.weights.shape == (len(answer.written), 9)
    torch.testing.assert_close(answer.weights.sum(1), torch.ones(len(answer.written)))
    seen = answer.look()
    cross = seen["body.decoder.layers.0.cross"].weights()[0].mean(0)
    torch.testing.assert_close(cross[: len(answer.written)], answer.weights, atol=1e-4, rtol=1e-3)


def test_a_beam_has_alternatives(run: Run) -> None:
    answer = run((played("ab", 99), 8000), beam=3, best=3)
    assert len(answer.ranked) == answer.shown == 3
    scores = [score for _, score in answer.ranked]
    assert scores == sorted(scores, reverse=True)
    assert answer.ranked[0] == (answer.text, answer.score)
    assert run((played("ab", 99), 8000)).ranked == ()


def test_many_are_answered_as_each_alone(run: Run) -> None:
    sounds = [(played(text, 99), 8000) for text in ("a", "cb", "bb")]
    together = run(sounds)
    assert [a.text for a in together] == [run(sound).text for sound in sounds]
    torch.testing.assert_close([a.score for a in together], [run(s).score for s in sounds], atol=1e-4, rtol=1e-4)
    assert run([]) == []


def test_what_is_one_input() -> None:
    task, sound = Transcribe(), np.zeros(9)
    assert task.is_one("a.wav")
    assert task.is_one((sound, 8000))
    assert not task.is_one([(sound, 8000)])
    assert not task.is_one(("a.wav", "b.wav"))
    assert not task.is_one(((sound, 8000), (sound, 8000)))
    assert is_sound((sound, np.int64(8000)))


def test_the_report_shows_the_sound_and_where_the_model_listened(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    for word in ("Examples", "spectrogram", "wer", "4 kHz", "Spectrogram of"):
        assert word in page


# commands


def test_train_eval_and_run_as_commands(mirada: Command, data: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = mirada("train", "transcribe", "--data", data, "--out", out, *QUICK, "split=0.8,0.1,0.1")
    assert done.code == 0, done.err
    assert f"{data}: 96 recordings, 0.5 minutes in all, 0.20 to 0.36 s each; 0.2 MiB of frames in memory" in done.err
    assert "transcribe: 78 recordings (0.4 minutes) to learn from, " in done.err
    found = json.loads(mirada("eval", out, "--json").out)
    assert {"wer", "cer", "wer_majority", "cer_majority", "confusions"} == set(found)
    assert all(set(one) == {"wanted", "given", "count"} for one in found["confusions"])
    lines = mirada("eval", out).out.splitlines()
    assert lines[0].split()[0] == "wer"
    assert "->" in lines[-1]
    other = write_folder(tmp_path / "other", range(20, 21), rate=11025)
    assert set(json.loads(mirada("eval", out, "--data", other, "--json").out)) == set(found), "baselines too"
    path = f"{other}/ab-20.wav"
    (answer,) = map(json.loads, mirada("run", out, "--json", path).out.splitlines())
    assert answer["input"] == path
    assert isinstance(answer["text"], str)
    assert answer["score"] <= 0
    ranked = json.loads(mirada("run", out, "--json", path, "--best", 2).out)["ranked"]
    assert len(ranked) == 2
    assert mirada("look", out, path, "-o", tmp_path / "x.attn").code in (0, 2)


def test_answers_to_a_folder_go_to_a_file(mirada: Command, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    write_wav(folder / "ab.wav", played("ab", 50))
    write_wav(folder / "deep" / "c.wav", played("c", 50))
    (folder / "bad.wav").write_bytes(b"ID3")
    done = mirada("run", run.folder, "--data", folder, "-o", tmp_path / "out.csv")
    assert done.code == 1
    rows = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert rows[0] == ["name", "answer", "score", "error"]
    assert [row[0] for row in rows[1:]] == ["ab.wav", "bad.wav", "deep/c.wav"]
    assert rows[1][1] == run(str(folder / "ab.wav")).text
    assert "not a WAV file but MP3" in rows[2][3]
    assert done.err.count(str(folder / "bad.wav")) == 1
    (tmp_path / "list.csv").write_text(f"id,name\n7,{folder / 'ab.wav'}\n8,new/ab\n")
    done = mirada("run", run.folder, "--data", tmp_path / "list.csv", "-o", tmp_path / "out.jsonl")
    assert done.code == 0, done.err
    found = list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
    assert [(row["id"], row["answer"]) for row in found] == [("7", rows[1][1]), ("8", rows[1][1])]
    (tmp_path / "none").mkdir()
    assert "none: no wav file in this folder" in mirada("run", run.folder, "--data", tmp_path / "none").err


def test_one_bad_file_keeps_no_other_from_its_answer(mirada: Command, run: Run, tmp_path: Path) -> None:
    good = write_wav(tmp_path / "good.wav", played("ab", 50))
    (tmp_path / "bad.wav").write_bytes(b"")
    done = mirada("run", run.folder, tmp_path / "bad.wav", good, tmp_path / "none.wav")
    assert done.code == 1
    assert done.out.splitlines() == ["", run(good).text, ""]
    assert "bad.wav: the file is empty" in done.err
    assert "none.wav: no such file" in done.err


BAD = {
    "an mp3": (b"ID3 and so on", "bad.wav: not a WAV file but MP3. Convert it"),
    "a text": (b"hello hello", "bad.wav: not a WAV file: it begins with 'hello he'"),
    "an empty file": (b"", "bad.wav: the file is empty"),
    "half a file": (None, "bad.wav: cut short: the header says"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_recordings_are_named_before_training_and_skipped_where_asked(
    mirada: Command, tmp_path: Path, name: str
) -> None:
    content, message = BAD[name]
    folder = Path(write_folder(tmp_path / "data", range(2)))
    (folder / "bad.wav").write_bytes((folder / "a-0.wav").read_bytes()[:-999] if content is None else content)
    with open(folder / "transcripts.tsv", "a") as table:
        table.write("bad\tabc\n")
    done = mirada("train", "transcribe", "--data", folder, "--out", tmp_path / "run", *QUICK)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-2].startswith(f"mirada: {folder}/{message}")
    assert done.err.splitlines()[-1] == "Fix these records, or leave them out with bad=skip."
    assert not (tmp_path / "run").exists()
    checked = mirada("check", "transcribe", "--data", folder, *QUICK)
    assert checked.code == 1
    assert message in checked.out
    done = mirada("train", "transcribe", "--data", folder, "--out", tmp_path / "run", *QUICK, "bad=skip")
    assert done.code == 0, done.err
    assert "1 bad record is left out" in done.err


REFUSED = [
    ("--data nowhere", "nowhere: no such folder"),
    ("--data empty", "empty: no wav file in this folder"),
    ("--data silent", "1 wav file, but no transcripts"),
    ("tokenizer=chars", "unknown tokenizer 'chars'"),
    ("augment=lots", "unknown augment 'lots'; known: light, no, strong"),
    ("rate=10", "rate must be at least 1000: got 10"),
    ("mels=0", "mels must be at least 1: got 0"),
    ("--model lung", "unknown model for transcribe 'lung'; known: luong, transformer, whisper. Did you mean 'luong'?"),
    ("--data good length=4", "too long: 0.2 s, and the model hears at most 0.2 s. Cut the recording, or train with length="),
    ("--data good/transcripts.tsv columns=x,y", "unknown column 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_trained_is_refused(
    mirada: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "good", range(1))
    Path("empty").mkdir()
    write_wav(Path("silent/a.wav"), np.zeros(99))
    done = mirada("train", "transcribe", "--out", "run", *QUICK, *words.split())
    assert (done.code, done.out) == (2, ""), done.err
    assert message in done.err
    assert "Traceback" not in done.err
    assert not Path("run").exists()


def test_recordings_and_texts_that_are_too_long_are_reported() -> None:
    assert too_long(512 * 4, 511, 512) == ""
    assert too_long(512 * 4 + 1, 1, 512) == (
        "too long: 20.5 s, and the model hears at most 20.5 s. Cut the recording, or train with length=513."
    )
    assert too_long(4, 512, 512) == "too long: its text has 512 tokens, at most 511 fit. Cut it."


def test_an_input_that_is_too_long_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match=r"30\.00 s of sound: too long: 30\.0 s, and the model hears at most"):
        run((np.zeros(30 * 8000), 8000))


def test_a_recording_that_is_too_long_can_be_cut(run: Run) -> None:
    sound = np.tile(played("ab", 1), 100)[: 30 * 8000]
    answer = run((sound, 8000), truncate=True, tokens=3)
    assert len(answer.read) == run.model.config.length
    assert answer.weights.shape == (len(answer.written), len(answer.read))
    whole = run((played("ab", 1), 8000))
    assert run((played("ab", 1), 8000), truncate=True).text == whole.text


# data


def test_a_divided_folder_and_data_in_memory(tmp_path: Path) -> None:
    for name, seeds in (("train", range(3)), ("valid", range(3, 4)), ("test", range(4, 5))):
        write_folder(tmp_path / "data" / name, seeds)
    splits = read(request("transcribe", str(tmp_path / "data")).settings())
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [36, 12, 12]
    rows = [((played(text, seed), 8000), text) for seed in range(3) for text in TEXTS]
    run = package.train("transcribe", rows, out=tmp_path / "run", **dict(key.split("=") for key in QUICK))
    assert isinstance(run((played("a", 9), 8000)).text, str)


def test_the_rate_is_what_most_recordings_have(tmp_path: Path) -> None:
    write_folder(tmp_path, range(2), rate=11025)
    write_wav(tmp_path / "a-0.wav", played("a", 0, 44100), 44100)
    assert request("transcribe", str(tmp_path)).settings().data.rate == 11025
    assert request("transcribe", str(tmp_path), "rate=8000").settings().data.rate == 8000
    assert request("transcribe").settings().data.rate == 4000


def test_words_as_tokens_and_lower_case(tmp_path: Path) -> None:
    folder = Path(write_folder(tmp_path / "data", range(2)))
    rows = [line.split("\t") for line in (folder / "transcripts.tsv").read_text().splitlines()]
    (folder / "transcripts.tsv").write_text("".join(f"{name}\t{' '.join(text).upper()}\n" for name, text in rows))
    run = trained("transcribe", str(folder), tmp_path / "run", *QUICK, "tokenizer=word", "lowercase=yes")
    assert set(run.known.vocabulary.tokens[5:]) == {"a", "b", "c"}
    assert run.measure()["wer_majority"] < 100


def test_examples_are_changed_in_training_only_and_as_a_function_of_seed_epoch_and_row(
    data: str, tmp_path: Path
) -> None:
    settings = request("transcribe", data, *SIZES, "augment=strong").settings()
    splits = read(settings)
    run = build(settings, splits, tmp_path)
    examples = run.examples(splits.train)
    assert run.known.augment == "strong"
    plain, again = (run.task.in_order(examples, settings.recipe)[0].inputs["frames"] for _ in range(2))
    assert torch.equal(plain, again)
    batches = run.task.batches(examples, settings.recipe)
    assert isinstance(batches.examples, SpokenExamples)
    one, other = (batches.examples.part([3, 5], epoch).inputs for epoch in (0, 1))
    assert one["frames"].shape != other["frames"].shape or not torch.equal(one["frames"], other["frames"])
    assert torch.equal(one["frames"], batches.examples.part([3, 5], 0).inputs["frames"])
    alone = batches.examples.part([5], 0).inputs
    length = int(alone["lengths"][0])
    torch.testing.assert_close(one["frames"][1, :length], alone["frames"][0])
    frames = torch.cat([run.known.scaled(torch.from_numpy(r.value[0].frames.astype(np.float32))) for r in splits.train])
    torch.testing.assert_close(frames.mean(0), torch.zeros(40), atol=1e-3, rtol=0)
    torch.testing.assert_close(frames.std(0), torch.ones(40), atol=1e-2, rtol=0)


def test_a_stopped_run_ends_with_the_bits_of_one_that_was_not(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = (*QUICK, "save_seconds=0", "augment=strong")
    whole = trained("transcribe", data, tmp_path / "whole", *keys)
    step = Training.step

    def stopping(self: Training, state, stop: bool):
        return step(self, state, stop or state.step == 3)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "step", stopping)
        with pytest.raises(Interrupted):
            trained("transcribe", data, tmp_path / "stopped", *keys)
    trained("transcribe", data, tmp_path / "stopped", *keys, resume=True)
    weights, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped"))
    assert weights.keys() == again.keys()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert whole.settings.fingerprint


def test_the_other_model_and_a_run_that_starts_from_another(data: str, tmp_path: Path) -> None:
    keys = ("width=32", "steps=4", "validate=2", "batch_tokens=256", "warmup=2")
    first = trained("transcribe", data, tmp_path / "a", *keys, model="luong")
    answer = first((played("ab", 9), 8000))
    assert answer.weights.shape == (len(answer.written), 9)
    assert answer.look().names == ["body.decoder.attention"]
    second = trained(
        "transcribe", data, tmp_path / "b", *keys[1:], "augment=no", model="luong", start=str(tmp_path / "a")
    )
    assert second.known.mean == first.known.mean
    assert second.known.augment == "no"
    with pytest.raises(ValueError, match="a run that starts from another reads as that does: rate is 8000, not 16000"):
        trained("transcribe", data, tmp_path / "c", "rate=16000", model="luong", start=str(tmp_path / "a"))


def test_equal_recordings_are_found_in_both_splits(tmp_path: Path) -> None:
    for name in ("train", "valid"):
        write_folder(tmp_path / name, range(1))
    with pytest.raises(ValueError, match="also in the training data: "):
        trained("transcribe", str(tmp_path), tmp_path / "run", *QUICK)


def test_a_text_can_be_keyed_after_training_on_morse(run: Run) -> None:
    assert run("morse:sos").input == "morse:sos"
    with pytest.raises(ValueError, match="Morse code is known for the letters adehimnorstu: got '5'"):
        run("morse:55")


def test_broken_facts_are_reported(run: Run, tmp_path: Path) -> None:
    described = json.loads((run.folder / "config.json").read_text())
    described["facts"]["mean"] = "loud"
    del described["checksum"]  # the change is meant
    for path in run.folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match=r"mean and deviation in config\.json must be lists of numbers"):
        load(tmp_path)


def test_amounts_and_samples(run: Run, data: str) -> None:
    record = Record("a", (Recording("a.wav", np.zeros((1, 40), dtype=np.float16), 90.0), "x y"))
    assert run.task.amount([record, record]) == "2 recordings (3.0 minutes)"
    assert run.task.length(record.value) == 2
    samples = run.task.samples(run, run.splits())
    assert samples
    assert all(Path(sample).is_file() for sample in samples)


@pytest.mark.slow
def test_morse_code_is_learned(tmp_path: Path) -> None:
    """The default training on the builtin data."""
    run = trained("transcribe", "", tmp_path / "run")
    found = run.measure()
    assert found["cer"] < 3
    assert found["cer_majority"] > 50
    assert run("morse:sos").text == "sos"

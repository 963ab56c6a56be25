"""A folder of Whisper becomes a run that transcribes, is measured, learns, and goes back."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from mirada import import_model, load, train  # noqa: E402
from mirada.runs.exporting import export_run  # noqa: E402
from mirada.runs.importing import import_folder  # noqa: E402
from tests.cli.conftest import Command  # noqa: E402
from tests.cli.conftest import mirada as command  # noqa: E402, F401 (a fixture)
from tests.data.wav_bytes import FLOAT, PCM, write_wav  # noqa: E402
from tests.tasks.transcribe.tiny_whisper import RATE, sound, their_frames, write_folder  # noqa: E402


@pytest.fixture
def mirada(request: pytest.FixtureRequest) -> Command:
    return request.getfixturevalue("command")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of theirs, the run that it becomes, and recordings with their texts."""
    home = tmp_path_factory.mktemp("whisper")
    write_folder(home / "theirs")
    import_model(home / "theirs", home / "run")
    (home / "sounds").mkdir()
    for number, text in enumerate(("a b", "c d", "b a", "d c", "a c", "b d", "a", "b", "c", "d") * 2):
        write_wav(home / "sounds" / f"{number}.wav", sound(0.5 + 0.01 * number, number), RATE)
        (home / "sounds" / f"{number}.txt").write_text(text)
    return home


def test_its_run_writes_what_transformers_writes(home: Path) -> None:
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(home / "theirs")
    run, recording = load(home / "run"), sound(1.0)
    wanted = theirs.generate(their_frames(recording), language="en", task="transcribe", return_timestamps=True)
    [row] = wanted.tolist()
    answer = run((recording, RATE), language="en", timestamps=True)
    said = run.known.text([token for token in row if token < run.known.end]).strip()
    assert answer.more["text"] == said
    assert run.stepper is not run.model


def test_the_command_line_says_when(home: Path, mirada: Command) -> None:
    path = str(home / "sounds" / "3.wav")
    plain = mirada("run", str(home / "run"), path, "--timestamps", "--language", "en")
    assert plain.code == 0, plain.err
    assert all(line.startswith("[") and " -> " in line for line in plain.out.splitlines() if line[:1] == "[")
    answer = json.loads(mirada("run", str(home / "run"), path, "--timestamps", "--words", "--json").out)
    assert answer["language"] in ("en", "de")
    for segment in answer["segments"]:
        assert set(segment) == {"start", "end", "text", "words"}
    refused = mirada("run", str(home / "run"), path, "--language", "english")
    assert "unknown language 'english'; known: de, en" in refused.err
    assert "Traceback" not in refused.err


def test_it_is_measured_and_goes_back(home: Path, mirada: Command, tmp_path: Path) -> None:
    measured = json.loads(mirada("eval", str(home / "run"), "--data", str(home / "sounds"), "--json").out)
    assert measured["wer"] >= measured["wer_normalized"] > 0
    export_run(load(home / "run"), "hf", tmp_path / "back")
    one, other = (load_file(place / "model.safetensors") for place in (home / "theirs", tmp_path / "back"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (tmp_path / "back" / "preprocessor_config.json").exists()


def test_it_learns(home: Path, tmp_path: Path) -> None:
    keys = {"steps": 3, "validate": 3, "threads": 1, "lr": 1e-2}
    run = train(
        "transcribe", str(home / "sounds"), out=tmp_path / "run", model="whisper", start=str(home / "run"), language="en", **keys
    )  # fmt: skip
    assert run.known.stated["spoken"] == "en"
    assert load(tmp_path / "run")((sound(0.5), RATE)).more["language"] == "en"
    with pytest.raises(ValueError, match="say which one the texts are in, such as language=de"):
        train("transcribe", str(home / "sounds"), out=tmp_path / "b", model="whisper", start=str(home / "run"), **keys)
    with pytest.raises(ValueError, match="a Whisper is not trained from nothing"):
        train("transcribe", str(home / "sounds"), out=tmp_path / "c", model="whisper", **keys)


def test_without_a_processor_the_sizes_are_those_of_the_model(tmp_path: Path) -> None:
    # windows of half a second, which no processor says: two frames a place, a hundred frames a second
    write_folder(tmp_path / "theirs", preprocessor_config=None)
    said: list[str] = []
    import_folder(tmp_path / "theirs", tmp_path / "run", print_progress=said.append)
    assert "the folder has no preprocessor_config.json: sounds are heard with the sizes in config.json" in said
    assert load(tmp_path / "run").known.hears.frames == 100


def test_without_generation_settings_tokens_are_found_by_their_names(tmp_path: Path) -> None:
    write_folder(tmp_path / "theirs", generation_config=None)
    known = import_model(tmp_path / "theirs", tmp_path / "run").known
    assert known.hidden == known.tokenizer.engine.token_to_id("<|notimestamps|>")
    assert known.tasks == {"transcribe": 261, "translate": 260}


@pytest.mark.parametrize(("kind", "bits"), [(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32)])
def test_recordings_of_many_forms_are_heard(home: Path, tmp_path: Path, kind: int, bits: int) -> None:
    samples = sound(0.5)
    both = np.stack([samples, samples], axis=1)
    run = load(home / "run")
    answers = run([write_wav(tmp_path / "a.wav", both, RATE, kind=kind, bits=bits), (samples, RATE)], language="en")
    assert answers[0].score == pytest.approx(answers[1].score, abs=0.3 if bits == 8 else 0.01)

"""Heat over sound: time runs to the right, low bands are below, a strip and a peak per token."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from mirada.drawing.attention.picture import LEVELS
from mirada.tasks.transcribe.report import MOST, SoundHeat
from tests.drawing.parsed import NAN, Node, page_of

ENERGIES = np.zeros((5, 3))
WEIGHTS = ((0.1, 0.7, 0.2, 0.0), (0.0, 0.25, 0.25, 0.5))


def pixels_of(image: Node) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(b64decode((image.attributes["src"] or "").split(",")[1]))))


def test_time_runs_to_the_right_and_low_bands_are_below() -> None:
    energies = ENERGIES.copy()
    energies[4, 0] = 9.0  # the last moment of the lowest band
    root = page_of(SoundHeat(energies, 1.0, ("a", "b"), WEIGHTS))
    picture = pixels_of(root.all(kind="spectrogram")[0])
    assert picture.shape == (3, 5, 3)
    assert tuple(picture[2, 4].tolist()) == LEVELS[-1]
    assert (np.delete(picture.reshape(15, 3), 14, axis=0) == LEVELS[0]).all()


def test_every_token_has_a_strip_and_its_peak_in_words() -> None:
    root = page_of(SoundHeat(ENERGIES, 2.0, ("\u2581so", "s"), WEIGHTS, wanted="sos"))
    strips = root.all(kind="heat-strip")
    np.testing.assert_array_equal(pixels_of(strips[0])[..., 3], [[30, 209, 60, 0]])
    assert [strip.attributes["alt"] for strip in strips] == [
        "so: strongest 0.7 at 0.75 s",
        "s: strongest 0.5 at 1.75 s",
    ]
    assert [node.text for node in root.all(kind="token-name")] == ["so", "s"]
    assert [node.text for node in root.all("dd")] == ["sos", "sos"]
    assert root.all("mark") == []
    assert root.all("pre")[0].text == ".100 .700 .200 .000  so\n.000 .250 .250 .500  s"


def test_seconds_stand_at_their_places() -> None:
    root = page_of(SoundHeat(ENERGIES, 2.0, ("a", "b"), WEIGHTS, hertz=8000.0))
    marks = [(node.text, node.attributes["style"]) for node in root.all(kind="seconds")[0].all("span")]
    assert marks[0] == ("0", "left:0%")
    assert marks[2] == ("1", "left:50%")
    assert marks[-1] == ("2 s", "left:100%")
    assert root.all(kind="bands")[0].text == "8 kHz0"


def test_characters_need_the_text_they_write() -> None:
    root = page_of(SoundHeat(ENERGIES, 2.0, ("s", "o"), WEIGHTS, answer="so", wanted="sa"))
    assert [node.text for node in root.all("dd")] == ["so", "sa"]
    assert [node.text for node in root.all("mark")] == ["sa"]


def test_long_recordings_are_shrunk_in_time_only() -> None:
    root = page_of(SoundHeat(np.zeros((2 * MOST + 1, 3)), 60.0, ("a", "b"), WEIGHTS))
    assert pixels_of(root.all(kind="spectrogram")[0]).shape == (3, (2 * MOST + 1 + 2) // 3, 3)


def test_odd_weights_are_reported() -> None:
    root = page_of(SoundHeat(ENERGIES, 1.0, ("a", "b"), ((NAN, NAN), (0.5, 0.5))))
    assert [node.text for node in root.all(kind="caution")] == ["2 weights are not numbers."]
    assert root.all(kind="heat-strip")[0].attributes["alt"] == "a: strongest no number"


def test_refusals() -> None:
    with pytest.raises(ValueError, match="a row per written token: got 2 for 1 tokens"):
        SoundHeat(ENERGIES, 1.0, ("a",), WEIGHTS)
    with pytest.raises(ValueError, match=r"rows of weights must be of one length: got lengths \[1, 2\]"):
        SoundHeat(ENERGIES, 1.0, ("a", "b"), ((1.0,), (0.5, 0.5)))
    with pytest.raises(ValueError, match=r"energies must be \(frames, bands\): got shape \(4,\)"):
        SoundHeat(np.zeros(4), 1.0, (), ())
    with pytest.raises(ValueError, match=r"seconds must be positive: got 0\.0"):
        SoundHeat(ENERGIES, 0.0, (), ())

"""Morse code: the signs by the book, the timing, the noise, and recordings that are the same everywhere."""

import hashlib

import numpy as np
import pytest

from mirada.corpora import morse as builtin_morse
from mirada.corpora.morse import (
    CODE,
    HAND,
    LETTERS,
    RATE,
    SIZES,
    Keyed,
    envelope,
    hiss,
    keyed,
    morse,
    spelled,
    split_of,
    tone,
    units,
)


@pytest.fixture(scope="module")
def valid() -> list[Keyed]:
    return morse("valid")


def test_the_code_is_the_international_one() -> None:
    book = ["a.-", "d-..", "e.", "h....", "i..", "m--", "n-.", "o---", "r.-.", "s...", "t-", "u..-"]
    assert {f"{letter}{signs}" for letter, signs in CODE.items()} == set(book)
    assert len(set(CODE.values())) == len(LETTERS) == 12


def test_lengths_by_the_book() -> None:
    """In dots: a dash is 3, gaps are 1, 3 and 7."""
    assert sum(size for _, size in units("sos")) == 5 + 3 + 11 + 3 + 5
    assert list(units("et")) == [(1, 1), (0, 3), (1, 3)]
    assert list(units("e t")) == [(1, 1), (0, 7), (1, 3)]


def test_recordings_are_as_many_as_promised_and_differ(valid: list[Keyed]) -> None:
    assert len(valid) == SIZES["valid"]
    assert len({one.text for one in valid}) > 0.8 * len(valid)
    assert len({one.sound.samples.tobytes() for one in valid}) == len(valid)
    assert {one.sound.rate for one in valid} == {RATE}
    assert min(one.sound.seconds for one in valid) > 0.1
    assert max(one.sound.seconds for one in valid) < 10
    assert max(np.abs(one.sound.samples).max() for one in valid) < 1


def test_they_are_the_same_on_every_machine(valid: list[Keyed]) -> None:
    digest = hashlib.sha256()
    for one in valid:
        digest.update(one.text.encode() + (one.sound.samples * 2**15).astype("<i2").tobytes())
    assert digest.hexdigest()[:16] == "a70209bb75fdfd37"
    again = morse("valid")
    assert all(np.array_equal(a.sound.samples, b.sound.samples) for a, b in zip(valid, again, strict=True))
    assert [one.text for one in morse("valid", seed=1)] != [one.text for one in valid]


def test_texts_are_in_one_split_and_every_letter_occurs(valid: list[Keyed]) -> None:
    assert all(split_of(one.text) == "valid" for one in valid)
    assert set("".join(one.text for one in valid)) == set(LETTERS) | {" "}
    assert {split_of(letter) for letter in LETTERS} == {"train"}
    with pytest.raises(ValueError, match="a split is one of train, valid, test: got 'dev'"):
        morse("dev")


def test_speed_tone_and_noise_vary(valid: list[Keyed]) -> None:
    paces = [one.sound.seconds / sum(size for _, size in units(one.text)) for one in valid if len(one.text) > 4]
    assert max(paces) > 1.5 * min(paces)
    spectra = [np.abs(np.fft.rfft(one.sound.samples, 8 * RATE)) for one in valid]
    loudest = np.array([spectrum.argmax() / 8 for spectrum in spectra])
    assert loudest.min() > 400
    assert loudest.max() < 900
    assert loudest.max() - loudest.min() > 300
    floors = np.array([np.median(spectrum) / spectrum.max() for spectrum in spectra])
    assert floors.max() > 5 * floors.min()


def test_a_sound_begins_and_ends_in_silence_and_has_the_signs_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tones of a recording without noise, found again by their loudness."""
    monkeypatch.setattr(builtin_morse, "HISS", (0.0, 0.0))
    sound = keyed("sos", 0, 0, 5)
    loud = np.convolve(np.abs(sound.samples), np.ones(40) / 40, "same")
    on = loud > 0.3 * np.quantile(loud, 0.9)
    assert not on[:40].any()
    assert not on[-40:].any()
    edges = np.flatnonzero(np.diff(on.astype(int)))
    lengths = np.diff(edges)[::2]
    assert len(lengths) == 9
    dots, dashes = [*lengths[:3], *lengths[6:]], lengths[3:6]
    assert min(dashes) > 1.6 * max(dots) > 1.6 * (1 - HAND) * 0.02 * RATE


def test_parts_by_hand() -> None:
    steps = envelope(np.array([0] * 4 + [1] * 40 + [0] * 40))
    assert steps[:5].tolist() == [0, 0, 0, 0, 1 / 16]
    assert steps[20:44].tolist() == [1.0] * 24
    assert steps[60:].tolist() == [0.0] * 24
    sine = tone(RATE, 500.0, 0.0)
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * 500 / RATE * np.arange(1, RATE + 1)), atol=2e-3)
    noise = hiss(40_000, 1, 2)
    assert len(noise) == 40_000
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - np.sqrt(0.5)) < 0.01, "as loud as a tone of amplitude 1"


def test_any_text_can_be_keyed() -> None:
    assert np.array_equal(spelled("SOS").samples, spelled(" sos ").samples)
    assert spelled("sos sos").seconds > 1.5 * spelled("sos").seconds
    with pytest.raises(ValueError, match="Morse code is known for the letters adehimnorstu: got '4' in '4u'"):
        spelled("4u")
    with pytest.raises(ValueError, match="there is no letter to key"):
        spelled("  ")

"""What a Whisper writes, against what transformers writes with the same weights."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("transformers")

from mirada.data.record import Record
from mirada.tasks.transcribe.moments import median_filter, warped
from mirada.tasks.transcribe.recordings import Recording
from mirada.tasks.transcribe.spoken_windows import SpokenWindows
from tests.tasks.transcribe.tiny_whisper import (
    END,
    ENGLISH,
    FIRST,
    GENERATION,
    HIDDEN,
    PLACES,
    RATE,
    ROOM,
    START,
    TRANSCRIBE,
    VOCAB,
    run_of,
    sound,
    their_frames,
    their_model,
)


def until_end(row: torch.Tensor, after: int) -> list[int]:
    """The tokens of a row of theirs between the prompt and the end."""
    tokens = row.tolist()[after:]
    return tokens[: tokens.index(END)] if END in tokens else tokens


SOUNDS = [sound(0.6), sound(1.0, 1), sound(0.01, 2)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("task", ["transcribe", "translate"])
def test_it_writes_what_transformers_writes(seed: int, task: str) -> None:
    theirs = their_model(seed)
    quiet = GENERATION | {"suppress_tokens": [*GENERATION["suppress_tokens"], *range(HIDDEN, VOCAB)]}
    theirs.generation_config.suppress_tokens = quiet["suppress_tokens"]
    run = run_of(theirs, generation_config=quiet)
    wanted = theirs.generate(their_frames(*SOUNDS), language="de", task=task, return_timestamps=False)
    answers = run([(each, RATE) for each in SOUNDS], language="de", translate=task == "translate")
    for answer, row in zip(answers, wanted, strict=True):
        # generate may or may not return the prompt: what follows it is compared
        tokens = row.tolist()
        after = tokens.index(HIDDEN) + 1 if HIDDEN in tokens else 0
        assert list(answer.tokens) == until_end(row, after)
        assert answer.text == "".join(chr(32 + token) for token in answer.tokens if token < END).strip()
        assert answer.more["language"] == "de"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("seconds", [1.0, 3.7])
def test_with_timestamps_it_hears_as_transformers_does(seed: int, seconds: float) -> None:
    theirs, recording = their_model(seed), sound(seconds, seed)
    run = run_of(theirs)
    frames = their_frames(recording, truncation=False, padding="longest")
    wanted = theirs.generate(
        frames, language="en", task="transcribe", return_timestamps=True, return_segments=True, return_dict_in_generate=True
    )["segments"][0]  # fmt: skip
    answer = run((recording, RATE), language="en", timestamps=True)
    theirs_said = [
        (float(part["start"]), float(part["end"]), "".join(chr(32 + token) for token in part["tokens"].tolist() if token < END))
        for part in wanted
    ]  # fmt: skip
    said = [part for part in theirs_said if part[2].strip()]
    assert [part["text"] for part in answer.more["segments"]] == [text.strip() for _, _, text in said]
    assert [part["start"] for part in answer.more["segments"]] == pytest.approx([start for start, _, _ in said])
    if seconds > 1:
        assert run((recording, RATE), language="en").text == answer.more["text"]


def test_the_language_is_recognized() -> None:
    theirs = their_model(1)
    run = run_of(theirs)
    names = {token: name.strip("<|>") for name, token in GENERATION["lang_to_id"].items()}
    wanted = theirs.detect_language(their_frames(*SOUNDS)).tolist()
    answers = run([(each, RATE) for each in SOUNDS])
    assert [answer.more["language"] for answer in answers] == [names[token] for token in wanted]


def test_words_are_placed_by_the_heads_that_follow_the_sound() -> None:
    theirs = their_model(2)
    run, recording = run_of(theirs), sound(0.8)
    answer = run((recording, RATE), language="en", words=True)
    text = [token for token in answer.tokens if token < END]
    prompt = [START, ENGLISH, TRANSCRIBE, HIDDEN]
    target = torch.tensor([[*prompt, *text, END][:ROOM]])
    with torch.no_grad():
        layers = theirs(
            their_frames(recording), decoder_input_ids=target, output_attentions=True, use_cache=False
        ).cross_attentions
    weights = torch.stack([layers[layer][0, head] for layer, head in GENERATION["alignment_heads"]])[..., :40]
    rows = weights[:, len(prompt) - 1 : -1]
    normal = (rows - rows.mean(1, keepdim=True)) / rows.std(1, keepdim=True, unbiased=False)
    tokens, places = warped(-median_filter(normal, 7).mean(0).double().numpy())
    begins = [places[tokens.tolist().index(row)] * 0.02 for row in range(rows.shape[1])]
    spaces = [0, *(place for place, token in enumerate(text) if token == 0 and place)]
    starts = [word["start"] for word in answer.more["words"]]
    assert {round(start, 3) for start in starts} <= {round(float(value), 3) for value in begins}
    assert len(starts) >= 1
    assert spaces
    ends = [word["end"] for word in answer.more["words"]]
    assert all(start <= end <= 0.8 for start, end in zip(starts, ends, strict=True))
    assert answer.text.startswith(f"[{starts[0]:.2f} -> {ends[0]:.2f}] ")


def test_what_was_looked_at_has_moments_and_tokens() -> None:
    run = run_of(their_model())
    answer = run((SOUNDS[0], RATE), language="en")
    assert answer.weights is not None
    assert answer.weights.shape == (len(answer.written), len(answer.read)) == (len(answer.tokens), 30)
    seen = answer.look()
    assert seen.labels.axes["times"].size == PLACES
    assert seen.labels.axes["target"].size == len(answer.tokens) + 4
    name = "decoder.layers.1.cross"
    assert_close(seen[name].weights()[0].mean(0)[3 : 3 + len(answer.tokens), :30], answer.weights, atol=1e-5, rtol=0)
    assert seen.labels.axes_of(name, len(answer.tokens) + 4, PLACES) is not None


def test_the_engine_hands_out_the_attention_of_heads() -> None:
    run = run_of(their_model())
    answer = run((SOUNDS[0], RATE), language="en", alignments="decoder.layers.1.cross:0,3")
    with_all = answer.look()["decoder.layers.1.cross"].weights()[0][[0, 3]]
    assert_close(
        answer.alignments["decoder.layers.1.cross"], with_all[:, 3 : 3 + len(answer.tokens), :30], atol=1e-5, rtol=0
    )
    with pytest.raises(ValueError, match="alignments are those of one window"):
        run((sound(2.5), RATE), language="en", alignments="decoder.layers.1.cross")


def test_silence_has_no_text() -> None:
    run = run_of(their_model())
    answer = run((np.zeros(3 * RATE, dtype=np.float32), RATE), timestamps=True)
    assert (answer.text, answer.more) == ("", {"segments": []})
    assert "silent" in answer.note


@pytest.mark.parametrize("samples", [1, 159, 401])
def test_the_shortest_recordings_are_heard(samples: int) -> None:
    answer = run_of(their_model())((sound(1)[:samples] + 0.1, RATE), timestamps=True, words=True)
    assert all(0 <= part["start"] <= part["end"] for part in answer.more["segments"])


def test_a_recording_may_have_any_rate_and_two_channels() -> None:
    run = run_of(their_model())
    both = np.stack([SOUNDS[0], SOUNDS[0]], axis=1)
    assert run((both, RATE), language="en").text == run((SOUNDS[0], RATE), language="en").text
    assert run((SOUNDS[0], 44_100), language="en").error == ""


def test_a_beam_has_alternatives() -> None:
    answer = run_of(their_model())((SOUNDS[0], RATE), language="en", beam=3, best=2)
    assert len(answer.ranked) == 2


@pytest.mark.parametrize(
    ("changes", "ask", "message"),
    [
        ({}, {"language": "deu"}, r"unknown language 'deu'; known: de, en\. Did you mean 'de'\?"),
        ({"generation_config": GENERATION | {"is_multilingual": False}}, {"language": "de"}, "knows one language only"),
        (
            {"generation_config": {**GENERATION, "no_timestamps_token_id": VOCAB - 1}}, {"timestamps": True},
            "has no timestamp tokens",
        ),
        ({"generation_config": GENERATION | {"task_to_id": {}}}, {"translate": True}, "cannot translate"),
        ({"generation_config": GENERATION | {"alignment_heads": [[7, 0]]}}, {"words": True}, "alignment_heads names layer 7"),
        ({"generation_config": GENERATION | {"suppress_tokens": ["a"]}}, {}, "suppress_tokens must be a list of tokens"),
        ({"generation_config": GENERATION | {"lang_to_id": {"<|en|>": "x"}}}, {}, "must lie in 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(changes: dict[str, Any], ask: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_of(their_model(), **changes)((SOUNDS[0], RATE), **ask)


def test_without_timestamps_long_recordings_are_heard_window_by_window() -> None:
    run = run_of(their_model(), generation_config={**GENERATION, "no_timestamps_token_id": VOCAB - 1})
    parts = [run((part, RATE), language="en").text for part in np.split(sound(2.0), 2)]
    whole = run((sound(2.0), RATE), language="en")
    assert len(whole.text) >= max(map(len, parts)) > 0
    assert FIRST not in whole.tokens


def test_examples_have_the_loss_of_transformers() -> None:
    theirs = their_model()
    run = run_of(theirs)
    known = run.known.spoken("en")
    spoken = [
        (Recording("a", each.reshape(-1, 1), len(each) / RATE), text)
        for each, text in zip(SOUNDS[:2], ("a b", "cd"), strict=True)
    ]
    examples = SpokenWindows(spoken, known, known.encoded([text for _, text in spoken]))
    inputs = examples.part([0, 1], epoch=0).inputs
    labels = inputs["wanted"]
    wanted = theirs(their_frames(*SOUNDS[:2]), decoder_input_ids=inputs["target"]).logits
    expected = torch.nn.functional.cross_entropy(wanted.flatten(0, 1), labels.flatten())
    assert_close(run.model.loss(**inputs), expected, atol=1e-4, rtol=1e-4)
    assert labels[0].tolist()[3:] == [0, 65, 0, 66, END]


def test_rates_of_errors_are_also_those_of_normalized_texts_and_the_report_shows_where_it_listened() -> None:
    run = run_of(their_model())
    recording = Recording("a.wav", SOUNDS[0].reshape(-1, 1), 0.6)
    text = run(recording, language="en").text
    run.known = run.known.spoken("en")
    records = [Record("a.wav", (recording, text.upper() + "!"))]
    metrics, answers = run.task.measure(run, records)
    assert set(metrics) == {"wer", "cer", "wer_normalized", "cer_normalized"}
    assert metrics["cer"] > metrics["cer_normalized"] == 0
    examples = run.task.sections(run, records, answers)[0].items
    assert not examples[0].empty

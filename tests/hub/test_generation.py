"""What a folder says about writing, as facts."""

from typing import Any

import pytest

from mirada.hub.generation import notes, writing


def test_what_generation_config_says_counts_alone() -> None:
    said = {"num_beams": 4, "max_length": 20, "generation_config": {"max_new_tokens": 7, "eos_token_id": [2, 3]}}
    assert writing(said) == {"end_tokens": [2, 3], "most": 7}


@pytest.mark.parametrize(
    ("said", "facts"),
    [
        (
            {"num_beams": 2, "early_stopping": True, "length_penalty": 2},
            {"beam": 2, "stop": "full", "length_penalty": 2.0},
        ),
        ({"num_beams": 2, "early_stopping": "never", "length_penalty": 1.0}, {"beam": 2, "stop": "never"}),
        ({"length_penalty": 2.0, "early_stopping": True}, {}),  # of no beam
        ({"max_length": 142, "min_length": 56}, {"most": 141, "least": 55}),
        ({"bad_words_ids": [[5], [6, 7]], "suppress_tokens": [3]}, {"forbid": [3, 5], "forbid_sequences": [[6, 7]]}),
        ({"forced_bos_token_id": 0, "forced_eos_token_id": 2}, {"first": 0, "last": 2}),
        ({"force_bos_token_to_be_generated": True, "bos_token_id": 1}, {"first": 1}),
        ({"do_sample": True, "top_k": 5, "top_p": 0.9}, {"temperature": 1.0, "top_k": 5, "top_p": 0.9}),
        ({"temperature": 0.5, "top_k": 50}, {}),  # nothing is drawn
        ({"repetition_penalty": 1.2}, {"repetition": 1.2}),
    ],
    ids=str,
)
def test_settings_become_facts(said: dict[str, Any], facts: dict[str, Any]) -> None:
    assert writing({"generation_config": said}) == facts


def test_what_is_not_supported_is_named() -> None:
    facts = writing({"num_beams": 2, "repetition_penalty": 1.2, "length_penalty": -1.0, "num_beam_groups": 2})
    assert notes(facts) == (
        "not supported, so answers are written without it: num_beam_groups=2, repetition_penalty=1.2 of a beam, "
        "length_penalty=-1.0",
    )
    assert writing({"begin_suppress_tokens": [5]})["not_supported"] == ["begin_suppress_tokens=[5]"]
    assert notes(writing({"num_beams": 2, "renormalize_logits": False})) == ()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"num_beams": 2, "early_stopping": "soon"}, "early_stopping must be true, false or 'never': got 'soon'"),
        ({"num_beams": "4"}, "num_beams must be a number from 1 to inf: got '4'"),
        ({"max_length": 1}, "max_length must be a number from 2 to inf: got 1"),
        ({"bad_words_ids": [5]}, "bad_words_ids must hold numbers of tokens"),
        ({"suppress_tokens": [-1]}, "suppress_tokens must hold numbers of tokens"),
        ({"forced_bos_token_id": "en"}, "forced_bos_token_id must be the number of a token: got en"),
    ],
    ids=str,
)
def test_settings_of_the_wrong_kind_are_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        writing(said)

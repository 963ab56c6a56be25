"""What a folder of theirs says about writing: `generation_config.json`, or in older folders `config.json`, as facts for a task.

| fact                | from                                                      | meaning                                     |
|---------------------|-----------------------------------------------------------|---------------------------------------------|
| `end_tokens`        | `eos_token_id`                                            | the tokens that end a text                  |
| `beam`              | `num_beams`                                               | beams of the search                         |
| `stop`              | `early_stopping`                                          | when it stops, as `decoding.Beam` says it   |
| `length_penalty`    | `length_penalty`                                          | of a beam                                   |
| `most`              | `max_new_tokens`, or `max_length` without the first token | tokens of a text, with its end              |
| `least`             | `min_new_tokens`, or `min_length` without the first token | tokens before its end                       |
| `no_repeat`         | `no_repeat_ngram_size`                                    | no sequence of so many tokens twice         |
| `forbid`            | `suppress_tokens`, `bad_words_ids`                        | tokens that are never written               |
| `forbid_sequences`  | `bad_words_ids`                                           | sequences that are never written            |
| `first`, `last`     | `forced_bos_token_id`, `forced_eos_token_id`              | the first token, and the last at the limit  |
| `repetition`        | `repetition_penalty`, without a beam                      | how much less likely repetitions are        |
| `temperature`, ...  | `do_sample` and `temperature`, `top_k`, `top_p`           | how a token is drawn                        |
| `not_supported`     | everything else that changes what is written              | names; `notes` says them                    |
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mirada.errors import require

STOPS = {False: "likely", True: "full", "never": "never", None: "likely"}
NEUTRAL: dict[str, tuple[Any, ...]] = {  # settings that change what is written, and the values with which they do not
    "encoder_repetition_penalty": (None, 1, 1.0), "num_beam_groups": (None, 1),
    "diversity_penalty": (None, 0, 0.0), "encoder_no_repeat_ngram_size": (None, 0), "sequence_bias": (None,),
    "guidance_scale": (None, 1, 1.0), "exponential_decay_length_penalty": (None,), "penalty_alpha": (None, 0, 0.0),
    "constraints": (None,), "force_words_ids": (None,), "renormalize_logits": (None, False), "dola_layers": (None,),
    "begin_suppress_tokens": (None, []),
    "stop_strings": (None,), "watermarking_config": (None,),
}  # fmt: skip
DRAWN: dict[str, tuple[Any, ...]] = {  # the same, where tokens are drawn
    "typical_p": (None, 1, 1.0), "epsilon_cutoff": (None, 0, 0.0), "eta_cutoff": (None, 0, 0.0), "min_p": (None, 0, 0.0),
    "top_h": (None,),
}  # fmt: skip
MOST_LISTED = 200_000  # tokens in a list


def writing(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the table above, those that the folder has.

    Args:
        theirs: config.json, with `generation_config` where the folder has one: then nothing else counts.

    >>> writing({"generation_config": {"num_beams": 4, "max_length": 512, "bad_words_ids": [[9]], "eos_token_id": 0}})
    {'beam': 4, 'stop': 'likely', 'end_tokens': [0], 'most': 511, 'forbid': [9]}
    >>> writing({"num_beams": 2, "diversity_penalty": 0.5})["not_supported"]
    ['diversity_penalty=0.5']
    """
    said = theirs.get("generation_config")
    said = said if isinstance(said, Mapping) and said else theirs
    facts: dict[str, Any] = {}
    beam = _number(said, "num_beams", 1, math.inf, int)
    if beam is not None and beam > 1:
        early = said.get("early_stopping")
        known = early is None or isinstance(early, bool) or early == "never"
        require(known, f"early_stopping must be true, false or 'never': got {early!r}")
        facts |= {"beam": beam, "stop": STOPS[early]}
        penalty = _number(said, "length_penalty", -math.inf, math.inf, float)
        if penalty not in (None, 1.0):
            facts["length_penalty"] = penalty
    facts |= _bounds(said) | _rules(said)
    if said.get("do_sample") is True:
        facts |= {"temperature": _number(said, "temperature", 0, 100, float) or 1.0}
        facts |= {"top_k": _number(said, "top_k", 0, math.inf, int)} if said.get("top_k") else {}
        facts |= {"top_p": _number(said, "top_p", 0, 1, float)} if said.get("top_p") else {}
    neutral = NEUTRAL | (DRAWN if said.get("do_sample") is True else {})
    wrong = [
        f"{name}={said[name]!r}"[:80] for name, values in neutral.items() if name in said and said[name] not in values
    ]
    repetition = _number(said, "repetition_penalty", 1e-6, math.inf, float)
    if repetition not in (None, 1.0):
        facts |= {} if "beam" in facts else {"repetition": repetition}
        wrong += [f"repetition_penalty={repetition} of a beam"] if "beam" in facts else []
    wrong += [f"length_penalty={facts.pop('length_penalty')}"] if facts.get("length_penalty", 0) < 0 else []
    return facts | ({"not_supported": wrong} if wrong else {})


def notes(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What a person should know of the facts: the settings that are not supported, in a line.

    >>> notes(writing({"num_beams": 2, "diversity_penalty": 0.5}))
    ('not supported, so answers are written without it: diversity_penalty=0.5',)
    """
    wrong = facts.get("not_supported", [])
    return (f"not supported, so answers are written without it: {', '.join(wrong)}",) if wrong else ()


def _bounds(said: Mapping[str, Any]) -> dict[str, Any]:
    """How long a text may be and must be, and what ends it."""
    ends = said.get("eos_token_id")
    named = {"eos_token_id": ends if isinstance(ends, list) else [] if ends is None else [ends]}
    most, longest = _number(said, "max_new_tokens", 1, math.inf, int), _number(said, "max_length", 2, math.inf, int)
    least, shortest = _number(said, "min_new_tokens", 0, math.inf, int), _number(said, "min_length", 0, math.inf, int)
    facts: dict[str, Any] = {
        "end_tokens": _lists(named, "eos_token_id", _is_token) or None,
        "most": most if most is not None or longest is None else longest - 1,
        "least": least if least is not None or shortest is None else shortest - 1,
    }
    return {name: value for name, value in facts.items() if value is not None and (name != "least" or value > 0)}


def _rules(said: Mapping[str, Any]) -> dict[str, Any]:
    """What must not be written, and what must."""
    banned = _lists(said, "bad_words_ids", _sequence)
    forbid = _lists(said, "suppress_tokens", _is_token) + [each[0] for each in banned if len(each) == 1]
    first = _token(said, "forced_bos_token_id")
    if first is None and said.get("force_bos_token_to_be_generated") is True:  # in files of its time
        first = _token(said, "bos_token_id")
    facts = {
        "no_repeat": _number(said, "no_repeat_ngram_size", 0, math.inf, int),
        "forbid": sorted(set(forbid)),
        "forbid_sequences": [each for each in banned if len(each) > 1],
    }
    found = {name: value for name, value in facts.items() if value}
    forced = {"first": first, "last": _token(said, "forced_eos_token_id")}
    return found | {name: token for name, token in forced.items() if token is not None}


def _number(said: Mapping[str, Any], key: str, low: float, high: float, kind: type[int] | type[float]) -> Any:
    """A number between bounds, or None."""
    value = said.get(key)
    if value is None:
        return None
    whole = type(value) is int or (type(value) is float and (kind is float or value.is_integer()))
    require(whole and low <= value <= high, f"{key} must be a number from {low:g} to {high:g}: got {value!r}")
    return kind(value) if kind is int or math.isfinite(value) else None


def _token(said: Mapping[str, Any], key: str) -> int | None:
    """A token, or None."""
    value = said.get(key)
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    require(value is None or _is_token(value), f"{key} must be the number of a token: got {str(value)[:80]}")
    return value


def _is_token(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _sequence(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST_LISTED and all(map(_is_token, value))


def _lists(said: Mapping[str, Any], key: str, fits: Callable[[Any], bool]) -> list[Any]:
    """A list of tokens, or of sequences of them; empty where there is none."""
    value = said.get(key) or []
    good = isinstance(value, list) and len(value) <= MOST_LISTED and all(map(fits, value))
    require(good, f"{key} must hold numbers of tokens: got {str(value)[:80]}")
    return list(value)

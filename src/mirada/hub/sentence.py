"""What a folder of sentence-transformers says of its vectors: how tokens are pooled, their length, the longest text, a prompt."""

from collections.abc import Mapping
from typing import Any

from mirada.errors import require
from mirada.words import shortened

POOLS = {"cls": "first", "mean": "mean", "max": "max", "mean_sqrt_len": "root"}
FLAGS = {  # of older folders, each true or false
    "pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len", "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}  # fmt: skip
WORDS = {
    "first": "the vector of the first token", "mean": "the mean of the vectors of all tokens",
    "max": "the largest numbers of all tokens", "root": "the sum of the vectors of all tokens over the root of their number",
}  # fmt: skip
UNSAID = "mean"  # where a folder says nothing
MOST_PROMPT = 10_000  # characters


def pooling(theirs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Our pooling, and the facts that the task needs beside it: `normalize`, `most`, `prompt`, `lower`, `vectors` in words.

    Args:
        theirs: their config.json, with `modules`, `sentence_bert_config` and `config_sentence_transformers` where they are there.

    >>> modules = [{"kind": "Transformer", "config": {}}, {"kind": "Pooling", "config": {"pooling_mode_cls_token": True}}]
    >>> pooling({"modules": [*modules, {"kind": "Normalize", "config": {}}]})[0]
    'first'
    >>> pooling({})[1]["vectors"]
    'the mean of the vectors of all tokens, which the folder does not say'
    """
    pool, normalize = UNSAID, False
    modules = theirs.get("modules") or []
    for module in modules[1:]:
        kind, settings = module["kind"], module["config"]
        require(
            kind in ("Pooling", "Normalize"),
            f"modules.json has a {shortened(str(kind), 40)} after the transformer: vectors are pooled and normalized here, "
            "and nothing else",
        )
        if kind == "Pooling":
            pool = _mode(settings)
            apart = settings.get("include_prompt", True)
            require(
                apart is True, "include_prompt must be true: the tokens of a prompt are pooled here with the others"
            )
        normalize = normalize or kind == "Normalize"
    words = WORDS[pool] + (", of length 1" if normalize else "")
    said = any(module["kind"] == "Pooling" for module in modules)
    facts = {"normalize": normalize, "vectors": words if said else f"{words}, which the folder does not say"}
    return pool, facts | _limits(theirs)


def _mode(settings: Mapping[str, Any]) -> str:
    """The one way of pooling that is switched on."""
    named = settings.get("pooling_mode")
    asked = [named] if isinstance(named, str) else [mode for flag, mode in FLAGS.items() if settings.get(flag)]
    shown = shortened(", ".join(map(str, asked)), 80) or "none"
    require(len(asked) == 1 and asked[0] in POOLS, f"a pooling must be one of {', '.join(POOLS)}: got {shown}")
    return POOLS[asked[0]]


def _limits(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The longest text in tokens (0: what the model can read), whether it is read in lower case, and what stands before it."""
    settings, named = theirs.get("sentence_bert_config") or {}, theirs.get("config_sentence_transformers") or {}
    most, lower = settings.get("max_seq_length") or 0, settings.get("do_lower_case", False)
    require(type(most) is int and most >= 0, f"max_seq_length must be a number of tokens: got {str(most)[:80]}")
    require(type(lower) is bool, f"do_lower_case must be true or false: got {str(lower)[:80]}")
    name, prompts = named.get("default_prompt_name"), named.get("prompts") or {}
    known = name is None or (isinstance(prompts, Mapping) and isinstance(prompts.get(name), str))
    require(known, f"default_prompt_name must be one of prompts: got {str(name)[:80]!r}")
    prompt = "" if name is None else prompts[name]
    require(len(prompt) <= MOST_PROMPT, f"a prompt must have at most {MOST_PROMPT:,} characters: got {len(prompt):,}")
    return {"most": most, "lower": lower, "prompt": prompt}

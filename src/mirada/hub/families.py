"""The families of checkpoints by `model_type`, the word with which a config.json says what it describes.

A module may hold several near relatives; it is imported when it is asked for.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from mirada.errors import require, unknown
from mirada.hub.checkpoint import Family, architecture

FAMILIES = {  # model_type -> the module beside this one that reads it
    **dict.fromkeys(("bert", "camembert", "electra", "roberta", "xlm-roberta"), "bert"),
    "distilbert": "distilbert",
    "esm": "esm",
    "gpt2": "gpt2",
    "llama": "llama",
    "llama2c": "llama2c",
    "mistral": "llama",
    "modernbert": "modernbert",
    "opt": "opt",
    "phi3": "llama",
    "qwen2": "llama",
    "qwen3": "llama",
    "smollm3": "llama",
    **dict.fromkeys(("marian", "bart", "mbart", "m2m_100"), "bart"),
    **dict.fromkeys(("t5", "mt5"), "t5"),
    **dict.fromkeys(("vit", "deit"), "vit"),
    **dict.fromkeys(("dinov2", "dinov2_with_registers"), "dinov2"),
    "clip": "clip",
    "whisper": "whisper",
}

# the families that can express a model trained here, the one that fits best first
FOR_MODELS = {  # our class -> model types
    "BERT": ("bert",),
    "GPT": ("gpt2", "llama", "qwen2", "qwen3", "mistral", "smollm3", "opt"),
    "TextEncoder": ("bert", "roberta", "distilbert", "electra", "esm", "modernbert"),
    "Transformer": ("marian", "bart", "mbart", "m2m_100", "t5"),
    "ViT": ("vit", "deit", "dinov2", "dinov2_with_registers"),
    "CLIP": ("clip",),
    "Whisper": ("whisper",),
}


def family(theirs: Mapping[str, Any]) -> Family:
    """The module for a config.json.

    >>> family({"model_type": "gtp2"})
    Traceback (most recent call last):
    ValueError: unknown model_type 'gtp2'; known: ... Did you mean 'gpt2'?
    """
    named = theirs.get("model_type")
    if named is None:
        there = architecture(theirs)
        message = f"config.json must have a model_type, such as {', '.join(FAMILIES)}"
        require(False, f"{message}: it has none{f', and architectures says {there}' if there else ''}")
    if not isinstance(named, str) or named not in FAMILIES:
        raise unknown("model_type", str(named)[:80], FAMILIES)
    return cast(Family, import_module(f"{__package__}.{FAMILIES[named]}"))

"""Folders of tiny random checkpoints, as transformers saves them, one for every family that is known."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from mirada.hub.families import FAMILIES

transformers = pytest.importorskip("transformers")

VOCAB = 54  # as many as the tokenizer has
TEXTS = ("the red house.", "the red car is good", "a house is not a car", "Ana has the key")
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
NAMES = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token", "mask_token"), SPECIAL, strict=True))
TOKENS = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
SIZES = {
    "vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 24, "max_position_embeddings": 40, **TOKENS,
}  # fmt: skip
ENCODER = {
    name: size for name, size in SIZES.items() if name not in ("num_key_value_heads", "bos_token_id", "eos_token_id")
}
HALVES = {
    "vocab_size": VOCAB, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 40, **TOKENS,
    "decoder_start_token_id": 2, "forced_eos_token_id": 3,
}  # fmt: skip
T5 = {
    "vocab_size": VOCAB, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "pad_token_id": 0,
    "eos_token_id": 3, "decoder_start_token_id": 0,
}  # fmt: skip
PICTURE = {
    "image_size": 8, "patch_size": 4, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "num_labels": 3,
}  # fmt: skip
CLIP = {
    "text_config": ENCODER | {"bos_token_id": 2, "eos_token_id": 3, "projection_dim": 12},
    "vision_config": {name: size for name, size in PICTURE.items() if name != "num_labels"} | {"projection_dim": 12},
    "projection_dim": 12,
}

# model_type: the stem of their classes, the class of a model, its sizes
MADE: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{
        name: (stem, "ForMaskedLM", ENCODER)
        for name, stem in (
            ("bert", "Bert"), ("roberta", "Roberta"), ("xlm-roberta", "XLMRoberta"), ("camembert", "Camembert"),
            ("electra", "Electra"),
        )
    },
    "distilbert": (
        "DistilBert", "ForMaskedLM",
        {"vocab_size": VOCAB, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 40},
    ),
    "esm": ("Esm", "ForMaskedLM", ENCODER | {"position_embedding_type": "rotary", "mask_token_id": 4}),
    "modernbert": (
        "ModernBert", "ForMaskedLM",
        ENCODER | {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3, "local_attention": 8},
    ),
    "gpt2": ("GPT2", "LMHeadModel", {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, **TOKENS}),
    "opt": (
        "OPT", "ForCausalLM",
        {name: size for name, size in SIZES.items() if name not in ("intermediate_size", "num_key_value_heads")}
        | {"ffn_dim": 24, "word_embed_proj_dim": 16},
    ),
    **{
        name: (stem, "ForCausalLM", SIZES)
        for name, stem in (
            ("llama", "Llama"), ("mistral", "Mistral"), ("qwen2", "Qwen2"), ("qwen3", "Qwen3"), ("smollm3", "SmolLM3"),
            ("phi3", "Phi3"),
        )
    },
    "marian": ("Marian", "MTModel", HALVES),
    **{
        name: (stem, "ForConditionalGeneration", HALVES)
        for name, stem in (("bart", "Bart"), ("mbart", "MBart"), ("m2m_100", "M2M100"))
    },
    "t5": ("T5", "ForConditionalGeneration", T5),
    "mt5": ("MT5", "ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "vit": ("ViT", "ForImageClassification", PICTURE),
    "deit": ("DeiT", "ForImageClassification", PICTURE),
    "dinov2": ("Dinov2", "Model", {name: size for name, size in PICTURE.items() if name != "intermediate_size"}),
    "dinov2_with_registers": (
        "Dinov2WithRegisters", "Model", {name: size for name, size in PICTURE.items() if name != "intermediate_size"},
    ),
    "clip": ("CLIP", "Model", CLIP),
    "whisper": (
        "Whisper", "ForConditionalGeneration",
        HALVES
        | {"num_mel_bins": 80, "max_source_positions": 50, "max_target_positions": 40}
        | {"suppress_tokens": [], "begin_suppress_tokens": []},
    ),
}  # fmt: skip


def known() -> list[str]:
    """The families that are there; a new one needs an entry in MADE. Files of llama2.c have no folder."""
    return sorted(set(FAMILIES) - {"llama2c"})


@cache
def their_model(model_type: str) -> torch.nn.Module:
    """A tiny random model of theirs, its weights moved away from their start."""
    stem, kind, sizes = MADE[model_type]
    torch.manual_seed(7)
    config = getattr(transformers, f"{stem}Config")(**sizes)
    model = getattr(transformers, f"{stem}{kind}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # others are computed: sines and cosines
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@cache
def tokenizer() -> Tokenizer:
    """A byte-level tokenizer with as many tokens as the models have."""
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    engine.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=list(SPECIAL), show_progress=False)
    )
    framed = [(token, SPECIAL.index(token)) for token in ("<s>", "</s>")]
    engine.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=framed
    )
    assert engine.get_vocab_size() == VOCAB
    return engine


def write_folder(folder: Path, model_type: str, dtype: torch.dtype = torch.float32, **settings: Any) -> Path:
    """A folder as transformers saves one, with a tokenizer where the model reads texts."""
    model = their_model(model_type)
    if dtype != torch.float32:
        model = type(model)(model.config).to(dtype)
        model.load_state_dict(their_model(model_type).state_dict())
    model.save_pretrained(folder, **settings)
    if model_type not in ("vit", "deit", "dinov2", "dinov2_with_registers"):
        tokenizer().save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **NAMES})
        )
    return folder

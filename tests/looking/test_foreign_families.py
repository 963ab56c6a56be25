"""`look` on models of Hugging Face transformers themselves, family by family: on the fused kernel, the weights of eager."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from mirada import look  # noqa: E402

NEAR = {"atol": 1e-5, "rtol": 1e-5}
VOCAB, LENGTH, LAYERS = 37, 11, 2
SIZES = {
    "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 31,
    "max_position_embeddings": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 2, "max_position_embeddings": 64}
PICTURES = {key: SIZES[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
PICTURES |= {"image_size": 12, "patch_size": 4}
BOTH = {
    "vocab_size": VOCAB, "d_model": 24, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": 4,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 31, "decoder_ffn_dim": 31, "max_position_embeddings": 16,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
T5 = {"vocab_size": VOCAB, "d_model": 24, "d_kv": 6, "d_ff": 31, "num_layers": LAYERS, "num_heads": 4}
WHISPER = BOTH | {"num_mel_bins": 5, "max_source_positions": 9, "max_target_positions": 16, "suppress_tokens": None}
OPT = {key: SIZES[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")}
OPT |= {"ffn_dim": 31, "max_position_embeddings": 16, "word_embed_proj_dim": 24}
DISTIL = {
    "vocab_size": VOCAB,
    "dim": 24,
    "n_layers": LAYERS,
    "n_heads": 4,
    "hidden_dim": 31,
    "max_position_embeddings": 16,
}
GPT2 = {"vocab_size": VOCAB, "n_embd": 24, "n_layer": LAYERS, "n_head": 4, "n_positions": 16}

REAL = (torch.arange(LENGTH) < torch.tensor([[11], [6]])).long()
TOKENS = torch.randint(3, VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(1))
TARGETS = torch.randint(3, VOCAB, (2, 5), generator=torch.Generator().manual_seed(2))
TEXTS = {"input_ids": TOKENS, "attention_mask": REAL}
PAIRS = TEXTS | {"decoder_input_ids": TARGETS}
PIXELS = {"pixel_values": torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(3))}
SOUND = {
    "input_features": torch.randn(2, 5, 18, generator=torch.Generator().manual_seed(4)),
    "decoder_input_ids": TARGETS,
}

# the class of the model, that of its configuration, what is given to them
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Tensor]]] = {
    "BERT": ("BertModel", "BertConfig", SIZES, TEXTS),
    "RoBERTa": ("RobertaModel", "RobertaConfig", SIZES | {"type_vocab_size": 1}, TEXTS),
    "DistilBERT": ("DistilBertModel", "DistilBertConfig", DISTIL, TEXTS),
    "ELECTRA": ("ElectraModel", "ElectraConfig", SIZES | {"embedding_size": 12}, TEXTS),
    "ESM": ("EsmModel", "EsmConfig", SIZES | {"position_embedding_type": "rotary", "mask_token_id": 3}, TEXTS),
    "ModernBERT": (
        "ModernBertModel", "ModernBertConfig",
        SIZES | {"local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2}, TEXTS,
    ),
    "GPT-2": ("GPT2Model", "GPT2Config", GPT2, TEXTS),
    "OPT": ("OPTModel", "OPTConfig", OPT, TEXTS),
    "Llama": ("LlamaModel", "LlamaConfig", GROUPED, TEXTS),
    "Mistral": ("MistralModel", "MistralConfig", GROUPED | {"sliding_window": 4}, TEXTS),
    "Qwen2": ("Qwen2Model", "Qwen2Config", GROUPED, TEXTS),
    "Qwen3": ("Qwen3Model", "Qwen3Config", GROUPED | {"head_dim": 8}, TEXTS),
    "Phi-3": ("Phi3Model", "Phi3Config", GROUPED, TEXTS),
    "ViT": ("ViTModel", "ViTConfig", PICTURES, PIXELS),
    "DeiT": ("DeiTModel", "DeiTConfig", PICTURES, PIXELS),
    "DINOv2": ("Dinov2Model", "Dinov2Config", PICTURES | {"mlp_ratio": 2}, PIXELS),
    "DINOv2 with registers": ("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", PICTURES | {"mlp_ratio": 2}, PIXELS),
    "CLIP": (
        "CLIPModel", "CLIPConfig", {"text_config": SIZES, "vision_config": PICTURES, "projection_dim": 6}, PIXELS | TEXTS,
    ),
    "Marian": ("MarianModel", "MarianConfig", BOTH, PAIRS),
    "BART": ("BartModel", "BartConfig", BOTH, PAIRS),
    "M2M100": ("M2M100Model", "M2M100Config", BOTH, PAIRS),
    "T5": ("T5Model", "T5Config", T5, PAIRS),
    "Whisper": ("WhisperModel", "WhisperConfig", WHISPER, SOUND),
}  # fmt: skip


def made(name: str, how: str) -> nn.Module:
    """A small model that attends so, every weight of it moved away from its start: the same one for every way."""
    model, config, settings, _ = CASES[name]
    torch.manual_seed(5)
    # a configuration keeps what it is given: every model has settings of its own
    settings = {key: dict(value) if isinstance(value, dict) else value for key, value in settings.items()}
    built = getattr(transformers, model)(getattr(transformers, config)(**settings, attn_implementation=how))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return built.eval()


def attentions(output: Any) -> Iterator[Tensor]:
    """The weights of all layers in the order of the calls: a layer of a decoder looks at itself, then at the source."""
    if hasattr(output, "vision_model_output"):
        yield from chain(output.vision_model_output.attentions, output.text_model_output.attentions)
    elif hasattr(output, "cross_attentions") and output.cross_attentions:
        yield from output.encoder_attentions
        yield from chain.from_iterable(zip(output.decoder_attentions, output.cross_attentions, strict=True))
    else:
        yield from output.attentions


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_the_weights_are_those_of_output_attentions(name: str) -> None:
    fused, eager, given = made(name, "sdpa"), made(name, "eager"), CASES[name][3]
    plain = fused(**given)
    with look(fused) as seen:
        again = fused(**given)
    wanted = list(attentions(eager(**given, output_attentions=True)))
    assert len(seen.names) == len(wanted) >= LAYERS
    for layer, expected in zip(seen.names, wanted, strict=True):
        weights = seen[layer].weights()
        real = (
            REAL.bool()
            if "input_ids" in given and expected.shape[2] == LENGTH
            else torch.ones(2, expected.shape[2]) > 0
        )
        real = real[:, None].expand(expected.shape[:3])  # what the padding looks at is nobody's
        assert_close(weights[real], expected[real], **NEAR, msg=lambda text, layer=layer: f"{layer}: {text}")
    first: Callable[[Any], Tensor] = lambda output: next(value for value in output.values() if torch.is_tensor(value))  # noqa: E731
    assert_close(first(again), first(plain), rtol=0, atol=0)  # looking changes nothing


@pytest.mark.parametrize("name", ["BERT", "DINOv2", "CLIP", "T5"])
def test_eager_models_are_refused_with_what_helps(name: str) -> None:
    with pytest.raises(ValueError, match=r"set_attn_implementation\('sdpa'\)"), look(made(name, "eager")):
        pass


@pytest.mark.parametrize(
    ("model", "config", "more"),
    [
        ("DebertaV2Model", "DebertaV2Config", {}),
        ("GptOssModel", "GptOssConfig", {"head_dim": 6, "num_local_experts": 2, "num_experts_per_tok": 1}),
    ],
)
def test_models_without_a_fused_form_are_refused_with_what_helps(model: str, config: str, more: dict[str, Any]) -> None:
    sizes = GROUPED | more if model == "GptOssModel" else SIZES | more
    built = getattr(transformers, model)(getattr(transformers, config)(**sizes)).eval()
    with pytest.raises(ValueError, match="output_attentions=True") as caught, look(built):
        pass
    assert "set_attn_implementation" not in str(caught.value)
    built.set_attn_implementation("eager")
    if model == "DebertaV2Model":  # the experts of GPT-OSS want widths of its size
        assert len(built(TOKENS, output_attentions=True).attentions) == LAYERS

"""Parity with Hugging Face's Marian: outputs, gradients and steps."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from mirada.hub import marian  # noqa: E402

BATCH, SOURCE, TARGET, VOCAB, PAD = 3, 11, 7, 37, 36
LENGTHS, TARGET_LENGTHS = torch.tensor([11, 5, 8]), torch.tensor([3, 7, 5])
REAL, TARGET_REAL = torch.arange(SOURCE) < LENGTHS.unsqueeze(1), torch.arange(TARGET) < TARGET_LENGTHS.unsqueeze(1)
NEAR = {"atol": 1e-4, "rtol": 1e-4}


def their_model(**settings: object) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start, also its constant bias."""
    settings = {"activation_function": "swish", "attn_implementation": "eager"} | settings
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=20, encoder_layers=2, decoder_layers=2, encoder_attention_heads=5,
        decoder_attention_heads=5, encoder_ffn_dim=31, decoder_ffn_dim=31, max_position_embeddings=13, dropout=0.0,
        scale_embedding=True, pad_token_id=PAD, decoder_start_token_id=PAD, eos_token_id=0, forced_eos_token_id=0, **settings,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
            if "embed_positions" not in name:  # sines and cosines
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and targets. The padding token occurs only in padding: its row of their table gets no gradient."""
    source = torch.randint(PAD, (BATCH, SOURCE)).masked_fill(~REAL, PAD)
    return source, torch.randint(PAD, (BATCH, TARGET)).masked_fill(~TARGET_REAL, PAD)


def their_logits(theirs: nn.Module, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return theirs(
        source,
        attention_mask=REAL.long(),
        decoder_input_ids=target,
        decoder_attention_mask=TARGET_REAL.long(),
        use_cache=False,
    ).logits


@pytest.mark.parametrize(
    ("settings", "tied"),
    [
        ({}, "all"),
        ({"activation_function": "relu", "attn_implementation": "sdpa"}, "all"),
        ({"activation_function": "gelu"}, "all"),
        ({"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 41}, "output"),
        ({"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 41, "tie_word_embeddings": False}, "no"),
    ],
    ids=str,
)
def test_outputs_and_all_gradients_are_equal_in_a_padded_batch(settings: dict[str, object], tied: str) -> None:
    theirs = their_model(**settings)
    ours = marian.load(theirs.config.to_dict(), theirs.state_dict())
    assert ours.config.tied == tied
    source, target = texts()
    theirs.final_logits_bias.requires_grad_()  # a constant there, a parameter here
    got, wanted = ours(source, LENGTHS, target)[TARGET_REAL], their_logits(theirs, source, target)[TARGET_REAL]
    assert_close(got, wanted, **NEAR)

    probe = 0.2 * torch.randn(got.shape)
    (got * probe).sum().backward()
    (wanted * probe).sum().backward()
    # a table that leads from weights to weights leads from gradients to gradients
    theirs_at = {name: p.grad for name, p in theirs.named_parameters() if "embed_positions" not in name}
    theirs_at["final_logits_bias"] = theirs.final_logits_bias.grad
    gradients = marian.load(theirs.config.to_dict(), theirs_at)
    for (name, parameter), gradient in zip(ours.named_parameters(), gradients.parameters(), strict=True):
        assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
        assert "key.bias" in name or gradient.abs().max() > 0.02  # softmax does not see what is added to all keys


def test_steps_give_what_their_whole_pass_gives() -> None:
    theirs = their_model()
    ours = marian.load(theirs.config.to_dict(), theirs.state_dict())
    source, target = texts()
    target[:, 0] = PAD  # as they begin
    with torch.no_grad():
        wanted = their_logits(theirs, source, target)
        state = ours.start(ours.encode(source, LENGTHS))
        for place in range(TARGET):
            got, state = ours.step(target[:, place], state)
            real = TARGET_REAL[:, place]
            assert_close(got[real], wanted[real, place], **NEAR)


def test_what_the_encoder_makes_of_a_source_is_equal() -> None:
    theirs = their_model()
    ours = marian.load(theirs.config.to_dict(), theirs.state_dict())
    source, _ = texts()
    wanted = theirs.model.encoder(source, attention_mask=REAL.long()).last_hidden_state
    assert_close(ours.encode(source, LENGTHS).states[REAL], wanted[REAL], **NEAR)


@pytest.mark.parametrize("shared", [True, False])
def test_the_files_of_a_saved_checkpoint_are_read(tmp_path: Path, shared: bool) -> None:
    theirs = their_model(share_encoder_decoder_embeddings=shared)
    theirs.save_pretrained(tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    ours = marian.load(described, load_file(tmp_path / "model.safetensors"))
    expected = marian.load(theirs.config.to_dict(), theirs.state_dict())
    assert not ours.training
    assert ours.config == expected.config
    assert_close(ours.state_dict(), expected.state_dict(), atol=0, rtol=0)


def test_a_checkpoint_may_have_bare_names_and_no_bias() -> None:
    theirs = their_model()
    settings, weights = theirs.config.to_dict(), theirs.state_dict()
    bare = {name.removeprefix("model."): weight for name, weight in weights.items() if name != "final_logits_bias"}
    ours = marian.load(settings, bare)
    assert ours.output.bias is None
    source, target = texts()
    whole = marian.load(settings, weights)
    assert_close(ours(source, LENGTHS, target) + whole.output.bias, whole(source, LENGTHS, target), **NEAR)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("activation_function", "sigmoid", "unknown activation_function 'sigmoid'"),
        ("normalize_before", True, "normalize_before must be False: got True"),
        ("static_position_embeddings", False, "static_position_embeddings must be True"),
        ("decoder_attention_heads", 4, "encoder_attention_heads, decoder_attention_heads must be equal"),
        ("decoder_ffn_dim", 29, "encoder_ffn_dim, decoder_ffn_dim must be equal"),
        ("decoder_vocab_size", 41, "tied='all' needs one vocabulary"),
        ("tie_word_embeddings", False, "tie_word_embeddings must be True where share_encoder_decoder_embeddings is"),
        ("architectures", ["MarianForCausalLM"], "a marian checkpoint must be a MarianMTModel: got MarianForCausalLM"),
        ("model_type", "bart", "model_type must be 'marian': got 'bart'"),
    ],
)
def test_what_our_model_cannot_be_is_refused(setting: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        marian.config(their_model().config.to_dict() | {setting: value})

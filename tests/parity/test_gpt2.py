"""Parity with Hugging Face's GPT-2: outputs, gradients and steps."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from mirada.attention.neighborhoods import Padding  # noqa: E402
from mirada.hub import gpt2  # noqa: E402

BATCH, LENGTH, VOCAB, LENGTHS = 3, 11, 37, torch.tensor([11, 5, 7])
REAL = torch.arange(LENGTH) < LENGTHS.unsqueeze(1)
NEAR = {"atol": 1e-4, "rtol": 1e-4}


def their_model(**settings: object) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start."""
    settings = {"n_inner": 31, "attn_implementation": "eager"} | settings
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=20, n_layer=3, n_head=5, n_positions=13, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=None, **settings,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def assert_same(theirs: nn.Module) -> None:
    """Equal outputs at all real places of a padded batch, and equal gradients of all parameters."""
    tokens = torch.randint(VOCAB, (BATCH, LENGTH))
    ours = gpt2.load(theirs.config.to_dict(), theirs.state_dict())
    got = ours(tokens, where=Padding(LENGTHS))[REAL]
    wanted = theirs(tokens, attention_mask=REAL.long()).logits[REAL]
    assert_close(got, wanted, **NEAR)

    probe = torch.randn(got.shape)
    (got * probe).sum().backward()
    (wanted * probe).sum().backward()
    # a table that leads from weights to weights leads from gradients to gradients
    gradients = gpt2.load(theirs.config.to_dict(), {name: p.grad for name, p in theirs.named_parameters()})
    for (name, parameter), gradient in zip(ours.named_parameters(), gradients.parameters(), strict=True):
        assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
        assert "key.bias" in name or gradient.abs().max() > 0.1  # softmax does not see what is added to all keys


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attn_implementation": "sdpa"},
        {"n_inner": None, "activation_function": "relu"},
        {"scale_attn_weights": False, "layer_norm_epsilon": 1e-2},
        {"tie_word_embeddings": False, "activation_function": "silu"},
    ],
    ids=str,
)
def test_outputs_and_all_gradients_are_equal_in_a_padded_batch(settings: dict[str, object]) -> None:
    assert_same(their_model(**settings))


def test_steps_give_what_their_whole_pass_gives() -> None:
    theirs = their_model()
    ours = gpt2.load(theirs.config.to_dict(), theirs.state_dict())
    tokens = torch.randint(VOCAB, (BATCH, LENGTH))
    with torch.no_grad():
        wanted = theirs(tokens).logits
        state = ours.start(BATCH)
        for place in range(LENGTH):
            got, state = ours.step(tokens[:, place], state)
            assert_close(got, wanted[:, place], **NEAR)


def test_a_prompt_at_once_then_steps_give_the_same() -> None:
    theirs = their_model()
    ours = gpt2.load(theirs.config.to_dict(), theirs.state_dict())
    tokens = torch.randint(VOCAB, (BATCH, LENGTH))
    with torch.no_grad():
        wanted = theirs(tokens).logits
        got, state = ours.step(tokens[:, :7], ours.start(BATCH))
        assert_close(got, wanted[:, 6], **NEAR)
        for place in range(7, LENGTH):
            got, state = ours.step(tokens[:, place], state)
            assert_close(got, wanted[:, place], **NEAR)


@pytest.mark.parametrize("tied", [True, False])
def test_the_files_of_a_saved_checkpoint_are_read(tmp_path: Path, tied: bool) -> None:
    theirs = their_model(tie_word_embeddings=tied)
    theirs.save_pretrained(tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    ours = gpt2.load(described, load_file(tmp_path / "model.safetensors"))
    expected = gpt2.load(theirs.config.to_dict(), theirs.state_dict())
    assert not ours.training
    assert ours.config == expected.config
    assert_close(ours.state_dict(), expected.state_dict(), atol=0, rtol=0)


def test_the_masks_and_bare_names_of_old_checkpoints_are_no_obstacle() -> None:
    theirs = their_model()
    settings, weights = theirs.config.to_dict(), theirs.state_dict()
    old = {name.removeprefix("transformer."): weight for name, weight in weights.items()}
    del old["lm_head.weight"]
    for layer in range(3):
        old[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 13, 13).tril()
        old[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    assert_close(gpt2.load(settings, old).state_dict(), gpt2.load(settings, weights).state_dict(), atol=0, rtol=0)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("activation_function", "tanh", "unknown activation_function 'tanh'"),
        ("scale_attn_by_inverse_layer_idx", True, "scale_attn_by_inverse_layer_idx must be False: got True"),
        ("add_cross_attention", True, "add_cross_attention must be False"),
        ("embd_pdrop", 0.2, "resid_pdrop, embd_pdrop must be equal, .* got 0.0, 0.2"),
        ("model_type", "gptj", "model_type must be 'gpt2': got 'gptj'"),
    ],
)
def test_what_our_model_cannot_be_is_refused(setting: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gpt2.config(their_model().config.to_dict() | {setting: value})


def test_a_tensor_with_other_axes_is_refused() -> None:
    theirs = their_model()
    weights = dict(theirs.state_dict())
    weights["transformer.h.1.attn.c_attn.weight"] = torch.zeros(20, 61)
    with pytest.raises(
        ValueError, match=r"c_attn.weight must have axes as in 'i \(parts o\) -> parts o i': got shape \(20, 61\)"
    ):
        gpt2.load(theirs.config.to_dict(), weights)

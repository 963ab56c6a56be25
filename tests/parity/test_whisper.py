"""Parity with Hugging Face's Whisper: outputs, attention, steps, what is written, and the way back."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from mirada import engine, look  # noqa: E402
from mirada.decoding.greedy import Greedy  # noqa: E402
from mirada.hub import whisper  # noqa: E402
from mirada.hub.mapping import export_weights  # noqa: E402

BATCH, MELS, PLACES, TARGET, VOCAB, START, END = 3, 5, 11, 7, 37, 1, 2
NEAR, CLOSER = {"atol": 1e-4, "rtol": 1e-4}, {"atol": 1e-5, "rtol": 1e-5}


def their_model(**settings: object) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start."""
    sizes = {
        "vocab_size": VOCAB, "d_model": 20, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 5,
        "decoder_attention_heads": 5, "encoder_ffn_dim": 31, "decoder_ffn_dim": 31, "num_mel_bins": MELS,
        "max_source_positions": PLACES, "max_target_positions": 13, "dropout": 0.0, "pad_token_id": END, "bos_token_id": END,
        "eos_token_id": END, "decoder_start_token_id": START, "suppress_tokens": None, "begin_suppress_tokens": None,
        "attn_implementation": "eager",
    }  # fmt: skip
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**sizes | settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(BATCH, 2 * PLACES, MELS), torch.randint(3, VOCAB, (BATCH, TARGET))


@pytest.mark.parametrize(
    "settings",
    [{}, {"activation_function": "relu", "attn_implementation": "sdpa"}, {"encoder_layers": 1, "decoder_layers": 1}],
    ids=str,
)
def test_outputs_and_all_gradients_are_equal(settings: dict[str, object]) -> None:
    theirs = their_model(**settings)
    ours = whisper.load(theirs.config.to_dict(), theirs.state_dict())
    frames, target = batch()
    theirs.model.encoder.embed_positions.requires_grad_()  # constants there, parameters here
    got, wanted = ours(frames, target), theirs(frames.mT, decoder_input_ids=target, use_cache=False).logits
    assert_close(got, wanted, **NEAR)
    probe = 0.2 * torch.randn(got.shape)
    (got * probe).sum().backward()
    (wanted * probe).sum().backward()
    theirs_at = {name: p.grad for name, p in theirs.named_parameters(remove_duplicate=False)}
    gradients = whisper.load(theirs.config.to_dict(), theirs_at)
    for (name, parameter), gradient in zip(ours.named_parameters(), gradients.parameters(), strict=True):
        assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
        assert gradient.abs().max() > 0.01, name


@torch.no_grad()
def test_the_attention_of_every_layer_is_equal() -> None:
    theirs = their_model()
    ours = whisper.load(theirs.config.to_dict(), theirs.state_dict())
    frames, target = batch()
    with look(ours) as seen:
        ours(frames, target)
    wanted = theirs(frames.mT, decoder_input_ids=target, output_attentions=True, use_cache=False)
    layers = {
        "encoder.layers.{n}.self": wanted.encoder_attentions,
        "decoder.layers.{n}.self": wanted.decoder_attentions,
        "decoder.layers.{n}.cross": wanted.cross_attentions,
    }
    for name, weights in layers.items():
        for number, expected in enumerate(weights):
            assert_close(seen[name.format(n=number)].weights(), expected, **CLOSER)
    assert len(seen.names) == sum(map(len, layers.values()))


@torch.no_grad()
def test_steps_of_the_model_and_of_the_engine_write_what_generate_writes() -> None:
    theirs = their_model()
    ours = whisper.load(theirs.config.to_dict(), theirs.state_dict())
    frames, _ = batch()
    made = engine.fast(ours)
    assert made.reason is None
    length = 8
    wanted = transformers.GenerationMixin.generate(
        theirs, frames.mT, decoder_input_ids=torch.full((BATCH, 1), START), max_new_tokens=length, do_sample=False
    )  # fmt: skip
    for stepper in (ours, made.stepper):
        state = stepper.start(stepper.encode(frames))
        written = Greedy()(stepper, state, torch.full((BATCH,), START), END, length, align=True)
        for [one], row in zip(written, wanted, strict=True):
            text = row[1:].tolist()
            assert one.tokens == (text[: text.index(END)] if END in text else text)
            assert_close(one.alignment.sum(1), torch.ones(len(one.alignment)))


@torch.no_grad()
def test_there_and_back_the_tensors_are_the_same(tmp_path: Path) -> None:
    theirs = their_model()
    theirs.save_pretrained(tmp_path)
    described, weights = json.loads((tmp_path / "config.json").read_text()), load_file(tmp_path / "model.safetensors")
    ours = whisper.load(described, weights)
    exported = export_weights(ours, whisper.TABLE)
    assert exported.keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in exported.items())

    made = whisper.checkpoint(described, list(weights))
    config = transformers.WhisperConfig(**whisper.config_json(ours, made.facts), attn_implementation="eager")
    again = transformers.WhisperForConditionalGeneration(config).eval()
    again.load_state_dict(exported, strict=False)
    again.tie_weights()
    frames, target = batch()
    assert_close(
        again(frames.mT, decoder_input_ids=target).logits, theirs(frames.mT, decoder_input_ids=target).logits,
        atol=0, rtol=0,
    )  # fmt: skip
    expected = theirs.config.to_diff_dict() | {"architectures": [whisper.TABLE.source]}
    expected.pop("dtype")
    assert again.config.to_diff_dict() == expected


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("activation_function", "sigmoid", "unknown activation_function 'sigmoid'"),
        ("scale_embedding", True, "scale_embedding must be False: got True"),
        ("decoder_attention_heads", 4, "encoder_attention_heads, decoder_attention_heads must be equal"),
        ("decoder_ffn_dim", 29, "encoder_ffn_dim, decoder_ffn_dim must be equal"),
        ("tie_word_embeddings", False, "tie_word_embeddings must be True: got False"),
        ("activation_dropout", 0.1, "activation_dropout must be 0.0: got 0.1"),
        ("encoder_layerdrop", 0.1, "encoder_layerdrop must be 0.0: got 0.1"),
        ("model_type", "bart", "model_type must be 'whisper': got 'bart'"),
    ],
)
def test_what_our_model_cannot_be_is_refused(setting: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        whisper.config(their_model().config.to_dict() | {setting: value})

"""Parity with Hugging Face's BERT: outputs and gradients; and the rules of checkpoints, which all formats share."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from mirada.hub import bert  # noqa: E402

BATCH, LENGTH, VOCAB, LENGTHS = 3, 11, 37, torch.tensor([11, 5, 7])
REAL = torch.arange(LENGTH) < LENGTHS.unsqueeze(1)
NEAR = {"atol": 1e-4, "rtol": 1e-4}


def their_model(**settings: object) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start."""
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=20, num_hidden_layers=2, num_attention_heads=5, intermediate_size=31,
        max_position_embeddings=13, type_vocab_size=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-3, attn_implementation="eager", **settings,
    )  # fmt: skip
    model = transformers.BertForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def theirs() -> nn.Module:
    torch.manual_seed(7)
    return their_model()


@pytest.fixture
def weights(theirs: nn.Module) -> dict[str, torch.Tensor]:
    return dict(theirs.state_dict())


@pytest.fixture
def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and segments. The padding token 0 occurs only in padding: its row of their table gets no gradient."""
    tokens = torch.randint(1, VOCAB, (BATCH, LENGTH)).masked_fill(~REAL, 0)
    return tokens, torch.randint(3, (BATCH, LENGTH))


def test_outputs_and_all_gradients_are_equal_in_a_padded_batch(
    theirs: nn.Module, texts: tuple[torch.Tensor, torch.Tensor]
) -> None:
    tokens, segments = texts
    ours = bert.load(theirs.config.to_dict(), theirs.state_dict())
    got = ours(tokens, LENGTHS, segments)
    wanted = theirs(tokens, attention_mask=REAL.long(), token_type_ids=segments)
    assert_close(got.words[REAL], wanted.prediction_logits[REAL], **NEAR)
    assert_close(got.follows, wanted.seq_relationship_logits.flip(-1), **NEAR)

    words, follows = torch.randn(int(LENGTHS.sum()), VOCAB), torch.randn(BATCH, 2)
    theirs.zero_grad()
    ((got.words[REAL] * words).sum() + (got.follows * follows).sum()).backward()
    wanted_follows = wanted.seq_relationship_logits.flip(-1)
    ((wanted.prediction_logits[REAL] * words).sum() + (wanted_follows * follows).sum()).backward()
    # a table that leads from weights to weights leads from gradients to gradients
    gradients = bert.load(theirs.config.to_dict(), {name: p.grad for name, p in theirs.named_parameters()})
    for (name, parameter), gradient in zip(ours.named_parameters(), gradients.parameters(), strict=True):
        assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
        assert "key.bias" in name or gradient.abs().max() > 0.1  # softmax does not see what is added to all keys


def test_a_loss_of_ours_is_the_loss_of_theirs(theirs: nn.Module, texts: tuple[torch.Tensor, torch.Tensor]) -> None:
    tokens, segments = texts
    ours = bert.load(theirs.config.to_dict(), theirs.state_dict())
    hidden = REAL & (torch.rand(BATCH, LENGTH) < 0.4)
    hidden[:, 1] = True
    wanted = tokens.masked_fill(~hidden, -100)
    follows = torch.tensor([1, 0, 0])
    expected = theirs(
        tokens,
        attention_mask=REAL.long(),
        token_type_ids=segments,
        labels=wanted,
        next_sentence_label=1 - follows,  # their 0 is our 1: it follows
    ).loss
    assert_close(ours.loss(tokens, wanted, LENGTHS, segments, follows), expected, **NEAR)


def test_the_files_of_a_saved_checkpoint_are_read(theirs: nn.Module, tmp_path: Path) -> None:
    theirs.save_pretrained(tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    ours = bert.load(described, load_file(tmp_path / "model.safetensors"))
    expected = bert.load(theirs.config.to_dict(), theirs.state_dict())
    assert not ours.training
    assert ours.config == expected.config
    assert_close(ours.state_dict(), expected.state_dict(), atol=0, rtol=0)


def test_names_of_any_age_are_read(weights: dict[str, torch.Tensor], theirs: nn.Module) -> None:
    old = {
        name.removeprefix("bert.")
        .replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("Norm.bias", "Norm.beta"): weight
        for name, weight in weights.items()
    } | {"embeddings.position_ids": torch.arange(13).unsqueeze(0)}
    settings = theirs.config.to_dict()
    assert_close(bert.load(settings, old).state_dict(), bert.load(settings, weights).state_dict(), atol=0, rtol=0)


def test_weights_are_copied_and_may_have_another_precision(weights: dict[str, torch.Tensor], theirs: nn.Module) -> None:
    half = {name: weight.half() for name, weight in weights.items()}
    ours = bert.load(theirs.config.to_dict(), half)
    kept = half["bert.pooler.dense.weight"].float()
    half["bert.pooler.dense.weight"].zero_()
    assert_close(ours.pool.weight.detach(), kept, atol=0, rtol=0)


def test_dropout_carries_over() -> None:
    settings = transformers.BertConfig(hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.125).to_dict()
    ours = bert.config(settings)
    assert (ours.dropout, ours.normalizer, ours.width, ours.depth) == (0.25, "softmax:0.125", 768, 12)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("hidden_act", "mish", "unknown hidden_act 'mish'; known: .*gelu_new"),
        ("position_embedding_type", "relative_key", "position_embedding_type must be 'absolute': got 'relative_key'"),
        ("is_decoder", True, "is_decoder must be False: got True"),
        ("add_cross_attention", True, "add_cross_attention must be False"),
        ("model_type", "roberta", "model_type must be 'bert': got 'roberta'"),
    ],
)
def test_what_our_model_cannot_be_is_refused(theirs: nn.Module, setting: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bert.config(theirs.config.to_dict() | {setting: value})


def test_a_configuration_without_a_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"config.json must have 'vocab_size': got only model_type"):
        bert.config({"model_type": "bert"})


Weights = dict[str, torch.Tensor]


def without_the_heads(weights: Weights) -> None:
    for name in [name for name in weights if name.startswith("cls.")]:
        del weights[name]


def with_a_third_layer(weights: Weights) -> None:
    for name in [name for name in weights if ".layer.1." in name]:
        weights[name.replace(".layer.1.", ".layer.2.")] = weights[name]


def with_a_wrong_shape(weights: Weights) -> None:
    weights["bert.pooler.dense.weight"] = torch.zeros(20, 19)


def with_untied_words(weights: Weights) -> None:
    weights["cls.predictions.decoder.weight"] = torch.zeros(VOCAB, 20)


def with_a_name_twice(weights: Weights) -> None:
    weights["pooler.dense.bias"] = weights["bert.pooler.dense.bias"]


def with_codes(weights: Weights) -> None:
    weights["bert.pooler.dense.weight"] = torch.zeros(20, 20, dtype=torch.int8)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            without_the_heads,
            r"a BertForPreTraining .* Missing: cls.predictions.transform.dense.weight, .* and 4 more\.",
        ),
        (with_a_third_layer, r"Left over: bert.encoder.layer.2.attention.self.query.weight, .* and 13 more\."),
        (with_a_wrong_shape, r"bert.pooler.dense.weight must fill pool.weight \(20, 20\): got \(20, 19\)"),
        (with_untied_words, r"bert.embeddings.word_embeddings.weight and cls.predictions.decoder.weight must be equal"),
        (with_a_name_twice, r"two tensors have one name: bert.pooler.dense.bias and pooler.dense.bias"),
        (with_codes, r"bert.pooler.dense.weight must hold floating-point numbers: got torch.int8"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    theirs: nn.Module, weights: Weights, spoil: Callable[[Weights], None], message: str
) -> None:
    spoil(weights)
    with pytest.raises(ValueError, match=message):
        bert.load(theirs.config.to_dict(), weights)

"""Parity with the lectures' programs, built in Keras 3 (torch backend): outputs after the sigmoid, and gradients.

0.6:  Embedding, Conv1D, Attention(use_scale=True) or MultiHeadAttention(5, key_dim=64), Flatten, Dense, Dense
4.7:  Embedding, LSTM, Attention, GlobalAveragePooling1D, Dense
"""

import copy

import pytest
import torch
from torch.testing import assert_close

keras = pytest.importorskip("keras")

from keras import layers  # noqa: E402

from mirada.hub.mapping import Row, WeightTable, copy_weights  # noqa: E402
from mirada.models.classifier import Classifier, ClassifierConfig  # noqa: E402


@pytest.fixture(autouse=True)
def _keras_seed() -> None:
    keras.utils.set_random_seed(7)  # Keras draws its first weights from a generator of its own


BATCH = 3
NEAR = {"atol": 1e-4, "rtol": 1e-4}
TRANSPOSED = "i o -> o i"  # Keras keeps its matrices as (in, out)

WORDS = Row("words.weight", "words/embeddings")
CLASSES = (Row("classes.weight", "classes/kernel", TRANSPOSED), Row("classes.bias", "classes/bias"))
CONVOLUTION = (
    WORDS,
    Row("encoder.stem.layers.0.weight", "convolution/kernel", "size i o -> o i size"),
    Row("encoder.stem.layers.0.bias", "convolution/bias"),
    Row("dense.weight", "dense/kernel", TRANSPOSED),
    Row("dense.bias", "dense/bias"),
    *CLASSES,
)
ONE_HEAD = WeightTable("0.6", (*CONVOLUTION, Row("encoder.attention.score.scale", "attention/scale")))
FIVE_HEADS = WeightTable(
    "0.6 with five heads",
    (
        *CONVOLUTION,
        *(
            row
            for name in ("query", "key", "value")
            for row in (
                Row(f"encoder.attention.heads.{name}.weight", f"attention/{name}/kernel", "i h d -> (h d) i"),
                Row(f"encoder.attention.heads.{name}.bias", f"attention/{name}/bias", "h d -> (h d)"),
            )
        ),
        Row("encoder.attention.heads.out.weight", "attention/attention_output/kernel", "h d o -> o (h d)"),
        Row("encoder.attention.heads.out.bias", "attention/attention_output/bias"),
    ),
)
RECURRENT = WeightTable(
    "4.7",
    (
        WORDS,
        Row("encoder.recurrent.read.0", "lstm/lstm_cell/kernel", TRANSPOSED),
        Row("encoder.recurrent.carry.0", "lstm/lstm_cell/recurrent_kernel", TRANSPOSED),
        Row("encoder.recurrent.bias.0", "lstm/lstm_cell/bias"),
        *CLASSES,
    ),
)


def convolution_program(heads: bool) -> "keras.Model":
    """Program 0.6, with one head and a learned scale, or with five heads of 64."""
    tokens = layers.Input(shape=(120,), dtype="int32")
    x = layers.Embedding(1000, 20, name="words")(tokens)
    x = layers.Conv1D(64, 3, activation="relu", name="convolution")(x)
    if heads:
        x = layers.MultiHeadAttention(num_heads=5, key_dim=64, name="attention")(x, x, x)
    else:
        x = layers.Attention(use_scale=True, name="attention")([x, x, x])
    x = layers.Dense(6, activation="relu", name="dense")(layers.Flatten()(x))
    return keras.Model(tokens, layers.Dense(1, activation="sigmoid", name="classes")(x))


def recurrent_program() -> "keras.Model":
    """Program 4.7, with 2,000 words of width 100 (the slide has the two swapped)."""
    tokens = layers.Input(shape=(None,), dtype="int32")
    x = layers.Embedding(2000, 100, name="words")(tokens)
    x = layers.LSTM(20, activation="tanh", return_sequences=True, name="lstm")(x)
    x = layers.Attention(name="attention")([x, x, x])
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, layers.Dense(1, activation="sigmoid", name="classes")(x))


def texts() -> torch.Tensor:
    """Texts of few words each, so that they differ also in their averages."""
    return torch.randint(1000, (BATCH, 5)).repeat(1, 24)


def assert_same(ours: Classifier, theirs: "keras.Model", table: WeightTable, tokens: torch.Tensor) -> None:
    """Equal probabilities, equal gradients of all parameters, and as many parameters."""
    for variable in theirs.weights:  # away from their start, so that a forgotten one shows
        inputs = variable.value[..., 0].numel() if variable.path.endswith("kernel") else 1
        variable.assign(variable + 0.5 * torch.randn(variable.shape) / inputs**0.5)
    copy_weights(ours, table, {variable.path: variable.value.detach() for variable in theirs.weights})
    assert sum(p.numel() for p in ours.parameters()) == theirs.count_params()

    got, wanted = ours(tokens).sigmoid(), theirs(tokens)
    assert_close(got, wanted, **NEAR)

    probe = torch.linspace(-30, 40, BATCH).unsqueeze(1)
    (got * probe).sum().backward()
    (wanted * probe).sum().backward()
    # a table that leads from weights to weights leads from gradients to gradients
    expected = copy.deepcopy(ours)
    copy_weights(expected, table, {variable.path: variable.value.grad for variable in theirs.weights})
    for (name, parameter), gradient in zip(ours.named_parameters(), expected.parameters(), strict=True):
        assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
        assert "key.bias" in name or gradient.abs().max() > 0.01  # softmax does not see what is added to all keys


def test_program_0_6_with_a_learned_scale() -> None:
    ours = Classifier(ClassifierConfig.keras_convolution())
    assert_same(ours, convolution_program(heads=False), ONE_HEAD, texts())


def test_program_0_6_with_five_heads_of_sixty_four() -> None:
    ours = Classifier(ClassifierConfig.keras_convolution(key_dim=64))
    assert_same(ours, convolution_program(heads=True), FIVE_HEADS, texts())


def test_program_4_7_has_209_701_parameters() -> None:
    ours, theirs = Classifier(ClassifierConfig.keras_lstm()), recurrent_program()
    assert sum(p.numel() for p in ours.parameters()) == theirs.count_params() == 209_701
    assert_same(ours, theirs, RECURRENT, torch.randint(2000, (BATCH, 11)))

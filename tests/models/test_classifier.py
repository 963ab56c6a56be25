"""Classifiers: three encoders, five pools, the lectures' programs by hand, and padding that does not count."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mirada import look
from mirada.models.classifier import Classifier, ClassifierConfig
from tests.models.stirring import assert_near, stirred, words

SIZES = {
    "vocab": 13, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 11, "classes": 5, "units": 6,
    "kernel": 3,
}  # fmt: skip
BATCH, LENGTH = 2, 7
LENGTHS = torch.tensor([7, 4])
ENCODERS = ["transformer", "lstm", "convolution"]
POOLS = ["mean", "max", "first", "attention", "flatten"]


def config(**changes: object) -> ClassifierConfig:
    return ClassifierConfig(**(SIZES | changes))


def made(config: ClassifierConfig, dtype: torch.dtype = torch.float64) -> Classifier:
    return stirred(Classifier(config), dtype)


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# The lectures' programs


def test_the_lstm_of_the_lectures_has_exactly_their_parameters():
    model = Classifier(ClassifierConfig.keras_lstm())
    embedding, lstm, dense = 2000 * 100, 4 * (20 * 100 + 20 * 20 + 20), 20 + 1
    assert count(model) == embedding + lstm + dense == 209_701
    assert model(words(BATCH, LENGTH, vocab=2000)).shape == (BATCH, 1)


@pytest.mark.parametrize("key_dim", [0, 64])
def test_the_convolution_of_the_lectures_has_exactly_their_parameters(key_dim):
    model = Classifier(ClassifierConfig.keras_convolution(key_dim))
    embedding, convolution = 1000 * 20, 3 * 20 * 64 + 64
    heads = 3 * (64 * 5 * 64 + 5 * 64) + 5 * 64 * 64 + 64
    dense = 118 * 64 * 6 + 6 + 6 + 1
    assert count(model) == embedding + convolution + (heads if key_dim else 1) + dense
    assert model(words(BATCH, 120, vocab=1000)).shape == (BATCH, 1)


@torch.no_grad()
def test_the_lstm_looks_at_its_own_states_without_a_scale():
    model, texts = made(config(encoder="lstm")), words(BATCH, LENGTH)
    net = torch.nn.LSTM(24, 6, batch_first=True).double()
    recurrent = model.encoder.recurrent
    net.weight_ih_l0.copy_(recurrent.read[0])
    net.weight_hh_l0.copy_(recurrent.carry[0])
    net.bias_ih_l0.copy_(recurrent.bias[0])
    net.bias_hh_l0.zero_()
    for b, n in enumerate(LENGTHS.tolist()):
        h, _ = net(model.words.weight[texts[b : b + 1, :n]])
        looked = torch.softmax(h @ h.transpose(1, 2), dim=-1) @ h
        scores = looked.mean(1) @ model.classes.weight.T + model.classes.bias
        assert_close(model(texts, LENGTHS)[b : b + 1], scores)


@torch.no_grad()
def test_the_convolution_looks_with_a_learned_scale():
    model, texts = made(config(encoder="convolution", pool="flatten", dense=7)), words(BATCH, LENGTH)
    layer, scale = model.encoder.stem.layers[0], model.encoder.attention.score.scale
    for b, n in enumerate(LENGTHS.tolist()):
        h = torch.relu(F.conv1d(model.words.weight[texts[b, :n]].T, layer.weight, layer.bias)).T
        assert h.shape == (n - 2, 6)
        looked = torch.softmax(scale * h @ h.T, dim=-1) @ h
        flat = F.pad(looked, (0, 0, 0, 9 - len(looked))).flatten()
        dense = torch.relu(model.dense.weight @ flat + model.dense.bias)
        assert_close(model(texts, LENGTHS)[b], model.classes.weight @ dense + model.classes.bias)


@torch.no_grad()
def test_the_convolution_may_have_heads_of_any_dim():
    model, texts = made(config(encoder="convolution", key_dim=5)), words(BATCH, LENGTH)
    heads = model.encoder.attention.heads
    assert heads.query.weight.shape == heads.key.weight.shape == heads.value.weight.shape == (15, 6)
    assert heads.out.weight.shape == (6, 15)
    h, _ = model.encoder.stem(model.words(texts))
    assert_close(model(texts), model.classes(model.encoder.attention(h).mean(1)))


def test_look_sees_the_attention_of_every_encoder():
    names = {
        "transformer": ["encoder.stack.layers.0.self", "encoder.stack.layers.1.self"],
        "lstm": ["encoder.attention"],
        "convolution": ["encoder.attention"],
    }
    places = {"transformer": 7, "lstm": 7, "convolution": 5}
    for encoder, expected in names.items():
        model = made(config(encoder=encoder, pool="attention"))
        with look(model) as seen:
            model(words(BATCH, LENGTH), LENGTHS)
        assert seen.names == [*expected, "pool.attention"]
        weights, looked = seen[expected[-1]].weights(), seen["pool.attention"].weights()
        assert weights.shape[2:] == (places[encoder], places[encoder])
        hidden = places[encoder] - 7 + 4  # the second text has four words, two windows of three
        assert_close(weights[1, ..., hidden:], torch.zeros_like(weights[1, ..., hidden:]), rtol=0, atol=0)
        assert_close(looked[1, ..., hidden:], torch.zeros_like(looked[1, ..., hidden:]), rtol=0, atol=0)
        assert_close(looked.sum(-1), torch.ones_like(looked.sum(-1)))


# Pools and classes


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("pool", POOLS)
@torch.no_grad()
def test_the_pool_reads_what_the_encoder_says(encoder, pool):
    model, texts = made(config(encoder=encoder, pool=pool)), words(BATCH, LENGTH)
    h, real = model.encoder(model.words(texts), None)
    assert real is None
    if pool == "attention":
        vector = model.pool.attention(model.pool.query.expand(BATCH, -1, -1), memory=h)[:, 0]
    elif pool == "flatten":
        vector = F.pad(h.flatten(1), (0, model.pool.out - h[0].numel()))
    else:
        vector = {"mean": h.sum(1) / h.shape[1], "max": h.max(1).values, "first": h[:, 0]}[pool]
    scores = model(texts)
    assert scores.shape == (BATCH, 5)
    assert_close(scores, vector @ model.classes.weight.T + model.classes.bias)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_one_class_is_a_sigmoid_of_one_score(encoder):
    model, texts = made(config(encoder=encoder, classes=1)), words(BATCH, LENGTH)
    scores = model(texts, LENGTHS)
    assert scores.shape == (BATCH, 1)
    yes = torch.sigmoid(scores[:, 0])
    assert_close(model.loss(texts, LENGTHS, torch.tensor([1, 0])), -(yes[0].log() + (1 - yes[1]).log()) / 2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_several_classes_are_a_softmax(smoothing):
    model, texts = made(config()), words(BATCH, LENGTH)
    log = model(texts, LENGTHS).log_softmax(-1)
    right, spread = -(log[0, 3] + log[1, 4]) / 2, -log.mean()
    loss = model.loss(texts, LENGTHS, torch.tensor([3, 4]), smoothing)
    assert_close(loss, (1 - smoothing) * right + smoothing * spread)


def test_smoothing_counts_for_one_class_too():
    """Two classes of scores (0, s) are one class of score s, smoothed or not."""
    model, texts = made(config(classes=1)), words(BATCH, LENGTH)
    scores = model(texts)
    two = torch.cat([torch.zeros_like(scores), scores], dim=1)
    for smoothing in (0.0, 0.1):
        expected = F.cross_entropy(two, torch.tensor([1, 0]), label_smoothing=smoothing)
        assert_close(model.loss(texts, None, torch.tensor([1, 0]), smoothing), expected)


# Padding


def test_batch_norm_by_hand_at_the_input():
    model, texts = made(config(norm="batch")).train(), words(BATCH, LENGTH)
    norm = model.encoder.stack.layers[0].around_self.norm
    with torch.no_grad():
        x = model.encoder.place(model.words(texts))
        rows = torch.cat([x[0], x[1, :4]])
        mean, variance = 0.9 * norm.mean + 0.1 * rows.mean(0), 0.9 * norm.variance + 0.1 * rows.var(0)
    model(texts, LENGTHS)
    assert_close(norm.mean, mean)
    assert_close(norm.variance, variance)


@pytest.mark.parametrize("encoder", ["transformer", "convolution"])
def test_an_empty_text_among_others_is_finite_and_leaves_them_alone(encoder):
    for pool in POOLS:
        model, texts = made(config(encoder=encoder, pool=pool)), words(BATCH, LENGTH)
        scores = model(texts, torch.tensor([7, 0]))
        assert scores.isfinite().all()
        assert_near(scores[:1], model(texts[:1]))


def test_the_lstm_refuses_an_empty_text():
    with pytest.raises(ValueError, match=r"lengths of 1 to 7: got 0 to 7\. Leave empty samples out"):
        made(config(encoder="lstm"))(words(BATCH, LENGTH), torch.tensor([7, 0]))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_batch_of_empty_texts_is_refused(encoder):
    with pytest.raises(ValueError, match="a text needs at least one token: got none"):
        made(config(encoder=encoder))(words(BATCH, 0))


@torch.no_grad()
def test_a_text_shorter_than_the_kernel():
    model, texts = made(config(encoder="convolution")), words(BATCH, LENGTH)
    scores = model(texts, torch.tensor([7, 2]))
    assert_near(scores[1], model.classes.bias)  # no window fits, so nothing is seen
    with pytest.raises(ValueError, match="a convolution of size 3 needs at least 3 places: got 2"):
        model(texts[:, :2])


# Permutations


SHUFFLED = torch.tensor([5, 3, 6, 0, 4, 2, 1])


@pytest.mark.parametrize("pool", ["mean", "max", "attention"])
@torch.no_grad()
def test_without_a_position_a_text_is_a_bag_of_words(pool):
    model, texts = made(config(position="none", pool=pool)), words(BATCH, LENGTH)
    assert_near(model(texts[:, SHUFFLED]), model(texts))


@pytest.mark.parametrize(
    "changes",
    [{"position": "sinusoidal"}, {"position": "learned"}, {"position": "rotary"}, {"position": "none", "pool": "first"},
     {"position": "none", "where": "window:1,1"}, {"encoder": "lstm"}, {"encoder": "convolution"}],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_elsewhere_the_order_of_words_matters(changes):
    model, texts = made(config(**changes)), words(BATCH, LENGTH)
    assert (model(texts[:, SHUFFLED]) - model(texts)).abs().amax() > 1e-4


# Learning, weights and errors


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(1, 12, dtype=torch.long), r"texts of at most length=11: got 12\. Cut the text"),
        (torch.tensor([[3, 1, 13]]), r"token ids must lie in 0\.\.12: got 1 to 13\. Was the text read with"),
        (torch.tensor([[-1, 3, 2]]), r"token ids must lie in 0\.\.12: got -1 to 3"),
        (torch.tensor([[1.0, 2.0, 3.0]]), "tokens must hold integers: got torch.float32"),
        (torch.zeros(3, dtype=torch.long), "batch"),
    ],
    ids=["too long", "too large", "negative", "no integers", "no batch"],
)
def test_a_text_that_does_not_fit_is_refused(encoder, tokens, message):
    with pytest.raises(ValueError, match=message):
        made(config(encoder=encoder))(tokens)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_lengths_that_do_not_fit_are_refused(encoder):
    model, texts = made(config(encoder=encoder)), words(BATCH, LENGTH)
    with pytest.raises(ValueError, match="at most the length of the batch: got lengths up to 8, length=7"):
        model(texts, torch.tensor([7, 8]))
    with pytest.raises(ValueError, match="one number per sample: got 3 for batch=2"):
        model(texts, torch.tensor([7, 4, 4]))


@pytest.mark.parametrize(("classes", "wrong"), [(5, 5), (5, -1), (1, 2)])
def test_a_class_that_does_not_exist_is_refused(classes, wrong):
    with pytest.raises(ValueError, match="class"):
        made(config(classes=classes)).loss(words(BATCH, LENGTH), None, torch.tensor([0, wrong]))

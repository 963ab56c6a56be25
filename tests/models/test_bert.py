"""BERT: only masked words count, every word sees every word, and padding none."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.models.bert import BERT, BERTConfig
from tests.models.stirring import assert_near, stirred, words

SIZES = {"vocab": 13, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29}
BATCH, LENGTH = 2, 7
LENGTHS = torch.tensor([7, 4])


def config(**changes: object) -> BERTConfig:
    return BERTConfig(**(SIZES | changes))


def made(config: BERTConfig, dtype: torch.dtype = torch.float64) -> BERT:
    return stirred(BERT(config), dtype)


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Texts, the hidden words (two in the first text, one in the second), and segments."""
    wanted = torch.full((BATCH, LENGTH), -100)
    wanted[0, 2], wanted[0, 6], wanted[1, 1] = 3, 11, 7
    return words(BATCH, LENGTH), wanted, words(BATCH, LENGTH, vocab=2, seed=1)


# By hand


@torch.no_grad()
def test_the_summary_is_the_first_place_once_more_transformed():
    model, (texts, _, segments) = made(config()), batch()
    h = model.encode(texts, LENGTHS, segments)
    summary = torch.tanh(h[:, 0] @ model.pool.weight.T + model.pool.bias)
    assert_close(model.summary(h), summary)
    follows = model(texts, LENGTHS, segments).follows
    assert follows.shape == (BATCH, 2)
    assert_close(follows, summary @ model.order.weight.T + model.order.bias)


@torch.no_grad()
def test_the_scores_of_words_come_from_the_table_of_words():
    model, (texts, _, segments) = made(config()), batch()
    h = F.gelu(model.encode(texts, LENGTHS, segments) @ model.gap.weight.T + model.gap.bias)
    guess = F.layer_norm(h, (24,), model.gap_norm.weight, model.gap_norm.bias, 1e-12)
    scores = model(texts, LENGTHS, segments).words
    assert scores.shape == (BATCH, LENGTH, 13)
    assert_close(scores, guess @ model.words.weight.T + model.output.bias)
    assert model.output.weight is model.words.weight


@torch.no_grad()
def test_the_input_is_the_norm_of_words_segments_and_positions():
    model, (texts, _, segments), kept = made(config()), batch(), []
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    model(texts, LENGTHS, segments)
    x = model.words.weight[texts] + model.segments.weight[segments] + model.place.position.table[:LENGTH]
    assert_close(kept[0], F.layer_norm(x, (24,), model.norm.weight, model.norm.bias, 1e-12))


@torch.no_grad()
def test_segments_matter():
    model, (texts, _, segments) = made(config()), batch()
    zeros = torch.zeros_like(texts)
    assert_close(model(texts).words, model(texts, segments=zeros).words, rtol=0, atol=0)
    changed = model(texts, segments=segments)
    assert (changed.words - model(texts).words).abs().amax() > 1e-3
    assert (changed.follows - model(texts).follows).abs().amax() > 1e-3


def test_look_names_every_layer():
    model, (texts, _, _) = made(config()), batch()
    with look(model) as seen:
        model(texts, LENGTHS)
    assert seen.names == ["encoder.layers.0.self", "encoder.layers.1.self"]
    weights = seen["encoder.layers.1.self"].weights()
    assert_close(weights.sum(-1), torch.ones(BATCH, 3, LENGTH, dtype=weights.dtype))
    assert (weights[0] > 0).all()
    assert_close(weights[1, :, :, 4:], torch.zeros(3, LENGTH, 3, dtype=weights.dtype), rtol=0, atol=0)


def test_bert_base_has_its_parameters():
    with torch.device("meta"):
        model = BERT(BERTConfig(vocab=30522, width=768, heads=12, hidden=3072, depth=12, length=512))
    layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
    body = (30522 + 512 + 2) * 768 + 2 * 768 + 12 * layer + 768 * 768 + 768
    assert body == 109_482_240  # what transformers counts for "bert-base-uncased"
    heads = 768 * 768 + 768 + 2 * 768 + 30522 + 2 * 768 + 2
    assert sum(parameter.numel() for parameter in model.parameters()) == body + heads


# The loss


def test_the_loss_is_the_plain_cross_entropy_of_the_hidden_words():
    model, (texts, wanted, segments) = made(config()), batch()
    scores = model(texts, LENGTHS, segments).words
    plain = F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=-100)
    by_hand = -sum(scores[b, i].log_softmax(-1)[w] for b, i, w in ((0, 2, 3), (0, 6, 11), (1, 1, 7))) / 3
    loss = model.loss(texts, wanted, LENGTHS, segments)
    assert_close(plain, by_hand)
    assert_close(loss, by_hand)
    parameters = [p for name, p in model.named_parameters() if not name.startswith(("pool", "order"))]
    for ours, theirs in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(plain, parameters), strict=True):
        assert_close(ours, theirs)


def test_the_order_of_sentences_adds_to_the_loss():
    model, (texts, wanted, segments) = made(config()), batch()
    follows = torch.tensor([1, 0])
    scores = model(texts, LENGTHS, segments).follows
    order = -(scores[0].log_softmax(-1)[1] + scores[1].log_softmax(-1)[0]) / 2
    without = model.loss(texts, wanted, LENGTHS, segments)
    loss = model.loss(texts, wanted, LENGTHS, segments, follows)
    assert_close(loss, without + order)
    parameters = list(model.parameters())
    both = F.cross_entropy(model(texts, LENGTHS, segments).words.flatten(0, 1), wanted.flatten()) + order
    for ours, theirs in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(both, parameters), strict=True):
        assert_close(ours, theirs)


def test_a_loss_without_hidden_words_is_zero():
    model, (texts, wanted, _) = made(config()), batch()
    loss = model.loss(texts, torch.full_like(wanted, -100))
    assert_close(loss.item(), 0.0)
    follows = torch.tensor([1, 0])
    order = F.cross_entropy(model(texts).follows, follows)
    assert_close(model.loss(texts, torch.full_like(wanted, -100), follows=follows), order)


# Padding


def other_padding(texts: Tensor) -> Tensor:
    """The same texts with other words in the padding."""
    real = torch.arange(LENGTH) < LENGTHS.unsqueeze(1)
    return torch.where(real, texts, (texts + 1) % 13)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_batch_norm_does_not_count_padding_in_a_forward_pass_either(order):
    model, (texts, _, segments) = made(config(norm="batch", order=order)).train(), batch()
    twin = copy.deepcopy(model)
    ours, theirs = model(texts, LENGTHS, segments), twin(other_padding(texts), LENGTHS, segments)
    assert_close(ours.words[0], theirs.words[0])  # the text without padding
    for (name, ours), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
        assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")


def test_batch_norm_by_hand_at_the_input():
    model, (texts, wanted, segments) = made(config(norm="batch")).train(), batch()
    with torch.no_grad():
        x = model.place(model.words(texts) + model.segments(segments))
        rows = torch.cat([x[0], x[1, :4]])
        mean, variance = 0.9 * model.norm.mean + 0.1 * rows.mean(0), 0.9 * model.norm.variance + 0.1 * rows.var(0)
    model.loss(texts, wanted, LENGTHS, segments)
    assert_close(model.norm.mean, mean)
    assert_close(model.norm.variance, variance)


@torch.no_grad()
def test_lengths_of_full_texts_change_nothing():
    model, (texts, _, _) = made(config()), batch()
    assert_close(model(texts, torch.tensor([7, 7])).words, model(texts).words, rtol=0, atol=0)


# Permutations


SHUFFLED = torch.tensor([0, 5, 3, 6, 1, 4, 2])  # the first place stays: the summary reads it


@pytest.mark.parametrize("projection", ["multihead", "split"])
@torch.no_grad()
def test_without_a_position_shuffled_words_give_shuffled_scores(projection):
    model, (texts, _, segments) = made(config(position="none", projection=projection)), batch()
    there, back = model(texts, None, segments), model(texts[:, SHUFFLED], None, segments[:, SHUFFLED])
    assert_near(back.words, there.words[:, SHUFFLED])
    assert_near(back.follows, there.follows)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "relative:3"])
@torch.no_grad()
def test_with_a_position_the_order_of_words_matters(position):
    model, (texts, _, segments) = made(config(position=position)), batch()
    there, back = model(texts, None, segments), model(texts[:, SHUFFLED], None, segments[:, SHUFFLED])
    assert (back.words - there.words[:, SHUFFLED]).abs().amax() > 1e-3
    assert (back.follows - there.follows).abs().amax() > 1e-4


def test_every_place_sees_every_real_place():
    model, (texts, _, _), kept = made(config()), batch(), []
    model.words.register_forward_hook(lambda module, inputs, output: kept.append(output))
    h, mix = model.encode(texts, LENGTHS), torch.randn(24, dtype=torch.float64)
    for place in range(4):
        (gradient,) = torch.autograd.grad((h[:, place] @ mix).sum(), kept[0], retain_graph=True)
        assert (gradient[0].abs().amax(-1) > 1e-9).all()
        assert (gradient[1, :4].abs().amax(-1) > 1e-9).all()
        assert_close(gradient[1, 4:], torch.zeros_like(gradient[1, 4:]), rtol=0, atol=0)


# Weights and errors


def test_wanted_words_that_do_not_fit_are_refused():
    model, (texts, wanted, _) = made(config()), batch()
    with pytest.raises(ValueError, match=r"a target for every vector|wanted"):
        model.loss(texts, wanted[:, :3])


def test_an_order_that_is_neither_yes_nor_no_is_refused():
    model, (texts, wanted, _) = made(config()), batch()
    with pytest.raises(ValueError, match="follows"):
        model.loss(texts, wanted, follows=torch.tensor([2, 0]))

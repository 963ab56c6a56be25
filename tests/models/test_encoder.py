"""The encoder of texts: what each head reads, how an input is made, and how ESM hides a token."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mirada import look
from mirada.layers.norm import NoNorm
from mirada.models.encoder import TextEncoder, TextEncoderConfig
from tests.models.stirring import stirred, words

SIZES = {"vocab": 13, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29}
BATCH, LENGTH = 2, 7
LENGTHS = torch.tensor([7, 4])


def made(**changes: object) -> TextEncoder:
    return stirred(TextEncoder(TextEncoderConfig(**(SIZES | changes))), torch.float64)


@torch.no_grad()
def test_the_input_is_the_norm_of_words_segments_and_positions_then_widened():
    model, texts, segments, kept = made(embed=5), words(BATCH, LENGTH), words(BATCH, LENGTH, vocab=2, seed=1), []
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    model(texts, LENGTHS, segments)
    x = model.words.weight[texts] + model.segments.weight[segments] + model.place.position.table[:LENGTH]
    x = F.layer_norm(x, (5,), model.norm.weight, model.norm.bias, 1e-12)
    assert_close(kept[0], x @ model.widen.weight.T + model.widen.bias)


@torch.no_grad()
def test_the_scores_of_words_come_from_the_table_of_words():
    model, texts = made(embed=5, head="mask", transform="gelu:norm=yes"), words(BATCH, LENGTH)
    h = F.gelu(model.encode(texts, LENGTHS) @ model.transform.dense.weight.T + model.transform.dense.bias)
    guess = F.layer_norm(h, (5,), model.transform.norm.weight, model.transform.norm.bias, 1e-12)
    assert_close(model(texts, LENGTHS), guess @ model.words.weight.T + model.output.bias)
    assert model.output.weight is model.words.weight


@torch.no_grad()
def test_a_vector_is_pooled_over_real_tokens_only():
    texts = words(BATCH, LENGTH)
    for pool, expected in {
        "first": lambda h: h[0],
        "mean": lambda h: h.mean(0),
        "max": lambda h: h.amax(0),
        "root": lambda h: h.sum(0) / len(h) ** 0.5,
    }.items():
        model = made(pool=pool)
        h = model.encode(texts, LENGTHS)
        rows = [expected(h[row, : LENGTHS[row]]) for row in range(BATCH)]
        assert_close(model.vector(texts, LENGTHS), torch.stack(rows), msg=lambda text, pool=pool: f"{pool}: {text}")


@torch.no_grad()
def test_classes_are_scored_from_the_transformed_first_place():
    model, texts = made(head="classes", classes=3, transform="tanh"), words(BATCH, LENGTH)
    first = torch.tanh(model.encode(texts, LENGTHS)[:, 0] @ model.transform.dense.weight.T + model.transform.dense.bias)
    assert_close(model(texts, LENGTHS), first @ model.output.weight.T + model.output.bias)


@torch.no_grad()
def test_a_hidden_token_is_zeros_and_the_others_are_scaled_to_make_up_for_it():
    texts = torch.tensor([[1, 4, 2, 4, 3, 5, 6], [1, 4, 2, 3, 4, 4, 4]])  # 2 of 7; 1 of 4, the rest is padding
    model, kept = made(masked=4, position="none", segments=0, input_norm="none"), []
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    model(texts, LENGTHS)
    table = model.words.weight
    assert_close(kept[0][0, 0], table[1] * 0.88 / (1 - 2 / 7))
    assert_close(kept[0][0, 1], torch.zeros(24, dtype=torch.float64))
    assert_close(kept[0][1, 2], table[2] * 0.88 / (1 - 1 / 4))
    assert model(torch.tensor([[4, 4]])).isfinite().all()  # nothing but hidden tokens


def test_where_the_norm_of_the_input_is_that_of_the_first_attention_there_is_no_second_one():
    model = made(order="pre", input_norm="first", norm="layer:1e-05,bias=no")
    first, second = model.encoder.layers
    assert isinstance(first.around_self.norm, NoNorm)
    assert second.around_self.norm.bias is None
    assert model.norm.bias is None
    assert sum(name.endswith("norm.weight") for name in model.state_dict()) == 5  # input, 1 + 2 in the blocks, last


def test_look_names_every_layer():
    model, texts = made(head="tags"), words(BATCH, LENGTH)
    with look(model) as seen:
        model(texts, LENGTHS)
    assert seen.names == ["encoder.layers.0.self", "encoder.layers.1.self"]
    weights = seen["encoder.layers.1.self"].weights()
    assert_close(weights.sum(-1), torch.ones(BATCH, 3, LENGTH, dtype=torch.float64))
    assert_close(weights[1, :, :, 4:], torch.zeros(3, LENGTH, 3, dtype=torch.float64))

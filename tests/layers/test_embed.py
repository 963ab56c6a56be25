"""Embeddings: rows of a table, squares of a picture, numbers of a series, and their positions."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.positions import Learned, Sinusoidal
from mirada.layers.embed import AddPosition, Patches, SeriesEmbedding, TokenEmbedding

BATCH, LENGTH, VOCAB, WIDTH = 2, 3, 11, 5


@pytest.fixture
def tokens() -> Tensor:
    return torch.tensor([[10, 0, 3], [3, 3, 7]])


# TokenEmbedding


def test_a_token_is_a_row_of_the_table(tokens: Tensor) -> None:
    words = TokenEmbedding(VOCAB, WIDTH)
    assert_close(words(tokens)[1, 2], words.weight[7])
    assert_close(words(tokens), words.weight[tokens], rtol=0, atol=0)


def test_scaled_words_are_rows_times_the_root_of_the_width(tokens: Tensor) -> None:
    words = TokenEmbedding(VOCAB, WIDTH, scaled=True)
    assert_close(words(tokens), words.weight[tokens] * math.sqrt(WIDTH))


def test_tables_start_with_the_spread_they_promise() -> None:
    scaled, plain = TokenEmbedding(101, 103, scaled=True), TokenEmbedding(101, 103)
    # 10403 normal numbers: within five standard deviations of 0.7 %
    assert_close(scaled.weight.std().item(), 103**-0.5, rtol=0.035, atol=0)
    assert_close(plain.weight.std().item(), 0.02, rtol=0.035, atol=0)
    assert_close(scaled(torch.arange(101).unsqueeze(0)).std().item(), 1.0, rtol=0.035, atol=0)


def test_the_gradient_counts_every_use_of_a_row(tokens: Tensor) -> None:
    words, gradient = TokenEmbedding(VOCAB, WIDTH, scaled=True), torch.randn(BATCH, LENGTH, WIDTH)
    (words(tokens) * gradient).sum().backward()
    expected = torch.zeros(VOCAB, WIDTH)
    for sample in range(BATCH):
        for place in range(LENGTH):
            expected[tokens[sample, place]] += math.sqrt(WIDTH) * gradient[sample, place]
    assert_close(words.weight.grad, expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_tokens_of_every_integer_dtype_are_read_alike(dtype: torch.dtype, tokens: Tensor) -> None:
    words = TokenEmbedding(VOCAB, WIDTH)
    assert_close(words(tokens.to(dtype)), words(tokens))


def test_sequences_without_tokens() -> None:
    assert TokenEmbedding(VOCAB, WIDTH)(torch.zeros(BATCH, 0, dtype=torch.int64)).shape == (BATCH, 0, WIDTH)


@pytest.mark.parametrize(
    ("token", "found"), [(11, "0 to 11"), (-1, "-1 to 10"), (1000, "0 to 1000"), (-100, "-100 to 10")]
)
def test_tokens_out_of_the_vocabulary_are_named(token: int, found: str, tokens: Tensor) -> None:
    tokens[1, 1] = token
    with pytest.raises(ValueError, match=f"token ids must lie in 0..10: got {found}. Was the text read") as refused:
        TokenEmbedding(VOCAB, WIDTH)(tokens)
    assert refused.value.__suppress_context__


def test_tokens_are_integers() -> None:
    with pytest.raises(ValueError, match=r"tokens must hold integers: got torch\.float32"):
        TokenEmbedding(VOCAB, WIDTH)(torch.zeros(BATCH, LENGTH))


@pytest.mark.parametrize("scaled", [False, True])
def test_pretrained_vectors_come_out_as_they_are(scaled: bool) -> None:
    words, vectors = TokenEmbedding(VOCAB, WIDTH, scaled), torch.randn(VOCAB, WIDTH)
    words.copy_vectors(vectors)
    assert_close(words(torch.arange(VOCAB).unsqueeze(0))[0], vectors)
    assert words.weight.requires_grad


@pytest.mark.parametrize("scaled", [False, True])
def test_tokens_without_a_pretrained_vector_keep_their_own(scaled: bool) -> None:
    words, vectors = TokenEmbedding(VOCAB, WIDTH, scaled), torch.randn(VOCAB, WIDTH, dtype=torch.float64)
    before, missing = words.weight.detach().clone(), torch.tensor([0, 4, 10])
    vectors[missing] = torch.nan
    words.copy_vectors(vectors)
    assert_close(words.weight[missing], before[missing], rtol=0, atol=0)
    there = [row for row in range(VOCAB) if row not in missing]
    assert_close(words(torch.tensor([there]))[0], vectors[there].float())
    assert words.weight.dtype == torch.float32


def test_frozen_vectors_are_not_trained(tokens: Tensor) -> None:
    words = TokenEmbedding(VOCAB, WIDTH)
    words.copy_vectors(torch.randn(VOCAB, WIDTH), frozen=True)
    assert not words(tokens).requires_grad
    words.copy_vectors(torch.randn(VOCAB, WIDTH))
    assert words(tokens).requires_grad


def test_the_table_stays_the_same_parameter() -> None:
    words = TokenEmbedding(VOCAB, WIDTH)
    table = words.weight
    words.copy_vectors(torch.zeros(VOCAB, WIDTH), frozen=True)
    assert words.weight is table
    assert isinstance(table, torch.nn.Parameter)


def test_words_that_cannot_be_are_refused() -> None:
    for vocab, width in ((0, 5), (5, 0)):
        with pytest.raises(ValueError, match=f"sizes must be at least 1: got vocab={vocab}, width={width}"):
            TokenEmbedding(vocab, width)
    with pytest.raises(ValueError, match=r"word vectors must fit the table \(11, 5\): got \(5, 11\)"):
        TokenEmbedding(VOCAB, WIDTH).copy_vectors(torch.zeros(WIDTH, VOCAB))


# AddPosition


@pytest.mark.parametrize("position", [Sinusoidal(WIDTH), Learned(WIDTH, positions=17)])
def test_a_position_is_added_from_the_start(position: torch.nn.Module) -> None:
    placed, x = AddPosition(position), torch.randn(BATCH, LENGTH, WIDTH)
    for start in (0, 7, 14):
        rows = torch.stack([position(torch.tensor(start + place)) for place in range(LENGTH)])
        assert_close(placed(x, start), x + rows)


@pytest.mark.parametrize("position", [Sinusoidal(WIDTH), Learned(WIDTH, positions=17)])
def test_positions_may_be_given(position: torch.nn.Module) -> None:
    placed, x = AddPosition(position), torch.randn(BATCH, LENGTH, WIDTH)
    assert_close(placed(x, positions=torch.tensor([7, 8, 9])), placed(x, start=7))
    per_sample = torch.tensor([[0, 1, 2], [0, 1, 0]])
    y = placed(x, positions=per_sample)
    assert_close(y[1, 2], x[1, 2] + position(torch.tensor(0)))
    assert_close(y[0], placed(x)[0])


@pytest.mark.parametrize("position", [Sinusoidal(WIDTH), Learned(WIDTH, positions=17)])
@pytest.mark.parametrize("given", [None, torch.arange(LENGTH)], ids=["counted", "given"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_position_keeps_the_dtype(position: torch.nn.Module, given: Tensor | None, dtype: torch.dtype) -> None:
    y = AddPosition(position)(torch.ones(BATCH, LENGTH, WIDTH, dtype=dtype), positions=given)
    assert y.dtype == dtype


def test_without_a_position_and_dropout_nothing_happens() -> None:
    x = torch.randn(BATCH, LENGTH, WIDTH)
    assert_close(AddPosition(None)(x, start=7), x, rtol=0, atol=0)
    assert_close(AddPosition(None, dropout=0.9).eval()(x), x, rtol=0, atol=0)


def test_dropout_falls_on_input_and_position_together() -> None:
    x, position = torch.randn(BATCH, 101, WIDTH), Sinusoidal(WIDTH)
    y = AddPosition(position, dropout=0.5)(x)
    dropped = y == 0
    assert 0 < dropped.sum() < dropped.numel()
    assert_close(y[~dropped], 2 * position.add(x)[~dropped])


@pytest.mark.parametrize("given", [None, torch.arange(LENGTH)], ids=["counted", "given"])
def test_a_position_of_another_width_is_refused(given: Tensor | None) -> None:
    with pytest.raises(ValueError, match="needs width=5: got width=1"):
        AddPosition(Sinusoidal(WIDTH))(torch.zeros(BATCH, LENGTH, 1), positions=given)


def test_positions_beyond_a_table_are_refused() -> None:
    placed = AddPosition(Learned(WIDTH, positions=7))
    assert placed(torch.zeros(BATCH, LENGTH, WIDTH), start=4).shape == (BATCH, LENGTH, WIDTH)
    with pytest.raises(ValueError, match="positions must lie in the table of 7: got 5 to 7"):
        placed(torch.zeros(BATCH, LENGTH, WIDTH), start=5)


# Patches


def test_patches_are_a_convolution_with_their_own_size_as_stride() -> None:
    patches, pictures = Patches(channels=3, size=5, width=7), torch.randn(BATCH, 3, 10, 15)
    torch.nn.init.normal_(patches.project.bias)
    kernel = patches.project.weight.view(7, 3, 5, 5)
    cells = F.conv2d(pictures, kernel, patches.project.bias, stride=5)
    assert_close(patches(pictures), cells.flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-5)


def test_patches_come_row_by_row() -> None:
    patches = Patches(channels=2, size=3, width=7)
    pictures = torch.randn(BATCH, 2, 6, 9)
    second_row_third_column = pictures[1, :, 3:6, 6:9].reshape(-1)
    assert_close(patches(pictures)[1, 5], patches.project(second_row_third_column))


def test_a_patch_may_be_a_pixel_or_the_picture() -> None:
    pictures = torch.randn(BATCH, 3, 5, 5)
    pixels = Patches(3, size=1, width=7)
    assert_close(pixels(pictures), pixels.project(pictures.flatten(2).transpose(1, 2)))
    assert Patches(3, size=5, width=7)(pictures).shape == (BATCH, 1, 7)


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (torch.zeros(2, 3, 10, 12), r"pictures must divide into patches of 5 x 5: got 10 x 12\. Crop or resize them\."),
        (torch.zeros(2, 3, 11, 15), "pictures must divide into patches of 5 x 5: got 11 x 15"),
        (torch.zeros(2, 1, 10, 15), r"pictures must have 3 channels: got shape \(2, 1, 10, 15\)"),
        (
            torch.zeros(3, 10, 15),
            r"pictures must have the axes \(batch channels height width\): got shape \(3, 10, 15\)",
        ),
        (torch.zeros(2, 3, 10, 15, dtype=torch.uint8), "pictures must hold floating-point numbers: got torch.uint8"),
    ],
)
def test_pictures_that_do_not_fit_are_refused(pictures: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Patches(channels=3, size=5, width=7)(pictures)


# Numbers


def test_numbers_go_through_one_linear_layer_at_every_time() -> None:
    numbers, series = SeriesEmbedding(features=3, width=7), torch.randn(BATCH, 5, 3)
    torch.nn.init.normal_(numbers.project.bias)
    y = numbers(series)
    assert_close(y[1, 4], numbers.project.weight @ series[1, 4] + numbers.project.bias)
    assert y.shape == (BATCH, 5, 7)


@pytest.mark.parametrize(
    ("series", "message"),
    [
        (torch.zeros(2, 5, 2), r"series must have 3 features: got shape \(2, 5, 2\)"),
        (torch.zeros(2, 5), r"series must have the axes \(batch time features\): got shape \(2, 5\)"),
        (torch.zeros(2, 5, 3, dtype=torch.int64), "series must hold floating-point numbers: got torch.int64"),
    ],
)
def test_series_that_do_not_fit_are_refused(series: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SeriesEmbedding(features=3, width=7)(series)


def test_sizes_are_at_least_one() -> None:
    for sizes in ((0, 5, 7), (3, 0, 7), (3, 5, 0)):
        with pytest.raises(ValueError, match="sizes must be at least 1"):
            Patches(*sizes)
    for sizes in ((0, 7), (3, 0)):
        with pytest.raises(ValueError, match="sizes must be at least 1"):
            SeriesEmbedding(*sizes)

"""The Transformer: steps equal the full pass, padding and later words change nothing, and any combination of parts works."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Window
from mirada.layers.stack import ROOM
from mirada.models.transformer import Transformer, TransformerConfig
from tests.models.cases.transformer import TransformerCase
from tests.models.stirring import assert_near, stirred

SIZES = {
    "vocab": 13, "source_vocab": 11, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29,
}  # fmt: skip
BATCH, SOURCE, TARGET = 2, 7, 5
LENGTHS, TARGET_LENGTHS = torch.tensor([7, 4]), torch.tensor([3, 5])


def config(**changes: object) -> TransformerConfig:
    return TransformerConfig(**(SIZES | ({"source_vocab": 13} if changes.get("tied") == "all" else {}) | changes))


def made(config: TransformerConfig, dtype: torch.dtype = torch.float64) -> Transformer:
    return stirred(Transformer(config), dtype, strength=0.1)


def words(vocab: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def pair(batch: int = BATCH, source: int = SOURCE, target: int = TARGET) -> tuple[Tensor, Tensor]:
    """Random sentences of both languages."""
    return words(11, batch, source, seed=1), words(13, batch, target, seed=2)


def decoded(model: Transformer, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
    """The logits of the full pass, made token by token."""
    state, logits = model.start(model.encode(source, lengths)), []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        logits.append(scores)
    return torch.stack(logits, dim=1)


# Step by step


@pytest.mark.parametrize("projection", ["multihead", "split"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@torch.no_grad()
def test_steps_keep_the_precision_of_the_model(projection, dtype):
    model = made(config(projection=projection), dtype)
    source, target = pair()
    steps, full = decoded(model, source, LENGTHS, target), model(source, LENGTHS, target)
    assert steps.dtype == dtype
    if dtype == torch.float64:
        assert_near(steps, full)
    else:
        assert_close(steps, full, rtol=0.1, atol=0.2)


@pytest.mark.parametrize("projection", TransformerCase.values["projection"])
@pytest.mark.parametrize("score", TransformerCase.values["score"])
@torch.no_grad()
def test_every_score_looks_back_with_every_kind_of_heads(score, projection):
    model = made(config(score=score, projection=projection), torch.float32)
    source, target = pair()
    assert_near(decoded(model, source, LENGTHS, target), model(source, LENGTHS, target))


@torch.no_grad()
def test_steps_continue_beyond_the_first_size_of_the_caches():
    steps = ROOM + 3
    for position in ("learned", "rotary"):
        model = made(config(position=position, length=ROOM + 5))
        source, target = pair(target=steps)
        state = model.start(model.encode(source, LENGTHS))
        assert [cache.length for cache in state.caches] == [ROOM, ROOM]
        assert_near(decoded(model, source, LENGTHS, target), model(source, LENGTHS, target))


def test_gradients_flow_through_steps_as_through_the_full_pass():
    model = made(config(position="rotary"))
    source, target = pair()
    mix = torch.randn(BATCH, TARGET, 13, dtype=torch.float64)
    full = torch.autograd.grad((model(source, LENGTHS, target) * mix).sum(), list(model.parameters()))
    steps = torch.autograd.grad((decoded(model, source, LENGTHS, target) * mix).sum(), list(model.parameters()))
    for ours, theirs in zip(steps, full, strict=True):
        assert_near(ours, theirs)


@torch.no_grad()
def test_a_neighborhood_is_a_word_or_a_value():
    by_word, by_value = (made(config(where=where)) for where in ("window:2", Window(2)))
    by_value.load_state_dict(by_word.state_dict())
    source, target = pair()
    assert_close(by_value(source, None, target), by_word(source, None, target), rtol=0, atol=0)
    everything = made(config())
    everything.load_state_dict(by_word.state_dict())
    assert (everything(source, None, target) - by_word(source, None, target)).abs().amax() > 1e-3


# A beam


@torch.no_grad()
def assert_followed(model: Transformer, source: Tensor, lengths: Tensor, indices: list[list[int]]) -> None:
    """Decode, reorder before every step but the first, and compare with the full pass of the texts that result."""
    state, origin = model.start(model.encode(source, lengths)), torch.arange(len(source))
    texts = torch.zeros(len(source), 0, dtype=torch.long)
    for time, listed in enumerate([None, *indices]):
        if listed is not None:
            index = torch.tensor(listed)
            before = model.alignment(state)
            state, origin, texts = model.reorder(state, index), origin[index], texts[index]
            assert_near(model.alignment(state), before[index])
        tokens = words(13, len(source), seed=time)
        texts = torch.cat([texts, tokens.unsqueeze(1)], dim=1)
        scores, state = model.step(tokens, state)
        assert_near(scores, model(source[origin], lengths[origin], texts)[:, -1])


@pytest.mark.parametrize("changes", [{}, {"score": "general"}, {"position": "relative:2", "norm": "batch"}], ids=str)
def test_reordering_the_batch_is_decoding_the_reordered_batch(changes):
    source, lengths = words(11, 3, SOURCE, seed=1), torch.tensor([7, 4, 5])
    assert_followed(made(config(**changes)), source, lengths, [[2, 0, 0], [0, 1, 2], [1, 2, 0], [2, 2, 2]])


def test_reordering_inside_a_beam_is_decoding_the_reordered_beam():
    source, lengths = pair()[0].repeat_interleave(3, 0), LENGTHS.repeat_interleave(3)
    assert_followed(made(config()), source, lengths, [[0, 0, 0, 3, 3, 3], [2, 0, 1, 5, 5, 3], [1, 1, 2, 3, 5, 4]])


@torch.no_grad()
def test_beams_of_one_sentence_leave_its_keys_where_they_are():
    model = made(config())
    source, _ = pair(batch=4)
    _, state = model.step(words(13, 4), model.start(model.encode(source)))
    state = model.reorder(state, torch.tensor([0, 0, 2, 2]))
    within = model.reorder(state, torch.tensor([1, 0, 3, 2]))
    assert within.memories[0].keys is state.memories[0].keys
    across = model.reorder(within, torch.tensor([2, 3, 0, 1]))
    assert_close(across.memories[0].keys, state.memories[0].keys[[2, 2, 0, 0]])


@pytest.mark.parametrize(
    "changes", [{}, {"order": "post"}, {"projection": "grouped:1"}, {"normalizer": "sparsemax"}, {"score": "additive"}],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_the_alignment_is_what_look_shows(changes):
    model = made(config(**changes))
    source, target = pair()
    state = model.start(model.encode(source, LENGTHS))
    for tokens in target.unbind(1):
        with look(model) as seen:
            _, state = model.step(tokens, state)
        aligned = model.alignment(state)
        assert_near(aligned, seen["decoder.layers.1.cross"].weights()[:, :, 0].mean(1))
        assert aligned.shape == (BATCH, SOURCE)
        assert_near(aligned.sum(1), torch.ones(BATCH, dtype=aligned.dtype))
        assert_close(aligned[1, 4:], torch.zeros(3, dtype=aligned.dtype), rtol=0, atol=0)
    with look(model) as seen:
        model(source, LENGTHS, target)
    assert_near(aligned, seen["decoder.layers.1.cross"].weights()[:, :, -1].mean(1))


def test_look_names_every_layer():
    model = made(config())
    with look(model) as seen:
        model(*pair()[:1], LENGTHS, pair()[1])
    encoder = ["encoder.layers.0.self", "encoder.layers.1.self"]
    decoder = [f"decoder.layers.{layer}.{kind}" for layer in (0, 1) for kind in ("self", "cross")]
    assert seen.names == encoder + decoder
    assert {name: seen[name].kind for name in decoder} == {name: name.rsplit(".")[-1] for name in decoder}
    assert (seen[decoder[1]].queries, seen[decoder[1]].keys) == (TARGET, SOURCE)


# Who sees whom


def embedded(model: Transformer, table: torch.nn.Module) -> list[Tensor]:
    """A list that will hold what a table of words gives in the next call."""
    kept: list[Tensor] = []
    table.register_forward_hook(lambda module, inputs, output: kept.append(output))
    return kept


def test_no_gradient_comes_from_later_words():
    model = made(config())
    kept = embedded(model, model.target_words)
    logits = model(pair()[0], LENGTHS, pair()[1])
    mix = torch.randn(13, dtype=torch.float64)
    for place in range(TARGET):
        (gradient,) = torch.autograd.grad((logits[:, place] @ mix).sum(), kept[0], retain_graph=True)
        assert_close(gradient[:, place + 1 :], torch.zeros_like(gradient[:, place + 1 :]), rtol=0, atol=0)
        assert (gradient[:, : place + 1].abs().amax(-1) > 1e-9).all()


def test_the_encoder_sees_all_real_places_and_no_padding():
    model = made(config())
    kept = embedded(model, model.source_words)
    states = model.encode(pair()[0], LENGTHS).states
    mix = torch.randn(24, dtype=torch.float64)
    for place in range(SOURCE):
        (gradient,) = torch.autograd.grad((states[:, place] @ mix).sum(), kept[0], retain_graph=True)
        size = gradient.abs().amax(-1)
        assert (size[0] > 1e-9).all()
        assert (size[1, :4] > 1e-9).all()
        padding = [other for other in range(4, SOURCE) if other != place]  # a padded place may see itself
        assert_close(size[1, padding], torch.zeros(len(padding), dtype=size.dtype), rtol=0, atol=0)


def test_every_word_of_the_target_sees_all_of_the_source():
    model = made(config())
    kept = embedded(model, model.source_words)
    logits = model(pair()[0], LENGTHS, pair()[1])
    mix = torch.randn(13, dtype=torch.float64)
    for place in range(TARGET):
        (gradient,) = torch.autograd.grad((logits[:, place] @ mix).sum(), kept[0], retain_graph=True)
        assert (gradient[0].abs().amax(-1) > 1e-9).all()
        assert_close(gradient[1, 4:], torch.zeros_like(gradient[1, 4:]), rtol=0, atol=0)


# Padding


def padded() -> tuple[Tensor, Tensor, Tensor]:
    """Sentences whose padding holds words too, and what the target should say."""
    source, target = pair()
    wanted = words(13, BATCH, TARGET, seed=3).masked_fill(torch.arange(TARGET) >= TARGET_LENGTHS.unsqueeze(1), -100)
    return source, target, wanted


def test_batch_norm_by_hand_at_both_inputs():
    model = made(config(norm="batch")).train()
    source, target, wanted = padded()
    inputs = {
        model.encoder.layers[0].around_self.norm: (model.source_place(model.source_words(source)), LENGTHS),
        model.decoder.layers[0].around_self.norm: (model.target_place(model.target_words(target)), TARGET_LENGTHS),
    }
    expected = {}
    for norm, (x, lengths) in inputs.items():
        rows = torch.cat([row[:n] for row, n in zip(x, lengths.tolist(), strict=True)]).detach()
        expected[norm] = 0.9 * norm.mean + 0.1 * rows.mean(0), 0.9 * norm.variance + 0.1 * rows.var(0)
    model.loss(source, LENGTHS, target, wanted, target_lengths=TARGET_LENGTHS)
    for norm, (mean, variance) in expected.items():
        assert_close(norm.mean, mean)
        assert_close(norm.variance, variance)


@torch.no_grad()
def test_an_empty_source_is_finite():
    model = made(config())
    source, target = pair()
    logits = model(source, torch.tensor([7, 0]), target)
    assert logits.isfinite().all()
    assert_near(decoded(model, source, torch.tensor([7, 0]), target), logits)


# The loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_of_the_logits(smoothing):
    model = made(config(output_bias=True))
    source, target, wanted = padded()
    logits = model(source, LENGTHS, target)
    plain = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), label_smoothing=smoothing)
    loss = model.loss(source, LENGTHS, target, wanted, smoothing)
    assert_close(loss, plain)
    parameters = list(model.parameters())
    for ours, theirs in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(plain, parameters), strict=True):
        assert_close(ours, theirs)


# Weights


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_tied_tables_are_one():
    models = {tied: Transformer(config(tied=tied, source_vocab=13)) for tied in ("no", "output", "all")}
    assert models["no"].output.weight is not models["no"].target_words.weight
    assert models["output"].output.weight is models["output"].target_words.weight
    assert models["output"].source_words.weight is not models["output"].target_words.weight
    assert models["all"].source_words.weight is models["all"].target_words.weight is models["all"].output.weight
    assert count(models["no"]) - count(models["output"]) == count(models["output"]) - count(models["all"]) == 13 * 24


def test_the_base_model_of_the_paper_has_its_parameters():
    paper = TransformerConfig.paper(37000)
    with torch.device("meta"):
        model = Transformer(paper)
    attention, feed, norm = 4 * (512 * 512 + 512), 512 * 2048 + 2048 + 2048 * 512 + 512, 2 * 512
    encoder, decoder = attention + feed + 2 * norm, 2 * attention + feed + 3 * norm
    assert count(model) == 37000 * 512 + 6 * (encoder + decoder) == 63_082_496
    assert (paper.order, paper.activation, paper.position, paper.tied) == ("post", "relu", "sinusoidal", "all")


# Errors


def test_words_that_are_not_in_the_vocabulary_are_refused():
    model = made(config())
    source, target = pair()
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.10: got .* to 11\. Was the text read with"):
        model(torch.full_like(source, 11), None, target)
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.12: got -1 to -1"):
        model(source, None, torch.full_like(target, -1))
    with pytest.raises(ValueError, match=r"targets must lie in 0\.\.12 or be -100: got 13 to 13"):
        model.loss(source, None, target, torch.full_like(target, 13))
    with pytest.raises(ValueError, match=r"tokens must hold integers: got torch\.float32"):
        model(source.float(), None, target)


@torch.no_grad()
def test_a_learned_table_has_an_end():
    model = made(config(position="learned", length=5))
    with pytest.raises(ValueError, match=r"positions must lie in the table of 5: got 0 to 6\. .*shorten the input"):
        model(*pair()[:1], None, pair()[1])
    source, target = pair(source=5, target=6)
    with pytest.raises(ValueError, match="positions must lie in the table of 5: got 0 to 5"):
        model(source, None, target)
    with pytest.raises(ValueError, match="positions must lie in the table of 5: got 5 to 5"):
        decoded(model, source, None, target)
    assert_near(decoded(model, source, None, target[:, :5]), model(source, None, target[:, :5]))

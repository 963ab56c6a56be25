"""The Transformer: steps equal the full pass, padding and later words change nothing, and any combination of parts works."""

import copy
import json
import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Causal, Documents, PerHead, Strided, Window
from mirada.layers.stack import ROOM
from mirada.models.transformer import Transformer, TransformerConfig
from tests.models.stirring import assert_near, stirred

SIZES = {
    "vocab": 13, "source_vocab": 11, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29,
}  # fmt: skip
BATCH, SOURCE, TARGET = 2, 7, 5
LENGTHS, TARGET_LENGTHS = torch.tensor([7, 4]), torch.tensor([3, 5])

VALUES = {
    "order": ["pre", "post"],
    "norm": ["layer", "rms", "batch"],
    "activation": ["relu", "gelu", "gelu-tanh", "silu", "gated"],
    "position": [
        "sinusoidal", "learned", "rotary", "rotary:layout=interleaved", "relative:3", "relative:2,values=False", "alibi",
        "none",
    ],
    "where": [
        "complete", "window:2", "strided:2", "fixed:4,1", "causal & window:3", "window:1,1", Window(2),
        PerHead(Window(1), Causal(), Strided(2)),
    ],
    "projection": ["multihead", "grouped:1", "collaborative:8", "split"],
    "score": ["dot", "additive", "general", "concat"],
    "normalizer": ["softmax", "sparsemax"],
    "tied": ["no", "output", "all"],
}  # fmt: skip
ONE_BY_ONE = [(name, value) for name, values in VALUES.items() for value in values]


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


@pytest.mark.parametrize(("name", "value"), ONE_BY_ONE, ids=str)
@torch.no_grad()
def test_steps_give_what_the_full_pass_gives(name, value):
    model = made(config(**{name: value}), torch.float32)
    source, target = pair()
    full = model(source, LENGTHS, target)
    assert full.shape == (BATCH, TARGET, 13)
    assert_near(decoded(model, source, LENGTHS, target), full)


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


@pytest.mark.parametrize("projection", VALUES["projection"])
@pytest.mark.parametrize("score", VALUES["score"])
@torch.no_grad()
def test_every_score_looks_back_with_every_kind_of_heads(score, projection):
    model = made(config(score=score, projection=projection), torch.float32)
    source, target = pair()
    assert_near(decoded(model, source, LENGTHS, target), model(source, LENGTHS, target))


def drawn(seed: int) -> tuple[TransformerConfig, torch.dtype]:
    """A random combination of all parts that a configuration accepts, and a precision."""
    chance = random.Random(seed)
    while True:
        choice = {name: chance.choice(values) for name, values in VALUES.items()}
        try:
            return config(**choice, output_bias=chance.random() < 0.5), chance.choice([torch.float32, torch.float64])
        except ValueError:
            continue  # refused when made, with a reason: those are tested below


@pytest.mark.parametrize("seed", range(25))
def test_any_combination_just_works(seed):
    chosen, dtype = drawn(seed)
    model = made(chosen, dtype).train()
    source, target = pair()
    wanted = target.roll(-1, 1).masked_fill(torch.arange(TARGET) >= TARGET_LENGTHS.unsqueeze(1), -100)
    model.loss(source, LENGTHS, target, wanted, target_lengths=TARGET_LENGTHS).backward()
    lost = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert lost == []
    model.eval()
    with torch.no_grad():
        full = model(source, LENGTHS, target)
        assert full.isfinite().all()
        assert_near(decoded(model, source, LENGTHS, target), full)


@torch.no_grad()
def test_steps_go_on_past_the_first_room_of_the_caches():
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


@torch.no_grad()
def test_asking_for_the_alignment_changes_nothing():
    model = made(config())
    source, target = pair()
    state, logits = model.start(model.encode(source, LENGTHS)), []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        assert_close(model.alignment(state), model.alignment(state), rtol=0, atol=0)
        logits.append(scores)
    assert_close(torch.stack(logits, 1), decoded(model, source, LENGTHS, target), rtol=0, atol=0)


def test_there_is_no_alignment_before_the_first_step():
    model = made(config())
    with pytest.raises(ValueError, match="no alignment before the first step"):
        model.alignment(model.start(model.encode(pair()[0])))


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


@pytest.mark.parametrize("changes", [{}, {"order": "post", "position": "rotary"}, {"where": "window:1,1"}], ids=str)
@torch.no_grad()
def test_a_word_changes_nothing_before_it(changes):
    model = made(config(**changes))
    source, target = pair()
    logits = model(source, LENGTHS, target)
    for place in range(TARGET):
        other = target.clone()
        other[:, place] = (other[:, place] + 1) % 13
        changed = model(source, LENGTHS, other)
        assert_close(changed[:, :place], logits[:, :place], rtol=0, atol=0)
        assert ((changed - logits)[:, place].abs().amax(-1) > 1e-6).all()


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
        (slope,) = torch.autograd.grad((logits[:, place] @ mix).sum(), kept[0], retain_graph=True)
        assert_close(slope[:, place + 1 :], torch.zeros_like(slope[:, place + 1 :]), rtol=0, atol=0)
        assert (slope[:, : place + 1].abs().amax(-1) > 1e-9).all()


def test_the_encoder_sees_all_real_places_and_no_padding():
    model = made(config())
    kept = embedded(model, model.source_words)
    states = model.encode(pair()[0], LENGTHS).states
    mix = torch.randn(24, dtype=torch.float64)
    for place in range(SOURCE):
        (slope,) = torch.autograd.grad((states[:, place] @ mix).sum(), kept[0], retain_graph=True)
        size = slope.abs().amax(-1)
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
        (slope,) = torch.autograd.grad((logits[:, place] @ mix).sum(), kept[0], retain_graph=True)
        assert (slope[0].abs().amax(-1) > 1e-9).all()
        assert_close(slope[1, 4:], torch.zeros_like(slope[1, 4:]), rtol=0, atol=0)


# Padding


def padded() -> tuple[Tensor, Tensor, Tensor]:
    """Sentences whose padding holds words too, and what the target should say."""
    source, target = pair()
    wanted = words(13, BATCH, TARGET, seed=3).masked_fill(torch.arange(TARGET) >= TARGET_LENGTHS.unsqueeze(1), -100)
    return source, target, wanted


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("place", [{}, {"position": "relative:2", "where": "window:2,2"}], ids=str)
@pytest.mark.parametrize(
    ("norm", "training"), [("layer", False), ("rms", False), ("batch", False), ("layer", True), ("rms", True)]
)
def test_a_padded_batch_gives_each_pair_what_it_gets_alone(norm, training, place, order):
    model = made(config(norm=norm, order=order, **place)).train(training)
    source, target, wanted = padded()
    logits = model(source, LENGTHS, target)
    total = model.loss(source, LENGTHS, target, wanted, smoothing=0.1, target_lengths=TARGET_LENGTHS)
    losses = []
    for b in range(BATCH):
        n, m = int(LENGTHS[b]), int(TARGET_LENGTHS[b])
        alone = source[b : b + 1, :n], None, target[b : b + 1, :m]
        assert_near(logits[b : b + 1, :m], model(*alone))
        losses.append(m * model.loss(*alone, wanted[b : b + 1, :m], smoothing=0.1))
    assert_near(total, sum(losses) / TARGET_LENGTHS.sum())


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("change", ["other words", "more padding"])
def test_batch_norm_does_not_count_padding(order, change):
    model = made(config(norm="batch", order=order)).train()
    twin = copy.deepcopy(model)
    source, target, wanted = padded()
    model.loss(source, LENGTHS, target, wanted, target_lengths=TARGET_LENGTHS).backward()
    if change == "other words":
        source, target = source.clone(), target.clone()
        source[1, 4:], target[0, 3:] = (source[1, 4:] + 1) % 11, (target[0, 3:] + 1) % 13
    else:
        source, target, wanted = F.pad(source, (0, 3)), F.pad(target, (0, 2)), F.pad(wanted, (0, 2), value=-100)
    twin.loss(source, LENGTHS, target, wanted, target_lengths=TARGET_LENGTHS).backward()
    for (name, ours), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
        assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")
    for (name, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad, msg=lambda text, name=name: f"{name}: {text}")


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


def test_one_small_batch_is_learned_by_heart():
    model = Transformer(TransformerConfig.tiny())
    source, target, wanted = words(11, 4, 5, seed=1), words(13, 4, 6, seed=2), words(13, 4, 6, seed=3)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        loss = model.loss(source, None, target, wanted)
        if loss < 0.04:
            break
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert loss < 0.05
    assert_close(model.eval()(source, None, target).argmax(-1), wanted)


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


@pytest.mark.parametrize(
    "changes",
    [{}, {"tied": "no"}, {"tied": "all", "output_bias": True}, {"norm": "batch"}, {"position": "alibi", "where": Window(2)}],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_a_saved_model_says_the_same_bit_for_bit(tmp_path, changes):
    model = made(config(**changes), torch.float32)
    model.save(tmp_path / "model")
    loaded = Transformer.load(tmp_path / "model")
    source, target = pair()
    assert loaded.config == model.config
    assert not loaded.training
    assert_close(loaded(source, LENGTHS, target), model(source, LENGTHS, target), rtol=0, atol=0)
    assert count(loaded) == count(model)


def test_dropout_is_for_training_only():
    model = made(config(dropout=0.5))
    source, target = pair()
    assert_close(model(source, None, target), model(source, None, target), rtol=0, atol=0)
    model.train()
    assert (model(source, None, target) - model(source, None, target)).abs().amax() > 1e-3


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


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([7, 8], "lengths must be at most the length of the batch: got lengths up to 8, length=7"),
        ([7], "lengths must have one number per sample: got 1 for batch=2"),
        ([7, -1], "lengths must be at least 0: got -1"),
        ([7.0, 4.0], "lengths must hold integers"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(lengths, message):
    with pytest.raises(ValueError, match=message):
        made(config())(pair()[0], torch.tensor(lengths), pair()[1])


def test_sentences_must_come_as_a_batch():
    model = made(config())
    source, target = pair()
    with pytest.raises(ValueError, match="batch"):
        model(source[0], None, target)
    with pytest.raises(ValueError, match="batch"):
        model(source[0], LENGTHS[:1], target[:1])
    with pytest.raises(ValueError, match="batch"):
        model(source, None, target[:1])


REFUSED = [
    ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
    ({"heads": 0}, "TransformerConfig: heads must be at least 1: got 0"),
    ({"vocab": 0}, "vocab must be at least 1"),
    ({"source_vocab": 0}, "source_vocab must be at least 1"),
    ({"depth": 0}, "depth must be at least 1"),
    ({"length": 0}, "length must be at least 1"),
    ({"dropout": 1.0}, r"dropout must lie in \[0, 1\): got 1.0"),
    ({"dropout": -0.1}, r"dropout must lie in \[0, 1\)"),
    ({"width": "24"}, "TransformerConfig: width must be of type int: got '24'"),
    ({"width": 24.0}, "width must be of type int"),
    ({"output_bias": 1}, "output_bias must be of type bool: got 1"),
    ({"order": "middle"}, "unknown order 'middle'; known: post, pre"),
    ({"norm": "lay"}, r"unknown norm 'lay'; known: batch, layer, rms\. Did you mean 'layer'\?"),
    ({"norm": "layer:0"}, "eps > 0"),
    ({"activation": "swish"}, "unknown activation 'swish'; known: gated, gelu, gelu-tanh, relu, silu"),
    ({"position": "rotory"}, "Did you mean 'rotary'"),
    ({"position": "relative"}, "position 'relative' does not fit: relative takes clip, values"),
    ({"position": "none:3"}, "none"),
    ({"position": "rotary", "width": 21}, "dim must be even: got dim=7"),
    ({"position": "relative:3", "score": "additive"}, "Relative and a score other than Dot cannot work together"),
    ({"where": "windwo:3"}, "Did you mean 'window'"),
    ({"where": "window:-1"}, "left and right >= 0: got left=-1"),
    ({"where": ""}, "where cannot be read: got ''"),
    ({"where": 3}, "where must be of type str: got 3"),
    ({"where": Documents(torch.zeros(1, 5, dtype=torch.long))}, "where"),
    ({"where": PerHead(Causal(), Causal())}, "heads=3"),
    ({"projection": "grouped:2"}, "heads must be divisible by kv_heads: got heads=3, kv_heads=2"),
    ({"projection": "tied"}, "unknown heads 'tied'"),
    ({"score": "scaled-dot"}, "unknown score 'scaled-dot'"),
    ({"normalizer": "softmx"}, "Did you mean 'softmax'"),
    ({"tied": "yes"}, "unknown tied 'yes'; known: all, no, output"),
    ({"tied": "all", "source_vocab": 11}, "tied='all' needs one vocabulary: got vocab=13, source_vocab=11"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_a_configuration_that_cannot_work_is_refused_when_made(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


# Configurations


def test_the_tiny_model_works():
    model = Transformer(TransformerConfig.tiny())
    logits = model(words(11, 3, 5), torch.tensor([5, 2, 1]), words(13, 3, 7))
    assert logits.shape == (3, 7, 13)
    assert logits.isfinite().all()


@pytest.mark.parametrize(("name", "value"), ONE_BY_ONE, ids=str)
def test_a_configuration_is_plain_json(name, value):
    ours = config(**{name: value})
    assert TransformerConfig.from_dict(json.loads(json.dumps(ours.to_dict()))) == ours

"""GPT: steps and prompts equal the full pass, no word sees a later one, and packed texts do not know of each other."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Causal, Documents, PerHead, Strided, Window
from mirada.layers.stack import ROOM
from mirada.models.gpt import GPT, GPTConfig
from tests.models.cases.gpt import GPTCase
from tests.models.stirring import assert_near, stirred, words

SIZES = {"vocab": 13, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29}
BATCH, LENGTH = 2, 7

PLACES = [(name, value) for name in ("position", "where") for value in GPTCase.values[name]]


def config(**changes: object) -> GPTConfig:
    return GPTConfig(**(SIZES | changes))


def made(config: GPTConfig, dtype: torch.dtype = torch.float64) -> GPT:
    return stirred(GPT(config), dtype)


def decoded(model: GPT, texts: Tensor) -> Tensor:
    """The logits of the full pass, made token by token."""
    state, logits = model.start(len(texts)), []
    for tokens in texts.unbind(1):
        scores, state = model.step(tokens, state)
        logits.append(scores)
    return torch.stack(logits, dim=1)


# Step by step


@pytest.mark.parametrize(("name", "value"), PLACES, ids=str)
@torch.no_grad()
def test_a_prompt_may_come_at_once_and_tokens_after_it(name, value):
    model, texts = made(config(**{name: value})), words(BATCH, 11)
    full, state, first = model(texts), model.start(BATCH), 0
    for last in (4, 5, 6, 9, 10, 11):  # a prompt, two tokens, another piece at once, two tokens
        piece = texts[:, first] if last - first == 1 else texts[:, first:last]
        scores, state = model.step(piece, state)
        assert scores.shape == (BATCH, 13)
        assert state.filled == last
        assert_near(scores, full[:, last - 1])
        first = last


@pytest.mark.parametrize("projection", ["multihead", "split"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@torch.no_grad()
def test_steps_keep_the_precision_of_the_model(projection, dtype):
    model, texts = made(config(projection=projection), dtype), words(BATCH, LENGTH)
    steps, full = decoded(model, texts), model(texts)
    assert steps.dtype == dtype
    if dtype == torch.float64:
        assert_near(steps, full)
    else:
        assert_close(steps, full, rtol=0.1, atol=0.2)


@pytest.mark.parametrize("position", ["learned", "rotary", "alibi"])
@torch.no_grad()
def test_steps_continue_beyond_the_first_size_of_the_caches(position):
    model, texts = made(config(position=position, length=3 * ROOM)), words(BATCH, 2 * ROOM + 3)
    full, state = model(texts), model.start(BATCH)
    assert [cache.length for cache in state.caches] == [ROOM, ROOM]
    scores, state = model.step(texts[:, : ROOM - 1], state)
    assert_near(scores, full[:, ROOM - 2])
    for place in range(ROOM - 1, 2 * ROOM + 3):
        scores, state = model.step(texts[:, place], state)
        assert_near(scores, full[:, place])
    scores, _ = model.step(texts[:, : ROOM + 5], model.start(BATCH))  # a prompt longer than the room
    assert_near(scores, full[:, ROOM + 4])


def test_gradients_flow_through_steps_as_through_the_full_pass():
    model, texts = made(config(position="relative:3")), words(BATCH, LENGTH)
    mix = torch.randn(BATCH, LENGTH, 13, dtype=torch.float64)
    full = torch.autograd.grad((model(texts) * mix).sum(), list(model.parameters()))
    steps = torch.autograd.grad((decoded(model, texts) * mix).sum(), list(model.parameters()))
    for ours, theirs in zip(steps, full, strict=True):
        assert_near(ours, theirs)


@torch.no_grad()
def test_one_text_at_a_time_by_default():
    model, text = made(config()), words(1, LENGTH)
    scores, state = model.step(text, model.start())
    assert_near(scores, model(text)[:, -1])
    assert state.filled == LENGTH
    with pytest.raises(ValueError, match="tokens must have batch=1: got batch=2"):
        model.step(words(2), model.start())


# A beam


@pytest.mark.parametrize(
    "changes",
    [{}, {"position": "rotary"}, {"norm": "batch", "projection": "grouped:1"}, {"score": "additive", "where": "window:2"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "indices", [[[2, 0, 0, 1], [0, 1, 2, 3], [3, 2, 1, 0]], [[0, 0, 2, 2], [1, 1, 3, 2], [0, 0, 3, 3]]],
    ids=["across the batch", "inside beams of two"],
)  # fmt: skip
@torch.no_grad()
def test_reordering_is_decoding_the_reordered_texts(changes, indices):
    model, texts = made(config(**changes)), words(4, 3)
    _, state = model.step(texts, model.start(4))
    for time, listed in enumerate(indices):
        index, before, tokens = torch.tensor(listed), model.alignment(state), words(4, seed=time + 1)
        state, texts = model.reorder(state, index), torch.cat([texts[index], tokens.unsqueeze(1)], dim=1)
        assert_near(model.alignment(state), before[index])
        scores, state = model.step(tokens, state)
        assert_near(scores, model(texts)[:, -1])


@pytest.mark.parametrize(
    "changes",
    [{}, {"position": "rotary"}, {"position": "relative:2"}, {"position": "alibi", "where": "window:2"},
     {"normalizer": "sparsemax", "projection": "collaborative:8"}, {"score": "general", "order": "post"}],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_the_alignment_is_what_look_shows(changes):
    model, texts = made(config(**changes)), words(BATCH, LENGTH)
    with look(model) as whole:
        model(texts)
    weights = whole["decoder.layers.1.self"].weights().mean(1)
    state, first = model.start(BATCH), 0
    for last in (3, 4, 5, LENGTH):
        with look(model) as seen:
            _, state = model.step(texts[:, first:last], state)
        aligned, first = model.alignment(state), last
        assert aligned.shape == (BATCH, last)
        assert_near(aligned, seen["decoder.layers.1.self"].weights()[:, :, -1].mean(1))
        assert_near(aligned, weights[:, last - 1, :last])
        assert_near(aligned.sum(1), torch.ones(BATCH, dtype=aligned.dtype))


def test_look_names_every_layer():
    model = made(config())
    with look(model) as seen:
        model(words(BATCH, LENGTH))
    assert seen.names == ["decoder.layers.0.self", "decoder.layers.1.self"]
    assert seen[seen.names[0]].weights().shape == (BATCH, 3, LENGTH, LENGTH)


# Who sees whom


def test_no_gradient_comes_from_later_words():
    model, kept = made(config()), []
    model.words.register_forward_hook(lambda module, inputs, output: kept.append(output))
    logits, mix = model(words(BATCH, LENGTH)), torch.randn(13, dtype=torch.float64)
    for place in range(LENGTH):
        (gradient,) = torch.autograd.grad((logits[:, place] @ mix).sum(), kept[0], retain_graph=True)
        assert_close(gradient[:, place + 1 :], torch.zeros_like(gradient[:, place + 1 :]), rtol=0, atol=0)
        assert (gradient[:, : place + 1].abs().amax(-1) > 1e-9).all()


@torch.no_grad()
def test_without_a_position_the_past_is_a_bag_of_words():
    """The last place of one layer sees a set; with a position it sees an order."""
    text, shuffled = words(1, LENGTH), words(1, LENGTH)
    shuffled[:, :-1] = shuffled[:, :-1].flip(1)
    for position, same in (("none", True), ("learned", False), ("rotary", False), ("alibi", False)):
        model = made(config(position=position, depth=1))
        difference = (model(text) - model(shuffled))[:, -1].abs().amax()
        assert (difference < 1e-12) == same


# Packing


def packed() -> tuple[list[list[Tensor]], Tensor, Documents, Tensor]:
    """Two rows of three texts each: the texts, the rows, who belongs together, and the positions inside each text."""
    lengths = [[5, 3, 4], [2, 7, 3]]
    texts = [[words(n, seed=10 * row + n) for n in listed] for row, listed in enumerate(lengths)]
    ids = torch.tensor([[number for number, n in enumerate(listed) for _ in range(n)] for listed in lengths])
    positions = torch.stack([torch.cat([torch.arange(n) for n in listed]) for listed in lengths])
    return texts, torch.stack([torch.cat(row) for row in texts]), Documents(ids), positions


@pytest.mark.parametrize("position", GPTCase.values["position"])
@pytest.mark.parametrize("where", ["complete", "window:2", "strided:2", "fixed:3,1"])
@torch.no_grad()
def test_packed_texts_give_what_each_gives_alone(where, position):
    model = made(config(position=position, where=where))
    texts, rows, documents, positions = packed()
    logits = model(rows, documents, positions)
    for row, listed in enumerate(texts):
        first = 0
        for text in listed:
            assert_near(logits[row, first : first + len(text)], model(text.unsqueeze(0))[0])
            first += len(text)


def test_the_loss_of_packed_texts_is_the_mean_over_their_words():
    model = made(config())
    texts, rows, documents, positions = packed()
    wanted = [[words(len(text), seed=len(text)) for text in listed] for listed in texts]
    alone = [
        len(text) * model.loss(text.unsqueeze(0), right.unsqueeze(0), smoothing=0.1)
        for listed, answers in zip(texts, wanted, strict=True)
        for text, right in zip(listed, answers, strict=True)
    ]
    together = model.loss(rows, torch.stack([torch.cat(w) for w in wanted]), documents, positions, smoothing=0.1)
    assert_near(together, sum(alone) / rows.numel())


@torch.no_grad()
def test_packed_texts_without_documents_do_see_each_other():
    model = made(config())
    texts, rows, _, positions = packed()
    assert (model(rows, None, positions)[0, 5:8] - model(texts[0][1].unsqueeze(0))[0]).abs().amax() > 1e-3


# The loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_of_the_logits(smoothing):
    model, texts, wanted = made(config()), words(BATCH, LENGTH), words(BATCH, LENGTH, seed=1)
    wanted[0, :3] = -100
    plain = F.cross_entropy(model(texts).flatten(0, 1), wanted.flatten(), label_smoothing=smoothing)
    loss = model.loss(texts, wanted, smoothing=smoothing)
    assert_close(loss, plain)
    parameters = list(model.parameters())
    for ours, theirs in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(plain, parameters), strict=True):
        assert_close(ours, theirs)


def test_a_loss_without_wanted_words_is_zero():
    model, texts = made(config()), words(BATCH, LENGTH)
    loss = model.loss(texts, torch.full_like(texts, -100))
    assert_close(loss.item(), 0.0)
    loss.backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


# Weights


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_a_tied_output_is_the_table_of_words():
    tied, free = GPT(config(tied=True)), GPT(config(tied=False))
    assert tied.output.weight is tied.words.weight
    assert free.output.weight is not free.words.weight
    assert count(free) - count(tied) == 13 * 24


def test_gpt_2_small_has_its_parameters():
    with torch.device("meta"):
        model = GPT(GPTConfig(vocab=50257, width=768, heads=12, hidden=3072, depth=12, length=1024))
    assert count(model) == 124_439_808  # what transformers counts for "gpt2"


# Errors


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8], ids=str)
@torch.no_grad()
def test_tokens_may_be_integers_of_any_size(dtype):
    model, texts = made(config()), words(BATCH, LENGTH)
    assert_close(model(texts.to(dtype)), model(texts))


@torch.no_grad()
def test_decoding_stops_at_the_end_of_a_learned_table():
    model, texts = made(config(length=5)), words(BATCH, 6)
    _, state = model.step(texts[:, :5], model.start(BATCH))
    with pytest.raises(ValueError, match="positions must lie in the table of 5: got 5 to 5"):
        model.step(texts[:, 5], state)


# Configurations


@torch.no_grad()
def test_a_neighborhood_value_means_what_it_means_as_a_layer():
    """Whatever prints can be read again, also inside other neighborhoods."""
    mixed = PerHead(~Window(1), Causal() & ~Window(1, 1) | Window(0), (Window(1) | Strided(3)) & Causal())
    model, texts = made(config(where=mixed)), words(BATCH, LENGTH)
    with look(model) as seen:
        model(texts)
    weights = seen["decoder.layers.0.self"].weights()
    allowed = (mixed & Causal()).dense(LENGTH, LENGTH).expand_as(weights)
    assert_close(weights > 0, allowed)


@torch.no_grad()
def test_positions_that_jump_reach_the_attention():
    """A window counts positions, not places: after a jump it no longer reaches back, whatever the kind of position."""
    texts, jump = words(1, 4), torch.tensor([[0, 1, 20, 21]])
    other = texts.clone()
    other[:, :2] = (texts[:, :2] + 1) % 13
    for position in ("learned", "rotary"):
        model = made(config(where="window:2", position=position))
        assert_close(model(texts, positions=jump)[:, 2:], model(other, positions=jump)[:, 2:])


def test_a_state_is_continued_once():
    model, texts = made(config()), words(2, 3)
    _, state = model.step(texts[:, 0], model.start(2))
    model.step(texts[:, 1], state)
    for again in (
        lambda: model.step(texts[:, 1], state),
        lambda: model.reorder(state, torch.tensor([1, 0])),
        lambda: model.alignment(state),
    ):
        with pytest.raises(ValueError, match="this state was continued already"):
            again()


def test_steps_under_autocast_and_across_inference_mode():
    model, texts = made(config()).float(), words(2, 3)
    full = model(texts)
    with torch.autocast("cpu", torch.bfloat16):
        state = model.start(2)
        for t in range(3):
            logits, state = model.step(texts[:, t], state)
    assert_close(logits.float(), full[:, -1], rtol=0.1, atol=0.1)
    with torch.inference_mode():
        _, state = model.step(texts[:, 0], model.start(2))
        state = model.reorder(state, torch.tensor([1, 0]))
    with torch.no_grad():
        assert_close(model.alignment(state), torch.ones(2, 1))
        model.step(texts[:, 1], state)
        assert state.caches[0].filled == 2


def test_what_start_and_step_are_not_given():
    model = made(config())
    for wrong in (2.0, "two", torch.zeros(2)):
        with pytest.raises(ValueError, match="start takes a number of texts"):
            model.start(wrong)
    with pytest.raises(ValueError, match="at least one token"):
        model.step(words(2, 0), model.start(2))

"""The reader: answers lie in the passage, end after they start, and are no longer than asked for."""

import copy
import json
import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Causal, PerHead, Window
from mirada.models.reader import Reader, ReaderConfig, Span
from tests.models.stirring import assert_near, stirred, words

SIZES = {"vocab": 13, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29}
BATCH, LENGTH = 2, 11
LENGTHS = torch.tensor([11, 8])
SEGMENTS = torch.tensor([[0] * 4 + [1] * 7, [0] * 3 + [1] * 8])  # the padding of the second belongs to the passage too
PASSAGES = [range(4, 11), range(3, 8)]

VALUES = {
    "order": ["pre", "post"],
    "norm": ["layer", "rms", "batch"],
    "activation": ["relu", "gelu", "gelu-tanh", "silu", "gated"],
    "position": ["sinusoidal", "learned", "rotary", "rotary:layout=interleaved", "relative:3", "alibi", "none"],
    "where": ["complete", "window:2,2", "strided:2", "fixed:4,1", "~window:1", Window(1, 1), PerHead(*[Causal()] * 3)],
    "projection": ["multihead", "grouped:1", "collaborative:8", "split"],
    "score": ["dot", "additive", "general", "concat"],
    "normalizer": ["softmax", "sparsemax"],
}
ONE_BY_ONE = [(name, value) for name, values in VALUES.items() for value in values]


def config(**changes: object) -> ReaderConfig:
    return ReaderConfig(**(SIZES | changes))


def made(config: ReaderConfig, dtype: torch.dtype = torch.float64) -> Reader:
    return stirred(Reader(config), dtype)


def spans(batch: int = 50, seed: int = 0) -> Span:
    """Random scores, with minus infinity outside the second text's passage."""
    scores = torch.randn(2, batch, LENGTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3
    outside = torch.tensor([place not in PASSAGES[1] for place in range(LENGTH)])
    return Span(*scores.masked_fill(outside, -torch.inf))


# The passage


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "padded"])
@torch.no_grad()
def test_only_the_passage_has_scores(lengths):
    span = made(config())(words(BATCH, LENGTH), SEGMENTS, lengths)
    passages = PASSAGES if lengths is not None else [PASSAGES[0], range(3, 11)]
    for scores in span:
        assert scores.shape == (BATCH, LENGTH)
        for row, passage in zip(scores, passages, strict=True):
            assert [place for place in range(LENGTH) if row[place].isfinite()] == list(passage)
            assert (row[~row.isfinite()] == -torch.inf).all()


@torch.no_grad()
def test_scores_are_two_numbers_of_every_place():
    model, texts, kept = made(config()), words(BATCH, LENGTH), []
    model.encoder.register_forward_hook(lambda module, inputs, output: kept.append(output))
    span = model(texts, SEGMENTS, LENGTHS)
    both = kept[0] @ model.ends.weight.T + model.ends.bias
    assert_close(span.start[0, 4:], both[0, 4:, 0])
    assert_close(span.end[1, 3:8], both[1, 3:8, 1])


@torch.no_grad()
def test_the_input_is_the_norm_of_words_segments_and_positions():
    model, texts, kept = made(config()), words(BATCH, LENGTH), []
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    model(texts, SEGMENTS, LENGTHS)
    x = model.words.weight[texts] + model.segments.weight[SEGMENTS] + model.place.position.table[:LENGTH]
    assert_close(kept[0], F.layer_norm(x, (24,), model.norm.weight, model.norm.bias))


def test_question_and_passage_look_at_each_other():
    model, texts = made(config()), words(BATCH, LENGTH)
    with look(model) as seen:
        model(texts, SEGMENTS, LENGTHS)
    assert seen.names == ["encoder.layers.0.self", "encoder.layers.1.self"]
    weights = seen["encoder.layers.1.self"].weights()
    assert (weights[0] > 0).all()
    assert (weights[1, ..., :8] > 0).all()
    assert_close(weights[1, ..., 8:], torch.zeros_like(weights[1, ..., 8:]), rtol=0, atol=0)


@torch.no_grad()
def test_the_question_changes_the_scores():
    model, texts = made(config()), words(BATCH, LENGTH)
    other = texts.clone()
    other[:, 0] = (texts[:, 0] + 1) % 13
    change = (model(other, SEGMENTS, LENGTHS).start - model(texts, SEGMENTS, LENGTHS).start)[0, 4:]
    assert (change.abs() > 1e-6).all()


# The best answer


def best_by_hand(start: Tensor, end: Tensor, longest: int) -> tuple[list[int], float]:
    """Try every span."""
    log_start, log_end = start.log_softmax(-1), end.log_softmax(-1)
    found = max(
        ((float(log_start[s] + log_end[e]), s, e) for s in range(LENGTH) for e in range(s, min(LENGTH, s + longest))),
        key=lambda item: item[0],
    )
    return [found[1], found[2]], found[0]


@pytest.mark.parametrize("longest", [1, 2, 3, 5, 11, 30])
def test_the_best_answer_is_the_likeliest_of_all_spans(longest):
    span = spans()
    places, score = made(config()).best(span, longest)
    assert places.shape == (50, 2)
    assert places.dtype == torch.int64
    for row in range(50):
        expected, log = best_by_hand(span.start[row], span.end[row], longest)
        assert places[row].tolist() == expected
        assert_close(score[row].item(), log)


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_answer_is_a_span_of_the_passage(longest):
    places, score = made(config()).best(spans(200, seed=longest), longest)
    start, end = places.unbind(1)
    assert (end >= start).all()
    assert (end - start < longest).all()
    assert (start >= 3).all()
    assert (end < 8).all()
    assert (score <= 0).all()


def test_the_best_answer_never_ends_before_it_starts():
    """The best start lies behind the best end: both cannot be had."""
    start, end = torch.zeros(1, LENGTH), torch.zeros(1, LENGTH)
    start[0, 7], start[0, 2], end[0, 4], end[0, 9] = 9.0, 5.0, 9.0, 4.0
    places, _ = made(config()).best(Span(start, end))
    assert places.tolist() == [[2, 4]]  # 5 + 9 beats 9 + 4
    places, _ = made(config()).best(Span(start, end), longest=2)
    assert places.tolist() in ([[7, 7]], [[7, 8]], [[3, 4]], [[4, 4]])


def test_the_best_answer_needs_no_gradient():
    model = made(config())
    places, score = model.best(model(words(BATCH, LENGTH), SEGMENTS, LENGTHS))
    assert not places.requires_grad
    assert not score.requires_grad


@pytest.mark.parametrize("longest", [0, -3])
def test_an_answer_has_at_least_one_place(longest):
    with pytest.raises(ValueError, match="longest"):
        made(config()).best(spans(), longest)


def test_no_answer_is_found_where_there_is_no_passage():
    """Either an error, or a row that cannot be mistaken for an answer: no NaN."""
    model = made(config())
    span = model(words(BATCH, LENGTH), torch.zeros_like(SEGMENTS))
    try:
        _, score = model.best(span)
    except ValueError as error:
        assert "passage" in str(error)  # noqa: PT017
    else:
        assert_close(score, torch.full((BATCH,), -torch.inf, dtype=score.dtype))


# The loss


def test_the_loss_is_the_mean_cross_entropy_of_both_ends():
    model, texts = made(config()), words(BATCH, LENGTH)
    span = model(texts, SEGMENTS, LENGTHS)
    start = -(span.start[0].log_softmax(-1)[4] + span.start[1].log_softmax(-1)[3]) / 2
    end = -(span.end[0].log_softmax(-1)[10] + span.end[1].log_softmax(-1)[7]) / 2
    loss = model.loss(texts, SEGMENTS, torch.tensor([4, 3]), torch.tensor([10, 7]), LENGTHS)
    assert_close(loss, (start + end) / 2)
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("starts", "ends", "name"),
    [
        ([3, 5], [5, 6], "starts"),  # a place of the question
        ([4, 5], [2, 6], "ends"),
        ([4, 5], [5, 9], "ends"),  # padding, though its segment is 1
        ([4, 8], [5, 6], "starts"),
        ([4, 5], [11, 6], "ends"),  # beyond the text
        ([-1, 5], [5, 6], "starts"),
    ],
    ids=["question", "question end", "padding end", "padding", "beyond", "negative"],
)
def test_answers_outside_the_passage_are_refused(starts, ends, name):
    with pytest.raises(ValueError, match=f"{name} must lie in the passage"):
        made(config()).loss(words(BATCH, LENGTH), SEGMENTS, torch.tensor(starts), torch.tensor(ends), LENGTHS)


def test_answers_that_end_before_they_start_are_refused():
    with pytest.raises(ValueError, match="ends"):
        made(config()).loss(words(BATCH, LENGTH), SEGMENTS, torch.tensor([6, 5]), torch.tensor([5, 6]), LENGTHS)


def test_one_small_batch_is_learned_by_heart():
    model, texts = Reader(ReaderConfig.tiny()), words(4, 9, seed=1)
    segments = (torch.arange(9) >= torch.tensor([[3], [2], [4], [3]])).long()
    starts, ends = torch.tensor([3, 5, 4, 6]), torch.tensor([5, 5, 8, 7])
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        loss = model.loss(texts, segments, starts, ends)
        if loss < 0.02:
            break
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert loss < 0.05
    places, score = model.eval().best(model(texts, segments))
    assert_close(places, torch.stack([starts, ends], dim=1))
    assert (score > -0.5).all()


# Any combination


def drawn(seed: int) -> tuple[ReaderConfig, torch.dtype]:
    """A random combination of all parts that a configuration accepts, and a precision."""
    chance = random.Random(5000 + seed)
    while True:
        choice = {name: chance.choice(values) for name, values in VALUES.items()}
        try:
            return config(**choice), chance.choice([torch.float32, torch.float64])
        except ValueError:
            continue


def alone(model: Reader, texts: Tensor, sample: int) -> Span:
    """The scores of one text without its padding."""
    n = int(LENGTHS[sample])
    return model(texts[sample : sample + 1, :n], SEGMENTS[sample : sample + 1, :n])


@pytest.mark.parametrize("seed", range(15))
def test_any_combination_just_works(seed):
    chosen, dtype = drawn(seed)
    model, texts = made(chosen, dtype).train(), words(BATCH, LENGTH)
    model.loss(texts, SEGMENTS, torch.tensor([4, 3]), torch.tensor([10, 7]), LENGTHS).backward()
    lost = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert lost == []
    model.eval()
    with torch.no_grad():
        span = model(texts, SEGMENTS, LENGTHS)
        for sample, n in enumerate(LENGTHS.tolist()):
            for ours, theirs in zip(span, alone(model, texts, sample), strict=True):
                assert_near(ours[sample : sample + 1, :n], theirs)


# Padding


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize(
    ("norm", "training"), [("layer", False), ("rms", False), ("batch", False), ("layer", True), ("rms", True)]
)
def test_a_padded_batch_gives_each_text_what_it_gets_alone(norm, training, order):
    model, texts = made(config(norm=norm, order=order)).train(training), words(BATCH, LENGTH)
    span = model(texts, SEGMENTS, LENGTHS)
    places, score = model.best(span)
    starts, ends, losses = torch.tensor([4, 3]), torch.tensor([10, 7]), []
    for sample, n in enumerate(LENGTHS.tolist()):
        single = alone(model, texts, sample)
        for ours, theirs in zip(span, single, strict=True):
            assert_near(ours[sample : sample + 1, :n], theirs)
        own_places, own_score = model.best(single)
        assert_close(places[sample : sample + 1], own_places)
        assert_near(score[sample : sample + 1], own_score)
        here = slice(sample, sample + 1)
        losses.append(model.loss(texts[here, :n], SEGMENTS[here, :n], starts[here], ends[here]))
    assert_near(model.loss(texts, SEGMENTS, starts, ends, LENGTHS), sum(losses) / 2)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_batch_norm_does_not_count_padding(order):
    model, texts = made(config(norm="batch", order=order)).train(), words(BATCH, LENGTH)
    twin, other = copy.deepcopy(model), texts.clone()
    other[1, 8:] = (texts[1, 8:] + 1) % 13
    answers = torch.tensor([4, 3]), torch.tensor([10, 7]), LENGTHS
    assert_close(model.loss(texts, SEGMENTS, *answers), twin.loss(other, SEGMENTS, *answers))
    for (name, ours), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
        assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")


# Permutations


@torch.no_grad()
def test_without_a_position_shuffled_words_give_shuffled_scores():
    order = torch.tensor([5, 3, 10, 0, 8, 4, 2, 1, 9, 7, 6])
    for position in ("none", "learned", "rotary"):
        model, texts = made(config(position=position)), words(BATCH, LENGTH)
        there, back = model(texts, SEGMENTS), model(texts[:, order], SEGMENTS[:, order])
        if position == "none":
            assert_near(back.start, there.start[:, order])
            assert_near(back.end, there.end[:, order])
        else:
            inside = SEGMENTS[:, order] == 1
            assert (back.start - there.start[:, order])[inside].abs().amax() > 1e-3


# Weights and errors


@pytest.mark.parametrize("changes", [{}, {"norm": "batch"}, {"position": "alibi"}], ids=str)
@torch.no_grad()
def test_a_saved_model_says_the_same_bit_for_bit(tmp_path, changes):
    model, texts = made(config(**changes), torch.float32), words(BATCH, LENGTH)
    model.save(tmp_path / "model")
    loaded = Reader.load(tmp_path / "model")
    assert loaded.config == model.config
    assert not loaded.training
    for ours, theirs in zip(loaded(texts, SEGMENTS, LENGTHS), model(texts, SEGMENTS, LENGTHS), strict=True):
        assert_close(ours, theirs, rtol=0, atol=0)


def test_dropout_is_for_training_only():
    model, texts = made(config(dropout=0.5)), words(BATCH, LENGTH)
    assert_close(model(texts, SEGMENTS).end, model(texts, SEGMENTS).end, rtol=0, atol=0)
    model.train()
    assert (model(texts, SEGMENTS).end - model(texts, SEGMENTS).end)[0, 4:].abs().amax() > 1e-3


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([[3, 13]]), r"token ids must lie in 0\.\.12: got 3 to 13\. Was the text read with"),
        (torch.tensor([[-1, 3]]), r"token ids must lie in 0\.\.12: got -1 to 3"),
        (torch.tensor([[1.0]]), "tokens must hold integers: got torch.float32"),
        (torch.zeros(1, 30, dtype=torch.long), r"positions must lie in the table of 29: got 0 to 29\. .*shorten the input"),
        (torch.zeros(3, dtype=torch.long), "batch"),
    ],
    ids=["too large", "negative", "no integers", "too long", "no batch"],
)  # fmt: skip
def test_a_text_that_does_not_fit_is_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        made(config())(tokens, torch.ones_like(tokens, dtype=torch.long))


def test_segments_that_do_not_fit_are_refused():
    model, texts = made(config()), words(BATCH, LENGTH)
    with pytest.raises(ValueError, match=r"a segment for every token: got \(2, 3\) for \(2, 11\)"):
        model(texts, SEGMENTS[:, :3])
    with pytest.raises(ValueError, match=r"segment.* 0\.\.1: got .* to 2"):
        model(texts, SEGMENTS + 1)
    with pytest.raises(ValueError, match="at most the length of the batch: got lengths up to 12, length=11"):
        model(texts, SEGMENTS, torch.tensor([12, 8]))


REFUSED = [
    ({"heads": 5}, "width must be divisible by heads: got width=24, heads=5"),
    ({"vocab": 0}, "ReaderConfig: vocab must be at least 1: got 0"),
    ({"depth": 0}, "depth must be at least 1"),
    ({"length": 0}, "length must be at least 1"),
    ({"dropout": 1}, r"dropout must lie in \[0, 1\): got 1.0"),
    ({"order": "both"}, "unknown order 'both'"),
    ({"position": "rotary", "heads": 8}, "dim must be even: got dim=3"),
    ({"where": "windows:3"}, "Did you mean 'window'"),
    ({"vocab": 13.0}, "vocab must be of type int: got 13.0"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_a_configuration_that_cannot_work_is_refused_when_made(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


# Configurations


def test_the_tiny_model_works():
    model = Reader(ReaderConfig.tiny())
    span = model(words(3, 5), torch.tensor([[0, 0, 1, 1, 1]]).expand(3, -1), torch.tensor([5, 4, 3]))
    places, score = model.best(span)
    assert score.isfinite().all()
    assert (places[:, 1] < torch.tensor([5, 4, 3])).all()


@pytest.mark.parametrize(("name", "value"), ONE_BY_ONE, ids=str)
def test_a_configuration_is_plain_json(name, value):
    ours = config(**{name: value})
    assert ReaderConfig.from_dict(json.loads(json.dumps(ours.to_dict()))) == ours

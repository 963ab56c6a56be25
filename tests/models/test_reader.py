"""The reader: answers lie in the passage, end after they start, and are no longer than asked for."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.models.reader import Reader, ReaderConfig, Span, best_spans, span_mass
from tests.models.stirring import assert_near, stirred, words

SIZES = {"vocab": 13, "width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29}
BATCH, LENGTH = 2, 11
LENGTHS = torch.tensor([11, 8])
SEGMENTS = torch.tensor([[0] * 4 + [1] * 7, [0] * 3 + [1] * 8])  # the padding of the second belongs to the passage too
PASSAGES = [range(4, 11), range(3, 8)]


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


# Marks and neighbors


@torch.no_grad()
def test_a_mark_is_a_vector_next_to_the_word():
    model, texts, kept = made(config(marks=3)), words(BATCH, LENGTH), []
    marks = torch.arange(LENGTH).expand(BATCH, LENGTH) % 3
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    model(texts, SEGMENTS, LENGTHS, marks)
    x = model.words.weight[texts] + model.segments.weight[SEGMENTS] + model.place.position.table[:LENGTH]
    assert_close(kept[0], F.layer_norm(x + model.marks.weight[marks], (24,), model.norm.weight, model.norm.bias))


@pytest.mark.parametrize(
    ("count", "marks", "message"),
    [
        (3, None, "a reader with marks=3 is given a mark for every place"),
        (0, torch.zeros(BATCH, LENGTH, dtype=torch.long), "a reader with marks=0 is not given a mark for every place"),
        (3, torch.zeros(BATCH, 5, dtype=torch.long), r"a mark for every token: got \(2, 5\) for \(2, 11\)"),
        (3, torch.full((BATCH, LENGTH), 3), r"mark ids must lie in 0..2: got 3 to 3"),
    ],
)
def test_marks_that_do_not_fit_are_refused(count, marks, message):
    with pytest.raises(ValueError, match=message):
        made(config(marks=count))(words(BATCH, LENGTH), SEGMENTS, LENGTHS, marks)


@torch.no_grad()
def test_convolutions_add_what_neighbors_say():
    model, texts, kept = made(config(convolutions=1, kernel=3)), words(BATCH, LENGTH), []
    model.encoder.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    model(texts, SEGMENTS)
    x = model.words.weight[texts] + model.segments.weight[SEGMENTS] + model.place.position.table[:LENGTH]
    x = F.layer_norm(x, (24,), model.norm.weight, model.norm.bias)
    layer = model.stems[0].layers[0]
    around = F.pad(x, (0, 0, 1, 1))
    near = torch.cat([around[:, shift : shift + LENGTH] for shift in range(3)], dim=-1)
    kernel = layer.weight.permute(2, 1, 0).flatten(0, 1)  # (kernel width, out)
    assert_close(kept[0], x + torch.relu(near @ kernel + layer.bias))


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


def test_further_answers_come_in_the_order_of_their_scores():
    start, end = (side.log_softmax(-1) for side in spans(4))
    places, scores = best_spans(start, end, longest=3, count=50)
    for row in range(4):
        every = {
            (s, e): float(start[row, s] + end[row, e]) for s in PASSAGES[1] for e in range(s, min(s + 3, PASSAGES[1].stop))
        }  # fmt: skip
        found = [
            tuple(span) for span, score in zip(places[row].tolist(), scores[row].tolist(), strict=True) if score > -99
        ]
        assert set(found) == set(every)
        assert found == sorted(every, key=every.get, reverse=True)
    assert places.shape == (4, 33, 2), "as many as there can be"


@pytest.mark.parametrize("longest", [1, 2, 5, 30])
def test_the_mass_of_spans_is_the_sum_over_all_of_them(longest):
    start, end = (side.log_softmax(-1) for side in spans(4))
    _, scores = best_spans(start, end, longest, count=LENGTH * LENGTH)
    assert_close(span_mass(start, end, longest), scores.logsumexp(1))


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
    model = made(config())
    span = model(words(BATCH, LENGTH), torch.zeros_like(SEGMENTS))
    with pytest.raises(ValueError, match=r"every text needs a passage \(segment 1\) to find an answer in"):
        model.best(span)


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


def alone(model: Reader, texts: Tensor, sample: int) -> Span:
    """The scores of one text without its padding."""
    n = int(LENGTHS[sample])
    return model(texts[sample : sample + 1, :n], SEGMENTS[sample : sample + 1, :n])


# Padding


def test_the_best_answer_of_a_padded_text_is_that_of_the_text_alone():
    model, texts = made(config()), words(BATCH, LENGTH)
    places, score = model.best(model(texts, SEGMENTS, LENGTHS))
    for sample in range(BATCH):
        own_places, own_score = model.best(alone(model, texts, sample))
        assert_close(places[sample : sample + 1], own_places)
        assert_near(score[sample : sample + 1], own_score)


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

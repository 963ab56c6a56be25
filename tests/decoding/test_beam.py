"""Beam search: exhaustive where it is wide enough, a plain one written out, penalties by hand, and its laws."""

import math
from itertools import pairwise, product

import pytest
import torch
from torch.testing import assert_close

from mirada import look
from mirada.decoding.beam import Beam, Candidate, assign_rows
from mirada.decoding.greedy import Greedy
from mirada.decoding.search import AtLeast, Forbid, NoRepeat
from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mirada.models.transformer import Transformer, TransformerConfig
from tests.decoding.models import FIRST, LIMITS, early_end, replay, subject
from tests.decoding.table import Table, random_table
from tests.decoding.test_stepper import BATCH, LENGTHS, MODELS, SOURCE

every_model = pytest.mark.parametrize("name", MODELS)
looking = pytest.mark.parametrize("name", [name for name in MODELS if "without attention" not in name])


@every_model
def test_a_beam_of_one_is_greedy(name):
    model, start, _, _ = subject(name)
    end = early_end(model, start)
    greedy = Greedy()(model, start(), FIRST, end, LIMITS)
    assert any(found.finished for [found] in greedy)
    for [one], [found] in zip(Beam(1)(model, start(), FIRST, end, LIMITS), greedy, strict=True):
        assert (one.tokens, one.finished) == (found.tokens, found.finished)
        assert (one.logprob, one.score) == pytest.approx((found.logprob, found.score), rel=1e-5)


# Exhaustive search


SMALL = {"vocab": 5, "source_vocab": 11, "width": 16, "hidden": 16, "dropout": 0.0, "length": 16}
SEARCHED = {
    "transformer": lambda: Transformer(TransformerConfig(**SMALL, heads=2, depth=1)),
    "bahdanau": lambda: Seq2Seq(Seq2SeqConfig(**SMALL, attention="bahdanau", score="additive")),
    "luong, fed": lambda: Seq2Seq(Seq2SeqConfig(**SMALL, feeding=True)),
}
END, MOST = 4, 3


def all_texts(model, entry: int, penalty: float) -> list[tuple[bool, float, list[int]]]:
    """Every text of at most MOST steps by full passes, as (unfinished, -score, tokens): sorted, best first."""
    texts = []
    for steps in range(1, MOST + 1):
        words = [[0, *text] for text in product([0, 1, 2, 3], repeat=steps - 1)]
        source, lengths = (x[entry].expand(len(words), *x.shape[1:]) for x in (SOURCE, LENGTHS))
        logprobs = model(source, lengths, torch.tensor(words)).log_softmax(-1).tolist()
        for (_, *text), scores in zip(words, logprobs, strict=True):
            own = sum(scores[step][token] for step, token in enumerate(text))
            for last in range(5) if steps == MOST else [END]:
                tokens = text if last == END else [*text, last]
                texts.append((last != END, -(own + scores[-1][last]) / steps**penalty, tokens))
    return sorted(texts)


@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("name", SEARCHED)
@torch.no_grad()
def test_a_wide_beam_is_exhaustive_search(name, penalty):
    model = SEARCHED[name]().eval()
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    wide = Beam(90, penalty, best=90)(
        model, model.start(model.encode(SOURCE, LENGTHS)), torch.zeros(3).long(), END, MOST
    )
    one = Beam(90, penalty)(model, model.start(model.encode(SOURCE, LENGTHS)), torch.zeros(3).long(), END, MOST)
    for entry in range(BATCH):
        texts = all_texts(model, entry, penalty)
        assert len(texts) == len(wide[entry]) == 1 + 4 + 16 + 64
        assert [found.finished for found in wide[entry]] == [True] * 21 + [False] * 64
        assert_close([-found.score for found in wide[entry]], [text[1] for text in texts], rtol=1e-4, atol=1e-4)
        assert sorted(found.tokens for found in wide[entry]) == sorted(text[2] for text in texts)
        assert one[entry][0].tokens == texts[0][2]


# A plain beam, written out


def plain_beam(tables: torch.Tensor, beam: Beam, end: int, most: int) -> list[tuple[list[int], float, bool]]:
    """The same search without any bound: lists of texts, all continuations sorted. One table per step."""
    live, found = [([], 0.0)], []
    for steps in range(1, most + 1):
        following = [
            ([*text, token], logprob + math.log(p))
            for text, logprob in live
            for token, p in enumerate(tables[steps - 1, text[-1] if text else 0].tolist())
        ]
        following.sort(key=lambda pair: -pair[1])
        for text, logprob in following[: beam.size]:
            if text[-1] == end:
                found.append((text[:-1], logprob / steps**beam.length_penalty, True))
        live = [pair for pair in following[: 2 * beam.size] if pair[0][-1] != end][: beam.size]
        if len(found) >= beam.size:
            break
    else:
        found += [(text, logprob / most**beam.length_penalty, False) for text, logprob in live]
    return sorted(found, key=lambda text: (not text[2], -text[1]))[: beam.best]


@pytest.mark.parametrize(
    "beam", [Beam(1), Beam(2), Beam(3, 0.0, best=2), Beam(4, 0.6, best=4), Beam(7, best=3)], ids=str
)
@pytest.mark.parametrize("seed", range(6))
def test_it_finds_what_a_plain_beam_finds(beam, seed):
    """Also with few tokens, entries that leave the batch at different times, and each with its own limit."""
    tables, limits = random_table(9, 8, 6, 6, seed=seed), [1, 2, 3, 4, 6, 8, 9, 9]
    table = Table(tables)
    together = beam(table, table.start(8), torch.zeros(8, dtype=torch.long), 5, limits)
    for entry, found in enumerate(together):
        expected = plain_beam(tables[:, entry].double(), beam, 5, limits[entry])
        assert [(text.tokens, text.finished) for text in found] == [(text[0], text[2]) for text in expected]
        assert [text.score for text in found] == pytest.approx([text[1] for text in expected], rel=1e-5)


def test_a_better_text_may_begin_badly():
    table = torch.full((5, 5), 1e-6)
    table[0, 1], table[0, 2] = 0.6, 0.4  # greedy takes 1, whose continuations are many and unlikely
    table[1, :] = 0.2
    table[2, 3] = 1.0
    table[3, 4] = 1.0
    greedy, beam = (
        search(Table(table), Table(table).start(1), torch.tensor([0]), 4, 6)[0][0] for search in (Greedy(), Beam(2))
    )
    assert greedy.tokens[0] == 1
    assert beam.tokens == [2, 3]
    assert beam.logprob == pytest.approx(math.log(0.4), abs=1e-4)


# Penalties by hand


def test_the_length_penalty_by_hand():
    table = torch.zeros(5, 5)
    table[0, 4], table[0, 1] = 0.5, 0.5  # the end at once, or 1 and the end: half, or four tenths
    table[1, 4], table[1, 2] = 0.8, 0.2
    table[2, 4] = 1.0
    scores = {(): math.log(0.5), (1,): math.log(0.4), (1, 2): math.log(0.1)}
    for penalty, ranked in [(0.0, [[], [1], [1, 2]]), (1.0, [[1], [], [1, 2]]), (4.0, [[1, 2], [1], []])]:
        given = Table(table)
        [found] = Beam(4, penalty, best=3)(given, given.start(1), torch.tensor([0]), 4, 9)
        assert [text.tokens for text in found] == ranked
        for text in found:
            steps = len(text.tokens) + 1
            assert text.score == pytest.approx(scores[(*text.tokens,)] / steps**penalty, abs=1e-6)


def test_coverage_by_hand():
    table = torch.zeros(4, 4)
    table[0, 1], table[0, 2] = 0.6, 0.4
    table[1, 3] = table[2, 3] = 1.0
    looks = torch.tensor([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 0.0]])  # after 0, 1, 2 and 3
    given = Table(table, looks)
    for coverage, best in [(0.0, 1), (1.0, 1), (2.0, 2)]:
        [found] = Beam(2, 0.0, coverage, best=2)(given, given.start(1), torch.tensor([0]), 3, 5, align=True)
        assert [text.tokens for text in found] == [[best], [3 - best]]
        # looked at in all: 1.4, .6 and 0, or .8, 1.2 and 0; more than 1 counts as 1, and 0 not at all
        scores = {1: math.log(0.6) + coverage * math.log(0.6), 2: math.log(0.4) + coverage * math.log(0.8)}
        for text in found:
            assert text.score == pytest.approx(scores[text.tokens[0]], abs=1e-6)
            assert_close(text.alignment, looks[[0, text.tokens[0]]], rtol=0, atol=0)


def test_coverage_does_not_depend_on_padding():
    model, start, alone, _ = subject("transformer")
    beam = Beam(3, coverage=0.4, best=3)
    together = beam(model, start(), FIRST, early_end(model, start), LIMITS)
    for entry in range(BATCH):
        [own] = beam(model, alone(entry), FIRST[entry : entry + 1], early_end(model, start), LIMITS[entry])
        assert [text.tokens for text in own] == [text.tokens for text in together[entry]]
        assert [text.score for text in own] == pytest.approx([text.score for text in together[entry]], rel=1e-4)


def test_coverage_needs_a_source():
    model, start, _, _ = subject("gpt")
    with pytest.raises(ValueError, match="coverage needs a source: this model attends to its own text"):
        Beam(2, coverage=0.1)(model, start(), FIRST, None, 4)


# Its laws, for every model


@every_model
def test_a_batch_is_its_entries_alone(name):
    model, start, alone, _ = subject(name)
    end, beam = early_end(model, start), Beam(4, best=3)
    together = beam(model, start(), FIRST, end, LIMITS)
    for entry in range(BATCH):
        [own] = beam(model, alone(entry), FIRST[entry : entry + 1], end, LIMITS[entry])
        assert [(text.tokens, text.finished) for text in own] == [
            (text.tokens, text.finished) for text in together[entry]
        ]
        assert [text.score for text in own] == pytest.approx([text.score for text in together[entry]], rel=1e-4)


@looking
def test_log_probabilities_and_alignments_are_those_of_its_own_steps(name):
    model, start, _, _ = subject(name)
    end = early_end(model, start)
    for entry, best in enumerate(Beam(4, best=4)(model, start(), FIRST, end, LIMITS, align=True)):
        for found in best:
            assert len(found.alignment) == len(found.tokens) + found.finished
            state = model.reorder(start(), torch.tensor([entry]))
            logprob, looks = replay(model, state, entry, found, end)
            assert found.logprob == pytest.approx(logprob, rel=1e-4, abs=1e-4)
            assert_close(found.alignment, looks, rtol=1e-4, atol=1e-4)


def test_alignments_are_those_of_a_full_pass():
    model, start, _, _ = subject("transformer")
    end = early_end(model, start)
    for entry, best in enumerate(Beam(3, best=3)(model, start(), FIRST, end, LIMITS, align=True)):
        for found in best:
            written = torch.tensor([[int(FIRST[entry]), *found.tokens]])[:, : len(found.alignment)]
            with look(model) as seen, torch.no_grad():
                model(SOURCE[entry : entry + 1], LENGTHS[entry : entry + 1], written)
            weights = seen["decoder.layers.1.cross"].weights().mean(1)[0]
            assert_close(found.alignment, weights, rtol=1e-4, atol=1e-5)


@every_model
def test_the_best_come_first_and_differ(name):
    model, start, _, _ = subject(name)
    for best in Beam(5, best=5)(model, start(), FIRST, early_end(model, start), LIMITS):
        order = [(not text.finished, -text.score) for text in best]
        assert order == sorted(order)
        assert len({(tuple(text.tokens), text.finished) for text in best}) == len(best) == 5


# Rules and economy


def test_rules_hold_in_every_text():
    table = Table(random_table(6, 6))
    [best] = Beam(4, best=4)(
        table, table.start(1), torch.tensor([0]), 5, 8, rules=(Forbid([2]), AtLeast(3), NoRepeat(1))
    )
    for found in best:
        assert 2 not in found.tokens
        assert len(found.tokens) >= 3
        assert len(set(found.tokens)) == len(found.tokens)
        steps = [0, *found.tokens, 5] if found.finished else [0, *found.tokens]
        own = sum(math.log(table.probabilities[pair]) for pair in pairwise(steps))
        assert found.logprob == pytest.approx(own, rel=1e-5)


def test_texts_with_nothing_to_say_are_dropped():
    """Two tokens, none twice: after both, only the end is left."""
    table = Table(random_table(3, 3))
    [best] = Beam(4, best=4)(table, table.start(1), torch.tensor([0]), 2, 9, rules=(NoRepeat(1), AtLeast(2)))
    assert sorted(found.tokens for found in best) == [[0, 1], [1, 0]]
    assert all(found.finished for found in best)


def test_it_stops_when_no_text_can_overtake():
    table = torch.full((3, 3), 0.05)
    table[0, 2] = 0.9  # the end at once: what goes on has .05 of the probability, which 2 steps or 9 do not mend
    given = Table(table)
    [[found]] = Beam(2, 0.5)(given, given.start(1), torch.tensor([0]), 2, 9)
    assert (found.tokens, len(given.rows)) == ([], 1)


def test_it_goes_on_while_a_text_can_overtake():
    table = torch.zeros(4, 4)
    table[0, 3], table[0, 1] = 0.6, 0.4  # -.51 at once; .4 and then only ones: -.92 / 2
    table[1, 3] = 1.0
    given = Table(table)
    [[found]] = Beam(2)(given, given.start(1), torch.tensor([0]), 3, 9)
    assert found.tokens == [1]
    assert len(given.rows) == 2


def test_states_that_stay_are_not_moved():
    """From the second step on each of the two texts has one continuation: no row moves, whichever is the likelier."""
    table = torch.full((6, 6), 1e-9)
    table[0, 1], table[0, 2] = 0.5, 0.4
    table[1, 3], table[3, 1], table[2, 4], table[4, 2] = 0.5, 0.9, 0.9, 0.5
    given = Table(table)
    [best] = Beam(2, best=2)(given, given.start(1), torch.tensor([0]), None, 9)
    assert [found.tokens[:3] for found in best] in ([[1, 3, 1], [2, 4, 2]], [[2, 4, 2], [1, 3, 1]])
    assert given.reorders == 1  # one row became two
    assert given.rows == [1] + [2] * 8


def test_entries_that_are_done_leave_when_they_are_many():
    given = Table(random_table(8, 5, 5))
    Beam(2)(given, given.start(8), torch.zeros(8, dtype=torch.long), None, [1, 1, 3, 3, 5, 6, 7, 8])
    assert given.rows == [8, 12, 12, 8, 8, 6, 4, 2]


def test_seats():
    texts = [Candidate(-1.0, 7, 10), Candidate(-2.0, 6, 11), Candidate(-3.0, 7, 12)]
    assert assign_rows(texts, 6, 3, 3) == [texts[1], texts[0], texts[2]]
    assert assign_rows(texts[:1], 6, 3, 3) == [Candidate(-math.inf, 6, 0), texts[0], Candidate(-math.inf, 8, 0)]
    assert [seat.row for seat in assign_rows([], 4, 1, 3)] == [4, 4, 4]


def test_refusals():
    with pytest.raises(ValueError, match="size must be at least 1: got 0"):
        Beam(0)
    with pytest.raises(ValueError, match=r"best must lie in 1..size=2: got 3"):
        Beam(2, best=3)
    with pytest.raises(ValueError, match="length_penalty must be at least 0 and finite: got -1"):
        Beam(length_penalty=-1)
    with pytest.raises(ValueError, match="coverage must be at least 0 and finite: got nan"):
        Beam(coverage=math.nan)

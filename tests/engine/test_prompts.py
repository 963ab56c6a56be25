"""Prompts that begin like earlier ones: the same bits, and only the rest is read."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from mirada import engine
from mirada.attention.cache import Cache
from mirada.engine.prompts import SHORTEST, Prompts
from mirada.native import decode
from mirada.native.library import reason
from tests.engine.models import gpt, words

needs_compiler = pytest.mark.skipif(reason() is not None, reason=str(reason()))


def caches(length: int) -> list[Cache]:
    return [Cache(torch.rand(1, 2, length, 3), torch.rand(1, 2, length, 3)) for _ in range(2)]


@needs_compiler
@torch.inference_mode()
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_prompt_that_begins_like_another_is_read_from_there(precision: str, monkeypatch: Any) -> None:
    model, turns = gpt(position="rotary"), []
    stepper, fresh, read, steps = (*(engine.fast(model, precision).stepper for _ in range(2)), [], decode.step)
    chat = words(1, 71, seed=3)
    for end in (23, 37, 71, 37):  # each turn goes on from the one before; the last one is asked again
        monkeypatch.setattr(decode, "step", lambda job: read.append(job.rows) or steps(job))
        turns.append(stepper.step(chat[:, :end], stepper.start(1)))
        monkeypatch.undo()
        fresh.decoder.prompts.forget()
        logits, state = fresh.step(chat[:, :end], fresh.start(1))
        assert_close(turns[-1][0], logits, rtol=0, atol=0)
        assert_close(turns[-1][1].kept, state.kept, rtol=0, atol=0)
        following = [each.step(words(1), went)[0] for each, went in ((stepper, turns[-1][1]), (fresh, state))]
        assert_close(*following, rtol=0, atol=0)
    assert read == [23, 1, 14, 1, 34, 1, 1, 1]  # places, and scores


@needs_compiler
@torch.no_grad()
def test_what_is_kept_is_not_what_is_written_later() -> None:
    """A text goes on in its own caches, several prompts share what they begin with, and batches are read whole."""
    stepper, text = engine.fast(gpt()).stepper, words(1, 43, seed=5)
    expected, state = stepper.step(text, stepper.start(1))
    state = stepper.reorder(state, torch.tensor([0, 0]))
    for _ in range(5):
        _, state = stepper.step(words(2, seed=7), state)
    other = torch.cat([text[:, :31], words(1, 11, seed=8)], 1)
    both, _ = stepper.step(torch.cat([text[:, :42], other]), stepper.start(2))
    assert_close(stepper.step(other, stepper.start(1))[0], both[1:], rtol=0, atol=0)
    assert_close(stepper.step(text, stepper.start(1))[0], expected, rtol=0, atol=0)
    assert len(stepper.decoder.prompts.kept) == 2


def test_the_longest_beginning_is_copied_except_its_last_token() -> None:
    known, text, into = Prompts(), torch.arange(40), caches(50)
    sources = {30: caches(50), 20: caches(50)}
    for length, each in sources.items():
        known.keep(torch.cat([text[:length], torch.tensor([length + 71])]), each)
    assert known.recall(text, into) == 30
    for mine, its in zip(into, sources[30], strict=True):
        assert_close(mine.values[:, :, :30], its.values[:, :, :30], rtol=0, atol=0)
        assert_close(mine.keys[:, :, :30], its.keys[:, :, :30], rtol=0, atol=0)
    assert known.recall(text[:29], into) == 28
    assert known.recall(text[:SHORTEST], into) == 0  # a copy of fewer places is not worth it
    assert known.recall(text.flip(0), into) == 0


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    size = 20 * 2 * 2 * 2 * 3 * 4  # of a text of 20 tokens
    known, texts = Prompts(2 * size), [torch.arange(20) + 100 * number for number in range(3)]
    for text in texts[:2]:
        known.keep(text, caches(20))
    known.recall(texts[0], caches(20))
    known.keep(texts[2], caches(20))
    assert [known.recall(text, caches(20)) for text in texts] == [19, 0, 19]
    assert known.bytes == 2 * size
    known.keep(torch.arange(61), caches(61))  # more than there is room for
    assert [known.recall(text, caches(20)) for text in texts] == [19, 0, 19]
    known.keep(torch.cat([texts[0], torch.tensor([7])]), caches(21))  # takes the place of what it begins with
    assert [len(text) for text, _ in known.kept] == [21]
    known.forget()
    assert known.bytes == known.recall(texts[0], caches(20)) == 0

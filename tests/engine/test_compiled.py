"""Compiled steps: sources read and remembered as by the modules, on any number of threads."""

from dataclasses import replace

import pytest
import torch

from mirada import engine
from mirada.engine.compiled import LONGEST, check_lengths
from mirada.native import decode, library
from tests.engine.models import LENGTHS, SIZES, assert_same, gpt, read, transformer, walk, words

pytestmark = pytest.mark.skipif(library.library() is None, reason="nothing is compiled here")


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "none"])
@torch.no_grad()
def test_a_source_is_read_as_by_the_modules(order: str, norm: str, position: str) -> None:
    model = transformer(order=order, norm=norm, position=position)
    stepper = engine.fast(model).stepper
    for batch, length in ((1, 1), (3, 7), (11, 13), (40, 5), (2, LONGEST)):
        if position == "learned" and length > SIZES["length"]:
            continue
        source, lengths = words(batch, length), torch.arange(batch) % length + 1
        for padding in (None, lengths):
            ours, theirs = stepper.encode(source, padding), model.encode(source, padding)
            assert_same(ours.states, theirs.states)
            assert type(ours) is type(theirs)
            assert (ours.padding is None) == (theirs.padding is None)


@torch.no_grad()
def test_sources_that_cannot_be_read_in_one_call_are_read_by_the_modules() -> None:
    model = transformer(position="sinusoidal")
    stepper = engine.fast(model).stepper
    for source in (words(2, LONGEST + 3), words(2, 5).int(), words(0, 5)):
        assert torch.equal(stepper.encode(source).states, model.encode(source).states)
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.60: got"):
        stepper.encode(torch.tensor([[3, 61]]))
    with pytest.raises(ValueError, match="positions must lie in the table of 97"):
        engine.fast(transformer(position="learned")).stepper.encode(words(2, 98))
    with pytest.raises(ValueError, match="lengths must be at most the length of the batch: got lengths up to 8"):
        stepper.encode(words(2, 7), torch.tensor([8, 3]))
    with pytest.raises(ValueError, match="padding lengths must be at least 0: got -1"):
        stepper.encode(words(2, 7), torch.tensor([7, -1]))
    with pytest.raises(ValueError, match=r"source must have the axes \(batch length\)"):
        stepper.encode(words(7))


@torch.no_grad()
def test_why_tokens_are_not_read_in_one_call() -> None:
    reader = engine.fast(transformer(position="learned")).stepper.reader
    assert reader.refuses(words(2, 5)) is None
    assert reader.refuses(words(2, 5).int()) == "it reads int64 tokens on a CPU: got (2, 5) torch.int32 on cpu"
    assert reader.refuses(words(2, LONGEST + 1)) == "it reads up to 128 places: got 129"
    assert reader.refuses(words(2, 98)) == "there is no position 97"


@torch.no_grad()
def test_what_is_remembered_is_what_the_layers_remember() -> None:
    model = transformer(projection="multihead:bias=False")
    stepper = engine.fast(model).stepper
    memory = stepper.encode(words(3, 7), LENGTHS)
    sources = stepper.start(memory).decoding.sources
    for ours, layer in zip(sources, model.decoder.layers, strict=True):
        theirs = layer.cross.remember(memory.states, padding=memory.padding)
        assert_same((ours.keys, ours.values), (theirs.keys, theirs.values))
        assert ours.padding.lengths.tolist() == LENGTHS.tolist()
        assert ours.padding.lengths is not memory.padding.lengths


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 5, 40, 101])
@torch.no_grad()
def test_any_number_of_threads(threads: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "WORTH_A_THREAD", 1)
    model = transformer(width=72, vocab=1003, heads=4)
    stepper = engine.fast(model).stepper
    expected, _ = walk(model, model.start(read(model, model, batch)), 6)
    torch.set_num_threads(threads)
    state = stepper.start(read(model, stepper, batch))
    for time, right in enumerate(expected):
        decode.forget()  # on a busy machine steps might be taken by one thread
        logits, state = stepper.step(words(batch, seed=time), state)
        assert_same(logits, right)
    assert state.decoding.job.threads == threads


@torch.no_grad()
def test_the_number_of_threads_may_change_from_step_to_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "WORTH_A_THREAD", 1)
    model = gpt(vocab=1003)
    stepper = engine.fast(model).stepper
    expected, _ = walk(model, model.start(5), 6)
    state = stepper.start(5)
    for time, right in enumerate(expected):
        torch.set_num_threads(1 + time % 3)
        logits, state = stepper.step(words(5, seed=time), state)
        assert_same(logits, right)


@torch.no_grad()
def test_the_default_dtype_is_none_of_its_business() -> None:
    model, default = transformer(norm="rms"), torch.get_default_dtype()
    results = []
    for dtype in (default, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            stepper = engine.fast(model).stepper
            results.append(walk(stepper, stepper.start(read(model, stepper, 3)), 3)[0])
        finally:
            torch.set_default_dtype(default)
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("entry", [[3, 0, 1], [0, -1, 1]], ids=str)
@torch.no_grad()
def test_c_reads_no_source_that_is_not_there(entry: list[int]) -> None:
    model = transformer()
    stepper = engine.fast(model).stepper
    state = replace(stepper.start(read(model, stepper, 3)), entry=torch.tensor(entry))
    with pytest.raises(ValueError, match="entries must be rows of the sources"):
        stepper.step(words(3), state)


@pytest.mark.parametrize("lengths", [[8, 3], [-1, 3], [7, 3, 2]], ids=str)
def test_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"lengths must be one per source, in 0\.\.7"):
        check_lengths(torch.tensor(lengths), 2, 7)
    check_lengths(torch.tensor([7, 0]), 2, 7)
    assert check_lengths(torch.tensor([], dtype=torch.int64), 0, 7) is None

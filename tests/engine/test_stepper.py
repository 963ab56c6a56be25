"""Steps of an engine: the numbers of the modules, in beams too; nothing is read that was not checked, and nothing shared."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import engine, look
from mirada.decoding.beam import Beam
from mirada.decoding.greedy import Greedy
from mirada.decoding.search import Stepper
from mirada.engine import compiled
from mirada.engine.compiled import BFLOAT16, FLOAT32, INT8, Compiled
from mirada.engine.state import EngineState
from mirada.engine.stepper import Eager
from mirada.layers.stack import ROOM, DecoderState
from mirada.models.transformer import SourceMemory
from mirada.native.library import reason
from tests.engine.models import (
    LENGTHS,
    assert_fast,
    assert_same,
    captioner,
    gpt,
    read,
    transcriber,
    transformer,
    walk,
    whisper,
    words,
)

MAKERS = {
    "transformer": transformer, "gpt": gpt, "transcriber": transcriber, "captioner": captioner, "whisper": whisper,
}  # fmt: skip


@pytest.fixture(params=MAKERS)
def model(request: pytest.FixtureRequest) -> Any:
    return MAKERS[request.param]()


def started(model: Any, stepper: Any, batch: int = 3, lengths: Tensor | None = None) -> Any:
    with torch.no_grad():
        return stepper.start(read(model, stepper, batch, lengths))


# The same numbers

KINDS = list(itertools.product(["layer", "rms"], ["pre", "post"], ["relu", "gelu", "gelu-tanh", "silu"]))


@pytest.mark.parametrize(("norm", "order", "activation"), KINDS)
def test_every_usual_kind_of_layer(way: str, norm: str, order: str, activation: str) -> None:
    fields = {"norm": norm, "order": order, "activation": activation}
    assert_fast(transformer(**fields), steps=5, lengths=LENGTHS)
    assert_fast(gpt(**fields), steps=5)


FACTORS: dict[str, dict[str, Any]] = {
    "rotary": {"position": "rotary"},
    "neighboring pairs": {"position": "rotary:layout=interleaved,base=100"},
    "a part, slower": {"position": "rotary:part=0.5,factor=4"},
    "layers without positions": {"position": "rotary / rotary / none"},
    "alibi": {"position": "alibi"},
    "t5": {"position": "t5:8,9", "norm": "rms"},
    "relative": {"position": "relative:3"},
    "relative keys": {"position": "relative:5,values=no", "score": "dot:0.2"},
    "relative and more": {
        "position": "relative:0 / relative:70 / none",
        "projection": "grouped:1",
        "where": "window:4 / complete",
    },
    "grouped": {"projection": "grouped:1"},
    "two groups": {"projection": "grouped:2,dim=6", "heads": 4},
    "gated": {"activation": "gated"},
    "gated gelu": {"activation": "gated:gelu-tanh,bias=yes", "hidden": 41},
    "windows": {"where": "window:3"},
    "windows in turns": {"where": "complete / window:5"},
    "narrow heads": {"projection": "multihead:bias=qkv,dim=4"},
    "a learned scale": {"score": "dot:learned"},
}
LLAMA = {"position": "rotary", "projection": "grouped:1,bias=no", "activation": "gated", "norm": "rms"}
DECODERS: dict[str, dict[str, Any]] = FACTORS | {
    "llama": LLAMA,
    "qwen": LLAMA | {"projection": "grouped:1,bias=no,qk_norm=1e-6,dim=10"},
    "mistral": LLAMA | {"where": "window:6", "width": 20, "heads": 2, "tied": False},
}


@pytest.mark.parametrize("fields", DECODERS.values(), ids=DECODERS)
def test_every_factor_of_a_decoder(way: str, fields: dict[str, Any]) -> None:
    indices = {2: torch.tensor([1, 0, 1]), 5: torch.tensor([0, 0, 2, 2]), 9: torch.tensor([3, 1])}
    assert_fast(gpt(**fields), steps=72, indices=indices)  # beyond the first tables


@pytest.mark.parametrize("fields", FACTORS.values(), ids=FACTORS)
def test_every_factor_of_a_decoder_with_a_source(way: str, fields: dict[str, Any]) -> None:
    made = transformer(**fields)
    assert_fast(made, steps=11, indices={3: torch.tensor([2, 2, 0, 1])}, lengths=LENGTHS)


@pytest.mark.parametrize(
    "fields", [FACTORS["t5"] | {"output_scale": 0.3}, {"normed_words": True, "position": "learned"}]
)
def test_scaled_outputs_and_normed_words(way: str, fields: dict[str, Any]) -> None:
    assert_fast(transformer(**fields), steps=5, lengths=LENGTHS)


@torch.no_grad()
def test_a_prompt_and_steps_share_rotated_keys(way: str) -> None:
    model = gpt(**DECODERS["qwen"])
    stepper, prompt = engine.fast(model).stepper, words(3, 70)
    logits, state = stepper.step(prompt, stepper.start(3))
    scores, _ = walk(stepper, state, 4)
    expected, other = model.step(prompt, model.start(3))
    assert_same([logits, *scores], [expected, *walk(model, other, 4)[0]])


@pytest.mark.parametrize("position", ["sinusoidal", "sinusoidal:layout=half", "learned", "none"])
@pytest.mark.parametrize("projection", ["multihead", "multihead:dim=5", "multihead:bias=False"])
def test_every_usual_position_and_head(way: str, position: str, projection: str) -> None:
    fields = {"position": position, "projection": projection}
    assert_fast(transformer(**fields, output_bias=True, tied="no"), steps=3, lengths=LENGTHS)
    assert_fast(gpt(**fields, tied=False), steps=3)


@pytest.mark.parametrize("batch", [1, 2, 6, 7, 13, 40, 101])
def test_any_number_of_rows(way: str, batch: int) -> None:
    assert_fast(transformer(score="dot:0.3"), steps=3, batch=batch, lengths=torch.arange(batch) % 7 + 1)
    assert_fast(gpt(), steps=3, batch=batch)


def test_a_transcriber_with_a_pace(way: str) -> None:
    assert_fast(transcriber(pace=2.5), steps=4, lengths=LENGTHS)


@pytest.mark.parametrize("encoder", ["convolution", "coordinates", "patches"])
def test_every_encoder_of_pictures(way: str, encoder: str) -> None:
    assert_fast(captioner(encoder=encoder), steps=3)


def test_every_model_that_is_taken(way: str, model: Any) -> None:
    index = {2: torch.tensor([2, 0, 0]), 3: torch.tensor([0, 0, 1, 1, 2])}
    assert_fast(model, 5, index)
    assert_fast(model, 3, lengths=LENGTHS)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_in_float64(make: Any) -> None:
    model = make(torch.float64, order="post")
    assert_fast(model, 4, {2: torch.tensor([2, 0, 0])}, lengths=LENGTHS)
    assert isinstance(engine.fast(model).stepper.decoder, Eager)


def test_a_model_of_ordinary_size(way: str) -> None:
    """Sums over a thousand numbers still agree."""
    assert_fast(transformer(width=128, heads=4, hidden=1024, vocab=300, depth=3), steps=3, batch=9)


def test_the_backend_is_what_can_be_had(way: str) -> None:
    stepper = engine.fast(transformer()).stepper
    assert isinstance(stepper, Stepper)
    assert type(stepper.decoder) is (Compiled if way == "compiled" else Eager)
    assert stepper.backend == ("compiled" if way == "compiled" else "plain PyTorch")


@torch.no_grad()
def test_greedy_and_beam_write_what_they_write_with_the_model(way: str, model: Any) -> None:
    stepper, first = engine.fast(model).stepper, torch.tensor([3, 4, 5])
    for search in (Greedy(), Beam(size=4, best=2)):
        ours = search(stepper, started(model, stepper), first, 2, 20, align=True)
        theirs = search(model, started(model, model), first, 2, 20, align=True)
        for mine, other in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
            assert mine.tokens == other.tokens
            assert_same(mine.logprob, other.logprob)
            assert_same(mine.alignment, other.alignment)


# Beams

ORDERS = {
    "stay": {2: [0, 1, 2], 4: [0, 1, 2]},
    "mix": {1: [2, 0, 0], 2: [1, 1, 2], 5: [0, 2, 1]},
    "open": {1: [0, 0, 1, 1, 2, 2], 3: [1, 0, 2, 3, 4, 4], 4: [0, 0, 3, 2, 5, 4]},
    "open and leave": {1: [0, 0, 0, 1, 1, 1, 2, 2, 2], 2: [2, 0, 1, 6, 6, 8], 4: [3, 5, 4]},
    "across": {2: [2, 2, 1], 3: [1, 0, 0], 4: [2, 1, 2]},
    "before the first step": {0: [2, 1, 1, 0]},
}


@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
def test_rows_go_on_from_others(way: str, orders: dict[int, list[int]]) -> None:
    indices = {time: torch.tensor(listed) for time, listed in orders.items()}
    for lengths in (None, LENGTHS):
        assert_fast(transformer(), 7, indices, lengths=lengths)
    assert_fast(gpt(), 7, indices)


def test_long_texts_outgrow_the_room_of_the_caches(way: str) -> None:
    steps, indices = ROOM + 9, {time: words(3, vocab=3, seed=time) for time in range(2, ROOM + 8, 5)}
    for model in (transformer(), gpt(position="learned")):
        state = assert_fast(model, steps, indices, lengths=LENGTHS)
        assert min(cache.length for cache in state.decoding.caches) > ROOM


@torch.no_grad()
def test_an_index_is_taken_as_it_was(way: str) -> None:
    """Who called may write to it afterwards, and may have made it in int32."""
    model, results = transformer(), []
    stepper = engine.fast(model).stepper
    for spoil in (False, True):
        index = torch.tensor([2, 0, 1], dtype=torch.int32 if spoil else torch.int64)
        _, state = walk(stepper, started(model, stepper), 2)
        state = stepper.reorder(state, index)
        if spoil:
            index.fill_(10**6)
        results.append(walk(stepper, state, 3, first=2)[0])
    assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("index", [[0, 3], [-1, 0, 1], [[0, 1, 2]], [0.0, 1.0]], ids=str)
@torch.no_grad()
def test_a_reorder_that_fails_changes_nothing(way: str, model: Any, index: list[Any]) -> None:
    for stepper in (engine.fast(model).stepper, model):
        expected, _ = walk(stepper, started(model, stepper), 5, {2: torch.tensor([1, 1, 0])})
        scores, state = walk(stepper, started(model, stepper), 4, {2: torch.tensor([1, 1, 0])})
        with pytest.raises(ValueError, match="the index of reorder must"):
            stepper.reorder(state, torch.tensor(index))
        rest, _ = walk(stepper, state, 1, first=4)
        assert_close([*scores, *rest], expected, rtol=0, atol=0)


@torch.no_grad()
def test_all_entries_may_leave(way: str, model: Any) -> None:
    stepper = engine.fast(model).stepper
    _, state = walk(stepper, started(model, stepper), 2)
    state = stepper.reorder(state, torch.tensor([], dtype=torch.int64))
    logits, state = stepper.step(words(0), state)
    assert logits.shape == (0, 71)
    assert state.batch == 0


# From step to step


@torch.no_grad()
def test_asking_for_alignments_changes_no_later_step(way: str, model: Any) -> None:
    """They are those of the last step, and the caches stay what they were."""
    indices = {2: torch.tensor([2, 0, 0]), 4: torch.tensor([0, 0, 1, 1]), 6: torch.tensor([3, 0, 1, 2])}
    for stepper in (engine.fast(model).stepper, model):
        expected, _ = walk(stepper, started(model, stepper), 9, indices)
        state, scores = started(model, stepper), []
        for time in range(9):
            logits, state = walk(stepper, state, 1, indices, first=time)
            scores += logits
            alignment = stepper.alignment(state)
            assert_same(alignment.sum(1), torch.ones(state.batch))
            assert_close(stepper.alignment(state), alignment, rtol=0, atol=0)
        assert_close(scores, expected, rtol=0, atol=0)


@torch.no_grad()
def test_a_prompt_of_several_tokens(way: str) -> None:
    model = gpt()
    stepper, index = engine.fast(model).stepper, {4: torch.tensor([2, 0, 1]), 6: torch.tensor([1, 1, 0])}
    results = []
    for taken in (stepper, model):
        scores, state = walk(taken, taken.start(3), 5, index)
        logits, state = taken.step(words(3, ROOM, seed=5), state)  # rows were reordered, and the caches must grow
        more, state = walk(taken, state, 4, index, first=5)
        single, state = taken.step(words(3, 1, seed=9), state)
        assert state.filled == ROOM + 10
        results.append([*scores, logits, *more, single, taken.alignment(state)])
    assert_same(*results)


PROMPTED = {
    "relative": {"position": "relative:3"}, "rotary": {"position": "rotary", "where": "window:3"},
    "grouped": {"position": "alibi", "heads": 4, "width": 32, "projection": "grouped:2"},
    "wide": {"position": "alibi", "heads": 2, "width": 96, "where": "window:11"},  # four queries at a time, until the window
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("fields", PROMPTED.values(), ids=PROMPTED)
@pytest.mark.parametrize("precision", [FLOAT32, BFLOAT16, INT8])
def test_a_prompt_has_the_bits_of_single_steps(precision: str, fields: dict[str, Any], monkeypatch: Any) -> None:
    if reason() is not None:
        pytest.skip(str(reason()))
    monkeypatch.setattr(compiled, "AT_ONCE", 11)  # rows of several calls, of which the last has fewer places
    stepper, tokens = engine.fast(gpt(**fields), precision).stepper, words(2, 19)
    prompted = stepper.step(tokens, stepper.start(2))
    state = stepper.start(2)
    for token in tokens.T:
        logits, state = stepper.step(token, state)
    for _ in range(3):
        assert_close(prompted[0], logits, rtol=0, atol=0)
        assert_close(prompted[1].kept, state.kept, rtol=0, atol=0)
        assert_close(stepper.alignment(prompted[1]), stepper.alignment(state), rtol=0, atol=0)
        prompted, (logits, state) = (stepper.step(logits.argmax(-1), each) for each in (prompted[1], state))


@torch.no_grad()
def test_modules_read_no_prompt_that_c_can_read(monkeypatch: Any) -> None:
    if reason() is not None:
        pytest.skip(str(reason()))
    stepper, prompt = engine.fast(gpt()).stepper, words(2, 13)
    monkeypatch.setattr(stepper.model, "step", None)
    assert stepper.step(prompt, stepper.start(2))[1].filled == 13
    monkeypatch.undo()
    with pytest.raises(ValueError, match="71"):
        stepper.step(prompt.index_fill(1, torch.tensor([12]), 71), stepper.start(2))


@torch.no_grad()
def test_a_state_is_continued_once(way: str, model: Any) -> None:
    stepper = engine.fast(model).stepper
    _, state = walk(stepper, started(model, stepper), 2)
    _, after = walk(stepper, state, 1)
    for again in (
        lambda: stepper.step(words(3), state),
        lambda: stepper.reorder(state, torch.tensor([1, 0, 2])),
        lambda: stepper.alignment(state),
        lambda: state.reserve(3),
    ):
        with pytest.raises(ValueError, match="this state was continued already"):
            again()
    stepper.reorder(after, torch.tensor([1, 0, 2]))
    with pytest.raises(ValueError, match="this state was continued already"):
        stepper.step(words(3), after)


@torch.no_grad()
def test_a_state_belongs_to_the_one_that_made_it(way: str, model: Any) -> None:
    one, other = (engine.fast(model).stepper for _ in range(2))
    states = [walk(stepper, started(model, stepper), 2)[1] for stepper in (one, model)]
    for stepper, state in ((other, states[0]), (model, states[0]), (one, states[1])):
        with pytest.raises(ValueError, match=r"made by another model|step takes the DecoderState"):
            stepper.step(words(3), state)
        with pytest.raises(ValueError, match=r"made by another model|step takes the DecoderState"):
            stepper.alignment(state)


@torch.no_grad()
def test_room_may_be_reserved_at_any_time(way: str) -> None:
    model = transformer()
    stepper, index = engine.fast(model).stepper, {2: torch.tensor([1, 1, 0])}
    expected, _ = walk(stepper, started(model, stepper), 6, index)
    scores, state = walk(stepper, started(model, stepper), 3, index)
    state.reserve(300)
    assert min(cache.length for cache in state.decoding.caches) >= 303
    assert_close(scores + walk(stepper, state, 3, first=3)[0], expected)


@torch.no_grad()
def test_scores_belong_to_who_asked_for_them(way: str, model: Any) -> None:
    stepper = engine.fast(model).stepper
    expected, _ = walk(stepper, started(model, stepper), 3)
    state = started(model, stepper)
    for time, right in enumerate(expected):
        logits, state = stepper.step(words(3, seed=time), state)
        assert_close(logits, right)
        logits.fill_(-torch.inf)


@torch.no_grad()
def test_the_same_steps_give_the_same_bits(way: str, model: Any) -> None:
    one, other = (engine.fast(model).stepper for _ in range(2))
    for stepper in (one, other):
        assert_close(
            walk(stepper, started(model, stepper, 5), 4)[0], walk(one, started(model, one, 5), 4)[0], rtol=0, atol=0
        )


def test_steps_inside_and_outside_inference_mode(way: str, model: Any) -> None:
    stepper, index = engine.fast(model).stepper, torch.tensor([1, 1, 0])
    with torch.no_grad():
        expected, _ = walk(stepper, started(model, stepper), 6, {2: index})
    with torch.inference_mode():
        scores, state = walk(stepper, stepper.start(read(model, stepper, 3)), 2)
        state = stepper.reorder(state, index)
        more, state = walk(stepper, state, 2, first=2)
    last, _ = walk(stepper, state, 2, first=4)
    assert_close([*scores, *more, *last], expected, rtol=0, atol=0)


def test_an_engine_made_in_inference_mode_serves_outside_it(way: str) -> None:
    model = gpt()
    with torch.inference_mode():
        stepper = engine.fast(model).stepper
    outside = engine.fast(model).stepper
    assert_close(walk(stepper, stepper.start(3), 3)[0], walk(outside, outside.start(3), 3)[0], rtol=0, atol=0)


def test_no_gradient_is_tracked_and_no_precision_lost(way: str, model: Any) -> None:
    stepper = engine.fast(model).stepper
    expected, _ = walk(stepper, started(model, stepper), 3)
    memory = read(model, model, 3)
    logits, _ = stepper.step(words(3), stepper.start(memory))
    assert not logits.requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        scores, state = walk(stepper, stepper.start(read(model, stepper, 3)), 3)
        assert stepper.alignment(state).dtype == torch.float32
    assert_close(scores, expected, rtol=0, atol=0)


@torch.no_grad()
def test_an_empty_source_loses_no_precision_either(way: str) -> None:
    model, lengths = transformer(), torch.tensor([7, 0, 4])
    stepper = engine.fast(model).stepper
    expected, _ = walk(stepper, started(model, stepper, 3, lengths), 3)
    with torch.autocast("cpu", torch.bfloat16):
        scores, state = walk(stepper, started(model, stepper, 3, lengths), 3)
        assert stepper.alignment(state).dtype == torch.float32
    assert_close(scores, expected, rtol=0, atol=0)


def test_an_engine_is_not_traced() -> None:
    stepper = engine.fast(gpt()).stepper
    state, tokens = stepper.start(2), words(2)

    def traced(x: Tensor) -> Tensor:
        with pytest.raises(ValueError, match="cannot be traced, compiled or transformed: step the model itself"):
            stepper.step(tokens, state)
        return x

    assert torch.func.vmap(traced)(torch.zeros(2)).shape == (2,)
    assert stepper.step(tokens, state)[0].shape == (2, 71)


@torch.no_grad()
def test_evaluation_is_what_it_steps_in(way: str) -> None:
    model = transformer(dropout=0.5)
    before = engine.fast(model).stepper
    after = engine.fast(model.train()).stepper
    ours, theirs = (walk(stepper, started(model, stepper), 3)[0] for stepper in (before, after))
    assert_close(ours, theirs, rtol=0, atol=0)
    assert model.training


@torch.no_grad()
def test_looking_at_the_model_sees_nothing_of_the_engine(way: str, model: Any) -> None:
    stepper = engine.fast(model).stepper
    with look(model) as seen:
        walk(stepper, started(model, stepper), 2)
    assert seen.names == []


# What is wrong is named as by the modules, before anything happens


@torch.no_grad()
def test_wrong_tokens(way: str, model: Any) -> None:
    stepper = engine.fast(model).stepper
    state = started(model, stepper, 2)
    for wrong in ([3, 71], [-1, 3]):
        with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.70: got"):
            stepper.step(torch.tensor(wrong), state)
    for wrong in (words(3), words(2).double(), [3, 4], words(2, 0)):
        with pytest.raises(ValueError, match=r"token|batch"):
            stepper.step(wrong, state)
    scores, _ = walk(stepper, state, 2)  # nothing happened to the state
    assert_close(scores, walk(stepper, started(model, stepper, 2), 2)[0], rtol=0, atol=0)


@torch.no_grad()
def test_places_beyond_a_learned_table(way: str) -> None:
    short = engine.fast(gpt(position="learned", length=4)).stepper
    _, state = walk(short, short.start(2), 4)
    with pytest.raises(ValueError, match="positions must lie in the table of 4: got 4 to 4"):
        short.step(words(2), state)


@torch.no_grad()
def test_integers_of_another_kind(way: str, model: Any) -> None:
    stepper = engine.fast(model).stepper
    ours, _ = stepper.step(words(3).int(), started(model, stepper))
    theirs, _ = stepper.step(words(3), started(model, stepper))
    assert_same(ours, theirs)


@torch.no_grad()
def test_what_start_is_not_given(way: str) -> None:
    one, other = engine.fast(transformer()).stepper, engine.fast(gpt()).stepper
    with pytest.raises(ValueError, match="start takes what encode returned: got int"):
        one.start(3)
    with pytest.raises(ValueError, match="start takes a number of texts: got Tensor"):
        other.start(torch.zeros(2))
    with pytest.raises(ValueError, match="width=24"):
        one.start(SourceMemory(torch.zeros(2, 3, 23), None))
    with pytest.raises(ValueError, match="dtype"):
        one.start(SourceMemory(torch.zeros(2, 3, 24).double(), None))
    assert not hasattr(other, "encode")


# Sources


@pytest.mark.parametrize("changed", [10**9, -(10**9)])
@torch.no_grad()
def test_lengths_that_change_after_the_start_are_not_read(way: str, changed: int) -> None:
    for model in (transformer(), transcriber()):
        stepper = engine.fast(model).stepper
        expected, last = walk(stepper, started(model, stepper, 3, LENGTHS), 4, {2: torch.tensor([1, 0, 2])})
        lengths = LENGTHS.clone()
        memory = read(model, stepper, 3, lengths)
        state = stepper.start(memory)
        lengths.fill_(changed)
        memory.padding.lengths.fill_(changed)
        scores, state = walk(stepper, state, 4, {2: torch.tensor([1, 0, 2])})
        assert_close(scores, expected, rtol=0, atol=0)
        assert_close(stepper.alignment(state), stepper.alignment(last), rtol=0, atol=0)
        with pytest.raises(ValueError, match="Were they changed since the sources were read"):
            stepper.start(memory)


@torch.no_grad()
def test_lengths_may_change_after_a_source_was_read(way: str) -> None:
    model, lengths = transformer(), LENGTHS.clone()
    memories = [stepper.encode(words(3, 7), lengths) for stepper in (engine.fast(model).stepper, model)]
    lengths.zero_()
    assert [memory.padding.lengths.tolist() for memory in memories] == [[7, 4, 5], [7, 4, 5]]


@torch.no_grad()
def test_values_in_the_padding_reach_no_output(way: str) -> None:
    stepper = engine.fast(transformer()).stepper
    memory = stepper.encode(words(3, 7), LENGTHS)
    spoiled = memory.states.masked_fill(torch.arange(7).view(1, 7, 1) >= LENGTHS.view(3, 1, 1), torch.nan)
    clean, dirty = (
        walk(stepper, stepper.start(SourceMemory(x, memory.padding)), 3)[0] for x in (memory.states, spoiled)
    )
    assert_close(dirty, clean)


@pytest.mark.parametrize("lengths", [[7, 0, 4], [7, 7, 7]])
@torch.no_grad()
def test_an_empty_source_gives_what_it_gives_by_the_modules(way: str, lengths: list[int]) -> None:
    model = transformer()
    stepper, index = engine.fast(model).stepper, {1: torch.tensor([1, 1, 2])}
    ours, state = walk(stepper, started(model, stepper, 3, torch.tensor(lengths)), 3, index)
    theirs, other = walk(model, started(model, model, 3, torch.tensor(lengths)), 3, index)
    assert_same(ours, theirs)
    assert_same(stepper.alignment(state), model.alignment(other))
    assert isinstance(state, DecoderState if 0 in lengths else EngineState)


# Threads


@torch.no_grad()
def test_eight_threads_give_the_answers_of_one(way: str, model: Any) -> None:
    stepper, indices = engine.fast(model).stepper, {2: torch.tensor([2, 0, 0]), 5: torch.tensor([0, 0, 1, 1, 2])}

    def answers(number: int) -> list[Tensor]:
        with torch.no_grad():
            state = stepper.start(read(model, stepper, 3, LENGTHS))
            scores, state = walk(stepper, state, ROOM + 5 + number, indices, first=0)
            return [*scores, stepper.alignment(state)]

    expected = [answers(number) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(answers, range(8)))
    assert_close(found, expected, rtol=0, atol=0)

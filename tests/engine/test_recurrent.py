"""Recurrent decoders in an engine: the scores, texts and weights of the modules, for every cell, score and reach."""

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mirada import engine
from mirada.decoding import Beam, Greedy, Sample
from mirada.engine.recurrent import CompiledRecurrent, EagerRecurrent
from mirada.models.captioner import Captioner, CaptionerConfig
from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mirada.models.transcriber import Transcriber, TranscriberConfig
from mirada.native import library
from tests.engine.models import LENGTHS, assert_same, numbers, walk, words
from tests.models.stirring import stirred

SIZES = {"vocab": 71, "source_vocab": 61, "width": 23, "hidden": 26, "half": 2, "length": 16}
SCORES = ["dot", "dot:1.0", "dot:learned", "general", "concat", "concat:none", "additive", "location", "tanhsum"]
LUONG = [
    {"cell": cell, "depth": depth, "score": score, "reach": reach, "feeding": feeding}
    for (cell, depth, feeding), score, reach in itertools.product(
        [("rnn", 1, True), ("gru", 2, False), ("lstm", 2, True)],
        ["dot:1.0", "concat", "location"],
        ["global", "local-m", "local-p"],
    )
] + [{"score": score} for score in SCORES]
BAHDANAU = [
    {"attention": "bahdanau", "cell": cell, "depth": depth, "score": score}
    for cell, depth, score in [("rnn", 2, "additive"), ("gru", 1, "general"), ("lstm", 3, "concat")]
]
WITHOUT = [{"attention": "no", "cell": cell, "depth": 2} for cell in ("rnn", "gru", "lstm")]


def seq2seq(dtype: torch.dtype = torch.float32, **fields: Any) -> Seq2Seq:
    torch.manual_seed(0)
    model = Seq2Seq(
        Seq2SeqConfig(**(SIZES | fields | {"score": fields.get("score", "general").replace("none", "hidden=None")}))
    )
    return stirred(model, dtype, strength=0.1)


def captioner(gaze: str, **fields: Any) -> Captioner:
    torch.manual_seed(0)
    sizes = {"vocab": 71, "width": 24, "heads": 3, "depth": 2, "patch": 4, "decoder_depth": 2, "gaze": gaze}
    return stirred(Captioner(CaptionerConfig(**(sizes | fields))), torch.float32, strength=0.1)


def transcriber() -> Transcriber:
    torch.manual_seed(0)
    sizes = {"vocab": 71, "mels": 5, "width": 24, "heads": 3, "depth": 2, "kind": "luong"}
    return stirred(Transcriber(TranscriberConfig(**sizes)), torch.float32, strength=0.1)


def begun(model: Any, stepper: Any, lengths: Any = LENGTHS) -> Any:
    if isinstance(model, Seq2Seq):
        return stepper.start(stepper.encode(words(3, 7, seed=1), lengths))
    if isinstance(model, Transcriber):
        return stepper.start(stepper.encode(numbers(3, 23, 5, like=model), None if lengths is None else 3 * lengths))
    return stepper.start(stepper.encode(numbers(3, 3, 16, 16, like=model)))


@torch.no_grad()
def assert_stepped(model: Any, dtype: torch.dtype = torch.float32) -> engine.Engine:
    """Scores and weights of steps and reorders are those of the modules."""
    made = engine.fast(model)
    assert made.reason is None
    indices = {2: torch.tensor([2, 0, 0, 1]), 4: torch.tensor([3, 1]), 5: torch.tensor([1, 1])}
    for lengths in (None, LENGTHS):
        ours, theirs = begun(model, made.stepper, lengths), begun(model, model, lengths)
        for time in range(9):
            mine, ours = walk(made.stepper, ours, 1, indices, first=time)
            other, theirs = walk(model, theirs, 1, indices, first=time)
            assert_same(mine, other, dtype)
            if getattr(getattr(model, "config", None), "attention", "") != "no":
                assert_same(made.stepper.alignment(ours), model.alignment(theirs), dtype)
    return made


@pytest.mark.parametrize(
    "fields", [*LUONG, *BAHDANAU, *WITHOUT], ids=lambda fields: "-".join(map(str, fields.values()))
)
def test_every_recurrent_decoder_steps_as_its_modules_do(way: str, fields: dict[str, Any]) -> None:
    made = assert_stepped(seq2seq(**fields))
    compiled = way == "compiled" and fields.get("score") != "tanhsum"
    assert type(made.stepper.decoder) is (CompiledRecurrent if compiled else EagerRecurrent)


@pytest.mark.parametrize("gaze", ["softmax", "hard", "hard:0.5", "gumbel", "straightthrough", "sparsemax"])
@pytest.mark.parametrize("encoder", ["convolution", "patches"])
def test_captioners_step_as_their_modules_do(way: str, gaze: str, encoder: str) -> None:
    assert_stepped(captioner(gaze, encoder=encoder))


def test_transcribers_step_as_their_modules_do(way: str) -> None:
    assert_stepped(transcriber())


def test_in_float64() -> None:
    assert_stepped(seq2seq(torch.float64, cell="lstm", reach="local-p", feeding=True), torch.float64)


MAKERS = {
    "luong": lambda: seq2seq(cell="lstm", feeding=True, reach="local-p"), "bahdanau": lambda: seq2seq(**BAHDANAU[1]),
    "hard": lambda: captioner("hard"), "transcriber": transcriber,
}  # fmt: skip
LAYERS = {
    "luong": "decoder.attention", "bahdanau": "decoder.attention", "hard": "decoder.cell.attention",
    "transcriber": "body.decoder.attention",
}  # fmt: skip


@pytest.mark.parametrize(
    "search", [Greedy(), Beam(size=3, best=2), Sample(seed=5)], ids=lambda search: type(search).__name__
)
@pytest.mark.parametrize("name", MAKERS)
def test_searches_write_and_watch_as_with_the_model(way: str, name: str, search: Any) -> None:
    model = MAKERS[name]()
    found = []
    for stepper in (engine.fast(model).stepper, model):
        stepper = engine.watched(stepper, {LAYERS[name]: []})
        found.append(search(stepper, begun(model, stepper), torch.tensor([3, 4, 5]), 2, [6, 9, 4], align=True))
    for mine, other in zip(itertools.chain(*found[0]), itertools.chain(*found[1]), strict=True):
        assert mine.tokens == other.tokens
        assert_same(mine.logprob, other.logprob)
        assert_same(mine.alignment, other.alignment)
        assert_same(mine.rows, other.rows)
        assert_close(mine.rows[0][0], mine.alignment, rtol=0, atol=0)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("batch", [5, 67])
@torch.no_grad()
def test_any_number_of_threads(way: str, threads: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "WORTH_A_THREAD", 1)
    model = seq2seq(cell="lstm", attention="bahdanau", score="additive")
    stepper, source = engine.fast(model).stepper, words(batch, 7, seed=1)
    expected, _ = walk(model, model.start(model.encode(source)), 8)
    torch.set_num_threads(threads)
    assert_same(walk(stepper, stepper.start(stepper.encode(source)), 8)[0], expected)


@pytest.mark.skipif(library.library() is None, reason="nothing is compiled here")
@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("name", MAKERS)
@torch.no_grad()
def test_rounded_weights_are_close(name: str, precision: str) -> None:
    model = MAKERS[name]()
    made, exact = engine.fast(model, precision=precision), engine.fast(model)
    ours, theirs = (torch.stack(walk(each.stepper, begun(model, each.stepper), 5)[0]) for each in (made, exact))
    assert 0 < (ours - theirs).std() / theirs.std() < 0.1
    assert precision in repr(made)
    assert made.holds(model)
    with pytest.raises(ValueError, match="no compiled step has Attention"):
        engine.fast(captioner("sparsemax"), precision="int8")


@torch.no_grad()
def test_a_state_may_be_continued_twice(way: str) -> None:
    model = seq2seq(feeding=True)
    stepper = engine.fast(model).stepper
    _, state = walk(stepper, begun(model, stepper), 2)
    one, other = (walk(stepper, state, 3, first=2)[0] for _ in range(2))
    assert_close(one, other, rtol=0, atol=0)


@torch.no_grad()
def test_what_is_wrong_is_named_as_by_the_model(way: str) -> None:
    model = seq2seq()
    stepper = engine.fast(model).stepper
    state = begun(model, stepper)
    with pytest.raises(ValueError, match="there is no alignment before the first step"):
        stepper.alignment(state)
    with pytest.raises(ValueError, match=r"token ids must lie in 0\.\.70: got 3 to 71"):
        stepper.step(torch.tensor([3, 71, 4]), state)
    with pytest.raises(ValueError, match="tokens must"):
        stepper.step(torch.tensor([3, 4]), state)
    with pytest.raises(ValueError, match="this state was made by another model"):
        engine.fast(model).stepper.step(torch.tensor([3, 4, 5]), state)
    with pytest.raises(ValueError, match="the index of reorder must name entries"):
        stepper.reorder(state, torch.tensor([3]))
    with pytest.raises(ValueError, match="start takes what encode returned"):
        stepper.start(3)
    plain = engine.fast(seq2seq(attention="no"))
    with pytest.raises(ValueError, match="a decoder without attention has no alignment"):
        plain.stepper.alignment(begun(seq2seq(), plain.stepper))
    long = engine.fast(seq2seq(score="location"))
    with pytest.raises(ValueError, match="Location has rows for max_keys=16: got keys=17"):
        long.stepper.start(long.stepper.encode(words(2, 17)))


SMALLER = {
    "decoder.cell.read.0": (78, 48), "decoder.cell.carry.0": (78, 25), "decoder.cell.bias.0": (77,),
    "decoder.combine.weight": (26, 51), "decoder.attention.score.weight": (1, 26, 25), "output.weight": (70, 26),
    "decoder.attention.position.weight": (26, 25),
}  # fmt: skip


@pytest.mark.parametrize(("name", "size"), SMALLER.items(), ids=SMALLER)
def test_weights_of_another_size_are_never_read(name: str, size: tuple[int, ...]) -> None:
    model = seq2seq(reach="local-p")
    owner, _, last = name.rpartition(".")
    setattr(model.get_submodule(owner), last, nn.Parameter(torch.zeros(size)))
    assert "has the shape" in str(engine.fast(model).reason)

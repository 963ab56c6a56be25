"""Texts that are written together are those that are written alone, whenever they join and leave."""

import random
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from mirada import engine
from mirada.decoding import Beam, Forbid, Greedy, NoRepeat, Sample
from mirada.decoding.continuous import ContinuousSearch, Joined, SearchJob
from mirada.engine import shared
from mirada.engine.shared import SharedRows
from mirada.models.gpt import GPT
from mirada.native import library
from tests.engine.models import gpt, read, transformer, words

pytestmark = pytest.mark.skipif(library.library() is None, reason=f"nothing is compiled here: {library.reason()}")
MODELS: dict[str, Any] = {
    "transformer": lambda: transformer(),
    "rotary": lambda: transformer(position="rotary", order="post"),
    "gpt": lambda: gpt(),
    "grouped": lambda: gpt(projection="grouped:3", position="alibi"),
    "rms": lambda: gpt(position="rotary", norm="rms"),
}
HEADS: dict[str, Any] = {"transformer": {"decoder.layers.0.cross": [1], "decoder.layers.1.self": []}}
WAYS = [Greedy(), Sample(seed=5), Sample(temperature=0.7, top_k=9, seed=1)]
RULES = [(), (Forbid((3, 5)),), (Forbid((3, 5)), NoRepeat(1))]


def job_of(model: Any, stepper: Any, number: int, align: bool) -> SearchJob:
    """The search for one text or more, with a prompt or sources of another length for every number."""
    chance = random.Random(number)
    batch, prompt = chance.choice([1, 1, 3]), chance.randint(0, 6)
    lengths = None if isinstance(model, GPT) else torch.tensor([chance.randint(1, 7) for _ in range(batch)])
    state = stepper.start(read(model, stepper, batch, lengths))
    if prompt and isinstance(model, GPT):
        _, state = stepper.step(words(batch, prompt, seed=number), state)
    most = [chance.randint(1, 40) for _ in range(batch)]
    first, numbers = words(batch, seed=number + 1), [number + row for row in range(batch)]
    arguments = {"stepper": stepper, "state": state, "first": first, "end": [2, 7], "most": most, "numbers": numbers}
    return SearchJob(chance.choice(WAYS), arguments | {"rules": chance.choice(RULES), "align": align})


def together(search: ContinuousSearch, jobs: list[SearchJob]) -> dict[int, Any]:
    """What is found where each joins as soon as there is room."""
    waiting, going, found = list(enumerate(jobs)), dict[Joined, int](), dict[int, Any]()
    while waiting or len(search):
        while waiting and (joined := search.join(waiting[0][1])):
            going[joined] = waiting.pop(0)[0]  # type: ignore[index]
        for done in search.step():
            assert done.error is None
            found[going.pop(done)] = done.hypotheses
    return found


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_texts_are_those_that_are_written_alone(name: str, align: bool) -> None:
    model = MODELS[name]().eval()
    plain = engine.fast(model).stepper
    stepper = engine.watched(plain, HEADS[name]) if align and name in HEADS else plain
    search = ContinuousSearch(SharedRows(stepper, most=7))
    found = together(search, [job_of(model, stepper, number, align) for number in range(20)])
    for number in range(20):
        alone = job_of(model, stepper, number, align).alone()
        for (mine,), (its,) in zip(found[number], alone, strict=True):
            assert mine.tokens == its.tokens
            assert mine.finished == its.finished
            assert mine.logprob == pytest.approx(its.logprob, rel=1e-5)
            if align:
                keys = mine.alignment.shape[1]
                assert_close(mine.alignment, its.alignment[:, :keys])
                assert not its.alignment[:, keys:].any()  # padding
                assert_close(
                    mine.rows, tuple(rows[..., : own.shape[2]] for rows, own in zip(its.rows, mine.rows, strict=True))
                )
    assert search.rows.used == {}  # type: ignore[attr-defined]


def test_one_that_fails_hinders_no_other_and_one_that_leaves_is_forgotten() -> None:
    model = gpt().eval()
    stepper = engine.fast(model).stepper
    search, jobs = (
        ContinuousSearch(SharedRows(stepper)),
        [job_of(model, stepper, number, False) for number in (1, 2, 3)],
    )
    for job in jobs:
        job.arguments.update({"end": None, "most": 9})
    jobs[1].arguments["rules"] = (Forbid(tuple(range(71))),)
    first, second, third = (search.join(job) for job in jobs)
    (failed,) = search.step()
    assert failed is second
    assert "no token may come next" in str(failed.error)
    search.leave(third)
    while len(search):
        assert set(search.step()) <= {first}
    alone = job_of(model, stepper, 1, False)
    alone.arguments.update({"end": None, "most": 9})
    assert first.hypotheses[0][0].tokens == alone.alone()[0][0].tokens


def test_what_cannot_join_is_made_alone_and_what_does_not_fit_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpt().eval()
    stepper, start = engine.fast(model).stepper, {"first": torch.tensor([1]), "end": None, "most": 30}
    jobs = [SearchJob(Greedy(), {"stepper": stepper, "state": stepper.start(1), **start}) for _ in range(4)]
    search = ContinuousSearch(SharedRows(stepper, most=2))
    assert search.join(SearchJob(Beam(), jobs[3].arguments)) is None
    assert search.join(SearchJob(Greedy(), jobs[3].arguments | {"most": 98})) is None  # there is no such position
    assert search.join(jobs[0])
    assert search.join(jobs[1])
    assert search.join(jobs[2]) is False
    monkeypatch.setattr(shared, "MOST_BYTES", 1)
    search = ContinuousSearch(SharedRows(stepper))
    assert search.join(jobs[2])  # a single one always fits
    assert search.join(jobs[3]) is False
    assert not SharedRows.serves(model)
    assert not SharedRows.serves(engine.fast(transformer().eval()).stepper)  # it reads sources too quickly

"""A run answers with the weights that its model has now, also after they were changed, inside `look`, and from any thread."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from mirada import look
from mirada.runs.load import load
from mirada.runs.run import Run
from tests.runs.small import SIZES, pairs, text, trained, write_rows

SENTENCES = ["we buy the red car.", "I see a house.", "they have the small old red table."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = write_rows(tmp_path_factory.mktemp("data") / "pairs.tsv", pairs())
    keys = (*SIZES, "steps=60", "validate=30", "lr=5e-3", "dropout=0", "vocab=200")
    return trained("translate", data, tmp_path_factory.mktemp("run") / "es", *keys).folder


@pytest.fixture
def run(folder: Path) -> Run:
    return load(folder)


def through_modules(run: Run, **ask) -> list[tuple[str, float]]:
    """The answer of the run inside `look`: the model itself takes every step."""
    with look(run.model):
        return [(answer.text, answer.score) for answer in run(SENTENCES, **ask)]


def one_number(model: nn.Module) -> None:
    model.get_parameter("decoder.layers.0.cross.heads.out.bias").data[3] += 40.0


def optimizer_step(model: nn.Module) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, fused=True)
    model.loss(*(torch.full((1, 3), 7) for _ in range(1)), None, *(torch.full((1, 3), 9) for _ in range(2))).backward()
    optimizer.step()


def loaded_state(model: nn.Module) -> None:
    state = {name: value.flip(0) for name, value in model.state_dict().items()}
    model.load_state_dict(state)


def swapped_module(model: nn.Module) -> None:
    model.decoder.layers[0].feed.widen = nn.Linear(32, 64)


@pytest.mark.parametrize("change", [one_number, optimizer_step, loaded_state, swapped_module])
def test_the_next_answer_has_the_weights_as_they_are(run: Run, change: Callable[[nn.Module], None]) -> None:
    before = [(answer.text, answer.score) for answer in run(SENTENCES)]
    change(run.model)
    after = [(answer.text, answer.score) for answer in run(SENTENCES)]
    assert after != before
    wanted = through_modules(run)
    assert [text for text, _ in after] == [text for text, _ in wanted]
    torch.testing.assert_close([score for _, score in after], [score for _, score in wanted], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ask", [{}, {"beam": 3}], ids=str)
def test_tokens_stay_the_same_inside_look_and_no_step_is_taken_twice(run: Run, ask: dict) -> None:
    plain = [answer.text for answer in run(SENTENCES, **ask)]
    with look(run.model) as seen:
        looked = [answer.text for answer in run(SENTENCES, **ask)]
    assert looked == plain
    steps = seen["decoder.layers.0.cross"].calls
    longest = max(len(answer.written) for answer in run(SENTENCES, **ask)) + 1
    assert len(steps) <= 2 * longest + 10, "a call for every step of the longest text, or till the limit"
    assert [call.queries for call in steps] == [1] * len(steps)


def test_the_engine_is_kept_while_the_weights_are(run: Run) -> None:
    first = run.stepper
    run(SENTENCES)
    assert run.stepper is first
    one_number(run.model)
    assert run.stepper is not first


@pytest.mark.parametrize("ask", [{}, {"beam": 4}, {"temperature": 1.0, "seed": 3}], ids=str)
def test_eight_threads_give_the_answers_of_one(run: Run, ask: dict) -> None:
    inputs = [source for source, _ in pairs()[:24]]
    alone = [run(text, **ask).text for text in inputs]
    with ThreadPoolExecutor(8) as pool:
        for found in [pool.map(lambda text: run(text, **ask).text, inputs) for _ in range(3)]:
            assert list(found) == alone


def test_eight_threads_write_what_one_writes(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(text(), encoding="utf-8")
    run = trained("write", str(tmp_path / "text.txt"), tmp_path / "run", *SIZES, "steps=4", "length=32")
    prompts = ["We buy", "I see", "They", "the red", "It is", "a", "We", "house"] * 3
    alone = [run(prompt, tokens=30, seed=1).text for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda prompt: run(prompt, tokens=30, seed=1).text, prompts)) == alone

"""Whatever can take a step can be searched: one loop drives every model that generates."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.decoding.search import Stepper
from mirada.models.bert import BERT, BERTConfig
from mirada.models.captioner import Captioner, CaptionerConfig
from mirada.models.classifier import Classifier, ClassifierConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mirada.models.transcriber import Transcriber, TranscriberConfig
from mirada.models.transformer import Transformer, TransformerConfig

BATCH, STEPS, VOCAB = 3, 7, 13
SOURCE, LENGTHS = torch.randint(11, (BATCH, 5), generator=torch.Generator().manual_seed(0)), torch.tensor([5, 2, 4])
PICTURES = torch.randn(BATCH, 3, 16, 16, generator=torch.Generator().manual_seed(1))
FRAMES, FRAME_LENGTHS = torch.randn(BATCH, 23, 5, generator=torch.Generator().manual_seed(2)), torch.tensor([23, 9, 14])
SMALL = {"vocab": 13, "width": 16, "heads": 2, "hidden": 32, "dropout": 0.0, "length": 32}


class Task(NamedTuple):
    """A model, what it made of its source, its full pass over known texts, and the size of what it aligns with."""

    model: Any
    memory: Callable[[], Any]
    full: Callable[[Tensor], Tensor]
    keys: Callable[[int], int]  # by the number of steps taken


def translate(model: Transformer | Seq2Seq) -> Task:
    return Task(model, lambda: model.encode(SOURCE, LENGTHS), lambda t: model(SOURCE, LENGTHS, t), lambda steps: 5)


def write(model: GPT) -> Task:
    return Task(model, lambda: BATCH, model, lambda steps: steps)


def caption(model: Captioner) -> Task:
    cells = model.encode(PICTURES).cells.shape[1]
    return Task(model, lambda: model.encode(PICTURES), lambda t: model(PICTURES, t), lambda steps: cells)


def transcribe(model: Transcriber) -> Task:
    heard = model.encode(FRAMES, FRAME_LENGTHS).states.shape[1]
    full = partial(model, FRAMES, FRAME_LENGTHS)
    return Task(model, partial(model.encode, FRAMES, FRAME_LENGTHS), full, lambda steps: heard)


TASKS = {Transformer: translate, Seq2Seq: translate, GPT: write, Captioner: caption, Transcriber: transcribe}

RECURRENT = {"vocab": 13, "source_vocab": 11, "width": 6, "hidden": 8, "dropout": 0.0, "half": 2, "length": 16}
PATCHES = {"encoder": "patches", "decoder": "transformer", "decoder_depth": 2}
MODELS: dict[str, Callable[[], Any]] = {
    "transformer": lambda: Transformer(TransformerConfig.tiny()),
    "post-norm transformer": lambda: Transformer(
        TransformerConfig(**SMALL, source_vocab=11, depth=2, order="post", position="rotary")
    ),
    "gpt": lambda: GPT(GPTConfig.tiny()),
    "gpt with alibi": lambda: GPT(GPTConfig(**SMALL, depth=2, position="alibi", where="window:3")),
    "luong": lambda: Seq2Seq(Seq2SeqConfig.tiny()),
    "luong, fed": lambda: Seq2Seq(Seq2SeqConfig(**RECURRENT, feeding=True, cell="lstm", depth=2)),
    "luong local-m": lambda: Seq2Seq(Seq2SeqConfig(**RECURRENT, reach="local-m")),
    "luong local-p": lambda: Seq2Seq(Seq2SeqConfig(**RECURRENT, reach="local-p")),
    "bahdanau": lambda: Seq2Seq(Seq2SeqConfig(**RECURRENT, attention="bahdanau", score="additive")),
    "seq2seq without attention": lambda: Seq2Seq(Seq2SeqConfig(**RECURRENT, attention="no")),
    "captioner": lambda: Captioner(CaptionerConfig.tiny()),
    "captioner of patches": lambda: Captioner(CaptionerConfig(**SMALL, **PATCHES, depth=1, patch=4)),
    "transcriber": lambda: Transcriber(TranscriberConfig.tiny()),
    "recurrent transcriber": lambda: Transcriber(TranscriberConfig(**SMALL, mels=5, depth=1, kind="luong")),
}


@pytest.fixture(params=MODELS)
def task(request: pytest.FixtureRequest) -> Task:
    """A task for each kind of model, with random numbers in every parameter."""
    model = MODELS[request.param]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        return TASKS[type(model)](model)


@torch.no_grad()
def greedy(model: Stepper, memory: Any, batch: int, steps: int) -> tuple[Tensor, Tensor, Any]:
    """The likeliest token after each, beginning with token 0: the texts, the scores of every step and the last state."""
    state, tokens, texts, scores = model.start(memory), torch.zeros(batch, dtype=torch.long), [], []
    for _ in range(steps):
        texts.append(tokens)
        logits, state = model.step(tokens, state)
        scores.append(logits)
        tokens = logits.argmax(-1)
    return torch.stack(texts, dim=1), torch.stack(scores, dim=1), state


def close(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_every_generating_model_is_a_stepper(task):
    assert isinstance(task.model, Stepper)


def test_other_models_are_not_steppers():
    assert not isinstance(BERT(BERTConfig.tiny()), Stepper)
    assert not isinstance(Classifier(ClassifierConfig.tiny()), Stepper)
    assert not isinstance(object(), Stepper)


def test_one_loop_drives_them_all(task):
    """Each step gives the scores of the full pass over the text so far, and the full pass chooses the same words."""
    texts, scores, _ = greedy(task.model, task.memory(), BATCH, STEPS)
    assert scores.shape == (BATCH, STEPS, VOCAB)
    with torch.no_grad():
        full = task.full(texts)
    close(scores, full)
    assert_close(full.argmax(-1)[:, :-1], texts[:, 1:])


def test_a_loop_can_be_run_again_from_the_same_memory(task):
    with torch.no_grad():
        memory = task.memory()
    first, again = (greedy(task.model, memory, BATCH, STEPS)[1] for _ in range(2))
    assert_close(first, again, rtol=0, atol=0)


@torch.no_grad()
def test_a_reordered_state_goes_on_from_the_entries_it_was_given(task):
    _, _, state = greedy(task.model, task.memory(), BATCH, 3)
    index, tokens = torch.tensor([2, 0, 0]), torch.tensor([4, 9, 1])
    logits, after = task.model.step(tokens, task.model.reorder(state, index))
    for entry, origin in enumerate(index.tolist()):  # the same step of the entry it goes on from, in its old place
        _, _, unmoved = greedy(task.model, task.memory(), BATCH, 3)
        own = tokens[entry].expand(BATCH)
        close(logits[entry], task.model.step(own, unmoved)[0][origin])
    again, _ = task.model.step(tokens, after)
    assert again.shape == (BATCH, VOCAB)


@torch.no_grad()
def test_a_state_is_refused_by_another_model(task):
    """It would be answered with the first one's keys and values."""
    _, _, state = greedy(task.model, task.memory(), BATCH, 3)
    other, tokens = copy.deepcopy(task.model), torch.tensor([4, 9, 1])
    with pytest.raises(ValueError, match="this state was made by another model"):
        other.step(tokens, state)
    logits, _ = task.model.step(tokens, state)
    assert logits.shape == (BATCH, VOCAB)


@pytest.mark.parametrize("index", [[0, 3], [-1, 0, 1], [[0, 1, 2]], [0.0, 1.0]], ids=str)
@torch.no_grad()
def test_a_reorder_that_fails_changes_nothing(task, index):
    tokens, results = torch.tensor([4, 9, 1]), []
    for failing in (False, True):
        _, _, state = greedy(task.model, task.memory(), BATCH, 3)
        if failing:
            with pytest.raises(ValueError, match="the index of reorder must"):
                task.model.reorder(state, torch.tensor(index))
        results.append(task.model.step(tokens, task.model.reorder(state, torch.tensor([2, 0, 0])))[0])
    assert_close(*results, rtol=0, atol=0)


@torch.no_grad()
def test_asking_for_alignments_changes_no_later_step(task):
    if isinstance(task.model, Seq2Seq) and task.model.config.attention == "no":
        pytest.skip("it has no alignment")
    results = []
    for asking in (False, True):
        _, _, state = greedy(task.model, task.memory(), BATCH, 3)
        scores, tokens = [], torch.tensor([4, 9, 1, 1, 3])
        state = task.model.reorder(state, torch.tensor([2, 0, 0, 1, 1]))
        for _ in range(3):
            if asking:
                task.model.alignment(state)
            logits, state = task.model.step(tokens, state)
            scores.append(logits)
        results.append(scores)
    assert_close(*results, rtol=0, atol=0)


@torch.no_grad()
def test_the_alignment_is_over_the_places_of_the_source(task):
    _, _, state = greedy(task.model, task.memory(), BATCH, 3)
    if isinstance(task.model, Seq2Seq) and task.model.config.attention == "no":
        with pytest.raises(ValueError, match="without attention has no alignment"):
            task.model.alignment(state)
        return
    weights = task.model.alignment(state)
    assert weights.shape == (BATCH, task.keys(3))
    assert (weights >= 0).all()
    if isinstance(task.model, Seq2Seq) and task.model.config.reach == "local-p":
        assert (weights.sum(1) <= 1 + 1e-6).all()  # the Gaussian takes some away
    else:
        assert_close(weights.sum(1), torch.ones(BATCH))
    if isinstance(task.model, Transformer | Seq2Seq):
        hidden = torch.arange(5) >= LENGTHS.unsqueeze(1)
        assert_close(weights[hidden], torch.zeros(int(hidden.sum())), rtol=0, atol=0)
    close(task.model.alignment(task.model.reorder(state, torch.tensor([2, 0, 0]))), weights[[2, 0, 0]])


@torch.no_grad()
def test_there_is_no_alignment_before_the_first_step(task):
    with pytest.raises(ValueError, match="alignment"):
        task.model.alignment(task.model.start(task.memory()))


def test_a_stepper_is_whatever_has_the_four_methods():
    class Parrot:
        """Says what it heard."""

        def start(self, memory):
            return memory

        def step(self, tokens, state):
            return torch.nn.functional.one_hot(tokens, VOCAB).float(), state

        def reorder(self, state, index):
            return state[index]

        def alignment(self, state):
            return torch.ones(len(state), 1)

    assert isinstance(Parrot(), Stepper)
    texts, _, _ = greedy(Parrot(), torch.arange(BATCH), BATCH, STEPS)
    assert_close(texts, torch.zeros(BATCH, STEPS, dtype=torch.long))


def test_three_of_the_four_methods_are_not_enough():
    class Deaf:
        start = step = reorder = staticmethod(lambda *given: given)

    assert not isinstance(Deaf(), Stepper)

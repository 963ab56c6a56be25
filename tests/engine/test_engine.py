"""An engine is a value: it holds a copy, says so, and knows for certain whether the model is still that."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mirada import engine
from mirada.layers.norm import LayerNorm
from mirada.models.bert import BERT, BERTConfig
from mirada.models.transformer import Transformer
from tests.engine.models import assert_same, gpt, read, transformer, walk, words


def scores(model: Any, stepper: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        return walk(stepper, stepper.start(read(model, stepper, 3)), 2)[0]


def fused_step(model: Transformer) -> None:
    """A training step by an optimizer whose writes PyTorch does not count."""
    model.loss(words(2, 5), None, words(2, 4), words(2, 4, seed=1)).backward()
    torch.optim.Adam(model.parameters(), lr=0.01, fused=True).step()
    model.zero_grad()


def plain_step(model: Transformer) -> None:
    model.loss(words(2, 5), None, words(2, 4), words(2, 4, seed=1)).backward()
    torch.optim.SGD(model.parameters(), lr=0.01).step()
    model.zero_grad()


def replaced(name: str, part: object) -> Callable[[nn.Module], None]:
    """Put something else in a place."""

    def change(model: nn.Module) -> None:
        owner, last = model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
        setattr(owner, last, part(getattr(owner, last)) if callable(part) and not isinstance(part, nn.Module) else part)

    return change


def written(name: str, place: tuple[int, ...]) -> Callable[[nn.Module], None]:
    """Add 1 to a single number through `.data`."""

    def change(model: nn.Module) -> None:
        model.get_parameter(name).data[place] += 1

    return change


CHANGES: dict[str, Callable[[Transformer], object]] = {
    "an optimizer": plain_step,
    "a fused optimizer": fused_step,
    "one number of a matrix": written("decoder.layers.1.feed.widen.weight", (36, 23)),
    "one number of a bias": written("decoder.layers.0.self.heads.value.bias", (3,)),
    "one number of the output": written("output.weight", (5, 2)),
    "one number of the words": written("target_words.weight", (0, 23)),
    "one number of the encoder": written("encoder.layers.0.feed.narrow.bias", (5,)),
    "keys of the source": lambda model: model.decoder.layers[1].cross.heads.key.weight.data.mul_(3),
    "another parameter": replaced("decoder.layers.0.feed.widen.bias", lambda own: nn.Parameter(own.detach() + 1)),
    "another module": replaced("decoder.layers.0.around_self.norm", LayerNorm(24, eps=0.5)),
    "eps": replaced("decoder.norm.eps", 0.5),
    "scale": replaced("decoder.layers.1.cross.score.scale", 0.9),
    "words' scale": replaced("target_words.scale", 2.0),
    "wavelengths": replaced("target_place.position.base", 50.0),
    "state dict": lambda model: model.load_state_dict(
        {name: weight + 0.1 for name, weight in model.state_dict().items()}
    ),
    "precision and back": lambda model: model.bfloat16().float(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_noticed_and_none_reaches_the_copy(way: str, change: Callable[[Transformer], object]) -> None:
    model = transformer(tied="no")
    made = engine.fast(model)
    before = scores(model, made.stepper)
    assert made.holds(model)
    change(model)
    assert not made.holds(model)
    assert_close(scores(model, made.stepper), before, rtol=0, atol=0)
    again = engine.fast(model)
    assert again.holds(model)
    model.eval()
    assert_same(scores(model, again.stepper), scores(model, model))


def test_weights_that_come_back_are_held_again(way: str) -> None:
    model = transformer()
    made, before = engine.fast(model), {name: weight.clone() for name, weight in model.state_dict().items()}
    model.target_words.weight.data.mul_(2)
    assert not made.holds(model)
    model.load_state_dict(before)
    assert made.holds(model)


def test_training_mode_and_gradients_do_not_matter(way: str) -> None:
    model = transformer()
    made = engine.fast(model)
    model.train()
    model.loss(words(2, 5), None, words(2, 4), words(2, 4, seed=1)).backward()
    model.requires_grad_(False)
    assert made.holds(model)


def test_a_copy_of_the_model_is_the_same_model(way: str) -> None:
    """Whose weights they are does not matter, only what they are."""
    made, other = engine.fast(transformer()), transformer()
    assert made.holds(other)
    assert not made.holds(transformer(order="post"))
    assert not made.holds(transformer(depth=3))
    assert not made.holds(gpt())
    assert not made.holds(other.double())


def test_numbers_that_are_not_numbers_are_compared_by_their_bits(way: str) -> None:
    model = transformer()
    model.target_words.weight.data[3, 4] = torch.nan
    model.target_words.weight.data[3, 5] = 0.0
    made = engine.fast(model)
    assert made.holds(model)
    model.target_words.weight.data[3, 5] = -0.0
    assert not made.holds(model)


def test_what_is_hooked_is_no_longer_held(way: str) -> None:
    model = transformer()
    made = engine.fast(model)
    handle = model.decoder.layers[0].feed.register_forward_hook(lambda *_: None)
    assert not made.holds(model)
    refused = engine.fast(model)
    assert refused.stepper is model
    assert refused.reason == "decoder.layers.0.feed has a forward hook"
    assert refused.holds(model)
    handle.remove()
    assert made.holds(model)
    assert not refused.holds(model)  # an engine can be had again
    assert not refused.holds(transformer())


def test_an_engine_says_what_it_is(way: str) -> None:
    backend = "compiled" if way == "compiled" else "plain PyTorch"
    numbers = sum(weight.numel() for weight in gpt().parameters())
    assert repr(engine.fast(gpt())) == f"Engine(GPT, {backend}, holds a copy of {numbers:,} weights)"
    other = engine.fast(gpt(where="strided:3"))
    assert repr(other) == "Engine(the GPT itself: the decoder: its neighborhood is Strided(stride=3) & Causal())"


def test_what_nobody_can_step_has_no_engine() -> None:
    for wrong in (BERT(BERTConfig.tiny()), nn.Linear(2, 2), None):
        with pytest.raises(ValueError, match="an engine is for models that a search can step"):
            engine.fast(wrong)


def test_the_model_is_left_as_it_was(way: str) -> None:
    model = transformer().train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    stepper = engine.fast(model).stepper
    scores(model, stepper)
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    theirs = {weight.data_ptr() for weight in model.parameters()}
    assert not theirs & {weight.data_ptr() for weight in stepper.model.parameters()}

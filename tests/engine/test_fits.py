"""What an engine does not take: everything that is not exactly known is refused with a reason, and decodes as the model does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.testing import assert_close

from mirada import engine
from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.attention.neighborhoods import Window
from mirada.attention.positions import LocalGaussian, Rotary
from mirada.decoding.greedy import Greedy
from mirada.engine import fits
from mirada.layers.embed import TokenEmbedding
from mirada.layers.feedforward import FeedForward
from mirada.layers.norm import BatchNorm, LayerNorm
from mirada.models.transformer import Transformer
from tests.engine.models import captioner, gpt, transcriber, transformer, whisper, words
from tests.engine.test_engine import replaced, scores

UNUSUAL = {
    r"self\.heads is Collaborative": {"projection": "collaborative:8"},
    r"self\.heads is Split": {"projection": "split"},
    "keys and values differ in dim: 8 and 5": {"projection": "multihead:value_dim=5"},
    r"self\.score is Additive": {"score": "additive"},
    r"self\.normalizer is Sparsemax": {"normalizer": "sparsemax"},
    "neighborhood is .*Strided": {"where": "strided:3"},
    "norm is BatchNorm": {"norm": "batch"},
    r"neighborhood is Strided\(stride=3\) & Causal": {"where": "complete / strided:3"},
}


@pytest.mark.parametrize(("expected", "fields"), UNUSUAL.items(), ids=UNUSUAL)
@pytest.mark.parametrize("make", [transformer, gpt, transcriber, captioner, whisper])
def test_what_is_unusual_is_refused_with_a_reason(expected: str, fields: dict[str, str], make: Any) -> None:
    model = make(**fields)
    made = engine.fast(model)
    assert made.stepper is model
    with pytest.raises(ValueError, match=expected):
        raise ValueError(made.reason)


def test_a_head_that_is_for_training_only_is_taken() -> None:
    """The classes of CTC: they are not used while a text is written."""
    made = engine.fast(transcriber(ctc=0.3))
    assert made.reason is None
    assert made.stepper.backend in ("compiled", "plain PyTorch")


class LoRA(nn.Module):
    """An adapter around a linear layer, which offers that one's weight as adapters do."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.a, self.b = nn.Parameter(torch.randn(2, base.in_features)), nn.Parameter(torch.randn(base.out_features, 2))

    @property
    def weight(self) -> Tensor:
        return self.base_layer.weight

    @property
    def bias(self) -> Tensor | None:
        return self.base_layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + x @ self.a.T @ self.b.T


class Tripled(nn.Linear):
    """A linear layer of another library."""

    def forward(self, x: Tensor) -> Tensor:
        return 3 * super().forward(x)


class Rounded(nn.Module):
    """A quantized layer: its weight holds other numbers than those it multiplies with."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = base.in_features, base.out_features, base.bias
        self.scale = float(base.weight.abs().max()) / 127
        self.weight = nn.Parameter((base.weight / self.scale).round().detach())

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight * self.scale, self.bias)


class Doubled(nn.Module):
    """A parametrization."""

    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


class Loud(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Flipped(TokenEmbedding):
    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).flip(-1)


class Wide(MultiHead):
    def queries(self, x: Tensor) -> Tensor:
        return 2 * super().queries(x)


class Twice(Attention):
    def forward(self, *given: Any, **named: Any) -> Tensor:
        return 2 * super().forward(*given, **named)


class Flat(LayerNorm):
    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return x


def of_class(kind: type) -> Callable[[nn.Module], nn.Module]:
    """The same module as one of another class."""

    def change(module: nn.Module) -> nn.Module:
        module.__class__ = kind
        return module

    return change


def own_forward(name: str) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        module = model.get_submodule(name)
        before = module.forward
        module.forward = lambda *given, **named: 2 * before(*given, **named)

    return change


def hooked(name: str, before: bool = False) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        module = model.get_submodule(name)
        if before:
            module.register_forward_pre_hook(lambda own, given: (given[0] * 2, *given[1:]))
        else:
            module.register_forward_hook(lambda own, given, result: 2 * result)

    return change


def doubled(model: nn.Module) -> None:
    parametrize.register_parametrization(model.get_submodule("decoder.layers.0.self.heads.value"), "weight", Doubled())


def old_weight_norm(model: nn.Module) -> None:
    torch.nn.utils.weight_norm(model.decoder.layers[0].feed.widen)
    model.decoder.layers[0].feed.widen.weight_g.data.mul_(2)


# what changes the model's numbers: the place of the change, the change, and the reason
CHANGED: dict[str, tuple[Callable[[Transformer], object], str]] = {
    "an adapter": (replaced("decoder.layers.0.feed.widen", LoRA), "feed.widen is LoRA"),
    "an adapter of queries": (replaced("decoder.layers.1.cross.heads.query", LoRA), "cross.heads.query is LoRA"),
    "an adapter of the encoder": (replaced("encoder.layers.1.self.heads.value", LoRA), "self.heads.value is LoRA"),
    "a subclass": (replaced("decoder.layers.0.feed.widen", of_class(Tripled)), "feed.widen is Tripled"),
    "a quantized layer": (replaced("decoder.layers.1.feed.narrow", Rounded), "feed.narrow is Rounded"),
    "a parametrization": (doubled, "heads.value is ParametrizedLinear"),
    "weight norm": (old_weight_norm, "feed.widen has a forward hook"),
    "feed-forward": (replaced("decoder.layers.1.feed", of_class(Loud)), "decoder.layers.1.feed is Loud"),
    "words": (replaced("target_words", of_class(Flipped)), "target_words is Flipped"),
    "heads": (replaced("decoder.layers.0.cross.heads", of_class(Wide)), "cross.heads is Wide"),
    "attention": (replaced("encoder.layers.0.self", of_class(Twice)), "encoder.layers.0.self is Twice"),
    "norm": (replaced("decoder.layers.0.around_feed.norm", of_class(Flat)), "around_feed.norm is Flat"),
    "last norm": (replaced("decoder.norm", of_class(Flat)), "decoder.norm is Flat"),
    "a forward of its own": (own_forward("decoder.layers.1.feed"), "decoder.layers.1.feed has a forward of its own"),
    "output's own": (own_forward("output"), "output has a forward of its own"),
    "a hook": (hooked("decoder.layers.0.self.heads.out"), "heads.out has a forward hook"),
    "a hook before": (hooked("output", before=True), "output has a forward hook"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize(("change", "reason"), CHANGED.values(), ids=CHANGED)
@torch.no_grad()
def test_what_stands_in_a_module_s_place_is_not_passed_by(
    way: str, change: Callable[[Transformer], object], reason: str
) -> None:
    torch.manual_seed(1)
    model = transformer(tied="no")
    made, before = engine.fast(model), scores(model, model)
    change(model)
    assert not made.holds(model)
    refused = engine.fast(model)
    assert refused.stepper is model
    assert reason in str(refused.reason)
    after = scores(model, refused.stepper)
    assert (after[1] - before[1]).abs().amax() > 1e-4  # the change is one that decoding must see
    memory = refused.stepper.encode(words(2, 5))
    assert_close(memory.states, model.encode(words(2, 5)).states, rtol=0, atol=0)


OTHERS: dict[str, Callable[[Transformer], object]] = {
    "a weight is a Parameter of torch.bfloat16 on cpu": lambda model: model.bfloat16(),
    "its weights differ in dtype or device": lambda model: model.output.double(),
    "the decoder: its norms differ": replaced("decoder.layers.1.around_feed.order", "post"),
    "the decoder: its layers differ": replaced("decoder.layers.1.feed.activation", "gelu"),
    "the decoder: its activation is 'mish'": lambda model: [
        setattr(layer.feed, "activation", "mish") for layer in model.decoder.layers
    ],
    "decoder.layers.1.around_cross.norm is BatchNorm": replaced("decoder.layers.1.around_cross.norm", BatchNorm(24)),
    "decoder.norm is BatchNorm": replaced("decoder.norm", BatchNorm(24)),
    "decoder.layers.1.self.position is LocalGaussian(8, half=3)": replaced(
        "decoder.layers.1.self.position", LocalGaussian(8, 3)
    ),
    "the decoder: its attention over the source has Rotary(8, base=10000, layout='half')": replaced(
        "decoder.layers.1.cross.position", Rotary(8)
    ),
    "the decoder: its neighborhood is Window(left=1, right=0)": replaced("decoder.layers.1.cross.where", Window(1)),
    "a weight is a view of another tensor, or empty": replaced(
        "output.weight", lambda own: nn.Parameter(torch.randn(24, 71).T)
    ),
    "decoder.layers.0 has a module 'extra' of its own": lambda model: model.decoder.layers[0].add_module(
        "extra", nn.Identity()
    ),
    "decoder.norm has a parameter 'extra'": lambda model: model.decoder.norm.register_parameter(
        "extra", nn.Parameter(torch.zeros(1))
    ),
    "decoder.norm has no parameter 'bias'": replaced("decoder.norm.bias", None),
    "decoder.layers.0.feed.widen has no parameter 'weight'": replaced("decoder.layers.0.feed.widen.weight", None),
    "decoder.layers.0.feed is NoneType": replaced("decoder.layers.0.feed", None),
    "decoder.norm has a buffer 'extra'": lambda model: model.decoder.norm.register_buffer("extra", torch.zeros(1)),
    "decoder.norm keeps a tensor 'shift' that is not a parameter": lambda model: setattr(
        model.decoder.norm, "shift", torch.zeros(1)
    ),
}


@pytest.mark.parametrize(("reason", "change"), OTHERS.items(), ids=OTHERS)
def test_what_becomes_unusual_is_refused_from_then_on(reason: str, change: Callable[[Transformer], object]) -> None:
    model = transformer(tied="no")
    assert engine.fast(model).reason is None
    change(model)
    assert engine.fast(model).reason == reason


SMALLER = {
    "decoder.layers.0.feed.widen.weight": (5, 24),
    "decoder.layers.1.feed.narrow.bias": (23,),
    "decoder.layers.1.cross.heads.key.weight": (24, 12),
    "decoder.layers.0.self.heads.out.bias": (1,),
    "decoder.norm.weight": (3,),
    "encoder.layers.0.around_self.norm.bias": (3,),
    "output.weight": (70, 24),
    "target_words.weight": (71, 12),
}


@pytest.mark.parametrize(("name", "size"), SMALLER.items(), ids=SMALLER)
def test_weights_of_another_size_are_never_read(name: str, size: tuple[int, ...]) -> None:
    model = transformer(tied="no")
    owner, last = model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
    setattr(owner, last, nn.Parameter(torch.zeros(size)))
    assert "has the shape" in str(engine.fast(model).reason)


def test_a_learned_table_of_another_width_is_never_read() -> None:
    model = gpt(position="learned")
    model.place.position.table = nn.Parameter(torch.zeros(97, 23))
    assert (
        engine.fast(model).reason == "the decoder: a weight of its position has the shape (97, 23): expected (97, 24)"
    )


def test_many_weights_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "MOST", 1000)
    assert "weights would be copied twice: more than 1,000" in str(engine.fast(gpt()).reason)


def test_a_hook_for_all_modules_is_a_reason() -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert engine.fast(gpt()).reason == "a forward hook is registered for all modules"
    finally:
        handle.remove()
    assert engine.fast(gpt()).reason is None


def test_a_forward_that_was_replaced_for_all_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    model, before = gpt(), nn.Linear.forward
    made = engine.fast(model)
    monkeypatch.setattr(nn.Linear, "forward", lambda own, x: 2 * before(own, x))
    assert engine.fast(model).reason == "the forward of Linear was replaced"
    assert not made.holds(model)


def test_a_subclass_of_a_model_is_another_model() -> None:
    class Mine(Transformer):
        """It may do anything."""

    model = transformer()
    model.__class__ = Mine
    assert engine.fast(model).reason == "no engine knows a Mine"


@torch.no_grad()
def test_what_is_refused_decodes_as_the_model_does() -> None:
    model = transformer(score="additive")
    stepper = engine.fast(model).stepper
    assert stepper is model
    state = stepper.start(stepper.encode(words(2, 5)))
    found = Greedy()(stepper, state, torch.tensor([3, 4]), None, 4)
    assert [len(best.tokens) for [best] in found] == [4, 4]

"""Weights from the engine are those of the modules, for every search, token by token."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from mirada import engine, look
from mirada.decoding import Beam, Greedy, Sample
from mirada.models import GPT, GPTConfig, Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig

SEARCHES = [Greedy(), Beam(size=3, best=2), Sample(seed=5)]
SIZES = {"width": 24, "heads": 4, "hidden": 32, "depth": 2, "vocab": 13}
SOURCE, LENGTHS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 3, 0, 0], [4, 4, 5, 1, 0]]), torch.tensor([5, 3, 4])
MODELS: dict[str, Any] = {
    "transformer": lambda: Transformer(TransformerConfig(**SIZES, source_vocab=13, dropout=0.0)),
    "post": lambda: Transformer(TransformerConfig(**SIZES, source_vocab=13, order="post", norm="rms")),
    "rotary": lambda: Transformer(TransformerConfig(**SIZES, source_vocab=13, position="rotary")),
    "relative": lambda: Transformer(TransformerConfig(**SIZES, source_vocab=13, position="relative:3")),
    "additive": lambda: Transformer(TransformerConfig(**SIZES, source_vocab=13, score="additive")),
    "gpt": lambda: GPT(GPTConfig(**SIZES)),
    "grouped": lambda: GPT(GPTConfig(**SIZES, projection="grouped:2", position="alibi")),
    "bahdanau": lambda: Seq2Seq(Seq2SeqConfig(width=24, hidden=24, vocab=13, source_vocab=13, attention="bahdanau")),
    "luong": lambda: Seq2Seq(Seq2SeqConfig(width=24, hidden=24, vocab=13, source_vocab=13, score="general")),
}
WATCHED = {
    "transformer": {"decoder.layers.1.cross": [0, 3], "decoder.layers.0.cross": [], "decoder.layers.0.self": [2]},
    "post": {"decoder.layers.0.cross": [1], "decoder.layers.1.self": []},
    "rotary": {"decoder.layers.1.self": [3, 0], "decoder.layers.1.cross": []},
    "relative": {"decoder.layers.0.self": [1, 2], "decoder.layers.1.cross": []},
    "additive": {"decoder.layers.0.self": [1, 2], "decoder.layers.1.cross": []},
    "gpt": {"decoder.layers.0.self": [1], "decoder.layers.1.self": []},
    "grouped": {"decoder.layers.1.self": [3, 1]},
    "bahdanau": {"decoder.attention": []},
    "luong": {"decoder.attention": []},
}


def made(name: str) -> Any:
    torch.manual_seed(3)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)  # sharper than at the start of a training
    return model


def texts(model: Any, stepper: Any, search: Any) -> list[Any]:
    """The hypotheses of three texts, with their number."""
    first = torch.tensor([1, 1, 1])
    state = stepper.start(3) if isinstance(model, GPT) else stepper.start(stepper.encode(SOURCE, LENGTHS))
    ranked = search(stepper, state, first, 2, [6, 4, 7], align=True)
    return [(number, text) for number, several in enumerate(ranked) for text in several]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
@pytest.mark.parametrize("name", MODELS)
def test_rows_are_the_weights_of_one_pass_over_the_text(way: str, name: str, search: Any) -> None:
    model = made(name)
    stepper = engine.watched(engine.fast(model).stepper, WATCHED[name])
    plain = texts(model, engine.fast(model).stepper, search)
    for (number, text), (_, other) in zip(texts(model, stepper, search), plain, strict=True):
        assert text.tokens == other.tokens
        assert_close(text.alignment, other.alignment)
        assert other.rows == ()
        target = torch.tensor([[1, *text.tokens]])[:, : text.rows[0].shape[1]]
        with torch.no_grad(), look(model) as seen:
            if isinstance(model, GPT):
                model(target)
            else:
                model(SOURCE[[number], : LENGTHS[number]], None, target)
        for (layer, heads), rows in zip(WATCHED[name].items(), text.rows, strict=True):
            exact = torch.cat([call.weights()[0] for call in seen[layer].calls], dim=1)  # a step each, or all at once
            exact = exact[heads] if heads else exact
            assert_close(rows[:, :, : exact.shape[2]], exact, rtol=0, atol=1e-5)
            assert rows[:, :, exact.shape[2] :].abs().sum() == 0  # padding


def test_a_prompt_of_several_tokens_is_watched_at_its_last_one(way: str) -> None:
    model = made("gpt")
    stepper, prompt = engine.watched(engine.fast(model).stepper, WATCHED["gpt"]), torch.tensor([[3, 4, 5, 6]])
    _, state = stepper.step(prompt, stepper.start(1))
    with torch.no_grad(), look(model) as seen:
        model(prompt)
    for (layer, heads), rows in zip(WATCHED["gpt"].items(), stepper.watched_rows(state), strict=True):
        exact = seen[layer].weights()[:, :, -1]
        assert_close(rows, exact[:, heads] if heads else exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ({"decoder.layers.7.cross": []}, "unknown layer of attention 'decoder.layers.7.cross'; known: .*Did you mean"),
        ({"decoder.layers.1.cross": [0, 4]}, r"heads of decoder.layers.1.cross must lie in 0..3: got 4"),
        ({"encoder.layers.0.self": []}, "encoder.layers.0.self looks at nothing while tokens are written"),
    ],
)
def test_what_cannot_be_watched_is_named(way: str, heads: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        engine.watched(engine.fast(made("transformer")).stepper, heads)


def test_a_layer_of_an_encoder_is_named_when_the_model_itself_steps() -> None:
    model = made("additive")
    stepper = engine.watched(engine.fast(model).stepper, {"encoder.layers.0.self": []})
    assert engine.fast(model).reason
    state = stepper.start(stepper.encode(SOURCE, LENGTHS))
    with pytest.raises(ValueError, match="only the decoder's layers can be watched"):
        stepper.step(torch.tensor([1, 1, 1]), state)


def test_a_model_without_attention_is_named() -> None:
    model = Seq2Seq(Seq2SeqConfig(width=24, hidden=24, vocab=13, source_vocab=13, attention="no")).eval()
    with pytest.raises(ValueError, match="Seq2Seq has no attention"):
        engine.watched(model, {"decoder.attention": []})

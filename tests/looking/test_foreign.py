"""Models of Hugging Face transformers: generation is one picture, places are numbered on, methods and gradients work."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from mirada import Cut, DropHead, Force, MaskKey, Seen, importance, intervene, look, weight_gradients  # noqa: E402
from mirada.looking.explain.compare import compare_methods  # noqa: E402
from mirada.looking.huggingface import first_place  # noqa: E402
from tests.parity.test_look_transformers import TARGETS, TOKENS, bert, gpt2, llama, marian, t5  # noqa: E402

ASK = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
NEAR = {"atol": 1e-5, "rtol": 1e-5}
FIRST = {"gpt2": "transformer.h.0.attn", "llama": "model.layers.0.self_attn"}


def made(make: Any, **more: Any) -> nn.Module:
    torch.manual_seed(3)
    model: nn.Module = make(**more)[0].eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("name", FIRST)
@torch.no_grad()
def test_a_generation_is_one_matrix(name: str) -> None:
    """As many rows as tokens were read: those of the prompt at once, then one by one."""
    model, layer = made({"gpt2": gpt2, "llama": llama}[name]), FIRST[name]
    with look(model) as seen:
        written = model.generate(TOKENS[:1], **ASK)
    length = written.shape[1] - 1  # the last token is written and not read
    with look(model) as whole:
        model(written[:, :length])
    assert seen.stream(layer).queries == seen.stream(layer).keys == length
    joined = torch.cat([piece for _, piece in seen.stream(layer).pieces()], dim=1)
    assert_close(joined, whole[layer].weights()[0], **NEAR)
    assert seen.stream(layer).visible().tolist() == list(range(1, length + 1))
    stored = Seen.from_bytes(seen.to_bytes())[layer]
    assert (stored.queries, stored.keys, stored.kind) == (length, length, "self")
    assert_close(stored.weights(), whole[layer].weights(), atol=0.004, rtol=0)


@torch.no_grad()
def test_a_padded_batch_is_joined_too() -> None:
    model = made(llama)
    real = torch.ones_like(TOKENS)
    real[1, :4] = 0  # on the left, as generation wants it
    with look(model) as seen:
        written = model.generate(TOKENS, attention_mask=real, **ASK)
    length = written.shape[1] - 1
    assert seen.stream(FIRST["llama"], sample=1).queries == length
    weights = torch.cat([piece for _, piece in seen.stream(FIRST["llama"], sample=1).pieces()], dim=1)
    assert float(weights[:, 4:, :4].abs().max()) == 0
    assert seen.stream(FIRST["llama"], sample=1).visible().tolist()[4:] == list(range(1, length - 3))


@torch.no_grad()
def test_another_text_does_not_continue_the_first() -> None:
    model, layer = made(gpt2), FIRST["gpt2"]
    with look(model) as seen:
        model.generate(TOKENS[:1], **ASK)
        model.generate(TOKENS[1:2, :6], **ASK)
    assert seen.stream(layer).queries == 6 + 4


@torch.no_grad()
def test_cross_attention_of_a_translation_stays_cross() -> None:
    model = made(marian)
    with look(model) as seen:
        written = model.generate(TOKENS[:1], num_beams=1, **ASK)
    again = Seen.from_bytes(seen.to_bytes())
    cross = again["model.decoder.layers.0.encoder_attn"]
    assert (cross.kind, cross.queries, cross.keys) == ("cross", written.shape[1] - 1, TOKENS.shape[1])
    assert again["model.decoder.layers.0.self_attn"].queries == written.shape[1] - 1


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@torch.no_grad()
def test_the_steps_of_a_generation_are_counted(cache: str) -> None:
    """A what-if names the place in the whole text, whatever the cache looks like."""
    model, layer = made(llama), FIRST["llama"]
    more = {} if cache == "dynamic" else {"cache_implementation": "static", "disable_compile": True}
    at = TOKENS.shape[1] + 2
    with intervene(model, {layer: [Force(at, 1, 0.75), Cut(at + 1, 3)]}), look(model) as seen:
        written = torch.tensor([])
        shown = Watched(seen, layer)
        model.register_forward_hook(shown)
        written = model.generate(TOKENS[:1], **ASK, **more)
    forced = [step for step, row in enumerate(shown.rows) if torch.allclose(row[:, 1], torch.tensor(0.75))]
    cut = [step for step, row in enumerate(shown.rows) if float(row[:, 3].max()) == 0]
    assert (forced, cut) == ([3], [4])  # of the steps 0 (the prompt), 1, 2, ...
    assert written.shape[1] == TOKENS.shape[1] + 5
    with pytest.raises(ValueError, match="no query 99"), intervene(model, {layer: Cut(99, 0)}):
        model.generate(TOKENS[:1], **ASK, **more)


WINDOWS = {
    "mistral": ("MistralForCausalLM", "MistralConfig", {"sliding_window": 4}),
    "gemma3": (
        "Gemma3ForCausalLM", "Gemma3TextConfig",
        {"sliding_window": 4, "head_dim": 6, "layer_types": ["sliding_attention", "full_attention"]},
    ),
}  # fmt: skip
SMALL = {
    "vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 31, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
STATIC = {"cache_implementation": "static", "disable_compile": True}


def windowed(name: str) -> nn.Module:
    model, config, more = WINDOWS[name]
    return made(lambda: (getattr(transformers, model)(getattr(transformers, config)(**SMALL, **more)),))


@pytest.mark.parametrize("more", [{}, STATIC, {"num_beams": 3}], ids=["dynamic", "static", "beams"])
@pytest.mark.parametrize("name", [*WINDOWS, "gpt2", "llama"])
@torch.no_grad()
def test_every_row_of_a_generation_is_kept(name: str, more: dict[str, Any]) -> None:
    """Whatever the cache drops, writes over or reorders: the rows are those of the whole text at once."""
    model = windowed(name) if name in WINDOWS else made({"gpt2": gpt2, "llama": llama}[name])
    prompt = torch.randint(3, 37, (1, 7))
    with look(model) as seen:
        written = model.generate(prompt, **ASK, **more, return_dict_in_generate=True)
    with look(model) as whole:
        model(written.sequences[:, :-1])
    ends = {tuple(row) for row in written.sequences[:, :-1].tolist()}
    layers = [layer for layer in seen.names if seen[layer].kind == "self"]
    assert len(layers) == 2
    for layer in layers:
        wanted = whole[layer].weights()[0]
        streams = [seen.stream(layer, sample) for sample in range(seen[layer].batch)]
        assert {stream.queries for stream in streams} == {len(next(iter(ends)))}
        joined = [torch.cat([piece for _, piece in stream.pieces()], dim=1) for stream in streams]
        assert any(torch.allclose(rows, wanted, **NEAR) for rows in joined)


@pytest.mark.parametrize("more", [{}, STATIC], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", WINDOWS)
@torch.no_grad()
def test_a_key_is_masked_at_its_own_place(name: str, more: dict[str, Any]) -> None:
    """Key 3 of the text, and not the third that a window has kept."""
    model, prompt = windowed(name), torch.randint(3, 37, (1, 7))
    layer = "model.layers.0.self_attn"
    with intervene(model, {layer: MaskKey(3)}), look(model) as seen:
        written = model.generate(prompt, **ASK, **more)
    with intervene(model, {layer: MaskKey(3)}), look(model) as whole:
        logits = model(written[:, :-1]).logits[:, 6:]
    logits[..., SMALL["eos_token_id"]] = -torch.inf  # the answer is not over yet
    again = logits.argmax(-1)
    assert torch.equal(again, written[:, 7:])
    rows = torch.cat([piece for _, piece in seen.stream(layer).pieces()], dim=1)
    assert_close(rows, whole[layer].weights()[0], **NEAR)
    assert float(rows[:, :, 3].max()) == 0
    assert float(rows[:, -1, -1].min()) > 0


class Watched:
    """The weights of the last query of every step, asked for before a later step changes the cache."""

    def __init__(self, seen: Seen, layer: str) -> None:
        self.seen, self.layer = seen, layer
        self.rows: list[torch.Tensor] = []

    def __call__(self, *_: Any) -> None:
        self.rows.append(self.seen[self.layer].weights()[0, :, -1])


def test_where_the_first_query_stands() -> None:
    mask = torch.ones(2, 1, 2, 9, dtype=torch.bool).tril(5)
    assert first_place(2, 9, mask) == 5
    assert first_place(2, 9, torch.where(mask, 0.0, torch.finfo(torch.float32).min)) == 5
    assert first_place(1, 9, torch.zeros(2, 1, 1, 9, dtype=torch.bool)) == 8
    assert [first_place(1, 9, None), first_place(3, 9, None), first_place(9, 9, None), first_place(1, 1, None)] == [
        8,
        0,
        0,
        0,
    ]


@torch.no_grad()
def test_dropout_is_reported() -> None:
    model = bert(attention_probs_dropout_prob=0.25)[0]
    for training, expected in ((True, 0.25), (False, 0.0)):
        model.train(training)
        with look(model) as seen:
            model(TOKENS)
        call = seen["encoder.layer.0.attention.self"]
        assert call.checks().dropout == expected
        assert_close(call.weights().sum(-1), torch.ones(3, 3, TOKENS.shape[1]))
    model.train()
    with look(model) as seen:
        model(TOKENS)
    assert "Dropout of 0.25 was on" in " ".join(seen.view(sample=0).cautions)


@pytest.mark.parametrize("make", [gpt2, bert, marian], ids=["gpt2", "bert", "marian"])
def test_importance_finds_the_logits(make: Any) -> None:
    model, given = make()
    found = importance(model.eval(), given)
    assert all(bool(row.isfinite().all()) and float(row.max()) > 0 for row in found.by_layer.values())
    if make is gpt2:
        expected = importance(model, lambda: model(**given).logits)
        assert_close(found.by_layer["transformer.h.0.attn"], expected.by_layer["transformer.h.0.attn"])


def test_gradients_are_those_of_the_weights() -> None:
    """The gradient by a weight is what a small change of it does, by a function of the weights."""
    model = made(llama)
    layer, step = "model.layers.1.self_attn", 1e-3

    def target(output: Any) -> torch.Tensor:
        result: torch.Tensor = output.logits[0, -1].log_softmax(-1)[5]
        return result

    _, gradients = weight_gradients(model, {"input_ids": TOKENS[:1]}, target)
    gradient = gradients[layer][0]
    assert gradient.shape == (1, 6, TOKENS.shape[1], TOKENS.shape[1])
    for head, query, key in ((0, 10, 3), (5, 10, 9), (2, 10, 0)):

        def moved(by: float, at: tuple[int, int, int] = (head, query, key)) -> float:
            def change(weights: torch.Tensor) -> torch.Tensor:
                weights = weights.clone()
                weights[0, at[0], at[1], at[2]] += by
                return weights

            with torch.no_grad(), intervene(model, {layer: change}):
                return float(target(model(TOKENS[:1])))

        numeric = (moved(step) - moved(-step)) / (2 * step)
        assert float(gradient[0, head, query, key]) == pytest.approx(numeric, rel=0.05, abs=2e-3)


@pytest.mark.parametrize("make", [gpt2, llama, marian, t5], ids=["gpt2", "llama", "marian", "t5"])
def test_methods_next_to_each_other(make: Any) -> None:
    model = made(make)
    decoder = make in (marian, t5)
    given = {"input_ids": TOKENS[:1]} | ({"decoder_input_ids": TARGETS[:1]} if decoder else {})
    more = {"logits": lambda output: output.last_hidden_state} if make is t5 else {}
    found = compare_methods(model, given, **more)
    assert list(found.matrices) == ["attention", "value_norm", "rollout", "gradient", "ablation"]
    for name, matrix in found.matrices.items():
        assert matrix.shape == (TARGETS.shape[1] if decoder else TOKENS.shape[1], TOKENS.shape[1]), name
        assert float(matrix.sum(-1).max()) == pytest.approx(1, abs=1e-4)
    if not decoder:
        assert max(float(matrix.triu(1).max()) for matrix in found.matrices.values()) < 1e-6


def test_ablation_is_a_masked_key() -> None:
    model = made(gpt2)
    found = compare_methods(model, (TOKENS[:1],)).matrices["ablation"]
    layers = ("transformer.h.0.attn", "transformer.h.1.attn")
    with torch.no_grad():
        whole = model(TOKENS[:1]).logits[0].log_softmax(-1)
        wanted = whole.argmax(-1, keepdim=True)
        falls = []
        for key in range(TOKENS.shape[1]):
            with intervene(model, dict.fromkeys(layers, MaskKey(key))):
                falls.append((whole - model(TOKENS[:1]).logits[0].log_softmax(-1)).gather(1, wanted)[:, 0])
    expected = torch.stack(falls, 1).clamp(min=0)
    assert_close(found, expected / expected.sum(1, keepdim=True).clamp(min=1e-30), **NEAR)


def test_an_output_without_logits_is_said() -> None:
    with pytest.raises(ValueError, match=r"got BaseModelOutput\w*\. Say where they are with logits="):
        compare_methods(bert()[0].eval(), (TOKENS[:1],))


@torch.no_grad()
def test_a_head_dropped_in_a_generation_is_dropped_in_all_steps() -> None:
    model, layer = made(gpt2), FIRST["gpt2"]
    with intervene(model, {layer: DropHead(1)}), look(model) as seen:
        model.generate(TOKENS[:1], **ASK)
    weights = torch.cat([piece for _, piece in seen.stream(layer).pieces()], dim=1)
    assert float(weights[1].abs().max()) == 0
    assert float(weights[0].sum(-1).min()) == pytest.approx(1, abs=1e-5)

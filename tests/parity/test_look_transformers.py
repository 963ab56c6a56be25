"""`look` on Hugging Face models: the weights of output_attentions, from models that keep running on the fused kernel."""

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402

from mirada import Attention, Cut, DropHead, Force, MaskKey, MultiHead, importance, intervene, look  # noqa: E402

NEAR = {"atol": 1e-5, "rtol": 1e-5}
VOCAB, LENGTH, TARGET = 37, 11, 7
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 31,
}
REAL = (torch.arange(LENGTH) < torch.tensor([[11], [5], [8]])).long()
TOKENS = torch.randint(1, VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(1))
TARGETS = torch.randint(1, VOCAB, (3, TARGET), generator=torch.Generator().manual_seed(2))


def bert(**more: object) -> tuple[nn.Module, dict[str, Tensor]]:
    model = transformers.BertModel(transformers.BertConfig(**SMALL, max_position_embeddings=13, **more))
    return model, {"input_ids": TOKENS, "attention_mask": REAL}


def gpt2(**more: object) -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.GPT2Config(vocab_size=VOCAB, n_positions=29, n_embd=24, n_layer=2, n_head=3, **more)
    return transformers.GPT2LMHeadModel(config), {"input_ids": TOKENS}


def padded_gpt2(**more: object) -> tuple[nn.Module, dict[str, Tensor]]:
    model, given = gpt2(**more)
    return model, given | {"attention_mask": REAL}


def llama(**more: object) -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = SMALL | {"num_attention_heads": 6, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **more)), {"input_ids": TOKENS}


def vit(**more: object) -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    config = transformers.ViTConfig(**sizes, image_size=12, patch_size=4, **more)
    return transformers.ViTModel(config), {"pixel_values": torch.randn(2, 3, 12, 12)}


def marian(**more: object) -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=20, encoder_layers=2, decoder_layers=2, encoder_attention_heads=5,
        decoder_attention_heads=5, encoder_ffn_dim=31, decoder_ffn_dim=31, max_position_embeddings=29, pad_token_id=0,
        decoder_start_token_id=0, eos_token_id=0, forced_eos_token_id=None, **more,
    )  # fmt: skip
    given = {"input_ids": TOKENS, "attention_mask": REAL, "decoder_input_ids": TARGETS}
    return transformers.MarianMTModel(config), given


def t5(**more: object) -> tuple[nn.Module, dict[str, Tensor]]:
    """Its positions are a bias that it adds to the scores."""
    config = transformers.T5Config(vocab_size=VOCAB, d_model=20, d_kv=4, d_ff=31, num_layers=2, num_heads=5, **more)
    given = {"input_ids": TOKENS, "attention_mask": REAL, "decoder_input_ids": TARGETS}
    return transformers.T5Model(config), given


# the model, the name of its first layer in each of their lists of weights, and the kind
Made = Callable[..., tuple[nn.Module, dict[str, Tensor]]]
CASES: dict[str, tuple[Made, dict[str, tuple[str, str]]]] = {
    "bert": (bert, {"attentions": ("encoder.layer.{}.attention.self", "self")}),
    "gpt2": (gpt2, {"attentions": ("transformer.h.{}.attn", "self")}),
    "padded gpt2": (padded_gpt2, {"attentions": ("transformer.h.{}.attn", "self")}),
    "llama": (llama, {"attentions": ("model.layers.{}.self_attn", "self")}),
    "vit": (vit, {"attentions": ("", "self")}),  # its names differ between versions: in their order
    "marian": (
        marian,
        {
            "encoder_attentions": ("model.encoder.layers.{}.self_attn", "self"),
            "decoder_attentions": ("model.decoder.layers.{}.self_attn", "self"),
            "cross_attentions": ("model.decoder.layers.{}.encoder_attn", "cross"),
        },
    ),
    "t5": (
        t5,
        {
            "encoder_attentions": ("encoder.block.{}.layer.0.SelfAttention", "self"),
            "decoder_attentions": ("decoder.block.{}.layer.0.SelfAttention", "self"),
            "cross_attentions": ("decoder.block.{}.layer.1.EncDecAttention", "cross"),
        },
    ),
}
every_model = pytest.mark.parametrize("name", CASES)


def twins(name: str) -> tuple[nn.Module, nn.Module, dict[str, Tensor]]:
    """A model on the fused kernel, the same model with all weights in sight, and an input."""
    make = CASES[name][0]
    fused, given = make(attn_implementation="sdpa")
    fused = fused.eval()
    with torch.no_grad():
        for parameter in fused.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    eager = make(attn_implementation="eager")[0].eval()
    eager.load_state_dict(fused.state_dict())
    return fused, eager, given


@every_model
@torch.no_grad()
def test_the_weights_are_those_of_output_attentions(name: str) -> None:
    fused, eager, given = twins(name)
    theirs = eager(**given, output_attentions=True)
    with look(fused) as seen:
        fused(**given)
    lists = CASES[name][1]
    assert len(seen.names) == 2 * len(lists)
    for field, (pattern, kind) in lists.items():
        for layer, expected in enumerate(theirs[field]):
            call = seen[pattern.format(layer) or seen.names[layer]]
            assert (call.kind, call.heads, call.plan.kernel) == (kind, expected.shape[1], "sdpa")
            assert_close(call.weights(), expected, **NEAR)
            assert_close(call.weights(head=1, rows=slice(2, 4)), expected[:, 1, 2:4], **NEAR)


@every_model
@torch.no_grad()
def test_looking_changes_nothing_and_leaves_nothing_behind(name: str) -> None:
    fused, _, given = twins(name)
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    plain = fused(**given)[0]
    with look(fused) as seen, look(fused) as again:
        assert_close(fused(**given)[0], plain, rtol=0, atol=0)
    assert seen.names == again.names
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before
    assert_close(fused(**given)[0], plain, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian"])
@torch.no_grad()
def test_cached_generation(name: str) -> None:
    fused, eager, given = twins(name)
    given = {key: value for key, value in given.items() if key != "decoder_input_ids"}
    ask = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "num_beams": 1}
    theirs = eager.generate(**given, **ask, output_attentions=True, return_dict_in_generate=True)
    with look(fused) as seen:
        ours = fused.generate(**given, **ask)
    assert_close(ours, theirs.sequences)
    for field, (pattern, _) in CASES[name][1].items():
        if field == "encoder_attentions":
            continue
        for step, layers in enumerate(theirs[field]):
            for layer, expected in enumerate(layers):
                assert_close(seen[pattern.format(layer)].calls[step].weights(), expected, **NEAR)


@torch.no_grad()
def test_a_static_cache_is_exact_after_later_steps() -> None:
    fused, eager, given = twins("llama")
    theirs = eager(**given, output_attentions=True)
    with look(fused) as seen:
        cache = transformers.StaticCache(config=fused.config, max_cache_len=LENGTH + 2)
        fused(**given, past_key_values=cache)
        fused(input_ids=TOKENS[:, :1], past_key_values=cache, cache_position=torch.tensor([LENGTH]))
    first = seen["model.layers.0.self_attn"].calls[0]
    assert_close(first.weights(), theirs.attentions[0], **NEAR)


def test_gradients_pass_as_before() -> None:
    fused, _, given = twins("bert")
    expected = torch.autograd.grad(fused(**given)[0].square().sum(), list(fused.parameters()), allow_unused=True)
    with look(fused):
        loss = fused(**given)[0].square().sum()
    for ours, theirs in zip(
        torch.autograd.grad(loss, list(fused.parameters()), allow_unused=True), expected, strict=True
    ):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert_close(ours, theirs, rtol=0, atol=0)


def test_a_model_of_ours_around_one_of_theirs() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.theirs, self.ours = bert(attn_implementation="sdpa")[0], Attention(MultiHead(24, 3))

        def forward(self, **given: Tensor) -> Tensor:
            return self.ours(self.theirs(**given)[0])

    model = Both().eval()
    with look(model) as seen:
        model(input_ids=TOKENS, attention_mask=REAL)
    assert seen.names == ["theirs.encoder.layer.0.attention.self", "theirs.encoder.layer.1.attention.self", "ours"]


def test_other_threads_and_other_models_are_left_alone() -> None:
    (fused, _, given), (other, _, others) = twins("bert"), twins("gpt2")
    with look(fused) as seen:
        other(**others)
        thread = threading.Thread(target=lambda: fused(**given))
        thread.start()
        thread.join()
    assert seen.names == []


def test_an_implementation_that_is_not_watched_is_said() -> None:
    model, _ = bert(attn_implementation="eager")
    with (
        pytest.raises(ValueError, match=r"BertModel attends by 'eager'.*set_attn_implementation\('sdpa'\)"),
        look(model),
    ):
        pass
    model.set_attn_implementation("sdpa")
    with look(model):
        pass


def test_transformers_is_not_imported_by_looking() -> None:
    code = (
        "import sys, torch; from mirada import Attention, MultiHead, look\n"
        "layer = Attention(MultiHead(4, 2))\n"
        "with look(layer): layer(torch.zeros(1, 3, 4))\n"
        "assert not [name for name in sys.modules if name.startswith('transformers')]"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


# What-ifs


@torch.no_grad()
def test_a_head_dropped_from_bert_is_one_whose_output_is_not_projected() -> None:
    model, given = bert()
    model.eval()
    with intervene(model, {"encoder.layer.1.attention.self": DropHead(2)}):
        dropped = model(**given).last_hidden_state
    model.encoder.layer[1].attention.output.dense.weight[:, 16:24] = 0
    assert_close(dropped, model(**given).last_hidden_state, **NEAR)


@torch.no_grad()
def test_a_key_masked_in_every_layer_is_one_of_the_padding() -> None:
    model, given = bert()
    model.eval()
    layers = [f"encoder.layer.{n}.attention.self" for n in range(2)]
    with intervene(model, dict.fromkeys(layers, MaskKey(3))), look(model) as seen:
        masked = model(**given).last_hidden_state
    assert seen[layers[0]].weights()[..., 3].abs().max() == 0
    hidden = given["attention_mask"].clone()
    hidden[:, 3] = 0
    wanted = model(given["input_ids"], attention_mask=hidden).last_hidden_state
    keep = torch.arange(LENGTH) != 3  # its own row still has what it was
    assert_close(masked[0][keep], wanted[0][keep], **NEAR)


@torch.no_grad()
def test_grouped_heads_are_changed_one_by_one() -> None:
    model, given = llama()
    model.eval()
    name = "model.layers.0.self_attn"
    with intervene(model, {name: [Force(4, 1, 0.75, head=5), Cut(6, 0, head=1)]}), look(model) as seen:
        model(**given)
    with look(model) as before:
        model(**given)
    weights, plain = seen[name].weights(), before[name].weights()
    assert_close(weights[:, 5, 4, 1], torch.full((3,), 0.75))
    assert weights[:, 1, 6, 0].abs().max() == 0
    assert_close(weights[:, [0, 2, 3, 4]], plain[:, [0, 2, 3, 4]], **NEAR)


@torch.no_grad()
def test_the_importance_of_every_head() -> None:
    model, given = gpt2()
    model.eval()
    found = importance(model, lambda: model(**given).logits)
    assert sorted(found.by_layer) == ["transformer.h.0.attn", "transformer.h.1.attn"]
    assert all(len(row) == 3 and (row > 0).all() for row in found.by_layer.values())


def test_a_layer_that_does_not_attend_is_reported() -> None:
    model, given = bert()
    with pytest.raises(ValueError, match=r"unknown layer 'encoder\.layer\.1\.attention\.sel'.*Did you mean"):  # noqa: SIM117
        with intervene(model, {"encoder.layer.1.attention.sel": DropHead(0)}):
            pass
    with pytest.raises(ValueError, match="has heads 0 to 2"):  # noqa: SIM117
        with intervene(model, {"encoder.layer.1.attention.self": DropHead(3)}):
            model.eval()(**given)

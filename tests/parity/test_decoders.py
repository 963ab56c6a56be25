"""Parity with Hugging Face's decoder-only models on random weights: logits, attention, greedy tokens, and the way back."""

from functools import cache
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from mirada import engine, look  # noqa: E402
from mirada.decoding.greedy import Greedy  # noqa: E402
from mirada.decoding.search import Repeated  # noqa: E402
from mirada.hub import gpt2, llama, opt  # noqa: E402
from mirada.hub.families import family  # noqa: E402
from mirada.hub.mapping import export_weights  # noqa: E402
from mirada.models.gpt import GPT, GPTConfig  # noqa: E402

VOCAB, LENGTH, WRITTEN = 47, 13, 9
SIZES = {
    "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 31, "max_position_embeddings": 64, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
GPT2 = {
    "vocab_size": VOCAB, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 64, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
OPT = {
    "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 31,
    "max_position_embeddings": 64, "word_embed_proj_dim": 24, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 50.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
LAYERS = ["full_attention", "sliding_attention", "full_attention"]

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", GPT2),
    "gpt2 wide": ("GPT2", GPT2 | {"n_inner": 31, "activation_function": "relu", "tie_word_embeddings": False}),
    "gpt2 raw": ("GPT2", GPT2 | {"scale_attn_weights": False, "layer_norm_epsilon": 1e-3}),
    "opt": ("OPT", OPT),
    "opt projected, post": ("OPT", OPT | {"word_embed_proj_dim": 17, "do_layer_norm_before": False}),
    "opt projected, pre": ("OPT", OPT | {"word_embed_proj_dim": 17, "tie_word_embeddings": False}),
    "opt without biases": ("OPT", OPT | {"enable_bias": False, "activation_function": "gelu"}),
    "llama": ("Llama", SIZES),
    "llama tied, ungrouped": ("Llama", SIZES | {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    "llama with biases": ("Llama", SIZES | {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"}),
    "llama linear": ("Llama", SIZES | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}}),
    "llama 3": ("Llama", SIZES | {"rope_parameters": LLAMA3, "head_dim": 10}),
    "mistral": ("Mistral", SIZES | {"sliding_window": 5}),
    "mistral whole": ("Mistral", SIZES | {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("Qwen2", SIZES),
    "qwen2 late windows": (
        "Qwen2", SIZES | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2},
    ),
    "qwen2 in turn": ("Qwen2", SIZES | {"use_sliding_window": True, "sliding_window": 4, "layer_types": LAYERS}),
    "qwen3": ("Qwen3", SIZES | {"head_dim": 16}),
    "qwen3 with biases": ("Qwen3", SIZES | {"head_dim": 6, "attention_bias": True, "tie_word_embeddings": True}),
    "smollm3": ("SmolLM3", SIZES | {"no_rope_layers": [1, 0, 1]}),
    "smollm3 with windows": (
        "SmolLM3",
        SIZES | {"no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 4, "tie_word_embeddings": False},
    ),
    "phi3": ("Phi3", SIZES),
    "phi3 partial": (
        "Phi3", SIZES | {"num_attention_heads": 2, "sliding_window": 6, "partial_rotary_factor": 0.5},
    ),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", list(CASES))


@cache
def their_model(name: str) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start."""
    kind, settings = CASES[name]
    config = getattr(transformers, f"{kind}Config")(**settings)
    config._attn_implementation = "eager"
    torch.manual_seed(3)
    model = getattr(transformers, f"{kind}{'LMHeadModel' if kind == 'GPT2' else 'ForCausalLM'}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@cache
def our_model(name: str) -> GPT:
    """The same model here."""
    theirs = their_model(name)
    described = theirs.config.to_dict()
    module: Any = family(described)
    return module.load(described, theirs.state_dict())


def tokens(count: int = LENGTH) -> torch.Tensor:
    """Two texts."""
    return torch.randint(VOCAB, (2, count), generator=torch.Generator().manual_seed(5))


@every_case
def test_logits_and_the_attention_of_all_layers_are_equal(name: str) -> None:
    with torch.no_grad():
        wanted = their_model(name)(tokens(), output_attentions=True)
        with look(our_model(name)) as seen:
            got = our_model(name)(tokens())
    assert_close(got, wanted.logits, atol=1e-4, rtol=1e-4)
    assert len(seen.names) == len(wanted.attentions) == 3
    for layer, weights in zip(seen.names, wanted.attentions, strict=True):
        assert_close(seen[layer].weights(), weights, atol=1e-5, rtol=0)


@every_case
def test_greedy_tokens_with_caches_are_equal(name: str) -> None:
    theirs, prompt = their_model(name), tokens(6)
    wanted = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=WRITTEN, do_sample=False)
    stepper = engine.fast(our_model(name)).stepper
    with torch.no_grad():
        _, state = stepper.step(prompt[:, :-1], stepper.start(2))
    found = Greedy()(stepper, state, prompt[:, -1], None, WRITTEN)
    assert [best.tokens for best, *_ in found] == wanted[:, 6:].tolist()


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_a_penalty_for_repetitions_chooses_the_same_tokens(name: str) -> None:
    theirs, prompt = their_model(name), tokens(6)[:1]
    how = {"max_new_tokens": 20, "do_sample": False, "repetition_penalty": 1.7}
    wanted = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **how)[0, 6:].tolist()
    stepper = engine.fast(our_model(name)).stepper
    with torch.no_grad():
        _, state = stepper.step(prompt[:, :-1], stepper.start(1))
    rule = Repeated(1.7, before=tuple(prompt[0].tolist()))
    ((best, *_),) = Greedy()(stepper, state, prompt[:, -1], None, 20, rules=[rule])
    assert best.tokens == wanted


@every_case
def test_the_way_back_gives_the_same_tensors_and_the_same_logits(name: str) -> None:
    theirs, ours = their_model(name), our_model(name)
    described = theirs.config.to_dict()
    module: Any = family(described)
    table = module.checkpoint(described, list(theirs.state_dict())).table
    exported, kept = export_weights(ours, table), theirs.state_dict()
    assert exported.keys() == {k for k in kept if k != "lm_head.weight" or not theirs.config.tie_word_embeddings}
    for key, tensor in exported.items():
        assert_close(tensor, kept[key], atol=0, rtol=0)
    back = type(theirs.config)(**module.config_json(ours, {"model_type": described["model_type"]}))
    back._attn_implementation = "eager"
    again = type(theirs)(back).eval()
    again.load_state_dict(exported | ({"lm_head.weight": kept["lm_head.weight"]}))
    with torch.no_grad():
        assert_close(again(tokens()).logits, theirs(tokens()).logits, atol=0, rtol=0)
    assert module.config(back.to_dict()) == ours.config


def theirs_of(name: str, **changed: Any) -> dict[str, Any]:
    """The config.json of a case, with some settings changed."""
    return their_model(name).config.to_dict() | changed


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling 'dynamic' is not represented"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_scaling 'yarn' is not represented"),
        ("llama", {"rope_scaling": {"rope_type": "linear"}}, "rope_scaling must have 'factor'"),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": "2"}}, "factor of the rotations must be a number"),
        ("llama", {"rope_parameters": {"full_attention": {}}}, "rope_scaling must be one for all layers"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor must be 1.0"),
        ("llama", {"hidden_act": "xielu"}, "unknown hidden_act 'xielu'"),
        ("llama", {"num_key_value_heads": 3}, "heads must be divisible by kv_heads"),
        ("llama", {"model_type": "gemma"}, "unknown model_type 'gemma'"),
        ("phi3", {"rope_scaling": {"type": "longrope"}}, "rope_scaling 'longrope' is not represented"),
        ("phi3", {"embd_pdrop": 0.1}, "resid_pdrop, embd_pdrop must be equal"),
        ("qwen2", {"use_mrope": True}, "use_mrope must be False"),
        ("qwen2", {"mlp_bias": True}, "mlp_bias must be False"),
        (
            "qwen2",
            {"layer_types": ["chunked_attention"] * 3},
            "layer_types must name full_attention, sliding_attention",
        ),
        ("qwen2", {"layer_types": LAYERS}, "layer_types must not be sliding_attention"),
        ("mistral", {"layer_types": LAYERS}, "layer_types must be the same for all layers"),
        ("mistral", {"sliding_window": 0}, "sliding_window must be a number of keys"),
        ("smollm3", {"no_rope_layers": [1, 0]}, "no_rope_layers must have a 0 or 1 for each of 3 layers"),
        ("opt", {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine must be True"),
        ("opt", {"_remove_final_layer_norm": True}, "_remove_final_layer_norm must be False"),
    ],
    ids=str,
)
def test_what_is_not_represented_is_refused_by_name(name: str, changed: dict[str, Any], message: str) -> None:
    module: Any = opt if name == "opt" else llama
    with pytest.raises(ValueError, match=message):
        module.config(theirs_of(name, **changed))


def test_an_old_config_and_a_new_one_say_the_same_rotations() -> None:
    old = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}}
    without = {k: v for k, v in theirs_of("llama").items() if k != "rope_parameters"}
    assert llama.config(without | old) == our_model("llama linear").config
    assert llama.config(without | {"rope_theta": 10000, "rope_scaling": None}) == our_model("llama").config


@pytest.mark.parametrize("module", [gpt2, opt, llama], ids=lambda module: module.__name__)
@pytest.mark.parametrize(
    ("words", "part"),
    [
        ({"position": "alibi"}, "the position"),
        ({"score": "additive"}, "the score"),
        ({"where": "strided:4"}, "the neighborhood"),
        ({"projection": "collaborative:8"}, "the projection"),
        ({"normalizer": "sparsemax"}, "the normalizer"),
        ({"norm": "batch"}, "the norm"),
    ],
    ids=str,
)
def test_a_model_trained_here_that_no_family_has_is_refused_by_its_part(
    module: ModuleType, words: dict[str, str], part: str
) -> None:
    model = GPT(GPTConfig(**GPTConfig.tiny().to_dict() | words))
    with pytest.raises(ValueError, match=f"cannot express this model: {part} is"):
        module.config_json(model, {})


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ({}, "gpt2"),
        ({"position": "learned:offset=2", "activation": "relu"}, "opt"),
        ({"position": "rotary", "norm": "rms", "activation": "gated", "projection": "multihead:bias=no"}, "llama"),
    ],
    ids=["gpt2", "opt", "llama"],
)
def test_a_model_trained_here_computes_the_same_there(words: dict[str, str], kind: str) -> None:
    ours = GPT(GPTConfig(**GPTConfig.tiny().to_dict() | words)).eval()
    module: Any = family({"model_type": kind})
    described = module.config_json(ours, {"model_type": kind})
    theirs = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**described)).eval()
    weights = export_weights(ours, module.checkpoint(described, []).table)
    missing = theirs.load_state_dict(weights, strict=False)
    assert set(missing.missing_keys) <= {"lm_head.weight"}
    assert not missing.unexpected_keys
    asked = torch.randint(13, (2, 7))
    with torch.no_grad():
        assert_close(theirs(asked).logits, ours(asked), atol=1e-5, rtol=1e-5)

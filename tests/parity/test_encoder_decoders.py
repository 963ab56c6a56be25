"""Parity with Hugging Face's encoder-decoders: logits, all attention, steps, searches, and the way back."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from mirada import look  # noqa: E402
from mirada.data.text.tokenize import Tokenizer  # noqa: E402
from mirada.engine import fast  # noqa: E402
from mirada.engine.stepper import PackedStepper  # noqa: E402
from mirada.hub import bart, t5  # noqa: E402
from mirada.hub.families import family  # noqa: E402
from mirada.hub.mapping import export_weights  # noqa: E402
from mirada.models.transformer import Transformer, TransformerConfig  # noqa: E402
from mirada.runs.ask import TranslateAsk  # noqa: E402
from mirada.tasks.translate.pairs import ImportedPairs, Sides  # noqa: E402

BATCH, SOURCE, TARGET, VOCAB = 3, 11, 7, 41
LENGTHS = torch.tensor([11, 5, 8])
REAL = torch.arange(SOURCE) < LENGTHS.unsqueeze(1)
NEAR, WEIGHTS = {"atol": 1e-4, "rtol": 1e-4}, {"atol": 1e-5, "rtol": 0}

BART_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "d_model": 20, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 5,
    "decoder_attention_heads": 5, "encoder_ffn_dim": 31, "decoder_ffn_dim": 31, "max_position_embeddings": 30,
}  # fmt: skip
T5_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "d_model": 20, "d_kv": 3, "d_ff": 31, "num_layers": 2, "num_heads": 5,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9, "decoder_start_token_id": 0,
}  # fmt: skip
MARIAN = BART_SIZES | {"pad_token_id": 40, "eos_token_id": 0, "decoder_start_token_id": 40, "forced_eos_token_id": 0}

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("Marian", MARIAN | {"activation_function": "swish", "scale_embedding": True}),
    "marian-unscaled": ("Marian", MARIAN | {"decoder_layers": 1}),
    "marian-two-vocabularies": (
        "Marian", MARIAN | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 43, "scale_embedding": True},
    ),
    "bart": ("Bart", BART_SIZES),
    "bart-scaled": ("Bart", BART_SIZES | {"scale_embedding": True, "activation_function": "relu", "decoder_layers": 3}),
    "mbart": ("MBart", BART_SIZES | {"scale_embedding": True, "decoder_start_token_id": 2}),
    "nllb": ("M2M100", BART_SIZES),
    "m2m_100": ("M2M100", BART_SIZES | {"scale_embedding": False, "encoder_layers": 1, "activation_function": "gelu"}),
    "t5": ("T5", T5_SIZES),
    "t5-1.1": ("T5", T5_SIZES | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 1}),
    "mt5": ("MT5", T5_SIZES | {"feed_forward_proj": "gated-gelu", "d_kv": 7}),
}  # fmt: skip


@cache
def their_model(form: str) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start; an output that is not tied is drawn anew."""
    torch.manual_seed(5)
    name, sizes = FORMS[form]
    config = getattr(transformers, f"{name}Config")(**sizes, **{"dropout_rate" if "t5" in form else "dropout": 0.0})
    config._attn_implementation = "eager"
    kind = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    model = getattr(transformers, kind)(config).eval()
    if form in ("t5-1.1", "mt5"):
        model.lm_head.weight = nn.Parameter(0.3 * torch.randn_like(model.lm_head.weight))
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
            computed = "embed_positions" in name and not parameter.requires_grad
            if not computed:
                parameter.add_((0.1 if "t5" in form else 0.3) * torch.randn_like(parameter))
    return model


def their_files(form: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What `save_pretrained` writes: config.json, and the tensors with shared ones once."""
    theirs = their_model(form)
    weights, seen = {}, set()
    for name, tensor in theirs.state_dict().items():
        if tensor.data_ptr() not in seen:
            weights[name] = tensor
            seen.add(tensor.data_ptr())
    return theirs.config.to_dict() | {"architectures": [type(theirs).__name__]}, weights


@cache
def our_model(form: str) -> Transformer:
    module = bart if "t5" not in form else t5
    return module.load(*their_files(form))


def texts(form: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources with padding, and targets. The padding token stands in the padding only."""
    generator = torch.Generator().manual_seed(3)
    pad = their_model(form).config.pad_token_id
    source = torch.randint(3, VOCAB - 2, (BATCH, SOURCE), generator=generator).masked_fill(~REAL, pad)
    return source, torch.randint(3, VOCAB - 2, (BATCH, TARGET), generator=generator)


@pytest.mark.parametrize("form", FORMS)
def test_logits_and_all_attention_are_equal_in_a_padded_batch(form: str) -> None:
    theirs, ours = their_model(form), our_model(form)
    source, target = texts(form)
    with torch.no_grad():
        wanted = theirs(source, attention_mask=REAL.long(), decoder_input_ids=target, output_attentions=True)
        with look(ours) as seen:
            got = ours(source, LENGTHS, target)
    assert_close(got, wanted.logits, **NEAR)
    kinds = {"encoder.layers.{}.self": wanted.encoder_attentions, "decoder.layers.{}.self": wanted.decoder_attentions}
    for name, attentions in (kinds | {"decoder.layers.{}.cross": wanted.cross_attentions}).items():
        for layer, attention in enumerate(attentions):
            weights = seen[name.format(layer)].weights()
            if name.startswith("encoder"):
                weights, attention = (
                    weights[REAL.unsqueeze(1).expand(weights.shape[:3])],
                    attention[REAL.unsqueeze(1).expand(attention.shape[:3])],
                )
            assert_close(weights, attention, **WEIGHTS)


@pytest.mark.parametrize("form", FORMS)
def test_there_and_back_gives_the_same_tensors_and_logits(form: str) -> None:
    described, weights = their_files(form)
    found = family(described).checkpoint(described, weights)
    facts = dict(found.facts) | {"model_type": described["model_type"]}
    again = family(described).config_json(our_model(form), facts)
    table = family(again).checkpoint(again, ()).table
    exported = export_weights(our_model(form), table)
    for name, tensor in exported.items():
        assert_close(tensor, their_model(form).state_dict()[name], atol=0, rtol=0)
    # every tensor of theirs, by one of its names, except computed positions
    kept = {tensor.data_ptr() for name, tensor in their_model(form).state_dict().items() if name in exported}
    left = [name for name, tensor in weights.items() if tensor.data_ptr() not in kept and "embed_positions" not in name]
    assert [name for name in left if not name.endswith("shared.weight")] == []
    kind = type(their_model(form))
    config = kind.config_class.from_dict(again)
    config._attn_implementation = "eager"
    theirs = kind.from_pretrained(None, config=config, state_dict=exported).eval()
    source, target = texts(form)
    with torch.no_grad():
        given = {"attention_mask": REAL.long(), "decoder_input_ids": target}
        assert_close(theirs(source, **given).logits, their_model(form)(source, **given).logits, atol=0, rtol=0)


@pytest.mark.parametrize("form", FORMS)
def test_engines_take_them_all(form: str) -> None:
    ours = our_model(form)
    engine = fast(ours)
    source, target = texts(form)
    with torch.no_grad():
        wanted = ours(source, LENGTHS, target)
        state = engine.stepper.start(engine.stepper.encode(source, LENGTHS))
        for place in range(TARGET):
            got, state = engine.stepper.step(target[:, place], state)
            assert_close(got, wanted[:, place], **NEAR)
    assert engine.reason is None


@pytest.mark.parametrize("form", ["bart", "mbart"])
def test_engines_in_plain_pytorch_normalize_words_too(form: str) -> None:
    ours = copy.deepcopy(our_model(form)).double()
    stepper = fast(ours).stepper
    assert isinstance(stepper, PackedStepper)
    source, target = texts(form)
    with torch.no_grad():
        wanted = ours(source, LENGTHS, target)
        state = stepper.start(stepper.encode(source, LENGTHS))
        for place in range(TARGET):
            got, state = stepper.step(target[:, place], state)
            assert_close(got, wanted[:, place])


def test_models_trained_here_are_expressed_or_refused_by_name() -> None:
    sizes: dict[str, Any] = {
        "vocab": 9,
        "source_vocab": 9,
        "width": 8,
        "heads": 2,
        "hidden": 8,
        "depth": 1,
        "tied": "all",
    }
    model = Transformer(TransformerConfig(**sizes))
    with pytest.raises(ValueError, match=r"a M2M100.* cannot hold this model: position='sinusoidal', where it has"):
        bart.config_json(model, {})
    with pytest.raises(
        ValueError, match=r"a T5.* cannot hold this model: .*activation='relu', where it has 'relu:bias=no'"
    ):
        t5.config_json(model, {})
    sizes |= {"order": "post", "position": "sinusoidal:layout=half"}
    ours = Transformer(TransformerConfig(**sizes)).eval()
    described = bart.config_json(ours, {})
    config = transformers.MarianConfig.from_dict(described)
    weights = export_weights(ours, bart.checkpoint(described, ()).table)
    theirs = transformers.MarianMTModel.from_pretrained(None, config=config, state_dict=weights).eval()
    source, target = torch.randint(4, 9, (2, 5)), torch.randint(4, 9, (2, 3))
    with torch.no_grad():
        assert_close(ours(source, None, target), theirs(source, decoder_input_ids=target).logits, **NEAR)


@pytest.mark.parametrize(
    ("form", "setting", "message"),
    [
        ("bart", {"normalize_before": True}, "normalize_before must be False: got True"),
        ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings must be True: got False"),
        ("bart", {"decoder_ffn_dim": 29}, "encoder_ffn_dim, decoder_ffn_dim must be equal"),
        (
            "bart",
            {"architectures": ["BartForSequenceClassification"]},
            "must be a BartForConditionalGeneration: got BartForS",
        ),
        ("bart", {"activation_function": "sigmoid"}, "unknown activation_function 'sigmoid'"),
        ("nllb", {"d_model": 25, "encoder_attention_heads": 5}, "d_model must be even"),
        ("marian", {"static_position_embeddings": False}, "static_position_embeddings must be True"),
        ("t5", {"feed_forward_proj": "gated-"}, "unknown feed_forward_proj ''"),
        ("t5", {"feed_forward_proj": "double-relu"}, "feed_forward_proj must be an activation"),
        ("t5", {"architectures": ["T5EncoderModel"]}, "must be a T5ForConditionalGeneration: got T5EncoderModel"),
        ("t5", {"d_model": "20"}, "d_model must be a number above 0: got '20'"),
    ],
    ids=str,
)
def test_what_our_model_cannot_be_is_refused_by_name(form: str, setting: dict[str, Any], message: str) -> None:
    described, weights = their_files(form)
    with pytest.raises(ValueError, match=message):
        family(described).checkpoint(described | setting, weights)


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"max_length": 12, "no_repeat_ngram_size": 3},
    "forced": {"max_length": 9, "forced_bos_token_id": 7, "forced_eos_token_id": 9, "min_length": 4},
    "beam": {
        "num_beams": 4,
        "max_length": 12,
        "length_penalty": 2.0,
        "early_stopping": True,
        "no_repeat_ngram_size": 1,
    },
    "likely": {
        "num_beams": 3,
        "max_length": 14,
        "length_penalty": 0.6,
        "no_repeat_ngram_size": 2,
        "forced_bos_token_id": 8,
    },
    "never": {"num_beams": 3, "max_length": 10, "early_stopping": "never", "min_length": 3, "forced_eos_token_id": 9},
    "banned": {
        "num_beams": 2,
        "max_new_tokens": 9,
        "bad_words_ids": [[5], [6, 7], [11, 12, 13]],
        "suppress_tokens": [4, 10],
    },
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("form", ["marian", "bart", "mbart", "nllb", "t5", "t5-1.1"])
def test_searches_write_the_tokens_that_theirs_write(form: str, search: str) -> None:
    theirs, ours = their_model(form), our_model(form)
    described, weights = their_files(form)
    start, end = 2, 9  # an end that such models write
    said = SEARCHES[search]
    if form == "nllb":  # a padding token in the middle of a text would have no position there
        said = said | {"suppress_tokens": [*said.get("suppress_tokens", []), theirs.config.pad_token_id]}
    said = said | {"eos_token_id": end, "decoder_start_token_id": start, "num_return_sequences": 1}
    source, _ = texts(form)
    given = transformers.GenerationConfig(**said, pad_token_id=theirs.config.pad_token_id)
    theirs.generation_config = transformers.GenerationConfig()  # what is not given would be taken from here
    with torch.no_grad():
        written = theirs.generate(source, attention_mask=REAL.long(), generation_config=given)
    facts = family(described).checkpoint(described | {"generation_config": given.to_dict()}, weights).facts
    known = ImportedPairs(Tokenizer.train(["a b"], "word"), stated=facts)  # it frames nothing here
    asked = TranslateAsk(**known.asks())
    assert known.first(Sides()) == start
    state = ours.start(ours.encode(source, LENGTHS))
    rules = known.rules(known.most(), asked.no_repeat)
    first = torch.full((BATCH,), start)
    for row, (best, *_) in enumerate(asked.search()(ours, state, first, known.ends, known.most(), rules=rules)):
        wanted = written[row, 1:].tolist()
        wanted = wanted[: wanted.index(end)] if end in wanted else wanted
        assert best.tokens == wanted

"""Parity with Hugging Face's encoders, every family with every head: scores, attention of all layers, tensors both ways."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from mirada import look  # noqa: E402
from mirada.hub.encoders import of_weights  # noqa: E402
from mirada.hub.families import family  # noqa: E402
from mirada.hub.mapping import export_weights  # noqa: E402

BATCH, LENGTH, VOCAB, LENGTHS = 3, 11, 37, torch.tensor([11, 5, 7])
REAL = torch.arange(LENGTH) < LENGTHS.unsqueeze(1)
SIZES = {
    "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 31,
    "max_position_embeddings": 17, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
ROTARY = {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 4}
MODERN = {"local_attention": 4, "cls_token_id": 2, "sep_token_id": 3}
SETTINGS: dict[str, dict[str, Any]] = {  # a family, or a form of it: what differs from the sizes
    "bert": {"layer_norm_eps": 1e-3, "type_vocab_size": 3, "hidden_act": "gelu_new"},
    "roberta": {"type_vocab_size": 1},
    "xlm-roberta": {"type_vocab_size": 1, "hidden_act": "relu"},
    "camembert": {"pad_token_id": 0},
    "distilbert": {"hidden_size": 24, "hidden_dim": 31, "dropout": 0.0, "attention_dropout": 0.0},
    "electra": {"embedding_size": 10},
    "electra of one width": {"embedding_size": 24},
    "esm": ROTARY,
    "esm with a table": {"emb_layer_norm_before": True, "mask_token_id": 4},
    "modernbert": MODERN,
    "modernbert with biases": MODERN | {
        "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True, "classifier_pooling": "mean",
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
}  # fmt: skip
HEADS = ("", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
CASES = [
    (name, head) for name in SETTINGS for head in HEADS if (name.split()[0], head) != ("esm", "ForQuestionAnswering")
] + [("electra", "ForPreTraining")]
NOT_OURS = (
    "contact_head.regression.weight",
    "contact_head.regression.bias",
)  # read attention; no text is answered by them
NEAR = {"atol": 1e-4, "rtol": 1e-4}


class Saved(NamedTuple):
    """A model of theirs, and the files that it is saved as."""

    model: nn.Module
    config: dict[str, Any]
    weights: dict[str, Tensor]


def made(name: str, head: str, **settings: Any) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start."""
    torch.manual_seed(7)
    word = name.split()[0]
    config_class = transformers.AutoConfig.for_model(word).__class__
    sizes = SIZES | SETTINGS[name] | settings
    if word == "modernbert":
        sizes = {key: value for key, value in sizes.items() if "_prob" not in key}
    labels = {} if head == "ForQuestionAnswering" else {"num_labels": 5}
    config = config_class(**sizes, **labels, attn_implementation="eager")
    stem = type(config).__name__.removesuffix("Config")
    model = getattr(transformers, f"{stem}{head or 'Model'}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@cache
def saved(name: str, head: str) -> Saved:
    model = made(name, head)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return Saved(
            model, json.loads(Path(folder, "config.json").read_text()), load_file(f"{folder}/model.safetensors")
        )


def inputs(saved: Saved) -> tuple[Tensor, Tensor, Tensor | None]:
    """Tokens padded with their padding token, which occurs nowhere else; some are hidden; segments where there are some."""
    tokens = torch.randint(5, VOCAB, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    tokens[:, 3] = 4
    tokens = tokens.masked_fill(~REAL, saved.config["pad_token_id"])
    kinds = saved.config.get("type_vocab_size", 0)
    segments = torch.arange(LENGTH).expand(BATCH, -1) % kinds if kinds > 1 else None
    return tokens, REAL.long(), segments


def their_scores(output: Any) -> Tensor:
    """What the head of theirs answers, in our axes."""
    if "start_logits" in output:
        return torch.stack([output.start_logits, output.end_logits], -1)
    scores: Tensor = output.logits if "logits" in output else output.last_hidden_state
    return scores


@pytest.mark.parametrize(("name", "head"), CASES)
@torch.no_grad()
def test_scores_and_attention_of_every_layer_are_equal_in_a_padded_batch(name: str, head: str) -> None:
    theirs = saved(name, head)
    found = family(theirs.config).checkpoint(theirs.config, theirs.weights)
    ours = of_weights(found, theirs.weights)
    tokens, mask, segments = inputs(theirs)
    given = {} if segments is None else {"token_type_ids": segments}
    output = theirs.model(input_ids=tokens, attention_mask=mask, output_attentions=True, **given)
    wanted = their_scores(output)
    with look(ours) as seen:
        got = ours(tokens, LENGTHS, segments)
    if head == "ForPreTraining":  # one score of a sigmoid is the difference of two of a softmax
        got = got[..., 1] - got[..., 0]
    places = slice(None) if head == "ForSequenceClassification" else REAL
    assert_close(got[places], wanted[places], **NEAR)
    assert len(seen) == len(output.attentions) == 3
    for layer, weights in zip(seen.names, output.attentions, strict=True):
        rows = REAL[:, None, :, None].expand_as(weights)
        assert_close(seen[layer].weights()[rows], weights[rows], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("name", "head"), CASES)
def test_a_round_trip_gives_identical_tensors_and_a_model_that_they_load(name: str, head: str, tmp_path: Path) -> None:
    theirs = saved(name, head)
    module = family(theirs.config)
    found = module.checkpoint(theirs.config, theirs.weights)
    ours = of_weights(found, theirs.weights)
    facts = dict(found.facts) | {"model_type": theirs.config["model_type"], "architecture": found.table.source}
    described = module.config_json(ours, facts)
    exported = export_weights(ours, module.checkpoint(described, ()).table)
    own = {key: tensor for key, tensor in theirs.model.state_dict().items() if not key.endswith(NOT_OURS)}
    assert exported.keys() <= own.keys()
    described = {key: theirs.config[key] for key in theirs.config if key.endswith("token_id")} | described
    (tmp_path / "config.json").write_text(json.dumps(described))
    save_file(exported, tmp_path / "model.safetensors", {"format": "pt"})
    again = type(theirs.model).from_pretrained(tmp_path, attn_implementation="eager").eval()
    for key, tensor in own.items():
        assert torch.equal(again.state_dict()[key], tensor), key
    tokens, mask, segments = inputs(theirs)
    given = {} if segments is None else {"token_type_ids": segments}
    with torch.no_grad():
        one, other = (
            their_scores(model(input_ids=tokens, attention_mask=mask, **given)) for model in (theirs.model, again)
        )
    assert_close(one, other, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "electra", "esm", "modernbert"])
@torch.no_grad()
def test_scores_of_words_may_have_a_table_of_their_own(name: str) -> None:
    model = made(name, "ForMaskedLM", tie_word_embeddings=False)
    settings = model.config.to_dict() | {"architectures": [type(model).__name__]}
    found = family(settings).checkpoint(settings, model.state_dict())
    assert not found.config.tied
    ours = of_weights(found, model.state_dict())
    tokens, mask, _ = inputs(Saved(model, settings, {}))
    assert_close(ours(tokens, LENGTHS)[REAL], model(input_ids=tokens, attention_mask=mask).logits[REAL], **NEAR)
    assert not torch.equal(ours.output.weight, ours.words.weight)

"""What the families of encoders make of a config.json and the names of tensors: heads, facts, and what is refused by name."""

from typing import Any

import pytest
import torch

from mirada.hub import bert, distilbert, encoders, esm, modernbert
from mirada.hub.mapping import Row, copy_weights, export_weights
from mirada.models.bert import BERT, BERTConfig
from mirada.models.encoder import TextEncoder, TextEncoderConfig

SIZES = {
    "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "max_position_embeddings": 16, "pad_token_id": 0,
}  # fmt: skip
POOLER = "bert.pooler.dense.weight"
WORDS, ORDER = "cls.predictions.bias", "cls.seq_relationship.weight"


def described(kind: str, **settings: Any) -> dict[str, Any]:
    return SIZES | {"architectures": [f"Bert{kind}"], "model_type": "bert"} | settings


def test_a_model_of_words_and_order_is_our_bert_and_one_of_words_alone_an_encoder() -> None:
    both = bert.checkpoint(described("ForMaskedLM"), [WORDS, ORDER, POOLER])
    assert (both.model, both.task, both.preset) == (BERT, "fill", "bert")
    words = bert.checkpoint(described("ForMaskedLM"), [WORDS, POOLER])
    assert (words.model, words.task, words.preset) == (TextEncoder, "fill", "encoder")
    assert bert.checkpoint(described("ForPreTraining"), []).model is BERT


@pytest.mark.parametrize(
    ("kind", "names", "task", "head", "transform"),
    [
        ("Model", [], "embed", "none", "none"),
        ("Model", ["pooler.dense.weight"], "embed", "none", "tanh"),
        ("ForMaskedLM", ["embeddings.word_embeddings.weight"], "embed", "none", "none"),  # saved without its head
        ("ForMaskedLM", [WORDS], "fill", "mask", "gelu:norm=yes"),
        ("ForSequenceClassification", [], "classify", "classes", "tanh"),
        ("ForTokenClassification", [], "tag", "tags", "none"),
        ("ForQuestionAnswering", [], "answer", "span", "none"),
    ],
)
def test_the_task_follows_from_the_head(kind: str, names: list[str], task: str, head: str, transform: str) -> None:
    found = bert.checkpoint(described(kind), names)
    assert isinstance(found.config, TextEncoderConfig)
    assert (found.task, found.config.head, found.config.transform) == (task, head, transform)


def test_without_architectures_the_tensors_say_whether_words_are_predicted() -> None:
    theirs = described("Model", architectures=None)
    assert bert.checkpoint(theirs, ["bert.embeddings.LayerNorm.gamma", WORDS]).task == "fill"
    assert bert.checkpoint(theirs, ["embeddings.LayerNorm.gamma"]).task == "embed"


def test_the_head_of_a_checkpoint_without_a_use_is_left_out_where_an_encoder_alone_is_wanted() -> None:
    whole = bert.checkpoint(described("ForMaskedLM"), [])
    source = TextEncoder(whole.config)  # type: ignore[arg-type]
    weights = export_weights(source, whole.table)
    found = bert.checkpoint(described("Model"), weights)
    alone = copy_weights(TextEncoder(found.config), found.table, weights)  # type: ignore[arg-type]
    assert torch.equal(alone.words.weight, source.words.weight)
    assert alone.output is None


def test_labels_and_their_kind_are_facts() -> None:
    names = {"0": "anger", "1": "joy", "2": "none"}
    several = described("ForSequenceClassification", id2label=names, problem_type="multi_label_classification")
    found = bert.checkpoint(several, [])
    assert found.facts == {"labels": ["anger", "joy", "none"], "labels_a_text": "many"}
    model = TextEncoder(found.config)  # type: ignore[arg-type]
    again = bert.config_json(model, found.facts)
    assert (again["id2label"], again["problem_type"]) == (names, "multi_label_classification")
    assert bert.checkpoint(described("ForQuestionAnswering"), []).facts == {"longest": 30, "unanswerable": False}


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (bert, {"position_embedding_type": "relative_key"}, "position_embedding_type must be 'absolute': got 'relative_key'"),
    (bert, {"is_decoder": True}, "is_decoder must be False: got True"),
    (bert, {"add_cross_attention": True}, "add_cross_attention must be False"),
    (bert, {"pruned_heads": {"0": [1]}}, "pruned_heads must be empty"),
    (bert, {"hidden_act": "mish"}, "unknown hidden_act 'mish'"),
    (bert, {"architectures": ["BertForMultipleChoice"]}, "unknown architecture 'BertForMultipleChoice'; known: .*BertModel"),
    (bert, {"architectures": ["BertForSequenceClassification"], "num_labels": 1}, "estimates a number"),
    (bert, {"architectures": ["BertForSequenceClassification"], "problem_type": "regression"}, "estimates a number"),
    (bert, {"architectures": ["BertForSequenceClassification"], "problem_type": "ranking"}, "problem_type must be"),
    (bert, {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "a"}}, "a name of its own"),
    (bert, {"architectures": ["BertForQuestionAnswering"], "num_labels": 3}, "has 2 labels, .*: got 3"),
    (esm, {"architectures": ["EsmModel"], "position_embedding_type": "relative_key"}, "must be absolute or rotary"),
    (esm, {"architectures": ["EsmModel"], "is_folding_model": True}, "is_folding_model must be False"),
    (esm, {"architectures": ["EsmModel"], "rope_parameters": {"rope_type": "yarn"}, "position_embedding_type": "rotary"},
     "rope_type must be 'default': got 'yarn'"),
    (modernbert, {"architectures": ["ModernBertModel"], "classifier_pooling": "max"}, "must be cls or mean: got 'max'"),
    (modernbert, {"architectures": ["ModernBertModel"], "layer_types": ["full_attention"]}, "for each of 2 layers"),
    (modernbert, {"architectures": ["ModernBertModel"], "decoder_bias": False}, "decoder_bias must be True"),
    (modernbert, {"architectures": ["ModernBertModel"], "norm_bias": "no"}, "norm_bias must be true or false: got 'no'"),
    (modernbert, {"architectures": ["ModernBertModel"], "rope_scaling": {"factor": 2}}, "rope_scaling must be empty"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "settings", "message"), REFUSED)
def test_what_cannot_be_represented_is_refused_by_name(family: Any, settings: dict[str, Any], message: str) -> None:
    theirs = described("Model", local_attention=4) | settings
    with pytest.raises(ValueError, match=message):
        family.checkpoint(theirs, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"where": "window:2,2"}, r"BertForMaskedLM cannot express where='window:2,2' \(it has 'complete'\)"),
        ({"norm": "rms"}, "has layer norms: got norm='rms'"),
        ({"activation": "gated:silu"}, "cannot express activation='gated:silu'"),
        ({"position": "rotary"}, "cannot express position='rotary'"),
    ],
)
def test_a_model_that_a_family_cannot_be_is_not_exported(changes: dict[str, str], message: str) -> None:
    fields = TextEncoderConfig.tiny().to_dict() | {"head": "mask", "transform": "gelu:norm=yes"} | changes
    with pytest.raises(ValueError, match=message):
        bert.config_json(TextEncoder(TextEncoderConfig(**fields)), {})


def test_a_model_trained_here_is_exported_as_the_family_that_it_is() -> None:
    ours = BERT(BERTConfig.tiny())
    theirs = bert.config_json(ours, {})
    assert theirs["architectures"] == ["BertForPreTraining"]
    weights = export_weights(ours, bert.checkpoint(theirs, []).table)
    again = bert.load(theirs, weights)
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), again.parameters(), strict=True))
    fields = TextEncoderConfig.tiny().to_dict() | {"segments": 0, "transform": "relu"}
    classes = TextEncoder(TextEncoderConfig(**fields))
    assert distilbert.config_json(classes, {"labels": ["a", "b"]})["id2label"] == {"0": "a", "1": "b"}


def test_rows_of_a_norm_read_the_names_of_the_first_checkpoints() -> None:
    assert encoders.norm_rows("norm", "LayerNorm")[1:] == [
        Row("norm.weight", "LayerNorm.gamma"),
        Row("norm.bias", "LayerNorm.beta"),
    ]

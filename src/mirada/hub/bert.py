"""BERT and its near relatives: RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA, and MiniLM, whose class is a `BertModel`.

A `BertForPreTraining`, and a `BertForMaskedLM` saved with the order of sentences, become our `BERT`; all others a `TextEncoder`.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.encoders import (
    Head,
    class_of,
    classes_of,
    expect_plain,
    head_of,
    head_rows,
    norm_rows,
    understood,
    unused_heads,
    written,
)
from mirada.hub.mapping import (
    LOGIT,
    REVERSED,
    Row,
    WeightTable,
    activation,
    copy_weights,
    expect,
    settings,
    softmax,
    their_activation,
    their_dropout,
    their_eps,
)
from mirada.layers.model import Model
from mirada.models.bert import BERT, BERTConfig
from mirada.models.encoder import TextEncoder, TextEncoderConfig

PROJECTIONS = ("self.query", "self.key", "self.value", "output.dense")
REPLACED = ("original", "replaced")  # what the discriminator of ELECTRA says of a token


class BertKind(NamedTuple):
    """What differs among the relatives: their classes, the prefix of their tensors, and the names of their heads."""

    stem: str
    prefix: str
    heads: Mapping[str, list[Row]]
    words: str  # a tensor of the head for masked words
    classes: str  # the activation before the scores of classes
    shifted: bool = False  # positions begin behind the padding token

    @property
    def known(self) -> dict[str, str]:
        """Its classes, and their kinds of heads."""
        others = {"bert": {"PreTraining": "mask"}, "electra": {"PreTraining": "tags"}}
        return classes_of(self.stem, **others.get(self.prefix, {}))


POOLER = Row("transform.dense.*", "pooler.dense.*")
BERT_HEADS = {
    "none": [POOLER],
    "mask": [
        Row("transform.dense.*", "cls.predictions.transform.dense.*"),
        *norm_rows("transform.norm", "cls.predictions.transform.LayerNorm"),
        Row("output.*", "cls.predictions.decoder.*"),
        Row("output.bias", "cls.predictions.bias"),
    ],
    "classes": head_rows("bert.pooler.dense", "classifier"),
    "tags": head_rows("", "classifier"),
    "span": head_rows("", "qa_outputs"),
}
ROBERTA_HEADS = {
    "none": [POOLER],
    "mask": [
        Row("transform.dense.*", "lm_head.dense.*"),
        Row("transform.norm.*", "lm_head.layer_norm.*"),
        Row("output.*", "lm_head.decoder.*"),
        Row("output.bias", "lm_head.bias"),
    ],
    "classes": head_rows("classifier.dense", "classifier.out_proj"),
    "tags": head_rows("", "classifier"),
    "span": head_rows("", "qa_outputs"),
}
ELECTRA_HEADS = {
    "none": [],
    "mask": [
        Row("transform.dense.*", "generator_predictions.dense.*"),
        *norm_rows("transform.norm", "generator_predictions.LayerNorm"),
        Row("output.*", "generator_lm_head.*"),
    ],
    "classes": head_rows("classifier.dense", "classifier.out_proj"),
    "tags": head_rows("", "classifier"),
    "span": head_rows("", "qa_outputs"),
}
DISCRIMINATOR = [
    Row("transform.dense.*", "discriminator_predictions.dense.*"),
    Row("output.*", "discriminator_predictions.dense_prediction.*", LOGIT),
]
KINDS = {
    "bert": BertKind("Bert", "bert", BERT_HEADS, "cls.predictions.bias", "tanh"),
    "roberta": BertKind("Roberta", "roberta", ROBERTA_HEADS, "lm_head.bias", "tanh", shifted=True),
    "xlm-roberta": BertKind("XLMRoberta", "roberta", ROBERTA_HEADS, "lm_head.bias", "tanh", shifted=True),
    "camembert": BertKind("Camembert", "roberta", ROBERTA_HEADS, "lm_head.bias", "tanh", shifted=True),
    "electra": BertKind("Electra", "electra", ELECTRA_HEADS, "generator_lm_head.bias", "gelu"),
}
ORDER = "cls.seq_relationship"  # of two sentences
NOT_LEARNED = ("embeddings.position_ids", "embeddings.token_type_ids")


def body(prefix: str) -> list[Row]:
    """The rows of all but the head, with that prefix of theirs."""
    rows = [
        Row("words.weight", "embeddings.word_embeddings.weight"),
        Row("segments.weight", "embeddings.token_type_embeddings.weight"),
        Row("place.position.table", "embeddings.position_embeddings.weight"),
        *norm_rows("norm", "embeddings.LayerNorm"),
        Row("widen.*", "embeddings_project.*"),
        *Row.attention("encoder.layers.{n}.self", "encoder.layer.{n}.attention", *PROJECTIONS),
        *norm_rows("encoder.layers.{n}.around_self.norm", "encoder.layer.{n}.attention.output.LayerNorm"),
        Row("encoder.layers.{n}.feed.widen.*", "encoder.layer.{n}.intermediate.dense.*"),
        Row("encoder.layers.{n}.feed.narrow.*", "encoder.layer.{n}.output.dense.*"),
        *norm_rows("encoder.layers.{n}.around_feed.norm", "encoder.layer.{n}.output.LayerNorm"),
    ]
    return [row._replace(theirs=f"{prefix}{row.theirs}") for row in rows]


TABLE = WeightTable(
    source="BertForPreTraining",
    prefix="bert.",
    rows=(
        *body("bert."),
        Row("gap.*", "cls.predictions.transform.dense.*"),
        *norm_rows("gap_norm", "cls.predictions.transform.LayerNorm"),
        *reversed(BERT_HEADS["mask"][-2:]),  # the embedding and the bias again
        Row("pool.*", "bert.pooler.dense.*"),
        # their class 0 is "follows", ours is 1
        Row("order.*", f"{ORDER}.*", REVERSED),
    ),
    ignored=NOT_LEARNED,
)


def config(theirs: Mapping[str, Any]) -> BERTConfig:
    """The configuration of our `BERT` of a `config.json` of theirs.

    >>> sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> config(sizes | {"intermediate_size": 16, "max_position_embeddings": 32}).norm
    'layer:1e-12'
    """
    expect(theirs, model_type="bert", tie_word_embeddings=True)
    return BERTConfig(**_sizes(theirs), **settings(theirs, length="max_position_embeddings"))


def _sizes(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that all relatives have."""
    expect_plain(theirs)
    return {
        **settings(theirs, vocab="vocab_size", width="hidden_size", depth="num_hidden_layers"),
        **settings(theirs, heads="num_attention_heads", hidden="intermediate_size"),
        "segments": theirs.get("type_vocab_size", 2),
        "activation": activation(theirs, "hidden_act", absent="gelu"),
        "norm": f"layer:{float(theirs.get('layer_norm_eps', 1e-12))!r}",
        "dropout": theirs.get("hidden_dropout_prob", 0.1),
        "normalizer": softmax(theirs.get("attention_probs_dropout_prob", 0.1)),
    }


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    >>> sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> sizes |= {"intermediate_size": 16, "max_position_embeddings": 34, "pad_token_id": 1, "model_type": "roberta"}
    >>> found = checkpoint(sizes | {"architectures": ["RobertaForMaskedLM"]}, ["lm_head.bias"])
    >>> found.task, found.config.position, found.config.length
    ('fill', 'learned:offset=2', 32)
    """
    kind = str(theirs.get("model_type", "bert"))
    relative = KINDS[kind]
    named = architecture(theirs)
    has_order = any(name.startswith(ORDER) for name in names)
    if kind == "bert" and (named == "BertForPreTraining" or (has_order and named in ("", "BertForMaskedLM"))):
        return Checkpoint(BERT, config(theirs), TABLE, "fill", "bert")
    stem, _, bias = relative.words.rpartition(".")
    head = head_of(theirs, relative.known, names, relative.words, f"{stem}.decoder.{bias}")
    discriminator = named == "ElectraForPreTraining"
    head = Head("tags", REPLACED) if discriminator else head
    fields = _sizes(theirs) | head.fields | _length(theirs, relative)
    fields["transform"] = _transform(relative, head, discriminator, fields["activation"], names)
    tied = head.kind != "mask" or theirs.get("tie_word_embeddings", True)
    apart = not names or any(name.endswith("decoder.bias") for name in names)
    width = theirs.get("embedding_size", 128) if kind == "electra" else fields["width"]
    fields["embed"] = 0 if width == fields["width"] else width
    table = _table(relative, head, discriminator, named, tied, apart)
    return understood(theirs, TextEncoderConfig(**fields, tied=tied), table, head)


def _length(theirs: Mapping[str, Any], relative: BertKind) -> dict[str, Any]:
    """The positions that a text can have. Those of RoBERTa begin behind the number of its padding token."""
    rows = settings(theirs, length="max_position_embeddings")
    if not relative.shifted:
        return rows
    offset = theirs.get("pad_token_id", 1) + 1
    return {"length": rows["length"] - offset, "position": f"learned:offset={offset}"}


def _transform(
    relative: BertKind, head: Head, discriminator: bool, activated: str, names: Collection[str]
) -> str:  # fmt: skip
    """The layer before the scores."""
    if head.kind == "none":
        pooled = relative.prefix != "electra" and any(name.endswith("pooler.dense.weight") for name in names)
        return "tanh" if pooled else "none"
    if head.kind == "mask":  # of the relatives, BERT's is that of the blocks
        return f"{activated if relative.prefix == 'bert' else 'gelu'}:norm=yes"
    return activated if discriminator else relative.classes if head.kind == "classes" else "none"


def _table(
    relative: BertKind, head: Head, discriminator: bool, source: str, tied: bool = True, apart: bool = True
) -> WeightTable:
    """The rows of a checkpoint. Scores of words with a table of their own (not `tied`) may have a bias `apart`, too."""
    rows = DISCRIMINATOR if discriminator else relative.heads[head.kind]
    unused, second = [f"{ORDER}.*"] if relative.prefix == "bert" else [], list[str]()
    if relative.prefix == "electra" and not discriminator:
        unused += [row.theirs for row in DISCRIMINATOR]
    if head.kind == "mask" and relative.prefix != "electra":
        if tied:  # files have the bias under the short name
            rows = [*rows[:-2], rows[-1], rows[-2]]
        elif apart:  # a second bias is there, and not used
            rows, second = rows[:-1], [rows[-1].theirs]
    return WeightTable(
        source=source or class_of(relative.stem, head.kind),
        prefix=f"{relative.prefix}.",
        rows=(*body("" if head.kind == "none" else f"{relative.prefix}."), *rows),
        ignored=(*NOT_LEARNED, *unused, *unused_heads(relative.heads, head.kind)),
        kept=tuple(second),
    )


def config_json(model: Model[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs that describes a model of ours.

    >>> config_json(TextEncoder(TextEncoderConfig.tiny()), {"model_type": "electra"})["architectures"]
    Traceback (most recent call last):
    ValueError: ElectraForSequenceClassification cannot express transform='none' (it has 'gelu')
    """
    ours = model.config
    kind = "bert" if isinstance(model, BERT) else str(facts.get("model_type", "bert"))
    relative = KINDS[kind]
    theirs = {
        "model_type": kind, "vocab_size": ours.vocab, "hidden_size": ours.width, "num_hidden_layers": ours.depth,
        "num_attention_heads": ours.heads, "intermediate_size": ours.hidden, "hidden_act": their_activation(ours.activation),
        "hidden_dropout_prob": ours.dropout, "attention_probs_dropout_prob": their_dropout(ours.normalizer),
        "max_position_embeddings": ours.length, "type_vocab_size": ours.segments, "layer_norm_eps": their_eps(ours.norm),
    }  # fmt: skip
    if isinstance(model, BERT):
        return written(theirs | {"architectures": ["BertForPreTraining"]}, ours, checkpoint, facts)
    theirs["tie_word_embeddings"] = ours.tied
    if relative.shifted:
        offset = int(ours.position.partition("offset=")[2] or 2)
        theirs |= {"max_position_embeddings": ours.length + offset, "pad_token_id": offset - 1}
    if kind == "electra":
        theirs["embedding_size"] = ours.input_width
    discriminator = kind == "electra" and facts.get("architecture") == "ElectraForPreTraining" and ours.head == "tags"
    theirs["architectures"] = ["ElectraForPreTraining" if discriminator else class_of(relative.stem, ours.head)]
    return written(theirs, ours, checkpoint, facts)


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> BERT | TextEncoder:
    """Our model of their configuration and weights, in evaluation mode: a `BERT` where the checkpoint predicts the order of
    sentences (`follows` has its two scores in our order), else a `TextEncoder`.

    Devlin et al. (2019), arXiv:1810.04805; Liu et al. (2019), arXiv:1907.11692; Clark et al. (2020), arXiv:2003.10555.
    """
    found = checkpoint(theirs, weights)
    model = found.model(found.config).eval()
    return copy_weights(model, found.table, weights)  # type: ignore[return-value]

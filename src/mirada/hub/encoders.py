"""What the families of encoders share: which head a checkpoint has, what that makes of it, and the rows of its tensors.

theirs                       ours            task
Model                        head=none       embed
ForMaskedLM                  head=mask       fill
ForSequenceClassification    head=classes    classify
ForTokenClassification       head=tags       tag
ForQuestionAnswering         head=span       answer
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from torch import Tensor

from mirada.config import Config
from mirada.errors import require, unknown
from mirada.hub.checkpoint import Checkpoint, architecture, id2label, labels
from mirada.hub.mapping import Row, WeightTable, copy_weights, expect
from mirada.hub.sentence import pooling
from mirada.models.encoder import TextEncoder, TextEncoderConfig

HEADS = {
    "Model": "none", "ForMaskedLM": "mask", "ForSequenceClassification": "classes", "ForTokenClassification": "tags",
    "ForQuestionAnswering": "span",
}  # fmt: skip
TASKS = {"none": "embed", "mask": "fill", "classes": "classify", "tags": "tag", "span": "answer"}
MANY = "multi_label_classification"
LONGEST = 30  # tokens of an answer: a checkpoint does not say


class Head(NamedTuple):
    """The head of a checkpoint.

    Args:
        kind: none, mask, classes, tags or span.
        labels: the names of its classes or tags.
        many: whether a text has any number of them.
    """

    kind: str
    labels: tuple[str, ...] = ()
    many: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """What it decides in our configuration."""
        return {"head": self.kind} | ({"classes": len(self.labels)} if self.labels else {})


def head_of(theirs: Mapping[str, Any], classes: Mapping[str, str], names: Collection[str], *words: str) -> Head:
    """The head that a config.json describes.

    A model of masked words without the tensors of that head is taken for one without a head, and so is all that
    sentence-transformers pools: it saves such.

    Args:
        theirs: their config.json.
        classes: the kind of head of every class of the family.
        names: the names of the tensors.
        words: tensors of which a head for masked words has one.

    >>> head_of({"architectures": ["BertForMaskedLM"]}, {"BertForMaskedLM": "mask"}, ["embeddings.weight"], "lm.bias").kind
    'none'
    """
    named = architecture(theirs)
    there = any(name.endswith(words) for name in names)
    if named and named not in classes:
        raise unknown("architecture", named, classes)
    kind = classes[named] if named else "mask" if there else "none"
    if theirs.get("modules") or (kind == "mask" and names and not there):
        kind = "none"
    problem = theirs.get("problem_type")
    if kind == "span":
        count = len(labels(theirs))
        require(count == 2, f"a {named} has 2 labels, the first and the last place of an answer: got {count}")
    if kind not in ("classes", "tags"):
        return Head(kind)
    listed = tuple(labels(theirs))
    several = kind == "tags" or (problem != "regression" and (len(listed) > 1 or problem == MANY))
    require(
        several,
        f"{named} estimates a number (problem_type={problem!r}, num_labels={len(listed)}): no task takes such a head. "
        'With "architectures" changed to the model without a head, its encoder is imported.',
    )
    require(
        problem in (None, "single_label_classification", MANY),
        f"problem_type must be single_label_classification or {MANY}: got {str(problem)[:80]!r}",
    )
    require(len(set(listed)) == len(listed), "id2label must give every class a name of its own: two have one")
    return Head(kind, listed, kind == "classes" and problem == MANY)


def classes_of(stem: str, **others: str) -> dict[str, str]:
    """The classes of a family and their kinds of heads; `others` are further ones.

    >>> classes_of("Bert", PreTraining="mask")["BertForTokenClassification"]
    'tags'
    """
    kinds = HEADS | {f"For{word}": kind for word, kind in others.items()}
    return {f"{stem}{word}": kind for word, kind in kinds.items()}


def class_of(stem: str, kind: str) -> str:
    """The class of a family with a kind of head.

    >>> class_of("Roberta", "span")
    'RobertaForQuestionAnswering'
    """
    return stem + next(word for word, each in HEADS.items() if each == kind)


def understood(theirs: Mapping[str, Any], config: TextEncoderConfig, table: WeightTable, head: Head) -> Checkpoint:
    """The checkpoint of an encoder, with the facts that its task needs."""
    facts: dict[str, Any] = {}
    if head.kind == "none":
        pool, facts = pooling(theirs)
        config = replace(config, pool=pool)
    if head.labels:
        facts["labels"] = list(head.labels)
    if head.kind == "classes":
        facts["labels_a_text"] = "many" if head.many else "one"
    if head.kind == "span":
        facts |= {"longest": LONGEST, "unanswerable": False}
    return Checkpoint(TextEncoder, config, table, TASKS[head.kind], "encoder", facts)


def of_weights(found: Checkpoint, weights: Mapping[str, Tensor]) -> TextEncoder:
    """Our encoder with the weights of a checkpoint, in evaluation mode."""
    assert isinstance(found.config, TextEncoderConfig)
    return copy_weights(TextEncoder(found.config).eval(), found.table, weights)


def expect_plain(theirs: Mapping[str, Any]) -> None:
    """Require that a config.json asks for nothing that no encoder of ours has."""
    expect(theirs, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    require(
        not theirs.get("pruned_heads"),
        "pruned_heads must be empty: the heads of a layer of ours are of all sizes alike",
    )


# The way back.


def written(
    theirs: Mapping[str, Any], config: Config, again: Callable[..., Checkpoint], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """A config.json with the labels of a head, once it is sure that reading it makes the same configuration.

    ValueError names the fields in which a family cannot be as our model is.

    Args:
        theirs: the config.json, without labels.
        config: that of our model.
        again: the family's `checkpoint`.
        facts: those of the model.
    """
    whole, kind = dict(theirs), getattr(config, "head", "")
    if kind in ("classes", "tags"):
        count = getattr(config, "classes", 0)
        named = facts.get("labels") or [f"LABEL_{number}" for number in range(count)]
        require(len(named) == count, f"labels must name {count} classes: got {len(named)}")
        whole |= id2label(named)
        if kind == "classes":
            whole["problem_type"] = MANY if facts.get("labels_a_text") == "many" else "single_label_classification"
    pooled = kind == "none" and getattr(config, "transform", "none") != "none"
    read = again(whole, ("pooler.dense.weight",) if pooled else ()).config
    if kind == "none":  # how vectors are pooled is not said in this file
        read = replace(read, pool=getattr(config, "pool", "first"))  # type: ignore[call-arg]
    other = [
        f"{item.name}={getattr(config, item.name)!r} (it has {getattr(read, item.name)!r})"
        for item in fields(config)
        if getattr(config, item.name) != getattr(read, item.name)
    ]
    require(not other, f"{whole['architectures'][0]} cannot express {', '.join(other)}")
    return whole


# Rows.


def norm_rows(ours: str, theirs: str) -> list[Row]:
    """The rows of a layer norm; the first checkpoints call its parameters gamma and beta."""
    old = [Row(f"{ours}.weight", f"{theirs}.gamma"), Row(f"{ours}.bias", f"{theirs}.beta")]
    return [Row(f"{ours}.*", f"{theirs}.*"), *old]


def head_rows(transform: str, output: str) -> list[Row]:
    """The rows of a head for classes, tags or places: the layer before the scores, if there is one, and the scores."""
    return [*([Row("transform.dense.*", f"{transform}.*")] if transform else []), Row("output.*", f"{output}.*")]


def unused_heads(heads: Mapping[str, list[Row]], kind: str) -> list[str]:
    """The tensors that a checkpoint may have although its class does not use them: those of other heads, where it has none
    itself; else the pooler, which a model without a head has.
    """
    if kind == "none":
        rows = [row for other, rows in heads.items() if other != "none" for row in rows]
    else:
        rows = heads["none"]
    used = {row.theirs for row in heads[kind]}
    return list(dict.fromkeys(row.theirs for row in rows if row.theirs not in used))

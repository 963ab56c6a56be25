"""A checkpoint of another library, understood: our model and its configuration, the table of its tensors, and what it is for.

Every family, a module of this package, has two functions:

    checkpoint(theirs, names) -> Checkpoint     from their config.json and the names of their tensors
    config_json(model, facts) -> dict           the way back: a config.json that describes a model of ours

What is in a config.json and changes what is computed is either represented or refused by name (`mapping.expect`).
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from mirada.config import Config
from mirada.errors import require
from mirada.hub.mapping import WeightTable
from mirada.layers.model import Model

MOST_LABELS = 1_000_000  # a configuration may ask for any number


class Checkpoint(NamedTuple):
    """What a family makes of a config.json and the names of the tensors beside it; no tensor was read yet.

    Args:
        model: the class of our model.
        config: its configuration.
        table: how their tensors fill it.
        task: what a run of it does, unless somebody says otherwise: fill, classify, write, translate, ...
        preset: the word for the model in that task.
        facts: what the task must know besides the model and the tokenizer, as plain JSON: `labels` (in the order of the
            classes), `start_token`, `pooling`, `mean` and `std` of pictures, ...
            The task's `Known.restore` is given them, with the place of the tokenizer, and what it makes of them is written
            as the facts of the run.
        notes: what a person should know of it; import prints them.
    """

    model: type[Model]
    config: Config
    table: WeightTable
    task: str
    preset: str
    facts: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()


class Family(Protocol):
    """A module that knows the checkpoints of one family."""

    def checkpoint(self, theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
        """What a config.json and the names of tensors describe.

        Args:
            theirs: their config.json. Import adds what other files of the folder say, where they are there:
                `generation_config`, `preprocessor_config`, `processor_config` and `tokenizer_config` under these names, and
                of sentence-transformers `modules`: a list of {"kind": "Pooling", "path": ..., "config": {...}}.
            names: the names of the tensors; none where only the table for an export is wanted.
        """

    def config_json(self, model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
        """A config.json that describes a model of ours; ValueError names the part that the family does not have.

        Args:
            model: the model, imported or trained here.
            facts: those of its `Checkpoint`, with `model_type`: which of a module's relatives is wanted. Settings of their
                config.json that the family does not write (`bos_token_id`, ...) are added by the export, as they were.
        """


def architecture(theirs: Mapping[str, Any]) -> str:
    """The class whose checkpoint a config.json describes; empty where it does not say.

    >>> architecture({"architectures": ["BertForMaskedLM"]}), architecture({})
    ('BertForMaskedLM', '')
    """
    named = theirs.get("architectures") or [""]
    one = isinstance(named, list) and len(named) == 1 and isinstance(named[0], str)
    require(one, f"architectures must hold one name: got {str(named)[:80]}")
    return str(named[0])


def labels(theirs: Mapping[str, Any], default: int = 2) -> list[str]:
    """The names of the classes, in their order; a config.json that names none has `default` of them.

    >>> labels({"id2label": {"1": "good", "0": "bad"}}), labels({}), labels({"num_labels": 3})
    (['bad', 'good'], ['LABEL_0', 'LABEL_1'], ['LABEL_0', 'LABEL_1', 'LABEL_2'])
    """
    named = theirs.get("id2label")
    if named is None:
        count = theirs.get("num_labels", theirs.get("_num_labels", default))
        whole = type(count) is int and 0 < count <= MOST_LABELS
        require(whole, f"num_labels must be a number from 1 to {MOST_LABELS:,}: got {str(count)[:80]}")
        return [f"LABEL_{index}" for index in range(count)]
    require(isinstance(named, Mapping), f"id2label must hold names by number: got {str(named)[:80]}")
    by_number = {str(key): str(name) for key, name in named.items()}
    missing = [index for index in range(len(by_number)) if str(index) not in by_number]
    require(not missing, f"id2label must number its {len(by_number)} classes from 0: {missing[:1]} is missing")
    return [by_number[str(index)] for index in range(len(by_number))]


def id2label(names: Collection[str]) -> dict[str, Any]:
    """Names of classes as a config.json has them: the way back from `labels`.

    >>> id2label(["bad", "good"])
    {'id2label': {'0': 'bad', '1': 'good'}, 'label2id': {'bad': 0, 'good': 1}}
    """
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }

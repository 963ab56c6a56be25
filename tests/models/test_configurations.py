"""What holds for the configuration of every model."""

import dataclasses
import json

import pytest

from mirada.layers.model import Model
from mirada.models.bert import BERT
from mirada.models.captioner import Captioner
from mirada.models.classifier import Classifier
from mirada.models.forecaster import Forecaster
from mirada.models.gat import GAT
from mirada.models.gpt import GPT
from mirada.models.reader import Reader
from mirada.models.seq2seq import Seq2Seq
from mirada.models.transcriber import Transcriber
from mirada.models.transformer import Transformer
from mirada.models.vit import ViT

MODELS = [BERT, Captioner, Classifier, Forecaster, GAT, GPT, Reader, Seq2Seq, Transcriber, Transformer, ViT]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


@every_model
def test_it_is_frozen_and_named_after_its_model(model: type[Model]) -> None:
    assert model.Config.__name__ == f"{model.__name__}Config"
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.Config.tiny().depth = 3


@every_model
def test_it_is_plain_json_and_complete(model: type[Model]) -> None:
    tiny = model.Config.tiny()
    assert model.Config.from_dict(json.loads(json.dumps(tiny.to_dict()))) == tiny
    assert model.Config.from_dict({}) == model.Config()


@every_model
def test_it_knows_its_fields(model: type[Model]) -> None:
    with pytest.raises(ValueError, match=rf"unknown field of {model.Config.__name__} 'dept'.* Did you mean 'depth'\?"):
        model.Config.from_dict({"dept": 3})
    with pytest.raises(ValueError, match=f"{model.Config.__name__}: depth must be at least 1: got 0"):
        dataclasses.replace(model.Config.tiny(), depth=0)


@every_model
def test_a_model_takes_its_own_configuration_only(model: type[Model]) -> None:
    other = next(kind for kind in MODELS if kind is not model)
    for wrong in (model.Config.tiny().to_dict(), other.Config.tiny()):
        with pytest.raises(
            ValueError, match=f"{model.__name__} takes a {model.Config.__name__}: got {type(wrong).__name__}"
        ):
            model(wrong)

"""Five methods on models whose dependence is known, and on one of every kind."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import Attention, MultiHead
from mirada.looking.explain.compare import compare_methods
from mirada.looking.explain.methods import Methods, spearman
from mirada.models.bert import BERT, BERTConfig
from mirada.models.captioner import Captioner, CaptionerConfig
from mirada.models.classifier import Classifier, ClassifierConfig
from mirada.models.forecaster import Forecaster, ForecasterConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.models.vit import ViT, ViTConfig

SOURCE, TARGET = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[1, 4, 2]])


class Pointer(nn.Module):
    """Row r copies the token of place 2 - r: the right answer of every method is known."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(MultiHead(3, 1, bias=False))
        for linear in self.attention.modules():
            if isinstance(linear, nn.Linear):
                nn.init.eye_(linear.weight)

    def forward(self, queries: Tensor, memory: Tensor) -> Tensor:
        return 3 * self.attention(queries, memory=memory)


def test_all_methods_find_what_was_copied() -> None:
    memory = torch.eye(3)[None]
    found = compare_methods(Pointer().eval(), (12 * memory.flip(1), memory))
    for name, matrix in found.matrices.items():
        assert matrix.argmax(-1).tolist() == [2, 1, 0], name
    assert all(agreement.top == 1 for agreement in found.agreement)


def models() -> dict[str, tuple[nn.Module, tuple[Any, ...], tuple[int, int]]]:
    torch.manual_seed(0)
    vit = ViT(ViTConfig.tiny())
    picture = torch.rand(1, vit.config.channels, vit.config.size, vit.config.size)
    captioner = Captioner(CaptionerConfig.tiny())
    seen = torch.rand(1, captioner.config.channels, 16, 16)
    return {
        "transformer": (Transformer(TransformerConfig.tiny()), (SOURCE, None, TARGET), (3, 5)),
        "seq2seq": (Seq2Seq(Seq2SeqConfig.tiny()), (SOURCE, None, TARGET), (3, 5)),
        "gpt": (GPT(GPTConfig.tiny()), (SOURCE,), (5, 5)),
        "bert": (BERT(BERTConfig.tiny()), (SOURCE,), (5, 5)),
        "classifier": (Classifier(ClassifierConfig.tiny()), (SOURCE,), (1, 5)),
        "vit": (vit, (picture,), (1, 0)),
        "captioner": (captioner, (seen, TARGET), (3, 0)),
    }


@pytest.mark.parametrize("name", ["transformer", "seq2seq", "gpt", "bert", "classifier", "vit", "captioner"])
def test_every_kind_of_model(name: str) -> None:
    model, inputs, (rows, columns) = models()[name]
    found = compare_methods(model.eval(), inputs)
    assert {"attention", "value_norm", "gradient", "ablation"} <= set(found.matrices)
    for matrix in found.matrices.values():
        assert matrix.shape[0] == rows
        assert matrix.shape[1] == columns or (not columns and matrix.shape[1] > 1)
        sums = matrix.sum(-1)
        assert bool(((sums - 1).abs() < 1e-4).logical_or(sums == 0).all())
        assert float(matrix.min()) >= 0


def test_a_causal_model_depends_on_nothing_later() -> None:
    model, inputs, _ = models()["gpt"]
    for name, matrix in compare_methods(model.eval(), inputs).matrices.items():
        assert float(matrix.triu(1).max()) < 1e-6, name


def test_a_reader_a_target_and_other_inputs() -> None:
    model, inputs, _ = models()["classifier"]
    model.eval()
    read = compare_methods(
        model, inputs, 0, reader=2, without=lambda place: (SOURCE.scatter(1, torch.tensor([[place]]), 0),)
    )
    mean = compare_methods(model, inputs, 0)
    assert (read.matrices["attention"] - mean.matrices["attention"]).abs().max() > 0
    assert (read.matrices["ablation"] - mean.matrices["ablation"]).abs().max() > 0
    assert_close(read.matrices["gradient"], mean.matrices["gradient"])


def test_inference_mode_does_not_matter() -> None:
    model, inputs, _ = models()["transformer"]
    expected = compare_methods(model.eval(), inputs)
    with torch.inference_mode():
        found = compare_methods(model, [x.clone() if isinstance(x, Tensor) else x for x in inputs])
    for name, matrix in expected.matrices.items():
        assert_close(found.matrices[name].clone(), matrix)


def test_bad_questions() -> None:
    model, inputs, _ = models()["transformer"]
    with pytest.raises(ValueError, match="training mode"):
        compare_methods(model.train(), inputs)
    model.eval()
    with pytest.raises(ValueError, match="a token for each of the 3 rows"):
        compare_methods(model, inputs, [1, 2])
    with pytest.raises(ValueError, match=r"0\.\.12"):
        compare_methods(model, inputs, [1, 2, 13])
    with pytest.raises(ValueError, match="one sample"):
        compare_methods(model, (SOURCE.repeat(2, 1), None, TARGET.repeat(2, 1)))


def test_agreement_by_hand() -> None:
    assert spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0])) == pytest.approx(-1)
    assert spearman(torch.tensor([1.0, 1.0]), torch.tensor([3.0, 2.0])) is None
    ties = spearman(torch.tensor([1.0, 2.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0, 4.0]))
    assert ties == pytest.approx(0.9486833)
    with pytest.raises(ValueError, match="same rows and columns"):
        Methods.of({"a": torch.ones(1, 2), "b": torch.ones(1, 3)})


def test_a_score_is_explained_without_its_sign() -> None:
    """A forecast chooses nothing: the numbers of every row may move either way."""
    memory = torch.eye(3)[None]
    for sign in (1, -1):
        found = compare_methods(Pointer().eval(), (12 * memory.flip(1), memory), score=lambda y, s=sign: s * y[0])
        for name in ("attention", "ablation"):
            assert found.matrices[name].argmax(-1).tolist() == [2, 1, 0], name
        assert found.matrices["gradient"].shape == (3, 3)
    with pytest.raises(ValueError, match="remove target and logits"):
        compare_methods(Pointer().eval(), (memory, memory), [0, 1, 2], score=lambda y: y[0])


def test_the_gradient_of_a_score_is_that_of_its_row() -> None:
    memory = torch.eye(3)[None]
    found = compare_methods(Pointer().eval(), (12 * memory.flip(1), memory), score=lambda y: y[0, :, 0])
    # row 2 copies place 0, which alone has a first number; of the others the weights of place 0 are near 0
    assert found.matrices["gradient"][2].argmax() == 0
    assert float(found.matrices["gradient"][2, 0]) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["encoder-decoder", "lstm"])
def test_forecasts_have_a_row_for_every_time_to_come(kind: str) -> None:
    torch.manual_seed(0)
    model = Forecaster(replace(ForecasterConfig.tiny(), kind=kind)).eval()
    found = compare_methods(model, (torch.randn(1, 12, 3), torch.randn(1, 2)), score=lambda values: values[0])
    assert {"attention", "value_norm", "gradient", "ablation"} <= set(found.matrices)
    assert ("rollout" in found.matrices) == (kind != "lstm")
    for matrix in found.matrices.values():
        assert matrix.shape == (5, 12)
        assert_close(matrix.sum(-1), torch.ones(5), atol=1e-4, rtol=0)


def test_one_of_the_samples_that_layers_see() -> None:
    config = replace(ForecasterConfig.tiny(), kind="patches", channels="apart", own=2)
    torch.manual_seed(0)
    model = Forecaster(config).eval()
    nn.init.normal_(model.body.output.weight)
    series, first = torch.randn(1, 12, 3), torch.randn(1, 2)
    found = [
        compare_methods(model, (series, first), score=lambda y, c=column: y[0, :, c].reshape(1, -1), sample=column)
        for column in (0, 1)
    ]
    for column in (0, 1):
        alone = replace(config, features=1, targets=1, own=1)
        single = Forecaster(alone).eval()
        single.load_state_dict(model.state_dict())
        expected = compare_methods(
            single,
            (series[:, :, column : column + 1], first[:, column : column + 1]),
            score=lambda y: y[0].reshape(1, -1),
        )
        for name, matrix in expected.matrices.items():
            assert_close(found[column].matrices[name], matrix, atol=1e-4, rtol=1e-3)


def test_readers_of_several_rows() -> None:
    model, inputs, _ = models()["bert"]
    model.eval()
    whole = compare_methods(model, inputs)
    two = compare_methods(model, inputs, logits=lambda out: out.words[:, [3, 1]], reader=[3, 1])
    for name, matrix in two.matrices.items():
        assert_close(matrix, whole.matrices[name][[3, 1]], atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="a reader for each of the 2 rows: got 1"):
        compare_methods(model, inputs, logits=lambda out: out.words[:, [3, 1]], reader=[3])
    with pytest.raises(ValueError, match=r"reader must lie in 0\.\.4: got 9"):
        compare_methods(model, inputs, reader=9)

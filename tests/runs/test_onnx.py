"""Models as ONNX graphs: the outputs of the models in onnxruntime, at other sizes, with weights that are those of `look`."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import mirada
from mirada import look
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.whisper import Whisper, WhisperConfig
from mirada.runs.exporting import export_run
from mirada.runs.graphs import graphs
from mirada.runs.run import Run
from tests.hub.tiny import VOCAB, write_folder

onnx = pytest.importorskip("onnx", reason="needs mirada[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs mirada[onnx]")
pytest.importorskip("onnxscript", reason="needs mirada[onnx]")

NEAR = {"atol": 1e-4, "rtol": 1e-4}
EXACT = {"atol": 1e-5, "rtol": 1e-5}


def imported(folder: Path, family: str) -> Run:
    return mirada.import_model(write_folder(folder / "theirs", family), out=folder / "run")


def exported(folder: Path, run: Run, layers: tuple[str, ...]) -> Path:
    """The folder of the graphs, which the checker takes and whose README runs as it stands."""
    out = folder / "onnx"
    [line] = export_run(run, "onnx", out, layers)
    assert "opset 18" in line
    for path in out.glob("*.onnx"):
        onnx.checker.check_model(str(path), full_check=True)
        assert onnx.load(path).opset_import[0].version == json.loads((out / "config.json").read_text())["opset"] == 18
    program = (out / "README.md").read_text().split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", program], cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def ran(path: Path, **given: Tensor) -> dict[str, Tensor]:
    """The outputs of a graph by name."""
    session = onnxruntime.InferenceSession(str(path))
    names = [each.name for each in session.get_outputs()]
    feed = {name.replace("__", "."): x.numpy() for name, x in given.items()}
    return dict(zip(names, map(torch.from_numpy, session.run(None, feed)), strict=True))


def words(*shape: int) -> Tensor:
    return torch.randint(5, VOCAB, shape)


@pytest.mark.slow
@torch.no_grad()
def test_an_encoder(tmp_path: Path) -> None:
    run = imported(tmp_path, "bert")
    name = "encoder.layers.1.self"
    path = exported(tmp_path, run, (name,)) / "model.onnx"
    for batch, length in ((1, 1), (4, 11)):
        tokens, segments = words(batch, length), torch.randint(2, (batch, length))
        lengths = torch.randint(1, length + 1, (batch,))
        lengths[0] = length
        mask = (torch.arange(length) < lengths.unsqueeze(1)).long()
        got = ran(path, input_ids=tokens, attention_mask=mask, token_type_ids=segments)
        with look(run.model) as seen:
            wanted = run.model(tokens, lengths, segments)
        assert_close(got["logits"][mask.bool()], wanted[mask.bool()], **NEAR)
        weights = seen[name].weights()
        real = mask.bool().view(batch, 1, length, 1).expand_as(weights)
        assert_close(got[f"attention.{name}"][real], weights[real], **EXACT)
    mask[0, 0] = 0  # padding that does not stand behind is no silent mistake
    got = ran(path, input_ids=tokens, attention_mask=mask, token_type_ids=segments)
    assert got["logits"][0].isnan().all()
    assert not got["logits"][1:].isnan().any()


@torch.no_grad()
def test_pictures(tmp_path: Path) -> None:
    run = imported(tmp_path, "vit")
    name = "encoder.layers.0.self"
    path = exported(tmp_path, run, (name,)) / "model.onnx"
    pictures = torch.randn(5, 3, 8, 8)
    with look(run.model) as seen:
        wanted = run.model(pictures)
    got = ran(path, pixel_values=pictures)
    assert_close(got["logits"], wanted, **NEAR)
    assert_close(got[f"attention.{name}"], seen[name].weights(), **EXACT)


@pytest.mark.slow
@torch.no_grad()
def test_a_text_is_continued_by_the_graph_that_read_the_prompt(tmp_path: Path) -> None:
    run = imported(tmp_path, "mistral")
    name = "decoder.layers.1.self"
    path = exported(tmp_path, run, (name,)) / "model.onnx"
    for batch, pieces in ((1, (1, 1, 1)), (3, (6, 1, 4))):
        tokens = words(batch, sum(pieces))
        with look(run.model) as seen:
            wanted = run.model(tokens)
        weights, at = seen[name].weights(), 0
        heads = run.model.decoder.layers[0].self_attention.heads
        past = torch.zeros(batch, heads.key_heads, 0, heads.dim)
        kept = {f"past_key_values__{n}__{which}": past for n in range(2) for which in ("key", "value")}
        for count in pieces:
            got = ran(path, input_ids=tokens[:, at : at + count], **kept)
            assert_close(got["logits"], wanted[:, at : at + count], **NEAR)
            assert_close(got[f"attention.{name}"], weights[:, :, at : at + count, : at + count], **EXACT)
            kept = {each: got[each.replace("past_key_values", "present").replace("__", ".")] for each in kept}
            at += count


@pytest.mark.slow
@torch.no_grad()
def test_a_target_is_written_over_a_source_that_was_read_once(tmp_path: Path) -> None:
    run = imported(tmp_path, "marian")
    names = ("encoder.layers.1.self", "decoder.layers.0.cross")
    out = exported(tmp_path, run, names)
    source, target, lengths = words(3, 9), words(3, 5), torch.tensor([9, 2, 5])
    mask = (torch.arange(9) < lengths.unsqueeze(1)).long()
    with look(run.model) as seen:
        wanted = run.model(source, lengths, target)
    read = ran(out / "encoder.onnx", input_ids=source, attention_mask=mask)
    real = mask.bool().view(3, 1, 9, 1).expand(-1, 2, -1, 9)
    assert_close(read[f"attention.{names[0]}"][real], seen[names[0]].weights()[real], **EXACT)
    memory = {name.replace(".", "__"): x for name, x in read.items() if name.startswith("memory")}
    past = {
        name.replace("memory", "past_key_values"): torch.zeros(3, x.shape[1], 0, x.shape[3])
        for name, x in memory.items()
    }
    for first, last in ((0, 2), (2, 3), (3, 5)):
        got = ran(out / "decoder.onnx", input_ids=target[:, first:last], attention_mask=mask, **memory, **past)
        assert_close(got["logits"], wanted[:, first:last], **NEAR)
        assert_close(got[f"attention.{names[1]}"], seen[names[1]].weights()[:, :, first:last], **EXACT)
        past = {each: got[each.replace("past_key_values", "present").replace("__", ".")] for each in past}


class OfModel(SimpleNamespace):
    """As much of a run as a refused export needs."""


def of(model: Any) -> Any:
    return OfModel(model=model.eval(), known=None, damage="", settings=SimpleNamespace(task="write"))


@pytest.mark.parametrize(
    ("model", "layers", "message"),
    [
        (
            Whisper(WhisperConfig.tiny()),
            (),
            "a Whisper cannot be exported to onnx; of these it can: GPT, TextEncoder, Tran",
        ),
        (
            GPT(GPTConfig.tiny()),
            ("decoder.layer.0.self",),
            "unknown attention layer .* Did you mean 'decoder.layers.0.self'",
        ),
    ],
)
def test_what_cannot_be_exported_is_named(tmp_path: Path, model: Any, layers: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export_run(of(model), "onnx", tmp_path / "out", layers)
    with pytest.raises(ValueError, match="attention= gives a graph of onnx further outputs: hf has none"):
        export_run(of(model), "hf", tmp_path / "out", ("all",))
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_computes_something_else_is_not_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mirada.runs import onnx as written

    [graph] = graphs(GPT(GPTConfig(**(GPTConfig.tiny().to_dict() | {"depth": 1}))).eval())
    compute = type(graph.module).compute

    def other(self: Any, *given: Tensor) -> tuple[Tensor, ...]:
        logits, *rest = compute(self, *given)
        return logits + torch.compiler.is_exporting(), *rest

    monkeypatch.setattr(type(graph.module), "compute", other)
    with pytest.raises(ValueError, match=r"this GPT cannot be exported to onnx: onnxruntime computes another logits"):
        written.write_graph(graph, tmp_path / "model.onnx")

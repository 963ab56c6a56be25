"""`mirada export --to onnx`: the model of a run as ONNX files, for batches and lengths of any size, and how to run them.

A model that continues a text is one graph for the prompt and for every step after it. With onnxruntime and tokenizers:

    session, tokenizer = onnxruntime.InferenceSession("model.onnx"), Tokenizer.from_file("tokenizer.json")
    _, *past = session.get_inputs()
    given = {x.name: numpy.zeros((1, x.shape[1], 0, x.shape[3]), "f") for x in past}
    logits, *present = session.run(None, {"input_ids": [tokenizer.encode("Once upon a time").ids], **given})

The next step is given one token and `present` as what is past. The README.md that is written beside has such lines for every
kind of model. What was written is run before it is handed out: its outputs are those of the model.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.heads import Grouped, MultiHead
from mirada.attention.normalizers import Softmax
from mirada.attention.positions import Position, Rotary, T5Bias
from mirada.attention.scores import Dot
from mirada.errors import require
from mirada.files import write_whole
from mirada.runs.exporting import files_beside
from mirada.runs.folder import written_whole
from mirada.runs.graphs import OnnxGraph, graphs
from mirada.runs.run import Run
from mirada.words import plural

OPSET = 18
NEEDED = ("onnx", "onnxruntime", "onnxscript")
LARGE = 3 << 29  # bytes of weights from which they stand in a file of their own: a message of protobuf ends at 2 GiB
BATCHES = 1 << 20
TRACED = {"batch": 3, "length": 7, "source": 7, "past": 4}  # 1 would be a case of its own
CHECKED: tuple[dict[str, int], ...] = (
    {"batch": 2, "length": 5, "source": 9, "past": 0},
    {"batch": 1, "length": 1, "source": 4, "past": 6},
)
NEAR = 1e-4  # of the model's numbers
USUAL = (Dot, Softmax, Rotary, T5Bias, MultiHead, Grouped)


def to_onnx(run: Run, out: Path, attention: Sequence[str] = ()) -> list[str]:
    """Write a folder with the model's graphs, its tokenizer, and how to run them."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    require(not missing, f"{', '.join(missing)} must be installed to export to onnx: pip install 'mirada[onnx]'")
    unit = run.settings.task == "embed" and bool(getattr(run.known, "normalize", False))
    made = graphs(_plain(run.model), attention, _picture_size(run), unit)
    with written_whole(out) as part:
        for graph in made:
            write_graph(graph, part / f"{graph.name}.onnx")
        for name, content in files_beside(run):
            if "/" not in name:
                write_whole(part / name, content)
        write_whole(part / "config.json", (json.dumps(_described(run, made), indent=2) + "\n").encode())
        write_whole(part / "README.md", _readme(run, made).encode())
    names = " and ".join(f"{graph.name}.onnx" for graph in made)
    weights = sum(output.name.startswith("attention.") for graph in made for output in graph.outputs)
    seen = f", with the weights of {plural(weights, 'attention layer')} as outputs" if weights else ""
    return [f"{out} holds {names} (opset {OPSET}){seen}; README.md says how to run it"]


def _plain(model: nn.Module) -> nn.Module:
    """The model in float32 on the CPU: itself where it is so already."""
    there = all(x.dtype == torch.float32 and x.device.type == "cpu" for x in model.parameters())
    return (model if there else deepcopy(model).to("cpu", torch.float32)).eval()


def _picture_size(run: Run) -> int:
    """Pixels on a side of the pictures that the run sees, where it says so."""
    fitting = getattr(run.known, "fitting", None)
    return int(getattr(fitting, "size", 0) or 0)


# One graph: exported, checked, and run.


def write_graph(graph: OnnxGraph, path: Path) -> None:
    """Export a graph into a file, and require that it computes what the model does at other sizes."""
    import onnx

    with _quiet(), torch.no_grad():
        try:
            exported = torch.export.export(
                graph.module.eval(), graph.example(_sizes(TRACED, graph)), dynamic_shapes=_dynamic(graph), strict=False
            )
            made: Any = torch.onnx.export(exported, dynamo=True, opset_version=OPSET, verbose=False,
                input_names=list(graph.inputs), output_names=[output.name for output in graph.outputs])  # fmt: skip
        except Exception as error:  # of the exporters, which raise many kinds
            raise ValueError(_refusal(graph.module.model, str(error))) from None
        _name_axes(made.model.graph, graph)
        size = sum(x.numel() * x.element_size() for x in graph.module.parameters())
        made.save(str(path), external_data=size > LARGE)
    onnx.checker.check_model(str(path), full_check=True)
    _check(graph, path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter from reporting what it does."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _sizes(wanted: dict[str, int], graph: OnnxGraph) -> dict[str, int]:
    """These sizes, cut to what the graph's model can read; past and new places share its length."""
    most = graph.longest
    past = min(wanted["past"], most // 2)
    return wanted | {"past": past, "length": min(wanted["length"], most - past), "source": min(wanted["source"], most)}


def _dynamic(graph: OnnxGraph) -> Any:
    """Which axes of the inputs are of any size, and to which one."""
    most = {axis: BATCHES if axis == "batch" else graph.longest for axis in TRACED}
    sizes = {axis: torch.export.Dim(axis, min=int(axis != "past"), max=most[axis]) for axis in TRACED}
    return (tuple(
        {number: sizes[axis] for number, axis in enumerate(each.axes) if isinstance(axis, str)}
        for each in graph.inputs.values()
    ),)  # fmt: skip


def _name_axes(made: Any, graph: OnnxGraph) -> None:
    """The names of our axes in place of those that the exporter counted."""
    import onnx_ir

    for node in made:
        for value in node.outputs:
            value.shape = None  # the checker infers it again, with our names
    for value, given in zip(made.inputs, graph.inputs.values(), strict=True):
        value.shape = onnx_ir.Shape(given.axes)
    for value, output in zip(made.outputs, graph.outputs, strict=True):
        value.shape = onnx_ir.Shape(output.axes)


def _refusal(model: nn.Module, why: str) -> str:
    """What cannot be exported: the parts that are not usual, and the first line of the exporter's reason."""
    layers = [layer for layer in model.modules() if isinstance(layer, Attention)]
    parts = [part for layer in layers for part in (layer.heads, layer.score, layer.position, layer.normalizer)]
    rare = sorted({type(part).__name__ for part in parts if type(part) not in (*USUAL, Position)})
    named = f" It has {' and '.join(rare)}, which may be why." if rare else ""
    line = next((line.strip() for line in why.splitlines() if line.strip()), "no reason was given")
    return f"this {type(model).__name__} cannot be exported to onnx: {line[:200]}{named}"


def _check(graph: OnnxGraph, path: Path) -> None:
    """Require the model's outputs in onnxruntime, at sizes that the graph was not traced with."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for number, wanted in enumerate(CHECKED):
        given = graph.example(_sizes(wanted, graph), seed=number)
        feed = {name: x.numpy() for name, x in zip(graph.inputs, given, strict=True)}
        with torch.no_grad():
            right = graph.module(*given)
        for output, one, other in zip(graph.outputs, session.run(None, feed), right, strict=True):
            found, model_s = (_real(graph, given, output.axes, x) for x in (torch.from_numpy(one), other))
            same = found.shape == model_s.shape and torch.allclose(found, model_s, NEAR, NEAR, equal_nan=True)
            require(same, _refusal(graph.module.model, f"onnxruntime computes another {output.name} than the model"))


def _real(graph: OnnxGraph, given: Sequence[Tensor], axes: Sequence[str | int], x: Tensor) -> Tensor:
    """What an output says of real tokens: no model says anything about padding."""
    masks = [
        (each.axes[1], mask) for each, mask in zip(graph.inputs.values(), given, strict=True) if each.kind == "mask"
    ]
    places = [number for number, axis in enumerate(axes) if number and isinstance(axis, str)]
    for axis, mask in masks:
        if places and axes[places[0]] == axis:
            return x.movedim(places[0], 1)[mask.bool()]
    return x


# What stands beside the graphs.


def _described(run: Run, made: Sequence[OnnxGraph]) -> dict[str, Any]:
    """What a program needs to know that runs the graphs."""
    known = getattr(run.known, "tokenizer", None)
    names = ("pad", "unknown", "start", "end", "mask")
    facts = {**run.settings.facts, **run.settings.origin.get("facts", {})}
    return {
        "task": run.settings.task,
        "model": type(run.model).__name__,
        "opset": OPSET,
        "graphs": {
            f"{graph.name}.onnx": {
                "inputs": {name: list(each.axes) for name, each in graph.inputs.items()},
                "outputs": {output.name: list(output.axes) for output in graph.outputs},
                **({} if graph.longest > run.model.config.length else {"longest": graph.longest}),
            }
            for graph in made
        },
        **({} if known is None else {"tokens": {name: getattr(known, name) for name in names if hasattr(known, name)}}),
        "facts": facts,
    }


PROGRAMS = {
    "TextEncoder": """\
import numpy, onnxruntime
from tokenizers import Tokenizer

session, tokenizer = onnxruntime.InferenceSession("model.onnx"), Tokenizer.from_file("tokenizer.json")
tokenizer.enable_padding()
texts = tokenizer.encode_batch(["the red house", "a car"])
read = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
given = {x.name: numpy.array([getattr(text, read[x.name]) for text in texts]) for x in session.get_inputs()}
outputs = dict(zip([x.name for x in session.get_outputs()], session.run(None, given)))
""",
    "ViT": """\
import numpy, onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
_, channels, height, width = session.get_inputs()[0].shape
pictures = numpy.zeros((2, channels, height, width), "f")  # (pixel - mean) / deviation, as config.json says
outputs = dict(zip([x.name for x in session.get_outputs()], session.run(None, {"pixel_values": pictures})))
""",
    "GPT": """\
import numpy, onnxruntime
from tokenizers import Tokenizer

session, tokenizer = onnxruntime.InferenceSession("model.onnx"), Tokenizer.from_file("tokenizer.json")
_, *past = session.get_inputs()
given = {x.name: numpy.zeros((1, x.shape[1], 0, x.shape[3]), "f") for x in past}
ids = tokenizer.encode("the red house").ids
for step in range(10):
    new = ids if step == 0 else ids[-1:]
    logits, *present = session.run(None, {"input_ids": numpy.array([new]), **given})
    given = dict(zip(given, present))
    ids.append(int(logits[0, -1].argmax()))
print(tokenizer.decode(ids))
""",
    "Transformer": """\
import numpy, onnxruntime
from tokenizers import Tokenizer

encoder, decoder = (onnxruntime.InferenceSession(f"{name}.onnx") for name in ("encoder", "decoder"))
tokenizer = Tokenizer.from_file("tokenizer.json")
source = numpy.array([tokenizer.encode("the red house").ids])
mask = numpy.ones_like(source)
read = dict(zip([x.name for x in encoder.get_outputs()], encoder.run(None, {"input_ids": source, "attention_mask": mask})))
memory = {x.name: read[x.name] for x in decoder.get_inputs() if x.name in read}
past = [x for x in decoder.get_inputs() if x.name.startswith("past")]
given = {x.name: numpy.zeros((1, x.shape[1], 0, x.shape[3]), "f") for x in past}
ids = [START]
for step in range(10):
    new = {"input_ids": numpy.array([ids[-1:]]), "attention_mask": mask}
    logits, *present = decoder.run(None, {**new, **memory, **given})
    given = dict(zip(given, present))
    ids.append(int(logits[0, -1].argmax()))
print(tokenizer.decode(ids))
""",
}


def _readme(run: Run, made: Sequence[OnnxGraph]) -> str:
    """How the graphs are run, and what goes in and out."""
    kind = type(run.model).__name__
    start = {**run.settings.facts, **run.settings.origin.get("facts", {})}.get("start")
    start = start if isinstance(start, int) else getattr(getattr(run.known, "tokenizer", None), "start", 0)
    tables = []
    for graph in made:
        rows = [("in", name, each.axes) for name, each in graph.inputs.items()]
        rows += [("out", output.name, output.axes) for output in graph.outputs]
        lines = [f"| {way} | `{name}` | {' x '.join(map(str, axes))} |" for way, name, axes in rows]
        tables.append("\n".join([f"## {graph.name}.onnx", "", "| | name | axes |", "|---|---|---|", *lines]))
    program = PROGRAMS[kind].replace("START", str(start))
    return (
        f"# {kind} for the task {run.settings.task}, opset {OPSET}\n\n```python\n{program}```\n\n"
        + "\n\n".join(tables)
        + "\n\n"
        "`attention_mask` is 1 for tokens and 0 for padding, which stands behind a text: a text with padding elsewhere is\n"
        "answered with NaN. What is said of padding means nothing. Outputs `attention.LAYER` are the weights of that layer.\n"
        "Keys and values that are past may have no place at all: then the tokens are the beginning of a text.\n"
    )

"""docs/extending.md tells the truth: every block is written to its file, runs from outside the package, and is right."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import mirada
from mirada import Attention, MultiHead, attend, look
from mirada.attention.kernels import plan
from mirada.attention.neighborhoods import Causal, Padding, Window
from mirada.attention.scores import Additive, Dot
from mirada.runs.registry import CATALOG
from mirada.testing import check

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = {
    name: f"# {name}.py\n{code}"
    for name, code in re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
}
FEWER_THAN = 30  # lines of code, without blank lines and comments


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """All blocks as files that can be imported, and none of them afterwards."""
    for name, code in BLOCKS.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plan, "KERNELS", plan.KERNELS)
    yield tmp_path
    for name in BLOCKS:
        sys.modules.pop(name, None)


def module(name: str) -> ModuleType:
    return import_module(name)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def test_there_is_one_of_each() -> None:
    headings = re.findall(r"^## An? (\w+)", PAGE, re.MULTILINE)
    assert headings == ["score", "neighborhood", "position", "normalizer", "kernel", "model", "task"]
    assert len(BLOCKS) == len(headings) == PAGE.count("```python")


@pytest.mark.parametrize("name", BLOCKS)
def test_each_is_short(name: str) -> None:
    code = [line for line in BLOCKS[name].splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(code) < FEWER_THAN


def test_the_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = module("near_score")
    assert capsys.readouterr().out == "fused\n"
    q, k, v = numbers(2, 3, 5, 7), numbers(2, 3, 11, 7), numbers(2, 3, 11, 7)
    assert_close(made.Near()(q, k), -(torch.cdist(q, k) ** 2) / 2, rtol=1e-4, atol=1e-4)
    assert_close(made.Cosine(3.0)(q, k), 3 * torch.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1))
    cosine = made.Cosine()
    assert_close(attend(q, k, v, score=cosine, kernel="fused"), attend(q, k, v, score=cosine, kernel="reference"))
    attend(q, k, v, score=cosine, where=Padding([11, 3])).sum().backward()
    assert cosine.sharpness.grad is not None


def test_the_neighborhood(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dilated = module("dilated").Dilated
    assert capsys.readouterr().out == "[1, 0, 1, 0, 1, 0]\ntorch.Size([1, 2, 6, 8])\n"
    wanted = [[(i - j) % 3 == 0 and j <= i for j in range(7)] for i in range(7)]
    assert (dilated(3) & Causal()).dense(7, 7)[0, 0].tolist() == wanted
    assert dilated(3) == dilated(3) != dilated(2)
    q = numbers(2, 3, 7, 5)
    with_window = dilated(3) & Window(4)
    assert_close(attend(q, q, q, where=with_window), attend(q, q, q, where=with_window, kernel="reference"))
    cached = Attention(MultiHead(12, heads=3), where=dilated(2) & Causal())
    x, cache = torch.randn(2, 6, 12), cached.cache(batch=2, length=6)
    assert_close(torch.cat([cached(x[:, [t]], cache=cache) for t in range(6)], 1), cached(x))


def test_the_position(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fading = module("fading").Fading(heads=3)
    assert capsys.readouterr().out == "torch.Size([4])\n"
    torch.nn.init.normal_(fading.rates)
    q, k, v = numbers(2, 3, 7, 5), numbers(2, 3, 7, 5), numbers(2, 3, 7, 5)
    far = (torch.arange(7).view(-1, 1) - torch.arange(7)).abs()
    rates = torch.nn.functional.softplus(fading.rates).view(3, 1, 1)
    assert_close(attend(q, k, v, position=fading), (Dot()(q, k) - rates * far).softmax(-1) @ v)


def test_the_normalizer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = module("quiet").Quiet()
    assert capsys.readouterr().out == "tensor(True)\n"
    scores, mask = torch.randn(2, 3, 5, 7), torch.rand(1, 1, 5, 7) < 0.5
    mask[0, 0, 2] = False
    exponentials = scores.exp() * mask
    assert_close(quiet(scores, mask), exponentials / (1 + exponentials.sum(-1, keepdim=True)))
    x = torch.randn(2, 5, 6, requires_grad=True)
    layer = Attention(MultiHead(6, heads=2), normalizer=quiet)
    layer(x, where=Padding([5, 0])).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_the_kernel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module("one_query")
    assert capsys.readouterr().out == "torch.Size([2, 3, 1, 8])\n"
    inputs = numbers(2, 6, 1, 8), numbers(2, 3, 11, 8), numbers(2, 3, 11, 5)
    ours, wanted = (attend(*inputs, kernel=name) for name in ("one query", "reference"))
    probe = torch.randn_like(ours)
    assert_close(ours, wanted)
    gradients = [torch.autograd.grad((y * probe).sum(), inputs) for y in (ours, wanted)]
    assert_close(*gradients)
    layer = Attention(MultiHead(16, heads=2))
    assert layer.plan(torch.randn(1, 1, 16)).kernel == "one query"
    assert layer.plan(torch.randn(1, 2, 16)).refused["one query"].startswith("it is for one float32 query")
    with pytest.raises(ValueError, match="kernel 'one query' refuses this request: its score is a dot product"):
        attend(*inputs, score=Additive(8, 8, hidden=3), kernel="one query")


def test_the_model(folder: Path) -> None:
    made = module("vote")
    model = made.Vote(made.VoteConfig(symbols=7)).eval()
    given = torch.randint(7, (2, 5))
    model.save(folder / "saved")
    assert torch.equal(made.Vote.load(folder / "saved")(given), model(given))
    with look(model) as seen:
        model(given)
    assert seen.names == ["attention"]
    with pytest.raises(ValueError, match="unknown field of VoteConfig 'widht'"):
        made.VoteConfig.from_dict({"widht": 3})


def test_the_task_in_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOG, "most", module("most").ENTRY)
    run = mirada.train("most", out=folder / "run", steps=300, validate=100, threads=1, lr=1e-2, device="cpu")
    assert run.measure()["accuracy"] > 90
    (answer,) = mirada.load(folder / "run")([(3, 3, 1, 3, 0, 3, 2, 3, 4)])
    assert answer.value == 3
    assert (folder / "run" / "report.html").exists()


def test_the_task_as_a_package(folder: Path) -> None:
    """The entry point that the page shows is found by the command, as that of any installed package is."""
    points = re.search(r'```toml\n\[project\.entry-points\."(mirada\.tasks)"\]\n(\w+) = "(\S+)"\n```', PAGE)
    assert points is not None
    described = folder / "most-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: most\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[{points[1]}]\n{points[2]} = {points[3]}\n")
    paths = os.pathsep.join([str(folder), str(ROOT / "src")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mirada", "train", "most", "--out", str(folder / "run"), "steps=5"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("on 400 records for test: accuracy ")
    listed = subprocess.run([*command[:3], "tasks"], capture_output=True, text=True, env=environment, check=False)
    assert "\nmost: say which number occurs most\n" in listed.stdout


PAPERS = sorted((ROOT / "examples" / "extending").glob("*.py"))


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_each_paper_keeps_every_law(path: Path) -> None:
    """They stand outside of the package, in a file each that says which paper it is of."""
    found = runpy.run_path(str(path))
    assert re.search(r"20(24|25|26), arXiv:\d{4}\.\d{5}", found["__doc__"])
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    for part in found["PARTS"]:
        assert {"gradients", "gradients twice", "unseen", "no trace"} <= set(check(part, skip=["compile"]).held)


def test_there_are_six_papers() -> None:
    assert len(PAPERS) >= 6


def paper(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "extending" / f"{name}.py"))


def test_selective_attention_by_loops() -> None:
    scores, mask = torch.randn(1, 2, 5, 5), Causal().dense(5, 5)
    expected = torch.zeros(1, 2, 5, 5)
    for i in range(5):
        for head in range(2):
            gone = [
                sum(max(float(scores[0, 0, before, j]), 0) for before in range(j + 1, i)) if j else 0
                for j in range(i + 1)
            ]
            expected[0, head, i, : i + 1] = (scores[0, head, i, : i + 1] - torch.tensor(gone)).softmax(-1)
    assert_close(paper("selective_attention")["Selective"]()(scores, mask), expected)


def test_block_attention_by_hand() -> None:
    scores = torch.tensor([[[[1.0, 1.0, 5.0, -9.0, 0.0, 0.0]]]])
    weights = paper("block_attention")["BlockSoftmax"](block=2, k=2)(scores)
    expected = torch.tensor([1.0, 1, 0, 0]).softmax(
        -1
    )  # the first block has the mean 1, the second -2, the last is its own
    assert_close(weights.flatten()[[0, 1, 4, 5]], expected)
    assert weights.flatten()[2:4].tolist() == [0, 0]


def test_forgetting_attention_is_the_part_of_the_package() -> None:
    ours, outside = mirada.Forgetting(12, 3), paper("forgetting_attention")["Fading"](12, 3)
    outside.load_state_dict(ours.state_dict())
    x = torch.randn(2, 7, 12)
    assert_close(Attention(outside, where=Causal())(x), Attention(ours, where=Causal())(x))

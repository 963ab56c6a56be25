"""Documents in one row: what a model learns from them is what it would learn from each by itself."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mirada.data.batching import Microbatch
from mirada.looking import look
from mirada.models import GPT, GPTConfig
from mirada.tasks.write.packing import PackedDocuments, WriteVocabulary, packed, packed_in_order
from mirada.training.loop import Interrupted
from tests.runs.small import QUICK, read, request, stories, trained

LENGTHS = (5, 1, 13, 2, 7, 29, 3)  # one has nothing to predict, two are longer than a piece
LENGTH = 11
DOCUMENTS = [" ".join(story) for story in stories()[:41]]


def told(lengths: tuple[int, ...]) -> torch.Tensor:
    """Tokens that say where they are: the place in all documents."""
    return torch.arange(sum(lengths))


def targets(lengths: tuple[int, ...]) -> list[int]:
    """All tokens but the first of each document."""
    firsts = set((np.cumsum(lengths) - np.array(lengths)).tolist())
    return [place for place in range(sum(lengths)) if place not in firsts]


# --- batches


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=30), length=st.integers(1, 20), size=st.integers(1, 90)
)
def test_every_token_is_predicted_once_in_an_epoch(lengths: list[int], length: int, size: int) -> None:
    if max(lengths) < 2:
        return
    batches = PackedDocuments(told(tuple(lengths)), lengths, length, size, seed=3)
    for epoch in range(2):
        parts = [batches.part(epoch * len(batches) + place, 0, 1) for place in range(len(batches))]
        check_rows(parts, length)
        assert sorted(torch.cat([part.inputs["wanted"][0] for part in parts]).tolist()) == targets(tuple(lengths))
        assert min(part.tokens for part in parts) > 0
    check_rows(rows := packed_in_order(told(tuple(lengths)), lengths, length, size), length)
    assert torch.cat([part.inputs["wanted"][0] for part in rows]).tolist() == targets(tuple(lengths))


def check_rows(parts: list[Microbatch], length: int) -> None:
    """Positions begin again with every piece, and a piece is one run of a document."""
    for part in parts:
        tokens, wanted, positions = (part.inputs[name][0] for name in ("tokens", "wanted", "positions"))
        torch.testing.assert_close(wanted, tokens + 1)
        assert positions[0] == 0
        assert positions.max() < length
        ids = part.inputs["where"].ids[0]
        same = ids[1:] == ids[:-1]
        torch.testing.assert_close(same, positions[1:] == positions[:-1] + 1)
        torch.testing.assert_close(tokens[1:][same], tokens[:-1][same] + 1)
        assert part.tokens == len(tokens)


def test_a_batch_depends_on_its_step_only_and_is_divided_without_loss() -> None:
    again, batches = (PackedDocuments(told(LENGTHS), LENGTHS, LENGTH, 17, seed=5) for _ in range(2))
    expected = [batches.part(step, 0, 1) for step in range(3 * len(batches))]
    assert len(batches) > 1
    for step in reversed(range(len(expected))):
        shares = [again.part(step, index, 3) for index in range(3)]
        whole = sorted(expected[step].inputs["wanted"][0].tolist())
        assert sorted(x for part in shares if part.tokens for x in part.inputs["wanted"][0].tolist()) == whole
        assert sum(part.counts[0] for part in shares) == expected[step].counts[0]
    cuts = {tuple(part.inputs["positions"][0].tolist()) for part in expected}
    assert len(cuts) > len(batches), "long documents are cut at other places in other epochs"


def test_packed_by_hand() -> None:
    part = packed(torch.tensor([9, 5, 6, 9, 7]), np.array([[3, 4], [0, 2]]), uncounted=(5,))
    assert part.inputs["tokens"].tolist() == [[9, 9, 5]]
    assert part.inputs["wanted"].tolist() == [[7, -100, 6]]
    assert part.inputs["positions"].tolist() == [[0, 0, 1]]
    assert part.inputs["where"].ids.tolist() == [[0, 1, 1]]
    assert (part.counts, part.tokens) == ((2,), 2)


def test_texts_without_anything_to_predict_are_refused() -> None:
    with pytest.raises(ValueError, match="no text has two tokens"):
        PackedDocuments(torch.arange(3), [1, 1, 1], 4, 8, 0)
    with pytest.raises(ValueError, match="unknown packing 'rows'; known: documents, windows"):
        request("write", "x.txt", "packing=rows").settings()
    with pytest.raises(ValueError, match=r"packing in config\.json must be one of windows, documents: got 'rows'"):
        WriteVocabulary.restore({"packing": "rows"}, {})


# --- the loss


@pytest.mark.parametrize("position", ["learned", "rotary", "alibi", "t5", "none"])
def test_the_loss_is_that_of_single_documents(position: str) -> None:
    """With its gradient; and the row is run as tiles."""
    torch.manual_seed(0)
    lengths = (67, 131, 3, 89, 113)
    config = GPTConfig(vocab=13, width=16, hidden=32, depth=2, heads=2, length=128, position=position, dropout=0.0)
    model, tokens = GPT(config), torch.randint(13, (sum(lengths),))
    (row,) = packed_in_order(tokens, lengths, 128, 1000)
    with look(model) as seen:
        loss = model.loss(**row.inputs)
    kernels = {seen[name].plan.kernel for name in seen.names}
    assert kernels == {"banded"}
    found = torch.autograd.grad(loss, list(model.parameters()))
    total, count = torch.zeros(()), 0
    for text in tokens.split(lengths):
        for first in range(0, len(text) - 1, 128):
            piece = text[first : first + 129].unsqueeze(0)
            total = total + model.loss(piece[:, :-1], piece[:, 1:]) * (piece.shape[1] - 1)
            count += piece.shape[1] - 1
    torch.testing.assert_close(loss, total / count)
    torch.testing.assert_close(
        found, torch.autograd.grad(total / count, list(model.parameters())), atol=1e-5, rtol=1e-4
    )


# --- runs


def rows_of(path: Path, texts: list[str]) -> str:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return str(path)


def test_documents_of_folders_and_tables(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate(DOCUMENTS):
        (folder / f"{number:02}.txt").write_text(text, encoding="utf-8")
    table = rows_of(tmp_path / "texts.jsonl", DOCUMENTS)
    for data in (str(folder), table, {"text": DOCUMENTS}):
        splits = read(request("write", data, "packing=documents").settings())
        parts = [[record.value for record in part] for part in (splits.train, splits.valid)]
        assert sorted(parts[0] + parts[1]) == sorted(DOCUMENTS), "whole documents are held out"
        assert 0 < len(parts[1]) <= 4
    few = read(request("write", {"text": DOCUMENTS[:3]}, "packing=documents").settings())
    assert [a.value + b.value for a, b in zip(few.train, few.valid, strict=True)] == DOCUMENTS[:3]
    named = read(request("write", table, "columns=text").settings())
    assert [a.value + b.value for a, b in zip(named.train, named.valid, strict=True)] == DOCUMENTS
    assert len(read(request("write", table).settings()).train) == 1, "else such a file is a text"


def test_a_run_on_documents_repeats_its_bits_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, keys = rows_of(tmp_path / "texts.jsonl", DOCUMENTS), (*QUICK, "packing=documents", "length=32")
    run = trained("write", data, tmp_path / "whole", *keys)
    assert json.loads((run.folder / "config.json").read_text())["facts"] == {"packing": "documents"}

    def stop(batches: PackedDocuments, step: int, index: int, count: int) -> Microbatch:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return part(batches, step, index, count)

    part = PackedDocuments.part
    monkeypatch.setattr(PackedDocuments, "part", stop)
    with pytest.raises(Interrupted, match="stopped after step 5 of 6"):
        trained("write", data, tmp_path / "parts", *keys)
    monkeypatch.undo()
    again = trained("write", data, tmp_path / "parts", resume=True)
    assert again.known.packing == "documents"
    assert all((run.folder / x).read_bytes() == (again.folder / x).read_bytes() for x in again.task.Known.files)
    assert (run.folder / "model.safetensors").read_bytes() == (again.folder / "model.safetensors").read_bytes()
    assert again.measure() == run.measure()

"""Every model as a program: what the model puts out, at sizes that the program was not traced with."""

from typing import Any

import pytest
import torch

from mirada.models.gat import GAT
from mirada.models.whisper import Whisper
from mirada.runs.programs import program, signature_of
from tests.models.cases import CASES
from tests.models.cases.case import Batch, Case, outputs
from tests.models.stirring import assert_near, stirred

QUICK = {("Forecaster", "patches")}


def _listed() -> list[Any]:
    return [
        pytest.param(
            case, changes, id=f"{case.model.__name__}-{key}",
            marks=[] if (case.model.__name__, key) in QUICK else [pytest.mark.slow],
        )
        for case in CASES
        if case.model is not GAT
        for key, changes in case.variants.items()
    ]  # fmt: skip


def _other(case: Case, batch: Batch) -> dict[str, Any]:
    """One sample more than the batch of a case, other numbers, and the longest text padded further."""
    return {name: torch.cat([x, x[:1], x[1:2]]) for name, x in case.other_padding(batch, 2).given.items()}


@pytest.mark.parametrize(("case", "changes"), _listed())
@torch.no_grad()
def test_a_program_of_every_model_at_other_sizes(case: Case, changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = stirred(case.model(case.config(**changes)), torch.float32)
    if str(getattr(model.config, "position", "")).startswith("relative") and case.writes:
        with pytest.raises(ValueError, match=f"no program for all sizes can be made of this {case.model.__name__}: "):
            program(model)
        return
    made, batch = program(model).module(), case.batch(model.config).to(torch.float32)
    for given in (batch.given, _other(case, batch)):
        if case.model is Whisper:
            given = given | {"frames": torch.randn(len(given["target"]), 2 * model.config.places, model.config.mels)}
        given = {name: given[name] for name in signature_of(model).inputs}  # segments of an encoder are no input
        answer = made(*given.values())
        got = list(answer) if isinstance(answer, tuple) else [answer]
        for ours, theirs in zip(got, outputs(model, Batch(given, {})), strict=True):
            real = torch.ones(theirs.shape[:2], dtype=torch.bool)
            if "lengths" in given and theirs.shape[1:2] == given.get("tokens", given["lengths"][None]).shape[1:2]:
                real = torch.arange(theirs.shape[1]) < given["lengths"].unsqueeze(1)  # padding is not compared
            assert_near(ours[real], theirs[real])

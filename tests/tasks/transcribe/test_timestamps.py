"""The rules for timestamps, against those of transformers."""

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from mirada.decoding.search import SoFar
from mirada.tasks.transcribe.timestamps import ForbidFirst, Timestamps

TEXT_END, HIDDEN, FIRST, VOCAB, PROMPT = 9, 13, 14, 31, 3


@pytest.mark.parametrize("latest", [None, 2])
@pytest.mark.parametrize("length", range(6))
def test_the_rules_are_those_of_transformers(latest: int | None, length: int) -> None:
    logits_process = pytest.importorskip("transformers.generation.logits_process")
    draws = torch.Generator().manual_seed(length)
    settings = SimpleNamespace(
        no_timestamps_token_id=HIDDEN, eos_token_id=TEXT_END, bos_token_id=0, max_initial_timestamp_index=latest
    )
    theirs = logits_process.WhisperTimeStampLogitsProcessor(settings, begin_index=PROMPT)
    rows, ours = 200, Timestamps(FIRST, TEXT_END, HIDDEN, latest)
    text, moment = (torch.randint(*ends, (rows, length), generator=draws) for ends in ((0, TEXT_END), (FIRST, VOCAB)))
    written = torch.where(torch.rand(rows, length, generator=draws) < 0.5, text, moment)
    logits = 3 * torch.randn(rows, VOCAB, generator=draws)
    wanted = theirs(torch.cat([torch.zeros(rows, PROMPT, dtype=torch.long), written], 1), logits)
    ours.apply(logits, SoFar(length, TEXT_END, written.tolist()))
    assert_close(logits, wanted, rtol=0, atol=0)
    assert 0 < logits.isinf().sum() < logits.numel()


def test_first_tokens_are_forbidden_only_there() -> None:
    for length, forbidden in ((0, 2), (1, 0)):
        logits = torch.zeros(1, 5)
        ForbidFirst((1, 3)).apply(logits, SoFar(length, None, [[0] * length]))
        assert int(logits.isinf().sum()) == forbidden


def test_timestamps_beyond_the_vocabulary_are_named() -> None:
    with pytest.raises(ValueError, match="timestamps begin at 14: the vocabulary has 9 tokens"):
        Timestamps(FIRST, TEXT_END, HIDDEN).apply(torch.zeros(1, 9), SoFar(0, None, [[]]))
    with pytest.raises(ValueError, match="end and hidden must stand before the timestamps"):
        Timestamps(first=3, end=5, hidden=2)

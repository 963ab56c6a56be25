"""Cutting windows at timestamps, against what transformers makes of them."""

import pytest
import torch

from mirada.tasks.transcribe.segments import cut

FIRST, PLACE = 50, 0.02
WRITTEN = {
    "pairs": [50, 7, 8, 53, 53, 9, 60, 60, 11, 12],
    "pairs, then one that closes": [50, 7, 53, 54, 9, 60],
    "one open": [52, 7, 8],
    "open and closed": [50, 7, 8, 64],
    "nothing but words": [7, 8, 9],
    "nothing": [],
    "ends with a pair": [50, 7, 53, 53],
}


@pytest.mark.parametrize("tokens", WRITTEN.values(), ids=WRITTEN)
def test_segments_are_those_of_transformers(tokens: list[int]) -> None:
    theirs = pytest.importorskip("transformers.models.whisper.generation_whisper").WhisperGenerationMixin
    frames = 270
    wanted, seek = theirs._retrieve_segment(
        seek_sequence=torch.tensor(tokens, dtype=torch.long), seek_outputs=[{}], time_offset=torch.tensor([30.0]),
        timestamp_begin=FIRST, seek_num_frames=torch.tensor([frames]), time_precision=PLACE, time_precision_features=0.01,
        input_stride=2, prev_idx=0, idx=0, return_token_timestamps=False, decoder_input_ids=torch.zeros(1, 3),
    )  # fmt: skip
    segments, used = cut(tokens, FIRST, PLACE, offset=30.0, seconds=frames * 0.01)
    assert round(used * 100) == int(seek)
    assert [part.start for part in segments] == pytest.approx([float(part["start"]) for part in wanted])
    assert [part.end for part in segments] == pytest.approx([float(part["end"]) for part in wanted])
    text = [[token for token in part.tokens if token < FIRST] for part in segments]
    assert text == [[token for token in part["tokens"].tolist() if token < FIRST] for part in wanted]

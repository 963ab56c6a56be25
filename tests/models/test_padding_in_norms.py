"""Batch norm counts no padding in a target, whichever model reads it."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from mirada.models.captioner import Captioner, CaptionerConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.transcriber import Transcriber, TranscriberConfig
from mirada.models.transformer import Transformer, TransformerConfig

MODELS = {
    "gpt": (GPT, GPTConfig, lambda: ()),
    "transformer": (Transformer, TransformerConfig, lambda: (torch.randint(0, 11, (2, 5)), None)),
    "transcriber": (Transcriber, TranscriberConfig, lambda: (torch.randn(2, 17, 5), None)),
    "captioner": (Captioner, CaptionerConfig, lambda: (torch.randn(2, 3, 16, 16),)),
}


@pytest.mark.parametrize("name", MODELS)
def test_padding_of_a_target_changes_no_loss(name: str) -> None:
    kind, config, source = MODELS[name]
    changes = {"norm": "batch", "order": "post"} | ({"decoder": "transformer"} if name == "captioner" else {})
    model, given = kind(replace(config.tiny(), **changes)).train(), source()
    target, wanted = torch.randint(0, 13, (2, 3)), torch.randint(0, 13, (2, 3))
    alone = model.loss(*given, target, wanted)
    more = torch.randint(0, 13, (2, 4))
    padded = model.loss(*given, torch.cat([target, more], 1), torch.cat([wanted, torch.full_like(more, -100)], 1))
    assert_close(padded, alone)

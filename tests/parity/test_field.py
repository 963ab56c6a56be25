"""Parts of the field beside the attention functions of transformers: gpt-oss (sinks) and Gemma 2 (capped scores)."""

from types import SimpleNamespace

import torch
from torch.testing import assert_close
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss

from mirada.attention import Causal, Sinks, Softcap, attend

BATCH, N, HEADS, KV, DIM = 2, 7, 6, 3, 5
HIDDEN = torch.zeros(1, 1, N, N, dtype=torch.float64).masked_fill(~Causal().dense(N, N), torch.finfo(torch.float64).min)


def tensors() -> list[torch.Tensor]:
    return [torch.randn(BATCH, heads, N, DIM, dtype=torch.float64) for heads in (HEADS, KV, KV)]


def test_sinks_as_in_gpt_oss() -> None:
    sinks = Sinks(HEADS).double()
    torch.nn.init.normal_(sinks.scores)
    q, k, v = tensors()
    module = SimpleNamespace(num_key_value_groups=HEADS // KV, sinks=sinks.scores, training=False)
    expected, _ = modeling_gpt_oss.eager_attention_forward(module, q, k, v, HIDDEN, scaling=DIM**-0.5)
    for kernel in ("sinks", "reference"):
        got = attend(q, k, v, where=Causal(), normalizer=sinks, kernel=kernel)
        assert_close(got.transpose(1, 2), expected)


def test_capped_scores_as_in_gemma_2() -> None:
    q, k, v = tensors()
    module = SimpleNamespace(num_key_value_groups=HEADS // KV, training=False)
    expected, _ = modeling_gemma2.eager_attention_forward(module, q, k, v, HIDDEN, scaling=DIM**-0.5, softcap=0.7)
    assert_close(attend(q, k, v, where=Causal(), score=Softcap(0.7)).transpose(1, 2), expected)

"""Reading short sources in one call of compiled C: what comes before the first step."""

import ctypes

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.neighborhoods import Padding
from mirada.layers.norm import Norm
from mirada.layers.quick.compiled import Stack
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.library import address, loaded, serves, threads_for
from mirada.layers.quick.record import examined
from mirada.layers.quick.refusal import refuses_now

LONGEST = 128  # places of a source; a fused kernel reads longer ones as quickly

Tokens = Int[Tensor, "batch length"]
States = Float[Tensor, "batch length width"]


def read(
    layers: nn.ModuleList, norm: Norm | None, ends: Ends, tokens: Tokens, padding: Padding | None
) -> States | None:
    """What an encoder makes of words; None: ask its modules.

    >>> from mirada.models.transformer import Transformer, TransformerConfig
    >>> model, tokens = Transformer(TransformerConfig.tiny()).eval(), torch.tensor([[3, 1, 4]])
    >>> with torch.no_grad():
    ...     quickly = model.encode(tokens).states
    >>> torch.testing.assert_close(quickly, model.encode(tokens).states)
    """
    if refuses_tokens(ends, tokens) is not None:
        return None
    record = examined(layers, norm, ends, causal=False)
    if (record.mute or record.refuses(ends.words.weight)) is not None:
        return None
    made, tokens, (batch, length) = Stack(record, layers, norm, ends), tokens.contiguous(), tokens.shape
    job, positions = made.job, ends.positions(length - 1)
    lengths = None if padding is None else padding.lengths.long().contiguous()
    states = made.table.new_empty(batch, length, job.width)
    made.make_room(batch * length, threads_for(batch * length * job.work), length)
    job.length, job.tokens, job.position = length, tokens.data_ptr(), address(positions)
    job.lengths, job.output = address(lengths), states.data_ptr()
    return states if loaded().step(ctypes.byref(job)) == 0 else None


def refuses_tokens(ends: Ends, tokens: Tokens) -> str | None:
    """Why these words cannot be read quickly, whoever reads them."""
    reason = refuses_now()
    if reason is not None:
        return reason
    if tokens.dtype != torch.int64 or not tokens.numel() or tokens.shape[1] > LONGEST:
        return f"it reads up to {LONGEST} int64 tokens: got {tuple(tokens.shape)} {tokens.dtype}"
    if not serves(ends.words.weight) or tokens.device.type != "cpu":
        return "it is for float32 on a CPU with a C compiler"
    if not ends.reaches(tokens.shape[1] - 1):
        return f"its position has no place {tokens.shape[1] - 1}"
    return None

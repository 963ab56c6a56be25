"""What comes before the first step: reading short sources, and making keys and values of them, in one call of compiled C each."""

import ctypes
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Padding
from mirada.layers.block import DecoderLayer
from mirada.layers.quick.compiled import Stack
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.kept import kept
from mirada.layers.quick.library import address, loaded, serves, threads_for
from mirada.layers.quick.panels import packed, parameters_of
from mirada.layers.quick.parts import joined, modules_of
from mirada.layers.quick.refusal import Watch, refuses_attention, refuses_modules, refuses_now, refuses_stack

if TYPE_CHECKING:
    from mirada.layers.stack import Encoder

LONGEST = 128  # places of a source; a fused kernel reads longer ones as quickly

Tokens = Int[Tensor, "batch length"]
States = Float[Tensor, "batch length width"]


def read(ends: Ends, stack: "Encoder", tokens: Tokens, padding: Padding | None) -> States | None:
    """What the stack makes of words; None: ask the modules.

    >>> import torch
    >>> from mirada.models.transformer import Transformer, TransformerConfig
    >>> model, tokens = Transformer(TransformerConfig.tiny()).eval(), torch.tensor([[3, 1, 4]])
    >>> ends = Ends(model.source_words, model.source_place)
    >>> with torch.no_grad():
    ...     refuses_reading(ends, model.encoder, tokens.float()), model.encode(tokens).states.shape
    ('it reads up to 128 int64 tokens: got (1, 3) torch.float32', torch.Size([1, 3, 16]))
    """
    if refuses_reading(ends, stack, tokens) is not None:
        return None
    made, table, tokens = Stack(stack.layers, stack.norm), ends.words.weight.detach().contiguous(), tokens.contiguous()
    job, (batch, length) = made.job, tokens.shape
    made.make_room(batch * length, threads_for(batch * length * made.weights.numel()), length)
    positions, lengths = ends.positions(0, length), None
    if padding is not None:
        lengths = padding.lengths.long().contiguous()
    states = table.new_empty(batch, length, job.width)
    job.length, job.vocab, job.enlarged = length, len(table), ends.words.scale
    job.tokens, job.words, job.position = tokens.data_ptr(), table.data_ptr(), address(positions)
    job.lengths, job.output = address(lengths), states.data_ptr()
    return states if loaded().step(ctypes.byref(job)) == 0 else None


def refuses_reading(ends: Ends, stack: "Encoder", tokens: Tokens) -> str | None:
    """Why these words cannot be read quickly; None if they can."""
    reason = refuses_now()
    if reason is not None:
        return reason
    if tokens.dtype != torch.int64 or not 0 < tokens.shape[1] <= LONGEST or not tokens.numel():
        return f"it reads up to {LONGEST} int64 tokens: got {tuple(tokens.shape)} {tokens.dtype}"
    if not serves(ends.words.weight) or tokens.device.type != "cpu":
        return "it is for float32 on a CPU with a C compiler"
    if not ends.reaches(tokens.shape[1] - 1):
        return f"its position has no place {tokens.shape[1] - 1}"
    tops = [*stack.layers, *([] if stack.norm is None else [stack.norm]), ends.words, ends.place]
    modules = [inside for module in tops for inside in modules_of(module)]
    reason = ends.refuses() or refuses_stack(stack.layers, stack.norm, causal=False)
    return reason or refuses_modules(modules, ends.words.weight) or Watch.over(modules).refuses()


def remember(layers: nn.ModuleList, memory: States, padding: Padding | None) -> list[Memory] | None:
    """What the attentions of decoder layers remember of a memory, keys and values of all from one product; None: ask them."""
    if refuses_memory(layers, memory, padding) is not None:
        return None
    heads = [layer.cross.heads for layer in layers]
    linears = [linear for own in heads for linear in (own.key, own.value)]
    matrix = kept(layers[0], parameters_of(linears), (), lambda: packed(*joined(tuple(linears))))
    memory, columns = memory.contiguous(), 2 * len(layers) * heads[0].heads * heads[0].dim
    batch, length, width = memory.shape
    made = memory.new_empty(batch, length, columns)
    threads = threads_for(batch * length * matrix.numel())
    loaded().product(batch * length, width, columns, threads, matrix.data_ptr(), memory.data_ptr(), made.data_ptr())
    # (batch, length, layers x keys and values x heads x dim) to (layers x keys and values, batch, heads, length, dim)
    rooms = made.view(batch, length, 2 * len(layers), heads[0].heads, heads[0].dim).permute(2, 0, 3, 1, 4).unbind(0)
    return [
        Memory(rooms[2 * number], rooms[2 * number + 1], layer.cross.score, padding)
        for number, layer in enumerate(layers)
    ]  # fmt: skip


def refuses_memory(layers: nn.ModuleList, memory: States, padding: Padding | None) -> str | None:
    """Why the attentions must be asked themselves; None if not."""
    reason = refuses_now()
    if reason is not None:
        return reason
    if not all(isinstance(layer, DecoderLayer) for layer in layers):
        return "a layer looks at no memory"
    if not serves(memory) or memory.ndim != 3 or not memory.numel():
        return "it is for float32 on a CPU with a C compiler"
    if memory.shape[2] != layers[0].cross.heads.memory_width:
        return f"the memory is {memory.shape[2]} wide"
    if padding is not None and (len(padding.lengths) != len(memory) or padding.longest > memory.shape[1]):
        return "its lengths do not fit"
    attentions = [layer.cross for layer in layers]
    for attention in attentions:
        reason = reason or refuses_attention(attention, causal=False)
    modules = [inside for attention in attentions for inside in modules_of(attention)]
    return reason or refuses_modules(modules, memory) or Watch.over(modules).refuses()

"""Benchmarks on this machine: ratios to plain PyTorch, measured in alternation."""

import statistics
from collections.abc import Callable
from timeit import timeit
from typing import Any

import torch
from torch import nn

from mirada import engine
from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.attention.neighborhoods import Causal
from mirada.decoding.greedy import Greedy
from mirada.errors import unknown
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.native import library
from mirada.words import echo

ROUNDS = 9
Action = Callable[[], object]


def run_benchmarks(name: str | None) -> None:
    """Print a line for each measurement."""
    known = {"attention": attention, "training": _training, "decoding": _decoding}
    if name is not None and name not in known:
        raise unknown("benchmark", name, known)
    echo(f"torch {torch.__version__}, {torch.get_num_threads()} threads; medians of {ROUNDS} interleaved rounds")
    echo(f"C code: {library.describe()}")
    for each in [name] if name else known:
        known[each]()


def _compared(title: str, ours: Action, theirs: Action) -> None:
    """Time both in alternation, and print the medians, the ratio and its range."""
    ours(), theirs()
    times = [(timeit(ours, number=1), timeit(theirs, number=1)) for _ in range(ROUNDS)]
    mine, plain = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = sorted(b / a for a, b in times)
    echo(
        f"{title:<44} mirada {1000 * mine:8.1f} ms  PyTorch {1000 * plain:8.1f} ms  "
        f"{statistics.median(ratios):5.2f} x ({ratios[1]:.2f} to {ratios[-2]:.2f})"
    )


def attention() -> None:
    """Causal self-attention with its weights on demand, against `nn.MultiheadAttention` that returns them."""
    x = torch.randn(4, 512, 256)
    ours, theirs = Attention(MultiHead(256, 4), where=Causal()), nn.MultiheadAttention(256, 4, batch_first=True)
    mask = torch.triu(torch.ones(512, 512, dtype=torch.bool), 1)
    _compared(
        "attention, causal, forward and backward",
        lambda: ours(x).sum().backward(),
        lambda: theirs(x, x, x, attn_mask=mask, need_weights=True)[0].sum().backward(),
    )


class _Plain(nn.Module):
    """The same model from `nn.Transformer`."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.body = nn.Transformer(width, 4, 3, 3, 1024, 0.1, batch_first=True, norm_first=True)
        self.output = nn.Linear(width, vocab)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.output(self.body(self.words(source), self.words(target), tgt_mask=mask, tgt_is_causal=True))


def _pair() -> tuple[Transformer, _Plain]:
    sizes = {"vocab": 9000, "source_vocab": 9000, "width": 256, "hidden": 1024, "depth": 3, "heads": 4}
    return Transformer(TransformerConfig(**sizes)), _Plain(9000, 256)  # type: ignore[arg-type]


def _training() -> None:
    """A training step of an encoder-decoder."""
    ours, theirs = _pair()
    source, target, wanted = (torch.randint(5, 9000, (128, 16)) for _ in range(3))
    _compared(
        "training an encoder-decoder, 2,048 tokens",
        lambda: ours.loss(source, None, target, wanted).backward(),
        lambda: nn.functional.cross_entropy(theirs(source, target).flatten(0, 1), wanted.flatten()).backward(),
    )


@torch.inference_mode()
def _decoding() -> None:
    """Greedy decoding of one sentence, against running the full decoder again for every token."""
    ours, theirs = _pair()
    ours.eval(), theirs.eval()
    source, first, steps = torch.randint(5, 9000, (1, 20)), torch.tensor([2]), 25
    stepper: Any = engine.fast(ours).stepper

    def mine() -> None:
        Greedy()(stepper, stepper.start(stepper.encode(source)), first, None, steps)

    def plain() -> None:
        written = first.unsqueeze(0)
        memory = theirs.body.encoder(theirs.words(source))
        for _ in range(steps):
            mask = nn.Transformer.generate_square_subsequent_mask(written.shape[1])
            h = theirs.body.decoder(theirs.words(written), memory, tgt_mask=mask)
            written = torch.cat([written, theirs.output(h[:, -1:]).argmax(-1)], 1)

    _compared("decoding 25 tokens, one sentence", mine, plain)

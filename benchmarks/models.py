"""Our models over their peers: one training step (forward, backward, Adam) each, as ratios of times in one process.

    python benchmarks/models.py             every table (about fifteen minutes on two cores)
    python benchmarks/models.py gpt         one of them: transformer, gpt, luong, vit, gat

The ratio is peer / ours, so larger is better. Peers: pip install transformers x-transformers torch_geometric.
"""

import argparse
import itertools
from collections.abc import Callable
from dataclasses import replace

import model_peers as peers
import torch
from ratios import HEADER, race
from torch import Tensor, nn

from mirada.models.gat import GAT, GATConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.models.vit import ViT, ViTConfig

Step = Callable[[], None]


def training_step(model: nn.Module, loss: Callable[..., Tensor], batches: list[tuple[Tensor, ...]]) -> Step:
    """A call that trains on the next batch."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    turn = itertools.cycle(batches)

    def step() -> None:
        optimizer.zero_grad()
        loss(*next(turn)).backward()
        optimizer.step()

    return step


def table(title: str, ours: Step, others: dict[str, Step], rounds: int) -> None:
    """One table: every peer's time over ours."""
    print(f"\n## {title}\n")
    print(HEADER, flush=True)
    for name, other in others.items():
        print(race(other, ours, rounds, warm_up=2).row(f"{name} / ours"), flush=True)


def translation_batches(vocab: int, tokens: int, count: int) -> list[tuple[Tensor, ...]]:
    """Batches of sentence pairs of 5 to 40 tokens, as length buckets leave them: about that many target tokens each."""
    random = torch.Generator().manual_seed(0)
    batches = []
    for longest in torch.linspace(8, 40, count).long().tolist():
        size = tokens // longest
        lengths = torch.randint(max(5, longest - 1), longest + 1, (size,), generator=random)
        lengths[0] = longest
        source, target, wanted = (torch.randint(3, vocab, (size, longest), generator=random) for _ in range(3))
        padded = torch.arange(longest) >= lengths[:, None]
        batches.append(
            (source.masked_fill(padded, 0), lengths, target.masked_fill(padded, 0), wanted.masked_fill(padded, -100))
        )
    return batches


def transformer(rounds: int) -> None:
    """The encoder-decoder."""
    vocab, width, heads, hidden, depth, dropout = sizes = (9000, 256, 4, 1024, 3, 0.1)
    config = TransformerConfig(
        vocab=vocab, source_vocab=vocab, width=width, heads=heads, hidden=hidden, depth=depth, dropout=dropout,
        tied="all",
    )  # fmt: skip
    batches = translation_batches(vocab, 4096, 4)
    torch_model, ours = peers.TorchTransformer(*sizes), Transformer(config)
    contestants = {
        "nn.Transformer": (torch_model, torch_model.loss),
        "Hugging Face Marian": peers.marian(*sizes),
        "x-transformers": peers.x_transformer(*sizes),
    }
    table(
        "encoder-decoder, width 256, 3 + 3 layers, vocabulary 9000, 4096 tokens (targets: 1.8, 1.2, 1.0)",
        training_step(ours, ours.loss, batches),
        {name: training_step(model, loss, batches) for name, (model, loss) in contestants.items()},
        rounds,
    )


def gpt(rounds: int) -> None:
    """Three sizes of GPT, without dropout, and the larger ones with theirs. We drop in the residual stream only."""
    for vocab, width, depth, heads, length, batch, dropout in (
        (65, 128, 4, 4, 64, 12, 0.0),
        (65, 384, 6, 6, 256, 4, 0.0),
        (65, 384, 6, 6, 256, 4, 0.2),
        (8192, 384, 6, 6, 256, 4, 0.0),
        (8192, 384, 6, 6, 256, 4, 0.2),
    ):
        config = GPTConfig(
            vocab=vocab, width=width, heads=heads, hidden=4 * width, depth=depth, length=length, dropout=dropout,
            activation="gelu",
        )  # fmt: skip
        sizes = (vocab, width, heads, depth, length, dropout)
        batches = [(torch.randint(vocab, (batch, length)), torch.randint(vocab, (batch, length)))]
        ours, plain = GPT(config), peers.PlainGPT(*sizes)
        contestants = {
            "Hugging Face GPT-2": peers.gpt2(*sizes),
            "x-transformers": peers.x_gpt(*sizes),
            "plain, nanoGPT-style": (plain, plain.loss),
        }
        table(
            f"GPT, width {width}, depth {depth}, T {length}, batch {batch}, vocabulary {vocab}, dropout {dropout} (target: 1.0)",
            training_step(ours, ours.loss, batches),
            {name: training_step(model, loss, batches) for name, (model, loss) in contestants.items()},
            rounds if width > 128 else 4 * rounds,
        )


def luong(rounds: int) -> None:
    """Luong without input feeding, all steps at once, against a loop over steps."""
    config = Seq2SeqConfig(vocab=9000, source_vocab=9000, width=256, hidden=256, cell="lstm", dropout=0.1)
    batches = translation_batches(9000, 4096, 4)
    ours, other = Seq2Seq(config), Seq2Seq(config)
    with_feeding = Seq2Seq(replace(config, feeding=True))
    table(
        "Luong's attention without input feeding (target over the loop: 1.2)",
        training_step(ours, ours.loss, batches),
        {
            "a loop over steps": training_step(other, peers.stepwise_luong(other), batches),
            "ours with input feeding": training_step(with_feeding, with_feeding.loss, batches),
        },
        rounds,
    )


def vit(rounds: int) -> None:
    """A tiny ViT on pictures of 32 x 32."""
    sizes = (32, 4, 192, 3, 12, 10)
    size, patch, width, heads, depth, classes = sizes
    config = ViTConfig(
        size=size, patch=patch, width=width, heads=heads, hidden=4 * width, depth=depth, classes=classes, dropout=0.0
    )  # fmt: skip
    batches = [(torch.randn(16, 3, size, size), torch.randint(classes, (16,)))]
    ours = ViT(config)
    contestants = {"Hugging Face ViT": peers.hugging_vit(*sizes), "nn.TransformerEncoder": peers.torch_vit(*sizes)}
    table(
        "ViT tiny, 32 x 32, patches of 4, batch 16 (target: 1.0)",
        training_step(ours, ours.loss, batches),
        {name: training_step(model, loss, batches) for name, (model, loss) in contestants.items()},
        rounds,
    )


def gat(rounds: int) -> None:
    """Two layers of graph attention on a graph of Cora's size, with its dropout."""
    nodes, features, edges, classes = 2708, 1433, 10556, 7
    graph = torch.randint(nodes, (2, edges))
    graph = torch.unique(graph[:, graph[0] != graph[1]], dim=1)
    x, wanted = (torch.rand(nodes, features) < 0.0127).float(), torch.randint(classes, (nodes,))
    for dropout in (0.0, 0.6):
        ours = GAT(GATConfig(features=features, classes=classes, dropout=dropout, weight_dropout=dropout))
        peer, loss = peers.pyg_gat(features, 8, 8, classes, dropout)
        where = ours.graph(graph, nodes)
        table(
            f"GAT, Cora's size, 8 heads of 8, dropout {dropout} (target: 1.0)",
            training_step(ours, ours.loss, [(x, where, wanted)]),
            {"PyG": training_step(peer, loss, [(x, graph, wanted)])},
            4 * rounds,
        )


TABLES = {"transformer": transformer, "gpt": gpt, "luong": luong, "vit": vit, "gat": gat}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="which tables (default: all)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of the larger models")
    arguments = parser.parse_args()
    for name in arguments.tables or TABLES:
        TABLES[name](arguments.rounds)

"""Training an encoder-decoder on sentence pairs with the lengths of picture captions: true target tokens per second.

    python benchmarks/training.py               our training loop against its peers (about ten minutes on two cores)
    python benchmarks/training.py --rounds 3    a quick look

Ours is the whole step of `mirada train` (batches, seeds, schedule, clipping, Adam, kept memory). A peer's is forward, backward
and Adam. Every contestant has a process of its own, as its users would have, and they take turns.
Every contestant trains on the same sentences, dropout 0.1, about 4,096 tokens a batch; padding is paid for but not counted.
The ratio is ours / theirs in tokens per second, so larger is better. Peers: pip install transformers x-transformers.
"""

import argparse
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import model_peers as peers
import torch
from torch import Tensor, nn

from mirada.cli.train import keep_memory
from mirada.data.batching import Bucketed, EncodedRecords, Microbatch
from mirada.data.text.tokenize import END, PAD, START
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.tasks.translate.task import collate
from mirada.training.loop import Training
from mirada.training.objectives import ModelLoss
from mirada.training.recipe import Recipe
from mirada.training.state import TrainingState

VOCAB, TOKENS, PAIRS, AT_A_TIME = 9000, 4096, 6000, 4
SIZES = (VOCAB, 256, 4, 1024, 3, 0.1)
OURS, SAME, MARIAN = "mirada", "nn.Transformer, same batches", "Hugging Face Marian, same batches"
X_TRANSFORMERS = "x-transformers, same batches"
TARGETS = {SAME: 1.9, "nn.Transformer, random batches": 3.5, MARIAN: 1.2, X_TRANSFORMERS: 1.0}
Pair = tuple[list[int], list[int]]
Train = Callable[[int], int]  # the batch of a step, to its true target tokens


def collated(pairs: list[Pair]) -> Microbatch:
    """A batch, each side with its end."""
    ended = [([*source, END], [*target, END]) for source, target in pairs]
    return collate(ended, first=START, filler=PAD)


def sentence_pairs() -> list[Pair]:
    """Random words; lengths like those of captions in two languages: about 14 words, 5 to 40, both sides alike."""
    dice = random.Random(0)

    def length(mean: float) -> int:
        return min(40, max(5, round(mean * dice.lognormvariate(0, 0.12))))

    def words(count: int) -> list[int]:
        return [dice.randrange(5, VOCAB) for _ in range(count)]

    means = [13.0 * dice.lognormvariate(0, 0.33) for _ in range(PAIRS)]
    return [(words(length(mean)), words(length(mean))) for mean in means]


def ours(pairs: list[Pair], folder: Path) -> Train:
    """The step of our training loop."""
    vocab, width, heads, hidden, depth, dropout = SIZES
    config = TransformerConfig(
        vocab=vocab, source_vocab=vocab, width=width, heads=heads, hidden=hidden, depth=depth, dropout=dropout,
        tied="all",
    )  # fmt: skip
    sizes = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    batches = Bucketed(EncodedRecords(pairs, sizes, collated), TOKENS, 0)
    objective = ModelLoss(Transformer(config))
    training = Training(objective, batches, [], Recipe(steps=10_000), folder)
    objective.train()
    state = TrainingState(steps=10_000)

    def train(step: int) -> int:
        state.step = step
        return training.step(state, False)[1]

    return train


def theirs(model: nn.Module, loss: Callable[..., Tensor], batch: Callable[[int], Microbatch]) -> Train:
    """The step that most people write."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def train(step: int) -> int:
        part = batch(step)
        optimizer.zero_grad()
        loss(*part.inputs.values()).backward()
        optimizer.step()
        return part.tokens

    return train


def random_batches(pairs: list[Pair]) -> Callable[[int], Microbatch]:
    """Sentences as they come, as many as keep the padded batch within the same number of tokens."""
    order = list(range(len(pairs)))
    random.Random(1).shuffle(order)
    batches: list[list[int]] = [[]]
    longest = 0
    for row in order:
        longest = max(longest, *(len(side) + 1 for side in pairs[row]))
        if (len(batches[-1]) + 1) * longest > TOKENS:
            batches.append([])
            longest = max(len(side) + 1 for side in pairs[row])
        batches[-1].append(row)
    return lambda step: collated([pairs[row] for row in batches[step % (len(batches) - 1)]])


def contestant(name: str, orders: Connection) -> None:
    """A process that trains on request: (first step, how many), answered with true target tokens per second."""
    pairs = sentence_pairs()
    sizes = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    buckets = Bucketed(EncodedRecords(pairs, sizes, collated), TOKENS, 0)

    def bucketed(step: int) -> Microbatch:
        return collated([pairs[row] for row in buckets.batch(step)])

    with tempfile.TemporaryDirectory() as folder:
        if name == OURS:
            keep_memory()
            train = ours(pairs, Path(folder))
        elif name == MARIAN:
            train = theirs(*peers.marian(*SIZES), bucketed)
        elif name == X_TRANSFORMERS:
            train = theirs(*peers.x_transformer(*SIZES), bucketed)
        else:
            plain = peers.TorchTransformer(*SIZES)
            train = theirs(plain, plain.loss, bucketed if name == SAME else random_batches(pairs))
        while (order := orders.recv()) is not None:
            begun = time.perf_counter()
            tokens = sum(train(step) for step in range(order[0], sum(order)))
            orders.send(tokens / (time.perf_counter() - begun))


def speeds(rounds: int) -> dict[str, list[float]]:
    """Tokens per second of every contestant in every round; they take turns, in an order that changes."""
    spawn = multiprocessing.get_context("spawn")
    lines: dict[str, Connection] = {}
    for name in (*TARGETS, OURS):
        if name == OURS:
            keep_memory()  # as `mirada train` does; a part of it is for processes that start from here on
        lines[name], end = spawn.Pipe()
        spawn.Process(target=contestant, args=(name, end), daemon=True).start()
    found: dict[str, list[float]] = {name: [] for name in lines}
    for turn in range(-1, rounds):  # the first round warms up
        names = list(lines)
        random.Random(turn).shuffle(names)
        for name in names:
            lines[name].send((max(0, turn) * AT_A_TIME, AT_A_TIME))
            speed = lines[name].recv()
            if turn >= 0:
                found[name].append(speed)
    for line in lines.values():
        line.send(None)
    return found


def main(rounds: int) -> None:
    found = speeds(rounds)
    print(f"mirada: {statistics.median(found[OURS]):,.0f} true target tokens per second\n")
    print("| ours over | ratio | quartiles | theirs, tokens/s | target |\n|---|---|---|---|---|")
    for name, values in found.items():
        if name != OURS:
            ratios = [a / b for a, b in zip(found[OURS], values, strict=True)]
            low, median, high = statistics.quantiles(ratios, n=4)
            print(
                f"| {name} | {median:.2f} | {low:.2f} .. {high:.2f} | {statistics.median(values):,.0f} | "
                f"{TARGETS[name]} |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    main(parser.parse_args().rounds)

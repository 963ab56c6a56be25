"""Contextual vectors: `python benchmarks/claims/context.py [FIGURE]` asks three vectors of a word for its translation.

Words of the builtin grammar that have several translations ("letter": carta or letra). From the sentence, a linear layer is
to tell which one is meant, given (1) the vector of the word itself, looked up; (2) with it the uniform mean of all words;
(3) with it a mean weighted by attention from the word. All three are trained alike and measured on the sentences of the
context test, each alone and among two others (`--among 2`): a mean of everything tells less and less about one word.
"""

import argparse
import random
import re
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mirada import Attention, MultiHead
from mirada.attention.neighborhoods import Padding
from mirada.attention.positions import Sinusoidal
from mirada.corpora.texts import embedded_texts
from mirada.data.batching import pad
from mirada.drawing.plots.lines import plot_bars
from mirada.layers.embed import AddPosition

WIDTH, STEPS, BATCH = 64, 1500, 128
WAYS = {"word-wise": "the word alone", "uniform mean": "all words alike", "attention": "weighted by the word"}


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Example:
    """A sentence with an ambiguous word: where it stands, and which of all Spanish forms is meant."""

    def __init__(self, tokens: list[int], place: int, meaning: int) -> None:
        self.tokens, self.place, self.meaning = tokens, place, meaning


def examples() -> tuple[list[Example], list[Example], list[str], int]:
    grammar = embedded_texts("english_spanish")
    forms = {}
    for _, _, wanted, wrong, word in grammar["context"]:
        forms.setdefault(word, set()).update((wanted, *wrong.split("|")))
    names = sorted({form for known in forms.values() for form in known})
    counts = Counter(word for english, _ in grammar["train"] for word in words_of(english))
    numbers = {word: number for number, word in enumerate(counts, 2)}

    def example(english: str, word: str, wanted: str) -> Example | None:
        said = words_of(english)
        if word not in said:
            return None
        return Example([numbers.get(w, 1) for w in said], said.index(word), names.index(wanted))

    train = []
    for english, translation in grammar["train"]:
        spanish = set(words_of(translation))
        for word, known in forms.items():
            meant = known & spanish
            if len(meant) == 1 and (found := example(english, word, next(iter(meant)))):
                train.append(found)
    test = [found for english, _, wanted, _, word in grammar["context"] if (found := example(english, word, wanted))]
    return train, test, names, len(numbers) + 2


def among(some: list[Example], others: int, seed: int) -> list[Example]:
    """Every sentence between others, as one text."""
    dice, found = random.Random(seed), []
    for item in some:
        parts = [item, *dice.sample(some, others)]
        dice.shuffle(parts)
        before = sum(len(part.tokens) for part in parts[: parts.index(item)])
        found.append(Example([t for part in parts for t in part.tokens], before + item.place, item.meaning))
    return found


class Teller(nn.Module):
    """The vector of a word in its sentence, made in one of three ways, and the translations it speaks for."""

    def __init__(self, way: str, vocab: int, classes: int) -> None:
        super().__init__()
        self.way, self.words, self.place = way, nn.Embedding(vocab, WIDTH), AddPosition(Sinusoidal(WIDTH), 0.0)
        self.attention = Attention(MultiHead(WIDTH, heads=4))
        self.answer = nn.Linear(2 * WIDTH if way != "word-wise" else WIDTH, classes)

    def forward(self, tokens: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        x = self.place(self.words(tokens))
        word = x[torch.arange(len(x)), places]
        if self.way == "word-wise":
            return self.answer(word)
        if self.way == "uniform mean":
            real = (torch.arange(x.shape[1]) < lengths[:, None]).float()
            mixed = (x * real.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1)
        else:
            mixed = self.attention(word.unsqueeze(1), memory=x, where=Padding(lengths))[:, 0]
        return self.answer(torch.cat([word, mixed], -1))


def batch(some: list[Example]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tokens, lengths = pad([item.tokens for item in some], 0)
    return tokens, lengths, torch.tensor([item.place for item in some]), torch.tensor([item.meaning for item in some])


def right_answers(way: str, train: list[Example], test: list[Example], vocab: int, classes: int) -> float:
    """The share of right answers after the training, in percent."""
    torch.manual_seed(0)
    model = Teller(way, vocab, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(STEPS):
        rows = torch.randint(len(train), (BATCH,), generator=torch.Generator().manual_seed(step)).tolist()
        *inputs, wanted = batch([train[row] for row in rows])
        optimizer.zero_grad()
        F.cross_entropy(model(*inputs), wanted).backward()
        optimizer.step()
    with torch.no_grad():
        *inputs, wanted = batch(test)
        return 100 * (model(*inputs).argmax(-1) == wanted).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", nargs="?", default="")
    parser.add_argument("--among", type=int, default=2)
    given = parser.parse_args()
    train, test, names, vocab = examples()
    print(f"{len(train):,} sentences to learn from, {len(test):,} to test, {len(names)} translations\n")
    print(f"| vector | made of | right, % | among {given.among} others, % |\n|---|---|---|---|")
    lines: dict[str, list[tuple[str, float]]] = {"alone": [], "among others": []}
    crowd = among(train, given.among, 1), among(test, given.among, 2)
    for way, about in WAYS.items():
        alone = right_answers(way, train, test, vocab, len(names))
        crowded = right_answers(way, *crowd, vocab, len(names))
        lines["alone"].append((way, alone))
        lines["among others"].append((way, crowded))
        print(f"| {way} | {about} | {alone:.1f} | {crowded:.1f} |", flush=True)
    if given.figure:
        plot_bars(lines, Path(given.figure), x="right answers, %")


if __name__ == "__main__":
    main()

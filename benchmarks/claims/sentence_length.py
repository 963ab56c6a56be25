"""Quality against length: `python benchmarks/claims/sentence_length.py [FIGURE]`, four models on the same sentences.

Sentences of the builtin grammar, one to four of them joined, so that lengths run from 2 to some 40 words while the words stay
the same. Without attention, all of a text must fit into one vector. Every model is trained for the same number of steps
(`--steps`) and measured on new texts, by their number of English words: BLEU. (For real captions see `docs/results.md`.)
"""

import argparse
import random
import tempfile
from pathlib import Path

import mirada
from mirada.corpora.texts import embedded_texts
from mirada.drawing.plots.lines import plot
from mirada.training.metrics import bleu

MODELS = ("rnn", "bahdanau", "luong", "transformer")
EDGES = (5, 10, 15, 20, 30, 50)


def texts(pairs: list[tuple[str, ...]], count: int, seed: int) -> list[tuple[str, str]]:
    """Texts of one to four sentences."""
    dice = random.Random(seed)
    rows = [dice.sample(pairs, 1 + number % 4) for number in range(count)]
    return [(" ".join(english for english, _ in row), " ".join(spanish for _, spanish in row)) for row in rows]


def group(text: str) -> int:
    return next((edge for edge in EDGES if len(text.split()) <= edge), EDGES[-1])


def span(edge: int) -> str:
    """The lengths of a group: from one more than the group before has."""
    before = EDGES[EDGES.index(edge) - 1] if edge != EDGES[0] else 1
    return f"{before + 1}-{edge}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", nargs="?", default="")
    parser.add_argument("--steps", type=int, default=1500)
    given = parser.parse_args()
    grammar = embedded_texts("english_spanish")
    train, test = texts(grammar["train"], 20_000, 1), texts(grammar["test"], 1200, 2)
    groups = {edge: [pair for pair in test if group(pair[0]) == edge] for edge in EDGES}
    found: dict[str, list[tuple[str, float]]] = {}
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            run = mirada.train(
                "translate", data=train, model=model, out=Path(folder) / "run", steps=given.steps, width=128, hidden=256,
                vocab=3000, batch_tokens=1536, lr=2e-3, warmup=200, smoothing=0.0, dropout=0.1, patience=0,
            )  # fmt: skip
            found[model] = []
            for edge, pairs in groups.items():
                if len(pairs) >= 20:
                    answers = [answer.text for answer in run([english for english, _ in pairs])]
                    found[model].append((span(edge), bleu(answers, [spanish for _, spanish in pairs])))
    print(f"| words (texts) | {' | '.join(MODELS)} |\n|---|{'---|' * len(MODELS)}")
    for place, (name, _) in enumerate(found[MODELS[0]]):
        count = len(groups[int(name.split("-")[1])])
        print(f"| {name} ({count}) | " + " | ".join(f"{found[model][place][1]:.1f}" for model in MODELS) + " |")
    if given.figure:
        plot(found, Path(given.figure), x="words of the input", y="BLEU")


if __name__ == "__main__":
    main()

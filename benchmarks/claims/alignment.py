"""Cross-attention as a translation model: `python benchmarks/claims/alignment.py [FIGURE]` measures its alignment error.

Sentences of a small grammar whose word links are known because the script makes them: article, adjective and noun change
places between English and Spanish, a relative clause may follow. A recurrent model with Luong's attention, one with
Bahdanau's and a Transformer are trained as `mirada train translate` does. For every Spanish word the English word with the
largest weight is linked, and the links are compared with the true ones: alignment error rate (Och and Ney 2003), in percent,
beside the diagonal.
"""

import argparse
import random
import tempfile
from pathlib import Path

import mirada
from mirada.drawing.plots.lines import plot_bars
from mirada.looking.explain.alignment import alignment_error, diagonal, largest
from mirada.runs.run import Run

NOUNS = {"house": "casa", "table": "mesa", "window": "ventana", "street": "calle", "lamp": "lámpara", "river": "rivera",
         "chair": "silla", "shirt": "camisa", "door": "puerta", "island": "isla"}  # fmt: skip
ADJECTIVES = {"red": "roja", "small": "pequeña", "old": "vieja", "white": "blanca", "new": "nueva", "black": "negra",
              "long": "larga", "clean": "limpia"}  # fmt: skip
VERBS = {"sees": "ve", "paints": "pinta", "buys": "compra", "sells": "vende", "wants": "quiere"}
PEOPLE = {"Ana": "Ana", "Luis": "Luis", "Eva": "Eva", "Juan": "Juan"}
Links = set[tuple[int, int]]  # (English, Spanish), from 0


def phrase(dice: random.Random) -> tuple[list[str], list[str], Links]:
    """the red house <-> la casa roja"""
    noun, adjective = dice.choice(list(NOUNS)), dice.choice(list(ADJECTIVES))
    if dice.random() < 0.3:
        return ["the", noun], ["la", NOUNS[noun]], {(0, 0), (1, 1)}
    return ["the", adjective, noun], ["la", NOUNS[noun], ADJECTIVES[adjective]], {(0, 0), (1, 2), (2, 1)}


def joined(*parts: tuple[list[str], list[str], Links]) -> tuple[list[str], list[str], Links]:
    english: list[str] = []
    spanish: list[str] = []
    links: Links = set()
    for left, right, inside in parts:
        links |= {(e + len(english), s + len(spanish)) for e, s in inside}
        english, spanish = english + left, spanish + right
    return english, spanish, links


def word(english: str, spanish: str) -> tuple[list[str], list[str], Links]:
    return [english], [spanish], {(0, 0)}


def sentence(dice: random.Random) -> tuple[list[str], list[str], Links]:
    person, verb = dice.choice(list(PEOPLE.items())), dice.choice(list(VERBS.items()))
    parts = [word(*person), word(*verb), phrase(dice)]
    for _ in range(dice.randrange(3)):
        parts += [word("and", "y"), phrase(dice)]
    if dice.random() < 0.4:
        parts += [
            word("that", "que"),
            word(*dice.choice(list(PEOPLE.items()))),
            word(*dice.choice(list(VERBS.items()))),
        ]
    return joined(*parts)


def linked(run: Run, english: list[str]) -> dict[str, Links]:
    """The English word that each written word looked at most, in every layer that looks at the source."""
    answer = run(" ".join(english), aligned=True)
    words, layers = len(answer.text.split()), {}
    if run.settings.name == "transformer":
        seen = answer.look()
        layers = {name: seen[name].weights()[0].mean(0) for name in seen.names if name.endswith("cross")}
    elif answer.weights is not None:  # a recurrent decoder looks once a word
        layers = {"decoder": answer.weights}
    return {name: largest(weights[:words, : len(english)]) for name, weights in layers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", nargs="?", default="")
    parser.add_argument("--steps", type=int, default=600)
    given = parser.parse_args()
    dice = random.Random(0)
    made = {
        " ".join(english): (english, spanish, links)
        for english, spanish, links in (sentence(dice) for _ in range(9000))
    }
    rows = list(made.values())
    train, test = rows[:-300], rows[-300:]
    pairs = [(" ".join(english), " ".join(spanish)) for english, spanish, _ in train]
    print(f"{len(train):,} sentences to learn from, {len(test)} to test\n")
    print("| model | alignment error, % | right translations, % |\n|---|---|---|")
    straight = [alignment_error(diagonal(len(english), len(spanish)), links) for english, spanish, links in test]
    points = [("diagonal", sum(straight) / len(straight))]
    print(f"| the diagonal | {points[0][1]:.1f} | - |", flush=True)
    for model in ("bahdanau", "luong", "transformer"):
        with tempfile.TemporaryDirectory() as folder:
            run = mirada.train(
                "translate", data=pairs, model=model, out=Path(folder) / "run", steps=given.steps, width=128, hidden=256,
                tokenizer="word", batch_tokens=1024, lr=2e-3, warmup=100, dropout=0.1,
            )  # fmt: skip
            answers = run([" ".join(english) for english, _, _ in test])
            right = [a.text == " ".join(spanish) for a, (_, spanish, _) in zip(answers, test, strict=True)]
            good = [case for case, fine in zip(test, right, strict=True) if fine]  # links of other words are not known
            errors: dict[str, list[float]] = {}
            for english, _, links in good:
                for name, found in linked(run, english).items():
                    errors.setdefault(name, []).append(alignment_error(found, links))
        for name, values in errors.items():
            layer = f"{model}, {name}" if len(errors) > 1 else model
            points.append((layer.replace("decoder.layers.", "layer ").replace(".cross", ""), sum(values) / len(values)))
            print(f"| {points[-1][0]} | {points[-1][1]:.1f} | {100 * sum(right) / len(right):.1f} |", flush=True)
    if given.figure:
        plot_bars({"alignment error": points}, Path(given.figure), x="alignment error, %")


if __name__ == "__main__":
    main()

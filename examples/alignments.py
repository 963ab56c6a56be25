"""What the rows of attention make possible while a model translates at full speed: tags, simultaneous translation, quality.

    python examples/alignments.py                  with a small model, trained in some seconds
    python examples/alignments.py runs/translate   with a trained run: also how good these ways are on its test sentences

1. Tags: `<b>house</b>` stays around the word that was written from "house".
2. Simultaneous translation (AlignAtt; Papi, Turchi and Negri 2023, arXiv:2305.11408): words are written while others are still
   to come, until the next one would come from a place too near to the end of what was read.
3. Quality: a model that does not know where to look has rows of high entropy.

Lectures, rows 4.1 and 4.3.
"""

import io
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from statistics import mean

import torch

import mirada
from mirada import engine
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.tasks.translate.task import sides_of
from mirada.training.metrics import bleu, sentence_chrf

NOUNS = {"house": "casa", "table": "mesa", "street": "calle", "window": "ventana", "door": "puerta", "city": "ciudad"}
ADJECTIVES = {"red": "roja", "white": "blanca", "old": "vieja", "small": "pequeña", "black": "negra", "new": "nueva"}
PAIRS = [(f"the {a} {n}", f"la {m} {b}") for n, m in NOUNS.items() for a, b in ADJECTIVES.items()]
TAG = re.compile(r"<(/?)(\w+)>")


def small_run(folder: str) -> Run:
    """A model of two-word phrases: in Spanish, the adjective follows the noun."""
    sizes = {"width": 32, "heads": 2, "depth": 1, "hidden": 64, "steps": 40, "validate": 20, "threads": 1}
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return mirada.train("translate", PAIRS, out=f"{folder}/run", seed=0, lr=1e-2, warmup=5, **sizes)


def cross_layer(run: Run) -> str:
    """The last layer that looks at the source."""
    return [name for name, _ in run.model.named_modules() if name.endswith(".cross")][-1]


def tagged(run: Run, text: str) -> tuple[str, list[str]]:
    """A translation in which tags stand around what was written from their words, and the tags that had no word."""
    spans, opened, words = [], [], []
    for piece in TAG.sub(r" <\1\2> ", text).split():
        tag = TAG.fullmatch(piece)
        if tag is None:
            words.append(piece)
        elif not tag[1]:
            opened.append((tag[2], len(words)))
        else:
            spans.append((*opened.pop(), len(words)))
    layer = cross_layer(run)
    answer = run(" ".join(words), alignments=f"{layer}:links")
    links = [tuple(map(int, link.split("-"))) for link in answer.links[layer].split()]
    written, lost = answer.text.split(), []
    for name, first, last in spans:
        places = sorted({to for source, to in links if first <= source < last})
        if not places:
            lost.append(name)
            continue
        written[places[0]] = f"<{name}>{written[places[0]]}"
        written[places[-1]] = f"{written[places[-1]]}</{name}>"
    return " ".join(written), lost


@torch.inference_mode()
def simultaneous(run: Run, text: str, safe: int = 1) -> tuple[str, list[int]]:
    """A translation that is written while the text comes in, word by word; for every token, how many words had come.

    A token is written once its most attended place is not among the last `safe` places that were read.
    """
    layer, words, known = cross_layer(run), text.split(), run.known
    stepper = engine.watched(run.stepper, {layer: []})
    written: list[int] = []
    delays: list[int] = []
    for read in range(1, len(words) + 1):
        (source,) = run.task.sources(run, [" ".join(words[:read])], run.ask)
        most = min(run.model.config.length, 2 * len(source) + 10)
        state = stepper.start(stepper.encode(torch.tensor([source]), torch.tensor([len(source)])))
        for token in (known.first(sides_of(run.ask)), *written):
            scores, state = stepper.step(torch.tensor([token]), state)
        while len(written) < most:
            token = int(scores.argmax())
            place = int(stepper.watched_rows(state)[0][0].mean(0)[: len(source) - 1].argmax())
            if token in known.ends or (read < len(words) and place >= len(source) - 1 - safe):
                break
            written.append(token)
            delays.append(read)
            scores, state = stepper.step(torch.tensor([token]), state)
    return known.writes.decode(written), delays


def average_lagging(delays: Sequence[int], words: int) -> float:
    """How many words a translation is behind one that keeps the pace (Ma et al. 2019, arXiv:1810.08398).

    >>> average_lagging([4, 4, 4, 4], words=4), average_lagging([1, 2, 3, 4], words=4)
    (4.0, 1.0)
    """
    if not delays:
        return float(words)
    counted = delays[: delays.index(words) + 1] if words in delays else delays
    return mean(delay - t * words / len(delays) for t, delay in enumerate(counted))


def certainty(run: Run, answer: Answer) -> float:
    """Minus the mean entropy of the rows (of the mean of the heads), as a share of the largest one: 0 is certain."""
    rows = answer.alignments[cross_layer(run)][0]
    entropy = -(rows * rows.clamp_min(1e-9).log()).sum(-1)
    return -float(entropy.mean() / torch.tensor(float(max(2, rows.shape[-1]))).log())


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's: of the ranks, where equal numbers share theirs."""
    ranks = []
    for numbers in (one, other):
        values, index, counts = torch.tensor(numbers).unique(return_inverse=True, return_counts=True)
        ends = counts.cumsum(0).double()
        ranks.append((ends - (counts - 1) / 2)[index] if len(values) > 1 else torch.zeros(len(numbers)))
    return float(torch.corrcoef(torch.stack([rank.float() for rank in ranks]))[0, 1])


def measured(run: Run, pairs: Sequence[tuple[str, str]]) -> None:
    """How good simultaneous translation and the two estimates of quality are."""
    texts, wanted = zip(*pairs, strict=True)
    whole = run(list(texts), alignments=f"{cross_layer(run)}:mean")
    print(f"{len(texts)} sentences; whole ones: BLEU {bleu([each.text for each in whole], wanted):.1f}")
    for safe in (0, 1, 2, 4):
        done = [simultaneous(run, text, safe) for text in texts]
        lag = mean(average_lagging(delays, len(text.split())) for (_, delays), text in zip(done, texts, strict=True))
        print(f"  safe={safe}: {lag:.2f} words behind, BLEU {bleu([text for text, _ in done], wanted):.1f}")
    quality = [sentence_chrf(answer.text, right) for answer, right in zip(whole, wanted, strict=True)]
    print(f"  rank correlation with chrF: entropy {correlation([certainty(run, each) for each in whole], quality):.2f}, "
          f"log-probability {correlation([each.score for each in whole], quality):.2f}")  # fmt: skip


def main() -> None:
    """Print what each of them gives."""
    with tempfile.TemporaryDirectory() as folder:
        run = mirada.load(sys.argv[1]) if len(sys.argv) > 1 else small_run(folder)
        for text in ("the red <b>house</b>", "the <i>old</i> door"):
            print(text, "->", tagged(run, text)[0])
        for safe in (0, 2):
            print(f"safe={safe}:", *simultaneous(run, "the white window", safe))
        answer = run("the new city", alignments=f"{cross_layer(run)}:mean")
        print(f"certainty: {certainty(run, answer):.1f}")
        if len(sys.argv) > 1:
            records = run.task.read(run.source, run.options).test[:300]
            measured(run, [(record.value[0], record.value[1]) for record in records])


if __name__ == "__main__":
    main()

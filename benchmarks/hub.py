"""Models from outside, beside transformers and `cp`: `python benchmarks/hub.py PATH` prints ratios for the folder of an encoder.

Embedding sentences with the same batches: their model with sdpa, ours as a run of the task embed, each from texts that are cut
into tokens already to vectors, and each from texts. Importing the folder beside copying it with `cp`, both from the cache of
the system. The batches are sorted by length, as `mirada run` makes them. Needs transformers.
"""

import argparse
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from ratios import HEADER, race
from torch import Tensor

import mirada
from mirada.corpora.texts import embedded_texts
from mirada.data.batching import in_order
from mirada.data.text.framed import framed_texts
from mirada.runs.importing import import_folder
from mirada.runs.run import Run
from mirada.tasks.embed.task import READ_AT_ONCE, text_vectors


def sentences(count: int) -> list[str]:
    """Sentences of 3 to some 25 words: the embedded reviews, joined by one, two or three."""
    texts = [row[0] for row in embedded_texts("sentiment")["train"]]
    return [" ".join(texts[(number + more) % len(texts)] for more in range(1 + number % 3)) for number in range(count)]


class Theirs:
    """Their model with sdpa and the tokenizer of its folder."""

    def __init__(self, folder: Path, run: Run) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.run = run

    def batches(self, texts: Sequence[str]) -> list[tuple[list[int], dict[str, Tensor]]]:
        """Rows and their tokens, in the batches that ours has."""
        most = self.run.known.most or self.run.model.config.length
        ids = self.tokenizer(list(texts), truncation=True, max_length=most)["input_ids"]
        return [
            (rows, self.tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt"))
            for rows in in_order([(len(each),) for each in ids], READ_AT_ONCE)
        ]

    @torch.inference_mode()
    def vectors(self, batches: Sequence[tuple[list[int], dict[str, Tensor]]]) -> Tensor:
        """The mean of the tokens of every text, of length 1."""
        vectors = torch.empty(sum(len(rows) for rows, _ in batches), self.model.config.hidden_size)
        for rows, inputs in batches:
            real = inputs["attention_mask"].unsqueeze(-1)
            vectors[rows] = (self.model(**inputs).last_hidden_state * real).sum(1) / real.sum(1)
        return F.normalize(vectors, dim=-1)


def embedding(folder: Path, home: Path, count: int, rounds: int) -> None:
    """The two rows of embedding."""
    run, texts = mirada.import_model(folder, home / "run"), sentences(count)
    theirs, items = Theirs(folder, run), framed_texts(run.known.tokenizer, texts, run.known.most)
    batches = theirs.batches(texts)

    @torch.inference_mode()
    def ours() -> Tensor:
        return text_vectors(run, items)

    apart = float((F.normalize(ours(), dim=-1) - theirs.vectors(batches)).abs().max())
    tokens = sum(len(item.tokens) for item in items)
    name = f"{count:,} sentences, {tokens:,} tokens"
    print(
        race(lambda: theirs.vectors(batches), ours, rounds, 1).row(f"transformers, sdpa / mirada: {name}"), flush=True
    )
    whole = race(lambda: theirs.vectors(theirs.batches(texts)), lambda: run.answers(texts), rounds, 1)
    print(whole.row("the same, from texts"))
    print(f"\nlargest difference of a number in two vectors: {apart:.1e}\n")


def importing(folder: Path, home: Path, rounds: int) -> None:
    """The row of importing."""

    def ours() -> None:
        shutil.rmtree(home / "imported", ignore_errors=True)
        import_folder(folder, home / "imported")

    def copied() -> None:
        shutil.rmtree(home / "copied", ignore_errors=True)
        subprocess.run(["cp", "-r", str(folder), str(home / "copied")], check=True)

    print(race(ours, copied, rounds, 1).row("mirada import / cp -r"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"{platform.processor() or platform.machine()}, {given.threads} threads, torch {torch.__version__}\n")
    print(HEADER)
    with tempfile.TemporaryDirectory() as home:
        importing(given.folder, Path(home), given.rounds)
        embedding(given.folder, Path(home), given.sentences, given.rounds)


if __name__ == "__main__":
    main()

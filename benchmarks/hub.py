"""Models from outside, beside Hugging Face transformers and `cp`: `python benchmarks/hub.py embedding PATH`, or `importing`, or
`tuning`.

`embedding`: sentences to vectors by the encoder of a folder, the same batches, theirs with sdpa; from tokens, and from texts; and
importing that folder beside copying it with `cp`.
`importing`: importing a Llama of 1 GB, made up here, beside copying it with `cp`: both from the cache of the system, and neither
waits for the disk. A process that is there is measured: its start and `import torch` do not count. Then the most memory that
importing and loading take, each in a process of its own, above what that had before: weights are mapped, so that most of it is
the file itself, which the system can drop.
`tuning`: a step of fine-tuning a BERT of MiniLM's size with a new head, the same batches, weights and optimizer.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from ratios import HEADER, race
from torch import Tensor, nn

import mirada
from mirada.corpora.texts import embedded_texts
from mirada.data.batching import in_order
from mirada.data.text.framed import framed_texts
from mirada.hub.families import family
from mirada.hub.mapping import exported
from mirada.layers.weights import Stored, without_weights, write_tensors
from mirada.models.encoder import TextEncoder
from mirada.runs.importing import import_folder
from mirada.runs.run import Run
from mirada.tasks.embed.task import READ_AT_ONCE, text_vectors
from mirada.training.optimizer import adam, clip
from mirada.training.recipe import Tuning
from mirada.training.tuning import attach

SIZES = {
    "vocab_size": 30_522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "max_position_embeddings": 512, "num_labels": 2,
}  # fmt: skip
ROUNDS = 12


def batch(texts: int, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of texts of similar lengths, as a bucketed batch has them, their lengths and classes."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(longest - longest // 8, longest + 1, (texts,), generator=draw)
    lengths[0] = longest
    tokens = torch.randint(1000, 30_000, (texts, longest), generator=draw)
    return tokens.masked_fill(torch.arange(longest) >= lengths[:, None], 0), lengths, torch.arange(texts) % 2


def theirs() -> nn.Module:
    """Their model of this size, with random weights."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**SIZES)).train()


def ours(model: nn.Module) -> TextEncoder:
    """Our model with the weights of theirs."""
    described = model.config.to_dict() | {"architectures": [type(model).__name__]}
    return family(described).load(described, model.state_dict()).train()  # type: ignore[no-any-return,attr-defined]


def stepper(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], float]:
    """One update: forward, backward, clip, Adam."""
    optimizer = adam(model, 2e-5, 0.01)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        clip(parameters, 1.0)
        optimizer.step()
        return value.item()

    return step


def tuning() -> None:
    """Steps of fine-tuning, theirs over ours: above 1, ours are faster."""
    print(HEADER)
    for texts, longest in ((32, 32), (16, 128)):
        tokens, lengths, classes = batch(texts, longest)
        real = (torch.arange(longest) < lengths[:, None]).long()
        for word in ("all", "head"):
            peer = theirs()
            model = ours(peer)
            attach(model, Tuning.parse(word))
            model.train()
            if word == "head":
                peer.base_model.requires_grad_(False)
                peer.base_model.pooler.requires_grad_(True)
            own = stepper(model, lambda model=model, t=tokens, n=lengths, c=classes: model.loss(t, c, n))
            base = stepper(
                peer, lambda p=peer, t=tokens, m=real, c=classes: p(input_ids=t, attention_mask=m, labels=c).loss
            )
            print(race(base, own, ROUNDS).row(f"{texts} texts of {longest}, tune={word}"))


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


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32_000, "hidden_size": 1280,
    "intermediate_size": 3456, "num_hidden_layers": 10, "num_attention_heads": 20, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
MEASURED = """
import sys
from pathlib import Path
import mirada.runs.load
from mirada.runs.importing import import_folder
source, out = map(Path, sys.argv[1:])
def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on
before = kilobytes("VmRSS")
{}
print(kilobytes("VmHWM") - before, kilobytes("RssAnon"))
"""
WORK = {"import": "import_folder(source, out)", "load": "run = mirada.runs.load.load(out)"}


def made_up(folder: Path) -> Path:
    """A folder with a Llama of random weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    found = family(LLAMA).checkpoint(LLAMA, ())
    with without_weights():
        model = found.model(found.config)
    tensors = (Stored(each.name, torch.float32, each.shape, partial(torch.randn, each.shape))
               for each in exported(model, found.table))  # fmt: skip
    write_tensors(folder / "model.safetensors", list(tensors))
    return folder


def memory(folder: Path, home: Path) -> None:
    """The most memory of importing and of loading, over the weights (Linux)."""
    weights, out = sum(path.stat().st_size for path in folder.glob("*.safetensors")), home / "measured"
    for word, work in WORK.items():
        told = subprocess.run(
            [sys.executable, "-c", MEASURED.format(work), str(folder), str(out)], check=True, capture_output=True, text=True
        )  # fmt: skip
        peak, own = (1024 * int(number) for number in told.stdout.split())
        print(f"{word}: at most {peak / weights:.2f} x the weights more; {own / 1e6:.0f} MB of the process are its own")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["embedding", "importing", "tuning"])
    parser.add_argument(
        "folder", type=Path, nargs="?", help="of the encoder, for embedding; of any checkpoint, for importing"
    )
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"{platform.processor() or platform.machine()}, {given.threads} threads, torch {torch.__version__}\n")
    if given.what == "tuning":
        tuning()
        return
    print(HEADER)
    with tempfile.TemporaryDirectory() as home:
        if given.what == "importing":
            folder = given.folder or made_up(Path(home, "llama"))
            importing(folder, Path(home), given.rounds)
            memory(folder, Path(home))
            return
        importing(given.folder, Path(home), given.rounds)
        embedding(given.folder, Path(home), given.sentences, given.rounds)


if __name__ == "__main__":
    main()

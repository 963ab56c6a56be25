"""What a redesign must not change: losses, answers and metrics, to the bit, with and without the compiled code.

    python benchmarks/proof.py record before.json     # with the code as it was
    python benchmarks/proof.py record after.json      # with the code as it is
    python benchmarks/proof.py compare before.json after.json

Both records must come from one machine: another processor rounds otherwise. Everything goes through the commands a user
has, and through `model.loss` for the models that no task uses, so that the same script runs before and after. One thread, a
fixed seed and a fixed number of steps: nothing comes from the clock.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

STEPS = 50
WAYS = {"compiled": "1", "plain": "0"}  # the values of MIRADA_NATIVE
SENTENCES = ["the red house", "I am writing a letter to her.", "the first letter of the word"]
ASKED: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "translate": (SENTENCES, {"greedy": [], "beam": ["--beam", "4"], "best": ["--beam", "3", "--best", "3"]}),
    "classify": (["not a good film", "the plot is dull but the actors are great"], {"best": ["--best", "2"]}),
    "write": (
        ["The list"],
        {
            "greedy": ["--temperature", "0", "--tokens", "150"],
            "drawn": ["--tokens", "100", "--seed", "3"],
            "beam": ["--beam", "3", "--tokens", "40"],
        },
    ),
    "fill": (["Ana va al cine a ver una nueva ___.", "Ana lee.\tLuis duerme."], {"best": ["--best", "5"]}),
}
MODELS = {
    "translate": ("transformer", "bahdanau", "luong", "luong-local-m", "luong-local-p", "rnn"),
    "classify": ("transformer", "lstm-attention", "conv-attention"),
    "write": ("gpt",),
    "fill": ("bert",),
}


def mirada(way: str, *arguments: str) -> str:
    """What a command prints."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MIRADA_NATIVE": WAYS[way]}
    command = [sys.executable, "-m", "mirada", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def of_task(way: str, task: str, model: str) -> dict[str, Any]:
    """The losses of a short training, what the run answers, and how it is measured."""
    inputs, asked = ASKED[task]
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        mirada(way, "train", task, "--model", model, "--out", out, "--seed", "1", f"steps={STEPS}", "validate=25")
        lines = [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]
        answers = {
            name: [json.loads(line) for line in mirada(way, "run", out, *inputs, "--json", *options).splitlines()]
            for name, options in asked.items()
        }
        return {
            "losses": [line["loss"].hex() for line in lines if "lr" in line],
            "valid": [line["valid"]["loss"].hex() for line in lines if "valid" in line],
            "answers": answers,
            "metrics": json.loads(mirada(way, "eval", out, "--json").splitlines()[-1]),
            "weights": hashlib.sha256((Path(out) / "model.safetensors").read_bytes()).hexdigest(),
        }


def of_models() -> dict[str, list[str]]:
    """The losses of models on random data, step by step; run in a process of its own, which knows its way."""
    import torch

    from mirada.models.captioner import Captioner
    from mirada.models.forecaster import Forecaster
    from mirada.models.gat import GAT
    from mirada.models.reader import Reader
    from mirada.models.transcriber import Transcriber
    from mirada.models.vit import ViT

    def words(vocab: int, *shape: int) -> torch.Tensor:
        return torch.randint(vocab, shape)

    def captions(config: Any) -> tuple[Any, ...]:
        pictures = torch.randn(4, config.channels, 4 * config.patch, 4 * config.patch)
        return pictures, words(config.vocab, 4, 6), words(config.vocab, 4, 6)

    def reading(config: Any) -> tuple[Any, ...]:
        segments = torch.tensor([[0] * 4 + [1] * 5] * 4)
        return words(config.vocab, 4, 9), segments, torch.tensor([4, 5, 6, 7]), torch.tensor([5, 6, 7, 8])

    def series(config: Any) -> tuple[Any, ...]:
        first, wanted = torch.randn(4, config.targets), torch.randn(4, config.horizon, config.targets)
        return torch.randn(4, config.length, config.features), first, wanted

    def sound(config: Any) -> tuple[Any, ...]:
        lengths = torch.tensor([40, 33, 21])
        return torch.randn(3, 40, config.mels), lengths, words(config.vocab, 3, 6), words(config.vocab, 3, 6)

    def graph(config: Any) -> tuple[Any, ...]:
        return torch.randn(20, config.features), words(20, 2, 60), words(config.classes, 20)

    def pictures(config: Any) -> tuple[Any, ...]:
        return torch.randn(4, config.channels, config.size, config.size), words(config.classes, 4)

    tiny = {kind: kind.Config.tiny() for kind in (Captioner, Forecaster, GAT, Reader, Transcriber, ViT)}
    cases = {
        "captioner soft": (Captioner, tiny[Captioner], captions),
        "captioner hard": (Captioner, replace(tiny[Captioner], gaze="hard:0.5"), captions),
        "captioner transformer": (Captioner, replace(tiny[Captioner], decoder="transformer"), captions),
        "reader": (Reader, tiny[Reader], reading),
        "forecaster encoder-decoder": (Forecaster, tiny[Forecaster], series),
        "forecaster lstm": (Forecaster, replace(tiny[Forecaster], kind="lstm"), series),
        "transcriber": (Transcriber, tiny[Transcriber], sound),
        "transcriber luong": (Transcriber, replace(tiny[Transcriber], kind="luong"), sound),
        "gat": (GAT, tiny[GAT], graph),
        "gatv2": (GAT, replace(tiny[GAT], score="graphv2"), graph),
        "vit": (ViT, tiny[ViT], pictures),
    }
    torch.set_num_threads(1)
    found = {}
    for name, (kind, config, draw) in cases.items():
        torch.manual_seed(1)
        model = kind(config).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        losses = []
        for _ in range(STEPS):
            loss = model.loss(*draw(config))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
        found[name] = losses
    return found


def record() -> dict[str, Any]:
    """All of it, both ways."""
    found: dict[str, Any] = {}
    for way, value in WAYS.items():
        for task, models in MODELS.items():
            for model in models:
                print(f"{way}: {task} with {model}", file=sys.stderr)
                found[f"{way} {task} {model}"] = of_task(way, task, model)
        environment = os.environ | {"MIRADA_NATIVE": value, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, __file__, "models"], capture_output=True, env=environment, check=True)
        found[f"{way} models"] = json.loads(done.stdout)
    return found


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """The places at which two records differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        return [
            line for name in names for line in differences(before.get(name), after.get(name), f"{place}/{name}")
        ]  # fmt: skip
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for number, (b, a) in pairs for line in differences(b, a, f"{place}[{number}]")]
    return [] if before == after else [f"{place}: {before} became {after}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare", "models"])
    parser.add_argument("files", nargs="*")
    given = parser.parse_args()
    if given.action == "models":
        print(json.dumps(of_models()))
    elif given.action == "record":
        Path(given.files[0]).write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        found = differences(*(json.loads(Path(name).read_text(encoding="utf-8")) for name in given.files))
        print("\n".join(found) or "the two records agree")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

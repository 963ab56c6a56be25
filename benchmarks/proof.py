"""What a redesign must not change: losses, answers and metrics, to the bit, with and without the compiled code.

    python benchmarks/proof.py record before.json     # with the code as it was
    python benchmarks/proof.py record after.json      # with the code as it is
    python benchmarks/proof.py record some.json forecast "plain label gat"    # only the names that hold one of these words
    python benchmarks/proof.py compare before.json after.json

Both records must come from one machine: another processor rounds otherwise. Everything goes through the commands a user
has, and through `model.loss` for the models on random data, so that the same script runs before and after. The files that
some tasks learn from are drawn here, and not by mirada. One thread, a fixed seed and a fixed number of steps: nothing comes
from the clock.
"""

import argparse
import csv
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

STEPS = 50
WAYS = {"compiled": "1", "plain": "0"}  # the values of MIRADA_NATIVE
LONGEST = 24  # entries of a list that are kept one by one; of a longer one, its hash
SENTENCES = ("the red house", "I am writing a letter to her.", "the first letter of the word")


@dataclass(frozen=True)
class Case:
    """A short training of every model of a task, and what is asked of it. Without `data`, the builtin data is learned."""

    models: tuple[str, ...]
    inputs: tuple[str, ...]
    asked: dict[str, tuple[str, ...]]  # options of `mirada run`, by a name
    data: str = ""
    keys: tuple[str, ...] = ()
    measured: bool = True  # the first model also with `mirada eval`; every one by what its training found
    ways: tuple[str, ...] = tuple(WAYS)


# the inputs and files are those of `draw_files`
PICTURES, SOUNDS = ("pictures/disc/0.png", "pictures/bar/4.png"), ("sounds/3.wav", "sounds/8.wav")
SMALL = ("width=32", "hidden=64", "heads=2", "depth=2")
BRIEFLY = (f"steps={STEPS // 5}", f"validate={STEPS // 5}")
TASKS: dict[str, Case] = {
    "translate": Case(
        ("transformer",),
        SENTENCES,
        {"greedy": (), "beam": ("--beam", "4"), "best": ("--beam", "3", "--best", "3")},
    ),
    "translate others": Case(
        ("bahdanau", "luong", "luong-local-m", "luong-local-p", "rnn"),
        SENTENCES,
        {"best": ("--beam", "3", "--best", "3")},
        keys=("steps=30", "validate=15"),
        measured=False,
    ),
    "classify": Case(
        ("transformer", "lstm-attention", "conv-attention"),
        ("not a good film", "the plot is dull but the actors are great"),
        {"best": ("--best", "2")},
    ),
    "recognize": Case(("vit", "conv-attention"), PICTURES, {"best": ("--best", "3")}, "pictures", (*SMALL, "size=16")),
    "caption": Case(
        ("soft", "hard", "transformer"),
        ("scenes/1.png", "scenes/4.png"),
        {"best": ("--beam", "3", "--best", "2")},
        "scenes",
        (*SMALL, "size=16"),
    ),
    "transcribe": Case(
        ("transformer", "luong"),
        SOUNDS,
        {"best": ("--beam", "3", "--best", "2")},
        "sounds",
        (*SMALL, "batch_tokens=512"),
    ),
    "forecast": Case(
        ("transformer", "lstm-attention"),
        ("latest.csv",),
        {"rows": ()},
        "waves.csv",
        (*SMALL, "target=A,B", "lookback=24", "horizon=6", "split=0.7,0.15,0.15", "warmup=10", "lr=5e-3", "dropout=0"),
    ),
    "answer": Case(
        ("reader",),
        ("Who has the key?", "Who has the ring?"),
        {"best": ("--best", "3", "--passage", "passage.txt")},
        "questions.jsonl",
        (*SMALL, "length=64"),
    ),
    "write": Case(
        ("gpt",),
        ("The list",),
        {
            "greedy": ("--temperature", "0", "--tokens", "150"),
            "drawn": ("--tokens", "100", "--seed", "3"),
            "beam": ("--beam", "3", "--tokens", "40"),
        },
    ),
    "fill": Case(
        ("bert",), ("Ana va al cine a ver una nueva ___.", "Ana lee.\tLuis duerme."), {"best": ("--best", "5")}
    ),
    "label": Case(("gat", "gatv2"), ("n3", "n8"), {"best": ("--best", "3")}, "graph"),
    # the builtin data of those that learned from files above
    "recognize builtin": Case(
        ("vit",), ("builtin test:7",), {"best": ("--best", "3")}, keys=BRIEFLY, measured=False, ways=("compiled",)
    ),
    "caption builtin": Case(
        ("soft",), ("scenes/1.png",), {"beam": ("--beam", "2")}, keys=BRIEFLY, measured=False, ways=("compiled",)
    ),
    "transcribe builtin": Case(
        ("transformer",), ("morse:sos",), {"beam": ("--beam", "2")}, keys=BRIEFLY, measured=False, ways=("compiled",)
    ),
    "forecast builtin": Case(
        ("transformer",), ("run/latest.csv",), {"rows": ()}, keys=BRIEFLY, measured=False, ways=("compiled",)
    ),
    "answer builtin": Case(
        ("reader",),
        ("Who has the ring?",),
        {"best": ("--best", "3", "--passage", "passage.txt")},
        keys=BRIEFLY,
        measured=False,
        ways=("compiled",),
    ),
    "label builtin": Case(
        ("gat",), ("p7",), {"best": ("--best", "3")}, keys=BRIEFLY, measured=False, ways=("compiled",)
    ),
}


def mirada(way: str, folder: Path, *arguments: str) -> str:
    """What a command prints in a folder, whose name is left out of it."""
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "MIRADA_NATIVE": WAYS[way],
        "PYTHONPATH": os.pathsep.join(paths),
    }
    command = [sys.executable, "-m", "mirada", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout.replace(str(folder), ".")


def of_task(way: str, task: str, model: str, case: Case) -> dict[str, Any]:
    """The losses of a short training, what the run answers, and how it is measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        draw_files(folder)
        keys = {key.partition("=")[0]: key for key in (f"steps={STEPS}", f"validate={STEPS // 2}", *case.keys)}
        data = ("--data", case.data) if case.data else ()
        mirada(way, folder, "train", task, "--model", model, "--out", "run", "--seed", "1", *data, *keys.values())
        lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
        answers = {
            name: [json.loads(line) for line in mirada(way, folder, "run", "run", *case.inputs, "--json", *options).splitlines()]
            for name, options in case.asked.items()
        }  # fmt: skip
        metrics: dict[str, Any] = {}
        if case.measured and model == case.models[0]:
            metrics = json.loads(mirada(way, folder, "eval", "run", "--json").splitlines()[-1])
            metrics.pop("verdict", None)  # a sentence about the numbers, which may be said better
        return {
            "losses": [line["loss"].hex() for line in lines if "lr" in line],
            "valid": [line["valid"]["loss"].hex() for line in lines if "valid" in line],
            "measured": next(line[key] for line in reversed(lines) for key in ("test", "valid_metrics") if key in line),
            "answers": shortened(answers),
            "metrics": shortened(metrics),
            "fingerprint": json.loads((folder / "run" / "config.json").read_text())["fingerprint"],
            "weights": hashlib.sha256((folder / "run" / "model.safetensors").read_bytes()).hexdigest(),
        }


def shortened(value: Any) -> Any:
    """The same, with a hash in the place of every long list."""
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, list) and len(value) <= LONGEST:
        return [shortened(each) for each in value]
    if isinstance(value, list):
        digest = hashlib.sha256(json.dumps(value).encode()).hexdigest()
        return f"{len(value)} entries, {digest[:16]}"
    return value


def draw_files(folder: Path) -> None:
    """All that the tasks learn from and are asked about, a second or less, the same bytes every time."""
    draw_pictures(folder)
    draw_sounds(folder / "sounds")
    draw_series(folder)
    draw_questions(folder)
    draw_graph(folder / "graph")


def picture(dice: random.Random, color: tuple[int, int, int], inside: Callable[[int, int], bool]) -> Image.Image:
    """16 x 16 pixels with some noise, and a shape of a color."""
    image = Image.new("RGB", (16, 16))
    for x in range(16):
        for y in range(16):
            grey = 200 + dice.randrange(40)
            image.putpixel((x, y), color if inside(x, y) else (grey, grey, grey))
    return image


def draw_pictures(folder: Path) -> None:
    """A folder for each of three shapes, and pictures of a colored box with captions."""
    dice = random.Random(1)
    shapes: dict[str, Callable[[int, int], bool]] = {
        "bar": lambda x, y: abs(x) < 6 and abs(y) < 2,
        "disc": lambda x, y: x * x + y * y < 17,
        "pole": lambda x, y: abs(x) < 2 and abs(y) < 6,
    }
    for name, shape in shapes.items():
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(20):
            left, top, color = (
                dice.randrange(6, 10),
                dice.randrange(6, 10),
                tuple(dice.randrange(160) for _ in range(3)),
            )
            drawn = picture(dice, color, lambda x, y, s=shape, a=left, b=top: s(x - a, y - b))  # type: ignore[misc,arg-type]
            drawn.save(folder / "pictures" / name / f"{number}.png")
    (folder / "scenes").mkdir()
    colors, rows = {"red": (210, 20, 20), "green": (20, 160, 20), "blue": (20, 20, 210)}, []
    for number in range(60):
        name, side = list(colors)[number % 3], ("left", "right")[number // 3 % 2]
        left, top = dice.randrange(3) + 9 * (side == "right"), dice.randrange(10)
        drawn = picture(dice, colors[name], lambda x, y, a=left, b=top: 0 <= x - a < 5 and 0 <= y - b < 5)  # type: ignore[misc]
        drawn.save(folder / "scenes" / f"{number}.png")
        for text in (f"A {name} box on the {side}.", f"a {name} box, {side}"):
            box = [left, top, left + 5, top + 5]
            rows.append({"name": f"{number}.png", "caption": text, "boxes": {name: box, "box": box}})
    (folder / "scenes" / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def draw_sounds(folder: Path) -> None:
    """A tone for every letter of a word, with gaps and some noise."""
    dice, rate, words = random.Random(2), 8000, [a + b for a in "abc" for b in ("", "a", "b", "c")]
    folder.mkdir()
    lines = []
    for number in range(60):
        word = words[number % len(words)]
        sound = [0.0] * 320
        for letter in word:
            hertz = {"a": 500, "b": 1000, "c": 2000}[letter]
            sound += [math.sin(2 * math.pi * hertz * n / rate) / 2 for n in range(960)] + [0.0] * 320
        samples = [round(32767 * (value + dice.uniform(-0.02, 0.02))) for value in sound]
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, rate, len(samples), "NONE", ""))
            file.writeframes(b"".join(value.to_bytes(2, "little", signed=True) for value in samples))
        lines.append(f"{number}.wav\t{word}\n")
    (folder / "transcripts.tsv").write_text("".join(lines))


def write_table(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    """A CSV file."""
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def draw_series(folder: Path) -> None:
    """A wave in noise, and the squares of that noise some hours later, which a linear model cannot know."""
    dice, rows = random.Random(3), []
    noise = [dice.uniform(-2, 2) for _ in range(240)]
    for n in range(240):
        day, hour = divmod(n, 24)
        a, b = 50 + 9 * math.sin(n / 5) + noise[n], 7 + noise[n - 8] ** 2
        rows.append([f"2024-03-{day + 1:02} {hour:02}:00", round(a, 3), round(b, 3)])
    write_table(folder / "waves.csv", [("time", "A", "B"), *rows[:200]])
    write_table(folder / "latest.csv", [("time", "A", "B"), *rows[200:]])


def draw_questions(folder: Path) -> None:
    """Who took what, with passages that say it or do not."""
    names, things = ("Ana", "Luis", "Eva", "Juan"), ("key", "book", "lamp", "hat", "ring")
    rows = []
    for number in range(160):
        one, other = names[number % 4], names[(number + 1 + number // 4 % 3) % 4]
        first, second, third = (things[(number // 4 + step) % 5] for step in (0, 1 + number // 20 % 3, 4))
        passage = f"Today {one} took the {first}. It rained. Then {other} took the {second}."
        who, thing = ((one, first), (other, second), (None, third))[number % 3 if number % 5 else 0]
        start = None if who is None else passage.index(who)
        rows.append({"question": f"Who has the {thing}?", "context": passage, "answer": who, "start": start})
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "passage.txt").write_text("Today Luis took the key. It rained. Then Ana took the hat.\n")


def draw_graph(folder: Path) -> None:
    """Three clubs whose members know one another, as tables."""
    dice, count = random.Random(4), 60
    close = [
        (a, b) for a in range(count) for b in range(a) if dice.random() < (0.2 if a % 3 == b % 3 else 0.02)
    ]  # fmt: skip
    worn = [[int(dice.random() < (0.6 if column == n % 3 else 0.3)) for column in range(5)] for n in range(count)]
    parts = ("train", "valid", "test")
    write_table(folder / "edges.csv", [("source", "target"), *((f"n{a}", f"n{b}") for a, b in close)])
    write_table(
        folder / "features.csv",
        [("node", "hat", "scarf", "coat", "boots", "gloves"), *((f"n{n}", *row) for n, row in enumerate(worn))],
    )
    write_table(
        folder / "labels.csv",
        [
            ("node", "label", "split"),
            *((f"n{n}", ("red", "blue", "green")[n % 3], parts[n // 3 % 3]) for n in range(count)),
        ],
    )


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


def record(wanted: Sequence[str] = ()) -> dict[str, Any]:
    """All of it, or what has one of the wanted words in its name."""
    found: dict[str, Any] = {}
    for way, value in WAYS.items():
        for name, case in TASKS.items():
            task, _, data = name.partition(" ")
            for model in case.models:
                label = f"{way} {task} {model}" + (" builtin" if data == "builtin" else "")
                if way in case.ways and (not wanted or any(word in label for word in wanted)):
                    began = time.monotonic()
                    found[label] = of_task(way, task, model, case)
                    print(f"{label}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        if not wanted or any(word in f"{way} models" for word in wanted):
            environment = os.environ | {"MIRADA_NATIVE": value, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [sys.executable, __file__, "models"], capture_output=True, env=environment, check=True
            )
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
        Path(given.files[0]).write_text(
            json.dumps(record(given.files[1:]), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    else:
        found = differences(*(json.loads(Path(name).read_text(encoding="utf-8")) for name in given.files))
        print("\n".join(found) or "the two records agree")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

"""recognize beside what a colleague does in a few lines: a small CNN in the same minutes, and scikit-learn's classics.

Run by `python benchmarks/quick.py digits fashion letters mnist`. Each row trains `mirada train recognize --minutes M` with its
defaults, and the alternatives on the same pictures; all are measured on the same test part, which nothing was tuned on.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray]  # pictures of bytes, and the numbers of their classes
FASHION = Path("/usr/share/datasets/fashion-mnist")
MNIST = Path(os.environ.get("MIRADA_DATA", Path(__file__).parents[3] / "shared" / "data")) / "mnist"
FONTS = Path("/usr/share/fonts")
SYMBOLS = (  # parts of the names of fonts without plain letters
    "symbol", "dingbat", "d050000l", "cmsy", "cmex", "cmmi", "lastresort", "stixsiz", "nonuni", "display", "biolinum_k",
)  # fmt: skip
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PER_FACE = 2  # pictures of a character in a face
ROWS: dict[str, Callable[[], None]] = {}


# the colleague's convolutions


def small_cnn(train: Arrays, test: Arrays, minutes: float) -> float:
    """The accuracy of three blocks of convolution, norm, relu and pool, and a linear layer, after so many minutes."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    began = time.monotonic()
    x, wanted = _tensor(train[0]), torch.from_numpy(train[1]).long()
    layers: list[nn.Module] = []
    for inputs, outputs in ((x.shape[1], 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    side = x.shape[2] // 8
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * side * side, int(wanted.max()) + 1))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    while (share := (time.monotonic() - began) / (60 * minutes)) < 1:
        rows = torch.randint(len(x), (128,))
        optimizer.param_groups[0]["lr"] = 2e-3 * (1 - share)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), wanted[rows]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        answers = torch.cat([model(part).argmax(1) for part in _tensor(test[0]).split(500)])
    return 100 * float((answers.numpy() == test[1]).mean())


def _tensor(pictures: np.ndarray):  # type: ignore[no-untyped-def]
    """Bytes as numbers from -1 to 1, channels first."""
    import torch

    x = torch.tensor(pictures).float() / 127.5 - 1
    return x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2).contiguous()


# one row


def compare(name: str, train: Arrays, test: Arrays, minutes: float, with_svc: bool = False) -> None:
    """Print mirada's accuracy on the test part, and that of each alternative, with the seconds that each took."""
    minutes *= float(os.environ.get("QUICK_SHARE", 1))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for part, (pictures, labels) in (("train", train), ("test", test)):
            np.savez(home / f"{part}.npz", images=pictures, labels=labels)
        words = [sys.executable, "-m", "mirada"]
        began = time.monotonic()
        trained = ["train", "recognize", "--data", home / "train.npz", "--out", home / "run", "--minutes", str(minutes)]
        done = subprocess.run([*words, *trained], capture_output=True, text=True, check=True)
        seconds = time.monotonic() - began
        for line in (*done.stderr.splitlines(), *done.stdout.splitlines()):
            if line.startswith(("chosen for", "A plain baseline")) or " within " in line:
                print(f"    {line}")
        asked = ["eval", home / "run", "--data", home / "test.npz", "--json"]
        answer = subprocess.run([*words, *asked], capture_output=True, text=True, check=True).stdout
        found = json.loads(answer.splitlines()[-1])
        report(name, "mirada", found["accuracy"], seconds)
        for key in sorted(found):
            if key.startswith("accuracy_") and key != "accuracy_majority":
                print(f"    its own baseline, {key.removeprefix('accuracy_')}: {found[key]:.1f}")
    began = time.monotonic()
    report(name, "small CNN", small_cnn(train, test, minutes), time.monotonic() - began)
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.svm import SVC
    except ImportError:
        print("    scikit-learn is not installed: no random forest, no SVC")
        return
    plain = {"random forest": RandomForestClassifier(100, random_state=0)} | ({"SVC": SVC()} if with_svc else {})
    for word, model in plain.items():
        began = time.monotonic()
        model.fit(train[0].reshape(len(train[0]), -1), train[1])
        right = (model.predict(test[0].reshape(len(test[0]), -1)) == test[1]).mean()
        report(name, word, 100 * float(right), time.monotonic() - began)


def report(name: str, who: str, accuracy: float, seconds: float) -> None:
    """Print one figure."""
    print(f"{name:10} {who:14} {accuracy:6.2f} %  {seconds:6.1f} s", flush=True)


# the data sets


def digits() -> None:
    """scikit-learn's digits: 1,797 gray pictures of 8 x 8, every fourth for the test; 1.5 minutes."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        print("digits: scikit-learn is not installed")
        return
    data = load_digits()
    pictures = np.rint(data.images * (255 / 16)).astype(np.uint8)
    held = np.arange(len(pictures)) % 4 == 3
    compare("digits", (pictures[~held], data.target[~held]), (pictures[held], data.target[held]), 1.5, with_svc=True)


def fashion() -> None:
    """Fashion-MNIST, 60,000 gray pictures of 28 x 28; 5 minutes."""
    _idx_row("fashion", FASHION, 5.0)


def mnist() -> None:
    """MNIST, 60,000 gray pictures of 28 x 28; 10 minutes."""
    _idx_row("mnist", MNIST, 10.0)


def _idx_row(name: str, folder: Path, minutes: float) -> None:
    """Compare on the four files of MNIST's form in a folder."""
    from mirada.tasks.recognize.pictures import read_idx

    if not folder.is_dir():
        print(f"{name}: there is no {folder}")
        return
    sets = []
    for part in ("train", "t10k"):
        images, labels = (read_idx(folder / f"{part}-{what}.gz") for what in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        sets.append((images, labels.astype(np.int64)))
    compare(name, sets[0], sets[1], minutes)


def letters() -> None:
    """Letters and digits in fonts that were not trained with: 62 classes, 28 x 28, noise, some inverted; 2 minutes."""
    train, test = drawn_letters(held_out=False), drawn_letters(held_out=True)
    if not len(train[0]) or not len(test[0]):
        print("letters: there are no fonts (matplotlib's, or Debian's fonts-* packages)")
        return
    print(f"letters: {len(train[0]):,} pictures to learn from, {len(test[0]):,} in other fonts")
    compare("letters", train, test, 2.0)


def drawn_letters(held_out: bool, seed: int = 0) -> Arrays:
    """Every character in every face of the fonts of this machine: those of one family in five are held out."""
    from PIL import ImageFont

    families: dict[str, list[Path]] = {}
    for path in _font_files():
        try:
            family = ImageFont.truetype(str(path), 20).getname()[0] or path.stem
        except OSError:
            continue
        families.setdefault(family, []).append(path)
    pictures, labels = [], []
    random = np.random.default_rng([seed, held_out])
    for number, family in enumerate(sorted(families)):
        for path in families[family] if (number % 5 == 4) == held_out else ():
            for label, character in enumerate(CHARACTERS):
                for _ in range(PER_FACE):
                    pictures.append(_drawn(character, path, random))
                    labels.append(label)
    return np.array(pictures, np.uint8), np.array(labels, np.int64)


def _font_files() -> list[Path]:
    """The fonts of matplotlib and of Debian that have Latin letters, each once."""
    folders = [FONTS]
    try:
        import matplotlib

        folders.append(Path(matplotlib.get_data_path()) / "fonts" / "ttf")
    except ImportError:
        pass
    files = {path.name: path for folder in folders for path in folder.rglob("*") if path.suffix in (".ttf", ".otf")}
    return [files[name] for name in sorted(files) if not any(word in name.lower() for word in SYMBOLS)]


def _drawn(character: str, path: Path, random: np.random.Generator) -> np.ndarray:
    """A character of a face, at a random size, place and angle, with noise; one in four is light on dark."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (28, 28), 0)
    font = ImageFont.truetype(str(path), int(random.integers(16, 24)))
    where = tuple(14 + random.integers(-2, 3, 2))
    ImageDraw.Draw(image).text(where, character, 255, font, anchor="mm")
    turned = np.asarray(image.rotate(float(random.uniform(-12, 12)), Image.Resampling.BILINEAR), np.float64)
    ink, paper = (40, 215) if random.random() < 0.75 else (215, 40)
    gray = paper + (ink - paper) * turned / 255 + random.normal(0, 20, (28, 28))
    return np.clip(np.rint(gray), 0, 255).astype(np.uint8)


ROWS |= {"digits": digits, "fashion": fashion, "letters": letters, "mnist": mnist}

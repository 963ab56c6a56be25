"""A run of every model of every task, trained for a moment, and an input for each: what can be looked at."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mirada.runs.run import Run
from tests.data.graph_files import clubs, folder
from tests.runs.small import QUICK, pairs, questions, reviews, stories, text, trained, write_questions, write_rows
from tests.tasks.caption import test_task as test_caption
from tests.tasks.estimate import test_task as test_estimate
from tests.tasks.forecast import test_task as test_forecast
from tests.tasks.label import test_task as test_label
from tests.tasks.recognize import test_task as test_recognize
from tests.tasks.tag import test_task as test_tag
from tests.tasks.transcribe import test_task as test_transcribe

BARE = tuple(key for key in QUICK if not key.startswith(("heads", "hidden", "depth")))  # for models without blocks
STEPS = ("steps=2", "validate=2")


class LookedAt(NamedTuple):
    """A model of a task, further settings, and how its data and an input are made in a folder."""

    task: str
    model: str
    keys: tuple[str, ...]
    data: Callable[[Path], str]
    given: Callable[[Path], Any]

    @property
    def name(self) -> str:
        return "-".join((self.task, self.model, *(key for key in self.keys if key not in WELL_KNOWN))).replace("=", "_")

    def run(self, home: Path) -> Run:
        """The trained run."""
        kept = [key for key in self.keys if not key.startswith(("steps=", "validate="))]
        return trained(self.task, self.data(home), home / "run", *kept, *STEPS, model=self.model)

    def kept(self) -> tuple[Run, Any]:
        """The run and its input, made once a process: for those who only ask it."""
        if self.name not in KEPT:
            home = Path(HOME.name) / self.name
            home.mkdir()
            KEPT[self.name] = self.run(home), self.given(home)
        return KEPT[self.name]


HOME = TemporaryDirectory(prefix="every-model-")
KEPT: dict[str, tuple[Run, Any]] = {}
WELL_KNOWN = {
    *QUICK,
    *test_caption.QUICK,
    *test_recognize.QUICK,
    *test_transcribe.QUICK,
    *test_forecast.KEYS,
    *test_estimate.TABLE,
    *test_label.MOMENT,
}


def a_text(content: str) -> Callable[[Path], Any]:
    return lambda home: content


def sounds(home: Path) -> str:
    (home / "sounds").mkdir()
    return test_transcribe.write_folder(home / "sounds", range(2))


def prose(home: Path) -> str:
    (home / "prose.txt").write_text(text(), encoding="utf-8")
    return str(home / "prose.txt")


def rows_of(rows: Callable[[], Any]) -> Callable[[Path], str]:
    return lambda home: write_rows(home / "rows.tsv", rows())


def waves(home: Path) -> str:
    return test_forecast.write(home / "waves.csv", test_forecast.waves())


def pictures(home: Path) -> str:
    return str(test_recognize.save(home / "pictures"))


def scenes(home: Path) -> str:
    return str(test_caption.written_folder(home / "scenes", count=30))


def graph(home: Path) -> str:
    return folder(home / "clubs", **clubs())


SENTENCE, QUESTION = a_text("I see  a red hoüse."), a_text("Who has the key?\tToday Ana took the key. It rained.")
RECURRENT = tuple(key for key in test_transcribe.QUICK if not key.startswith(("heads", "hidden")))
SERIES = tuple(key for key in test_forecast.KEYS if not key.startswith(("heads", "hidden", "patch")))

CASES = [
    *(LookedAt("translate", "transformer", (*QUICK, f"tokenizer={kind}"), rows_of(pairs), SENTENCE)
      for kind in ("bpe", "word", "char", "unigram")),
    *(LookedAt("translate", model, BARE, rows_of(pairs), SENTENCE)
      for model in ("bahdanau", "luong", "luong-local-m", "luong-local-p")),
    LookedAt("classify", "transformer", QUICK, rows_of(reviews), a_text("the film was good")),
    LookedAt("classify", "transformer", (*QUICK, "pool=attention"), rows_of(reviews), a_text("the film was good")),
    LookedAt("classify", "lstm-attention", BARE, rows_of(reviews), a_text("the film was good")),
    LookedAt("classify", "conv-attention", BARE, rows_of(reviews), a_text("the film was good")),
    LookedAt("classify", "encoder", QUICK, rows_of(reviews), a_text("the film was good\tthe film was bad")),
    LookedAt("tag", "encoder", QUICK, lambda home: test_tag.write_conll(home / "names.conll"), a_text("Ana left New Oslo.")),
    LookedAt("estimate", "transformer", test_estimate.TABLE, lambda home: test_estimate.write_flats(home / "flats.csv"),
             a_text("size=70, district=center")),
    LookedAt("estimate", "transformer", QUICK, rows_of(test_estimate.stars), a_text("a very good film")),
    LookedAt("recognize", "vit", test_recognize.QUICK, pictures, lambda home: str(home / "pictures" / "above" / "0.png")),
    LookedAt("recognize", "conv-attention", test_recognize.QUICK, pictures,
             lambda home: str(home / "pictures" / "above" / "0.png")),
    *(LookedAt("caption", model, test_caption.QUICK, scenes, lambda home: str(home / "scenes" / "3.png"))
      for model in ("soft", "hard", "transformer")),
    LookedAt("caption", "transformer", (*test_caption.QUICK, "encoder=patches"), scenes,
             lambda home: str(home / "scenes" / "3.png")),
    LookedAt("transcribe", "transformer", test_transcribe.QUICK, sounds, lambda home: str(home / "sounds" / "ab-1.wav")),
    LookedAt("transcribe", "luong", RECURRENT, sounds, lambda home: str(home / "sounds" / "ab-1.wav")),
    *(LookedAt("forecast", "transformer", (*test_forecast.KEYS, *more), waves,
               lambda home: str(home / "waves.csv"))
      for more in (("target=A",), ("target=A", "inputs=A"), ("target=A,B", "inputs=A,B"),
                   ("target=A", "channels=mixed"), ("target=A", "kind=encoder-decoder"))),
    LookedAt("forecast", "lstm-attention", (*SERIES, "target=A"), waves, lambda home: str(home / "waves.csv")),
    *(LookedAt("answer", model, QUICK, lambda home: write_questions(home / "asked.jsonl", questions()), QUESTION)
      for model in ("reader", "encoder")),
    LookedAt("write", "gpt", (*QUICK, "length=16"), prose, a_text("I see")),
    *(LookedAt("fill", model, QUICK, rows_of(stories), a_text("I see a red ___.")) for model in ("bert", "encoder")),
    LookedAt("label", "gat", test_label.MOMENT, graph, a_text("even4")),
    LookedAt("label", "gatv2", test_label.MOMENT, graph, a_text("even4")),
]  # fmt: skip

"""How answers may be wanted. Every option of `mirada run` is declared here, once, as a field of the tasks that take it.

The command line and its help, the limits and the description of the HTTP API, the form of the web app and its words are all
made from these fields. Importing this imports no torch, so that `mirada run --help` is quick.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mirada.errors import require

if TYPE_CHECKING:
    from mirada.decoding.beam import Beam
    from mirada.decoding.greedy import Greedy, Sample
    from mirada.runs.alignments import Alignments


@dataclass(frozen=True)
class Option:
    """An option of an answer, as every surface shows it."""

    about: str = ""  # a sentence: the help of the command line and the description of the API
    label: tuple[str, str] = ("", "")  # in the form of the web app, in English and Spanish
    bounds: tuple[float, float] | None = None  # of the server: beyond them an answer takes its time from everybody else
    smallest: float = 0  # the smallest value above 0 that makes sense
    step: float = 1  # of the form
    metavar: str = (
        ""  # FILE: the command line takes a path, or - for standard input, and everybody else the text itself
    )
    hidden: bool = False  # for programs: nobody is offered it
    name: str = ""
    kind: type = str  # int, float, bool, str, or tuple for several texts


def option(default: Any, about: str = "", english: str = "", spanish: str = "", **more: Any) -> Any:
    """Declare a field as an option; `more` are fields of `Option`."""
    return field(default=default, metadata={"option": Option(about, (english, spanish), **more)})


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """How answers are wanted. The options of a task are the fields of its own class; here there are none."""

    unused: ClassVar[tuple[str, ...]] = ()  # inherited fields that change nothing in this task

    @classmethod
    def takes(cls) -> list[str]:
        """The names of the options."""
        return [item.name for item in fields(cls) if item.name not in cls.unused]

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options that people are offered, by name.

        >>> RankAsk.options()["best"].bounds
        (1, 32)
        """
        declared = [(item, item.metadata.get("option", Option())) for item in fields(cls) if item.name in cls.takes()]
        return {
            item.name: replace(each, name=item.name, kind=_kind_of(item.type))
            for item, each in declared
            if not each.hidden
        }

    def changed(self, given: Mapping[str, Any], task: str) -> Self:
        """With some options changed; what would change nothing is refused.

        >>> RankAsk().changed({"beam": 4}, "classify")
        Traceback (most recent call last):
        ValueError: beam is not used by classify; it takes best, candidates
        """
        known = self.takes()
        useless = [name for name in given if name not in known]
        verb = "is" if len(useless) == 1 else "are"
        shown = self.options()
        listed = f"it takes {', '.join(shown)}" if shown else "it takes no options"
        require(not useless, f"{', '.join(useless)} {verb} not used by {task}; {listed}")
        return replace(self, **given)


def _kind_of(hint: Any) -> type:
    """The type of an option, without the None that stands for its default.

    >>> _kind_of(float | None), _kind_of(tuple[str, ...])
    (<class 'float'>, <class 'tuple'>)
    """
    if getattr(hint, "__origin__", None) is tuple:
        return tuple
    return next((part for part in getattr(hint, "__args__", ()) if part is not type(None)), hint)  # type: ignore[no-any-return]


# Options that tasks of several kinds take.

_best = partial(
    option, 1, "How many answers are wanted for each input.", "Alternatives", "Alternativas", bounds=(1, 32)
)
_truncate = partial(
    option, False, "Cut inputs that are too long for the model, rather than refuse them.",
    "Cut what is too long", "Cortar lo que sobra",
)  # fmt: skip
_aligned = partial(option, False, hidden=True)  # what was looked at is wanted as well


@dataclass(frozen=True, kw_only=True)
class SearchAsk(AskOptions):
    """With how many beams and alternatives a text is searched for, or how it is drawn at random.

    >>> SearchAsk(beam=4).search().size
    4
    """

    usual_temperature: ClassVar[float] = 0.0  # where none is asked for; 0 takes the likeliest token

    beam: int = option(1, "Beams of the search; 1 is greedy.", "Beams", "Haces", bounds=(1, 32))
    best: int = _best()
    length_penalty: float = option(
        1.0, "Above 1 prefers long answers of a beam, below 1 short ones.",
        "Length penalty", "Penalización de longitud", bounds=(-10, 10), step=0.1,
    )  # fmt: skip
    coverage: float = option(
        0.0, "How much a beam should look at all of the source.", "Coverage", "Cobertura", bounds=(-10, 10), step=0.1
    )
    temperature: float | None = option(  # above 0 texts are drawn at random; None: the usual one
        None, "Draw answers at random, the wilder the higher.",
        "Temperature", "Temperatura", bounds=(0, 100), smallest=0.01, step=0.1,
    )  # fmt: skip
    top_k: int = option(
        0, "Draw among the k likeliest tokens only; 0: among all.", "Top k", "Top k", bounds=(0, 1_000_000)
    )
    top_p: float = option(
        1.0, "Draw among the likeliest tokens that sum up to p only.", "Top p", "Top p", bounds=(0, 1), step=0.05
    )
    seed: int = option(0, "Of the drawing.", "Seed", "Semilla", bounds=(0, 2**53))
    alignments: str = option(
        "", "Attention of decoder layers for every token written: LAYER:0,3 (heads), LAYER:mean, LAYER:links; several with ;",
        "Attention of layers", "Atención de capas",
    )  # fmt: skip
    tokens: int = option(
        0, "At most so many tokens an answer; 0: what suits the task.",
        "Tokens at most", "Tokens como máximo", bounds=(0, 2048),
    )  # fmt: skip

    def __post_init__(self) -> None:
        require(
            self.beam >= 1 and self.best >= 1,
            f"beam and best must be at least 1: got beam={self.beam}, best={self.best}",
        )
        require(self.tokens >= 0, f"tokens must be at least 1, or 0 for what suits the task: got {self.tokens}")

    def changed(self, given: Mapping[str, Any], task: str) -> Self:
        """With some options changed; those given that do not fit together are refused at once.

        What a run usually does gives way to them: who asks for a temperature has no use for its usual beams.

        >>> SearchAsk(beam=4, length_penalty=2.0).changed({"temperature": 0.5}, "translate").search()
        Sample(temperature=0.5, top_k=0, top_p=1.0, seed=0)
        """
        usual: dict[str, Any] = {item.name: item.default for item in fields(SearchAsk)}
        drawn = [name for name in ("temperature", "top_k", "top_p") if name in given]
        several = max(given.get("beam", 1), given.get("best", 1)) > 1
        dropped = ["temperature", "top_k", "top_p"] if several else []
        if not several and (drawn or given.get("beam") == 1):
            dropped = ["beam", "best", "length_penalty", "coverage"]
        yielding = {name: usual[name] for name in dropped if name not in given}
        changed = super().changed(given, task)
        changed = replace(changed, **yielding)
        changed.search()
        if changed.alignments:
            changed.attention()
        return changed

    def attention(self) -> "Alignments":
        """The attention that is wanted with an answer."""
        from mirada.runs.alignments import Alignments

        return Alignments.parse(self.alignments)

    def search(self) -> "Greedy | Beam | Sample":
        """Sampling where a temperature is given (or is the usual one), a beam where one is asked for, else greedy."""
        from mirada.decoding.greedy import Greedy, Sample

        few = self.top_k != 0 or self.top_p != 1
        if self.beam > 1 or self.best > 1:
            from mirada.decoding.beam import Beam

            drawn = self.temperature is not None or few
            require(not drawn, "a beam draws nothing: leave out temperature, top_k and top_p, or else beam and best")
            return Beam(max(self.beam, self.best), self.length_penalty, self.coverage, self.best)
        ranked = self.length_penalty != 1 or self.coverage != 0
        require(not ranked, "length_penalty and coverage rank the texts of a beam: ask for one as well, such as beam=4")
        temperature = self.usual_temperature if self.temperature is None else self.temperature
        if temperature > 0:
            return Sample(temperature, self.top_k, self.top_p, self.seed)
        require(temperature == 0, f"temperature must not be negative: got {temperature}")
        require(not few, "top_k and top_p are for drawing: give a temperature as well, such as temperature=1")
        return Greedy()


@dataclass(frozen=True, kw_only=True)
class TranscribeAsk(SearchAsk):
    """The same for recordings, of which those that are too long may be cut; and what a Whisper can be told."""

    truncate: bool = _truncate()
    language: str = option(
        "", "The language that is spoken, as a code such as en; recognized, if none is given (Whisper).",
        "Language", "Idioma",
    )  # fmt: skip
    translate: bool = option(False, "Write it in English (Whisper).", "Into English", "Al inglés")
    timestamps: bool = option(False, "Say when every segment was said (Whisper).", "Timestamps", "Marcas de tiempo")
    words: bool = option(False, "Say when every word was said (Whisper).", "Times of words", "Tiempos de palabras")
    aligned: bool = _aligned()


@dataclass(frozen=True, kw_only=True)
class TranslateAsk(SearchAsk):
    """The same for sentences, and for what a translation looked at."""

    source: str = option(
        "", "The code of the input's language, such as en_XX or eng_Latn, where a model reads several.",
        "From language", "Del idioma",
    )  # fmt: skip
    target: str = option(
        "", "The code of the answer's language, where a model writes several.", "Into language", "Al idioma"
    )
    prefix: str = option(
        "",
        "Words before every input that say what is wanted, such as 'summarize: '.",
        "Words before it",
        "Palabras antes",
    )
    no_repeat: int = option(
        0, "No sequence of so many tokens twice in an answer; 0: they may be.",
        "No repeats of", "Sin repetir", bounds=(0, 100),
    )  # fmt: skip
    stop: str = option("sure", hidden=True)  # when a beam stops, as `decoding.Beam` says it
    truncate: bool = _truncate()
    aligned: bool = _aligned()

    def search(self) -> "Greedy | Beam | Sample":
        found = super().search()
        return replace(found, stop=self.stop) if max(self.beam, self.best) > 1 else found  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class WriteAsk(SearchAsk):
    """How a continuation is drawn or searched for: there is one of them, and no source to cover."""

    unused: ClassVar[tuple[str, ...]] = ("best", "coverage")
    usual_temperature: ClassVar[float] = 0.8
    drawing: ClassVar[tuple[str, ...]] = ("temperature", "top_k", "top_p")

    repetition_penalty: float = option(
        1.0, "Above 1 makes tokens that were there already less likely.",
        "Repetition penalty", "Penalización de repeticiones", bounds=(0, 10), smallest=0.01, step=0.05,
    )  # fmt: skip
    chat: bool = option(
        False, "Answer as the chat template of the model says, rather than continue the text.", "Chat", "Conversación"
    )
    system: str = option("", "What a chat begins with: how to answer.", "System prompt", "Instrucciones")
    aligned: bool = _aligned()

    def changed(self, given: Mapping[str, Any], task: str) -> Self:
        """With some options changed. What the model asks for by itself gives way where it does not fit what is given."""
        given = dict(given)
        searched = given.get("beam", 1) > 1
        if searched or given.get("temperature") == 0:
            usual = {item.name: item.default for item in fields(self)}
            away = (*self.drawing, "repetition_penalty") if searched else self.drawing
            given = {name: usual[name] for name in away} | ({"temperature": 0.0} if not searched else {}) | given
        return super().changed(given, task)

    def search(self) -> "Greedy | Beam | Sample":
        penalized = self.beam > 1 and self.repetition_penalty != 1
        require(not penalized, "a beam has no repetition penalty: leave out one of the two")
        require(self.repetition_penalty > 0, f"repetition_penalty must be above 0: got {self.repetition_penalty}")
        require(self.chat or not self.system, "a system prompt is for a chat: add chat as well")
        return super().search()


@dataclass(frozen=True, kw_only=True)
class RankAsk(AskOptions):
    """How many of the likeliest answers are wanted, or which candidates are to be ranked."""

    best: int = _best()
    candidates: tuple[str, ...] = option(
        (), "Words or labels to be scored.", "Candidates, with commas", "Candidatas, con comas"
    )

    def __post_init__(self) -> None:
        require(self.best >= 1, f"best must be at least 1: got {self.best}")

    def ranking(self, ranked: Sequence[tuple[str, float]]) -> dict[str, Any]:
        """The fields of an answer that say what else there was, and how much of it is printed: all candidates, or as many as
        were asked for.
        """
        return {"ranked": tuple(ranked), "shown": len(ranked) if self.candidates else self.best if self.best > 1 else 0}


@dataclass(frozen=True, kw_only=True)
class TextRankAsk(RankAsk):
    """The same for inputs that are texts."""

    truncate: bool = _truncate()
    aligned: bool = _aligned()


@dataclass(frozen=True, kw_only=True)
class VectorAsk(RankAsk):
    """Which candidates are to be ranked by how near they are."""

    unused: ClassVar[tuple[str, ...]] = ("best",)

    truncate: bool = _truncate()


@dataclass(frozen=True, kw_only=True)
class CutAsk(AskOptions):
    """Whether texts that are too long for the model are cut."""

    truncate: bool = _truncate()


@dataclass(frozen=True, kw_only=True)
class PassageAsk(AskOptions):
    """How many spans are wanted, and the passage of questions that come without one."""

    best: int = _best()
    passage: str = option("", "The text that holds the answers to questions.", "Passage", "Texto", metavar="FILE")
    truncate: bool = _truncate()
    aligned: bool = _aligned()

    def __post_init__(self) -> None:
        require(self.best >= 1, f"best must be at least 1: got {self.best}")


@dataclass(frozen=True, kw_only=True)
class ForecastAsk(AskOptions):
    """How wide the intervals around a forecast are."""

    interval: int = option(
        0, "Ends of intervals that hold this share of the true values, in percent, as columns of the CSV; 0: no such columns.",
        "Interval in %", "Intervalo en %", bounds=(0, 99),
    )  # fmt: skip

    def __post_init__(self) -> None:
        require(0 <= self.interval <= 99, f"interval must be a share from 1 to 99 %, such as 80: got {self.interval}")


def run_options() -> dict[str, Option]:
    """All options of the tasks of this package, by name: those of `mirada run`."""
    kinds = [each for each in globals().values() if isinstance(each, type) and issubclass(each, AskOptions)]
    return {name: each for kind in kinds for name, each in kind.options().items()}

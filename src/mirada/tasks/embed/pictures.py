"""embed with models of pictures: a vector of a picture; with CLIP also of a text, and which of some texts describe a picture."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.data.files.forms import PICTURES
from mirada.data.image import header_of, pixels_of
from mirada.data.options import DataOptions
from mirada.data.preprocessing import Preprocessing
from mirada.data.record import Record
from mirada.data.text.tokenize import Vocabulary
from mirada.errors import require
from mirada.files import expanded
from mirada.models.clip import CLIP
from mirada.models.vit import ViT
from mirada.runs.answers import Answer
from mirada.runs.ask import VectorAsk
from mirada.runs.inputs import Questions
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits
from mirada.runs.task import Preset, Task
from mirada.words import plural, shortened

if TYPE_CHECKING:
    from mirada.looking.labels import Labels
    from mirada.looking.record import Seen

AT_ONCE = 32  # pictures or texts
SHOWN = 4  # numbers of a vector, for a person
NOTHING = Preprocessing((1, 1))
UNMEASURED = "there is nothing to measure the vectors of pictures with: embed measures pairs of texts"


@dataclass(frozen=True, eq=False)
class GivenPicture:
    """A picture that was asked about: its name, and its path, pixels or Pillow image."""

    name: str
    given: Any

    @classmethod
    def of(cls, given: Any) -> Self:
        """The picture; a ValueError if it is none."""
        if isinstance(given, str | Path):
            path = os.path.expanduser(given)
            header_of(path)  # what is no picture is said at once
            return cls(str(given), path)
        sides = " x ".join(map(str, np.shape(given)[:2] or getattr(given, "size", ())[::-1]))
        return cls(f"a picture of {sides}", given)


@dataclass(frozen=True)
class PictureVectors:
    """What is done to pictures before a model reads them, and the side of a patch."""

    files: ClassVar[tuple[str, ...]] = ()

    fitting: Preprocessing
    patch: int

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return {"pictures": self.fitting.facts(), "patch": self.patch}

    def contents(self) -> dict[str, bytes]:
        """No files: all of it is in config.json."""
        return {}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` kept."""
        return cls(*_restored(facts))


@dataclass(frozen=True)
class PictureTexts(Vocabulary):
    """The same, and the tokenizer of the texts."""

    fitting: Preprocessing = NOTHING
    patch: int = 1

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"pictures": self.fitting.facts(), "patch": self.patch}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        fitting, patch = _restored(facts)
        return replace(super().restore(facts, paths), fitting=fitting, patch=patch)


def _restored(facts: Mapping[str, Any]) -> tuple[Preprocessing, int]:
    """How pictures are read, and the side of a patch."""
    channels, patch = facts.get("channels", 3), facts.get("patch")
    require(
        "pictures" in facts or channels in (1, 3), f"pictures have 1 or 3 channels, and this model reads {channels}"
    )
    require(
        type(patch) is int and patch > 0, "config.json does not say how pictures are read: patch is missing or broken"
    )
    assert isinstance(patch, int)
    return Preprocessing.restore(facts.get("pictures")), patch


class EmbedPictures(Task[Any, Any, Any]):
    """An input is a path, a Pillow image or an array of pixels; the answer is its vector, as the model pools it."""

    name, input_kind = "embed", "picture"
    Data = DataOptions
    Ask = VectorAsk
    Known: ClassVar[type[Any]] = PictureVectors
    presets: ClassVar[Mapping[str, Preset]] = {"vit": Preset(ViT)}

    def read(self, source: Source, options: DataOptions) -> Splits[Any]:
        raise ValueError(UNMEASURED)

    def examples(self, records: Sequence[Record[Any]], known: Any, config: Any) -> Any:
        raise ValueError(UNMEASURED)

    def measure(self, run: Run, records: Sequence[Record[Any]]) -> tuple[dict[str, float], list[Answer]]:
        raise ValueError(UNMEASURED)

    def sizes(self, known: Any) -> dict[str, Any]:
        return {"patch": known.patch, "channels": known.fitting.channels}

    def parse(self, text: str) -> Any:
        require(bool(text.strip()), "there is no picture: give the path of one")
        return GivenPicture.of(text)

    def listed(self, given: Any) -> Any:
        return list(given) if getattr(given, "ndim", 0) == 4 else super().listed(given)

    def questions(self, run: Run, place: str) -> Questions:
        folder = expanded(place)
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURES.endings)
        if folder.is_dir():
            require(bool(paths), f"{place}: there is no picture in it. Give a folder of pictures.")
        named = [(str(path.relative_to(folder)), str(path)) for path in paths] or [(place, place)]
        asked = [replace(run.question(path), where=name, cells=(name,)) for name, path in named]
        return Questions(("name",), asked)

    def answer(self, run: Run, inputs: Sequence[Any], ask: VectorAsk) -> list[Answer]:
        require(not ask.candidates, "this model reads pictures only: candidates are texts, for a CLIP")
        pictures = [given if isinstance(given, GivenPicture) else GivenPicture.of(given) for given in inputs]
        vectors = _in_batches(pictures, partial(_of_pictures, run, run.model))
        return [
            Answer(picture.name, _in_words(vector), math.nan, vector, replay=partial(_seen, run, run.model, picture))
            for picture, vector in zip(pictures, vectors, strict=True)
        ]


class EmbedBoth(EmbedPictures):
    """With CLIP an input is a picture or a text: a name that is no file's is a text, and so are all candidates."""

    Known = PictureTexts
    presets: ClassVar[Mapping[str, Preset]] = {"clip": Preset(CLIP)}

    def sizes(self, known: Any) -> dict[str, Any]:
        return super().sizes(known) | {"vocab": len(known)}

    def parse(self, text: str) -> Any:
        require(bool(text.strip()), "there is nothing to read: give the path of a picture, or a text")
        return GivenPicture.of(text) if os.path.isfile(os.path.expanduser(text)) else text

    def answer(self, run: Run, inputs: Sequence[Any], ask: VectorAsk) -> list[Answer]:
        given = [
            self.parse(one) if isinstance(one, str) else one if isinstance(one, GivenPicture) else GivenPicture.of(one)
            for one in inputs
        ]
        pictures = [one for one in given if isinstance(one, GivenPicture)]
        texts = [one for one in given if isinstance(one, str)]
        of_pictures = iter(_in_batches(pictures, partial(_of_pictures, run, _towers(run)[0])))
        of_texts = iter(_text_vectors(run, texts, ask))
        others = _text_vectors(run, ask.candidates, ask)
        answers = []
        for one in given:
            seen = isinstance(one, GivenPicture)
            vector = next(of_pictures if seen else of_texts)
            best = _ranked(run, vector, others, ask.candidates, seen) if ask.candidates else ()
            answered, score = best[0] if best else (_in_words(vector), math.nan)
            replay = partial(_seen, run, _towers(run)[not seen], one)
            name = one.name if isinstance(one, GivenPicture) else one
            answers.append(Answer(name, answered, score, vector, best, len(best), replay=replay))
        return answers


# Vectors.


def _numbers(run: Run, pictures: Sequence[GivenPicture]) -> Float[Tensor, "n channels size size"]:
    """Pictures as the model reads them."""
    fitting = run.known.fitting
    squares = np.stack([fitting.of(pixels_of(picture.given)) for picture in pictures])
    return torch.from_numpy(fitting.numbers(squares)).to(run.device)


def _of_pictures(run: Run, model: nn.Module, pictures: Sequence[GivenPicture]) -> Tensor:
    """The vectors of some pictures."""
    found: Tensor = model(_numbers(run, pictures))
    return found


def _towers(run: Run) -> tuple[nn.Module, nn.Module]:
    """The towers of pictures and of texts."""
    assert isinstance(run.model, CLIP)
    return run.model.picture, run.model.text


def _in_batches(items: Sequence[Any], vectors: Callable[[Sequence[Any]], Tensor]) -> list[Tensor]:
    """The vectors of all items, some at a time."""
    parts = [vectors(items[first : first + AT_ONCE]).float().cpu() for first in range(0, len(items), AT_ONCE)]
    return list(torch.cat(parts)) if parts else []


def _tokens(run: Run, text: str, cut: bool) -> list[int]:
    """The tokens of a text with those around it, as many as the model reads."""
    known, most = run.known, run.model.config.length
    require(bool(text.strip()), f"there is nothing to read in {text[:60]!r}")
    whole: list[int] = known.tokenizer.framed(known.tokenizer.encode(text))[0]
    fitted: list[int] = known.fitted(whole, most, text, cut)
    return fitted


def _text_vectors(run: Run, texts: Sequence[str], ask: VectorAsk) -> list[Tensor]:
    """The vectors of texts; what stands behind the end of a text changes nothing."""

    def vectors(some: Sequence[list[int]]) -> Tensor:
        tokens: Int[Tensor, "texts length"] = torch.zeros(len(some), max(map(len, some)), dtype=torch.long)
        for row, each in zip(tokens, some, strict=True):
            row[: len(each)] = torch.tensor(each)
        found: Tensor = _towers(run)[1](tokens.to(run.device))
        return found

    return _in_batches([_tokens(run, text, ask.truncate) for text in texts], vectors)


def _ranked(
    run: Run, vector: Tensor, others: Sequence[Tensor], names: Sequence[str], seen: bool
) -> tuple[tuple[str, float], ...]:
    """Texts with how likely each describes a picture, or how near each is to a text (the cosine), best first."""
    texts = torch.stack(list(others))
    if seen:
        assert isinstance(run.model, CLIP)
        scores = run.model.scores(vector[None].to(run.device), texts.to(run.device))[0].softmax(-1)
    else:
        scores = F.normalize(texts, dim=-1) @ F.normalize(vector, dim=-1)
    return tuple(sorted(zip(names, scores.tolist(), strict=True), key=lambda pair: -pair[1]))


def _in_words(vector: Float[Tensor, " width"]) -> str:
    """A vector as a person reads it: its first numbers.

    >>> _in_words(torch.tensor([0.5, -1.0, 0.0, 2.0, 3.0]))
    '5 numbers: 0.5000 -1.0000 0.0000 2.0000 ...'
    """
    return f"{plural(len(vector), 'number')}: {' '.join(f'{x:.4f}' for x in vector[:SHOWN].tolist())} ..."


# Looking.


def _seen(run: Run, part: Callable[[Tensor], Tensor], given: GivenPicture | str, methods: bool = False) -> "Seen":
    """All attention of one pass of a model, or of one of its towers."""
    from mirada.looking.record import look

    require(not methods, "methods compare what decides an answer, and a vector is none: leave --methods out")
    with torch.no_grad(), look(run.model) as seen:
        if isinstance(given, str):
            tokens = _tokens(run, given, cut=True)
            part(torch.tensor([tokens], device=run.device))
        else:
            part(_numbers(run, [given]))
    labels = _text_labels(run, given, tokens) if isinstance(given, str) else _picture_labels(run, given)
    seen.labelled(replace(labels, made=run.provenance(seen) | dict(labels.made)))
    return seen


def _picture_labels(run: Run, picture: GivenPicture) -> "Labels":
    """The cells of the picture as the model sees it, behind the tokens before them."""
    from mirada.drawing.attention.picture import png
    from mirada.looking.labels import GridLabels, Labels

    fitting, config = run.known.fitting, run.model.config
    grid = fitting.size // run.known.patch
    before = getattr(config, "token_names", ("[class]",))
    cells = GridLabels.of(grid, grid, before, png(fitting.of(pixels_of(picture.given))))
    return Labels({"cells": cells}, {"*": ("cells", "cells")}, {"input": picture.name})


def _text_labels(run: Run, text: str, tokens: Sequence[int]) -> "Labels":
    """The tokens of a text."""
    from mirada.looking.labels import Labels, read_axis

    axes = {"text": read_axis(run.known.tokenizer, text, tokens)}
    return Labels(axes, {"*": ("text", "text")}, {"input": shortened(text, 200)})

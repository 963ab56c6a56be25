"""Attention that is handed out with an answer: the layers and heads asked for, at the speed of the engine.

    decoder.layers.1.cross:0,3    two heads        decoder.layers.1.cross          all of them
    decoder.layers.1.cross:mean   their mean       decoder.layers.1.cross:links    which word comes from which: "0-0 1-2"

Several of them stand side by side with `;` between them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mirada.decoding.search import Hypothesis, Look, Stepper
from mirada.errors import require

FORMS = ("mean", "links")
SPELLED = "give LAYER:0,3 for two heads, LAYER:mean, LAYER:links or LAYER for all heads; several with ; between them"


@dataclass(frozen=True)
class WantedLayer:
    """Heads of a layer, none for all of them, and what is made of them: "" for the heads themselves, their mean, or links."""

    layer: str
    heads: tuple[int, ...] = ()
    form: str = ""


@dataclass(frozen=True)
class Alignments:
    """Which attention is wanted with an answer.

    >>> Alignments.parse("decoder.layers.1.cross:0,3; decoder.layers.0.cross:mean").wanted[0].heads
    (0, 3)
    >>> Alignments.parse("decoder.layers.1.cross:first")
    Traceback (most recent call last):
    ValueError: no such heads: 'first'; give LAYER:0,3 for two heads, LAYER:mean, LAYER:links or LAYER for all heads; ...
    """

    wanted: tuple[WantedLayer, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Alignments":
        """What the option `alignments` says."""
        wanted = []
        for each in filter(None, map(str.strip, text.split(";"))):
            layer, colon, rest = (part.strip() for part in each.partition(":"))
            heads = [part.strip() for part in rest.split(",")] if rest and rest not in FORMS else []
            numbers = all(head.isascii() and head.isdecimal() and len(head) < 6 for head in heads)
            require(numbers and bool(layer) and bool(rest or not colon), f"no such heads: {rest!r}; {SPELLED}")
            wanted.append(WantedLayer(layer, tuple(map(int, heads)), rest if rest in FORMS else ""))
        names = [each.layer for each in wanted]
        twice = next((name for name in names if names.count(name) > 1), "")
        require(not twice, f"{twice} is named twice: ask for its heads once, such as {twice}:0,3")
        return cls(tuple(wanted))

    def watch(self, stepper: Stepper) -> Any:
        """The stepper, which keeps the weights of these heads."""
        if not self.wanted:
            return stepper
        from mirada.engine import watched  # most answers are not looked at

        heads = {each.layer: each.heads for each in self.wanted}
        own = getattr(stepper, "watched", None)  # of a stepper around another
        return watched(stepper, heads) if own is None else own(heads)

    def of(self, look: Look) -> dict[str, Float[Tensor, "heads read"]]:
        """The weights of one token, while a text is written; links need the whole text."""
        rows = {each: weights.float().cpu() for each, weights in zip(self.wanted, look.rows, strict=True)}
        return {
            each.layer: weights.mean(0, keepdim=True) if each.form else weights
            for each, weights in rows.items()
            if each.form != "links"
        }

    def fields(
        self,
        best: Hypothesis,
        read: int,
        read_words: Sequence[int] = (),
        written_words: Callable[[], Sequence[int]] = tuple,
    ) -> dict[str, Any]:
        """The fields of an `Answer` that hold them.

        Args:
            best: The answer as the search found it.
            read: How many places it read; what follows is padding.
            read_words: The number of the word that each place is a part of; further places, and -1, are no part of one. Without
                it every place is a word of its own.
            written_words: The same of the tokens that were written, when it is called.
        """
        rows: dict[str, Float[Tensor, "heads written read"]] = {}
        links: dict[str, str] = {}
        for each, weights in zip(self.wanted, best.rows, strict=True):
            kept = weights[:, : len(best.tokens)].float().cpu()
            kept = kept[:, :, :read] if "cross" in each.layer or "attention" in each.layer else kept
            rows[each.layer] = kept.mean(0, keepdim=True) if each.form else kept
            if each.form == "links":
                links[each.layer] = pharaoh(rows[each.layer][0], read_words, written_words())
        return {"alignments": rows, "links": links}


def pharaoh(
    weights: Float[Tensor, "written read"], read_words: Sequence[int] = (), written_words: Sequence[int] = ()
) -> str:
    """For every written word the word that it looked at most, in Pharaoh's form: read-written, counted from 0.

    >>> import torch
    >>> pharaoh(torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]))
    '0-0 2-1'
    >>> pharaoh(torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]), read_words=[0, 1, 1], written_words=[0, 0])
    '0-0'

    Words of several pieces have the sum over the pieces read, and the mean over the pieces written.
    """
    sources = list(read_words) or list(range(weights.shape[1]))
    targets = list(written_words) or list(range(weights.shape[0]))
    links = []
    for target in sorted(set(targets) - {-1}):
        mean = weights[[row for row, word in enumerate(targets) if word == target]].mean(0)
        mass: dict[int, float] = {}
        for place, word in enumerate(sources):
            if word >= 0:
                mass[word] = mass.get(word, 0.0) + float(mean[place])
        if mass:
            links.append((max(mass, key=lambda word: (mass[word], -word)), target))
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def words_of_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The number of the word between blanks that each span of a text lies in; -1 for a blank one.

    >>> words_of_spans("the red house", [(0, 3), (4, 7), (8, 11), (11, 13), (13, 13)])
    [0, 1, 2, 2, -1]
    """
    return [len(text[:end].split()) - 1 if text[start:end].strip() else -1 for start, end in spans]


def words_of_tokens(decode: Callable[[Sequence[int]], str], tokens: Sequence[int]) -> list[int]:
    """The number of the word between blanks that each token of a written text ends in; -1 for one that writes nothing.

    >>> words_of_tokens(lambda tokens: "".join([" the", " hou", "se", ""][token] for token in tokens), [0, 1, 2, 3])
    [0, 1, 1, -1]
    """
    texts = [decode(tokens[:count]) for count in range(len(tokens) + 1)]
    return [len(now.split()) - 1 if now.strip() != before.strip() else -1 for before, now in pairwise(texts)]

"""Which head follows which relation between words, always beside the best fixed offset.

For every word that has a relation, the other word that a head looks at most is compared with the one that the relation names.
A head is worth a name only if it beats "always the word two places on". Clark et al. (2019), arXiv:1906.04341.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from mirada.data.conllu import AnnotatedSentence
from mirada.errors import require

FARTHEST = 10  # offsets tried for the baseline, both ways
OFFSETS = {"previous": -1, "next": 1}
PUNCTUATION = "punctuation"
FROM_HEAD = " from its head"

Targets = Mapping[int, frozenset[int]]  # the right answers for each word that has some


@dataclass(frozen=True)
class HeadRelation:
    """How often the other word that a head looks at most is one that a relation names.

    `baseline` is the same share for the best fixed offset, "always the word `offset` places on". `previous` and `next` are such
    offsets themselves: their baseline is chance, one of the other words.
    """

    relation: str
    stream: str
    head: int
    accuracy: float
    baseline: float
    offset: int
    count: int

    @property
    def against(self) -> str:
        """What the baseline is."""
        return "chance" if self.relation in OFFSETS else f"always {self.offset:+d}"


@dataclass(frozen=True, eq=False)
class RelatedWords:
    """One sentence: its relations, and the weights between its words in every layer."""

    relations: Mapping[str, Targets]
    weights: Mapping[str, Float[Tensor, "heads words words"]]


def related(sentence: AnnotatedSentence) -> dict[str, Targets]:
    """The relations of an annotated sentence: each from the dependent to its head and from the head to such dependents.

    >>> from mirada.data.conllu import AnnotatedWord
    >>> words = (AnnotatedWord("the", 1, "det", "DET"), AnnotatedWord("house", None, "root", "NOUN"))
    >>> found = related(AnnotatedSentence(words))
    >>> found["det"], found["det from its head"], found["next"]
    ({0: frozenset({1})}, {1: frozenset({0})}, {0: frozenset({1})})
    """
    links = [(word.relation, number, word.head) for number, word in enumerate(sentence.words) if word.head is not None]
    marks = [number for number, word in enumerate(sentence.words) if word.kind == "PUNCT"]
    return relations_of(links, len(sentence.words), marks)


def relations_of(
    links: Iterable[tuple[str, int, int]], words: int, punctuation: Sequence[int] = ()
) -> dict[str, Targets]:
    """From links (relation, word, other word): both directions, and what needs no annotation."""
    found: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for name, word, other in links:
        found[name][word].add(other)
        found[name + FROM_HEAD][other].add(word)
    for name, offset in OFFSETS.items():
        for word in range(words):
            if 0 <= word + offset < words:
                found[name][word].add(word + offset)
    for word in range(words):
        marks = {mark for mark in punctuation if mark != word}
        if marks:
            found[PUNCTUATION][word] |= marks
    return {name: {word: frozenset(others) for word, others in given.items()} for name, given in found.items()}


def head_relations(sentences: Iterable[RelatedWords], fewest: int = 1) -> list[HeadRelation]:
    """Every relation that occurs at least `fewest` times, for every head of every layer; the best head of each comes first."""
    right: Counter[tuple[str, str, int]] = Counter()
    offsets: Counter[tuple[str, int]] = Counter()
    counts: Counter[str] = Counter()
    chance: dict[str, float] = defaultdict(float)
    for sentence in sentences:
        chosen = {name: favorites(weights) for name, weights in sentence.weights.items()}
        words = next(iter(chosen.values())).shape[1] if chosen else 0
        for relation, targets in sentence.relations.items():
            for word, others in targets.items():
                counts[relation] += 1
                chance[relation] += len(others) / max(1, words - 1)
                for offset in range(-FARTHEST, FARTHEST + 1):
                    offsets[relation, offset] += word + offset in others
                for name, favorite in chosen.items():
                    for head, choice in enumerate(favorite[:, word].tolist()):
                        right[relation, name, head] += choice in others
    table = []
    for (relation, name, head), hits in right.items():
        count = counts[relation]
        if count >= fewest:
            offset, baseline = best_offset(relation, offsets, count, chance[relation])
            table.append(HeadRelation(relation, name, head, hits / count, baseline, offset, count))
    return sorted(table, key=lambda row: (row.relation, -row.accuracy, row.stream, row.head))


def best_offset(relation: str, offsets: Counter[tuple[str, int]], count: int, chance: float) -> tuple[int, float]:
    if relation in OFFSETS:
        return OFFSETS[relation], chance / count
    best = max(range(-FARTHEST, FARTHEST + 1), key=lambda offset: (offsets[relation, offset], -abs(offset)))
    return best, offsets[relation, best] / count


def favorites(weights: Float[Tensor, "heads words words"]) -> Integer[Tensor, "heads words"]:
    """The other word that each word looks at most, in every head; -1 where it looks at no other word."""
    words = weights.shape[-1]
    require(weights.ndim == 3 and weights.shape[1] == words, "relations need weights of (heads, words, words)")
    if words < 2:
        return torch.full(weights.shape[:2], -1)
    best = weights.masked_fill(torch.eye(words, dtype=torch.bool), -torch.inf).max(-1)
    # a first word that may only look back, or a word without pieces, chose nobody
    return best.indices.masked_fill(~(best.values > 0), -1)


def best_heads(table: Iterable[HeadRelation]) -> list[HeadRelation]:
    """The best head of each relation."""
    best: dict[str, HeadRelation] = {}
    for row in table:
        if row.relation not in best or row.accuracy > best[row.relation].accuracy:
            best[row.relation] = row
    return list(best.values())

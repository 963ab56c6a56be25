"""Which head follows which relation between words, compared with the best fixed offset.

For every word that has a relation, the other word that a head looks at most is compared with the one that the relation names.
A head is worth a name only if it beats "always the word two places on". Clark et al. (2019), arXiv:1906.04341.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from mirada.data.files.opening import read_lines
from mirada.data.record import Found, Problem, Record
from mirada.errors import require

# Sentences whose words are annotated with their heads: CoNLL-U, as Universal Dependencies has it.


COLUMNS = 10


@dataclass(frozen=True)
class AnnotatedWord:
    """A word, the number of its head in the sentence (from 0; None: it is the root), and their relation."""

    form: str
    head: int | None
    relation: str  # without subtypes: nsubj, not nsubj:pass
    kind: str = ""  # the universal part of speech: NOUN, PUNCT, ...


@dataclass(frozen=True)
class AnnotatedSentence:
    """The syntactic words of a sentence: the parts of contractions, and no omitted words."""

    words: tuple[AnnotatedWord, ...]

    @property
    def text(self) -> str:
        """The words with spaces between them."""
        return " ".join(word.form for word in self.words)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The characters of each word in `text`."""
        spans, start = [], 0
        for word in self.words:
            spans.append((start, start + len(word.form)))
            start += len(word.form) + 1
        return tuple(spans)


def read_conllu(path: str | Path) -> Found[AnnotatedSentence]:
    """Read the annotated sentences of a CoNLL-U file.

    Args:
        path: The file, plain or gzipped.

    Returns:
        The sentences as records, and the others as problems with their line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "x.conllu")
    >>> rows = ["1 the the DET _ _ 2 det _ _", "2 house house NOUN _ _ 0 root _ _", ""]
    >>> _ = path.write_text("\\n".join("\\t".join(row.split()) for row in rows))
    >>> read_conllu(path).records[0].value.words[0]
    AnnotatedWord(form='the', head=1, relation='det', kind='DET')
    """
    records: list[Record[AnnotatedSentence]] = []
    problems: list[Problem] = []
    for blank, block in groupby(read_lines(path), lambda line: not isinstance(line, Problem) and not line.text.strip()):
        rows = []
        for line in () if blank else block:
            if isinstance(line, Problem):
                problems.append(line)
            elif not line.text.startswith("#"):
                rows.append((line.where, line.text.split("\t")))
        sentence = _sentence(rows) if rows else None
        if isinstance(sentence, Problem):
            problems.append(sentence)
        elif sentence:
            records.append(Record(rows[0][0], sentence))
    return Found(records, problems)


def _sentence(rows: list[tuple[str, list[str]]]) -> AnnotatedSentence | Problem:
    """The rows of a sentence as its words; "3-4" (a contraction) and "5.1" (an omitted word) are skipped."""
    for where, cells in rows:
        if len(cells) != COLUMNS:
            return Problem(where, f"expected {COLUMNS} columns, found {len(cells)}. CoNLL-U separates them by tabs.")
    kept = [(where, cells) for where, cells in rows if "-" not in cells[0] and "." not in cells[0]]
    words = []
    for number, (where, cells) in enumerate(kept, 1):
        if cells[0] != str(number):
            return Problem(where, f"words are numbered from 1: expected {number}, found {cells[0]!r}.")
        head = int(cells[6]) if cells[6].isascii() and cells[6].isdigit() else -1
        if not 0 <= head <= len(kept) or head == number:
            rule = f"the head must be 0 (the root) or another word up to {len(kept)}"
            return Problem(where, f"{rule}: found {cells[6]!r}.")
        words.append(AnnotatedWord(cells[1], head - 1 if head else None, cells[7].split(":")[0], cells[3]))
    return AnnotatedSentence(tuple(words)) if words else Problem(rows[0][0], "a sentence without words.")


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

    >>> from mirada.looking.explain.relations import AnnotatedWord
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
    targets: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for name, word, other in links:
        targets[name][word].add(other)
        targets[name + FROM_HEAD][other].add(word)
    for name, offset in OFFSETS.items():
        for word in range(max(0, -offset), words - max(0, offset)):
            targets[name][word].add(word + offset)
    for word in range(words):
        if marks := set(punctuation) - {word}:
            targets[PUNCTUATION][word] |= marks
    return {name: {word: frozenset(others) for word, others in given.items()} for name, given in targets.items()}


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
            offset, baseline = _best_offset(relation, offsets, count, chance[relation])
            table.append(HeadRelation(relation, name, head, hits / count, baseline, offset, count))
    return sorted(table, key=lambda row: (row.relation, -row.accuracy, row.stream, row.head))


def _best_offset(relation: str, offsets: Counter[tuple[str, int]], count: int, chance: float) -> tuple[int, float]:
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
    # the first word of causal attention, or a word without pieces, chose no other word
    return best.indices.masked_fill(~(best.values > 0), -1)


def best_heads(table: Iterable[HeadRelation]) -> list[HeadRelation]:
    """The best head of each relation."""
    best: dict[str, HeadRelation] = {}
    for row in table:
        best[row.relation] = max(best.get(row.relation, row), row, key=lambda each: each.accuracy)
    return list(best.values())

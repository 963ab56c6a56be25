"""Weights as word alignments: how far the links they suggest are from those that people drew.

AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

A are the links found, S the sure and P the possible ones, which include the sure ones. Och and Ney (2003).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.errors import require
from mirada.looking.explain.relations import AnnotatedSentence, HeadRelation, RelatedWords, head_relations, related
from mirada.looking.labels import TextLabels
from mirada.looking.record import Seen

Link = tuple[int, int]  # (source word, target word), from 0


def alignment_error(found: Collection[Link], sure: Collection[Link], possible: Collection[Link] | None = None) -> float:
    """The alignment error rate of one sentence, in percent.

    AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

    Args:
        found: The links that were found, A: pairs of a source word and a target word, from 0.
        sure: The links that are certain, S.
        possible: The links that are possible, P; the sure ones always are. Without it, there are no others.

    >>> alignment_error({(0, 0), (1, 1)}, {(0, 0), (1, 2)})
    50.0
    """
    return LinkCounts().plus(found, sure, possible).error()


@dataclass(frozen=True)
class LinkCounts:
    """Counts of links, summed over the sentences of a corpus, and their alignment error rate."""

    found: int = 0
    sure: int = 0
    found_and_sure: int = 0
    found_and_possible: int = 0

    def plus(
        self, found: Collection[Link], sure: Collection[Link], possible: Collection[Link] | None = None
    ) -> "LinkCounts":
        """With one more sentence."""
        links, certain = set(found), set(sure)
        allowed = certain if possible is None else certain | set(possible)
        return LinkCounts(
            self.found + len(links), self.sure + len(certain),
            self.found_and_sure + len(links & certain), self.found_and_possible + len(links & allowed),
        )  # fmt: skip

    def error(self) -> float:
        """The alignment error rate, in percent."""
        total = self.found + self.sure
        require(total > 0, "there are no links to compare: none was found, and none is sure")
        return 100 * (1 - (self.found_and_sure + self.found_and_possible) / total)


def largest(weights: Float[Tensor, "target source"]) -> set[Link]:
    """The source word that each target word looks at most; a row of zeros links nothing.

    >>> sorted(largest(torch.tensor([[0.1, 0.9], [0.8, 0.2]])))
    [(0, 1), (1, 0)]
    """
    if not weights.numel():
        return set()
    best = weights.max(-1)
    return {(int(key), row) for row, key in enumerate(best.indices) if best.values[row] > 0}


def mutual(weights: Float[Tensor, "target source"]) -> set[Link]:
    """The links that are largest both ways: for the target word among its sources, and for the source word among its targets.

    >>> sorted(mutual(torch.tensor([[0.1, 0.9], [0.2, 0.8]])))
    [(1, 0)]
    """
    backward = {(source, target) for target, source in largest(weights.T)}
    return largest(weights) & backward


def diagonal(source: int, target: int) -> set[Link]:
    """The simplest baseline: word i to word i, scaled to the lengths of the sentences.

    >>> sorted(diagonal(3, 2))
    [(0, 0), (2, 1)]
    """
    return {(round(place * (source - 1) / max(1, target - 1)), place) for place in range(target)} if source else set()


def between_words(
    weights: Float[Tensor, "queries keys"],
    rows: Sequence[int | None],
    columns: Sequence[int | None],
    size: tuple[int, int],
) -> Float[Tensor, "target source"]:
    """Weights between words from weights between their pieces: the mean over the pieces that look, the sum over those seen.

    `rows` and `columns` say to which word each piece belongs, None to none.

    >>> between_words(torch.tensor([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]), [0, 0], [0, 0, None], (1, 1)).tolist()
    [[0.625]]
    """
    for given, count, axis in ((rows, weights.shape[0], "rows"), (columns, weights.shape[1], "columns")):
        require(len(given) == count, f"{axis} need a word for each of their {count} pieces: got {len(given)}")
    left, right = _membership(rows, size[0]), _membership(columns, size[1])
    left = left / left.sum(-1, keepdim=True).clamp(min=1)
    return left @ weights.float() @ right.T


def _membership(words: Sequence[int | None], count: int) -> Float[Tensor, "words pieces"]:
    """1 where a piece belongs to a word."""
    return torch.eye(count + 1)[:count, [count if word is None else word for word in words]]


def words_of(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[int | None]:
    """The word in which each piece begins, by their characters.

    >>> words_of([(0, 2), (2, 5), (6, 7), (7, 7)], [(0, 5), (6, 7)])
    [0, 0, 1, None]
    """
    starts = [start for start, _ in pieces]
    return [next((n for n, (first, last) in enumerate(words) if first <= start < last), None) for start in starts]


# Which heads follow the relations of annotated sentences, from what was seen while a model read them.


NOWHERE = (-1, -1)  # the characters of a token that is part of no word


def sentence_relations(seen: Iterable[tuple[AnnotatedSentence, Seen]]) -> list[HeadRelation]:
    """Which heads follow which relations of annotated sentences.

    Args:
        seen: Sentences (of `read_conllu`), each with what was recorded while a model read its text.

    Returns:
        Every relation for every head that looks from words of a sentence at words of it, the best heads first; an empty
        list if no layer does.

    >>> import torch
    >>> from mirada import Attention, MultiHead
    >>> from mirada.looking import Labels, look
    >>> from mirada.looking.explain.relations import AnnotatedWord
    >>> sentence = AnnotatedSentence((AnnotatedWord("the", 1, "det"), AnnotatedWord("house", None, "root")))
    >>> layer = Attention(MultiHead(width=4, heads=1))
    >>> with look(layer) as seen:
    ...     _ = layer(torch.zeros(1, 2, 4))
    >>> words = TextLabels(("the", "house"), sentence.text, sentence.spans)
    >>> table = sentence_relations([(sentence, seen.labelled(Labels({"words": words}, {"*": ("words", "words")})))])
    >>> [(row.relation, row.accuracy) for row in table if row.relation == "det"]
    [('det', 1.0)]
    """
    return head_relations(_cases(seen))


def _cases(seen: Iterable[tuple[AnnotatedSentence, Seen]]) -> Iterator[RelatedWords]:
    """The weights between words from those between their pieces: the sum over a key's pieces, the mean over a query's."""
    for sentence, record in seen:
        weights = {}
        for name in record.names:
            stream = record.stream(name)
            rows, columns = record.labels.rows_and_columns(name, stream.queries, stream.keys)
            if rows is not columns or not isinstance(rows, TextLabels) or not rows.text.startswith(sentence.text):
                continue
            spans = [span or NOWHERE for span in rows.spans]
            words = words_of(spans, sentence.spans)
            by_head = record[name].weights()[0].float().cpu()
            size = (len(sentence.words), len(sentence.words))
            weights[name] = torch.stack([between_words(head, words, words, size) for head in by_head])
        if weights:
            yield RelatedWords(related(sentence), weights)

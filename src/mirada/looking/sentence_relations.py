"""Which heads follow the relations of annotated sentences, from what was seen while a model read them."""

from collections.abc import Iterable, Iterator

import torch

from mirada.data.conllu import AnnotatedSentence
from mirada.looking.alignment_error import between_words, words_of
from mirada.looking.labels import TextLabels
from mirada.looking.record import Seen
from mirada.looking.relations import HeadRelation, RelatedWords, head_relations, related
from mirada.looking.views import axes

NOWHERE = (-1, -1)  # the characters of a token that is part of no word


def sentence_relations(seen: Iterable[tuple[AnnotatedSentence, Seen]]) -> list[HeadRelation]:
    """The table of all heads that look from words of a sentence at words of it; empty where no layer does."""
    return head_relations(cases(seen))


def cases(seen: Iterable[tuple[AnnotatedSentence, Seen]]) -> Iterator[RelatedWords]:
    """The weights between words, of pieces that are joined to them: what goes to a word is summed, what comes from it is the
    mean over its pieces.
    """
    for sentence, found in seen:
        weights = {}
        for name in found.names:
            stream = found.stream(name)
            rows, columns = axes(found, stream)
            if rows is not columns or not isinstance(rows, TextLabels) or not rows.text.startswith(sentence.text):
                continue
            spans = [span or NOWHERE for span in rows.spans]
            words = words_of(spans, sentence.spans)
            whole = found[name].weights()[0].float().cpu()
            size = (len(sentence.words), len(sentence.words))
            weights[name] = torch.stack([between_words(head, words, words, size) for head in whole])
        if weights:
            yield RelatedWords(related(sentence), weights)

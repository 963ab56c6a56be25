"""What attention aligns and which relations heads follow: `python benchmarks/relations.py [RUN] [--links DIR] [--ud FILE]`.

A Transformer trained on the embedded English-Spanish grammar (RUN, or trained here: some minutes) is given pairs of sentences;
its cross-attention is compared with true word links, its encoder's heads with relations between English words. In the grammar
both are known from its own tables: which Spanish forms a noun, an adjective or a verb has, and that in "the red house" article
and adjective belong to the noun behind them. `--links` is a folder with dev.en, dev.es and dev.key (sentence, English and Spanish
word, from 1), `--ud` a CoNLL-U file of English; neither is like the grammar, and both are measured out of domain.
"""

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from word_links import LinkedPair, read_links

import mirada
from mirada.corpora.texts import embedded_texts
from mirada.looking.explain.alignment import LinkCounts, between_words, diagonal, largest, mutual, words_of
from mirada.looking.explain.relations import (
    HeadRelation,
    RelatedWords,
    best_heads,
    head_relations,
    read_conllu,
    related,
    relations_of,
)
from mirada.looking.record import Seen
from mirada.runs.run import Run

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tables of words stand beside the generators, in tools/
from tools.corpora.spanish.adjectives import ADJECTIVES
from tools.corpora.spanish.nouns import NOUNS
from tools.corpora.spanish.verbs import ROWS as VERBS

WORD = re.compile(r"\w+|[^\w\s]")
DETERMINERS = {"the", "a", "an", "my", "your", "our", "his", "her", "their", "this", "that", "these", "those", "some", "many",
               "two", "three", "four", "five", "six"}  # fmt: skip
FORMS: dict[str, set[str]] = defaultdict(set)  # of an English word, its Spanish forms
for noun in NOUNS.values():
    FORMS[noun.english].add(noun.spanish)
    FORMS[noun.plural].add(noun.spanish_plural)
for adjective in ADJECTIVES:
    FORMS[adjective.english] |= {*adjective.forms, *adjective.before}
for verb in VERBS:
    for form in (verb.base, verb.third, verb.ing, verb.past):
        FORMS[form] |= set(verb.forms)
THINGS = {form for noun in NOUNS.values() for form in (noun.english, noun.plural)}
QUALITIES = {adjective.english for adjective in ADJECTIVES} - THINGS
DEEDS = {form for verb in VERBS for form in (verb.base, verb.third, verb.ing, verb.past)} - THINGS - QUALITIES


def known_links(english: Sequence[str], spanish: Sequence[str]) -> set[tuple[int, int]]:
    """The links that the grammar's tables leave no doubt about: each word is the only translation of the other here."""
    pairs = [
        (e, s) for e, word in enumerate(english) for s, other in enumerate(spanish) if other in FORMS.get(word, ())
    ]
    lefts, rights = [e for e, _ in pairs], [s for _, s in pairs]
    return {(e, s) for e, s in pairs if lefts.count(e) == 1 and rights.count(s) == 1}


def known_relations(words: Sequence[str]) -> list[tuple[str, int, int]]:
    """Article and adjective belong to the noun behind them, which is the object of a verb right before them."""
    found = []
    for place, word in enumerate(words):
        if word not in THINGS:
            continue
        first = place
        while first and words[first - 1] in QUALITIES:
            first -= 1
            found.append(("adjective of noun", first, place))
        if first and words[first - 1] in DETERMINERS:
            first -= 1
            found.append(("determiner of noun", first, place))
        if first and words[first - 1] in DEEDS:
            found.append(("object of verb", place, first - 1))
    return found


def cut(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The words of a text in lower case, and where they stand."""
    found = list(WORD.finditer(text))
    return [match.group().lower() for match in found], [match.span() for match in found]


def spaced(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where words stand that have a space between them."""
    starts = [sum(len(word) + 1 for word in words[:number]) for number in range(len(words))]
    return [(start, start + len(word)) for start, word in zip(starts, words, strict=True)]


def looked(run: Run, english: str, spanish: str = "") -> Seen | None:
    """All attention while the model reads the English and is made to write the Spanish; None where it is too long for it."""
    known = run.known.tokenizer
    source, target = map(known.encode, (english, spanish))
    if max(len(source), len(target)) + 1 > run.model.config.length:
        return None
    return run.look(torch.tensor([[*source, known.end]]), None, torch.tensor([[known.start, *target]]))


def piece_words(run: Run, text: str, spans: Sequence[tuple[int, int]], more: int) -> list[int | None]:
    """The word of each piece, and None for what stands behind them."""
    pieces = [(piece.start, piece.end) for piece in run.known.tokenizer.pieces(text)]
    return [*words_of(pieces, spans), *[None] * more]


Case = tuple[str, list[tuple[int, int]], str, list[tuple[int, int]], set[tuple[int, int]], set[tuple[int, int]], bool]


def grammar_cases() -> Iterable[Case]:
    for source, target in embedded_texts("english_spanish")["test"]:
        (english, left), (spanish, right) = cut(source), cut(target)
        links = known_links(english, spanish)
        if links:
            yield source, left, target, right, links, links, True


def gold_cases(pairs: Iterable[LinkedPair]) -> Iterable[Case]:
    for pair in pairs:
        left, right = spaced(pair.source), spaced(pair.target)
        yield " ".join(pair.source), left, " ".join(pair.target), right, set(pair.sure), set(pair.possible), False


def alignment_table(run: Run, cases: Iterable[Case]) -> None:
    """The error of every layer's cross-attention. Where only some words have known links, only those Spanish words count."""
    counts: dict[str, list[LinkCounts]] = defaultdict(lambda: [LinkCounts(), LinkCounts()])
    skipped = used = links = 0
    for english, left, spanish, right, sure, possible, partly in cases:
        seen = looked(run, english, spanish)
        if seen is None:
            skipped += 1
            continue
        used, links = used + 1, links + len(sure)
        columns, rows = piece_words(run, english, left, 1), piece_words(run, spanish, right, 1)
        layers = {name: seen[name].weights()[0].mean(0) for name in seen.names if name.endswith("cross")}
        layers["all layers"] = torch.stack(list(layers.values())).mean(0)
        asked = {target for _, target in sure} if partly else set(range(len(right)))
        guesses = {"the diagonal": (diagonal(len(left), len(right)),) * 2}
        for name, weights in layers.items():
            between = between_words(weights, rows, columns, (len(right), len(left)))
            guesses[name] = (largest(between), mutual(between))
        for name, found in guesses.items():
            for kind, guess in enumerate(found):
                kept = {link for link in guess if link[1] in asked}
                counts[name][kind] = counts[name][kind].plus(kept, sure, possible)
    print(f"{used} pairs, {links} links" + (f"; {skipped} pairs are too long for the model" if skipped else "") + "\n")
    print("| cross-attention, mean of the heads | error, % | largest both ways, % |\n|---|---|---|")
    for name, (plain, both) in counts.items():
        print(f"| {name} | {plain.error():.1f} | {'-' if name == 'the diagonal' else f'{both.error():.1f}'} |")
    print(flush=True)


def relation_cases(run: Run, texts: Iterable[tuple[str, list[tuple[int, int]], dict]]) -> Iterable[RelatedWords]:
    for text, spans, relations in texts:
        seen = looked(run, text)
        if seen is not None and len(spans) > 1:
            words = piece_words(run, text, spans, 1)
            names = [name for name in seen.names if name.startswith("encoder")]
            yield RelatedWords(relations, {name: by_word(seen[name].weights()[0], words, len(spans)) for name in names})


def by_word(weights: Tensor, words: Sequence[int | None], count: int) -> Tensor:
    return torch.stack([between_words(head, words, words, (count, count)) for head in weights])


def relation_table(rows: Iterable[HeadRelation]) -> None:
    print("| relation | times | best head | right, % | best offset, % |\n|---|---|---|---|---|")
    for row in best_heads(rows):
        layer = row.stream.removeprefix("encoder.layers.").removesuffix(".self")
        base = "chance" if row.relation in ("previous", "next") else f"{row.offset:+d}"
        numbers = f"{100 * row.accuracy:.1f} | {100 * row.baseline:.1f} ({base})"
        print(f"| {row.relation} | {row.count} | layer {layer}, head {row.head} | {numbers} |")
    print(flush=True)


def grammar_texts() -> Iterable[tuple[str, list[tuple[int, int]], dict]]:
    for text, _ in embedded_texts("english_spanish")["test"]:
        words, spans = cut(text)
        marks = [place for place, word in enumerate(words) if not word[0].isalnum()]
        yield text, spans, relations_of(known_relations(words), len(words), marks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", default="")
    parser.add_argument("--links", default="")
    parser.add_argument("--ud", default="")
    parser.add_argument("--most-words", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = mirada.load(given.run) if given.run else mirada.train("translate", out=Path(folder) / "run")
        print(
            "Alignment error on the grammar's test sentences, over words whose translation its tables decide:", end=" "
        )
        alignment_table(run, grammar_cases())
        if given.links:
            place = Path(given.links)
            found = read_links(place / "dev.en", place / "dev.es", place / "dev.key")
            print("".join(f"{problem}\n" for problem in found.problems), end="")
            print("Alignment error on gold links, out of domain:", end=" ")
            alignment_table(run, gold_cases(record.value for record in found.records))
        print("Relations in the grammar's English test sentences, best of all encoder heads:\n")
        relation_table(head_relations(relation_cases(run, grammar_texts()), fewest=30))
        if given.ud:
            read = [record.value for record in read_conllu(given.ud).records]
            chosen = [sentence for sentence in read if 3 <= len(sentence.words) <= given.most_words]
            print(f"Relations in {len(chosen)} annotated sentences of 3 to {given.most_words} words, out of domain:\n")
            texts = ((sentence.text, list(sentence.spans), related(sentence)) for sentence in chosen)
            relation_table(head_relations(relation_cases(run, texts), fewest=100))


if __name__ == "__main__":
    main()

"""How tags say where a span begins and ends: BIO, IOB1, BIOES, IO, or plain tags of single words; and how spans are counted.

tags as they are written -> spans of words with a label -> the tags that a model learns: BIO, or plain ones
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

OUTSIDE = "O"
SCHEMES = ("bio", "iob1", "bioes", "io", "plain")
WRITTEN = {"bio": "BIO", "iob1": "IOB1", "bioes": "BIOES", "io": "labels without B- and I-", "plain": "a tag a word"}
PREFIXED = re.compile(r"(?s)([BIESLUM])-(.+)")
SAME = {"L": "E", "U": "S", "M": "I"}  # BILOU and BMES


class WordSpan(NamedTuple):
    """Words from `first` to `last` with a label."""

    first: int
    last: int
    label: str


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """The scheme of the tags of some sentences: one of `SCHEMES`.

    IOB1 begins a span with B- only where another one of its label stands right before it.

    >>> scheme_of([["B-PER", "I-PER", "O"]]), scheme_of([["I-PER", "I-PER", "O"]]), scheme_of([["S-PER", "O"]])
    ('bio', 'iob1', 'bioes')
    >>> scheme_of([["PER", "O"]]), scheme_of([["NOUN", "VERB"]])
    ('io', 'plain')
    """
    kinds, starts = set[str](), Counter[str]()
    for tags in sentences:
        before = OUTSIDE
        for tag in tags:
            prefix, label = _parts(tag)
            kinds.add(prefix if prefix or tag == OUTSIDE else "plain")
            after = _parts(before)[1] == label and before != OUTSIDE
            starts[f"{prefix} after" if after else f"{prefix} first"] += 1
            before = tag
    if "plain" in kinds:
        return "io" if "" in kinds else "plain"
    if kinds & {"E", "S"}:
        return "bioes"
    return "iob1" if starts["I first"] and not starts["B first"] else "bio"


def spans_of(tags: Sequence[str], scheme: str = "bio") -> list[WordSpan]:
    """The spans that tags describe, counted as CoNLL's evaluation does: I- after another label begins a span as well.

    >>> spans_of(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [WordSpan(first=0, last=1, label='PER'), WordSpan(first=3, last=3, label='LOC'), WordSpan(first=4, last=4, label='LOC')]
    >>> spans_of(["PER", "PER", "O"], "io"), spans_of(["DET"], "plain")
    ([WordSpan(first=0, last=1, label='PER')], [WordSpan(first=0, last=0, label='DET')])

    Tjong Kim Sang and De Meulder (2003), W03-0419: the script conlleval.
    """
    if scheme == "plain":
        return [WordSpan(place, place, tag) for place, tag in enumerate(tags)]
    spans, open_prefix = list[WordSpan](), ""
    for place, tag in enumerate(tags):
        prefix, label = ("I", tag) if scheme == "io" and tag != OUTSIDE else _parts(tag)
        if tag == OUTSIDE:
            open_prefix = ""
            continue
        prefix = prefix or "I"
        goes_on = open_prefix in ("B", "I") and prefix in ("I", "E") and spans[-1].label == label
        if goes_on:
            spans[-1] = spans[-1]._replace(last=place)
        else:
            spans.append(WordSpan(place, place, label))
        open_prefix = prefix
    return spans


def bio(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """The tags that are learned: BIO; plain tags stay as they are.

    >>> bio(["I-PER", "I-PER", "B-PER"], "iob1"), bio(["S-LOC", "O"], "bioes"), bio(["DET"], "plain")
    (('B-PER', 'I-PER', 'B-PER'), ('B-LOC', 'O'), ('DET',))
    """
    return tuple(tags) if scheme == "plain" else tags_of(spans_of(tags, scheme), len(tags))


def tags_of(spans: Iterable[WordSpan], count: int) -> tuple[str, ...]:
    """The tags of so many words with these spans, which do not overlap."""
    tags = [OUTSIDE] * count
    for first, last, label in spans:
        tags[first : last + 1] = [f"B-{label}", *[f"I-{label}"] * (last - first)]
    return tuple(tags)


def label_of(tag: str, plain: bool) -> str:
    """The label of a learned tag; none outside of spans."""
    return tag if plain else _parts(tag)[1]


def _parts(tag: str) -> tuple[str, str]:
    """The prefix of a tag (B, I, E, S or none) and its label.

    >>> _parts("B-PER"), _parts("U-LOC"), _parts("O"), _parts("NOUN")
    (('B', 'PER'), ('S', 'LOC'), ('', ''), ('', 'NOUN'))
    """
    found = PREFIXED.fullmatch(tag)
    if found is None:
        return "", "" if tag == OUTSIDE else tag
    return SAME.get(found[1], found[1]), found[2]


def span_metrics(
    given: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], scheme: str
) -> dict[str, float]:  # fmt: skip
    """F1, precision and recall of whole spans (the same words and the same label), and the share of right tags, in percent.

    precision = right spans / answered spans, recall = right spans / wanted spans, F1 = their harmonic mean

    Where every word is a span of its own, all of them are the share of right tags: only that comes back.

    >>> span_metrics([["B-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "B-LOC"]], "bio")
    {'f1': 50.0, 'precision': 50.0, 'recall': 50.0, 'accuracy': 66.66666666666667}
    """
    pairs = [(a, b) for row, right in zip(given, wanted, strict=True) for a, b in zip(row, right, strict=True)]
    accuracy = 100 * sum(a == b for a, b in pairs) / max(1, len(pairs))
    if scheme == "plain":
        return {"accuracy": accuracy}
    counts = Counter[str]()
    for each in label_counts(given, wanted, scheme).values():
        counts.update(each)
    return {**_scores(counts), "accuracy": accuracy}


def label_counts(
    given: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], scheme: str
) -> dict[str, Counter[str]]:  # fmt: skip
    """How many spans of every label are right, answered and wanted."""
    counts: dict[str, Counter[str]] = {}
    for row, right in zip(given, wanted, strict=True):
        ours, theirs = set(spans_of(row, scheme)), set(spans_of(right, scheme))
        for name, spans in (("answered", ours), ("wanted", theirs), ("right", ours & theirs)):
            for span in spans:
                counts.setdefault(span.label, Counter())[name] += 1
    return counts


def per_label(counts: Mapping[str, Counter[str]]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and the number of wanted spans of every label."""
    return {label: _scores(counts[label]) | {"records": counts[label]["wanted"]} for label in sorted(counts)}


def _scores(counts: Mapping[str, int]) -> dict[str, float]:
    """F1, precision and recall of some counts, in percent."""
    right, answered, wanted = counts.get("right", 0), counts.get("answered", 0), counts.get("wanted", 0)
    return {
        "f1": 200 * right / (answered + wanted) if answered + wanted else 0.0,
        "precision": 100 * right / answered if answered else 0.0,
        "recall": 100 * right / wanted if wanted else 0.0,
    }

"""The reviews: labels follow from rules written a second time here, and no bag of words finds them."""

import math
import re
from collections import Counter
from functools import cache

import pytest
from tools.corpora.sentiment import Labelled, Sentiment, sentiment

from tools.corpora import sentiment_words as lexicon


@cache
def made(seed: int) -> Sentiment:
    return sentiment(seed)


@pytest.fixture(scope="module")
def data() -> Sentiment:
    return made(0)


def tokens(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:'t)?", text.lower())


def signs() -> dict[str, int]:
    """Every judging phrase with +1 or -1."""
    found = {}
    for place, sign in ((0, 1), (1, -1)):
        phrases = " ".join([*(pair[place] for pair in lexicon.ADJECTIVES.values()), lexicon.ANYTHING[place]]).split()
        phrases += lexicon.NOUNS[place].split() + list(lexicon.FEELINGS[place])
        phrases += [form for verb in lexicon.VERBS[place] for form in verb.split(":")]
        phrases += [mood.split()[0] for mood in lexicon.MOODS[place]]
        found |= dict.fromkeys((phrase.split()[0] for phrase in phrases), sign)
    return found


SIGNS = signs()
NEGATORS = re.compile(
    r"\b(not|nobody|no|hardly|none|few|far from|anything but|by no means|neither|nothing|cannot)\b|n't\b"
)


def deciding(text: str) -> str:
    """The clause that decides."""
    clause = re.split(r"(?<=\.) ", text)[-1].lower()
    clause = re.sub(r"^(although|even though|despite) .*?, (?=[a-z])", "", clause)
    clause = re.sub(r",? (although|even though|despite) .*", "", clause)
    clause = clause.split("; however, ")[-1].split(", yet ")[-1]
    return clause


def judged(clause: str) -> int:
    """+1 or -1 by the judging word and the number of negations before it, or in "but the b was (not)"."""
    short = re.search(r"^(.*), but the [\w ]+ (?:was|were)( not)?[.]$", clause)
    if short:  # "the a was not good, but the b was": the word is in the first clause, the sign in the second
        word = next(word for word in tokens(short[1]) if word in SIGNS)
        return SIGNS[word] * (-1 if short[2] else 1)
    if "not only" in clause:
        return SIGNS[next(word for word in tokens(clause) if word in SIGNS)]
    clause = re.split(r"(?<!anything)(?:,)? but ", clause)[-1]
    closing = re.search(r"recommend this|hesitate|gladly|again", clause)
    if closing:
        good = ("recommend this" in clause) ^ ("hesitate" in clause) ^ bool(re.search(r"\b(not|cannot)\b", clause))
        if "again" in clause:
            good = "gladly" in clause or "cannot wait" in clause
        return 1 if good or clause.rstrip(".").endswith("enough") else -1
    clause = re.sub(r"could not have been more|have never \w+(?: \w+)? a more", "", clause)
    wish = re.search(r"could have been more|wished that", clause)
    word = next(word for word in tokens(clause) if word in SIGNS)
    return SIGNS[word] * (-1 if NEGATORS.search(clause) or wish else 1)


def assert_labels_follow_from_rules(reviews: tuple[Labelled, ...]) -> None:
    wrong = [review for review in reviews if (judged(deciding(review.text)) > 0) != (review.label == "positive")]
    assert wrong == []


def test_the_rules_of_this_test_read_sentences_written_by_hand() -> None:
    for text, sign in {
        "The food was not good.": -1,
        "The soup was not bad at all.": 1,
        "The acting was poor, but the plot was wonderful.": 1,
        "Although the music was great, the film was boring.": -1,
        "The film was boring, although the music was great.": -1,
        "Nobody liked the beds.": -1,
        "The plot was far from boring.": 1,
        "The room was good, but the staff was not.": -1,
        "The staff was terrible; however, I would not hesitate to recommend this hotel.": 1,
    }.items():
        assert judged(deciding(text)) == sign, text


@pytest.mark.parametrize("seed", [0, 1])
def test_labels_follow_from_rules(seed: int) -> None:
    data = made(seed)
    for split in (data.train, data.valid, data.test):
        assert_labels_follow_from_rules(split)


def test_sizes_and_balance(data: Sentiment) -> None:
    assert [len(split) for split in (data.train, data.valid, data.test)] == [8000, 500, 1000]
    for split in (data.train, data.valid, data.test):
        positive = sum(review.label == "positive" for review in split)
        assert {review.label for review in split} == {"positive", "negative"}
        assert abs(positive / len(split) - 0.5) < 0.02


def test_a_seed_is_a_data_set(data: Sentiment) -> None:
    assert sentiment(0) == data
    assert made(1).train[:20] != data.train[:20]


def test_no_text_comes_twice(data: Sentiment) -> None:
    texts = [review.text for review in data.train + data.valid + data.test]
    assert len(set(texts)) == len(texts)


def test_the_test_split_has_pairs_unseen_in_training(data: Sentiment) -> None:
    simple = re.compile(r"The ([\w ]+) (?:was|were) (\w+)\.")
    pairs = [
        {found.groups() for review in split if (found := simple.fullmatch(review.text))}
        for split in (data.train, data.test)
    ]
    assert len(pairs[1]) > 10
    assert pairs[0].isdisjoint(pairs[1])
    words = [{word for review in split for word in tokens(review.text)} for split in (data.train, data.test)]
    assert words[1] <= words[0]


def test_judging_words_are_about_as_frequent_in_both_labels(data: Sentiment) -> None:
    counts = {label: Counter[str]() for label in ("positive", "negative")}
    for review in data.train:
        counts[review.label].update(tokens(review.text))
    often = [word for word in SIGNS if counts["positive"][word] + counts["negative"][word] >= 100]
    assert len(often) > 30
    shares = {word: counts["positive"][word] / (counts["positive"][word] + counts["negative"][word]) for word in often}
    assert {word: share for word, share in shares.items() if not 0.3 < share < 0.7} == {}


def naive_bayes(train: tuple[Labelled, ...], test: tuple[Labelled, ...]) -> float:
    """The accuracy of counting words: argmax over labels of sum log p(word | label), add-one smoothed."""
    counts = {label: Counter[str]() for label in ("positive", "negative")}
    for review in train:
        counts[review.label].update(tokens(review.text))
    vocab = len(set().union(*counts.values()))
    totals = {label: count.total() + vocab for label, count in counts.items()}

    def score(label: str, words: list[str]) -> float:
        return sum(math.log((counts[label][word] + 1) / totals[label]) for word in words)

    hits = sum(max(counts, key=lambda label: score(label, tokens(r.text))) == r.label for r in test)
    return hits / len(test)


def test_counting_words_does_not_suffice(data: Sentiment) -> None:
    assert naive_bayes(data.train, data.test) < 0.6


def test_counting_words_would_suffice_for_plain_sentences() -> None:
    words = {"good": "positive", "great": "positive", "bad": "negative", "awful": "negative"}
    plain = tuple(Labelled(f"The {noun} was {word}.", words[word]) for noun in ("food", "room") for word in words)
    assert naive_bayes(plain, plain) == 1.0


@pytest.mark.parametrize("seed", [0, 1])
def test_sentences_are_well_formed(seed: int) -> None:
    data = made(seed)
    plurals = "|".join(noun for topic in lexicon.TOPICS for noun, _ in topic.aspects if noun.endswith("s"))
    bad = re.compile(
        rf"[{{}}]|  |\b[Aa] [aeio]|\b[Aa]n [^aeiou]|\bThe ({plurals}) was\b|\bI were\b|\bwe was\b|\bvery (great|excellent)"
        r"|\b(\w+) \2\b"
    )
    for review in data.train + data.valid + data.test:
        assert not bad.search(review.text), review.text
        assert re.fullmatch(r"([A-Z][^.!]*\. )?[A-Z][^.!]*[.!]", review.text), review.text
        assert 4 <= len(review.text.split()) <= 30, review.text

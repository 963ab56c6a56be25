"""The laws of the English-Spanish data set: one translation, agreement, and splits that ask for new combinations."""

import re
from collections import Counter, defaultdict
from itertools import combinations, pairwise

import pytest
from tools.corpora.spanish.adjectives import ADJECTIVES
from tools.corpora.spanish.clauses import Draft, Tail, clause
from tools.corpora.spanish.frames import SENSES, framed
from tools.corpora.spanish.grammar import PATTERNS, Grammar, Pair, english_spanish, finished
from tools.corpora.spanish.holdout import Holdout, tokens
from tools.corpora.spanish.nouns import NOUNS
from tools.corpora.spanish.phrases import ONE, phrase
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.verbs import VERBS

# the sentences of the lectures
LECTURES = {
    "I am writing a letter to her": "Le estoy escribiendo una carta a ella",
    "the first letter of the word": "la primera letra de la palabra",
    "I want to go to the cinema": "Quiero ir al cine",
    "I like nachos": "Me gustan los nachos",
}


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return english_spanish()


@pytest.fixture(scope="module")
def everything(grammar: Grammar) -> list[Pair]:
    return [*grammar.train, *grammar.valid, *grammar.test, *grammar.context]


def words(text: str) -> list[str]:
    return tokens(text.lower())


def counted(texts: list[str]) -> Counter[str]:
    return Counter(words("\n".join(texts)))


# the splits


def test_the_sizes(grammar: Grammar) -> None:
    assert 38_000 < len(grammar.train) < 44_000
    assert (len(grammar.valid), len(grammar.test)) == (500, 1000)
    assert 280 < len(grammar.context) < 340


def test_the_seed_is_all_the_chance_there_is(grammar: Grammar) -> None:
    assert english_spanish(0) == grammar
    other = english_spanish(1)
    assert other.train != grammar.train
    assert len(other.valid) == 500
    assert len(other.test) == 1000


@pytest.mark.parametrize("language", ["english", "spanish"])
def test_no_sentence_occurs_twice_in_any_form(everything: list[Pair], language: str) -> None:
    plain = [getattr(pair, language).rstrip(".").lower() for pair in everything]
    assert len(set(plain)) == len(plain)


def test_the_translation_is_a_function_in_both_directions() -> None:
    picker, there, back = Picker(7), defaultdict(set), defaultdict(set)
    drafts = [framed(picker, sense) for sense in SENSES for _ in range(400)]
    drafts += [pattern(picker) for pattern, wanted in PATTERNS.items() for _ in range(wanted)]
    for draft in drafts:
        pair = finished(draft)
        there[pair.english].add(pair.spanish)
        back[pair.spanish].add(pair.english)
    assert [english for english, ways in there.items() if len(ways) > 1] == []
    assert sum(len(ways) > 1 for ways in back.values()) < 0.001 * len(back)


def has_new_pair(text: str, sentences: dict[str, set[int]]) -> bool:
    """Whether two of its words never meet in a sentence."""
    return any(sentences[a].isdisjoint(sentences[b]) for a, b in combinations(set(words(text)), 2))


def test_every_test_sentence_brings_together_words_that_never_meet_in_train(grammar: Grammar) -> None:
    english, spanish = defaultdict(set), defaultdict(set)
    for number, pair in enumerate(grammar.train):
        for word in words(pair.english):
            english[word].add(number)
        for word in words(pair.spanish):
            spanish[word].add(number)
    assert [pair for pair in grammar.test if not has_new_pair(pair.english, english)] == []
    # two English verbs may be one in Spanish, so that their pairs meet there
    assert sum(has_new_pair(pair.spanish, spanish) for pair in grammar.test) > 0.97 * len(grammar.test)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_splits_follow_the_held_out_pairs(grammar: Grammar, split: str) -> None:
    texts = [pair.english[0].lower() + pair.english[1:] for pair in getattr(grammar, split)]
    assert set(map(Holdout(0).split, texts)) == {split}


def test_every_word_of_the_test_is_known_from_train(grammar: Grammar) -> None:
    for language in ("english", "spanish"):
        seen = Counter(tokens("\n".join(getattr(pair, language) for pair in grammar.train)))
        wanted = set(tokens("\n".join(getattr(pair, language) for pair in grammar.test + grammar.valid)))
        assert min(seen[word] for word in wanted) >= 20


def test_the_held_out_share_does_not_depend_on_the_seed() -> None:
    first, second = Holdout(0).held, Holdout(1).held
    assert first != second
    for held in (first, second):
        assert 1.3 < Counter(held.values())["test"] / Counter(held.values())["valid"] < 2.1


# small and short enough to be learned in two minutes


def test_the_vocabulary_is_small_and_no_word_is_rare(grammar: Grammar) -> None:
    english = counted([pair.english for pair in grammar.train])
    spanish = counted([pair.spanish for pair in grammar.train])
    assert 500 <= len(english) <= 900
    assert 500 <= len(spanish) <= 900
    assert min(english.values()) >= 10
    assert min(spanish.values()) >= 10
    assert sum(times < 20 for times in spanish.values()) < 0.02 * len(spanish)


def test_sentences_are_short(everything: list[Pair]) -> None:
    lengths = [len(tokens(pair.english)) for pair in everything]
    assert max(lengths) <= 14
    assert max(len(tokens(pair.spanish)) for pair in everything) <= 14
    assert 6 <= sum(lengths) / len(lengths) <= 7.5


# how the text is written


def test_both_sides_end_alike(everything: list[Pair]) -> None:
    for pair in everything:
        ends = [text[-1] if text[-1] in ".?" else "" for text in (pair.english, pair.spanish)]
        assert ends[0] == ends[1], pair
        assert pair.spanish.count("?") == pair.spanish.count("¿") == pair.english.count("?"), pair


def test_sentences_begin_with_a_capital_letter(everything: list[Pair]) -> None:
    for pair in everything:
        if pair.english[-1] in ".?":
            assert re.match(r"[A-Z]", pair.english), pair
            assert re.match(r"¿?[A-ZÁÉÍÓÚ]", pair.spanish), pair


def test_one_statement_in_five_has_no_period(grammar: Grammar) -> None:
    statements = [pair.english for pair in grammar.train if pair.english[0].isupper() and pair.english[-1] != "?"]
    assert 0.15 < sum(text[-1] != "." for text in statements) / len(statements) < 0.25


def test_articles_are_contracted_and_y_is_changed(everything: list[Pair]) -> None:
    wrong = re.compile(r"\b(a el|de el|la agua|una agua|y i\w+|un (mano|foto|flor)|la (mapa|problema|poema))\b", re.I)
    assert [pair for pair in everything if wrong.search(pair.spanish)] == []
    assert [pair for pair in everything if re.search(r"\b(a [aeio]|an [^aeiou])", pair.english, re.I)] == []


# agreement, read back from the text

ARTICLES = {
    "el": "ms", "la": "fs", "los": "mp", "las": "fp", "un": "ms", "una": "fs", "unos": "mp", "unas": "fp",
    "este": "ms", "esta": "fs", "estos": "mp", "estas": "fp", "ese": "ms", "esa": "fs", "esos": "mp", "esas": "fp",
    "nuestro": "ms", "nuestra": "fs", "nuestros": "mp", "nuestras": "fp", "muchos": "mp", "muchas": "fp",
}  # fmt: skip
GENDERS = {noun.spanish: f"{noun.gender}s" for noun in NOUNS.values()}
GENDERS |= {noun.spanish_plural: f"{noun.gender}p" for noun in NOUNS.values()}
ENDINGS: dict[str, set[str]] = defaultdict(set)
for adjective in ADJECTIVES:
    for form, ending in zip(adjective.forms, ("ms", "fs", "mp", "fp"), strict=True):
        ENDINGS[form].add(ending)


def test_articles_agree_with_nouns(everything: list[Pair]) -> None:
    checked = 0
    for pair in everything:
        for first, second in pairwise(words(pair.spanish)):
            if first in ARTICLES and second in GENDERS and (first, second) != ("el", "agua"):
                assert ARTICLES[first] == GENDERS[second], pair
                checked += 1
    assert checked > 20_000


def test_adjectives_agree_with_nouns(everything: list[Pair]) -> None:
    checked = 0
    for pair in everything:
        for first, second in pairwise(words(pair.spanish)):
            if first in GENDERS and second in ENDINGS and f"{second} claro" not in pair.spanish:
                assert GENDERS[first] in ENDINGS[second], pair
                checked += 1
    assert checked > 8_000


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("write", "escribir escribiendo escribo escribes escribe escribimos escriben escribí escribiste escribió"),
        ("read", "leer leyendo leo lees lee leemos leen leí leíste leyó leímos leyeron"),
        ("sleep", "dormir durmiendo duermo duermes duerme dormimos duermen"),
        ("have", "tener teniendo tengo tienes tiene tenemos tienen"),
        ("know/conocer", "conocer conociendo conozco conoces conoce conocemos conocen"),
        ("play/jugar", "jugar jugando juego juegas juega jugamos juegan"),
        ("send", "enviar enviando envío envías envía enviamos envían"),
        ("go", "ir yendo voy vas va vamos van fui fuiste fue fuimos fueron"),
    ],
)
def test_verbs_by_hand(verb: str, forms: str) -> None:
    assert " ".join(VERBS[verb].forms).startswith(forms)


@pytest.mark.parametrize(
    ("mood", "how", "english", "spanish"),
    [
        ("s", "said", "she reads it", "ella lo lee"),
        ("s", "never", "she never reads it", "ella nunca lo lee"),
        ("g", "denied", "she is not reading it", "ella no lo está leyendo"),
        ("f", "asked", "is she going to read it", "ella lo va a leer"),
        ("w", "said", "she wants to read it", "ella lo quiere leer"),
        ("c", "denied", "she cannot read it", "ella no lo puede leer"),
        ("h", "asked", "does she have to read it", "ella lo tiene que leer"),
    ],
)
def test_clauses_by_hand(mood: str, how: str, english: str, spanish: str) -> None:
    draft = clause(Picker(0), ONE["she"], VERBS["read"], Tail("it", "", "lo", timeless=True), mood, how)
    assert draft[:2] == (english, spanish)


def test_where_one_spelling_is_present_and_past_the_time_is_said() -> None:
    bought = clause(Picker(0), ONE["we"], VERBS["buy"], Tail("bread", "pan", timeless=True), "p", "said")
    assert re.search("ayer|anoche|la semana pasada", bought.spanish)
    read = clause(Picker(0), ONE["I"], VERBS["read"], Tail("it", "", "lo", timeless=True), "p", "said")
    assert re.search("yesterday|last night|last week", read.english)


@pytest.mark.parametrize(
    ("noun", "adjective", "determiner", "plural", "wanted"),
    [
        ("house", "red", "the", False, ("the red house", "la casa roja")),
        ("problem", "easy", "a", True, ("some easy problems", "unos problemas fáciles")),
        ("film", "French", "this", False, ("this French film", "esta película francesa")),
        ("book", "good", "a", False, ("a good book", "un buen libro")),
        ("city", "great", "a", False, ("a great city", "una gran ciudad")),
        ("egg", "expensive", "a", False, ("an expensive egg", "un huevo caro")),
        ("water", "cold", "the", False, ("the cold water", "el agua fría")),
        ("water", "cold", "this", False, ("this cold water", "esta agua fría")),
        ("woman", "young", "two", True, ("two young women", "dos mujeres jóvenes")),
    ],
)
def test_phrases_by_hand(noun: str, adjective: str, determiner: str, plural: bool, wanted: tuple[str, str]) -> None:
    word = next(word for word in ADJECTIVES if word.english == adjective)
    assert phrase(NOUNS[noun], determiner, plural, word)[:2] == wanted


def test_finishing_by_hand() -> None:
    two = finished(Draft("where is the hat? I need it", "¿dónde está el sombrero? Lo necesito", "."))
    assert two.spanish.startswith("¿Dónde está el sombrero? Lo necesito")
    assert finished(Draft("the cat of the boy", "el gato de el niño", "")) == Pair(
        "the cat of the boy", "el gato del niño"
    )


# words that need context


def test_the_lectures_sentences_are_made_of_what_train_shows(grammar: Grammar) -> None:
    english = Counter(pair for text in grammar.train for pair in pairwise(words(text.english)))
    spanish = Counter(pair for text in grammar.train for pair in pairwise(words(text.spanish)))
    for there, back in LECTURES.items():
        assert min(english[pair] for pair in pairwise(words(there))) >= 10, there
        assert min(spanish[pair] for pair in pairwise(words(back))) >= 10, back


def test_no_pair_of_words_in_the_lectures_sentences_is_held_out() -> None:
    for seed in range(5):
        assert {Holdout(seed).split(english) for english in LECTURES} == {"train"}


def test_context_sentences_have_the_wanted_word_and_no_wrong_one(grammar: Grammar) -> None:
    for pair in grammar.context:
        found = tokens(pair.spanish)
        assert pair.wanted in found, pair
        assert pair.wrong, pair
        assert not set(pair.wrong) & set(words(pair.spanish)), pair
        assert any(word.startswith(pair.word) or word == "is" for word in words(pair.english)), pair


def test_every_meaning_is_tested_and_trained_hundreds_of_times(grammar: Grammar) -> None:
    tested = Counter((pair.word, pair.wanted) for pair in grammar.context)
    train = [(set(words(pair.english)), set(words(pair.spanish))) for pair in grammar.train]
    vocabulary = set().union(*(english for english, _ in train))
    by_word: dict[str, int] = Counter(sense.word for sense in SENSES)
    assert len(by_word) >= 10
    assert min(by_word.values()) >= 2
    for sense in SENSES:
        assert sum(tested[sense.word, form] for form in sense.forms) == 8
        forms = {word for word in vocabulary if word.startswith(sense.word)}
        assert sum(bool(forms & english) and bool(spanish & set(sense.forms)) for english, spanish in train) >= 200

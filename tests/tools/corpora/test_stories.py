"""The stories: answers follow from rules written a second time here, and the last sentence does not give them away."""

import re
from collections import Counter
from functools import cache

import pytest
from tools.corpora.stories import SIZES, Stories, StoryAsked, stories
from tools.corpora.stories_words import ENGLISH, SPANISH, StoryWords


@cache
def made(seed: int) -> Stories:
    return stories(seed)


@pytest.fixture(scope="module")
def data() -> Stories:
    return made(0)


@pytest.fixture(scope="module")
def everything(data: Stories) -> list[StoryAsked]:
    return [*data.train, *data.valid, *data.test]


def answer(asked: StoryAsked) -> str:
    return asked.story[slice(*asked.answer)] if asked.answer else ""


def is_spanish(asked: StoryAsked) -> bool:
    return asked.question.startswith("¿")


# The rules, a second time. Sentences are understood by their verbs, without looking at how they were made.

VERBS = {
    "move": r"(\w+) (?:went|walked|drove|returned) to the (\w+)(?: because (.+)| (.+))?",
    "take": r"(\w+) (?:picked up|found|took) the (\w+)",
    "give": r"(\w+) (?:gave|handed) the (\w+) to (\w+)",
    "give to": r"(\w+) gave (\w+) the (\w+)",
    "leave": r"(\w+) (?:left|put down) the (\w+) in the (\w+)",
    "call": r"(\w+) (?:called|phoned) (\w+)(?: (.+))?",
}


def events(story: str) -> list[tuple[str, ...]]:
    """What happened in an English story, names in the place of pronouns."""
    found: list[tuple[str, ...]] = []
    hero = ""
    for sentence in re.split(r"(?<=\.) ", story):
        text = re.sub(r"^(Then|Later) ", "", sentence.rstrip("."))
        for kind, pattern in VERBS.items():
            if match := re.fullmatch(pattern, text):
                who, *rest = [part or "" for part in match.groups()]
                who = hero if who.lower() in ("she", "he") else who
                if kind == "give to":
                    kind, rest = "give", rest[::-1]
                found.append((kind, who, *rest))
                hero = who
                break
        else:
            assert text in ENGLISH.weather, text
    return found


def replied(story: str, question: str) -> str:
    """The answer to an English question; "" if the story has none."""
    happened = events(story)
    place: dict[str, list[str]] = {}
    holder: dict[str, str] = {}
    left: dict[str, str] = {}
    for kind, who, *rest in happened:
        if kind == "move":
            place.setdefault(who, []).append(rest[0])
        elif kind == "take":
            holder[rest[0]] = who
        elif kind == "give":
            holder[rest[0]] = rest[1]
        elif kind == "leave":
            left[rest[0]] = rest[1]
            del holder[rest[0]]

    def said(pattern: str) -> tuple[str, ...]:
        match = re.fullmatch(pattern, question)
        return match.groups() if match else ()

    def only(kind: str, slot: int, **given: str) -> str:
        """One slot (0: who) of the events of a kind in which the others are as given."""
        found = [e[1:] for e in happened if e[0] == kind and all(e[1 + int(n[1:])] == v for n, v in given.items())]
        assert len(found) < 2, (story, question)
        return found[0][slot] if found else ""

    if names := said(r"Where is (?:the (\w+)|(\w+?))(?: now)?\?"):
        thing, who = names
        if who:
            return place.get(who, [""])[-1]
        return place.get(holder[thing], [""])[-1] if thing in holder else left.get(thing, "")
    if names := said(r"Where was (\w+) before the (\w+)\?"):
        been = place[names[0]]
        return been[been.index(names[1]) - 1]
    if names := said(r"Who has (?:got )?the (\w+)(?: now)?\?"):
        return holder.get(names[0], "")
    if names := said(r"What did (\w+) give to (\w+)\?"):
        return only("give", 1, s0=names[0], s2=names[1])
    if names := said(r"What did (\w+) get from (\w+)\?"):
        return only("give", 1, s0=names[1], s2=names[0])
    if names := said(r"Who gave the (\w+) to (\w+)\?"):
        return only("give", 0, s1=names[0], s2=names[1])
    if names := said(r"From whom did (\w+) get the (\w+)\?"):
        return only("give", 0, s1=names[1], s2=names[0])
    if names := said(r"(?:Who did (\w+) give the (\w+) to|To whom did (\w+) give the (\w+))\?"):
        who, thing = [name for name in names if name]
        return only("give", 2, s0=who, s1=thing)
    if names := said(r"(?:When|Why) did (\w+) go to the (\w+)\?"):
        return only("move", 3 if question.startswith("When") else 2, s0=names[0], s1=names[1])
    if names := said(r"(?:Who did (\w+) call|Who was called by (\w+))\?"):
        return only("call", 1, s0=names[0] or names[1])
    if names := said(r"Who called (\w+)\?"):
        return only("call", 0, s1=names[0])
    names = said(r"When did (\w+) call (\w+)\?")
    assert names, question
    return only("call", 2, s0=names[0], s1=names[1])


def test_answers_follow_from_the_rules(everything: list[StoryAsked]) -> None:
    english = [asked for asked in everything if not is_spanish(asked)]
    assert len(english) > 6000
    wrong = [(asked, replied(asked.story, asked.question)) for asked in english
             if replied(asked.story, asked.question) != answer(asked)]  # fmt: skip
    assert wrong == []


def test_a_story_by_hand() -> None:
    story = (
        "Ana went to the park on Monday. She took the key. Then Ana gave Luis the key. The sun was shining. "
        "Luis drove to the school because he was cold. Eva phoned Ana. Ana returned to the museum."
    )
    asked = {
        "Where is Ana?": "museum", "Where was Ana before the museum?": "park", "Who has the key?": "Luis",
        "Where is the key?": "school", "When did Ana go to the park?": "on Monday", "Where is Eva?": "",
        "Why did Luis go to the school?": "he was cold", "Who called Ana?": "Eva", "What did Ana give to Luis?": "key",
        "When did Ana go to the museum?": "",
    }  # fmt: skip
    assert {question: replied(story, question) for question in asked} == asked


# The splits


def test_sizes_and_languages(data: Stories, everything: list[StoryAsked]) -> None:
    assert tuple(len(split) for split in (data.train, data.valid, data.test)) == SIZES
    share = sum(map(is_spanish, everything)) / len(everything)
    assert 0.45 < share < 0.55
    for asked in everything[:500]:
        words = SPANISH if is_spanish(asked) else ENGLISH
        assert any(name in asked.story for name in words.people)


def test_it_is_a_function_of_the_seed(data: Stories) -> None:
    assert stories(0) == data
    assert made(1).train[:50] != data.train[:50]


def test_no_story_is_in_two_splits(data: Stories) -> None:
    train, valid, test = ({asked.story for asked in split} for split in (data.train, data.valid, data.test))
    assert train.isdisjoint(valid)
    assert train.isdisjoint(test)
    assert valid.isdisjoint(test)


def asked_about(asked: StoryAsked, words: StoryWords) -> str:
    """The first person or thing that a question names."""
    things = [thing.split()[1] for thing in words.things]
    found = [word for word in re.findall(r"\w+", asked.question) if word in words.people or word in things]
    return found[0]


def test_the_test_asks_for_pairs_that_are_new(data: Stories) -> None:
    """Nobody can learn by heart that Ana is in the park: where the test's Ana is, no Ana of the others was asked to be."""

    def pairs(split: tuple[StoryAsked, ...]) -> set[tuple[str, str]]:
        simple = [asked for asked in split if asked.answer and asked.question.startswith(("Where is", "Who has"))]
        return {(asked_about(asked, ENGLISH), answer(asked)) for asked in simple}

    assert len(pairs(data.test)) > 20
    assert pairs(data.test).isdisjoint(pairs(data.train) | pairs(data.valid))


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_some_questions_have_no_answer(data: Stories, split: str) -> None:
    share = sum(asked.answer is None for asked in getattr(data, split)) / len(getattr(data, split))
    assert 0.07 < share < 0.14


# What must be read


def test_the_last_sentence_does_not_have_the_answer(everything: list[StoryAsked]) -> None:
    inside = [asked.answer[0] > asked.story.rstrip(".").rfind(". ") for asked in everything if asked.answer]
    assert sum(inside) / len(inside) < 0.25


def test_other_words_of_the_same_kind_stand_in_the_story(everything: list[StoryAsked]) -> None:
    """Whoever only knows that a place is wanted would have to guess."""
    kinds = [
        [noun.split()[1] for noun in group] for words in (ENGLISH, SPANISH) for group in (words.places, words.things)
    ]
    kinds += [list(ENGLISH.people), list(SPANISH.people)]
    rivals = []
    for asked in everything[:3000]:
        kind = next((kind for kind in kinds if answer(asked) in kind), None)
        if kind:
            rivals.append(len({word for word in re.findall(r"\w+", asked.story) if word in kind}))
    assert len(rivals) > 2000
    assert sum(count > 1 for count in rivals) / len(rivals) > 0.8


def test_every_kind_of_question_is_asked(everything: list[StoryAsked]) -> None:
    beginnings = Counter(asked.question.split()[0] for asked in everything)
    assert set(beginnings) == {
        "Where", "Who", "What", "When", "Why", "From", "To", "¿Dónde", "¿Quién", "¿Qué", "¿Cuándo", "¿Por", "¿De", "¿A"
    }  # fmt: skip
    assert min(beginnings.values()) > 100


@pytest.mark.parametrize("words", [ENGLISH, SPANISH], ids=["english", "spanish"])
def test_every_language_has_the_same_events_and_questions(words: StoryWords) -> None:
    assert set(words.events) == set(ENGLISH.events)
    assert set(words.questions) == set(ENGLISH.questions)
    assert not set(words.women) & set(words.men)
    assert all(noun.split()[0] in words.before["the"] for noun in (*words.places, *words.things))


def test_articles_melt_in_spanish() -> None:
    text, spans = SPANISH.fill("¿Dónde estaba {who} antes {of:place}?", {"who": "Ana", "place": "el cine"})
    assert text == "¿Dónde estaba Ana antes del cine?"
    assert text[slice(*spans["place"])] == "cine"
    assert SPANISH.fill("{who} fue {to:place}", {"who": "Luis", "place": "el parque"})[0] == "Luis fue al parque"

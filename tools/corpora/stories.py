"""Short stories with questions whose answers stand in them, in English and Spanish."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from tools.corpora.stories_told import StoryQuestion, questions_about, tell_story
from tools.corpora.stories_words import ENGLISH, SPANISH

SIZES = (12000, 600, 1200)
HELD_OUT = 0.1  # share of the pairs (what is asked about, answer) that only the test split has
UNANSWERABLE = 0.1  # share of the questions that the story does not answer
ASKED = 2  # questions about a story


@dataclass(frozen=True)
class StoryAsked:
    """A story, a question about it, and where the answer stands in its characters; None: nowhere."""

    story: str
    question: str
    answer: tuple[int, int] | None


@dataclass(frozen=True)
class Stories:
    """No story is in two splits; every question of `test` that has an answer asks for a pair that is new to the others."""

    train: tuple[StoryAsked, ...]
    valid: tuple[StoryAsked, ...]
    test: tuple[StoryAsked, ...]


def stories(seed: int = 0) -> Stories:
    """People go to places, take things, give them to each other and leave them somewhere: who has what, and who is where?

    What counts is the last sentence about someone or something, which is seldom the last of the story; the others are about
    the same people, places and things. Some questions have no answer: nobody has the key that was left in the garden.

    >>> data = stories()
    >>> len(data.train), len(data.valid), len(data.test)
    (12000, 600, 1200)
    >>> one = data.test[2]
    >>> one.story[:110]
    'Emma walked to the bakery because she wanted to rest. She walked to the market. Emma walked to the bakery. Lou'
    >>> one.question, one.story[slice(*one.answer)]
    ('Where is Emma now?', 'bakery')
    """
    rng = Random(seed)
    rare: dict[tuple[str, str], bool] = {}
    taken: set[str] = set()
    train, valid = (list(islice(_drawn(rng, taken, rare, test=False), size)) for size in SIZES[:2])
    test = list(islice(_drawn(rng, taken, rare, test=True), SIZES[2]))
    for split in (train, valid, test):
        rng.shuffle(split)
    return Stories(tuple(train), tuple(valid), tuple(test))


def _drawn(
    rng: Random, taken: set[str], rare: dict[tuple[str, str], bool], test: bool
) -> Iterator[StoryAsked]:  # fmt: skip
    """New stories with questions, in both languages by turns; adds the stories to `taken`."""

    def fits(question: StoryQuestion, text: str) -> bool:
        if (question.answer is None) != unanswerable:
            return False
        pair = (question.about, text[slice(*question.answer)] if question.answer else "")
        if pair not in rare:
            rare[pair] = rng.random() < HELD_OUT
        return unanswerable or rare[pair] == test

    unanswerable = rng.random() < UNANSWERABLE
    for words in cycle((ENGLISH, SPANISH)):
        story = tell_story(words, rng)
        if story.text in taken:
            continue
        taken.add(story.text)
        found, kinds = list(questions_about(story)), set[str]()
        rng.shuffle(found)
        for question in found:
            if len(kinds) < ASKED and question.kind not in kinds and fits(question, story.text):
                asked, _ = words.fill(rng.choice(words.questions[question.kind]), question.slots)
                yield StoryAsked(story.text, asked, question.answer)
                kinds.add(question.kind)
                unanswerable = rng.random() < UNANSWERABLE

"""Two-sentence texts in Spanish and English in which the place decides the word."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tools.corpora import places_english, places_spanish
from tools.corpora.places_story import Story

SIZES = (12000, 500, 1000)


@dataclass(frozen=True)
class Text:
    """Two sentences; the second follows from the first."""

    first: str
    second: str


@dataclass(frozen=True)
class PlaceTexts:
    """No text is in two splits, and neither is a combination of who goes where for what."""

    train: tuple[Text, ...]
    valid: tuple[Text, ...]
    test: tuple[Text, ...]


def places(seed: int = 0) -> PlaceTexts:
    """Who goes where for what, and what the same people do there next: half in Spanish, half in English.

    The place decides what is seen, bought or read there ("Ana va al cine a ver una nueva película", but at the museum
    "una nueva exposición" and downtown "una nueva tienda"). The second sentence names something of the same place and
    keeps person, number and tense, so a second sentence taken from another text can be told.

    >>> data = places()
    >>> len(data.train), len(data.valid), len(data.test)
    (12000, 500, 1000)
    >>> data.train[0].first
    'Pedro sube al autobús y va al cine a ver una comedia.'
    >>> data.train[0].second
    'Primero compra palomitas y después comenta la escena final.'
    """
    train, valid, test = (tuple(Text(story.first, story.second) for story in split) for split in splits(seed))
    return PlaceTexts(train, valid, test)


def splits(seed: int) -> tuple[list[Story], list[Story], list[Story]]:
    """The stories behind train, valid and test, shuffled."""
    rng = Random(seed)
    drawn: tuple[list[Story], list[Story], list[Story]] = ([], [], [])
    for tell in (places_spanish.tell, places_english.tell):
        for split, stories in zip(drawn, _draw(rng, tell), strict=True):
            split.extend(stories)
    for split in drawn:
        rng.shuffle(split)
    return drawn


def _draw(rng: Random, tell: Callable[[Random], Story]) -> tuple[list[Story], list[Story], list[Story]]:
    """Half of each split, in one language. Each combination of who, where and what belongs to one split."""
    found: tuple[list[Story], list[Story], list[Story]] = ([], [], [])
    wanted = [size // 2 for size in SIZES]
    home: dict[tuple[str, str, str], int] = {}
    taken: set[tuple[str, str]] = set()
    while any(len(stories) < size for stories, size in zip(found, wanted, strict=True)):
        story = tell(rng)
        combination = (story.who, story.place, story.thing)
        if combination not in home:
            home[combination] = rng.choices(range(3), wanted)[0]
        split, text = home[combination], (story.first, story.second)
        if text not in taken and len(found[split]) < wanted[split]:
            taken.add(text)
            found[split].append(story)
    return found

"""A short story is a few events in a small world; what can be asked about it follows from what happened."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from tools.corpora.stories_words import StoryWords

CharacterSpan = tuple[int, int]
LENGTH = (5, 8)  # sentences
KINDS = {"move": 5, "take": 3, "give": 4, "leave": 2, "call": 2}  # how often each is tried


@dataclass(frozen=True)
class Happening:
    """An event: who did what, and where each word of it stands in the story."""

    kind: str
    slots: Mapping[str, str]
    spans: Mapping[str, CharacterSpan]


@dataclass(frozen=True)
class StoryQuestion:
    """A question about a story, where the answer stands, or None where the story has none; `about` is what is asked about."""

    kind: str
    slots: Mapping[str, str]
    answer: CharacterSpan | None
    about: str


@dataclass
class Telling:
    """A story while it is told: its sentences, who has what, and who is where."""

    words: StoryWords
    rng: Random
    people: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    things: list[str] = field(default_factory=list)
    text: str = ""
    events: list[Happening] = field(default_factory=list)
    holder: dict[str, str] = field(default_factory=dict)
    place: dict[str, str] = field(default_factory=dict)
    names: dict[str, CharacterSpan] = field(default_factory=dict)  # where a name was written last
    hero: str = ""  # of the sentence before, who can be called by a pronoun

    @classmethod
    def begin(cls, words: StoryWords, rng: Random) -> "Telling":
        """A small world: a few people, places and things, so that they meet often."""
        return cls(
            words, rng, rng.sample(words.people, rng.randint(3, 4)), rng.sample(words.places, rng.randint(3, 4)),
            rng.sample(words.things, rng.randint(2, 3)),
        )  # fmt: skip

    def go_on(self) -> None:
        """The next sentence: an event that can happen now, or a remark that has nothing to do with it."""
        remark = self.rng.choice(self.words.weather) + "."
        if self.rng.random() < 0.12 and remark not in self.text:
            self.write(remark)
            self.hero = ""
            return
        kinds = list(KINDS)
        self.rng.shuffle(kinds)
        chosen = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        for kind in (chosen, *kinds):
            slots = self.possible(kind)
            if slots is not None:
                self.tell(kind, slots)
                return

    def possible(self, kind: str) -> dict[str, str] | None:
        """Who and what an event of this kind can be about now."""
        rng = self.rng
        who, other = rng.sample(self.people, 2)
        if self.hero and rng.random() < 0.3:
            who, other = self.hero, rng.choice([name for name in self.people if name != self.hero])
        if kind == "move":
            places = [place for place in self.places if place != self.place.get(who)]
            return {"who": who, "place": rng.choice(places)}
        if kind == "call":
            return {"who": who, "other": other}
        free = [thing for thing in self.things if thing not in self.holder]
        if kind == "take":
            return {"who": who, "thing": rng.choice(free)} if free else None
        held = [thing for thing in self.things if thing in self.holder]
        if kind == "leave":
            held = [thing for thing in held if self.holder[thing] in self.place]
        if not held:
            return None
        thing = rng.choice(held)
        who = self.holder[thing]
        if kind == "leave":
            return {"who": who, "thing": thing, "place": self.place[who]}
        return {"who": who, "thing": thing, "other": rng.choice([name for name in self.people if name != who])}

    def tell(self, kind: str, slots: dict[str, str]) -> None:
        """Write an event, perhaps with its time or reason, perhaps with a pronoun for who was named just before."""
        words, rng = self.words, self.rng
        template, told = rng.choice(words.events[kind]), dict(slots)
        chance = rng.random()
        if kind in ("move", "call") and chance < 0.4:
            told["time"] = rng.choice(words.times)
            template += " {time}"
        elif kind == "move" and chance < 0.65:
            told["reason"] = rng.choice(words.reasons).replace("{she}", words.pronoun(slots["who"]))
            template = words.events["because"][0].replace("{text}", template)
        pronoun = self.hero == slots["who"] and rng.random() < 0.5
        shown = told | {"who": words.pronoun(slots["who"])} if pronoun else told
        if self.events and rng.random() < 0.2:
            template = rng.choice(words.events["then"]).replace("{text}", template)
        start = len(self.text) + bool(self.text)
        text, spans = words.fill(template + ".", shown)
        self.write(text[0].upper() + text[1:])
        places = {name: (start + first, start + end) for name, (first, end) in spans.items()}
        if pronoun:
            places["who"] = self.names[slots["who"]]
        self.names |= {slots[name]: places[name] for name in ("who", "other") if name in slots}
        self.happened(Happening(kind, told, places))

    def write(self, sentence: str) -> None:
        self.text += f" {sentence}" if self.text else sentence

    def happened(self, event: Happening) -> None:
        """The world after an event."""
        who, thing = event.slots["who"], event.slots.get("thing", "")
        self.events.append(event)
        self.hero = who if "other" not in event.slots else ""  # of two people, a pronoun might mean either
        if event.kind == "move":
            self.place[who] = event.slots["place"]
        elif event.kind == "take":
            self.holder[thing] = who
        elif event.kind == "give":
            self.holder[thing] = event.slots["other"]
        elif event.kind == "leave":
            del self.holder[thing]

    def whereabouts(self, who: str) -> CharacterSpan | None:
        """Where the story says last where somebody is."""
        moves = [event for event in self.events if event.kind == "move" and event.slots["who"] == who]
        return moves[-1].spans["place"] if moves else None


def tell_story(words: StoryWords, rng: Random) -> Telling:
    """A story of some sentences."""
    story = Telling.begin(words, rng)
    for _ in range(rng.randint(*LENGTH)):
        story.go_on()
    return story


def questions_about(story: Telling) -> Iterator[StoryQuestion]:
    """Everything that can be asked about a story and has one answer there; and some questions that have none."""
    yield from _about_people(story)
    yield from _about_things(story)
    yield from _about_events(story)


def _about_people(story: Telling) -> Iterator[StoryQuestion]:
    """Where people are, and where they were before."""
    for who in story.people:
        yield StoryQuestion("where", {"who": who}, story.whereabouts(who), who)
        moves = [event for event in story.events if event.kind == "move" and event.slots["who"] == who]
        visited = [event.slots["place"] for event in moves]
        for before, after in pairwise(moves):
            if visited.count(after.slots["place"]) == 1:
                slots = {"who": who, "place": after.slots["place"]}
                yield StoryQuestion("before", slots, before.spans["place"], who)


def _about_things(story: Telling) -> Iterator[StoryQuestion]:
    """Who has a thing, and where it is: where it was left, or where the one is who has it."""
    for thing in story.things:
        events = [event for event in story.events if event.slots.get("thing") == thing]
        if not events:
            yield StoryQuestion("has", {"thing": thing}, None, thing)
            continue
        last = events[-1]
        answer = {"take": last.spans["who"], "give": last.spans.get("other"), "leave": None}[last.kind]
        yield StoryQuestion("has", {"thing": thing}, answer, thing)
        place = last.spans["place"] if last.kind == "leave" else story.whereabouts(story.holder[thing])
        if place is not None:
            yield StoryQuestion("thing", {"thing": thing}, place, thing)


def _about_events(story: Telling) -> Iterator[StoryQuestion]:
    """Who gave what to whom, who called whom, when and why; only what the story tells once, or not at all."""
    gifts = [event for event in story.events if event.kind == "give"]
    yield from _told_once(gifts, {"gave what": ("thing", "who", "other"), "gave": ("who", "thing", "other"),
                                 "to whom": ("other", "who", "thing")})  # fmt: skip
    moves = [event for event in story.events if event.kind == "move"]
    yield from _told_once(moves, {"when": ("time", "who", "place"), "why": ("reason", "who", "place")})
    calls = [event for event in story.events if event.kind == "call"]
    yield from _told_once(calls, {"called": ("other", "who"), "caller": ("who", "other"),
                                 "when called": ("time", "who", "other")})  # fmt: skip
    for gift in gifts:  # somebody else got nothing from the same person
        who, got = gift.slots["who"], {event.slots["other"] for event in gifts}
        for other in story.people:
            if other != who and other not in got:
                yield StoryQuestion("gave what", {"who": who, "other": other}, None, who)


def _told_once(events: list[Happening], asked: Mapping[str, tuple[str, ...]]) -> Iterator[StoryQuestion]:
    """Questions for one slot of an event by its others, where they are those of one event only."""
    for kind, (wanted, *given) in asked.items():
        for event in events:
            slots = {name: event.slots[name] for name in given}
            alike = [other for other in events if all(other.slots[name] == slots[name] for name in given)]
            if len(alike) == 1:
                yield StoryQuestion(kind, slots, event.spans.get(wanted), slots[given[0]])

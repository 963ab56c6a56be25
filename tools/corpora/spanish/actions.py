"""Patterns around verbs: what people do, with what, to whom, and where."""

from tools.corpora.spanish.adjectives import describing
from tools.corpora.spanish.clauses import BE, Draft, Tail, clause, spaced, timed
from tools.corpora.spanish.nouns import NOUNS, Noun, tagged
from tools.corpora.spanish.phrases import (
    LOOKS,
    NAMED,
    PEOPLE,
    RELATIVES,
    SPEAKERS,
    Phrase,
    Subject,
    bare,
    definite,
    indefinite,
    number,
    phrase,
    subject,
)
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.places import DESTINATIONS, GOALS, HOMES, ROOMS, STAYS
from tools.corpora.spanish.pronouns import ACCUSATIVES, Pronoun, company, fitting, receiver
from tools.corpora.spanish.verbs import VERBS, Verb

# verb; how often it is drawn; the tags of its objects; what adjectives may say of them
TRANSITIVE = """
eat       4 food        taste heat color size
drink     3 drink       heat
read      5 read        length interest quality origin age
write     4 text        length beauty
buy       4 goods       color size age price heat origin beauty quality
see       2 seen        color size age beauty
look_for  1 small       color size age
need      1 small       color size age
have      2 goods       color size age heat beauty quality
want      2 goods       color size age heat beauty quality
wash      3 wash        color
clean     2 cleaned     size
open      2 opens       color size
close     1 opens       color size
find      1 small       color size age
lose      1 small       color size age
sing      1 sing        length beauty origin age
listen_to 1 sing        length beauty origin age
cook      2 cook        heat
paint     1 paint       size
learn     1 learn       difficulty length
study     1 study       difficulty
look_at   1 seen        color size age beauty
"""
ROWS = [row.split(maxsplit=3) for row in TRANSITIVE.splitlines() if row]
OBJECTS: dict[str, list[Noun]] = {name.replace("_", " "): tagged(tag) for name, _, tag, _ in ROWS}
MEASURES: dict[str, str] = {name.replace("_", " "): measures for name, _, _, measures in ROWS}
ACTIONS: list[Verb] = [VERBS[name.replace("_", " ")] for name, times, _, _ in ROWS for _ in range(int(times))]
PLURALS = {"eat", "buy", "want"}  # eats apples, buys flowers
COUNTED = ["a", "a", "two", "three", "four", "five", "six", "many"]
HABITUAL = {"read", "wash", "clean", "study", "sing", "listen to"}  # done to one thing again and again


def thing(picker: Picker, who: Subject, verb: Verb) -> Tail:
    """An object that the verb can have."""
    noun = picker.pick(OBJECTS[verb.base])
    mass = "mass" in noun.tags
    words = describing(noun, "o", MEASURES[verb.base])
    word = picker.pick(words) if words and picker.chance(0.4) else None
    chance = picker.random()
    if chance < 0.1 and noun.owned and who.own and who.person in (2, 4):
        made, new = phrase(noun, who.own, number(picker, noun, 0.25)), False
    elif chance < 0.5:
        determiner = picker.pick(["the", "the", "the", "this", "that", "my", "your"])
        if not noun.owned or word is not None or verb.base in ("buy", "want", "write"):
            determiner = picker.pick(["the", "the", "this", "that"])
        if determiner == "my" and who.pronoun == "we":
            determiner = "our"
        made, new = phrase(noun, determiner, number(picker, noun, 0.3), word), False
    elif mass:
        made, new = bare(noun, word if word and word.measures == "heat" else None), False
    elif chance < 0.65 and verb.base in PLURALS and (noun.tags & {"food", "gift"}):
        made, new = Phrase(noun.plural, noun.spanish_plural), False
    else:
        many = number(picker, noun, 0.4)
        counts = COUNTED if verb.base in PLURALS | {"see", "have", "need", "read"} else ["a", "two"]
        made, new = phrase(noun, picker.pick(counts) if many else "a", many, word), True
    habit = (verb.base in HABITUAL and not new) or (mass and chance >= 0.5) or (0.5 < chance < 0.65 and not new)
    return Tail(made.english, made.spanish, new=new, habit=habit)


def action(picker: Picker) -> Draft:
    """Ana is reading the newspaper."""
    who = picker.pick(SPEAKERS) if picker.chance(0.4) else subject(picker)
    verb = picker.pick(ACTIONS)
    return clause(picker, who, verb, thing(picker, who, verb))


GIVING = [VERBS["send"], VERBS["give"], VERBS["give"], VERBS["show"]]
GIFTS = tagged("gift")
OWN = {"me": "my", "you": "your", "us": "our"}


def giving(picker: Picker) -> Draft:
    """I am giving the book to her: le estoy dando el libro a ella."""
    who = picker.pick(SPEAKERS) if picker.chance(0.25) else subject(picker)
    verb, noun = picker.pick(GIVING), picker.pick(GIFTS)
    new = picker.chance(0.45)
    gift = indefinite(picker, noun, LOOKS) if new else definite(picker, noun, LOOKS)
    to = receiver(picker, who)
    if gift.english.startswith(OWN.get(to.english, "-")):
        gift = phrase(noun, "the")
    tail = Tail(
        f"{gift.english} to {to.english}", spaced(gift.spanish, to.after), to.clitic,
        new=new, timeless=picker.chance(0.7), habit=False,
    )  # fmt: skip
    return clause(picker, who, verb, tail)


MEETING = [VERBS[name] for name in ("see", "visit", "visit", "visit", "help", "call", "look for", "wait for")]
KNOWN = [Pronoun(who.english, "", f"a {who.spanish}") for who in NAMED + NAMED + RELATIVES + PEOPLE]
VISITED = tagged("visit")


def meeting(picker: Picker) -> Draft:
    """I see Ana: veo a Ana. I see her: la veo. We visit the museum."""
    who, verb = subject(picker), picker.pick(MEETING)
    if verb.base == "visit" and picker.chance(0.6):
        place = definite(picker, picker.pick(VISITED), "size age beauty", plural=0, owned=False)
        return clause(picker, who, verb, Tail(place.english, place.spanish, habit=False))
    whom = fitting(picker, who, ACCUSATIVES if picker.chance(0.45) else KNOWN)
    return clause(picker, who, verb, Tail(whom.english, whom.after, whom.clitic))


GO = VERBS["go"]


def going(picker: Picker) -> Draft:
    """I want to go to the cinema. Ana is going to the library to read the newspaper."""
    who = subject(picker)
    if picker.chance(0.35):
        name, goal = picker.pick(GOALS)
        if goal.english.split()[-1] in who.english.split():
            return going(picker)
        place = phrase(NOUNS[name], "the")
        tail = Tail(f"to {place.english} {goal.english}", f"a {place.spanish} a {goal.spanish}")
    else:
        place = picker.pick(DESTINATIONS)
        mate = company(picker, who) if picker.chance(0.35) else Phrase("", "")
        tail = Tail(spaced("to", place.english, mate.english), spaced("a", place.spanish, mate.spanish))
    if picker.chance(0.45):
        return clause(picker, who, GO, tail, "pm")
    if picker.chance(0.3):
        how = picker.pick(["said", "said", "denied"])
        habit = clause(picker, who, GO, tail._replace(timeless=True), "s", how)
        return timed(picker, habit, "s")  # without a time, "voy" is "I am going"
    return _on_the_way(picker, who, tail)


def _on_the_way(picker: Picker, who: Subject, tail: Tail) -> Draft:
    """I am going to the park: Spanish has the simple present here."""
    be, verb = BE[who.person], GO.present[who.person]
    chance = picker.random()
    if chance < 0.2:
        spanish = spaced(who.spanish, "no", verb, tail.spanish)
        draft = Draft(f"{who.english} {be} not going {tail.english}", spanish, ".")
    elif chance < 0.4 and who.person in (1, 2, 4):
        return Draft(f"{be} {who.english} going {tail.english}", spaced(who.spanish, verb, tail.spanish), "?")
    else:
        draft = Draft(f"{who.english} {be} going {tail.english}", spaced(who.spanish, verb, tail.spanish), ".")
    return timed(picker, draft, "f") if picker.chance(0.25) else draft


def _at(places: str) -> list[Phrase]:
    return [stay for stay in STAYS if stay.english.split()[-1] in places.split()]


def _along(places: str) -> list[Phrase]:
    """in the park: por el parque"""
    ways = [Phrase(f"in the {place}", f"por {phrase(NOUNS[place], 'the').spanish}") for place in places.split()]
    return [*ways, Phrase("on the beach", "por la playa")]


ENTERED = ("station", "hotel", "hospital", "museum", "restaurant")
ARRIVALS = [place for place in DESTINATIONS if place.english.split()[-1] in ENTERED]
SPOTS = {
    "live": HOMES,
    "work": _at("hospital office school restaurant museum hotel market library store"),
    "study": _at("library school room kitchen"),
    "walk": _along("park garden forest city"),
    "run": _along("park garden forest"),
    "sleep": _at("room house hotel garden"),
    "swim": [Phrase("in the sea", "en el mar"), Phrase("in the river", "en el río")],
    "dance": _at("square park kitchen garden"),
    "sing": ROOMS,
    "eat": _at("restaurant kitchen garden park school hotel"),
    "cook": _at("kitchen restaurant garden"),
    "talk": ROOMS,
    "arrive": [Phrase(f"at {place.english}", f"a {place.spanish}") for place in ARRIVALS],
    "travel": [Phrase("to the island", "a la isla"), Phrase("to the city", "a la ciudad"),
               Phrase("to this city", "a esta ciudad"), Phrase("by train", "en tren"),
               Phrase("by bus", "en autobús"), Phrase("by car", "en coche")],
}  # fmt: skip
OFTEN = [*SPOTS, *["live", "work", "sleep", "sleep"] * 5, *["study", "eat", "talk"] * 3]  # those with most forms
CHILDREN = ("boy", "boys", "girl", "girls")


def doing(picker: Picker) -> Draft:
    """She is swimming in the sea with me."""
    who = picker.pick(SPEAKERS) if picker.chance(0.35) else subject(picker)
    verb = VERBS[picker.pick(OFTEN)]
    if verb.base == "work" and who.english.split()[-1] in CHILDREN:
        verb = VERBS["study"]
    spot, mate = Phrase("", ""), Phrase("", "")
    if verb.base in ("live", "arrive", "travel", "eat") or picker.chance(0.75):
        spot = picker.pick(SPOTS[verb.base])
    if verb.base == "talk" or (verb.base != "sleep" and picker.chance(0.3)):
        mate = company(picker, who)
    first, second = (mate, spot) if verb.base == "talk" else (spot, mate)
    english, spanish = spaced(first.english, second.english), spaced(first.spanish, second.spanish)
    return clause(picker, who, verb, Tail(english, spanish, habit=verb.base != "sleep"))


COMMANDS = ("open", "close", "read", "wash", "clean", "buy", "eat", "drink", "look at")
IMPERATIVES = [VERBS[name] for name in COMMANDS]


def command(picker: Picker) -> Draft:
    """Open the window, please."""
    verb = picker.pick(IMPERATIVES)
    noun = picker.pick(OBJECTS[verb.base])
    made = definite(
        picker, noun, MEASURES[verb.base], plural=0.2, owned=verb.base in ("open", "close", "wash", "clean")
    )
    english, spanish = f"{verb.base} {made.english}", f"{verb.present[2]} {made.spanish}"
    if picker.chance(0.5):
        return Draft(f"{english}, please", f"{spanish}, por favor", ".")
    return Draft(english, spanish, ".")

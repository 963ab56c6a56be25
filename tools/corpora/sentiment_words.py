"""What reviews speak of, and the words that praise and blame it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """Something people review: its names, how they met it, and what they say of its parts."""

    things: tuple[str, ...]
    kind: str  # whose adjectives suit the thing itself
    aspects: tuple[tuple[str, str], ...]  # (noun, kind); a noun that ends in "s" is plural
    leads: tuple[str, ...]
    openers: tuple[str, ...]  # a sentence of its own, without a judgment
    met: str  # "I have never {met} a more boring film"
    again: str  # "I would never {again} again"
    piece: tuple[str, str]  # (noun, kind): "there was not a single boring scene"


def _topic(things: str, kind: str, aspects: str, leads: str, openers: str, verbs: str, piece: str) -> Topic:
    """A topic from a table row: aspects are "kind: noun, noun; kind: noun", the piece is "noun: kind"."""
    pairs = []
    for group in aspects.split("; "):
        name, _, nouns = group.partition(": ")
        pairs += [(noun, name) for noun in nouns.split(", ")]
    met, again = verbs.split(", ")
    noun, _, suits = piece.partition(": ")
    return Topic(
        tuple(things.split(", ")), kind, tuple(pairs), tuple(leads.split(", ")), tuple(openers.split("; ")),
        met, again, (noun, suits),
    )  # fmt: skip


TOPICS = (
    _topic(
        "film, movie, comedy", "story",
        "story: plot, script, ending, first half; craft: acting, music, dialogue, characters",
        "in this film, in this new film", "We saw this film on Friday; I watched it last night",
        "seen, watch it", "scene: story",
    ),
    _topic(
        "book, novel", "story",
        "story: story, first chapter, last chapter, ending; craft: dialogue, characters, style, translation",
        "in this book, in her latest novel", "I read this book in June; My sister gave me this novel",
        "read, read it", "chapter: story",
    ),
    _topic(
        "restaurant", "place",
        "food: food, soup, fish, pizza, dessert; service: service; people: staff, waiters, owner; "
        "place: dining room, terrace; seat: chairs; price: prices",
        "at this restaurant, at the new restaurant, on our last visit",
        "We had dinner there on Sunday; We ate here in May",
        "been to, eat there", "dish: food",
    ),
    _topic(
        "hotel", "place",
        "place: room, lobby, bar; seat: beds, armchairs; food: breakfast, dinner; service: room service; "
        "people: staff, receptionist, manager; price: prices",
        "at this hotel, during our stay, that weekend", "We stayed there for two nights; We spent a weekend here",
        "stayed in, stay there", "room: place",
    ),
    _topic(
        "concert, show", "story",
        "story: songs, program, second half; craft: singing, band, dancing; seat: seats; price: ticket prices",
        "at this concert, that evening, at the concert last night",
        "We had tickets for Saturday; We went there by train",
        "been to, go there", "song: story",
    ),
    _topic(
        "laptop", "device",
        "device: keyboard, charger, camera, touchpad, speakers; service: repair service; price: price",
        "this time", "I bought this laptop last month; I used this laptop for a year",
        "used, buy it", "part: device",
    ),
    _topic(
        "course", "lesson",
        "lesson: lessons, exercises, textbook, explanations, videos; people: teacher, tutors; place: classroom; "
        "price: price",
        "in this course, this year", "I took this course in spring; We took this course last year",
        "taken, take it", "lesson: lesson",
    ),
    _topic(
        "tour, trip", "trip",
        "trip: walk, boat ride, bus ride, first day; people: guide, driver; food: lunch, picnic; price: price",
        "on this tour, that day", "We took this tour in August; We left early in the morning",
        "been on, go there", "hour: trip",
    ),
)  # fmt: skip

# kind: words of praise / words of blame, opposites at the same place
ADJECTIVES = {
    "story": (
        "interesting exciting original clever gripping memorable amusing",
        "boring dull predictable silly tedious forgettable tiresome",
    ),
    "craft": (
        "impressive convincing charming lively powerful brilliant",
        "disappointing unconvincing clumsy lifeless weak poor",
    ),
    "food": ("tasty delicious appetizing superb", "bland disgusting unappetizing tasteless"),
    "service": ("friendly quick attentive", "unfriendly slow careless"),
    "people": ("friendly helpful polite patient kind", "unfriendly unhelpful rude impatient arrogant"),
    "place": ("clean cozy charming pleasant quiet", "dirty shabby gloomy unpleasant noisy"),
    "seat": ("comfortable clean elegant", "uncomfortable dirty shabby"),
    "price": ("reasonable fair attractive", "unreasonable unfair ridiculous"),
    "device": ("reliable practical sturdy impressive", "unreliable impractical flimsy disappointing"),
    "lesson": ("useful clear interesting inspiring", "useless confusing boring tedious"),
    "trip": ("pleasant interesting relaxing memorable", "unpleasant boring tiring dull"),
}
# these suit everything but a price, opposites at the same place too
ANYTHING = ("good great excellent wonderful fantastic", "bad horrible awful terrible dreadful")

# "very excellent" and "not excellent" are odd: strong words take other adverbs and other negations
STRONG = "great excellent wonderful fantastic superb brilliant delicious horrible awful terrible dreadful disgusting ridiculous"
VERY = ("very", "really", "extremely", "so")
ABSOLUTELY = ("absolutely", "simply", "truly")
NOUNS = ("delight pleasure joy success", "disappointment disaster nightmare failure")

# past and base form
VERBS = (
    ("liked:like", "praised:praise", "appreciated:appreciate"),
    ("disliked:dislike", "criticized:criticize", "complained about:complain about"),
)
FEELINGS = (("loved",), ("hated",))
MOODS = (
    ("impressed by", "delighted with", "pleased with"),
    ("disappointed by", "annoyed by", "unhappy with"),
)
PEOPLE = ("I", "we", "my wife", "my husband", "my parents", "my friends", "my sister", "my brother")
NOBODY = ("nobody", "no one", "hardly anyone", "none of us", "not one of us", "few people")
EVERYBODY = ("everybody", "everyone", "all of us", "almost everyone", "most people")

CLOSERS = (
    (
        "I would recommend this {thing} to anyone",
        "I cannot recommend this {thing} enough",
        "I would not hesitate to recommend this {thing}",
        "I would gladly {again} again",
        "we cannot wait to {again} again",
    ),
    (
        "I would not recommend this {thing} to anyone",
        "I cannot recommend this {thing}",
        "I would hesitate to recommend this {thing}",
        "I would never {again} again",
        "we do not want to {again} again",
    ),
)

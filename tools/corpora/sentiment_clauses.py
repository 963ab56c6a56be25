"""The grammar of reviews: clauses with slots, and what fills the slots.

A sign is 0 for praise and 1 for blame, the place of its words in the tables.
"""

from random import Random

from tools.corpora import sentiment_words as lexicon
from tools.corpora.sentiment_words import Topic

Pair = tuple[str, str]  # what is judged, the word that judges it

# clauses that mean what their judging words say
PLAIN = (
    "the {a} {was} {very}{adj}",
    "{person} found the {a} {very}{adj}",
    "{person} {did} the {a}",
    "{person} {were} {mood} the {a}",
    "{everybody} {did} the {a}",
    "most people would {do} the {a}",
    "the {a} could not have been more {long}",
)
# clauses that mean the opposite; a clause listed twice comes twice as often
FLIPPED = (
    "the {a} {was} not {mild}",
    "the {a} {was}n't {mild}",
    "the {a} {was} {not_at_all}",
    "the {a} {was} {far_from} {adj}",
    "{nobody} found the {a} {adj}",
    "{nobody} {did} the {a}",
    "{nobody} {did} the {a}",
    "few people would {do} the {a}",
    "{person} did not {do} the {a}",
    "{person} {were} not {mood} the {a}",
    "{person} would not call the {a} {adj}",
    "there was nothing {adj} about the {a}",
)
# the same two, of sentences that stand alone
PLAIN_ALONE = (
    "the {a} {was} not only {own} but also {other}",
    "the {a} and the {b} were {very}{adj}",
    "the {a} {was} not {contrary}, but {own}",
    "the {a} {was} not {mild}, but the {b} {be}",
    "it was {an_adj} {thing}",
    "this was {an_adj} {thing} in every way",
    "what {an_adj} {thing}",
    "I have never {met} a more {thing_long} {thing}",
    "the {thing} was a {noun}",
)
FLIPPED_ALONE = (
    "the {a} {was} neither {own} nor {other}",
    "neither the {a} nor the {b} {be} {mild}",
    "the {a} {was} {adj}, but the {b} {be} not",
    "{person} expected the {a} to be {adj}, but {it} {was} {opposite}",
    "they told us that the {a} {was} {adj}, but {person} found {them} {opposite}",
    "I cannot say that the {a} {was} {adj}",
    "it was by no means {an_adj} {thing}",
    "there was not a single {piece_adj} {piece}",
    "the {thing} was {no} {noun}",
)
# only praise is wished for
WISHES = ("the {a} could have been more {long}", "{person} wished that the {a} had been more {long}")
# "nobody hated it" is faint praise, so these two verbs stand only beside another clause
FELT = ("{person} {felt} the {a}", "{everybody} {felt} the {a}")
# what follows "but" decides, and the main clause decides over "although" and "despite", wherever it stands
CONTRASTS = (
    "{less}, but {more}",
    "{less}, but {more}",
    "{less}, yet {more}",
    "{less}; however, {more}",
    "although {less}, {more}",
    "even though {less}, {more}",
    "{more}, although {less}",
    "{more}, even though {less}",
    "despite {one}, {more}",
    "{more} despite {one}",
)
FAR_FROM = ("far from", "anything but", "by no means", "hardly")
NO = ("no", "not a", "hardly a", "anything but a", "far from a")
STRONG = frozenset(lexicon.STRONG.split())


def plain(words: "WordChooser", sign: int) -> str:
    """A sentence that means what its judging words say."""
    return words.fill(words.rng.choice(PLAIN if words.rng.random() < 0.6 else PLAIN_ALONE), sign)


def flipped(words: "WordChooser", sign: int) -> str:
    """A sentence with this sign whose judging words have the other one."""
    alone = FLIPPED_ALONE + (WISHES if sign == 1 else ())
    return words.fill(words.rng.choice(FLIPPED if words.rng.random() < 0.6 else alone), 1 - sign)


def contrast(words: "WordChooser", sign: int) -> str:
    """Two clauses set against each other; the one that decides has this sign."""
    rng = words.rng
    frame = rng.choice(CONTRASTS)
    if "{one}" in frame:
        parts = {"one": words.fill("the {adj} {a}", 1 - sign)}
    else:
        parts = {"less": _clause(words, 1 - sign)}
    if rng.random() < 0.2:
        parts["more"] = words.fill(rng.choice(lexicon.CLOSERS[sign]), sign)
    else:
        parts["more"] = _clause(words, sign)
    return frame.format_map(parts)


def _clause(words: "WordChooser", sign: int) -> str:
    """A clause to stand beside another one."""
    if words.rng.random() < 0.3:
        return words.fill(words.new(FLIPPED), 1 - sign)
    return words.fill(PLAIN[0] if words.rng.random() < 0.4 else words.new(PLAIN[1:] + FELT), sign)


class WordChooser:
    """Chooses the words of one review: the same person or part twice would sound odd, so it knows the used ones."""

    def __init__(self, rng: Random, topic: Topic) -> None:
        self.rng, self.topic = rng, topic
        self.pairs: set[Pair] = set()
        self.used: set[str] = set()
        self.names_thing = False

    def fill(self, template: str, sign: int) -> str:
        """The template with words of this sign in its slots.

        >>> WordChooser(Random(0), lexicon.TOPICS[0]).fill("the {thing} was {no} {noun}", 0)
        'the movie was anything but a delight'
        """
        self.names_thing |= "{thing}" in template
        return template.format_map(Slots(self, sign, paired="{b}" in template))

    def new(self, options: tuple[str, ...] | list[str]) -> str:
        """One of the options, none that was used before while others are left."""
        word = self.rng.choice([option for option in options if option not in self.used] or options)
        self.used.add(word)
        return word

    def judge(self, noun: str, options: tuple[str, ...] | list[str]) -> str:
        """A word to judge the noun with."""
        word = self.new(options)
        self.pairs.add((noun, word))
        return word


class Slots(dict[str, str]):
    """The slots of one clause, each filled when the template first asks for it."""

    def __init__(self, words: WordChooser, sign: int, paired: bool) -> None:
        super().__init__()
        self.words, self.sign, self.paired = words, sign, paired

    def __missing__(self, slot: str) -> str:
        self[slot] = filled = self.choose(slot)
        return filled

    def choose(self, slot: str) -> str:
        words, topic, sign = self.words, self.words.topic, self.sign
        match slot:
            case "a" | "b" | "adj" | "other" | "own" | "opposite" | "contrary" | "mild" | "long":
                return self.about_part(slot)
            case "thing":
                return words.rng.choice(topic.things)
            case "noun" | "an_adj" | "thing_long" | "piece_adj":
                return self.about_thing(slot)
            case "person":
                return words.new(lexicon.PEOPLE)
            case "everybody":
                return words.new(lexicon.EVERYBODY)
            case "nobody":
                return words.new(lexicon.NOBODY)
            case "did" | "do":
                return words.judge(self["a"], [verb.split(":")[slot == "do"] for verb in lexicon.VERBS[sign]])
            case "felt":
                return words.judge(self["a"], lexicon.FEELINGS[sign])
            case "mood":
                return words.judge(self["a"], lexicon.MOODS[sign])
            case "met" | "again" | "piece":
                return {"met": topic.met, "again": topic.again, "piece": topic.piece[0]}[slot]
            case _:
                return self.around(slot)

    def about_part(self, slot: str) -> str:
        """A part of the thing, or an adjective that suits the parts."""
        kinds = dict(self.words.topic.aspects)
        if slot in ("a", "b"):
            # one adjective has to suit a pair of parts, and those of a price suit nothing else
            return self.words.new([noun for noun, kind in kinds.items() if kind != "price" or not self.paired])
        kind, sign = kinds[self["a"]], self.sign
        if slot in ("opposite", "contrary"):
            word = self["adj" if slot == "opposite" else "own"]
            return self.words.judge(self["a"], [_adjectives(kind, 1 - sign)[_adjectives(kind, sign).index(word)]])
        options = list(_adjectives(kind, sign))
        if self.paired:
            options = [word for word in options if word in _adjectives(kinds[self["b"]], sign)]
        if slot == "mild":
            options = [word for word in options if word not in STRONG]
        elif slot == "long":
            options = [word for word in options if _is_long(word)]
        elif slot in ("own", "other"):
            options = lexicon.ADJECTIVES[kind][sign].split()
        word = self.words.judge(self["a"], options)
        if self.paired:
            self.words.pairs.add((self["b"], word))
        return word

    def about_thing(self, slot: str) -> str:
        """A judgment on the thing as a whole or on a piece of it."""
        topic = self.words.topic
        if slot == "noun":
            return self.words.judge(self["thing"], lexicon.NOUNS[self.sign].split())
        if slot == "piece_adj":
            return self.words.judge(self["piece"], _adjectives(topic.piece[1], self.sign))
        options = _adjectives(topic.kind, self.sign)
        if slot == "thing_long":
            return self.words.judge(self["thing"], [word for word in options if _is_long(word)])
        word = self.words.judge(self["thing"], options)
        return f"an {word}" if word[0] in "aeiou" and not word.startswith("use") else f"a {word}"

    def around(self, slot: str) -> str:
        """The small words, which agree with what they stand beside."""
        rng = self.words.rng
        if slot in ("was", "be"):
            return "were" if self["a" if slot == "was" else "b"].endswith("s") else "was"
        if slot == "were":
            singular = ("I", "my wife", "my husband", "my sister", "my brother")
            return "was" if self["person"] in singular else "were"
        if slot in ("it", "them"):
            one, several = ("it", "they") if slot == "it" else ("it", "them")
            return several if self["a"].endswith("s") else one
        if slot == "very":
            adverbs = lexicon.ABSOLUTELY if self["adj"] in STRONG else lexicon.VERY
            return f"{rng.choice(adverbs)} " if rng.random() < 0.4 else ""
        if slot == "not_at_all":
            return rng.choice(("not at all {}", "not {} at all", "not in the least {}")).format(self["mild"])
        return rng.choice({"far_from": FAR_FROM, "no": NO}[slot])


def _adjectives(kind: str, sign: int) -> tuple[str, ...]:
    """The words of praise or blame that suit a kind of thing.

    >>> _adjectives("price", 0)
    ('reasonable', 'fair', 'attractive')
    """
    words = lexicon.ADJECTIVES[kind][sign].split()
    return tuple(words if kind == "price" else words + lexicon.ANYTHING[sign].split())


def _is_long(adjective: str) -> bool:
    """Whether an adjective is compared with "more".

    >>> _is_long("exciting"), _is_long("dirty"), _is_long("excellent")
    (True, False, False)
    """
    return len(adjective) > 6 and not adjective.endswith("y") and adjective not in STRONG


def all_pairs() -> list[Pair]:
    """Every noun with every word that may judge it, in a fixed order."""
    pairs = []
    for topic in lexicon.TOPICS:
        for noun, kind in (*topic.aspects, *((thing, topic.kind) for thing in topic.things), topic.piece):
            for sign in (0, 1):
                verbs = [form for verb in lexicon.VERBS[sign] for form in verb.split(":")]
                others = (*verbs, *lexicon.FEELINGS[sign], *lexicon.MOODS[sign], *lexicon.NOUNS[sign].split())
                pairs += [(noun, word) for word in (*_adjectives(kind, sign), *others)]
    return sorted(set(pairs))

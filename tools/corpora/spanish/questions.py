"""Patterns that join clauses, and questions that ask for more than yes or no."""

from tools.corpora.spanish.actions import ACTIONS, CHILDREN, OBJECTS, SPOTS, thing
from tools.corpora.spanish.adjectives import WORDS, describing
from tools.corpora.spanish.clauses import BE, Draft, Tail, clause, english_verb, mood_of, spaced, spanish_verb
from tools.corpora.spanish.feelings import NEEDS
from tools.corpora.spanish.nouns import tagged
from tools.corpora.spanish.phrases import (
    NAMED,
    ONE,
    PEOPLE,
    RELATIVES,
    UNCOUNTED,
    Phrase,
    Subject,
    acting,
    definite,
    number,
    phrase,
    subject,
)
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.places import DESTINATIONS
from tools.corpora.spanish.sentences import HUMAN, description, joined, predicates, says
from tools.corpora.spanish.verbs import COPULAS, ESTAR, VERBS

KINDS = ["where"] * 2 + ["what"] * 3 + ["why", "how", "how many"] * 2 + ["when", "who", "how much", "where to"]
WHERE = [VERBS[name] for name in ("live", "work", "study", "eat", "sleep", "swim", "cook")]
WHAT = [VERBS[name] for name in ("eat", "drink", "read", "write", "buy", "cook", "need", "paint", "study", "want")]
COUNTED = [VERBS[name] for name in ("have", "need", "want", "see")]
COUNTABLE = [noun for noun in tagged("goods", "small") if not noun.tags & UNCOUNTED]
YOU = ONE["you"]
WHO = Subject("who", "quién", 2, False, "", "")
GREETED = [YOU, *NAMED, *PEOPLE, *[who for who in RELATIVES if who.english.startswith("your")]]
RIDES = [acting(phrase(noun, "the")) for noun in tagged("vehicle")]


def _asked(picker: Picker, word: tuple[str, str], verb_name: str, who: Subject, moods: str) -> Draft:
    """A question word, then the verb before its subject."""
    verb = VERBS[verb_name]
    mood = mood_of(picker, verb, moods)
    _, _, first, rest = english_verb(verb, mood, who.person)
    english = spaced(word[0], first, who.english, rest)
    return Draft(english, spaced(word[1], spanish_verb(verb, mood, who.person), who.spanish), "?")


def asking(picker: Picker) -> Draft:
    """Where do you live? What is Ana reading? How much does the hat cost?"""
    kind = picker.pick(KINDS)
    who = YOU if picker.chance(0.35) else subject(picker)
    if who.person in (0, 3):
        who = YOU
    if kind == "where":
        verb = picker.pick(WHERE if who.english.split()[-1] not in CHILDREN else WHERE[2:])
        return _asked(picker, ("where", "dónde"), verb.base, who, "".join(mood for mood in verb.moods if mood in "sf"))
    if kind == "what":
        verb = picker.pick(WHAT)
        return _asked(picker, ("what", "qué"), verb.base, who, verb.moods.replace("p", ""))
    if kind == "when":
        if picker.chance(0.4):
            return _asked(picker, ("when", "cuándo"), "arrive", picker.pick(RIDES), "s")
        return _asked(picker, ("when", "cuándo"), picker.pick(["arrive", "travel", "eat", "work", "study"]), who, "f")
    if kind == "how many":
        noun = picker.pick(COUNTABLE)
        word = (f"how many {noun.plural}", f"{'cuántas' if noun.gender == 'f' else 'cuántos'} {noun.spanish_plural}")
        return _asked(picker, word, picker.pick(COUNTED).base, who, "s")
    if kind == "where to":
        return _asked(picker, ("where", "adónde"), "go", who, "m")
    return _asked_of(picker, kind, who)


def _asked_of(picker: Picker, kind: str, who: Subject) -> Draft:
    """Why, who, how, how much."""
    if kind == "why":
        if picker.chance(0.5):
            word = picker.pick([word for word in HUMAN if word.copula == "estar"])
            spanish = spaced("por qué", ESTAR[who.person], word.forms[who.form], who.spanish)
            return Draft(f"why {BE[who.person]} {who.english} {word.english}", spanish, "?")
        noun = picker.pick(tagged("opens", "hall", "broken"))
        word = picker.pick([word for word in describing(noun) if word.copula == "estar"])
        named = definite(picker, noun)
        be, verb = ("are", "están") if named.plural else ("is", "está")
        return Draft(
            f"why {be} {named.english} {word.english}", f"por qué {verb} {word.forms[named.form]} {named.spanish}", "?"
        )
    if kind == "who":
        doing = picker.pick(ACTIONS)
        moods = doing.moods.replace("s", "") or "s"
        draft = clause(picker, WHO, doing, thing(picker, WHO, doing)._replace(timeless=True), moods, "said")
        return draft._replace(mark="?")
    if kind == "how much":
        named = definite(picker, picker.pick(tagged("goods")), "color size age", plural=0.35, owned=False)
        do, verb = ("do", "cuestan") if named.plural else ("does", "cuesta")
        return Draft(f"how much {do} {named.english} cost", f"cuánto {verb} {named.spanish}", "?")
    who = picker.pick(GREETED)
    when, cuando = picker.pick([("", ""), ("today", "hoy"), ("now", "ahora")])
    english = spaced("how", BE[who.person], who.english, when)
    return Draft(english, spaced("cómo", ESTAR[who.person], who.spanish, cuando), "?")


def thinking(picker: Picker) -> Draft:
    """I think that the book is interesting."""
    who, how = (YOU, "asked") if picker.chance(0.25) else (subject(picker), "said")
    idea = description(picker, questions=False)
    first = idea.english.split()[0]
    if first == "that" or (first in ("he", "she", "they") and who.person in (2, 4)):
        return thinking(picker)  # "that that", and pronouns that might be the subject again
    return clause(picker, who, VERBS["think"], Tail(f"that {idea.english}", f"que {idea.spanish}"), "s", how)


# what one does or does not do, and the state that explains it
REASONS = [
    ("eat", "said", ["hungry"]),
    ("eat", "denied", ["sick", "sad"]),
    ("sleep", "said", ["tired", "sleepy", "sick"]),
    ("sleep", "denied", ["afraid", "cold", "hot", "hungry"]),
    ("work", "denied", ["sick", "tired"]),
    ("dance", "said", ["happy"]),
    ("dance", "denied", ["tired", "sad", "sick"]),
    ("sing", "said", ["happy"]),
    ("sing", "denied", ["sad", "tired"]),
    ("swim", "denied", ["cold", "tired", "afraid"]),
    ("run", "denied", ["tired", "sick", "hot"]),
    ("study", "denied", ["tired", "sick", "sleepy"]),
    ("go", "denied", ["sick", "busy", "tired", "sad"]),
]


def reason(picker: Picker) -> Draft:
    """Ana is not dancing because she is tired."""
    who = subject(picker)
    name, how, states = picker.pick(REASONS)
    state = picker.pick(states)
    tail = Tail("", "", timeless=True)
    if name == "go":
        place = picker.pick(DESTINATIONS)
        tail = Tail(f"to {place.english}", f"a {place.spanish}", timeless=True)
        start = clause(picker, who, VERBS["go"], tail, "c", how)
    else:
        if picker.chance(0.5) and name in SPOTS:
            spot = picker.pick(SPOTS[name])
            tail = Tail(spot.english, spot.spanish, timeless=True)
        start = clause(picker, who, VERBS[name], tail, "gfc" if how == "denied" else "g", how)
    if state in NEEDS:
        why = f"{COPULAS['tener'][who.person]} {NEEDS[state]}"
    else:
        why = f"{ESTAR[who.person]} {WORDS[state].forms[who.form]}"
    return Draft(
        f"{start.english} because {who.pronoun} {BE[who.person]} {state}", f"{start.spanish} porque {why}", "."
    )


ACTIVITIES = ["sing", "dance", "sleep", "run", "swim", "study", "cook", "eat", "read", "paint", "write"]


def _busy(picker: Picker, who: Subject, name: str) -> Draft:
    """Ana is singing in the park"""
    spot = picker.pick(SPOTS[name]) if name in SPOTS and picker.chance(0.4) else Phrase("", "")
    how = picker.pick(["said", "said", "denied"])
    return clause(picker, who, VERBS[name], Tail(spot.english, spot.spanish, timeless=True), "g", how)


def both(picker: Picker) -> Draft:
    """Ana is singing and Luis is dancing."""
    one, other = picker.pick(NAMED + RELATIVES), picker.pick(NAMED + RELATIVES + PEOPLE)
    if one is other:
        return both(picker)
    verbs = picker.pick(ACTIVITIES), picker.pick(ACTIVITIES)
    if verbs[0] == verbs[1]:
        return both(picker)
    first, second = (_busy(picker, who, name) for who, name in zip((one, other), verbs, strict=True))
    return Draft(f"{first.english} and {second.english}", joined(first.spanish, second.spanish), ".")


WANTED = {"s": ("need", "want", "see"), "g": ("read", "write", "look for", "eat", "paint", "wash"),
          "m": ("buy", "read", "eat", "see"), "p": ("buy", "lose", "find", "see", "write")}  # fmt: skip


def relative(picker: Picker) -> Draft:
    """the girl who sings in the park; The book that Ana is reading is long."""
    if picker.chance(0.4):
        return _doer(picker)
    mood = picker.pick("sgmp")
    verb = VERBS[picker.pick(WANTED[mood])]
    noun = picker.pick([noun for noun in OBJECTS[verb.base] if describing(noun, "n") and "mass" not in noun.tags])
    who = subject(picker)
    if mood == "p" and who.person == 3:  # "compramos" would be both
        return relative(picker)
    head = phrase(noun, "the", number(picker, noun, 0.3))
    inner = clause(picker, who, verb, Tail("", "", timeless=True), mood, "said")
    made = head._replace(english=f"{head.english} that {inner.english}", spanish=f"{head.spanish} que {inner.spanish}")
    if picker.chance(0.35):
        return Draft(made.english, made.spanish, "")
    lasting = [word for word in predicates(noun) if word.copula == "ser"] or predicates(noun)
    return says(picker, made, picker.pick(lasting), questions=False)


def _doer(picker: Picker) -> Draft:
    noun = picker.pick(tagged("person"))
    head = phrase(noun, "the", picker.chance(0.3))
    verbs = "live sing dance run swim sleep eat study walk" + ("" if noun.english in CHILDREN else " work")
    verb = VERBS[picker.pick(verbs.split())]
    spot = picker.pick([spot for spot in SPOTS[verb.base] if "my" not in spot.english])
    tail, moods = Tail(*spot[:2], timeless=True), "".join(mood for mood in verb.moods if mood in "sg")
    inner = clause(picker, acting(head), verb, tail, moods, "said")
    english = inner.english.replace(head.english, f"{head.english} who", 1)
    spanish = inner.spanish.replace(head.spanish, f"{head.spanish} que", 1)
    if picker.chance(0.4):
        return Draft(english, spanish, "")
    return says(picker, head._replace(english=english, spanish=spanish), picker.pick(predicates(noun)), questions=False)

"""Patterns in which English is and Spanish has, or makes: hunger, age, weather."""

from tools.corpora.spanish.clauses import BE, Draft, being, spaced
from tools.corpora.spanish.phrases import NAMED, NUMBERS, PRONOUNS, RELATIVES, Phrase, Subject, subject
from tools.corpora.spanish.picker import Picker
from tools.corpora.spanish.places import STAYS
from tools.corpora.spanish.verbs import COPULAS

NEEDS = {"hungry": "hambre", "thirsty": "sed", "cold": "frío", "hot": "calor", "sleepy": "sueño", "afraid": "miedo"}
FEMININE = {"hambre", "sed"}
WEATHER = [("cold", "frío"), ("hot", "calor"), ("very cold", "mucho frío"), ("very hot", "mucho calor")]
DAYS = [Phrase("today", "hoy"), Phrase("at night", "por la noche"), Phrase("in the morning", "por la mañana")]
OUTDOORS = [
    stay for stay in STAYS if stay.english.split()[-1] in ("city", "village", "park", "garden", "forest", "beach")
]
AGES = {  # what is likely, by the last word of the subject; others are of any age
    "mother": "thirty forty", "father": "thirty forty", "aunt": "thirty forty", "uncle": "thirty forty",
    "grandmother": "sixty", "grandfather": "sixty",
}  # fmt: skip
ANY_AGE = "five six seven eight nine ten twelve twenty thirty forty sixty"


def weather(picker: Picker) -> Draft:
    """It is cold in the kitchen: hace frío en la cocina."""
    if picker.chance(0.35):
        place = picker.pick([*OUTDOORS, Phrase("", "")])
        when = picker.pick([Phrase("", ""), Phrase("today", "hoy"), Phrase("now", "ahora")])
        english = spaced("it is raining", place.english, when.english)
        return Draft(english, spaced("está lloviendo", place.spanish, when.spanish), ".")
    place = picker.pick(DAYS if picker.chance(0.3) else STAYS)
    english, spanish = picker.pick(WEATHER)
    return Draft(f"it is {english} {place.english}", f"hace {spanish} {place.spanish}", ".")


def age(picker: Picker) -> Draft:
    """Ana is twenty years old: Ana tiene veinte años."""
    who: Subject = picker.pick(picker.pick([PRONOUNS, NAMED, RELATIVES]))
    if picker.chance(0.2) and who.person not in (0, 3):
        verb = COPULAS["tener"][who.person]
        return Draft(f"how old {BE[who.person]} {who.english}", spaced("cuántos años", verb, who.spanish), "?")
    years = picker.pick(AGES.get(who.english.split()[-1], ANY_AGE).split())
    return being(picker, who, "tener", f"{years} years old", f"{NUMBERS[years]} años")


def need(picker: Picker) -> Draft:
    """I am very hungry: tengo mucha hambre."""
    who = subject(picker)
    english, spanish = picker.pick(list(NEEDS.items()))
    if picker.chance(0.25):
        return being(
            picker, who, "tener", f"very {english}", f"{'mucha' if spanish in FEMININE else 'mucho'} {spanish}"
        )
    return being(picker, who, "tener", english, spanish, "always" if picker.chance(0.1) else "")

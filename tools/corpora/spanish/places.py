"""Where things are and where one goes: prepositions go with the noun in English, in Spanish most are "en"."""

from tools.corpora.spanish.nouns import NOUNS, Noun, tagged
from tools.corpora.spanish.phrases import LOOKS, Phrase, definite, phrase
from tools.corpora.spanish.picker import Picker

AT = ["cinema", "museum", "restaurant", "market", "store", "hospital", "library", "station", "hotel", "office", "beach"]
IN = ["park", "garden", "forest", "city", "village", "kitchen", "house", "square"]
SURFACES = ["table", "chair", "bed"]
INSIDE = ["box", "bag", "suitcase"]
BESIDE = {
    "next to": "al lado de",
    "behind": "detrás de",
    "in front of": "delante de",
    "near": "cerca de",
}

# where one goes, and what for; "a" stands before the Spanish infinitive
PURPOSES = """
cinema     | to watch a film          | ver una película
cinema     | to watch a new film      | ver una película nueva
cinema     | to watch a French film   | ver una película francesa
theater    | to listen to music       | escuchar música
library    | to read the newspaper    | leer el periódico
library    | to study the lesson      | estudiar la lección
library    | to look for a book       | buscar un libro
market     | to buy apples            | comprar manzanas
market     | to buy bread             | comprar pan
market     | to buy cheese            | comprar queso
store      | to buy a shirt           | comprar una camisa
store      | to buy a gift            | comprar un regalo
store      | to buy shoes             | comprar zapatos
restaurant | to eat                   | comer
beach      | to swim                  | nadar
beach      | to walk                  | caminar
park       | to run                   | correr
park       | to walk                  | caminar
square     | to dance                 | bailar
hospital   | to visit my grandmother  | visitar a mi abuela
hospital   | to visit my uncle        | visitar a mi tío
museum     | to see the pictures      | ver los cuadros
station    | to wait for my sister    | esperar a mi hermana
station    | to wait for Luis         | esperar a Luis
"""


ERRANDS = [[part.strip() for part in row.split("|")] for row in PURPOSES.splitlines() if row]
GOALS = [(place, Phrase(english, spanish)) for place, english, spanish in ERRANDS]
STAYS = [Phrase(f"at the {place}", f"en {phrase(NOUNS[place], 'the').spanish}") for place in AT]
STAYS += [Phrase(f"in the {place}", f"en {phrase(NOUNS[place], 'the').spanish}") for place in IN]
STAYS += [Phrase("at school", "en la escuela"), Phrase("in my room", "en mi habitación")]
STAYS += [
    Phrase(f"in this {place}", f"en {phrase(NOUNS[place], 'this').spanish}") for place in ("city", "house", "park")
]
NEARBY = [
    Phrase(f"near the {noun.english}", f"cerca de {phrase(noun, 'the').spanish}")
    for noun in tagged("landmark")
    if noun.english != "house"
]
HOMES = NEARBY + [stay for stay in STAYS if stay.english.split()[-1] in ("city", "village", "house")] * 2
ROOMS = [stay for stay in STAYS if stay.english.split()[-1] in ("kitchen", "garden", "house", "park")]

DESTINATIONS = [phrase(noun, "the") for noun in tagged("go")]
DESTINATIONS += [phrase(NOUNS[place], "this") for place in ("park", "museum", "beach", "restaurant", "store")]
DESTINATIONS += [phrase(NOUNS["theater"], "the"), Phrase("school", "la escuela", True)]


def inside(picker: Picker) -> Phrase:
    """On a piece of furniture or in something that holds things."""
    if picker.chance(0.6):
        place = definite(picker, NOUNS[picker.pick(SURFACES)], plural=0)
        return Phrase(f"on {place.english}", f"en {place.spanish}")
    place = definite(picker, NOUNS[picker.pick(INSIDE)], measures=LOOKS, plural=0)
    return Phrase(f"in {place.english}", f"en {place.spanish}")


def beside(picker: Picker, building: Noun) -> Phrase:
    """Next to another building."""
    english, spanish = picker.pick(list(BESIDE.items()))
    place = definite(picker, picker.pick([noun for noun in tagged("landmark") if noun is not building]), plural=0)
    return Phrase(f"{english} {place.english}", f"{spanish} {place.spanish}")


def under(picker: Picker) -> Phrase:
    place = definite(picker, NOUNS[picker.pick([*SURFACES, "tree"])], plural=0)
    return Phrase(f"under {place.english}", f"debajo de {place.spanish}")

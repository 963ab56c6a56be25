"""The adjectives: English, Spanish, ser or estar, what they measure, how they are used, what they describe.

Use: n beside a noun in a phrase, o also in the object of a verb, v with "very". The last columns are tags or nouns.
"""

from functools import cache
from typing import NamedTuple

from tools.corpora.spanish.forms import adjective_forms
from tools.corpora.spanish.nouns import Noun

TABLE = """
red         rojo        ser   color      no   colored flower apple tomato
white       blanco      ser   color      no   colored flower animal
black       negro       ser   color      no   colored animal
green       verde       ser   color      no   colored apple pear
blue        azul        ser   color      no   colored
yellow      amarillo    ser   color      no   colored flower
big         grande      ser   size       nov  sized animal
small       pequeño     ser   size       nov  sized animal
new         nuevo       ser   age        no   made film text modern
old         viejo       ser   age        nov  made animal house
long        largo       ser   length     nov  long
short       corto       ser   length     nov  long
short       bajo        ser   height     nv   person relative
tall        alto        ser   height     nv   person relative tree
expensive   caro        ser   price      nov  goods priced
cheap       barato      ser   price      nov  goods priced
beautiful   hermoso     ser   beauty     nov  lovely city
ugly        feo         ser   beauty     nv   clothes lamp picture house
young       joven       ser   age        nv   adult
nice        simpático   ser   manner     nv   person relative
intelligent inteligente ser   mind       nv   person relative dog
strong      fuerte      ser   strength   nv   person relative horse
famous      famoso      ser   fame       no   museum restaurant film song book city bridge
tired       cansado     estar energy     nv   person relative horse
sick        enfermo     estar health     nv   person relative animal
sad         triste      estar mood       nv   person relative
happy       feliz       estar mood       nv   person relative
busy        ocupado     estar work       v    adult relative
open        abierto     estar access     n    opens hall
closed      cerrado     estar access     n    opens hall
full        lleno       estar filling    n    filled
empty       vacío       estar filling    n    filled
clean       limpio      estar cleanness  nv   soiled room
dirty       sucio       estar cleanness  nv   soiled room
broken      roto        estar damage     n    broken
hot         caliente    estar heat       no   warm
cold        frío        estar heat       no   warm
fresh       fresco      estar heat       no   fresh
delicious   delicioso   estar taste      no   food
easy        fácil       ser   difficulty nov  easy
difficult   difícil     ser   difficulty nov  easy
important   importante  ser   importance nov  important
interesting interesante ser   interest   nov  interesting
heavy       pesado      ser   weight     nv   heavy
modern      moderno     ser   age        nov  modern bridge lamp car chair table train
quiet       tranquilo   ser   noise      nov  quiet
dangerous   peligroso   ser   danger     nov  dangerous dog horse
French      francés     ser   origin     no   origin
Mexican     mexicano    ser   origin     no   origin
good        bueno       ser   quality    nov  good
great       grande      ser   quality    n    good city museum
"""

# these stand before the noun and are cut short: un buen libro, una gran ciudad
BEFORE = {
    "good": ("buen", "buena", "buenos", "buenas"),
    "great": ("gran", "gran", "grandes", "grandes"),
}

# masculine before a noun, feminine
ORDINALS = {
    "first": ("primer", "primera"),
    "second": ("segundo", "segunda"),
    "third": ("tercer", "tercera"),
    "last": ("último", "última"),
}

COMPARATIVES = {
    "big": "bigger",
    "small": "smaller",
    "tall": "taller",
    "long": "longer",
    "strong": "stronger",
    "cheap": "cheaper",
    "young": "younger",
    "heavy": "heavier",
    "expensive": "more expensive",
    "important": "more important",
    "interesting": "more interesting",
    "difficult": "more difficult",
    "intelligent": "more intelligent",
    "modern": "more modern",
}


class Adjective(NamedTuple):
    """An adjective with its four Spanish forms."""

    english: str
    forms: tuple[str, ...]  # masculine, feminine; the same in the plural
    before: tuple[str, ...]  # the forms that stand before the noun, none for most adjectives
    copula: str
    measures: str
    use: str
    fits: frozenset[str]

    def describes(self, noun: Noun) -> bool:
        return bool(self.fits & noun.tags) or noun.english in self.fits


def adjective(english: str, spanish: str, copula: str, measures: str, use: str, *fits: str) -> Adjective:
    forms = adjective_forms(spanish)
    return Adjective(english, forms, BEFORE.get(english, ()), copula, measures, use, frozenset(fits))


ADJECTIVES = [adjective(*row.split()) for row in TABLE.splitlines() if row]
WORDS = {word.english: word for word in reversed(ADJECTIVES)}  # the first of a spelling: short is corto here


@cache
def describing(noun: Noun, use: str = "", measures: str = "") -> list[Adjective]:
    """The adjectives that fit a noun, with a letter of the use column, and measure one of some things.

    >>> from tools.corpora.spanish.nouns import NOUNS
    >>> [word.english for word in describing(NOUNS["soup"])]
    ['hot', 'cold', 'delicious']
    """
    allowed = measures.split()
    fitting = [word for word in ADJECTIVES if word.describes(noun) and use in word.use]
    return [word for word in fitting if not allowed or word.measures in allowed]

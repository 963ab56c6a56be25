"""The nouns: English, Spanish, gender, and what can be said of them.

A tag names what fits: an adjective lists the tags it describes, a verb the tag of its objects. Some tags:
mass       has no plural                 several    has no singular       single     has no plural here
person     is named with "the"           relative   is "my" or "your"     adult      may be young, works
goods      is bought                     gift       is given              small      is mislaid, lies on tables
soiled     is clean or dirty             opens      is open or closed     hall       is a building one enters
public     belongs to nobody in sight    wild       so too, has a plural  landmark   others are near it
cue        decides the sense of another word, so it is never held out
"""

from functools import cache
from typing import NamedTuple

from tools.corpora.spanish.forms import english_plural, spanish_plural

TABLE = """
man         hombre       m person adult
woman       mujer        f person adult
boy         niño         m person
girl        niña         f person
teacher     profesor     m person adult
doctor      médico       m person adult
neighbor    vecino       m person adult
mother      madre        f relative
father      padre        m relative
sister      hermana      f relative
brother     hermano      m relative
grandmother abuela       f relative
grandfather abuelo       m relative
aunt        tía          f relative
uncle       tío          m relative
friend      amigo        m relative good

dog         perro        m animal seen pet
cat         gato         m animal seen pet
horse       caballo      m animal seen lovely
bird        pájaro       m animal seen lovely
cow         vaca         f animal seen
rabbit      conejo       m animal seen pet

apple       manzana      f food fruit goods fresh sized wash
orange      naranja      f food fruit goods fresh sized wash
pear        pera         f food fruit goods fresh sized wash
tomato      tomate       m food fruit goods fresh sized wash
egg         huevo        m food goods cook fresh sized
cookie      galleta      f food goods sized
nacho       nacho        m food goods several
cake        pastel       m food goods sized
soup        sopa         f food mass cook warm
salad       ensalada     f food mass
bread       pan          m food mass goods fresh
cheese      queso        m food mass goods origin
meat        carne        f food mass goods cook fresh
rice        arroz        m food mass goods cook
water       agua         f drink mass warm
milk        leche        f drink mass warm fresh
coffee      café         m drink mass warm
tea         té           m drink mass warm

book        libro        m read text goods small gift made long heavy good origin interesting
newspaper   periódico    m read goods small made origin interesting
poem        poema        m read text learn long lovely good interesting study
story       historia     f read text long lovely good interesting
song        canción      f text learn sing long lovely good origin
film        película     f film long good origin interesting
photo       foto         f small gift seen made lovely sized
map         mapa         m small gift seen goods made sized
picture     cuadro       m seen goods gift made lovely sized heavy
notebook    cuaderno     m small goods gift colored made sized
pencil      lápiz        m small goods gift colored long broken
gift        regalo       m small goods sized lovely
flower      flor         f goods gift seen lovely sized
tree        árbol        m wild seen sized lovely
hat         sombrero     m clothes small goods gift colored made lovely
shirt       camisa       f clothes small goods gift colored made lovely wash soiled
dress       vestido      m clothes small goods gift colored made lovely wash soiled long
skirt       falda        f clothes small goods colored made lovely wash soiled long
coat        abrigo       m clothes small goods gift colored made lovely soiled long cleaned heavy
shoe        zapato       m clothes small goods colored made lovely soiled cleaned
table       mesa         f goods colored made sized heavy broken soiled paint cleaned
chair       silla        f goods colored made sized heavy broken soiled paint cleaned
bed         cama         f goods made sized heavy soiled cleaned
lamp        lámpara      f goods colored made sized broken lovely
door        puerta       f opens colored sized broken paint seen
window      ventana      f opens sized broken paint soiled seen cleaned
box         caja         f opens small colored sized heavy filled
bag         bolsa        f opens small goods gift colored sized heavy filled made
suitcase    maleta       f opens small goods colored sized heavy filled made
cup         taza         f small goods colored sized broken wash soiled filled
plate       plato        m small goods colored sized broken wash soiled filled
knife       cuchillo     m small goods sized wash soiled broken
spoon       cuchara      f small goods sized wash soiled
bicycle     bicicleta    f goods seen colored sized made broken heavy gift wash
car         coche        m goods seen colored sized made wash soiled
train       tren         m vehicle seen long filled
bus         autobús      m vehicle seen colored made filled
boat        barco        m vehicle seen colored sized made
phone       teléfono     m small goods gift colored made broken
guitar      guitarra     f goods gift made lovely cue
piano       piano        m made cue single
violin      violín       m goods made cue broken single
ball        pelota       f small colored cue
word        palabra      f learn easy cue wild study
name        nombre       m cue
page        página       f long
question    pregunta     f easy good important interesting
answer      respuesta    f good important
idea        idea         f good important interesting single
problem     problema     m easy important
lesson      lección      f learn easy long important interesting study

house       casa         f seen paint place colored sized made lovely modern landmark cleaned
city        ciudad       f place go visit seen sized lovely interesting single
village     pueblo       m place go visit seen sized lovely quiet
street      calle        f long sized soiled quiet dangerous
park        parque       m public place go outdoor sized lovely quiet landmark
garden      jardín       m place outdoor seen sized lovely quiet
beach       playa        f wild place go sized lovely quiet soiled
mountain    montaña      f wild seen lovely dangerous
forest      bosque       m public place go outdoor sized lovely quiet dangerous
river       río          m public long lovely dangerous cue
school      escuela      f public hall sized modern landmark
museum      museo        m public hall go visit sized modern good interesting landmark
theater     teatro       m public hall sized modern landmark cue
cinema      cine         m public hall go sized modern landmark
restaurant  restaurante  m public hall go sized good origin landmark priced filled
market      mercado      m public hall go sized landmark
store       tienda       f public hall go sized modern landmark priced
hospital    hospital     m public go sized modern landmark
library     biblioteca   f public hall go visit sized modern landmark
station     estación     f public go sized modern landmark
hotel       hotel        m public hall go sized modern good landmark priced
church      iglesia      f public hall visit sized lovely landmark
office      oficina      f hall go sized modern soiled cleaned
kitchen     cocina       f room paint sized modern soiled cleaned
room        habitación   f room paint sized soiled cleaned
bridge      puente       m wild seen long sized modern dangerous
island      isla         f public place go visit sized lovely quiet
square      plaza        f public place go outdoor sized lovely landmark
"""


class Noun(NamedTuple):
    """A noun with both its forms in both languages."""

    english: str
    plural: str
    spanish: str
    spanish_plural: str
    gender: str  # m or f
    tags: frozenset[str]

    @property
    def owned(self) -> bool:
        """Whether one says "my ..."."""
        return not self.tags & {"person", "public", "wild", "food", "drink"}


def noun(english: str, spanish: str, gender: str, *tags: str) -> Noun:
    return Noun(english, english_plural(english), spanish, spanish_plural(spanish), gender, frozenset(tags))


NOUNS = {row.split()[0]: noun(*row.split()) for row in TABLE.splitlines() if row}


@cache
def tagged(*tags: str) -> list[Noun]:
    """The nouns that have any of the tags, in the order of the table.

    >>> [noun.english for noun in tagged("drink")]
    ['water', 'milk', 'coffee', 'tea']
    """
    return [noun for noun in NOUNS.values() if noun.tags & set(tags)]

"""The verbs: English base, third person, -ing form and past; Spanish infinitive; the moods they are used in.

Moods: s simple present, g progressive, p preterite, f future with ir a, m after want to, can and have to, w, c, h after one of
these. Then what is irregular: `stem` under stress, `yo`, `present`, `gerund`, `preterite`.
"""

from typing import NamedTuple

from tools.corpora.spanish.forms import gerund, present, preterite

TABLE = """
eat       eats       eating       ate        comer      sgpfm
drink     drinks     drinking     drank      beber      sgfm
read      reads      reading      read       leer       sgpfm gerund=leyendo preterite=leí,leíste,leyó,leímos,leyeron
write     writes     writing      wrote      escribir   sgpfm
buy       buys       buying       bought     comprar    sgpfm
see       sees       seeing       saw        ver        spm   yo=veo preterite=vi,viste,vio,vimos,vieron
look_for  looks_for  looking_for  looked_for buscar     gfwh
need      needs      needing      needed     necesitar  s
have      has        having       had        tener      s     stem=tien yo=tengo
want      wants      wanting      wanted     querer     s     stem=quier
wash      washes     washing      washed     lavar      sgfm
clean     cleans     cleaning     cleaned    limpiar    gfm
open      opens      opening      opened     abrir      gfm
close     closes     closing      closed     cerrar     gfm  stem=cierr
find      finds      finding      found      encontrar  pc    stem=encuentr
lose      loses      losing       lost       perder     p     stem=pierd
sing      sings      singing      sang       cantar     gfm
listen_to listens_to listening_to listened   escuchar   gfm
cook      cooks      cooking      cooked     cocinar    gfm
paint     paints     painting     painted    pintar     gfm
learn     learns     learning     learned    aprender   gfm
study     studies    studying     studied    estudiar   sgfm
send      sends      sending      sent       enviar     gfm  stem=enví
give      gives      giving       gave       dar        sgpfm yo=doy preterite=di,diste,dio,dimos,dieron
show      shows      showing      showed     mostrar    gfm  stem=muestr
visit     visits     visiting     visited    visitar    gpfm
help      helps      helping      helped     ayudar     gfm
call      calls      calling      called     llamar     gfm
wait_for  waits_for  waiting_for  waited     esperar    gfm
live      lives      living       lived      vivir      sm
work      works      working      worked     trabajar   sgfm
walk      walks      walking      walked     caminar    gfm
run       runs       running      ran        correr     gfm
sleep     sleeps     sleeping     slept      dormir     sgfm  stem=duerm gerund=durmiendo
swim      swims      swimming     swam       nadar      gfm
dance     dances     dancing      danced     bailar     gfm
travel    travels    traveling    traveled   viajar     fm
talk      talks      talking      talked     hablar     gfm
arrive    arrives    arriving     arrived    llegar     f
go        goes       going        went       ir         spm   present=voy,vas,va,vamos,van preterite=fui,fuiste,fue,fuimos,fueron
watch     watches    watching     watched    ver        sgpfm yo=veo preterite=vi,viste,vio,vimos,vieron
look_at   looks_at   looking_at   looked_at  mirar      gfm
play      plays      playing      played     jugar      sgfm stem=jueg
play      plays      playing      played     tocar      sgfm
know      knows      knowing      knew       saber      s     yo=sé
know      knows      knowing      knew       conocer    s     yo=conozco
fish      fishes     fishing      fished     pescar     gfm
hit       hits       hitting      hit        golpear    gfm
turn_on   turns_on   turning_on   turned_on  encender   gfm  stem=enciend
turn_off  turns_off  turning_off  turned_off apagar     gfm
turn      turns      turning      turned     girar      gfm
win       wins       winning      won        ganar      fm
think     thinks     thinking     thought    creer      s
can       can        -            -          poder      -     stem=pued
"""

# verbs that are grammar, or that decide or need a sense, so that they are never held out
CUES = [
    "have",
    "want",
    "go",
    "watch",
    "play",
    "know",
    "fish",
    "hit",
    "turn_on",
    "turn_off",
    "turn",
    "win",
    "can",
    "think",
]


class Verb(NamedTuple):
    """A verb with its English and Spanish forms."""

    base: str
    third: str
    ing: str
    past: str
    infinitive: str
    moods: str
    present: tuple[str, ...]
    gerund: str
    preterite: tuple[str, ...]

    @property
    def name(self) -> str:
        """
        >>> VERBS["play/tocar"].name
        'play/tocar'
        """
        return f"{self.base}/{self.infinitive}"

    @property
    def forms(self) -> tuple[str, ...]:
        """Every Spanish form in use."""
        return (self.infinitive, self.gerund, *self.present, *(self.preterite if "p" in self.moods else ()))


def _verb(base: str, third: str, ing: str, past: str, infinitive: str, moods: str, *odd: str) -> Verb:
    irregular = dict(entry.split("=") for entry in odd)
    now = present(infinitive, irregular.get("stem", ""))
    if "yo" in irregular:
        now = (irregular["yo"], *now[1:])
    if "present" in irregular:
        now = tuple(irregular["present"].split(","))
    then = tuple(irregular["preterite"].split(",")) if "preterite" in irregular else preterite(infinitive)
    base, third, ing, past = (form.replace("_", " ") for form in (base, third, ing, past))
    return Verb(base, third, ing, past, infinitive, moods, now, irregular.get("gerund") or gerund(infinitive), then)


ROWS = [_verb(*row.split()) for row in TABLE.splitlines() if row]
# by "play/tocar", and by "play" the first of that spelling
VERBS = {row.base: row for row in reversed(ROWS)} | {row.name: row for row in ROWS}

SER = ("soy", "eres", "es", "somos", "son")
ESTAR = ("estoy", "estás", "está", "estamos", "están")
COPULAS = {"ser": SER, "estar": ESTAR, "tener": VERBS["have"].present}

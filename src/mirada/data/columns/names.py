"""The one list of what columns are called, in English and Spanish, as people write them: `Review Text`, `Etiqueta`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from unicodedata import combining, normalize


def _several(words: str) -> frozenset[str]:
    """Words with blanks between them."""
    return frozenset(words.split())


class _Aliases(dict[str, frozenset[str]]):
    """The usual names of columns, each column's own among them; another column has only its own."""

    def __init__(self, words: dict[str, str]) -> None:
        super().__init__({column: frozenset((column, *aliases.split())) for column, aliases in words.items()})

    def __missing__(self, column: str) -> frozenset[str]:
        return frozenset((column,))


# A word may stand under several columns, in any language: a task asks only for its own columns.
ALIASES = _Aliases(
    {
        "text": "text texto review resena opinion sentence frase oracion tweet tuit comment comentario document documento "
        "utterance question pregunta query consulta article articulo description descripcion statement feedback transcript "
        "transcription transcripcion "
        "content contenido message mensaje body cuerpo phrase post email correo sms input entrada",
        "label": "label etiqueta class clase category categoria sentiment sentimiento star estrella rating score puntuacion nota "
        "calificacion valoracion target tag topic tema polarity polaridad emotion emocion intent intencion genre genero verdict "
        "veredicto type tipo objetivo grade y output salida",
        "source": "source src origen fuente original input entrada from",
        "target": "target tgt destino objetivo translation traduccion translated traducido traducida output salida to",
        "first": "first primera primero sentence1 frase1 oracion1 a premise premisa",
        "second": "second segunda segundo sentence2 frase2 oracion2 b hypothesis hipotesis",
        "score": "score similarity similitud similaridad puntuacion relatedness gold",
        "name": "name nombre file filename archivo fichero image imagen picture foto path ruta audio wav recording grabacion",
        "caption": "caption leyenda description descripcion text texto comment comentario sentence frase",
        "question": "question pregunta query consulta",
        "context": "context contexto passage pasaje paragraph parrafo document documento article articulo text texto",
        "answer": "answer respuesta",
        "start": "start inicio comienzo",
    }
)
WEAK_ALIASES = {  # if there is nothing better: a word that may as well be a text or a label
    "text": _several(
        "title titulo headline titular summary resumen subject asunto name nombre noticia news abstract complaint queja"
    ),
    "label": _several("area department departamento section seccion product producto"),
    "name": _several("id"),
}
STRONG = _several("text texto review resena sentence oracion frase tweet tuit comment comentario utterance")
OTHER = _several(  # a name that ends so is of something else: text_id, review date, sentiment_confidence
    "id ids key clave index idx indice number numero num no date fecha time hora day dia year timestamp created length "
    "longitud len count conteo total url link user usuario author autor lang language idioma confidence confianza "
    "probability prob location place source coord unnamed"
)
NUMBERED = _several("id ids index idx number num no name nombre code codigo")  # a label may be named so: class_id
QUALIFIERS = _several("text texto sentence frase oracion segment word string lang language idioma side version")
LANGUAGES = {
    name: names.split()[0]
    for names in (
        "en eng english ingles englisch anglais inglese", "es spa esp spanish espanol castellano castilian spanisch espagnol",
        "fr fra fre french frances francais franzosisch", "de deu ger german aleman deutsch allemand",
        "it ita italian italiano italienisch italien", "pt por portuguese portugues portugiesisch portugais",
        "nl nld dutch holandes neerlandes nederlands",
        "ca cat catalan", "gl glg galician gallego", "eu eus basque euskera vasco", "la lat latin", "zh zho chinese chino",
        "ja jpn japanese japones", "ko kor korean coreano", "ru rus russian ruso", "uk ukr ukrainian ucraniano",
        "ar ara arabic arabe", "pl pol polish polaco", "tr tur turkish turco", "sv swe swedish sueco", "da dan danish danes",
        "fi fin finnish fines", "cs ces czech checo", "ro ron romanian rumano", "hu hun hungarian hungaro",
        "el ell greek griego", "vi vie vietnamese vietnamita", "qu que quechua", "gn grn guarani", "nah nahuatl",
        "hindi hin", "bengali bangla", "urdu urd", "tamil", "telugu", "marathi", "gujarati", "punjabi", "nepali", "persian farsi",
        "hebrew hebreo heb", "indonesian indonesio", "malay malayo", "thai tailandes", "swahili suajili swa", "yoruba", "igbo",
        "hausa", "amharic amharico", "zulu", "tagalog filipino", "norwegian noruego", "icelandic islandes", "bulgarian bulgaro",
        "serbian serbio srp", "croatian croata hrv", "slovak eslovaco slk", "slovenian esloveno slv", "lithuanian lituano",
        "latvian leton", "estonian estonio", "irish irlandes", "esperanto", "afrikaans", "armenian armenio",
        "georgian georgiano", "aymara aimara", "mapudungun mapuche",
    )
    for name in names.split()
}  # fmt: skip
LINKS = _several("a al de del el en from in into la of the to")  # between the words of a name; some are languages, too
REGION = re.compile(r"(?<=^[a-z]{2})[-_][A-Z]{2}$|\s*\([^)]*\)$")  # es_MX, English (US)
GRAPH_ALIASES = {  # what the columns of nodes and edges are called, and only as the whole cell
    "node": "node nodo id name nombre",
    "source": "source src from origen desde node1 citing",
    "target": "target tgt dst to destino hasta node2 cited",
    "label": "label etiqueta class clase category categoría categoria y",
    "split": "split set part subset partición particion conjunto mask",
}
TIME_NAMES = _several(  # of a column of times
    "time date datetime timestamp day month year week hour period step index ds t "
    "fecha hora tiempo dia día mes año ano semana periodo paso"
)


class NameMatch(IntEnum):
    """How well a name fits a column, best first. Up to `ALIAS` it is no ordinary word of a text."""

    OWN = 0  # our own word: text
    ALIAS = 1  # one of its aliases: review
    LAST_WORD = 2  # an alias is the last word: tweet_text
    ANY_WORD = 3  # an alias is among the words: class_id
    WEAK = 4  # a weak alias, if there is nothing better: title


@cache
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, without case and accents.

    >>> words_of("Review Text"), words_of("reviewText"), words_of("Reseña_2")
    (('review', 'text'), ('review', 'text'), ('resena', '2'))
    """
    plain = "".join(letter for letter in normalize("NFD", name) if not combining(letter))
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)
    return tuple(re.findall(r"[^\W\d_]+|\d+", parts.casefold()))


def is_one_of(word: str, names: frozenset[str]) -> bool:
    """Whether a word, or its singular, is one of some names."""
    return any(form in names for form in (word, word.removesuffix("s"), word.removesuffix("es")))


@cache
def match_name(name: str, column: str) -> NameMatch | None:
    """How well a name fits a column; None if not at all.

    >>> [match_name(name, "text") for name in ("TEXT", "Reseñas", "tweet_text")]
    [<NameMatch.OWN: 0>, <NameMatch.ALIAS: 1>, <NameMatch.LAST_WORD: 2>]
    >>> match_name("class_id", "label"), match_name("title", "text"), match_name("tweet_id", "text")
    (<NameMatch.ANY_WORD: 3>, <NameMatch.WEAK: 4>, None)
    """
    words, names = words_of(name), ALIASES[column]
    if not words or len(words) > 4:
        return None
    if len(words) == 1 or "".join(words) in names:
        word = "".join(words)
        if word == column:
            return NameMatch.OWN
        if is_one_of(word, names):
            return NameMatch.ALIAS
        return NameMatch.WEAK if is_one_of(word, WEAK_ALIASES.get(column, frozenset())) else None
    if is_one_of(words[-1], names):
        return NameMatch.LAST_WORD
    other = words[-1] in OTHER and not (column == "label" and words[-1] in NUMBERED)
    return NameMatch.ANY_WORD if not other and any(is_one_of(word, names) for word in words) else None


@dataclass
class ColumnMatch:
    """Which of some names is which column.

    Args:
        picked: the place of each column, or None.
        fits: how well the name there fits it.
        rivals: the places of names that fit a column equally well.

    `places` are those of the columns that have a name. The match is complete where all have one, certain where nothing but
    a name fits so well, and partly certain where that holds for some.
    """

    picked: tuple[int | None, ...]
    fits: tuple[NameMatch, ...]
    rivals: dict[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        self.places = tuple(place for place in self.picked if place is not None)
        self.is_complete = None not in self.picked
        certain = [
            place is not None and fit <= NameMatch.ALIAS for place, fit in zip(self.picked, self.fits, strict=True)
        ]
        self.is_certain, self.is_partly_certain = all(certain), any(certain)


def match_names(names: Sequence[str], columns: tuple[str, ...]) -> ColumnMatch:
    """Find every column by its name: the name that fits best, if it is the only one.

    >>> match_names(["id", "Review Text", "stars", "date"], ("text", "label")).picked
    (1, 2)
    >>> match_names(["review", "rating", "sentiment"], ("text", "label")).rivals
    {'label': (1, 2)}
    >>> match_names(["Español", "Inglés"], ("source", "target")).picked
    (0, 1)
    """
    matched: dict[str, tuple[int, NameMatch]] = {}
    rivals: dict[str, tuple[int, ...]] = {}
    for level in NameMatch:
        for column in columns:
            others = {place for place, _ in matched.values()}
            places = [n for n, name in enumerate(names) if n not in others and match_name(name, column) == level]
            if column in matched or column in rivals or not places:
                continue
            if len(places) == 1:
                matched[column] = places[0], level
            else:
                rivals[column] = tuple(places)
    spoken: dict[str, list[int]] = {}  # where each language is, if the columns are two languages
    if columns == ("source", "target") and len(matched) < 2:
        for place, name in enumerate(names):
            if language := _language_of(name):
                spoken.setdefault(language, []).append(place)
    alone = [place for (place, *more) in spoken.values() if not more]
    if len(alone) == len(spoken) == 2:  # the first is the source, if no name says otherwise
        first, second = sorted(alone)
        named = {column: place for column, (place, _) in matched.items()}
        if named.get("target") == first or named.get("source") == second:
            first, second = second, first
        matched, rivals = {"source": (first, NameMatch.ALIAS), "target": (second, NameMatch.ALIAS)}, {}
    elif len(alone) == len(spoken) == len(matched) == 1:  # one language, next to a column with another name
        ((column, (place, level)),) = matched.items()
        if alone[0] != place:
            matched["target" if column == "source" else "source"], rivals = (alone[0], level), {}
    return ColumnMatch(
        tuple(matched[column][0] if column in matched else None for column in columns),
        tuple(matched[column][1] if column in matched else NameMatch.WEAK for column in columns),
        {column: places for column, places in rivals.items() if column not in matched},
    )


@cache
def _language_of(name: str) -> str:
    """The language that the name of a column states; "" if the name contains other words, or several languages.

    >>> [_language_of(name) for name in ("Texto en español", "sentence_en", "English to Spanish", "casa en es")]
    ['es', 'en', '', '']
    >>> _language_of("pt_BR"), _language_of("Spanish (Mexico)")
    ('pt', 'es')
    """
    words = words_of(REGION.sub("", name))
    spoken = [word for word in words if word in LANGUAGES]
    meant = [word for word in spoken if word not in LINKS]
    if not meant and LINKS.isdisjoint(word for word in words if word not in spoken):  # en, text_de; not: a la
        meant = spoken
    languages = {LANGUAGES[word] for word in meant}
    allowed = QUALIFIERS | LINKS | ALIASES["source"] | ALIASES["target"]
    known = all(word in LANGUAGES or is_one_of(word, allowed) for word in words)
    return languages.pop() if known and len(languages) == 1 else ""


@cache
def is_name(cell: str) -> bool:
    """Whether a cell is the name of any column: all its words are words of names.

    >>> is_name("id"), is_name("Fecha"), is_name("review date"), is_name("thanks"), is_name("no")
    (True, True, True, False, False)
    """
    words = words_of(cell)
    known = OTHER.union(NUMBERED, QUALIFIERS, LINKS, LANGUAGES, *ALIASES.values(), *WEAK_ALIASES.values())
    distinctive = any(len(word) > 2 or word == "id" for word in words)  # `a` and `no` are also words of any text
    return distinctive and all(is_one_of(word, known) for word in words)


def is_graph_alias(cell: str, column: str) -> bool:
    """Whether a cell is what people call a column of nodes or edges.

    >>> is_graph_alias("From", "source"), is_graph_alias("p17", "node")
    (True, False)
    """
    return cell.casefold() in GRAPH_ALIASES[column].split()

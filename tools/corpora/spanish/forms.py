"""Inflection: plurals, the four forms of an adjective, the persons of a verb."""

IRREGULAR_ENGLISH = {"man": "men", "woman": "women", "knife": "knives", "fish": "fish"}
IRREGULAR_SPANISH = {"joven": "jóvenes", "lápiz": "lápices", "feliz": "felices", "pez": "peces", "luz": "luces"}
PLAIN = str.maketrans("áéíóú", "aeiou")

# endings of the present and the preterite for I, you, he or she, we, they
PRESENT = {"ar": "o as a amos an", "er": "o es e emos en", "ir": "o es e imos en"}
PRETERITE = {"ar": "é aste ó amos aron", "er": "í iste ió imos ieron", "ir": "í iste ió imos ieron"}
HARDENED = {"c": "qu", "g": "gu"}  # the sound of the stem is kept before é: buscar, busqué


def english_plural(noun: str) -> str:
    """
    >>> [english_plural(noun) for noun in ("house", "box", "city", "boy", "man")]
    ['houses', 'boxes', 'cities', 'boys', 'men']
    """
    if noun in IRREGULAR_ENGLISH:
        return IRREGULAR_ENGLISH[noun]
    if noun.endswith(("s", "x", "ch", "sh")) or noun in ("tomato",):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + "s"


def spanish_plural(word: str) -> str:
    """Nouns and adjectives alike: an accent on the last syllable is no longer needed before -es.

    >>> [spanish_plural(word) for word in ("casa", "flor", "canción", "autobús", "lápiz", "café")]
    ['casas', 'flores', 'canciones', 'autobuses', 'lápices', 'cafés']
    """
    if word in IRREGULAR_SPANISH:
        return IRREGULAR_SPANISH[word]
    if word[-1] in "aeiouáéó":
        return word + "s"
    if word[-2] in "áéíóú":
        return word[:-2] + word[-2:].translate(PLAIN) + "es"
    return word + "es"


def adjective_forms(masculine: str) -> tuple[str, str, str, str]:
    """Masculine and feminine singular, masculine and feminine plural.

    >>> adjective_forms("rojo"), adjective_forms("azul")
    (('rojo', 'roja', 'rojos', 'rojas'), ('azul', 'azul', 'azules', 'azules'))
    >>> adjective_forms("francés")
    ('francés', 'francesa', 'franceses', 'francesas')
    """
    if masculine.endswith("o"):
        feminine = masculine[:-1] + "a"
    elif masculine.endswith("és"):
        feminine = masculine[:-2] + "esa"
    else:
        feminine = masculine
    return masculine, feminine, spanish_plural(masculine), spanish_plural(feminine)


def present(infinitive: str, stem: str = "") -> tuple[str, ...]:
    """I, you, he or she, we, they; `stem` is the stem under stress, where it differs: cerrar, cierro.

    >>> present("cerrar", "cierr")
    ('cierro', 'cierras', 'cierra', 'cerramos', 'cierran')
    """
    root, endings = infinitive[:-2], PRESENT[infinitive[-2:]].split()
    return tuple((root if person == 3 else stem or root) + ending for person, ending in enumerate(endings))


def preterite(infinitive: str) -> tuple[str, ...]:
    """
    >>> preterite("buscar")
    ('busqué', 'buscaste', 'buscó', 'buscamos', 'buscaron')
    """
    root, endings = infinitive[:-2], PRETERITE[infinitive[-2:]].split()
    forms = [root + ending for ending in endings]
    if endings[0] == "é" and root[-1] in HARDENED:
        forms[0] = root[:-1] + HARDENED[root[-1]] + "é"
    return tuple(forms)


def gerund(infinitive: str) -> str:
    """
    >>> gerund("escribir"), gerund("hablar")
    ('escribiendo', 'hablando')
    """
    if infinitive == "ir":
        return "yendo"
    return infinitive[:-2] + ("ando" if infinitive.endswith("ar") else "iendo")

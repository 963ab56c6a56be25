"""Short stories about places, in Spanish."""

import re
from random import Random

from tools.corpora.places_story import Errand, Story, Venue, Who, draw_who, people, venue

PEOPLE = people(
    "Ana María Lucía Carmen Elena Sofía Laura Marta Paula Isabel Rosa Julia Clara Teresa Pilar Alba Irene Nuria Silvia "
    "Beatriz Inés Raquel Valeria Camila",
    "Luis Carlos Pedro Juan Miguel Javier Pablo Diego Jorge Andrés Sergio Antonio Manuel Rafael Tomás Hugo Mario Daniel "
    "Álvaro Raúl Óscar Iván Mateo Felipe",
)
COMPANY = ("su hermana", "su hermano", "su prima", "su primo", "una amiga", "un amigo", "unos amigos", "una vecina")

CINEMA = venue(
    "al cine",
    "ver: una película*+, una película*+, una comedia*+, una comedia*+, una comedia*+, una película de risa*+, "
    "una película francesa*+, una película de terror*+, un documental*+, un musical*+",
    "comprar palomitas; sentarse en la última fila; mirar la pantalla en silencio",
    "comentar la escena final; leer los créditos en la pantalla; tararear la banda sonora",
    often=True,
)
THEATER = venue(
    "al teatro",
    "ver: una obra teatral*+, una tragedia*+, una ópera*+, un ballet*+, una obra clásica+",
    "recoger el programa de la función; subir al palco; ver subir el telón",
    "aplaudir de pie; felicitar a los artistas en el camerino; lanzar flores al escenario",
)
MUSEUM = venue(
    "al museo",
    "ver: una exposición*+, una exposición*+, una escultura*+, una colección de cuadros*+, un retrato*+, "
    "una exposición de fotografía*+",
    "recorrer las salas; contemplar los cuadros; escuchar la explicación del guía",
    "dibujar una estatua; comprar una postal de un cuadro; tomar notas sobre los cuadros",
)
CENTER = venue(
    "al centro",
    "ver: una tienda*+, una tienda*+, una zapatería*+, una librería*+, una plaza*+, un edificio*+, una fuente*+",
    "cruzar la avenida; mirar los escaparates; buscar una calle en el plano",
    "pasear por las calles peatonales; descansar en la terraza de un bar; hacer una foto de los tranvías",
)
OTHERS = (
    venue(
        "a la biblioteca",
        "leer: una novela*+, una revista*+, un libro de historia+, un cuento+; buscar: una enciclopedia, un diccionario",
        "enseñar el carné de lector; buscar en las estanterías; sentarse en la sala de lectura",
        "devolver dos libros; llevarse un libro prestado; dar las gracias a la bibliotecaria",
        often=True,
    ),
    venue(
        "al restaurante",
        "comer: una paella+, una sopa de pescado+, una ensalada+, un filete+; probar: un plato*+, una receta*+",
        "elegir una mesa cerca de la ventana; leer la carta; llamar al camarero",
        "tomar el postre; pagar la cuenta; dejar una propina al camarero",
        often=True,
    ),
    venue(
        "a la cafetería",
        "tomar: un café, un té, un chocolate caliente+; probar: una tarta de queso+, una infusión*+",
        "hojear el periódico en la barra; pedir dos terrones de azúcar; remover la bebida con la cucharilla",
        "mojar una galleta en la taza; charlar con la camarera; dejar la taza vacía en la barra",
        often=True,
    ),
    venue(
        "a la playa",
        "hacer: un castillo de arena; ver: una puesta de sol+; jugar con: una pelota*; buscar: unas conchas, un cangrejo",
        "abrir la sombrilla; ponerse crema solar; tumbarse en la toalla",
        "bañarse en el mar; saltar entre las olas; sacudir la arena de la toalla",
        often=True,
    ),
    venue(
        "al parque",
        "jugar: una partida de ajedrez+, un partido de bádminton+; montar en: una bicicleta*; volar: una cometa*; "
        "dibujar: un puente, unas flores",
        "saludar al jardinero; caminar por el césped; buscar un banco a la sombra",
        "dar de comer a las palomas; beber agua de la fuente; descansar bajo un árbol",
        often=True,
    ),
    venue(
        "al estadio",
        "ver: un partido de fútbol+, un partido de rugby+, un partido amistoso+, un torneo juvenil+, un derbi+",
        "ponerse la bufanda del equipo; buscar su asiento en la grada; cantar el himno del club",
        "celebrar la victoria; silbar al árbitro; felicitar a los jugadores",
        often=True,
    ),
    venue(
        "a la panadería",
        "comprar: una barra de pan, una tarta de manzana+, una empanada+, unas magdalenas, unos bollos, un pan de centeno+",
        "saludar al panadero; oler el pan recién hecho; elegir un cruasán",
        "guardar la compra en una bolsa de papel; comerse un bollo por el camino; pedir también unas rosquillas",
        often=True,
    ),
    venue(
        "a la farmacia",
        "comprar: un jarabe, una pomada, una caja de aspirinas, unas vitaminas, unas tiritas, un termómetro*",
        "enseñar la receta del médico; explicar sus síntomas al farmacéutico; preguntar por un remedio para la tos",
        "leer el prospecto; tomarse una pastilla con agua; guardar las medicinas en una bolsa",
    ),
    venue(
        "a la escuela",
        "aprender: una canción*+, un poema*+; estudiar: una lección*; hacer: un examen, un dictado, un trabajo de ciencias",
        "saludar a la maestra; sacar el cuaderno de la mochila; escribir en la pizarra; salir al recreo",
        "corregir los deberes; guardar los lápices en el estuche; despedirse de la maestra",
    ),
    venue(
        "al hospital",
        "visitar a: un amigo enfermo, una tía enferma, un vecino enfermo; "
        "hacerse: una radiografía, un análisis de sangre, una revisión",
        "preguntar en la recepción de urgencias; hablar con una enfermera; esperar al médico en el pasillo",
        "escuchar los consejos del médico; dar las gracias a la enfermera; despedirse de los pacientes",
    ),
    venue(
        "al aeropuerto",
        "recoger a: un invitado, una invitada, un cliente, una compañera de trabajo; "
        "recibir a: un grupo de turistas, una delegación",
        "mirar el panel de llegadas; ver aterrizar los aviones; buscar la puerta de llegadas",
        "cargar las maletas en un taxi; cambiar dinero en la terminal; hacer una foto de los aviones",
    ),
    venue(
        "al mercado",
        "comprar: un kilo de tomates, una lechuga, una sandía+, un melón+, unas naranjas, una merluza+",
        "comparar los precios de la fruta; probar una aceituna; elegir los tomates más maduros",
        "regatear con el frutero; llenar la cesta de verduras; guardar las patatas en la cesta",
        often=True,
    ),
    venue(
        "a la tienda",
        "comprar: una camisa*+, una chaqueta*+, una camiseta*+, un abrigo*+, una bufanda*+, unos pantalones",
        "revisar las perchas; entrar en el probador; mirarse en el espejo",
        "quitar la etiqueta del precio; elegir también un cinturón; guardar la ropa en una bolsa",
    ),
    venue(
        "a la piscina",
        "tomar: una clase de natación+, una clase de buceo+; hacer: una carrera de relevos; practicar: un estilo de natación*, "
        "un salto de trampolín*",
        "ponerse el gorro de baño; tirarse al agua; flotar boca arriba",
        "nadar diez largos; secarse el pelo en el vestuario; recoger su ropa de la taquilla",
        often=True,
    ),
    venue(
        "al zoo",
        "ver: una jirafa*+, un tigre*+, una cría de elefante*+, un oso panda*+, un pingüino*+",
        "seguir el camino de las jaulas; ver jugar a los monos; fotografiar a los leones",
        "dar de comer a las cabras; escuchar el rugido del león; imitar a los monos",
    ),
    venue(
        "al banco",
        "abrir: una cuenta*; pedir: un préstamo*; cobrar: un cheque; cambiar: unos dólares; solicitar: una tarjeta*",
        "hablar con el cajero; preguntar por los intereses; firmar unos papeles",
        "contar los billetes; guardar el dinero en la cartera; revisar el saldo de su cuenta",
    ),
    venue(
        "a la oficina de correos",
        "enviar: una carta, un paquete, una postal, un telegrama; recoger: un paquete, una carta certificada",
        "hacer cola ante la ventanilla; escribir la dirección en un sobre; pegar un sello en un sobre",
        "guardar el recibo del envío; comprar más sellos; despedirse del cartero",
    ),
    venue(
        "al gimnasio",
        "probar: una clase de yoga*+, una máquina*+; aprender: un ejercicio*+; levantar: unas mancuernas; practicar: un baile*+",
        "correr en la cinta; calentar los músculos; saltar a la comba",
        "estirar las piernas; guardar las pesas; despedirse de la entrenadora",
        often=True,
    ),
)  # fmt: skip
# the places where one sees something new come more often: there the place alone decides the word
PLACES = (CINEMA,) * 6 + (MUSEUM,) * 3 + (CENTER,) * 3 + (THEATER,) * 2 + OTHERS

NOW = ("Hoy", "Esta tarde", "Por la tarde", "A media tarde")
LEAVING = ("salir de casa", "subir al autobús", "tomar el metro", "bajar a la calle")
WEEKLY = ("Los sábados", "Los domingos", "Todos los viernes", "Casi todas las semanas")
PAST = ("Ayer", "El viernes pasado", "La semana pasada", "Hace dos días")
FUTURE = ("Mañana", "Pasado mañana", "El viernes que viene", "La semana que viene")
THERE = ("Allí", "Una vez allí,")
ARRIVED = ("Al llegar,", "Nada más llegar,")
THEN = ("Luego", "Después", "Más tarde", "Al final")
MOODS = ("contento", "muy contento", "cansado", "satisfecho", "tranquilo")
DEFINITE = {"un": "el", "una": "la", "unos": "los", "unas": "las"}
KNOWN = {"una amiga": "su amiga", "un amigo": "su amigo", "unos amigos": "sus amigos", "una vecina": "su vecina"}

# present, past, past plural
IRREGULAR = {
    "calentar": "calienta calentó calentaron", "contar": "cuenta contó contaron", "corregir": "corrige corrigió corrigieron",
    "dar": "da dio dieron", "despedir": "despide despidió despidieron", "devolver": "devuelve devolvió devolvieron",
    "elegir": "elige eligió eligieron", "fotografiar": "fotografía fotografió fotografiaron",
    "hacer": "hace hizo hicieron", "ir": "va fue fueron", "leer": "lee leyó leyeron", "oler": "huele olió olieron",
    "pedir": "pide pidió pidieron", "poner": "pone puso pusieron", "probar": "prueba probó probaron",
    "remover": "remueve removió removieron", "seguir": "sigue siguió siguieron", "sentar": "sienta sentó sentaron",
    "ver": "ve vio vieron", "volver": "vuelve volvió volvieron",
}  # fmt: skip
FUTURE_STEMS = {"hacer": "har", "poner": "pondr", "salir": "saldr"}


def tell(rng: Random) -> Story:
    """A story about someone in a place."""
    who = draw_who(rng, PEOPLE, "y")
    place = rng.choice(PLACES)
    errand = rng.choice(place.errands)
    tense = rng.choice(("present",) * 7 + ("past",) * 2 + ("future",))
    company = rng.choice(COMPANY) if rng.random() < 0.2 and not who.several else ""
    first = _opening(rng, who, place, errand, tense, company)
    second = _sequel(rng, who, place, errand, tense, company)
    return Story(_spoken(first), _spoken(second), who.name, place.to, errand.thing)


def _opening(rng: Random, who: Who, place: Venue, errand: Errand, tense: str, company: str) -> str:
    """Who goes where for what."""
    when = {"past": rng.choice(PAST), "future": rng.choice(FUTURE)}.get(tense, "")
    leaving = ""
    if tense == "present" and rng.random() < 0.45:
        when = rng.choice(NOW + WEEKLY if place.often else NOW)
        if rng.random() < 0.25:
            when, leaving = "", rng.choice(LEAVING)
    thing = errand.thing
    # nobody tries the same new ball every week
    if errand.fresh and rng.random() < 0.7 and (errand.liked or when not in WEEKLY):
        article, noun = thing.split(" ", 1)
        thing = f"{article} {'nueva' if article == 'una' else 'nuevo'} {noun}"
    go = conjugate("ir", tense, who.several)
    if leaving:
        verb, _, rest = leaving.partition(" ")
        go = f"{conjugate(verb, tense, who.several)} {rest} y {go}"
    comma = "," if len(when.split()) > 2 else ""
    return f"{when}{comma} {who.name} {go} {place.to}{company and ' con ' + company} a {errand.verb} {thing}".lstrip()


def _sequel(rng: Random, who: Who, place: Venue, errand: Errand, tense: str, company: str) -> str:
    """What the same people do next in the same place."""

    def do(act: str) -> str:
        verb, _, rest = act.partition(" ")
        return f"{conjugate(verb, tense, who.several)} {rest}"

    i, j = sorted(rng.sample(range(len(place.early)), 2))
    early, late = do(place.early[i]), do(rng.choice(place.late))
    home = do(rng.choice(("volver a casa", "regresar a casa")))
    subject = f"{rng.choice((who.name, pronoun(who)))} " if rng.random() < 0.2 else ""
    there = rng.choice(THERE + ARRIVED if i == 0 else THERE)
    thing = definite(errand.thing)
    if company and rng.random() < 0.6:
        verb, _, rest = place.early[i].partition(" ")
        one = rng.choice((who.name, pronoun(who)))
        both = f"{conjugate(verb, tense, several=True)} {rest}"
        return f"{there} {one} y {KNOWN.get(company, company)} {both}"
    chance = rng.random()
    if chance < 0.15 and errand.liked and tense != "future":
        likes = rng.choice({"present": ("gusta mucho", "encanta"), "past": ("gustó mucho", "encantó")}[tense])
        return f"{'les' if who.several else 'le'} {likes} {thing} y {rng.choice(THEN).lower()} {late}"
    if chance < 0.3:
        return f"después de {errand.verb} {thing}, {late} y {home}"
    if chance < 0.55:
        return f"{there} {subject}{early} y {do(place.early[j])}"
    if chance < 0.75:
        return f"primero {subject}{early} y {rng.choice(('luego', 'después'))} {late}"
    return f"{rng.choice(THEN)} {subject}{late} y {home} {agree(rng.choice(MOODS), who)}"


def conjugate(verb: str, tense: str, several: bool) -> str:
    """The third person of a verb.

    >>> conjugate("sentarse", "present", True), conjugate("hacer", "past", False), conjugate("salir", "future", True)
    ('se sientan', 'hizo', 'saldrán')
    """
    stem = verb.removesuffix("se")
    clitic = "se " if stem != verb else ""
    first = stem.endswith("ar")
    present, past, pasts = IRREGULAR.get(
        stem,
        f"{stem[:-2]}{'a' if first else 'e'} {stem[:-2]}{'ó' if first else 'ió'} {stem[:-2]}{'a' if first else 'ie'}ron",
    ).split()
    if tense == "present":
        return f"{clitic}{present}{'n' if several else ''}"
    if tense == "past":
        return clitic + (pasts if several else past)
    return f"{clitic}{FUTURE_STEMS.get(stem, stem)}{'án' if several else 'á'}"


def agree(mood: str, who: Who) -> str:
    """An adjective in the gender and number of the people.

    >>> agree("muy contento", Who("Ana e Inés", female=True, several=True))
    'muy contentas'
    """
    return f"{mood[:-1]}{'a' if who.female else 'o'}{'s' if who.several else ''}"


def pronoun(who: Who) -> str:
    """The pronoun for the people."""
    if who.several:
        return "ellas" if who.female else "ellos"
    return "ella" if who.female else "él"


def definite(thing: str) -> str:
    """The thing once it is known.

    >>> definite("una película")
    'la película'
    """
    article, noun = thing.split(" ", 1)
    return f"{DEFINITE[article]} {noun}"


def _spoken(clause: str) -> str:
    """A clause as a sentence, with the contractions and the "e" for "y" of speech.

    >>> _spoken("Ana y Inés van a visitar a el vecino")
    'Ana e Inés van a visitar al vecino.'
    """
    clause = re.sub(r"\ba el\b", "al", clause)
    clause = re.sub(r"\by (?=h?i[^e])", "e ", clause, flags=re.IGNORECASE)
    return clause[0].upper() + clause[1:] + "."

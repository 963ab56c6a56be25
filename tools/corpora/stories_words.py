"""The words of the short stories: people, places and things, and how events and questions are told in a language."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

SLOT = re.compile(r"\{(?:(\w+):)?(\w+)\}")  # {who}, or {to:place} for the noun with what stands before it


@dataclass(frozen=True)
class StoryWords:
    """A language. Nouns are written with their article, which `before` replaces: {to:place} is "to the kitchen"."""

    women: tuple[str, ...]
    men: tuple[str, ...]
    places: tuple[str, ...]
    things: tuple[str, ...]
    times: tuple[str, ...]
    reasons: tuple[str, ...]
    weather: tuple[str, ...]
    pronouns: tuple[str, str]
    before: Mapping[str, Mapping[str, str]]  # by what is asked for, then by article
    events: Mapping[str, tuple[str, ...]]
    questions: Mapping[str, tuple[str, ...]]

    @cached_property
    def people(self) -> tuple[str, ...]:
        return self.women + self.men

    def pronoun(self, name: str) -> str:
        return self.pronouns[name in self.men]

    def fill(self, template: str, slots: Mapping[str, str]) -> tuple[str, dict[str, tuple[int, int]]]:
        """A template with its slots filled, and where each of them stands, without its article.

        >>> ENGLISH.fill("{who} went {to:place}.", {"who": "Ana", "place": "the park"})
        ('Ana went to the park.', {'who': (0, 3), 'place': (16, 20)})
        """
        text, spans, end = "", {}, 0
        for match in SLOT.finditer(template):
            form, name = match.groups()
            value, article = slots[name], ""
            if form:
                article, _, value = value.partition(" ")
            text += template[end : match.start()] + (self.before[form][article] if form else "")
            spans[name] = (len(text), len(text) + len(value))
            text, end = text + value, match.end()
        return text + template[end:], spans


def words(text: str) -> tuple[str, ...]:
    """The parts of a row of a table."""
    return tuple(part.strip() for part in text.split(","))


ENGLISH = StoryWords(
    women=words("Ana, Mary, Lucy, Emma, Helen, Laura, Paula, Alice, Julia, Nora, Irene, Kate"),
    men=words("Louis, Charles, Peter, John, Adam, David, George, Simon, Mark, Hugh, Oscar, Daniel"),
    places=words(
        "the kitchen, the garden, the park, the library, the station, the market, the museum, the office, the beach, "
        "the school, the cinema, the hospital, the bakery, the harbor"
    ),
    things=words(
        "the book, the key, the umbrella, the guitar, the lamp, the camera, the ball, the map, the letter, the hat, "
        "the clock, the ring, the bottle, the basket, the ticket, the knife"
    ),
    times=words(
        "in the morning, at noon, in the afternoon, in the evening, at midnight, on Monday, on Friday, on Sunday, "
        "after lunch, before dinner"
    ),
    reasons=words(
        "{she} was hungry, {she} was cold, {she} felt tired, {she} had time, {she} wanted to rest, "
        "{she} was looking for a friend, {she} had lost a coin, {she} heard some music"
    ),
    weather=words(
        "It was raining, The sun was shining, A dog was barking, The wind was cold, Nobody said a word, "
        "The streets were empty, A bell rang twice, Some birds were singing"
    ),
    pronouns=("she", "he"),
    before={"the": {"the": "the "}, "to": {"the": "to the "}, "in": {"the": "in the "}},
    events={
        "move": (
            "{who} went {to:place}", "{who} walked {to:place}", "{who} drove {to:place}", "{who} returned {to:place}",
        ),
        "take": ("{who} picked up {the:thing}", "{who} found {the:thing}", "{who} took {the:thing}"),
        "give": (
            "{who} gave {the:thing} to {other}", "{who} gave {other} {the:thing}", "{who} handed {the:thing} to {other}",
        ),
        "leave": ("{who} left {the:thing} {in:place}", "{who} put down {the:thing} {in:place}"),
        "call": ("{who} called {other}", "{who} phoned {other}"),
        "then": ("Then {text}", "Later {text}"),
        "because": ("{text} because {reason}",),
    },
    questions={
        "where": ("Where is {who}?", "Where is {who} now?"),
        "before": ("Where was {who} before {the:place}?",),
        "thing": ("Where is {the:thing}?",),
        "has": ("Who has {the:thing}?", "Who has got {the:thing} now?"),
        "gave what": ("What did {who} give to {other}?", "What did {other} get from {who}?"),
        "gave": ("Who gave {the:thing} to {other}?", "From whom did {other} get {the:thing}?"),
        "to whom": ("Who did {who} give {the:thing} to?", "To whom did {who} give {the:thing}?"),
        "when": ("When did {who} go {to:place}?",),
        "why": ("Why did {who} go {to:place}?",),
        "called": ("Who did {who} call?", "Who was called by {who}?"),
        "caller": ("Who called {other}?",),
        "when called": ("When did {who} call {other}?",),
    },
)  # fmt: skip

SPANISH = StoryWords(
    women=words("Ana, María, Lucía, Elena, Marta, Laura, Paula, Alicia, Julia, Rosa, Irene, Clara"),
    men=words("Luis, Carlos, Pedro, Juan, Miguel, Pablo, David, Jorge, Simón, Marcos, Hugo, Daniel"),
    places=words(
        "la cocina, el jardín, el parque, la biblioteca, la estación, el mercado, el museo, la oficina, la playa, "
        "la escuela, el cine, el hospital, la panadería, el puerto"
    ),
    things=words(
        "el libro, la llave, el paraguas, la guitarra, la lámpara, la cámara, el balón, el mapa, la carta, el sombrero, "
        "el reloj, el anillo, la botella, la cesta, el billete, el cuchillo"
    ),
    times=words(
        "por la mañana, al mediodía, por la tarde, por la noche, a medianoche, el lunes, el viernes, el domingo, "
        "después de comer, antes de cenar"
    ),
    reasons=words(
        "tenía hambre, tenía frío, estaba de vacaciones, tenía tiempo, quería descansar, buscaba a alguien, "
        "había perdido una moneda, oyó música"
    ),
    weather=words(
        "Llovía, Hacía sol, Ladraba un perro, El viento era frío, Nadie dijo nada, Las calles estaban vacías, "
        "Una campana sonó dos veces, Cantaban unos pájaros"
    ),
    pronouns=("ella", "él"),
    before={
        "the": {"el": "el ", "la": "la "}, "to": {"el": "al ", "la": "a la "}, "in": {"el": "en el ", "la": "en la "},
        "of": {"el": "del ", "la": "de la "},
    },
    events={
        "move": ("{who} fue {to:place}", "{who} caminó {to:place}", "{who} corrió {to:place}", "{who} volvió {to:place}"),
        "take": ("{who} recogió {the:thing}", "{who} encontró {the:thing}", "{who} tomó {the:thing}"),
        "give": (
            "{who} dio {the:thing} a {other}", "{who} le dio {the:thing} a {other}", "{who} le entregó a {other} {the:thing}",
        ),
        "leave": ("{who} dejó {the:thing} {in:place}", "{who} puso {the:thing} {in:place}"),
        "call": ("{who} llamó a {other}", "{who} llamó por teléfono a {other}"),
        "then": ("Luego {text}", "Más tarde {text}"),
        "because": ("{text} porque {reason}",),
    },
    questions={
        "where": ("¿Dónde está {who}?", "¿Dónde está ahora {who}?"),
        "before": ("¿Dónde estaba {who} antes {of:place}?",),
        "thing": ("¿Dónde está {the:thing}?",),
        "has": ("¿Quién tiene {the:thing}?", "¿Quién tiene ahora {the:thing}?"),
        "gave what": ("¿Qué le dio {who} a {other}?", "¿Qué recibió {other} de {who}?"),
        "gave": ("¿Quién le dio {the:thing} a {other}?", "¿De quién recibió {other} {the:thing}?"),
        "to whom": ("¿A quién le dio {who} {the:thing}?",),
        "when": ("¿Cuándo fue {who} {to:place}?",),
        "why": ("¿Por qué fue {who} {to:place}?",),
        "called": ("¿A quién llamó {who}?",),
        "caller": ("¿Quién llamó a {other}?",),
        "when called": ("¿Cuándo llamó {who} a {other}?",),
    },
)  # fmt: skip

"""From what somebody asks for to a search."""

from mirada.decoding.beam import Beam
from mirada.decoding.greedy import Greedy
from mirada.decoding.sample import Sample
from mirada.errors import require
from mirada.tasks.answer import Ask

Search = Greedy | Beam | Sample
DRAWING = ("temperature", "top_k", "top_p", "seed")
RANKING = ("beam", "length_penalty", "coverage")


def search_of(ask: Ask, temperature: float = 0.0) -> Search:
    """Sampling where a temperature is given (or is the task's usual one), a beam where one is asked for, else greedy.

    >>> search_of(Ask(beam=4)).size
    4
    """
    few = ask.top_k != 0 or ask.top_p != 1
    if ask.beam > 1 or ask.best > 1:
        drawn = ask.temperature is not None or few
        require(not drawn, "a beam draws nothing: leave out temperature, top_k and top_p, or else beam and best")
        return Beam(max(ask.beam, ask.best), ask.length_penalty, ask.coverage, ask.best)
    ranked = ask.length_penalty != 1 or ask.coverage != 0
    require(not ranked, "length_penalty and coverage rank the texts of a beam: ask for one as well, such as beam=4")
    temperature = temperature if ask.temperature is None else ask.temperature
    if temperature > 0:
        return Sample(temperature, ask.top_k, ask.top_p, ask.seed)
    require(temperature == 0, f"temperature must not be negative: got {temperature}")
    require(not few, "top_k and top_p are for drawing: give a temperature as well, such as temperature=1")
    return Greedy()

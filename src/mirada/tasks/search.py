"""From what somebody asks for to a search."""

from mirada.decoding.beam import Beam
from mirada.decoding.greedy import Greedy
from mirada.decoding.sample import Sample
from mirada.errors import require
from mirada.tasks.answer import Ask

Search = Greedy | Beam | Sample


def search_of(ask: Ask, temperature: float = 0.0) -> Search:
    """Sampling where a temperature is given (or is the task's usual one), a beam where one is asked for, else greedy.

    >>> search_of(Ask(beam=4)).size
    4
    """
    temperature = temperature if ask.temperature is None else ask.temperature
    require(ask.beam >= 1 and ask.best >= 1, f"beam and best must be at least 1: got beam={ask.beam}, best={ask.best}")
    if ask.beam > 1 or ask.best > 1:
        return Beam(max(ask.beam, ask.best), ask.length_penalty, ask.coverage, ask.best)
    if temperature > 0:
        return Sample(temperature, ask.top_k, ask.top_p, ask.seed)
    require(temperature == 0, f"temperature must not be negative: got {temperature}")
    return Greedy()

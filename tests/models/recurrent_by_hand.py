"""The recurrent encoder-decoder written out: one sample, one time step and one source position at a time.

Written from the formulas alone. Nothing of the library is used: its parameters are read by name, its settings by theirs.
"""

import math
from typing import Any

import torch
from torch import Tensor

Parameters = dict[str, Tensor]
Layers = list[Tensor]


def by_hand(
    parameters: Parameters, config: Any, source: Tensor, lengths: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits of (batch, target, vocab), and alignments of (batch, target, source) with zeros in the padding."""
    p, logits, alignments = parameters, [], []
    for sample, length in enumerate(lengths.tolist()):
        states, h, c = read(p, config, embed(p["source_words.weight"], source[sample][:length]))
        inputs = embed(p["target_words.weight"], target[sample])
        readouts, looked = write(p, config, states, *bridge(p, config, h, c), inputs)
        logits.append(torch.stack([p["output.weight"] @ readout + p["output.bias"] for readout in readouts]))
        rest = looked.new_zeros(looked.shape[0], source.shape[1] - looked.shape[1])
        alignments.append(torch.cat([looked, rest], dim=1))
    return torch.stack(logits), torch.stack(alignments)


def embed(table: Tensor, tokens: Tensor) -> Layers:
    """A row of the table for every token, times the root of the width."""
    return [math.sqrt(table.shape[1]) * table[token] for token in tokens.tolist()]


def write(p: Parameters, config: Any, states: Layers, h: Layers, c: Layers, inputs: Layers) -> tuple[Layers, Tensor]:
    """What the output layer reads at every step, and where the step looked."""
    fed = torch.zeros_like(h[-1])  # h~_0 = 0
    readouts, alignments = [], []
    for time, y in enumerate(inputs):
        alignment = y.new_zeros(len(states))
        if config.attention == "no":
            h, c = climb(p, config, y, h, c)
            readout = h[-1]
        elif config.attention == "bahdanau":
            alignment = look(p, config, h[-1], states, time)
            context = mix(alignment, states)
            h, c = climb(p, config, torch.cat([y, context]), h, c)
            joined = torch.cat([h[-1], y, context])
            readout = torch.tanh(p["decoder.readout.weight"] @ joined + p["decoder.readout.bias"])
        else:
            h, c = climb(p, config, torch.cat([y, fed]) if config.feeding else y, h, c)
            alignment = look(p, config, h[-1], states, time)
            context = mix(alignment, states)
            readout = fed = torch.tanh(p["decoder.combine.weight"] @ torch.cat([context, h[-1]]))
        readouts.append(readout)
        alignments.append(alignment)
    return readouts, torch.stack(alignments)


# Reading


def read(p: Parameters, config: Any, below: Layers) -> tuple[Layers, Layers, Layers]:
    """The states of the top layer at every place, and where each layer ended, its directions side by side."""
    last_h, last_c = [], []
    for layer in range(config.depth):
        ways, ends_h, ends_c = [], [], []
        for direction in range(config.directions):
            row = layer * config.directions + direction
            size = p[f"encoder.carry.{row}"].shape[1]
            h = c = below[0].new_zeros(size)
            places = list(range(len(below)))
            said: dict[int, Tensor] = {}
            for place in reversed(places) if direction == 1 else places:
                h, c = cell(p, config.cell, "encoder", row, below[place], h, c)
                said[place] = h
            ways.append([said[place] for place in places])
            ends_h.append(h)
            ends_c.append(c)
        below = [torch.cat([way[place] for way in ways]) for place in range(len(below))]
        last_h.append(torch.cat(ends_h))
        last_c.append(torch.cat(ends_c))
    return below, last_h, last_c


def bridge(p: Parameters, config: Any, h: Layers, c: Layers) -> tuple[Layers, Layers]:
    """From where the encoder ended to where the decoder starts, layer by layer."""
    first_h = [torch.tanh(p["bridge_h.weight"] @ end + p["bridge_h.bias"]) for end in h]
    if config.cell != "lstm":
        return first_h, first_h
    return first_h, [p["bridge_c.weight"] @ end + p["bridge_c.bias"] for end in c]


# Cells


def climb(p: Parameters, config: Any, x: Tensor, h: Layers, c: Layers) -> tuple[Layers, Layers]:
    """One time step of the decoder's layers, from the lowest up."""
    new_h, new_c = [], []
    for layer in range(config.depth):
        x, memory = cell(p, config.cell, "decoder.cell", layer, x, h[layer], c[layer])
        new_h.append(x)
        new_c.append(memory)
    return new_h, new_c


def cell(p: Parameters, kind: str, where: str, row: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """h_t and c_t of one cell; cells other than the LSTM have no c."""
    u, w, b = p[f"{where}.read.{row}"], p[f"{where}.carry.{row}"], p[f"{where}.bias.{row}"]
    n = len(h)
    if kind == "rnn":
        return torch.tanh(w @ h + u @ x + b), c
    if kind == "gru":
        r = torch.sigmoid(u[:n] @ x + w[:n] @ h + b[:n])
        z = torch.sigmoid(u[n : 2 * n] @ x + w[n : 2 * n] @ h + b[n : 2 * n])
        new = torch.tanh(u[2 * n :] @ x + b[2 * n :] + r * (w[2 * n :] @ h))
        return (1 - z) * new + z * h, c
    i = torch.sigmoid(u[:n] @ x + w[:n] @ h + b[:n])
    f = torch.sigmoid(u[n : 2 * n] @ x + w[n : 2 * n] @ h + b[n : 2 * n])
    g = torch.tanh(u[2 * n : 3 * n] @ x + w[2 * n : 3 * n] @ h + b[2 * n : 3 * n])
    o = torch.sigmoid(u[3 * n :] @ x + w[3 * n :] @ h + b[3 * n :])
    c = f * c + i * g
    return o * torch.tanh(c), c


# Looking


def look(p: Parameters, config: Any, query: Tensor, states: Layers, time: int) -> Tensor:
    """A weight for every source position."""
    length = len(states)
    first, last, center = 0, length - 1, None
    if config.reach == "local-m":
        middle = min(time, length - 1)
        first, last = middle - config.half, middle + config.half
    if config.reach == "local-p":
        w, v = p["decoder.attention.position.weight"], p["decoder.attention.position.v"]
        center = length * torch.sigmoid(v @ torch.tanh(w @ query))
        middle = math.floor(center.item())
        first, last = middle - config.half, middle + config.half
    seen = [place for place in range(length) if first <= place <= last]
    powers = {place: torch.exp(score(p, config, query, states[place], place)) for place in seen}
    total = sum(powers.values())
    weights = []
    for place in range(length):
        weight = powers[place] / total if place in powers else query.new_zeros(())
        if center is not None:  # sigma = half / 2, and no second normalization
            weight = weight * torch.exp(-((place - center) ** 2) / (2 * (config.half / 2) ** 2))
        weights.append(weight)
    return torch.stack(weights)


def mix(alignment: Tensor, states: Layers) -> Tensor:
    """The context: every state by its weight."""
    context = torch.zeros_like(states[0])
    for weight, state in zip(alignment, states, strict=True):
        context = context + weight * state
    return context


def score(p: Parameters, config: Any, query: Tensor, key: Tensor, place: int) -> Tensor:
    """How well one query fits one key; the library's parameters have an axis of one head in front."""
    part = "decoder.attention.score."
    match config.score:
        case "dot:1.0":
            return query @ key
        case "dot":
            return query @ key / math.sqrt(len(query))
        case "general":
            return query @ p[part + "weight"][0] @ key
        case "general:scale=None":
            return query @ p[part + "weight"][0] @ key / math.sqrt(len(query))
        case "concat":
            return p[part + "v"][0] @ torch.tanh(p[part + "weight"][0] @ torch.cat([query, key]))
        case "concat:None":
            return p[part + "weight"][0, 0] @ torch.cat([query, key])
        case "additive":
            inside = p[part + "query"][0] @ query + p[part + "key"][0] @ key + p[part + "bias"][0, 0]
            return p[part + "v"][0] @ torch.tanh(inside)
        case "location":
            return p[part + "weight"][place] @ query
    raise ValueError(f"no formula for the score {config.score!r}")

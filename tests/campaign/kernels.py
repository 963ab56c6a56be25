"""Kernels of attention and all compiled functions against float64 computations written from the formulas, in NumPy alone."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.campaign.figures import Figures

Array = NDArray[np.float64]
NAMES = ("reference", "fused", "short", "banded", "strided", "edges")
CLOSE = 2e-4  # of the largest number, in float32


def attention(q: Array, k: Array, v: Array, seen: NDArray[np.bool_], bias: Array, out: Array) -> tuple[Array, ...]:
    """alpha = softmax over seen keys of q.k / sqrt(d) + bias; y = alpha v; and the gradients of sum(y * out)."""
    scale = 1 / np.sqrt(q.shape[-1])
    scores = np.where(seen, scale * q @ k.swapaxes(-1, -2) + bias, -np.inf)
    top = np.max(scores, -1, keepdims=True)
    powers = np.where(seen, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = powers.sum(-1, keepdims=True)
    alpha = powers / np.where(total == 0, 1, total)
    slope = out @ v.swapaxes(-1, -2)
    before = alpha * (slope - (slope * alpha).sum(-1, keepdims=True))
    return alpha @ v, scale * before @ k, scale * before.swapaxes(-1, -2) @ q, alpha.swapaxes(-1, -2) @ out


def neighborhood(dice: random.Random, batch: int, n: int, m: int) -> tuple[object, NDArray[np.bool_]]:
    """A neighborhood, and by its definition which key each query sees: (batch, 1, queries, keys)."""
    from mirada.attention import neighborhoods as N

    i, j = np.arange(n)[:, None], np.arange(m)[None, :]
    kinds: list[tuple[object, NDArray[np.bool_]]] = [(N.Complete(), np.ones((n, m), bool)), (N.Causal(), j <= i)]
    left, right, stride = dice.randrange(0, 6), dice.randrange(0, 4), dice.randrange(1, 5)
    kinds.append((N.Window(left, right), (j >= i - left) & (j <= i + right)))
    summary = dice.randint(1, stride)
    kinds.append((N.Strided(stride), (j <= i) & ((i - j < stride) | ((i - j) % stride == 0))))
    kinds.append(
        (N.Fixed(stride, summary), (j <= i) & ((i // stride == j // stride) | (j % stride >= stride - summary)))
    )
    where, seen = kinds[dice.randrange(len(kinds))]
    whole = np.broadcast_to(seen, (batch, n, m)).copy()
    if dice.random() < 0.5:
        lengths = [dice.randint(0, m) for _ in range(batch)]
        where = where & N.Padding(torch.tensor(lengths))  # type: ignore[operator]
        whole &= np.arange(m)[None, None, :] < np.array(lengths)[:, None, None]
    return where, whole[:, None]


def attend_case(dice: random.Random, figures: Figures) -> None:
    """One request, with every kernel that takes it."""
    from mirada import attend
    from mirada.attention.neighborhoods import Edges
    from mirada.attention.positions import ALiBi
    from mirada.attention.scores import Dot

    numbers = np.random.default_rng(dice.randrange(2**32))
    batch, heads = dice.randint(1, 3), dice.choice((1, 2, 4))
    n = dice.randint(1, 40) if dice.random() < 0.85 else dice.choice((dice.randint(100, 300), dice.randint(512, 560)))
    m = n if dice.random() < 0.7 else dice.randint(1, 40)
    dim, width = dice.choice((3, 8, 16, 16, 32, 32)), dice.choice((5, 16, 16, 32))
    bias, position = np.zeros((1, 1, n, m)), None
    if dice.random() < 0.2:
        pairs = numbers.integers(0, n, (2, dice.randint(1, 3 * n)))
        where: object = Edges(torch.from_numpy(pairs), n)
        seen = np.zeros((1, 1, n, n), bool)
        seen[0, 0, pairs[1], pairs[0]] = True
        m, bias = n, np.zeros((1, 1, n, n))
    else:
        where, seen = neighborhood(dice, batch, n, m)
        if dice.random() < 0.25 and n == m:  # slopes 2^(-8 h / heads) for a power of two heads
            position = ALiBi(heads)
            rates = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
            bias = -rates[None, :, None, None] * (np.arange(n)[:, None] - np.arange(m)[None, :])
    q, k = (dice.choice((1.0, 4.0)) * numbers.standard_normal((batch, heads, size, dim)) for size in (n, m))
    v, out = numbers.standard_normal((batch, heads, m, width)), numbers.standard_normal((batch, heads, n, width))
    q, k, v, out = (x.astype(np.float32).astype(np.float64) for x in (q, k, v, out))
    wanted = attention(q, k, v, seen, bias, out)
    took = 0
    for name in NAMES:
        given = [torch.from_numpy(x).float().requires_grad_() for x in (q, k, v)]
        try:
            y = attend(*given, score=Dot(), where=where, position=position, kernel=name)
        except ValueError as error:
            if "refuses" not in str(error):  # a kernel says so; whatever else goes wrong is a failure
                figures.add(name, "FAILED", str(error)[:300])
            continue
        y.backward(torch.from_numpy(out).float())
        compare(figures, name, [y.detach(), *(x.grad for x in given)], wanted)
        took += 1
    if not took:
        figures.add("no kernel", "FAILED", "refused by all")


def compare(figures: Figures, name: str, found: list[torch.Tensor | None], wanted: tuple[Array, ...]) -> None:
    """Count a case: every array is close to what the formula gives."""
    off = 0.0
    for mine, right in zip(found, wanted, strict=True):
        mine64 = np.zeros_like(right) if mine is None else mine.double().numpy()
        apart = np.abs(mine64 - right).max(initial=0.0) / max(1.0, np.abs(right).max(initial=0.0))
        off = max(off, float(apart) if np.isfinite(mine64).all() else np.inf)
    figures.add(name, "equal" if off < CLOSE else "FAILED", None if off < CLOSE else off)


def activation_case(dice: random.Random, figures: Figures) -> None:
    """act(x W + b) and its gradients, compiled."""
    from torch import nn

    from mirada.layers.feedforward import linear_activation

    rows, inside, width = dice.randint(1, 40), dice.randint(1, 20), dice.randint(1, 40)
    kind = dice.choice(list(ACTIVATIONS))
    layer, x = nn.Linear(inside, width), torch.randn(rows, inside, requires_grad=True)
    out = torch.randn(rows, width)
    y = linear_activation(layer, x, kind)
    y.backward(out)
    w, b, x64, o = (t.detach().double().numpy() for t in (layer.weight, layer.bias, x, out))
    h = x64 @ w.T + b
    value, slope = ACTIVATIONS[kind](h)
    wanted = (value, o * slope @ w, (o * slope).T @ x64, (o * slope).sum(0))
    compare(figures, f"linear_activation {kind}", [y.detach(), x.grad, layer.weight.grad, layer.bias.grad], wanted)


def relu(h: Array) -> tuple[Array, Array]:
    return np.maximum(h, 0), (h > 0).astype(float)


def gelu(h: Array) -> tuple[Array, Array]:
    from math import erf

    share = 0.5 * (1 + np.vectorize(erf)(h / np.sqrt(2)))
    return h * share, share + h * np.exp(-h * h / 2) / np.sqrt(2 * np.pi)


def gelu_tanh(h: Array) -> tuple[Array, Array]:
    inner = np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)
    t = np.tanh(inner)
    steep = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * h * h)
    return 0.5 * h * (1 + t), 0.5 * (1 + t) + 0.5 * h * (1 - t * t) * steep


ACTIVATIONS: dict[str, Callable[[Array], tuple[Array, Array]]] = {"relu": relu, "gelu": gelu, "gelu-tanh": gelu_tanh}


def entropy_case(dice: random.Random, figures: Figures) -> None:
    """-(1 - s) log p_t - s mean log p with its gradient, compiled."""
    from mirada.native.passes import cross_entropy_backward_

    rows, vocab, s = dice.randint(1, 20), dice.randint(2, 60), dice.choice((0.0, 0.1, 0.5))
    logits, bias = 4 * torch.randn(rows, vocab), torch.randn(vocab) if dice.random() < 0.5 else None
    targets = torch.randint(vocab, (rows,))
    h = logits.double().numpy() + (0 if bias is None else bias.double().numpy())
    log_p = h - h.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    aim = np.full((rows, vocab), s / vocab)
    aim[np.arange(rows), targets.numpy()] += 1 - s
    losses = cross_entropy_backward_(logits, bias, targets, s)
    compare(figures, "cross_entropy", [losses, logits], (-(aim * log_p).sum(1), np.exp(log_p) - aim))


def dropout_case(dice: random.Random, figures: Figures) -> None:
    """Every number is x scaled or zero, the same for the same seed, about as many as requested, and a base is added."""
    from mirada.native.passes import dropout

    x, base = torch.randn(dice.randint(1, 5000)), None
    base = torch.randn_like(x) if dice.random() < 0.5 else None
    dropped, seed = dice.randint(0, 200), dice.randrange(2**60)
    scale = 256 / (256 - dropped)
    found = dropout(x, base, seed, dropped, scale).double().numpy()
    rest = found - (0 if base is None else base.double().numpy())
    right = scale * x.double().numpy()
    kept = np.abs(rest - right) < 1e-5 * (1 + np.abs(right))
    zero = np.abs(rest) < 1e-5 * (1 + np.abs(0 if base is None else base.double().numpy()))
    expected = dropped / 256
    count = abs(np.mean(zero & ~kept) - expected) < 6 * np.sqrt(expected * (1 - expected) / len(x)) + 0.02
    again = np.array_equal(found, dropout(x, base, seed, dropped, scale).double().numpy())
    good = bool((kept | zero).all() and count and again)
    figures.add("dropout", "equal" if good else "FAILED", None if good else [dropped, len(x)])


def convolution_case(dice: random.Random, figures: Figures) -> None:
    """y(i) = sum over the cells j within the radius of w(j - i) v(j), on a grid, with its gradients."""
    from mirada import attend
    from mirada.attention.neighborhoods import Grid
    from mirada.attention.normalizers import Identity
    from mirada.attention.scores import Offset

    numbers = np.random.default_rng(dice.randrange(2**32))
    height, width, radius, heads = dice.randint(1, 7), dice.randint(1, 7), dice.randint(0, 2), dice.randint(1, 3)
    cells, batch, dim = height * width, dice.randint(1, 2), dice.randint(1, 5)
    score = Offset(height, width, radius, heads)
    with torch.no_grad():
        score.weight.normal_()
    q, v, out = (numbers.standard_normal((batch, heads, cells, dim)).astype(np.float32) for _ in range(3))
    table = score.weight.detach().double().numpy()
    y, d_v, d_table = np.zeros(v.shape), np.zeros(v.shape), np.zeros(table.shape)
    for i in range(cells):
        for j in range(cells):
            down, across = j // width - i // width + radius, j % width - i % width + radius
            if 0 <= down <= 2 * radius and 0 <= across <= 2 * radius:
                weight = table[:, down, across][None, :, None]
                y[:, :, i] += weight * v[:, :, j]
                d_v[:, :, j] += weight * out[:, :, i]
                each = (v[:, :, j].astype(np.float64) * out[:, :, i]).sum((0, 2))
                d_table[:, down, across] += each if len(table) > 1 else each.sum()
    for name in ("convolution", "reference"):
        score.zero_grad()
        values = torch.from_numpy(v).requires_grad_()
        found = attend(
            torch.from_numpy(q), torch.from_numpy(q), values, score=score, where=Grid(height, width, radius),
            normalizer=Identity(), kernel=name,
        )  # fmt: skip
        found.backward(torch.from_numpy(out))
        compare(figures, f"{name} on a grid", [found.detach(), values.grad, score.weight.grad], (y, d_v, d_table))


def decode_case(dice: random.Random, figures: Figures) -> None:
    """The scores of every next token of a GPT, step by step in C, and those of the whole text at once by the formulas."""
    from mirada import engine
    from mirada.models.gpt import GPT, GPTConfig

    heads, dim, length = dice.choice((1, 2, 3)), dice.choice((2, 5, 8, 16)), dice.randint(1, 12)
    config = GPTConfig(
        vocab=dice.randint(2, 40), width=heads * dim, heads=heads, hidden=dice.randint(1, 40), depth=dice.randint(1, 3),
        activation=dice.choice(list(ACTIVATIONS)), order=dice.choice(("pre", "post")), tied=dice.random() < 0.5, dropout=0.0,
        length=16,
    )  # fmt: skip
    model = GPT(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0 if parameter.ndim > 1 else 0.5, 0.4)
    fast, batch = engine.fast(model), dice.randint(1, 9)
    tokens = torch.randint(config.vocab, (batch, length))
    state, found = fast.stepper.start(batch), []
    with torch.inference_mode():
        for place in range(length):
            scores, state = fast.stepper.step(tokens[:, place], state)
            found.append(scores.clone())
    weights = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    wanted = written_out(weights, tokens.numpy(), config)
    compare(
        figures, f"decoding, {'compiled' if fast.reason is None else 'modules'}", [torch.stack(found, 1)], (wanted,)
    )


def written_out(w: dict[str, Array], tokens: NDArray[np.int64], config: Any) -> Array:
    """The scores of a GPT, by the formulas: (texts, places, vocab)."""
    (batch, n), heads = tokens.shape, config.heads

    def linear(name: str, x: Array) -> Array:
        return np.asarray(x @ w[f"{name}.weight"].T + w[f"{name}.bias"])

    def norm(name: str, x: Array) -> Array:
        apart = x - x.mean(-1, keepdims=True)
        even = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5)
        return np.asarray(even * w[f"{name}.weight"] + w[f"{name}.bias"])

    def look(name: str, x: Array) -> Array:
        q, k, v = (
            linear(f"{name}.heads.{part}", x).reshape(batch, n, heads, -1).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        seen = np.tril(np.ones((n, n), bool))[None, None]
        y = attention(q, k, v, seen, np.zeros((1, 1, n, n)), np.zeros(v.shape))[0]
        return linear(f"{name}.heads.out", y.swapaxes(1, 2).reshape(batch, n, -1))

    def feed(name: str, x: Array) -> Array:
        return linear(f"{name}.narrow", ACTIVATIONS[config.activation](linear(f"{name}.widen", x))[0])

    x = w["words.weight"][tokens] + w["place.position.table"][:n]
    for layer in range(config.depth):
        at = f"decoder.layers.{layer}"
        for part, around in (
            (partial(look, f"{at}.self"), "around_self"),
            (partial(feed, f"{at}.feed"), "around_feed"),
        ):
            name = f"{at}.{around}.norm"
            x = x + part(norm(name, x)) if config.order == "pre" else norm(name, x + part(x))
    x = norm("decoder.norm", x) if config.order == "pre" else x
    return np.asarray(x @ w.get("output.weight", w["words.weight"]).T)


def one(seed: int, home: Path, figures: Figures) -> None:
    """One case of attention, or of another compiled function."""
    from mirada.native import library

    dice = random.Random(seed)
    torch.manual_seed(seed)
    anyway = (activation_case, convolution_case, decode_case)
    others = (*anyway, entropy_case, dropout_case) if library.library() is not None else anyway
    case = attend_case if dice.random() < 0.75 else dice.choice(others)
    case(dice, figures)

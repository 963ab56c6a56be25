"""The laws: statements that hold for every part of some kinds."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mirada.attention.kernels.reference import weigh, widen
from mirada.attention.neighborhoods import Causal, Complete, Padding, Window
from mirada.attention.places import Places
from mirada.attention.scores.score import scores_heads_alike
from mirada.testing.case import (
    NEAR,
    REFUSED,
    Case,
    SilentError,
    gradients,
    named_inputs,
    others,
    parameters,
    slope_along,
    twice,
)

EVERY_CALL = ("score", "where", "position", "normalizer", "heads")

# The laws of every call.


def _kernels(case: Case) -> None:
    long = replace(case, batch=1, length=521) if case.length == 11 else case
    tried = 0
    for one, dtype in itertools.product((case, long), (torch.float64, torch.float32)):
        exact, one = one, replace(one, dtype=dtype)
        for where in one.wheres() if one.length < 521 else one.wheres()[:1] if one.kind == "where" else [Window(2, 1)]:
            try:
                own, tensors = exact.own(), exact.tensors()
                wanted = exact.run(own, tensors, where)
            except REFUSED:
                continue  # the part has a size of its own
            inputs = named_inputs(exact, own, tensors)
            right = gradients(wanted, inputs)
            mine = one.own()
            for kernel, given, output in others(one, mine, where):
                tried += 1
                one.same(f"{kernel} and reference in {where}, {dtype}", output, wanted)
                for name, got, expected in zip(
                    inputs, gradients(output, named_inputs(one, mine, given)), right, strict=True
                ):
                    one.same(f"gradient of {name} by {kernel} in {where}, {dtype}", got, expected)
    if not tried:
        raise SilentError("only the reference kernel takes it")


def _slopes(case: Case) -> None:
    _need_gradients(case)
    for where in case.wheres()[:2]:
        own, tensors = case.own(), case.tensors()
        inputs = named_inputs(case, own, tensors)
        output = case.run(own, tensors, where)
        right = gradients(output, inputs)
        probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)

        def total(y: Tensor, probe: Tensor = probe) -> list[Tensor]:
            return [(y * probe).sum()]

        for (name, x), gradient in zip(inputs.items(), right, strict=True):
            if not x.requires_grad:
                continue
            step, (slope,) = slope_along(case, own, tensors, where, total, name)
            case.same(
                f"gradient of {name} and differences in {where}",
                (gradient * step).sum(),
                slope,
                (1e-4, 1e-5),
            )


def _second_slopes(case: Case) -> None:
    _need_gradients(case)
    small = replace(case, length=5) if case.length == 11 else case
    where = Causal() if case.kind != "where" else case.part
    own, tensors = small.own(), small.tensors()
    try:
        output = small.run(own, tensors, where)
    except REFUSED:
        small, own, tensors = case, case.own(), case.tensors()
        output = small.run(own, tensors, where)
    inputs = named_inputs(small, own, tensors)
    probes = [torch.randn(x.shape, generator=torch.Generator().manual_seed(6), dtype=x.dtype) for x in inputs.values()]
    wanted = twice(output, inputs)

    def total(y: Tensor) -> list[Tensor]:
        return [sum(((g * p).sum() for g, p in zip(gradients(y, inputs), probes, strict=True)), torch.zeros(()))]

    for (name, x), second in zip(inputs.items(), wanted, strict=True):
        if x.requires_grad:
            step, (slope,) = slope_along(small, own, tensors, where, total, name)
            small.same(
                f"second derivative by {name} and differences",
                (second * step).sum(),
                slope,
                (1e-3, 1e-4),
            )
    for kernel, given, got in others(small, own, where):
        try:
            seconds = twice(got, named_inputs(small, own, given))
        except RuntimeError:
            continue  # an error is not silent
        for name, mine, right in zip(inputs, seconds, wanted, strict=True):
            small.same(f"second derivative by {name} by {kernel}", mine, right)


def _need_gradients(case: Case) -> None:
    if getattr(case.part, "chooses", False):
        raise SilentError("it chooses one key, and a choice has no derivative")


def _empty(case: Case) -> None:
    if case.kind == "heads":
        raise SilentError("the heads see no neighborhood")
    nothing = Padding(torch.tensor([0] + [case.length] * (case.batch - 1)))
    where = case.part & nothing if case.kind == "where" else nothing
    for kernel in [None, "reference"]:
        own, tensors = case.own(), case.tensors()
        output = case.run(own, tensors, where, kernel)
        case.same("the output of a query that sees nothing", output[:1], torch.zeros_like(output[:1]))
        inputs = named_inputs(case, own, tensors)
        for name, gradient in zip(inputs, gradients(output, inputs), strict=True):
            if not gradient.isfinite().all():
                case.broken(f"the gradient of {name} is not finite where a query sees nothing")


def _poison(case: Case) -> None:
    tried = 0
    for where in case.wheres():
        hidden = ~where.dense(case.length, case.length).expand(case.batch, -1, case.length, case.length).any(2).any(1)
        if not hidden.any():
            continue
        own, clean, dirty = case.own(), case.tensors(), case.tensors()
        with torch.no_grad():
            for x in dirty if case.kind == "heads" else dirty[1:]:
                x.masked_fill_(hidden.view(case.batch, *[1] * (x.ndim - 3), case.length, 1), torch.nan)
                clean[0].masked_fill_(hidden.unsqueeze(-1), 0) if case.kind == "heads" else None
        tried += 1
        outputs = [case.run(own, tensors, where, None) for tensors in (clean, dirty)]
        case.same(f"the output with NaN in keys that nobody sees in {where}", outputs[1], outputs[0])
        inputs = [named_inputs(case, own, tensors) for tensors in (clean, dirty)]
        right, got = (gradients(output, given) for output, given in zip(outputs, inputs, strict=True))
        if case.kind == "heads":  # a place that is hidden is no query either: what it holds has no gradient
            right[0] = right[0].masked_fill(hidden.unsqueeze(-1), 0)
        for name, mine, expected in zip(inputs[0], got, right, strict=True):
            case.same(f"the gradient of {name} with NaN in keys that nobody sees in {where}", mine, expected)
    if not tried:
        raise SilentError("every key is seen")


def _dtypes(case: Case) -> None:
    where = case.wheres()[0]
    wanted = case.run(case.own(), case.tensors(), where)
    for dtype in (torch.float32, torch.bfloat16):
        low = replace(case, dtype=dtype)
        try:
            output = low.run(low.own(), low.tensors(), where, None)
        except REFUSED:
            if dtype == torch.float32:
                raise
            continue  # too few digits for it, and it says so
        except RuntimeError as error:
            case.broken(f"{dtype}: {str(error).splitlines()[0]}")
            raise
        if output.dtype != dtype or not output.isfinite().all():
            case.broken(f"inputs of {dtype} gave {output.dtype}, finite: {bool(output.isfinite().all())}")
        if dtype == torch.float32:
            low.same("float32 and float64", output, wanted)


def _samples(case: Case) -> None:
    if case.kind == "where" or case.batch < 2:
        raise SilentError("a neighborhood may differ between samples")
    for where in (Complete(), Causal()):
        own, tensors = case.own(), [x.detach() for x in case.tensors()]
        together = case.run(own, tensors, where)
        alone = [case.run(own, [x[b : b + 1] for x in tensors], where) for b in range(case.batch)]
        case.same("a sample alone and in its batch", torch.cat(alone), together)


def _rows(case: Case) -> None:
    if not getattr(case.part, "rowwise", True):
        raise SilentError("it says that it reads other rows")
    if getattr(case.part, "chooses", False):
        raise SilentError("it chooses one key")
    for where in case.wheres():
        request = case.request(case.own(), [x.detach() for x in case.tensors()], where)
        k, _ = request.visible()
        q, k = request.score.queries(widen(request.q)), request.score.keys(widen(k))
        whole = weigh(request, q, k, 0, case.length).weights
        edges = [0, 1, case.length // 2, case.length]
        pieces = [weigh(request, q, k, first, last).weights for first, last in itertools.pairwise(edges)]
        case.same(f"weights in chunks of rows and at once in {where}", torch.cat(pieces, 2), whole)


def _cache(case: Case) -> None:
    own = case.own()
    try:
        layer = case.layer(own)
        cache = layer.cache(case.batch, case.length, dtype=case.dtype)
    except REFUSED as refusal:
        raise SilentError(f"refused: {refusal}") from None
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(case.batch, case.length, layer.heads.width, dtype=case.dtype, generator=generator)
    steps = [n for n in (min(3, case.length), 1) if case.length > 4] or [1]
    steps = [*steps, case.length - sum(steps)]
    with torch.no_grad():
        got = torch.cat([layer(piece, cache=cache) for piece in x.split(steps, 1)], 1)
        case.same(f"steps of {steps} with a cache and the whole at once", got, layer(x))


def _trace(case: Case) -> None:
    own, where = case.own(), case.wheres()[0]
    fresh, before = copy.deepcopy(own) if isinstance(own, nn.Module) else own, copy.deepcopy(parameters(own))
    first = case.run(own, case.tensors(), where)
    shorter = [x[:, :5] if case.kind == "heads" else x[:, :, :5] for x in case.tensors(9)]
    for other in (case.tensors(9), shorter):
        try:
            got = case.run(own, other, where)
        except REFUSED:
            continue  # it has a size of its own
        case.same("a call after another one and the same call alone", got, case.run(copy.deepcopy(fresh), other, where))
    if not getattr(case.part, "chooses", False):
        case.same("a call, and the same call after others", case.run(own, case.tensors(), where), first)
    for name, value in parameters(own).items():
        case.same(f"the parameter {name} before and after a call", value, before[name], (0, 0))


def _compiled(case: Case) -> None:
    where = case.wheres()[0]
    own, tensors = case.own(), [x.detach() for x in case.tensors()]
    torch._dynamo.reset()
    try:
        got = torch.compile(lambda *given: case.run(own, list(given), where, None), backend="eager")(*tensors)
    except Exception as error:
        case.broken(f"torch.compile failed: {str(error).strip().splitlines()[0]}")
        raise
    finally:
        torch._dynamo.reset()
    case.same("compiled and eager", got, case.run(own, tensors, where, None))


# The laws of one kind.


def _grids(case: Case) -> Iterator[tuple[int, Tensor]]:
    """The whole set for the length of the case, and for a longer one if it has no size of its own."""
    for length in (case.length, 131):
        try:
            case.part.check(Places.count(length, length), heads=0)
        except ValueError:
            continue
        yield length, case.part.dense(length, length).expand(-1, -1, length, length)


def _declared(case: Case) -> None:
    part = case.part
    for length, mask in _grids(case):
        if mask.dtype != torch.bool or mask.ndim != 4:
            case.broken(
                f"sees gives {mask.dtype} of {mask.ndim} axes, not bool of (batch, heads, queries, keys)",
            )
        distance = torch.arange(length) - torch.arange(length).view(-1, 1)
        left, right = part.band
        says = {
            "causal": not part.causal or not (mask & (distance > 0)).any(),
            "reflexive": not part.reflexive or bool(mask.diagonal(dim1=2, dim2=3).all()),
            "band": not (mask & ((distance < -left) | (distance > right))).any(),
            "homogeneous": not part.homogeneous or torch.equal(mask[..., 1:, 1:], mask[..., :-1, :-1]),
            "uniform": not part.uniform or torch.equal(mask, mask[:, :, :1].expand_as(mask)),
        }
        for name, holds in says.items():
            if not holds:
                case.broken(f"it declares {name} = {getattr(part, name)}, but its set of {length} places is not")


def _equal(case: Case) -> None:
    part = case.part
    try:
        before, twin = hash(part), copy.copy(part)
    except TypeError as error:
        case.broken(f"it has no hash: {error}")
        raise
    if part != twin or hash(twin) != before:
        case.broken("a copy with the same settings is not equal, or has another hash")
    case.part.dense(case.length, case.length)
    if hash(part) != before or part != twin:
        case.broken("it is another set after it was used: its settings changed")
    if (part & part) != part or (part | part) != part:
        case.broken("together with itself it is not itself")
    for name, value in part._settings().items():
        if type(value) is int and part._with(**{name: value + 1}) == part:
            case.broken(f"it is equal to a set with {name}={value + 1}")


def _starts(case: Case) -> None:
    n, part = case.length, case.part
    whole = part.dense(n, n)
    whole = whole.expand(-1, -1, n, n)
    for start in {1, n // 2, n - 1}:
        got = part.dense(n - start, n, start).expand(*whole.shape[:2], n - start, n)
        case.same(f"dense from start={start} and those rows of the whole", got, whole[:, :, start:])
    places, (a, b, c, d) = Places.count(n, n), (1, n - 2, 2, n - 1)
    here = part.sees(places.rows(a, b).columns(c, d)).expand(*whole.shape[:2], b - a, d - c)
    case.same(f"rows {a}..{b - 1} of columns {c}..{d - 1} and that corner of the whole", here, whole[:, :, a:b, c:d])
    given = replace(places, positions=torch.arange(n), key_positions=torch.arange(n))
    case.same("positions 0, 1, ... that are given, and counted ones", part.sees(given).expand_as(whole), whole)


def _unseen_keys(case: Case) -> None:
    n = case.length
    for places, rows in ((Places.count(n, n), None), (Places.count(n, n), 2), (Places.count(2, n, n - 2), None)):
        mask = case.part.sees(places).expand(-1, -1, places.queries, n)
        wanted, got = ~mask.any(2), case.part.unseen(places, rows)
        got = torch.zeros_like(wanted) if got is None else got.expand_as(wanted)
        if not torch.equal(got, wanted):
            case.broken(f"unseen() of the queries from {places.start} is not what sees() leaves out")


def _repeated(case: Case) -> None:
    mask = case.part.dense(case.length, case.length)
    twice = case.part.repeat(2).dense(case.length, case.length)
    wanted = mask if mask.shape[0] == 1 else mask.repeat_interleave(2, 0)
    case.same("repeat(2), for a batch in which every sample stands twice", twice, wanted)


def _pairs(case: Case) -> None:
    own, (q, k, _) = case.own(), case.tensors()
    q, k = own.queries(q.detach()), own.keys(k.detach())
    got, wanted = own.aligned(q, k), own.compare(q, k)
    if not own.reads_keys:
        raise SilentError("it scores places, not pairs")
    case.same("aligned and the diagonal of compare", got, wanted.diagonal(dim1=2, dim2=3))


def _heads_alike(case: Case) -> None:
    own, (q, k, _) = case.own(), [x.detach() for x in case.tensors()]
    if not scores_heads_alike(own) or case.heads == 1:
        raise SilentError("heads may be scored differently")
    case.same(
        "heads = 1 is declared, but a head scores otherwise",
        own(q.flip(1), k.flip(1)).flip(1),
        own(q, k),
    )


def _places(case: Case) -> None:
    own, q = case.own(), case.tensors()[0].detach()
    n, places = case.length, Places.count(case.length, case.length)
    said = {"rotate": "rotate", "bias": "bias", "narrow": "reweight", "spread": "value"}
    wrong = [name for name, act in said.items() if own.overrides(name) and act not in own.acts]
    if wrong:
        case.broken(f"it overrides {', '.join(wrong)}, which acts={set(own.acts)} does not name")
    given = replace(places, positions=torch.arange(n), key_positions=torch.arange(n))
    case.same("rotate by counted and by given positions", own.rotate(q, torch.arange(n)), own.rotate(q, range(n)))
    turned = own.rotate(q[:, :, 2:5], torch.arange(2, 5))
    case.same("rotate some places and all", turned, own.rotate(q, range(n))[:, :, 2:5])
    whole = own.bias(q, places)
    if whole is None:
        return
    whole = whole.expand(-1, -1, n, n)
    for name, got, wanted in (
        ("given positions 0, 1, ...", own.bias(q, given), whole),
        ("some queries", own.bias(q[:, :, 2:5], places.rows(2, 5)), whole[:, :, 2:5]),
    ):
        case.same(f"bias of {name} and of all", got.expand_as(wanted), wanted)
    if own.constant:
        corner = own.bias(q[:, :, 2:5], places.rows(2, 5).columns(3, 9))
        case.same("constant = True: bias of a corner and of all", corner.expand(-1, -1, 3, 6), whole[:, :, 2:5, 3:9])
        other = own.bias(case.tensors(4)[0].detach(), places)
        case.same("constant = True: bias with other queries", other.expand_as(whole), whole)


def _masked(case: Case) -> None:
    own = case.own()
    scores = torch.randn(case.batch, case.heads, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.rand(1, 1, 5, 7, generator=torch.Generator().manual_seed(3)) < 0.5
    mask[..., 2, :] = False
    weights = own(scores, mask)
    case.same("the shape of weights", weights, weights.expand_as(scores))
    if not weights.isfinite().all() or (weights.masked_select(~mask) != 0).any():
        case.broken("a masked key, or a query that sees nothing, has a weight other than 0")
    if own.chooses:
        return
    loud = own(scores.masked_fill(~mask, 50.0), mask)
    case.same("weights when masked scores change", loud, weights)
    few = own(scores[..., :5], mask[..., :5])
    many = own(scores, torch.cat([mask[..., :5], torch.zeros(1, 1, 5, 2, dtype=torch.bool)], -1))
    case.same("weights beside more masked keys (count mask.sum(-1))", many[..., :5], few)


def _shapes(case: Case) -> None:
    own, x = case.own(), case.tensors()[0].detach()
    n, b = case.length, case.batch
    q, k, v = own.project(x, x, x)
    sizes = ((own.heads, n, own.dim), (own.key_heads, n, own.key_dim), (own.value_heads, n, own.value_dim))
    for name, got, size in zip(("queries", "keys", "values"), (q, k, v), sizes, strict=True):
        if got.shape != (b, *size):
            case.broken(
                f"{name} have the shape {tuple(got.shape)}, declared are (batch, heads, n, dim) = {(b, *size)}",
            )
    for name, one, all_at_once in (
        ("queries", own.queries(x), q),
        ("keys", own.keys(x), k),
        ("values", own.values(x), v),
    ):
        case.same(f"{name} and what project gives", one, all_at_once)


def _added(case: Case) -> None:
    own, n = case.part, 7
    x = torch.randn(2, n, own.width)
    whole = own.add(x)
    case.same("vectors from start=3", own.add(x[:, 3:], start=3), whole[:, 3:], NEAR[torch.float32])
    case.same("given positions", own.add(x, positions=torch.arange(n)), whole, NEAR[torch.float32])


@dataclass(frozen=True)
class Law:
    """A statement that holds for every part of some kinds."""

    says: str
    kinds: tuple[str, ...]
    hold: Callable[[Case], None]


LAWS = {
    "no trace": Law("a call leaves no trace in the part", EVERY_CALL, _trace),
    "samples": Law("a sample does not depend on the others of its batch", EVERY_CALL, _samples),
    "kernels": Law("every kernel that accepts it equals the reference", EVERY_CALL, _kernels),
    "gradients": Law("gradients are the slopes of outputs", EVERY_CALL, _slopes),
    "gradients twice": Law("second derivatives are the slopes of gradients, or an error", EVERY_CALL, _second_slopes),
    "empty rows": Law("a query that sees nothing gets zeros and finite gradients", EVERY_CALL, _empty),
    "unseen": Law("what nobody sees reaches neither outputs nor gradients", EVERY_CALL, _poison),
    "dtypes": Law("outputs have the dtype of the inputs", EVERY_CALL, _dtypes),
    "rows": Law("queries may be computed in chunks", EVERY_CALL, _rows),
    "cache": Law("steps with a cache equal the whole", EVERY_CALL, _cache),
    "compile": Law("torch.compile changes nothing", EVERY_CALL, _compiled),
    "declarations": Law("what it declares is true of its set", ("where",), _declared),
    "equality": Law("equal settings make an equal set, with one hash", ("where",), _equal),
    "start": Law("rows and columns of the set are those of the whole", ("where",), _starts),
    "hidden keys": Law("unseen is what sees leaves out", ("where",), _unseen_keys),
    "repeat": Law("a batch can be repeated", ("where",), _repeated),
    "pairs": Law("aligned scores pairs as compare does", ("score",), _pairs),
    "heads alike": Law("heads = 1 means that all heads are scored alike", ("score",), _heads_alike),
    "places": Law("a position acts by the places alone", ("position",), _places),
    "masked keys": Law("masked keys have no weight and no influence", ("normalizer",), _masked),
    "shapes": Law("queries, keys and values have the declared shapes", ("heads",), _shapes),
    "added": Law("a vector depends on its position alone", ("input position",), _added),
}

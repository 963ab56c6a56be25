"""The structures that are passed to C, field by field as in the C files. The loader compares both."""

import ctypes

# Numbers that Python and C share. They are defined here only: the compiler receives them as macros.


ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")  # computed in C, numbered in this order
CELLS = ("rnn", "gru", "lstm")  # of recurrent decoders, numbered in this order
SHORT_LONGEST = 128  # the most places of short attention
SHORT_WIDEST = 128  # the most numbers in its vectors
SHORT_LANES = 16  # their number is a multiple of this

NUMBERS = {"SHORT_LONGEST": SHORT_LONGEST, "SHORT_WIDEST": SHORT_WIDEST, "SHORT_LANES": SHORT_LANES}
NUMBERS["ACTIVATION_COUNT"] = len(ACTIVATIONS)
NUMBERS |= {name.upper().replace("-", "_"): number for number, name in enumerate(ACTIVATIONS)}
DEFINED = tuple(f"-D{name}={value}" for name, value in NUMBERS.items())


def _numbers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_int64) for name in names]


def _pointers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_void_p) for name in names]


class DecodeStep(ctypes.Structure):
    """The argument of `decode_step` in decode.c."""

    _fields_ = (
        _numbers("width", "heads", "dim", "hidden", "depth", "activation", "rms", "post", "cross")
        + _numbers("first_norm", "last_norm", "groups", "gated", "normed", "turned", "interleaved")
        + _numbers("length", "rows", "first", "all", "threads", "places", "cache_row", "cache_head")
        + _numbers("source_row", "source_head", "source_place")
        + _numbers("filled", "written", "source_length", "source_count", "vocab", "work")
        + _numbers("bytes_each", "slots", "room", "distances", "cache_rows", "together")
        + _numbers("halved")
        + [("enlarged", ctypes.c_float)]
        + _pointers(
            "weights",
            "caches",
            "sources",
            "turns",
            "biases",
            "relatives",
            "clips",
            "windows",
            "writers",
            "fills",
            "homes",
            "entry",
            "lengths",
            "tokens",
        )
        + _pointers(
            "slot",
            "input",
            "words",
            "position",
            "scores",
            "kept",
            "output",
            "asked",
            "scratch",
            "own",
            "phases",
            "bytes",
        )
    )


class RecurrentStep(ctypes.Structure):
    """The argument of `recurrent_step` in recurrent.c."""

    _fields_ = (
        _numbers("width", "hidden", "depth", "cell", "order", "compared", "asked")
        + _numbers("feeding", "gated", "predicted", "hard", "half")
        + _numbers("rows", "first", "all", "threads", "time")
        + _numbers("source_length", "source_count", "key_row", "key_place", "key_dim", "value_row", "value_place")
        + _numbers("vocab", "work", "bytes_each", "halved")
        + [("enlarged", ctypes.c_float), ("scale", ctypes.c_float)]
        + _pointers("weights", "v", "words", "scores", "tokens", "entry", "lengths", "keys", "values")
        + _pointers("h", "c", "fed", "next_h", "next_c", "readout", "kept", "output", "scratch", "own")
        + _pointers("phases", "bytes")
    )


class Strides(ctypes.Structure):
    """A tensor with the axes (sequence head place number): its address and its strides."""

    _fields_ = _pointers("start") + _numbers("sequence", "head", "place")


class ShortAttention(ctypes.Structure):
    """The argument of the functions of short.c."""

    _fields_ = (
        _numbers("batch", "heads", "queries", "keys", "padded", "dim", "value_dim", "causal", "threads")
        + [("scale", ctypes.c_float)]
        + _pointers("lengths", "weights")
        + [(name, Strides) for name in ("q", "k", "v", "out", "dq", "dk", "dv")]
    )


def layout(structure: type[ctypes.Structure]) -> list[int]:
    """The offset of each field, and the size of the structure."""
    return [getattr(structure, field[0]).offset for field in structure._fields_] + [ctypes.sizeof(structure)]

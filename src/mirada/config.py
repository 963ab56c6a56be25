"""The base of all configurations: frozen, keyword-only, complete, checked on construction, and plain JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from mirada.errors import unknown

KINDS = {"int": int, "float": float, "str": str, "bool": bool}
# numbers of modules, which are constructed one by one
MOST = {"depth": 1000, "decoder_depth": 1000, "convolutions": 1000, "heads": 2**16, "last_heads": 2**16}


@dataclass(frozen=True, kw_only=True)
class Config:
    """A complete description of a model: every field is a number, a string or a boolean.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Small(Config):
    ...     width: int = 8
    >>> Small.from_dict({"width": 16})
    Small(width=16)
    >>> Small.from_dict({"widht": 16})
    Traceback (most recent call last):
    ValueError: unknown field of Small 'widht'; known: width. Did you mean 'width'?
    """

    def __post_init__(self) -> None:
        for item in fields(self):
            name, value = item.name, getattr(self, item.name)
            kind = KINDS[item.type if isinstance(item.type, str) else item.type.__name__]
            if type(value) is int and kind is not bool and not -(2**63) <= value < 2**63:
                raise self._wrong(f"{name} must fit into 64 bits: got {_shortened(value)}")
            if kind is float and type(value) is int:
                object.__setattr__(self, name, float(value))
            elif type(value) is not kind:
                raise self._wrong(f"{name} must be of type {kind.__name__}: got {_shortened(value)}")
        self.at_most(MOST)
        try:
            self.check()
        except (RuntimeError, OverflowError) as error:
            if isinstance(error, RuntimeError) and "overflow" not in str(error).lower():
                raise
            sizes = {name: value for name, value in self.to_dict().items() if type(value) is int and value >= 2**16}
            huge = ", ".join(f"{name}={value}" for name, value in sizes.items())
            raise self._wrong(f"no model can be so large: {huge}. Take smaller sizes.") from None

    def _wrong(self, rule: str) -> ValueError:
        return ValueError(f"{type(self).__name__}: {rule}")

    def check(self) -> None:
        """Raise a ValueError if no model can be built from these values."""

    def at_least(self, least: float, *names: str) -> None:
        """Require fields to be at least `least`."""
        for name in names:
            if not getattr(self, name) >= least:  # NaN is refused, too
                raise self._wrong(f"{name} must be at least {least}: got {getattr(self, name)}")

    def at_most(self, most: Mapping[str, int]) -> None:
        """Require fields to be at most the number given for their name."""
        for item in fields(self):
            name, value = item.name, getattr(self, item.name)
            if name in most and not value <= most[name]:
                raise self._wrong(f"{name} must be at most {most[name]}: got {value}")

    def one_of(self, name: str, *known: str) -> None:
        """Require a field to be one of the known words."""
        if getattr(self, name) not in known:
            raise unknown(name, getattr(self, name), known)

    def probability(self, *names: str) -> None:
        """Require fields to lie in [0, 1)."""
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise self._wrong(f"{name} must lie in [0, 1): got {getattr(self, name)}")

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The configuration with these fields; the others keep their defaults."""
        known = [item.name for item in fields(cls)]
        for name in values:
            if name not in known:
                raise unknown(f"field of {cls.__name__}", name, known)
        return cls(**values)


def _shortened(value: Any) -> str:
    """A value for an error message; an integer of thousands of digits is only described."""
    if isinstance(value, int) and abs(value) >= 2**63:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:100]

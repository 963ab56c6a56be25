"""What a class says about one of its methods, and what a subclass with another method must not take over."""


def forget(cls: type, base: type, method: str, statements: tuple[str, ...]) -> None:
    """Set back to `base`'s what a new class inherits about another `method` than the one it has.

    A statement (`band`, say) is about the method (`sees`) of the class that makes it. A subclass with another method, its
    own or that of a mixin, has said nothing until it says it again: overriding the method alone is always right. What is
    said where there is no method yet is said about those to come.

    >>> class Shape:
    ...     round = False
    ...     def draw(self): raise NotImplementedError
    ...     def __init_subclass__(cls): forget(cls, Shape, "draw", ("round",))
    >>> class Circle(Shape):
    ...     round = True
    ...     def draw(self): return "o"
    >>> class Square(Circle):
    ...     def draw(self): return "[]"
    >>> Circle.round, Square.round
    (True, False)
    """
    own, none_yet = getattr(cls, method), getattr(base, method)
    for name in statements:
        speaker = next(kind for kind in cls.__mro__ if name in vars(kind))
        if getattr(speaker, method, none_yet) not in (own, none_yet):
            setattr(cls, name, vars(base)[name])


def refuse_alone(cls: type, method: str, meaning: str, why: str) -> None:
    """Raise a ValueError if a new class overrides a method but not the one that kernels ask, beside it or further down.

    >>> class Quiet(list):
    ...     def __repr__(self): return "..."
    >>> refuse_alone(Quiet, "__repr__", "append", "which nobody reads: write append")
    Traceback (most recent call last):
    ValueError: Quiet overrides __repr__, which nobody reads: write append
    """
    if place_of(cls, method) < place_of(cls, meaning):
        raise ValueError(f"{cls.__name__} overrides {method}, {why}")


def place_of(cls: type, name: str) -> int:
    """How far up the line of classes a name is defined: 0 is the class itself."""
    return next(place for place, kind in enumerate(cls.__mro__) if name in vars(kind))

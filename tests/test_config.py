"""Configurations: frozen, complete, checked when made, and the same after a trip through JSON."""

import json
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from mirada.config import Config


@dataclass(frozen=True, kw_only=True)
class Small(Config):
    width: int = 7
    dropout: float = 0.1
    order: str = "pre"
    tied: bool = False

    def check(self) -> None:
        self.at_least(3, "width")
        self.probability("dropout")
        self.one_of("order", "pre", "post")


@dataclass(frozen=True, kw_only=True)
class Deeper(Small):
    depth: "int" = 2  # a type written as a string, as under `from __future__ import annotations`


def test_a_configuration_is_the_same_after_json() -> None:
    config = Deeper(width=11, dropout=0.25, order="post", tied=True, depth=5)
    assert Deeper.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config.to_dict() == {"width": 11, "dropout": 0.25, "order": "post", "tied": True, "depth": 5}


def test_fields_that_are_not_given_keep_their_defaults() -> None:
    assert Small.from_dict({"order": "post"}) == Small(order="post")
    assert Small.from_dict({}) == Small()


def test_a_configuration_does_not_change() -> None:
    config = Small()
    with pytest.raises(FrozenInstanceError):
        config.width = 11  # type: ignore[misc]
    with pytest.raises(TypeError):
        Small(11)  # type: ignore[misc]
    assert hash(config) == hash(Small())


def test_a_whole_number_stands_for_a_real_one() -> None:
    config = Small(dropout=0)
    assert type(config.dropout) is float
    assert config == Small(dropout=0.0)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("width", 7.0, "int"),
        ("width", "7", "int"),
        ("width", True, "int"),
        ("width", None, "int"),
        ("dropout", "0.1", "float"),
        ("dropout", False, "float"),
        ("order", 3, "str"),
        ("order", None, "str"),
        ("tied", 1, "bool"),
        ("tied", "yes", "bool"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object, kind: str) -> None:
    with pytest.raises(ValueError, match=f"Small: {name} must be of type {kind}: got {value!r}$"):
        Small(**{name: value})


def test_a_type_written_as_a_string_is_checked_too() -> None:
    with pytest.raises(ValueError, match=r"Deeper: depth must be of type int: got 2\.0"):
        Deeper(depth=2.0)  # type: ignore[arg-type]


def test_the_least_value_is_allowed_and_what_is_below_is_not() -> None:
    assert Small(width=3).width == 3
    with pytest.raises(ValueError, match="Small: width must be at least 3: got 2"):
        Small(width=2)


@pytest.mark.parametrize("rate", [1.0, -0.01, 1.5, float("nan"), float("inf")])
def test_a_probability_lies_in_zero_to_one_without_one(rate: float) -> None:
    assert Small(dropout=0.999).dropout == 0.999
    with pytest.raises(ValueError, match=r"Small: dropout must lie in \[0, 1\): got "):
        Small(dropout=rate)


def test_words_are_among_the_known() -> None:
    with pytest.raises(ValueError, match=r"unknown order 'posst'; known: post, pre\. Did you mean 'post'\?"):
        Small(order="posst")


def test_a_changed_copy_is_checked_again() -> None:
    assert replace(Small(), width=5) == Small(width=5)
    with pytest.raises(ValueError, match="width must be at least 3"):
        replace(Small(), width=1)


def test_an_unknown_field_is_named_with_its_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown field of Deeper 'dpeth'; known: depth, .* Did you mean 'depth'\?"):
        Deeper.from_dict({"dpeth": 3})


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400])
def test_a_number_that_no_field_can_hold_is_named(value: int) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Both(Config):
        width: int = 8
        rate: float = 0.5

    for name in ("width", "rate"):
        with pytest.raises(ValueError, match=rf"Both: {name} must fit into 64 bits: got a number of \d+ bits"):
            Both.from_dict({name: value})


@dataclass(frozen=True, kw_only=True)
class Deep(Config):
    depth: int = 2
    heads: int = 2
    width: int = 8

    def check(self) -> None:
        if self.width > 2**60:
            raise RuntimeError("Storage size calculation overflowed with sizes=[1]")


@pytest.mark.parametrize(("name", "most"), [("depth", 1000), ("heads", 65536)])
def test_what_is_made_one_by_one_has_a_bound(name: str, most: int) -> None:
    assert getattr(Deep(**{name: most}), name) == most
    for more in (most + 1, 2**33, 2**62):
        with pytest.raises(ValueError, match=f"Deep: {name} must be at most {most}: got {more}"):
            Deep(**{name: more})


def test_a_size_that_no_machine_can_count_is_named() -> None:
    with pytest.raises(ValueError, match=rf"Deep: no model can be so large: width={2**61}\. Take smaller sizes\."):
        Deep(width=2**61)

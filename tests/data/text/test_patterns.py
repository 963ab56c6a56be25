"""Patterns of foreign tokenizers: those that people have are read, those that take for ever are not."""

import time

import pytest

from mirada.data.text.patterns import require_quick

USUAL = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*""",
    r"[\p{Han}]+|[\p{Ll}\p{Lm}&&[^\p{Han}]]+", r"[一-龥]+", r"\d{1,3}(?=(?:\d{3})*\b)", r" ?[^(\s|[.,!?])]+", r" {2,}",
    r"<\|startoftext\|>|<\|endoftext\|>|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", r"\s+", r"(?<=\D)(?=\d)", r"(?i)it's|x",
    r"[]a]+", r"[^]]+", r"\x{4e00}|\u00e9|\x20", r"[[:alpha:]_]+", r"(?<word>a)b", "(?>a)", "(?>a)",
]  # fmt: skip
SLOW = [
    "(a+a+)+$", "(a|a)*(b|$)", "(a*)*", "(a|b|ab)*c", ".*.*.*~", "a?" * 40 + "a" * 40, "(?:a{0,50}){0,50}b",
    "a{1,3}+", "(?:(?:a{99}){99}){99}", "x{99999}",
]  # fmt: skip
STRANGE = [
    "(", ")", "a**", "*a", "[a", "[[[[", "\\", "[\\", r"(a)\1", r"(?<n>a)\g<n>", r"\k<n>", r"\X+", r"\R", "(?~a)", "(?i",
    "(?(1)a|b)", "(?x: a )", "(" * 20 + "a" + ")" * 20, "[" * 20 + "a" + "]" * 20, "a{,}", "a" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_read(pattern: str) -> None:
    require_quick(pattern)


@pytest.mark.parametrize("pattern", [*SLOW, *STRANGE])
def test_others_are_refused_at_once(pattern: str) -> None:
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"is not read|is none") as error:
        require_quick(pattern)
    assert time.perf_counter() - began < 1
    assert len(str(error.value)) < 400


def test_a_pattern_that_is_slow_on_plain_text_is_refused() -> None:
    with pytest.raises(ValueError, match="takes too long on"):
        require_quick(r"[\s\S]*[\s\S]*(?=~)(?!~)")

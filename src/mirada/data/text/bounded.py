"""What the file of a foreign tokenizer may contain: the known kinds of steps, within bounds.

A `tokenizer.json` is a program: patterns that are searched, texts that replace others, tables that are looked up. A
hostile one would take for ever, double a text again and again, or make the engine read beside its table. Here every step
is named, patterns are read by `patterns.require_quick`, replacements multiply a text at most `MOST_GROWTH` times in all,
and the table of a SentencePiece normalizer is walked once, completely.
"""

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mirada.data.text.patterns import require_quick
from mirada.errors import require
from mirada.words import shortened

MOST_STEPS = 32  # of a part
MOST_GROWTH = 64.0
MOST_TOKENS = 1 << 24  # also the largest number of one
MOST_ADDED = 100_000
LONGEST_TEXT = 1024  # characters of a replacement, a mark, an added token
LONGEST_WORD = 10_000  # characters that a word model reads at once
MOST_PIECES = 64  # of a template around a text
DEEPEST_PATH = 64  # bytes that are replaced at once
SEQUENCES = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
NORMALIZERS = (
    "BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Replace",
    "Strip", "StripAccents",
)  # fmt: skip
PRE_TOKENIZERS = (
    "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace", "Punctuation", "Split",
    "UnicodeScripts", "Whitespace", "WhitespaceSplit",
)  # fmt: skip
DECODERS = ("BPEDecoder", "ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Replace", "Strip", "WordPiece")
PROCESSORS = ("BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing")
PARTS = {"normalizer": NORMALIZERS, "pre_tokenizer": PRE_TOKENIZERS, "decoder": DECODERS}
MODELS = ("BPE", "Unigram", "WordLevel", "WordPiece")


def require_bounded(described: Any) -> None:
    """Require that a tokenizer.json, as it was parsed, holds nothing but known steps within bounds.

    >>> require_bounded({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "normalizer": {"type": "NFC"}})
    >>> require_bounded({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "normalizer": {"type": "Run"}})
    Traceback (most recent call last):
    ValueError: its normalizer has a step 'Run' that is not known; known: BertNormalizer, ByteLevel, ...
    """
    require(isinstance(described, dict), "it is no JSON object")
    for part, known in PARTS.items():
        steps = steps_of(described.get(part), SEQUENCES[part])
        require(len(steps) <= MOST_STEPS, f"its {part} has {len(steps)} steps, at most {MOST_STEPS} are read")
        growth = math.prod(_growth(part, known, step) for step in steps)
        require(growth <= MOST_GROWTH, f"its {part} can make a text more than {MOST_GROWTH:.0f} times as long")
    _require_processor(described.get("post_processor"))
    _require_model(described.get("model"))
    added = described.get("added_tokens") or []
    require(
        isinstance(added, list) and len(added) <= MOST_ADDED, f"it adds more than {MOST_ADDED:,} tokens, or no list"
    )
    for token in added:
        content = token.get("content") if isinstance(token, dict) else None
        good = isinstance(content, str) and 0 < len(content) <= LONGEST_TEXT and _is_token(token.get("id"))
        require(good, f"an added token is none: {shortened(repr(token), 120)}")


def steps_of(part: Any, inside: str, depth: int = 0) -> list[dict[str, Any]]:
    """The steps of a part; sequences in it are laid out."""
    if part is None:
        return []
    require(
        isinstance(part, dict) and depth <= 4, f"a step is no object, or lies too deep: {shortened(repr(part), 80)}"
    )
    if part.get("type") != "Sequence":
        return [part]
    steps = part.get(inside)
    require(
        isinstance(steps, list) and len(steps) <= MOST_STEPS, f"a sequence of steps has no list of {inside}, or more"
    )
    return [step for each in steps for step in steps_of(each, inside, depth + 1)]


def _is_token(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST_TOKENS


def _text(step: Mapping[str, Any], key: str, most: int = LONGEST_TEXT) -> str:
    """A text that a step names."""
    value = step.get(key, "")
    good = isinstance(value, str) and len(value) <= most
    require(good, f"{key} of {step.get('type')} must be a text of at most {most} characters")
    return str(value)


def _growth(part: str, known: tuple[str, ...], step: Mapping[str, Any]) -> float:
    """How many times as long a step can make a text; what it may not be is an error."""
    kind = step.get("type")
    require(
        kind in known, f"its {part} has a step {shortened(repr(kind), 60)} that is not known; known: {', '.join(known)}"
    )
    check: Callable[[Mapping[str, Any]], float] | None = GROWTHS.get(str(kind))
    return check(step) if check else 1.0


def _replaced(step: Mapping[str, Any]) -> float:
    """Replace: of a text by a text, or of what a pattern finds, which may be nothing at every place."""
    pattern, content = step.get("pattern"), _text(step, "content")
    one = isinstance(pattern, dict) and len(pattern) == 1
    require(one, "the pattern of Replace must be a String or a Regex")
    ((kind, wanted),) = pattern.items()  # type: ignore[union-attr]
    require(
        kind in ("String", "Regex") and isinstance(wanted, str) and wanted != "",
        "the pattern of Replace must be a text",
    )
    if kind == "Regex":
        require_quick(wanted)
        return max(1.0, len(content) + 1.0) if len(content) > 1 else 1.0
    require(len(wanted) <= LONGEST_TEXT, f"the pattern of Replace must have at most {LONGEST_TEXT} characters")
    return max(1.0, len(content) / len(wanted))


def _split(step: Mapping[str, Any]) -> float:
    pattern = step.get("pattern")
    one = isinstance(pattern, dict) and len(pattern) == 1
    require(one, "the pattern of Split must be a String or a Regex")
    ((kind, wanted),) = pattern.items()  # type: ignore[union-attr]
    require(kind in ("String", "Regex") and isinstance(wanted, str), "the pattern of Split must be a text")
    if kind == "Regex":
        require_quick(wanted)
    return 1.0


def _prepended(step: Mapping[str, Any]) -> float:
    _text(step, "prepend", 16)
    return 1.0


def _marked(step: Mapping[str, Any]) -> float:
    replacement = step.get("replacement", "▁")
    require(isinstance(replacement, str) and len(replacement) == 1, "replacement of Metaspace must be one character")
    return 1.0


def _stripped(step: Mapping[str, Any]) -> float:
    """Strip: in a decoder it has a number of characters, in a normalizer the sides."""
    for key in ("start", "stop"):
        value = step.get(key, 0)
        require(type(value) is int and 0 <= value <= LONGEST_TEXT, f"{key} of Strip must be a small number")
    return 1.0


def _of_table(step: Mapping[str, Any]) -> float:
    """Precompiled: the longest replacement, in bytes, of the bytes that it replaces."""
    table = step.get("precompiled_charsmap")
    require(isinstance(table, str), "precompiled_charsmap must be a text")
    try:
        content = base64.b64decode(str(table), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("precompiled_charsmap is not base 64") from None
    return require_charsmap(content)


GROWTHS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "Replace": _replaced, "Split": _split, "Prepend": _prepended, "Metaspace": _marked, "Strip": _stripped,
    "Precompiled": _of_table,
}  # fmt: skip


def require_charsmap(content: bytes) -> float:
    """Require that the table of a SentencePiece normalizer is whole, and say how many times as long it can make a text.

    It is a trie in one array of numbers (Yata 2008, "Darts-clone") with texts behind it. The engine follows it without
    looking where it goes; so all places that a text can reach are visited here.
    """
    if not content:
        return 1.0
    size = int.from_bytes(content[:4], "little")
    require(
        0 < size <= len(content) - 4 and size % 1024 == 0, "precompiled_charsmap: its size is not that of its table"
    )
    units, texts = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64), content[4 + size :]
    try:
        texts.decode()
    except UnicodeDecodeError:
        raise ValueError("precompiled_charsmap: its texts are not UTF-8") from None
    offsets = (units >> 10) << ((units & 512) >> 6)
    labels, leafs = units & (0x80000000 | 0xFF), (units >> 8) & 1
    letters, growth = np.arange(1, 256), 1.0
    front = offsets[:1]  # what follows a place is at its offset ^ letter
    for depth in range(1, DEEPEST_PATH + 1):
        require(bool((front < len(units)).all()), "precompiled_charsmap: it points beside its table")
        places = (front[:, None] ^ letters).ravel()
        places = np.unique(places[labels[places] == np.tile(letters, len(front))])
        front = places ^ offsets[places]
        require(bool((front < len(units)).all()), "precompiled_charsmap: it points beside its table")
        for start in (units[front[leafs[places] == 1]] & 0x7FFFFFFF).tolist():
            whole = start < len(texts) and texts[start] & 0xC0 != 0x80
            require(whole, "precompiled_charsmap: a replacement lies beside its texts")
            end = texts.find(b"\0", start)
            growth = max(growth, ((end if end >= 0 else len(texts)) - start) / depth)
        if not len(front):
            return growth
    raise ValueError(f"precompiled_charsmap: it replaces more than {DEEPEST_PATH} bytes at once")


def _require_processor(part: Any) -> None:
    """What stands around texts: known kinds, and templates of few pieces."""
    for step in steps_of(part, "processors"):
        kind = step.get("type")
        require(kind in PROCESSORS, f"its post_processor has a step {shortened(repr(kind), 60)} that is not known")
        for name in ("single", "pair"):
            pieces = step.get(name) or []
            require(
                isinstance(pieces, list) and len(pieces) <= MOST_PIECES,
                f"its {name} has more than {MOST_PIECES} pieces",
            )
        for token in (
            (step.get("special_tokens") or {}).values() if isinstance(step.get("special_tokens"), dict) else ()
        ):
            ids = token.get("ids") if isinstance(token, dict) else None
            good = isinstance(ids, list) and len(ids) <= MOST_PIECES and all(map(_is_token, ids))
            require(good, f"a special token of its template has no numbers: {shortened(repr(token), 80)}")


def _require_model(model: Any) -> None:
    """The model: a known kind, tokens that are numbered, words of a bounded length."""
    require(isinstance(model, dict), "it has no model")
    kind = model.get("type")
    require(kind is None or kind in MODELS, f"its model is {shortened(repr(kind), 60)}; known: {', '.join(MODELS)}")
    require(not model.get("dropout"), "its model drops merges at random (dropout): set it to null to have one answer")
    longest = model.get("max_input_chars_per_word", 0)
    good = type(longest) is int and 0 <= longest <= LONGEST_WORD
    require(good, f"max_input_chars_per_word must lie in 0..{LONGEST_WORD:,}: got {shortened(repr(longest), 40)}")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token"):
        value = model.get(key)
        require(value is None or (isinstance(value, str) and len(value) <= LONGEST_TEXT), f"{key} must be a short text")
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        require(all(map(_is_token, vocab.values())), f"its tokens must have numbers from 0 to {MOST_TOKENS:,}")
    elif isinstance(vocab, list):
        require(len(vocab) <= MOST_TOKENS, f"it has more than {MOST_TOKENS:,} tokens")
        pairs = all(isinstance(e, list) and len(e) == 2 and isinstance(e[0], str) and _is_score(e[1]) for e in vocab)
        require(pairs, "its tokens must be pairs of a text and a score")
    else:
        raise ValueError("its model has no vocab")


def _is_score(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]

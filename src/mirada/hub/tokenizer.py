"""The tokenizer of a checkpoint, as a run keeps it."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mirada.data.text.foreign import read_tokenizer, require_fit
from mirada.data.text.pretrained import NumberTokenizer
from mirada.data.text.tokenize import TOKENIZER, Tokenizer
from mirada.hub.folder import HubFolder


def contents_of(opened: HubFolder, vocab: int) -> tuple[dict[str, bytes], str]:
    """The file of a run that holds the tokenizer of a checkpoint, and a note where it has none.

    Args:
        opened: the folder.
        vocab: how many tokens the model has.
    """
    tokenizer = _ours(opened.files) or read_tokenizer(opened.files, opened.config)
    require_fit(tokenizer, vocab)
    numbers = isinstance(tokenizer, NumberTokenizer)
    note = "the folder has no tokenizer: a text is the numbers of its tokens, such as 5 17 9" if numbers else ""
    return {TOKENIZER: tokenizer.to_json().encode()}, note


def _ours(files: Mapping[str, Path]) -> Tokenizer | None:
    """The tokenizer of a model that was trained here and exported; None for all others."""
    with suppress(ValueError):
        return Tokenizer.load(files[TOKENIZER]) if TOKENIZER in files else None
    return None

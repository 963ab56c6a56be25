"""Tokens as people read them: which pieces begin a word, and signs for what cannot be seen."""

import re
from dataclasses import dataclass

BEFORE = ("\u2581", "\u0120", " ")  # marks in front of a word's first piece: SentencePiece, byte-level BPE, plain space
SPECIAL = re.compile(r"<[^<>]+>|\[[A-Z]+\d*\]")
SIGNS = {"\n": "\u21b5", "\t": "\u21e5", " ": "\u2423"}


@dataclass(frozen=True)
class WordPiece:
    """A token's text without its marks, and whether a space comes before it."""

    text: str
    starts: bool

    @property
    def shown(self) -> str:
        """The text with white space made visible, so that no token is invisible."""
        text = "".join(SIGNS.get(letter, letter) if letter != " " else letter for letter in self.text)
        return text if text.strip() else SIGNS[" "]


def pieces(tokens: tuple[str, ...]) -> tuple[WordPiece, ...]:
    """Find out how these tokens mark words and take the marks off. Tokens without marks are words.

    >>> [(piece.text, piece.starts) for piece in pieces(("\u2581gat", "ito", "</s>"))]
    [('gat', True), ('ito', False), ('</s>', True)]
    >>> text_of(("un", "##able", "to")), text_of(("gat@@", "ito", "."))
    ('unable to', 'gatito .')
    """
    if any(token.startswith(BEFORE) for token in tokens):
        found = [WordPiece(token.lstrip("".join(BEFORE)), token.startswith(BEFORE)) for token in tokens]
    elif any(token.startswith("##") and len(token) > 2 for token in tokens):
        found = [WordPiece(token.removeprefix("##") or token, not token.startswith("##")) for token in tokens]
    elif any(token.endswith("@@") and len(token) > 2 for token in tokens):
        found = [WordPiece(token.removesuffix("@@") or token, True) for token in tokens]
        glued = [False, *(token.endswith("@@") for token in tokens[:-1])]
        found = [WordPiece(piece.text, not glue) for piece, glue in zip(found, glued, strict=True)]
    else:
        found = [WordPiece(token, True) for token in tokens]
    return tuple(WordPiece(piece.text, piece.starts or bool(SPECIAL.fullmatch(piece.text))) for piece in found)


def text_of(tokens: tuple[str, ...]) -> str:
    """The text that the tokens write, special tokens left out."""
    kept = [piece for piece in pieces(tokens) if not SPECIAL.fullmatch(piece.text)]
    return "".join(f" {piece.text}" if piece.starts else piece.text for piece in kept).strip()


def shown(tokens: tuple[WordPiece, ...]) -> tuple[str, ...]:
    return tuple(piece.shown for piece in tokens)

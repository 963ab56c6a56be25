"""The Python language manual that ships with CPython: training text for `write`."""

from importlib import import_module

# Topics quote each other: a fifth of the text occurs twice. A long paragraph is kept once, so that the held-out end of
# the text is not already in its beginning; "For example:" may be repeated.
LONG = 60


def manual() -> str:
    """The help topics of CPython (`pydoc_data.topics`) in the order of their names, each under its title.

    Plain text with "\\n" line ends and two blank lines between topics; no long paragraph occurs twice. The text
    comes with the running Python, so two versions give two texts: 378 thousand characters in Python 3.11, 402 in
    3.12, 419 in 3.13.

    >>> print(manual()[:133])
    The "assert" statement
    **********************
    <BLANKLINE>
    Assert statements are a convenient way to insert debugging assertions
    into a program:

    The Python documentation, https://docs.python.org/3/reference.
    """
    try:
        topics: dict[str, str] = import_module("pydoc_data.topics").topics
    except ImportError:
        topics = {}
    if not topics:
        raise ValueError(
            "the built-in text is Python's own manual, and this Python ships without it (no pydoc_data.topics). "
            "Pass --data a text file, or use a Python from python.org."
        )
    seen: set[str] = set()
    texts = [_topic(text, seen) for _, text in sorted(topics.items())]
    return "\n\n\n".join(text for text in texts if text) + "\n"


def _topic(text: str, seen: set[str]) -> str:
    """One topic without the longer paragraphs already `seen`; adds its own to them.

    >>> _topic("Title\\n*****\\r\\n\\r\\nShort.", set())
    'Title\\n*****\\n\\nShort.'
    >>> _topic("The whole of it is known\\n****\\n\\n" + "x" * LONG, {"x" * LONG})
    ''
    """
    kept: list[str] = []
    for paragraph in "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").split("\n\n"):
        paragraph = paragraph.strip("\n")
        if not paragraph or (len(paragraph) >= LONG and paragraph in seen):
            continue
        seen.add(paragraph)
        if kept and _underline(paragraph) and _underline(kept[-1]) == _underline(paragraph):
            kept.pop()  # the section below that heading was known
        kept.append(paragraph)
    if kept and _underline(kept[-1]):
        kept.pop()
    return "\n\n".join(kept)


def _underline(paragraph: str) -> str:
    """The character under a heading, nothing for other paragraphs.

    >>> _underline("Lists\\n====="), _underline("Lists are mutable.")
    ('=', '')
    """
    title, _, line = paragraph.partition("\n")
    is_heading = bool(title) and len(line) > 2 and line[0] in "*=-~^" and line == line[0] * len(line)
    return line[0] if is_heading else ""

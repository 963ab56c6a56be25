"""The embedded texts: the training data of translate, classify, fill and answer if none is given.

They are tables that `python -m tools.corpora.tables` generates in the repository.
"""

from collections import defaultdict
from pathlib import Path


def embedded_texts(corpus: str) -> dict[str, list[tuple[str, ...]]]:
    """The rows of a corpus by split: train, valid, test and others.

    - `english_spanish`: (English, Spanish); in the split `context` also the right Spanish word, the wrong ones separated by
      "|", and the English word that they translate
    - `sentiment`: (text, label)
    - `places`: (first sentence, second sentence)
    - `stories`: (number of the story, question), and the start and end of the answer in the story if it has one; the
      split `story` has the stories

    >>> embedded_texts("sentiment")["valid"][1]
    ('In her latest novel, there was not a single silly chapter.', 'positive')

    Args:
        corpus: the name of one of these tables.
    """
    try:
        import bz2
    except ImportError as error:
        raise ValueError(
            "the embedded texts are compressed with bzip2, and this Python was built without it. "
            "Pass --data a file, or use a Python from python.org."
        ) from error
    packed = Path(__file__).with_name(f"{corpus}.tsv.bz2").read_bytes()
    sets: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for line in bz2.decompress(packed).decode().splitlines():
        name, *fields = line.split("\t")
        sets[name].append(tuple(fields))
    return dict(sets)

"""Annotated sentences: contractions and empty nodes are passed over, bad lines are named."""

import gzip
from pathlib import Path

import pytest

from mirada.looking.explain.relations import AnnotatedWord, read_conllu

GOOD = """# text = del libro
1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_
2\tel\tel\tDET\t_\t_\t3\tdet\t_\t_
3\tlibro\tlibro\tNOUN\t_\t_\t0\troot\t_\t_
3.1\tes\tser\tVERB\t_\t_\t_\t_\t3:x\t_
"""


def test_words_heads_and_spans(tmp_path: Path) -> None:
    path = tmp_path / "x.conllu.gz"
    path.write_bytes(gzip.compress((GOOD + "\n" + GOOD).encode()))
    found = read_conllu(path)
    assert len(found.records) == 2
    assert not found.problems
    sentence = found.records[0].value
    assert sentence.words[1] == AnnotatedWord("el", 2, "det", "DET")
    assert sentence.words[2].head is None
    assert sentence.text == "de el libro"
    assert [sentence.text[a:b] for a, b in sentence.spans] == ["de", "el", "libro"]


def test_subtypes_are_one_relation(tmp_path: Path) -> None:
    path = tmp_path / "x.conllu"
    path.write_text(GOOD.replace("case", "case:x"), encoding="utf-8")
    assert read_conllu(path).records[0].value.words[0].relation == "case"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2\tel\tel\tDET\t_\t_\t3", "2\tel\tel\tDET\t_\t_\t9", r":4: the head must be 0 .* up to 3: found '9'"),
        ("2\tel\tel\tDET\t_\t_\t3", "2\tel\tel\tDET\t_\t_\t2", r":4: the head must be"),
        ("2\tel\tel\tDET\t_\t_\t3", "2\tel\tel\tDET\t_\t_\t_", r":4: the head must be"),
        ("2\tel\tel", "3\tel\tel", r":4: words are numbered from 1: expected 2, found '3'"),
        ("\tDET", " DET", r":4: expected 10 columns, found 9"),
    ],
)
def test_a_bad_sentence_is_named_and_the_others_are_read(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "x.conllu"
    path.write_text(GOOD.replace(old, new) + "\n" + GOOD, encoding="utf-8")
    found = read_conllu(path)
    assert len(found.records) == 1
    assert len(found.problems) == 1
    with pytest.raises(ValueError, match=message):
        raise ValueError(str(found.problems[0]))


def test_a_sentence_of_nothing_but_empty_nodes(tmp_path: Path) -> None:
    path = tmp_path / "x.conllu"
    path.write_text("0.1\ta" + "\t_" * 8 + "\n\n\n# only a comment\n", encoding="utf-8")
    assert "without words" in str(read_conllu(path).problems[0])

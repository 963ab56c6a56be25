"""The embedded texts are what their generators make, to the byte."""

import bz2

import pytest
from tools.corpora.tables import FOLDER, TABLES, table

from mirada.corpora.texts import embedded_texts


@pytest.mark.parametrize("corpus", TABLES)
def test_a_table_is_made_again(corpus: str) -> None:
    assert bz2.decompress((FOLDER / f"{corpus}.tsv.bz2").read_bytes()) == table(corpus)


def test_there_are_no_other_tables() -> None:
    assert {path.name for path in FOLDER.glob("*.tsv*")} == {f"{corpus}.tsv.bz2" for corpus in TABLES}


def test_the_context_test_names_the_word_that_is_translated() -> None:
    for english, _, wanted, wrong, word in embedded_texts("english_spanish")["context"]:
        assert word in english.lower() or (word == "be" and "is" in english.split())
        assert wanted not in wrong.split("|")
